// SPDX-License-Identifier: GPL-2.0
#include "shader/texel.h"

#include <bit>
#include <cmath>

#include "engines/packets.h"
#include "shader/numbers.h"

namespace gpu::shader {
namespace {

using enum Number;

// BUF_FMT_* and IMG_FMT_*: formats of one size follow one another. Those with floats of 10 or 11
// bits, or with two bits in the lowest place, and depths are not modelled.
struct Formats {
  unsigned first;
  std::array<uint8_t, 4> widths;
  Number first_number, last_number;
};
constexpr Formats kFormats[] = {
    {1, {8}, kUnorm, kSint},
    {7, {16}, kUnorm, kFloat},
    {14, {8, 8}, kUnorm, kSint},
    {20, {32}, kUint, kFloat},
    {23, {16, 16}, kUnorm, kFloat},
    {36, {10, 10, 10, 2}, kUnorm, kSint},
    {42, {8, 8, 8, 8}, kUnorm, kSint},
    {48, {32, 32}, kUint, kFloat},
    {51, {16, 16, 16, 16}, kUnorm, kFloat},
    {58, {32, 32, 32}, kUint, kFloat},
    {61, {32, 32, 32, 32}, kUint, kFloat},
    {64, {8}, kSrgb, kSrgb},
    {65, {8, 8}, kSrgb, kSrgb},
    {66, {8, 8, 8, 8}, kSrgb, kSrgb},
    {68, {5, 6, 5}, kUnorm, kUnorm},
    {69, {5, 5, 5, 1}, kUnorm, kUnorm},
};

// BUF_DATA_FORMAT_* and IMG_DATA_FORMAT_* of GFX9. Buffers have the first 16.
constexpr std::array<uint8_t, 4> kDataFormats[] = {{},
                                                   {8},
                                                   {16},
                                                   {8, 8},
                                                   {32},
                                                   {16, 16},
                                                   {},
                                                   {},
                                                   {},
                                                   {10, 10, 10, 2},
                                                   {8, 8, 8, 8},
                                                   {32, 32},
                                                   {16, 16, 16, 16},
                                                   {32, 32, 32},
                                                   {32, 32, 32, 32},
                                                   {},
                                                   {5, 6, 5},
                                                   {5, 5, 5, 1}};

bool exists(const std::array<uint8_t, 4>& widths, Number number) {
  switch (widths[0]) {
    case 5:
      return number == kUnorm;
    case 8:
      return number != kFloat;
    case 10:
      return number <= kSint;
    case 16:
      return number != kSrgb;
    case 32:
      return number >= kUint && number <= kFloat;
    default:
      return false;
  }
}

uint32_t as_bits(float value) { return std::bit_cast<uint32_t>(value); }
uint32_t as_bits(double value) { return as_bits(static_cast<float>(value)); }

uint32_t largest_of(unsigned width) { return width == 32 ? ~0u : (1u << width) - 1; }

double linear_of_srgb(double value) {
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

// raw: as many bits as `width`.
uint32_t widened(Number number, unsigned width, uint32_t raw) {
  const uint32_t largest = largest_of(width);
  const auto signed_raw = static_cast<int32_t>(raw << (32 - width)) >> (32 - width);
  switch (number) {
    case kUnorm:
      return as_bits(double(raw) / largest);
    case kSnorm:
      return as_bits(std::max(double(signed_raw) / (largest >> 1), -1.0));
    case kUscaled:
      return as_bits(static_cast<float>(raw));
    case kSscaled:
      return as_bits(static_cast<float>(signed_raw));
    case kUint:
      return raw;
    case kSint:
      return static_cast<uint32_t>(signed_raw);
    case kFloat:
      return width == 32 ? raw : as_bits(half_to_float(raw));
    case kSrgb:
      return as_bits(linear_of_srgb(double(raw) / largest));
  }
  return 0;
}

// NaN is 0. std::nearbyint() rounds to even: nothing changes the mode of the host.
uint32_t normalized(float value, double lowest, uint32_t largest) {
  const double inside = std::isnan(value) ? 0 : std::clamp<double>(value, lowest, 1);
  return static_cast<uint32_t>(static_cast<int64_t>(std::nearbyint(inside * largest)));
}

// Integers saturate; others are rounded to the nearest. As many bits as `width`.
uint32_t narrowed(Number number, unsigned width, uint32_t value) {
  const uint32_t largest = largest_of(width);
  const auto real = std::bit_cast<float>(value);
  if (width == 32) return value;
  switch (number) {
    case kUnorm:
      return normalized(real, 0, largest);
    case kSnorm:
      return normalized(real, -1, largest >> 1) & largest;
    case kUint:
      return std::min(value, largest);
    case kSint: {
      const auto most = static_cast<int32_t>(largest >> 1);
      return static_cast<uint32_t>(std::clamp(static_cast<int32_t>(value), -most - 1, most)) &
             largest;
    }
    case kFloat:
      return to_half(real);
    default:
      return 0;
  }
}

}  // namespace

std::optional<Texel> gfx9_texel(unsigned data_format, unsigned num_format) {
  constexpr unsigned kNumFloat = 7, kNumSrgb = 9;
  if (data_format >= std::size(kDataFormats) || num_format == 6) return std::nullopt;
  if (num_format > kNumFloat && num_format != kNumSrgb) return std::nullopt;
  const Number number = num_format == kNumFloat  ? kFloat
                        : num_format == kNumSrgb ? kSrgb
                                                 : Number(num_format);
  const auto& widths = kDataFormats[data_format];
  if (!exists(widths, number)) return std::nullopt;
  return Texel{.number = number, .widths = widths};
}

std::optional<Texel> gfx11_texel(unsigned format) {
  for (const Formats& formats : kFormats) {
    const unsigned number = format - formats.first + unsigned(formats.first_number);
    if (format >= formats.first && number <= unsigned(formats.last_number))
      return Texel{.number = Number(number), .widths = formats.widths};
  }
  return std::nullopt;
}

Components Texel::unpack(const Components& memory) const {
  constexpr unsigned kW = 3;
  Components out = {};
  unsigned at = 0;
  for (unsigned i = 0; i < components(); ++i) {
    const unsigned width = widths[i];
    // No component is in two doublewords.
    const uint32_t raw = memory[at / 32] >> at % 32 & largest_of(width);
    out[i] = widened(number == kSrgb && i == kW ? kUnorm : number, width, raw);
    at += width;
  }
  return out;
}

Components Texel::pack(const Components& values) const {
  Components out = {};
  unsigned at = 0;
  for (unsigned i = 0; i < components(); ++i) {
    out[at / 32] |= narrowed(number, widths[i], values[i]) << at % 32;
    at += widths[i];
  }
  return out;
}

Selection Selection::of_resource(uint32_t word3) {
  Selection out;
  for (unsigned i = 0; i < 4; ++i)
    out.from_[i] = static_cast<uint8_t>(bits(word3, 3 * i + 2, 3 * i));
  return out;
}

bool Selection::can_load(const Texel& texel, unsigned mask) const {
  for (unsigned i = 0; i < 4; ++i) {
    const bool is_there = from_[i] <= k1 || (from_[i] >= kX && from_[i] < kX + texel.components());
    if (mask >> i & 1 && !is_there) return false;
  }
  return true;
}

Components Selection::load(const Texel& texel, const Components& components) const {
  const uint32_t one = texel.is_integer() ? 1 : as_bits(1.0f);
  Components out = {};
  for (unsigned i = 0; i < 4; ++i)
    out[i] = !is_constant(i) ? components[from_[i] - kX] : from_[i] == k1 ? one : 0;
  return out;
}

unsigned Selection::finder(unsigned component) const {
  return static_cast<unsigned>(std::ranges::find(from_, kX + component) - from_.begin());
}

bool Selection::can_store(const Texel& texel, unsigned mask) const {
  for (unsigned i = 0; i < texel.components(); ++i) {
    const unsigned from = finder(i);
    if (from < 4 && !(mask >> from & 1)) return false;
  }
  return texel.can_be_stored();
}

Components Selection::store(const Texel& texel, const Components& values) const {
  Components out = {};
  for (unsigned i = 0; i < texel.components(); ++i) {
    const unsigned from = finder(i);
    if (from < 4) out[i] = values[from];
  }
  return out;
}

}  // namespace gpu::shader
