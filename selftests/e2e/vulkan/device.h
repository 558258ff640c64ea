// SPDX-License-Identifier: GPL-2.0
// An AMD GPU by Vulkan: queues, memory and command buffers. Errors are exceptions of
// vulkan_raii.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>
#include <vulkan/vulkan_raii.hpp>

namespace e2e {

// Before anything else: chooses the driver and what it offers.
void set_driver();

// A point of a timeline semaphore.
struct Point {
  const vk::raii::Semaphore* timeline;
  uint64_t value;
};

// One queue and its command buffers, which are used in turns.
class Queue {
 public:
  Queue(const vk::raii::Device& device, uint32_t family, uint32_t slots);

  using Commands = std::function<void(const vk::raii::CommandBuffer&)>;
  // Records into command buffer `slot`, which has ended, and submits it.
  void submit(uint32_t slot, const Commands& commands, Point wait, Point signal);
  void bind(const vk::BindSparseInfo& info) { queue_.bindSparse(info); }
  void wait_idle() { queue_.waitIdle(); }

 private:
  vk::raii::Queue queue_;
  vk::raii::CommandPool pool_;
  std::vector<vk::raii::CommandBuffer> buffers_;
};

struct Buffer {
  vk::raii::DeviceMemory memory;
  vk::raii::Buffer buffer;
  std::span<std::byte> bytes;  // empty if the CPU cannot see it
};

class Gpu {
 public:
  // The first AMD GPU. slots: command buffers of each queue.
  explicit Gpu(uint32_t slots);

  vk::raii::Semaphore timeline(uint64_t value) const;
  Buffer device_buffer(uint64_t size) const;
  Buffer host_buffer(uint64_t size) const;
  // Its pages are bound in reverse order, so that no mapping of it is contiguous.
  Buffer sparse_buffer(uint64_t pages);
  // Until the point is reached; false after `seconds`.
  bool wait(Point point, unsigned seconds) const;

  uint64_t page_size() const { return page_size_; }
  Queue& graphics() { return graphics_; }
  Queue& transfer() { return transfer_; }
  Queue& compute() { return compute_; }
  const vk::raii::Device& device() const { return device_; }
  uint32_t subgroup_size() const;

  static constexpr auto kUsage =
      vk::BufferUsageFlagBits::eTransferSrc | vk::BufferUsageFlagBits::eTransferDst |
      vk::BufferUsageFlagBits::eStorageBuffer | vk::BufferUsageFlagBits::eUniformTexelBuffer |
      vk::BufferUsageFlagBits::eStorageTexelBuffer;

 private:
  vk::raii::Device open() const;
  uint32_t family(vk::QueueFlags wanted, vk::QueueFlags unwanted) const;
  vk::raii::DeviceMemory allocate(const vk::MemoryRequirements& needs,
                                  vk::MemoryPropertyFlags wanted) const;

  vk::raii::Context context_;
  vk::raii::Instance instance_;
  vk::raii::PhysicalDevice physical_;
  vk::raii::Device device_;
  Queue graphics_, transfer_, compute_;
  uint64_t page_size_ = 0;
};

}  // namespace e2e
