// SPDX-License-Identifier: GPL-2.0
// For tests: an AQL queue as ROCr lays it out, and compiled kernels that are dispatched on it.
#pragma once

#include <gtest/gtest.h>

#include "engines/compute_registers.h"
#include "engines/fake_gpu.h"
#include "shader/code_object.h"
#include "shader/driver_trap_handler.h"

namespace gpu::test {

constexpr uint32_t kEndpgm = 0xbf810000;  // of GFX9

class KernelTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kQueue = 0x2000;  // amd_queue_t
  static constexpr uint64_t kSignal = 0x4000, kErrorSignal = 0x4040, kKernarg = 0x5000;
  static constexpr uint64_t kCode = 0x200000, kScratch = 0x800000, kData = 0x400000;
  static constexpr uint64_t kTrapHandler = 0x300000, kSaveArea = 0xa00000;

  struct Launch {
    std::array<uint32_t, 3> grid = {1, 1, 1};
    std::array<uint32_t, 3> group = {1, 1, 1};
    uint32_t private_size = 0, lds = 0;
    uint16_t dimensions = 1;
  };

  explicit KernelTest(const std::string& object = "", const Asic& asic = mi210())
      : gpu_(asic), isa_(asic.isa) {
    gpu_.start_hiq();
    queue_ = gpu_.make(TestQueue::kAql, 1, 0);
    if (!object.empty()) {
      object_ = std::make_unique<CodeObject>(object_path(object, isa_));
      put_bytes(kCode, object_->image().data(), object_->image().size());
    }
    queue_.rptr = kQueue + aql::kReadIdOffset;
    queue_.wptr_at = 0x3000;
    gpu_.memory.put<uint32_t>(0, queue_.mqd + mqd::kRptrReport * uint64_t{4}, low32(queue_.rptr));
    gpu_.memory.put<uint32_t>(0, queue_.mqd + mqd::kWptrPoll * uint64_t{4}, low32(queue_.wptr_at));
    put<uint32_t>(queue_.rptr + aql::kReadIdOffsetField, aql::kReadIdOffset);
    put<uint64_t>(queue_.rptr + aql::kInactiveSignal, kErrorSignal);
    map();
  }

  void map() { gpu_.run({&queue_}); }
  // The driver's trap handler, as KFD puts it into every process, and where waves are saved.
  void give_trap_handler() {
    gpu_.preempt();
    const auto put = [this](uint64_t to, const void* data, size_t size) {
      put_bytes(to, data, size);
    };
    put_trap_handlers(kTrapHandler, put, isa_);
    queue_.tba = kTrapHandler;
    constexpr uint32_t kTrapPresent = 1 << 6;
    gpu_.memory.put<uint32_t>(
        0, queue_.mqd + uint64_t{mqd::kCompute + ComputeRegisters::kRsrc2} * 4, kTrapPresent);
    gpu_.give_save_area(queue_, kSaveArea, 0x600000);
    map();
  }

  // Like AMDKFD_IOC_ALLOC_QUEUE_GWS: the queue is mapped with the process's resources.
  void give_gws() {
    gpu_.preempt();
    queue_.gws = true;
    map();
  }
  // Like AMDKFD_IOC_SET_CU_MASK: for shader engine 0, while the queue is not mapped.
  void enable_units(uint32_t mask) {
    gpu_.memory.put<uint32_t>(
        0, queue_.mqd + uint64_t{mqd::kCompute + ComputeRegisters::kUnitsSe0} * 4, mask);
  }
  uint32_t mqd_word(unsigned word) {
    return gpu_.memory.get<uint32_t>(0, queue_.mqd + word * uint64_t{4});
  }

  template <typename T>
  T get(uint64_t address) {
    return gpu_.memory.get<T>(queue_.base, address);
  }
  template <typename T>
  void put(uint64_t address, T value) {
    gpu_.memory.put<T>(queue_.base, address, value);
  }
  void put_bytes(uint64_t address, const void* data, size_t size) {
    std::memcpy(gpu_.memory.space(queue_.base).data() + address, data, size);
  }
  template <typename T>
  void put_all(uint64_t address, const std::vector<T>& values) {
    put_bytes(address, values.data(), values.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> get_all(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), gpu_.memory.space(queue_.base).data() + address, count * sizeof(T));
    return values;
  }

  // Fills the kernel's arguments one behind the other, aligned to their size.
  template <typename... T>
  void arguments(T... values) {
    uint64_t at = kKernarg;
    const auto add = [&](auto value) {
      at = (at + sizeof(value) - 1) / sizeof(value) * sizeof(value);
      put(at, value);
      at += sizeof(value);
    };
    (add(values), ...);
  }

  std::vector<uint32_t> packet(uint64_t object, const Launch& launch) {
    std::vector<uint32_t> words(16);
    words[0] = aql::kKernelDispatch | 1u << 8 | uint32_t{launch.dimensions} << 16;
    words[1] = launch.group[0] | launch.group[1] << 16;
    words[2] = launch.group[2];
    for (unsigned axis = 0; axis < 3; ++axis) words[3 + axis] = launch.grid[axis];
    words[6] = launch.private_size;
    words[7] = launch.lds;
    words[8] = low32(object);
    words[9] = high32(object);
    words[10] = low32(kKernarg);
    words[14] = low32(kSignal);
    return words;
  }
  void submit(uint64_t object, const Launch& launch) {
    put<uint64_t>(kSignal + aql::kSignalValue, 1);
    gpu_.submit(queue_, packet(object, launch));
  }
  bool completes(unsigned seconds = 30) {
    return FakeGpu::eventually([&] { return get<uint64_t>(kSignal + aql::kSignalValue) == 0; },
                               seconds);
  }
  uint64_t object_of(const std::string& kernel) {
    const uint64_t at = object_->kernel(kernel);
    EXPECT_NE(at, 0u) << kernel;
    return kCode + at;
  }
  // LDS that the kernel declares, as the runtime puts it into the packet.
  testing::AssertionResult runs(const std::string& kernel, Launch launch) {
    const uint64_t object = object_of(kernel);
    launch.lds = get<uint32_t>(object);
    launch.private_size = get<uint32_t>(object + 4);
    submit(object, launch);
    if (completes()) return testing::AssertionSuccess();
    auto failure = testing::AssertionFailure() << kernel << " does not complete";
    for (const std::string& report : gpu_.reports()) failure << "; " << report;
    return failure;
  }
  // waves: of each XCC. What ROCr 6.4 also writes, the bytes of an XCC, is not for the GPU.
  void give_scratch(uint32_t lane_bytes, uint32_t waves) {
    const uint64_t fields = queue_.rptr;
    const uint32_t wave_bytes = lane_bytes * 64, unit = is_gfx11(isa_) ? 256 : 1024;
    put<uint32_t>(fields + aql::kTmpringSize, waves | wave_bytes / unit << 12);
    put<uint64_t>(fields + aql::kScratchLocation, kScratch);
    put<uint32_t>(fields + aql::kScratchLaneBytes, lane_bytes);
    // Swizzle enabled; 64 lanes of 4 bytes with the thread id added.
    const uint32_t resource[] = {low32(kScratch), 1u << 31, wave_bytes * waves,
                                 1u << 23 | 3u << 21 | 4u << 15};
    put_bytes(fields + aql::kScratchDescriptor, resource, sizeof(resource));
  }

  FakeGpu gpu_;
  const shader::Isa isa_;
  TestQueue queue_;
  std::unique_ptr<CodeObject> object_;
};

}  // namespace gpu::test
