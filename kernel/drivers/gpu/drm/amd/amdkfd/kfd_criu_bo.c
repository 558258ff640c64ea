// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: BOs of KFD
 *
 * Carried: BOs that the process has allocated or imported, with handle, address, flags and mmap
 * offset: VRAM, GTT, userptr, doorbell, MMIO remap; their mappings on all GPUs, also of a peer's
 * VRAM.
 *
 * Not carried: BOs of other drivers, or that other drivers have imported, or others allocated.
 */
#include "kfd_criu.h"

/* Each BO is of exactly one kind, and has any number of attributes. */
#define KFD_CRIU_BO_KINDS (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT | \
			   KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | \
			   KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
#define KFD_CRIU_BO_ATTRS \
	(KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE | \
	 KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | \
	 KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED | KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT | \
	 KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS)

static const struct kfd_criu_bo_kind {
	u32 alloc_flag;
	u32 domain; /* AMDGPU_CRIU_DOMAIN_* */
	u32 table_flags; /* AMDGPU_CRIU_BO_* */
} kfd_criu_bo_kinds[] = {
	{ KFD_IOC_ALLOC_MEM_FLAGS_VRAM, AMDGPU_CRIU_DOMAIN_VRAM, AMDGPU_CRIU_BO_CONTENTS },
	{ KFD_IOC_ALLOC_MEM_FLAGS_GTT, AMDGPU_CRIU_DOMAIN_GTT, AMDGPU_CRIU_BO_CONTENTS },
	{ KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, AMDGPU_CRIU_DOMAIN_CPU, AMDGPU_CRIU_BO_USERPTR },
	{ KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, AMDGPU_CRIU_DOMAIN_NONE, AMDGPU_CRIU_BO_DOORBELL },
	{ KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, AMDGPU_CRIU_DOMAIN_NONE, AMDGPU_CRIU_BO_MMIO },
	{} /* unknown, in a live session */
};

static const struct kfd_criu_bo_kind *kfd_criu_bo_kind(u32 alloc_flags)
{
	const struct kfd_criu_bo_kind *kind = kfd_criu_bo_kinds;

	while (kind->alloc_flag && !(alloc_flags & kind->alloc_flag))
		kind++;
	return kind;
}

static bool kfd_criu_has_contents(u32 alloc_flags)
{
	return kfd_criu_bo_kind(alloc_flags)->table_flags & AMDGPU_CRIU_BO_CONTENTS;
}

/* Returns the offset for mmap() of a BO. Returns ~0 if the BO cannot be mapped. */
static u64 kfd_criu_bo_offset(u32 alloc_flags, u32 gpu_id, struct kgd_mem *mem)
{
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		return KFD_MMAP_TYPE_DOORBELL | KFD_MMAP_GPU_ID(gpu_id);
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
		return KFD_MMAP_TYPE_MMIO | KFD_MMAP_GPU_ID(gpu_id);
	if (kfd_criu_has_contents(alloc_flags))
		return amdgpu_bo_mmap_offset(mem->bo);
	return AMDGPU_CRIU_NO_OFFSET;
}

void kfd_criu_bo_entry(const void *from, struct amdgpu_criu_bo *entry)
{
	const struct kfd_criu_bo_record *record = from;

	*entry = (struct amdgpu_criu_bo) {
		.object_id = record->object_id, .size = record->size, .va = record->va,
		.mmap_offset = record->mmap_offset, .gpu_id = record->gpu_id,
		.handle = record->handle, .domain = record->domain, .flags = record->table_flags,
	};
}

/* Returns the bytes of address space that a mapped BO occupies */
static u64 kfd_criu_bo_va_size(const struct kfd_criu_bo_record *record)
{
	/* KFD maps AQL rings of old GPUs twice, see kfd_mem_attach(). */
	return record->size << !!(record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM);
}

static const char *kfd_criu_bo_uncarriable(const struct kgd_mem *mem)
{
	if (!amdgpu_criu_owner_object(&mem->bo->tbo.base))
		return "a BO of another driver";
	if (amdgpu_criu_object_has_importer(&mem->bo->tbo.base))
		return "a BO that another driver has imported";
	if (!mem->is_imported && mem->bo->kfd_bo != mem)
		return "a BO that belongs to another process";
	if (hweight32(mem->alloc_flags & KFD_CRIU_BO_KINDS) != 1 ||
	    (mem->alloc_flags & ~(KFD_CRIU_BO_KINDS | KFD_CRIU_BO_ATTRS)))
		return "a BO with unknown flags";
	return NULL;
}

static void kfd_criu_describe_bo(const struct kfd_process_device *pdd, int handle,
				 struct kgd_mem *mem, struct kfd_criu_bo_record *record)
{
	*record = (struct kfd_criu_bo_record) {
		.size = amdgpu_bo_size(mem->bo),
		.va = mem->va,
		.mmap_offset = kfd_criu_bo_offset(mem->alloc_flags, pdd->user_gpu_id, mem),
		.gpu_id = pdd->user_gpu_id,
		.handle = handle,
		.alloc_flags = mem->alloc_flags,
		.table_flags = kfd_criu_bo_kind(mem->alloc_flags)->table_flags,
		.domain = kfd_criu_bo_kind(mem->alloc_flags)->domain,
	};
	if (mem->is_imported) {
		record->flags |= KFD_CRIU_BO_IMPORTED;
		record->table_flags |= AMDGPU_CRIU_BO_IMPORTED;
	}
	/* KFD itself has one handle of each BO. */
	if (mem->is_imported || READ_ONCE(mem->bo->tbo.base.handle_count) > 1)
		record->table_flags |= AMDGPU_CRIU_BO_SHARED;
	if (mem->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		amdgpu_ttm_tt_get_userptr(&mem->bo->tbo, &record->user_addr);
}

static int kfd_criu_dump_bo(struct criu_dump *dump, const struct kfd_process_device *pdd,
			    int handle, struct kgd_mem *mem)
{
	struct kfd_process *p = dump->p;
	struct kfd_criu_bo_record record;
	u32 mapped[MAX_GPU_INSTANCE];
	const char *why = NULL;
	int ret;

	/* Only a pause refuses it: a running process may free the BO before it is paused. */
	if (!dump->live)
		why = kfd_criu_bo_uncarriable(mem);
	else if (!amdgpu_criu_owner_object(&mem->bo->tbo.base))
		return 0;
	if (why)
		return criu_refuse_state(dump->call, "%s (GPU %u, handle %d, flags %#x)", why,
					 pdd->user_gpu_id, handle, mem->alloc_flags);
	kfd_criu_describe_bo(pdd, handle, mem, &record);
	ret = !dump->session ? 0 : amdgpu_criu_object_id(dump->session, &mem->bo->tbo.base,
							 &record.object_id);
	if (ret)
		return ret;
	scoped_guard(mutex, &mem->lock)
		for (u32 i = 0; i < p->n_pdds; i++)
			if (p->pdds[i]->drm_priv &&
			    amdgpu_amdkfd_bo_mapped_to_dev(p->pdds[i]->drm_priv, mem))
				mapped[record.num_mapped++] = p->pdds[i]->user_gpu_id;
	criu_writer_record(&dump->writer, KFD_CRIU_BO, &record);
	criu_writer_tail_copy(&dump->writer, mapped, record.num_mapped * sizeof(mapped[0]));
	if (dump->bos)
		kfd_criu_bo_entry(&record, &dump->bos[dump->info.num_bos]);
	dump->info.num_bos++;
	return 0;
}

static int kfd_criu_dump_bos(struct criu_dump *dump)
{
	struct kfd_process *p = dump->p;
	struct kgd_mem *mem;
	int handle, ret = 0;

	for (u32 i = 0; i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle)
			ret = ret ?: kfd_criu_dump_bo(dump, p->pdds[i], handle, mem);
	return ret;
}

/* Makes the checks of AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, and compares the fields with each other. */
static const char *kfd_criu_bo_field_fault(const struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	const bool imported = record->flags & KFD_CRIU_BO_IMPORTED;
	const u32 flags = record->alloc_flags;
	const struct kfd_criu_bo_kind *kind = kfd_criu_bo_kind(flags);
	struct kfd_node *node = bo->device->pdd->dev;

	/* Walking an IDR that has the last id, INT_MAX, warns. */
	if (!record->object_id || record->handle >= INT_MAX)
		return "bad id or handle";
	/* The check refuses what a later kernel may have. */
	if (flags & ~(KFD_CRIU_BO_KINDS | KFD_CRIU_BO_ATTRS))
		return NULL;
	if (hweight32(flags & KFD_CRIU_BO_KINDS) != 1)
		return "flags of several kinds of BO";
	if (imported && !kfd_criu_has_contents(flags))
		return "imported, but of a kind that cannot be imported";
	if (record->domain != kind->domain ||
	    (record->table_flags & ~AMDGPU_CRIU_BO_SHARED) !=
	    (kind->table_flags | (imported ? AMDGPU_CRIU_BO_IMPORTED : 0)))
		return "domain or flags do not fit its kind";
	if (!record->size || !PAGE_ALIGNED(record->size) || record->size > BIT_ULL(48) ||
	    !PAGE_ALIGNED(record->va) || record->va > BIT_ULL(57))
		return "bad size or address";
	if (!record->va && record->num_mapped)
		return "mapped, but has no address";
	if (!(flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != !record->user_addr)
		return "bad user address";
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) &&
	    record->size != kfd_doorbell_process_slice(node->kfd))
		return "doorbells of another size";
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) && record->size != PAGE_SIZE)
		return "MMIO page of another size";
	return NULL;
}

static const char *kfd_criu_bo_fault(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_bo_record *record = entry;
	struct kfd_criu_plan_bo *bo = entry;
	const char *fault;

	bo->device = kfd_criu_plan_device(plan, record->gpu_id);
	if (!bo->device || !(bo->device->record.flags & KFD_CRIU_DEVICE_VM))
		return "on a GPU without a VM";
	fault = record->num_mapped > plan->num_devices ? "mapped twice on one GPU" :
							 kfd_criu_bo_field_fault(bo);
	for (u32 i = 0; !fault && i < record->num_mapped; i++) {
		const struct kfd_criu_plan_device *on = kfd_criu_plan_device(plan, bo->mapped[i]);

		if (!on || !(on->record.flags & KFD_CRIU_DEVICE_VM))
			fault = "mapped on a GPU without a VM";
		for (u32 j = 0; j < i; j++)
			if (bo->mapped[j] == bo->mapped[i])
				fault = "mapped twice on one GPU";
	}
	return fault;
}

static int kfd_criu_check_bo(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_bo_record *record = entry;
	const struct kfd_criu_plan_bo *bo = entry;
	const u32 flags = record->alloc_flags;
	struct kfd_node *node = bo->device->pdd->dev;

	if ((flags & ~(KFD_CRIU_BO_KINDS | KFD_CRIU_BO_ATTRS)) ||
	    (record->flags & ~KFD_CRIU_BO_IMPORTED) || record->pad)
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x, %#x", flags,
				   record->flags);
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) && (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) &&
	    !kfd_dev_is_large_bar(node))
		return criu_refuse(plan->call, -ENODEV,
				   "the CPU had access, GPU %u has a small BAR", node->id);
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) &&
	    (!node->adev->rmmio_remap.bus_addr || PAGE_SIZE > 4096))
		return criu_refuse(plan->call, -ENODEV, "GPU %u has no MMIO page", node->id);
	return 0;
}

/* Two BOs must not overlap on a GPU: amdgpu_vm_bo_map() would refuse the second. */
static struct criu_range kfd_criu_mapped_range(const struct criu_kind *kind, const void *entry,
					       u32 gpu_id)
{
	const struct kfd_criu_plan_bo *bo = entry;
	struct criu_range range = { .start = bo->record.va };

	for (u32 i = 0; i < bo->record.num_mapped; i++)
		if (bo->mapped[i] == gpu_id)
			range.size = kfd_criu_bo_va_size(&bo->record);
	return range;
}

/* A process may import a BO that it has allocated, and import a BO more than once. */
static struct criu_range kfd_criu_allocated_range(const struct criu_kind *kind, const void *entry,
						  u32 gpu_id)
{
	const struct kfd_criu_bo_record *record = entry;

	return (struct criu_range) {
		.start = record->object_id,
		.size = record->flags & KFD_CRIU_BO_IMPORTED ? 0 : 1,
	};
}

static int kfd_criu_check_bos(struct criu_plan *plan)
{
	const struct criu_kind_unique mapped = { kfd_criu_mapped_range, "it overlaps another" };
	int ret = 0;

	for (u32 i = 0; !ret && i < plan->num_devices; i++)
		ret = criu_check_ranges(plan->call, plan, &mapped, plan->devices[i].record.gpu_id);
	return ret ? ret : amdgpu_criu_bos_check(plan);
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
	if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		atomic64_add(record->size, &pdd->vram_usage);
	return 0;
}

/* Takes the path of AMDKFD_IOC_IMPORT_DMABUF. */
static int kfd_criu_take_bo(struct criu_plan *plan, struct kfd_criu_plan_bo *bo,
			    struct drm_gem_object *gem)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = NULL;
	const bool import = bo->record.flags & KFD_CRIU_BO_IMPORTED;
	struct kfd_process_device *pdd = bo->device->pdd;
	int ret;

	if (!import && gem_to_amdgpu_bo(gem)->kfd_bo)
		return criu_refuse(plan->call, -EBADMSG,
				   "it was restored before, and is allocated in another process, too");
	dmabuf = criu_session_dmabuf(plan->call->session, bo->record.object_id, false);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = amdgpu_amdkfd_gpuvm_import_dmabuf(pdd->dev->adev, dmabuf, bo->record.va,
						pdd->drm_priv, &bo->mem, NULL, NULL);
	return ret || import ? ret : kfd_criu_own_bo(bo);
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
	if (ret)
		bo->mem = NULL;
	else if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		atomic64_add(record->size, &pdd->vram_usage);
	return ret;
}

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
	const u64 id = bo->record.object_id;
	struct drm_device *dev = adev_to_drm(bo->device->pdd->dev->adev);
	struct drm_gem_object *found;
	int ret = amdgpu_criu_claim(plan->call, id,
				    bo->record.flags & KFD_CRIU_BO_IMPORTED ? NULL : dev,
				    kfd_criu_has_contents(bo->record.alloc_flags) ?
				    bo->record.size : 0, &found);

	if (ret)
		return ret;
	if (found) {
		ret = kfd_criu_take_bo(plan, bo, found);
		amdgpu_criu_bo_ops.put(found);
	} else {
		ret = kfd_criu_alloc_bo(bo);
		/* Other files import any BO that is bound, so it is complete now. */
		criu_session_bind(plan->call->session, id,
				  ret ? NULL : &bo->mem->bo->tbo.base);
		bo->bound = !ret;
	}
	return ret ? ret : kfd_criu_map_bo(plan, bo);
}

/* Leaves imports to kfd_criu_end_bos(): an import may refer to a BO that this plan allocates. */
static int kfd_criu_apply_bo(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_bo_record *record = entry;

	return record->flags & KFD_CRIU_BO_IMPORTED ? 0 : kfd_criu_create_bo(plan, entry);
}

static int kfd_criu_end_bos(struct criu_plan *plan, int ret)
{
	for (u32 i = 0; !ret && i < plan->num_bos; i++) {
		plan->call->entry = &plan->bos[i];
		if (plan->bos[i].record.flags & KFD_CRIU_BO_IMPORTED)
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
	const struct kfd_criu_bo_record *record = entry;
	struct kfd_criu_plan_bo *bo = entry;
	struct kfd_process_device *pdd = bo->device->pdd;
	struct kgd_mem *mem = bo->mem;
	u64 vram_size = 0;

	if (bo->bound)
		criu_session_forget(plan->call->session, record->object_id);
	if (!mem)
		return;
	/* The BO may stay in the session, where a repeated RESTORE can own it again. */
	if (!mem->is_imported && kfd_criu_has_contents(record->alloc_flags)) {
		if (record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
			atomic64_sub(record->size, &pdd->vram_usage);
		mem->is_imported = true;
		scoped_guard(mutex, &mem->bo->tbo.base.dev->object_name_lock)
			WRITE_ONCE(mem->bo->kfd_bo, NULL);
		amdgpu_amdkfd_unreserve_mem_limit(pdd->dev->adev, record->size,
						  record->alloc_flags, mem->bo->xcp_id);
	}
	for (u32 i = 0; i < record->num_mapped; i++) {
		struct kfd_process_device *peer = kfd_criu_plan_device(plan, bo->mapped[i])->pdd;

		if (amdgpu_amdkfd_bo_mapped_to_dev(peer->drm_priv, mem))
			amdgpu_amdkfd_gpuvm_unmap_memory_from_gpu(peer->dev->adev, mem,
								  peer->drm_priv);
	}
	/* SIGKILL has interrupted the call: the handle stays until the process ends. */
	if (amdgpu_amdkfd_gpuvm_free_memory_of_gpu(pdd->dev->adev, mem, pdd->drm_priv, &vram_size))
		return;
	if (idr_find(&pdd->alloc_idr, record->handle) == mem)
		idr_remove(&pdd->alloc_idr, record->handle);
	atomic64_sub(vram_size, &pdd->vram_usage);
}

const struct criu_kind kfd_criu_bos = {
	CRIU_KIND(KFD_CRIU_BO, bos, struct kfd_criu_plan_bo, record.handle),
	.subject = "BO %llu of GPU %u", .gpu = offsetof(struct kfd_criu_plan_bo, record.gpu_id),
	.live = true,
	.unique = { CRIU_UNIQUE_ID, { kfd_criu_allocated_range, "its object occurs twice" } },
	.tails = { CRIU_KIND_TAIL(struct kfd_criu_plan_bo, num_mapped, mapped, __u32) },
	.dump = kfd_criu_dump_bos,
	.fault = kfd_criu_bo_fault, .check = kfd_criu_check_bo, .check_all = kfd_criu_check_bos,
	.end = kfd_criu_end_bos,
	.apply = kfd_criu_apply_bo, .undo = kfd_criu_undo_bo,
};
