// SPDX-License-Identifier: GPL-2.0
// Integers with clamp stop at the limits of their type; floats stop at 0 and 1.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())
#define CLAMPED(NAME, OUT, X, Y) __asm__ volatile(NAME " %0, %1, %2 clamp" : "=v"(OUT) : "v"(X), "v"(Y))
#define CLAMPED3(NAME, OUT, X, Y, Z) \
  __asm__ volatile(NAME " %0, %1, %2, %3 clamp" : "=&v"(OUT) : "v"(X), "v"(Y), "v"(Z))

typedef float float2_t __attribute__((ext_vector_type(2)));
typedef uint uint4_t __attribute__((ext_vector_type(4)));

kernel void products(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i], z = a[i ^ 1];
  global uint* to = out + 8 * i;
  uint r[8], low, high;
  CLAMPED("v_mul_u32_u24_e64", r[0], x, y);
  CLAMPED("v_mul_i32_i24_e64", r[1], x, y);
  CLAMPED3("v_mad_u32_u24", r[2], x, y, z);
  CLAMPED3("v_mad_i32_i24", r[3], x, y, z);
  CLAMPED3("v_mad_u16", low, x, y, z);
  CLAMPED3("v_mad_i16", high, x, y, z);
  r[4] = low | high << 16;
  CLAMPED3("v_pk_mad_u16", r[5], x, y, z);
  CLAMPED3("v_pk_mad_i16", r[6], x, y, z);
  CLAMPED("v_pk_mul_lo_u16", r[7], x, y);
  for (uint k = 0; k < 8; ++k) to[k] = r[k];
}

// The last operand is near a limit, or anywhere.
kernel void sums(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i], z = a[i ^ 1] | (i & 1 ? 0xffffff00 : 0);
  const ulong wide = (ulong)y << 32 | x;
  ulong four;
  global uint* to = out + 8 * i;
  uint r[6];
  CLAMPED3("v_sad_u8", r[0], x, y, z);
  CLAMPED3("v_sad_u16", r[1], x, y, z);
  CLAMPED3("v_sad_hi_u8", r[2], x, y, z);
  CLAMPED3("v_msad_u8", r[3], x, y, z);
  __asm__ volatile("v_add_co_u32_e64 %0, vcc, %1, %2 clamp" : "=v"(r[4]) : "v"(x), "v"(y) : "vcc");
  __asm__ volatile("v_sub_co_u32_e64 %0, vcc, %1, %2 clamp" : "=v"(r[5]) : "v"(x), "v"(y) : "vcc");
  CLAMPED3("v_qsad_pk_u16_u8", four, wide, y, (ulong)z << 32 | z);
  for (uint k = 0; k < 6; ++k) to[k] = r[k];
  to[6] = (uint)four, to[7] = (uint)(four >> 32);
}

kernel void wide_sums(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i], z = a[i ^ 1];
  const ulong unsigned_c = (ulong)(i & 1 ? 0xffffffff : 0) << 32 | z;
  const ulong signed_c = (ulong)(i & 2 ? 0x7fffffff : 0x80000000) << 32 | z;
  const uint4_t starts = {0xffffffff - (z & 0xff), z, 0xffffffff, 0xfffffff0};
  ulong sum, signed_sum;
  uint4_t sads;
  __asm__ volatile("v_mad_u64_u32 %0, vcc, %1, %2, %3 clamp"
                   : "=&v"(sum) : "v"(x), "v"(y), "v"(unsigned_c) : "vcc");
  __asm__ volatile("v_mad_i64_i32 %0, vcc, %1, %2, %3 clamp"
                   : "=&v"(signed_sum) : "v"(x), "v"(y), "v"(signed_c) : "vcc");
  CLAMPED3("v_mqsad_u32_u8", sads, (ulong)y << 32 | x, y, starts);
  global uint* to = out + 8 * i;
  to[0] = (uint)sum, to[1] = (uint)(sum >> 32);
  to[2] = (uint)signed_sum, to[3] = (uint)(signed_sum >> 32);
  to[4] = sads.x, to[5] = sads.y, to[6] = sads.z, to[7] = sads.w;
}

kernel void dots(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  const int c = i & 2 ? 0x7ffffff0 : 0x80000010;
  const uint u = i & 2 ? 0xfffffff0 : x >> 4;
  global uint* to = out + 8 * i;
  uint r[8];
  r[6] = c;
  CLAMPED3("v_dot2_i32_i16", r[0], x, y, c);
  CLAMPED3("v_dot2_u32_u16", r[1], x, y, u);
  r[2] = __builtin_amdgcn_sdot4(x, y, c, true);
  r[3] = __builtin_amdgcn_udot4(x, y, u, true);
  r[4] = __builtin_amdgcn_sdot8(x, y, c, true);
  r[5] = __builtin_amdgcn_udot8(x, y, u, true);
  __asm__ volatile("v_dot4c_i32_i8_e64 %0, %1, %2 clamp" : "+v"(r[6]) : "v"(x), "v"(y));
  CLAMPED3("v_dot2_f32_f16", r[7], x, y, 0);
  for (uint k = 0; k < 8; ++k) to[k] = r[k];
}

kernel void pairs(global const float* a, global const float* b, global float* out) {
  const uint i = ID;
  const float2_t x = {a[i], a[i ^ 1]}, y = {b[i], b[i ^ 1]};
  float2_t sum, product, fused;
  CLAMPED("v_pk_add_f32", sum, x, y);
  CLAMPED("v_pk_mul_f32", product, x, y);
  CLAMPED3("v_pk_fma_f32", fused, x, y, x);
  global float* to = out + 8 * i;
  to[0] = sum.x, to[1] = sum.y, to[2] = product.x, to[3] = product.y;
  to[4] = fused.x, to[5] = fused.y;
}
