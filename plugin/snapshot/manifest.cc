// SPDX-License-Identifier: GPL-2.0
#include "snapshot/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/fd.h"
#include "image/checksum.h"
#include "image/container.h"
#include "snapshot/program.h"
#include "tool/output.h"

namespace amdgpu_criu::snapshot {

namespace fs = std::filesystem;
using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(File, name, size, digest)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gpu, chip, target, memory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Listener, address, port)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Server, command, pid, pids, own_pid_namespace, listeners,
                                   connections, outputs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Readiness, command, port, line, timeout)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Manifest, created, tool, criu, kernel, stack_id, server,
                                   readiness, tcp, restore_options, ready_seconds, dump_seconds,
                                   gpus, vram, files)

namespace {

constexpr char kVersionMember[] = "amdgpu_criu_snapshot";

Result<uint64_t> size_of_file(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return Error(error.value(), path.string() + ": " + error.message());
  return size;
}

// Ends image::hash_file(), whose callback returns no status.
struct Interrupted {};

Result<std::string> digest_with_progress(const std::string& path, uint64_t size,
                                         tool::ProgressLine& progress) try {
  const Fd file = TRY(Fd::open(path.c_str(), O_RDONLY));
  return image::text_of(TRY(image::hash_file(file, path, size, [&](uint64_t bytes) {
    if (is_interrupted()) throw Interrupted();
    progress.add(bytes);
  })));
} catch (const Interrupted&) {
  return Error(EINTR, "interrupted");
}

Result<Manifest> parse(const std::string& path, const std::string& text) try {
  const Json json = Json::parse(text);
  const unsigned version = json.at(kVersionMember);
  if (version != kManifestVersion)
    return Error::of(EPROTO, "{} has version {}, and this command reads version {}", path, version,
                     kManifestVersion);
  return json.get<Manifest>();
} catch (const Json::exception& exception) {
  return Error::of(EPROTO, "{} is damaged: {}", path, exception.what());
}

}  // namespace

uint64_t Manifest::bytes() const {
  return std::accumulate(files.begin(), files.end(), uint64_t{0},
                         [](uint64_t sum, const File& file) { return sum + file.size; });
}

uint64_t Manifest::gpu_memory() const {
  return std::accumulate(gpus.begin(), gpus.end(), uint64_t{0},
                         [](uint64_t sum, const Gpu& gpu) { return sum + gpu.memory; });
}

tool::Json json_of(const Manifest& manifest) {
  tool::Json result;
  result[kVersionMember] = kManifestVersion;
  result.update(tool::Json(Json(manifest)));
  return result;
}

void print_as_json(const Manifest& manifest) { tool::print_json(json_of(manifest)); }

Result<Manifest> read_manifest(const std::string& directory) {
  const std::string path = directory + "/" + kManifest;
  std::ifstream file(path);
  if (!file) return Error::system("{} is no complete snapshot: cannot open {}", directory, path);
  return parse(path, {std::istreambuf_iterator<char>(file), {}});
}

Status write_manifest(const std::string& directory, const Manifest& manifest) {
  const std::string path = directory + "/" + kManifest, unfinished = path + ".new";
  const Fd place = TRY(Fd::open(directory.c_str(), O_RDONLY | O_DIRECTORY));
  const Fd file = TRY(Fd::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
  const std::string text =
      json_of(manifest).dump(2, ' ', false, tool::Json::error_handler_t::replace) + "\n";
  Status written = write_all(file, text);
  if (written.ok() && (fsync(file.get()) != 0 || rename(unfinished.c_str(), path.c_str()) != 0 ||
                       fsync(place.get()) != 0))
    written = Error::system("cannot write");
  if (written.ok()) return {};
  (void)unlink(unfinished.c_str());
  return std::move(written).error().within(path);
}

Result<std::vector<File>> list_images(const std::string& directory) {
  std::vector<File> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(directory) / kImages, error))
    if (entry.is_regular_file())
      files.push_back({fs::path(kImages) / entry.path().filename(), entry.file_size(), {}});
  if (error) return Error(error.value(), directory + ": " + error.message());
  std::ranges::sort(files, {}, &File::name);
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.size;
  tool::ProgressLine progress("digests", bytes);
  for (File& file : files)
    file.digest = TRY(digest_with_progress(directory + "/" + file.name, file.size, progress));
  return files;
}

Result<std::string> digest_of(const std::string& path) {
  const uint64_t size = TRY(size_of_file(path));
  tool::ProgressLine progress("digest", size);
  return digest_with_progress(path, size, progress);
}

// Major and minor number are decimal, the stepping is hexadecimal: gfx90a, gfx942, gfx1100.
std::string chip_name(uint64_t target) {
  return formatted("gfx{}{}{:x}", target / 10000, target / 100 % 100, target % 100);
}

}  // namespace amdgpu_criu::snapshot
