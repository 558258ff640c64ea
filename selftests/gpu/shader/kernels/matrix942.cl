// SPDX-License-Identifier: GPL-2.0
// As matrix.cl, what gfx942 adds or rounds in another way.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

#define MATRIX(NAME, INPUT, SUM, TYPES)                                                 \
  kernel void NAME##TYPES(global const INPUT* a, global const INPUT* b, global SUM* c) { \
    const uint lane = __builtin_amdgcn_workitem_id_x();                                 \
    c[lane] = __builtin_amdgcn_mfma_##NAME##TYPES(a[lane], b[lane], c[lane], 0, 0, 0);  \
  }

typedef float float32 __attribute__((ext_vector_type(32)));

MATRIX(f32_32x32x4, half4, float32, f16)
MATRIX(f32_16x16x4, half4, float16, f16)
MATRIX(f32_4x4x4, half4, float4, f16)
MATRIX(f32_32x32x8, half4, float16, f16)
MATRIX(f32_16x16x16, half4, float4, f16)
MATRIX(f32_32x32x8, short4, float16, bf16_1k)
MATRIX(f32_16x16x16, short4, float4, bf16_1k)
MATRIX(i32_32x32x16, long, int16, _i8)
MATRIX(i32_16x16x32, long, int4, _i8)
MATRIX(f32_16x16x8, float2, float4, _xf32)
MATRIX(f32_32x32x4, float2, float16, _xf32)
MATRIX(f32_16x16x32, long, float4, _bf8_bf8)
MATRIX(f32_16x16x32, long, float4, _bf8_fp8)
MATRIX(f32_16x16x32, long, float4, _fp8_bf8)
MATRIX(f32_16x16x32, long, float4, _fp8_fp8)
MATRIX(f32_32x32x16, long, float16, _bf8_bf8)
MATRIX(f32_32x32x16, long, float16, _bf8_fp8)
MATRIX(f32_32x32x16, long, float16, _fp8_bf8)
MATRIX(f32_32x32x16, long, float16, _fp8_fp8)

// Sparse: of each four k, A has two.
#define SPARSE(NAME, A, B, SUM)                                                                   \
  kernel void NAME(global const A* a, global const B* b, global SUM* c, global const int* index) { \
    const uint lane = __builtin_amdgcn_workitem_id_x();                                           \
    c[lane] = __builtin_amdgcn_smfmac_##NAME(a[lane], b[lane], c[lane], index[lane], 0, 0);        \
  }
SPARSE(f32_16x16x32_f16, half4, half8, float4)
SPARSE(f32_32x32x16_f16, half4, half8, float16)
SPARSE(f32_16x16x32_bf16, short4, short8, float4)
SPARSE(f32_32x32x16_bf16, short4, short8, float16)
SPARSE(i32_16x16x64_i8, int2, int4, int4)
SPARSE(i32_32x32x32_i8, int2, int4, int16)
SPARSE(f32_16x16x64_bf8_bf8, int2, int4, float4)
SPARSE(f32_16x16x64_bf8_fp8, int2, int4, float4)
SPARSE(f32_16x16x64_fp8_bf8, int2, int4, float4)
SPARSE(f32_16x16x64_fp8_fp8, int2, int4, float4)
SPARSE(f32_32x32x32_bf8_bf8, int2, int4, float16)
SPARSE(f32_32x32x32_bf8_fp8, int2, int4, float16)
SPARSE(f32_32x32x32_fp8_bf8, int2, int4, float16)
SPARSE(f32_32x32x32_fp8_fp8, int2, int4, float16)

// With CBSZ, ABID and BLGP, which for doubles negates A, B and C.
#define BROADCAST(NAME, INPUT, SUM, CBSZ, ABID, BLGP)                                               \
  kernel void NAME##_##CBSZ##_##ABID##_##BLGP(global const INPUT* a, global const INPUT* b,         \
                                              global SUM* c) {                                      \
    const uint lane = __builtin_amdgcn_workitem_id_x();                                             \
    c[lane] = __builtin_amdgcn_mfma_##NAME(a[lane], b[lane], c[lane], CBSZ, ABID, BLGP);            \
  }
BROADCAST(f32_32x32x1f32, float, float32, 1, 1, 2)
BROADCAST(f32_4x4x4f16, half4, float4, 4, 9, 5)
BROADCAST(f32_16x16x4f32, float, float4, 0, 0, 3)
BROADCAST(f64_16x16x4f64, double, double4, 0, 0, 1)
BROADCAST(f64_16x16x4f64, double, double4, 0, 0, 6)
BROADCAST(f64_4x4x4f64, double, double, 0, 0, 7)

// Another set of indices than the first one.
#define SPARSE_SET(NAME, A, B, SUM, CBSZ, ABID)                                                   \
  kernel void NAME##_##CBSZ##_##ABID(global const A* a, global const B* b, global SUM* c,         \
                                     global const int* index) {                                   \
    const uint lane = __builtin_amdgcn_workitem_id_x();                                           \
    c[lane] = __builtin_amdgcn_smfmac_##NAME(a[lane], b[lane], c[lane], index[lane], CBSZ, ABID); \
  }
SPARSE_SET(f32_16x16x32_f16, half4, half8, float4, 0, 3)
SPARSE_SET(f32_16x16x32_f16, half4, half8, float4, 1, 3)
SPARSE_SET(i32_32x32x32_i8, int2, int4, int16, 0, 1)
