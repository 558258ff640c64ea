// SPDX-License-Identifier: GPL-2.0
// Compiled kernels, dispatched through an AQL queue, compared with the same computation on the CPU.
#include <gmock/gmock.h>

#include <numeric>

#include "shader/basic_kernels.h"

namespace gpu::test {
namespace {

TEST_P(BasicKernels, AddVectorsUpToTheirEnd) {
  const uint32_t n = 1000;
  const auto a = random<float>(n, -1, 1), b = random<float>(n, -1, 1);
  put_all(kData, a);
  put_all(kData + 0x10000, b);
  put<uint32_t>(kData + 0x20000 + 4 * n, 0xabcdef01);
  arguments(kData, kData + 0x10000, kData + 0x20000, n);
  ASSERT_TRUE(runs("vector_add", {.grid = {1024, 1, 1}, .group = {256, 1, 1}}));
  const auto out = get_all<float>(kData + 0x20000, n);
  for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(out[i], a[i] + b[i]) << i;
  EXPECT_EQ(get<uint32_t>(kData + 0x20000 + 4 * n), 0xabcdef01u);
  EXPECT_EQ(gpu_.rptr(queue_), 1u);
}

TEST_P(BasicKernels, ReduceThroughLdsAndBarriers) {
  const uint32_t n = 5000, groups = 5;
  const auto in = random<uint32_t>(n, 0, ~0u);
  put_all(kData, in);
  arguments(kData, kData + 0x10000, n);
  ASSERT_TRUE(runs("reduce", {.grid = {groups * 256, 1, 1}, .group = {256, 1, 1}}));
  const auto out = get_all<uint32_t>(kData + 0x10000, groups);
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0u), std::accumulate(in.begin(), in.end(), 0u));
  EXPECT_EQ(out[1], std::accumulate(in.begin() + 1024, in.begin() + 2048, 0u));
}

TEST_P(BasicKernels, MultiplyMatricesInTwoDimensions) {
  const uint32_t n = 32;
  const auto a = random<float>(n * n, -1, 1), b = random<float>(n * n, -1, 1);
  put_all(kData, a);
  put_all(kData + 0x10000, b);
  arguments(kData, kData + 0x10000, kData + 0x20000, n);
  ASSERT_TRUE(runs("matrix_multiply", {.grid = {n, n, 1}, .group = {16, 16, 1}, .dimensions = 2}));
  const auto c = get_all<float>(kData + 0x20000, n * n);
  for (uint32_t row = 0; row < n; ++row) {
    for (uint32_t col = 0; col < n; ++col) {
      float sum = 0;
      for (uint32_t k = 0; k < n; ++k) sum = std::fma(a[row * n + k], b[k * n + col], sum);
      ASSERT_EQ(c[row * n + col], sum) << row << "," << col;
    }
  }
}

TEST_P(BasicKernels, CountWithAtomics) {
  const uint32_t n = 3000;
  const auto in = random<uint8_t>(n, 0, 255);
  put_all(kData, in);
  arguments(kData, kData + 0x10000, n);
  ASSERT_TRUE(runs("histogram", {.grid = {1024, 1, 1}, .group = {256, 1, 1}}));
  std::vector<uint32_t> expected(256);
  for (const uint8_t value : in) ++expected[value];
  EXPECT_EQ(get_all<uint32_t>(kData + 0x10000, 256), expected);
}

TEST_P(BasicKernels, ComputePhilox) {
  const uint32_t n = 512;
  arguments(kData, uint32_t{0xcafe}, uint32_t{0xf00d});
  ASSERT_TRUE(runs("philox", {.grid = {n, 1, 1}, .group = {256, 1, 1}}));
  const auto out = get_all<std::array<uint32_t, 4>>(kData, n);
  for (uint32_t i = 0; i < n; ++i) {
    std::array<uint32_t, 4> c = {i, 0, 0, 0};
    uint32_t key0 = 0xcafe, key1 = 0xf00d;
    for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9, key1 += 0xbb67ae85) {
      const uint64_t p0 = uint64_t{0xd2511f53} * c[0], p1 = uint64_t{0xcd9e8d57} * c[2];
      c = {high32(p1) ^ c[1] ^ key0, low32(p1), high32(p0) ^ c[3] ^ key1, low32(p0)};
    }
    ASSERT_EQ(out[i], c) << i;
  }
}

TEST_P(BasicKernels, UsePrivateMemory) {
  give_scratch(128, 64);
  const auto in = random<uint32_t>(512, 0, 100000);
  put_all(kData, in);
  arguments(kData, uint32_t{40});
  ASSERT_TRUE(runs("private_memory", {.grid = {512, 1, 1}, .group = {256, 1, 1}}));
  const auto out = get_all<uint32_t>(kData, in.size());
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], private_sum(in[i], 40)) << i;
}

TEST_P(BasicKernels, UsePrivateMemoryAtNegativeOffsets) {
  give_scratch(256, 64);
  const auto in = random<uint32_t>(256, 0, 100000);
  put_all(kData, in);
  arguments(kData);
  ASSERT_TRUE(runs("private_below", {.grid = {256, 1, 1}, .group = {256, 1, 1}}));
  const auto out = get_all<uint32_t>(kData, in.size());
  for (uint32_t i = 0; i < in.size(); ++i) {
    uint32_t sum = 0;
    for (uint32_t k = 2; k < 30; ++k) sum = sum * 31 + in[i] + k + (i >> 1 & 2);
    ASSERT_EQ(out[i], sum) << i;
  }
}

TEST_P(BasicKernels, WaitForScratchThatTheRuntimeGives) {
  put<uint64_t>(kErrorSignal + aql::kSignalMailbox, 0x9000);
  put<uint32_t>(kErrorSignal + aql::kSignalEventId, 12);
  put<uint32_t>(kData, 5);
  arguments(kData, uint32_t{3});
  const uint64_t object = object_of("private_memory");
  submit(object,
         {.grid = {1, 1, 1}, .group = {64, 1, 1}, .private_size = get<uint32_t>(object + 4)});
  const uint64_t wanted = GetParam().lanes == 32 ? aql::kNeedsScratch32 : aql::kNeedsScratch;
  const auto asked = [&] { return get<uint64_t>(kErrorSignal + aql::kSignalValue) == wanted; };
  ASSERT_TRUE(FakeGpu::eventually(asked));
  EXPECT_TRUE(FakeGpu::eventually([&] { return gpu_.interrupts.count(181) == 1; }));
  // Also a preemption in between does not lose the packet.
  EXPECT_TRUE(gpu_.preempt());
  give_scratch(128, 16);
  map();
  EXPECT_EQ(get<uint64_t>(kSignal + aql::kSignalValue), 1u);
  put<uint64_t>(kErrorSignal + aql::kSignalValue, 0);
  ASSERT_TRUE(completes());
  EXPECT_EQ(get<uint32_t>(kData), private_sum(5, 3));
}

TEST_P(BasicKernels, ScratchForOneDispatchIsGivenBack) {
  give_scratch(128, 16);
  put<uint32_t>(queue_.rptr + aql::kQueueProperties, aql::kUseScratchOnce);
  arguments(kData, uint32_t{3});
  const uint64_t object = object_of("private_memory");
  submit(object, {.grid = {1, 1, 1}, .group = {64, 1, 1}, .private_size = 128});
  ASSERT_TRUE(completes());
  const auto said = [&] { return get<uint64_t>(kErrorSignal + aql::kSignalValue) == 512; };
  EXPECT_TRUE(FakeGpu::eventually(said));
  submit(object, {.grid = {1, 1, 1}, .group = {64, 1, 1}, .private_size = 128});
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(get<uint64_t>(kSignal + aql::kSignalValue), 1u);
  put<uint32_t>(queue_.rptr + aql::kQueueProperties, 0);
  EXPECT_TRUE(completes());
}

INSTANTIATE_TEST_SUITE_P(Gfx9, BasicKernels, kMi210, name_of_chip);
INSTANTIATE_TEST_SUITE_P(Gfx11, BasicKernels, kNavi31, name_of_chip);

class NumberKernels : public KernelTest {
 protected:
  static constexpr uint64_t kB = kData + 0x40000, kOut = kData + 0x80000;
  NumberKernels() : KernelTest("numbers.co") {}
  template <typename T>
  void run_on(const std::string& kernel, const std::vector<T>& a, const std::vector<T>& b) {
    put_all(kData, a);
    put_all(kB, b);
    arguments(kData, kB, kOut);
    const auto count = static_cast<uint32_t>(a.size());
    ASSERT_TRUE(runs(kernel, {.grid = {count, 1, 1}, .group = {64, 1, 1}}));
  }
  // Patterns of bits, so that every exponent, denormals, infinities and NaNs occur.
  template <typename T, typename Raw>
  std::vector<T> patterns(size_t count) {
    std::vector<T> values;
    for (const Raw special : {Raw{0}, Raw{1}, Raw(Raw{1} << (8 * sizeof(T) - 1))}) {
      values.push_back(std::bit_cast<T>(special));
    }
    for (const T special : {T(1), T(-1), std::numeric_limits<T>::infinity(),
                            std::numeric_limits<T>::max(), std::numeric_limits<T>::min()}) {
      values.push_back(special);
    }
    while (values.size() < count) {
      values.push_back(std::bit_cast<T>(static_cast<Raw>(engine_())));
    }
    std::shuffle(values.begin(), values.end(), engine_);
    return values;
  }
  std::mt19937_64 engine_{2};
};

template <typename T>
bool same(T a, T b) {
  return (a != a && b != b) || std::memcmp(&a, &b, sizeof(T)) == 0;
}

TEST_F(NumberKernels, DivideAndRootsRoundAsTheHostDoes) {
  const auto a = patterns<float, uint32_t>(4096), b = patterns<float, uint32_t>(4096);
  run_on("floats", a, b);
  const auto out = get_all<std::array<float, 8>>(kOut, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = a[i], y = b[i];
    ASSERT_TRUE(same(out[i][0], x / y)) << x << " / " << y << " gives " << out[i][0];
    ASSERT_TRUE(same(out[i][1], std::sqrt(std::fabs(x)))) << x << " gives " << out[i][1];
    if (x == x && y == y) {
      ASSERT_EQ(out[i][2], std::fmin(x, y)) << x << " " << y;
      ASSERT_EQ(out[i][3], std::fmax(x, -y)) << x << " " << y;
    }
    ASSERT_TRUE(same(out[i][6], std::ldexp(x, static_cast<int>(i) - 30))) << x << " " << i;
    if (std::fabs(x) < 1e6f && std::fabs(y) < 1e6f) {
      const float integral = static_cast<float>(static_cast<int>(x));
      ASSERT_EQ(out[i][4], integral + std::floor(y) + std::nearbyint(x) + std::trunc(y));
      ASSERT_EQ(out[i][5], static_cast<float>(static_cast<uint32_t>(std::fabs(y))) - std::ceil(x));
    }
    const auto half = [](float value) { return static_cast<_Float16>(value); };
    const auto product = static_cast<_Float16>(half(y) * half(x));
    const float expected = static_cast<float>(half(x)) + static_cast<float>(product);
    ASSERT_TRUE(same(out[i][7], expected)) << x << " " << y << " " << out[i][7];
  }
}

// softgpu writes it at its exit. It shows which results hardware gives bit for bit.
TEST_F(NumberKernels, AReportNamesTheOpcodesThatAreNotExact) {
  run_on("floats", patterns<float, uint32_t>(64), patterns<float, uint32_t>(64));
  const std::string report = gpu_.engines->report();
  EXPECT_THAT(report, testing::ContainsRegex("[0-9]+ opcodes of compute kernels: [0-9]+ exact"));
  EXPECT_THAT(report, testing::ContainsRegex("within the documented error:.* v_rcp_f32"));
  EXPECT_THAT(report, testing::ContainsRegex("approximate:\n"));
}

TEST_F(NumberKernels, DoublesRoundAsTheHostDoes) {
  const auto a = patterns<double, uint64_t>(2048), b = patterns<double, uint64_t>(2048);
  run_on("doubles", a, b);
  const auto out = get_all<std::array<double, 4>>(kOut, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    // A quotient that is denormal may be rounded twice (numbers.h).
    if (std::fpclassify(x / y) != FP_SUBNORMAL) {
      ASSERT_TRUE(same(out[i][0], x / y)) << x << " / " << y << " gives " << out[i][0];
    }
    double sum = 0;
    for (int k = 0; k < 5; ++k) sum = std::fma(x, y, sum) - x;
    ASSERT_TRUE(same(out[i][1], sum)) << x << " " << y;
    ASSERT_TRUE(same(out[i][2], std::sqrt(x < 0 ? -x : x))) << x << " gives " << out[i][2];
    if (std::fabs(x) < 1e9) {
      const double expected = x < y ? static_cast<double>(static_cast<int>(x))
                                    : static_cast<double>(static_cast<float>(y));
      ASSERT_TRUE(same(out[i][3], expected)) << x << " " << y;
    }
  }
}

TEST_F(NumberKernels, IntegersOfEveryWidth) {
  auto a = patterns<int32_t, uint32_t>(512), b = patterns<int32_t, uint32_t>(512);
  for (size_t i = 0; i < b.size(); i += 5) b[i] >>= 20;
  run_on("integers", a, b);
  const auto out = get_all<std::array<int64_t, 8>>(kOut, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const int32_t x = a[i], y = b[i];
    const auto ux = static_cast<uint32_t>(x), uy = static_cast<uint32_t>(y);
    ASSERT_EQ(out[i][0], int64_t{x} * y);
    if (y && !(x == INT32_MIN && y == -1)) {
      ASSERT_EQ(out[i][1], x / y) << x << " " << y;
    }
    ASSERT_EQ(out[i][2], uy ? ux % uy : 0);
    const auto left = static_cast<int64_t>(static_cast<uint64_t>(int64_t{x}) << (y & 63));
    const auto logical = static_cast<int64_t>(static_cast<uint64_t>(int64_t{x}) >> (y & 31));
    ASSERT_EQ(out[i][3], left ^ (int64_t{y} >> (x & 63)) ^ logical);
    ASSERT_EQ(out[i][4], std::popcount(ux) + (ux ? std::countl_zero(ux) : 99) +
                             (uy ? std::countr_zero(uy) : 99));
    ASSERT_EQ(static_cast<uint32_t>(out[i][5]),
              static_cast<uint32_t>(std::min(x, y)) - std::max(ux, uy));
    const uint64_t parts = ((ux & 0xffffff) * (uy & 0xffffff) + 7) |
                           uint64_t{static_cast<uint16_t>(ux + uy)} << 40 |
                           uint64_t{static_cast<uint8_t>(ux >> 3)} << 32;
    ASSERT_EQ(static_cast<uint64_t>(out[i][6]), parts);
    const uint64_t wide = join(uy, ux);
    ASSERT_EQ(static_cast<uint64_t>(out[i][7]), wide / (uy | 3) + wide % 1000003);
  }
}

// The part of a word that starts at that bit.
int32_t part(uint32_t value, unsigned shift, unsigned width) {
  return static_cast<int32_t>(value << (32 - width - shift)) >> (32 - width);
}
uint32_t unsigned_part(uint32_t value, unsigned shift, unsigned width) {
  return value << (32 - width - shift) >> (32 - width);
}

TEST_F(NumberKernels, DotProductsAreExact) {
  const auto a = patterns<uint32_t, uint32_t>(512), b = patterns<uint32_t, uint32_t>(512);
  run_on("narrow", a, b);
  const auto out = get_all<std::array<uint32_t, 12>>(kOut, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i];
    std::array<int64_t, 4> sums = {x, y, x, x};
    for (unsigned at = 0; at < 32; at += 16) {
      sums[0] += int64_t{part(x, at, 16)} * part(y, at, 16);
      sums[1] += int64_t{unsigned_part(x, at, 16)} * unsigned_part(y, at, 16);
    }
    for (unsigned at = 0; at < 32; at += 4) {
      sums[2] += int64_t{part(x, at, 4)} * part(y, at, 4);
      sums[3] += int64_t{unsigned_part(x, at, 4)} * unsigned_part(y, at, 4);
    }
    for (size_t k = 0; k < sums.size(); ++k) {
      ASSERT_EQ(out[i][k], static_cast<uint32_t>(sums[k])) << std::hex << x << " " << y << " " << k;
    }
  }
}

TEST_F(NumberKernels, NarrowedNumbers) {
  auto a = patterns<uint32_t, uint32_t>(512), b = patterns<uint32_t, uint32_t>(512);
  for (size_t i = 0; i < a.size(); i += 3)
    a[i] = std::bit_cast<uint32_t>(0.3f * static_cast<float>(i));
  for (size_t i = 0; i < b.size(); i += 4) b[i] %= 100000;
  run_on("narrow", a, b);
  const auto out = get_all<std::array<uint32_t, 12>>(kOut, a.size());
  const auto narrowed = [](uint32_t value) {
    return static_cast<uint16_t>(std::clamp<int32_t>(static_cast<int32_t>(value), -32768, 32767));
  };
  for (size_t i = 0; i < a.size(); ++i) {
    const uint32_t x = a[i], y = b[i];
    EXPECT_EQ(out[i][5], narrowed(x) | uint32_t{narrowed(y)} << 16);
    EXPECT_EQ(out[i][6], std::min(x, 0xffffu) | std::min(y, 0xffffu) << 16);
    const auto toward_zero = static_cast<float>(std::bit_cast<float>(x));
    const float half = shader::half_to_float(out[i][4] & 0xffff);
    if (std::isfinite(toward_zero)) {
      const float next = shader::half_to_float((out[i][4] & 0x7fff) + 1);
      EXPECT_LE(std::fabs(half), std::fabs(toward_zero));
      EXPECT_TRUE(std::isinf(next) || next > std::fabs(toward_zero)) << toward_zero;
    }
    const std::array<int32_t, 3> three = {part(x, 0, 16), part(y, 0, 16), part(x, 16, 16)};
    EXPECT_EQ(part(out[i][11], 0, 16), std::ranges::max(three));
    std::array<uint32_t, 3> sorted = {x & 0xffff, y & 0xffff, x >> 16};
    std::ranges::sort(sorted);
    EXPECT_EQ(out[i][11] >> 16, sorted[1]);
  }
}

TEST_F(NumberKernels, HalvesOfEveryKind) {
  std::vector<uint32_t> a, b;
  for (uint32_t i = 0; i < 1 << 16; i += 16) a.push_back(i + i % 7);
  for (uint32_t i = 0; i < a.size(); ++i) b.push_back(a[i * 1009 % a.size()]);
  run_on("narrow", a, b);
  const auto out = get_all<std::array<uint32_t, 12>>(kOut, a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = shader::half_to_float(a[i]), y = shader::half_to_float(b[i]);
    const float quotient = shader::half_to_float(out[i][7]);
    ASSERT_TRUE(same(quotient, shader::half_to_float(shader::to_half(double{x} / y))))
        << x << " / " << y << " gives " << quotient;
    if (!std::isfinite(x)) continue;
    int exponent = 0;
    ASSERT_EQ(shader::half_to_float(out[i][9]), std::frexp(x, &exponent)) << x;
    ASSERT_EQ(static_cast<int16_t>(out[i][10]), exponent) << x;
    const float fract = shader::half_to_float(out[i][8]);
    ASSERT_GE(fract, 0) << x;
    ASSERT_LT(fract, 1) << x;
    ASSERT_EQ(fract,
              shader::half_to_float(shader::to_half(std::min(x - std::floor(x), 0x1.ffcp-1f))));
  }
}

TEST_F(NumberKernels, LanesExchange) {
  const auto in = patterns<uint32_t, uint32_t>(64);
  put_all(kData, in);
  arguments(kData, kOut);
  ASSERT_TRUE(runs("lanes", {.grid = {64, 1, 1}, .group = {64, 1, 1}}));
  const auto out = get_all<uint32_t>(kOut, 384);
  uint64_t vote = 0;
  for (unsigned i = 0; i < 64; ++i) vote |= uint64_t{in[i] > 0x80000000} << i;
  for (unsigned i = 0; i < 64; ++i) {
    EXPECT_EQ(out[i], in[(i * 7 + 3) % 64]) << i;
    EXPECT_EQ(out[64 + i], in[0] + in[17]);
    EXPECT_EQ(out[128 + i], low32(vote) ^ high32(vote));
    EXPECT_EQ(out[192 + i], i);
    EXPECT_EQ(out[256 + i], i % 16 ? in[i - 1] : 0) << i;
    EXPECT_EQ(out[320 + i], in[i ^ 1]) << i;
  }
}

}  // namespace
}  // namespace gpu::test
