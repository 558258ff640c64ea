// SPDX-License-Identifier: GPL-2.0
#include "vulkan/device.h"

#include <array>
#include <cstdlib>
#include <stdexcept>

namespace e2e {
namespace {

constexpr uint32_t kAmd = 0x1002;  // PCI vendor

vk::raii::Instance make_instance(const vk::raii::Context& context) {
  const vk::ApplicationInfo application("e2e", 1, nullptr, 0, VK_API_VERSION_1_3);
  return {context, vk::InstanceCreateInfo({}, &application)};
}

vk::raii::PhysicalDevice amd_gpu(const vk::raii::Instance& instance) {
  for (const vk::raii::PhysicalDevice& device : instance.enumeratePhysicalDevices())
    if (device.getProperties().vendorID == kAmd) return device;
  throw std::runtime_error("Vulkan finds no AMD GPU");
}

}  // namespace

void set_driver() {
  setenv("RADV_PERFTEST", "transfer_queue", 0);  // RADV has it only on request
  // Mesa's driver for the CPU would be loaded, too. It opens /dev/udmabuf, which CRIU does not
  // carry.
  setenv("VK_LOADER_DRIVERS_SELECT", "radeon_icd*", 0);
}

Queue::Queue(const vk::raii::Device& device, uint32_t family, uint32_t slots)
    : queue_(device, family, 0),
      pool_(device, {vk::CommandPoolCreateFlagBits::eResetCommandBuffer, family}),
      buffers_(device.allocateCommandBuffers({*pool_, vk::CommandBufferLevel::ePrimary, slots})) {}

void Queue::submit(uint32_t slot, const Commands& commands, Point wait, Point signal) {
  const vk::raii::CommandBuffer& buffer = buffers_.at(slot);
  buffer.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
  commands(buffer);
  buffer.end();
  const vk::PipelineStageFlags all = vk::PipelineStageFlagBits::eAllCommands;
  const vk::TimelineSemaphoreSubmitInfo points(1, &wait.value, 1, &signal.value);
  queue_.submit(
      vk::SubmitInfo(1, &**wait.timeline, &all, 1, &*buffer, 1, &**signal.timeline, &points));
}

Gpu::Gpu(uint32_t slots)
    : instance_(make_instance(context_)),
      physical_(amd_gpu(instance_)),
      device_(open()),
      graphics_(device_, family(vk::QueueFlagBits::eGraphics, {}), slots),
      transfer_(device_,
                family(vk::QueueFlagBits::eTransfer,
                       vk::QueueFlagBits::eGraphics | vk::QueueFlagBits::eCompute),
                slots),
      compute_(device_, family(vk::QueueFlagBits::eCompute, vk::QueueFlagBits::eGraphics), slots) {
  const vk::raii::Buffer sparse(
      device_, {vk::BufferCreateFlagBits::eSparseBinding, 1, kUsage, vk::SharingMode::eExclusive});
  page_size_ = sparse.getMemoryRequirements().alignment;
}

vk::raii::Device Gpu::open() const {
  constexpr float kPriority = 1;
  const std::array queues = {
      vk::DeviceQueueCreateInfo({}, family(vk::QueueFlagBits::eGraphics, {}), 1, &kPriority),
      vk::DeviceQueueCreateInfo({},
                                family(vk::QueueFlagBits::eTransfer,
                                       vk::QueueFlagBits::eGraphics | vk::QueueFlagBits::eCompute),
                                1, &kPriority),
      vk::DeviceQueueCreateInfo(
          {}, family(vk::QueueFlagBits::eCompute, vk::QueueFlagBits::eGraphics), 1, &kPriority)};
  vk::PhysicalDeviceFeatures features;
  features.sparseBinding = true;
  vk::PhysicalDeviceVulkan12Features features12;
  features12.timelineSemaphore = true;
  vk::DeviceCreateInfo info({}, queues, {}, {}, &features, &features12);
  return {physical_, info};
}

uint32_t Gpu::family(vk::QueueFlags wanted, vk::QueueFlags unwanted) const {
  const auto families = physical_.getQueueFamilyProperties();
  for (uint32_t i = 0; i < families.size(); ++i)
    if ((families[i].queueFlags & wanted) == wanted && !(families[i].queueFlags & unwanted))
      return i;
  throw std::runtime_error("there is no queue of " + vk::to_string(wanted));
}

uint32_t Gpu::subgroup_size() const {
  const auto properties =
      physical_
          .getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceSubgroupProperties>();
  return properties.get<vk::PhysicalDeviceSubgroupProperties>().subgroupSize;
}

vk::raii::DeviceMemory Gpu::allocate(const vk::MemoryRequirements& needs,
                                     vk::MemoryPropertyFlags wanted) const {
  const vk::PhysicalDeviceMemoryProperties memory = physical_.getMemoryProperties();
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i)
    if (needs.memoryTypeBits >> i & 1 && (memory.memoryTypes[i].propertyFlags & wanted) == wanted)
      return {device_, {needs.size, i}};
  throw std::runtime_error("there is no memory that is " + vk::to_string(wanted));
}

vk::raii::Semaphore Gpu::timeline(uint64_t value) const {
  const vk::SemaphoreTypeCreateInfo type(vk::SemaphoreType::eTimeline, value);
  return {device_, vk::SemaphoreCreateInfo({}, &type)};
}

Buffer Gpu::device_buffer(uint64_t size) const {
  vk::raii::Buffer buffer(device_, {{}, size, kUsage, vk::SharingMode::eExclusive});
  vk::raii::DeviceMemory memory =
      allocate(buffer.getMemoryRequirements(), vk::MemoryPropertyFlagBits::eDeviceLocal);
  buffer.bindMemory(*memory, 0);
  return {std::move(memory), std::move(buffer), {}};
}

Buffer Gpu::host_buffer(uint64_t size) const {
  vk::raii::Buffer buffer(device_, {{}, size, kUsage, vk::SharingMode::eExclusive});
  vk::raii::DeviceMemory memory =
      allocate(buffer.getMemoryRequirements(), vk::MemoryPropertyFlagBits::eHostVisible |
                                                   vk::MemoryPropertyFlagBits::eHostCoherent |
                                                   vk::MemoryPropertyFlagBits::eHostCached);
  buffer.bindMemory(*memory, 0);
  auto* bytes = static_cast<std::byte*>(memory.mapMemory(0, size));
  return {std::move(memory), std::move(buffer), {bytes, size}};
}

Buffer Gpu::sparse_buffer(uint64_t pages) {
  vk::raii::Buffer buffer(device_, {vk::BufferCreateFlagBits::eSparseBinding, pages * page_size_,
                                    kUsage, vk::SharingMode::eExclusive});
  vk::raii::DeviceMemory memory =
      allocate(buffer.getMemoryRequirements(), vk::MemoryPropertyFlagBits::eDeviceLocal);
  std::vector<vk::SparseMemoryBind> binds;
  for (uint64_t page = 0; page < pages; ++page)
    binds.emplace_back(page * page_size_, page_size_, *memory, (pages - 1 - page) * page_size_);
  const vk::SparseBufferMemoryBindInfo info(*buffer, binds);
  graphics_.bind(vk::BindSparseInfo({}, info));
  graphics_.wait_idle();
  return {std::move(memory), std::move(buffer), {}};
}

bool Gpu::wait(Point point, unsigned seconds) const {
  constexpr uint64_t kNanoseconds = 1000000000;
  const vk::SemaphoreWaitInfo info({}, **point.timeline, point.value);
  return device_.waitSemaphores(info, seconds * kNanoseconds) == vk::Result::eSuccess;
}

}  // namespace e2e
