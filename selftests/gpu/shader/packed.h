// SPDX-License-Identifier: GPL-2.0
// For operations of pairs of halves (VOP3P).
#pragma once

#include <algorithm>
#include <limits>

#include "shader/vector_op.h"

namespace gpu::shader {

// Dot products, and operations of both widths of floats.
std::span<const SpecialOp> dot_ops();

// What MODE says of floats of a width.
struct Denormals {
  bool flush_in, flush_out;

  static Denormals of32(const Wave& wave) {
    return {!(wave.mode & mode::kDenormIn32), !(wave.mode & mode::kDenormOut32)};
  }
  static Denormals of16(const Wave& wave) {
    return {!(wave.mode & mode::kDenormIn64), !(wave.mode & mode::kDenormOut64)};
  }
};
inline float flushed_if(bool flush, float value) { return flush ? flushed(value) : value; }
inline uint32_t half_flushed_if(bool flush, uint32_t half) {
  return flush ? flushed_half(half) : half;
}
inline bool is_infinite(uint32_t half) { return (half & 0x7fff) == 0x7c00; }

// The operand without modifiers; a float constant is the 16-bit one where wanted.
inline const uint32_t* halves(Wave& wave, const Instruction& in, unsigned i, Lanes& buffer,
                              bool floats) {
  Instruction plain = in;
  plain.neg = plain.abs = plain.op_sel = 0;
  const Kind kind = floats ? Kind::kF16 : Kind::kB32;
  return static_cast<const uint32_t*>(vector_source(wave, plain, i, kind, buffer, true));
}

inline uint32_t half_of(uint32_t value, bool high) { return high ? value >> 16 : value & 0xffff; }

// The limits of the type of a half, to which an instruction with clamp saturates.
template <typename T>
uint32_t saturated(int64_t value) {
  using Limits = std::numeric_limits<T>;
  return static_cast<uint32_t>(std::clamp<int64_t>(value, Limits::min(), Limits::max()));
}

// Which part of a register is a float.
enum class Floats : uint8_t { kWhole, kLow, kHigh, kBoth };

// Clamps results, in a loop of its own because few instructions have clamp.
template <Floats kPart>
void clamp_floats(const Wave& wave, uint32_t* lanes) {
  const bool nan_to_zero = wave.mode & mode::kDx10Clamp;
  const auto half = [&](uint32_t bits) {
    return to_half(clamped(half_to_float(bits & 0xffff), nan_to_zero));
  };
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    uint32_t& value = lanes[lane];
    const uint32_t low = kPart == Floats::kHigh ? value & 0xffff : half(value);
    const uint32_t high = kPart == Floats::kLow ? value >> 16 : half(value >> 16);
    value = kPart == Floats::kWhole ? to_bits(clamped(std::bit_cast<float>(value), nan_to_zero))
                                    : low | high << 16;
  }
}

}  // namespace gpu::shader
