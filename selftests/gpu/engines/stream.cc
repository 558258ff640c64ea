// SPDX-License-Identifier: GPL-2.0
#include "engines/stream.h"

#include <algorithm>

namespace gpu {
namespace {

// Most packets are shorter: one read of memory is enough for them.
constexpr size_t kReadAhead = 16;

}  // namespace

Space Stream::space() const {
  return place_.depth ? Space{space_.hub, vmids_[place_.depth - 1], space_.instance} : space_;
}

amdgpu_criu::Status Stream::set_wptr(uint64_t wptr) {
  if (wptr - place_.ring_next > ring_.dwords) {
    return amdgpu_criu::Error::of(EINVAL,
                                  "write pointer {:#x} does not fit read pointer {:#x} and {:#x} "
                                  "doublewords of ring",
                                  wptr, place_.ring_next, ring_.dwords);
  }
  wptr_ = wptr;
  return {};
}

uint64_t Stream::next_address() const {
  if (place_.depth) {
    const SavedPlace::Ib& ib = place_.ibs[place_.depth - 1];
    return ib.base + uint64_t{ib.next} * 4;
  }
  return ring_.dwords ? ring_.base + (place_.ring_next & (ring_.dwords - 1)) * 4 : 0;
}

bool Stream::settle() {
  for (;;) {
    if (place_.depth) {
      SavedPlace::Ib& ib = place_.ibs[place_.depth - 1];
      const uint32_t step = std::min(place_.skip, ib.size - ib.next);
      ib.next += step;
      place_.skip -= step;
      if (ib.next < ib.size) return true;
      --place_.depth;
      continue;
    }
    if (!ring_.dwords) return false;
    const auto step = std::min<uint64_t>(place_.skip, wptr_ - place_.ring_next);
    place_.ring_next += step;
    place_.skip -= static_cast<uint32_t>(step);
    return place_.ring_next != wptr_;
  }
}

amdgpu_criu::Result<std::span<const uint32_t>> Stream::peek(size_t count) {
  const size_t wanted = std::max(count, kReadAhead);
  if (place_.depth) {
    const SavedPlace::Ib& ib = place_.ibs[place_.depth - 1];
    if (count > ib.size - ib.next) {
      return amdgpu_criu::Error::of(kTruncated,
                                    "a packet of {} doublewords does not fit the {} left of its "
                                    "indirect buffer",
                                    count, ib.size - ib.next);
    }
    words_.resize(std::min<size_t>(wanted, ib.size - ib.next));
    TRY(load(next_address(), words_));
    return std::span<const uint32_t>(words_);
  }
  if (count > ring_.dwords) {
    return amdgpu_criu::Error::of(EINVAL, "a packet of {} doublewords does not fit its ring of {}",
                                  count, ring_.dwords);
  }
  words_.resize(std::min<uint64_t>(wanted, wptr_ - place_.ring_next));
  const uint64_t offset = place_.ring_next & (ring_.dwords - 1);
  const size_t before_wrap = std::min<uint64_t>(words_.size(), ring_.dwords - offset);
  const std::span<uint32_t> all(words_);
  TRY(load(ring_.base + offset * 4, all.first(before_wrap)));
  TRY(load(ring_.base, all.subspan(before_wrap)));
  return std::span<const uint32_t>(words_);
}

void Stream::advance(uint64_t dwords) {
  place_.progress = 0;
  if (place_.depth) {
    SavedPlace::Ib& ib = place_.ibs[place_.depth - 1];
    ib.next += static_cast<uint32_t>(std::min<uint64_t>(dwords, ib.size - ib.next));
  } else {
    place_.ring_next += std::min(dwords, wptr_ - place_.ring_next);
  }
}

amdgpu_criu::Status Stream::call(uint64_t base, uint32_t dwords, unsigned vmid,
                                 uint64_t packet_dwords) {
  if (base % 4) return amdgpu_criu::Error::of(EINVAL, "indirect buffer at unaligned {:#x}", base);
  if (place_.depth == SavedPlace::kMaxIbs) {
    return amdgpu_criu::Error::of(EINVAL, "indirect buffers nested deeper than {}",
                                  SavedPlace::kMaxIbs);
  }
  advance(packet_dwords);
  vmids_[place_.depth] = vmid;
  place_.ibs[place_.depth++] = {.base = base, .size = dwords, .next = 0};
  return {};
}

amdgpu_criu::Status Stream::chain(uint64_t base, uint32_t dwords, unsigned vmid,
                                  uint64_t packet_dwords) {
  if (!place_.depth) return call(base, dwords, vmid, packet_dwords);
  --place_.depth;
  const amdgpu_criu::Status status = call(base, dwords, vmid, 0);
  if (!status.ok()) ++place_.depth;
  return status;
}

amdgpu_criu::Status Stream::load(uint64_t address, std::span<uint32_t> out) {
  if (out.empty()) return {};
  return memory_->read(space(), address, std::as_writable_bytes(out));
}

}  // namespace gpu
