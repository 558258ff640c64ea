// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: BOs and userptrs
 *
 * Carried: create flags, placement, metadata and tiling of BOs in VRAM, GTT, CPU, GDS, GWS, OA and
 * of doorbells; all flags of userptrs, which RESUME attaches to the new memory. User space copies
 * the contents of BOs through a dma-buf of each.
 *
 * Not carried: encrypted BOs, BOs of other drivers, or that other drivers have imported; userptrs
 * that another process has attached, or that were never attached.
 */
#include <uapi/linux/kfd_ioctl.h>

#include "amdgpu_criu_render.h"
#include "amdgpu_dma_buf.h"
#include "amdgpu_hmm.h"

/* Sizes in these domains are in units of the resource; the driver counts a page for each. */
#define AMDGPU_CRIU_UNIT_DOMAINS (AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | \
				  AMDGPU_GEM_DOMAIN_OA)
/* A BO is in one of these domains only, or may be in several of the others. */
#define AMDGPU_CRIU_SPECIAL_DOMAINS (AMDGPU_CRIU_UNIT_DOMAINS | AMDGPU_GEM_DOMAIN_DOORBELL)
#define AMDGPU_CRIU_NORMAL_DOMAINS (AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | \
				    AMDGPU_GEM_DOMAIN_VRAM)

int amdgpu_criu_add_object(struct criu_dump *dump, struct drm_gem_object *gem, u32 handle)
{
	struct amdgpu_criu_dump_object *object = kzalloc_obj(*object, GFP_KERNEL_ACCOUNT);
	int ret;

	if (!object)
		return -ENOMEM;
	ret = xa_insert(&dump->by_gem, (unsigned long)gem, object, GFP_KERNEL_ACCOUNT);
	if (ret) {
		kfree(object);
		return ret == -EBUSY ? 0 : ret;
	}
	drm_gem_object_get(gem);
	object->gem = gem;
	object->handle = handle;
	list_add_tail(&object->of_dump, &dump->objects);
	return 0;
}

void amdgpu_criu_drop_objects(struct criu_dump *dump)
{
	struct amdgpu_criu_dump_object *object, *next;

	list_for_each_entry_safe(object, next, &dump->objects, of_dump) {
		drm_gem_object_put(object->gem);
		kfree(object);
	}
	xa_destroy(&dump->by_gem);
}

/* Gets the id of a BO in the session. Fails with -EOPNOTSUPP if it is not one of the file. */
int amdgpu_criu_dump_object_id(struct criu_dump *dump, struct drm_gem_object *gem, u64 *id)
{
	const struct amdgpu_criu_dump_object *object = xa_load(&dump->by_gem, (unsigned long)gem);

	*id = object ? object->id : 0;
	return object ? 0 : -EOPNOTSUPP;
}

/* Returns the flags for the BO table, except those that depend on other files, and the domain. */
static u32 amdgpu_criu_object_table_flags(const struct amdgpu_criu_object_record *record,
					  u32 *domain)
{
	const u32 preferred = record->preferred_domains;

	*domain = AMDGPU_CRIU_DOMAIN_CPU;
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR)
		return AMDGPU_CRIU_BO_USERPTR;
	*domain = preferred & AMDGPU_GEM_DOMAIN_VRAM ? AMDGPU_CRIU_DOMAIN_VRAM :
						       AMDGPU_CRIU_DOMAIN_GTT;
	if (!(preferred & AMDGPU_CRIU_SPECIAL_DOMAINS))
		return AMDGPU_CRIU_BO_CONTENTS;
	*domain = AMDGPU_CRIU_DOMAIN_NONE;
	/* GDS, GWS and OA are assigned for each submission. */
	return preferred & AMDGPU_GEM_DOMAIN_DOORBELL ? AMDGPU_CRIU_BO_DOORBELL : 0;
}

static void amdgpu_criu_object_entry(const void *from, struct amdgpu_criu_bo *entry)
{
	const struct amdgpu_criu_object_record *record = from;

	*entry = (struct amdgpu_criu_bo) {
		.object_id = record->object_id, .size = record->size,
		.mmap_offset = record->mmap_offset, .gpu_id = record->gpu_id,
		.handle = record->handle, .domain = record->domain, .flags = record->table_flags,
	};
}

/* Returns the offset of AMDGPU_GEM_MMAP, or ~0 if the BO cannot be mapped. */
u64 amdgpu_criu_object_offset(struct drm_gem_object *gem)
{
	struct amdgpu_bo *bo = gem_to_amdgpu_bo(gem);

	if ((bo->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS) || amdgpu_ttm_tt_get_usermm(bo->tbo.ttm))
		return AMDGPU_CRIU_NO_OFFSET;
	return amdgpu_bo_mmap_offset(bo);
}

/* Returns the memory that a userptr is attached to, without a new reference, or NULL. */
static struct mm_struct *amdgpu_criu_userptr_mm(const struct amdgpu_bo *bo)
{
#ifdef CONFIG_MMU_NOTIFIER
	return bo->notifier.mm;
#else
	return NULL;
#endif
}

static const char *amdgpu_criu_bo_fault(const struct criu_dump *dump,
					struct drm_gem_object *gem, struct drm_gem_object *owner)
{
	const struct mm_struct *mm;
	struct amdgpu_bo *bo;

	if (!owner)
		return "a BO of another driver";
	bo = gem_to_amdgpu_bo(owner);
	mm = amdgpu_criu_userptr_mm(bo);
	if (bo->flags & AMDGPU_GEM_CREATE_ENCRYPTED)
		return "an encrypted BO";
	if (bo->tbo.type == ttm_bo_type_kernel)
		return "a BO of the kernel";
	if (dump->exported ? amdgpu_criu_dmabuf_has_importer(dump->exported) :
			     amdgpu_criu_object_has_importer(gem))
		return "a BO that another driver has imported";
	if (dump->exported)
		return bo->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID ? "a BO of one VM by itself" :
								       NULL;
	if (!amdgpu_ttm_tt_is_userptr(bo->tbo.ttm))
		return amdgpu_ttm_tt_get_usermm(bo->tbo.ttm) ? "a userptr at address 0" : NULL;
	if (!mm)
		return "a userptr that was never attached";
	return mm == dump->mm ? NULL : "a userptr of another process";
}

/* Records GPU, KFD flags, and dma-buf of a BO. One of no partition counts as one of the file's. */
static void amdgpu_criu_describe_sharing(const struct criu_dump *dump, struct amdgpu_bo *bo,
					 struct amdgpu_criu_object_record *record)
{
	struct amdgpu_device *adev = amdgpu_ttm_adev(bo->tbo.bdev);
	struct drm_gem_object *gem = &bo->tbo.base;
	const struct dma_buf *dmabuf;

	record->device = amdgpu_criu_device_of(adev);
	record->gpu_id = amdgpu_criu_gpu_id(adev, bo->xcp_id < 0 && adev == dump->adev ?
						  dump->fpriv->xcp_id : bo->xcp_id);
	if (dump->fpriv && (adev != dump->adev ||
			    record->gpu_id != amdgpu_criu_gpu_id(adev, dump->fpriv->xcp_id)))
		record->table_flags |= AMDGPU_CRIU_BO_IMPORTED | AMDGPU_CRIU_BO_SHARED;
	/* Read without the reservation: other GPUs may attach and detach at any time. */
	guard(mutex)(&gem->dev->object_name_lock);
	if (bo->kfd_bo)
		record->kfd_flags = bo->kfd_bo->alloc_flags;
	dmabuf = dump->exported ?: gem->dma_buf;
	if (dmabuf) {
		record->flags |= AMDGPU_CRIU_OBJECT_EXPORTED;
		if (dmabuf->file->f_mode & FMODE_WRITE)
			record->flags |= AMDGPU_CRIU_OBJECT_EXPORTED_RDWR;
	}
	if (dump->exported || gem->handle_count > 1 ||
	    (dmabuf && !list_empty_careful(&dmabuf->attachments)))
		record->table_flags |= AMDGPU_CRIU_BO_SHARED;
}

/* The caller has reserved the BO. */
static void amdgpu_criu_describe_bo(struct amdgpu_bo *bo, struct amdgpu_criu_object_record *record)
{
	record->size = amdgpu_bo_size(bo);
	/* The driver uses the other flags internally, and sets them again when it needs them. */
	record->create_flags = bo->flags & AMDGPU_GEM_CREATE_SETTABLE_MASK;
	record->alignment = bo->tbo.page_alignment;
	if (!(bo->preferred_domains & AMDGPU_CRIU_UNIT_DOMAINS))
		record->alignment <<= PAGE_SHIFT;
	record->preferred_domains = bo->preferred_domains;
	record->allowed_domains = bo->allowed_domains;
	if (bo->tbo.resource)
		record->placement = amdgpu_mem_type_to_domain(bo->tbo.resource->mem_type);
	amdgpu_bo_get_tiling_flags(bo, &record->tiling_flags);
	amdgpu_bo_get_metadata(bo, NULL, 0, &record->metadata_size, &record->metadata_flags);
	if (amdgpu_ttm_tt_is_userptr(bo->tbo.ttm)) {
		amdgpu_ttm_tt_get_userptr(&bo->tbo, &record->user_addr);
		record->user_flags = amdgpu_ttm_tt_get_userflags(bo->tbo.ttm);
		record->flags |= AMDGPU_CRIU_OBJECT_USERPTR;
	}
	record->table_flags |= amdgpu_criu_object_table_flags(record, &record->domain);
}

static int amdgpu_criu_dump_object(struct criu_dump *dump, struct amdgpu_criu_dump_object *object)
{
	struct drm_gem_object *owner = amdgpu_criu_owner_object(object->gem);
	struct amdgpu_criu_object_record record = { .handle = object->handle };
	struct criu_session *session = dump->session;
	const char *fault = NULL;
	struct amdgpu_bo *bo;
	void *tail;
	int ret;

	/* Only a pause refuses it: a running process may free the BO before it is paused. */
	if (!dump->live)
		fault = amdgpu_criu_bo_fault(dump, object->gem, owner);
	else if (!owner)
		return 0;
	if (fault && object->handle)
		return criu_refuse_state(dump->call, "%s (handle %u)", fault, object->handle);
	if (fault && dump->exported)
		return criu_refuse_state(dump->call, "%s", fault);
	if (fault)
		return criu_refuse_state(dump->call, "%s (in a BO list)", fault);
	ret = session ? amdgpu_criu_object_id(session, object->gem, &object->id) : 0;
	if (ret)
		return ret;
	record.object_id = object->id;
	record.mmap_offset = amdgpu_criu_object_offset(object->gem);
	if (dump->exported && session && !amdgpu_criu_is_copy(dump->exported))
		criu_session_exported(session, object->id, dump->exported);
	bo = gem_to_amdgpu_bo(owner);
	amdgpu_criu_describe_sharing(dump, bo, &record);
	ret = amdgpu_bo_reserve(bo, false);
	if (ret)
		return ret;
	amdgpu_criu_describe_bo(bo, &record);
	criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_OBJECT, &record);
	tail = criu_writer_tail(&dump->writer, record.metadata_size);
	if (tail)
		amdgpu_bo_get_metadata(bo, tail, record.metadata_size, NULL, NULL);
	amdgpu_bo_unreserve(bo);
	if (dump->bos)
		amdgpu_criu_object_entry(&record, &dump->bos[dump->info.num_bos]);
	dump->info.num_bos++;
	return 0;
}

static int amdgpu_criu_dump_objects(struct criu_dump *dump)
{
	struct amdgpu_criu_dump_object *object;
	int ret = 0;

	list_for_each_entry(object, &dump->objects, of_dump)
		ret = ret ?: amdgpu_criu_dump_object(dump, object);
	return ret;
}

#define AMDGPU_CRIU_METADATA_MAX sizeof_field(struct drm_amdgpu_gem_metadata, data.data)

/* Performs the checks of DRM_AMDGPU_GEM_USERPTR. */
static const char *amdgpu_criu_user_fault(const struct amdgpu_criu_object_record *record)
{
	const u32 known = AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY |
			  AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER;
	const u32 flags = record->user_flags;

	if (!(record->flags & AMDGPU_CRIU_OBJECT_USERPTR))
		return record->user_addr || flags ? "user address, but no userptr" : NULL;
	if (record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return "userptr with flags of another kind of BO";
	if (!record->user_addr || !PAGE_ALIGNED(record->user_addr) ||
	    record->user_addr >= TASK_SIZE || record->size > TASK_SIZE - record->user_addr)
		return "bad user address";
	if (flags & ~known || !(flags & (AMDGPU_GEM_USERPTR_READONLY |
					 AMDGPU_GEM_USERPTR_REGISTER)))
		return "bad flags of a userptr";
	if (record->preferred_domains != AMDGPU_GEM_DOMAIN_GTT ||
	    record->allowed_domains != AMDGPU_GEM_DOMAIN_GTT)
		return "userptr in another domain";
	return NULL;
}

/* A special domain is the only one. For others, the fields must agree as the driver sets them. */
static const char *amdgpu_criu_domain_fault(const struct amdgpu_criu_object_record *record)
{
	const u32 preferred = record->preferred_domains;
	const u32 special = preferred & AMDGPU_CRIU_SPECIAL_DOMAINS;
	u32 allowed = preferred;

	if (preferred & ~(AMDGPU_CRIU_SPECIAL_DOMAINS | AMDGPU_CRIU_NORMAL_DOMAINS) ||
	    !amdgpu_gem_are_domains_valid(preferred))
		return "bad domains";
	if (special && record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		return "always valid, but not memory";
	if (special & AMDGPU_CRIU_UNIT_DOMAINS &&
	    !(record->create_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS))
		return "not memory, but with CPU access";
	if (preferred == AMDGPU_GEM_DOMAIN_VRAM)
		allowed |= record->allowed_domains & AMDGPU_GEM_DOMAIN_GTT;
	if (record->allowed_domains != allowed)
		return "allowed domains that do not follow from the preferred ones";
	if (hweight32(record->placement) > 1 ||
	    record->placement & ~(special | AMDGPU_CRIU_NORMAL_DOMAINS))
		return "bad placement";
	return NULL;
}

/* True if the GPU, or the partition, of the file creates the BO, and for EXPORTED. */
static bool amdgpu_criu_object_is_own(const struct criu_plan *plan,
				      const struct amdgpu_criu_object_record *record)
{
	const struct amdgpu_criu_file_record *file = plan->files;

	return !file || (record->device == file->device && record->gpu_id == file->gpu_id);
}

/* Performs the checks of DRM_AMDGPU_GEM_CREATE, and checks that the fields agree. */
static const char *amdgpu_criu_object_fault(struct criu_plan *plan, void *entry)
{
	const u32 sharing = AMDGPU_CRIU_BO_SHARED | AMDGPU_CRIU_BO_IMPORTED;
	const struct amdgpu_criu_object_record *record = entry;
	const bool own = amdgpu_criu_object_is_own(plan, record);
	const char *fault;
	u32 flags, domain;

	if (!record->object_id)
		return "no id";
	if (!record->size || !PAGE_ALIGNED(record->size) || record->size > BIT_ULL(48))
		return "bad size";
	if (record->metadata_size > AMDGPU_CRIU_METADATA_MAX)
		return "too much metadata";
	fault = amdgpu_criu_domain_fault(record);
	if (!fault)
		fault = amdgpu_criu_user_fault(record);
	if (fault)
		return fault;
	flags = amdgpu_criu_object_table_flags(record, &domain);
	if (record->domain != domain || (record->table_flags & ~sharing) != flags)
		return "entry of the BO table does not fit its kind";
	if (!(record->table_flags & AMDGPU_CRIU_BO_IMPORTED) != own)
		return "of the file's GPU and of another";
	/* EXPORTED never writes a BO without a dma-buf of its own. */
	if (!plan->files &&
	    (!(record->flags & AMDGPU_CRIU_OBJECT_EXPORTED) || record->handle ||
	     record->flags & AMDGPU_CRIU_OBJECT_USERPTR ||
	     record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
		return "of a kind that has no dma-buf";
	return NULL;
}

static int amdgpu_criu_check_object(struct criu_plan *plan, void *entry)
{
	const u64 known = AMDGPU_GEM_CREATE_SETTABLE_MASK & ~AMDGPU_GEM_CREATE_ENCRYPTED;
	const struct amdgpu_criu_object_record *record = entry;

	return record->create_flags & ~known || record->flags & ~AMDGPU_CRIU_OBJECT_FLAGS ?
	       criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x, %#llx", record->flags,
			   record->create_flags) : 0;
}

struct amdgpu_criu_plan_object *amdgpu_criu_plan_object(const struct criu_plan *plan, u64 object_id)
{
	const struct criu_range *id =
		criu_ranges_find(plan->object_ids, plan->num_objects, object_id, 1);

	return id ? &plan->objects[id->index] : NULL;
}

void amdgpu_criu_plan_init(struct criu_plan *plan, struct criu_call *call,
			   const struct amdgpu_criu_state *state)
{
	plan->state = state;
	plan->entry = amdgpu_criu_object_entry;
	plan->call = call;
	plan->file = call->client->owner;
	plan->fpriv = plan->file->driver_priv;
	plan->adev = drm_to_adev(plan->file->minor->dev);
}

void amdgpu_criu_plan_free(struct criu_plan *plan)
{
	for (u32 i = 0; i < plan->num_objects; i++)
		if (plan->objects[i].gem)
			drm_gem_object_put(plan->objects[i].gem);
	amdgpu_criu_input_free(plan);
}

/* AMDGPU_GEM_USERPTR_VALIDATE. Without the memory, the next submission fails, as it would have. */
static int amdgpu_criu_validate_userptr(struct amdgpu_bo *bo)
{
	int ret;

	do {
		ret = amdgpu_gem_userptr_validate(bo);
	} while (ret == -EAGAIN && !fatal_signal_pending(current));
	return ret == -EFAULT || ret == -EPERM ? 0 : ret;
}

int amdgpu_criu_attach_userptrs(struct criu_dump *dump)
{
	const struct amdgpu_criu_dump_object *object;
	u32 flags;
	u64 addr;
	int ret;

	list_for_each_entry(object, &dump->objects, of_dump) {
		struct amdgpu_bo *bo = gem_to_amdgpu_bo(object->gem);

		/* A BO that several files of the process share is attached by the first of them. */
		if (!amdgpu_ttm_tt_is_userptr(bo->tbo.ttm) || amdgpu_criu_userptr_mm(bo))
			continue;
		flags = amdgpu_ttm_tt_get_userflags(bo->tbo.ttm);
		amdgpu_ttm_tt_get_userptr(&bo->tbo, &addr);
		amdgpu_ttm_tt_set_usertask(bo->tbo.ttm, dump->task);
		ret = amdgpu_criu_fault_in(dump->mm, addr, amdgpu_bo_size(bo), true) ?:
		      amdgpu_hmm_register_mm(bo, dump->mm, addr);
		if (!ret && flags & AMDGPU_GEM_USERPTR_VALIDATE) {
			ret = amdgpu_criu_validate_userptr(bo);
			if (ret)
				amdgpu_hmm_unregister(bo);
		}
		if (ret)
			return criu_refuse(dump->call, ret,
					   "userptr (handle %u): cannot attach: %d", object->handle,
					   ret);
	}
	return 0;
}

/* Allocates in the saved placement, or the preferred domains if the BO had no memory. */
static int amdgpu_criu_alloc_bo(struct criu_plan *plan,
				const struct amdgpu_criu_object_record *record,
				struct drm_gem_object **gem)
{
	u32 domain = record->placement;
	u64 flags = record->create_flags;
	u64 size = record->size;

	if (record->preferred_domains & AMDGPU_CRIU_SPECIAL_DOMAINS || !domain)
		domain = record->preferred_domains;
	if (record->preferred_domains & AMDGPU_CRIU_UNIT_DOMAINS)
		size >>= PAGE_SHIFT;
	/* Clear the BO: stale data of others must not leak if user space does not fill the BO. */
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR)
		domain = AMDGPU_GEM_DOMAIN_CPU;
	else
		flags |= AMDGPU_GEM_CREATE_VRAM_CLEARED;
	if (record->kfd_flags & KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS)
		flags |= AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS;
	return amdgpu_gem_object_create_in_vm(plan->adev, plan->fpriv, size, record->alignment,
					      domain, flags, gem);
}

/* Does what AMDGPU_GEM_OP_SET_PLACEMENT and DRM_AMDGPU_GEM_METADATA do. */
static int amdgpu_criu_set_attributes(const struct amdgpu_criu_plan_object *object,
				      struct amdgpu_bo *bo)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	int ret = amdgpu_bo_reserve(bo, false);
	u32 none = 0;

	if (ret)
		return ret;
	bo->preferred_domains = record->preferred_domains;
	bo->allowed_domains = record->allowed_domains;
	ret = amdgpu_bo_set_tiling_flags(bo, record->tiling_flags);
	/* Removing the metadata does not clear its flags. */
	if (!ret && !record->metadata_size && record->metadata_flags)
		ret = amdgpu_bo_set_metadata(bo, &none, sizeof(none), record->metadata_flags);
	ret = ret ?: amdgpu_bo_set_metadata(bo, (void *)object->metadata, record->metadata_size,
					    record->metadata_flags);
	amdgpu_bo_unreserve(bo);
	return ret;
}

/* Like GEM_CREATE, GEM_USERPTR, GEM_OP and GEM_METADATA. The caller puts @gem, if it is set. */
static int amdgpu_criu_create_bo(struct criu_plan *plan,
				 const struct amdgpu_criu_plan_object *object,
				 struct drm_gem_object **gem)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	int ret = amdgpu_criu_alloc_bo(plan, record, gem);
	struct amdgpu_bo *bo;

	if (ret)
		return ret;
	bo = gem_to_amdgpu_bo(*gem);
	/* RESUME registers the notifier. */
	if (record->flags & AMDGPU_CRIU_OBJECT_USERPTR) {
		bo->parent = amdgpu_bo_ref(plan->fpriv->vm.root.bo);
		ret = amdgpu_ttm_tt_set_userptr(&bo->tbo, record->user_addr, record->user_flags);
	}
	return ret ?: amdgpu_criu_set_attributes(object, bo);
}

/* Ends the claim of the caller. */
static int amdgpu_criu_object_create(struct criu_plan *plan, struct amdgpu_criu_plan_object *object)
{
	const struct amdgpu_criu_object_record *record = &object->record;
	struct dma_buf *dmabuf;
	int ret = amdgpu_criu_create_bo(plan, object, &object->gem);

	/* Export with the flags of the process, before another caller can export the BO. */
	if (!ret && record->flags & AMDGPU_CRIU_OBJECT_EXPORTED) {
		dmabuf = amdgpu_gem_prime_export(object->gem, record->flags &
						 AMDGPU_CRIU_OBJECT_EXPORTED_RDWR ? DRM_RDWR : 0);
		if (IS_ERR(dmabuf)) {
			ret = PTR_ERR(dmabuf);
		} else {
			criu_session_exported(plan->call->session, record->object_id, dmabuf);
			dma_buf_put(dmabuf);
		}
	}
	criu_session_bind(plan->call->session, record->object_id, ret ? NULL : object->gem);
	object->bound = !ret;
	return ret;
}

/* Finds the BO in the session, or creates it. It may be that of another file with the same id. */
int amdgpu_criu_object_get(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_object *object = entry;
	const struct amdgpu_criu_object_record *record = &object->record;
	const bool own = amdgpu_criu_object_is_own(plan, record);
	const bool unshared = record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID ||
			      record->flags & AMDGPU_CRIU_OBJECT_USERPTR;
	struct drm_device *dev = adev_to_drm(plan->adev);
	struct drm_gem_object *found;
	int ret = amdgpu_criu_claim(plan->call, record->object_id, own ? dev : NULL,
				    unshared ? 0 : record->size, &found);

	if (ret)
		return ret;
	if (!found)
		return amdgpu_criu_object_create(plan, object);
	if (found->dev == dev) {
		object->gem = found;
		drm_gem_object_get(object->gem);
	}
	amdgpu_criu_bo_ops.put(found);
	return 0;
}

/* Undoes amdgpu_criu_object_get(), also if it failed. @entry: the BO; its handles are closed. */
void amdgpu_criu_object_put(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_object *object = entry;

	if (object->bound)
		criu_session_forget(plan->call->session, object->record.object_id);
	if (object->gem)
		drm_gem_object_put(object->gem);
	object->gem = NULL;
}

const struct criu_kind amdgpu_criu_objects = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_OBJECT, objects, struct amdgpu_criu_plan_object,
		  record.object_id),
	.subject = "BO %llu", .id64 = true, .live = true,
	.unique = { CRIU_UNIQUE_ID_KEPT(object_ids) },
	.tails = { CRIU_KIND_TAIL(struct amdgpu_criu_plan_object, metadata_size, metadata, u8) },
	.dump = amdgpu_criu_dump_objects,
	.fault = amdgpu_criu_object_fault, .check = amdgpu_criu_check_object,
	.check_all = amdgpu_criu_bos_check,
	.apply = amdgpu_criu_object_get, .undo = amdgpu_criu_object_put,
};
