// SPDX-License-Identifier: GPL-2.0
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "foreign/images.h"
#include "image/chunk_files.h"
#include "tool/commands.h"
#include "tool/gpu_check.h"
#include "tool/images.h"
#include "tool/output.h"

namespace amdgpu_criu::tool {
namespace {

struct Finding {
  std::string file;
  std::string problem;
};

struct Verdict {
  size_t files = 0;
  uint64_t bytes = 0;
  bool checksums = true;
  std::optional<uint64_t> gpu_bytes;  // compared by the GPU, if one was asked to
  std::vector<Finding> findings;
  std::vector<Finding> unread;  // files that could not be examined

  void add(const std::string& file, const Error& error, const std::string& victims = "") {
    (is_damage(error) ? findings : unread).push_back({file, error.message() + victims});
  }
  size_t problems() const { return findings.size() + unread.size(); }
  int status() const { return !findings.empty() ? 1 : !unread.empty() ? 2 : 0; }
};

// Names the owner of a damaged object: "; it is the BO at 0x7f… of pid 184 (job)".
std::string victims_of(const image::Set& set, uint64_t object_id) {
  std::string result;
  auto look = [&](const auto& owner) {
    for (const kernel::Bo& bo : owner.bos)
      if (bo.object_id == object_id)
        result += formatted("; it is the BO at {:#x} of pid {} ({})", static_cast<uint64_t>(bo.va),
                            owner.pid, owner.comm);
  };
  for (const auto& [index, process] : set.processes()) look(process);
  for (const auto& [index, render] : set.renders()) look(render);
  for (const auto& [id, file] : set.files()) {
    const auto* exported = std::get_if<image::Exported>(&file.what);
    if (exported && exported->state.bo.object_id == object_id)
      result += formatted("; there is a dma-buf of it (file {:#x})", id);
  }
  return result;
}

uint64_t bytes_of(const image::Set& set) {
  uint64_t result = 0;
  for (const auto& file : set.contents())
    for (const image::Object& object : file.contents.objects) result += object.size;
  return result;
}

// What the GPU has compared was compared with its checksum on the way. If it finds damage, the CPU
// reads all of the file, to name each object.
Status verify_contents(const image::Directory& directory, const image::Set& set,
                       const image::Set::ContentsFile& file, GpuCheck* gpu, Verdict& verdict,
                       const std::function<void(uint64_t)>& done) {
  const auto files = TRY(image::ChunkFiles::open(directory, file));
  std::optional<Error> by_gpu;
  if (gpu) {
    auto compared = gpu->compare(files, file.contents, done);
    if (compared.ok())
      verdict.gpu_bytes = verdict.gpu_bytes.value_or(0) + *compared;
    else if (is_damage(compared.error()) || compared.error().code() == EIO)
      by_gpu = compared.error();
    else
      return std::move(compared).error().within(gpu->name());
  }
  const size_t before = verdict.problems();
  for (const auto& object : file.contents.objects) {
    verdict.bytes += object.size;
    if (gpu && !by_gpu && !object.hashes.empty()) continue;
    const Status status = files.verify(object, done);
    if (!status.ok()) verdict.add(file.name, status.error(), victims_of(set, object.object_id));
  }
  if (by_gpu && verdict.problems() == before)
    verdict.findings.push_back({file.name, gpu->name() + ": " + by_gpu->message()});
  return {};
}

Result<Verdict> verify_all(const image::Directory& directory, GpuCheck* gpu) {
  Verdict verdict;
  if (gpu) verdict.gpu_bytes = 0;
  const auto names = TRY(image::list_files(directory.fd));
  verdict.files = names.size();
  for (const std::string& name : names)
    if (const Status status = image::check_file(directory, name); !status.ok())
      verdict.add(name, status.error());
  const auto set = image::Set::load(directory);
  if (!set.ok()) {
    // Each file is complete, but they do not fit together, or need earlier ones.
    if (verdict.problems() == 0) verdict.add("", set.error());
    return verdict;
  }
  ProgressLine progress("verify", bytes_of(*set));
  auto done = [&](uint64_t bytes) { progress.add(bytes); };
  for (const auto& file : set->contents())
    TRY(verify_contents(directory, *set, file, gpu, verdict, done));
  return verdict;
}

// Without checksums, only lengths, numbers and the kernel's data can be compared.
Result<Verdict> verify_foreign(int directory) {
  Verdict verdict;
  verdict.checksums = false;
  verdict.files = TRY(foreign::list_files(directory)).size();
  if (verdict.files == 0) return verdict;
  const auto images = foreign::read(directory);
  const auto set = images.ok() ? foreign::make_set(*images) : Result<image::Set>(images.error());
  if (set.ok())
    verdict.bytes = images->contents_bytes;
  else
    verdict.add("", set.error());
  return verdict;
}

Json json_of(const std::vector<Finding>& findings) {
  Json result = Json::array();
  for (const Finding& finding : findings)
    result.push_back(Json{{"file", finding.file}, {"problem", finding.problem}});
  return result;
}

Json verdict_json(const Verdict& verdict) {
  Json result{{"ok", verdict.problems() == 0},
              {"checksums", verdict.checksums},
              {"files", static_cast<uint64_t>(verdict.files)},
              {"contents_bytes", verdict.bytes},
              {"findings", json_of(verdict.findings)},
              {"unread", json_of(verdict.unread)}};
  if (verdict.gpu_bytes) result["gpu_bytes"] = *verdict.gpu_bytes;
  return result;
}

void print_good(const Verdict& verdict) {
  const auto bytes = static_cast<unsigned long long>(verdict.bytes);
  if (!verdict.checksums)
    return (void)printf(
        "%zu files of CRIU's own amdgpu plugin, %llu bytes of contents: lengths and numbers fit "
        "together; there are no checksums, and nothing shows whether the contents are right\n",
        verdict.files, bytes);
  printf("%zu files, %llu bytes of contents: every checksum is right\n", verdict.files, bytes);
  if (!verdict.gpu_bytes) return;
  printf("the GPU has computed the hashes of %llu bytes, which are right\n",
         static_cast<unsigned long long>(*verdict.gpu_bytes));
  if (*verdict.gpu_bytes < verdict.bytes)
    printf("the others have no hashes: images of a dump with amdgpu.incremental=on have them\n");
}

}  // namespace

int verify(const std::string& directory, const std::string& gpu, Format format) {
  const auto images = Images::open(directory);
  if (!images.ok()) return complain(2, images.error().message());
  std::optional<GpuCheck> check;
  if (!gpu.empty()) {
    auto created = GpuCheck::create(gpu);
    if (!created.ok()) return complain(2, created.error().message());
    check.emplace(std::move(*created));
  }
  auto verdict = verify_all(images->directory(), check ? &*check : nullptr);
  if (verdict.ok() && verdict->files == 0) verdict = verify_foreign(images->fd());
  if (!verdict.ok()) return complain(2, verdict.error().message());
  if (verdict->files == 0) return complain(3, "no GPU images in " + directory);
  if (format == Format::kJson) {
    print_json(verdict_json(*verdict));
  } else {
    for (const Finding& finding : verdict->findings)
      printf("%s\n", printable(finding.problem).c_str());
    if (verdict->problems() == 0) print_good(*verdict);
  }
  for (const Finding& one : verdict->unread) complain(0, "could not be examined: " + one.problem);
  return verdict->status();
}

}  // namespace amdgpu_criu::tool
