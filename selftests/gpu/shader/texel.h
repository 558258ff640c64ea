// SPDX-License-Identifier: GPL-2.0
// Texels of typed buffers and images: "AMD Instinct MI200" ISA document, chapter 9, and "RDNA3",
// chapters 9.4 to 9.6; codes of formats as ROCr's image library names them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace gpu::shader {

enum class Number : uint8_t {
  kUnorm,
  kSnorm,
  kUscaled,
  kSscaled,
  kUint,
  kSint,
  kFloat,
  kSrgb,  // W is kUnorm
};

// The words of a texel in memory, or its components as registers have them.
using Components = std::array<uint32_t, 4>;

// The first component is in the lowest bits.
struct Texel {
  Number number;
  std::array<uint8_t, 4> widths;

  unsigned components() const {
    return static_cast<unsigned>(std::ranges::count_if(widths, [](uint8_t w) { return w != 0; }));
  }
  unsigned bytes() const {
    unsigned sum = 0;
    for (const uint8_t width : widths) sum += width;
    return sum / 8;
  }
  bool is_integer() const { return number == Number::kUint || number == Number::kSint; }
  // How hardware narrows scaled integers and sRGB is not known.
  bool can_be_stored() const { return number <= Number::kSnorm || is_integer() || is_float(); }
  bool is_float() const { return number == Number::kFloat; }

  Components unpack(const Components& memory) const;
  Components pack(const Components& values) const;
};

// Of buffers and of images, which have more formats.
std::optional<Texel> gfx9_texel(unsigned data_format, unsigned num_format);
std::optional<Texel> gfx11_texel(unsigned format);

// Which component of the texel, or which constant, an instruction has as X, Y, Z and W.
class Selection {
 public:
  // DST_SEL_X..W of a resource, and what an instruction with a format of its own has.
  static Selection of_resource(uint32_t word3);
  static Selection same() { return of_resource(4 | 5 << 3 | 6 << 6 | 7 << 9); }

  // Whether the texel has those components that a load of a mask of them has.
  bool can_load(const Texel& texel, unsigned mask) const;
  Components load(const Texel& texel, const Components& components) const;
  // A store puts each component to where a load finds it. Those that no load finds are 0.
  Components store(const Texel& texel, const Components& values) const;
  // Whether a store has a value for each component that a load finds.
  bool can_store(const Texel& texel, unsigned mask) const;
  // Where it has a constant instead of a component of the texel.
  bool is_constant(unsigned i) const { return from_[i] < kX; }

 private:
  static constexpr uint8_t k1 = 1, kX = 4;

  // The first that has a component of the texel; 4: there is none.
  unsigned finder(unsigned component) const;

  std::array<uint8_t, 4> from_ = {};
};

}  // namespace gpu::shader
