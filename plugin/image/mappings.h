// SPDX-License-Identifier: GPL-2.0
// Finds the BO of a mapping of a GPU node. The open file that a mapping was made through is
// unknown, but all files of a device have the same offsets.
#pragma once

#include <compare>
#include <map>
#include <set>
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

  // The table entries of the BO that the mapping shows, in any order; empty: unknown. For /dev/kfd,
  // only entries of `process`, which has the mapping.
  std::vector<Place> find(const Process& process, const Vma& vma) const;
  // No program maps this range: it is the rest of a mapping that was split.
  bool is_part(const Process& process, const Vma& vma) const;
  // Whether any file of the render node of the mapping is known.
  bool has_render(const Vma& vma) const { return renders_.contains(vma.gpu_id); }
  // The offset within the BO at which the mapping begins.
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
  std::set<uint32_t> renders_;                              // actual gpu_ids
};

// The GPU that an offset of /dev/kfd names, by the number that the process uses; 0: none of the
// process's GPUs. by_machine: the kernel that made the offset uses the machine's number.
uint32_t gpu_of_kfd_offset(const Process& process, uint64_t offset, bool by_machine);
// The event page, doorbells and the MMIO page of /dev/kfd may be mapped without a BO.
bool is_known_without_bo(const Process& process, const Vma& vma);
// The offset of such a mapping after a restore. targets: maps the old actual gpu_id to the new one,
// if the target kernel uses the machine's numbers; null: it uses those of the process.
Result<uint64_t> restored_kfd_offset(const Process& process, const Vma& vma,
                                     const topology::Assignment* targets);

// A mapping through which the process cannot access memory, and of no BO of the files of its render
// node, of which there is one. ROCr leaves mappings of freed BOs until it frees the addresses. A BO
// counts as freed, too, if its file was closed while the mapping keeps it.
bool is_freed(const MappingIndex& index, const Process& process, const Vma& vma);
// Refuses a mapping that a restore could not create. parts: the kernel lets a restore map a part of
// a range that the process had mapped as a whole.
Status check_mapping(const MappingIndex& index, const Process& process, const Vma& vma, bool parts);

// A process may use another number for a GPU than the machine does.
const Device* find_device(const Process& process, uint32_t gpu_id);
// An entry of a render node's table has gpu_id 0 if KFD does not drive its GPU, which is the
// file's.
inline uint32_t actual_gpu(const Render& render, const kernel::Bo& bo) {
  return bo.gpu_id ? bo.gpu_id : render.gpu.gpu_id;
}

}  // namespace amdgpu_criu::image
