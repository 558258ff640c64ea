// SPDX-License-Identifier: GPL-2.0
// Kernels whose work-groups wait for each other, or report where they run.
#define GROUP_ID __builtin_amdgcn_workgroup_id_x()
#define LOCAL_ID __builtin_amdgcn_workitem_id_x()
#define HW_ID (4 | 31 << 11)
#define HW_ID1 (23 | 31 << 11)

static void group_barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
}

// As the device libraries do it: one wave of each group meets those of the others.
static void grid_barrier(uint groups) {
  group_barrier();
  if (LOCAL_ID == 0) __builtin_amdgcn_ds_gws_barrier(groups - 1, 0);
  group_barrier();
}

// As the device libraries do it on gfx942: the low half of the counter counts groups, the high half
// counts barriers.
static void barrier_in_memory(volatile global uint* counter, uint groups) {
  group_barrier();
  if (LOCAL_ID == 0) {
    global atomic_uint* const atomic = (global atomic_uint*)counter;
    const uint before =
        __opencl_atomic_fetch_add(atomic, 1, memory_order_seq_cst, memory_scope_device);
    if ((before & 0xffff) == groups - 1) {
      __opencl_atomic_fetch_add(atomic, 0x10000 - groups, memory_order_seq_cst,
                                memory_scope_device);
    } else {
      while ((*counter ^ before) >> 16 == 0) __builtin_amdgcn_s_sleep(1);
    }
  }
  group_barrier();
}

// Runs before a kernel of so many groups.
kernel void grid_init(uint groups) {
  if (LOCAL_ID == 0) __builtin_amdgcn_ds_gws_init(groups - 1, 0);
}

// In each round a group works on what its neighbor wrote in the round before. Two rows of groups *
// 256 numbers.
static void work_once(global uint* rows, uint groups, uint round) {
  const uint count = groups * 256, i = GROUP_ID * 256 + LOCAL_ID;
  const global uint* from = rows + (round & 1) * count;
  global uint* to = rows + (~round & 1) * count;
  to[i] = from[(i + 256) % count] * 1664525u + 1013904223u + round;
}
static void meet_once(global uint* rows, uint groups, uint round) {
  work_once(rows, groups, round);
  grid_barrier(groups);
}

kernel void meet(global uint* rows, uint groups, uint rounds) {
  for (uint round = 0; round < rounds; ++round) meet_once(rows, groups, round);
}

kernel void meet_in_memory(global uint* rows, global uint* counter, uint groups, uint rounds) {
  for (uint round = 0; round < rounds; ++round) {
    work_once(rows, groups, round);
    barrier_in_memory(counter, groups);
  }
}

// Like meet, until the CPU sets control[0]. The first group copies it, for all, to control[1] and
// control[2] in turns, and counts the rounds in control[3].
kernel void meet_until(global uint* rows, global volatile uint* control, uint groups) {
  const bool leads = GROUP_ID == 0 && LOCAL_ID == 0;
  uint round = 0;
  do {
    if (leads) control[1 + round % 2] = control[0];
    meet_once(rows, groups, round);
  } while (!control[1 + round++ % 2]);
  if (leads) control[3] = round;
}

// The last group lets the others pass a semaphore: one, all but one, and the last when it waits.
kernel void take_turns(global uint* data, uint groups) {
  volatile global uint* passed = data;
  if (LOCAL_ID) return;
  if (GROUP_ID + 1 < groups) {
    __builtin_amdgcn_ds_gws_sema_p(2);
    __opencl_atomic_fetch_add((global atomic_uint*)data, 1, memory_order_seq_cst,
                              memory_scope_device);
    return;
  }
  __builtin_amdgcn_ds_gws_sema_v(2);
  while (*passed < 1) __builtin_amdgcn_s_sleep(1);
  data[1] = *passed;
  __builtin_amdgcn_ds_gws_sema_br(groups - 3, 2);
  while (*passed < groups - 2) __builtin_amdgcn_s_sleep(1);
  data[2] = *passed;
  while (*passed < groups - 1) __builtin_amdgcn_ds_gws_sema_release_all(2);
  data[3] = *passed;
}

// Each item reads the word before the first one changes it, unless the waves run one after the other.
kernel void side_by_side(global uint* out, uint rounds) {
  local volatile uint word;
  const uint i = LOCAL_ID;
  uint sum = 0;
  if (i == 0) word = 1;
  for (uint round = 0; round < rounds; ++round) {
    group_barrier();
    const uint seen = word;
    sum += seen;
    if (i == 0) {
      float root = seen;
      for (uint k = 0; k < 8; ++k) root = __builtin_sqrtf(root + k);
      word = seen + 1 + (root == 12345.0f);
    }
  }
  out[i] = sum;
}

// Where each group runs.
kernel void where(global uint* out) {
  if (LOCAL_ID == 0) out[GROUP_ID] = __builtin_amdgcn_s_getreg(HW_ID);
}

// The compute units of each group, a bit for each. On GFX11 these are the two of a WGP.
kernel void units(global uint* out) {
#ifdef __GFX11__
  const uint own = 3u << 2 * (__builtin_amdgcn_s_getreg(HW_ID1) >> 10 & 15);
#else
  const uint own = 1u << (__builtin_amdgcn_s_getreg(HW_ID) >> 8 & 15);
#endif
  if (LOCAL_ID == 0) out[GROUP_ID] = own;
}
