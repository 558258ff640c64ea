// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * BOs that the process has allocated by AMDKFD_IOC_ALLOC_MEMORY_OF_GPU or imported by
 * AMDKFD_IOC_IMPORT_DMABUF, and their mappings. The blob does not contain the contents:
 * user space copies them through the dma-buf of each BO.
 */
#include "amdgpu_amdkfd.h"
#include "amdgpu_object.h"
#include "kfd_criu.h"

#define KFD_CRIU_NO_OFFSET (~0ULL)

static bool kfd_criu_has_contents(u32 alloc_flags)
{
	return alloc_flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT);
}

/* Returns the domain for the BO table */
u32 kfd_criu_bo_domain(u32 alloc_flags)
{
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		return AMDGPU_CRIU_DOMAIN_VRAM;
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT)
		return AMDGPU_CRIU_DOMAIN_GTT;
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return AMDGPU_CRIU_DOMAIN_CPU;
	return AMDGPU_CRIU_DOMAIN_NONE;
}

/* Returns the flags for the BO table without AMDGPU_CRIU_BO_SHARED */
u32 kfd_criu_bo_table_flags(u32 alloc_flags)
{
	u32 flags = 0;

	if (kfd_criu_has_contents(alloc_flags))
		flags |= AMDGPU_CRIU_BO_CONTENTS;
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		flags |= AMDGPU_CRIU_BO_USERPTR;
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		flags |= AMDGPU_CRIU_BO_DOORBELL;
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
		flags |= AMDGPU_CRIU_BO_MMIO;
	return flags;
}

/* Returns the offset for mmap() of a BO. Returns ~0 if the BO cannot be mapped. */
u64 kfd_criu_bo_offset(u32 alloc_flags, u32 gpu_id, struct kgd_mem *mem)
{
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
		return KFD_MMAP_TYPE_DOORBELL | KFD_MMAP_GPU_ID(gpu_id);
	if (alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
		return KFD_MMAP_TYPE_MMIO | KFD_MMAP_GPU_ID(gpu_id);
	if (kfd_criu_has_contents(alloc_flags))
		return amdgpu_bo_mmap_offset(mem->bo);
	return KFD_CRIU_NO_OFFSET;
}

/* Fills the entry of the BO table for a record */
void kfd_criu_bo_entry(const struct kfd_criu_bo_record *record, struct amdgpu_criu_bo *entry)
{
	*entry = (struct amdgpu_criu_bo) {
		.object_id = record->object_id,
		.size = record->size,
		.va = record->va,
		.mmap_offset = record->mmap_offset,
		.gpu_id = record->gpu_id,
		.handle = record->handle,
		.domain = record->domain,
		.flags = record->table_flags,
	};
}

/* Returns the bytes of address space that a mapped BO occupies */
u64 kfd_criu_bo_va_size(const struct kfd_criu_bo_record *record)
{
	/* KFD maps AQL rings of old GPUs twice, see kfd_mem_attach(). */
	return record->size << !!(record->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM);
}

static int kfd_criu_bo_carriable(struct kfd_criu_dump *dump, u32 gpu_id, int handle,
				 const struct kgd_mem *mem)
{
	const char *why = NULL;

	if (!amdgpu_criu_owner_object(&mem->bo->tbo.base))
		why = "a BO of another driver";
	else if (amdgpu_criu_object_has_importer(&mem->bo->tbo.base))
		why = "a BO that another driver has imported";
	else if (!mem->is_imported && mem->bo->kfd_bo != mem)
		why = "a BO that belongs to another process";
	else if (hweight32(mem->alloc_flags & KFD_CRIU_BO_KINDS) != 1 ||
		 (mem->alloc_flags & ~(KFD_CRIU_BO_KINDS | KFD_CRIU_BO_ATTRS)))
		why = "a BO with unknown flags";
	if (!why)
		return 0;
	return criu_refuse(dump->out.call, -EOPNOTSUPP,
			   "cannot carry: %s (GPU %u, handle %d, flags %#x)", why, gpu_id, handle,
			   mem->alloc_flags);
}

static int kfd_criu_describe_bo(struct kfd_criu_dump *dump, const struct kfd_process_device *pdd,
				int handle, struct kgd_mem *mem,
				struct kfd_criu_bo_record *record)
{
	struct drm_gem_object *gem = &mem->bo->tbo.base;
	int ret;

	*record = (struct kfd_criu_bo_record) {
		.size = amdgpu_bo_size(mem->bo),
		.va = mem->va,
		.mmap_offset = kfd_criu_bo_offset(mem->alloc_flags, pdd->user_gpu_id, mem),
		.gpu_id = pdd->user_gpu_id,
		.handle = handle,
		.alloc_flags = mem->alloc_flags,
		.table_flags = kfd_criu_bo_table_flags(mem->alloc_flags),
		.domain = kfd_criu_bo_domain(mem->alloc_flags),
	};
	if (mem->is_imported) {
		record->flags |= KFD_CRIU_BO_IMPORTED;
		record->table_flags |= AMDGPU_CRIU_BO_IMPORTED;
	}
	/* KFD itself has one handle of each BO. */
	if (mem->is_imported || READ_ONCE(gem->handle_count) > 1)
		record->table_flags |= AMDGPU_CRIU_BO_SHARED;
	if (mem->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		ret = amdgpu_ttm_tt_get_userptr(&mem->bo->tbo, &record->user_addr);
		if (ret)
			return ret;
	}
	if (!dump->out.session)
		return 0;
	return amdgpu_criu_object_id(dump->out.session, gem, &record->object_id);
}

static int kfd_criu_dump_bo(struct kfd_criu_dump *dump, const struct kfd_process_device *pdd,
			    int handle, struct kgd_mem *mem)
{
	struct kfd_process *p = dump->p;
	struct kfd_criu_bo_record record;
	u32 mapped[MAX_GPU_INSTANCE];
	int ret = 0;

	/* The refusal is for the pause: a running process may be about to drop the BO. */
	if (!dump->out.live)
		ret = kfd_criu_bo_carriable(dump, pdd->user_gpu_id, handle, mem);
	else if (!amdgpu_criu_owner_object(&mem->bo->tbo.base))
		return 0;
	if (ret)
		return ret;
	ret = kfd_criu_describe_bo(dump, pdd, handle, mem, &record);
	if (ret)
		return ret;
	mutex_lock(&mem->lock);
	for (u32 i = 0; i < p->n_pdds; i++)
		if (p->pdds[i]->drm_priv &&
		    amdgpu_amdkfd_bo_mapped_to_dev(p->pdds[i]->drm_priv, mem))
			mapped[record.num_mapped++] = p->pdds[i]->user_gpu_id;
	mutex_unlock(&mem->lock);
	criu_writer_record(&dump->out.writer, KFD_CRIU_BO, &record);
	criu_writer_tail_copy(&dump->out.writer, mapped, record.num_mapped * sizeof(mapped[0]));
	if (dump->out.bos)
		kfd_criu_bo_entry(&record, &dump->out.bos[dump->out.num_bos]);
	dump->out.num_bos++;
	return 0;
}

int kfd_criu_dump_bos(struct kfd_criu_dump *dump)
{
	struct kfd_process *p = dump->p;
	struct kgd_mem *mem;
	int handle;
	int ret;

	for (u32 i = 0; i < p->n_pdds; i++) {
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle) {
			ret = kfd_criu_dump_bo(dump, p->pdds[i], handle, mem);
			if (ret)
				return ret;
		}
	}
	return 0;
}
