// SPDX-License-Identifier: GPL-2.0
// Products of matrices of 16 x 16 by one wave, of 32 lanes or of 64: out = a x b + c. A row of a, and
// a column of b, are eight words; c and out have a word for each element.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()

#if __AMDGCN_WAVEFRONT_SIZE__ == 64
#define WMMA(name) __builtin_amdgcn_wmma_##name##_w64
#define ITEMS 4
typedef float4 floats;
typedef int4 ints;
typedef half8 halves;
#else
#define WMMA(name) __builtin_amdgcn_wmma_##name##_w32
#define ITEMS 8
typedef float8 floats;
typedef int8 ints;
typedef half16 halves;
#endif

static uint place(uint item) { return (16 / ITEMS * item + LOCAL_ID / 16) * 16 + LOCAL_ID % 16; }

#define PRODUCT(name, input, sums, type, ...)                                                     \
  kernel void name(global const uint* a, global const uint* b, global const type* c, global type* out) { \
    const input x = *(global const input*)(a + LOCAL_ID % 16 * 8);                               \
    const input y = *(global const input*)(b + LOCAL_ID % 16 * 8);                               \
    sums sum;                                                                                    \
    for (uint i = 0; i < ITEMS; ++i) sum[i] = c[place(i)];                                       \
    sum = __VA_ARGS__;                                                                           \
    for (uint i = 0; i < ITEMS; ++i) out[place(i)] = sum[i];                                     \
  }

PRODUCT(f32_f16, half16, floats, float, WMMA(f32_16x16x16_f16)(x, y, sum))
PRODUCT(f32_bf16, short16, floats, float, WMMA(f32_16x16x16_bf16)(x, y, sum))
PRODUCT(i32_i8, int4, ints, int, WMMA(i32_16x16x16_iu8)(true, x, true, y, sum, false))
PRODUCT(i32_i8_clamp, int4, ints, int, WMMA(i32_16x16x16_iu8)(true, x, true, y, sum, true))
PRODUCT(i32_u8_i8, int4, ints, int, WMMA(i32_16x16x16_iu8)(false, x, true, y, sum, false))
PRODUCT(i32_i4, int2, ints, int, WMMA(i32_16x16x16_iu4)(true, x, true, y, sum, false))

// C and the result are in the high halves; the low ones stay as they are.
kernel void f16_f16(global const uint* a, global const uint* b, global const uint* c, global uint* out) {
  const half16 x = *(global const half16*)(a + LOCAL_ID % 16 * 8);
  const half16 y = *(global const half16*)(b + LOCAL_ID % 16 * 8);
  uint words[ITEMS];
  halves sum;
  for (uint i = 0; i < ITEMS; ++i) {
    words[i] = c[place(i)];
    sum[2 * i] = __builtin_astype((ushort)words[i], half);
    sum[2 * i + 1] = __builtin_astype((ushort)(words[i] >> 16), half);
  }
  sum = WMMA(f16_16x16x16_f16_tied)(x, y, sum, true);
  for (uint i = 0; i < ITEMS; ++i)
    out[place(i)] = __builtin_astype(sum[2 * i], ushort) |
                    (uint)__builtin_astype(sum[2 * i + 1], ushort) << 16;
}
