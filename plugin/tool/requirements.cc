// SPDX-License-Identifier: GPL-2.0
// Prints what a restore needs: GPUs, an interface of the kernel, and files.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "image/blob.h"
#include "image/set.h"
#include "stock/record.h"
#include "tool/commands.h"
#include "tool/images.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

struct File {
  std::string name;  // from the directory
  uint64_t size = 0;
  image::Hash digest{};
};

struct Requirements {
  image::Set set;
  std::vector<File> files;
  std::set<std::string> records;  // "queue 1"
};

// Includes files of earlier dumps that contain memory of this dump.
Result<std::vector<std::string>> names_of(int directory, const image::Set& set) {
  auto names = TRY(image::list_files(directory));
  std::set<std::string> earlier;
  for (const auto& file : set.contents())
    for (const image::Source& source : file.contents.sources) earlier.insert(path_of(source));
  names.insert(names.end(), earlier.begin(), earlier.end());
  return names;
}

Result<uint64_t> size_of(int directory, const std::string& name) {
  struct stat status{};
  if (fstatat(directory, name.c_str(), &status, 0) != 0) return Error::system("{}", name);
  return static_cast<uint64_t>(status.st_size);
}

Status read_digest(int directory, File& file, ProgressLine& progress) {
  const Fd opened = TRY(Fd::openat(directory, file.name.c_str(), O_RDONLY));
  file.digest = TRY(
      image::hash_file(opened, file.name, file.size, [&](uint64_t bytes) { progress.add(bytes); }));
  return {};
}

// State that another interface wrote has no records.
void add_records(std::span<const std::byte> blob, std::set<std::string>& to) {
  const auto records = image::list_records(blob);
  if (!records.ok()) return;
  for (const image::BlobRecords& one : *records)
    to.insert(formatted("{} {}", one.name(), one.version));
}

Result<Requirements> requirements_of(const Images& images) {
  const int directory = images.fd();
  Requirements result{TRY(image::Set::load(images.directory())), {}, {}};
  uint64_t bytes = 0;
  for (const std::string& name : TRY(names_of(directory, result.set))) {
    result.files.push_back({name, TRY(size_of(directory, name)), {}});
    bytes += result.files.back().size;
  }
  ProgressLine progress("digests", bytes);
  for (File& file : result.files) TRY(read_digest(directory, file, progress));
  for (const auto& [index, process] : result.set.processes())
    if (process.blob) add_records(*process.blob, result.records);
  for (const auto& [index, render] : result.set.renders()) add_records(render.blob, result.records);
  return result;
}

Json json_of(const Requirements& requirements) {
  Json gpus = Json::array(), files = Json::array(), records = Json::array();
  for (const auto& [gpu_id, gpu] : requirements.set.gpus()) {
    Json properties = Json::object();
    for (const auto& [name, value] : gpu.properties) properties[name] = value;
    gpus.push_back({{"gpu_id", gpu_id},
                    {"pci_address", gpu.pci_address},
                    {"used", requirements.set.used_gpus().contains(gpu_id)},
                    {"contents_bytes", requirements.set.contents_bytes(gpu_id)},
                    {"properties", std::move(properties)}});
  }
  for (const std::string& record : requirements.records) {
    const size_t space = record.rfind(' ');
    records.push_back(
        {{"record", record.substr(0, space)}, {"version", std::stoul(record.substr(space))}});
  }
  for (const File& file : requirements.files)
    files.push_back(
        {{"name", file.name}, {"size", file.size}, {"digest", image::text_of(file.digest)}});
  return {{"image_format", requirements.set.format()},
          {"kernel_interface", stock::is_stock(requirements.set) ? "stock" : "amdgpu-criu"},
          {"gpus", std::move(gpus)},
          {"kernel_records", std::move(records)},
          {"files", std::move(files)}};
}

void print(const Requirements& requirements) {
  for (const auto& [gpu_id, gpu] : requirements.set.gpus()) {
    if (!requirements.set.used_gpus().contains(gpu_id)) {
      printf("not needed, as no process uses it: %s\n", gpu.describe().c_str());
      continue;
    }
    printf("a GPU like %s: gfx target %llu, %llu bytes of contents\n", gpu.describe().c_str(),
           static_cast<unsigned long long>(gpu.property("gfx_target_version")),
           static_cast<unsigned long long>(requirements.set.contents_bytes(gpu_id)));
  }
  for (const std::string& record : requirements.records)
    printf("a kernel that reads records: %s\n", record.c_str());
  for (const File& file : requirements.files)
    printf("%s  %llu  %s\n", image::text_of(file.digest).c_str(),
           static_cast<unsigned long long>(file.size), file.name.c_str());
}

}  // namespace

int requirements(const std::string& directory, Format format) {
  const auto images = Images::open(directory);
  const auto found = images.ok() ? requirements_of(*images) : Result<Requirements>(images.error());
  if (!found.ok()) return complain(2, found.error().message());
  if (found->files.empty()) return complain(2, "no GPU images in " + directory);
  if (format == Format::kJson)
    print_json(json_of(*found));
  else
    print(*found);
  return 0;
}

}  // namespace amdgpu_criu::tool
