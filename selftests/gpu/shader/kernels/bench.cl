// SPDX-License-Identifier: GPL-2.0
// Kernels of one kind of instruction each, and three like those of libraries, for make bench-gpu. 64
// work-items in a group, 16 groups.
#include "group_barrier.h"

#define GROUP_ID __builtin_amdgcn_workgroup_id_x()
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()
#define REPEAT4(x) x x x x
#define REPEAT16(x) REPEAT4(REPEAT4(x))

kernel void integers(global uint* data, uint rounds) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  uint a = data[i], b = i;
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(a = (a << 5 | a >> 27) + b; b = (b ^ a) - (a & 0x55);)
  }
  data[i] = a + b;
}

kernel void floats(global float* data, uint rounds) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  float a = data[i], b = a + 1, c = 0.5f;
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(a = __builtin_fmaf(a, 0.25f, b); b = b * c + a; c = c - a * 0.125f;)
  }
  data[i] = a + b + c;
}

#ifndef __GFX11__
typedef float float4v __attribute__((ext_vector_type(4)));
kernel void matrices(global float* data, uint rounds) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  float4v sum = {0, 0, 0, 0};
  const float a = data[i];
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a, sum.x, sum, 0, 0, 0);)
  }
  data[i] = sum.x + sum.y + sum.z + sum.w;
}
#endif

kernel void shared(global uint* data, uint rounds) {
  local volatile uint row[64];
  const uint lid = LOCAL_ID, i = GROUP_ID * 64 + lid;
  uint a = data[i];
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(row[lid] = a; a += row[(lid + 1) & 63];)
  }
  data[i] = a;
}

// 16 bytes of each work-item.
kernel void wide(global uint4* data, uint rounds) {
  local volatile uint4 row[64];
  const uint lid = LOCAL_ID, i = GROUP_ID * 64 + lid;
  uint4 a = data[i];
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(row[lid] = a; a += row[(lid + 1) & 63];)
  }
  data[i] = a;
}

kernel void scratch(global uint* data, uint rounds) {
  volatile uint words[64];
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  for (uint k = 0; k < 64; ++k) words[k] = k;
  uint a = data[i];
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(words[a & 63] = a; a += words[a >> 6 & 63];)
  }
  data[i] = a;
}

#ifndef __GFX11__
kernel void buffer(global uint* data, uint rounds) {
  const uint4 all = {(uint)(ulong)data, (ulong)data >> 32, 1 << 20, 0x27000};
  const uint at = (GROUP_ID * 64 + LOCAL_ID) * 4;
  uint value;
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(__asm__ volatile("buffer_load_dword %0, %1, %2, 0 offen\n s_waitcnt vmcnt(0)\n"
                              "v_add_u32 %0, %0, %3\n buffer_store_dword %0, %1, %2, 0 offen"
                              : "=&v"(value)
                              : "v"(at), "s"(all), "s"(round)
                              : "memory");)
  }
}
#endif

kernel void memory(global volatile uint* data, uint rounds) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(data[i] = data[i] + round;)
  }
}

// C (64 x 64) = A (64 x depth) x B (depth x 64), which are one after the other. A group has a tile of 16 x 16, and
// a work-item 4 of its rows. depth is a multiple of 8.
kernel void gemm(global float* data, uint depth) {
  local float a[16][8], b[8][16];
  const uint lid = LOCAL_ID, x = lid & 15, y = lid >> 4 << 2;
  const uint row = (GROUP_ID >> 2) * 16, column = (GROUP_ID & 3) * 16;
  global const float* from_b = data + 64 * depth;
  float sum[4] = {0, 0, 0, 0};
  for (uint from = 0; from < depth; from += 8) {
    for (uint i = lid; i < 128; i += 64) {
      a[i >> 3][i & 7] = data[(row + (i >> 3)) * depth + from + (i & 7)];
      b[i >> 4][i & 15] = from_b[(from + (i >> 4)) * 64 + column + (i & 15)];
    }
    group_barrier();
    for (uint k = 0; k < 8; ++k)
      for (uint i = 0; i < 4; ++i) sum[i] = __builtin_fmaf(a[y + i][k], b[k][x], sum[i]);
    group_barrier();
  }
  for (uint i = 0; i < 4; ++i) data[128 * depth + (row + y + i) * 64 + column + x] = sum[i];
}

// Each group sorts its 256 keys by a bitonic network.
kernel void sort(global uint* data, uint unused) {
  local uint keys[256];
  const uint lid = LOCAL_ID;
  for (uint i = lid; i < 256; i += 64) keys[i] = data[GROUP_ID * 256 + i];
  group_barrier();
  for (uint size = 2; size <= 256; size *= 2)
    for (uint stride = size / 2; stride > 0; stride /= 2) {
      for (uint i = lid; i < 128; i += 64) {
        const uint low = (i & ~(stride - 1)) * 2 + (i & (stride - 1)), high = low + stride;
        const uint p = keys[low], q = keys[high];
        if ((p > q) == ((low & size) == 0)) {
          keys[low] = q;
          keys[high] = p;
        }
      }
      group_barrier();
    }
  for (uint i = lid; i < 256; i += 64) data[GROUP_ID * 256 + i] = keys[i];
}

// A work-item has a query of 16 numbers, which it compares with all keys: the result is the mean of their values,
// weighted by 2 to the power of the products. Queries, keys, values and results are one after the other.
kernel void attention(global float* data, uint keys) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  global const float *key = data + 16 * 1024, *value = key + 16 * keys;
  float query[16], mean[16] = {0}, largest = -1e30f, weight = 0;
  for (uint d = 0; d < 16; ++d) query[d] = data[i * 16 + d];
  for (uint k = 0; k < keys; ++k) {
    float product = 0;
    for (uint d = 0; d < 16; ++d) product = __builtin_fmaf(query[d], key[k * 16 + d], product);
    const float above = __builtin_fmaxf(largest, product);
    const float old = __builtin_amdgcn_exp2f(largest - above);
    const float now = __builtin_amdgcn_exp2f(product - above);
    for (uint d = 0; d < 16; ++d) mean[d] = mean[d] * old + value[k * 16 + d] * now;
    weight = weight * old + now;
    largest = above;
  }
  for (uint d = 0; d < 16; ++d) data[16 * (1024 + 2 * keys) + i * 16 + d] = mean[d] / weight;
}
