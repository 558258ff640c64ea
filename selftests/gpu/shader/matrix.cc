// SPDX-License-Identifier: GPL-2.0
// Matrix instructions (MFMA): D = A x B + C, of one or more blocks, spread over all lanes of the
// wave whatever EXEC and the rounding mode say. Where a lane has which element: AMD's matrix
// instruction calculator. Order and places of the roundings: what MMA-Sim has found on CDNA2 and
// CDNA3.
#include <algorithm>

#include "shader/matrix_fused.h"
#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

// A lane has kItems consecutive k of A's row or B's column. Lanes count rows first, then blocks,
// then k.
struct Shape {
  unsigned size, depth, blocks, items;

  unsigned input_lane(unsigned row, unsigned k, unsigned block) const {
    return row + size * (block + blocks * (k / items));
  }
  // Consecutive rows of D that a lane has.
  struct Place {
    unsigned item, lane;
  };
  Place output(unsigned row, unsigned column, unsigned block, unsigned run) const {
    const unsigned at_once = std::max(1u, kLanes * run / (size * size));
    const unsigned row_lanes = kLanes / at_once / size;
    const unsigned rounds = size / (run * row_lanes);
    return {row % run + run * (row / (run * row_lanes) + rounds * (block / at_once)),
            column + size * (row / run % row_lanes + row_lanes * (block % at_once))};
  }
};

float flushed_bits(uint32_t value) { return flushed(std::bit_cast<float>(value)); }

// How elements are stored and added up. The accumulator of a k is added last where there are
// groups.
struct Float32 {
  using Element = float;
  using Sum = float;
  static constexpr unsigned kPerWord = 1, kGroup = 1;
  static float element(uint32_t word, unsigned) { return std::bit_cast<float>(word); }
  static float input(uint32_t word) { return std::bit_cast<float>(word); }
  static float add(const float* a, const float* b, float sum) { return std::fma(a[0], b[0], sum); }
};

template <unsigned kGroupSize>
struct Grouped {
  using Element = float;
  using Sum = float;
  static constexpr unsigned kPerWord = 2, kGroup = kGroupSize;
  static float input(uint32_t word) { return flushed_bits(word); }
  static float add(const float* a, const float* b, float sum) {
    float part = flushed(flushed(a[0] * b[0]) + flushed(a[1] * b[1]));
    if constexpr (kGroup == 4)
      part = flushed(part + flushed(flushed(a[2] * b[2]) + flushed(a[3] * b[3])));
    return flushed(sum + part);
  }
};
struct Float16 : Grouped<4> {
  static float element(uint32_t word, unsigned item) {
    const uint32_t half = word >> 16 * item & 0xffff;
    return (half & 0x7c00) ? half_to_float(half)
                           : std::copysign(0.0f, half & 0x8000 ? -1.0f : 1.0f);
  }
};
template <unsigned kGroupSize>
struct Bfloat16 : Grouped<kGroupSize> {
  static float element(uint32_t word, unsigned item) {
    return flushed_bits(item ? word & 0xffff0000 : word << 16);
  }
};

struct Int8 {
  using Element = int32_t;
  using Sum = uint32_t;
  static constexpr unsigned kPerWord = 4, kGroup = 1;
  static int32_t element(uint32_t word, unsigned item) {
    return static_cast<int8_t>(word >> 8 * item);
  }
  static uint32_t input(uint32_t word) { return word; }
  static uint32_t add(const int32_t* a, const int32_t* b, uint32_t sum) {
    return sum + static_cast<uint32_t>(a[0] * b[0]);
  }
};

constexpr unsigned kMaxElements = kLanes * 16;

// CBSZ and ABID: of each 2^CBSZ blocks of A, all are that of number ABID. BLGP: 16 lanes of B have
// the elements of others. Of a sparse matrix, ABID names a set of indices unless CBSZ is set.
struct Broadcast {
  unsigned cbsz, abid, blgp;

  explicit Broadcast(const Instruction& in)
      : cbsz(bits(in.words[0], 10, 8)),
        abid(bits(in.words[0], 14, 11)),
        blgp(bits(in.words[1], 31, 29)) {}
  unsigned block_of_a(unsigned block) const { return (block >> cbsz << cbsz) + abid; }
  unsigned lane_of_b(unsigned lane) const {
    constexpr uint8_t kGroups[8][4] = {{0, 1, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}, {1, 2, 3, 0},
                                       {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
    return kGroups[blgp][lane / 16] * 16u + lane % 16;
  }
};

bool refuses_fields(Wave& wave, const Instruction& in, bool valid) {
  if (!valid) wave.refuse(in.name() + " with such broadcast fields is not modelled");
  return !valid;
}

// The elements of A or B by block, row (or column), and k.
template <typename T, Shape kShape, auto kElement>
void gather(Wave& wave, unsigned code, typename T::Element* out, auto block_of, auto lane_of) {
  const Row* rows = &wave.row(code);
  for (unsigned to = 0; to < kShape.blocks; ++to) {
    const unsigned block = block_of(to);
    for (unsigned row = 0; row < kShape.size; ++row) {
      for (unsigned k = 0; k < kShape.depth; ++k) {
        const unsigned item = k % kShape.items, lane = lane_of(kShape.input_lane(row, k, block));
        *out++ = kElement(rows[item / T::kPerWord].lane[lane], item % T::kPerWord);
      }
    }
  }
}

template <typename T, Shape kOfA, Shape kOfB>
void gather_both(Wave& wave, const Instruction& in, const Broadcast& broadcast,
                 typename T::Element* a, typename T::Element* b) {
  constexpr auto kSame = [](unsigned place) { return place; };
  const auto block_of_a = [&](unsigned block) {
    return kOfA.blocks > 1 ? broadcast.block_of_a(block) : block;
  };
  const auto gather_b = [&](auto lane_of) {
    if constexpr (requires { T::element_of_b; }) {
      gather<T, kOfB, T::element_of_b>(wave, in.src[1], b, kSame, lane_of);
    } else {
      gather<T, kOfB, T::element>(wave, in.src[1], b, kSame, lane_of);
    }
  };
  gather<T, kOfA, T::element>(wave, in.src[0], a, block_of_a, kSame);
  if (!broadcast.blgp) return gather_b(kSame);
  gather_b([&](unsigned lane) { return broadcast.lane_of_b(lane); });
}

// CDNA3 has BLGP for several blocks and for floats of 32 bits only.
template <typename T, Shape kShape>
bool is_valid(const Broadcast& broadcast, Isa isa) {
  const bool has_blgp = isa == Isa::kGfx90a || kShape.blocks > 1 || std::is_same_v<T, Float32>;
  return (!broadcast.blgp || has_blgp) && 1u << broadcast.cbsz <= kShape.blocks &&
         broadcast.abid < 1u << broadcast.cbsz;
}

template <typename T, Shape kShape>
void multiply(Wave& wave, const Instruction& in) {
  constexpr unsigned kRun = 4;
  const Broadcast broadcast(in);
  if (refuses_fields(wave, in, is_valid<T, kShape>(broadcast, in.isa))) return;
  typename T::Element a[kMaxElements], b[kMaxElements];
  gather_both<T, kShape, kShape>(wave, in, broadcast, a, b);
  const bool constant = in.src[2] < operand::kVgpr;
  const uint32_t value = constant ? wave.scalar(in.src[2], in) : 0;
  constexpr unsigned kRows = kShape.size * kShape.size * kShape.blocks / kLanes;
  Row out[kRows];
  const Row* const c = constant ? nullptr : &wave.row(in.src[2]);
  for (unsigned block = 0; block < kShape.blocks; ++block) {
    for (unsigned row = 0; row < kShape.size; ++row) {
      for (unsigned column = 0; column < kShape.size; ++column) {
        const auto [item, lane] = kShape.output(row, column, block, kRun);
        typename T::Sum sum = T::input(c ? c[item].lane[lane] : value);
        const auto* x = a + (block * kShape.size + row) * kShape.depth;
        const auto* y = b + (block * kShape.size + column) * kShape.depth;
        for (unsigned k = 0; k < kShape.depth; k += T::kGroup) sum = T::add(x + k, y + k, sum);
        out[item].lane[lane] = std::bit_cast<uint32_t>(sum);
      }
    }
  }
  std::copy_n(out, kRows, &wave.row(in.dst));
}

// Of each four k, A has two elements, whose k a lane has in pairs of bits of the third source. D is
// also C. The shape is that of B.
template <typename T, Shape kShape>
void multiply_sparse(Wave& wave, const Instruction& in) {
  constexpr unsigned kRun = 4, kDepth = kShape.depth / 2;
  constexpr Shape kOfA = {kShape.size, kDepth, 1, kShape.items / 2};
  // A lane has a bit of an index for each of its k of B.
  constexpr unsigned kSets = 32 / kShape.items;
  const Broadcast broadcast(in);
  if (refuses_fields(wave, in, !broadcast.blgp && broadcast.cbsz < 4 && broadcast.abid < kSets))
    return;
  const unsigned set = broadcast.cbsz ? 0 : broadcast.abid * kShape.items;
  typename T::Element a[kMaxElements], b[kMaxElements], selected[kDepth];
  gather_both<T, kOfA, kShape>(wave, in, broadcast, a, b);
  const Row index = wave.row(in.src[2]);
  constexpr unsigned kRows = kShape.size * kShape.size / kLanes;
  Row out[kRows];
  const Row* const c = &wave.row(in.dst);
  for (unsigned row = 0; row < kShape.size; ++row) {
    unsigned from[kDepth];
    for (unsigned i = 0; i < kDepth; ++i) {
      const unsigned first = i / 2 * 4, shift = set + first % kShape.items + i % 2 * 2;
      from[i] = first + (index.lane[kShape.input_lane(row, first, 0)] >> shift & 3);
    }
    for (unsigned column = 0; column < kShape.size; ++column) {
      const auto [item, lane] = kShape.output(row, column, 0, kRun);
      for (unsigned i = 0; i < kDepth; ++i) selected[i] = b[column * kShape.depth + from[i]];
      typename T::Sum sum = T::input(c[item].lane[lane]);
      for (unsigned k = 0; k < kDepth; k += T::kGroup)
        sum = T::add(a + row * kDepth + k, selected + k, sum);
      out[item].lane[lane] = std::bit_cast<uint32_t>(sum);
    }
  }
  std::copy_n(out, kRows, &wave.row(in.dst));
}

// A lane has one element of A and B; four rows of D take turns. On gfx942 the bits of BLGP negate
// A, B and C.
template <Shape kShape>
void multiply_doubles(Wave& wave, const Instruction& in) {
  const auto [cbsz, abid, negated] = Broadcast(in);
  if (refuses_fields(wave, in, !cbsz && !abid && (!negated || in.isa == Isa::kGfx942))) return;
  const auto element = [](const Row* rows, unsigned lane) {
    return std::bit_cast<double>(join(rows[0].lane[lane], rows[1].lane[lane]));
  };
  const bool negates_product = (negated ^ negated >> 1) & 1, negates_c = negated & 4;
  const Row* const a = &wave.row(in.src[0]);
  const Row* const b = &wave.row(in.src[1]);
  const bool constant = in.src[2] < operand::kVgpr;
  const Row* const c = constant ? nullptr : &wave.row(in.src[2]);
  const auto value = constant ? std::bit_cast<double>(wave.scalar64(in.src[2], in, true)) : 0;
  constexpr unsigned kRows = 2 * kShape.size * kShape.size * kShape.blocks / kLanes;
  Row out[kRows];
  for (unsigned block = 0; block < kShape.blocks; ++block) {
    for (unsigned row = 0; row < kShape.size; ++row) {
      for (unsigned column = 0; column < kShape.size; ++column) {
        const unsigned item = row / 4, lane = column + kShape.size * block + 16 * (row % 4);
        double sum = c ? element(c + size_t{2} * item, lane) : value;
        if (negates_c) sum = -sum;
        for (unsigned k = 0; k < kShape.depth; ++k) {
          const double x = element(a, kShape.input_lane(row, k, block));
          sum = std::fma(negates_product ? -x : x, element(b, kShape.input_lane(column, k, block)),
                         sum);
        }
        out[2 * item].lane[lane] = low32(std::bit_cast<uint64_t>(sum));
        out[2 * item + 1].lane[lane] = high32(std::bit_cast<uint64_t>(sum));
      }
    }
  }
  std::copy_n(out, kRows, &wave.row(in.dst));
}

template <typename T, Shape kShape>
constexpr SpecialOp op_of(std::string_view name) {
  static_assert(kShape.size * kShape.depth * kShape.blocks == kLanes * kShape.items);
  return {name, multiply<T, kShape>};
}

template <typename T, Shape kShape>
constexpr SpecialOp sparse(std::string_view name) {
  static_assert(kShape.size * kShape.depth == kLanes * kShape.items);
  return {name, multiply_sparse<T, kShape>};
}

using Bf16 = Bfloat16<2>;
using Bf16Of4 = Bfloat16<4>;
using enum Float8;
constexpr Shape kShape16Of8 = {16, 32, 1, 8}, kShape32Of8 = {32, 16, 1, 8};
constexpr Shape kSparse16Of8 = {16, 64, 1, 16}, kSparse32Of8 = {32, 32, 1, 16};

constexpr SpecialOp kOps[] = {
    op_of<Float32, Shape{32, 1, 2, 1}>("v_mfma_f32_32x32x1f32"),
    op_of<Float32, Shape{16, 1, 4, 1}>("v_mfma_f32_16x16x1f32"),
    op_of<Float32, Shape{4, 1, 16, 1}>("v_mfma_f32_4x4x1f32"),
    op_of<Float32, Shape{32, 2, 1, 1}>("v_mfma_f32_32x32x2f32"),
    op_of<Float32, Shape{16, 4, 1, 1}>("v_mfma_f32_16x16x4f32"),
    op_of<Float16, Shape{32, 4, 2, 4}>("v_mfma_f32_32x32x4f16"),
    op_of<Float16, Shape{16, 4, 4, 4}>("v_mfma_f32_16x16x4f16"),
    op_of<Float16, Shape{4, 4, 16, 4}>("v_mfma_f32_4x4x4f16"),
    op_of<Float16, Shape{32, 8, 1, 4}>("v_mfma_f32_32x32x8f16"),
    op_of<Float16, Shape{16, 16, 1, 4}>("v_mfma_f32_16x16x16f16"),
    op_of<Int8, Shape{32, 4, 2, 4}>("v_mfma_i32_32x32x4i8"),
    op_of<Int8, Shape{16, 4, 4, 4}>("v_mfma_i32_16x16x4i8"),
    op_of<Int8, Shape{4, 4, 16, 4}>("v_mfma_i32_4x4x4i8"),
    op_of<Int8, Shape{32, 8, 1, 4}>("v_mfma_i32_32x32x8i8"),
    op_of<Int8, Shape{16, 16, 1, 4}>("v_mfma_i32_16x16x16i8"),
    op_of<Bf16Of4, Shape{32, 4, 2, 4}>("v_mfma_f32_32x32x4bf16_1k"),
    op_of<Bf16Of4, Shape{16, 4, 4, 4}>("v_mfma_f32_16x16x4bf16_1k"),
    op_of<Bf16Of4, Shape{4, 4, 16, 4}>("v_mfma_f32_4x4x4bf16_1k"),
    op_of<Bf16Of4, Shape{32, 8, 1, 4}>("v_mfma_f32_32x32x8bf16_1k"),
    op_of<Bf16Of4, Shape{16, 16, 1, 4}>("v_mfma_f32_16x16x16bf16_1k"),
    op_of<Bf16, Shape{32, 2, 2, 2}>("v_mfma_f32_32x32x2bf16"),
    op_of<Bf16, Shape{16, 2, 4, 2}>("v_mfma_f32_16x16x2bf16"),
    op_of<Bf16, Shape{4, 2, 16, 2}>("v_mfma_f32_4x4x2bf16"),
    op_of<Bf16, Shape{32, 4, 1, 2}>("v_mfma_f32_32x32x4bf16"),
    op_of<Bf16, Shape{16, 8, 1, 2}>("v_mfma_f32_16x16x8bf16"),
    {"v_mfma_f64_16x16x4f64", multiply_doubles<Shape{16, 4, 1, 1}>},
    {"v_mfma_f64_4x4x4f64", multiply_doubles<Shape{4, 4, 4, 1}>},
    // Under the names of gfx942.
    op_of<Float32, Shape{32, 1, 2, 1}>("v_mfma_f32_32x32x1_2b_f32"),
    op_of<Float32, Shape{16, 1, 4, 1}>("v_mfma_f32_16x16x1_4b_f32"),
    op_of<Float32, Shape{4, 1, 16, 1}>("v_mfma_f32_4x4x1_16b_f32"),
    op_of<Float32, Shape{32, 2, 1, 1}>("v_mfma_f32_32x32x2_f32"),
    op_of<Float32, Shape{16, 4, 1, 1}>("v_mfma_f32_16x16x4_f32"),
    op_of<ShortFloat32, Shape{16, 8, 1, 2}>("v_mfma_f32_16x16x8_xf32"),
    op_of<ShortFloat32, Shape{32, 4, 1, 2}>("v_mfma_f32_32x32x4_xf32"),
    op_of<FusedFloat16<4>, Shape{32, 4, 2, 4}>("v_mfma_f32_32x32x4_2b_f16"),
    op_of<FusedFloat16<4>, Shape{16, 4, 4, 4}>("v_mfma_f32_16x16x4_4b_f16"),
    op_of<FusedFloat16<4>, Shape{4, 4, 16, 4}>("v_mfma_f32_4x4x4_16b_f16"),
    op_of<FusedFloat16<8>, Shape{32, 8, 1, 4}>("v_mfma_f32_32x32x8_f16"),
    op_of<FusedFloat16<8>, Shape{16, 16, 1, 4}>("v_mfma_f32_16x16x16_f16"),
    op_of<Int8, Shape{32, 4, 2, 4}>("v_mfma_i32_32x32x4_2b_i8"),
    op_of<Int8, Shape{16, 4, 4, 4}>("v_mfma_i32_16x16x4_4b_i8"),
    op_of<Int8, Shape{4, 4, 16, 4}>("v_mfma_i32_4x4x4_16b_i8"),
    op_of<Int8, Shape{32, 16, 1, 8}>("v_mfma_i32_32x32x16_i8"),
    op_of<Int8, Shape{16, 32, 1, 8}>("v_mfma_i32_16x16x32_i8"),
    op_of<FusedBfloat16<4>, Shape{32, 4, 2, 4}>("v_mfma_f32_32x32x4_2b_bf16"),
    op_of<FusedBfloat16<4>, Shape{16, 4, 4, 4}>("v_mfma_f32_16x16x4_4b_bf16"),
    op_of<FusedBfloat16<4>, Shape{4, 4, 16, 4}>("v_mfma_f32_4x4x4_16b_bf16"),
    op_of<FusedBfloat16<8>, Shape{32, 8, 1, 4}>("v_mfma_f32_32x32x8_bf16"),
    op_of<FusedBfloat16<8>, Shape{16, 16, 1, 4}>("v_mfma_f32_16x16x16_bf16"),
    op_of<FusedFloat8<kBf8, kBf8>, kShape16Of8>("v_mfma_f32_16x16x32_bf8_bf8"),
    op_of<FusedFloat8<kBf8, kFp8>, kShape16Of8>("v_mfma_f32_16x16x32_bf8_fp8"),
    op_of<FusedFloat8<kFp8, kBf8>, kShape16Of8>("v_mfma_f32_16x16x32_fp8_bf8"),
    op_of<FusedFloat8<kFp8, kFp8>, kShape16Of8>("v_mfma_f32_16x16x32_fp8_fp8"),
    op_of<FusedFloat8<kBf8, kBf8>, kShape32Of8>("v_mfma_f32_32x32x16_bf8_bf8"),
    op_of<FusedFloat8<kBf8, kFp8>, kShape32Of8>("v_mfma_f32_32x32x16_bf8_fp8"),
    op_of<FusedFloat8<kFp8, kBf8>, kShape32Of8>("v_mfma_f32_32x32x16_fp8_bf8"),
    op_of<FusedFloat8<kFp8, kFp8>, kShape32Of8>("v_mfma_f32_32x32x16_fp8_fp8"),
    sparse<FusedFloat16<8>, Shape{16, 32, 1, 8}>("v_smfmac_f32_16x16x32_f16"),
    sparse<FusedFloat16<8>, Shape{32, 16, 1, 8}>("v_smfmac_f32_32x32x16_f16"),
    sparse<FusedBfloat16<8>, Shape{16, 32, 1, 8}>("v_smfmac_f32_16x16x32_bf16"),
    sparse<FusedBfloat16<8>, Shape{32, 16, 1, 8}>("v_smfmac_f32_32x32x16_bf16"),
    sparse<Int8, kSparse16Of8>("v_smfmac_i32_16x16x64_i8"),
    sparse<Int8, kSparse32Of8>("v_smfmac_i32_32x32x32_i8"),
    sparse<FusedFloat8<kBf8, kBf8>, kSparse16Of8>("v_smfmac_f32_16x16x64_bf8_bf8"),
    sparse<FusedFloat8<kBf8, kFp8>, kSparse16Of8>("v_smfmac_f32_16x16x64_bf8_fp8"),
    sparse<FusedFloat8<kFp8, kBf8>, kSparse16Of8>("v_smfmac_f32_16x16x64_fp8_bf8"),
    sparse<FusedFloat8<kFp8, kFp8>, kSparse16Of8>("v_smfmac_f32_16x16x64_fp8_fp8"),
    sparse<FusedFloat8<kBf8, kBf8>, kSparse32Of8>("v_smfmac_f32_32x32x32_bf8_bf8"),
    sparse<FusedFloat8<kBf8, kFp8>, kSparse32Of8>("v_smfmac_f32_32x32x32_bf8_fp8"),
    sparse<FusedFloat8<kFp8, kBf8>, kSparse32Of8>("v_smfmac_f32_32x32x32_fp8_bf8"),
    sparse<FusedFloat8<kFp8, kFp8>, kSparse32Of8>("v_smfmac_f32_32x32x32_fp8_fp8"),
    {"v_mfma_f64_16x16x4_f64", multiply_doubles<Shape{16, 4, 1, 1}>},
    {"v_mfma_f64_4x4x4_4b_f64", multiply_doubles<Shape{4, 4, 4, 1}>},
};

}  // namespace

std::span<const SpecialOp> matrix_ops() { return kOps; }

}  // namespace gpu::shader
