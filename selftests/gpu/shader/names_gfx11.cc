// SPDX-License-Identifier: GPL-2.0
// Mnemonics of gfx11 for operations that GFX9 has under other ones.
#include <algorithm>
#include <array>

#include "shader/vector_op.h"

namespace gpu::shader {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr Pair kWholeNames[] = {
    {"s_ctz_i32_b32", "s_ff1_i32_b32"},
    {"s_ctz_i32_b64", "s_ff1_i32_b64"},
    {"s_clz_i32_u32", "s_flbit_i32_b32"},
    {"s_clz_i32_u64", "s_flbit_i32_b64"},
    {"s_cls_i32", "s_flbit_i32"},
    {"s_cls_i32_i64", "s_flbit_i32_i64"},
    {"v_clz_i32_u32", "v_ffbh_u32"},
    {"v_ctz_i32_b32", "v_ffbl_b32"},
    {"v_cls_i32", "v_ffbh_i32"},
    {"v_add_co_ci_u32", "v_addc_co_u32"},
    {"v_sub_co_ci_u32", "v_subb_co_u32"},
    {"v_subrev_co_ci_u32", "v_subbrev_co_u32"},
    {"v_mul_dx9_zero_f32", "v_mul_legacy_f32"},
    {"v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"},
    {"v_cvt_pk_norm_i16_f32", "v_cvt_pknorm_i16_f32"},
    {"v_cvt_pk_norm_u16_f32", "v_cvt_pknorm_u16_f32"},
    {"v_cvt_pk_norm_i16_f16", "v_cvt_pknorm_i16_f16"},
    {"v_cvt_pk_norm_u16_f16", "v_cvt_pknorm_u16_f16"},
    {"v_cvt_nearest_i32_f32", "v_cvt_rpi_i32_f32"},
    {"v_cvt_floor_i32_f32", "v_cvt_flr_i32_f32"},
    {"v_dot2acc_f32_f16", "v_dot2c_f32_f16"},
};

// Parts of names of the ALU.
constexpr Pair kAluParts[] = {
    {"_and_not1_", "_andn2_"},      {"_or_not1_", "_orn2_"}, {"_and_not0_", "_andn1_"},
    {"_or_not0_", "_orn1_"},        {"_nc_", "_"},           {"v_cmp_t_f", "v_cmp_tru_f"},
    {"v_cmpx_t_f", "v_cmpx_tru_f"},
};

// Parts of names of LDS operations.
constexpr Pair kDsParts[] = {
    {"_load_2addr_stride64_", "_read2st64_"},
    {"_store_2addr_stride64_", "_write2st64_"},
    {"_load_2addr_", "_read2_"},
    {"_store_2addr_", "_write2_"},
    {"_load_", "_read_"},
    {"_store_", "_write_"},
    {"_storexchg_rtn_", "_wrxchg_rtn_"},
    {"_cmpstore_", "_cmpst_"},
};

// Behind the prefix of a memory format.
constexpr Pair kLoadsAndStores[] = {
    {"load_u8", "load_ubyte"},
    {"load_i8", "load_sbyte"},
    {"load_u16", "load_ushort"},
    {"load_i16", "load_sshort"},
    {"load_b32", "load_dword"},
    {"load_b64", "load_dwordx2"},
    {"load_b96", "load_dwordx3"},
    {"load_b128", "load_dwordx4"},
    {"load_b256", "load_dwordx8"},
    {"load_b512", "load_dwordx16"},
    {"load_d16_u8", "load_ubyte_d16"},
    {"load_d16_i8", "load_sbyte_d16"},
    {"load_d16_b16", "load_short_d16"},
    {"load_d16_hi_u8", "load_ubyte_d16_hi"},
    {"load_d16_hi_i8", "load_sbyte_d16_hi"},
    {"load_d16_hi_b16", "load_short_d16_hi"},
    {"store_b8", "store_byte"},
    {"store_b16", "store_short"},
    {"store_b32", "store_dword"},
    {"store_b64", "store_dwordx2"},
    {"store_b96", "store_dwordx3"},
    {"store_b128", "store_dwordx4"},
    {"store_d16_hi_b8", "store_byte_d16_hi"},
    {"store_d16_hi_b16", "store_short_d16_hi"},
};

std::string_view other(std::span<const Pair> pairs, std::string_view name) {
  const auto found = std::ranges::find(pairs, name, &Pair::first);
  return found == pairs.end() ? "" : found->second;
}

// Empty: the name has none of the parts.
std::string with_part(std::span<const Pair> pairs, std::string_view name) {
  for (const auto& [part, replacement] : pairs) {
    const size_t at = name.find(part);
    if (at == name.npos) continue;
    return std::string(name.substr(0, at))
        .append(replacement)
        .append(name.substr(at + part.size()));
  }
  return "";
}

// "atomic_min_i64" is "atomic_smin_x2"; floats have their type in their name.
std::string atomic_name(std::string_view name) {
  const size_t at = name.rfind('_');
  const std::string_view type = name.substr(at + 1);
  if (type.starts_with('f')) return "";
  std::string out(name.substr(0, at));
  for (const std::string_view order : {"min", "max"}) {
    if (out.ends_with(order)) out.insert(out.size() - order.size(), 1, type[0] == 'i' ? 's' : 'u');
  }
  return type.ends_with("64") ? out + "_x2" : out;
}

std::string memory_name(std::string_view name) {
  for (const std::string_view prefix :
       {"flat_", "global_", "scratch_", "s_buffer_", "buffer_", "s_"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    std::string old(other(kLoadsAndStores, rest));
    if (rest.starts_with("atomic_")) old = atomic_name(rest);
    return old.empty() ? "" : std::string(prefix) + old;
  }
  return "";
}

}  // namespace

std::string gfx9_name(std::string_view name) {
  if (const std::string_view whole = other(kWholeNames, name); !whole.empty())
    return std::string(whole);
  if (name.starts_with("ds_")) return with_part(kDsParts, name);
  if (std::string memory = memory_name(name); !memory.empty()) return memory;
  return with_part(kAluParts, name);
}

}  // namespace gpu::shader
