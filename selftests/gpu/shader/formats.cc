// SPDX-License-Identifier: GPL-2.0
// Typed accesses to buffers, such as HIP textures of one dimension and Vulkan texel buffers: "AMD
// Instinct MI200" ISA document, chapter 9, and "RDNA3", chapters 9.4 and 9.6.
#include <algorithm>
#include <cmath>

#include "shader/access.h"
#include "shader/buffer.h"
#include "shader/numbers.h"

namespace gpu::shader {
namespace {

enum class Kind : uint8_t { kUnorm, kSnorm, kUscaled, kSscaled, kUint, kSint, kFloat };
using enum Kind;

// The first component is in the lowest bits.
struct Texel {
  Kind kind;
  std::array<uint8_t, 4> widths;

  unsigned components() const {
    return static_cast<unsigned>(std::ranges::count_if(widths, [](uint8_t w) { return w != 0; }));
  }
  unsigned bytes() const {
    unsigned sum = 0;
    for (const uint8_t width : widths) sum += width;
    return sum / 8;
  }
};

// BUF_FMT_*: formats of one size follow one another. Those with floats of 10 or 11 bits, or with
// two bits in the lowest place, are not modelled.
struct Formats {
  unsigned first;
  std::array<uint8_t, 4> widths;
  Kind first_kind, last_kind;
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
};

// BUF_DATA_FORMAT_* and BUF_NUM_FORMAT_* of GFX9. The same are not modelled.
constexpr std::array<uint8_t, 4> kDataFormats[16] = {{},
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
                                                     {}};

std::optional<Texel> find_gfx9_format(unsigned data_format, unsigned num_format) {
  constexpr unsigned kNumFloat = 7;
  const auto& widths = kDataFormats[data_format];
  if (!widths[0] || num_format == 6) return std::nullopt;
  const Kind kind = num_format == kNumFloat ? kFloat : Kind(num_format);
  const bool fits = widths[0] == 32 ? kind >= kUint : widths[0] == 16 ? true : kind != kFloat;
  if (!fits) return std::nullopt;
  return Texel{.kind = kind, .widths = widths};
}

std::optional<Texel> find_format(unsigned code) {
  for (const Formats& formats : kFormats) {
    const unsigned kind = code - formats.first + unsigned(formats.first_kind);
    if (code >= formats.first && kind <= unsigned(formats.last_kind))
      return Texel{.kind = Kind(kind), .widths = formats.widths};
  }
  return std::nullopt;
}

// Selectors of a component: a constant, or a component of the texel.
constexpr unsigned kSelect0 = 0, kSelect1 = 1, kSelectX = 4;

// What an instruction does with a lane's texel.
struct Access {
  Texel texel;
  std::array<unsigned, 4> select;
};

// The format is in the instruction, whose components are the texel's, or in the resource, which
// chooses them for loads. A component that the texel does not have is not modelled.
std::optional<Access> find_access(const Wave& wave, const Instruction& in, bool stores,
                                  unsigned count) {
  const bool typed = in.format == Format::kMtbuf;
  const uint32_t word = wave.s(in.resource + 3u), code = in.words[0];
  const auto texel = is_gfx11(in.isa) ? find_format(typed ? bits(code, 25, 19) : bits(word, 17, 12))
                     : typed          ? find_gfx9_format(bits(code, 22, 19), bits(code, 25, 23))
                                      : find_gfx9_format(bits(word, 18, 15), bits(word, 14, 12));
  if (!texel) return std::nullopt;
  Access access = {.texel = *texel, .select = {}};
  for (unsigned i = 0; i < 4; ++i) {
    access.select[i] = typed || stores ? kSelectX + i : bits(word, 3 * i + 2, 3 * i);
    const unsigned selected = access.select[i];
    const bool constant = selected == kSelect0 || selected == kSelect1;
    if (!stores && i < count && !constant &&
        (selected < kSelectX || selected >= kSelectX + texel->components()))
      return std::nullopt;
  }
  return access;
}

uint32_t as_bits(float value) { return std::bit_cast<uint32_t>(value); }

// raw: as many bits as `width`.
uint32_t convert(Kind kind, unsigned width, uint32_t raw) {
  const uint32_t largest = width == 32 ? ~0u : (1u << width) - 1;
  const auto signed_raw = static_cast<int32_t>(raw << (32 - width)) >> (32 - width);
  switch (kind) {
    case kUnorm:
      return as_bits(static_cast<float>(double(raw) / largest));
    case kSnorm:
      return as_bits(static_cast<float>(std::max(double(signed_raw) / (largest >> 1), -1.0)));
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
  }
  return 0;
}

std::array<uint32_t, 4> components_of(const Texel& texel, const std::array<uint32_t, 4>& memory) {
  std::array<uint32_t, 4> out = {};
  unsigned at = 0;
  for (unsigned i = 0; i < texel.components(); ++i) {
    const unsigned width = texel.widths[i];
    // No component is in two doublewords.
    const uint32_t raw = memory[at / 32] >> at % 32;
    out[i] = convert(texel.kind, width, width == 32 ? raw : raw & ((1u << width) - 1));
    at += width;
  }
  return out;
}

uint32_t one(Kind kind) { return kind == kUint || kind == kSint ? 1 : as_bits(1.0f); }

void refuse(Wave& wave, const Instruction& in) {
  wave.refuse(in.name() + " of such a format is not modelled");
}

// A texel that is not wholly in the buffer is outside of it. Its components are 0.
template <unsigned kCount>
void load_format(Wave& wave, const Instruction& in) {
  const auto access = find_access(wave, in, false, kCount);
  if (!access) return refuse(wave, in);
  Row* const rows = &wave.row(in.dst);
  for_each_active(wave, [&](unsigned lane) {
    Place place = locate(wave, in, lane);
    if (place.bytes < access->texel.bytes()) place.in = Place::In::kNowhere;
    std::array<uint32_t, 4> memory = {};
    if (!read_place(wave, place, memory.data(), access->texel.bytes())) return;
    const auto components = components_of(access->texel, memory);
    for (unsigned i = 0; i < kCount; ++i) {
      const unsigned selected = access->select[i];
      rows[i].lane[lane] = selected == kSelect0   ? 0
                           : selected == kSelect1 ? one(access->texel.kind)
                                                  : components[selected - kSelectX];
    }
  });
}

// Components that the texel does not have are dropped. How hardware narrows numbers is not
// documented clearly: only those of 32 bits are stored.
template <unsigned kCount>
void store_format(Wave& wave, const Instruction& in) {
  const auto access = find_access(wave, in, true, kCount);
  if (!access || access->texel.widths[0] != 32 || access->texel.components() > kCount)
    return refuse(wave, in);
  const Row* const rows = &wave.row(in.data);
  for_each_active(wave, [&](unsigned lane) {
    Place place = locate(wave, in, lane);
    if (place.bytes < access->texel.bytes()) place.in = Place::In::kNowhere;
    std::array<uint32_t, kCount> values;
    for (unsigned i = 0; i < kCount; ++i) values[i] = rows[i].lane[lane];
    write_place(wave, place, values.data(), access->texel.bytes());
  });
}

constexpr SpecialOp kOps[] = {
    {"buffer_load_format_x", load_format<1>},      {"tbuffer_load_format_x", load_format<1>},
    {"buffer_load_format_xy", load_format<2>},     {"tbuffer_load_format_xy", load_format<2>},
    {"buffer_load_format_xyz", load_format<3>},    {"tbuffer_load_format_xyz", load_format<3>},
    {"buffer_load_format_xyzw", load_format<4>},   {"tbuffer_load_format_xyzw", load_format<4>},
    {"buffer_store_format_x", store_format<1>},    {"tbuffer_store_format_x", store_format<1>},
    {"buffer_store_format_xy", store_format<2>},   {"tbuffer_store_format_xy", store_format<2>},
    {"buffer_store_format_xyz", store_format<3>},  {"tbuffer_store_format_xyz", store_format<3>},
    {"buffer_store_format_xyzw", store_format<4>}, {"tbuffer_store_format_xyzw", store_format<4>},
};

}  // namespace

std::span<const SpecialOp> format_ops() { return kOps; }

}  // namespace gpu::shader
