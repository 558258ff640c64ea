// SPDX-License-Identifier: GPL-2.0
// Atomic operations of FLAT, GLOBAL, MUBUF, MIMG and DS, and what lanes exchange through the LDS
// unit. Lanes go in ascending order. Operations on memory are atomic also against the guest's CPUs.
#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>

#include "shader/access.h"

namespace gpu::shader {
namespace {

template <typename T>
T from_rows(const Row* rows, unsigned lane) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(join(rows[0].lane[lane], rows[1].lane[lane]));
  } else {
    return std::bit_cast<T>(rows[0].lane[lane]);
  }
}

template <typename T>
void to_rows(Row* rows, unsigned lane, T value) {
  const auto raw = std::bit_cast<detail::Storage<T>>(value);
  rows[0].lane[lane] = low32(raw);
  if constexpr (sizeof(T) == 8) rows[1].lane[lane] = high32(raw);
}

// f(old, data, compare) gives the new value. Comparing swaps of memory have the data first and
// the value to compare with behind it; those of LDS have the value in DATA0, on gfx11 in DATA1.
template <typename T, bool kCompares, bool kDsReturns, typename F>
void atomic_op(Wave& wave, const Instruction& in) {
  const bool ds = in.format == Format::kDs;
  const Row* data = &wave.row(in.data);
  const Row* compare = data;
  if (kCompares && ds) (is_gfx11(in.isa) ? compare : data) = &wave.row(in.data1);
  if (kCompares && !ds) compare = data + sizeof(T) / 4;
  const bool returns = ds ? kDsReturns : in.glc;
  Row* out = &wave.row(in.dst);
  const uint32_t extra = ds ? static_cast<uint32_t>(in.immediate) : 0;
  for_each_active(wave, [&](unsigned lane) {
    std::byte* cell = atomic_place(wave, locate(wave, in, lane, extra), sizeof(T));
    T old{};
    if (cell) {
      using Raw = detail::Storage<T>;
      const T operand = from_rows<T>(data, lane), wanted = from_rows<T>(compare, lane);
      std::atomic_ref<Raw> raw(*reinterpret_cast<Raw*>(cell));
      Raw seen = raw.load(std::memory_order_acquire);
      while (!raw.compare_exchange_weak(
          seen, std::bit_cast<Raw>(static_cast<T>(F{}(std::bit_cast<T>(seen), operand, wanted))),
          std::memory_order_acq_rel)) {
      }
      old = std::bit_cast<T>(seen);
    }
    if (returns) to_rows(out, lane, old);
  });
}

// The components that an instruction names say how wide the texel is.
template <typename Narrow, typename Wide, bool kCompares, typename F>
void image_atomic(Wave& wave, const Instruction& in) {
  constexpr unsigned kNarrow = kCompares ? 3 : 1, kWide = kCompares ? 15 : 3;
  if (in.dmask == kNarrow) return atomic_op<Narrow, kCompares, false, F>(wave, in);
  if (in.dmask == kWide) return atomic_op<Wide, kCompares, false, F>(wave, in);
  wave.refuse(in.name() + " of such components is not modelled");
}

// ds_bpermute: each lane reads the data of the lane that its address names.
void ds_bpermute(Wave& wave, const Instruction& in) {
  const Row& address = wave.row(in.address);
  const Row data = wave.row(in.data);
  const uint64_t exec = wave.exec();
  uint32_t out[kLanes];
  // Lanes of gfx11 exchange values with the 31 others of their half.
  const uint32_t reach = is_gfx11(in.isa) ? 32 : kLanes;
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const uint32_t named = (address.lane[lane] + static_cast<uint32_t>(in.immediate)) / 4;
    const uint32_t from = lane / reach * reach + named % reach;
    out[lane] = exec >> from & 1 ? data.lane[from] : 0;
  }
  write_lanes(wave, in.dst, out);
}

// ds_permute: each lane writes; the highest that writes to a lane wins.
void ds_permute(Wave& wave, const Instruction& in) {
  const Row& address = wave.row(in.address);
  const Row data = wave.row(in.data);
  uint32_t out[kLanes] = {};
  const uint32_t reach = is_gfx11(in.isa) ? 32 : kLanes;
  for_each_active(wave, [&](unsigned lane) {
    const uint32_t named = (address.lane[lane] + static_cast<uint32_t>(in.immediate)) / 4;
    const uint32_t to = lane / reach * reach + named % reach;
    out[to] = data.lane[lane];
  });
  write_lanes(wave, in.dst, out);
}

// The lane that the offset of ds_swizzle selects for a lane, within its 32.
unsigned swizzle_source(unsigned lane, uint32_t control) {
  const unsigned mask = control & 31;
  if (control >= 0xe000) {  // FFT: the bits reversed, below those that the mask keeps
    unsigned reversed = 0;
    for (unsigned bit = 0; bit < 5; ++bit) reversed |= (lane >> bit & 1) << (4 - bit);
    return reversed >> std::popcount(mask) | (lane & mask);
  }
  if (control >= 0xc000) {  // rotation; the mask has the bits of the lane that stay
    const unsigned by = bits(control, 9, 5);
    const unsigned turned = bits(control, 10, 10) ? lane - by : lane + by;
    return (lane & mask) | (turned & ~mask & 31);
  }
  if (control & 0x8000) return (lane & 28) | (control >> (lane & 3) * 2 & 3);
  return (((lane & mask) | bits(control, 9, 5)) ^ bits(control, 14, 10)) & 31;
}

void ds_swizzle(Wave& wave, const Instruction& in) {
  const Row data = wave.row(in.address);
  const uint64_t exec = wave.exec();
  uint32_t out[kLanes];
  for (unsigned lane = 0; lane < wave.lanes(); ++lane) {
    const unsigned from =
        (lane & 32) | swizzle_source(lane & 31, static_cast<uint32_t>(in.immediate));
    out[lane] = exec >> from & 1 ? data.lane[from] : 0;
  }
  write_lanes(wave, in.dst, out);
}

using U = uint32_t;
using I = int32_t;
using U64 = uint64_t;
using I64 = int64_t;

constexpr auto kSwap = [](auto, auto b, auto) { return b; };
constexpr auto kCmpswap = [](auto a, auto b, auto c) { return a == c ? b : a; };
constexpr auto kAdd = [](auto a, auto b, auto) { return a + b; };
constexpr auto kSub = [](auto a, auto b, auto) { return a - b; };
constexpr auto kRsub = [](auto a, auto b, auto) { return b - a; };
constexpr auto kMin = [](auto a, auto b, auto) { return std::min(a, b); };
constexpr auto kMax = [](auto a, auto b, auto) { return std::max(a, b); };
constexpr auto kFmin = [](auto a, auto b, auto) { return pick<false>(a, b); };
constexpr auto kFmax = [](auto a, auto b, auto) { return pick<true>(a, b); };
constexpr auto kAnd = [](auto a, auto b, auto) { return a & b; };
constexpr auto kOr = [](auto a, auto b, auto) { return a | b; };
constexpr auto kXor = [](auto a, auto b, auto) { return a ^ b; };
constexpr auto kInc = [](auto a, auto b, auto) { return a >= b ? decltype(a){0} : a + 1; };
constexpr auto kDec = [](auto a, auto b, auto) { return a == 0 || a > b ? b : a - 1; };

constexpr auto kAddHalves = [](U a, U b, U) {
  const auto sum = [](U x, U y) { return to_half(half_to_float(x) + half_to_float(y)); };
  return sum(a & 0xffff, b & 0xffff) | sum(a >> 16, b >> 16) << 16;
};

constexpr auto kAddBfloats = [](U a, U b, U) {
  const auto sum = [](U x, U y) {
    return to_bfloat(std::bit_cast<float>(x & 0xffff0000) + std::bit_cast<float>(y & 0xffff0000));
  };
  return sum(a << 16, b << 16) | sum(a, b) << 16;
};

class Table {
 public:
  Table() {
    for (const std::string_view prefix : {"flat_", "global_", "buffer_"}) add_memory(prefix);
    add_images();
    own("ds_pk_add_f16", atomic_op<U, false, false, decltype(kAddHalves)>);
    own("ds_pk_add_rtn_f16", atomic_op<U, false, true, decltype(kAddHalves)>);
    own("ds_pk_add_bf16", atomic_op<U, false, false, decltype(kAddBfloats)>);
    own("ds_pk_add_rtn_bf16", atomic_op<U, false, true, decltype(kAddBfloats)>);
    add_ds<U, I, false>("_u32", "_i32", "_b32", "");
    add_ds<U, I, true>("_u32", "_i32", "_b32", "_rtn");
    add_ds<U64, I64, false>("_u64", "_i64", "_b64", "");
    add_ds<U64, I64, true>("_u64", "_i64", "_b64", "_rtn");
    add_ds_floats<float, false>("", "_f32");
    add_ds_floats<float, true>("_rtn", "_f32");
    add_ds_floats<double, false>("", "_f64");
    add_ds_floats<double, true>("_rtn", "_f64");
    own("ds_wrxchg_rtn_b32", atomic_op<U, false, true, decltype(kSwap)>);
    own("ds_wrxchg_rtn_b64", atomic_op<U64, false, true, decltype(kSwap)>);
    own("ds_bpermute_b32", ds_bpermute);
    own("ds_permute_b32", ds_permute);
    own("ds_swizzle_b32", ds_swizzle);
    own("ds_nop", [](Wave&, const Instruction&) {});
  }
  std::span<const SpecialOp> rows() const { return rows_; }

 private:
  void own(std::string name, Handler handler) {
    names_.push_back(std::move(name));
    rows_.push_back({names_.back(), handler});
  }

  template <typename Unsigned, typename Signed>
  void add_width(std::string_view prefix, std::string_view suffix) {
    const auto with = [&](std::string_view name, Handler handler) {
      own(amdgpu_criu::formatted("{}atomic_{}{}", prefix, name, suffix), handler);
    };
    with("swap", atomic_op<Unsigned, false, false, decltype(kSwap)>);
    with("cmpswap", atomic_op<Unsigned, true, false, decltype(kCmpswap)>);
    with("add", atomic_op<Unsigned, false, false, decltype(kAdd)>);
    with("sub", atomic_op<Unsigned, false, false, decltype(kSub)>);
    with("smin", atomic_op<Signed, false, false, decltype(kMin)>);
    with("umin", atomic_op<Unsigned, false, false, decltype(kMin)>);
    with("smax", atomic_op<Signed, false, false, decltype(kMax)>);
    with("umax", atomic_op<Unsigned, false, false, decltype(kMax)>);
    with("and", atomic_op<Unsigned, false, false, decltype(kAnd)>);
    with("or", atomic_op<Unsigned, false, false, decltype(kOr)>);
    with("xor", atomic_op<Unsigned, false, false, decltype(kXor)>);
    with("inc", atomic_op<Unsigned, false, false, decltype(kInc)>);
    with("dec", atomic_op<Unsigned, false, false, decltype(kDec)>);
  }
  void add_memory(std::string_view prefix) {
    add_width<U, I>(prefix, "");
    add_width<U64, I64>(prefix, "_x2");
    const auto with = [&](std::string_view name, Handler handler) {
      own(std::string(prefix).append(name), handler);
    };
    with("atomic_add_f32", atomic_op<float, false, false, decltype(kAdd)>);
    with("atomic_add_f64", atomic_op<double, false, false, decltype(kAdd)>);
    with("atomic_pk_add_f16", atomic_op<U, false, false, decltype(kAddHalves)>);
    with("atomic_pk_add_bf16", atomic_op<U, false, false, decltype(kAddBfloats)>);
    with("atomic_min_f32", atomic_op<float, false, false, decltype(kFmin)>);
    with("atomic_max_f32", atomic_op<float, false, false, decltype(kFmax)>);
    with("atomic_min_f64", atomic_op<double, false, false, decltype(kFmin)>);
    with("atomic_max_f64", atomic_op<double, false, false, decltype(kFmax)>);
  }
  void add_images() {
    const auto with = [&](std::string_view name, Handler handler) {
      own(std::string("image_atomic_").append(name), handler);
    };
    with("swap", image_atomic<U, U64, false, decltype(kSwap)>);
    with("cmpswap", image_atomic<U, U64, true, decltype(kCmpswap)>);
    with("add", image_atomic<U, U64, false, decltype(kAdd)>);
    with("sub", image_atomic<U, U64, false, decltype(kSub)>);
    with("smin", image_atomic<I, I64, false, decltype(kMin)>);
    with("umin", image_atomic<U, U64, false, decltype(kMin)>);
    with("smax", image_atomic<I, I64, false, decltype(kMax)>);
    with("umax", image_atomic<U, U64, false, decltype(kMax)>);
    with("and", image_atomic<U, U64, false, decltype(kAnd)>);
    with("or", image_atomic<U, U64, false, decltype(kOr)>);
    with("xor", image_atomic<U, U64, false, decltype(kXor)>);
    with("inc", image_atomic<U, U64, false, decltype(kInc)>);
    with("dec", image_atomic<U, U64, false, decltype(kDec)>);
  }
  template <typename Unsigned, typename Signed, bool kReturns>
  void add_ds(std::string_view u, std::string_view i, std::string_view b, std::string_view rtn) {
    const auto with = [&](std::string_view name, std::string_view type, Handler handler) {
      own(amdgpu_criu::formatted("ds_{}{}{}", name, rtn, type), handler);
    };
    with("add", u, atomic_op<Unsigned, false, kReturns, decltype(kAdd)>);
    with("sub", u, atomic_op<Unsigned, false, kReturns, decltype(kSub)>);
    with("rsub", u, atomic_op<Unsigned, false, kReturns, decltype(kRsub)>);
    with("inc", u, atomic_op<Unsigned, false, kReturns, decltype(kInc)>);
    with("dec", u, atomic_op<Unsigned, false, kReturns, decltype(kDec)>);
    with("min", i, atomic_op<Signed, false, kReturns, decltype(kMin)>);
    with("max", i, atomic_op<Signed, false, kReturns, decltype(kMax)>);
    with("min", u, atomic_op<Unsigned, false, kReturns, decltype(kMin)>);
    with("max", u, atomic_op<Unsigned, false, kReturns, decltype(kMax)>);
    with("and", b, atomic_op<Unsigned, false, kReturns, decltype(kAnd)>);
    with("or", b, atomic_op<Unsigned, false, kReturns, decltype(kOr)>);
    with("xor", b, atomic_op<Unsigned, false, kReturns, decltype(kXor)>);
    with("cmpst", b, atomic_op<Unsigned, true, kReturns, decltype(kCmpswap)>);
  }
  template <typename T, bool kReturns>
  void add_ds_floats(std::string_view rtn, std::string_view type) {
    own(amdgpu_criu::formatted("ds_add{}{}", rtn, type),
        atomic_op<T, false, kReturns, decltype(kAdd)>);
    own(amdgpu_criu::formatted("ds_min{}{}", rtn, type),
        atomic_op<T, false, kReturns, decltype(kFmin)>);
    own(amdgpu_criu::formatted("ds_max{}{}", rtn, type),
        atomic_op<T, false, kReturns, decltype(kFmax)>);
  }

  std::deque<std::string> names_;
  std::vector<SpecialOp> rows_;
};

}  // namespace

std::span<const SpecialOp> atomic_ops() {
  static const Table table;
  return table.rows();
}

}  // namespace gpu::shader
