// SPDX-License-Identifier: GPL-2.0
// Vector operations that only gfx11 has. Semantics: "RDNA3" ISA document, chapter 16.
#include <algorithm>
#include <cmath>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using U = uint32_t;
using I = int32_t;
using F = float;
using H = Half;
using U16 = uint16_t;

constexpr auto kMaxmin = [](auto a, auto b, auto c) { return std::min(std::max(a, b), c); };
constexpr auto kMinmax = [](auto a, auto b, auto c) { return std::max(std::min(a, b), c); };
template <bool kIeee>
constexpr auto kFmaxmin =
    [](F a, F b, F c) { return pick<false, kIeee>(pick<true, kIeee>(a, b), c); };
template <bool kIeee>
constexpr auto kFminmax =
    [](F a, F b, F c) { return pick<true, kIeee>(pick<false, kIeee>(a, b), c); };
// A product with 0 is 0.
constexpr auto kFmaDx9 = [](F a, F b, F c) { return a == 0 || b == 0 ? c : std::fma(a, b, c); };

constexpr VectorOp kVectorOps[] = {
    op<F, F, F, F>("v_fma_dx9_zero_f32", kFmaDx9),
    accumulate<F, F, F, F>("v_fmac_dx9_zero_f32", kFmaDx9),
    op<U, U, U, U>("v_xor3_b32", [](U a, U b, U c) { return a ^ b ^ c; }),
    op<U16, U16>("v_mov_b16", [](U16 a) { return a; }),
    op<U16, U16>("v_not_b16", [](U16 a) { return ~a; }),
    op<U16, U16, U16>("v_and_b16", [](U16 a, U16 b) { return a & b; }),
    op<U16, U16, U16>("v_or_b16", [](U16 a, U16 b) { return a | b; }),
    op<U16, U16, U16>("v_xor_b16", [](U16 a, U16 b) { return a ^ b; }),
    op<U, F, F>("v_cvt_pk_i16_f32",
                [](F a, F b) {
                  const auto half = [](F value) {
                    return U{static_cast<U16>(saturate<int16_t>(value))};
                  };
                  return half(a) | half(b) << 16;
                }),
    op<U, F, F>("v_cvt_pk_u16_f32",
                [](F a, F b) { return U{saturate<U16>(a)} | U{saturate<U16>(b)} << 16; }),
    op<I, int16_t>("v_cvt_i32_i16", [](int16_t a) { return a; }),
    op<U, U16>("v_cvt_u32_u16", [](U16 a) { return a; }),
    by_ieee<F, F, F, F>("v_maxmin_f32", kFmaxmin<true>, kFmaxmin<false>),
    by_ieee<F, F, F, F>("v_minmax_f32", kFminmax<true>, kFminmax<false>),
    by_ieee<H, H, H, H>("v_maxmin_f16", kFmaxmin<true>, kFmaxmin<false>),
    by_ieee<H, H, H, H>("v_minmax_f16", kFminmax<true>, kFminmax<false>),
    op<I, I, I, I>("v_maxmin_i32", kMaxmin),
    op<I, I, I, I>("v_minmax_i32", kMinmax),
    op<U, U, U, U>("v_maxmin_u32", kMaxmin),
    op<U, U, U, U>("v_minmax_u32", kMinmax),
};

// Each lane takes the value of the lane of its row of 16, or of the other row of the pair, that
// four bits of a pair of scalars name. op_sel: the value of an inactive lane counts; a lane without
// a value becomes 0 instead of staying as it is.
template <bool kOtherRow>
void permlane16(Wave& wave, const Instruction& in) {
  const uint64_t selects = join(wave.scalar(in.src[1], in), wave.scalar(in.src[2], in));
  const uint64_t valid = in.op_sel & 1 ? wave.lane_mask() : wave.exec();
  const bool becomes_zero = in.op_sel & 2;
  const Row from = wave.row(in.src[0]);
  Row& to = wave.row(in.dst);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    if (!wave.active(lane)) continue;
    const unsigned row = (lane & ~15u) ^ (kOtherRow ? 16 : 0);
    const unsigned source = row | static_cast<unsigned>(selects >> (4 * (lane & 15)) & 15);
    if (valid >> source & 1) {
      to.lane[lane] = from.lane[source];
    } else if (becomes_zero) {
      to.lane[lane] = 0;
    }
  }
}

// The halves of a wave of 64 lanes change places.
void permlane64(Wave& wave, const Instruction& in) {
  const Row from = wave.row(in.src[0]);
  if (wave.lanes() < kLanes) return;
  Lanes out;
  for (unsigned lane = 0; lane < kLanes; ++lane) out.narrow[lane] = from.lane[lane ^ 32];
  write_lanes(wave, in.dst, out.narrow);
}

uint32_t half_of(uint32_t value, bool high) { return high ? value >> 16 : value & 0xffff; }
void set_half(uint32_t& value, uint32_t half, bool high) {
  value = high ? (value & 0xffff) | half << 16 : (value & 0xffff0000) | (half & 0xffff);
}

// The third source is the mask.
void cndmask16(Wave& wave, const Instruction& in) {
  if (refuses_dpp(wave, in)) return;
  const bool dpp = in.extra == Instruction::Extra::kDpp;
  const uint64_t written = dpp ? dpp_mask(wave, in) : wave.exec();
  const uint64_t mask = wave.mask(in.src[2], in);
  const Kind kind = in.neg || in.abs ? Kind::kF16 : Kind::kB16;
  Lanes buffers[2];
  const auto* a = static_cast<const uint32_t*>(vector_source(wave, in, 0, kind, buffers[0], true));
  const auto* b = static_cast<const uint32_t*>(vector_source(wave, in, 1, kind, buffers[1], true));
  Row& to = wave.row(in.dst);
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    if (written >> lane & 1)
      set_half(to.lane[lane], mask >> lane & 1 ? b[lane] : a[lane], in.op_sel & 8);
  }
}

void swap16(Wave& wave, const Instruction& in) {
  Row& a = wave.row(in.dst);
  Row& b = wave.row(in.src[0]);
  const bool high_a = in.op_sel & 8, high_b = in.op_sel & 1;
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    if (!wave.active(lane)) continue;
    const uint32_t x = half_of(a.lane[lane], high_a), y = half_of(b.lane[lane], high_b);
    set_half(a.lane[lane], y, high_a);
    set_half(b.lane[lane], x, high_b);
  }
}

constexpr SpecialOp kOps[] = {
    {"v_cndmask_b16", cndmask16},
    {"v_swap_b16", swap16},
    {"v_permlane16_b32", permlane16<false>},
    {"v_permlanex16_b32", permlane16<true>},
    {"v_permlane64_b32", permlane64},
};

}  // namespace

std::span<const VectorOp> gfx11_vector_ops() { return kVectorOps; }
std::span<const SpecialOp> gfx11_ops() { return kOps; }

}  // namespace gpu::shader
