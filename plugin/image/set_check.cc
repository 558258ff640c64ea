// SPDX-License-Identifier: GPL-2.0
// Checks that the image files of one dump, each of them complete, fit together.
#include <set>

#include "image/container.h"
#include "image/mappings.h"
#include "image/set.h"

namespace amdgpu_criu::image {
namespace {

Error missing(const std::string& what, const std::string& needed_by) {
  return Error::of(EBADMSG, "image {} is missing; {} needs it", what, needed_by);
}

// Collects the objects of all tables, which must agree on each object.
class Objects {
 public:
  Status add(const std::string& name, uint32_t gpu_id, const kernel::Bo& bo) {
    const auto [known, first] = sizes_.emplace(bo.object_id, bo.size);
    if (known->second != bo.size)
      return bad(name, formatted("a BO's size is not that of object {} elsewhere", bo.object_id));
    if (bo.flags & AMDGPU_CRIU_BO_CONTENTS)
      needed_.emplace(bo.object_id, Needed{name, gpu_id, bo.size});
    return {};
  }
  Status add(const std::string& name, const std::vector<Exported>& imports) {
    for (const Exported& exported : imports) TRY(add(name, exported.gpu.gpu_id, exported.state.bo));
    return {};
  }

  // saved: object id to size
  Status check_contents(const std::map<uint64_t, uint64_t>& saved) const {
    for (const auto& [id, needed] : needed_) {
      const auto object = saved.find(id);
      if (object == saved.end())
        return Error::of(EBADMSG,
                         "image {} is missing, or lacks the contents of object {}, which {} needs",
                         contents_file_name(0, needed.gpu_id), id, needed.by);
      if (object->second != needed.size)
        return bad(needed.by, "a BO's size is not that of its contents");
    }
    return {};
  }

 private:
  struct Needed {
    std::string by;
    uint32_t gpu_id;
    uint64_t size;
  };
  std::map<uint64_t, uint64_t> sizes_;
  std::map<uint64_t, Needed> needed_;
};

// Whether the process uses that GPU through /dev/kfd and has a VM there.
Status check_vm(const std::map<uint32_t, Process>& processes, const VmId& vm,
                const std::string& name) {
  const auto process = processes.find(vm.process);
  if (process == processes.end()) return missing(process_file_name(vm.process), name);
  const Device* device = find_device(process->second, vm.gpu_id);
  if (!device || !device->has_vm) return bad(name, "is of a GPU that its process does not use");
  return {};
}

}  // namespace

Status Set::check() const {
  TRY(check_dump_ids());
  TRY(check_files());
  TRY(check_renders());
  TRY(check_mappings());
  return check_objects();
}

Status Set::check_dump_ids() const {
  std::optional<DumpId> id;
  auto check_one = [&](const DumpId& other, const std::string& name) -> Status {
    if (!id) id = other;
    if (*id != other) return bad(name, "belongs to another dump than the other files");
    return {};
  };
  for (const auto& [index, process] : processes_)
    TRY(check_one(process.dump_id, process_file_name(index)));
  for (const auto& [index, render] : renders_)
    TRY(check_one(render.dump_id, render_file_name(index)));
  for (const auto& [file_id, file] : files_) TRY(check_one(file.dump_id, file_file_name(file_id)));
  for (const ContentsFile& file : contents_) TRY(check_one(file.contents.dump_id, file.name));
  return {};
}

Status Set::check_files() const {
  for (const auto& [id, file] : files_) {
    const std::string name = file_file_name(id);
    if (const auto* kfd = std::get_if<KfdFile>(&file.what)) {
      const auto process = processes_.find(kfd->process);
      if (process == processes_.end()) return missing(process_file_name(kfd->process), name);
      if (!process->second.blob) return bad(name, "is of a process without state of /dev/kfd");
    } else if (const auto* vm = std::get_if<VmFile>(&file.what)) {
      TRY(check_vm(processes_, vm->vm, name));
    } else if (const auto* render = std::get_if<RenderFile>(&file.what)) {
      if (!renders_.contains(render->render))
        return missing(render_file_name(render->render), name);
    }
  }
  return {};
}

Status Set::check_renders() const {
  std::set<VmId> vms;
  for (const auto& [index, render] : renders_) {
    if (!render.vm) continue;
    const std::string name = render_file_name(index);
    TRY(check_vm(processes_, *render.vm, name));
    if (!vms.insert(*render.vm).second) return bad(name, "is the second file of one VM");
  }
  return {};
}

Status Set::check_mappings() const {
  MappingIndex index;
  for (const auto& [number, process] : processes_) index.add(process);
  for (const auto& [number, render] : renders_) index.add(render);
  for (const auto& [number, process] : processes_)
    for (const Vma& vma : process.vmas)
      if (const Status status = check_mapping(index, process, vma, true); !status.ok())
        return bad(process_file_name(number), status.error().message());
  return {};
}

Status Set::check_objects() const {
  std::map<uint64_t, uint64_t> saved;
  for (const ContentsFile& file : contents_)
    for (const Object& object : file.contents.objects)
      if (!saved.emplace(object.object_id, object.size).second)
        return bad(file.name, "an object's contents are there twice");
  Objects objects;
  for (const auto& [index, process] : processes_) {
    const std::string name = process_file_name(index);
    for (const kernel::Bo& bo : process.bos)
      TRY(objects.add(name, find_device(process, bo.gpu_id)->actual_gpu_id, bo));
    TRY(objects.add(name, process.imports));
  }
  for (const auto& [index, render] : renders_) {
    const std::string name = render_file_name(index);
    for (const kernel::Bo& bo : render.bos) {
      if (!gpus_.contains(actual_gpu(render, bo)))
        return bad(name, "a BO is on a GPU that is not described");
      TRY(objects.add(name, actual_gpu(render, bo), bo));
    }
    TRY(objects.add(name, render.imports));
  }
  for (const auto& [id, file] : files_)
    if (const auto* exported = std::get_if<Exported>(&file.what))
      TRY(objects.add(file_file_name(id), exported->gpu.gpu_id, exported->state.bo));
  return objects.check_contents(saved);
}

}  // namespace amdgpu_criu::image
