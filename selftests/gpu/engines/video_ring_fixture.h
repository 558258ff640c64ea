// SPDX-License-Identifier: GPL-2.0
// A Navi 31 with the ring of a video engine, for tests.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "engines/fake_gpu.h"

namespace gpu::test {

template <typename Registers>
class VideoRing : public testing::Test {
 protected:
  static constexpr uint64_t kRing = 0x200000;
  static constexpr uint64_t kBuffer = 0x201000;
  static constexpr uint64_t kFence = 0x202000;
  static constexpr uint32_t kRingDwords = 128;

  VideoRing(const std::optional<Registers>& at, uint32_t doorbell)
      : at_(at.value_or(Registers{})), doorbell_(doorbell) {
    put(at_.ring_base, kRing);
    put(at_.ring_size, kRingDwords);
    put(at_.doorbell, doorbell | 1u << 30);
  }

  void put(uint32_t dword, uint32_t value) { gpu_.registers.write(dword, value); }
  uint32_t get(uint32_t dword) { return gpu_.registers.read(dword); }

  void submit(const std::vector<uint32_t>& words) {
    for (const uint32_t word : words) {
      gpu_.memory.put<uint32_t>(0, kRing + uint64_t{4} * wptr_, word);
      wptr_ = (wptr_ + 1) % kRingDwords;
    }
    gpu_.engines->ring(doorbell_, wptr_, 4);
  }
  bool idle() {
    return FakeGpu::eventually([&] { return get(at_.rptr) == wptr_; });
  }
  bool reported() {
    return FakeGpu::eventually([&] { return !gpu_.reports().empty(); });
  }

  FakeGpu gpu_{navi31()};
  const Registers at_;

 private:
  const uint32_t doorbell_;
  uint32_t wptr_ = 0;
};

}  // namespace gpu::test
