// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <drm/drm_file.h>
#include <linux/bitmap.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/spinlock.h>

#include "amdgpu_criu_render.h"
#include "criu_ioctl.h"

/*
 * Begins to create handles with chosen numbers. Returns 0, and the caller must call
 * amdgpu_criu_handles_end(); -EINVAL if @last exceeds %AMDGPU_CRIU_HANDLE_MAX; -ENOMEM.
 */
int amdgpu_criu_handles_begin(struct amdgpu_criu_handles *handles, struct drm_file *file,
			      u32 last)
{
	if (last > AMDGPU_CRIU_HANDLE_MAX)
		return -EINVAL;
	*handles = (struct amdgpu_criu_handles) { .file = file, .last = last, .next = 1 };
	handles->fillers = kvcalloc(BITS_TO_LONGS(last + 1), sizeof(*handles->fillers),
				    GFP_KERNEL_ACCOUNT);
	return handles->fillers ? 0 : -ENOMEM;
}

/*
 * Inserts an empty entry at the lowest free number in [@from, @end). Lookups see an empty
 * entry as they see a handle that drm_gem_handle_create() has not finished creating.
 */
static int amdgpu_criu_handles_fill(struct drm_file *file, u32 from, u32 end)
{
	int number;

	idr_preload(GFP_KERNEL);
	spin_lock(&file->table_lock);
	number = idr_alloc(&file->object_idr, NULL, from, end, GFP_NOWAIT | __GFP_ACCOUNT);
	spin_unlock(&file->table_lock);
	idr_preload_end();
	return number;
}

/*
 * Chooses the next handle of the file. Returns 0; -EINVAL for a number below the previous one, or
 * beyond the last; -EINTR if the caller is being killed; -ENOMEM.
 */
int amdgpu_criu_handles_seek(struct amdgpu_criu_handles *handles, u32 handle)
{
	int number;

	if (handle < handles->next || handle > handles->last)
		return -EINVAL;
	while (handles->next < handle) {
		number = amdgpu_criu_handles_fill(handles->file, handles->next, handle);
		if (number == -ENOSPC)
			break;
		if (number < 0)
			return number;
		__set_bit(number, handles->fillers);
		handles->next = number + 1;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	handles->next = handle;
	return 0;
}

/*
 * Removes the empty entries. @handles: set up by amdgpu_criu_handles_begin(); if already ended or
 * all zero, the function does nothing. Afterwards, new handles get the free numbers, as before the
 * checkpoint.
 */
void amdgpu_criu_handles_end(struct amdgpu_criu_handles *handles)
{
	struct drm_file *file = handles->file;
	unsigned long number;

	if (!handles->fillers)
		return;
	for_each_set_bit(number, handles->fillers, (unsigned long)handles->last + 1) {
		spin_lock(&file->table_lock);
		idr_remove(&file->object_idr, number);
		spin_unlock(&file->table_lock);
		cond_resched();
	}
	kvfree(handles->fillers);
	handles->fillers = NULL;
}

static int amdgpu_criu_cmp_numbers(const void *a, const void *b)
{
	const u32 *x = a;
	const u32 *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Sorts numbered entries and checks for duplicates */
int amdgpu_criu_sort_numbers(const struct criu_call *call, const char *what, void *entries,
			     u32 num, size_t size)
{
	sort(entries, num, size, amdgpu_criu_cmp_numbers, NULL);
	for (u32 i = 1; i < num; i++) {
		const u32 *number = entries + i * size;

		if (amdgpu_criu_cmp_numbers(number, entries + (i - 1) * size))
			continue;
		return criu_refuse(call, -EBADMSG, "%s %u is there twice", what, *number);
	}
	return 0;
}
