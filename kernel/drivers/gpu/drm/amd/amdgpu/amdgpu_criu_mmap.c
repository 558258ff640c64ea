// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * mmap() of a file. DRM maps a BO from its beginning only. A process may split a mapping
 * by munmap(), mprotect(), mremap() or madvise() of a part. A restore must then map parts
 * that begin inside a BO.
 */
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_vma_manager.h>
#include <linux/err.h>
#include <linux/mm.h>

#include "amdgpu_criu_node.h"
#include "criu_session.h"

/*
 * Finds a BO, with a reference, as DRM does, but @vma may begin inside it. @rest: pages from
 * there to the end of the BO.
 */
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

/*
 * The mmap() of the driver. A mapping may begin inside a BO only if the file is restored and not
 * yet resumed. Returns as drm_gem_mmap().
 */
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
