// SPDX-License-Identifier: GPL-2.0
// Images: texels by coordinates that are floats, as a sampler (S#, SQ_IMG_SAMP_WORD0..3) says.
#include <bit>
#include <cmath>

#include "shader/image.h"

namespace gpu::shader {
namespace {

// SQ_TEX_*, of a coordinate outside of the image. There are others.
enum class Clamp : uint8_t { kWrap = 0, kMirror = 1, kLastTexel = 2, kBorder = 6 };

enum class BorderColor : uint8_t { kTransparentBlack, kOpaqueBlack, kOpaqueWhite, kRegister };

struct Sampler {
  std::array<Clamp, 3> clamp;
  bool unnormalized, truncates, linear;
  bool is_modelled;
  BorderColor border;

  Sampler(const Wave& wave, const Instruction& in) {
    const uint32_t word0 = wave.s(in.sampler), word2 = wave.s(in.sampler + 2u);
    constexpr uint32_t kPoint = 0, kBilinear = 1;
    const uint32_t magnifying = bits(word2, 21, 20), minifying = bits(word2, 23, 22);
    const uint32_t of_z = bits(word2, 25, 24);
    for (unsigned i = 0; i < 3; ++i) clamp[i] = Clamp(bits(word0, 3 * i + 2, 3 * i));
    unnormalized = in.unnormalized || bits(word0, 15, 15);
    truncates = bits(word0, 27, 27);
    linear = magnifying == kBilinear;
    border = BorderColor(bits(wave.s(in.sampler + 3u), 31, 30));
    const bool reduces = bits(word0, 30, 29);
    is_modelled = magnifying == minifying && (magnifying == kPoint || linear) && !reduces &&
                  (!of_z || of_z == magnifying + 1) && border != BorderColor::kRegister;
    for (const Clamp one : clamp) is_modelled &= one <= Clamp::kLastTexel || one == Clamp::kBorder;
  }
};

// The texels of one axis that a coordinate is between, and the weight of the second one.
struct Taps {
  static constexpr int64_t kOutside = -1;
  std::array<int64_t, 2> at = {};
  double weight = 0;
};

// The coordinate, in texels, has 8 bits behind the point, and is rounded to these unless the
// sampler truncates.
double snapped(double texels, bool truncates) {
  constexpr double kSteps = 256, kFar = 1 << 30;
  const double inside = std::isnan(texels) ? 0 : std::clamp(texels, -kFar, kFar);
  return std::floor(inside * kSteps + (truncates ? 0 : 0.5)) / kSteps;
}

int64_t modulo(int64_t number, int64_t by) { return (number % by + by) % by; }

// The texel that stands for one in or outside of the image. ROCm's library rounds coordinates down
// to the edge of a texel before it samples the nearest one: so it is the texel that is mirrored,
// not the coordinate.
int64_t resolved(int64_t at, int64_t size, Clamp clamp) {
  if (clamp == Clamp::kWrap) return modulo(at, size);
  if (clamp == Clamp::kMirror) {
    const int64_t in_period = modulo(at, 2 * size);
    return std::min(in_period, 2 * size - 1 - in_period);
  }
  if (clamp == Clamp::kBorder && (at < 0 || at >= size)) return Taps::kOutside;
  return std::clamp<int64_t>(at, 0, size - 1);
}

Taps taps_of(const Sampler& sampler, Clamp clamp, float coordinate, uint32_t size) {
  const double texels = double{coordinate} * (sampler.unnormalized ? 1 : size);
  const double at = snapped(texels, sampler.truncates && !sampler.linear);
  const double first = std::floor(sampler.linear ? at - 0.5 : at);
  const auto index = static_cast<int64_t>(first);
  Taps taps;
  taps.at = {resolved(index, size, clamp), resolved(index + 1, size, clamp)};
  if (sampler.linear) taps.weight = at - 0.5 - first;
  return taps;
}

struct Sampling {
  Image image;
  Sampler sampler;
  std::array<Taps, 3> taps = {};
  uint32_t layer = 0;

  // first: the number of operands in front of the coordinates.
  void find_taps(Wave& wave, const Instruction& in, unsigned first, unsigned lane);
  Components border() const;
  // corner: a bit for each axis.
  bool read(Wave& wave, unsigned corner, unsigned lane, Components& out) const;
  double weight(unsigned corner) const;
};

void Sampling::find_taps(Wave& wave, const Instruction& in, unsigned first, unsigned lane) {
  const auto operand = [&](unsigned i) {
    return std::bit_cast<float>(coordinate(wave, in, first + i, lane));
  };
  const unsigned axes = image.axes;
  for (unsigned i = 0; i < axes; ++i)
    taps[i] = taps_of(sampler, sampler.clamp[i], operand(i), image.size(i));
  if (!image.has_layer) return;
  // A NaN is the first.
  const double nearest = std::nearbyint(double{operand(axes)}), last = image.depth - 1.0;
  layer = nearest > 0 ? static_cast<uint32_t>(std::min(nearest, last)) : 0;
}

// Constants of the resource remain.
Components Sampling::border() const {
  Components out = image.selection.load(image.texel, {});
  const uint32_t one = image.texel.is_integer() ? 1 : std::bit_cast<uint32_t>(1.0f);
  for (unsigned i = 0; i < 4; ++i) {
    const bool is_one = sampler.border == BorderColor::kOpaqueWhite ||
                        (sampler.border == BorderColor::kOpaqueBlack && i == 3);
    if (is_one && !image.selection.is_constant(i)) out[i] = one;
  }
  return out;
}

bool Sampling::read(Wave& wave, unsigned corner, unsigned lane, Components& out) const {
  std::array<uint32_t, 3> at = {};
  for (unsigned i = 0; i < image.axes; ++i) {
    const int64_t index = taps[i].at[corner >> i & 1];
    if (index == Taps::kOutside) {
      out = border();
      return true;
    }
    at[i] = static_cast<uint32_t>(index);
  }
  Position position = {.x = at[0], .y = at[1], .z = at[2]};
  if (image.has_layer) position.z = layer;
  Components memory = {};
  if (!read_place(wave, image.place(position, lane), memory.data(), image.texel.bytes()))
    return false;
  out = image.selection.load(image.texel, image.texel.unpack(memory));
  return true;
}

double Sampling::weight(unsigned corner) const {
  double out = 1;
  for (unsigned i = 0; i < image.axes; ++i)
    out *= corner >> i & 1 ? taps[i].weight : 1 - taps[i].weight;
  return out;
}

// Texels without weight do not count, not even if they are infinite.
bool filter(Wave& wave, const Sampling& sampling, unsigned lane, Components& out) {
  std::array<double, 4> sums = {};
  for (unsigned corner = 0; corner < 1u << sampling.image.axes; ++corner) {
    const double weight = sampling.weight(corner);
    if (weight == 0) continue;
    Components texel;
    if (!sampling.read(wave, corner, lane, texel)) return false;
    for (unsigned i = 0; i < 4; ++i) sums[i] += weight * double{std::bit_cast<float>(texel[i])};
  }
  for (unsigned i = 0; i < 4; ++i) out[i] = std::bit_cast<uint32_t>(static_cast<float>(sums[i]));
  return true;
}

std::optional<Sampling> find_sampling(Wave& wave, const Instruction& in) {
  const auto image = find_image(wave, in);
  if (!image) return std::nullopt;
  const Sampler sampler(wave, in);
  if (sampler.is_modelled && !(sampler.linear && image->texel.is_integer()))
    return Sampling{.image = *image, .sampler = sampler};
  wave.refuse(in.name() + " with such a sampler is not modelled");
  return std::nullopt;
}

// Without mipmaps, no operand that selects one counts.
void sample(Wave& wave, const Instruction& in, bool has_derivatives) {
  auto sampling = find_sampling(wave, in);
  if (!sampling) return;
  const unsigned first = has_derivatives ? 2 * sampling->image.axes : 0;
  for_each_active(wave, [&](unsigned lane) {
    sampling->find_taps(wave, in, first, lane);
    Components out;
    const bool read = sampling->sampler.linear ? filter(wave, *sampling, lane, out)
                                               : sampling->read(wave, 0, lane, out);
    if (read) write_components(wave, in, lane, out);
  });
}

void image_sample(Wave& wave, const Instruction& in) { sample(wave, in, false); }
void image_sample_d(Wave& wave, const Instruction& in) { sample(wave, in, true); }

// One component of the texels that a linear filter would have, against the clock from the one with
// the lowest X and the highest Y.
void image_gather4(Wave& wave, const Instruction& in) {
  constexpr unsigned kCorners[] = {2, 3, 1, 0};
  auto sampling = find_sampling(wave, in);
  if (!sampling) return;
  if (sampling->image.axes != 2 || std::popcount(in.dmask) != 1)
    return wave.refuse(in.name() + " of such an image is not modelled");
  sampling->sampler.linear = true;
  const auto component = static_cast<size_t>(std::countr_zero(in.dmask));
  Row* const rows = &wave.row(in.dst);
  for_each_active(wave, [&](unsigned lane) {
    sampling->find_taps(wave, in, 0, lane);
    Components out = {};
    for (unsigned i = 0; i < 4; ++i) {
      Components texel;
      if (!sampling->read(wave, kCorners[i], lane, texel)) return;
      out[i] = texel[component];
    }
    for (unsigned i = 0; i < 4; ++i) rows[i].lane[lane] = out[i];
  });
}

constexpr SpecialOp kOps[] = {
    {"image_sample", image_sample},      {"image_sample_l", image_sample},
    {"image_sample_lz", image_sample},   {"image_sample_d", image_sample_d},
    {"image_gather4", image_gather4},    {"image_gather4_l", image_gather4},
    {"image_gather4_lz", image_gather4},
};

}  // namespace

std::span<const SpecialOp> image_sample_ops() { return kOps; }

}  // namespace gpu::shader
