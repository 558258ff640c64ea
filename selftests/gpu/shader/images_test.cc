// SPDX-License-Identifier: GPL-2.0
// Images against references on the CPU, on both instruction sets that have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "shader/image_words.h"

namespace gpu::test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Texel = std::array<uint32_t, 4>;

uint32_t of_float(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }
float as_float(uint32_t word) { return std::bit_cast<float>(word); }

// What a format has in memory.
struct Format {
  const char* name;
  FormatCodes codes;
  Texel (*load)(const uint8_t*);
  // None: it cannot be stored.
  void (*store)(const Texel&, uint8_t*);
};

constexpr uint32_t kOneF = 0x3f800000;

template <typename T>
T number(const uint8_t* at, unsigned i = 0) {
  T value;
  std::memcpy(&value, at + i * sizeof(T), sizeof(T));
  return value;
}
uint8_t unorm8(uint32_t component) {
  const double value = double{as_float(component)};
  return static_cast<uint8_t>(std::lrint(std::min(std::max(value, 0.0), 1.0) * 255));
}
double linear(uint8_t byte) {
  const double value = byte / 255.0;
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

const Format kFormats[] = {
    {"Rgba8Unorm",
     {.data = 10, .num = 0, .unified = 42, .bytes = 4, .select = kXyzw},
     [](const uint8_t* at) -> Texel {
       return {of_float(at[0] / 255.0), of_float(at[1] / 255.0), of_float(at[2] / 255.0),
               of_float(at[3] / 255.0)};
     },
     [](const Texel& in, uint8_t* at) {
       for (unsigned i = 0; i < 4; ++i) at[i] = unorm8(in[i]);
     }},
    {"Bgra8Unorm",
     {.data = 10, .num = 0, .unified = 42, .bytes = 4, .select = 6 | 5 << 3 | 4 << 6 | 7 << 9},
     [](const uint8_t* at) -> Texel {
       return {of_float(at[2] / 255.0), of_float(at[1] / 255.0), of_float(at[0] / 255.0),
               of_float(at[3] / 255.0)};
     },
     [](const Texel& in, uint8_t* at) {
       at[2] = unorm8(in[0]), at[1] = unorm8(in[1]), at[0] = unorm8(in[2]), at[3] = unorm8(in[3]);
     }},
    {"A8Unorm",
     {.data = 1, .num = 0, .unified = 1, .bytes = 1, .select = 4 << 9},
     [](const uint8_t* at) -> Texel { return {0, 0, 0, of_float(at[0] / 255.0)}; },
     [](const Texel& in, uint8_t* at) { at[0] = unorm8(in[3]); }},
    {"Rg16Snorm",
     {.data = 5, .num = 1, .unified = 24, .bytes = 4, .select = 4 | 5 << 3 | 1 << 9},
     [](const uint8_t* at) -> Texel {
       return {of_float(std::max(number<int16_t>(at) / 32767.0, -1.0)),
               of_float(std::max(number<int16_t>(at, 1) / 32767.0, -1.0)), 0, kOneF};
     },
     [](const Texel& in, uint8_t* at) {
       for (unsigned i = 0; i < 2; ++i) {
         const double value = std::min(std::max(double{as_float(in[i])}, -1.0), 1.0);
         const auto half = static_cast<int16_t>(std::lrint(value * 32767));
         std::memcpy(at + 2 * i, &half, 2);
       }
     }},
    {"Rgba16Float",
     {.data = 12, .num = 7, .unified = 57, .bytes = 8, .select = kXyzw},
     [](const uint8_t* at) -> Texel {
       Texel out;
       for (unsigned i = 0; i < 4; ++i) {
         out[i] = of_float(double{number<_Float16>(at, i)});
         // Here a signaling NaN becomes a quiet one.
         if (std::isnan(as_float(out[i])) && !(number<uint16_t>(at, i) & 0x200)) out[i] ^= 1 << 22;
       }
       return out;
     },
     [](const Texel& in, uint8_t* at) {
       for (unsigned i = 0; i < 4; ++i) {
         const auto half = static_cast<_Float16>(as_float(in[i]));
         std::memcpy(at + 2 * i, &half, 2);
       }
     }},
    {"R32Float",
     {.data = 4, .num = 7, .unified = 22, .bytes = 4, .select = 4 | 1 << 9},
     [](const uint8_t* at) -> Texel { return {number<uint32_t>(at), 0, 0, kOneF}; },
     [](const Texel& in, uint8_t* at) { std::memcpy(at, in.data(), 4); }},
    {"Rgba32Uint",
     {.data = 14, .num = 4, .unified = 61, .bytes = 16, .select = kXyzw},
     [](const uint8_t* at) { return number<Texel>(at); },
     [](const Texel& in, uint8_t* at) { std::memcpy(at, in.data(), 16); }},
    {"Rgba8Sint",
     {.data = 10, .num = 5, .unified = 47, .bytes = 4, .select = kXyzw},
     [](const uint8_t* at) -> Texel {
       Texel out;
       for (unsigned i = 0; i < 4; ++i) out[i] = static_cast<uint32_t>(int32_t{int8_t(at[i])});
       return out;
     },
     [](const Texel& in, uint8_t* at) {
       for (unsigned i = 0; i < 4; ++i)
         at[i] = static_cast<uint8_t>(std::min(std::max(int32_t(in[i]), -128), 127));
     }},
    {"R16Uint",
     {.data = 2, .num = 4, .unified = 11, .bytes = 2, .select = 4 | 1 << 9},
     [](const uint8_t* at) -> Texel { return {number<uint16_t>(at), 0, 0, 1}; },
     [](const Texel& in, uint8_t* at) {
       const auto half = static_cast<uint16_t>(std::min(in[0], 0xffffu));
       std::memcpy(at, &half, 2);
     }},
    {"Rgb565",
     {.data = 16, .num = 0, .unified = 68, .bytes = 2, .select = 6 | 5 << 3 | 4 << 6 | 1 << 9},
     [](const uint8_t* at) -> Texel {
       const unsigned word = number<uint16_t>(at);
       return {of_float((word >> 11) / 31.0), of_float((word >> 5 & 63) / 63.0),
               of_float((word & 31) / 31.0), kOneF};
     },
     nullptr},
    {"Rgb101010",
     {.data = 9, .num = 0, .unified = 36, .bytes = 4, .select = 6 | 5 << 3 | 4 << 6 | 1 << 9},
     [](const uint8_t* at) -> Texel {
       const auto word = number<uint32_t>(at);
       return {of_float((word >> 20 & 1023) / 1023.0), of_float((word >> 10 & 1023) / 1023.0),
               of_float((word & 1023) / 1023.0), kOneF};
     },
     nullptr},
    {"Srgba8",
     {.data = 10, .num = 9, .unified = 66, .bytes = 4, .select = kXyzw},
     [](const uint8_t* at) -> Texel {
       return {of_float(linear(at[0])), of_float(linear(at[1])), of_float(linear(at[2])),
               of_float(at[3] / 255.0)};
     },
     nullptr},
};

class Images : public ::testing::TestWithParam<Isa> {
 protected:
  static constexpr size_t kSize = 1 << 18;
  static constexpr uint32_t kCount = 64;

  Images() {
    for (uint8_t& byte : memory_) byte = static_cast<uint8_t>(engine_());
    gpu_.put(kImage, memory_);
  }
  template <typename... T>
  Dispatch::State state(const std::string& kernel, const ImageWords& image, T... more) {
    gpu_.arguments(image.words(GetParam()), more...);
    return gpu_.run(kernel, 1, {kCount, 1, 1});
  }
  template <typename... T>
  std::vector<Texel> run(const std::string& kernel, const ImageWords& image, T... more) {
    EXPECT_EQ(state(kernel, image, more..., kOut), Dispatch::State::kDone)
        << kernel << ": " << gpu_.complaint();
    return gpu_.get<Texel>(kOut, 3 * kCount);
  }
  // Random places in the image, and some outside.
  std::vector<Texel> places(const ImageWords& image) {
    std::vector<Texel> out(kCount);
    for (Texel& at : out) {
      for (unsigned i = 0; i < 3; ++i)
        at[i] = static_cast<uint32_t>(engine_()) % (image.size_of_coordinate(i) + 1);
      if (engine_() % 16 == 0) at[0] = ~0u;
    }
    return out;
  }
  const uint8_t* at(const ImageWords& image, const Texel& place) const {
    const auto offset = image.offset(place);
    return offset ? &memory_[*offset] : nullptr;
  }

  std::mt19937 engine_{7};
  Machine gpu_{"images.co", GetParam()};
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kSize);
};

INSTANTIATE_TEST_SUITE_P(Of, Images, ::testing::Values(Isa::kGfx90a, Isa::kGfx1100),
                         [](const auto& info) { return name_of(info.param); });

const ImageWords kShapes[] = {
    {.type = ImageWords::k1d, .width = 300},
    {.type = ImageWords::k2d, .width = 29, .height = 17, .pitch = 512},
    {.type = ImageWords::k3d, .width = 13, .height = 7, .depth = 5},
    {.type = ImageWords::k1dArray, .width = 19, .depth = 6},
    {.type = ImageWords::k2dArray, .width = 11, .height = 9, .depth = 4},
};

TEST_P(Images, LoadsConvertAsTheFormatSays) {
  for (const Format& format : kFormats) {
    ImageWords image = kShapes[1];
    image.format = format.codes;
    const auto at = places(image);
    gpu_.put(kB, at);
    const auto out = run("load_2d", image, kB);
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint8_t none[16] = {};
      const uint8_t* const from = this->at(image, at[i]);
      EXPECT_EQ(out[i], format.load(from ? from : none)) << format.name << " " << i;
    }
  }
}

TEST_P(Images, StoresConvertAsTheFormatSays) {
  for (const Format& format : kFormats) {
    if (!format.store) continue;
    ImageWords image = kShapes[1];
    image.format = format.codes;
    const auto at = places(image);
    std::vector<Texel> values(kCount);
    std::uniform_real_distribution<float> some(-1.5f, 1.5f);
    for (Texel& value : values) {
      for (uint32_t& component : value)
        component = format.codes.num == 4 || format.codes.num == 5
                        ? static_cast<uint32_t>(static_cast<int32_t>(engine_()) >> engine_() % 32)
                        : of_float(double{some(engine_)});
    }
    gpu_.put(kB, at);
    gpu_.put(kB + 0x1000, values);
    EXPECT_EQ(state("store_2d", image, kB, kB + 0x1000), Dispatch::State::kDone);
    for (uint32_t i = 0; i < kCount; ++i) {
      if (const auto offset = image.offset(at[i])) format.store(values[i], &memory_[*offset]);
    }
    EXPECT_THAT(gpu_.get<uint8_t>(kImage, kSize), ElementsAreArray(memory_)) << format.name;
  }
}

TEST_P(Images, HaveDimensionsAndLayers) {
  for (ImageWords image : kShapes) {
    image.format = kFormats[6].codes;
    const auto at = places(image);
    const auto values = places(image);
    gpu_.put(kB, at);
    gpu_.put(kB + 0x1000, values);
    const auto out = run("load_" + image.name(), image, kB);
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint8_t* const from = this->at(image, at[i]);
      EXPECT_EQ(out[i], from ? number<Texel>(from) : Texel{}) << image.name() << " " << i;
    }
    EXPECT_EQ(state("store_" + image.name(), image, kB, kB + 0x1000), Dispatch::State::kDone);
    for (uint32_t i = 0; i < kCount; ++i) {
      if (const auto offset = image.offset(at[i])) std::memcpy(&memory_[*offset], &values[i], 16);
    }
    EXPECT_THAT(gpu_.get<uint8_t>(kImage, kSize), ElementsAreArray(memory_)) << image.name();
  }
}

// OpenCL's runtime copies all images by instructions for arrays in two dimensions. It relies on
// that the second operand is the layer of an array in one dimension, but from gfx10 on the third.
TEST_P(Images, OfAllTypesAreAccessedLikeArrays) {
  for (ImageWords image : kShapes) {
    image.format = kFormats[6].codes;
    auto at = places(image);
    std::vector<std::optional<size_t>> offsets;
    for (Texel& place : at) {
      offsets.push_back(image.offset(place));
      if (GetParam() == Isa::kGfx90a) continue;
      if (image.type == ImageWords::k1d) place[1] = 0;
      if (image.type == ImageWords::k1d || image.type == ImageWords::k2d) place[2] = 0;
      if (image.type == ImageWords::k1dArray) place[2] = place[1], place[1] = 0;
    }
    gpu_.put(kB, at);
    const auto out = run("load_2da", image, kB);
    for (uint32_t i = 0; i < kCount; ++i)
      EXPECT_EQ(out[i], offsets[i] ? number<Texel>(&memory_[*offsets[i]]) : Texel{})
          << image.name();
  }
}

TEST_P(Images, WithoutALayerAreTheFirstOne) {
  for (ImageWords image : {kShapes[3], kShapes[4]}) {
    image.format = kFormats[6].codes;
    const auto at = places(image);
    gpu_.put(kB, at);
    const bool two = image.type == ImageWords::k2dArray;
    const auto out = run(two ? "load_2d" : "load_1d", image, kB);
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint8_t* const from = this->at(image, {at[i][0], two ? at[i][1] : 0});
      EXPECT_EQ(out[i], from ? number<Texel>(from) : Texel{}) << image.name();
    }
  }
}

// The model's own layout: every texel has a place of its own, and none is behind those that fit.
TEST_P(Images, ThatAreTiledHaveAPlaceForEachTexel) {
  ImageWords image = {.type = ImageWords::k3d, .width = 8, .height = 4, .depth = 2, .tiling = 9};
  image.format = kFormats[5].codes;
  std::vector<Texel> at(kCount), values(kCount);
  for (uint32_t i = 0; i < kCount; ++i) at[i] = {i % 8, i / 8 % 4, i / 32}, values[i] = {i};
  gpu_.put(kB, at);
  gpu_.put(kB + 0x1000, values);
  EXPECT_EQ(state("store_3d", image, kB, kB + 0x1000), Dispatch::State::kDone);
  const auto out = run("load_3d", image, kB);
  for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(out[i][0], i);
  const auto memory = gpu_.get<uint8_t>(kImage, kSize);
  const std::vector<uint8_t> behind(memory.begin() + 4 * kCount, memory.end());
  EXPECT_TRUE(std::equal(behind.begin(), behind.end(), memory_.begin() + 4 * kCount));
}

TEST_P(Images, AMaskSelectsComponents) {
  ImageWords image = kShapes[1];
  image.format = kFormats[6].codes;
  std::vector<Texel> at(kCount);
  for (uint32_t i = 0; i < kCount; ++i) at[i] = {i % 16, i / 16, i + 1000, i + 2000};
  gpu_.put(kB, at);
  const auto out = run("masks", image, kB);
  const auto after = gpu_.get<uint8_t>(kImage, kSize);
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto before = number<Texel>(this->at(image, at[i]));
    EXPECT_EQ(out[i], (Texel{before[0], before[2], 0, 0})) << i;
    EXPECT_EQ(number<Texel>(&after[*image.offset(at[i])]), (Texel{0, i + 1000, 0, i + 2000})) << i;
  }
}

TEST_P(Images, HaveOnlyTheFirstMipmap) {
  ImageWords image = kShapes[1];
  image.format = kFormats[5].codes;
  std::vector<Texel> at(kCount);
  for (uint32_t i = 0; i < kCount; ++i) at[i] = {i % 16, i / 16, i % 2, i + 1000};
  gpu_.put(kB, at);
  const auto out = run("mipmaps", image, kB);
  const auto after = gpu_.get<uint8_t>(kImage, kSize);
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto before = number<uint32_t>(this->at(image, at[i]));
    EXPECT_EQ(out[i][0], i % 2 ? 0 : before) << i;
    EXPECT_EQ(number<uint32_t>(&after[*image.offset(at[i])]), i % 2 ? before : i + 1000) << i;
  }
}

TEST_P(Images, KnowTheirSize) {
  ImageWords image = kShapes[2];
  image.format = kFormats[0].codes;
  std::vector<Texel> at(kCount);
  at[1][0] = 1;
  gpu_.put(kB, at);
  const auto out = run("sizes", image, kB);
  EXPECT_EQ(out[0], (Texel{13, 7, 5, 1}));
  EXPECT_EQ(out[1], (Texel{0, 0, 0, 1}));
}

TEST_P(Images, AtomicOperationsReturnWhatWasThere) {
  ImageWords image = kShapes[1];
  image.format = {.data = 4, .num = 4, .unified = 20, .bytes = 4, .select = 4 | 1 << 9};
  std::vector<Texel> at(kCount);
  for (uint32_t i = 0; i < kCount; ++i) at[i] = {i % 16, i / 16, 0x80000000u + i, 77};
  at[kCount - 1][0] = 29;
  for (uint32_t i = 0; i < kCount; i += 2) {
    // Those that the comparison finds.
    if (const auto offset = image.offset(at[i])) {
      const uint32_t zero = 0;
      std::memcpy(&memory_[*offset], &zero, 4);
    }
  }
  gpu_.put(kImage, memory_);
  gpu_.put(kB, at);
  const auto out = run("atomics", image, kB);
  const auto after = gpu_.get<uint8_t>(kImage, kSize);
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint8_t* const from = this->at(image, at[i]);
    const uint32_t z = at[i][2], before = from ? number<uint32_t>(from) : 0;
    const uint32_t sum = from ? before + z : 0;
    const auto least = static_cast<uint32_t>(std::min(int32_t(sum), int32_t(z)));
    EXPECT_EQ(out[i][0], before) << i;
    EXPECT_EQ(out[i][1], sum) << i;
    EXPECT_EQ(out[i][2], from ? least : 0) << i;
    if (!from) continue;
    EXPECT_EQ(number<uint32_t>(&after[*image.offset(at[i])]), least == z ? 77 : least) << i;
  }
}

TEST_P(Images, AtomicOperationsHave64Bits) {
  ImageWords image = kShapes[1];
  image.format = {.data = 11, .num = 4, .unified = 48, .bytes = 8, .select = 4 | 5 << 3 | 1 << 9};
  std::vector<Texel> at(kCount);
  for (uint32_t i = 0; i < kCount; ++i) at[i] = {i % 16, i / 16, ~0u, 0x80000000u};
  gpu_.put(kB, at);
  const auto out = run("wide_atomics", image, kB);
  const auto after = gpu_.get<uint8_t>(kImage, kSize);
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto before = number<uint64_t>(this->at(image, at[i]));
    constexpr uint64_t kOperand = 0x80000000ffffffff;
    EXPECT_EQ(out[i][0] | uint64_t{out[i][1]} << 32, before);
    EXPECT_EQ(number<uint64_t>(&after[*image.offset(at[i])]),
              std::max(before, kOperand) + kOperand);
  }
}

TEST_P(Images, WhatIsNotModelledIsNamed) {
  ImageWords image = kShapes[1];
  image.format = kFormats[0].codes;
  gpu_.put(kB, std::vector<Texel>(kCount));
  const auto refused = [&](const std::string& kernel, const ImageWords& words,
                           const std::string& why) {
    EXPECT_EQ(state(kernel, words, kB, kOut), Dispatch::State::kIllegal) << kernel << why;
    EXPECT_THAT(gpu_.complaint(), HasSubstr(why + " is not modelled"));
  };
  const auto changed = [&](auto change) {
    ImageWords other = image;
    change(other);
    return other;
  };
  refused("halves", image, "image_load with 16 bits");
  refused("short_coordinates", image, "image_load with 16 bits");
  refused("status", image, "image_load with status");
  refused("load_2d", changed([](ImageWords& words) { words.type = ImageWords::kCube; }),
          "image_load of type 11");
  refused("load_2d", changed([](ImageWords& words) { words.mipmaps = 2; }),
          "image_load with mipmaps");
  refused("load_2d", changed([](ImageWords& words) { words.compressed = true; }),
          "image_load with compression");
  refused("load_2d", changed([](ImageWords& words) { words.format = {}; }),
          "image_load of such a format");
  refused("load_2d", changed([](ImageWords& words) { words.format.select = 3; }),
          "image_load of such a format");
  refused("store_2d", changed([](ImageWords& words) { words.format = kFormats[11].codes; }),
          "image_store of such a format");
  refused("atomics", image, "image_atomic_add of such a format");
}

}  // namespace
}  // namespace gpu::test
