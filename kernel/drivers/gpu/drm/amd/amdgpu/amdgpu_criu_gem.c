// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: BOs and userptrs
 *
 * Carried: create flags, placement, metadata and tiling of BOs in VRAM, GTT, CPU, GDS, GWS, OA and
 * of doorbells; all flags of userptrs, which RESUME attaches to the new memory. User space copies
 * the contents of BOs through a dma-buf of each.
 *
 * Not carried: encrypted BOs, BOs of other drivers, or that other drivers have imported; userptrs
 * that another process has attached, or that were never attached.
 */
#include <linux/dma-buf.h>

#include "amdgpu_criu_render.h"

/* Adds a BO, unless it is there. */
int amdgpu_criu_add_object(struct criu_dump *dump, struct drm_gem_object *gem, u32 handle)
{
	struct amdgpu_criu_dump_object *object = kzalloc_obj(*object, GFP_KERNEL_ACCOUNT);
	int ret;

	if (!object)
		return -ENOMEM;
	ret = xa_insert(&dump->by_gem, (unsigned long)gem, object, GFP_KERNEL_ACCOUNT);
	if (ret) {
		kfree(object);
		return ret == -EBUSY ? 0 : ret;
	}
	drm_gem_object_get(gem);
	object->gem = gem;
	object->handle = handle;
	list_add_tail(&object->of_dump, &dump->objects);
	return 0;
}

void amdgpu_criu_drop_objects(struct criu_dump *dump)
{
	struct amdgpu_criu_dump_object *object, *next;

	list_for_each_entry_safe(object, next, &dump->objects, of_dump) {
		drm_gem_object_put(object->gem);
		kfree(object);
	}
	xa_destroy(&dump->by_gem);
}

/* Gets the id of a BO in the session. Fails with -EOPNOTSUPP if it is not one of the file. */
int amdgpu_criu_dump_object_id(struct criu_dump *dump, struct drm_gem_object *gem, u64 *id)
{
	const struct amdgpu_criu_dump_object *object = xa_load(&dump->by_gem, (unsigned long)gem);

	*id = object ? object->id : 0;
	return object ? 0 : -EOPNOTSUPP;
}

u32 amdgpu_criu_object_domain(const struct amdgpu_criu_object_record *record)
{
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR)
		return AMDGPU_CRIU_DOMAIN_CPU;
	if (record->preferred_domains & AMDGPU_CRIU_SPECIAL_DOMAINS)
		return AMDGPU_CRIU_DOMAIN_NONE;
	if (record->preferred_domains & AMDGPU_GEM_DOMAIN_VRAM)
		return AMDGPU_CRIU_DOMAIN_VRAM;
	return AMDGPU_CRIU_DOMAIN_GTT;
}

/* Returns the flags for the BO table, except those that depend on other files. */
u32 amdgpu_criu_object_table_flags(const struct amdgpu_criu_object_record *record)
{
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR)
		return AMDGPU_CRIU_BO_USERPTR;
	if (record->preferred_domains & AMDGPU_GEM_DOMAIN_DOORBELL)
		return AMDGPU_CRIU_BO_DOORBELL;
	/* GDS, GWS and OA are assigned for each submission. */
	if (record->preferred_domains & AMDGPU_CRIU_SPECIAL_DOMAINS)
		return 0;
	return AMDGPU_CRIU_BO_CONTENTS;
}

void amdgpu_criu_object_entry(const void *from, struct amdgpu_criu_bo *entry)
{
	const struct amdgpu_criu_object_record *record = from;

	*entry = (struct amdgpu_criu_bo) {
		.object_id = record->object_id,
		.size = record->size,
		.mmap_offset = record->mmap_offset,
		.gpu_id = record->gpu_id,
		.handle = record->handle,
		.domain = record->domain,
		.flags = record->table_flags,
	};
}

/* Returns the offset of AMDGPU_GEM_MMAP, or ~0 if the BO cannot be mapped. */
u64 amdgpu_criu_object_offset(struct drm_gem_object *gem)
{
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(gem);

	if ((bo->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS) || amdgpu_ttm_tt_get_usermm(bo->tbo.ttm))
		return AMDGPU_CRIU_NO_OFFSET;
	return amdgpu_bo_mmap_offset(bo);
}

/* Returns the memory that a userptr is attached to, without a new reference, or NULL. */
struct mm_struct *amdgpu_criu_userptr_mm(const struct amdgpu_bo *bo)
{
#ifdef CONFIG_MMU_NOTIFIER
	return bo->notifier.mm;
#else
	return NULL;
#endif
}

static const char *amdgpu_criu_bo_fault(const struct criu_dump *dump,
					struct drm_gem_object *gem, struct drm_gem_object *owner)
{
	const struct mm_struct *mm;
	struct amdgpu_bo *bo;

	if (!owner)
		return "a BO of another driver";
	bo = gem_to_amdgpu_bo(owner);
	mm = amdgpu_criu_userptr_mm(bo);
	if (bo->flags & AMDGPU_GEM_CREATE_ENCRYPTED)
		return "an encrypted BO";
	if (bo->tbo.type == ttm_bo_type_kernel)
		return "a BO of the kernel";
	if (amdgpu_criu_object_has_importer(gem))
		return "a BO that another driver has imported";
	if (!amdgpu_ttm_tt_is_userptr(bo->tbo.ttm))
		return amdgpu_ttm_tt_get_usermm(bo->tbo.ttm) ? "a userptr at address 0" : NULL;
	if (!mm)
		return "a userptr that was never attached";
	return mm == dump->mm ? NULL : "a userptr of another process";
}

/* Records the state of the BO outside of the file: KFD, and the dma-buf. */
static void amdgpu_criu_describe_sharing(const struct criu_dump *dump, struct amdgpu_bo *bo,
					 struct amdgpu_criu_object_record *record)
{
	struct drm_gem_object *gem = &bo->tbo.base;
	const struct dma_buf *dmabuf;

	if (bo->kfd_bo)
		record->kfd_flags = bo->kfd_bo->alloc_flags;
	/* Read without the reservation: other GPUs may attach and detach at any time. */
	guard(mutex)(&gem->dev->object_name_lock);
	dmabuf = dump->exported ?: gem->dma_buf;
	if (dmabuf) {
		record->flags |= AMDGPU_CRIU_OBJECT_EXPORTED;
		if (dmabuf->file->f_mode & FMODE_WRITE)
			record->flags |= AMDGPU_CRIU_OBJECT_EXPORTED_RDWR;
	}
	if (dump->exported || gem->handle_count > 1 ||
	    (dmabuf && !list_empty_careful(&dmabuf->attachments)))
		record->table_flags |= AMDGPU_CRIU_BO_SHARED;
}

/* The caller has reserved the BO. A BO of no partition counts as one of the file's. */
static void amdgpu_criu_describe_bo(const struct criu_dump *dump, struct amdgpu_bo *bo,
				    struct amdgpu_criu_object_record *record)
{
	struct amdgpu_device *adev = amdgpu_ttm_adev(bo->tbo.bdev);

	record->size = amdgpu_bo_size(bo);
	record->device = amdgpu_criu_device_of(adev);
	record->gpu_id = amdgpu_criu_gpu_id(adev, bo->xcp_id < 0 && adev == dump->adev ?
						  dump->fpriv->xcp_id : bo->xcp_id);
	if (dump->fpriv && (adev != dump->adev ||
			    record->gpu_id != amdgpu_criu_gpu_id(adev, dump->fpriv->xcp_id)))
		record->table_flags |= AMDGPU_CRIU_BO_IMPORTED | AMDGPU_CRIU_BO_SHARED;
	/* The driver uses the other flags internally, and sets them again when it needs them. */
	record->create_flags = bo->flags & AMDGPU_GEM_CREATE_SETTABLE_MASK;
	record->alignment = bo->tbo.page_alignment;
	if (!(bo->preferred_domains & AMDGPU_CRIU_UNIT_DOMAINS))
		record->alignment <<= PAGE_SHIFT;
	record->preferred_domains = bo->preferred_domains;
	record->allowed_domains = bo->allowed_domains;
	if (bo->tbo.resource)
		record->placement = amdgpu_mem_type_to_domain(bo->tbo.resource->mem_type);
	amdgpu_bo_get_tiling_flags(bo, &record->tiling_flags);
	amdgpu_bo_get_metadata(bo, NULL, 0, &record->metadata_size, &record->metadata_flags);
	if (amdgpu_ttm_tt_is_userptr(bo->tbo.ttm)) {
		amdgpu_ttm_tt_get_userptr(&bo->tbo, &record->user_addr);
		record->user_flags = amdgpu_ttm_tt_get_userflags(bo->tbo.ttm);
		record->flags |= AMDGPU_CRIU_OBJECT_USERPTR;
	}
	record->domain = amdgpu_criu_object_domain(record);
	record->table_flags |= amdgpu_criu_object_table_flags(record);
}

static int amdgpu_criu_dump_object(struct criu_dump *dump, struct amdgpu_criu_dump_object *object)
{
	struct drm_gem_object *owner = amdgpu_criu_owner_object(object->gem);
	struct amdgpu_criu_object_record record = { .handle = object->handle };
	struct criu_session *session = dump->session;
	const char *fault = NULL;
	struct amdgpu_bo *bo;
	void *tail;
	int ret = 0;

	/* Only a pause refuses it: a running process may free the BO before it is paused. */
	if (!dump->live && !dump->exported)
		fault = amdgpu_criu_bo_fault(dump, object->gem, owner);
	else if (!owner)
		return 0;
	if (fault && object->handle)
		return criu_refuse_state(dump->call, "%s (handle %u)", fault, object->handle);
	if (fault)
		return criu_refuse_state(dump->call, "%s (in a BO list)", fault);
	if (session)
		ret = amdgpu_criu_object_id(session, object->gem, &object->id);
	if (ret)
		return ret;
	record.object_id = object->id;
	record.mmap_offset = amdgpu_criu_object_offset(object->gem);
	if (dump->exported && session && !amdgpu_criu_is_copy(dump->exported))
		criu_session_exported(session, object->id, dump->exported);
	bo = gem_to_amdgpu_bo(owner);
	amdgpu_criu_describe_sharing(dump, bo, &record);
	ret = amdgpu_bo_reserve(bo, false);
	if (ret)
		return ret;
	amdgpu_criu_describe_bo(dump, bo, &record);
	criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_OBJECT, &record);
	tail = criu_writer_tail(&dump->writer, record.metadata_size);
	if (tail)
		amdgpu_bo_get_metadata(bo, tail, record.metadata_size, NULL, NULL);
	amdgpu_bo_unreserve(bo);
	if (dump->bos)
		amdgpu_criu_object_entry(&record, &dump->bos[dump->info.num_bos]);
	dump->info.num_bos++;
	return 0;
}

int amdgpu_criu_dump_objects(struct criu_dump *dump)
{
	struct amdgpu_criu_dump_object *object;
	int ret = 0;

	list_for_each_entry(object, &dump->objects, of_dump)
		if (!ret)
			ret = amdgpu_criu_dump_object(dump, object);
	return ret;
}
