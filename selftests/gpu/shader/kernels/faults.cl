// SPDX-License-Identifier: GPL-2.0
// Kernels that do not end.
kernel void illegal(global uint* unused) { __asm__ volatile(".long 0xffffffff"); }

kernel void touch(global uint* address) {
  if (__builtin_amdgcn_workitem_id_x() == 0) *address = 1;
}

kernel void trap(global uint* unused) { __builtin_trap(); }
