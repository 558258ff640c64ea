// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Allocates or imports the BOs of a plan and maps them, or frees them again. KFD imports a
 * BO that another file or EXPORTED has restored, and turns it into an allocation if the
 * process had allocated it.
 */
#include "kfd_criu.h"

static bool kfd_criu_is_import(const struct kfd_criu_plan_bo *bo)
{
	return bo->record.flags & KFD_CRIU_BO_IMPORTED;
}

/* Refuses an object of the session that does not match the record with its id. */
static int kfd_criu_object_fits(const struct criu_plan *plan, const struct kfd_criu_plan_bo *bo,
				struct drm_gem_object *gem)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	const u32 kinds = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT;
	const char *why = amdgpu_criu_unshareable(gem, record->size);

	if (!(record->alloc_flags & kinds))
		why = "is of a kind that cannot be shared";
	else if (!why && !kfd_criu_is_import(bo) && gem_to_amdgpu_bo(gem)->kfd_bo)
		why = "is allocated in another process, too";
	if (why)
		return criu_refuse(plan->call, -EBADMSG, "it was restored before, and %s", why);
	if (!kfd_criu_is_import(bo) && gem->dev != adev_to_drm(bo->device->pdd->dev->adev))
		return criu_refuse(plan->call, -ENODEV, "it was restored before, on another GPU");
	return 0;
}

/* Turns an import into an allocation, which counts against the memory limits of KFD. */
static int kfd_criu_own_bo(struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	struct kfd_process_device *pdd = bo->device->pdd;
	struct kgd_mem *mem = bo->mem;
	int ret = amdgpu_amdkfd_reserve_mem_limit(pdd->dev->adev, record->size,
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

/* Takes the path of AMDKFD_IOC_IMPORT_DMABUF. */
static int kfd_criu_take_bo(struct criu_plan *plan, struct kfd_criu_plan_bo *bo,
			    struct drm_gem_object *gem)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = NULL;
	struct kfd_process_device *pdd = bo->device->pdd;
	int ret = kfd_criu_object_fits(plan, bo, gem);

	if (ret)
		return ret;
	dmabuf = criu_session_dmabuf(plan->call->session, bo->record.object_id, false);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = amdgpu_amdkfd_gpuvm_import_dmabuf(pdd->dev->adev, dmabuf, bo->record.va,
						pdd->drm_priv, &bo->mem, NULL, NULL);
	return ret || kfd_criu_is_import(bo) ? ret : kfd_criu_own_bo(bo);
}

static int kfd_criu_alloc_bo(struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	struct kfd_process_device *pdd = bo->device->pdd;
	struct amdgpu_device *adev = pdd->dev->adev;
	u64 offset = record->user_addr;
	int ret;

	if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
		offset = kfd_get_process_doorbells(pdd);
		if (!offset)
			return -ENOMEM;
	} else if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) {
		offset = adev->rmmio_remap.bus_addr;
	}
	ret = amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu(adev, record->va,
						      kfd_criu_bo_va_size(record), pdd->drm_priv,
						      &bo->mem, &offset, record->alloc_flags, true);
	if (ret) {
		bo->mem = NULL;
		return ret;
	}
	if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		atomic64_add(record->size, &pdd->vram_usage);
	return 0;
}

static void kfd_criu_free_bo(struct criu_plan *plan, struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	struct kgd_mem *mem = bo->mem;
	struct kfd_process_device *pdd;
	u64 vram_size = 0;

	/* Nothing to undo. @device may be NULL if the blob is invalid. */
	if (!bo->mem)
		return;
	pdd = bo->device->pdd;
	if (bo->owned) {
		if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
			atomic64_sub(record->size, &pdd->vram_usage);
		mem->is_imported = true;
		WRITE_ONCE(mem->bo->kfd_bo, NULL);
		amdgpu_amdkfd_unreserve_mem_limit(pdd->dev->adev, record->size,
						  record->alloc_flags, mem->bo->xcp_id);
	}
	bo->owned = false;
	for (u32 i = 0; i < bo->record.num_mapped; i++) {
		struct kfd_process_device *peer = kfd_criu_plan_device(plan, bo->mapped[i])->pdd;

		if (amdgpu_amdkfd_bo_mapped_to_dev(peer->drm_priv, bo->mem))
			amdgpu_amdkfd_gpuvm_unmap_memory_from_gpu(peer->dev->adev, bo->mem,
								  peer->drm_priv);
	}
	/* SIGKILL has interrupted the call: the handle stays until the process ends. */
	if (amdgpu_amdkfd_gpuvm_free_memory_of_gpu(pdd->dev->adev, bo->mem, pdd->drm_priv,
						   &vram_size))
		return;
	if (idr_find(&pdd->alloc_idr, bo->record.handle) == bo->mem)
		idr_remove(&pdd->alloc_idr, bo->record.handle);
	atomic64_sub(vram_size, &pdd->vram_usage);
	bo->mem = NULL;
}

/* Gives a BO its handle and maps it. */
static int kfd_criu_map_bo(struct criu_plan *plan, struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	int ret = idr_alloc(&bo->device->pdd->alloc_idr, bo->mem, record->handle,
			    record->handle + 1, GFP_KERNEL);

	if (ret < 0)
		return ret;
	plan->bo_table[bo - plan->bos].new_mmap_offset =
		kfd_criu_bo_offset(record->alloc_flags, record->gpu_id, bo->mem);
	ret = 0;
	for (u32 i = 0; !ret && i < record->num_mapped; i++) {
		struct kfd_process_device *peer = kfd_criu_plan_device(plan, bo->mapped[i])->pdd;

		ret = amdgpu_amdkfd_gpuvm_map_memory_to_gpu(peer->dev->adev, bo->mem,
							    peer->drm_priv);
	}
	return ret;
}

/* Like AMDKFD_IOC_ALLOC_MEMORY_OF_GPU or _IMPORT_DMABUF, and AMDKFD_IOC_MAP_MEMORY_TO_GPU. */
static int kfd_criu_create_bo(struct criu_plan *plan, struct kfd_criu_plan_bo *bo)
{
	struct drm_gem_object *found;
	int ret = amdgpu_criu_claim(plan->call, bo->record.object_id, !kfd_criu_is_import(bo),
				    &found);

	if (ret)
		return ret;
	if (found) {
		ret = kfd_criu_take_bo(plan, bo, found);
		amdgpu_criu_bo_ops.put(found);
	} else {
		ret = kfd_criu_alloc_bo(bo);
		/* Other files import any BO that is bound, so it is complete now. */
		if (!ret)
			ret = criu_session_bind(plan->call->session, bo->record.object_id,
						&bo->mem->bo->tbo.base);
		bo->bound = !ret;
		if (ret)
			criu_session_forget(plan->call->session, bo->record.object_id);
	}
	return ret ? ret : kfd_criu_map_bo(plan, bo);
}

/* Leaves imports to kfd_criu_end_bos(): an import may refer to a BO that this plan allocates. */
static int kfd_criu_apply_bo(struct criu_plan *plan, void *entry)
{
	return kfd_criu_is_import(entry) ? 0 : kfd_criu_create_bo(plan, entry);
}

static int kfd_criu_end_bos(struct criu_plan *plan, int ret)
{
	for (u32 i = 0; !ret && i < plan->num_bos; i++) {
		plan->call->entry = &plan->bos[i];
		if (kfd_criu_is_import(&plan->bos[i]))
			ret = kfd_criu_create_bo(plan, &plan->bos[i]);
	}
	if (ret && !*plan->call->reason)
		criu_refuse(plan->call, ret, "cannot restore: %d", ret);
	plan->call->entry = NULL;
	/* Waits until the page tables are written, then flushes older entries from the TLBs. */
	for (u32 i = 0; !ret && i < plan->num_bos; i++)
		ret = amdgpu_amdkfd_gpuvm_sync_memory(plan->bos[i].device->pdd->dev->adev,
						      plan->bos[i].mem, true);
	for (u32 i = 0; !ret && i < plan->num_devices; i++)
		if (plan->devices[i].vm_done)
			kfd_flush_tlb(plan->devices[i].pdd);
	return ret;
}

static void kfd_criu_undo_bo(struct criu_plan *plan, void *entry)
{
	struct kfd_criu_plan_bo *bo = entry;

	if (bo->bound)
		criu_session_forget(plan->call->session, bo->record.object_id);
	bo->bound = false;
	kfd_criu_free_bo(plan, bo);
}

const struct criu_kind kfd_criu_bos = {
	.type = KFD_CRIU_BO,
	.subject = "BO %llu of GPU %u",
	CRIU_KIND(bos, struct kfd_criu_plan_bo, record.handle),
	.gpu = offsetof(struct kfd_criu_plan_bo, record.gpu_id),
	.tails = { CRIU_KIND_TAIL(struct kfd_criu_plan_bo, num_mapped, mapped, __u32) },
	.unique = { CRIU_UNIQUE_ID, { kfd_criu_allocated_range, "its object occurs twice" } },
	.live = true,
	.dump = kfd_criu_dump_bos,
	.fault = kfd_criu_bo_fault,
	.check = kfd_criu_check_bo,
	.check_all = kfd_criu_check_bos,
	.apply = kfd_criu_apply_bo,
	.end = kfd_criu_end_bos,
	.undo = kfd_criu_undo_bo,
};
