// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Dma-bufs for copying the contents of BOs. DMABUF returns one for a BO that has no
 * dma-buf of its own.
 *
 * The BO has no pointer to this dma-buf, so exporting the BO works, or fails, as before.
 * The dma-buf refuses attachments. Files of the BO's device import it without PRIME, whose
 * tables hold only one dma-buf for each BO.
 */
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_prime.h>

#include "amdgpu.h"
#include "amdgpu_criu_copy.h"
#include "amdgpu_criu_driver.h"
#include "amdgpu_object.h"
#include "amdgpu_ttm.h"

static int amdgpu_criu_copy_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	return -EPERM;
}

static const struct dma_buf_ops amdgpu_criu_copy_ops = {
	.attach = amdgpu_criu_copy_attach,
	.release = drm_gem_dmabuf_release,
	.mmap = drm_gem_dmabuf_mmap,
};

/*
 * Checks for a session's dma-buf for copying a BO. Returns true if amdgpu_criu_new_copy() created
 * @dmabuf.
 */
bool amdgpu_criu_is_copy(const struct dma_buf *dmabuf)
{
	return dmabuf->ops == &amdgpu_criu_copy_ops;
}

/*
 * Creates a dma-buf for copying a BO. Returns the dma-buf; ERR_PTR(-EPERM) for a userptr;
 * ERR_PTR(-ENOMEM).
 */
struct dma_buf *amdgpu_criu_new_copy(struct drm_gem_object *gem, int flags)
{
	struct dma_buf *dmabuf;

	if (amdgpu_ttm_tt_get_usermm(gem_to_amdgpu_bo(gem)->tbo.ttm))
		return ERR_PTR(-EPERM);
	dmabuf = drm_gem_prime_export(gem, flags);
	if (!IS_ERR(dmabuf))
		dmabuf->ops = &amdgpu_criu_copy_ops;
	return dmabuf;
}

/* A file that may import a copy of a BO of another VM */
struct amdgpu_criu_copier {
	struct hlist_node by_dmabuf; /* in amdgpu_criu_copiers */
	/* The copy; a session holds it until amdgpu_criu_end_copy() */
	const struct dma_buf *dmabuf;
	u64 client; /* drm_file.client_id of the file, which is never reused */
};

static DEFINE_HASHTABLE(amdgpu_criu_copiers, 10);
static DEFINE_SPINLOCK(amdgpu_criu_copiers_lock);

static bool amdgpu_criu_find_copier(const struct drm_file *file, const struct dma_buf *dmabuf)
{
	const struct amdgpu_criu_copier *copier;

	lockdep_assert_held(&amdgpu_criu_copiers_lock);
	hash_for_each_possible(amdgpu_criu_copiers, copier, by_dmabuf, (unsigned long)dmabuf)
		if (copier->dmabuf == dmabuf && copier->client == file->client_id)
			return true;
	return false;
}

static bool amdgpu_criu_is_of_one_vm(const struct dma_buf *dmabuf)
{
	return gem_to_amdgpu_bo((struct drm_gem_object *)dmabuf->priv)->flags &
	       AMDGPU_GEM_CREATE_VM_ALWAYS_VALID;
}

/* Allows a file to import a copy until its session closes */
int amdgpu_criu_allow_copy(const struct drm_file *file, const struct dma_buf *dmabuf)
{
	struct amdgpu_criu_copier *copier;

	if (!amdgpu_criu_is_copy(dmabuf) || !amdgpu_criu_is_of_one_vm(dmabuf))
		return 0;
	copier = kmalloc_obj(*copier, GFP_KERNEL_ACCOUNT);
	if (!copier)
		return -ENOMEM;
	copier->dmabuf = dmabuf;
	copier->client = file->client_id;
	spin_lock(&amdgpu_criu_copiers_lock);
	if (amdgpu_criu_find_copier(file, dmabuf)) {
		spin_unlock(&amdgpu_criu_copiers_lock);
		kfree(copier);
		return 0;
	}
	hash_add(amdgpu_criu_copiers, &copier->by_dmabuf, (unsigned long)dmabuf);
	spin_unlock(&amdgpu_criu_copiers_lock);
	return 0;
}

/* Closing a handle updates the statistics while the BO still counts as shared. */
static void amdgpu_criu_update_statistics(struct drm_gem_object *gem)
{
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(gem);

	if (amdgpu_bo_reserve(bo, true))
		return;
	amdgpu_criu_update_shared(bo);
	amdgpu_bo_unreserve(bo);
}

/* Revokes all permissions to import a copy */
void amdgpu_criu_end_copy(struct dma_buf *dmabuf)
{
	struct amdgpu_criu_copier *copier;
	struct hlist_node *next;

	spin_lock(&amdgpu_criu_copiers_lock);
	hash_for_each_possible_safe(amdgpu_criu_copiers, copier, next, by_dmabuf,
				    (unsigned long)dmabuf) {
		if (copier->dmabuf != dmabuf)
			continue;
		hash_del(&copier->by_dmabuf);
		kfree(copier);
	}
	spin_unlock(&amdgpu_criu_copiers_lock);
	amdgpu_criu_update_statistics(dmabuf->priv);
}

static bool amdgpu_criu_may_import(const struct drm_file *file, const struct dma_buf *dmabuf)
{
	bool may;

	if (!amdgpu_criu_is_of_one_vm(dmabuf))
		return true;
	spin_lock(&amdgpu_criu_copiers_lock);
	may = amdgpu_criu_find_copier(file, dmabuf);
	spin_unlock(&amdgpu_criu_copiers_lock);
	return may;
}

/*
 * Checks if a file may open a BO of another file's VM. Returns true while the file imports a copy
 * of the BO.
 */
bool amdgpu_criu_may_open(const struct amdgpu_fpriv *fpriv, const struct drm_gem_object *gem)
{
	return READ_ONCE(fpriv->criu_copies) == gem;
}

/* Each import creates a new handle. prime.lock serializes the imports of a file. */
static int amdgpu_criu_import_copy(struct drm_device *dev, struct drm_file *file,
				   struct dma_buf *dmabuf, u32 *handle)
{
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct drm_gem_object *gem = dmabuf->priv;
	int ret;

	if (gem->dev != dev || !amdgpu_criu_may_import(file, dmabuf))
		return -EPERM;
	mutex_lock(&file->prime.lock);
	WRITE_ONCE(fpriv->criu_copies, gem);
	ret = drm_gem_handle_create(file, gem, handle);
	WRITE_ONCE(fpriv->criu_copies, NULL);
	mutex_unlock(&file->prime.lock);
	return ret;
}

/*
 * The prime_fd_to_handle() of the driver. Returns as drm_gem_prime_fd_to_handle(). -EPERM if @fd
 * is a copy of a BO of another device, or of a BO of another VM and DMABUF was not called on the
 * file in a session that is still open.
 */
int amdgpu_criu_fd_to_handle(struct drm_device *dev, struct drm_file *file, int fd, u32 *handle)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	int ret;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = amdgpu_criu_is_copy(dmabuf) ?
	      amdgpu_criu_import_copy(dev, file, dmabuf, handle) :
	      drm_gem_prime_fd_to_handle(dev, file, fd, handle);
	dma_buf_put(dmabuf);
	return ret;
}
