// SPDX-License-Identifier: GPL-2.0
// Typed accesses to buffers, such as HIP textures of one dimension, OpenCL's image1d_buffer_t and
// Vulkan texel buffers.
#include "shader/access.h"
#include "shader/buffer.h"
#include "shader/texel.h"

namespace gpu::shader {
namespace {

// What an instruction does with a lane's texel.
struct Access {
  Texel texel;
  Selection selection;
};

std::optional<Texel> find_texel(const Instruction& in, bool typed, uint32_t word3) {
  const uint32_t code = in.words[0];
  if (is_gfx11(in.isa)) return gfx11_texel(typed ? bits(code, 25, 19) : bits(word3, 17, 12));
  return typed ? gfx9_texel(bits(code, 22, 19), bits(code, 25, 23))
               : gfx9_texel(bits(word3, 18, 15), bits(word3, 14, 12));
}

// The format is in the instruction, whose components are the texel's, or in the resource, which
// chooses them.
std::optional<Access> find_access(const Wave& wave, const Instruction& in) {
  const bool typed = in.format == Format::kMtbuf;
  const uint32_t word3 = wave.s(in.resource + 3u);
  const auto texel = find_texel(in, typed, word3);
  if (!texel) return std::nullopt;
  return Access{.texel = *texel,
                .selection = typed ? Selection::same() : Selection::of_resource(word3)};
}

void refuse(Wave& wave, const Instruction& in) {
  wave.refuse(in.name() + " of such a format is not modelled");
}

// A texel that is not wholly in the buffer is outside of it. Its components are 0.
template <unsigned kCount>
void load_format(Wave& wave, const Instruction& in) {
  const auto access = find_access(wave, in);
  if (!access || !access->selection.can_load(access->texel, (1u << kCount) - 1))
    return refuse(wave, in);
  Row* const rows = &wave.row(in.dst);
  for_each_active(wave, [&](unsigned lane) {
    Place place = locate(wave, in, lane);
    if (place.bytes < access->texel.bytes()) place.in = Place::In::kNowhere;
    Components memory = {};
    if (!read_place(wave, place, memory.data(), access->texel.bytes())) return;
    const Components loaded = access->selection.load(access->texel, access->texel.unpack(memory));
    for (unsigned i = 0; i < kCount; ++i) rows[i].lane[lane] = loaded[i];
  });
}

// Components that the texel does not have are dropped.
template <unsigned kCount>
void store_format(Wave& wave, const Instruction& in) {
  const auto access = find_access(wave, in);
  if (!access || !access->selection.can_store(access->texel, (1u << kCount) - 1))
    return refuse(wave, in);
  const Row* const rows = &wave.row(in.data);
  for_each_active(wave, [&](unsigned lane) {
    Place place = locate(wave, in, lane);
    if (place.bytes < access->texel.bytes()) place.in = Place::In::kNowhere;
    Components values = {};
    for (unsigned i = 0; i < kCount; ++i) values[i] = rows[i].lane[lane];
    const Components memory = access->texel.pack(access->selection.store(access->texel, values));
    write_place(wave, place, memory.data(), access->texel.bytes());
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
