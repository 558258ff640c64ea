// SPDX-License-Identifier: GPL-2.0 OR MIT
/* BOs of a plan, and their checks. */
#include "amdgpu_criu_render.h"

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
	    !amdgpu_gem_are_domains_valid(preferred))
		return "bad domains";
	if (special && record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return "always valid, but not memory";
	if (special & AMDGPU_CRIU_UNIT_DOMAINS &&
	    !(record->create_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS))
		return "not memory, but with CPU access";
	if (preferred == AMDGPU_GEM_DOMAIN_VRAM)
		allowed |= record->allowed_domains & AMDGPU_GEM_DOMAIN_GTT;
	if (record->allowed_domains != allowed)
		return "allowed domains that do not follow from the preferred ones";
	if (hweight32(record->placement) > 1 ||
	    record->placement & ~(special | AMDGPU_CRIU_NORMAL_DOMAINS))
		return "bad placement";
	return NULL;
}

/* True if the GPU, or the partition, of the file creates the BO. */
bool amdgpu_criu_object_is_own(const struct amdgpu_criu_plan *plan,
			       const struct amdgpu_criu_object_record *record)
{
	return record->device == plan->device && record->gpu_id == plan->gpu_id;
}

/* Performs the checks of DRM_AMDGPU_GEM_CREATE, and checks that the fields agree. */
const char *amdgpu_criu_object_fault(void *data, void *entry)
{
	const u32 sharing = AMDGPU_CRIU_BO_SHARED | AMDGPU_CRIU_BO_IMPORTED;
	const struct amdgpu_criu_object_record *record = entry;
	const struct amdgpu_criu_plan *plan = data;
	const bool own = amdgpu_criu_object_is_own(plan, record);
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
	if (fault)
		return fault;
	if (record->domain != amdgpu_criu_object_domain(record) ||
	    (record->table_flags & ~sharing) != amdgpu_criu_object_table_flags(record))
		return "entry of the BO table does not fit its kind";
	if (!(record->table_flags & AMDGPU_CRIU_BO_IMPORTED) != own)
		return "of the file's GPU and of another";
	return NULL;
}

int amdgpu_criu_check_object(void *data, void *entry)
{
	const u64 known = AMDGPU_GEM_CREATE_SETTABLE_MASK & ~AMDGPU_GEM_CREATE_ENCRYPTED;
	const struct amdgpu_criu_object_record *record = entry;
	struct amdgpu_criu_plan *plan = data;

	if (record->create_flags & ~known || record->flags & ~AMDGPU_CRIU_OBJECT_FLAGS)
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x, %#llx",
				   record->flags, record->create_flags);
	return 0;
}

int amdgpu_criu_check_objects(void *data)
{
	struct amdgpu_criu_plan *plan = data;
	struct criu_id_set *set = &plan->object_ids;
	u64 duplicate;

	set->room = plan->num_objects;
	set->ids = kvcalloc(plan->num_objects, sizeof(*set->ids), GFP_KERNEL_ACCOUNT);
	if (plan->num_objects && !set->ids)
		return -ENOMEM;
	for (u32 i = 0; i < plan->num_objects; i++)
		criu_id_set_add(set, plan->objects[i].record.object_id, i);
	if (criu_id_set_seal(set, &duplicate))
		return criu_refuse(plan->call, -EBADMSG, "BO %llu occurs twice", duplicate);
	return amdgpu_criu_bos_check(plan->call, &plan->in, plan->num_objects);
}

struct amdgpu_criu_plan_object *amdgpu_criu_plan_object(const struct amdgpu_criu_plan *plan,
							u64 object_id)
{
	const struct criu_id *id = criu_id_set_find(&plan->object_ids, object_id);

	return id ? &plan->objects[id->index] : NULL;
}

void amdgpu_criu_plan_entry(const void *plan, u32 index, struct amdgpu_criu_bo *entry)
{
	const struct amdgpu_criu_plan_object *object =
		&((const struct amdgpu_criu_plan *)plan)->objects[index];

	amdgpu_criu_object_entry(&object->record, entry);
	entry->new_mmap_offset = object->new_mmap_offset;
}

/* @state: arguments of the call. */
void amdgpu_criu_plan_init(struct amdgpu_criu_plan *plan, struct criu_call *call,
			   const struct amdgpu_criu_state *state)
{
	plan->in.state = state;
	plan->in.entry = amdgpu_criu_plan_entry;
	plan->call = call;
	plan->file = call->client->owner;
	plan->fpriv = plan->file->driver_priv;
	plan->adev = drm_to_adev(plan->file->minor->dev);
}

void amdgpu_criu_plan_free(struct amdgpu_criu_plan *plan)
{
	for (u32 i = 0; i < plan->num_objects; i++)
		if (plan->objects[i].gem)
			drm_gem_object_put(plan->objects[i].gem);
	kvfree(plan->object_ids.ids);
	kvfree(plan->ranges);
	criu_plan_free(plan->call, plan);
	amdgpu_criu_input_free(&plan->in);
}
