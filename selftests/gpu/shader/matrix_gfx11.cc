// SPDX-License-Identifier: GPL-2.0
// Matrix instructions of gfx11 (WMMA): D = A x B + C of 16 x 16 elements each, whatever EXEC says.
// Lane n of each 16 has row n of A and column n of B; the first 16 count. Where a lane has which
// element of C and D: AMD's article on WMMA. The order of the roundings is not public.
#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

constexpr unsigned kSize = 16;

template <typename T>
using Matrix = std::array<std::array<T, kSize>, kSize>;

struct Place {
  unsigned item, lane;
};
Place place_of(const Wave& wave, unsigned row, unsigned column) {
  const unsigned groups = wave.lanes() / kSize;
  return {row / groups, column + kSize * (row % groups)};
}

// neg of integers: which of A and B have signs. Of floats: neg and neg_hi negate the low and the
// high halves of A and B; of C, neg_hi takes the magnitude, and neg negates.
bool refuses_matrix(Wave& wave, const Instruction& in, bool floats) {
  const bool registers = in.src[0] >= operand::kVgpr && in.src[1] >= operand::kVgpr &&
                         (in.src[2] >= operand::kVgpr || in.src[2] == operand::kZero);
  const bool plain = !(in.op_sel & 3) && !(floats ? in.clamp : in.neg_hi || in.neg & 4);
  if (registers && plain && !(wave.mode & (mode::kRoundMask | mode::kFp16Ovfl))) return false;
  wave.refuse(in.name() + " with such modifiers is not modelled");
  return true;
}

// A row of A or a column of B in each lane; element(word, item) of kPerWord in a word.
template <unsigned kPerWord, typename Element>
auto gathered(Wave& wave, unsigned code, Element element) {
  const Row* const rows = &wave.row(code);
  Matrix<decltype(element(0, 0))> out;
  for (unsigned lane = 0; lane < kSize; ++lane) {
    for (unsigned k = 0; k < kSize; ++k)
      out[lane][k] = element(rows[k / kPerWord].lane[lane], k % kPerWord);
  }
  return out;
}

// sum(a, b, c) of a row of A, a column of B, and the word of C gives the word of D.
template <typename T, typename Sum>
void multiply(Wave& wave, const Instruction& in, const Matrix<T>& a, const Matrix<T>& b, Sum sum) {
  const bool has_c = in.src[2] >= operand::kVgpr;
  Matrix<uint32_t> d;
  for (unsigned row = 0; row < kSize; ++row) {
    for (unsigned column = 0; column < kSize; ++column) {
      const auto [item, lane] = place_of(wave, row, column);
      d[row][column] = sum(a[row], b[column], has_c ? (&wave.row(in.src[2]))[item].lane[lane] : 0);
    }
  }
  Row* const to = &wave.row(in.dst);
  for (unsigned row = 0; row < kSize; ++row) {
    for (unsigned column = 0; column < kSize; ++column) {
      const auto [item, lane] = place_of(wave, row, column);
      to[item].lane[lane] = d[row][column];
    }
  }
}

float from_f16(uint32_t word, unsigned item) { return half_to_float(word >> 16 * item & 0xffff); }
float from_bf16(uint32_t word, unsigned item) {
  return std::bit_cast<float>(item ? word & 0xffff0000 : word << 16);
}
uint32_t to_bf16(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  if (value != value) return word >> 16 | 0x40;
  return (word + 0x7fff + (word >> 16 & 1)) >> 16;
}

// Elements of the operand i, A or B, and of C.
template <auto kFrom>
auto signed_from(const Instruction& in, unsigned i) {
  const bool low = in.neg >> i & 1, high = in.neg_hi >> i & 1;
  return [low, high](uint32_t word, unsigned item) {
    const float value = kFrom(word, item);
    return (item ? high : low) ? -value : value;
  };
}
float signed_c(const Instruction& in, float value) {
  const float magnitude = in.neg_hi & 4 ? std::fabs(value) : value;
  return in.neg & 4 ? -magnitude : magnitude;
}

float product(const std::array<float, kSize>& a, const std::array<float, kSize>& b, float sum) {
  for (unsigned k = 0; k < kSize; ++k) sum = std::fma(a[k], b[k], sum);
  return sum;
}

template <auto kFrom>
void wmma_f32(Wave& wave, const Instruction& in) {
  if (refuses_matrix(wave, in, true)) return;
  multiply(wave, in, gathered<2>(wave, in.src[0], signed_from<kFrom>(in, 0)),
           gathered<2>(wave, in.src[1], signed_from<kFrom>(in, 1)),
           [&](const auto& a, const auto& b, uint32_t c) {
             return std::bit_cast<uint32_t>(product(a, b, signed_c(in, std::bit_cast<float>(c))));
           });
}

// C and D are in the low halves of their registers, or in the high ones; D leaves the others alone.
template <auto kFrom, auto kTo>
void wmma_16(Wave& wave, const Instruction& in) {
  if (refuses_matrix(wave, in, true)) return;
  const unsigned half = in.op_sel >> 2 & 1, shift = 16 * half;
  const auto a = gathered<2>(wave, in.src[0], signed_from<kFrom>(in, 0));
  const auto b = gathered<2>(wave, in.src[1], signed_from<kFrom>(in, 1));
  const Row* const old = &wave.row(in.dst);
  std::array<Row, kSize / 2> kept;
  std::copy_n(old, kSize * kSize / wave.lanes(), kept.begin());
  multiply(wave, in, a, b, [&](const auto& row, const auto& column, uint32_t c) {
    return kTo(product(row, column, signed_c(in, kFrom(c, half)))) << shift;
  });
  Row* const to = &wave.row(in.dst);
  for (unsigned item = 0; item < kSize * kSize / wave.lanes(); ++item) {
    for (unsigned lane = 0; lane < wave.lanes(); ++lane)
      to[item].lane[lane] |= kept[item].lane[lane] & ~(0xffffu << shift);
  }
}

template <unsigned kBits>
void wmma_i32(Wave& wave, const Instruction& in) {
  if (refuses_matrix(wave, in, false)) return;
  const auto part = [](bool is_signed) {
    return [is_signed](uint32_t word, unsigned item) {
      const uint32_t top = word << (32 - kBits - kBits * item);
      return is_signed ? static_cast<int32_t>(top) >> (32 - kBits)
                       : static_cast<int32_t>(top >> (32 - kBits));
    };
  };
  multiply(wave, in, gathered<32 / kBits>(wave, in.src[0], part(in.neg & 1)),
           gathered<32 / kBits>(wave, in.src[1], part(in.neg & 2)),
           [&](const auto& a, const auto& b, uint32_t c) {
             int64_t sum = static_cast<int32_t>(c);
             for (unsigned k = 0; k < kSize; ++k) sum += a[k] * b[k];
             if (in.clamp) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
             return static_cast<uint32_t>(sum);
           });
}

constexpr SpecialOp kOps[] = {
    {"v_wmma_f32_16x16x16_f16", wmma_f32<from_f16>},
    {"v_wmma_f32_16x16x16_bf16", wmma_f32<from_bf16>},
    {"v_wmma_f16_16x16x16_f16", wmma_16<from_f16, [](float sum) { return to_half(sum); }>},
    {"v_wmma_bf16_16x16x16_bf16", wmma_16<from_bf16, to_bf16>},
    {"v_wmma_i32_16x16x16_iu8", wmma_i32<8>},
    {"v_wmma_i32_16x16x16_iu4", wmma_i32<4>},
};

}  // namespace

std::span<const SpecialOp> gfx11_matrix_ops() { return kOps; }

}  // namespace gpu::shader
