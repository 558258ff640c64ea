// SPDX-License-Identifier: GPL-2.0
#include "shader/opcodes.h"

#include "shader/opcode_tables.h"

namespace gpu::shader {
namespace {

// Runs of consecutive opcodes, each after the number of its first. Memory formats share the
// numbers of their operations, so their prefixes are added later.
// Each string is the names of many opcodes, on several lines.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
constexpr std::string_view kSop2[] = {
    "0: s_add_u32 s_sub_u32 s_add_i32 s_sub_i32 s_addc_u32 s_subb_u32 s_min_i32 s_min_u32"
    " s_max_i32 s_max_u32 s_cselect_b32 s_cselect_b64 s_and_b32 s_and_b64 s_or_b32 s_or_b64"
    " s_xor_b32 s_xor_b64 s_andn2_b32 s_andn2_b64 s_orn2_b32 s_orn2_b64 s_nand_b32 s_nand_b64"
    " s_nor_b32 s_nor_b64 s_xnor_b32 s_xnor_b64 s_lshl_b32 s_lshl_b64 s_lshr_b32 s_lshr_b64"
    " s_ashr_i32 s_ashr_i64 s_bfm_b32 s_bfm_b64 s_mul_i32 s_bfe_u32 s_bfe_i32 s_bfe_u64"
    " s_bfe_i64",
    "42: s_absdiff_i32",
    "44: s_mul_hi_u32 s_mul_hi_i32 s_lshl1_add_u32 s_lshl2_add_u32 s_lshl3_add_u32"
    " s_lshl4_add_u32 s_pack_ll_b32_b16 s_pack_lh_b32_b16 s_pack_hh_b32_b16",
};
constexpr std::string_view kSop1[] = {
    "0: s_mov_b32 s_mov_b64 s_cmov_b32 s_cmov_b64 s_not_b32 s_not_b64 s_wqm_b32 s_wqm_b64"
    " s_brev_b32 s_brev_b64 s_bcnt0_i32_b32 s_bcnt0_i32_b64 s_bcnt1_i32_b32 s_bcnt1_i32_b64"
    " s_ff0_i32_b32 s_ff0_i32_b64 s_ff1_i32_b32 s_ff1_i32_b64 s_flbit_i32_b32 s_flbit_i32_b64"
    " s_flbit_i32 s_flbit_i32_i64 s_sext_i32_i8 s_sext_i32_i16 s_bitset0_b32 s_bitset0_b64"
    " s_bitset1_b32 s_bitset1_b64 s_getpc_b64 s_setpc_b64 s_swappc_b64 s_rfe_b64"
    " s_and_saveexec_b64 s_or_saveexec_b64 s_xor_saveexec_b64 s_andn2_saveexec_b64"
    " s_orn2_saveexec_b64 s_nand_saveexec_b64 s_nor_saveexec_b64 s_xnor_saveexec_b64"
    " s_quadmask_b32 s_quadmask_b64 s_movrels_b32 s_movrels_b64 s_movreld_b32 s_movreld_b64"
    " s_cbranch_join",
    "48: s_abs_i32",
    "50: s_set_gpr_idx_idx s_andn1_saveexec_b64 s_orn1_saveexec_b64 s_andn1_wrexec_b64"
    " s_andn2_wrexec_b64 s_bitreplicate_b64_b32",
};
constexpr std::string_view kSopk[] = {
    "0: s_movk_i32 s_cmovk_i32 s_cmpk_eq_i32 s_cmpk_lg_i32 s_cmpk_gt_i32 s_cmpk_ge_i32"
    " s_cmpk_lt_i32 s_cmpk_le_i32 s_cmpk_eq_u32 s_cmpk_lg_u32 s_cmpk_gt_u32 s_cmpk_ge_u32"
    " s_cmpk_lt_u32 s_cmpk_le_u32 s_addk_i32 s_mulk_i32 s_cbranch_i_fork s_getreg_b32"
    " s_setreg_b32",
    "20: s_setreg_imm32_b32 s_call_b64",
};
constexpr std::string_view kSopc[] = {
    "0: s_cmp_eq_i32 s_cmp_lg_i32 s_cmp_gt_i32 s_cmp_ge_i32 s_cmp_lt_i32 s_cmp_le_i32"
    " s_cmp_eq_u32 s_cmp_lg_u32 s_cmp_gt_u32 s_cmp_ge_u32 s_cmp_lt_u32 s_cmp_le_u32"
    " s_bitcmp0_b32 s_bitcmp1_b32 s_bitcmp0_b64 s_bitcmp1_b64 s_setvskip s_set_gpr_idx_on"
    " s_cmp_eq_u64 s_cmp_lg_u64",
};
constexpr std::string_view kSopp[] = {
    "0: s_nop s_endpgm s_branch s_wakeup s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz"
    " s_cbranch_vccnz s_cbranch_execz s_cbranch_execnz s_barrier s_setkill s_waitcnt s_sethalt"
    " s_sleep s_setprio s_sendmsg s_sendmsghalt s_trap s_icache_inv s_incperflevel"
    " s_decperflevel s_ttracedata s_cbranch_cdbgsys s_cbranch_cdbguser s_cbranch_cdbgsys_or_user"
    " s_cbranch_cdbgsys_and_user s_endpgm_saved s_set_gpr_idx_off s_set_gpr_idx_mode"
    " s_endpgm_ordered_ps_done",
};
constexpr std::string_view kSmem[] = {
    "0: s_load_dword s_load_dwordx2 s_load_dwordx4 s_load_dwordx8 s_load_dwordx16"
    " s_scratch_load_dword s_scratch_load_dwordx2 s_scratch_load_dwordx4 s_buffer_load_dword"
    " s_buffer_load_dwordx2 s_buffer_load_dwordx4 s_buffer_load_dwordx8 s_buffer_load_dwordx16",
    "16: s_store_dword s_store_dwordx2 s_store_dwordx4",
    "21: s_scratch_store_dword s_scratch_store_dwordx2 s_scratch_store_dwordx4"
    " s_buffer_store_dword s_buffer_store_dwordx2 s_buffer_store_dwordx4",
    "32: s_dcache_inv s_dcache_wb s_dcache_inv_vol s_dcache_wb_vol s_memtime s_memrealtime"
    " s_atc_probe s_atc_probe_buffer s_dcache_discard s_dcache_discard_x2",
    "64: s_buffer_atomic_swap s_buffer_atomic_cmpswap s_buffer_atomic_add s_buffer_atomic_sub"
    " s_buffer_atomic_smin s_buffer_atomic_umin s_buffer_atomic_smax s_buffer_atomic_umax"
    " s_buffer_atomic_and s_buffer_atomic_or s_buffer_atomic_xor s_buffer_atomic_inc"
    " s_buffer_atomic_dec",
    "96: s_buffer_atomic_swap_x2 s_buffer_atomic_cmpswap_x2 s_buffer_atomic_add_x2"
    " s_buffer_atomic_sub_x2 s_buffer_atomic_smin_x2 s_buffer_atomic_umin_x2"
    " s_buffer_atomic_smax_x2 s_buffer_atomic_umax_x2 s_buffer_atomic_and_x2"
    " s_buffer_atomic_or_x2 s_buffer_atomic_xor_x2 s_buffer_atomic_inc_x2 s_buffer_atomic_dec_x2",
    "128: s_atomic_swap s_atomic_cmpswap s_atomic_add s_atomic_sub s_atomic_smin s_atomic_umin"
    " s_atomic_smax s_atomic_umax s_atomic_and s_atomic_or s_atomic_xor s_atomic_inc"
    " s_atomic_dec",
    "160: s_atomic_swap_x2 s_atomic_cmpswap_x2 s_atomic_add_x2 s_atomic_sub_x2 s_atomic_smin_x2"
    " s_atomic_umin_x2 s_atomic_smax_x2 s_atomic_umax_x2 s_atomic_and_x2 s_atomic_or_x2"
    " s_atomic_xor_x2 s_atomic_inc_x2 s_atomic_dec_x2",
};
constexpr std::string_view kVop2[] = {
    "0: v_cndmask_b32 v_add_f32 v_sub_f32 v_subrev_f32 v_fmac_f64 v_mul_f32 v_mul_i32_i24"
    " v_mul_hi_i32_i24 v_mul_u32_u24 v_mul_hi_u32_u24 v_min_f32 v_max_f32 v_min_i32 v_max_i32"
    " v_min_u32 v_max_u32 v_lshrrev_b32 v_ashrrev_i32 v_lshlrev_b32 v_and_b32 v_or_b32 v_xor_b32"
    " v_mac_f32 v_madmk_f32 v_madak_f32 v_add_co_u32 v_sub_co_u32 v_subrev_co_u32 v_addc_co_u32"
    " v_subb_co_u32 v_subbrev_co_u32 v_add_f16 v_sub_f16 v_subrev_f16 v_mul_f16 v_mac_f16"
    " v_madmk_f16 v_madak_f16 v_add_u16 v_sub_u16 v_subrev_u16 v_mul_lo_u16 v_lshlrev_b16"
    " v_lshrrev_b16 v_ashrrev_i16 v_max_f16 v_min_f16 v_max_u16 v_max_i16 v_min_u16 v_min_i16"
    " v_ldexp_f16 v_add_u32 v_sub_u32 v_subrev_u32 v_dot2c_f32_f16 v_dot2c_i32_i16"
    " v_dot4c_i32_i8 v_dot8c_i32_i4 v_fmac_f32 v_pk_fmac_f16 v_xnor_b32",
};
constexpr std::string_view kVop1[] = {
    "0: v_nop v_mov_b32 v_readfirstlane_b32 v_cvt_i32_f64 v_cvt_f64_i32 v_cvt_f32_i32"
    " v_cvt_f32_u32 v_cvt_u32_f32 v_cvt_i32_f32",
    "10: v_cvt_f16_f32 v_cvt_f32_f16 v_cvt_rpi_i32_f32 v_cvt_flr_i32_f32 v_cvt_off_f32_i4"
    " v_cvt_f32_f64 v_cvt_f64_f32 v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2"
    " v_cvt_f32_ubyte3 v_cvt_u32_f64 v_cvt_f64_u32 v_trunc_f64 v_ceil_f64 v_rndne_f64"
    " v_floor_f64 v_fract_f32 v_trunc_f32 v_ceil_f32 v_rndne_f32 v_floor_f32 v_exp_f32 v_log_f32"
    " v_rcp_f32 v_rcp_iflag_f32 v_rsq_f32 v_rcp_f64 v_rsq_f64 v_sqrt_f32 v_sqrt_f64 v_sin_f32"
    " v_cos_f32 v_not_b32 v_bfrev_b32 v_ffbh_u32 v_ffbl_b32 v_ffbh_i32 v_frexp_exp_i32_f64"
    " v_frexp_mant_f64 v_fract_f64 v_frexp_exp_i32_f32 v_frexp_mant_f32 v_clrexcp",
    "55: v_screen_partition_4se_b32",
    "57: v_cvt_f16_u16 v_cvt_f16_i16 v_cvt_u16_f16 v_cvt_i16_f16 v_rcp_f16 v_sqrt_f16 v_rsq_f16"
    " v_log_f16 v_exp_f16 v_frexp_mant_f16 v_frexp_exp_i16_f16 v_floor_f16 v_ceil_f16"
    " v_trunc_f16 v_rndne_f16 v_fract_f16 v_sin_f16 v_cos_f16 v_exp_legacy_f32 v_log_legacy_f32"
    " v_cvt_norm_i16_f16 v_cvt_norm_u16_f16 v_sat_pk_u8_i16",
    "81: v_swap_b32 v_accvgpr_mov_b32",
};
constexpr std::string_view kVopc[] = {
    "16: v_cmp_class_f32 v_cmpx_class_f32 v_cmp_class_f64 v_cmpx_class_f64 v_cmp_class_f16"
    " v_cmpx_class_f16",
    "32: v_cmp_f_f16 v_cmp_lt_f16 v_cmp_eq_f16 v_cmp_le_f16 v_cmp_gt_f16 v_cmp_lg_f16"
    " v_cmp_ge_f16 v_cmp_o_f16 v_cmp_u_f16 v_cmp_nge_f16 v_cmp_nlg_f16 v_cmp_ngt_f16"
    " v_cmp_nle_f16 v_cmp_neq_f16 v_cmp_nlt_f16 v_cmp_tru_f16 v_cmpx_f_f16 v_cmpx_lt_f16"
    " v_cmpx_eq_f16 v_cmpx_le_f16 v_cmpx_gt_f16 v_cmpx_lg_f16 v_cmpx_ge_f16 v_cmpx_o_f16"
    " v_cmpx_u_f16 v_cmpx_nge_f16 v_cmpx_nlg_f16 v_cmpx_ngt_f16 v_cmpx_nle_f16 v_cmpx_neq_f16"
    " v_cmpx_nlt_f16 v_cmpx_tru_f16 v_cmp_f_f32 v_cmp_lt_f32 v_cmp_eq_f32 v_cmp_le_f32"
    " v_cmp_gt_f32 v_cmp_lg_f32 v_cmp_ge_f32 v_cmp_o_f32 v_cmp_u_f32 v_cmp_nge_f32 v_cmp_nlg_f32"
    " v_cmp_ngt_f32 v_cmp_nle_f32 v_cmp_neq_f32 v_cmp_nlt_f32 v_cmp_tru_f32 v_cmpx_f_f32"
    " v_cmpx_lt_f32 v_cmpx_eq_f32 v_cmpx_le_f32 v_cmpx_gt_f32 v_cmpx_lg_f32 v_cmpx_ge_f32"
    " v_cmpx_o_f32 v_cmpx_u_f32 v_cmpx_nge_f32 v_cmpx_nlg_f32 v_cmpx_ngt_f32 v_cmpx_nle_f32"
    " v_cmpx_neq_f32 v_cmpx_nlt_f32 v_cmpx_tru_f32 v_cmp_f_f64 v_cmp_lt_f64 v_cmp_eq_f64"
    " v_cmp_le_f64 v_cmp_gt_f64 v_cmp_lg_f64 v_cmp_ge_f64 v_cmp_o_f64 v_cmp_u_f64 v_cmp_nge_f64"
    " v_cmp_nlg_f64 v_cmp_ngt_f64 v_cmp_nle_f64 v_cmp_neq_f64 v_cmp_nlt_f64 v_cmp_tru_f64"
    " v_cmpx_f_f64 v_cmpx_lt_f64 v_cmpx_eq_f64 v_cmpx_le_f64 v_cmpx_gt_f64 v_cmpx_lg_f64"
    " v_cmpx_ge_f64 v_cmpx_o_f64 v_cmpx_u_f64 v_cmpx_nge_f64 v_cmpx_nlg_f64 v_cmpx_ngt_f64"
    " v_cmpx_nle_f64 v_cmpx_neq_f64 v_cmpx_nlt_f64 v_cmpx_tru_f64",
    "160: v_cmp_f_i16 v_cmp_lt_i16 v_cmp_eq_i16 v_cmp_le_i16 v_cmp_gt_i16 v_cmp_ne_i16"
    " v_cmp_ge_i16 v_cmp_t_i16 v_cmp_f_u16 v_cmp_lt_u16 v_cmp_eq_u16 v_cmp_le_u16 v_cmp_gt_u16"
    " v_cmp_ne_u16 v_cmp_ge_u16 v_cmp_t_u16 v_cmpx_f_i16 v_cmpx_lt_i16 v_cmpx_eq_i16"
    " v_cmpx_le_i16 v_cmpx_gt_i16 v_cmpx_ne_i16 v_cmpx_ge_i16 v_cmpx_t_i16 v_cmpx_f_u16"
    " v_cmpx_lt_u16 v_cmpx_eq_u16 v_cmpx_le_u16 v_cmpx_gt_u16 v_cmpx_ne_u16 v_cmpx_ge_u16"
    " v_cmpx_t_u16 v_cmp_f_i32 v_cmp_lt_i32 v_cmp_eq_i32 v_cmp_le_i32 v_cmp_gt_i32 v_cmp_ne_i32"
    " v_cmp_ge_i32 v_cmp_t_i32 v_cmp_f_u32 v_cmp_lt_u32 v_cmp_eq_u32 v_cmp_le_u32 v_cmp_gt_u32"
    " v_cmp_ne_u32 v_cmp_ge_u32 v_cmp_t_u32 v_cmpx_f_i32 v_cmpx_lt_i32 v_cmpx_eq_i32"
    " v_cmpx_le_i32 v_cmpx_gt_i32 v_cmpx_ne_i32 v_cmpx_ge_i32 v_cmpx_t_i32 v_cmpx_f_u32"
    " v_cmpx_lt_u32 v_cmpx_eq_u32 v_cmpx_le_u32 v_cmpx_gt_u32 v_cmpx_ne_u32 v_cmpx_ge_u32"
    " v_cmpx_t_u32 v_cmp_f_i64 v_cmp_lt_i64 v_cmp_eq_i64 v_cmp_le_i64 v_cmp_gt_i64 v_cmp_ne_i64"
    " v_cmp_ge_i64 v_cmp_t_i64 v_cmp_f_u64 v_cmp_lt_u64 v_cmp_eq_u64 v_cmp_le_u64 v_cmp_gt_u64"
    " v_cmp_ne_u64 v_cmp_ge_u64 v_cmp_t_u64 v_cmpx_f_i64 v_cmpx_lt_i64 v_cmpx_eq_i64"
    " v_cmpx_le_i64 v_cmpx_gt_i64 v_cmpx_ne_i64 v_cmpx_ge_i64 v_cmpx_t_i64 v_cmpx_f_u64"
    " v_cmpx_lt_u64 v_cmpx_eq_u64 v_cmpx_le_u64 v_cmpx_gt_u64 v_cmpx_ne_u64 v_cmpx_ge_u64"
    " v_cmpx_t_u64",
};
constexpr std::string_view kVop3[] = {
    "448: v_mad_legacy_f32 v_mad_f32 v_mad_i32_i24 v_mad_u32_u24 v_cubeid_f32 v_cubesc_f32"
    " v_cubetc_f32 v_cubema_f32 v_bfe_u32 v_bfe_i32 v_bfi_b32 v_fma_f32 v_fma_f64 v_lerp_u8"
    " v_alignbit_b32 v_alignbyte_b32 v_min3_f32 v_min3_i32 v_min3_u32 v_max3_f32 v_max3_i32"
    " v_max3_u32 v_med3_f32 v_med3_i32 v_med3_u32 v_sad_u8 v_sad_hi_u8 v_sad_u16 v_sad_u32"
    " v_cvt_pk_u8_f32 v_div_fixup_f32 v_div_fixup_f64 v_div_scale_f32 v_div_scale_f64"
    " v_div_fmas_f32 v_div_fmas_f64 v_msad_u8 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8 v_mqsad_u32_u8"
    " v_mad_u64_u32 v_mad_i64_i32 v_mad_legacy_f16 v_mad_legacy_u16 v_mad_legacy_i16 v_perm_b32"
    " v_fma_legacy_f16 v_div_fixup_legacy_f16 v_cvt_pkaccum_u8_f32 v_mad_u32_u16 v_mad_i32_i16"
    " v_xad_u32 v_min3_f16 v_min3_i16 v_min3_u16 v_max3_f16 v_max3_i16 v_max3_u16 v_med3_f16"
    " v_med3_i16 v_med3_u16 v_lshl_add_u32 v_add_lshl_u32 v_add3_u32 v_lshl_or_b32 v_and_or_b32"
    " v_or3_b32 v_mad_f16 v_mad_u16 v_mad_i16 v_fma_f16 v_div_fixup_f16",
    "640: v_add_f64 v_mul_f64 v_min_f64 v_max_f64 v_ldexp_f64 v_mul_lo_u32 v_mul_hi_u32"
    " v_mul_hi_i32 v_ldexp_f32 v_readlane_b32 v_writelane_b32 v_bcnt_u32_b32 v_mbcnt_lo_u32_b32"
    " v_mbcnt_hi_u32_b32",
    "655: v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64 v_trig_preop_f64 v_bfm_b32"
    " v_cvt_pknorm_i16_f32 v_cvt_pknorm_u16_f32 v_cvt_pkrtz_f16_f32 v_cvt_pk_u16_u32"
    " v_cvt_pk_i16_i32 v_cvt_pknorm_i16_f16 v_cvt_pknorm_u16_f16",
    "668: v_add_i32 v_sub_i32 v_add_i16 v_sub_i16 v_pack_b32_f16 v_mul_legacy_f32",
};
constexpr std::string_view kVop3p[] = {
    "0: v_pk_mad_i16 v_pk_mul_lo_u16 v_pk_add_i16 v_pk_sub_i16 v_pk_lshlrev_b16 v_pk_lshrrev_b16"
    " v_pk_ashrrev_i16 v_pk_max_i16 v_pk_min_i16 v_pk_mad_u16 v_pk_add_u16 v_pk_sub_u16"
    " v_pk_max_u16 v_pk_min_u16 v_pk_fma_f16 v_pk_add_f16 v_pk_mul_f16 v_pk_min_f16 v_pk_max_f16",
    "32: v_fma_mix_f32 v_fma_mixlo_f16 v_fma_mixhi_f16 v_dot2_f32_f16",
    "38: v_dot2_i32_i16 v_dot2_u32_u16 v_dot4_i32_i8 v_dot4_u32_u8 v_dot8_i32_i4 v_dot8_u32_u4",
    "48: v_pk_fma_f32 v_pk_mul_f32 v_pk_add_f32 v_pk_mov_b32",
    "64: v_mfma_f32_32x32x1f32 v_mfma_f32_16x16x1f32 v_mfma_f32_4x4x1f32",
    "68: v_mfma_f32_32x32x2f32 v_mfma_f32_16x16x4f32",
    "72: v_mfma_f32_32x32x4f16 v_mfma_f32_16x16x4f16 v_mfma_f32_4x4x4f16",
    "76: v_mfma_f32_32x32x8f16 v_mfma_f32_16x16x16f16",
    "80: v_mfma_i32_32x32x4i8 v_mfma_i32_16x16x4i8 v_mfma_i32_4x4x4i8",
    "84: v_mfma_i32_32x32x8i8 v_mfma_i32_16x16x16i8",
    "88: v_accvgpr_read_b32 v_accvgpr_write_b32",
    "99: v_mfma_f32_32x32x4bf16_1k v_mfma_f32_16x16x4bf16_1k v_mfma_f32_4x4x4bf16_1k"
    " v_mfma_f32_32x32x8bf16_1k v_mfma_f32_16x16x16bf16_1k v_mfma_f32_32x32x2bf16"
    " v_mfma_f32_16x16x2bf16",
    "107: v_mfma_f32_4x4x2bf16 v_mfma_f32_32x32x4bf16 v_mfma_f32_16x16x8bf16"
    " v_mfma_f64_16x16x4f64 v_mfma_f64_4x4x4f64",
};
constexpr std::string_view kDs[] = {
    "0: ds_add_u32 ds_sub_u32 ds_rsub_u32 ds_inc_u32 ds_dec_u32 ds_min_i32 ds_max_i32 ds_min_u32"
    " ds_max_u32 ds_and_b32 ds_or_b32 ds_xor_b32 ds_mskor_b32 ds_write_b32 ds_write2_b32"
    " ds_write2st64_b32 ds_cmpst_b32 ds_cmpst_f32 ds_min_f32 ds_max_f32 ds_nop ds_add_f32",
    "29: ds_write_addtid_b32 ds_write_b8 ds_write_b16 ds_add_rtn_u32 ds_sub_rtn_u32"
    " ds_rsub_rtn_u32 ds_inc_rtn_u32 ds_dec_rtn_u32 ds_min_rtn_i32 ds_max_rtn_i32 ds_min_rtn_u32"
    " ds_max_rtn_u32 ds_and_rtn_b32 ds_or_rtn_b32 ds_xor_rtn_b32 ds_mskor_rtn_b32"
    " ds_wrxchg_rtn_b32 ds_wrxchg2_rtn_b32 ds_wrxchg2st64_rtn_b32 ds_cmpst_rtn_b32"
    " ds_cmpst_rtn_f32 ds_min_rtn_f32 ds_max_rtn_f32 ds_wrap_rtn_b32 ds_add_rtn_f32 ds_read_b32"
    " ds_read2_b32 ds_read2st64_b32 ds_read_i8 ds_read_u8 ds_read_i16 ds_read_u16 ds_swizzle_b32"
    " ds_permute_b32 ds_bpermute_b32 ds_add_u64 ds_sub_u64 ds_rsub_u64 ds_inc_u64 ds_dec_u64"
    " ds_min_i64 ds_max_i64 ds_min_u64 ds_max_u64 ds_and_b64 ds_or_b64 ds_xor_b64 ds_mskor_b64"
    " ds_write_b64 ds_write2_b64 ds_write2st64_b64 ds_cmpst_b64 ds_cmpst_f64 ds_min_f64"
    " ds_max_f64 ds_write_b8_d16_hi ds_write_b16_d16_hi ds_read_u8_d16 ds_read_u8_d16_hi"
    " ds_read_i8_d16 ds_read_i8_d16_hi ds_read_u16_d16 ds_read_u16_d16_hi ds_add_f64",
    "96: ds_add_rtn_u64 ds_sub_rtn_u64 ds_rsub_rtn_u64 ds_inc_rtn_u64 ds_dec_rtn_u64"
    " ds_min_rtn_i64 ds_max_rtn_i64 ds_min_rtn_u64 ds_max_rtn_u64 ds_and_rtn_b64 ds_or_rtn_b64"
    " ds_xor_rtn_b64 ds_mskor_rtn_b64 ds_wrxchg_rtn_b64 ds_wrxchg2_rtn_b64"
    " ds_wrxchg2st64_rtn_b64 ds_cmpst_rtn_b64 ds_cmpst_rtn_f64 ds_min_rtn_f64 ds_max_rtn_f64",
    "118: ds_read_b64 ds_read2_b64 ds_read2st64_b64",
    "124: ds_add_rtn_f64",
    "126: ds_condxchg32_rtn_b64",
    "152: ds_gws_sema_release_all ds_gws_init ds_gws_sema_v ds_gws_sema_br ds_gws_sema_p"
    " ds_gws_barrier",
    "182: ds_read_addtid_b32",
    "189: ds_consume ds_append",
    "222: ds_write_b96 ds_write_b128",
    "254: ds_read_b96 ds_read_b128",
};
// FLAT, SCRATCH and GLOBAL.
constexpr std::string_view kLoadStore[] = {
    "16: load_ubyte load_sbyte load_ushort load_sshort load_dword load_dwordx2 load_dwordx3"
    " load_dwordx4 store_byte store_byte_d16_hi store_short store_short_d16_hi store_dword"
    " store_dwordx2 store_dwordx3 store_dwordx4 load_ubyte_d16 load_ubyte_d16_hi load_sbyte_d16"
    " load_sbyte_d16_hi load_short_d16 load_short_d16_hi",
};
// FLAT and GLOBAL.
constexpr std::string_view kAtomics[] = {
    "64: atomic_swap atomic_cmpswap atomic_add atomic_sub atomic_smin atomic_umin atomic_smax"
    " atomic_umax atomic_and atomic_or atomic_xor atomic_inc atomic_dec",
    "79: atomic_add_f64 atomic_min_f64 atomic_max_f64",
    "96: atomic_swap_x2 atomic_cmpswap_x2 atomic_add_x2 atomic_sub_x2 atomic_smin_x2"
    " atomic_umin_x2 atomic_smax_x2 atomic_umax_x2 atomic_and_x2 atomic_or_x2 atomic_xor_x2"
    " atomic_inc_x2 atomic_dec_x2",
};
constexpr std::string_view kGlobalAtomics[] = {"77: atomic_add_f32 atomic_pk_add_f16"};
constexpr std::string_view kMubuf[] = {
    "0: load_format_x load_format_xy load_format_xyz load_format_xyzw store_format_x"
    " store_format_xy store_format_xyz store_format_xyzw load_format_d16_x load_format_d16_xy"
    " load_format_d16_xyz load_format_d16_xyzw store_format_d16_x store_format_d16_xy"
    " store_format_d16_xyz store_format_d16_xyzw load_ubyte load_sbyte load_ushort load_sshort"
    " load_dword load_dwordx2 load_dwordx3 load_dwordx4 store_byte store_byte_d16_hi store_short"
    " store_short_d16_hi store_dword store_dwordx2 store_dwordx3 store_dwordx4 load_ubyte_d16"
    " load_ubyte_d16_hi load_sbyte_d16 load_sbyte_d16_hi load_short_d16 load_short_d16_hi"
    " load_format_d16_hi_x store_format_d16_hi_x wbl2 invl2",
    "61: store_lds_dword wbinvl1 wbinvl1_vol atomic_swap atomic_cmpswap atomic_add atomic_sub"
    " atomic_smin atomic_umin atomic_smax atomic_umax atomic_and atomic_or atomic_xor atomic_inc"
    " atomic_dec atomic_add_f32 atomic_pk_add_f16 atomic_add_f64 atomic_min_f64 atomic_max_f64",
    "96: atomic_swap_x2 atomic_cmpswap_x2 atomic_add_x2 atomic_sub_x2 atomic_smin_x2"
    " atomic_umin_x2 atomic_smax_x2 atomic_umax_x2 atomic_and_x2 atomic_or_x2 atomic_xor_x2"
    " atomic_inc_x2 atomic_dec_x2",
};
constexpr std::string_view kMtbuf[] = {
    "0: load_format_x load_format_xy load_format_xyz load_format_xyzw store_format_x"
    " store_format_xy store_format_xyz store_format_xyzw load_format_d16_x load_format_d16_xy"
    " load_format_d16_xyz load_format_d16_xyzw store_format_d16_x store_format_d16_xy"
    " store_format_d16_xyz store_format_d16_xyzw",
};

// Of gfx90a, which has no more of them.
constexpr std::string_view kMimg[] = {
    "0: image_load image_load_mip image_load_pck image_load_pck_sgn image_load_mip_pck"
    " image_load_mip_pck_sgn",
    "8: image_store image_store_mip image_store_pck image_store_mip_pck",
    "14: image_get_resinfo",
    "16: image_atomic_swap image_atomic_cmpswap image_atomic_add image_atomic_sub"
    " image_atomic_smin image_atomic_umin image_atomic_smax image_atomic_umax image_atomic_and"
    " image_atomic_or image_atomic_xor image_atomic_inc image_atomic_dec",
    "32: image_sample",
};

// What gfx942 adds, or has at the place of another opcode. "-": no longer.
constexpr std::string_view kGfx942Vop2[] = {"22: - v_fmamk_f32 v_fmaak_f32"};
constexpr std::string_view kGfx942Vop1[] = {
    "56: v_mov_b64",
    "84: v_cvt_f32_fp8 v_cvt_f32_bf8 v_cvt_pk_f32_fp8 v_cvt_pk_f32_bf8",
};
constexpr std::string_view kGfx942Vop3[] = {
    "448: - -",
    "520: v_lshl_add_u64",
    "674: v_cvt_pk_fp8_f32 v_cvt_pk_bf8_f32 v_cvt_sr_fp8_f32 v_cvt_sr_bf8_f32",
};
constexpr std::string_view kGfx942Vop3p[] = {
    "62: v_mfma_f32_16x16x8_xf32 v_mfma_f32_32x32x4_xf32 v_mfma_f32_32x32x1_2b_f32"
    " v_mfma_f32_16x16x1_4b_f32 v_mfma_f32_4x4x1_16b_f32",
    "68: v_mfma_f32_32x32x2_f32 v_mfma_f32_16x16x4_f32",
    "72: v_mfma_f32_32x32x4_2b_f16 v_mfma_f32_16x16x4_4b_f16 v_mfma_f32_4x4x4_16b_f16",
    "76: v_mfma_f32_32x32x8_f16 v_mfma_f32_16x16x16_f16",
    "80: v_mfma_i32_32x32x4_2b_i8 v_mfma_i32_16x16x4_4b_i8 v_mfma_i32_4x4x4_16b_i8",
    "84: - - v_mfma_i32_32x32x16_i8 v_mfma_i32_16x16x32_i8",
    "93: v_mfma_f32_32x32x4_2b_bf16 v_mfma_f32_16x16x4_4b_bf16 v_mfma_f32_4x4x4_16b_bf16"
    " v_mfma_f32_32x32x8_bf16 v_mfma_f32_16x16x16_bf16 v_smfmac_f32_16x16x32_f16 -"
    " v_smfmac_f32_32x32x16_f16 - v_smfmac_f32_16x16x32_bf16 - v_smfmac_f32_32x32x16_bf16 -"
    " v_smfmac_i32_16x16x64_i8 - v_smfmac_i32_32x32x32_i8 - v_mfma_f64_16x16x4_f64"
    " v_mfma_f64_4x4x4_4b_f64 v_mfma_f32_16x16x32_bf8_bf8 v_mfma_f32_16x16x32_bf8_fp8"
    " v_mfma_f32_16x16x32_fp8_bf8 v_mfma_f32_16x16x32_fp8_fp8 v_mfma_f32_32x32x16_bf8_bf8"
    " v_mfma_f32_32x32x16_bf8_fp8 v_mfma_f32_32x32x16_fp8_bf8 v_mfma_f32_32x32x16_fp8_fp8"
    " v_smfmac_f32_16x16x64_bf8_bf8 v_smfmac_f32_16x16x64_bf8_fp8"
    " v_smfmac_f32_16x16x64_fp8_bf8 v_smfmac_f32_16x16x64_fp8_fp8"
    " v_smfmac_f32_32x32x32_bf8_bf8 v_smfmac_f32_32x32x32_bf8_fp8"
    " v_smfmac_f32_32x32x32_fp8_bf8 v_smfmac_f32_32x32x32_fp8_fp8",
};
constexpr std::string_view kGfx942Ds[] = {
    "23: ds_pk_add_f16 ds_pk_add_bf16",
    "183: ds_pk_add_rtn_f16 ds_pk_add_rtn_bf16",
};
constexpr std::string_view kGfx942LoadToLds[] = {
    "38: load_lds_ubyte load_lds_sbyte load_lds_ushort load_lds_sshort load_lds_dword",
};
constexpr std::string_view kGfx942FlatAtomics[] = {
    "77: atomic_add_f32 atomic_pk_add_f16",
    "82: atomic_pk_add_bf16",
};
constexpr std::string_view kGfx942Mubuf[] = {"41: inv"};

// Opcodes that exist only in their short form.
constexpr std::string_view kNotPromoted[] = {
    "v_accvgpr_mov_b32", "v_madak_f16",         "v_madak_f32", "v_madmk_f16", "v_madmk_f32",
    "v_pk_fmac_f16",     "v_readfirstlane_b32", "v_swap_b32",  "v_fmamk_f32", "v_fmaak_f32",
};
// NOLINTEND(bugprone-suspicious-missing-comma)

void add_gfx942(Tables& tables) {
  const auto add = adder(tables);
  add(Format::kVop2, kGfx942Vop2);
  add(Format::kVop1, kGfx942Vop1);
  add(Format::kVop3, kGfx942Vop3);
  add(Format::kVop3p, kGfx942Vop3p);
  add(Format::kDs, kGfx942Ds);
  add(Format::kScratch, kGfx942LoadToLds, "scratch_");
  add(Format::kGlobal, kGfx942LoadToLds, "global_");
  add(Format::kFlat, kGfx942FlatAtomics, "flat_");
  add(Format::kGlobal, kGfx942FlatAtomics, "global_");
  add(Format::kMubuf, kGfx942Mubuf, "buffer_");
}

Tables make_tables(Isa isa) {
  Tables tables = empty_tables();
  const auto add = adder(tables);
  add(Format::kSop2, kSop2);
  add(Format::kSop1, kSop1);
  add(Format::kSopk, kSopk);
  add(Format::kSopc, kSopc);
  add(Format::kSopp, kSopp);
  add(Format::kSmem, kSmem);
  add(Format::kVop2, kVop2);
  add(Format::kVop1, kVop1);
  add(Format::kVopc, kVopc);
  add(Format::kVop3, kVop3);
  add(Format::kVop3p, kVop3p);
  add(Format::kDs, kDs);
  add(Format::kFlat, kLoadStore, "flat_");
  add(Format::kFlat, kAtomics, "flat_");
  add(Format::kScratch, kLoadStore, "scratch_");
  add(Format::kGlobal, kLoadStore, "global_");
  add(Format::kGlobal, kAtomics, "global_");
  add(Format::kGlobal, kGlobalAtomics, "global_");
  add(Format::kMubuf, kMubuf, "buffer_");
  add(Format::kMtbuf, kMtbuf, "tbuffer_");
  if (isa == Isa::kGfx90a) add(Format::kMimg, kMimg);
  if (isa == Isa::kGfx942) add_gfx942(tables);
  Names& vop3 = tables[size_t(Format::kVop3)];
  add_promoted(vop3, tables[size_t(Format::kVopc)], 0, kVop3FirstVop2, kNotPromoted);
  add_promoted(vop3, tables[size_t(Format::kVop2)], kVop3FirstVop2, 0x40, kNotPromoted);
  add_promoted(vop3, tables[size_t(Format::kVop1)], kVop3FirstVop1, 0x80, kNotPromoted);
  return tables;
}

}  // namespace

const std::string& mnemonic(Isa isa, Format format, unsigned opcode) {
  static const std::array tables = {make_tables(Isa::kGfx90a), make_tables(Isa::kGfx942),
                                    gfx11_tables()};
  static const std::string none;
  return opcode < kMaxOpcodes ? tables[size_t(isa)][size_t(format)][opcode] : none;
}

}  // namespace gpu::shader
