// SPDX-License-Identifier: GPL-2.0 OR MIT
/* BO lists. A list holds references to its BOs, so the handles of the BOs may be closed. */
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <linux/idr.h>
#include <linux/slab.h>

#include "amdgpu.h"
#include "amdgpu_bo_list.h"
#include "amdgpu_criu_render.h"

/* Limits of amdgpu_bo_list_create() and amdgpu_bo_create_list_entry_array(). */
#define AMDGPU_CRIU_BO_LIST_PRIORITY_MAX 32
#define AMDGPU_CRIU_BO_LIST_ENTRIES_MAX (128 * 1024)

/* Visits all BOs in the BO lists of a file. @dump: dump of a file whose gate is closed. */
int amdgpu_criu_visit_listed_bos(struct amdgpu_criu_dump *dump, amdgpu_criu_bo_fn *fn)
{
	struct amdgpu_bo_list_entry *entry;
	struct amdgpu_bo_list *list;
	u32 id;
	int ret;

	guard(mutex)(&dump->fpriv->bo_list_lock);
	idr_for_each_entry(&dump->fpriv->bo_list_handles, list, id) {
		amdgpu_bo_list_for_each_entry(entry, list) {
			ret = fn(dump, &entry->bo->tbo.base);
			if (ret)
				return ret;
		}
	}
	return 0;
}

static int amdgpu_criu_dump_bo_list(struct amdgpu_criu_dump *dump, struct amdgpu_bo_list *list,
				    u32 id)
{
	struct amdgpu_criu_bo_list_record record = { .id = id, .num_entries = list->num_entries };
	struct amdgpu_bo_list_entry *entry;
	int ret;

	criu_writer_record(&dump->out.writer, AMDGPU_CRIU_RECORD_BO_LIST, &record);
	amdgpu_bo_list_for_each_entry(entry, list) {
		struct amdgpu_criu_bo_list_item item = { .priority = entry->priority };

		ret = amdgpu_criu_dump_object_id(dump, &entry->bo->tbo.base, &item.object_id);
		if (ret)
			return ret;
		criu_writer_tail_copy(&dump->out.writer, &item, sizeof(item));
	}
	return 0;
}

int amdgpu_criu_dump_bo_lists(struct amdgpu_criu_dump *dump)
{
	struct amdgpu_bo_list *list;
	u32 id;
	int ret;

	guard(mutex)(&dump->fpriv->bo_list_lock);
	idr_for_each_entry(&dump->fpriv->bo_list_handles, list, id) {
		ret = amdgpu_criu_dump_bo_list(dump, list, id);
		if (ret)
			return ret;
	}
	return 0;
}

static const char *amdgpu_criu_bo_list_fault(const struct amdgpu_criu_plan *plan,
					     const struct amdgpu_criu_plan_bo_list *list)
{
	/* idr_for_each_entry() stops at INT_MAX. */
	if (!list->record.id || list->record.id >= INT_MAX)
		return "id";
	if (list->record.num_entries > AMDGPU_CRIU_BO_LIST_ENTRIES_MAX)
		return "number of entries";
	for (u32 i = 0; i < list->record.num_entries; i++) {
		const struct amdgpu_criu_bo_list_item *item = &list->items[i];

		if (!amdgpu_criu_plan_object(plan, item->object_id))
			return "no such BO";
		if (item->priority > AMDGPU_CRIU_BO_LIST_PRIORITY_MAX)
			return "priority of an entry";
		if (item->pad)
			return "pad is not zero";
	}
	return NULL;
}

int amdgpu_criu_check_bo_lists(struct amdgpu_criu_plan *plan)
{
	const char *fault;

	for (u32 i = 0; i < plan->num_bo_lists; i++) {
		fault = amdgpu_criu_bo_list_fault(plan, &plan->bo_lists[i]);
		if (fault)
			return criu_refuse(plan->call, -EBADMSG, "BO list %u: %s",
					   plan->bo_lists[i].record.id, fault);
	}
	return amdgpu_criu_sort_numbers(plan->call, "BO list", plan->bo_lists, plan->num_bo_lists,
					sizeof(*plan->bo_lists));
}

/* A list is created from handles. A BO without a handle gets one until all lists exist. */
static int amdgpu_criu_borrow_handles(struct amdgpu_criu_plan *plan,
				      const struct amdgpu_criu_plan_bo_list *list,
				      struct drm_amdgpu_bo_list_entry *entries)
{
	int ret;

	for (u32 i = 0; i < list->record.num_entries; i++) {
		const struct amdgpu_criu_bo_list_item *item = &list->items[i];
		struct amdgpu_criu_plan_object *object;

		object = amdgpu_criu_plan_object(plan, item->object_id);
		entries[i].bo_handle = object->record.handle ?: object->borrowed_handle;
		if (!entries[i].bo_handle) {
			ret = amdgpu_criu_object_handle(plan, object, &object->borrowed_handle);
			if (ret)
				return ret;
			entries[i].bo_handle = object->borrowed_handle;
		}
		entries[i].bo_priority = item->priority;
	}
	return 0;
}

static void amdgpu_criu_return_handles(struct amdgpu_criu_plan *plan)
{
	for (u32 i = 0; i < plan->num_objects; i++) {
		struct amdgpu_criu_plan_object *object = &plan->objects[i];

		if (object->borrowed_handle)
			drm_gem_handle_delete(plan->file, object->borrowed_handle);
		object->borrowed_handle = 0;
	}
}

/* Follows the code path of AMDGPU_BO_LIST_OP_CREATE, with the saved id of the list. */
static int amdgpu_criu_apply_bo_list(struct amdgpu_criu_plan *plan,
				     const struct amdgpu_criu_plan_bo_list *plan_list)
{
	const u32 num = plan_list->record.num_entries;
	struct amdgpu_fpriv *fpriv = plan->fpriv;
	struct drm_amdgpu_bo_list_entry *entries __free(kvfree) =
		kvcalloc(num, sizeof(*entries), GFP_KERNEL_ACCOUNT);
	struct amdgpu_bo_list *list;
	u32 id = plan_list->record.id;
	int ret;

	if (num && !entries)
		return -ENOMEM;
	ret = amdgpu_criu_borrow_handles(plan, plan_list, entries);
	if (!ret)
		ret = amdgpu_bo_list_create(plan->adev, plan->file, entries, num, &list);
	if (ret)
		return ret;
	scoped_guard(mutex, &fpriv->bo_list_lock)
		ret = idr_alloc_u32(&fpriv->bo_list_handles, list, &id, id, GFP_KERNEL);
	if (ret)
		amdgpu_bo_list_put(list);
	return ret == -ENOSPC ? -EBUSY : ret;
}

int amdgpu_criu_apply_bo_lists(struct amdgpu_criu_plan *plan)
{
	int ret = 0;

	for (u32 i = 0; !ret && i < plan->num_bo_lists; i++) {
		ret = amdgpu_criu_apply_bo_list(plan, &plan->bo_lists[i]);
		if (ret)
			criu_refuse(plan->call, ret, "BO list %u: cannot restore: %d",
				    plan->bo_lists[i].record.id, ret);
		else
			plan->bo_lists_done++;
	}
	amdgpu_criu_return_handles(plan);
	return ret;
}

void amdgpu_criu_undo_bo_lists(struct amdgpu_criu_plan *plan)
{
	struct amdgpu_fpriv *fpriv = plan->fpriv;
	struct amdgpu_bo_list *list;

	for (; plan->bo_lists_done; plan->bo_lists_done--) {
		mutex_lock(&fpriv->bo_list_lock);
		list = idr_remove(&fpriv->bo_list_handles,
				  plan->bo_lists[plan->bo_lists_done - 1].record.id);
		mutex_unlock(&fpriv->bo_list_lock);
		if (list)
			amdgpu_bo_list_put(list);
	}
}
