// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <drm/amdgpu_criu.h>
#include <drm/amdgpu_drm.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_vma_manager.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "amdgpu.h"
#include "amdgpu_criu_gate.h"
#include "amdgpu_criu_node.h"

struct amdgpu_criu_gate *amdgpu_criu_gate_create(void)
{
	struct amdgpu_criu_gate *gate = kzalloc_obj(*gate);

	if (!gate)
		return NULL;
	mutex_init(&gate->lock);
	return gate;
}

void amdgpu_criu_gate_destroy(struct amdgpu_criu_gate *gate)
{
	mutex_destroy(&gate->lock);
	kfree(gate);
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

/* Blocks other calls and waits for running ones. @gate: an open gate; its lock is held. */
int amdgpu_criu_gate_close(struct amdgpu_criu_gate *gate, unsigned long deadline)
{
	lockdep_assert_held(&gate->lock);
	return amdgpu_criu_calls_stop(&gate->calls, deadline);
}

void amdgpu_criu_gate_open(struct amdgpu_criu_gate *gate)
{
	lockdep_assert_held(&gate->lock);
	if (gate->task)
		put_task_struct(gate->task);
	gate->task = NULL;
	amdgpu_criu_calls_allow(&gate->calls);
}

long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     amdgpu_criu_ioctl_fn ioctl)
{
	struct drm_file *file = filp->private_data;
	struct amdgpu_fpriv *fpriv = file->driver_priv;

	if (_IOC_NR(cmd) == DRM_COMMAND_BASE + AMDGPU_CRIU_NR)
		return ioctl(filp, cmd, arg);
	return amdgpu_criu_calls_ioctl(&fpriv->criu_gate->calls, amdgpu_criu_is_wait(cmd), filp,
				       cmd, arg, ioctl);
}

/*
 * mmap() of a file. DRM maps a BO from its beginning only. A process may split a mapping
 * by munmap(), mprotect(), mremap() or madvise() of a part. A restore must then map parts
 * that begin inside a BO.
 */
/* Finds a BO as DRM does, but @vma may begin inside it. @rest: pages from there to its end. */
static struct drm_gem_object *amdgpu_criu_find_mapped(struct drm_file *file,
						      struct vm_area_struct *vma,
						      unsigned long *rest)
{
	struct drm_vma_offset_manager *manager = file->minor->dev->vma_offset_manager;
	struct drm_gem_object *obj = NULL;
	struct drm_vma_offset_node *node;

	drm_vma_offset_lock_lookup(manager);
	node = drm_vma_offset_lookup_locked(manager, vma->vm_pgoff, vma_pages(vma));
	if (node) {
		obj = container_of(node, struct drm_gem_object, vma_node);
		/* A BO that is being freed stays in the manager until it gets the lookup lock. */
		if (!kref_get_unless_zero(&obj->refcount))
			obj = NULL;
	}
	drm_vma_offset_unlock_lookup(manager);
	if (!obj)
		return ERR_PTR(-EINVAL);
	if (!drm_vma_node_is_allowed(node, file)) {
		drm_gem_object_put(obj);
		return ERR_PTR(-EACCES);
	}
	*rest = drm_vma_node_size(node) - (vma->vm_pgoff - drm_vma_node_start(node));
	return obj;
}

/* The mmap() of the driver. May begin inside a BO between RESTORE and RESUME. */
int amdgpu_criu_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct drm_file *file = filp->private_data;
	struct drm_gem_object *obj;
	unsigned long rest;
	int ret = drm_gem_mmap(filp, vma);

	if (ret != -EINVAL || !criu_client_in_restore(file))
		return ret;
	obj = amdgpu_criu_find_mapped(file, vma, &rest);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = drm_gem_mmap_obj(obj, rest << PAGE_SHIFT, vma);
	drm_gem_object_put(obj);
	return ret;
}
