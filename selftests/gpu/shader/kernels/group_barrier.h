// SPDX-License-Identifier: GPL-2.0
// For kernels: a barrier of the work-group, after which its work-items see each other's writes.
#pragma once

static void group_barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
