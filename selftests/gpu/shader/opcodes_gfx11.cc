// SPDX-License-Identifier: GPL-2.0
// The opcodes of gfx1100 under the mnemonics of LLVM, which the "RDNA3" ISA document has, too.
#include "shader/opcode_tables.h"

namespace gpu::shader {
namespace {

// Runs of consecutive opcodes, each after the number of its first.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
constexpr std::string_view kSop2[] = {
    "0: s_add_u32 s_sub_u32 s_add_i32 s_sub_i32 s_addc_u32 s_subb_u32 s_absdiff_i32",
    "8: s_lshl_b32 s_lshl_b64 s_lshr_b32 s_lshr_b64 s_ashr_i32 s_ashr_i64 s_lshl1_add_u32"
    " s_lshl2_add_u32 s_lshl3_add_u32 s_lshl4_add_u32 s_min_i32 s_min_u32 s_max_i32 s_max_u32"
    " s_and_b32 s_and_b64 s_or_b32 s_or_b64 s_xor_b32 s_xor_b64 s_nand_b32 s_nand_b64 s_nor_b32"
    " s_nor_b64 s_xnor_b32 s_xnor_b64 s_and_not1_b32 s_and_not1_b64 s_or_not1_b32 s_or_not1_b64"
    " s_bfe_u32 s_bfe_i32 s_bfe_u64 s_bfe_i64 s_bfm_b32 s_bfm_b64 s_mul_i32 s_mul_hi_u32"
    " s_mul_hi_i32",
    "48: s_cselect_b32 s_cselect_b64 s_pack_ll_b32_b16 s_pack_lh_b32_b16 s_pack_hh_b32_b16"
    " s_pack_hl_b32_b16",
};
constexpr std::string_view kSop1[] = {
    "0: s_mov_b32 s_mov_b64 s_cmov_b32 s_cmov_b64 s_brev_b32 s_brev_b64",
    "8: s_ctz_i32_b32 s_ctz_i32_b64 s_clz_i32_u32 s_clz_i32_u64 s_cls_i32 s_cls_i32_i64"
    " s_sext_i32_i8 s_sext_i32_i16 s_bitset0_b32 s_bitset0_b64 s_bitset1_b32 s_bitset1_b64"
    " s_bitreplicate_b64_b32 s_abs_i32 s_bcnt0_i32_b32 s_bcnt0_i32_b64 s_bcnt1_i32_b32"
    " s_bcnt1_i32_b64 s_quadmask_b32 s_quadmask_b64 s_wqm_b32 s_wqm_b64 s_not_b32 s_not_b64"
    " s_and_saveexec_b32 s_and_saveexec_b64 s_or_saveexec_b32 s_or_saveexec_b64 s_xor_saveexec_b32"
    " s_xor_saveexec_b64 s_nand_saveexec_b32 s_nand_saveexec_b64 s_nor_saveexec_b32"
    " s_nor_saveexec_b64 s_xnor_saveexec_b32 s_xnor_saveexec_b64 s_and_not0_saveexec_b32"
    " s_and_not0_saveexec_b64 s_or_not0_saveexec_b32 s_or_not0_saveexec_b64"
    " s_and_not1_saveexec_b32 s_and_not1_saveexec_b64 s_or_not1_saveexec_b32"
    " s_or_not1_saveexec_b64 s_and_not0_wrexec_b32 s_and_not0_wrexec_b64 s_and_not1_wrexec_b32"
    " s_and_not1_wrexec_b64",
    "64: s_movrels_b32 s_movrels_b64 s_movreld_b32 s_movreld_b64 s_movrelsd_2_b32",
    "71: s_getpc_b64 s_setpc_b64 s_swappc_b64 s_rfe_b64",
    "76: s_sendmsg_rtn_b32 s_sendmsg_rtn_b64",
};
constexpr std::string_view kSopk[] = {
    "0: s_movk_i32 s_version s_cmovk_i32 s_cmpk_eq_i32 s_cmpk_lg_i32 s_cmpk_gt_i32 s_cmpk_ge_i32"
    " s_cmpk_lt_i32 s_cmpk_le_i32 s_cmpk_eq_u32 s_cmpk_lg_u32 s_cmpk_gt_u32 s_cmpk_ge_u32"
    " s_cmpk_lt_u32 s_cmpk_le_u32 s_addk_i32 s_mulk_i32 s_getreg_b32 s_setreg_b32"
    " s_setreg_imm32_b32 s_call_b64",
    "22: s_subvector_loop_begin s_subvector_loop_end s_waitcnt_vscnt s_waitcnt_vmcnt"
    " s_waitcnt_expcnt s_waitcnt_lgkmcnt",
};
constexpr std::string_view kSopc[] = {
    "0: s_cmp_eq_i32 s_cmp_lg_i32 s_cmp_gt_i32 s_cmp_ge_i32 s_cmp_lt_i32 s_cmp_le_i32 s_cmp_eq_u32"
    " s_cmp_lg_u32 s_cmp_gt_u32 s_cmp_ge_u32 s_cmp_lt_u32 s_cmp_le_u32 s_bitcmp0_b32 s_bitcmp1_b32"
    " s_bitcmp0_b64 s_bitcmp1_b64 s_cmp_eq_u64 s_cmp_lg_u64",
};
constexpr std::string_view kSopp[] = {
    "0: s_nop s_setkill s_sethalt s_sleep s_set_inst_prefetch_distance s_clause",
    "7: s_delay_alu s_waitcnt_depctr s_waitcnt s_wait_idle s_wait_event",
    "16: s_trap s_round_mode s_denorm_mode",
    "31: s_code_end s_branch s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz s_cbranch_vccnz"
    " s_cbranch_execz s_cbranch_execnz s_cbranch_cdbgsys s_cbranch_cdbguser"
    " s_cbranch_cdbgsys_or_user s_cbranch_cdbgsys_and_user",
    "48: s_endpgm s_endpgm_saved s_endpgm_ordered_ps_done",
    "52: s_wakeup s_setprio s_sendmsg s_sendmsghalt s_incperflevel s_decperflevel s_ttracedata"
    " s_ttracedata_imm s_icache_inv s_barrier",
};
constexpr std::string_view kSmem[] = {
    "0: s_load_b32 s_load_b64 s_load_b128 s_load_b256 s_load_b512",
    "8: s_buffer_load_b32 s_buffer_load_b64 s_buffer_load_b128 s_buffer_load_b256"
    " s_buffer_load_b512",
    "32: s_gl1_inv s_dcache_inv s_atc_probe s_atc_probe_buffer",
};
constexpr std::string_view kVop2[] = {
    "1: v_cndmask_b32 v_dot2acc_f32_f16 v_add_f32 v_sub_f32 v_subrev_f32 v_fmac_dx9_zero_f32"
    " v_mul_dx9_zero_f32 v_mul_f32 v_mul_i32_i24 v_mul_hi_i32_i24 v_mul_u32_u24 v_mul_hi_u32_u24",
    "15: v_min_f32 v_max_f32 v_min_i32 v_max_i32 v_min_u32 v_max_u32",
    "24: v_lshlrev_b32 v_lshrrev_b32 v_ashrrev_i32 v_and_b32 v_or_b32 v_xor_b32 v_xnor_b32",
    "32: v_add_co_ci_u32 v_sub_co_ci_u32 v_subrev_co_ci_u32",
    "37: v_add_nc_u32 v_sub_nc_u32 v_subrev_nc_u32",
    "43: v_fmac_f32 v_fmamk_f32 v_fmaak_f32",
    "47: v_cvt_pk_rtz_f16_f32",
    "50: v_add_f16 v_sub_f16 v_subrev_f16 v_mul_f16 v_fmac_f16 v_fmamk_f16 v_fmaak_f16 v_max_f16"
    " v_min_f16 v_ldexp_f16 v_pk_fmac_f16",
};
constexpr std::string_view kVop1[] = {
    "0: v_nop v_mov_b32 v_readfirstlane_b32 v_cvt_i32_f64 v_cvt_f64_i32 v_cvt_f32_i32"
    " v_cvt_f32_u32 v_cvt_u32_f32 v_cvt_i32_f32",
    "10: v_cvt_f16_f32 v_cvt_f32_f16 v_cvt_nearest_i32_f32 v_cvt_floor_i32_f32 v_cvt_off_f32_i4"
    " v_cvt_f32_f64 v_cvt_f64_f32 v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2"
    " v_cvt_f32_ubyte3 v_cvt_u32_f64 v_cvt_f64_u32 v_trunc_f64 v_ceil_f64 v_rndne_f64 v_floor_f64"
    " v_pipeflush v_mov_b16",
    "32: v_fract_f32 v_trunc_f32 v_ceil_f32 v_rndne_f32 v_floor_f32 v_exp_f32",
    "39: v_log_f32",
    "42: v_rcp_f32 v_rcp_iflag_f32",
    "46: v_rsq_f32 v_rcp_f64",
    "49: v_rsq_f64",
    "51: v_sqrt_f32 v_sqrt_f64 v_sin_f32 v_cos_f32 v_not_b32 v_bfrev_b32 v_clz_i32_u32"
    " v_ctz_i32_b32 v_cls_i32 v_frexp_exp_i32_f64 v_frexp_mant_f64 v_fract_f64 v_frexp_exp_i32_f32"
    " v_frexp_mant_f32",
    "66: v_movreld_b32 v_movrels_b32 v_movrelsd_b32",
    "72: v_movrelsd_2_b32",
    "80: v_cvt_f16_u16 v_cvt_f16_i16 v_cvt_u16_f16 v_cvt_i16_f16 v_rcp_f16 v_sqrt_f16 v_rsq_f16"
    " v_log_f16 v_exp_f16 v_frexp_mant_f16 v_frexp_exp_i16_f16 v_floor_f16 v_ceil_f16 v_trunc_f16"
    " v_rndne_f16 v_fract_f16 v_sin_f16 v_cos_f16 v_sat_pk_u8_i16 v_cvt_norm_i16_f16"
    " v_cvt_norm_u16_f16 v_swap_b32 v_swap_b16 v_permlane64_b32 v_swaprel_b32 v_not_b16"
    " v_cvt_i32_i16 v_cvt_u32_u16",
};
// Those that write EXEC follow, at 128 and up.
constexpr std::string_view kVopc[] = {
    "0: f_f16 lt_f16 eq_f16 le_f16 gt_f16 lg_f16 ge_f16 o_f16 u_f16 nge_f16 nlg_f16 ngt_f16"
    " nle_f16 neq_f16 nlt_f16 t_f16 f_f32 lt_f32 eq_f32 le_f32 gt_f32 lg_f32 ge_f32 o_f32 u_f32"
    " nge_f32 nlg_f32 ngt_f32 nle_f32 neq_f32 nlt_f32 t_f32 f_f64 lt_f64 eq_f64 le_f64 gt_f64"
    " lg_f64 ge_f64 o_f64 u_f64 nge_f64 nlg_f64 ngt_f64 nle_f64 neq_f64 nlt_f64 t_f64",
    "49: lt_i16 eq_i16 le_i16 gt_i16 ne_i16 ge_i16",
    "57: lt_u16 eq_u16 le_u16 gt_u16 ne_u16 ge_u16",
    "64: f_i32 lt_i32 eq_i32 le_i32 gt_i32 ne_i32 ge_i32 t_i32 f_u32 lt_u32 eq_u32 le_u32 gt_u32"
    " ne_u32 ge_u32 t_u32 f_i64 lt_i64 eq_i64 le_i64 gt_i64 ne_i64 ge_i64 t_i64 f_u64 lt_u64"
    " eq_u64 le_u64 gt_u64 ne_u64 ge_u64 t_u64",
    "125: class_f16 class_f32 class_f64",
};
constexpr std::string_view kVop3[] = {
    "521: v_fma_dx9_zero_f32 v_mad_i32_i24 v_mad_u32_u24 v_cubeid_f32 v_cubesc_f32 v_cubetc_f32"
    " v_cubema_f32 v_bfe_u32 v_bfe_i32 v_bfi_b32 v_fma_f32 v_fma_f64 v_lerp_u8 v_alignbit_b32"
    " v_alignbyte_b32 v_mullit_f32 v_min3_f32 v_min3_i32 v_min3_u32 v_max3_f32 v_max3_i32"
    " v_max3_u32 v_med3_f32 v_med3_i32 v_med3_u32 v_sad_u8 v_sad_hi_u8 v_sad_u16 v_sad_u32"
    " v_cvt_pk_u8_f32 v_div_fixup_f32 v_div_fixup_f64",
    "567: v_div_fmas_f32 v_div_fmas_f64 v_msad_u8 v_qsad_pk_u16_u8 v_mqsad_pk_u16_u8",
    "573: v_mqsad_u32_u8",
    "576: v_xor3_b32 v_mad_u16",
    "580: v_perm_b32 v_xad_u32 v_lshl_add_u32 v_add_lshl_u32 v_fma_f16 v_min3_f16 v_min3_i16"
    " v_min3_u16 v_max3_f16 v_max3_i16 v_max3_u16 v_med3_f16 v_med3_i16 v_med3_u16",
    "595: v_mad_i16 v_div_fixup_f16 v_add3_u32 v_lshl_or_b32 v_and_or_b32 v_or3_b32 v_mad_u32_u16"
    " v_mad_i32_i16 v_permlane16_b32 v_permlanex16_b32 v_cndmask_b16 v_maxmin_f32 v_minmax_f32"
    " v_maxmin_f16 v_minmax_f16 v_maxmin_u32 v_minmax_u32 v_maxmin_i32 v_minmax_i32 v_dot2_f16_f16"
    " v_dot2_bf16_bf16",
    "764: v_div_scale_f32 v_div_scale_f64 v_mad_u64_u32 v_mad_i64_i32 v_add_co_u32 v_sub_co_u32"
    " v_subrev_co_u32 v_add_nc_u16 v_sub_nc_u16 v_mul_lo_u16 v_cvt_pk_i16_f32 v_cvt_pk_u16_f32",
    "777: v_max_u16 v_max_i16 v_min_u16 v_min_i16 v_add_nc_i16 v_sub_nc_i16",
    "785: v_pack_b32_f16 v_cvt_pk_norm_i16_f16 v_cvt_pk_norm_u16_f16",
    "796: v_ldexp_f32 v_bfm_b32 v_bcnt_u32_b32 v_mbcnt_lo_u32_b32 v_mbcnt_hi_u32_b32"
    " v_cvt_pk_norm_i16_f32 v_cvt_pk_norm_u16_f32 v_cvt_pk_u16_u32 v_cvt_pk_i16_i32 v_sub_nc_i32"
    " v_add_nc_i32 v_add_f64 v_mul_f64 v_min_f64 v_max_f64 v_ldexp_f64 v_mul_lo_u32 v_mul_hi_u32"
    " v_mul_hi_i32 v_trig_preop_f64",
    "824: v_lshlrev_b16 v_lshrrev_b16 v_ashrrev_i16",
    "828: v_lshlrev_b64 v_lshrrev_b64 v_ashrrev_i64",
    "864: v_readlane_b32 v_writelane_b32 v_and_b16 v_or_b16 v_xor_b16",
};
constexpr std::string_view kVop3p[] = {
    "0: v_pk_mad_i16 v_pk_mul_lo_u16 v_pk_add_i16 v_pk_sub_i16 v_pk_lshlrev_b16 v_pk_lshrrev_b16"
    " v_pk_ashrrev_i16 v_pk_max_i16 v_pk_min_i16 v_pk_mad_u16 v_pk_add_u16 v_pk_sub_u16"
    " v_pk_max_u16 v_pk_min_u16 v_pk_fma_f16 v_pk_add_f16 v_pk_mul_f16 v_pk_min_f16 v_pk_max_f16"
    " v_dot2_f32_f16",
    "22: v_dot4_i32_iu8 v_dot4_u32_u8 v_dot8_i32_iu4 v_dot8_u32_u4 v_dot2_f32_bf16",
    "32: v_fma_mix_f32 v_fma_mixlo_f16 v_fma_mixhi_f16",
    "64: v_wmma_f32_16x16x16_f16 v_wmma_f32_16x16x16_bf16 v_wmma_f16_16x16x16_f16"
    " v_wmma_bf16_16x16x16_bf16 v_wmma_i32_16x16x16_iu8 v_wmma_i32_16x16x16_iu4",
};
constexpr std::string_view kDs[] = {
    "0: add_u32 sub_u32 rsub_u32 inc_u32 dec_u32 min_i32 max_i32 min_u32 max_u32 and_b32 or_b32"
    " xor_b32 mskor_b32 store_b32 store_2addr_b32 store_2addr_stride64_b32 cmpstore_b32"
    " cmpstore_f32 min_f32 max_f32 nop add_f32",
    "24: gws_sema_release_all gws_init gws_sema_v gws_sema_br gws_sema_p gws_barrier store_b8"
    " store_b16 add_rtn_u32 sub_rtn_u32 rsub_rtn_u32 inc_rtn_u32 dec_rtn_u32 min_rtn_i32"
    " max_rtn_i32 min_rtn_u32 max_rtn_u32 and_rtn_b32 or_rtn_b32 xor_rtn_b32 mskor_rtn_b32"
    " storexchg_rtn_b32 storexchg_2addr_rtn_b32 storexchg_2addr_stride64_rtn_b32 cmpstore_rtn_b32"
    " cmpstore_rtn_f32 min_rtn_f32 max_rtn_f32 wrap_rtn_b32 swizzle_b32 load_b32 load_2addr_b32"
    " load_2addr_stride64_b32 load_i8 load_u8 load_i16 load_u16 consume append ordered_count"
    " add_u64 sub_u64 rsub_u64 inc_u64 dec_u64 min_i64 max_i64 min_u64 max_u64 and_b64 or_b64"
    " xor_b64 mskor_b64 store_b64 store_2addr_b64 store_2addr_stride64_b64 cmpstore_b64"
    " cmpstore_f64 min_f64 max_f64",
    "96: add_rtn_u64 sub_rtn_u64 rsub_rtn_u64 inc_rtn_u64 dec_rtn_u64 min_rtn_i64 max_rtn_i64"
    " min_rtn_u64 max_rtn_u64 and_rtn_b64 or_rtn_b64 xor_rtn_b64 mskor_rtn_b64 storexchg_rtn_b64"
    " storexchg_2addr_rtn_b64 storexchg_2addr_stride64_rtn_b64 cmpstore_rtn_b64 cmpstore_rtn_f64"
    " min_rtn_f64 max_rtn_f64",
    "118: load_b64 load_2addr_b64 load_2addr_stride64_b64 add_rtn_f32 add_gs_reg_rtn"
    " sub_gs_reg_rtn",
    "126: condxchg32_rtn_b64",
    "160: store_b8_d16_hi store_b16_d16_hi load_u8_d16 load_u8_d16_hi load_i8_d16 load_i8_d16_hi"
    " load_u16_d16 load_u16_d16_hi",
    "173: bvh_stack_rtn_b32",
    "176: store_addtid_b32 load_addtid_b32 permute_b32 bpermute_b32",
    "222: store_b96 store_b128",
    "254: load_b96 load_b128",
};
// FLAT, SCRATCH and GLOBAL.
constexpr std::string_view kLoadStore[] = {
    "16: load_u8 load_i8 load_u16 load_i16 load_b32 load_b64 load_b96 load_b128 store_b8 store_b16"
    " store_b32 store_b64 store_b96 store_b128 load_d16_u8 load_d16_i8 load_d16_b16 load_d16_hi_u8"
    " load_d16_hi_i8 load_d16_hi_b16 store_d16_hi_b8 store_d16_hi_b16",
};
// FLAT, GLOBAL and MUBUF.
constexpr std::string_view kAtomics[] = {
    "51: atomic_swap_b32 atomic_cmpswap_b32 atomic_add_u32 atomic_sub_u32",
    "56: atomic_min_i32 atomic_min_u32 atomic_max_i32 atomic_max_u32 atomic_and_b32 atomic_or_b32"
    " atomic_xor_b32 atomic_inc_u32 atomic_dec_u32 atomic_swap_b64 atomic_cmpswap_b64"
    " atomic_add_u64 atomic_sub_u64 atomic_min_i64 atomic_min_u64 atomic_max_i64 atomic_max_u64"
    " atomic_and_b64 atomic_or_b64 atomic_xor_b64 atomic_inc_u64 atomic_dec_u64",
    "80: atomic_cmpswap_f32 atomic_min_f32 atomic_max_f32",
    "86: atomic_add_f32",
};
constexpr std::string_view kGlobal[] = {
    "40: load_addtid_b32 store_addtid_b32",
    "55: atomic_csub_u32",
};
constexpr std::string_view kMubuf[] = {
    "0: load_format_x load_format_xy load_format_xyz load_format_xyzw store_format_x"
    " store_format_xy store_format_xyz store_format_xyzw load_d16_format_x load_d16_format_xy"
    " load_d16_format_xyz load_d16_format_xyzw store_d16_format_x store_d16_format_xy"
    " store_d16_format_xyz store_d16_format_xyzw load_u8 load_i8 load_u16 load_i16 load_b32"
    " load_b64 load_b96 load_b128 store_b8 store_b16 store_b32 store_b64 store_b96 store_b128"
    " load_d16_u8 load_d16_i8 load_d16_b16 load_d16_hi_u8 load_d16_hi_i8 load_d16_hi_b16"
    " store_d16_hi_b8 store_d16_hi_b16 load_d16_hi_format_x store_d16_hi_format_x",
    "43: gl0_inv gl1_inv load_lds_u8 load_lds_i8 load_lds_u16 load_lds_i16 load_lds_b32"
    " load_lds_format_x",
    "55: atomic_csub_u32",
};
constexpr std::string_view kMtbuf[] = {
    "0: load_format_x load_format_xy load_format_xyz load_format_xyzw store_format_x"
    " store_format_xy store_format_xyz store_format_xyzw load_d16_format_x load_d16_format_xy"
    " load_d16_format_xyz load_d16_format_xyzw store_d16_format_x store_d16_format_xy"
    " store_d16_format_xyz store_d16_format_xyzw",
};
constexpr std::string_view kMimg[] = {
    "0: load load_mip load_pck load_pck_sgn load_mip_pck load_mip_pck_sgn store store_mip store_pck"
    " store_mip_pck atomic_swap atomic_cmpswap atomic_add atomic_sub atomic_smin atomic_umin"
    " atomic_smax atomic_umax atomic_and atomic_or atomic_xor atomic_inc atomic_dec get_resinfo"
    " msaa_load",
    "27: sample sample_d sample_l sample_b sample_lz sample_c sample_c_d sample_c_l sample_c_b"
    " sample_c_lz sample_o sample_d_o sample_l_o sample_b_o sample_lz_o sample_c_o sample_c_d_o"
    " sample_c_l_o sample_c_b_o sample_c_lz_o gather4 gather4_l gather4_b gather4_lz gather4_c"
    " gather4_c_lz gather4_o gather4_lz_o gather4_c_lz_o get_lod sample_d_g16 sample_c_d_g16"
    " sample_d_o_g16 sample_c_d_o_g16",
    "64: sample_cl sample_d_cl sample_b_cl sample_c_cl sample_c_d_cl sample_c_b_cl sample_cl_o"
    " sample_d_cl_o sample_b_cl_o sample_c_cl_o sample_c_d_cl_o sample_c_b_cl_o",
    "84: sample_c_d_cl_g16 sample_d_cl_o_g16 sample_c_d_cl_o_g16",
    "95: sample_d_cl_g16 gather4_cl gather4_b_cl gather4_c_cl gather4_c_l gather4_c_b"
    " gather4_c_b_cl",
    "144: gather4h",
};
// Either half of a VOPD; the last three only of the second.
constexpr std::string_view kVopd[] = {
    "0: fmac_f32 fmaak_f32 fmamk_f32 mul_f32 add_f32 sub_f32 subrev_f32 mul_dx9_zero_f32 mov_b32"
    " cndmask_b32 max_f32 min_f32 dot2acc_f32_f16",
    "16: add_nc_u32 lshlrev_b32 and_b32",
};
// NOLINTEND(bugprone-suspicious-missing-comma)

// Opcodes that exist only in their short form.
constexpr std::string_view kNotPromoted[] = {
    "v_dot2acc_f32_f16", "v_fmamk_f32",      "v_fmaak_f32",         "v_fmamk_f16",
    "v_fmaak_f16",       "v_pk_fmac_f16",    "v_readfirstlane_b32", "v_swap_b32",
    "v_swap_b16",        "v_permlane64_b32", "v_swaprel_b32",
};

}  // namespace

Tables gfx11_tables() {
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
  add(Format::kVopc, kVopc, "v_cmp_");
  add(Format::kVopc, kVopc, "v_cmpx_", 128);
  add(Format::kVop3, kVop3);
  add(Format::kVop3p, kVop3p);
  add(Format::kVopd, kVopd, "v_dual_");
  add(Format::kDs, kDs, "ds_");
  add(Format::kFlat, kLoadStore, "flat_");
  add(Format::kFlat, kAtomics, "flat_");
  add(Format::kScratch, kLoadStore, "scratch_");
  add(Format::kGlobal, kLoadStore, "global_");
  add(Format::kGlobal, kAtomics, "global_");
  add(Format::kGlobal, kGlobal, "global_");
  add(Format::kMubuf, kMubuf, "buffer_");
  add(Format::kMubuf, kAtomics, "buffer_");
  add(Format::kMtbuf, kMtbuf, "tbuffer_");
  add(Format::kMimg, kMimg, "image_");
  constexpr unsigned kFirstVop2 = 0x100, kFirstVop1 = 0x180;
  Names& vop3 = tables[size_t(Format::kVop3)];
  add_promoted(vop3, tables[size_t(Format::kVopc)], 0, kFirstVop2, kNotPromoted);
  add_promoted(vop3, tables[size_t(Format::kVop2)], kFirstVop2, 0x40, kNotPromoted);
  add_promoted(vop3, tables[size_t(Format::kVop1)], kFirstVop1, 0x80, kNotPromoted);
  return tables;
}

}  // namespace gpu::shader
