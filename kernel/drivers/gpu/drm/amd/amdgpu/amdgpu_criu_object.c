// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A BO that is shared by several files: on one GPU or several, by render nodes and KFD.
 *
 * The GEM object that was allocated identifies a BO in a session. A GPU that imports the
 * BO of another GPU has a second GEM object, which represents the same BO. Files of one
 * GPU share the GEM object.
 */
#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_prime.h>

#include <uapi/linux/kfd_ioctl.h>

#include "amdgpu.h"
#include "amdgpu_amdkfd.h"
#include "amdgpu_criu_copy.h"
#include "amdgpu_criu_object.h"
#include "amdgpu_dma_buf.h"
#include "amdgpu_object.h"

/* A session may outlive the files of an unbound device, so it holds the device as well. */
static void amdgpu_criu_bo_get(void *object)
{
	struct drm_gem_object *gem = object;

	drm_dev_get(gem->dev);
	drm_gem_object_get(gem);
}

static void amdgpu_criu_bo_put(void *object)
{
	struct drm_gem_object *gem = object;
	struct drm_device *dev = gem->dev;

	drm_gem_object_put(gem);
	drm_dev_put(dev);
}

/* A new dma-buf is writable, unless KFD allocated the BO without write access. */
static int amdgpu_criu_export_flags(const struct amdgpu_bo *bo)
{
	if (bo->kfd_bo && !(bo->kfd_bo->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE))
		return 0;
	return DRM_RDWR;
}

/*
 * Follows the code path of DRM_IOCTL_PRIME_HANDLE_TO_FD, but needs no handle, because the
 * handle may have been closed. A GEM object without handles has no pointer to its dma-buf,
 * which would be a reference cycle.
 */
static struct dma_buf *amdgpu_criu_bo_export(void *object)
{
	struct drm_gem_object *gem = object;
	struct drm_device *dev = gem->dev;
	struct dma_buf *dmabuf;

	mutex_lock(&dev->object_name_lock);
	if (gem->dma_buf) {
		dmabuf = gem->dma_buf;
		get_dma_buf(dmabuf);
	} else {
		dmabuf = amdgpu_gem_prime_export(gem,
						 amdgpu_criu_export_flags(gem_to_amdgpu_bo(gem)));
		if (!IS_ERR(dmabuf) && gem->handle_count) {
			get_dma_buf(dmabuf);
			gem->dma_buf = dmabuf;
		}
	}
	mutex_unlock(&dev->object_name_lock);
	return dmabuf;
}

static struct dma_buf *amdgpu_criu_bo_copy(void *object)
{
	return amdgpu_criu_new_copy(object, amdgpu_criu_export_flags(gem_to_amdgpu_bo(object)));
}

const struct criu_object_ops amdgpu_criu_bo_ops = {
	.get = amdgpu_criu_bo_get,
	.put = amdgpu_criu_bo_put,
	.export = amdgpu_criu_bo_export,
	.copy = amdgpu_criu_bo_copy,
	.end_copy = amdgpu_criu_end_copy,
};

/*
 * Gets the GEM object that identifies a BO. Returns @gem, or the GEM object of the other GPU if
 * @gem represents a BO of another GPU, without a new reference; NULL if another driver exported
 * it.
 */
struct drm_gem_object *amdgpu_criu_owner_object(struct drm_gem_object *gem)
{
	const struct dma_buf *dmabuf;

	if (!gem->import_attach)
		return gem;
	dmabuf = gem->import_attach->dmabuf;
	return dmabuf->ops == &amdgpu_dmabuf_ops ? dmabuf->priv : NULL;
}

/* Gets the existing dma-buf of a BO. Returns the dma-buf with a reference, or NULL. */
struct dma_buf *amdgpu_criu_object_dmabuf(struct drm_gem_object *gem)
{
	struct dma_buf *dmabuf;

	mutex_lock(&gem->dev->object_name_lock);
	dmabuf = gem->import_attach ? gem->import_attach->dmabuf : gem->dma_buf;
	if (dmabuf)
		get_dma_buf(dmabuf);
	mutex_unlock(&gem->dev->object_name_lock);
	return dmabuf;
}

/*
 * Checks if another driver has imported a BO. The use that the other driver makes of the BO cannot
 * be determined, and a restore could not import the BO there again. Returns true if a device of
 * another driver is attached.
 */
bool amdgpu_criu_dmabuf_has_importer(struct dma_buf *dmabuf)
{
	const struct drm_gem_object *owner = dmabuf->priv;
	const struct device_driver *driver = owner->dev->dev->driver;
	struct dma_buf_attachment *attach;
	bool found = false;

	dma_resv_lock(dmabuf->resv, NULL);
	list_for_each_entry(attach, &dmabuf->attachments, node)
		found |= attach->dev->driver != driver;
	dma_resv_unlock(dmabuf->resv);
	return found;
}

/*
 * Checks if another driver has imported a BO. Returns as amdgpu_criu_dmabuf_has_importer(); false
 * if the BO has no dma-buf.
 */
bool amdgpu_criu_object_has_importer(struct drm_gem_object *gem)
{
	struct dma_buf *dmabuf = amdgpu_criu_object_dmabuf(gem);
	bool found;

	if (!dmabuf)
		return false;
	found = amdgpu_criu_dmabuf_has_importer(dmabuf);
	dma_buf_put(dmabuf);
	return found;
}

/* Gets the id of a BO in a checkpoint. Returns as criu_session_object_id(). */
int amdgpu_criu_object_id(struct criu_session *session, struct drm_gem_object *gem, u64 *id)
{
	struct drm_gem_object *owner = amdgpu_criu_owner_object(gem);
	struct dma_buf *dmabuf;
	int ret;

	if (!owner)
		return -EOPNOTSUPP;
	ret = criu_session_object_id(session, owner, &amdgpu_criu_bo_ops, id);
	if (ret)
		return ret;
	dmabuf = amdgpu_criu_object_dmabuf(gem);
	if (dmabuf) {
		criu_session_exported(session, *id, dmabuf);
		dma_buf_put(dmabuf);
	}
	return 0;
}
