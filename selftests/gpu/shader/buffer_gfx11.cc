// SPDX-License-Identifier: GPL-2.0
// Buffer resources of gfx11: "RDNA3" ISA document, chapter 9.1.
#include "base/result.h"
#include "shader/buffer.h"

namespace gpu::shader {
namespace {

// Which operands are in the buffer, by OOB_SELECT.
enum class Check : uint8_t {
  kIndexAndOffset,  // the index is below NUM_RECORDS, and the operand in one record
  kIndex,           // the index is
  kNotEmpty,        // all, unless NUM_RECORDS is 0
  kBytes            // NUM_RECORDS bytes are
};

struct Buffer : Resource {
  unsigned swizzle_size;
  Check check;

  Buffer(const Wave& wave, unsigned sgpr)
      : Resource(wave, sgpr),
        swizzle_size(bits(wave.s(sgpr + 1), 31, 30)),
        check(Check(bits(wave.s(sgpr + 3), 29, 28))) {}
  // Whether an index counts where bytes are checked is not documented clearly.
  bool is_modelled(const Instruction& in) const {
    const bool has_records = stride && (in.idxen || add_tid);
    return !swizzle_size && !in.lds && !(check == Check::kBytes && has_records);
  }
};

// The bytes of the buffer from the offset of a lane on.
uint64_t bytes_left(const Buffer& buffer, uint64_t index, uint64_t offset) {
  constexpr uint64_t kAll = ~uint64_t{0};
  switch (buffer.check) {
    case Check::kIndexAndOffset:
      return index < buffer.records ? bytes_behind(buffer.stride, offset) : 0;
    case Check::kIndex:
      return index < buffer.records ? kAll : 0;
    case Check::kNotEmpty:
      return buffer.records ? kAll : 0;
    case Check::kBytes:
      break;
  }
  return bytes_behind(buffer.records, offset);
}

}  // namespace

// SOFFSET does not count for the check.
Place gfx11_buffer(Wave& wave, const Instruction& in, unsigned lane, uint64_t extra) {
  const Buffer buffer(wave, in.resource);
  if (!buffer.is_modelled(in)) {
    wave.refuse(amdgpu_criu::formatted(
        "{} of stride {}, swizzle {}, word 3 {:#x}{} is not modelled", in.name(), buffer.stride,
        buffer.swizzle_size, wave.s(in.resource + 3u), in.lds ? ", into LDS" : ""));
    return {.in = Place::In::kNowhere};
  }
  const uint32_t first = wave.row(in.address).lane[lane];
  // With both, the index is in the first VGPR and the offset in the second.
  const uint32_t second = in.idxen ? wave.row(in.address + 1u).lane[lane] : first;
  const uint64_t index = (in.idxen ? first : 0) + uint64_t{buffer.add_tid ? lane : 0};
  const uint64_t offset = static_cast<uint64_t>(in.immediate) + extra + (in.offen ? second : 0);
  const uint64_t left = bytes_left(buffer, index, offset);
  if (!left) return {.in = Place::In::kNowhere};
  return {.address = buffer.base + wave.scalar(in.saddr, in) + index * buffer.stride + offset,
          .lane = lane,
          .bytes = left};
}

bool gfx11_buffer_addresses(Wave& wave, const Instruction& in, std::array<uint64_t, kLanes>& out) {
  const Buffer buffer(wave, in.resource);
  if (!buffer.is_modelled(in) || buffer.check != Check::kBytes || in.idxen) return false;
  const uint64_t base = buffer.base + wave.scalar(in.saddr, in) + uint64_t(in.immediate);
  const uint64_t end = bytes_behind(buffer.records, uint64_t(in.immediate) + kLargestOperand - 1);
  return offset_addresses(wave, in, base, end, out);
}

}  // namespace gpu::shader
