// SPDX-License-Identifier: GPL-2.0
// The place of a lane's memory operand: memory, LDS, or private memory with its swizzled layout.
#pragma once

#include "shader/vector_op.h"

namespace gpu::shader {

struct Place {
  enum class In : uint8_t { kMemory, kLds, kSwizzled, kNowhere };
  In in = In::kMemory;
  uint64_t address = 0;  // in LDS: offset; swizzled: base
  uint64_t offset = 0;   // swizzled: of the lane
  unsigned lane = 0;
  uint64_t bytes = ~uint64_t{0};  // of the operand that are in the buffer; the others are nowhere
};

// LDS addresses wrap: a compiler may add an offset to an address below 0.
constexpr uint64_t lds_address(uint32_t address, uint32_t offset) { return address + offset; }

// For a FLAT, SCRATCH, GLOBAL, MUBUF or DS instruction; extra is added to the offset. For an atomic
// operation on an image, too.
Place locate(Wave& wave, const Instruction& in, unsigned lane, uint32_t extra = 0);

// False: the access faulted, and the wave stops. Nowhere reads as zero and drops writes, as do
// LDS addresses beyond the allocation.
bool read_place(Wave& wave, const Place& place, void* out, size_t size);
bool write_place(Wave& wave, const Place& place, const void* data, size_t size);
// The host's memory for an atomic operation. Null while the wave still runs: the operand is
// nowhere.
std::byte* atomic_place(Wave& wave, const Place& place, size_t size);

// Calls visit(lane) for active lanes, as long as the wave runs. An instruction that is repeated
// visits only the lanes that it has not visited before.
template <typename Visit>
void for_each_active(Wave& wave, Visit visit) {
  const uint64_t repeated = wave.repeated_lanes();
  uint64_t left = repeated ? wave.exec() & repeated : wave.exec();
  for (; left; left &= left - 1) {
    visit(static_cast<unsigned>(std::countr_zero(left)));
    if (wave.stop != Stop::kNone) break;
  }
  wave.lanes_left = left;
  if (repeated && !left) wave.set_s64(operand::kXnackMask, 0);
}

// use(lane, host) reads the kBytes of a lane's operand at host, or writes them. Lane by lane,
// because the destination may be the register of the addresses.
template <size_t kBytes, bool kWrites, typename Use>
void use_place(Wave& wave, const Place& place, unsigned lane, Use use) {
  std::byte value[kBytes];
  if constexpr (kWrites) {
    use(lane, value);
    write_place(wave, place, value, kBytes);
  } else {
    if (read_place(wave, place, value, kBytes)) use(lane, value);
  }
}

inline bool uses_all_lanes(const Wave& wave) {
  return wave.exec() == wave.lane_mask() && !wave.repeated_lanes();
}

inline uint32_t last_of(const Row& places, unsigned lanes) {
  uint32_t last = 0;
  each_lane(lanes, [&](size_t lane) { last = std::max(last, places.lane[lane]); });
  return last;
}

// The operands of all lanes, at their places in the size bytes of host; false: some are not there.
// Some uses have a faster way than lane by lane.
template <size_t kBytes, typename Use>
bool use_all(Wave& wave, std::byte* host, size_t size, const Row& places, Use use) {
  const unsigned lanes = wave.lanes();
  if constexpr (requires { use.all(lanes, host, size, places); }) {
    if (!use.all(lanes, host, size, places)) return false;
  } else {
    if (last_of(places, lanes) + kBytes > size) return false;
    for (unsigned lane = 0; lane < lanes; ++lane) use(lane, host + places.lane[lane]);
  }
  wave.lanes_left = 0;
  return true;
}

template <size_t kBytes, bool kWrites, typename Use>
void use_lds(Wave& wave, const Row& addresses, uint32_t extra, Use use) {
  std::byte* const lds = wave.group->lds.data();
  const uint64_t size = wave.group->lds.size();
  if (uses_all_lanes(wave)) {
    // Accesses within the allocation do not stop the wave.
    Row places;
    each_lane(wave.lanes(), [&](size_t lane) { places.lane[lane] = addresses.lane[lane] + extra; });
    if (use_all<kBytes>(wave, lds, size, places, use)) return;
  }
  for_each_active(wave, [&](unsigned lane) {
    const uint64_t at = lds_address(addresses.lane[lane], extra);
    if (at + kBytes <= size) return use(lane, lds + at);
    use_place<kBytes, kWrites>(wave, {.in = Place::In::kLds, .address = at, .lane = lane}, lane,
                               use);
  });
}

// The addresses of GLOBAL, and of FLAT if they are in no other aperture. False: locate() has to
// look at each lane.
bool memory_addresses(Wave& wave, const Instruction& in, std::array<uint64_t, kLanes>& out);

// The same for operands of private memory of one doubleword or less, which swizzling keeps
// together.
bool private_addresses(Wave& wave, const Instruction& in, size_t bytes,
                       std::array<uint64_t, kLanes>& out);

// Whether the operands of all lanes begin in one page, as in most kernels, and their places in it.
inline bool begin_in_a_page(const std::array<uint64_t, kLanes>& addresses, unsigned lanes,
                            Row& places) {
  uint64_t differences = 0;
  each_lane(lanes, [&](size_t lane) { differences |= addresses[lane] ^ addresses[0]; });
  if (differences >= MemoryView::kPageSize) return false;
  each_lane(lanes, [&](size_t lane) {
    places.lane[lane] = static_cast<uint32_t>(addresses[lane]) % MemoryView::kPageSize;
  });
  return true;
}

template <size_t kBytes, bool kWrites, typename Use>
void use_memory(Wave& wave, const std::array<uint64_t, kLanes>& addresses, Use use) {
  constexpr uint64_t kPage = MemoryView::kPageSize;
  Row places;
  if (uses_all_lanes(wave) && begin_in_a_page(addresses, wave.lanes(), places)) {
    std::byte* const host = wave.memory->page(addresses[0], kWrites);
    wave.lanes_left = wave.exec();
    if (!host) return wave.fault();
    if (use_all<kBytes>(wave, host - addresses[0] % kPage, kPage, places, use)) return;
  }
  uint64_t known = ~uint64_t{0};
  std::byte* page = nullptr;
  for_each_active(wave, [&](unsigned lane) {
    const uint64_t at = addresses[lane], offset = at % kPage;
    if (offset + kBytes > kPage)
      return use_place<kBytes, kWrites>(wave, {.address = at, .lane = lane}, lane, use);
    if (at / kPage != known) {
      std::byte* const host = wave.memory->page(at, kWrites);
      if (!host) return wave.fault();
      page = host - offset;
      known = at / kPage;
    }
    use(lane, page + offset);
  });
}

template <size_t kBytes, bool kWrites, typename Use>
void use_operands(Wave& wave, const Instruction& in, Use use) {
  if (in.format == Format::kDs)
    return use_lds<kBytes, kWrites>(wave, wave.row(in.address), static_cast<uint32_t>(in.immediate),
                                    use);
  std::array<uint64_t, kLanes> addresses;
  if (memory_addresses(wave, in, addresses) ||
      (kBytes <= 4 && private_addresses(wave, in, kBytes, addresses)))
    return use_memory<kBytes, kWrites>(wave, addresses, use);
  for_each_active(wave, [&](unsigned lane) {
    use_place<kBytes, kWrites>(wave, locate(wave, in, lane), lane, use);
  });
}

}  // namespace gpu::shader
