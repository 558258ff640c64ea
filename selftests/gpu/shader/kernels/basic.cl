// SPDX-License-Identifier: GPL-2.0
// Kernels of the tests, built without device libraries: integer and float arithmetic, LDS,
// barriers, atomics, private memory.
#include "group_barrier.h"

#define GROUP_ID __builtin_amdgcn_workgroup_id_x()
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()
#define GROUP 256

kernel void vector_add(global const float* a, global const float* b, global float* out, uint n) {
  const uint i = GROUP_ID * GROUP + LOCAL_ID;
  if (i < n) out[i] = a[i] + b[i];
}

// What ROCr's blits do: 16 bytes a work-item, in turns, and the rest byte by byte.
kernel void blit_copy(global const uint4* from, global uint4* to, uint vectors, uint bytes) {
  const uint start = GROUP_ID * GROUP + LOCAL_ID;
  for (uint i = start; i < vectors; i += GROUP / 2) to[i] = from[i];
  const uint at = vectors * 16 + start;
  if (at < bytes) ((global uchar*)to)[at] = ((global const uchar*)from)[at];
}

kernel void blit_fill(global uint4* to, uint value, uint vectors) {
  for (uint i = GROUP_ID * GROUP + LOCAL_ID; i < vectors; i += GROUP / 2) to[i] = value;
}

kernel void reduce(global const uint* in, global uint* out, uint n) {
  local uint part[GROUP];
  const uint lid = LOCAL_ID;
  uint sum = 0;
  for (uint i = GROUP_ID * GROUP * 4 + lid, k = 0; k < 4; ++k, i += GROUP)
    if (i < n) sum += in[i];
  part[lid] = sum;
  group_barrier();
  for (uint half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (lid < half_size) part[lid] += part[lid + half_size];
    group_barrier();
  }
  if (lid == 0) out[GROUP_ID] = part[0];
}

// Work-groups of 16 x 16; n is a multiple of 16.
kernel void matrix_multiply(global const float* a, global const float* b, global float* c, uint n) {
  local float ta[16][16], tb[16][16];
  const uint x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
  const uint col = __builtin_amdgcn_workgroup_id_x() * 16 + x;
  const uint row = __builtin_amdgcn_workgroup_id_y() * 16 + y;
  float sum = 0;
  for (uint t = 0; t < n; t += 16) {
    ta[y][x] = a[row * n + t + x];
    tb[y][x] = b[(t + y) * n + col];
    group_barrier();
    for (uint k = 0; k < 16; ++k) sum = __builtin_fmaf(ta[y][k], tb[k][x], sum);
    group_barrier();
  }
  c[row * n + col] = sum;
}

// A radix sort by one work-group, of SORTED numbers for each work-item.
#define SORTED 8
kernel void sort(global uint* data) {
  local uint numbers[GROUP * SORTED], zeros[GROUP];
  const uint lid = LOCAL_ID, first = lid * SORTED;
  for (uint k = 0; k < SORTED; ++k) numbers[first + k] = data[first + k];
  for (uint bit = 0; bit < 32; ++bit) {
    uint mine[SORTED], count = 0;
    for (uint k = 0; k < SORTED; ++k) {
      mine[k] = numbers[first + k];
      count += ~mine[k] >> bit & 1;
    }
    zeros[lid] = count;
    group_barrier();
    for (uint distance = 1; distance < GROUP; distance *= 2) {
      const uint before = lid >= distance ? zeros[lid - distance] : 0;
      group_barrier();
      zeros[lid] += before;
      group_barrier();
    }
    uint zero = zeros[lid] - count, one = zeros[GROUP - 1] + first - zero;
    for (uint k = 0; k < SORTED; ++k) numbers[mine[k] >> bit & 1 ? one++ : zero++] = mine[k];
    group_barrier();
  }
  for (uint k = 0; k < SORTED; ++k) data[first + k] = numbers[first + k];
}

kernel void histogram(global const uchar* in, global volatile atomic_uint* out, uint n) {
  local atomic_uint bins[256];
  const uint lid = LOCAL_ID;
  __opencl_atomic_init(&bins[lid], 0);
  group_barrier();
  for (uint i = GROUP_ID * GROUP + lid; i < n; i += GROUP * 4)
    __opencl_atomic_fetch_add(&bins[in[i]], 1, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_WORK_GROUP);
  group_barrier();
  const uint count =
      __opencl_atomic_load(&bins[lid], __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_WORK_GROUP);
  __opencl_atomic_fetch_add(&out[lid], count, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_DEVICE);
}

// Philox 4x32-10: the counter is the global id.
kernel void philox(global uint4* out, uint key0, uint key1) {
  const uint i = GROUP_ID * GROUP + LOCAL_ID;
  uint4 c = (uint4)(i, 0, 0, 0);
  for (int round = 0; round < 10; ++round) {
    const ulong p0 = (ulong)0xd2511f53u * c.x, p1 = (ulong)0xcd9e8d57u * c.z;
    c = (uint4)((uint)(p1 >> 32) ^ c.y ^ key0, (uint)p1, (uint)(p0 >> 32) ^ c.w ^ key1, (uint)p0);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  out[i] = c;
}

// An array that is indexed at run time lives in private memory.
kernel void private_memory(global uint* data, uint n) {
  const uint i = GROUP_ID * GROUP + LOCAL_ID;
  volatile uint stack[24];
  for (uint k = 0; k < 24; ++k) stack[k] = data[i] * (k + 1);
  uint sum = 0;
  for (uint k = 0; k < n; ++k) sum += stack[(data[i] + k * 7) % 24] ^ k;
  data[i] = sum;
}

// What is subtracted from the index is in a VGPR, and the rest of the offset in the instruction.
kernel void private_below(global uint* data) {
  const uint i = GROUP_ID * GROUP + LOCAL_ID;
  const int less = LOCAL_ID >> 1 & 2;
  volatile uint stack[32];
#pragma unroll
  for (int k = 2; k < 32; ++k) stack[k - less] = data[i] + k;
  uint sum = 0;
#pragma unroll
  for (int k = 2; k < 30; ++k) sum = sum * 31 + stack[k];
  data[i] = sum;
}

// Passes the work-group's numbers on by one element.
static uint passed_on(local uint* row, uint value, uint round) {
  const uint lid = LOCAL_ID;
  row[lid] = value;
  group_barrier();
  value = row[(lid + 1) % GROUP] * 1664525u + 1013904223u + round;
  group_barrier();
  return value;
}

// Each element goes through many rounds in place, so that a kernel that is started again instead of
// continued gives other numbers. Work-groups pass their numbers on through LDS in each round.
kernel void churn(global uint* data, uint rounds) {
  local uint row[GROUP];
  const uint i = GROUP_ID * GROUP + LOCAL_ID;
  uint value = data[i];
  for (uint round = 0; round < rounds; ++round) {
    value = passed_on(row, value, round);
    data[i] = value;
  }
}

// Like churn, until the CPU sets `stop`. Each work-group counts its rounds.
kernel void churn_until(global uint* data, global uint* rounds, global const volatile uint* stop) {
  local uint row[GROUP], last[2];
  const uint i = GROUP_ID * GROUP + LOCAL_ID;
  uint value = data[i], round = 0;
  do {
    if (LOCAL_ID == 0) last[round % 2] = *stop;
    value = passed_on(row, value, round);
    data[i] = value;
  } while (!last[round++ % 2]);
  if (LOCAL_ID == 0) rounds[GROUP_ID] = round;
}
