// SPDX-License-Identifier: GPL-2.0 OR MIT
/* BOs of a plan: find them in the session or create them, and create their GEM handles. */
#include <linux/dma-buf.h>
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_prime.h>

#include "amdgpu.h"
#include "amdgpu_criu_object.h"
#include "amdgpu_criu_render.h"
#include "amdgpu_dma_buf.h"
#include "amdgpu_object.h"
#include "amdgpu_ttm.h"

/* Fails if the id refers to a different BO in this blob than in the blob it was created from. */
static int amdgpu_criu_object_fits(const struct amdgpu_criu_plan *plan,
				   const struct amdgpu_criu_object_record *record,
				   struct drm_gem_object *owner)
{
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(owner);
	const char *why = NULL;

	if ((record->create_flags | bo->flags) & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		why = "belongs to the VM of another file";
	else if ((record->flags & AMDGPU_CRIU_OBJECT_USERPTR) ||
		 amdgpu_ttm_tt_get_usermm(bo->tbo.ttm))
		why = "is memory of another process";
	else if (amdgpu_bo_size(bo) != record->size)
		why = "has another size";
	if (why)
		return criu_refuse(plan->call, -EBADMSG, "BO %llu was restored before, and %s",
				   record->object_id, why);
	if (record->device == plan->file_record.device && owner->dev != adev_to_drm(plan->adev))
		return criu_refuse(plan->call, -ENODEV,
				   "BO %llu was restored before, on another GPU",
				   record->object_id);
	return 0;
}

/* The caller has an open claim. An error closes it. */
static int amdgpu_criu_object_create(struct amdgpu_criu_plan *plan,
				     struct amdgpu_criu_plan_object *object)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	struct dma_buf *dmabuf;
	int ret = amdgpu_criu_create_bo(plan, object, &object->gem);

	if (ret)
		goto err_forget;
	/* Export with the flags of the process, before another caller can export the BO. */
	if (record->flags & AMDGPU_CRIU_OBJECT_EXPORTED) {
		dmabuf = amdgpu_gem_prime_export(object->gem, record->flags &
						 AMDGPU_CRIU_OBJECT_EXPORTED_RDWR ? DRM_RDWR : 0);
		if (IS_ERR(dmabuf)) {
			ret = PTR_ERR(dmabuf);
			goto err_put;
		}
		criu_session_exported(plan->session, record->object_id, dmabuf);
		dma_buf_put(dmabuf);
	}
	ret = criu_session_bind(plan->session, record->object_id, object->gem);
	if (ret)
		goto err_put;
	object->bound = true;
	return 0;

err_put:
	drm_gem_object_put(object->gem);
	object->gem = NULL;
err_forget:
	criu_session_forget(plan->session, record->object_id);
	return ret;
}

static int amdgpu_criu_object_find(struct amdgpu_criu_plan *plan,
				   const struct amdgpu_criu_object_record *record, void **owner)
{
	int ret;

	if (record->device == plan->file_record.device)
		return criu_session_claim(plan->session, record->object_id,
					  &amdgpu_criu_bo_ops, owner);
	ret = criu_session_find(plan->session, record->object_id, &amdgpu_criu_bo_ops, owner);
	if (ret != -ENOENT)
		return ret;
	return criu_refuse(plan->call, -EBADFD,
			   "BO %llu is of GPU %u: EXPORTED there must create it first",
			   record->object_id, record->gpu_id);
}

/*
 * Finds the BO of a plan in the session, or creates it. Returns 0; -EBADMSG or -ENODEV if another
 * file has restored a different BO with the id; -EBADFD if the BO belongs to another GPU and does
 * not exist; errors of criu_session_claim() and amdgpu_criu_create_bo().
 */
int amdgpu_criu_object_get(struct amdgpu_criu_plan *plan, struct amdgpu_criu_plan_object *object)
{
	void *found;
	int ret = amdgpu_criu_object_find(plan, &object->record, &found);

	if (ret)
		return ret;
	if (!found)
		return amdgpu_criu_object_create(plan, object);
	ret = amdgpu_criu_object_fits(plan, &object->record, found);
	if (!ret && ((struct drm_gem_object *)found)->dev == adev_to_drm(plan->adev)) {
		object->gem = found;
		drm_gem_object_get(object->gem);
	}
	amdgpu_criu_bo_ops.put(found);
	return ret;
}

/* Undoes amdgpu_criu_object_get() if it succeeded. @object: the BO; its handles are closed. */
void amdgpu_criu_object_put(struct amdgpu_criu_plan *plan, struct amdgpu_criu_plan_object *object)
{
	if (object->bound)
		criu_session_forget(plan->session, object->record.object_id);
	object->bound = false;
	if (object->gem)
		drm_gem_object_put(object->gem);
	object->gem = NULL;
}

/*
 * Sets the state as after a PRIME import: the BO points to the dma-buf, and the file's table
 * maps the dma-buf to its handle.
 */
static int amdgpu_criu_enter_import(struct drm_file *file, struct drm_gem_object *gem,
				    struct dma_buf *dmabuf, u32 handle)
{
	struct drm_device *dev = file->minor->dev;
	struct dma_buf *entered;

	mutex_lock(&dev->object_name_lock);
	if (!gem->dma_buf) {
		get_dma_buf(dmabuf);
		gem->dma_buf = dmabuf;
	}
	mutex_unlock(&dev->object_name_lock);
	entered = drm_gem_prime_handle_to_dmabuf(dev, file, handle, 0);
	if (IS_ERR(entered))
		return PTR_ERR(entered);
	dma_buf_put(entered);
	return entered == dmabuf ? 0 : -EBUSY;
}

/* Imports without a descriptor, which the process could see and close. */
static int amdgpu_criu_object_import(struct amdgpu_criu_plan *plan,
				     struct amdgpu_criu_plan_object *object,
				     struct dma_buf *dmabuf, u32 *handle)
{
	struct drm_gem_object *gem;
	int ret;

	/* An import returns the existing handle of the file for the dma-buf. */
	if (object->prime_handle) {
		*handle = object->prime_handle;
		return 0;
	}
	gem = amdgpu_gem_prime_import(plan->file->minor->dev, dmabuf);
	if (IS_ERR(gem))
		return PTR_ERR(gem);
	ret = drm_gem_handle_create(plan->file, gem, handle);
	if (ret)
		goto err_put;
	ret = amdgpu_criu_enter_import(plan->file, gem, dmabuf, *handle);
	if (ret)
		goto err_delete;
	object->prime_handle = *handle;
	if (object->gem)
		drm_gem_object_put(gem);
	else
		object->gem = gem;
	return 0;

err_delete:
	drm_gem_handle_delete(plan->file, *handle);
err_put:
	drm_gem_object_put(gem);
	return ret;
}

/*
 * Creates a GEM handle of a BO. Follows the code path of DRM_IOCTL_PRIME_FD_TO_HANDLE for a BO
 * that was exported or found, so that an import of the dma-buf returns the same handle as before
 * the checkpoint.
 */
int amdgpu_criu_object_handle(struct amdgpu_criu_plan *plan,
			      struct amdgpu_criu_plan_object *object, u32 *handle)
{
	struct dma_buf *dmabuf;
	int ret;

	if (object->bound && !(object->record.flags & AMDGPU_CRIU_OBJECT_EXPORTED))
		return drm_gem_handle_create(plan->file, object->gem, handle);
	dmabuf = criu_session_dmabuf(plan->session, object->record.object_id);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = amdgpu_criu_object_import(plan, object, dmabuf, handle);
	dma_buf_put(dmabuf);
	return ret;
}
