// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * One BO that several files know: on one GPU or several, render nodes and KFD.
 *
 * A session knows a BO by the GEM object that was allocated; a GEM object that a GPU
 * has for the BO of another stands for it. Files of one GPU share the GEM object.
 */
#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_prime.h>

#include <uapi/linux/kfd_ioctl.h>

#include "amdgpu.h"
#include "amdgpu_amdkfd.h"
#include "amdgpu_criu_object.h"
#include "amdgpu_dma_buf.h"
#include "amdgpu_object.h"

static void amdgpu_criu_bo_get(void *object)
{
	drm_gem_object_get(object);
}

static void amdgpu_criu_bo_put(void *object)
{
	drm_gem_object_put(object);
}

/* As the process would get it; one that it has not asked for yet can be written. */
static int amdgpu_criu_export_flags(const struct amdgpu_bo *bo)
{
	if (bo->kfd_bo && !(bo->kfd_bo->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE))
		return 0;
	return DRM_RDWR;
}

/*
 * BOs of one VM are not exported, since nobody else may open them. A file that copies
 * contents may (amdgpu_criu_may_open()).
 */
static struct dma_buf *amdgpu_criu_new_dmabuf(struct drm_gem_object *gem, int flags)
{
	struct dma_buf *dmabuf;

	if (!(gem_to_amdgpu_bo(gem)->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
		return amdgpu_gem_prime_export(gem, flags);
	dmabuf = drm_gem_prime_export(gem, flags);
	if (!IS_ERR(dmabuf))
		dmabuf->ops = &amdgpu_dmabuf_ops;
	return dmabuf;
}

/*
 * Takes the path of DRM_IOCTL_PRIME_HANDLE_TO_FD, but for the handle: it may have
 * been closed since. A GEM object without handles does not know its dma-buf: that
 * would be a circle of references.
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
		dmabuf = amdgpu_criu_new_dmabuf(gem,
						amdgpu_criu_export_flags(gem_to_amdgpu_bo(gem)));
		if (!IS_ERR(dmabuf) && gem->handle_count) {
			get_dma_buf(dmabuf);
			gem->dma_buf = dmabuf;
		}
	}
	mutex_unlock(&dev->object_name_lock);
	return dmabuf;
}

/* Its process shall not be able to export a BO of its VM because it was checkpointed. */
static void amdgpu_criu_bo_unexport(void *object, struct dma_buf *dmabuf)
{
	struct drm_gem_object *gem = object;
	bool known;

	if (!(gem_to_amdgpu_bo(gem)->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
		return;
	mutex_lock(&gem->dev->object_name_lock);
	known = gem->dma_buf == dmabuf;
	if (known)
		gem->dma_buf = NULL;
	mutex_unlock(&gem->dev->object_name_lock);
	if (known)
		dma_buf_put(dmabuf);
}

const struct criu_object_ops amdgpu_criu_bo_ops = {
	.get = amdgpu_criu_bo_get,
	.put = amdgpu_criu_bo_put,
	.export = amdgpu_criu_bo_export,
	.unexport = amdgpu_criu_bo_unexport,
};

/**
 * amdgpu_criu_object_home() - the GEM object that a session knows a BO by
 * @gem: a GEM object of any GPU
 *
 * Return: @gem, or if it stands for a BO of another GPU, that one, without a reference
 * of its own; NULL if another driver exported it.
 */
struct drm_gem_object *amdgpu_criu_object_home(struct drm_gem_object *gem)
{
	const struct dma_buf *dmabuf;

	if (!gem->import_attach)
		return gem;
	dmabuf = gem->import_attach->dmabuf;
	return dmabuf->ops == &amdgpu_dmabuf_ops ? dmabuf->priv : NULL;
}

/**
 * amdgpu_criu_object_dmabuf() - dma-buf that a BO has already
 * @gem: a GEM object of any GPU
 *
 * Return: the dma-buf with a reference, or NULL.
 */
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

/**
 * amdgpu_criu_is_lent() - has another driver imported a BO?
 * @dmabuf: of the BO, which is ours
 *
 * Nothing tells what that driver does with it, and for whom; and nobody could import it
 * there again.
 *
 * Return: true if there is an attachment of a device that is not amdgpu's.
 */
bool amdgpu_criu_is_lent(struct dma_buf *dmabuf)
{
	const struct drm_gem_object *home = dmabuf->priv;
	const struct device_driver *driver = home->dev->dev->driver;
	struct dma_buf_attachment *attach;
	bool lent = false;

	dma_resv_lock(dmabuf->resv, NULL);
	list_for_each_entry(attach, &dmabuf->attachments, node)
		lent |= attach->dev->driver != driver;
	dma_resv_unlock(dmabuf->resv);
	return lent;
}

/**
 * amdgpu_criu_object_is_lent() - has another driver imported a BO?
 * @gem: a GEM object of any GPU; not one that another driver exported
 *
 * Return: as amdgpu_criu_is_lent(); false if the BO has no dma-buf.
 */
bool amdgpu_criu_object_is_lent(struct drm_gem_object *gem)
{
	struct dma_buf *dmabuf = amdgpu_criu_object_dmabuf(gem);
	bool lent;

	if (!dmabuf)
		return false;
	lent = amdgpu_criu_is_lent(dmabuf);
	dma_buf_put(dmabuf);
	return lent;
}

/**
 * amdgpu_criu_object_id() - id of a BO in a checkpoint
 * @session: of kind CHECKPOINT
 * @gem: a GEM object of any GPU; not one that another driver exported
 * @id: out
 *
 * Return: as criu_session_object_id().
 */
int amdgpu_criu_object_id(struct criu_session *session, struct drm_gem_object *gem, u64 *id)
{
	struct drm_gem_object *home = amdgpu_criu_object_home(gem);
	struct dma_buf *dmabuf;
	int ret;

	if (!home)
		return -EOPNOTSUPP;
	ret = criu_session_object_id(session, home, &amdgpu_criu_bo_ops, id);
	if (ret)
		return ret;
	dmabuf = amdgpu_criu_object_dmabuf(gem);
	if (dmabuf) {
		criu_session_exported(session, *id, dmabuf);
		dma_buf_put(dmabuf);
	}
	return 0;
}

/**
 * amdgpu_criu_may_open() - may a file have a handle of a BO of another file's VM?
 * @fpriv: the driver's side of the file
 *
 * Return: true after amdgpu_criu_let_open().
 */
bool amdgpu_criu_may_open(const struct amdgpu_fpriv *fpriv)
{
	return READ_ONCE(fpriv->criu_copies);
}

/**
 * amdgpu_criu_let_open() - let a file have handles of BOs of other files' VMs
 * @file: file that DMABUF was called on, by somebody who holds the session
 *
 * A dma-buf of such a BO comes from there alone.
 */
void amdgpu_criu_let_open(struct drm_file *file)
{
	struct amdgpu_fpriv *fpriv = file->driver_priv;

	WRITE_ONCE(fpriv->criu_copies, true);
}
