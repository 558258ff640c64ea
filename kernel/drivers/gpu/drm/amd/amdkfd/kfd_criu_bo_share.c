// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * BOs of a plan that the session already has: another file or EXPORTED has restored
 * them. KFD imports them, and turns those that it had allocated into allocations.
 */
#include <linux/dma-buf.h>
#include <drm/drm_gem.h>

#include "amdgpu_amdkfd.h"
#include "amdgpu_object.h"
#include "amdgpu_ttm.h"
#include "kfd_criu_bo.h"

static bool kfd_criu_is_import(const struct kfd_criu_plan_bo *bo)
{
	return bo->record.flags & KFD_CRIU_BO_IMPORTED;
}

/*
 * Looks up the BO in the session, or claims its id. @gem: out: GEM object with a reference; NULL:
 * a claim is open. Returns as criu_session_claim(); -EBADFD for an import of a BO that the session
 * lacks.
 */
int kfd_criu_find_object(struct kfd_criu_plan *plan, const struct kfd_criu_plan_bo *bo,
			 struct drm_gem_object **gem)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	void *found;
	int ret;

	if (!kfd_criu_is_import(bo)) {
		ret = criu_session_claim(plan->session, record->object_id, &amdgpu_criu_bo_ops,
					 &found);
	} else {
		ret = criu_session_find(plan->session, record->object_id, &amdgpu_criu_bo_ops,
					&found);
		if (ret == -ENOENT)
			return criu_refuse(plan->call, -EBADFD,
					   "BO %u:%u was imported: EXPORTED must create it",
					   record->gpu_id, record->handle);
	}
	if (!ret)
		*gem = found;
	return ret;
}

/* Refuses an object of the session that does not match the record with its id. */
static int kfd_criu_object_fits(const struct kfd_criu_plan *plan,
				const struct kfd_criu_plan_bo *bo,
				struct drm_gem_object *gem)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	struct amdgpu_bo *object = gem_to_amdgpu_bo(gem);
	const u32 kinds = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT;
	const char *why = NULL;

	if (!(record->alloc_flags & kinds) || object->tbo.type != ttm_bo_type_device ||
	    amdgpu_ttm_tt_get_usermm(object->tbo.ttm))
		why = "is not of a kind to be shared";
	else if (object->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		why = "belongs to the VM of another file";
	else if (amdgpu_bo_size(object) != record->size)
		why = "has another size";
	else if (!kfd_criu_is_import(bo) && object->kfd_bo)
		why = "is allocated in another process, too";
	if (why)
		return criu_refuse(plan->call, -EBADMSG, "BO %u:%u was restored before, and %s",
				   record->gpu_id, record->handle, why);
	if (!kfd_criu_is_import(bo) && gem->dev != adev_to_drm(bo->device->pdd->dev->adev))
		return criu_refuse(plan->call, -ENODEV,
				   "BO %u:%u was restored before, on another GPU", record->gpu_id,
				   record->handle);
	return 0;
}

/*
 * Turns an import into an allocation with the flags of the record. It counts against the
 * memory limits of KFD until the last reference to the BO is dropped.
 */
static int kfd_criu_own_bo(struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	struct kfd_process_device *pdd = bo->device->pdd;
	struct kgd_mem *mem = bo->mem;
	int ret;

	ret = amdgpu_amdkfd_reserve_mem_limit(pdd->dev->adev, record->size,
					      record->alloc_flags, mem->bo->xcp_id);
	if (ret)
		return ret;
	if (cmpxchg(&mem->bo->kfd_bo, NULL, mem)) {
		amdgpu_amdkfd_unreserve_mem_limit(pdd->dev->adev, record->size,
						  record->alloc_flags, mem->bo->xcp_id);
		return -EBADMSG;
	}
	mem->alloc_flags = record->alloc_flags;
	mem->aql_queue = record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM;
	mem->is_imported = false;
	bo->owned = true;
	if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		atomic64_add(record->size, &pdd->vram_usage);
	return 0;
}

/* Turns an allocation back into an import */
void kfd_criu_disown_bo(struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	struct kfd_process_device *pdd = bo->device->pdd;
	struct kgd_mem *mem = bo->mem;

	if (!bo->owned)
		return;
	bo->owned = false;
	if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		atomic64_sub(record->size, &pdd->vram_usage);
	mem->is_imported = true;
	WRITE_ONCE(mem->bo->kfd_bo, NULL);
	amdgpu_amdkfd_unreserve_mem_limit(pdd->dev->adev, record->size, record->alloc_flags,
					  mem->bo->xcp_id);
}

/*
 * Takes the path of AMDKFD_IOC_IMPORT_DMABUF. Returns 0; -EBADMSG or -ENODEV if @gem does not
 * match the BO; what the ioctl returns.
 */
int kfd_criu_take_bo(struct kfd_criu_plan *plan, struct kfd_criu_plan_bo *bo,
		     struct drm_gem_object *gem)
{
	struct kfd_process_device *pdd = bo->device->pdd;
	struct dma_buf *dmabuf;
	int ret;

	ret = kfd_criu_object_fits(plan, bo, gem);
	if (ret)
		return ret;
	dmabuf = criu_session_dmabuf(plan->session, bo->record.object_id);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = amdgpu_amdkfd_gpuvm_import_dmabuf(pdd->dev->adev, dmabuf, bo->record.va,
						pdd->drm_priv, &bo->mem, NULL, NULL);
	dma_buf_put(dmabuf);
	if (ret || kfd_criu_is_import(bo))
		return ret;
	ret = kfd_criu_own_bo(bo);
	if (!ret)
		return 0;
	amdgpu_amdkfd_gpuvm_free_memory_of_gpu(pdd->dev->adev, bo->mem, pdd->drm_priv, NULL);
	bo->mem = NULL;
	return ret;
}
