// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A BO that is shared by several files: on one GPU or several, by render nodes and KFD.
 *
 * The GEM object that was allocated identifies a BO in a session. A GPU that imports the BO of
 * another GPU has a second GEM object, which represents the same BO. Files of one GPU share the GEM
 * object.
 *
 * DMABUF returns a copy, a dma-buf for copying the contents, for a BO that has no dma-buf of its
 * own. The BO has no pointer to the copy, so exporting the BO works, or fails, as before. The copy
 * refuses attachments. Files of the BO's device import it without PRIME, whose tables hold only one
 * dma-buf for each BO.
 */
#include <drm/drm_drv.h>
#include <uapi/linux/kfd_ioctl.h>

#include "amdgpu_criu_node.h"
#include "amdgpu_dma_buf.h"

/* What a copy refers to, where other dma-bufs refer to the GEM object */
struct amdgpu_criu_copy {
	struct drm_gem_object *gem; /* the BO; the dma-buf has a reference */
	/* drm_file.client_id, never reused, of files that may import it, though of another VM */
	struct xarray copiers;
};

static int amdgpu_criu_copy_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	return -EPERM;
}

static int amdgpu_criu_copy_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	const struct amdgpu_criu_copy *copy = dmabuf->priv;

	return drm_gem_prime_mmap(copy->gem, vma);
}

static void amdgpu_criu_copy_release(struct dma_buf *dmabuf)
{
	struct amdgpu_criu_copy *copy = dmabuf->priv;

	dmabuf->priv = copy->gem;
	drm_gem_dmabuf_release(dmabuf);
	xa_destroy(&copy->copiers);
	kfree(copy);
}

static const struct dma_buf_ops amdgpu_criu_copy_ops = {
	.attach = amdgpu_criu_copy_attach,
	.release = amdgpu_criu_copy_release,
	.mmap = amdgpu_criu_copy_mmap,
};

/* True for a dma-buf of amdgpu_criu_bo_copy(). */
bool amdgpu_criu_is_copy(const struct dma_buf *dmabuf)
{
	return dmabuf->ops == &amdgpu_criu_copy_ops;
}

/* Returns the GEM object of a dma-buf of the driver, or of a copy; NULL for other drivers. */
struct drm_gem_object *amdgpu_criu_dmabuf_gem(const struct dma_buf *dmabuf)
{
	const struct amdgpu_criu_copy *copy = dmabuf->priv;

	if (amdgpu_criu_is_copy(dmabuf))
		return copy->gem;
	return dmabuf->ops == &amdgpu_dmabuf_ops ? dmabuf->priv : NULL;
}

static bool amdgpu_criu_is_of_one_vm(const struct drm_gem_object *gem)
{
	return gem_to_amdgpu_bo(gem)->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID;
}

/* Allows a file to import a copy until its session closes */
int amdgpu_criu_allow_copy(const struct drm_file *file, const struct dma_buf *dmabuf)
{
	struct amdgpu_criu_copy *copy = dmabuf->priv;

	if (!amdgpu_criu_is_copy(dmabuf) || !amdgpu_criu_is_of_one_vm(copy->gem))
		return 0;
	return xa_err(xa_store(&copy->copiers, file->client_id, xa_mk_value(1),
			       GFP_KERNEL_ACCOUNT));
}

static void amdgpu_criu_end_copy(struct dma_buf *dmabuf)
{
	struct amdgpu_criu_copy *copy = dmabuf->priv;
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(copy->gem);

	xa_destroy(&copy->copiers);
	/* Closing a handle updates the statistics while the BO still counts as shared. */
	if (amdgpu_bo_reserve(bo, true))
		return;
	amdgpu_vm_bo_update_shared(bo);
	amdgpu_bo_unreserve(bo);
}

/* True while the file imports a copy of a BO, which may be of another file's VM. */
bool amdgpu_criu_may_open(const struct amdgpu_fpriv *fpriv, const struct drm_gem_object *gem)
{
	return READ_ONCE(fpriv->criu_copies) == gem;
}

/* Each import creates a new handle. prime.lock serializes the imports of a file. */
static int amdgpu_criu_import_copy(struct drm_device *dev, struct drm_file *file,
				   struct amdgpu_criu_copy *copy, u32 *handle)
{
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	int ret;

	if (copy->gem->dev != dev || (amdgpu_criu_is_of_one_vm(copy->gem) &&
				      !xa_load(&copy->copiers, file->client_id)))
		return -EPERM;
	guard(mutex)(&file->prime.lock);
	WRITE_ONCE(fpriv->criu_copies, copy->gem);
	ret = drm_gem_handle_create(file, copy->gem, handle);
	WRITE_ONCE(fpriv->criu_copies, NULL);
	return ret;
}

/* The prime_fd_to_handle() of the driver, which does not put a copy into the tables of PRIME. */
int amdgpu_criu_fd_to_handle(struct drm_device *dev, struct drm_file *file, int fd, u32 *handle)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = dma_buf_get(fd);

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	return amdgpu_criu_is_copy(dmabuf) ?
	       amdgpu_criu_import_copy(dev, file, dmabuf->priv, handle) :
	       drm_gem_prime_fd_to_handle(dev, file, fd, handle);
}

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
	/* Under this lock, kfd_criu_undo_bo() clears kfd_bo, which it then frees. */
	lockdep_assert_held(&bo->tbo.base.dev->object_name_lock);
	if (bo->kfd_bo && !(bo->kfd_bo->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE))
		return 0;
	return DRM_RDWR;
}

/* A GEM object without handles has no pointer to its dma-buf, which would be a reference cycle. */
static struct dma_buf *amdgpu_criu_bo_export(void *object)
{
	struct drm_gem_object *gem = object;
	struct dma_buf *dmabuf;

	guard(mutex)(&gem->dev->object_name_lock);
	if (gem->dma_buf) {
		get_dma_buf(gem->dma_buf);
		return gem->dma_buf;
	}
	dmabuf = amdgpu_gem_prime_export(gem, amdgpu_criu_export_flags(gem_to_amdgpu_bo(gem)));
	if (!IS_ERR(dmabuf) && gem->handle_count) {
		get_dma_buf(dmabuf);
		gem->dma_buf = dmabuf;
	}
	return dmabuf;
}

/* Creates a dma-buf for copying a BO, which may not be a userptr. */
static struct dma_buf *amdgpu_criu_bo_copy(void *object)
{
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(object);
	struct amdgpu_criu_copy *copy __free(kfree) = NULL;
	struct dma_buf *dmabuf;

	if (amdgpu_ttm_tt_get_usermm(bo->tbo.ttm))
		return ERR_PTR(-EPERM);
	copy = kzalloc_obj(*copy, GFP_KERNEL_ACCOUNT);
	if (!copy)
		return ERR_PTR(-ENOMEM);
	scoped_guard(mutex, &bo->tbo.base.dev->object_name_lock)
		dmabuf = drm_gem_prime_export(object, amdgpu_criu_export_flags(bo));
	if (IS_ERR(dmabuf))
		return dmabuf;
	copy->gem = object;
	xa_init_flags(&copy->copiers, XA_FLAGS_ACCOUNT);
	dmabuf->priv = no_free_ptr(copy);
	dmabuf->ops = &amdgpu_criu_copy_ops;
	return dmabuf;
}

const struct criu_object_ops amdgpu_criu_bo_ops = {
	.get = amdgpu_criu_bo_get, .put = amdgpu_criu_bo_put, .export = amdgpu_criu_bo_export,
	.copy = amdgpu_criu_bo_copy, .end_copy = amdgpu_criu_end_copy,
};

/* Returns the GEM object on the GPU that allocated the BO; NULL if another driver exported it. */
struct drm_gem_object *amdgpu_criu_owner_object(struct drm_gem_object *gem)
{
	return gem->import_attach ? amdgpu_criu_dmabuf_gem(gem->import_attach->dmabuf) : gem;
}

/* Gets the existing dma-buf of a BO. Returns the dma-buf with a reference, or NULL. */
static struct dma_buf *amdgpu_criu_object_dmabuf(struct drm_gem_object *gem)
{
	struct dma_buf *dmabuf;

	guard(mutex)(&gem->dev->object_name_lock);
	dmabuf = gem->import_attach ? gem->import_attach->dmabuf : gem->dma_buf;
	if (dmabuf)
		get_dma_buf(dmabuf);
	return dmabuf;
}

/* True if another driver has imported the BO: a restore could not import it there again. */
bool amdgpu_criu_dmabuf_has_importer(struct dma_buf *dmabuf)
{
	const struct drm_gem_object *owner = amdgpu_criu_dmabuf_gem(dmabuf);
	const struct device_driver *driver = owner->dev->dev->driver;
	struct dma_buf_attachment *attach;
	bool found = false;

	dma_resv_lock(dmabuf->resv, NULL);
	list_for_each_entry(attach, &dmabuf->attachments, node)
		found |= attach->dev->driver != driver;
	dma_resv_unlock(dmabuf->resv);
	return found;
}

bool amdgpu_criu_object_has_importer(struct drm_gem_object *gem)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = amdgpu_criu_object_dmabuf(gem);

	return dmabuf && amdgpu_criu_dmabuf_has_importer(dmabuf);
}

int amdgpu_criu_object_id(struct criu_session *session, struct drm_gem_object *gem, u64 *id)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = NULL;
	struct drm_gem_object *owner = amdgpu_criu_owner_object(gem);
	int ret;

	if (!owner)
		return -EOPNOTSUPP;
	ret = criu_session_object_id(session, owner, &amdgpu_criu_bo_ops, id);
	if (ret)
		return ret;
	dmabuf = amdgpu_criu_object_dmabuf(gem);
	if (dmabuf)
		criu_session_exported(session, *id, dmabuf);
	return 0;
}

/* Returns why a BO of a session cannot be that of a record, or NULL: the blob may be of another. */
static const char *amdgpu_criu_unshareable(struct drm_gem_object *owner, u64 size)
{
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(owner);

	if (bo->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return "belongs to the VM of another file";
	if (!size || bo->tbo.type != ttm_bo_type_device || amdgpu_ttm_tt_get_usermm(bo->tbo.ttm))
		return "is of a kind that cannot be shared";
	return amdgpu_bo_size(bo) == size ? NULL : "has another size";
}

/*
 * Looks up a BO of a restore, with a reference. @size: its bytes, or 0 if it cannot be shared.
 * @dev: it is of this GPU; if there is none yet, claims its id, and *@owner is NULL. NULL: fails
 * with -EBADFD if it must be created elsewhere first.
 */
int amdgpu_criu_claim(struct criu_call *call, u64 id, const struct drm_device *dev, u64 size,
		      struct drm_gem_object **owner)
{
	const char *why;
	void *found;
	int ret = criu_session_claim(call->session, id, &amdgpu_criu_bo_ops, dev, &found);

	if (ret == -ENOENT)
		return criu_refuse(call, -EBADFD, "it was imported: EXPORTED must create it first");
	if (ret)
		return ret;
	*owner = found;
	why = found ? amdgpu_criu_unshareable(*owner, size) : NULL;
	if (why)
		ret = criu_refuse(call, -EBADMSG, "it was restored before, and %s", why);
	else if (found && dev && (*owner)->dev != dev)
		ret = criu_refuse(call, -ENODEV, "it was restored before, on another GPU");
	if (ret)
		amdgpu_criu_bo_put(found);
	return ret;
}

/* Visits an object of a client: adds it, or marks it if a paused client has it as well. */
int amdgpu_criu_visit(struct amdgpu_criu_sharing *sharing,
		      const struct amdgpu_criu_paused_object *object)
{
	const bool is_bo = object->ops == &amdgpu_criu_bo_ops;
	struct amdgpu_criu_outside *args = sharing->args;
	struct amdgpu_criu_paused_object *found =
		xa_load(&sharing->objects, (unsigned long)object->object);
	int ret;

	if (sharing->paused && !found) {
		found = kmemdup(object, sizeof(*object), GFP_KERNEL_ACCOUNT);
		if (!found)
			return -ENOMEM;
		ret = xa_insert(&sharing->objects, (unsigned long)object->object, found,
				GFP_KERNEL_ACCOUNT);
		if (ret)
			kfree(found);
		else
			object->ops->get(object->object);
		return ret;
	}
	if (sharing->paused || !found || found->outside)
		return 0;
	found->outside = true;
	if (!args->num_bos && (is_bo || !args->num_syncobjs)) {
		args->pid = object->pid;
		args->paused_pid = found->pid;
		args->handle = found->handle;
		args->size = found->size;
	}
	args->num_bos += is_bo;
	args->num_syncobjs += !is_bo;
	return 0;
}

int amdgpu_criu_visit_bo(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			 pid_t pid, u32 handle)
{
	struct drm_gem_object *owner = amdgpu_criu_owner_object(gem);

	/* Exported by another driver: PROCESS_INFO has refused it. */
	if (!owner)
		return 0;
	return amdgpu_criu_visit(sharing, &(struct amdgpu_criu_paused_object) {
		.object = owner, .ops = &amdgpu_criu_bo_ops, .size = owner->size,
		.pid = pid, .handle = handle,
	});
}

struct drm_gem_object *amdgpu_criu_next_handle(struct drm_file *file, int *handle)
{
	struct drm_gem_object *gem;

	guard(spinlock)(&file->table_lock);
	gem = idr_get_next(&file->object_idr, handle);
	if (gem)
		drm_gem_object_get(gem);
	return gem;
}

static bool amdgpu_criu_in_vram(const struct amdgpu_bo *bo)
{
	return bo->tbo.resource && bo->tbo.resource->mem_type == TTM_PL_VRAM;
}

/* Moves a BO to system memory, and counts it. The client does not run. */
int amdgpu_criu_evict_bo(struct amdgpu_bo *bo, struct amdgpu_criu_evict *args)
{
	/* Fails rather than that the kernel kills a process for the memory. */
	struct ttm_operation_ctx ctx = { .interruptible = true, .gfp_retry_mayfail = true };
	bool kept;
	int ret;

	if (!(bo->preferred_domains & AMDGPU_GEM_DOMAIN_VRAM))
		return 0;
	ret = amdgpu_bo_reserve(bo, false);
	if (ret)
		return ret;
	kept = amdgpu_criu_in_vram(bo) && (bo->tbo.pin_count || amdgpu_bo_encrypted(bo));
	if (amdgpu_criu_in_vram(bo) && !kept) {
		/* Not in the GTT domain, whose size is limited, and others need it. */
		amdgpu_bo_placement_from_domain(bo, AMDGPU_GEM_DOMAIN_CPU);
		ret = ttm_bo_validate(&bo->tbo, &bo->placement, &ctx);
	}
	if (!ret)
		*(kept ? &args->kept : &args->bytes) += amdgpu_bo_size(bo);
	amdgpu_bo_unreserve(bo);
	return ret;
}

/* Moves a BO back, or to where the GPU can access it. */
void amdgpu_criu_readmit_bo(struct amdgpu_bo *bo)
{
	struct ttm_operation_ctx ctx = {};

	if (!(bo->preferred_domains & AMDGPU_GEM_DOMAIN_VRAM) || amdgpu_bo_reserve(bo, true))
		return;
	if (!amdgpu_criu_in_vram(bo) && !bo->tbo.pin_count) {
		amdgpu_bo_placement_from_domain(bo, bo->preferred_domains);
		if (ttm_bo_validate(&bo->tbo, &bo->placement, &ctx)) {
			amdgpu_bo_placement_from_domain(bo, AMDGPU_GEM_DOMAIN_GTT);
			(void)ttm_bo_validate(&bo->tbo, &bo->placement, &ctx);
		}
	}
	amdgpu_bo_unreserve(bo);
}
