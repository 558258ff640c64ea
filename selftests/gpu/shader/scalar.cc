// SPDX-License-Identifier: GPL-2.0
// Scalar ALU: SOP2, SOP1, SOPK, SOPC. Semantics: "AMD Instinct MI200" ISA document, chapter 12.
#include <algorithm>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using U = uint32_t;
using I = int32_t;
using U64 = uint64_t;
using I64 = int64_t;

template <typename T>
T source(const Wave& wave, const Instruction& in, unsigned i) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(wave.scalar64(in.src[i], in));
  } else {
    return static_cast<T>(wave.scalar(in.src[i], in));
  }
}

template <typename T>
void write(Wave& wave, unsigned code, T value) {
  if constexpr (sizeof(T) == 8) {
    wave.set_s64(code, static_cast<U64>(value));
  } else {
    wave.set_s(code, static_cast<U>(value));
  }
}

template <typename T>
struct WithScc {
  T value;
  bool scc;
};

// A function of the sources whose result also is SCC when it is not 0 (bit operations), leaves
// SCC alone, or gives it.
enum class Scc { kNonzero, kKept };

template <Scc kScc, typename T, typename... S, typename F>
constexpr SpecialOp alu(std::string_view name, F) {
  return {name, [](Wave& wave, const Instruction& in) {
            [&]<size_t... N>(std::index_sequence<N...>) {
              const T value = static_cast<T>(F{}(source<S>(wave, in, N)...));
              write(wave, in.dst, value);
              if (kScc == Scc::kNonzero) wave.scc = value != 0;
            }(std::index_sequence_for<S...>{});
          }};
}
template <typename T, typename... S, typename F>
constexpr SpecialOp logic(std::string_view name, F f) {
  return alu<Scc::kNonzero, T, S...>(name, f);
}
template <typename T, typename... S, typename F>
constexpr SpecialOp plain(std::string_view name, F f) {
  return alu<Scc::kKept, T, S...>(name, f);
}
// f(a, b, scc) gives the result and SCC.
template <typename T, typename F>
constexpr SpecialOp flagged(std::string_view name, F) {
  return {name, [](Wave& wave, const Instruction& in) {
            const auto out = F{}(source<T>(wave, in, 0), source<T>(wave, in, 1), wave.scc);
            write(wave, in.dst, static_cast<T>(out.value));
            wave.scc = out.scc;
          }};
}
template <typename T, typename F>
constexpr SpecialOp compare(std::string_view name, F) {
  return {name, [](Wave& wave, const Instruction& in) {
            wave.scc = F{}(source<T>(wave, in, 0), source<T>(wave, in, 1));
          }};
}
template <typename T, typename F>
constexpr SpecialOp compare_k(std::string_view name, F) {
  return {name, [](Wave& wave, const Instruction& in) {
            const auto constant = static_cast<T>(
                std::is_signed_v<T> ? in.immediate : static_cast<uint16_t>(in.immediate));
            wave.scc = F{}(static_cast<T>(wave.s(in.dst)), constant);
          }};
}
// The old EXEC goes to the destination.
template <typename T>
T exec_of(const Wave& wave) {
  return static_cast<T>(wave.s64(operand::kExec));
}
template <typename T = U64, typename F>
constexpr SpecialOp saveexec(std::string_view name, F) {
  return {name, [](Wave& wave, const Instruction& in) {
            const T value = source<T>(wave, in, 0);
            const T exec = exec_of<T>(wave);
            const T result = static_cast<T>(F{}(value, exec));
            write(wave, in.dst, exec);
            write(wave, operand::kExec, result);
            wave.scc = result != 0;
          }};
}
template <typename T = U64, typename F>
constexpr SpecialOp wrexec(std::string_view name, F) {
  return {name, [](Wave& wave, const Instruction& in) {
            const T result = static_cast<T>(F{}(source<T>(wave, in, 0), exec_of<T>(wave)));
            write(wave, operand::kExec, result);
            write(wave, in.dst, result);
            wave.scc = result != 0;
          }};
}

constexpr U64 with_bits_twice(U value) {
  U64 out = 0;
  for (unsigned i = 0; i < 32; ++i) out |= U64{value >> i & 1} * 3 << (2 * i);
  return out;
}
// The lowest bit of each group of four says whether one of them is set.
template <typename T>
constexpr T quads_of(T value) {
  const T pairs = value | value >> 1;
  return (pairs | pairs >> 2) & static_cast<T>(0x1111111111111111);
}
// Every fourth bit.
template <typename T>
constexpr T gathered(T value) {
  T out = 0;
  for (unsigned i = 0; i < 2 * sizeof(T); ++i) out |= (value >> (4 * i) & 1) << i;
  return out;
}
template <typename T>
constexpr T first_one(T value) {
  return value ? static_cast<T>(std::countr_zero(value)) : T(-1);
}
template <typename T>
constexpr U sign_bits(T value) {
  using Unsigned = std::make_unsigned_t<T>;
  const auto same = static_cast<Unsigned>(value ^ (value >> (8 * sizeof(T) - 1)));
  return same ? static_cast<U>(std::countl_zero(same)) : ~U{0};
}
template <typename T>
T reversed(T value) {
  T out = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i) out |= (value >> i & 1) << (8 * sizeof(T) - 1 - i);
  return out;
}
// Offset and width in one operand: [4:0] or [5:0], and [22:16].
template <typename T>
T bit_field(T value, U control) {
  constexpr unsigned kBits = 8 * sizeof(T);
  const unsigned offset = control & (kBits - 1);
  const unsigned width = std::min(control >> 16 & 0x7f, kBits - offset);
  if (!width) return 0;
  using Unsigned = std::make_unsigned_t<T>;
  const auto top = static_cast<T>(static_cast<Unsigned>(value) << (kBits - offset - width));
  return static_cast<T>(top >> (kBits - width));
}
template <typename T>
constexpr T mask_of(T width, T offset) {
  constexpr unsigned kBits = 8 * sizeof(T);
  return ((T{1} << (width & (kBits - 1))) - 1) << (offset & (kBits - 1));
}
template <unsigned kShift>
constexpr auto kShiftAdd = [](U a, U b, bool) {
  const U64 sum = (U64{a} << kShift) + b;
  return WithScc<U>{low32(sum), high32(sum) != 0};
};

constexpr auto kMov = [](auto a) { return a; };
constexpr auto kNot = [](auto a) { return ~a; };
constexpr auto kAnd = [](auto a, auto b) { return a & b; };
constexpr auto kOr = [](auto a, auto b) { return a | b; };
constexpr auto kXor = [](auto a, auto b) { return a ^ b; };
constexpr auto kAndn2 = [](auto a, auto b) { return a & ~b; };
constexpr auto kOrn2 = [](auto a, auto b) { return a | ~b; };
constexpr auto kNand = [](auto a, auto b) { return ~(a & b); };
constexpr auto kNor = [](auto a, auto b) { return ~(a | b); };
constexpr auto kXnor = [](auto a, auto b) { return ~(a ^ b); };
constexpr auto kAndn1 = [](auto a, auto b) { return ~a & b; };
constexpr auto kOrn1 = [](auto a, auto b) { return ~a | b; };
constexpr auto kEq = [](auto a, auto b) { return a == b; };
constexpr auto kLg = [](auto a, auto b) { return a != b; };
constexpr auto kGt = [](auto a, auto b) { return a > b; };
constexpr auto kGe = [](auto a, auto b) { return a >= b; };
constexpr auto kLt = [](auto a, auto b) { return a < b; };
constexpr auto kLe = [](auto a, auto b) { return a <= b; };
constexpr auto kMin = [](auto a, auto b, bool) {
  return WithScc<decltype(a)>{std::min(a, b), a < b};
};
constexpr auto kMax = [](auto a, auto b, bool) {
  return WithScc<decltype(a)>{std::max(a, b), a > b};
};

void cselect32(Wave& wave, const Instruction& in) {
  wave.set_s(in.dst, source<U>(wave, in, wave.scc ? 0 : 1));
}
void cselect64(Wave& wave, const Instruction& in) {
  wave.set_s64(in.dst, source<U64>(wave, in, wave.scc ? 0 : 1));
}
void cmov32(Wave& wave, const Instruction& in) {
  if (wave.scc) wave.set_s(in.dst, source<U>(wave, in, 0));
}
void cmov64(Wave& wave, const Instruction& in) {
  if (wave.scc) wave.set_s64(in.dst, source<U64>(wave, in, 0));
}
void abs_i32(Wave& wave, const Instruction& in) {
  const U value = source<U>(wave, in, 0);
  const U result = value >> 31 ? 0 - value : value;
  wave.set_s(in.dst, result);
  wave.scc = result != 0;
}
template <bool kSet>
void bitset32(Wave& wave, const Instruction& in) {
  const U bit = U{1} << (source<U>(wave, in, 0) & 31);
  wave.set_s(in.dst, kSet ? wave.s(in.dst) | bit : wave.s(in.dst) & ~bit);
}
template <bool kSet>
void bitset64(Wave& wave, const Instruction& in) {
  const U64 bit = U64{1} << (source<U>(wave, in, 0) & 63);
  wave.set_s64(in.dst, kSet ? wave.s64(in.dst) | bit : wave.s64(in.dst) & ~bit);
}
template <typename T, bool kOne>
void bitcmp(Wave& wave, const Instruction& in) {
  const T value = source<T>(wave, in, 0);
  wave.scc = (value >> (source<U>(wave, in, 1) & (8 * sizeof(T) - 1)) & 1) == kOne;
}

void movk(Wave& wave, const Instruction& in) { wave.set_s(in.dst, static_cast<U>(in.immediate)); }
void cmovk(Wave& wave, const Instruction& in) {
  if (wave.scc) movk(wave, in);
}
void addk(Wave& wave, const Instruction& in) {
  I sum;
  wave.scc = __builtin_add_overflow(static_cast<I>(wave.s(in.dst)), in.immediate, &sum);
  wave.set_s(in.dst, static_cast<U>(sum));
}
void mulk(Wave& wave, const Instruction& in) {
  wave.set_s(in.dst, wave.s(in.dst) * static_cast<U>(in.immediate));
}

constexpr SpecialOp kOps[] = {
    flagged<U>("s_add_u32", [](U a, U b, bool) { return WithScc<U>{a + b, a + b < a}; }),
    flagged<U>("s_sub_u32", [](U a, U b, bool) { return WithScc<U>{a - b, b > a}; }),
    flagged<U>("s_addc_u32",
               [](U a, U b, bool carry) {
                 const U64 sum = U64{a} + b + carry;
                 return WithScc<U>{low32(sum), high32(sum) != 0};
               }),
    flagged<U>("s_subb_u32",
               [](U a, U b, bool carry) { return WithScc<U>{a - b - carry, U64{b} + carry > a}; }),
    flagged<I>("s_add_i32",
               [](I a, I b, bool) {
                 I sum;
                 const bool overflow = __builtin_add_overflow(a, b, &sum);
                 return WithScc<I>{sum, overflow};
               }),
    flagged<I>("s_sub_i32",
               [](I a, I b, bool) {
                 I difference;
                 const bool overflow = __builtin_sub_overflow(a, b, &difference);
                 return WithScc<I>{difference, overflow};
               }),
    flagged<I>("s_min_i32", kMin),
    flagged<U>("s_min_u32", kMin),
    flagged<I>("s_max_i32", kMax),
    flagged<U>("s_max_u32", kMax),
    flagged<U>("s_lshl1_add_u32", kShiftAdd<1>),
    flagged<U>("s_lshl2_add_u32", kShiftAdd<2>),
    flagged<U>("s_lshl3_add_u32", kShiftAdd<3>),
    flagged<U>("s_lshl4_add_u32", kShiftAdd<4>),
    {"s_cselect_b32", cselect32},
    {"s_cselect_b64", cselect64},
    logic<U, U, U>("s_and_b32", kAnd),
    logic<U64, U64, U64>("s_and_b64", kAnd),
    logic<U, U, U>("s_or_b32", kOr),
    logic<U64, U64, U64>("s_or_b64", kOr),
    logic<U, U, U>("s_xor_b32", kXor),
    logic<U64, U64, U64>("s_xor_b64", kXor),
    logic<U, U, U>("s_andn2_b32", kAndn2),
    logic<U64, U64, U64>("s_andn2_b64", kAndn2),
    logic<U, U, U>("s_orn2_b32", kOrn2),
    logic<U64, U64, U64>("s_orn2_b64", kOrn2),
    logic<U, U, U>("s_nand_b32", kNand),
    logic<U64, U64, U64>("s_nand_b64", kNand),
    logic<U, U, U>("s_nor_b32", kNor),
    logic<U64, U64, U64>("s_nor_b64", kNor),
    logic<U, U, U>("s_xnor_b32", kXnor),
    logic<U64, U64, U64>("s_xnor_b64", kXnor),
    logic<U, U, U>("s_lshl_b32", [](U a, U b) { return a << (b & 31); }),
    logic<U64, U64, U>("s_lshl_b64", [](U64 a, U b) { return a << (b & 63); }),
    logic<U, U, U>("s_lshr_b32", [](U a, U b) { return a >> (b & 31); }),
    logic<U64, U64, U>("s_lshr_b64", [](U64 a, U b) { return a >> (b & 63); }),
    logic<I, I, U>("s_ashr_i32", [](I a, U b) { return a >> (b & 31); }),
    logic<I64, I64, U>("s_ashr_i64", [](I64 a, U b) { return a >> (b & 63); }),
    logic<U, U, U>("s_bfe_u32", [](U a, U b) { return bit_field(a, b); }),
    logic<I, I, U>("s_bfe_i32", [](I a, U b) { return bit_field(a, b); }),
    logic<U64, U64, U>("s_bfe_u64", [](U64 a, U b) { return bit_field(a, b); }),
    logic<I64, I64, U>("s_bfe_i64", [](I64 a, U b) { return bit_field(a, b); }),
    plain<U, U, U>("s_bfm_b32", [](U a, U b) { return mask_of(a, b); }),
    plain<U64, U, U>("s_bfm_b64", [](U a, U b) { return mask_of<U64>(a, b); }),
    plain<U, U, U>("s_mul_i32", [](U a, U b) { return a * b; }),
    plain<U, U, U>("s_mul_hi_u32", [](U a, U b) { return high32(U64{a} * b); }),
    plain<U, I, I>("s_mul_hi_i32", [](I a, I b) { return high32(static_cast<U64>(I64{a} * b)); }),
    plain<U, U, U>("s_pack_ll_b32_b16", [](U a, U b) { return (a & 0xffff) | b << 16; }),
    plain<U, U, U>("s_pack_lh_b32_b16", [](U a, U b) { return (a & 0xffff) | (b & 0xffff0000); }),
    plain<U, U, U>("s_pack_hl_b32_b16", [](U a, U b) { return a >> 16 | b << 16; }),
    plain<U, U, U>("s_pack_hh_b32_b16", [](U a, U b) { return a >> 16 | (b & 0xffff0000); }),
    logic<U, U, U>("s_absdiff_i32",
                   [](U a, U b) {
                     const U difference = a - b;
                     return static_cast<I>(difference) < 0 ? 0 - difference : difference;
                   }),
    plain<U, U>("s_mov_b32", kMov),
    plain<U64, U64>("s_mov_b64", kMov),
    {"s_cmov_b32", cmov32},
    {"s_cmov_b64", cmov64},
    logic<U, U>("s_not_b32", kNot),
    logic<U64, U64>("s_not_b64", kNot),
    plain<U, U>("s_brev_b32", [](U a) { return reversed(a); }),
    plain<U64, U64>("s_brev_b64", [](U64 a) { return reversed(a); }),
    plain<U64, U>("s_bitreplicate_b64_b32", [](U a) { return with_bits_twice(a); }),
    logic<U, U>("s_wqm_b32", [](U a) { return quads_of(a) * 15; }),
    logic<U64, U64>("s_wqm_b64", [](U64 a) { return quads_of(a) * 15; }),
    logic<U, U>("s_quadmask_b32", [](U a) { return gathered(quads_of(a)); }),
    logic<U64, U64>("s_quadmask_b64", [](U64 a) { return gathered(quads_of(a)); }),
    logic<U, U>("s_bcnt0_i32_b32", [](U a) { return std::popcount(~a); }),
    logic<U, U64>("s_bcnt0_i32_b64", [](U64 a) { return std::popcount(~a); }),
    logic<U, U>("s_bcnt1_i32_b32", [](U a) { return std::popcount(a); }),
    logic<U, U64>("s_bcnt1_i32_b64", [](U64 a) { return std::popcount(a); }),
    plain<U, U>("s_ff0_i32_b32", [](U a) { return first_one(~a); }),
    plain<U, U64>("s_ff0_i32_b64", [](U64 a) { return first_one(~a); }),
    plain<U, U>("s_ff1_i32_b32", [](U a) { return first_one(a); }),
    plain<U, U64>("s_ff1_i32_b64", [](U64 a) { return first_one(a); }),
    plain<U, U>("s_flbit_i32_b32", [](U a) { return a ? std::countl_zero(a) : -1; }),
    plain<U, U64>("s_flbit_i32_b64", [](U64 a) { return a ? std::countl_zero(a) : -1; }),
    plain<U, I>("s_flbit_i32", [](I a) { return sign_bits(a); }),
    plain<U, I64>("s_flbit_i32_i64", [](I64 a) { return sign_bits(a); }),
    plain<I, U>("s_sext_i32_i8", [](U a) { return I{static_cast<int8_t>(a)}; }),
    plain<I, U>("s_sext_i32_i16", [](U a) { return I{static_cast<int16_t>(a)}; }),
    {"s_abs_i32", abs_i32},
    {"s_bitset0_b32", bitset32<false>},
    {"s_bitset1_b32", bitset32<true>},
    {"s_bitset0_b64", bitset64<false>},
    {"s_bitset1_b64", bitset64<true>},
    saveexec("s_and_saveexec_b64", kAnd),
    saveexec("s_or_saveexec_b64", kOr),
    saveexec("s_xor_saveexec_b64", kXor),
    saveexec("s_andn2_saveexec_b64", kAndn2),
    saveexec("s_orn2_saveexec_b64", kOrn2),
    saveexec("s_nand_saveexec_b64", kNand),
    saveexec("s_nor_saveexec_b64", kNor),
    saveexec("s_xnor_saveexec_b64", kXnor),
    saveexec("s_andn1_saveexec_b64", kAndn1),
    saveexec("s_orn1_saveexec_b64", kOrn1),
    wrexec("s_andn1_wrexec_b64", kAndn1),
    wrexec("s_andn2_wrexec_b64", kAndn2),
    saveexec<U>("s_and_saveexec_b32", kAnd),
    saveexec<U>("s_or_saveexec_b32", kOr),
    saveexec<U>("s_xor_saveexec_b32", kXor),
    saveexec<U>("s_andn2_saveexec_b32", kAndn2),
    saveexec<U>("s_orn2_saveexec_b32", kOrn2),
    saveexec<U>("s_nand_saveexec_b32", kNand),
    saveexec<U>("s_nor_saveexec_b32", kNor),
    saveexec<U>("s_xnor_saveexec_b32", kXnor),
    saveexec<U>("s_andn1_saveexec_b32", kAndn1),
    saveexec<U>("s_orn1_saveexec_b32", kOrn1),
    wrexec<U>("s_andn1_wrexec_b32", kAndn1),
    wrexec<U>("s_andn2_wrexec_b32", kAndn2),
    {"s_movk_i32", movk},
    {"s_cmovk_i32", cmovk},
    {"s_addk_i32", addk},
    {"s_mulk_i32", mulk},
    compare_k<I>("s_cmpk_eq_i32", kEq),
    compare_k<I>("s_cmpk_lg_i32", kLg),
    compare_k<I>("s_cmpk_gt_i32", kGt),
    compare_k<I>("s_cmpk_ge_i32", kGe),
    compare_k<I>("s_cmpk_lt_i32", kLt),
    compare_k<I>("s_cmpk_le_i32", kLe),
    compare_k<U>("s_cmpk_eq_u32", kEq),
    compare_k<U>("s_cmpk_lg_u32", kLg),
    compare_k<U>("s_cmpk_gt_u32", kGt),
    compare_k<U>("s_cmpk_ge_u32", kGe),
    compare_k<U>("s_cmpk_lt_u32", kLt),
    compare_k<U>("s_cmpk_le_u32", kLe),
    compare<I>("s_cmp_eq_i32", kEq),
    compare<I>("s_cmp_lg_i32", kLg),
    compare<I>("s_cmp_gt_i32", kGt),
    compare<I>("s_cmp_ge_i32", kGe),
    compare<I>("s_cmp_lt_i32", kLt),
    compare<I>("s_cmp_le_i32", kLe),
    compare<U>("s_cmp_eq_u32", kEq),
    compare<U>("s_cmp_lg_u32", kLg),
    compare<U>("s_cmp_gt_u32", kGt),
    compare<U>("s_cmp_ge_u32", kGe),
    compare<U>("s_cmp_lt_u32", kLt),
    compare<U>("s_cmp_le_u32", kLe),
    compare<U64>("s_cmp_eq_u64", kEq),
    compare<U64>("s_cmp_lg_u64", kLg),
    {"s_bitcmp0_b32", bitcmp<U, false>},
    {"s_bitcmp1_b32", bitcmp<U, true>},
    {"s_bitcmp0_b64", bitcmp<U64, false>},
    {"s_bitcmp1_b64", bitcmp<U64, true>},
};

}  // namespace

std::span<const SpecialOp> scalar_ops() { return kOps; }

}  // namespace gpu::shader
