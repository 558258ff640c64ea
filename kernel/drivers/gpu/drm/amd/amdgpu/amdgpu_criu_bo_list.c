// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: BO lists
 *
 * Carried: BO lists, with priorities. A list holds references to its BOs, so the handles of the
 * BOs may be closed.
 */
#include "amdgpu_criu_render.h"

/* Limits of amdgpu_bo_list_create() and amdgpu_bo_create_list_entry_array(). */
#define AMDGPU_CRIU_BO_LIST_PRIORITY_MAX 32
#define AMDGPU_CRIU_BO_LIST_ENTRIES_MAX (128 * 1024)

/* Returns the list after *@id with a reference, or NULL. */
static struct amdgpu_bo_list *amdgpu_criu_next_bo_list(struct amdgpu_fpriv *fpriv,
						       unsigned long *id)
{
	struct amdgpu_bo_list *list;

	xa_lock(&fpriv->bo_list_handles);
	list = xa_find_after(&fpriv->bo_list_handles, id, ULONG_MAX, XA_PRESENT);
	if (list)
		kref_get(&list->refcount);
	xa_unlock(&fpriv->bo_list_handles);
	return list;
}

static int amdgpu_criu_add_listed(struct criu_dump *dump)
{
	struct amdgpu_bo_list_entry *entry;
	struct amdgpu_bo_list *list;
	unsigned long id = 0;
	int ret = 0;

	while (!ret && (list = amdgpu_criu_next_bo_list(dump->fpriv, &id))) {
		amdgpu_bo_list_for_each_entry(entry, list) {
			ret = amdgpu_criu_add_object(dump, &entry->bo->tbo.base, 0);
			if (ret)
				break;
		}
		amdgpu_bo_list_put(list);
	}
	return ret;
}

/* A BO of a file has a handle or is in a BO list. Without a handle it has no mappings. */
int amdgpu_criu_find_objects(struct criu_dump *dump)
{
	struct drm_gem_object *gem;
	int handle, ret = 0;

	for (handle = 1; !ret && (gem = amdgpu_criu_next_handle(dump->file, &handle)); handle++) {
		ret = amdgpu_criu_add_object(dump, gem, handle);
		drm_gem_object_put(gem);
	}
	return ret ? ret : amdgpu_criu_add_listed(dump);
}

static int amdgpu_criu_dump_bo_list(struct criu_dump *dump, struct amdgpu_bo_list *list, u32 id)
{
	struct amdgpu_criu_bo_list_record record = { .id = id, .num_entries = list->num_entries };
	struct amdgpu_bo_list_entry *entry;
	int ret;

	criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_BO_LIST, &record);
	amdgpu_bo_list_for_each_entry(entry, list) {
		struct amdgpu_criu_bo_list_item item = { .priority = entry->priority };

		ret = amdgpu_criu_dump_object_id(dump, &entry->bo->tbo.base, &item.object_id);
		if (ret)
			return ret;
		criu_writer_tail_copy(&dump->writer, &item, sizeof(item));
	}
	return 0;
}

static int amdgpu_criu_dump_bo_lists(struct criu_dump *dump)
{
	struct amdgpu_bo_list *list;
	unsigned long id = 0;
	int ret = 0;

	while (!ret && (list = amdgpu_criu_next_bo_list(dump->fpriv, &id))) {
		ret = amdgpu_criu_dump_bo_list(dump, list, id);
		amdgpu_bo_list_put(list);
	}
	return ret;
}

static const char *amdgpu_criu_bo_list_fault(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_plan_bo_list *list = entry;

	if (!list->record.id)
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

/* A list is created from handles. A BO without a handle gets one until all lists exist. */
static int amdgpu_criu_borrow_handles(struct criu_plan *plan,
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

static int amdgpu_criu_return_handles(struct criu_plan *plan, int ret)
{
	for (u32 i = 0; i < plan->num_objects; i++) {
		struct amdgpu_criu_plan_object *object = &plan->objects[i];

		if (object->borrowed_handle)
			drm_gem_handle_delete(plan->file, object->borrowed_handle);
		object->borrowed_handle = 0;
	}
	return ret;
}

/* Follows the code path of AMDGPU_BO_LIST_OP_CREATE, with the saved id of the list. */
static int amdgpu_criu_apply_bo_list(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_bo_list_record *record = entry;
	const u32 num = record->num_entries;
	struct drm_amdgpu_bo_list_entry *entries __free(kvfree) =
		kvcalloc(num, sizeof(*entries), GFP_KERNEL_ACCOUNT);
	struct amdgpu_bo_list *list;
	int ret;

	if (num && !entries)
		return -ENOMEM;
	ret = amdgpu_criu_borrow_handles(plan, entry, entries);
	if (ret)
		return ret;
	list = amdgpu_bo_list_create(plan->adev, plan->file, entries, num);
	if (IS_ERR(list))
		return PTR_ERR(list);
	ret = xa_insert(&plan->fpriv->bo_list_handles, record->id, list, GFP_KERNEL);
	if (ret)
		amdgpu_bo_list_put(list);
	return ret;
}

static void amdgpu_criu_undo_bo_list(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_bo_list_record *record = entry;

	amdgpu_bo_list_put(xa_erase(&plan->fpriv->bo_list_handles, record->id));
}

const struct criu_kind amdgpu_criu_bo_lists = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_BO_LIST, bo_lists, struct amdgpu_criu_plan_bo_list, record.id),
	.subject = "BO list %llu", .unique = { CRIU_UNIQUE_ID },
	.tails = { CRIU_KIND_TAIL(struct amdgpu_criu_plan_bo_list, num_entries, items,
				  struct amdgpu_criu_bo_list_item) },
	.dump = amdgpu_criu_dump_bo_lists,
	.fault = amdgpu_criu_bo_list_fault,
	.end = amdgpu_criu_return_handles,
	.apply = amdgpu_criu_apply_bo_list, .undo = amdgpu_criu_undo_bo_list,
};
