// SPDX-License-Identifier: GPL-2.0
// Arithmetic of every width, for comparison with the same expressions on the CPU.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

kernel void doubles(global const double* a, global const double* b, global double* out) {
  const uint i = ID;
  const double x = a[i], y = b[i];
  double sum = 0;
  for (int k = 0; k < 5; ++k) sum = __builtin_fma(x, y, sum) - x;
  out[4 * i] = x / y;
  out[4 * i + 1] = sum;
  out[4 * i + 2] = __builtin_sqrt(x < 0 ? -x : x);
  out[4 * i + 3] = x < y ? (double)(int)x : (double)(float)y;
}

kernel void floats(global const float* a, global const float* b, global float* out) {
  const uint i = ID;
  const float x = a[i], y = b[i];
  out[8 * i] = x / y;
  out[8 * i + 1] = __builtin_sqrtf(__builtin_fabsf(x));
  out[8 * i + 2] = __builtin_fminf(x, y);
  out[8 * i + 3] = __builtin_fmaxf(x, -y);
  out[8 * i + 4] = (float)(int)x + __builtin_floorf(y) + __builtin_rintf(x) + __builtin_truncf(y);
  out[8 * i + 5] = (float)(uint)__builtin_fabsf(y) - __builtin_ceilf(x);
  out[8 * i + 6] = __builtin_ldexpf(x, (int)i - 30);
  out[8 * i + 7] = (float)(half)x + (float)((half)y * (half)x);
}

kernel void integers(global const int* a, global const int* b, global long* out) {
  const uint i = ID;
  const int x = a[i], y = b[i];
  const uint ux = x, uy = y;
  out[8 * i] = (long)x * y;
  out[8 * i + 1] = y ? x / y : 0;
  out[8 * i + 2] = uy ? ux % uy : 0;
  out[8 * i + 3] = ((long)x << (y & 63)) ^ ((long)y >> (x & 63)) ^ (long)((ulong)(long)x >> (y & 31));
  out[8 * i + 4] = __builtin_popcount(ux) + (ux ? __builtin_clz(ux) : 99) + (uy ? __builtin_ctz(uy) : 99);
  out[8 * i + 5] = (x < y ? x : y) - (ux > uy ? ux : uy);
  out[8 * i + 6] = ((ux & 0xffffff) * (uy & 0xffffff) + 7) | ((ulong)(ushort)(ux + uy) << 40) |
                   ((ulong)(uchar)(ux >> 3) << 32);
  const ulong wide = ((ulong)ux << 32) | uy;
  out[8 * i + 7] = wide / (uy | 3) + wide % 1000003;
}

// What follows is for waves of 64 lanes, and has instructions that gfx11 does not have.
#ifndef __GFX11__
// Exchanges between lanes, and values that are the same for a wave.
kernel void lanes(global const uint* in, global uint* out) {
  const uint lid = __builtin_amdgcn_workitem_id_x();
  const uint x = in[lid];
  out[lid] = __builtin_amdgcn_ds_bpermute((int)((lid * 7 + 3) * 4), (int)x);
  out[64 + lid] = __builtin_amdgcn_readfirstlane(x) + __builtin_amdgcn_readlane(x, 17);
  const ulong vote = __builtin_amdgcn_uicmp(x, 0x80000000u, 34 /* ICMP_UGT */);
  out[128 + lid] = (uint)vote ^ (uint)(vote >> 32);
  out[192 + lid] = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
  out[256 + lid] = __builtin_amdgcn_update_dpp(0, x, 0x111 /* row_shr:1 */, 0xf, 0xf, 0);
  out[320 + lid] = __builtin_amdgcn_ds_swizzle(x, 0x041f /* xor 1 */);
}

typedef short short2_t __attribute__((ext_vector_type(2)));
typedef ushort ushort2_t __attribute__((ext_vector_type(2)));

// Halves, nibbles, and pairs of halves.
kernel void narrow(global const uint* a, global const uint* b, global uint* out) {
  const uint i = ID;
  const uint x = a[i], y = b[i];
  global uint* to = out + 12 * i;
  const short2_t xs = __builtin_astype(x, short2_t), ys = __builtin_astype(y, short2_t);
  const ushort2_t xu = __builtin_astype(x, ushort2_t), yu = __builtin_astype(y, ushort2_t);
  to[0] = (uint)__builtin_amdgcn_sdot2(xs, ys, (int)x, 0);
  to[1] = __builtin_amdgcn_udot2(xu, yu, y, 0);
  to[2] = (uint)__builtin_amdgcn_sdot8((int)x, (int)y, (int)x, 0);
  to[3] = __builtin_amdgcn_udot8(x, y, x, 0);
  to[4] = __builtin_astype(__builtin_amdgcn_cvt_pkrtz(__builtin_astype(x, float), __builtin_astype(y, float)), uint);
  to[5] = __builtin_astype(__builtin_amdgcn_cvt_pk_i16((int)x, (int)y), uint);
  to[6] = __builtin_astype(__builtin_amdgcn_cvt_pk_u16(x, y), uint);
  const half h = __builtin_astype(xs.x, half), g = __builtin_astype(ys.x, half);
  to[7] = __builtin_astype((half)(h / g), ushort);
  to[8] = __builtin_astype((half)__builtin_amdgcn_fracth(h), ushort);
  to[9] = __builtin_astype((half)__builtin_amdgcn_frexp_manth(h), ushort);
  to[10] = (ushort)__builtin_amdgcn_frexp_exph(h);
  uint sum;
  __asm__("v_max3_i16 %0, %1, %2, %3" : "=v"(sum) : "v"(x), "v"(y), "v"(x >> 16));
  to[11] = sum;
  __asm__("v_med3_u16 %0, %1, %2, %3" : "=v"(sum) : "v"(x), "v"(y), "v"(x >> 16));
  to[11] |= sum << 16;
}
#endif
