// SPDX-License-Identifier: GPL-2.0
// One matrix instruction a kernel. Each lane has its registers of A, B and C behind each other; D takes
// the place of C.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef float float32 __attribute__((ext_vector_type(32)));
typedef int int32 __attribute__((ext_vector_type(32)));

#define MATRIX(NAME, INPUT, SUM, TYPES)                                                 \
  kernel void NAME##TYPES(global const INPUT* a, global const INPUT* b, global SUM* c) { \
    const uint lane = __builtin_amdgcn_workitem_id_x();                                 \
    c[lane] = __builtin_amdgcn_mfma_##NAME##TYPES(a[lane], b[lane], c[lane], 0, 0, 0);  \
  }

MATRIX(f32_32x32x1, float, float32, f32)
MATRIX(f32_16x16x1, float, float16, f32)
MATRIX(f32_4x4x1, float, float4, f32)
MATRIX(f32_32x32x2, float, float16, f32)
MATRIX(f32_16x16x4, float, float4, f32)
MATRIX(f32_32x32x4, half4, float32, f16)
MATRIX(f32_16x16x4, half4, float16, f16)
MATRIX(f32_4x4x4, half4, float4, f16)
MATRIX(f32_32x32x8, half4, float16, f16)
MATRIX(f32_16x16x16, half4, float4, f16)
MATRIX(i32_32x32x4, int, int32, i8)
MATRIX(i32_16x16x4, int, int16, i8)
MATRIX(i32_4x4x4, int, int4, i8)
MATRIX(i32_32x32x8, int, int16, i8)
MATRIX(i32_16x16x16, int, int4, i8)
MATRIX(f32_32x32x4, short4, float32, bf16_1k)
MATRIX(f32_16x16x4, short4, float16, bf16_1k)
MATRIX(f32_4x4x4, short4, float4, bf16_1k)
MATRIX(f32_32x32x8, short4, float16, bf16_1k)
MATRIX(f32_16x16x16, short4, float4, bf16_1k)
MATRIX(f32_32x32x2, short2, float32, bf16)
MATRIX(f32_16x16x2, short2, float16, bf16)
MATRIX(f32_4x4x2, short2, float4, bf16)
MATRIX(f32_32x32x4, short2, float16, bf16)
MATRIX(f32_16x16x8, short2, float4, bf16)
MATRIX(f64_16x16x4, double, double4, f64)
MATRIX(f64_4x4x4, double, double, f64)

// With CBSZ, ABID and BLGP.
#define BROADCAST(NAME, INPUT, SUM, CBSZ, ABID, BLGP)                                               \
  kernel void NAME##_##CBSZ##_##ABID##_##BLGP(global const INPUT* a, global const INPUT* b,         \
                                              global SUM* c) {                                      \
    const uint lane = __builtin_amdgcn_workitem_id_x();                                             \
    c[lane] = __builtin_amdgcn_mfma_##NAME(a[lane], b[lane], c[lane], CBSZ, ABID, BLGP);            \
  }
BROADCAST(f32_32x32x1f32, float, float32, 1, 0, 0)
BROADCAST(f32_32x32x1f32, float, float32, 1, 1, 0)
BROADCAST(f32_16x16x1f32, float, float16, 1, 1, 3)
BROADCAST(f32_16x16x1f32, float, float16, 2, 3, 2)
BROADCAST(f32_4x4x1f32, float, float4, 4, 1, 0)
BROADCAST(f32_4x4x1f32, float, float4, 3, 5, 6)
BROADCAST(f32_32x32x2f32, float, float16, 0, 0, 1)
BROADCAST(f32_16x16x4f32, float, float4, 0, 0, 3)
BROADCAST(f32_32x32x4f16, half4, float32, 1, 1, 2)
BROADCAST(f32_16x16x16f16, half4, float4, 0, 0, 4)
BROADCAST(i32_16x16x4i8, int, int16, 2, 1, 5)
BROADCAST(f32_16x16x8bf16, short2, float4, 0, 0, 7)
