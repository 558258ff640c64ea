// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * BOs of a plan: checks them, and creates those that the session lacks. Userptrs have no memory
 * until RESUME, which another process may call.
 */
#include <linux/dma-buf.h>
#include <linux/sched/signal.h>
#include <uapi/linux/kfd_ioctl.h>

#include "amdgpu_criu_render.h"
#include "amdgpu_dma_buf.h"
#include "amdgpu_hmm.h"

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

/* True if the GPU, or the partition, of the file creates the BO, and for EXPORTED. */
static bool amdgpu_criu_object_is_own(const struct criu_plan *plan,
				      const struct amdgpu_criu_object_record *record)
{
	const struct amdgpu_criu_file_record *file = plan->files;

	return !file || (record->device == file->device && record->gpu_id == file->gpu_id);
}

/* Performs the checks of DRM_AMDGPU_GEM_CREATE, and checks that the fields agree. */
static const char *amdgpu_criu_object_fault(struct criu_plan *plan, void *entry)
{
	const u32 sharing = AMDGPU_CRIU_BO_SHARED | AMDGPU_CRIU_BO_IMPORTED;
	const struct amdgpu_criu_object_record *record = entry;
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

static int amdgpu_criu_check_object(struct criu_plan *plan, void *entry)
{
	const u64 known = AMDGPU_GEM_CREATE_SETTABLE_MASK & ~AMDGPU_GEM_CREATE_ENCRYPTED;
	const struct amdgpu_criu_object_record *record = entry;

	if (record->create_flags & ~known || record->flags & ~AMDGPU_CRIU_OBJECT_FLAGS)
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x, %#llx",
				   record->flags, record->create_flags);
	return 0;
}

struct amdgpu_criu_plan_object *amdgpu_criu_plan_object(const struct criu_plan *plan, u64 object_id)
{
	const struct criu_range *id =
		criu_ranges_find(plan->object_ids, plan->num_objects, object_id, 1);

	return id ? &plan->objects[id->index] : NULL;
}

/* @state: arguments of the call. */
void amdgpu_criu_plan_init(struct criu_plan *plan, struct criu_call *call,
			   const struct amdgpu_criu_state *state)
{
	plan->state = state;
	plan->entry = amdgpu_criu_object_entry;
	plan->call = call;
	plan->file = call->client->owner;
	plan->fpriv = plan->file->driver_priv;
	plan->adev = drm_to_adev(plan->file->minor->dev);
}

void amdgpu_criu_plan_free(struct criu_plan *plan)
{
	for (u32 i = 0; i < plan->num_objects; i++)
		if (plan->objects[i].gem)
			drm_gem_object_put(plan->objects[i].gem);
	criu_plan_free(plan->call, plan);
	amdgpu_criu_input_free(plan);
}

/*
 * AMDGPU_GEM_USERPTR_VALIDATE. Repeated, as by user space, if the memory changes meanwhile. If the
 * process has unmapped the memory, its next submission fails, as it would have before.
 */
static int amdgpu_criu_validate_userptr(struct amdgpu_bo *bo)
{
	int ret;

	do {
		ret = amdgpu_gem_userptr_validate(bo);
	} while (ret == -EAGAIN && !fatal_signal_pending(current));
	return ret == -EFAULT || ret == -EPERM ? 0 : ret;
}

int amdgpu_criu_attach_userptrs(struct criu_dump *dump)
{
	const struct amdgpu_criu_dump_object *object;
	u32 flags;
	u64 addr;
	int ret;

	list_for_each_entry(object, &dump->objects, of_dump) {
		struct amdgpu_bo *bo = gem_to_amdgpu_bo(object->gem);

		/* A BO that several files of the process share is attached by the first of them. */
		if (!amdgpu_ttm_tt_is_userptr(bo->tbo.ttm) || amdgpu_criu_userptr_mm(bo))
			continue;
		flags = amdgpu_ttm_tt_get_userflags(bo->tbo.ttm);
		amdgpu_ttm_tt_get_userptr(&bo->tbo, &addr);
		amdgpu_ttm_tt_set_usertask(bo->tbo.ttm, dump->task);
		ret = amdgpu_criu_fault_in(dump->mm, addr, amdgpu_bo_size(bo), true) ?:
		      amdgpu_hmm_register_mm(bo, dump->mm, addr);
		if (!ret && flags & AMDGPU_GEM_USERPTR_VALIDATE) {
			ret = amdgpu_criu_validate_userptr(bo);
			if (ret)
				amdgpu_hmm_unregister(bo);
		}
		if (ret)
			return criu_refuse(dump->call, ret,
					   "userptr (handle %u): cannot attach: %d", object->handle,
					   ret);
	}
	return 0;
}

/* Allocates in the saved placement, or the preferred domains if the BO had no memory. */
static int amdgpu_criu_alloc_bo(struct criu_plan *plan,
				const struct amdgpu_criu_object_record *record,
				struct drm_gem_object **gem)
{
	u32 domain = record->placement;
	u64 flags = record->create_flags;
	u64 size = record->size;

	if (record->preferred_domains & AMDGPU_CRIU_SPECIAL_DOMAINS || !domain)
		domain = record->preferred_domains;
	if (record->preferred_domains & AMDGPU_CRIU_UNIT_DOMAINS)
		size >>= PAGE_SHIFT;
	/* Clear the BO: stale data of others must not leak if user space does not fill the BO. */
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR)
		domain = AMDGPU_GEM_DOMAIN_CPU;
	else
		flags |= AMDGPU_GEM_CREATE_VRAM_CLEARED;
	if (record->kfd_flags & KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS)
		flags |= AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS;
	return amdgpu_gem_object_create_in_vm(plan->adev, plan->fpriv, size, record->alignment,
					      domain, flags, gem);
}

/* Does what AMDGPU_GEM_OP_SET_PLACEMENT and DRM_AMDGPU_GEM_METADATA do. */
static int amdgpu_criu_set_attributes(const struct amdgpu_criu_plan_object *object,
				      struct amdgpu_bo *bo)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	int ret = amdgpu_bo_reserve(bo, false);
	u32 none = 0;

	if (ret)
		return ret;
	bo->preferred_domains = record->preferred_domains;
	bo->allowed_domains = record->allowed_domains;
	ret = amdgpu_bo_set_tiling_flags(bo, record->tiling_flags);
	/* Removing the metadata does not clear its flags. */
	if (!ret && !record->metadata_size && record->metadata_flags)
		ret = amdgpu_bo_set_metadata(bo, &none, sizeof(none), record->metadata_flags);
	if (!ret)
		ret = amdgpu_bo_set_metadata(bo, (void *)object->metadata, record->metadata_size,
					     record->metadata_flags);
	amdgpu_bo_unreserve(bo);
	return ret;
}

/* Creates a BO as the ioctls GEM_CREATE, GEM_USERPTR, GEM_OP and GEM_METADATA do. */
static int amdgpu_criu_create_bo(struct criu_plan *plan,
				 const struct amdgpu_criu_plan_object *object,
				 struct drm_gem_object **gem)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	int ret = amdgpu_criu_alloc_bo(plan, record, gem);
	struct amdgpu_bo *bo;

	if (ret)
		return ret;
	bo = gem_to_amdgpu_bo(*gem);
	/* RESUME registers the notifier. */
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR) {
		bo->parent = amdgpu_bo_ref(plan->fpriv->vm.root.bo);
		ret = amdgpu_ttm_tt_set_userptr(&bo->tbo, record->user_addr, record->user_flags);
	}
	if (!ret)
		ret = amdgpu_criu_set_attributes(object, bo);
	if (ret) {
		drm_gem_object_put(*gem);
		*gem = NULL;
	}
	return ret;
}

/* Ends the claim of the caller. */
static int amdgpu_criu_object_create(struct criu_plan *plan, struct amdgpu_criu_plan_object *object)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	struct dma_buf *dmabuf;
	int ret = amdgpu_criu_create_bo(plan, object, &object->gem);

	/* Export with the flags of the process, before another caller can export the BO. */
	if (!ret && record->flags & AMDGPU_CRIU_OBJECT_EXPORTED) {
		dmabuf = amdgpu_gem_prime_export(object->gem, record->flags &
						 AMDGPU_CRIU_OBJECT_EXPORTED_RDWR ? DRM_RDWR : 0);
		if (IS_ERR(dmabuf)) {
			ret = PTR_ERR(dmabuf);
			drm_gem_object_put(object->gem);
			object->gem = NULL;
		} else {
			criu_session_exported(plan->call->session, record->object_id, dmabuf);
			dma_buf_put(dmabuf);
		}
	}
	criu_session_bind(plan->call->session, record->object_id, ret ? NULL : object->gem);
	object->bound = !ret;
	return ret;
}

/* Finds the BO in the session, or creates it. It may be that of another file with the same id. */
int amdgpu_criu_object_get(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_object *object = entry;
	const struct amdgpu_criu_object_record *record = &object->record;
	const bool own = amdgpu_criu_object_is_own(plan, record);
	const bool unshared = record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID ||
			      record->flags & AMDGPU_CRIU_OBJECT_USERPTR;
	struct drm_device *dev = adev_to_drm(plan->adev);
	struct drm_gem_object *found;
	int ret = amdgpu_criu_claim(plan->call, record->object_id, own ? dev : NULL,
				    unshared ? 0 : record->size, &found);

	if (ret)
		return ret;
	if (!found)
		return amdgpu_criu_object_create(plan, object);
	if (found->dev == dev) {
		object->gem = found;
		drm_gem_object_get(object->gem);
	}
	amdgpu_criu_bo_ops.put(found);
	return 0;
}

/* Undoes amdgpu_criu_object_get() if it succeeded. @entry: the BO; its handles are closed. */
void amdgpu_criu_object_put(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_object *object = entry;

	if (object->bound)
		criu_session_forget(plan->call->session, object->record.object_id);
	object->bound = false;
	if (object->gem)
		drm_gem_object_put(object->gem);
	object->gem = NULL;
}

const struct criu_kind amdgpu_criu_objects = {
	.type = AMDGPU_CRIU_RECORD_OBJECT,
	.subject = "BO %llu",
	CRIU_KIND(objects, struct amdgpu_criu_plan_object, record.object_id),
	.id64 = true,
	.unique = { CRIU_UNIQUE_ID_KEPT(object_ids) },
	.tails = { CRIU_KIND_TAIL(struct amdgpu_criu_plan_object, metadata_size, metadata, u8) },
	.live = true,
	.dump = amdgpu_criu_dump_objects,
	.fault = amdgpu_criu_object_fault,
	.check = amdgpu_criu_check_object,
	.check_all = amdgpu_criu_bos_check,
	.apply = amdgpu_criu_object_get,
	.undo = amdgpu_criu_object_put,
};
