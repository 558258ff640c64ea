// SPDX-License-Identifier: GPL-2.0
// Kernels of one kind of instruction each, for make bench-gpu. 64 work-items in a group.
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

kernel void memory(global volatile uint* data, uint rounds) {
  const uint i = GROUP_ID * 64 + LOCAL_ID;
  for (uint round = 0; round < rounds; ++round) {
    REPEAT16(data[i] = data[i] + round;)
  }
}
