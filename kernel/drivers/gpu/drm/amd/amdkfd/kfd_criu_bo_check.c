// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Checks whether the BOs of a blob are valid, and whether this machine can restore them. */
#include <linux/cleanup.h>
#include <linux/slab.h>

#include "kfd_criu.h"

/* Makes the checks of AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, and compares the fields with each other. */
static const char *kfd_criu_bo_fault(const struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	const bool imported = record->flags & KFD_CRIU_BO_IMPORTED;
	const u32 flags = record->alloc_flags;
	struct kfd_node *node = bo->device->pdd->dev;

	if (!record->object_id || record->handle > INT_MAX)
		return "bad id or handle";
	if (hweight32(flags & KFD_CRIU_BO_KINDS) != 1)
		return "flags of several kinds of BO";
	if (imported && !(flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)))
		return "imported, but of a kind that cannot be";
	if (record->domain != kfd_criu_bo_domain(flags) ||
	    (record->table_flags & ~AMDGPU_CRIU_BO_SHARED) !=
	    (kfd_criu_bo_table_flags(flags) | (imported ? AMDGPU_CRIU_BO_IMPORTED : 0)))
		return "domain or flags do not fit its kind";
	if (!record->size || !PAGE_ALIGNED(record->size) || record->size > BIT_ULL(48) ||
	    !PAGE_ALIGNED(record->va) || record->va > BIT_ULL(57))
		return "bad size or address";
	if (!record->va && record->num_mapped)
		return "mapped, but has no address";
	if (!(flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != !record->user_addr)
		return "bad user address";
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) &&
	    record->size != kfd_doorbell_process_slice(node->kfd))
		return "doorbells of another size";
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) && record->size != PAGE_SIZE)
		return "MMIO page of another size";
	return NULL;
}

static int kfd_criu_check_bo(struct kfd_criu_plan *plan, struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	const char *fault;
	u32 i, j;

	bo->device = kfd_criu_plan_device(plan, record->gpu_id);
	if (!bo->device || !(bo->device->record.flags & KFD_CRIU_DEVICE_VM))
		fault = "on a GPU without a VM";
	else if (record->num_mapped > plan->num_devices)
		fault = "mapped twice on one GPU";
	else
		fault = kfd_criu_bo_fault(bo);
	for (i = 0; !fault && i < record->num_mapped; i++) {
		const struct kfd_criu_plan_device *on = kfd_criu_plan_device(plan,
									     bo->mapped[i]);

		if (!on || !(on->record.flags & KFD_CRIU_DEVICE_VM))
			fault = "mapped on a GPU without a VM";
		for (j = 0; j < i; j++)
			if (bo->mapped[j] == bo->mapped[i])
				fault = "mapped twice on one GPU";
	}
	if (!fault)
		return 0;
	return criu_refuse(plan->call, -EBADMSG, "BO %u:%u: %s", record->gpu_id, record->handle,
			   fault);
}

/* Checks whether this machine can restore a valid BO. */
static int kfd_criu_check_bo_here(struct kfd_criu_plan *plan, const struct kfd_criu_plan_bo *bo)
{
	const struct kfd_criu_bo_record *record = &bo->record;
	const u32 flags = record->alloc_flags;
	struct kfd_node *node = bo->device->pdd->dev;

	if ((flags & ~(KFD_CRIU_BO_KINDS | KFD_CRIU_BO_ATTRS)) ||
	    (record->flags & ~KFD_CRIU_BO_IMPORTED) || record->pad)
		return criu_refuse(plan->call, -EOPNOTSUPP, "BO %u:%u: unknown flags %#x, %#x",
				   record->gpu_id, record->handle, flags, record->flags);
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC) && (flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) &&
	    !kfd_dev_is_large_bar(node))
		return criu_refuse(plan->call, -ENODEV,
				   "BO %u:%u: the CPU had access, GPU %u has a small BAR",
				   record->gpu_id, record->handle, node->id);
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) &&
	    (!node->adev->rmmio_remap.bus_addr || PAGE_SIZE > 4096))
		return criu_refuse(plan->call, -ENODEV, "BO %u:%u: GPU %u has no MMIO page",
				   record->gpu_id, record->handle, node->id);
	return 0;
}

/* Two BOs must not overlap on a GPU: amdgpu_vm_bo_map() would refuse the second. */
static int kfd_criu_check_bo_overlap(struct kfd_criu_plan *plan, u32 gpu_id,
				     struct criu_range *ranges)
{
	const struct criu_range *culprit;
	u32 num = 0;
	u32 i, j;

	for (i = 0; i < plan->num_bos; i++) {
		const struct kfd_criu_plan_bo *bo = &plan->bos[i];

		for (j = 0; j < bo->record.num_mapped; j++) {
			if (bo->mapped[j] != gpu_id)
				continue;
			ranges[num++] = (struct criu_range) {
				.start = bo->record.va,
				.size = kfd_criu_bo_va_size(&bo->record),
				.index = i,
			};
		}
	}
	if (!criu_ranges_check(ranges, num, &culprit))
		return 0;
	return criu_refuse(plan->call, -EBADMSG, "BO %u:%u overlaps another on GPU %u",
			   plan->bos[culprit->index].record.gpu_id,
			   plan->bos[culprit->index].record.handle, gpu_id);
}

static int kfd_criu_check_bo_overlaps(struct kfd_criu_plan *plan)
{
	struct criu_range *ranges __free(kvfree) =
		kvcalloc(plan->num_bos, sizeof(*ranges), GFP_KERNEL_ACCOUNT);
	int ret = 0;

	if (plan->num_bos && !ranges)
		return -ENOMEM;
	for (u32 i = 0; !ret && i < plan->num_devices; i++)
		ret = kfd_criu_check_bo_overlap(plan, plan->devices[i].record.gpu_id, ranges);
	return ret;
}

static u64 kfd_criu_bo_handle(const void *entry)
{
	const struct kfd_criu_plan_bo *bo = entry;

	return MAKE_HANDLE(bo->record.gpu_id, bo->record.handle);
}

/* A process may import a BO that it has allocated, and import a BO more than once. */
static u64 kfd_criu_bo_allocated(const void *entry)
{
	const struct kfd_criu_plan_bo *bo = entry;

	return bo->record.flags & KFD_CRIU_BO_IMPORTED ? KFD_CRIU_NO_ID : bo->record.object_id;
}

/* Fills the BO table's entry for a BO of a plan */
void kfd_criu_plan_entry(const void *plan, u32 index, struct amdgpu_criu_bo *entry)
{
	const struct kfd_criu_plan_bo *bo = &((const struct kfd_criu_plan *)plan)->bos[index];

	kfd_criu_bo_entry(&bo->record, entry);
	entry->new_mmap_offset = bo->new_mmap_offset;
}

int kfd_criu_check_bos(struct kfd_criu_plan *plan, const struct amdgpu_criu_state *args)
{
	int ret;

	for (u32 i = 0; i < plan->num_bos; i++) {
		ret = kfd_criu_check_bo(plan, &plan->bos[i]);
		if (!ret)
			ret = kfd_criu_check_bo_here(plan, &plan->bos[i]);
		if (ret)
			return ret;
	}
	ret = kfd_criu_check_unique(plan, "BO handle", plan->bos, plan->num_bos,
				    sizeof(*plan->bos), kfd_criu_bo_handle);
	if (!ret)
		ret = kfd_criu_check_unique(plan, "BO object", plan->bos, plan->num_bos,
					    sizeof(*plan->bos), kfd_criu_bo_allocated);
	if (!ret)
		ret = kfd_criu_check_bo_overlaps(plan);
	if (!ret)
		ret = amdgpu_criu_bos_check(plan->call, args, plan->tables, plan, plan->num_bos,
					    kfd_criu_plan_entry);
	return ret;
}
