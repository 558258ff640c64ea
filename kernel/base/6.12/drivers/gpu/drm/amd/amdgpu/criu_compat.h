/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Implements interfaces of later kernels that checkpoint/restore uses, with interfaces of
 * this kernel. The Makefile includes this header before each file of checkpoint/restore,
 * so that most of these files are the same on every kernel.
 */
#ifndef _CRIU_COMPAT_H_
#define _CRIU_COMPAT_H_

#include <linux/crc32.h>

/* sort_nonatomic() is preemptible, as sort() of this kernel is. */
#define sort_nonatomic sort

#define crc32c(_crc, _data, _size) __crc32c_le(_crc, (const u8 *)(_data), _size)

/* This kernel returns -EINVAL if the fence is signaled already. */
#define dma_fence_check_and_signal(_fence) (dma_fence_signal(_fence) == -EINVAL)

/* Flags of a BO that user space may set or receive. */
#define AMDGPU_GEM_CREATE_SETTABLE_MASK \
	(AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS | \
	 AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_VRAM_CLEARED | \
	 AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | AMDGPU_GEM_CREATE_EXPLICIT_SYNC | \
	 AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE | AMDGPU_GEM_CREATE_ENCRYPTED | \
	 AMDGPU_GEM_CREATE_GFX12_DCC | AMDGPU_GEM_CREATE_DISCARDABLE | \
	 AMDGPU_GEM_CREATE_COHERENT | AMDGPU_GEM_CREATE_UNCACHED | \
	 AMDGPU_GEM_CREATE_EXT_COHERENT)

#endif /* _CRIU_COMPAT_H_ */
