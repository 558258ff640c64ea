// SPDX-License-Identifier: GPL-2.0
#include "restore/layout.h"

namespace amdgpu_criu::restore {

Layout::Layout(const image::Set& images) {
  auto add_table = [&](image::TableId table, size_t bos) {
    units_.emplace(table, units_.size());
    first_offset_[table] = offsets_;
    offsets_ += bos;
  };
  for (const auto& [index, render] : images.renders()) {
    add_table({true, index}, render.bos.size());
    render_files_[index] = files_++;
    if (render.vm) vm_files_[*render.vm] = render_files_[index];
  }
  for (const auto& [index, process] : images.processes()) {
    if (!process.blob) continue;
    add_table({false, index}, process.bos.size());
    kfd_files_[index] = files_++;
    for (const image::Device& device : process.devices)
      if (device.has_vm && vm_files_.emplace(image::VmId{index, device.gpu_id}, files_).second)
        files_++;
  }
  for (const auto& file : images.contents())
    for (const image::Object& object : file.contents.objects)
      objects_.emplace(object.object_id, units_.size() + objects_.size());
}

}  // namespace amdgpu_criu::restore
