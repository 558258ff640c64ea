// SPDX-License-Identifier: GPL-2.0
// Kernels of one code object, without a queue.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "engines/fake_gpu.h"
#include "shader/code_object.h"
#include "shader/cores.h"
#include "shader/dispatch.h"

namespace gpu::test {

using shader::Dispatch;
using shader::DispatchSpec;
using shader::Isa;

constexpr uint64_t kCode = 0x200000, kKernarg = 0x5000, kScratch = 0x800000;
constexpr uint64_t kA = 0x400f80, kB = 0x500f80, kOut = 0x600f80;
constexpr uint64_t kProcess = 1;
constexpr Space kSpace = {Hub::kGfx, 1};

// Kernels of one code object in a process's memory, without a queue.
class Machine {
 public:
  Machine(const std::string& object, Isa isa) : object_(object_path(object, isa)), cores_(isa) {
    memory_.bind_vmid(kSpace, 0x8000, kProcess, false);
    std::memcpy(at(kCode), object_.image().data(), object_.image().size());
  }

  std::byte* at(uint64_t address) { return memory_.space(kProcess).data() + address; }
  template <typename T>
  void put(uint64_t address, const std::vector<T>& values) {
    std::memcpy(at(address), values.data(), values.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> get(uint64_t address, size_t count) {
    std::vector<T> out(count);
    std::memcpy(out.data(), at(address), count * sizeof(T));
    return out;
  }
  // Each aligned to its size.
  template <typename... T>
  void arguments(T... values) {
    uint64_t to = kKernarg;
    const auto add = [&](auto value) {
      to = (to + sizeof(value) - 1) / sizeof(value) * sizeof(value);
      std::memcpy(at(to), &value, sizeof(value));
      to += sizeof(value);
    };
    (add(values), ...);
  }

  Dispatch::State run(const std::string& kernel, uint32_t groups, std::array<uint32_t, 3> group) {
    DispatchSpec how = spec(kernel);
    how.group_size = group;
    how.grid = {groups * group[0], group[1], group[2]};
    auto dispatch = Dispatch::create(cores_, memory_, kSpace, how);
    EXPECT_TRUE(dispatch.ok()) << dispatch.error().message();
    if (!dispatch.ok()) return Dispatch::State::kIllegal;
    auto state = Dispatch::State::kRunning;
    for (unsigned turn = 0; turn < 10'000 && state == Dispatch::State::kRunning; ++turn)
      state = (*dispatch)->run(1 << 15);
    complaint_ = (*dispatch)->complaint();
    return state;
  }
  const std::string& complaint() const { return complaint_; }
  // Programs run where a driver of graphics has them, at the upper end of the address space.
  void run_at_high_addresses() { code_ = FakeMemory::kHigh; }

 private:
  DispatchSpec spec(const std::string& kernel) {
    const uint64_t object = kCode + object_.kernel(kernel);
    std::array<uint32_t, 16> words;
    std::memcpy(words.data(), at(object), sizeof(words));
    constexpr size_t kEntry = 4, kRsrc3 = 11, kProperties = 14;
    constexpr uint32_t kWave32 = 1 << 10, kScratchWaves = 256;
    DispatchSpec out;
    out.code = code_ + object + words[kEntry];
    out.rsrc1 = words[kRsrc3 + 1];
    out.rsrc2 = words[kRsrc3 + 2];
    out.rsrc3 = words[kRsrc3];
    out.lds_bytes = words[0];
    out.lanes = words[kProperties] & kWave32 ? 32 : 64;
    out.scratch_base = kScratch;
    out.scratch_waves = kScratchWaves;
    out.scratch_wave_bytes = 8192;
    set_user_data(out, words[kProperties]);
    return out;
  }
  // A resource for private memory, if the kernel needs one, the arguments, the start of the memory.
  static void set_user_data(DispatchSpec& spec, uint32_t properties) {
    constexpr uint32_t kPrivateSegmentBuffer = 1 << 0, kKernargPtr = 1 << 3,
                       kFlatScratchInit = 1 << 5, kSgprs = 0x7f;
    EXPECT_EQ(properties & kSgprs & ~(kPrivateSegmentBuffer | kFlatScratchInit), kKernargPtr);
    size_t next = 0;
    if (properties & kPrivateSegmentBuffer) {
      spec.user_data = {low32(kScratch), 1u << 31, 8192 * spec.scratch_waves,
                        1u << 23 | 3u << 21 | 4u << 15};
      next = 4;
    }
    spec.user_data[next] = low32(kKernarg);
    if (properties & kFlatScratchInit) spec.user_data[next + 2] = low32(kScratch);
  }

  FakeMemory memory_;
  CodeObject object_;
  shader::Cores cores_;
  std::string complaint_;
  uint64_t code_ = 0;
};

}  // namespace gpu::test
