// SPDX-License-Identifier: GPL-2.0
// Instructions of gfx11 that few kernels have, in waves of 32 lanes.
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()

// Comparisons with other lanes, and halves of other lanes, of which the rows of a mask are written.
kernel void compared_lanes(global const uint* in, global uint* out) {
  const uint lid = LOCAL_ID;
  const uint x = in[lid];
  uint mask, mask_of_floats, one_half = x;
  __asm__ volatile("v_cmp_gt_u32_e64_dpp %0, %3, %3 row_xmask:3 row_mask:0xf bank_mask:0xf\n"
                   "v_cmp_lt_f32_dpp vcc_lo, -%3, %3 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n"
                   "s_mov_b32 %1, vcc_lo\n"
                   "v_cndmask_b16_e64_dpp %2, %3, %3, %4 row_xmask:1 row_mask:0x2 bank_mask:0xf"
                   : "=&s"(mask), "=&s"(mask_of_floats), "+&v"(one_half)
                   : "v"(x), "s"(0x0f0f0f0f)
                   : "vcc");
  global uint* to = out + 4 * lid;
  to[0] = mask, to[1] = mask_of_floats, to[2] = one_half;
}

// Integers of floats.
kernel void packed_integers(global const uint* a, global const uint* b, global uint* out) {
  const uint lid = LOCAL_ID;
  const uint x = a[lid], y = b[lid];
  uint normalized, of_unsigned, of_signed;
  __asm__("v_cvt_pk_norm_i16_f32 %0, %1, %2" : "=v"(normalized) : "v"(x), "v"(y));
  __asm__("v_cvt_pk_u16_f32 %0, %1, %2" : "=v"(of_unsigned) : "v"(x), "v"(y));
  __asm__("v_cvt_pk_i16_f32 %0, %1, %2" : "=v"(of_signed) : "v"(x), "v"(y));
  global uint* to = out + 4 * lid;
  to[0] = normalized, to[1] = of_unsigned, to[2] = of_signed;
}

// A product of matrices with other signs. Each lane has the words of its row of A and column of B; C is
// also the result, eight words of each lane.
typedef uint uint8_t __attribute__((ext_vector_type(8)));
typedef float float8_t __attribute__((ext_vector_type(8)));
#define SIGNED(NAME, TYPE, MODIFIERS)                                                             \
  kernel void NAME(global const uint8_t* a, global const uint8_t* b, global TYPE* c) {            \
    const uint lid = LOCAL_ID;                                                                    \
    const uint8_t x = a[lid % 16], y = b[lid % 16];                                               \
    TYPE sum = c[lid];                                                                            \
    __asm__ volatile(MODIFIERS : "+v"(sum) : "v"(x), "v"(y));                                     \
    c[lid] = sum;                                                                                 \
  }
SIGNED(negated_a_and_c, float8_t,
       "v_wmma_f32_16x16x16_f16 %0, %1, %2, %0 neg_lo:[1,0,1] neg_hi:[0,0,0]")
SIGNED(negated_b_and_magnitude, float8_t,
       "v_wmma_f32_16x16x16_bf16 %0, %1, %2, %0 neg_lo:[0,0,1] neg_hi:[0,1,1]")
SIGNED(negated_halves, uint8_t,
       "v_wmma_f16_16x16x16_f16 %0, %1, %2, %0 neg_lo:[1,1,0] neg_hi:[1,0,1]")
