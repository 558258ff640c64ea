// SPDX-License-Identifier: GPL-2.0
#include "image/set.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "image/chunk_files.h"
#include "image/container.h"
#include "image/mappings.h"

namespace amdgpu_criu::image {
namespace {

Status check_name(const std::string& name, const std::string& expected) {
  if (name == expected) return {};
  return bad(name, "is the file that should be called " + expected);
}

Result<Set::ContentsFile> contents_file(const Opened& opened) {
  Contents contents = TRY(decode_contents(opened));
  TRY(check_name(opened.name, contents_file_name(contents.part, contents.gpu.gpu_id)));
  return Set::ContentsFile{opened.name, std::move(contents), opened.data_end, opened.metadata_sum};
}

}  // namespace

std::optional<Kind> kind_of(std::string_view name) {
  if (!name.ends_with(".img")) return std::nullopt;
  if (name.starts_with("amdgpu-process-")) return Kind::kProcess;
  if (name.starts_with("amdgpu-render-")) return Kind::kRender;
  if (name.starts_with("amdgpu-file-")) return Kind::kFile;
  if (name.starts_with("amdgpu-contents-")) return Kind::kContents;
  return std::nullopt;
}

Status check_file(const Directory& directory, const std::string& name) {
  return Set().add(directory, name);
}

Result<std::vector<std::string>> list_files(int directory) {
  return list_names(directory, [](std::string_view name) { return kind_of(name).has_value(); });
}

Status remove_files(int directory) {
  for (const std::string& name : TRY(list_files(directory)))
    if (unlinkat(directory, name.c_str(), 0) != 0 && errno != ENOENT)
      return Error::system("cannot remove image {}", name);
  return {};
}

Status Set::add(const Directory& directory, const std::string& name) {
  const auto kind = kind_of(name);
  if (!kind) return bad(name, "is of an unknown kind");
  const Opened opened = TRY(open_file(directory, name, *kind));
  format_ = std::max(format_, opened.format);
  switch (*kind) {
    case Kind::kProcess: {
      Process process = TRY(decode_process(opened));
      TRY(check_name(name, process_file_name(process.index)));
      processes_.emplace(process.index, std::move(process));
      return {};
    }
    case Kind::kRender: {
      Render render = TRY(decode_render(opened));
      TRY(check_name(name, render_file_name(render.index)));
      renders_.emplace(render.index, std::move(render));
      return {};
    }
    case Kind::kFile: {
      File file = TRY(decode_file(opened));
      TRY(check_name(name, file_file_name(file.id)));
      files_.emplace(file.id, std::move(file));
      return {};
    }
    case Kind::kContents:
      contents_.push_back(TRY(contents_file(opened)));
      return {};
  }
  return bad(name, "is of an unknown kind");
}

Result<Set> Set::load(const Directory& directory) {
  Set set;
  for (const std::string& name : TRY(list_files(directory.fd))) TRY(set.add(directory, name));
  set.collect_gpus();
  TRY(set.check());
  TRY(set.check_sources(directory));
  return set;
}

Result<Set> Set::of(std::map<uint32_t, Process> processes, std::map<uint32_t, File> files) {
  Set set;
  set.processes_ = std::move(processes);
  set.files_ = std::move(files);
  set.collect_gpus();
  TRY(set.check());
  return set;
}

uint64_t Set::contents_bytes(uint32_t gpu_id) const {
  uint64_t bytes = 0;
  for (const ContentsFile& file : contents_)
    if (file.contents.gpu.gpu_id == gpu_id)
      for (const Object& object : file.contents.objects) bytes += object.size;
  return bytes;
}

std::map<uint32_t, Set::Vram> Set::kfd_vram() const {
  std::map<uint32_t, Vram> result;
  std::set<uint64_t> known;
  for (const auto& [index, process] : processes_) {
    Vram& vram = result[index];
    for (const kernel::Bo& bo : process.bos) {
      if (bo.domain != AMDGPU_CRIU_DOMAIN_VRAM || bo.flags & AMDGPU_CRIU_BO_IMPORTED ||
          !known.insert(bo.object_id).second)
        continue;
      if (const Device* device = find_device(process, bo.gpu_id))
        vram[device->actual_gpu_id] += bo.size;
    }
  }
  return result;
}

void Set::add_used(const topology::Gpu& gpu) {
  gpus_.emplace(gpu.gpu_id, gpu);
  used_gpus_.insert(gpu.gpu_id);
}

// Whatever KFD does for a process on a GPU needs a VM there, except mmap() of its registers. Only
// the kernel can see GPUs that attributes of SVM ranges name; without a VM, a GPU does not access
// them.
void Set::collect_gpus_of(const Process& process) {
  for (const Device& device : process.devices) {
    const auto is_mapped = [&](const Vma& vma) {
      return vma.gpu_id == (vma.kfd ? device.gpu_id : device.actual_gpu_id);
    };
    if (device.has_vm || std::ranges::count(process.bos, device.gpu_id, &kernel::Bo::gpu_id) > 0 ||
        std::ranges::any_of(process.vmas, is_mapped))
      add_used(device.gpu);
    else
      gpus_.emplace(device.gpu.gpu_id, device.gpu);
  }
  for (const Exported& exported : process.imports) add_used(exported.gpu);
}

void Set::collect_gpus() {
  for (const auto& [index, process] : processes_) collect_gpus_of(process);
  for (const auto& [index, render] : renders_) {
    add_used(render.gpu);
    for (const Exported& exported : render.imports) add_used(exported.gpu);
  }
  for (const auto& [id, file] : files_)
    if (const auto* exported = std::get_if<Exported>(&file.what)) add_used(exported->gpu);
  for (const ContentsFile& file : contents_) add_used(file.contents.gpu);
}

Status for_each_contents(const Directory& directory,
                         const std::function<Status(Set::ContentsFile file)>& visit) {
  for (const std::string& name : TRY(list_files(directory.fd)))
    if (kind_of(name) == Kind::kContents)
      TRY(visit(TRY(contents_file(TRY(open_file(directory, name, Kind::kContents))))));
  return {};
}

Result<std::vector<Set::ContentsFile>> load_contents(const Directory& directory) {
  std::vector<Set::ContentsFile> result;
  TRY(for_each_contents(directory, [&](Set::ContentsFile file) {
    result.push_back(std::move(file));
    return Status();
  }));
  return result;
}

// Each of these is opened again when it is needed.
Status Set::check_sources(const Directory& directory) const {
  for (const ContentsFile& file : contents_)
    if (!file.contents.sources.empty()) {
      TRY(ChunkFiles::open(directory, file));
      for (const Source& source : file.contents.sources)
        TRY(open_file(directory, path_of(source), Kind::kContents));
    }
  return {};
}

Result<Opened> Set::ContentsFile::open(const Directory& directory) const {
  Opened opened = TRY(open_data(directory, name, Kind::kContents));
  if (opened.metadata_sum != metadata_sum || opened.data_end != data_end)
    return bad(name, "was changed during the restore");
  return opened;
}

}  // namespace amdgpu_criu::image
