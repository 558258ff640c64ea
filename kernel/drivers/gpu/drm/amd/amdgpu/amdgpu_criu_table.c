// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Arrays of the caller, whose entries may be longer or shorter than the kernel's. */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "amdgpu_criu_node.h"

/* Checks an array. @size_v1: bytes of an entry in its first version. */
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

/* Checks flags and tables of CHECKPOINT and RESTORE. Returns 0 or -EINVAL. */
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

static void *amdgpu_criu_table_copy(u64 uptr, u32 num, u32 stride, size_t size)
{
	void *table;
	int ret;

	table = kvcalloc(num, size, GFP_KERNEL_ACCOUNT);
	if (!table)
		return ERR_PTR(-ENOMEM);
	for (u32 i = 0; i < num; i++) {
		ret = copy_struct_from_user(table + i * size, size,
					    u64_to_user_ptr(uptr + (u64)i * stride), stride);
		if (ret) {
			kvfree(table);
			return ERR_PTR(ret);
		}
	}
	return table;
}

/*
 * Copies the tables of RESTORE. Reading may block indefinitely if their memory belongs to a file
 * system in user space or to userfaultfd, so the caller holds no lock.
 */
int amdgpu_criu_tables_get(struct amdgpu_criu_tables *tables,
			   const struct amdgpu_criu_state *state)
{
	tables->devices = amdgpu_criu_table_copy(state->devices, state->num_devices,
						 state->device_stride, sizeof(*tables->devices));
	if (IS_ERR(tables->devices))
		return PTR_ERR(tables->devices);
	tables->bos = amdgpu_criu_table_copy(state->bos, state->num_bos, state->bo_stride,
					     sizeof(*tables->bos));
	if (IS_ERR(tables->bos)) {
		kvfree(tables->devices);
		return PTR_ERR(tables->bos);
	}
	return 0;
}

void amdgpu_criu_tables_put(const struct amdgpu_criu_tables *tables)
{
	kvfree(tables->devices);
	kvfree(tables->bos);
}

/* Writes an entry of @size bytes, and zeros to the rest of the caller's entry. */
int amdgpu_criu_table_put(u64 uptr, u32 index, u32 stride, const void *entry, size_t size)
{
	u8 __user *to = u64_to_user_ptr(uptr + (u64)index * stride);
	size_t both = min_t(size_t, size, stride);

	if (copy_to_user(to, entry, both) || clear_user(to + both, stride - both))
		return -EFAULT;
	return 0;
}

/* Compares the caller's BO table with the BOs of a plan. Returns 0 or -EBADMSG. */
int amdgpu_criu_bos_check(const struct criu_call *call, const struct amdgpu_criu_state *state,
			  const struct amdgpu_criu_tables *tables, const void *plan, u32 num,
			  amdgpu_criu_entry_fn fill)
{
	struct amdgpu_criu_bo expected;

	if (state->num_bos != num)
		return criu_refuse(call, -EBADMSG, "table of %u BOs for a blob of %u",
				   state->num_bos, num);
	for (u32 i = 0; i < num; i++) {
		fill(plan, i, &expected);
		expected.new_mmap_offset = tables->bos[i].new_mmap_offset;
		if (memcmp(&tables->bos[i], &expected, sizeof(expected)))
			return criu_refuse(call, -EBADMSG, "BO %u: table and record do not agree",
					   i);
	}
	return 0;
}

/* Writes the new mmap offsets to the caller's BO table. Returns 0 or -EFAULT. */
int amdgpu_criu_bos_put(const struct amdgpu_criu_state *state, const void *plan, u32 num,
			amdgpu_criu_entry_fn fill)
{
	struct amdgpu_criu_bo entry;
	int ret = 0;

	for (u32 i = 0; !ret && i < num; i++) {
		fill(plan, i, &entry);
		ret = amdgpu_criu_table_put(state->bos, i, state->bo_stride, &entry, sizeof(entry));
	}
	return ret;
}
