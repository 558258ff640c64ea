// SPDX-License-Identifier: GPL-2.0
// Images: loads and stores of texels by integer coordinates.
#include "shader/image.h"

#include <bit>

namespace gpu::shader {
namespace {

struct Words {
  std::array<uint32_t, 8> word;

  Words(const Wave& wave, unsigned sgpr) {
    for (unsigned i = 0; i < word.size(); ++i) word[i] = wave.s(sgpr + i);
  }
  uint32_t field(unsigned i, unsigned high, unsigned low) const { return bits(word[i], high, low); }

  ImageType type() const { return ImageType(field(3, 31, 28)); }
  bool has_mipmaps(Isa isa) const {
    return field(3, 19, 12) || (is_gfx11(isa) && field(1, 19, 16));
  }
  bool is_compressed() const { return field(6, 21, 21); }
  bool is_tiled() const { return field(3, 24, 20); }
};

bool is_array(ImageType type) { return type == ImageType::k1dArray || type == ImageType::k2dArray; }

unsigned axes_of(ImageType type) {
  if (type == ImageType::k3d) return 3;
  return type == ImageType::k2d || type == ImageType::k2dArray ? 2 : 1;
}

// DIM of gfx11.
ImageType dimension_of(const Instruction& in) {
  using enum ImageType;
  constexpr ImageType kNone{}, kTypes[] = {k1d, k2d, k3d, kNone, k1dArray, k2dArray, kNone, kNone};
  return kTypes[in.dimension];
}

// The runtime copies images of all types as if they were arrays in two dimensions. Without a layer,
// an array is its first one.
bool has_such_operands(const Instruction& in, ImageType type) {
  using enum ImageType;
  if (type != k1d && type != k2d && type != k3d && !is_array(type)) return false;
  if (!is_gfx11(in.isa)) return true;
  const ImageType dimension = dimension_of(in);
  return dimension == type || dimension == k2dArray ||
         (is_array(type) && !is_array(dimension) && axes_of(dimension) == axes_of(type) &&
          dimension != ImageType{});
}

// On GFX9, the type of the image says which operands there are, and an operand for a layer that it
// does not have is ignored. On gfx11 the instruction says it.
void set_operands(Image& image, const Instruction& in) {
  const bool gfx11 = is_gfx11(in.isa);
  const ImageType type = gfx11 ? dimension_of(in) : image.type;
  image.axes = axes_of(type);
  image.has_layer = is_array(type) && (gfx11 || in.array);
  image.has_mipmap = in.name().ends_with("_mip");
}

std::string reason_against(const Instruction& in, const Words& words) {
  if (!in.dmask) return "without components";
  if (in.a16 || in.d16) return "with 16 bits";
  if (in.tfe) return "with status";
  if (in.r128) return "with a short resource";
  if (!has_such_operands(in, words.type()))
    return amdgpu_criu::formatted("of type {}", unsigned(words.type()));
  if (words.has_mipmaps(in.isa)) return "with mipmaps";
  if (words.is_compressed()) return "with compression";
  return "";
}

bool is_modelled(const Instruction& in, const Texel& texel, const Selection& selection) {
  const std::string_view name = in.name();
  if (name.starts_with("image_store")) return texel.can_be_stored();
  if (name == "image_get_resinfo") return true;
  if (!name.starts_with("image_atomic")) return selection.can_load(texel, in.dmask);
  const int dwords = std::popcount(in.dmask) / (name == "image_atomic_cmpswap" ? 2 : 1);
  return texel.widths[0] == 32 && static_cast<int>(texel.components()) == dwords;
}

uint64_t aligned_width(const Image& image) {
  constexpr uint64_t kRowBytes = 256;
  const uint64_t unit = std::max<uint64_t>(kRowBytes / image.texel.bytes(), 1);
  return (image.width + unit - 1) / unit * unit;
}

void set_size(Image& image, const Words& words, Isa isa) {
  const bool gfx11 = is_gfx11(isa);
  image.width =
      1 + (gfx11 ? words.field(1, 31, 30) | words.field(2, 11, 0) << 2 : words.field(2, 13, 0));
  const bool array = is_array(image.type);
  if (axes_of(image.type) > 1) image.height = 1 + words.field(2, 27, 14);
  if (array) image.first_layer = gfx11 ? words.field(4, 28, 16) : words.field(5, 12, 0);
  const bool has_depth = array || image.type == ImageType::k3d;
  if (has_depth) image.depth = 1 + words.field(4, 12, 0) - image.first_layer;
  // Where the number of layers is, gfx11 has no room for the pitch. In a tiled image, see the
  // README, rows and layers follow one another.
  const bool has_pitch = !gfx11 || !has_depth;
  const uint64_t pitch = 1 + (gfx11 ? words.field(4, 13, 0) : words.field(4, 28, 13));
  image.pitch = words.is_tiled()                    ? image.width
                : has_pitch && pitch >= image.width ? pitch
                                                    : aligned_width(image);
}

Place place_of_lane(Wave& wave, const Instruction& in, const Image& image, unsigned lane) {
  std::array<uint32_t, 3> at = {};
  const unsigned count = image.coordinates();
  for (unsigned i = 0; i < count; ++i) at[i] = coordinate(wave, in, i, lane);
  // There is only the first.
  if (image.has_mipmap && coordinate(wave, in, count, lane)) return {.in = Place::In::kNowhere};
  return image.place(image.position(at), lane);
}

// The components of a texel outside are 0.
void image_load(Wave& wave, const Instruction& in) {
  const auto image = find_image(wave, in);
  if (!image) return;
  for_each_active(wave, [&](unsigned lane) {
    Components memory = {};
    const Place place = place_of_lane(wave, in, *image, lane);
    if (!read_place(wave, place, memory.data(), image->texel.bytes())) return;
    write_components(wave, in, lane,
                     image->selection.load(image->texel, image->texel.unpack(memory)));
  });
}

// Components that are not in the mask are 0.
void image_store(Wave& wave, const Instruction& in) {
  const auto image = find_image(wave, in);
  if (!image) return;
  const Row* const rows = &wave.row(in.data);
  for_each_active(wave, [&](unsigned lane) {
    Components values = {};
    for (unsigned i = 0, next = 0; i < 4; ++i) {
      if (in.dmask >> i & 1) values[i] = rows[next++].lane[lane];
    }
    const Components memory = image->texel.pack(image->selection.store(image->texel, values));
    write_place(wave, place_of_lane(wave, in, *image, lane), memory.data(), image->texel.bytes());
  });
}

// Width, height, depth or layers, and mipmaps.
void image_get_resinfo(Wave& wave, const Instruction& in) {
  const auto image = find_image(wave, in);
  if (!image) return;
  if (image->type == ImageType::k1dArray)
    return wave.refuse(in.name() + " of an array in one dimension is not modelled");
  for_each_active(wave, [&](unsigned lane) {
    const bool first = coordinate(wave, in, 0, lane) == 0;
    const Components sizes = {image->width, image->height, image->depth};
    Components out = first ? sizes : Components{};
    out[3] = 1;
    write_components(wave, in, lane, out);
  });
}

constexpr SpecialOp kOps[] = {
    {"image_load", image_load},
    {"image_load_mip", image_load},
    {"image_store", image_store},
    {"image_store_mip", image_store},
    {"image_get_resinfo", image_get_resinfo},
};

}  // namespace

Position Image::position(const std::array<uint32_t, 3>& at) const {
  Position out = {.x = at[0]};
  if (axes > 1) out.y = at[1];
  if (axes > 2 || has_layer) out.z = at[coordinates() - 1];
  return out;
}

Place Image::place(const Position& at, unsigned lane) const {
  if (at.x >= width || at.y >= height || at.z >= depth) return {.in = Place::In::kNowhere};
  const uint64_t row = uint64_t{first_layer + at.z} * height + at.y;
  return {.address = base + (row * pitch + at.x) * texel.bytes(), .lane = lane};
}

uint32_t coordinate(Wave& wave, const Instruction& in, unsigned i, unsigned lane) {
  constexpr unsigned kLast = 4;
  const unsigned code = i < kLast ? in.coordinates[i] : in.coordinates[kLast] + i - kLast;
  return wave.row(code).lane[lane];
}

void write_components(Wave& wave, const Instruction& in, unsigned lane, const Components& values) {
  Row* row = &wave.row(in.dst);
  for (unsigned i = 0; i < 4; ++i) {
    if (in.dmask >> i & 1) (row++)->lane[lane] = values[i];
  }
}

std::optional<Image> find_image(Wave& wave, const Instruction& in) {
  const Words words(wave, in.resource);
  const auto refuse = [&](const std::string& why) {
    wave.refuse(in.name() + " " + why + " is not modelled");
    return std::nullopt;
  };
  if (const std::string why = reason_against(in, words); !why.empty()) return refuse(why);
  const auto texel = is_gfx11(in.isa) ? gfx11_texel(words.field(1, 27, 20))
                                      : gfx9_texel(words.field(1, 25, 20), words.field(1, 29, 26));
  Image image = {.base = canonical(join(words.word[0], words.field(1, 7, 0)) << 8),
                 .selection = Selection::of_resource(words.word[3]),
                 .type = words.type()};
  if (!texel || !is_modelled(in, *texel, image.selection)) return refuse("of such a format");
  image.texel = *texel;
  set_size(image, words, in.isa);
  set_operands(image, in);
  return image;
}

Place image_place(Wave& wave, const Instruction& in, unsigned lane) {
  const auto image = find_image(wave, in);
  if (!image) return {.in = Place::In::kNowhere};
  return place_of_lane(wave, in, *image, lane);
}

std::span<const SpecialOp> image_ops() { return kOps; }

}  // namespace gpu::shader
