/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Questions to amdgpu and DRM whose answers change from release to release.
 */
#ifndef _AMDGPU_CRIU_DRIVER_H_
#define _AMDGPU_CRIU_DRIVER_H_

#include <drm/drm_file.h>
#include <drm/drm_syncobj.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "amdgpu.h"
#include "amdgpu_hmm.h"
#include "amdgpu_ids.h"
#include "amdgpu_ttm.h"

static inline bool amdgpu_criu_has_user_queues(struct amdgpu_fpriv *fpriv)
{
	return !xa_empty(&fpriv->userq_mgr.userq_xa);
}

/* As AMDGPU_VM_OP_RESERVE_VMID. */
static inline int amdgpu_criu_reserve_vmid(struct amdgpu_device *adev, struct amdgpu_vm *vm)
{
	return amdgpu_vmid_alloc_reserved(adev, vm, AMDGPU_GFXHUB(0));
}

static inline void amdgpu_criu_unreserve_vmid(struct amdgpu_device *adev, struct amdgpu_vm *vm)
{
	amdgpu_vmid_free_reserved(adev, vm, AMDGPU_GFXHUB(0));
}

static inline bool amdgpu_criu_has_client_name(struct drm_file *file)
{
	return READ_ONCE(file->client_name);
}

/* Into @size bytes of zeros; no terminator if all of them are needed. */
static inline void amdgpu_criu_get_client_name(struct drm_file *file, u8 *name, size_t size)
{
	mutex_lock(&file->client_name_lock);
	if (file->client_name)
		memcpy(name, file->client_name, strnlen(file->client_name, size));
	mutex_unlock(&file->client_name_lock);
}

/* As DRM_IOCTL_SET_CLIENT_NAME. @name: NULL: none */
static inline int amdgpu_criu_set_client_name(struct drm_file *file, const u8 *name, size_t size)
{
	char *copy = name ? kmemdup_nul(name, strnlen(name, size), GFP_KERNEL) : NULL;

	if (name && !copy)
		return -ENOMEM;
	mutex_lock(&file->client_name_lock);
	kfree(file->client_name);
	file->client_name = copy;
	mutex_unlock(&file->client_name_lock);
	return 0;
}

static inline bool amdgpu_criu_has_syncobjs(struct drm_file *file)
{
	return !xa_empty(&file->syncobj_xa);
}

/* Return: the one with the next higher handle, or NULL. */
static inline struct drm_syncobj *amdgpu_criu_next_syncobj(struct drm_file *file,
							   unsigned long *handle)
{
	return xa_find_after(&file->syncobj_xa, handle, ULONG_MAX, XA_PRESENT);
}

/* Can a syncobj have this handle? */
static inline bool amdgpu_criu_has_syncobj_handle(u32 handle)
{
	return true;
}

/* Return: 0, and the reference is the handle's; -EBUSY; -ENOMEM. */
static inline int amdgpu_criu_insert_syncobj(struct drm_file *file, struct drm_syncobj *syncobj,
					     u32 handle)
{
	u32 number;

	return xa_alloc(&file->syncobj_xa, &number, syncobj, XA_LIMIT(handle, handle),
			GFP_KERNEL);
}

/* Return: with the reference that was the handle's, or NULL. */
static inline struct drm_syncobj *amdgpu_criu_remove_syncobj(struct drm_file *file, u32 handle)
{
	return xa_erase(&file->syncobj_xa, handle);
}

/* Flags of a mapping, as DRM_AMDGPU_GEM_VA has them. */
static inline u32 amdgpu_criu_mapping_flags(struct amdgpu_device *adev,
					    const struct amdgpu_bo_va_mapping *mapping)
{
	return mapping->flags;
}

/* The other way round: what amdgpu_vm_bo_map() takes. */
static inline u64 amdgpu_criu_map_flags(struct amdgpu_device *adev, u32 flags)
{
	return flags;
}

#endif /* _AMDGPU_CRIU_DRIVER_H_ */
