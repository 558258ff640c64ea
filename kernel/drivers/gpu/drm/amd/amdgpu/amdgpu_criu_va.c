// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: GPU mappings
 *
 * Carried: mappings of the file's VM, except those that the driver or KFD created: several of one
 * BO, partial, with flags, sparse, and the remains of replaced and cleared ones.
 *
 * Not carried: mappings of a BO whose handle was closed.
 */
#include <drm/drm_exec.h>

#include "amdgpu_criu_render.h"

/* Flags that DRM_AMDGPU_GEM_VA accepts for mappings with and without a BO. */
#define AMDGPU_CRIU_VA_FLAGS (AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE | \
			      AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE | \
			      AMDGPU_VM_MTYPE_MASK | AMDGPU_VM_PAGE_NOALLOC)
#define AMDGPU_CRIU_PRT_FLAGS (AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_PRT)

/* Finds the pages where mappings begin that KFD created, for the process or for itself. */
static int amdgpu_criu_find_kfd_mappings(const struct amdgpu_fpriv *fpriv,
					 struct amdkfd_process_info *info, struct xarray *of_kfd)
{
	struct list_head *const lists[] = {
		&info->kfd_bo_list, &info->userptr_valid_list, &info->userptr_inval_list,
	};
	const struct kfd_mem_attachment *attachment;
	struct kgd_mem *mem;
	int ret = 0;

	/* Its holders may wait for memory of the process. */
	if (mutex_lock_interruptible(&info->lock))
		return -ERESTARTSYS;
	for (u32 i = 0; i < ARRAY_SIZE(lists); i++) {
		list_for_each_entry(mem, lists[i], validate_list) {
			guard(mutex)(&mem->lock);
			list_for_each_entry(attachment, &mem->attachments, list)
				if (!ret && attachment->is_mapped &&
				    attachment->bo_va->base.vm == &fpriv->vm)
					ret = xa_err(xa_store(of_kfd, attachment->va /
							      AMDGPU_GPU_PAGE_SIZE, mem,
							      GFP_KERNEL_ACCOUNT));
		}
	}
	mutex_unlock(&info->lock);
	return ret;
}

static int amdgpu_criu_dump_mapping(struct criu_dump *dump,
				    const struct amdgpu_bo_va_mapping *mapping)
{
	struct amdgpu_bo *bo = mapping->bo_va->base.bo;
	struct amdgpu_criu_mapping_record record = {
		.va = mapping->start * AMDGPU_GPU_PAGE_SIZE,
		.size = (mapping->last - mapping->start + 1) * AMDGPU_GPU_PAGE_SIZE,
		.offset = mapping->offset,
		.flags = mapping->flags,
	};

	if (bo && amdgpu_criu_dump_object_id(dump, &bo->tbo.base, &record.object_id))
		return criu_refuse_state(dump->call,
					 "a mapping of a BO without handle, at %#llx", record.va);
	criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_MAPPING, &record);
	return 0;
}

static int amdgpu_criu_dump_mappings(struct criu_dump *dump)
{
	const struct amdgpu_fpriv *fpriv = dump->fpriv;
	struct amdgpu_bo *root = fpriv->vm.root.bo;
	const struct amdgpu_bo_va_mapping *mapping;
	struct xarray of_kfd;
	struct rb_node *node;
	int ret = 0;

	xa_init_flags(&of_kfd, XA_FLAGS_ACCOUNT);
	if (fpriv->vm.process_info)
		ret = amdgpu_criu_find_kfd_mappings(fpriv, fpriv->vm.process_info, &of_kfd);
	ret = ret ?: amdgpu_bo_reserve(root, false);
	if (ret)
		goto out_destroy;
	for (node = rb_first_cached(&fpriv->vm.va); !ret && node; node = rb_next(node)) {
		mapping = rb_entry(node, struct amdgpu_bo_va_mapping, rb);
		if (mapping->bo_va != fpriv->csa_va && mapping->bo_va != fpriv->seq64_va &&
		    !xa_load(&of_kfd, mapping->start))
			ret = amdgpu_criu_dump_mapping(dump, mapping);
	}
	amdgpu_bo_unreserve(root);
out_destroy:
	xa_destroy(&of_kfd);
	return ret;
}

/* Performs the checks of DRM_AMDGPU_GEM_VA. */
static const char *amdgpu_criu_mapping_fault(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_mapping *mapping = entry;
	const struct amdgpu_criu_mapping_record *record = &mapping->record;
	const u64 mask = AMDGPU_GPU_PAGE_SIZE - 1;
	u64 end;

	mapping->object = amdgpu_criu_plan_object(plan, record->object_id);
	if (record->pad || (record->va | record->size | record->offset) & mask || !record->size)
		return "bad address, size or offset";
	if (record->va < AMDGPU_VA_RESERVED_BOTTOM ||
	    check_add_overflow(record->va, record->size, &end) || end > plan->files->va_end)
		return "not in the address space";
	if (!record->object_id)
		return record->flags & ~AMDGPU_CRIU_PRT_FLAGS ||
		       !(record->flags & AMDGPU_VM_PAGE_PRT) ? "without BO, and not PRT" : NULL;
	if (!mapping->object || !mapping->object->record.handle)
		return "of a BO without handle";
	if (record->flags & ~AMDGPU_CRIU_VA_FLAGS)
		return "unknown flags";
	if (check_add_overflow(record->offset, record->size, &end) ||
	    end > mapping->object->record.size)
		return "beyond the end of its BO";
	return NULL;
}

/* Like DRM_AMDGPU_GEM_VA, but fails if the page tables of a VM that is ready cannot be written. */
static int amdgpu_criu_apply_mapping(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_plan_mapping *mapping = entry;
	const struct amdgpu_criu_mapping_record *record = entry;
	struct drm_gem_object *gem = mapping->object ? mapping->object->gem : NULL;
	struct amdgpu_device *adev = plan->adev;
	struct amdgpu_vm *vm = &plan->fpriv->vm;
	struct amdgpu_bo_va *bo_va;
	struct drm_exec exec;
	int ret = amdgpu_gem_va_lock(plan->fpriv, gem, &exec);

	if (ret)
		goto out_unlock;
	/* A handle has no bo_va if allocating the bo_va failed. */
	bo_va = gem ? amdgpu_vm_bo_find(vm, gem_to_amdgpu_bo(gem)) : plan->fpriv->prt_va;
	ret = bo_va ? amdgpu_vm_bo_map(adev, bo_va, record->va, record->offset, record->size,
				       record->flags) : -ENOMEM;
	if (!ret && amdgpu_vm_ready(vm))
		ret = amdgpu_vm_clear_freed(adev, vm, &vm->last_update) ?:
		      amdgpu_vm_bo_update(adev, bo_va, false) ?:
		      amdgpu_vm_update_pdes(adev, vm, false);
out_unlock:
	drm_exec_fini(&exec);
	return ret;
}

/* Closing the handles removes mappings of BOs. The driver searches the others in this order. */
static void amdgpu_criu_undo_mapping(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_plan_mapping *mapping = entry;
	struct amdgpu_vm *vm = &plan->fpriv->vm;

	if (mapping->object || amdgpu_bo_reserve(vm->root.bo, true))
		return;
	if (!amdgpu_vm_bo_unmap(plan->adev, plan->fpriv->prt_va, mapping->record.va) &&
	    amdgpu_vm_ready(vm))
		amdgpu_vm_clear_freed(plan->adev, vm, NULL);
	amdgpu_bo_unreserve(vm->root.bo);
}

const struct criu_kind amdgpu_criu_mappings = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_MAPPING, mappings, struct amdgpu_criu_plan_mapping, record.va),
	.subject = "mapping at %#llx", .id64 = true,
	.extent = offsetof(struct amdgpu_criu_plan_mapping, record.size),
	.unique = { CRIU_UNIQUE_EXTENT_KEPT(ranges) },
	.dump = amdgpu_criu_dump_mappings,
	.fault = amdgpu_criu_mapping_fault,
	.apply = amdgpu_criu_apply_mapping, .undo = amdgpu_criu_undo_mapping,
};
