// SPDX-License-Identifier: GPL-2.0
// A stream of packets: a ring, and the indirect buffers it jumps to.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "engines/context.h"
#include "engines/mqd.h"

namespace gpu {

class Stream {
 public:
  struct Ring {
    uint64_t base = 0;    // bytes
    uint64_t dwords = 0;  // a power of two; 0: nothing but indirect buffers
  };

  Stream(Memory& memory, Space space, Ring ring) : memory_(&memory), space_(space), ring_(ring) {
    vmids_.fill(space.vmid);
  }

  // The VMID of the ring, and of the current buffer.
  Space ring_space() const { return space_; }
  Space space() const;
  // Only the driver may use registers and other VMIDs: on its rings, and in buffers that run as
  // VMID 0.
  bool privileged() const { return space().vmid == 0; }

  // Doublewords, never wrapped. Refuses a write pointer further ahead than the ring is long.
  amdgpu_criu::Status set_wptr(uint64_t wptr);
  uint64_t wptr() const { return wptr_; }
  uint64_t rptr() const { return place_.ring_next; }
  uint64_t ring_dwords() const { return ring_.dwords; }
  // The address of the next doubleword, for messages.
  uint64_t next_address() const;

  // False when the stream is empty. Leaves finished indirect buffers and applies skips.
  bool settle();
  // The error of a packet that its indirect buffer ends inside of.
  static constexpr int kTruncated = ENODATA;
  // The first count doublewords of the next packet. Fewer if the ring has no more yet; kTruncated
  // if an indirect buffer ends before. Valid until the next peek.
  amdgpu_criu::Result<std::span<const uint32_t>> peek(size_t count);
  // The packet is complete: progress is reset to 0.
  void advance(uint64_t dwords);
  void skip(uint32_t dwords) { place_.skip = dwords; }

  // Runs a buffer next, and then what follows the current packet. Call before advance().
  amdgpu_criu::Status call(uint64_t base, uint32_t dwords, unsigned vmid, uint64_t packet_dwords);
  // The same, but instead of the rest of the current buffer.
  amdgpu_criu::Status chain(uint64_t base, uint32_t dwords, unsigned vmid, uint64_t packet_dwords);
  unsigned depth() const { return place_.depth; }

  // Progress of the current packet; kept over preemption.
  uint64_t& progress() { return place_.progress; }

  SavedPlace& place() { return place_; }
  const SavedPlace& place() const { return place_; }
  // Continues a saved stream; the VMIDs of its buffers are the ring's.
  void restore(const SavedPlace& place) { place_ = place; }

 private:
  amdgpu_criu::Status load(uint64_t address, std::span<uint32_t> out);

  Memory* memory_;
  Space space_;
  Ring ring_;
  uint64_t wptr_ = 0;
  SavedPlace place_;
  std::array<unsigned, SavedPlace::kMaxIbs> vmids_ = {};
  std::vector<uint32_t> words_;
};

}  // namespace gpu
