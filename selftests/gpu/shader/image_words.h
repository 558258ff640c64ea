// SPDX-License-Identifier: GPL-2.0
// For tests: an image resource, and where its texels are when it is linear.
#pragma once

#include <optional>

#include "shader/kernel_machine.h"

namespace gpu::test {

// Of GFX9, and of gfx11.
struct FormatCodes {
  uint32_t data = 0, num = 0, unified = 0, bytes = 0, select = 0;
};
constexpr uint32_t kXyzw = 4 | 5 << 3 | 6 << 6 | 7 << 9;
constexpr uint64_t kImage = 0x700000;

struct ImageWords {
  enum Type : uint32_t { k1d = 8, k2d = 9, k3d = 10, kCube = 11, k1dArray = 12, k2dArray = 13 };
  Type type = k2d;
  uint32_t width = 1, height = 1, depth = 1;
  uint32_t pitch = 0;  // in texels; 0: as few as there may be
  uint32_t tiling = 0, mipmaps = 1;
  bool compressed = false;
  FormatCodes format = {};

  bool is_array() const { return type == k1dArray || type == k2dArray; }
  std::string name() const {
    switch (type) {
      case k1d:
        return "1d";
      case k2d:
        return "2d";
      case k3d:
        return "3d";
      case k1dArray:
        return "1da";
      default:
        return "2da";
    }
  }
  uint32_t row() const {
    const uint32_t unit = format.bytes ? 256 / format.bytes : 1;
    return pitch ? pitch : (width + unit - 1) / unit * unit;
  }
  uint32_t size_of_coordinate(unsigned i) const {
    if (i == 0) return width;
    if (i == 1) return type == k1dArray ? depth : height;
    return depth;
  }
  // As ROCr writes it: without a height, the field has all ones on GFX9.
  std::array<uint32_t, 8> words(Isa isa) const {
    const uint32_t high =
        (type == k1d || type == k1dArray ? (isa == Isa::kGfx90a ? 0 : 1) : height) - 1;
    const uint32_t word3 =
        format.select | (mipmaps - 1) << 16 | tiling << 20 | uint32_t{type} << 28;
    const uint32_t word6 = uint32_t{compressed} << 21;
    if (isa == Isa::kGfx90a)
      return {low32(kImage >> 8),
              format.data << 20 | format.num << 26,
              (width - 1) | (high & 0x3fff) << 14,
              word3,
              (depth - 1) | (row() - 1) << 13,
              0,
              word6,
              0};
    const bool has_pitch = type == k1d || type == k2d;
    return {low32(kImage >> 8),
            format.unified << 20 | ((width - 1) & 3) << 30,
            (width - 1) >> 2 | high << 14,
            word3,
            has_pitch ? row() - 1 : depth - 1,
            0,
            word6,
            0};
  }
  // Nothing: outside of the image. Those coordinates count that the type has.
  std::optional<size_t> offset(const std::array<uint32_t, 4>& at) const {
    const uint32_t x = at[0];
    const uint32_t y = type == k2d || type == k3d || type == k2dArray ? at[1] : 0;
    const uint32_t z = type == k1dArray ? at[1] : type == k3d || type == k2dArray ? at[2] : 0;
    if (x >= width || y >= height || z >= depth) return std::nullopt;
    return ((size_t{z} * height + y) * row() + x) * format.bytes;
  }
};

}  // namespace gpu::test
