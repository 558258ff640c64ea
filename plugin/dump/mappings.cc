// SPDX-License-Identifier: GPL-2.0
// The part of Dump that examines mappings of GPU nodes.
#include "base/log.h"
#include "dump/dump.h"

namespace amdgpu_criu::dump {

using host::NodeKind;

Status Dump::add_vmas(const Member& member, image::Process& process) {
  for (const host::ProcessVma& vma : member.vmas) {
    if (vma.node.kind == NodeKind::kCard)
      return Error::of(
          EOPNOTSUPP,
          "process {} ({}) has memory of a card node (minor {}) mapped at {:#x}; state "
          "of card nodes cannot be carried, only that of render nodes",
          member.pid, member.comm, vma.node.minor, vma.start);
    image::Vma record{vma.start, vma.end, vma.offset, vma.node.kind == NodeKind::kKfd, 0};
    record.gpu_id = record.kfd
                        ? image::gpu_of_kfd_offset(process, vma.offset, !env_.api.has_series())
                        : TRY(gpu_of_minor(vma.node.minor))->gpu_id;
    // Else BOs of render nodes are unknown, not freed.
    record.inaccessible = vma.inaccessible && tree_.carries_render();
    process.vmas.push_back(record);
  }
  return {};
}

Status Dump::check_mappings() const {
  image::MappingIndex index;
  for (const image::Process& process : processes_) index.add(process);
  for (const image::Render& render : renders_) index.add(render);
  for (const image::Process& process : processes_)
    for (const image::Vma& vma : process.vmas) {
      TRY(image::check_mapping(index, process, vma, tree_.carries_render()));
      if (image::is_freed(index, process, vma))
        log_info("process {} ({}) maps {} bytes of a freed BO at {:#x}, without access: not saved",
                 process.pid, process.comm, vma.end - vma.start, vma.start);
    }
  return {};
}

}  // namespace amdgpu_criu::dump
