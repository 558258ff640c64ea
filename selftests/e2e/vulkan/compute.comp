// SPDX-License-Identifier: GPL-2.0
// The kernel of vulkan_compute, which has the same in C++. Sums of a group go to a row of a ring.
#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x = 256) in;
layout(push_constant) uniform Push { uint step, rounds, row; } push;
layout(binding = 0) buffer State { uint state[]; };
layout(binding = 1) buffer Sums { uint sums[]; };
layout(binding = 2) uniform usamplerBuffer bytes;
layout(binding = 3, r32ui) uniform writeonly uimageBuffer copies;
shared uint group_sum;

void main() {
  const uint i = gl_GlobalInvocationID.x;
  uint x = state[i] + texelFetch(bytes, int(i % 64u)).z;
  if (gl_LocalInvocationIndex == 0) group_sum = 0;
  barrier();
  for (uint round = 0; round < push.rounds; ++round) {
    x = x * 1664525u + 1013904223u + push.step;
    const uint all = subgroupAdd(x), other = subgroupShuffleXor(x, 5), below = subgroupExclusiveAdd(x & 255u);
    const uint odd = subgroupBallotBitCount(subgroupBallot((x & 128u) != 0));
    x ^= all + other * 3 + below * 7 + odd;
  }
  atomicAdd(group_sum, x);
  state[i] = x;
  imageStore(copies, int(i), uvec4(x));
  barrier();
  if (gl_LocalInvocationIndex == 0) sums[push.row * gl_NumWorkGroups.x + gl_WorkGroupID.x] = group_sum;
}
