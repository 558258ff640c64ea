// SPDX-License-Identifier: GPL-2.0
// Which BO a mapping of a GPU node shows. A mapping does not show through which open file it was
// made, but offsets are those of the device: the same for all files of it.
#pragma once

#include <compare>
#include <map>
#include <vector>

#include "image/records.h"
#include "topology/planner.h"

namespace amdgpu_criu::image {

// The BO table of a process's /dev/kfd, or of an open render-node file.
struct TableId {
  bool render = false;
  uint32_t index = 0;
  auto operator<=>(const TableId&) const = default;
};

// A BO of some table.
struct Place {
  TableId table;
  size_t bo = 0;
};

class MappingIndex {
 public:
  void add(const Process& process);
  void add(const Render& render);

  // The places of the BO that the mapping shows a part of, in no order; none: unknown. /dev/kfd:
  // only those of `process`, whose mapping it is.
  std::vector<Place> find(const Process& process, const Vma& vma) const;
  // No program maps it like this: it is what is left of a mapping that was split.
  bool is_part(const Process& process, const Vma& vma) const;
  // How far into the BO the mapping begins.
  static uint64_t offset_in_bo(const Vma& vma, const kernel::Bo& bo) {
    return vma.offset - bo.mmap_offset;
  }

 private:
  struct Space {
    bool kfd;
    uint32_t owner;  // actual gpu_id, or with kfd Process::index
    auto operator<=>(const Space&) const = default;
  };
  struct Entry {
    uint64_t size;
    Place place;
  };
  void add(Space space, const kernel::Bo& bo, Place place);

  std::map<Space, std::multimap<uint64_t, Entry>> spaces_;  // by mmap_offset
};

// The GPU that an offset of /dev/kfd names, as the process knows it; 0: none of the process's.
// by_machine: the kernel that made the offset names it as the machine does.
uint32_t gpu_of_kfd_offset(const Process& process, uint64_t offset, bool by_machine);
// Of /dev/kfd, the event page, doorbells and the MMIO page may be mapped without there being a BO.
bool is_known_without_bo(const Process& process, const Vma& vma);
// Where such a mapping is after restore. targets: actual gpu_id then to now, if the kernel there
// names GPUs as the machine does; null: it names them as the process does.
Result<uint64_t> restored_kfd_offset(const Process& process, const Vma& vma,
                                     const topology::Assignment* targets);

// Refuses a mapping that restore would not know how to make again. parts: the kernel lets a restore
// map a part of what the process had mapped as a whole.
Status check_mapping(const MappingIndex& index, const Process& process, const Vma& vma, bool parts);

// A process may know a GPU by another number than the machine does.
const Device* find_device(const Process& process, uint32_t gpu_id);
// A render node's table names no GPU where KFD does not drive it: it is the file's own.
inline uint32_t actual_gpu(const Render& render, const kernel::Bo& bo) {
  return bo.gpu_id ? bo.gpu_id : render.gpu.gpu_id;
}

}  // namespace amdgpu_criu::image
