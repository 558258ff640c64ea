// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Arrays of the caller whose entries may be longer or shorter than the kernel's.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "amdgpu_criu_node.h"

/* Is this an array that can be read and written? An entry had @size_v1 bytes at first. */
static int amdgpu_criu_table_check(u64 uptr, u32 num, u32 stride, size_t size_v1)
{
	u64 end;

	if (!num)
		return 0;
	if (stride < size_v1 || stride > PAGE_SIZE || stride % 8)
		return -EINVAL;
	if (check_add_overflow(uptr, (u64)num * stride, &end) || end > ULONG_MAX)
		return -EINVAL;
	return 0;
}

/**
 * amdgpu_criu_state_check() - check what CHECKPOINT and RESTORE are given
 * @state: flags, and both tables: can they be read and written?
 *
 * Return: 0 or -EINVAL.
 */
int amdgpu_criu_state_check(const struct amdgpu_criu_state *state)
{
	int ret;

	if (state->flags)
		return -EINVAL;
	ret = amdgpu_criu_table_check(state->devices, state->num_devices, state->device_stride,
				      sizeof(struct amdgpu_criu_device));
	if (ret)
		return ret;
	return amdgpu_criu_table_check(state->bos, state->num_bos, state->bo_stride,
				       sizeof(struct amdgpu_criu_bo));
}

/**
 * amdgpu_criu_table_get() - read an entry
 * @uptr: user pointer to the array
 * @index: of the entry
 * @stride: checked by amdgpu_criu_state_check()
 * @entry: to be filled
 * @size: bytes of it in this kernel
 *
 * Return: 0, -EFAULT, or -E2BIG if the entry says more than this kernel knows.
 */
int amdgpu_criu_table_get(u64 uptr, u32 index, u32 stride, void *entry, size_t size)
{
	return copy_struct_from_user(entry, size, u64_to_user_ptr(uptr + (u64)index * stride),
				     stride);
}

/**
 * amdgpu_criu_table_put() - write an entry
 * @uptr: user pointer to the array
 * @index: of the entry
 * @stride: checked by amdgpu_criu_state_check()
 * @entry: what to write
 * @size: bytes of it in this kernel; what the caller has beyond becomes 0
 *
 * Return: 0 or -EFAULT.
 */
int amdgpu_criu_table_put(u64 uptr, u32 index, u32 stride, const void *entry, size_t size)
{
	u8 __user *to = u64_to_user_ptr(uptr + (u64)index * stride);
	size_t both = min_t(size_t, size, stride);

	if (copy_to_user(to, entry, both) || clear_user(to + both, stride - both))
		return -EFAULT;
	return 0;
}
