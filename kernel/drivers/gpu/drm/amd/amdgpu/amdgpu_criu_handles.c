// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: GEM handles
 *
 * Carried: their numbers, with gaps. Numbers that were freed are reused.
 */

/*
 * drm_gem_handle_create() and drm_gem_prime_fd_to_handle() allocate the lowest free number. A
 * restore needs a specific number, so every free number below it gets an empty entry until all
 * handles exist, and the handles are created in ascending order. No other task may open or close
 * handles of the file in between.
 */
#include <linux/sort.h>

#include "amdgpu_criu_render.h"
#include "amdgpu_dma_buf.h"

/* A file with a greater handle has, or had, that many handles at once. */
#define AMDGPU_CRIU_HANDLE_MAX SZ_1M

static int amdgpu_criu_dump_handles(struct criu_dump *dump)
{
	struct amdgpu_criu_handle_record record = {};
	struct drm_gem_object *gem;
	int handle, ret = 0;

	for (handle = 1; !ret && (gem = amdgpu_criu_next_handle(dump->file, &handle)); handle++) {
		if (handle > AMDGPU_CRIU_HANDLE_MAX)
			ret = criu_refuse_state(dump->call, "GEM handle %d", handle);
		else
			ret = amdgpu_criu_dump_object_id(dump, gem, &record.object_id);
		drm_gem_object_put(gem);
		record.handle = handle;
		if (!ret)
			criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_HANDLE, &record);
	}
	return ret;
}

static const char *amdgpu_criu_handle_fault(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_handle_record *record = entry;
	struct amdgpu_criu_plan_handle *handle = entry;

	handle->object = amdgpu_criu_plan_object(plan, record->object_id);
	if (!record->handle || record->handle > AMDGPU_CRIU_HANDLE_MAX || record->pad)
		return "bad number";
	if (!handle->object)
		return "of no BO";
	if (!handle->object->record.handle || handle->object->record.handle > record->handle)
		return "not the one that the record of its BO names";
	return NULL;
}

/* The record of a handle begins with its number. */
int amdgpu_criu_cmp_numbers(const void *a, const void *b)
{
	const u32 *x = a;
	const u32 *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The handle in the record of a BO must exist. Sorts the handles, to apply them in order. */
static int amdgpu_criu_check_named_handles(struct criu_plan *plan)
{
	u32 i, named = 0, found = 0;

	for (i = 0; i < plan->num_objects; i++)
		named += !!plan->objects[i].record.handle;
	for (i = 0; i < plan->num_handles; i++)
		found += plan->handles[i].object->record.handle == plan->handles[i].record.handle;
	if (named != found)
		return criu_refuse(plan->call, -EBADMSG,
				   "a BO names a GEM handle that does not exist");
	sort_nonatomic(plan->handles, plan->num_handles, sizeof(*plan->handles),
		       amdgpu_criu_cmp_numbers, NULL);
	return 0;
}

/* Makes @handle the lowest free number. An empty entry looks like a handle being created. */
static int amdgpu_criu_seek_handle(struct criu_plan *plan, u32 handle)
{
	struct drm_file *file = plan->file;
	int number = 0;

	while (plan->last_handle + 1 < handle && number != -ENOSPC) {
		idr_preload(GFP_KERNEL);
		spin_lock(&file->table_lock);
		number = idr_alloc(&file->object_idr, NULL, plan->last_handle + 1, handle,
				   GFP_NOWAIT | __GFP_ACCOUNT);
		spin_unlock(&file->table_lock);
		idr_preload_end();
		if (number < 0 && number != -ENOSPC)
			return number;
		if (number > 0)
			plan->last_handle = number;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	plan->last_handle = handle;
	return 0;
}

/* Like a PRIME import: lets the BO point to the dma-buf, and a table map that to the handle. */
static int amdgpu_criu_enter_import(struct drm_file *file, struct drm_gem_object *gem,
				    struct dma_buf *dmabuf, u32 handle)
{
	struct drm_device *dev = file->minor->dev;
	struct dma_buf *entered;

	scoped_guard(mutex, &dev->object_name_lock)
		if (!gem->dma_buf) {
			get_dma_buf(dmabuf);
			gem->dma_buf = dmabuf;
		}
	entered = drm_gem_prime_handle_to_dmabuf(dev, file, handle, 0);
	if (IS_ERR(entered))
		return PTR_ERR(entered);
	dma_buf_put(entered);
	return entered == dmabuf ? 0 : -EBUSY;
}

/* Imports without a descriptor, which the process could see and close. */
static int amdgpu_criu_object_import(struct criu_plan *plan, struct amdgpu_criu_plan_object *object,
				     struct dma_buf *dmabuf, u32 *handle)
{
	struct drm_gem_object *gem;
	int ret;

	/* An import returns the existing handle of the file for the dma-buf. */
	if (object->prime_handle) {
		*handle = object->prime_handle;
		return 0;
	}
	gem = amdgpu_gem_prime_import(plan->file->minor->dev, dmabuf);
	if (IS_ERR(gem))
		return PTR_ERR(gem);
	ret = drm_gem_handle_create(plan->file, gem, handle);
	if (ret)
		goto err_put;
	ret = amdgpu_criu_enter_import(plan->file, gem, dmabuf, *handle);
	if (ret)
		goto err_delete;
	object->prime_handle = *handle;
	if (object->gem)
		drm_gem_object_put(gem);
	else
		object->gem = gem;
	return 0;

err_delete:
	drm_gem_handle_delete(plan->file, *handle);
err_put:
	drm_gem_object_put(gem);
	return ret;
}

/* Creates a GEM handle, by an import if the BO was exported or found in the session. */
int amdgpu_criu_object_handle(struct criu_plan *plan,
			      struct amdgpu_criu_plan_object *object, u32 *handle)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = NULL;

	if (object->bound && !(object->record.flags & AMDGPU_CRIU_OBJECT_EXPORTED))
		return drm_gem_handle_create(plan->file, object->gem, handle);
	dmabuf = criu_session_dmabuf(plan->call->session, object->record.object_id, false);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	return amdgpu_criu_object_import(plan, object, dmabuf, handle);
}

static int amdgpu_criu_apply_handle(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_handle *handle = entry;
	u32 number;
	int ret = amdgpu_criu_seek_handle(plan, handle->record.handle);

	ret = ret ?: amdgpu_criu_object_handle(plan, handle->object, &number);
	if (ret || number == handle->record.handle)
		return ret;
	drm_gem_handle_delete(plan->file, number);
	return criu_refuse(plan->call, -EBADMSG, "got the number %u", number);
}

static int amdgpu_criu_end_handles(struct criu_plan *plan, int ret)
{
	struct idr *idr = &plan->file->object_idr;

	/* Removes the empty entries. New handles get the free numbers, as before the checkpoint. */
	for (; plan->last_handle; plan->last_handle--) {
		scoped_guard(spinlock, &plan->file->table_lock)
			if (!idr_find(idr, plan->last_handle))
				idr_remove(idr, plan->last_handle);
		cond_resched();
	}
	for (u32 i = 0; !ret && i < plan->num_objects; i++)
		if (plan->objects[i].gem)
			plan->bo_table[i].new_mmap_offset =
				amdgpu_criu_object_offset(plan->objects[i].gem);
	return ret;
}

static void amdgpu_criu_undo_handle(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_handle_record *record = entry;

	drm_gem_handle_delete(plan->file, record->handle);
}

const struct criu_kind amdgpu_criu_handles = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_HANDLE, handles, struct amdgpu_criu_plan_handle,
		  record.handle),
	.subject = "GEM handle %llu", .unique = { CRIU_UNIQUE_ID },
	.dump = amdgpu_criu_dump_handles,
	.fault = amdgpu_criu_handle_fault, .check_all = amdgpu_criu_check_named_handles,
	.end = amdgpu_criu_end_handles,
	.apply = amdgpu_criu_apply_handle, .undo = amdgpu_criu_undo_handle,
};
