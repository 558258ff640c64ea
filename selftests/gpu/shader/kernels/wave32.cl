// SPDX-License-Identifier: GPL-2.0
// Waves of 32 lanes: exchanges between lanes, masks, carries, instructions with two operations.
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()

kernel void lanes(global const uint* in, global uint* out) {
  const uint lid = LOCAL_ID;
  const uint x = in[lid];
  global uint* to = out + 16 * lid;
  to[0] = __builtin_amdgcn_ds_bpermute((int)((lid * 7 + 3) * 4), (int)x);
  to[1] = __builtin_amdgcn_readfirstlane(x) + __builtin_amdgcn_readlane(x, 17);
  to[2] = __builtin_amdgcn_ballot_w32(x > 0x80000000u);
  to[3] = __builtin_amdgcn_mbcnt_lo(~0u, 0);
  to[4] = __builtin_amdgcn_mbcnt_hi(~0u, 7);
  to[5] = __builtin_amdgcn_update_dpp(5, x, 0x111 /* row_shr:1 */, 0xf, 0xf, 0);
  to[6] = __builtin_amdgcn_update_dpp(0, x, 0x155 /* row_share:5 */, 0xf, 0xf, 0);
  to[7] = __builtin_amdgcn_update_dpp(0, x, 0x163 /* row_xmask:3 */, 0xf, 0xf, 0);
  to[8] = __builtin_amdgcn_mov_dpp8(x, 0x053977 /* 7 6 5 4 3 2 1 0 */);
  to[9] = __builtin_amdgcn_permlane16(0, x, 0x76543210, 0x89abcdef, 0, 0);
  to[10] = __builtin_amdgcn_permlanex16(0, x, 0x01234567, 0xfedcba98, 0, 0);
  to[11] = __builtin_amdgcn_ds_swizzle(x, 0x041f /* xor 1 */);
  uint divergent = 0;
  if (x & 1) divergent = __builtin_amdgcn_ballot_w32(true);
  to[12] = divergent;
}

kernel void carries(global const ulong* a, global const ulong* b, global ulong* out) {
  const uint i = LOCAL_ID;
  out[4 * i] = a[i] + b[i];
  out[4 * i + 1] = a[i] - b[i];
  out[4 * i + 2] = a[i] * b[i];
  out[4 * i + 3] = a[i] < b[i] ? a[i] >> (b[i] & 63) : b[i] << (a[i] & 63);
}

// Swaps that compare, in LDS and in memory: only odd numbers are replaced.
kernel void exchange(global const uint* a, global volatile atomic_uint* memory, global uint* out) {
  local volatile atomic_uint row[64];
  const uint i = LOCAL_ID;
  const uint x = a[i];
  uint in_lds = x | 1, in_memory = x | 1;
  __opencl_atomic_init(&row[i], x);
  __opencl_atomic_compare_exchange_strong(&row[i], &in_lds, i, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                          __OPENCL_MEMORY_SCOPE_WORK_GROUP);
  __opencl_atomic_compare_exchange_strong(&memory[i], &in_memory, i, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                          __OPENCL_MEMORY_SCOPE_DEVICE);
  out[4 * i] = in_lds;
  out[4 * i + 1] = in_memory;
  out[4 * i + 2] = __opencl_atomic_load(&row[i], __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_WORK_GROUP);
}

// Each half of an instruction reads the registers before the other writes.
kernel void dual(global const uint* a, global const uint* b, global uint* out) {
  const uint i = LOCAL_ID;
  uint x = a[i], y = b[i], sum, product;
  __asm__ volatile(
      "v_mov_b32 v20, %2\n v_mov_b32 v21, %3\n"
      "v_dual_mov_b32 v20, v21 :: v_dual_mov_b32 v21, v20\n"
      "v_mov_b32 %0, v20\n v_mov_b32 %1, v21"
      : "=&v"(sum), "=&v"(product) : "v"(x), "v"(y) : "v20", "v21");
  out[8 * i] = sum;
  out[8 * i + 1] = product;
  __asm__ volatile(
      "v_mov_b32 v20, %2\n v_mov_b32 v21, %3\n"
      "v_dual_add_f32 v22, v20, v21 :: v_dual_add_nc_u32 v23, v21, v20\n"
      "v_dual_fmac_f32 v22, 0x3f400000, v21 :: v_dual_lshlrev_b32 v21, 3, v20\n"
      "v_dual_mul_f32 v20, v22, v23 :: v_dual_and_b32 v23, 0xff, v21\n"
      "v_mov_b32 %0, v22\n v_mov_b32 %1, v23"
      : "=&v"(sum), "=&v"(product) : "v"(x), "v"(y) : "v20", "v21", "v22", "v23");
  out[8 * i + 2] = sum;
  out[8 * i + 3] = product;
  // VCC selects; lanes that are not active keep their registers.
  __asm__ volatile(
      "v_mov_b32 v20, %2\n v_mov_b32 v21, %3\n v_mov_b32 v22, 1\n v_mov_b32 v23, 2\n"
      "v_cmp_lt_u32 vcc_lo, %2, %3\n"
      "s_mov_b32 s20, exec_lo\n s_mov_b32 exec_lo, 0x0000ffff\n"
      "v_dual_cndmask_b32 v22, v20, v21 :: v_dual_max_f32 v23, v21, v20\n"
      "s_mov_b32 exec_lo, s20\n"
      "v_mov_b32 %0, v22\n v_mov_b32 %1, v23"
      : "=&v"(sum), "=&v"(product)
      : "v"(x), "v"(y)
      : "v20", "v21", "v22", "v23", "vcc", "s20");
  out[8 * i + 4] = sum;
  out[8 * i + 5] = product;
}

// Halves of registers, which assemblers before LLVM 21 do not have.
kernel void halves(global const uint* a, global const uint* b, global uint* out) {
  const uint i = LOCAL_ID;
  const uint x = a[i], y = b[i];
  uint result;
  __asm__ volatile(
      "v_mov_b32 v20, %1\n v_mov_b32 v21, %2\n"
      ".long 0x65282b94\n"              // v_add_f16 v20.h, v20.h, v21.l
      ".long 0x7e283995\n"              // v_mov_b16 v20.l, v21.h
      ".long 0xd7641814, 0x00022b14\n"  // v_xor_b16 v20.l, v20.h, v21.h
      "v_mov_b32 %0, v20"
      : "=&v"(result)
      : "v"(x), "v"(y)
      : "v20", "v21");
  out[4 * i] = result;
  __asm__ volatile(
      "v_mov_b32 v20, %1\n v_mov_b32 v21, %2\n"
      ".long 0x7f281515\n"              // v_cvt_f16_f32 v20.h, v21
      ".long 0xd7034814, 0x00022b14\n"  // v_add_nc_u16 v20.h, v20.h, v21.l
      "v_mov_b32 %0, v20"
      : "=&v"(result)
      : "v"(x), "v"(y)
      : "v20", "v21");
  out[4 * i + 1] = result;
  __asm__ volatile(
      "v_mov_b32 v21, %2\n"
      ".long 0x7e281795\n"  // v_cvt_f32_f16 v20, v21.h
      ".long 0x7c732b94\n"  // v_cmp_lt_u16 vcc_lo, v20.h, v21.h
      "v_cndmask_b32 %0, %1, v20, vcc_lo"
      : "=&v"(result)
      : "v"(x), "v"(y)
      : "v20", "v21", "vcc");
  out[4 * i + 2] = result;
}

// Products of four bytes each; the first flag of a pair says that a has signs, the second b.
kernel void dots(global const uint* a, global const uint* b, global int* out) {
  const uint i = LOCAL_ID;
  const int x = (int)a[i], y = (int)b[i];
  out[4 * i] = __builtin_amdgcn_sudot4(true, x, true, y, x, false);
  out[4 * i + 1] = __builtin_amdgcn_sudot4(true, x, false, y, x, false);
  out[4 * i + 2] = __builtin_amdgcn_sudot4(false, x, true, y, x, false);
  out[4 * i + 3] = __builtin_amdgcn_sudot4(false, x, false, y, x, false);
}

// Stops at an instruction that is not modelled.
kernel void unknown(global uint* out) {
  out[0] = 1;
  __asm__ volatile("s_waitcnt_vscnt null, 0\n v_mullit_f32 v1, v2, v3, v4");
  out[0] = 2;
}

// As the compiler ends a program: an interrupt, and a wave that halts.
kernel void aborts(global uint* out) {
  out[0] = 1;
  __builtin_trap();
}

// What RADV's kernels use, and the compiler of HIP does not. The first two are of one number.
kernel void of_masks(uint mask, global uint* out) {
  ulong twice;
  uint quads, whole;
  __asm__ volatile("s_bitreplicate_b64_b32 %0, %1" : "=&s"(twice) : "s"(mask));
  __asm__ volatile("s_quadmask_b32 %0, %1" : "=&s"(quads) : "s"(mask) : "scc");
  __asm__ volatile("s_wqm_b32 %0, %1" : "=&s"(whole) : "s"(mask) : "scc");
  out[0] = (uint)twice, out[1] = (uint)(twice >> 32), out[2] = quads, out[3] = whole;
}

kernel void fused(global const uint* a, global const uint* b, global float* extremes,
                  global uint* out) {
  const uint i = LOCAL_ID;
  const uint x = a[i], y = b[i];
  uint fused = x, packed = x, product = x, sum;
  __asm__ volatile("v_fmac_f16 %0, %1, %2" : "+&v"(fused) : "v"(x), "v"(y));
  out[8 * i] = fused;
  __asm__ volatile("v_pk_fmac_f16 %0, %1, %2" : "+&v"(packed) : "v"(x), "v"(y));
  out[8 * i + 1] = packed;
  __asm__ volatile("v_fmac_dx9_zero_f32 %0, %1, %2" : "+&v"(product) : "v"(x), "v"(y));
  out[8 * i + 2] = product;
  __asm__ volatile("v_mov_b32 %0, %1\n v_fmaak_f16 %0, %1, %2, 0x3e00"
                   : "=&v"(sum)
                   : "v"(x), "v"(y));
  out[8 * i + 3] = sum;
  __asm__ volatile("v_mov_b32 %0, %1\n v_fmamk_f16 %0, %1, 0x3e00, %2"
                   : "=&v"(sum)
                   : "v"(x), "v"(y));
  out[8 * i + 4] = sum;
  float value = as_float(x);
  __asm__ volatile("global_atomic_min_f32 %0, %1, off" ::"v"(&extremes[i % 2]), "v"(value)
                   : "memory");
  __asm__ volatile("global_atomic_max_f32 %0, %1, off" ::"v"(&extremes[2 + i % 2]), "v"(value)
                   : "memory");
}

// The constant 1 is a denormal number, whose class is bit 7 of the mask, also while MODE flushes them.
kernel void tested_bits(global const uint* in, global uint* out) {
  const uint i = LOCAL_ID, x = in[i];
  uint result;
  __asm__ volatile(
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n"
      "v_cmp_class_f32_e64 vcc_lo, 1, %1\n"
      "v_cndmask_b32 %0, 0, 1, vcc_lo\n"
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3"
      : "=&v"(result)
      : "v"(x)
      : "vcc");
  out[i] = result;
}

// Sums and products of 32 and 16 bits, while MODE flushes denormals of 32 bits.
kernel void mixed(global const uint* a, global const uint* b, global uint* out) {
  const uint i = LOCAL_ID, x = a[i], y = b[i];
  uint mixed, dot;
  __asm__ volatile(
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\n"
      "v_fma_mix_f32 %0, %2, 1.0, %3 op_sel_hi:[1,0,0]\n"
      "v_dot2_f32_f16 %1, %2, 1.0, %3\n"
      "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3"
      : "=&v"(mixed), "=&v"(dot)
      : "v"(x), "v"(y));
  out[2 * i] = mixed, out[2 * i + 1] = dot;
}
