// SPDX-License-Identifier: GPL-2.0
// The stock kernel interface made of memfds, and private data as such a kernel writes it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stock/ioctl.h"

namespace amdgpu_criu::testing_support {

struct FakeQueue {
  uint32_t type = 0;        // 0 is compute, 1 is SDMA
  uint32_t stack_size = 0;  // as in its MQD
  uint32_t stack_used = 0;
  uint32_t stack_saved = 0;  // bytes behind the MQD
  uint32_t cores = 1;        // each has such an MQD
};
std::vector<std::byte> make_private_data(uint32_t devices, uint32_t bos,
                                         const std::vector<FakeQueue>& queues, uint32_t events,
                                         uint32_t ranges, uint32_t version = 1);

// The state of the fake kernel. There is one, which tests clear.
struct FakeStock {
  int evicted = 0;  // PROCESS_INFO adds one, UNPAUSE takes one
  bool paused = false;
  std::function<void()> on_unpause, on_checkpoint;
  pid_t pid = 0;
  std::vector<stock::Device> devices;
  std::vector<stock::Bo> bos;     // without dma-bufs
  std::map<uint64_t, Fd> memory;  // by address
  uint32_t objects = 0;
  std::vector<std::byte> private_data;
  uint32_t gem_handles = 0;
  std::map<std::string, int> failures;  // operation to errno

  std::vector<stock::Device> restored_devices;
  std::vector<std::byte> restored_data;
  std::vector<uint32_t> restored_flags;
  pid_t resumed = 0;

  // A BO in VRAM, or of another kind. Each byte of its contents depends on its place.
  void add_bo(uint64_t va, uint64_t size, uint64_t offset, uint32_t gpu_id, uint32_t flags);
  std::string contents(uint64_t va) const;
  // Empties all memory.
  void clear_memory();
};
extern FakeStock fake_stock;
std::unique_ptr<stock::Ioctl> make_fake_stock();

}  // namespace amdgpu_criu::testing_support
