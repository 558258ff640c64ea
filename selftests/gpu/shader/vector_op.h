// SPDX-License-Identifier: GPL-2.0
// Vector operations as rows of tables: a mnemonic, the types of its operands, and a function of
// one lane, from which a loop over all lanes is made. Fetching operands, modifiers, and the mask
// are common to all of them (vector.cc).
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include "shader/wave.h"

namespace gpu::shader {

// The type of an operand, for constants and modifiers. 16-bit operands are the low half of a lane.
enum class Kind : uint8_t { kNone, kB32, kF32, kB16, kF16, kB64, kF64, kMask };

constexpr bool is_wide(Kind kind) { return kind == Kind::kB64 || kind == Kind::kF64; }
constexpr bool is_16bit(Kind kind) { return kind == Kind::kB16 || kind == Kind::kF16; }
constexpr bool is_float(Kind kind) {
  return kind == Kind::kF32 || kind == Kind::kF16 || kind == Kind::kF64;
}

// A 16-bit float as a lane function sees it: its value.
struct Half {
  float value;
};

struct VectorOp {
  using Run = void (*)(void* dst, const void* a, const void* b, const void* c, unsigned lanes);
  using Compare = uint64_t (*)(const void* a, const void* b, unsigned lanes);

  std::string_view name;
  Kind dst = Kind::kNone;
  std::array<Kind, 3> src = {};
  Run run = nullptr;
  bool reads_dst = false;  // the last source is the destination, as in v_fmac
  Compare compare = nullptr;
  bool writes_exec = false;      // v_cmpx
  bool keeps_denormals = false;  // of its sources, whatever MODE says
  Run clamped = nullptr;         // of integers: run with clamp
  Run without_ieee = nullptr;    // if MODE.IEEE changes the result
};

// Tables of the executor, one of each file.
std::span<const VectorOp> integer_ops();
std::span<const VectorOp> narrow_ops();
std::span<const VectorOp> float_ops();
std::span<const VectorOp> double_ops();
std::span<const VectorOp> convert_ops();
std::span<const VectorOp> compare_ops();
std::span<const VectorOp> gfx11_vector_ops();

struct SpecialOp {
  std::string_view name;
  Handler handler;
};
std::span<const SpecialOp> scalar_ops();
std::span<const SpecialOp> program_ops();
std::span<const SpecialOp> hardware_ops();
std::span<const SpecialOp> special_vector_ops();
std::span<const SpecialOp> packed_ops();
std::span<const SpecialOp> matrix_ops();
std::span<const SpecialOp> load_store_ops();
std::span<const SpecialOp> format_ops();
std::span<const SpecialOp> image_ops();
std::span<const SpecialOp> image_sample_ops();
std::span<const SpecialOp> atomic_ops();
std::span<const SpecialOp> gws_ops();
// Of gfx11, at the place of operations of the same name.
std::span<const SpecialOp> gfx11_ops();
std::span<const SpecialOp> gfx11_hardware_ops();
std::span<const SpecialOp> gfx11_memory_ops();
std::span<const SpecialOp> gfx11_matrix_ops();

// The mnemonic of GFX9 for an operation that gfx11 has under another one; empty: there is none.
std::string gfx9_name(std::string_view name);

void execute_vector(Wave& wave, const Instruction& in);
// The same, faster, of 32-bit operands without modifiers.
bool is_plain(const Instruction& in);
void execute_plain(Wave& wave, const Instruction& in);
void execute_compare(Wave& wave, const Instruction& in);
// VOPD.
void execute_dual(Wave& wave, const Instruction& in);
// While MODE.GPR_IDX_EN is set.
void execute_indexed(Wave& wave, const Instruction& in);

// For special operations: the source with its modifiers, in place or in the buffer.
const void* vector_source(Wave& wave, const Instruction& in, unsigned i, Kind kind, Lanes& buffer,
                          bool keeps_denormals = false);
void write_lanes(Wave& wave, unsigned code, const uint32_t* values);
void write_wide_lanes(Wave& wave, unsigned code, const uint64_t* values);
bool refuses_dpp(Wave& wave, const Instruction& in);
// The first source as DPP moves it: lanes that have no source are 0.
void dpp_gather(const Wave& wave, const Instruction& in, const Row& from, uint32_t* to);
// The active lanes that an instruction with DPP writes.
uint64_t dpp_mask(const Wave& wave, const Instruction& in);
// Writes the result of a 32-bit operation as SDWA, DPP and EXEC specify.
void write_result(Wave& wave, const Instruction& in, Lanes& values);

namespace detail {

template <typename T>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<T, float>) return Kind::kF32;
  if constexpr (std::is_same_v<T, Half>) return Kind::kF16;
  if constexpr (std::is_same_v<T, double>) return Kind::kF64;
  if constexpr (std::is_same_v<T, uint64_t> || std::is_same_v<T, int64_t>) return Kind::kB64;
  if constexpr (std::is_same_v<T, uint16_t> || std::is_same_v<T, int16_t>) return Kind::kB16;
  return Kind::kB32;
}

template <typename T>
using Storage = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
inline auto load(const void* lanes, size_t lane) {
  const auto raw = static_cast<const Storage<T>*>(lanes)[lane];
  if constexpr (std::is_same_v<T, Half>) {
    return half_to_float(raw);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(raw);
  } else {
    return std::bit_cast<T>(raw);
  }
}

template <typename T, typename V>
inline void store(void* lanes, size_t lane, V value) {
  auto& raw = static_cast<Storage<T>*>(lanes)[lane];
  if constexpr (std::is_same_v<T, Half>) {
    raw = to_half(value);
  } else if constexpr (std::is_integral_v<T>) {
    // A 16-bit result leaves zeroes above.
    raw = static_cast<std::make_unsigned_t<T>>(static_cast<T>(value));
  } else {
    raw = to_bits(static_cast<T>(value));
  }
}

template <typename F, typename D, typename... S>
void run(void* dst, const void* a, const void* b, const void* c, unsigned lanes) {
  const void* const from[] = {a, b, c};
  each_lane(lanes, [&](size_t lane) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      store<D>(dst, lane, F{}(load<S>(from[I], lane)...));
    }(std::index_sequence_for<S...>{});
  });
}

template <typename F, typename A, typename B>
uint64_t compare(const void* a, const void* b, unsigned lanes) {
  uint64_t mask = 0;
  each_lane(lanes, [&](size_t lane) {
    mask |= uint64_t{F{}(load<A>(a, lane), load<B>(b, lane))} << lane;
  });
  return mask;
}

}  // namespace detail

// op<result, sources...>(mnemonic, function)
template <typename D, typename... S, typename F>
constexpr VectorOp op(std::string_view name, F) {
  VectorOp row = {.name = name, .dst = detail::kind_of<D>(), .run = &detail::run<F, D, S...>};
  constexpr Kind kinds[] = {detail::kind_of<S>()...};
  for (size_t i = 0; i < sizeof...(S); ++i) row.src[i] = kinds[i];
  return row;
}
// The same where f is with MODE.IEEE set, and g with it clear.
template <typename D, typename... S, typename F, typename G>
constexpr VectorOp by_ieee(std::string_view name, F f, G) {
  VectorOp row = op<D, S...>(name, f);
  row.without_ieee = &detail::run<G, D, S...>;
  return row;
}
// The same where the last source is the old value of the destination.
template <typename D, typename... S, typename F>
constexpr VectorOp accumulate(std::string_view name, F f) {
  VectorOp row = op<D, S...>(name, f);
  row.reads_dst = true;
  return row;
}
// g is the operation with clamp.
template <typename D, typename... S, typename F, typename G>
constexpr VectorOp clamping(std::string_view name, F f, G) {
  VectorOp row = op<D, S...>(name, f);
  row.clamped = &detail::run<G, D, S...>;
  return row;
}
// An integer operation that clamp makes saturate. f is called with wider operands for that, and
// where it would overflow.
template <typename D, typename... S, typename F>
constexpr VectorOp saturating(std::string_view name, F f) {
  VectorOp row = op<D, S...>(name, f);
  constexpr auto kWide = [](S... values) { return F{}(int64_t{values}...); };
  constexpr auto kClamped = [](S... values) {
    using Limits = std::numeric_limits<D>;
    return std::clamp<int64_t>(F{}(int64_t{values}...), Limits::min(), Limits::max());
  };
  if (std::is_signed_v<D>) row.run = &detail::run<decltype(kWide), D, S...>;
  row.clamped = &detail::run<decltype(kClamped), D, S...>;
  return row;
}
template <typename A, typename B, typename F>
constexpr VectorOp comparison(std::string_view name, F, bool writes_exec) {
  return {.name = name,
          .src = {detail::kind_of<A>(), detail::kind_of<B>()},
          .compare = &detail::compare<F, A, B>,
          .writes_exec = writes_exec};
}

}  // namespace gpu::shader
