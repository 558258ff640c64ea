// SPDX-License-Identifier: GPL-2.0
// Samplers, against the formulas of the OpenCL C specification, chapter 8.2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "shader/image_words.h"

namespace gpu::test {
namespace {

using ::testing::HasSubstr;

using Floats = std::array<float, 4>;
enum Clamp : uint32_t { kRepeat = 0, kMirror = 1, kEdge = 2, kHalfBorder = 4, kBorder = 6 };

struct SamplerWords {
  uint32_t clamp = kEdge;
  bool linear = false, unnormalized = false, truncates = false;
  uint32_t border = 0, minifying = ~0u, reduction = 0;

  std::array<uint32_t, 4> words() const {
    const uint32_t filter = linear ? 1 : 0;
    return {clamp | clamp << 3 | clamp << 6 | uint32_t{unnormalized} << 15 |
                uint32_t{truncates} << 27 | reduction << 29,
            4095u << 12, filter << 20 | (minifying == ~0u ? filter : minifying) << 22,
            border << 30};
  }
};

// The texels of an axis and the weight of the second. Those of the border are outside of the image.
struct Axis {
  std::array<int, 2> at;
  double weight = 0;
};

// At the edge between two texels, the one that begins there, even if it is mirrored.
Axis nearest(uint32_t clamp, double coordinate, int size) {
  const double texels = std::floor(coordinate) + 0.5;
  const double s = texels / size;
  int at = static_cast<int>(std::floor(texels));
  if (clamp == kRepeat) {
    at = static_cast<int>(std::floor((s - std::floor(s)) * size));
    if (at > size - 1) at -= size;
  } else if (clamp == kMirror) {
    at = std::min(static_cast<int>(std::floor(std::fabs(s - 2 * std::rint(s / 2)) * size)),
                  size - 1);
  } else if (clamp == kEdge) {
    at = std::min(std::max(at, 0), size - 1);
  }
  return {{at, at}};
}

Axis between(uint32_t clamp, double texels, int size) {
  const double s = texels / size;
  if (clamp == kRepeat) texels = (s - std::floor(s)) * size;
  if (clamp == kMirror) texels = std::fabs(s - 2 * std::rint(s / 2)) * size;
  int first = static_cast<int>(std::floor(texels - 0.5)), second = first + 1;
  const double weight = texels - 0.5 - std::floor(texels - 0.5);
  if (clamp == kRepeat) {
    if (first < 0) first += size;
    if (second > size - 1) second -= size;
  } else if (clamp != kBorder) {
    first = std::min(std::max(first, 0), size - 1);
    second = std::min(std::max(second, 0), size - 1);
  }
  return {{first, second}, weight};
}

class Samplers : public ::testing::TestWithParam<Isa> {
 protected:
  static constexpr size_t kSize = 1 << 16;
  static constexpr uint32_t kCount = 64;

  // Texels are small numbers, so that sums are exact.
  Samplers() {
    for (float& value : texels_) value = static_cast<float>(engine_() % 1024);
    gpu_.put(kImage, texels_);
  }
  Dispatch::State state(const std::string& kernel, const ImageWords& image,
                        const SamplerWords& sampler, const std::vector<Floats>& at) {
    gpu_.put(kB, at);
    gpu_.arguments(image.words(GetParam()), sampler.words(), kB, kOut);
    return gpu_.run(kernel, 1, {kCount, 1, 1});
  }
  std::vector<Floats> sample(const ImageWords& image, const SamplerWords& sampler,
                             const std::vector<Floats>& at) {
    EXPECT_EQ(state("sample_" + image.name(), image, sampler, at), Dispatch::State::kDone)
        << gpu_.complaint();
    return gpu_.get<Floats>(kOut, kCount);
  }
  // The border is 0.
  double texel(const ImageWords& image, const std::array<int, 3>& at) const {
    std::array<uint32_t, 4> place = {};
    for (unsigned i = 0; i < 3; ++i) place[i] = static_cast<uint32_t>(at[i]);
    const auto offset = image.offset(place);
    return offset ? double{texels_[*offset / 4]} : 0;
  }
  // texels: coordinates in texels, and a layer.
  double expected(const ImageWords& image, const SamplerWords& sampler,
                  const std::array<double, 3>& texels) const {
    const unsigned axes = image.type == ImageWords::k3d ? 3 : image.name()[0] - '0';
    std::array<Axis, 3> axis = {};
    for (unsigned i = 0; i < axes; ++i) {
      const int size = static_cast<int>(image.size_of_coordinate(i));
      axis[i] = (sampler.linear ? between : nearest)(sampler.clamp, texels[i], size);
    }
    double sum = 0;
    for (unsigned corner = 0; corner < 1u << axes; ++corner) {
      std::array<int, 3> at = {};
      double weight = 1;
      for (unsigned i = 0; i < axes; ++i) {
        at[i] = axis[i].at[corner >> i & 1];
        weight *= corner >> i & 1 ? axis[i].weight : 1 - axis[i].weight;
      }
      if (image.is_array()) {
        const double layer = std::min(std::max(std::rint(texels[axes]), 0.0), image.depth - 1.0);
        at[axes] = static_cast<int>(layer);
      }
      sum += weight * texel(image, at);
    }
    return sum;
  }

  std::mt19937 engine_{9};
  Machine gpu_{"images.co", GetParam()};
  std::vector<float> texels_ = std::vector<float>(kSize / 4);
};

INSTANTIATE_TEST_SUITE_P(Of, Samplers, ::testing::Values(Isa::kGfx90a, Isa::kGfx1100),
                         [](const auto& info) { return name_of(info.param); });

constexpr FormatCodes kR32Float = {
    .data = 4, .num = 7, .unified = 22, .bytes = 4, .select = 4 | 1 << 9};

// Sizes are powers of two, so that normalized coordinates are exact.
const ImageWords kSampled[] = {
    {.type = ImageWords::k1d, .width = 32, .format = kR32Float},
    {.type = ImageWords::k2d, .width = 16, .height = 8, .format = kR32Float},
    {.type = ImageWords::k3d, .width = 8, .height = 4, .depth = 16, .format = kR32Float},
    {.type = ImageWords::k1dArray, .width = 16, .depth = 5, .format = kR32Float},
    {.type = ImageWords::k2dArray, .width = 8, .height = 16, .depth = 3, .format = kR32Float},
};

TEST_P(Samplers, FollowTheFormulasOfOpencl) {
  for (const ImageWords& image : kSampled) {
    for (const uint32_t clamp : {kRepeat, kMirror, kEdge, kBorder}) {
      for (unsigned how = 0; how < 4; ++how) {
        const SamplerWords sampler = {
            .clamp = clamp, .linear = (how & 1) != 0, .unnormalized = (how & 2) != 0};
        const unsigned axes = image.type == ImageWords::k3d ? 3 : image.name()[0] - '0';
        std::vector<std::array<double, 3>> texels(kCount);
        std::vector<Floats> at(kCount);
        for (uint32_t lane = 0; lane < kCount; ++lane) {
          for (unsigned i = 0; i < 3; ++i) {
            const double size = image.size_of_coordinate(i);
            const double steps = std::floor((engine_() % 4096 / 1024.0 - 1.5) * size * 64);
            texels[lane][i] = steps / 64;
            const bool normalized = !sampler.unnormalized && i < axes;
            at[lane][i] = static_cast<float>(texels[lane][i] / (normalized ? size : 1));
          }
        }
        const auto out = sample(image, sampler, at);
        for (uint32_t lane = 0; lane < kCount; ++lane) {
          ASSERT_EQ(out[lane],
                    (Floats{static_cast<float>(expected(image, sampler, texels[lane])), 0, 0, 1}))
              << image.name() << " clamp " << clamp << " how " << how << " at " << texels[lane][0];
        }
      }
    }
  }
}

// 8 bits behind the point are left of a coordinate.
TEST_P(Samplers, RoundCoordinatesUnlessTheyTruncate) {
  const float nearly = 4 - 1.0f / 1024;
  const std::vector<Floats> at(kCount, Floats{nearly, 0, 0, 0});
  for (const bool truncates : {false, true}) {
    const auto out = sample(kSampled[1], {.unnormalized = true, .truncates = truncates}, at);
    EXPECT_EQ(out[0][0], texel(kSampled[1], {truncates ? 3 : 4, 0, 0}));
  }
}

TEST_P(Samplers, TakeOddNumbersForSomePlace) {
  std::vector<Floats> at(kCount, Floats{INFINITY, 1, 0, 0});
  at[1][0] = -INFINITY;
  at[2][0] = NAN;
  const auto out = sample(kSampled[1], {.unnormalized = true}, at);
  EXPECT_EQ(out[0][0], texel(kSampled[1], {15, 1, 0}));
  EXPECT_EQ(out[1][0], texel(kSampled[1], {0, 1, 0}));
  EXPECT_EQ(out[2][0], texel(kSampled[1], {0, 1, 0}));
}

TEST_P(Samplers, HaveBordersOfThreeColors) {
  ImageWords image = kSampled[1];
  const std::vector<Floats> at(kCount, Floats{-1, 1, 0, 0});
  const Floats kColors[] = {{0, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 1}};
  image.format = {.data = 10, .num = 0, .unified = 42, .bytes = 4, .select = kXyzw};
  for (uint32_t border = 0; border < 3; ++border) {
    const auto out = sample(image, {.clamp = kBorder, .border = border}, at);
    EXPECT_EQ(out[0], kColors[border]);
  }
}

TEST_P(Samplers, ThatAreNotModelledAreNamed) {
  const std::vector<Floats> at(kCount);
  ImageWords integers = kSampled[1];
  integers.format.num = 4;
  integers.format.unified = 20;
  const std::pair<ImageWords, SamplerWords> cases[] = {
      {kSampled[1], {.clamp = kHalfBorder}}, {kSampled[1], {.clamp = kBorder, .border = 3}},
      {kSampled[1], {.minifying = 1}},       {kSampled[1], {.reduction = 1}},
      {integers, {.linear = true}},
  };
  for (const auto& [image, sampler] : cases) {
    EXPECT_EQ(state("sample_2d", image, sampler, at), Dispatch::State::kIllegal);
    EXPECT_THAT(gpu_.complaint(), HasSubstr("image_sample with such a sampler is not modelled"));
  }
}

class Gfx11Samplers : public Samplers {};
INSTANTIATE_TEST_SUITE_P(Of, Gfx11Samplers, ::testing::Values(Isa::kGfx1100),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Gfx11Samplers, HaveOperandsInAnyRegisters) {
  std::vector<Floats> at(kCount);
  for (uint32_t i = 0; i < kCount; ++i)
    at[i] = {static_cast<float>(i % 16) / 16, static_cast<float>(i / 16) / 8, 0, 0};
  const ImageWords& image = kSampled[1];
  ASSERT_EQ(state("sample_variants", image, {}, at), Dispatch::State::kDone) << gpu_.complaint();
  const auto out = gpu_.get<Floats>(kOut, 3 * kCount);
  for (int i = 0; i < static_cast<int>(kCount); ++i) {
    for (int k = 0; k < 3; ++k)
      EXPECT_EQ(out[3 * i + k][0], texel(image, {i % 16, i / 16, 0})) << i << " " << k;
  }
}

// Of texels with two components, as floats.
TEST_P(Gfx11Samplers, GatherAComponentOfFourTexels) {
  ImageWords image = {.type = ImageWords::k2d, .width = 16, .height = 8, .format = {}};
  image.format = {.data = 11, .num = 7, .unified = 50, .bytes = 8, .select = 4 | 5 << 3};
  std::vector<Floats> at(kCount);
  for (uint32_t i = 0; i < kCount; ++i)
    at[i] = {static_cast<float>(i % 16) + 1, static_cast<float>(i / 16) + 1, 0, 0};
  ASSERT_EQ(state("gather", image, {.clamp = kEdge, .unnormalized = true}, at),
            Dispatch::State::kDone)
      << gpu_.complaint();
  const auto out = gpu_.get<Floats>(kOut, kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto second = [&](uint32_t x, uint32_t y) {
      return texels_[*image.offset({std::min(x, 15u), y}) / 4 + 1];
    };
    const uint32_t x = i % 16, y = i / 16;
    const Floats expected = {second(x, y + 1), second(x + 1, y + 1), second(x + 1, y),
                             second(x, y)};
    EXPECT_EQ(out[i], expected) << i;
  }
}

TEST_P(Gfx11Samplers, LoadsHaveCoordinatesInAnyRegisters) {
  std::vector<std::array<uint32_t, 4>> at(kCount);
  for (uint32_t i = 0; i < kCount; ++i) at[i] = {i % 8, i / 8 % 4, i / 32};
  gpu_.put(kB, at);
  const ImageWords& image = kSampled[2];
  gpu_.arguments(image.words(GetParam()), kB, kOut);
  ASSERT_EQ(gpu_.run("load_apart", 1, {kCount, 1, 1}), Dispatch::State::kDone) << gpu_.complaint();
  const auto out = gpu_.get<Floats>(kOut, kCount);
  for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i][0], texels_[*image.offset(at[i]) / 4]);
}

}  // namespace
}  // namespace gpu::test
