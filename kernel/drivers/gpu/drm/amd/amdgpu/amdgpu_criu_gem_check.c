// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Checks of the BOs and GEM handles of a blob, by themselves and against this GPU. */
#include <linux/slab.h>

#include "amdgpu.h"
#include "amdgpu_criu_render.h"
#include "amdgpu_object.h"

/* The limit of DRM_AMDGPU_GEM_METADATA. */
#define AMDGPU_CRIU_METADATA_MAX sizeof_field(struct drm_amdgpu_gem_metadata, data.data)

/* Performs the checks of DRM_AMDGPU_GEM_USERPTR. */
static const char *amdgpu_criu_user_fault(const struct amdgpu_criu_object_record *record)
{
	const u32 known = AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY |
			  AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER;
	const u32 flags = record->user_flags;

	if (!(record->flags & AMDGPU_CRIU_OBJECT_USERPTR))
		return record->user_addr || flags ? "user address, but no userptr" : NULL;
	if (record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return "userptr with flags of another kind of BO";
	if (!record->user_addr || !PAGE_ALIGNED(record->user_addr) ||
	    record->user_addr >= TASK_SIZE || record->size > TASK_SIZE - record->user_addr)
		return "bad user address";
	if (flags & ~known || !(flags & (AMDGPU_GEM_USERPTR_READONLY |
					 AMDGPU_GEM_USERPTR_REGISTER)))
		return "bad flags of a userptr";
	if (record->preferred_domains != AMDGPU_GEM_DOMAIN_GTT ||
	    record->allowed_domains != AMDGPU_GEM_DOMAIN_GTT)
		return "userptr in another domain";
	return NULL;
}

/* A special domain is the only one. For others, the fields must agree as the driver sets them. */
static const char *amdgpu_criu_domain_fault(const struct amdgpu_criu_object_record *record)
{
	const u32 preferred = record->preferred_domains;
	const u32 special = preferred & AMDGPU_CRIU_SPECIAL_DOMAINS;
	u32 allowed = preferred;

	if (preferred & ~(AMDGPU_CRIU_SPECIAL_DOMAINS | AMDGPU_CRIU_NORMAL_DOMAINS) ||
	    (special && preferred != special) || hweight32(special) > 1)
		return "bad domains";
	if (special && record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return "always valid, and not memory";
	if (special & AMDGPU_CRIU_UNIT_DOMAINS &&
	    !(record->create_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS))
		return "not memory, and with access of the CPU";
	if (preferred == AMDGPU_GEM_DOMAIN_VRAM)
		allowed |= record->allowed_domains & AMDGPU_GEM_DOMAIN_GTT;
	if (record->allowed_domains != allowed)
		return "allowed domains that do not follow from the preferred ones";
	if (hweight32(record->placement) > 1 ||
	    record->placement & ~(special | AMDGPU_CRIU_NORMAL_DOMAINS))
		return "bad placement";
	return NULL;
}

static const char *amdgpu_criu_table_fault(const struct amdgpu_criu_object_record *record)
{
	const u32 sharing = AMDGPU_CRIU_BO_SHARED | AMDGPU_CRIU_BO_IMPORTED;

	if (record->domain != amdgpu_criu_object_domain(record) ||
	    (record->table_flags & ~sharing) != amdgpu_criu_object_table_flags(record))
		return "entry of the BO table does not fit its kind";
	return NULL;
}

/* Performs the checks of DRM_AMDGPU_GEM_CREATE, and checks that the fields agree. */
static const char *amdgpu_criu_object_fault(const struct amdgpu_criu_object_record *record)
{
	const char *fault;

	if (!record->object_id)
		return "no id";
	if (!record->size || !PAGE_ALIGNED(record->size) || record->size > BIT_ULL(48))
		return "bad size";
	if (record->metadata_size > AMDGPU_CRIU_METADATA_MAX)
		return "too much metadata";
	fault = amdgpu_criu_domain_fault(record);
	if (!fault)
		fault = amdgpu_criu_user_fault(record);
	if (!fault)
		fault = amdgpu_criu_table_fault(record);
	return fault;
}

/* Checks a valid record against this file and GPU. */
static int amdgpu_criu_check_object_here(struct amdgpu_criu_plan *plan,
					 const struct amdgpu_criu_object_record *record)
{
	const u64 known = AMDGPU_GEM_CREATE_SETTABLE_MASK & ~AMDGPU_GEM_CREATE_ENCRYPTED;

	if (record->create_flags & ~known || record->flags & ~AMDGPU_CRIU_OBJECT_FLAGS)
		return criu_refuse(plan->call, -EOPNOTSUPP, "BO %llu: unknown flags %#x, %#llx",
				   record->object_id, record->flags, record->create_flags);
	return 0;
}

static int amdgpu_criu_check_object(struct amdgpu_criu_plan *plan,
				    const struct amdgpu_criu_object_record *record)
{
	const bool imported = record->table_flags & AMDGPU_CRIU_BO_IMPORTED;
	const bool own = record->device == plan->file_record.device;
	const char *fault = amdgpu_criu_object_fault(record);

	if (!fault && imported == own)
		fault = "of the file's GPU and of another";
	if (!fault)
		return amdgpu_criu_check_object_here(plan, record);
	return criu_refuse(plan->call, -EBADMSG, "BO %llu: %s", record->object_id, fault);
}

/* Builds the set of ids for lookups. */
static int amdgpu_criu_check_object_ids(struct amdgpu_criu_plan *plan)
{
	struct criu_id_set *set = &plan->object_ids;
	u64 duplicate;

	set->room = plan->num_objects;
	set->ids = kvcalloc(plan->num_objects, sizeof(*set->ids), GFP_KERNEL_ACCOUNT);
	if (plan->num_objects && !set->ids)
		return -ENOMEM;
	for (u32 i = 0; i < plan->num_objects; i++)
		criu_id_set_add(set, plan->objects[i].record.object_id, i);
	if (!criu_id_set_seal(set, &duplicate))
		return 0;
	return criu_refuse(plan->call, -EBADMSG, "BO %llu is there twice", duplicate);
}

/* Looks up a BO of the plan by its id. Returns the BO, or NULL. */
struct amdgpu_criu_plan_object *amdgpu_criu_plan_object(const struct amdgpu_criu_plan *plan,
							u64 object_id)
{
	const struct criu_id *id = criu_id_set_find(&plan->object_ids, object_id);

	return id ? &plan->objects[id->index] : NULL;
}

/* Fills the BO table's entry for a BO of a plan */
void amdgpu_criu_plan_entry(const void *plan, u32 index, struct amdgpu_criu_bo *entry)
{
	const struct amdgpu_criu_plan_object *object =
		&((const struct amdgpu_criu_plan *)plan)->objects[index];

	amdgpu_criu_object_entry(&object->record, entry);
	entry->new_mmap_offset = object->new_mmap_offset;
}

int amdgpu_criu_check_objects(struct amdgpu_criu_plan *plan,
			      const struct amdgpu_criu_state *args)
{
	int ret;

	for (u32 i = 0; i < plan->num_objects; i++) {
		ret = amdgpu_criu_check_object(plan, &plan->objects[i].record);
		if (ret)
			return ret;
	}
	ret = amdgpu_criu_check_object_ids(plan);
	if (!ret)
		ret = amdgpu_criu_bos_check(plan->call, args, plan->tables, plan, plan->num_objects,
					    amdgpu_criu_plan_entry);
	return ret;
}

static int amdgpu_criu_check_handle(struct amdgpu_criu_plan *plan,
				    struct amdgpu_criu_plan_handle *handle)
{
	const struct amdgpu_criu_handle_record *record = &handle->record;
	const char *fault = NULL;

	handle->object = amdgpu_criu_plan_object(plan, record->object_id);
	if (!record->handle || record->handle > AMDGPU_CRIU_HANDLE_MAX || record->pad)
		fault = "bad number";
	else if (!handle->object)
		fault = "of no BO";
	else if (!handle->object->record.handle || handle->object->record.handle > record->handle)
		fault = "not the one that the record of its BO names";
	if (!fault)
		return 0;
	return criu_refuse(plan->call, -EBADMSG, "GEM handle %u: %s", record->handle, fault);
}

/* The handle in the record of a BO must exist. */
static int amdgpu_criu_check_named_handles(struct amdgpu_criu_plan *plan)
{
	u32 i, named = 0, found = 0;

	for (i = 0; i < plan->num_objects; i++)
		named += !!plan->objects[i].record.handle;
	for (i = 0; i < plan->num_handles; i++)
		found += plan->handles[i].object->record.handle == plan->handles[i].record.handle;
	if (named == found)
		return 0;
	return criu_refuse(plan->call, -EBADMSG, "a BO names a GEM handle that is not there");
}

int amdgpu_criu_check_handles(struct amdgpu_criu_plan *plan)
{
	int ret;

	for (u32 i = 0; i < plan->num_handles; i++) {
		ret = amdgpu_criu_check_handle(plan, &plan->handles[i]);
		if (ret)
			return ret;
	}
	ret = amdgpu_criu_sort_numbers(plan->call, "GEM handle", plan->handles, plan->num_handles,
				       sizeof(*plan->handles));
	if (!ret)
		ret = amdgpu_criu_check_named_handles(plan);
	return ret;
}
