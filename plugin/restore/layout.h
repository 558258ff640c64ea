// SPDX-License-Identifier: GPL-2.0
// Numbers for what the tasks of one restore must know of one another: made from the images before
// the first task is forked, and so the same in all.
#pragma once

#include <map>

#include "image/mappings.h"
#include "image/set.h"

namespace amdgpu_criu::restore {

class Layout {
 public:
  explicit Layout(const image::Set& images);

  // Work that is done once, by whoever comes first: to restore a process's /dev/kfd, to restore an
  // open render-node file, to fill an object. Objects come last.
  size_t jobs() const { return units_.size() + objects_.size(); }
  size_t job_of(image::TableId table) const { return units_.at(table); }
  size_t job_of_object(uint64_t object_id) const { return objects_.at(object_id); }

  // Open files that several tasks use.
  size_t files() const { return files_; }
  size_t file_of_kfd(uint32_t process) const { return kfd_files_.at(process); }
  size_t file_of_render(uint32_t render) const { return render_files_.at(render); }
  size_t file_of_vm(const image::VmId& vm) const { return vm_files_.at(vm); }

  // Offsets for mmap() after restore: those of a table's BOs follow one another.
  size_t offsets() const { return offsets_; }
  size_t offset_of(image::TableId table, size_t bo) const { return first_offset_.at(table) + bo; }

 private:
  std::map<image::TableId, size_t> units_;
  std::map<uint64_t, size_t> objects_;
  std::map<uint32_t, size_t> kfd_files_;
  std::map<uint32_t, size_t> render_files_;
  std::map<image::VmId, size_t> vm_files_;
  std::map<image::TableId, size_t> first_offset_;
  size_t files_ = 0;
  size_t offsets_ = 0;
};

}  // namespace amdgpu_criu::restore
