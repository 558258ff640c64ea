/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Accessors of amdgpu and DRM state that differ between releases.
 */
#ifndef _AMDGPU_CRIU_DRIVER_H_
#define _AMDGPU_CRIU_DRIVER_H_

#include <drm/drm_file.h>
#include <drm/drm_syncobj.h>
#include <drm/ttm/ttm_tt.h>
#include <linux/idr.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "amdgpu.h"
#include "amdgpu_gem.h"
#include "amdgpu_hmm.h"
#include "amdgpu_ids.h"
#include "amdgpu_ttm.h"

static inline bool amdgpu_criu_has_user_queues(struct amdgpu_fpriv *fpriv)
{
	return false;
}

/* Takes the path of AMDGPU_VM_OP_RESERVE_VMID. */
static inline int amdgpu_criu_reserve_vmid(struct amdgpu_device *adev, struct amdgpu_vm *vm)
{
	int ret = amdgpu_vmid_alloc_reserved(adev, AMDGPU_GFXHUB(0));

	vm->reserved_vmid[AMDGPU_GFXHUB(0)] = !ret;
	return ret;
}

static inline void amdgpu_criu_unreserve_vmid(struct amdgpu_device *adev, struct amdgpu_vm *vm)
{
	amdgpu_vmid_free_reserved(adev, AMDGPU_GFXHUB(0));
	vm->reserved_vmid[AMDGPU_GFXHUB(0)] = false;
}

/* This kernel does not support client names: it saves none, and ignores a saved name. */
static inline bool amdgpu_criu_has_client_name(struct drm_file *file)
{
	return false;
}

static inline void amdgpu_criu_get_client_name(struct drm_file *file, u8 *name, size_t size)
{
}

static inline int amdgpu_criu_set_client_name(struct drm_file *file, const u8 *name, size_t size)
{
	return 0;
}

static inline bool amdgpu_criu_has_syncobjs(struct drm_file *file)
{
	return !idr_is_empty(&file->syncobj_idr);
}

/* Return: the syncobj with the next higher handle, with a reference, or NULL. */
static inline struct drm_syncobj *amdgpu_criu_next_syncobj(struct drm_file *file,
							   unsigned long *handle)
{
	struct drm_syncobj *syncobj;

	++*handle;
	spin_lock(&file->syncobj_table_lock);
	syncobj = idr_get_next_ul(&file->syncobj_idr, handle);
	if (syncobj)
		drm_syncobj_get(syncobj);
	spin_unlock(&file->syncobj_table_lock);
	return syncobj;
}

/* Return: 0, and the reference passes to the handle; -EBUSY; -ENOMEM; -EOPNOTSUPP. */
static inline int amdgpu_criu_insert_syncobj(struct drm_file *file, struct drm_syncobj *syncobj,
					     u32 handle)
{
	u32 number = handle;
	int ret;

	/* The walk at close warns about a greater handle. */
	if (handle > INT_MAX)
		return -EOPNOTSUPP;
	idr_preload(GFP_KERNEL);
	spin_lock(&file->syncobj_table_lock);
	ret = idr_alloc_u32(&file->syncobj_idr, syncobj, &number, handle, GFP_NOWAIT);
	spin_unlock(&file->syncobj_table_lock);
	idr_preload_end();
	return ret == -ENOSPC ? -EBUSY : ret;
}

/* Return: the syncobj with the reference of the handle, or NULL. */
static inline struct drm_syncobj *amdgpu_criu_remove_syncobj(struct drm_file *file, u32 handle)
{
	struct drm_syncobj *syncobj;

	spin_lock(&file->syncobj_table_lock);
	syncobj = idr_remove(&file->syncobj_idr, handle);
	spin_unlock(&file->syncobj_table_lock);
	return syncobj;
}

/* This kernel computes the statistics when fdinfo is read. */
static inline void amdgpu_vm_bo_update_shared(struct amdgpu_bo *bo)
{
}

/* Converts AMDGPU_VM_PAGE_* to the flags that amdgpu_vm_bo_map() takes. */
static inline u64 amdgpu_criu_map_flags(struct amdgpu_device *adev, u32 flags)
{
	return amdgpu_gem_va_map_flags(adev, flags);
}

/* Returns the flags of DRM_AMDGPU_GEM_VA that result in the PTE bits of a mapping. */
static inline u32 amdgpu_criu_mapping_flags(struct amdgpu_device *adev,
					    const struct amdgpu_bo_va_mapping *mapping)
{
	u32 flags = 0, mtype;

	if (mapping->flags & AMDGPU_PTE_EXECUTABLE)
		flags |= AMDGPU_VM_PAGE_EXECUTABLE;
	if (mapping->flags & AMDGPU_PTE_READABLE)
		flags |= AMDGPU_VM_PAGE_READABLE;
	if (mapping->flags & AMDGPU_PTE_WRITEABLE)
		flags |= AMDGPU_VM_PAGE_WRITEABLE;
	if (mapping->flags & AMDGPU_PTE_PRT_FLAG(adev))
		flags |= AMDGPU_VM_PAGE_PRT;
	if (mapping->flags & AMDGPU_PTE_NOALLOC)
		flags |= AMDGPU_VM_PAGE_NOALLOC;
	for (mtype = AMDGPU_VM_MTYPE_DEFAULT; mtype <= AMDGPU_VM_MTYPE_RW;
	     mtype += AMDGPU_VM_MTYPE_NC)
		if (amdgpu_gem_va_map_flags(adev, flags | mtype) == mapping->flags)
			return flags | mtype;
	return flags;
}

/* Pages of a userptr. amdgpu_ttm_tt_get_user_pages() stores them in the BO itself. */
struct amdgpu_hmm_range {
	struct hmm_range *range;
};

static inline struct amdgpu_hmm_range *amdgpu_hmm_range_alloc(struct amdgpu_bo *bo)
{
	return kzalloc(sizeof(struct amdgpu_hmm_range), GFP_KERNEL);
}

static inline void amdgpu_hmm_range_free(struct amdgpu_hmm_range *range)
{
	if (range->range)
		amdgpu_hmm_range_get_pages_done(range->range);
	kfree(range);
}

static inline int amdgpu_criu_get_user_pages(struct amdgpu_bo *bo, struct amdgpu_hmm_range *range)
{
	return amdgpu_ttm_tt_get_user_pages(bo, bo->tbo.ttm->pages, &range->range);
}

static inline void amdgpu_criu_set_user_pages(struct ttm_tt *ttm, struct amdgpu_hmm_range *range)
{
}

#define amdgpu_ttm_tt_get_user_pages amdgpu_criu_get_user_pages
#define amdgpu_ttm_tt_set_user_pages amdgpu_criu_set_user_pages

#endif /* _AMDGPU_CRIU_DRIVER_H_ */
