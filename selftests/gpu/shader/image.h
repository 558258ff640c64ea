// SPDX-License-Identifier: GPL-2.0
// Image resources (T#), as SQ_IMG_RSRC_WORD0..7 have them and ROCr's image library fills them.
#pragma once

#include "shader/access.h"
#include "shader/texel.h"

namespace gpu::shader {

// SQ_RSRC_IMG_*.
enum class ImageType : uint8_t { k1d = 8, k2d = 9, k3d = 10, k1dArray = 12, k2dArray = 13 };

// Where a texel is. What the image does not have is 0. The layer is Z.
struct Position {
  uint32_t x = 0, y = 0, z = 0;
};

struct Image {
  uint64_t base = 0;
  Texel texel = {};
  Selection selection;
  ImageType type = ImageType::k2d;
  uint32_t width = 1, height = 1, depth = 1;  // of an array, depth is the number of layers
  uint32_t first_layer = 0;
  uint64_t pitch = 0;  // in texels
  // The operands of the instruction: coordinates, the layer behind them, and the mipmap.
  unsigned axes = 0;
  bool has_layer = false, has_mipmap = false;

  unsigned coordinates() const { return axes + (has_layer ? 1 : 0); }
  uint32_t size(unsigned axis) const { return axis == 0 ? width : axis == 1 ? height : depth; }
  // From the operands in their order.
  Position position(const std::array<uint32_t, 3>& at) const;
  // Nowhere: outside.
  Place place(const Position& at, unsigned lane) const;
};

// What an instruction accesses. Nothing: the wave stops, because it is not modelled.
std::optional<Image> find_image(Wave& wave, const Instruction& in);

uint32_t coordinate(Wave& wave, const Instruction& in, unsigned i, unsigned lane);

// As a load has the components of a mask in registers.
void write_components(Wave& wave, const Instruction& in, unsigned lane, const Components& values);

// Of an atomic operation.
Place image_place(Wave& wave, const Instruction& in, unsigned lane);

}  // namespace gpu::shader
