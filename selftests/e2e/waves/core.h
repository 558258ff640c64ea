// SPDX-License-Identifier: GPL-2.0
// A file with what a debugger needs to decode the waves of a process that it cannot attach to: the
// driver's descriptions of GPUs and queues, and copies of memory. dbgapi_waves reads it.
#pragma once

#include <linux/kfd_ioctl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "waves/stack.h"

namespace amdgpu_criu {

// The file: this header, the GPUs, the queues, and the ranges of memory, each behind its own
// header.
struct CoreHeader {
  char magic[8];
  uint32_t gpus, queues, ranges;
  uint32_t ttmp_setup;  // kfd_runtime_info
};
struct CoreRange {
  uint64_t address, size;
};
inline constexpr char kCoreMagic[8] = {'W', 'A', 'V', 'E', 'C', 'O', 'R', 'E'};

// Where the waves of one XCC are saved.
struct SaveArea {
  uint64_t base = 0;
  // In the memory of the process, or what the driver would copy there.
  kfd_context_save_area_header header{};
  std::vector<uint32_t> stack;  // upwards from its fill level
};

// EBADMSG: the control stack does not describe the records.
Result<SavedQueue> decode_area(const SaveArea& area, uint32_t queue_id, unsigned xcc,
                               Generation generation);

class Core {
 public:
  void set_ttmp_setup(bool setup) { ttmp_setup_ = setup; }
  void add(const kfd_dbg_device_info_entry& gpu) { gpus_.push_back(gpu); }
  // Copies the packets of an AQL queue and the descriptors of their kernels.
  Status add(const kfd_queue_snapshot_entry& queue, const ReadMemory& read);
  // Copies the records.
  Status add(const SaveArea& area, const ReadMemory& read);
  Status write(const std::string& path) const;

 private:
  Status copy(uint64_t address, uint64_t size, const ReadMemory& read);

  bool ttmp_setup_ = false;
  std::vector<kfd_dbg_device_info_entry> gpus_;
  std::vector<kfd_queue_snapshot_entry> queues_;
  std::map<uint64_t, std::vector<std::byte>> memory_;  // by address
};

}  // namespace amdgpu_criu
