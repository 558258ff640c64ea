// SPDX-License-Identifier: GPL-2.0
// Floats of 16 bits and pairs of floats with other modes than the usual one.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

typedef float float2_t __attribute__((ext_vector_type(2)));

// The instructions between run with a value of a field of MODE: rounding [3:0], which is for 32 bits and
// for others, or denormals [7:4], the same.
#define WITH(FIELD, VALUE, USUAL, INSTRUCTIONS)                            \
  "s_setreg_imm32_b32 hwreg(HW_REG_MODE, " FIELD "), " VALUE "\n"          \
  INSTRUCTIONS "s_setreg_imm32_b32 hwreg(HW_REG_MODE, " FIELD "), " USUAL

#define HALVES                       \
  "v_add_f16 %0, %8, %9\n"           \
  "v_mul_f16 %1, %8, %9\n"           \
  "v_cvt_f16_f32 %2, %10\n"          \
  "v_pk_add_f16 %3, %8, %9\n"        \
  "v_pk_mul_f16 %4, %8, %9\n"        \
  "v_fma_f16 %5, %8, %9, 1.0\n"      \
  "v_pk_fma_f16 %6, %8, %9, 1.0 op_sel_hi:[1,1,0]\n" \
  "v_cvt_f32_f16 %7, %8\n"

#define KERNEL_OF_HALVES(NAME, FIELD, VALUE, USUAL)                                                   \
  kernel void NAME(global const uint* a, global const uint* b, global uint* out) {                    \
    const uint i = ID;                                                                                \
    const uint x = a[i], y = b[i];                                                                    \
    uint r0, r1, r2, r3, r4, r5, r6, r7;                                                              \
    __asm__ volatile(WITH(FIELD, VALUE, USUAL, HALVES)                                                \
                     : "=&v"(r0), "=&v"(r1), "=&v"(r2), "=&v"(r3), "=&v"(r4), "=&v"(r5), "=&v"(r6),   \
                       "=&v"(r7)                                                                      \
                     : "v"(x), "v"(y), "v"(b[i ^ 1]));                                                \
    global uint* to = out + 8 * i;                                                                    \
    to[0] = r0, to[1] = r1, to[2] = r2, to[3] = r3, to[4] = r4, to[5] = r5, to[6] = r6, to[7] = r7;   \
  }
KERNEL_OF_HALVES(halves_up, "0, 4", "4", "0")
KERNEL_OF_HALVES(halves_down, "0, 4", "8", "0")
KERNEL_OF_HALVES(halves_toward_zero, "0, 4", "12", "0")
KERNEL_OF_HALVES(halves_flushed, "6, 2", "0", "3")
KERNEL_OF_HALVES(halves_flushed_in, "6, 2", "2", "3")
KERNEL_OF_HALVES(halves_flushed_out, "6, 2", "1", "3")

KERNEL_OF_HALVES(halves_saturated, "23, 1", "1", "0")

// Infinities that are no overflows, and others.
kernel void saturated(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  uint low = x, high = x, reciprocal, doubled;
  __asm__ volatile(WITH("23, 1", "1", "0",
                        "v_fma_mixlo_f16 %0, %4, %5, 0 op_sel_hi:[0,0,0]\n"
                        "v_fma_mixhi_f16 %1, %4, %5, 0 op_sel_hi:[1,1,0]\n"
                        "v_rcp_f16 %2, %4\n"
                        "v_add_f16_e64 %3, %4, 0 mul:4\n")
                   : "+&v"(low), "+&v"(high), "=&v"(reciprocal), "=&v"(doubled)
                   : "v"(x), "v"(y));
  global uint* to = out + 8 * i;
  to[0] = low, to[1] = high, to[2] = reciprocal, to[3] = doubled;
}

#define PAIRS                           \
  "v_pk_add_f32 %0, %3, %4\n"           \
  "v_pk_mul_f32 %1, %3, %4\n"           \
  "v_pk_fma_f32 %2, %3, %4, %4 neg_lo:[0,0,1]\n"

#define KERNEL_OF_PAIRS(NAME, FIELD, VALUE, USUAL)                                    \
  kernel void NAME(global const float* a, global const float* b, global float* out) { \
    const uint i = ID;                                                                \
    const float2_t x = {a[i], a[i ^ 1]}, y = {b[i], b[i ^ 1]};                        \
    float2_t sum, product, fused;                                                     \
    __asm__ volatile(WITH(FIELD, VALUE, USUAL, PAIRS)                                 \
                     : "=&v"(sum), "=&v"(product), "=&v"(fused)                       \
                     : "v"(x), "v"(y));                                               \
    global float* to = out + 8 * i;                                                   \
    to[0] = sum.x, to[1] = sum.y, to[2] = product.x, to[3] = product.y;               \
    to[4] = fused.x, to[5] = fused.y;                                                 \
  }
KERNEL_OF_PAIRS(pairs_up, "0, 4", "1", "0")
KERNEL_OF_PAIRS(pairs_down, "0, 4", "2", "0")
KERNEL_OF_PAIRS(pairs_toward_zero, "0, 4", "3", "0")
KERNEL_OF_PAIRS(pairs_flushed, "4, 2", "0", "3")

// Signaling NaNs are like others if IEEE is clear.
kernel void picked(global const float* a, global const float* b, global uint* out) {
  const uint i = ID;
  const float x = a[i], y = b[i];
  float low, high, lowest, middle;
  double wide;
  uint halves, one_half;
  __asm__ volatile(WITH("9, 1", "0", "1",
                        "v_min_f32 %0, %7, %8\n"
                        "v_max_f32 %1, %7, %8\n"
                        "v_min3_f32 %2, %7, %8, %8\n"
                        "v_med3_f32 %3, %7, %8, 1.0\n"
                        "v_max_f64 %4, %9, %10\n"
                        "v_pk_min_f16 %5, %7, %8\n"
                        "v_max_f16 %6, %7, %8\n")
                   : "=&v"(low), "=&v"(high), "=&v"(lowest), "=&v"(middle), "=&v"(wide), "=&v"(halves),
                     "=&v"(one_half)
                   : "v"(x), "v"(y), "v"(__builtin_astype((float2_t){1, x}, double)),
                     "v"(__builtin_astype((float2_t){1, y}, double)));
  global uint* to = out + 8 * i;
  to[0] = __builtin_astype(low, uint), to[1] = __builtin_astype(high, uint);
  to[2] = __builtin_astype(lowest, uint), to[3] = __builtin_astype(middle, uint);
  to[4] = (uint)(__builtin_astype(wide, ulong) >> 32), to[5] = halves, to[6] = one_half;
}

// Both widths at once, and a dot product of halves.
kernel void mixes_flushed(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  uint wide, low = x, high = x, dot;
  __asm__ volatile(WITH("4, 4", "0", "15",
                        "v_fma_mix_f32 %0, %4, %5, %4 op_sel_hi:[1,1,0]\n"
                        "v_fma_mixlo_f16 %1, %4, %5, 0 op_sel_hi:[1,1,0]\n"
                        "v_fma_mixhi_f16 %2, %4, %5, 0 op_sel_hi:[1,1,0]\n"
                        "v_dot2_f32_f16 %3, %4, %5, %4\n")
                   : "=&v"(wide), "+&v"(low), "+&v"(high), "=&v"(dot)
                   : "v"(x), "v"(y));
  global uint* to = out + 8 * i;
  to[0] = wide, to[1] = low, to[2] = high, to[3] = dot;
}
