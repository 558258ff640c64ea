// SPDX-License-Identifier: GPL-2.0 OR MIT
/* BOs and GEM handles of a plan: create and undo. */
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <uapi/linux/kfd_ioctl.h>

#include "amdgpu.h"
#include "amdgpu_criu_gem.h"
#include "amdgpu_criu_object.h"
#include "amdgpu_gem.h"
#include "amdgpu_object.h"

/*
 * Returns the domain to allocate in: the saved placement, or the preferred domains if the BO
 * had no memory.
 */
static u32 amdgpu_criu_first_domain(const struct amdgpu_criu_object_record *record)
{
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR)
		return AMDGPU_GEM_DOMAIN_CPU;
	if (record->preferred_domains & AMDGPU_CRIU_SPECIAL_DOMAINS || !record->placement)
		return record->preferred_domains;
	return record->placement;
}

static int amdgpu_criu_alloc_bo(struct amdgpu_criu_plan *plan,
				const struct amdgpu_criu_object_record *record,
				struct dma_resv *resv, struct drm_gem_object **gem)
{
	u32 domain = amdgpu_criu_first_domain(record);
	u64 flags = record->create_flags;
	u64 size = record->size;
	int ret;

	if (record->preferred_domains & AMDGPU_CRIU_UNIT_DOMAINS)
		size >>= PAGE_SHIFT;
	/* Clear the BO: stale data of others must not leak if user space does not fill the BO. */
	if (!(record->flags & AMDGPU_CRIU_OBJECT_USERPTR))
		flags |= AMDGPU_GEM_CREATE_VRAM_CLEARED;
	if (record->kfd_flags & KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS)
		flags |= AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS;
	for (;;) {
		ret = amdgpu_gem_object_create(plan->adev, size, record->alignment, domain, flags,
					       ttm_bo_type_device, resv, gem,
					       plan->fpriv->xcp_id + 1);
		/* VRAM is full: retry as the ioctl does. */
		if (!ret || ret == -ERESTARTSYS)
			return ret;
		if (flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED)
			flags &= ~AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
		else if (domain == AMDGPU_GEM_DOMAIN_VRAM)
			domain |= AMDGPU_GEM_DOMAIN_GTT;
		else
			return ret;
	}
}

/* A BO that is always valid in the VM shares the reservation of the page directory. */
static int amdgpu_criu_alloc_in_vm(struct amdgpu_criu_plan *plan,
				   const struct amdgpu_criu_object_record *record,
				   struct drm_gem_object **gem)
{
	struct amdgpu_bo *root = plan->fpriv->vm.root.bo;
	int ret;

	if (!(record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
		return amdgpu_criu_alloc_bo(plan, record, NULL, gem);
	ret = amdgpu_bo_reserve(root, false);
	if (ret)
		return ret;
	ret = amdgpu_criu_alloc_bo(plan, record, root->tbo.base.resv, gem);
	if (!ret)
		gem_to_amdgpu_bo(*gem)->parent = amdgpu_bo_ref(root);
	amdgpu_bo_unreserve(root);
	return ret;
}

/* Removing the metadata does not clear its flags. */
static int amdgpu_criu_set_metadata(const struct amdgpu_criu_plan_object *object,
				    struct amdgpu_bo *bo)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	u32 none = 0;
	int ret;

	if (!record->metadata_size && record->metadata_flags) {
		ret = amdgpu_bo_set_metadata(bo, &none, sizeof(none), record->metadata_flags);
		if (ret)
			return ret;
	}
	return amdgpu_bo_set_metadata(bo, (void *)object->metadata, record->metadata_size,
				      record->metadata_flags);
}

/* Does what AMDGPU_GEM_OP_SET_PLACEMENT and DRM_AMDGPU_GEM_METADATA do. */
static int amdgpu_criu_set_attributes(const struct amdgpu_criu_plan_object *object,
				      struct amdgpu_bo *bo)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	int ret;

	ret = amdgpu_bo_reserve(bo, false);
	if (ret)
		return ret;
	bo->preferred_domains = record->preferred_domains;
	bo->allowed_domains = record->allowed_domains;
	ret = amdgpu_bo_set_tiling_flags(bo, record->tiling_flags);
	if (!ret)
		ret = amdgpu_criu_set_metadata(object, bo);
	amdgpu_bo_unreserve(bo);
	return ret;
}

/*
 * Creates a BO of a plan. @gem: output, with a reference. Follows the code paths of
 * DRM_AMDGPU_GEM_CREATE, DRM_AMDGPU_GEM_USERPTR, AMDGPU_GEM_OP_SET_PLACEMENT and
 * DRM_AMDGPU_GEM_METADATA.
 */
int amdgpu_criu_create_bo(struct amdgpu_criu_plan *plan,
			  const struct amdgpu_criu_plan_object *object,
			  struct drm_gem_object **gem)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	int ret;

	ret = amdgpu_criu_alloc_in_vm(plan, record, gem);
	if (ret)
		return ret;
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR)
		ret = amdgpu_criu_set_userptr(plan, record, gem_to_amdgpu_bo(*gem));
	if (!ret)
		ret = amdgpu_criu_set_attributes(object, gem_to_amdgpu_bo(*gem));
	if (ret) {
		drm_gem_object_put(*gem);
		*gem = NULL;
	}
	return ret;
}

int amdgpu_criu_apply_objects(struct amdgpu_criu_plan *plan)
{
	u32 i;
	int ret;

	for (i = 0; i < plan->num_objects; i++) {
		const struct amdgpu_criu_object_record *record = &plan->objects[i].record;

		ret = amdgpu_criu_object_get(plan, &plan->objects[i]);
		if (ret)
			return criu_refuse(plan->call, ret,
					   "BO %llu, handle %u: cannot restore %llu bytes: %d",
					   record->object_id, record->handle, record->size, ret);
	}
	return 0;
}

void amdgpu_criu_undo_objects(struct amdgpu_criu_plan *plan)
{
	u32 i;

	for (i = 0; i < plan->num_objects; i++)
		amdgpu_criu_object_put(plan, &plan->objects[i]);
}

static int amdgpu_criu_apply_handle(struct amdgpu_criu_plan *plan,
				    struct amdgpu_criu_handles *steering,
				    struct amdgpu_criu_plan_handle *handle)
{
	u32 number;
	int ret;

	ret = amdgpu_criu_handles_seek(steering, handle->record.handle);
	if (!ret)
		ret = amdgpu_criu_object_handle(plan, handle->object, &number);
	if (ret)
		return ret;
	if (number == handle->record.handle)
		return 0;
	/* An import returns the existing handle of the file for the dma-buf. */
	drm_gem_handle_delete(plan->file, number);
	return criu_refuse(plan->call, -EBADMSG, "GEM handle %u came out as %u",
			   handle->record.handle, number);
}

static int amdgpu_criu_apply_in_order(struct amdgpu_criu_plan *plan,
				      struct amdgpu_criu_handles *steering)
{
	u32 i;
	int ret;

	for (i = 0; i < plan->num_handles; i++) {
		ret = amdgpu_criu_apply_handle(plan, steering, &plan->handles[i]);
		if (ret)
			return criu_refuse(plan->call, ret, "GEM handle %u: cannot restore: %d",
					   plan->handles[i].record.handle, ret);
		plan->handles_done = i + 1;
	}
	return 0;
}

int amdgpu_criu_apply_handles(struct amdgpu_criu_plan *plan)
{
	const u32 num = plan->num_handles;
	struct amdgpu_criu_handles steering;
	u32 i;
	int ret;

	ret = amdgpu_criu_handles_begin(&steering, plan->file,
					num ? plan->handles[num - 1].record.handle : 0);
	if (ret)
		return ret;
	ret = amdgpu_criu_apply_in_order(plan, &steering);
	amdgpu_criu_handles_end(&steering);
	for (i = 0; !ret && i < plan->num_objects; i++)
		if (plan->objects[i].gem)
			plan->objects[i].new_mmap_offset =
				amdgpu_criu_object_offset(plan->objects[i].gem);
	return ret;
}

void amdgpu_criu_undo_handles(struct amdgpu_criu_plan *plan)
{
	for (; plan->handles_done; plan->handles_done--)
		drm_gem_handle_delete(plan->file,
				      plan->handles[plan->handles_done - 1].record.handle);
}
