// SPDX-License-Identifier: GPL-2.0
// Matrix instructions against sums of products, and their roundings.
#include <gmock/gmock.h>

#include <optional>
#include <random>

#include "shader/kernel_fixture.h"
#include "shader/numbers.h"

namespace gpu::test {
namespace {

using shader::Float8;
using shader::half_to_float;
using shader::to_half;

enum class Type : uint8_t { kFloat, kHalf, kBfloat, kByte, kFp8, kBf8 };

struct Case {
  const char* kernel;
  unsigned size, depth, blocks;
  Type type;
  unsigned items;                      // of A that a lane has, with consecutive k
  std::optional<Type> type_of_b = {};  // if it is another
  unsigned cbsz = 0, abid = 0, blgp = 0;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.kernel; }

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
float float_of(uint32_t value) { return std::bit_cast<float>(value); }

unsigned width_of(Type type) {
  if (type == Type::kFloat) return 32;
  return type == Type::kHalf || type == Type::kBfloat ? 16 : 8;
}
uint32_t stored(Type type, float value) {
  switch (type) {
    case Type::kFloat:
      return bits_of(value);
    case Type::kHalf:
      return to_half(value);
    case Type::kBfloat:
      return bits_of(value) >> 16;
    case Type::kByte:
      return static_cast<uint32_t>(static_cast<int>(value)) & 0xff;
    case Type::kFp8:
      return shader::to_float8(Float8::kFp8, value);
    case Type::kBf8:
      return shader::to_float8(Float8::kBf8, value);
  }
  return 0;
}

// A or B, by block, row of A (column of B), and k; and where the lanes have it.
struct Operand {
  Operand(const Case& one, std::vector<float> values) : shape(one), values(std::move(values)) {}
  float at(unsigned block, unsigned row, unsigned k) const {
    return values[(block * shape.size + row) * shape.depth + k];
  }
  // With one block the lanes beyond its rows have the next k, otherwise the next block.
  float in_lane(unsigned lane, unsigned item) const {
    const unsigned row = lane % shape.size, rest = lane / shape.size;
    return shape.blocks == 1 ? at(0, row, rest * shape.items + item) : at(rest, row, item);
  }
  // With BLGP as it is described: 32 lanes for all, all moved by 16, or 16 lanes for all.
  float swizzled(unsigned block, unsigned row, unsigned k) const {
    const unsigned lane = row + shape.size * (shape.blocks == 1 ? k / shape.items : block);
    const unsigned n = shape.blgp;
    const unsigned from = n == 0   ? lane
                          : n < 3  ? lane % 32 + 32 * (n - 1)
                          : n == 3 ? (lane + 16) % 64
                                   : lane % 16 + 16 * (n - 4);
    return in_lane(from, k % shape.items);
  }
  // Of CBSZ and ABID.
  float of_one_block(unsigned block, unsigned row, unsigned k) const {
    const unsigned together = 1u << shape.cbsz;
    return at(block / together * together + shape.abid, row, k);
  }
  std::vector<uint32_t> registers() const {
    const unsigned words = std::max(1u, shape.items * width_of(shape.type) / 32);
    std::vector<uint32_t> out(size_t{64} * words);
    for (unsigned lane = 0; lane < 64; ++lane) {
      for (unsigned item = 0; item < shape.items; ++item) {
        const unsigned shift = item * width_of(shape.type);
        out[lane * words + shift / 32] |= stored(shape.type, in_lane(lane, item)) << shift % 32;
      }
    }
    return out;
  }
  Case shape;
  std::vector<float> values;
};

class MatrixKernels : public KernelTest, public testing::WithParamInterface<Case> {
 protected:
  explicit MatrixKernels(const std::string& object = "matrix.co", const Asic& asic = mi210())
      : KernelTest(object, asic) {}

  // D as the lanes have it: all elements of a lane, then those of the next lane.
  std::vector<uint32_t> multiply(const Operand& a, const Operand& b,
                                 const std::vector<uint32_t>& c) {
    put_all(kData, a.registers());
    put_all(kData + 0x10000, b.registers());
    put_all(kData + 0x20000, c);
    arguments(kData, kData + 0x10000, kData + 0x20000);
    EXPECT_TRUE(runs(a.shape.kernel, {.grid = {64, 1, 1}, .group = {64, 1, 1}}));
    return get_all<uint32_t>(kData + 0x20000, c.size());
  }
  static size_t elements(const Case& one) { return size_t{one.size} * one.size * one.blocks; }
  // Groups of four rows take turns among the lanes that have a column; then come the blocks.
  static size_t place(const Case& one, unsigned block, unsigned row, unsigned column) {
    const size_t of_lane = elements(one) / 64;
    if (one.size == 4) return (block * size_t{4} + column) * 4 + row;
    const unsigned groups = 64 / one.size;
    const unsigned lane = column + one.size * (row / 4 % groups);
    const unsigned item = row % 4 + 4 * (row / 4 / groups) + block * one.size * one.size / 64;
    return lane * of_lane + item;
  }
  Operand random(const Case& one) {
    std::vector<float> values(size_t{one.size} * one.depth * one.blocks);
    // A float of 8 bits has four bits, or three.
    const int largest = one.type == Type::kFp8 ? 16 : one.type == Type::kBf8 ? 4 : 100;
    std::uniform_int_distribution<int> number(-largest, largest);
    for (float& value : values) value = static_cast<float>(number(engine_));
    return {one, std::move(values)};
  }
  void sums_products(const Case& one);
  std::mt19937 engine_{3};
};

void MatrixKernels::sums_products(const Case& one) {
  Case of_b = one;
  of_b.type = one.type_of_b.value_or(one.type);
  const Operand a = random(one), b = random(of_b);
  const bool floats = one.type != Type::kByte;
  std::vector<uint32_t> c(elements(one));
  for (uint32_t i = 0; i < c.size(); ++i) c[i] = floats ? bits_of(static_cast<float>(i)) : i;
  const std::vector<uint32_t> d = multiply(a, b, c);
  for (unsigned block = 0; block < one.blocks; ++block) {
    for (unsigned row = 0; row < one.size; ++row) {
      for (unsigned column = 0; column < one.size; ++column) {
        const size_t at = place(one, block, row, column);
        double sum = static_cast<double>(at);
        for (unsigned k = 0; k < one.depth; ++k)
          sum += double{a.of_one_block(block, row, k)} * double{b.swizzled(block, column, k)};
        const double got = floats ? double{float_of(d[at])} : static_cast<int32_t>(d[at]);
        ASSERT_EQ(got, sum) << block << " " << row << " " << column;
      }
    }
  }
}

TEST_P(MatrixKernels, SumProducts) { sums_products(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, MatrixKernels,
                         testing::Values(Case{"f32_32x32x1f32", 32, 1, 2, Type::kFloat, 1},
                                         Case{"f32_16x16x1f32", 16, 1, 4, Type::kFloat, 1},
                                         Case{"f32_4x4x1f32", 4, 1, 16, Type::kFloat, 1},
                                         Case{"f32_32x32x2f32", 32, 2, 1, Type::kFloat, 1},
                                         Case{"f32_16x16x4f32", 16, 4, 1, Type::kFloat, 1},
                                         Case{"f32_32x32x4f16", 32, 4, 2, Type::kHalf, 4},
                                         Case{"f32_16x16x4f16", 16, 4, 4, Type::kHalf, 4},
                                         Case{"f32_4x4x4f16", 4, 4, 16, Type::kHalf, 4},
                                         Case{"f32_32x32x8f16", 32, 8, 1, Type::kHalf, 4},
                                         Case{"f32_16x16x16f16", 16, 16, 1, Type::kHalf, 4},
                                         Case{"i32_32x32x4i8", 32, 4, 2, Type::kByte, 4},
                                         Case{"i32_16x16x4i8", 16, 4, 4, Type::kByte, 4},
                                         Case{"i32_4x4x4i8", 4, 4, 16, Type::kByte, 4},
                                         Case{"i32_32x32x8i8", 32, 8, 1, Type::kByte, 4},
                                         Case{"i32_16x16x16i8", 16, 16, 1, Type::kByte, 4},
                                         Case{"f32_32x32x4bf16_1k", 32, 4, 2, Type::kBfloat, 4},
                                         Case{"f32_16x16x4bf16_1k", 16, 4, 4, Type::kBfloat, 4},
                                         Case{"f32_4x4x4bf16_1k", 4, 4, 16, Type::kBfloat, 4},
                                         Case{"f32_32x32x8bf16_1k", 32, 8, 1, Type::kBfloat, 4},
                                         Case{"f32_16x16x16bf16_1k", 16, 16, 1, Type::kBfloat, 4},
                                         Case{"f32_32x32x2bf16", 32, 2, 2, Type::kBfloat, 2},
                                         Case{"f32_16x16x2bf16", 16, 2, 4, Type::kBfloat, 2},
                                         Case{"f32_4x4x2bf16", 4, 2, 16, Type::kBfloat, 2},
                                         Case{"f32_32x32x4bf16", 32, 4, 1, Type::kBfloat, 2},
                                         Case{"f32_16x16x8bf16", 16, 8, 1, Type::kBfloat, 2}),
                         [](const auto& info) { return std::string(info.param.kernel); });

Case broadcast(Case one, unsigned cbsz, unsigned abid, unsigned blgp) {
  one.cbsz = cbsz, one.abid = abid, one.blgp = blgp;
  return one;
}
class Broadcasts : public MatrixKernels {};

TEST_P(Broadcasts, SumProducts) { sums_products(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, Broadcasts,
    testing::Values(broadcast({"f32_32x32x1f32_1_0_0", 32, 1, 2, Type::kFloat, 1}, 1, 0, 0),
                    broadcast({"f32_32x32x1f32_1_1_0", 32, 1, 2, Type::kFloat, 1}, 1, 1, 0),
                    broadcast({"f32_16x16x1f32_1_1_3", 16, 1, 4, Type::kFloat, 1}, 1, 1, 3),
                    broadcast({"f32_16x16x1f32_2_3_2", 16, 1, 4, Type::kFloat, 1}, 2, 3, 2),
                    broadcast({"f32_4x4x1f32_4_1_0", 4, 1, 16, Type::kFloat, 1}, 4, 1, 0),
                    broadcast({"f32_4x4x1f32_3_5_6", 4, 1, 16, Type::kFloat, 1}, 3, 5, 6),
                    broadcast({"f32_32x32x2f32_0_0_1", 32, 2, 1, Type::kFloat, 1}, 0, 0, 1),
                    broadcast({"f32_16x16x4f32_0_0_3", 16, 4, 1, Type::kFloat, 1}, 0, 0, 3),
                    broadcast({"f32_32x32x4f16_1_1_2", 32, 4, 2, Type::kHalf, 4}, 1, 1, 2),
                    broadcast({"f32_16x16x16f16_0_0_4", 16, 16, 1, Type::kHalf, 4}, 0, 0, 4),
                    broadcast({"i32_16x16x4i8_2_1_5", 16, 4, 4, Type::kByte, 4}, 2, 1, 5),
                    broadcast({"f32_16x16x8bf16_0_0_7", 16, 8, 1, Type::kBfloat, 2}, 0, 0, 7)),
    [](const auto& info) { return std::string(info.param.kernel); });

class Matrix942Kernels : public MatrixKernels {
 protected:
  Matrix942Kernels() : MatrixKernels("matrix942.co", mi300x_small()) {}
};

TEST_P(Matrix942Kernels, SumProducts) { sums_products(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, Matrix942Kernels,
    testing::Values(Case{"f32_32x32x4f16", 32, 4, 2, Type::kHalf, 4},
                    Case{"f32_16x16x4f16", 16, 4, 4, Type::kHalf, 4},
                    Case{"f32_4x4x4f16", 4, 4, 16, Type::kHalf, 4},
                    Case{"f32_32x32x8f16", 32, 8, 1, Type::kHalf, 4},
                    Case{"f32_16x16x16f16", 16, 16, 1, Type::kHalf, 4},
                    Case{"f32_32x32x8bf16_1k", 32, 8, 1, Type::kBfloat, 4},
                    Case{"f32_16x16x16bf16_1k", 16, 16, 1, Type::kBfloat, 4},
                    Case{"i32_32x32x16_i8", 32, 16, 1, Type::kByte, 8},
                    Case{"i32_16x16x32_i8", 16, 32, 1, Type::kByte, 8},
                    Case{"f32_16x16x8_xf32", 16, 8, 1, Type::kFloat, 2},
                    Case{"f32_32x32x4_xf32", 32, 4, 1, Type::kFloat, 2},
                    Case{"f32_16x16x32_bf8_bf8", 16, 32, 1, Type::kBf8, 8},
                    Case{"f32_16x16x32_bf8_fp8", 16, 32, 1, Type::kBf8, 8, Type::kFp8},
                    Case{"f32_16x16x32_fp8_bf8", 16, 32, 1, Type::kFp8, 8, Type::kBf8},
                    Case{"f32_16x16x32_fp8_fp8", 16, 32, 1, Type::kFp8, 8},
                    Case{"f32_32x32x16_bf8_bf8", 32, 16, 1, Type::kBf8, 8},
                    Case{"f32_32x32x16_bf8_fp8", 32, 16, 1, Type::kBf8, 8, Type::kFp8},
                    Case{"f32_32x32x16_fp8_bf8", 32, 16, 1, Type::kFp8, 8, Type::kBf8},
                    Case{"f32_32x32x16_fp8_fp8", 32, 16, 1, Type::kFp8, 8}),
    [](const auto& info) { return std::string(info.param.kernel); });

class Broadcasts942 : public Matrix942Kernels {};

TEST_P(Broadcasts942, SumProducts) { sums_products(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, Broadcasts942,
    testing::Values(broadcast({"f32_32x32x1f32_1_1_2", 32, 1, 2, Type::kFloat, 1}, 1, 1, 2),
                    broadcast({"f32_4x4x4f16_4_9_5", 4, 4, 16, Type::kHalf, 4}, 4, 9, 5),
                    broadcast({"f32_16x16x4f32_0_0_3", 16, 4, 1, Type::kFloat, 1}, 0, 0, 3)),
    [](const auto& info) { return std::string(info.param.kernel); });

class SparseKernels : public Matrix942Kernels {
 protected:
  // A product of a row of A, which has two of each four k, and a column of B.
  double product(const Operand& a, const Operand& b, const std::vector<uint32_t>& index,
                 unsigned row, unsigned column) const {
    double sum = 0;
    for (unsigned k = 0; k < a.shape.depth; ++k) {
      const unsigned first = k / 2 * 4, lane = row + a.shape.size * (first / b.shape.items);
      const unsigned set = b.shape.cbsz ? 0 : b.shape.abid * b.shape.items;
      const unsigned shift = set + first % b.shape.items + k % 2 * 2;
      sum += double{a.at(0, row, k)} * double{b.at(0, column, first + (index[lane] >> shift & 3))};
    }
    return sum;
  }
};

TEST_P(SparseKernels, SumProducts) {
  Case of_b = GetParam(), of_a = of_b;
  of_b.type = of_b.type_of_b.value_or(of_b.type);
  of_a.depth /= 2, of_a.items /= 2;
  const Operand a = random(of_a), b = random(of_b);
  const bool floats = of_a.type != Type::kByte;
  std::vector<uint32_t> c(elements(of_b)), index(64);
  for (uint32_t i = 0; i < c.size(); ++i) c[i] = floats ? bits_of(static_cast<float>(i)) : i;
  for (uint32_t& word : index) word = engine_();
  put_all(kData + 0x30000, index);
  put<uint64_t>(kKernarg + 24, kData + 0x30000);
  const std::vector<uint32_t> d = multiply(a, b, c);
  for (unsigned row = 0; row < of_b.size; ++row) {
    for (unsigned column = 0; column < of_b.size; ++column) {
      const size_t at = place(of_b, 0, row, column);
      const double got = floats ? double{float_of(d[at])} : static_cast<int32_t>(d[at]);
      ASSERT_EQ(got, static_cast<double>(at) + product(a, b, index, row, column))
          << row << " " << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SparseKernels,
    testing::Values(Case{"f32_16x16x32_f16", 16, 32, 1, Type::kHalf, 8},
                    Case{"f32_32x32x16_f16", 32, 16, 1, Type::kHalf, 8},
                    Case{"f32_16x16x32_bf16", 16, 32, 1, Type::kBfloat, 8},
                    Case{"f32_32x32x16_bf16", 32, 16, 1, Type::kBfloat, 8},
                    Case{"i32_16x16x64_i8", 16, 64, 1, Type::kByte, 16},
                    Case{"i32_32x32x32_i8", 32, 32, 1, Type::kByte, 16},
                    Case{"f32_16x16x64_bf8_bf8", 16, 64, 1, Type::kBf8, 16},
                    Case{"f32_16x16x64_bf8_fp8", 16, 64, 1, Type::kBf8, 16, Type::kFp8},
                    Case{"f32_16x16x64_fp8_bf8", 16, 64, 1, Type::kFp8, 16, Type::kBf8},
                    Case{"f32_16x16x64_fp8_fp8", 16, 64, 1, Type::kFp8, 16},
                    Case{"f32_32x32x32_bf8_bf8", 32, 32, 1, Type::kBf8, 16},
                    Case{"f32_32x32x32_bf8_fp8", 32, 32, 1, Type::kBf8, 16, Type::kFp8},
                    Case{"f32_32x32x32_fp8_bf8", 32, 32, 1, Type::kFp8, 16, Type::kBf8},
                    Case{"f32_32x32x32_fp8_fp8", 32, 32, 1, Type::kFp8, 16},
                    broadcast({"f32_16x16x32_f16_0_3", 16, 32, 1, Type::kHalf, 8}, 0, 3, 0),
                    broadcast({"f32_16x16x32_f16_1_3", 16, 32, 1, Type::kHalf, 8}, 1, 3, 0),
                    broadcast({"i32_32x32x32_i8_0_1", 32, 32, 1, Type::kByte, 16}, 0, 1, 0)),
    [](const auto& info) { return std::string(info.param.kernel); });

// Doubles, with the same shapes in other places: a row of D is a register.
class DoubleKernels : public MatrixKernels {
 protected:
  using MatrixKernels::MatrixKernels;
  void sums_doubles(const Case& one);
};

TEST_P(DoubleKernels, SumProducts) { sums_doubles(GetParam()); }

class Double942Kernels : public DoubleKernels {
 protected:
  Double942Kernels() : DoubleKernels("matrix942.co", mi300x_small()) {}
};

TEST_P(Double942Kernels, SumProducts) { sums_doubles(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, Double942Kernels,
    testing::Values(broadcast({"f64_16x16x4f64_0_0_1", 16, 4, 1, Type::kFloat, 1}, 0, 0, 1),
                    broadcast({"f64_16x16x4f64_0_0_6", 16, 4, 1, Type::kFloat, 1}, 0, 0, 6),
                    broadcast({"f64_4x4x4f64_0_0_7", 4, 4, 4, Type::kFloat, 1}, 0, 0, 7)),
    [](const auto& info) { return std::string(info.param.kernel); });

void DoubleKernels::sums_doubles(const Case& one) {
  std::vector<double> a(64), b(64), c(elements(one));
  std::uniform_real_distribution<double> number(-1, 1);
  for (auto* values : {&a, &b, &c})
    for (double& value : *values) value = number(engine_);
  put_all(kData, a);
  put_all(kData + 0x10000, b);
  put_all(kData + 0x20000, c);
  arguments(kData, kData + 0x10000, kData + 0x20000);
  ASSERT_TRUE(runs(one.kernel, {.grid = {64, 1, 1}, .group = {64, 1, 1}}));
  const auto d = get_all<double>(kData + 0x20000, c.size());
  const auto lane = [&](unsigned block, unsigned row, unsigned k) {
    return row + one.size * (block + one.blocks * k);
  };
  const auto sign = [&](unsigned bit) { return one.blgp & bit ? -1.0 : 1.0; };
  for (unsigned block = 0; block < one.blocks; ++block) {
    for (unsigned row = 0; row < one.size; ++row) {
      for (unsigned column = 0; column < one.size; ++column) {
        const size_t at = one.blocks > 1 ? (row * one.blocks + block) * one.size + column
                                         : (column + row % 4 * 16) * 4 + row / 4;
        double sum = sign(4) * c[at];
        for (unsigned k = 0; k < 4; ++k)
          sum =
              std::fma(sign(1) * a[lane(block, row, k)], sign(2) * b[lane(block, column, k)], sum);
        ASSERT_EQ(d[at], sum) << block << " " << row << " " << column;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DoubleKernels,
                         testing::Values(Case{"f64_16x16x4f64", 16, 4, 1, Type::kFloat, 1},
                                         Case{"f64_4x4x4f64", 4, 4, 4, Type::kFloat, 1}),
                         [](const auto& info) { return std::string(info.param.kernel); });

// Row 0 of A times a column of ones.
template <typename Kernels>
class RoundingsOf : public Kernels {
 protected:
  float sum_of(const Case& one, std::vector<float> row, float start) {
    row.resize(size_t{one.size} * one.depth * one.blocks);
    const std::vector<float> ones(row.size(), 1.0f);
    const std::vector<uint32_t> c(this->elements(one), bits_of(start));
    return float_of(this->multiply({one, std::move(row)}, {one, ones}, c)[0]);
  }
};
class MatrixRoundings : public RoundingsOf<MatrixKernels> {};
class Matrix942Roundings : public RoundingsOf<Matrix942Kernels> {};

TEST_F(MatrixRoundings, FloatsAreAddedOneAfterTheOther) {
  const Case one = {"f32_16x16x4f32", 16, 4, 1, Type::kFloat, 1};
  EXPECT_EQ(sum_of(one, {0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f}, 1.0f), 1.0f);
  EXPECT_EQ(sum_of(one, {0x1p24f, 1.0f, 1.0f, -0x1p24f}, 0.0f), 0.0f);
}

TEST_F(MatrixRoundings, FourProductsOfHalvesAreAddedInPairsBeforeTheAccumulator) {
  const Case one = {"f32_16x16x16f16", 16, 16, 1, Type::kHalf, 4};
  // Added one after the other, each of these would be rounded away.
  EXPECT_EQ(sum_of(one, {0x1p-24f, 0x1p-14f, 0x1p-14f}, 0x1p10f), 0x1p10f + 0x1p-13f);
  EXPECT_EQ(sum_of(one, {0x1p-13f, 0x1p-13f, 0x1p-13f, 0x1p-13f}, 0x1p12f), 0x1p12f + 0x1p-11f);
}

TEST_F(MatrixRoundings, DenormalHalvesCountAsZero) {
  const Case one = {"f32_16x16x16f16", 16, 16, 1, Type::kHalf, 4};
  EXPECT_EQ(sum_of(one, {0x1p-20f}, 0.0f), 0.0f);
  EXPECT_EQ(sum_of(one, {0x1p-14f}, 0x1p-130f), 0x1p-14f);
}

constexpr Case kHalves = {"f32_16x16x16f16", 16, 16, 1, Type::kHalf, 4};

TEST_F(Matrix942Roundings, DenormalsCount) {
  EXPECT_EQ(sum_of(kHalves, {0x1p-20f}, 0.0f), 0x1p-20f);
  EXPECT_EQ(sum_of(kHalves, {}, 0x1p-130f), 0x1p-130f);
}

TEST_F(Matrix942Roundings, EightProductsAreAddedAtOnce) {
  // The small ones are not lost to a large one that another takes away.
  EXPECT_EQ(sum_of(kHalves, {0x1p15f, 0x1p-9f, 0, 0, 0, 0, 0, -0x1p15f}, 0.0f), 0x1p-9f);
  // Below 2^-24 of the largest they are.
  EXPECT_EQ(sum_of(kHalves, {0x1p15f, 0x1p-10f, 0, 0, 0, 0, 0, -0x1p15f}, 0.0f), 0.0f);
}

TEST_F(Matrix942Roundings, AnAccumulatorLosesBitsTowardMinusInfinity) {
  EXPECT_EQ(sum_of(kHalves, {1.0f}, -0x1p-30f), 1 - 0x1p-24f);
  EXPECT_EQ(sum_of(kHalves, {1.0f}, 0x1p-30f), 1.0f);
}

TEST_F(Matrix942Roundings, InfinitiesAndNansAreKept) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sum_of(kHalves, {kInfinity}, 1.0f), kInfinity);
  EXPECT_TRUE(std::isnan(sum_of(kHalves, {kInfinity, -kInfinity}, 1.0f)));
  EXPECT_EQ(sum_of(kHalves, {1.0f}, -kInfinity), -kInfinity);
  constexpr Case kBytes = {"f32_16x16x32_fp8_fp8", 16, 32, 1, Type::kFp8, 8};
  EXPECT_TRUE(std::isnan(sum_of(kBytes, {kInfinity}, 1.0f)));
}

TEST_F(Matrix942Roundings, ShortFloatsHaveElevenBits) {
  constexpr Case kShort = {"f32_16x16x8_xf32", 16, 8, 1, Type::kFloat, 2};
  EXPECT_EQ(sum_of(kShort, {1 + 0x1.fp-10f}, 0.0f), 1 + 0x1p-10f);
}

}  // namespace
}  // namespace gpu::test
