// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * BOs of a plan: found in the session or created, and their GEM handles.
 */
#include <linux/dma-buf.h>
#include <linux/fcntl.h>
#include <linux/fdtable.h>
#include <linux/file.h>
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

/* An id that stands for something else in a blob than in the one it was created from? */
static int amdgpu_criu_object_fits(const struct amdgpu_criu_plan *plan,
				   const struct amdgpu_criu_object_record *record,
				   struct drm_gem_object *home)
{
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(home);
	const char *why = NULL;

	if ((record->create_flags | bo->flags) & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		why = "belongs to the VM of another file";
	else if ((record->flags & AMDGPU_CRIU_OBJECT_USERPTR) ||
		 amdgpu_ttm_tt_get_usermm(bo->tbo.ttm))
		why = "is memory of another process";
	else if (amdgpu_bo_size(bo) != record->size)
		why = "has another size";
	if (why) {
		criu_refuse(plan->call, "BO %llu was restored before, and %s",
			    record->object_id, why);
		return -EBADMSG;
	}
	if (record->device == plan->file_record.device && home->dev != adev_to_drm(plan->adev)) {
		criu_refuse(plan->call, "BO %llu was restored before, on another GPU",
			    record->object_id);
		return -ENODEV;
	}
	return 0;
}

/* The claim is open; it is closed in case of an error, too. */
static int amdgpu_criu_object_create(struct amdgpu_criu_plan *plan,
				     struct amdgpu_criu_plan_object *object)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	struct dma_buf *dmabuf;
	int ret;

	ret = amdgpu_criu_create_bo(plan, object, &object->gem);
	if (ret)
		goto err_forget;
	/* With the flags that the process has asked for, before anybody else can ask. */
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
				   const struct amdgpu_criu_object_record *record, void **home)
{
	int ret;

	if (record->device == plan->file_record.device)
		return criu_session_claim(plan->session, record->object_id,
					  &amdgpu_criu_bo_ops, home);
	ret = criu_session_find(plan->session, record->object_id, &amdgpu_criu_bo_ops, home);
	if (ret != -ENOENT)
		return ret;
	criu_refuse(plan->call, "BO %llu is of GPU %u: EXPORTED there must create it first",
		    record->object_id, record->gpu_id);
	return -EBADFD;
}

/**
 * amdgpu_criu_object_get() - find the BO of a plan in the session, or create it
 * @plan: the plan
 * @object: the BO; its @gem is set afterwards, unless it is of another GPU: then
 *	amdgpu_criu_object_handle() sets it
 *
 * Return: 0; -EBADMSG, -ENODEV if another file has restored something else under the
 * id; -EBADFD if it is of another GPU and not there; as criu_session_claim() and
 * amdgpu_criu_create_bo().
 */
int amdgpu_criu_object_get(struct amdgpu_criu_plan *plan, struct amdgpu_criu_plan_object *object)
{
	void *found;
	int ret;

	ret = amdgpu_criu_object_find(plan, &object->record, &found);
	if (ret)
		return ret;
	if (!found)
		return amdgpu_criu_object_create(plan, object);
	ret = amdgpu_criu_object_fits(plan, &object->record, found);
	if (!ret && ((struct drm_gem_object *)found)->dev == adev_to_drm(plan->adev))
		object->gem = found;
	else
		drm_gem_object_put(found);
	return ret;
}

/**
 * amdgpu_criu_object_put() - undo amdgpu_criu_object_get(), if it was done
 * @plan: the plan
 * @object: the BO; its handles are gone
 */
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
 * PRIME imports from a descriptor. While it is there another thread may put another
 * dma-buf in its place: the caller looks at what comes out.
 */
static int amdgpu_criu_import(struct drm_file *file, struct dma_buf *dmabuf, u32 *handle)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);
	int ret;

	if (fd < 0)
		return fd;
	get_dma_buf(dmabuf);
	fd_install(fd, dmabuf->file);
	ret = drm_gem_prime_fd_to_handle(file->minor->dev, file, fd, handle);
	close_fd(fd);
	return ret;
}

static int amdgpu_criu_object_import(struct amdgpu_criu_plan *plan,
				     struct amdgpu_criu_plan_object *object,
				     struct dma_buf *dmabuf, u32 *handle)
{
	struct drm_gem_object *gem;
	int ret;

	ret = amdgpu_criu_import(plan->file, dmabuf, handle);
	if (ret)
		return ret;
	gem = drm_gem_object_lookup(plan->file, *handle);
	if (!gem)
		return -EBADF;
	if (amdgpu_criu_object_home(gem) != dmabuf->priv || (object->gem && object->gem != gem)) {
		drm_gem_object_put(gem);
		drm_gem_handle_delete(plan->file, *handle);
		return -EBADF;
	}
	if (object->gem)
		drm_gem_object_put(gem);
	else
		object->gem = gem;
	return 0;
}

/**
 * amdgpu_criu_object_handle() - make a GEM handle of a BO
 * @plan: the plan
 * @object: the BO, after amdgpu_criu_object_get(); its @gem is set afterwards
 * @handle: out: the lowest that is free, or the one that the file has for the dma-buf
 *
 * Takes the path of DRM_IOCTL_PRIME_FD_TO_HANDLE for what was exported or found, so
 * that an import of the dma-buf gives the same handle as before the checkpoint.
 *
 * Return: 0 or what the ioctl returns.
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
