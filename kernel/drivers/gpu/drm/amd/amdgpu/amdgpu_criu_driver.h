/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Interfaces of amdgpu and DRM that differ between kernel releases. */
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

/* Does what AMDGPU_VM_OP_RESERVE_VMID does. */
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

/* @name: @size zero bytes. The name is not terminated if it fills them. */
static inline void amdgpu_criu_get_client_name(struct drm_file *file, u8 *name, size_t size)
{
	mutex_lock(&file->client_name_lock);
	if (file->client_name)
		memcpy(name, file->client_name, strnlen(file->client_name, size));
	mutex_unlock(&file->client_name_lock);
}

/* Does what DRM_IOCTL_SET_CLIENT_NAME does. @name: NULL removes the name. */
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

/* Returns the syncobj with the next higher handle, with a reference, or NULL. */
static inline struct drm_syncobj *amdgpu_criu_next_syncobj(struct drm_file *file,
							   unsigned long *handle)
{
	struct drm_syncobj *syncobj;

	xa_lock(&file->syncobj_xa);
	syncobj = xa_find_after(&file->syncobj_xa, handle, ULONG_MAX, XA_PRESENT);
	if (syncobj)
		drm_syncobj_get(syncobj);
	xa_unlock(&file->syncobj_xa);
	return syncobj;
}

/* Returns 0, and the handle owns the reference; -EBUSY; -ENOMEM. */
static inline int amdgpu_criu_insert_syncobj(struct drm_file *file, struct drm_syncobj *syncobj,
					     u32 handle)
{
	u32 number;

	return xa_alloc(&file->syncobj_xa, &number, syncobj, XA_LIMIT(handle, handle),
			GFP_KERNEL);
}

/* Returns the syncobj with the reference of the handle, or NULL. */
static inline struct drm_syncobj *amdgpu_criu_remove_syncobj(struct drm_file *file, u32 handle)
{
	return xa_erase(&file->syncobj_xa, handle);
}

/* Converts the flags of a mapping to flags of DRM_AMDGPU_GEM_VA. */
static inline u32 amdgpu_criu_mapping_flags(struct amdgpu_device *adev,
					    const struct amdgpu_bo_va_mapping *mapping)
{
	return mapping->flags;
}

/* Converts flags of DRM_AMDGPU_GEM_VA to flags of amdgpu_vm_bo_map(). */
static inline u64 amdgpu_criu_map_flags(struct amdgpu_device *adev, u32 flags)
{
	return flags;
}

#endif /* _AMDGPU_CRIU_DRIVER_H_ */
