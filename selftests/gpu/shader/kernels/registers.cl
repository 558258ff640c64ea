// SPDX-License-Identifier: GPL-2.0
// Kernels with waves of different sizes, for tests that save and restore them.
#include "group_barrier.h"

#define GROUP_ID __builtin_amdgcn_workgroup_id_x()
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()

// As few VGPRs as can be allocated.
kernel void few(global uint* data) {
  data[GROUP_ID * 64 + LOCAL_ID] += LOCAL_ID * 3;
}

#ifdef __GFX9__
// Numbers wait in accumulation VGPRs.
kernel void accumulators(global uint* data) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  const uint in = data[i];
  uint first, second;
  __asm__ volatile(
      "v_accvgpr_write_b32 a0, %2\n\tv_accvgpr_write_b32 a5, %3\n\ts_nop 7\n\ts_nop 7\n\t"
      "v_accvgpr_read_b32 %0, a5\n\tv_accvgpr_read_b32 %1, a0"
      : "=&v"(first), "=&v"(second)
      : "v"(in), "v"(in * 7u)
      : "a0", "a1", "a2", "a3", "a4", "a5");
  data[i] = first * 31u + second;
}
#endif

// All of LDS in one group of four waves.
kernel void whole_lds(global uint* data) {
  local uint all[16384];
  const uint lid = LOCAL_ID;
  for (uint i = lid; i < 16384; i += 256) all[i] = i * 2654435761u ^ data[i % 256];
  group_barrier();
  uint sum = 0;
  for (uint i = 0; i < 16; ++i) sum = sum * 5 + all[(lid * 61 + i * 1031) % 16384];
  group_barrier();
  data[lid] = sum;
}

// Each round has a trap between two barriers.
kernel void trapping(global uint* data) {
  local uint row[128];
  const uint i = GROUP_ID * 128 + LOCAL_ID, lid = LOCAL_ID;
  uint value = data[i];
  for (uint round = 0; round < 3; ++round) {
    row[lid] = value;
    group_barrier();
    __asm__ volatile("s_trap 3");
    value = row[(lid + 1) % 128] * 5 + round;
    group_barrier();
  }
  data[i] = value;
}

// The sum of many registers that are all alive at once.
kernel void many(global float* data) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  float v[96];
  for (uint k = 0; k < 96; ++k) v[k] = data[(i + k) % 128] * (k + 1);
  float sum = 0;
  for (uint k = 0; k < 96; ++k) sum = sum * v[95 - k] + v[k];
  data[128 + i] = sum;
}

// On which XCC each work-group runs; a register of gfx942.
kernel void where(global uint* data) {
  if (LOCAL_ID == 0) data[GROUP_ID] = __builtin_amdgcn_s_getreg(20 | 31 << 11);
}

#ifndef __GFX9__
// The VGPRs are given back some instructions before the wave ends.
kernel void gives_back(global uint* data) {
  data[LOCAL_ID] = LOCAL_ID * 3 + 1;
  __asm__ volatile(
      "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)\n"
      ".rept 16\n s_nop 0\n .endr\n"
      "s_endpgm");
}
#endif
