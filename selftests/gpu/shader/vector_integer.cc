// SPDX-License-Identifier: GPL-2.0
// Integer operations of 32 and 64 bits. Semantics: "AMD Instinct MI200" ISA document, chapter 12.
#include <algorithm>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using U = uint32_t;
using I = int32_t;
using U64 = uint64_t;
using I64 = int64_t;

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kSub = [](auto a, auto b) { return a - b; };
constexpr auto kSubrev = [](auto a, auto b) { return b - a; };
constexpr auto kAnd = [](auto a, auto b) { return a & b; };
constexpr auto kMin = [](auto a, auto b) { return std::min(a, b); };
constexpr auto kMax = [](auto a, auto b) { return std::max(a, b); };
constexpr auto kMin3 = [](auto a, auto b, auto c) { return std::min({a, b, c}); };
constexpr auto kMax3 = [](auto a, auto b, auto c) { return std::max({a, b, c}); };
constexpr auto kMed3 = [](auto a, auto b, auto c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
};

constexpr U u24(U value) { return value & 0xffffff; }
constexpr I i24(U value) { return static_cast<I>(value << 8) >> 8; }

// Selects a byte of a pair of words; the selectors 8 to 15 have other meanings.
U perm_byte(U64 data, U select) {
  if (select >= 13) return 0xff;
  if (select == 12) return 0;
  if (select >= 8) return data >> (16 * (select - 8) + 15) & 1 ? 0xff : 0;
  return static_cast<U>(data >> (8 * select)) & 0xff;
}

U perm(U a, U b, U selectors) {
  const U64 data = join(b, a);
  U out = 0;
  for (unsigned i = 0; i < 4; ++i) out |= perm_byte(data, selectors >> (8 * i) & 0xff) << (8 * i);
  return out;
}

U bfe_u32(U value, U offset, U width) {
  return value >> (offset & 31) & ((U{1} << (width & 31)) - 1);
}
U bfe_i32(I value, U offset, U width) {
  const U count = width & 31;
  if (!count) return 0;
  const U field = bfe_u32(static_cast<U>(value), offset, count);
  const U sign = U{1} << (count - 1);
  const U in_range = (offset & 31) + count;
  // Above bit 31 the operand extends with its sign.
  if (in_range > 32) return static_cast<U>(value >> (offset & 31));
  return (field ^ sign) - sign;
}

U reversed(U value) {
  U out = 0;
  for (unsigned i = 0; i < 32; ++i) out |= (value >> i & 1) << (31 - i);
  return out;
}

U sad_u8(U a, U b) {
  U sum = 0;
  for (unsigned i = 0; i < 32; i += 8) {
    const I difference = static_cast<I>(a >> i & 0xff) - static_cast<I>(b >> i & 0xff);
    sum += static_cast<U>(std::abs(difference));
  }
  return sum;
}

U sad_u16(U a, U b) {
  U sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 16) {
    const U x = a >> shift & 0xffff, y = b >> shift & 0xffff;
    sum += x > y ? x - y : y - x;
  }
  return sum;
}

// Bytes that are 0 in the second operand are skipped.
U msad_u8(U a, U b) {
  U sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    const U x = a >> shift & 0xff, y = b >> shift & 0xff;
    if (y) sum += x > y ? x - y : y - x;
  }
  return sum;
}

U sad_u32(U a, U b) { return a > b ? a - b : b - a; }

// Operands of 32 bits, or wider ones with their values.
template <U (*kSad)(U, U)>
constexpr auto kSadPlus = [](auto a, auto b, auto sum) {
  return decltype(sum){kSad(static_cast<U>(a), static_cast<U>(b))} + sum;
};
constexpr auto kSadHigh = [](auto a, auto b, auto sum) {
  return decltype(sum){sad_u8(static_cast<U>(a), static_cast<U>(b)) << 16} + sum;
};
constexpr auto kMulU24 = [](auto a, auto b) {
  return decltype(a){u24(static_cast<U>(a))} * u24(static_cast<U>(b));
};
constexpr auto kMulI24 = [](I64 a, I64 b) {
  return I64{i24(static_cast<U>(a))} * i24(static_cast<U>(b));
};
constexpr auto kMadU24 = [](auto a, auto b, auto c) { return kMulU24(a, b) + c; };
constexpr auto kMadI24 = [](I64 a, I64 b, I64 c) { return kMulI24(a, b) + c; };

// Four sums, of the bytes of the first operand from its bytes 0, 1, 2 and 3 on: each is added to a
// half of the last operand. They wrap, or stay at their limit.
template <U (*kSad)(U, U), bool kClamp = false>
constexpr auto kFourSads = [](U64 a, U b, U64 sums) {
  U64 out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const U sum = kSad(low32(a >> 8 * i), b) + (low32(sums >> 16 * i) & 0xffff);
    out |= U64{kClamp ? std::min<U>(sum, 0xffff) : sum & 0xffff} << 16 * i;
  }
  return out;
};

// The mean of each byte; bits of the third operand round up.
U lerp_u8(U a, U b, U round) {
  U out = 0;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out |= (((a >> shift & 0xff) + (b >> shift & 0xff) + (round >> shift & 1)) >> 1) << shift;
  }
  return out;
}

// Dot products of signed parts of so many bits.
template <unsigned kBits>
constexpr I part(U value, unsigned at) {
  return static_cast<I>(value << (32 - kBits - at)) >> (32 - kBits);
}
template <unsigned kBits>
constexpr auto kDot = [](U a, U b, U sum) {
  for (unsigned i = 0; i < 32; i += kBits)
    sum += static_cast<U>(part<kBits>(a, i) * part<kBits>(b, i));
  return sum;
};
template <unsigned kBits>
constexpr auto kClampedDot = [](U a, U b, I sum) {
  I64 wide = sum;
  for (unsigned i = 0; i < 32; i += kBits) wide += I64{part<kBits>(a, i)} * part<kBits>(b, i);
  return std::clamp<I64>(wide, INT32_MIN, INT32_MAX);
};
template <unsigned kBits>
constexpr VectorOp dot(std::string_view name) {
  VectorOp row = accumulate<U, U, U, U>(name, kDot<kBits>);
  row.clamped = &detail::run<decltype(kClampedDot<kBits>), I, U, U, I>;
  return row;
}

constexpr VectorOp kOps[] = {
    op<U, U>("v_mov_b32", [](U a) { return a; }),
    op<U64, U64>("v_mov_b64", [](U64 a) { return a; }),
    op<U, U>("v_not_b32", [](U a) { return ~a; }),
    op<U, U>("v_bfrev_b32", [](U a) { return reversed(a); }),
    op<U, U>("v_ffbh_u32", [](U a) { return a ? static_cast<U>(std::countl_zero(a)) : ~U{0}; }),
    op<U, U>("v_ffbl_b32", [](U a) { return a ? static_cast<U>(std::countr_zero(a)) : ~U{0}; }),
    op<U, I>("v_ffbh_i32",
             [](I a) {
               const U same = static_cast<U>(a ^ (a >> 31));
               return same ? static_cast<U>(std::countl_zero(same)) : ~U{0};
             }),
    saturating<U, U, U>("v_add_u32", kAdd),
    saturating<U, U, U>("v_sub_u32", kSub),
    saturating<U, U, U>("v_subrev_u32", kSubrev),
    saturating<I, I, I>("v_add_i32", kAdd),
    saturating<I, I, I>("v_sub_i32", kSub),
    op<U, U, U>("v_mul_lo_u32", [](U a, U b) { return a * b; }),
    op<U, U, U>("v_mul_hi_u32", [](U a, U b) { return high32(U64{a} * b); }),
    op<U, I, I>("v_mul_hi_i32", [](I a, I b) { return high32(static_cast<U64>(I64{a} * b)); }),
    saturating<U, U, U>("v_mul_u32_u24", kMulU24),
    op<U, U, U>("v_mul_hi_u32_u24", [](U a, U b) { return high32(U64{u24(a)} * u24(b)); }),
    saturating<I, I, I>("v_mul_i32_i24", kMulI24),
    op<U, U, U>("v_mul_hi_i32_i24",
                [](U a, U b) { return high32(static_cast<U64>(I64{i24(a)} * i24(b))); }),
    saturating<U, U, U, U>("v_mad_u32_u24", kMadU24),
    saturating<I, I, I, I>("v_mad_i32_i24", kMadI24),
    op<U, U, U>("v_and_b32", kAnd),
    op<U, U, U>("v_or_b32", [](U a, U b) { return a | b; }),
    op<U, U, U>("v_xor_b32", [](U a, U b) { return a ^ b; }),
    op<U, U, U>("v_xnor_b32", [](U a, U b) { return ~(a ^ b); }),
    op<U, U, U>("v_lshlrev_b32", [](U a, U b) { return b << (a & 31); }),
    op<U, U, U>("v_lshrrev_b32", [](U a, U b) { return b >> (a & 31); }),
    op<U, U, I>("v_ashrrev_i32", [](U a, I b) { return static_cast<U>(b >> (a & 31)); }),
    op<U64, U, U64>("v_lshlrev_b64", [](U a, U64 b) { return b << (a & 63); }),
    op<U64, U, U64>("v_lshrrev_b64", [](U a, U64 b) { return b >> (a & 63); }),
    op<U64, U, I64>("v_ashrrev_i64", [](U a, I64 b) { return static_cast<U64>(b >> (a & 63)); }),
    op<I, I, I>("v_min_i32", kMin),
    op<I, I, I>("v_max_i32", kMax),
    op<U, U, U>("v_min_u32", kMin),
    op<U, U, U>("v_max_u32", kMax),
    op<I, I, I, I>("v_min3_i32", kMin3),
    op<U, U, U, U>("v_min3_u32", kMin3),
    op<I, I, I, I>("v_max3_i32", kMax3),
    op<U, U, U, U>("v_max3_u32", kMax3),
    op<I, I, I, I>("v_med3_i32", kMed3),
    op<U, U, U, U>("v_med3_u32", kMed3),
    op<U, U, U, U>("v_add3_u32", [](U a, U b, U c) { return a + b + c; }),
    op<U64, U64, U, U64>("v_lshl_add_u64", [](U64 a, U b, U64 c) { return (a << (b & 7)) + c; }),
    op<U, U, U, U>("v_lshl_add_u32", [](U a, U b, U c) { return (a << (b & 31)) + c; }),
    op<U, U, U, U>("v_add_lshl_u32", [](U a, U b, U c) { return (a + b) << (c & 31); }),
    op<U, U, U, U>("v_lshl_or_b32", [](U a, U b, U c) { return a << (b & 31) | c; }),
    op<U, U, U, U>("v_and_or_b32", [](U a, U b, U c) { return (a & b) | c; }),
    op<U, U, U, U>("v_or3_b32", [](U a, U b, U c) { return a | b | c; }),
    op<U, U, U, U>("v_xad_u32", [](U a, U b, U c) { return (a ^ b) + c; }),
    op<U, U, U, U>("v_bfe_u32", [](U a, U b, U c) { return bfe_u32(a, b, c); }),
    op<U, I, U, U>("v_bfe_i32", [](I a, U b, U c) { return bfe_i32(a, b, c); }),
    op<U, U, U, U>("v_bfi_b32", [](U a, U b, U c) { return (a & b) | (~a & c); }),
    op<U, U, U>("v_bfm_b32", [](U a, U b) { return ((U{1} << (a & 31)) - 1) << (b & 31); }),
    op<U, U, U, U>("v_alignbit_b32", [](U a, U b, U c) { return low32(join(b, a) >> (c & 31)); }),
    op<U, U, U, U>("v_alignbyte_b32",
                   [](U a, U b, U c) { return low32(join(b, a) >> (8 * (c & 3))); }),
    op<U, U, U, U>("v_perm_b32", [](U a, U b, U c) { return perm(a, b, c); }),
    op<U, U, U>("v_bcnt_u32_b32", [](U a, U b) { return static_cast<U>(std::popcount(a)) + b; }),
    saturating<U, U, U, U>("v_sad_u8", kSadPlus<sad_u8>),
    saturating<U, U, U, U>("v_sad_hi_u8", kSadHigh),
    saturating<U, U, U, U>("v_sad_u16", kSadPlus<sad_u16>),
    saturating<U, U, U, U>("v_sad_u32", kSadPlus<sad_u32>),
    saturating<U, U, U, U>("v_msad_u8", kSadPlus<msad_u8>),
    clamping<U64, U64, U, U64>("v_qsad_pk_u16_u8", kFourSads<sad_u8>, kFourSads<sad_u8, true>),
    clamping<U64, U64, U, U64>("v_mqsad_pk_u16_u8", kFourSads<msad_u8>, kFourSads<msad_u8, true>),
    op<uint16_t, U>("v_sat_pk_u8_i16",
                    [](U a) {
                      const auto byte = [](U half) {
                        return static_cast<U>(std::clamp<I>(static_cast<int16_t>(half), 0, 255));
                      };
                      return byte(a) | byte(a >> 16) << 8;
                    }),
    op<U, U, U, U>("v_lerp_u8", [](U a, U b, U c) { return lerp_u8(a, b, c); }),
    op<U, I, I>("v_cvt_pk_i16_i32",
                [](I a, I b) {
                  const auto narrowed = [](I value) {
                    return static_cast<U>(std::clamp<I>(value, INT16_MIN, INT16_MAX)) & 0xffff;
                  };
                  return narrowed(a) | narrowed(b) << 16;
                }),
    op<U, U, U>("v_cvt_pk_u16_u32",
                [](U a, U b) { return std::min<U>(a, 0xffff) | std::min<U>(b, 0xffff) << 16; }),
    dot<16>("v_dot2c_i32_i16"),
    dot<8>("v_dot4c_i32_i8"),
    dot<4>("v_dot8c_i32_i4"),
};

}  // namespace

std::span<const VectorOp> integer_ops() { return kOps; }

}  // namespace gpu::shader
