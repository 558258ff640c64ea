// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <drm/drm_drv.h>
#include <linux/pm_runtime.h>

#include "amdgpu_criu_node.h"
#include "amdgpu_criu_userq.h"

/* The gate of a file is closed from PROCESS_INFO to UNPAUSE, and from RESTORE to RESUME. */

/* A client of a session is a &struct drm_file, which exists as long as its struct file. */
static void amdgpu_criu_file_get(void *owner)
{
	get_file(((struct drm_file *)owner)->filp);
}

static void amdgpu_criu_file_put(void *owner)
{
	fput(((struct drm_file *)owner)->filp);
}

/* Moves BOs back to VRAM. The device may be suspended when a session closes, or gone. */
static void amdgpu_criu_readmit(struct drm_file *file)
{
	struct drm_device *dev = file->minor->dev;
	struct drm_gem_object *gem;
	int handle, idx;

	if (!drm_dev_enter(dev, &idx))
		return;
	if (pm_runtime_get_sync(dev->dev) >= 0) {
		for (handle = 1; (gem = amdgpu_criu_next_handle(file, &handle)); handle++) {
			amdgpu_criu_readmit_bo(gem_to_amdgpu_bo(gem));
			drm_gem_object_put(gem);
		}
	}
	pm_runtime_put_autosuspend(dev->dev);
	drm_dev_exit(idx);
}

/* EVICT. The gate of a paused file is closed already. */
int amdgpu_criu_evict(struct criu_call *call, void *data)
{
	struct criu_client *client = call->client;
	struct amdgpu_criu_evict *args = data;
	struct drm_gem_object *gem;
	int handle, ret;

	if (args->flags)
		return -EINVAL;
	args->bytes = 0;
	args->kept = 0;
	if (mutex_lock_interruptible(client->lock))
		return -ERESTARTSYS;
	ret = criu_session_held(call->session, client);
	client->evicted |= !ret;
	for (handle = 1; !ret && (gem = amdgpu_criu_next_handle(client->owner, &handle));
	     handle++) {
		ret = amdgpu_criu_evict_bo(gem_to_amdgpu_bo(gem), args);
		drm_gem_object_put(gem);
	}
	mutex_unlock(client->lock);
	return ret;
}

static int amdgpu_criu_file_end(void *owner, enum criu_session_kind kind)
{
	struct drm_file *file = owner;
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	int ret = 0;

	if (fpriv->criu.evicted)
		amdgpu_criu_readmit(file);
	fpriv->criu.evicted = false;
	if (kind == CRIU_SESSION_CHECKPOINT)
		ret = amdgpu_criu_start_userqs(fpriv);
	else
		amdgpu_criu_drop_userqs(fpriv);
	criu_client_allow(&fpriv->criu);
	return ret;
}

static const struct criu_client_ops amdgpu_criu_file_ops = {
	.get = amdgpu_criu_file_get, .put = amdgpu_criu_file_put, .end = amdgpu_criu_file_end,
};

int amdgpu_criu_open(struct amdgpu_fpriv *fpriv, struct drm_file *file)
{
	struct amdgpu_device *adev = drm_to_adev(file->minor->dev);
	int ret;

	mutex_init(&fpriv->criu_lock);
	ret = criu_client_init(&fpriv->criu, file, &fpriv->criu_lock, &amdgpu_criu_file_ops);
	fpriv->criu.epoch = atomic_read(&adev->vram_lost_counter);
	return ret;
}

/* True if the ioctl only waits. A process stopped in one of these restarts it. */
static bool amdgpu_criu_is_wait(unsigned int cmd)
{
	switch (_IOC_NR(cmd)) {
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_WAIT_IDLE:
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_CS:
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_FENCES:
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_WAIT):
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT):
		return true;
	default:
		return false;
	}
}

/* The ioctls of the driver, which a client that is paused or restored blocks. */
long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     criu_ioctl_fn ioctl)
{
	struct amdgpu_fpriv *fpriv = ((struct drm_file *)filp->private_data)->driver_priv;

	if (_IOC_NR(cmd) == DRM_COMMAND_BASE + AMDGPU_CRIU_NR)
		return ioctl(filp, cmd, arg);
	return criu_client_ioctl(&fpriv->criu, amdgpu_criu_is_wait(cmd), filp, cmd, arg, ioctl);
}

/*
 * The mmap() of the driver. DRM maps a BO from its beginning only, but a process may have split a
 * mapping. So between RESTORE and RESUME, DRM gets the offset of the BO for its lookup and checks.
 */
int amdgpu_criu_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct drm_file *file = filp->private_data;
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct drm_vma_offset_manager *manager = file->minor->dev->vma_offset_manager;
	const unsigned long offset = vma->vm_pgoff;
	struct drm_vma_offset_node *node;
	int ret = drm_gem_mmap(filp, vma);

	if (ret != -EINVAL || !criu_client_in_restore(&fpriv->criu))
		return ret;
	drm_vma_offset_lock_lookup(manager);
	node = drm_vma_offset_lookup_locked(manager, offset, vma_pages(vma));
	if (node)
		vma->vm_pgoff = drm_vma_node_start(node);
	drm_vma_offset_unlock_lookup(manager);
	if (node)
		ret = drm_gem_mmap(filp, vma);
	vma->vm_pgoff = offset;
	return ret;
}
