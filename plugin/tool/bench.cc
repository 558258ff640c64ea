// SPDX-License-Identifier: GPL-2.0
#include "tool/bench.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "host/host.h"
#include "tool/commands.h"
#include "tool/gpu_check.h"
#include "tool/output.h"
#include "tool/temp_directory.h"

namespace amdgpu_criu::tool {
namespace {

constexpr double kMebibyte = 1 << 20;

struct OfGpu {
  topology::Gpu gpu;
  Series copy_out, copy_in, save, fill;
  Series save_ratio, fill_ratio;  // to the slower of copy and file, in the same round
};

struct Measured {
  bool direct = false;
  Series checksum, write, read;
  std::vector<OfGpu> gpus;
};

Result<std::vector<OfGpu>> choose(const host::Host& host, const std::vector<std::string>& names) {
  const auto all = TRY(host.gpus());
  std::vector<OfGpu> result;
  std::set<std::string> unknown(names.begin(), names.end());
  for (size_t index = 0; index < all.size(); index++) {
    bool wanted = names.empty();
    for (const std::string& name : names)
      if (is_named(all[index], index, name)) {
        wanted = true;
        unknown.erase(name);
      }
    if (wanted) result.push_back({all[index], {}, {}, {}, {}, {}, {}});
  }
  if (!unknown.empty()) return Error::of(ENODEV, "there is no GPU {}", *unknown.begin());
  if (result.empty()) return Error(ENODEV, "there is no GPU here: see amdgpu-criu check");
  return result;
}

class Bench {
 public:
  Bench(const BenchOptions& options, const host::Host& host, uint64_t passes)
      : options_(options),
        host_(host),
        bytes_(options.mebibytes << 20),
        progress_("bench", bytes_ * passes) {}

  Status run(Measured& result) {
    const auto directory = TRY(TempDirectory::create(options_.directory + "/amdgpu-criu-bench-"));
    BenchFile file = TRY(BenchFile::create(directory->path(), bytes_));
    result.direct = file.direct();
    for (unsigned round = 0; round < options_.rounds; round++) {
      TRY(time(result.checksum, [&] { return Result<Seconds>(checksum_pass(bytes_)); }));
      const double write = TRY(time(result.write, [&] { return file.write(); }));
      const double read = TRY(time(result.read, [&] { return file.read(); }));
      for (OfGpu& gpu : result.gpus) {
        Status status = one_gpu(gpu, directory->path(), write, read);
        if (!status.ok()) return std::move(status).error().within(gpu.gpu.describe());
      }
    }
    return {};
  }

 private:
  // Adds MiB/s to the series and returns them.
  Result<double> time(Series& series, const std::function<Result<Seconds>()>& pass) {
    const Seconds seconds = TRY(pass());
    progress_.add(bytes_);
    const double rate = static_cast<double>(bytes_) / kMebibyte / std::max(seconds, 1e-9);
    series.add(rate);
    return rate;
  }

  Status one_gpu(OfGpu& of, const std::string& directory, double write, double read) {
    BenchGpu gpu =
        TRY(BenchGpu::create(TRY(host_.open_render(of.gpu.render_minor)), of.gpu, bytes_));
    const double out = TRY(time(of.copy_out, [&] { return gpu.copy_out(); }));
    const double save = TRY(time(of.save, [&] { return gpu.save(directory); }));
    const double fill = TRY(time(of.fill, [&] { return gpu.fill(directory); }));
    const double in = TRY(time(of.copy_in, [&] { return gpu.copy_in(); }));
    of.save_ratio.add(save / std::min(out, write));
    of.fill_ratio.add(fill / std::min(in, read));
    return {};
  }

  const BenchOptions& options_;
  const host::Host& host_;
  uint64_t bytes_;
  ProgressLine progress_;
};

void print(const char* what, const Series& series) {
  printf("  %-42s %s\n", what, series.text("MiB/s").c_str());
}
void print(const char* what, const Series& series, const Series& ratio) {
  printf("  %-42s %s; %s\n", what, series.text("MiB/s").c_str(),
         ratio.text("of the slower of its two limits").c_str());
}

void print(const BenchOptions& options, const Measured& measured) {
  printf("%llu MiB, median of %u rounds (least to most)\n",
         static_cast<unsigned long long>(options.mebibytes), options.rounds);
  printf("this machine\n");
  print("checksums, on one core", measured.checksum);
  printf("directory %s%s\n", options.directory.c_str(),
         measured.direct ? "" : ": without direct I/O");
  print("writing a file", measured.write);
  print("reading it", measured.read);
  for (const OfGpu& gpu : measured.gpus) {
    printf("%s\n", gpu.gpu.describe().c_str());
    print("SDMA copy out of VRAM", gpu.copy_out);
    print("SDMA copy into VRAM", gpu.copy_in);
    print("contents as at a dump: copy, sum, write", gpu.save, gpu.save_ratio);
    print("contents as at a restore: read, sum, copy", gpu.fill, gpu.fill_ratio);
  }
}

Json json_of(const OfGpu& of) {
  return {{"gpu_id", of.gpu.gpu_id},        {"pci_address", of.gpu.pci_address},
          {"copy_out", of.copy_out.json()}, {"copy_in", of.copy_in.json()},
          {"dump", of.save.json()},         {"dump_to_limit", of.save_ratio.json()},
          {"restore", of.fill.json()},      {"restore_to_limit", of.fill_ratio.json()}};
}

Json json_of(const BenchOptions& options, const Measured& measured) {
  Json gpus = Json::array();
  for (const OfGpu& gpu : measured.gpus) gpus.push_back(json_of(gpu));
  return {{"unit", "MiB/s"},
          {"mebibytes", options.mebibytes},
          {"rounds", options.rounds},
          {"checksum", measured.checksum.json()},
          {"directory", options.directory},
          {"direct_io", measured.direct},
          {"write", measured.write.json()},
          {"read", measured.read.json()},
          {"gpus", std::move(gpus)}};
}

Result<Measured> measure(const BenchOptions& options) {
  const host::Host host = host::Host::create();
  Measured measured;
  measured.gpus = TRY(choose(host, options.gpus));
  const uint64_t passes = options.rounds * (3 + 4 * measured.gpus.size());
  TRY(Bench(options, host, passes).run(measured));
  return measured;
}

}  // namespace

int bench(const BenchOptions& options, Format format) {
  const auto measured = measure(options);
  if (!measured.ok()) return complain(2, measured.error().message());
  if (format == Format::kJson)
    print_json(json_of(options, *measured));
  else
    print(options, *measured);
  return 0;
}

}  // namespace amdgpu_criu::tool
