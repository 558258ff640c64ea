// SPDX-License-Identifier: GPL-2.0
// A work-group of two waves that wait, with known numbers in registers of each kind and in
// LDS: the first one until it is released, the second one at a barrier. Then they hash what they
// have, so that what became of it shows in the results. The argument is the address of
//   +0 not 0: released, +8 PC of the second wave, +16 results of the 128 work-items.
// Numbers are a base of their kind, plus the work-item << 8 or the wave << 16, plus the register.
.set s_base, 0x5a000000
.set v_base, 0xa0000000
.set a_base, 0xc0000000
.set lds_base, 0xe0000000
.set s_first, 16
.set s_count, 80
.set v_first, 2
.set v_count, 22
.set is_gfx11, .amdgcn.gfx_generation_number == 11
.if is_gfx11
.set a_count, 0
.macro v_add_u32 to, a, b
  v_add_nc_u32 \to, \a, \b
.endm
.else
.set a_count, 8
.endif

.text
.globl parked
.p2align 8
.type parked,@function
parked:
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_readfirstlane_b32 s6, v0
  s_lshr_b32 s6, s6, 6
  s_lshl_b32 s7, s6, 16
  .set n, s_first
  .rept s_count
  s_add_u32 s[n], s7, s_base + n
  .set n, n + 1
  .endr
  v_lshlrev_b32 v1, 8, v0
  v_lshlrev_b32 v2, 2, v0
  v_add_u32 v3, lds_base, v1
  ds_write_b32 v2, v3
  .set n, 0
  .rept a_count
  v_add_u32 v2, a_base + n, v1
  s_nop 1
  v_accvgpr_write_b32 a[n], v2
  .set n, n + 1
  .endr
  s_waitcnt vmcnt(0) lgkmcnt(0)
  .set n, v_first
  .rept v_count
  v_add_u32 v[n], v_base + n, v1
  .set n, n + 1
  .endr
  s_getpc_b64 s[8:9]
.Lhere:
  s_add_u32 s8, s8, .Lpark - .Lhere
  s_addc_u32 s9, s9, 0
  s_cmp_eq_u32 s6, 0
  s_cbranch_scc1 .Lwait
.if is_gfx11
  v_mov_b32 v1, 0
  v_mov_b32 v30, s8
  v_mov_b32 v31, s9
  global_store_b64 v1, v[30:31], s[4:5] offset:8
  s_waitcnt_vscnt null, 0
.else
  s_store_dwordx2 s[8:9], s[4:5], 0x8
  s_waitcnt lgkmcnt(0)
  s_dcache_wb
  s_waitcnt lgkmcnt(0)
.endif
  s_branch .Lpark
.Lwait:
  s_sleep 8
  s_load_dword s10, s[4:5], 0x0 glc
  s_waitcnt lgkmcnt(0)
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lwait
.Lpark:
  s_barrier

// v1: the hash
.macro add_to_hash what
  v_mul_lo_u32 v1, v1, s10
  v_add_u32 v1, \what, v1
.endm
  s_mov_b32 s10, 0x01000193
  v_mov_b32 v1, 0
  .set n, v_first
  .rept v_count
  add_to_hash v[n]
  .set n, n + 1
  .endr
  .set n, s_first
  .rept s_count
  add_to_hash s[n]
  .set n, n + 1
  .endr
  .set n, 0
  .rept a_count
  v_accvgpr_read_b32 v2, a[n]
  s_nop 1
  add_to_hash v2
  .set n, n + 1
  .endr
  v_lshlrev_b32 v2, 2, v0
  ds_read_b32 v3, v2
  s_waitcnt lgkmcnt(0)
  add_to_hash v3
  global_store_dword v2, v1, s[4:5] offset:16
  s_endpgm

.rodata
.p2align 6
.if is_gfx11
.amdhsa_kernel parked
  .amdhsa_group_segment_fixed_size 512
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 32
  .amdhsa_next_free_sgpr 96
  .amdhsa_wavefront_size32 0
.end_amdhsa_kernel
.else
.amdhsa_kernel parked
  .amdhsa_group_segment_fixed_size 512
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 32
  .amdhsa_next_free_sgpr 96
  .amdhsa_accum_offset 24
.end_amdhsa_kernel
.endif

.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: parked
    .symbol: parked.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 512
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 102
    .vgpr_count: 32
    .agpr_count: 8
    .max_flat_workgroup_size: 128
    .args:
      - .offset: 0
        .size: 8
        .value_kind: global_buffer
        .address_space: global
...
.end_amdgpu_metadata
