// SPDX-License-Identifier: GPL-2.0 OR MIT
/* User queues: RESTORE. Restored queues are unmapped until RESUME. */
#include <linux/bsearch.h>
#include <linux/log2.h>

#include "amdgpu_criu_render.h"
#include "amdgpu_userq_fence.h"

/* Returns the BO that is mapped at a part of the address space, or NULL. */
static const struct amdgpu_criu_plan_object *
amdgpu_criu_plan_mapped(const struct criu_plan *plan, u64 va, u64 size)
{
	const struct amdgpu_device *adev = plan->adev;
	const struct criu_range *range;

	va &= AMDGPU_GMC_HOLE_MASK;
	range = criu_ranges_find(plan->ranges, plan->num_mappings, va, size);
	return range ? plan->mappings[range->index].object : NULL;
}

/* The handles have been sorted. */
static bool amdgpu_criu_has_doorbell(const struct criu_plan *plan, u32 handle, u64 offset)
{
	const struct amdgpu_criu_plan_handle *found =
		bsearch(&handle, plan->handles, plan->num_handles, sizeof(*plan->handles),
			amdgpu_criu_cmp_numbers);

	return found && (found->object->record.preferred_domains & AMDGPU_GEM_DOMAIN_DOORBELL) &&
	       offset < found->object->record.size / sizeof(u64);
}

/* Performs the checks of AMDGPU_USERQ_OP_CREATE. */
static const char *amdgpu_criu_userq_fault(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_plan_userq *userq = entry;
	const struct amdgpu_criu_userq_record *record = entry;
	const struct kfd_criu_mqd_layout *layout;
	const struct amdgpu_criu_plan_object *wptr;

	BUILD_BUG_ON(AMDGPU_CRIU_USERQS_MAX != AMDGPU_MAX_USERQ_COUNT);

	if (!IS_ENABLED(CONFIG_HSA_AMD))
		return "this kernel is built without CONFIG_HSA_AMD";
	if (!record->id || record->id > AMDGPU_MAX_USERQ_COUNT)
		return "id";
	layout = amdgpu_criu_userq_layout(plan->adev, record->ip_type);
	if (!layout)
		return "type";
	if (record->priority > AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_HIGH)
		return "priority";
	if (!is_power_of_2(record->queue_size) || record->queue_size < AMDGPU_GPU_PAGE_SIZE)
		return "size of the ring";
	if (!amdgpu_criu_has_doorbell(plan, record->doorbell_handle, record->doorbell_offset))
		return "doorbell";
	if (!IS_ALIGNED(record->rptr_va | record->wptr_va, sizeof(u64)))
		return "alignment of a pointer";
	wptr = amdgpu_criu_plan_mapped(plan, record->wptr_va, sizeof(u64));
	if (!wptr || wptr->record.size > PAGE_SIZE ||
	    !amdgpu_criu_plan_mapped(plan, record->queue_va, record->queue_size) ||
	    !amdgpu_criu_plan_mapped(plan, record->rptr_va, sizeof(u64)) ||
	    !amdgpu_criu_plan_mapped(plan, record->area_va,
				     amdgpu_criu_userq_area_size(record->ip_type)))
		return "its memory is not mapped";
	if (wptr->record.flags & AMDGPU_CRIU_OBJECT_USERPTR)
		return "its write pointer is in a userptr";
	if (record->num_words * sizeof(u32) != kfd_criu_mqd_size(layout))
		return "MQD size";
	/* The driver sets no wave-save area. */
	if (kfd_criu_mqd_check_bounds(layout, userq->words, 1, 0, 0))
		return "saved waves";
	return record->pad ? "pad is not zero" : NULL;
}

static int amdgpu_criu_check_userq(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_plan_userq *userq = entry;
	const struct amdgpu_criu_userq_record *record = entry;
	int ret;

	if (record->flags)
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x", record->flags);
	if (!plan->adev->userq_funcs[record->ip_type])
		return criu_refuse(plan->call, -ENODEV, "the GPU has no user queues of type %u",
				   record->ip_type);
	if (amdgpu_userq_priority_permit(plan->file, record->priority))
		return criu_refuse(plan->call, -EACCES, "its priority needs CAP_SYS_NICE");
	ret = kfd_criu_mqd_check(amdgpu_criu_userq_layout(plan->adev, record->ip_type),
				 userq->words, 1);
	return ret ? criu_refuse(plan->call, ret, "MQD has words that this kernel sets itself") : 0;
}

static struct criu_range amdgpu_criu_doorbell_range(const struct criu_kind *kind, const void *entry)
{
	const struct amdgpu_criu_userq_record *record = entry;

	return (struct criu_range) {
		.start = (u64)record->doorbell_handle << 32 | record->doorbell_offset, .size = 1,
	};
}

static int amdgpu_criu_begin_userqs(struct criu_plan *plan)
{
	plan->fpriv->userq_mgr.stopped = plan->num_userqs;
	return 0;
}

/* Follows the code path of AMDGPU_USERQ_OP_CREATE. */
static int amdgpu_criu_apply_userq(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_plan_userq *userq = entry;
	const struct amdgpu_criu_userq_record *record = entry;
	const struct amdgpu_userq_restore restore = {
		.queue_id = record->id,
		.args = &record->area_va, /* the only field of either type */
	};
	union drm_amdgpu_userq args = { .in = {
		.op = AMDGPU_USERQ_OP_CREATE,
		.ip_type = record->ip_type,
		.doorbell_handle = record->doorbell_handle,
		.doorbell_offset = record->doorbell_offset,
		.flags = record->priority << AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_SHIFT,
		.queue_va = record->queue_va,
		.queue_size = record->queue_size,
		.rptr_va = record->rptr_va,
		.wptr_va = record->wptr_va,
		.mqd = (uintptr_t)&record->area_va,
		.mqd_size = sizeof(record->area_va),
	} };
	struct amdgpu_usermode_queue *queue;
	int ret = amdgpu_userq_create(plan->file, &args, &restore);

	if (ret || !IS_ENABLED(CONFIG_HSA_AMD))
		return ret;
	queue = xa_load(&plan->fpriv->userq_mgr.userq_xa, record->id);
	*(__le64 *)queue->fence_drv->cpu_addr = cpu_to_le64(record->fence_value);
	kfd_criu_mqd_merge(amdgpu_criu_userq_layout(plan->adev, record->ip_type),
			   queue->mqd.cpu_ptr, userq->words, 1);
	return 0;
}

static void amdgpu_criu_undo_userq(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_userq_record *record = entry;

	amdgpu_userq_put(xa_erase(&plan->fpriv->userq_mgr.userq_xa, record->id));
}

static void amdgpu_criu_undo_userqs(struct criu_plan *plan)
{
	plan->fpriv->userq_mgr.stopped = false;
}

const struct criu_kind amdgpu_criu_userqs = {
	.type = AMDGPU_CRIU_RECORD_USERQ,
	.subject = "user queue %llu",
	CRIU_KIND(userqs, struct amdgpu_criu_plan_userq, record.id),
	.tails = { CRIU_KIND_TAIL(struct amdgpu_criu_plan_userq, num_words, words, u32) },
	.unique = { CRIU_UNIQUE_ID, { amdgpu_criu_doorbell_range, "its doorbell occurs twice" } },
	.dump = amdgpu_criu_dump_userqs,
	.fault = amdgpu_criu_userq_fault,
	.check = amdgpu_criu_check_userq,
	.begin = amdgpu_criu_begin_userqs,
	.apply = amdgpu_criu_apply_userq,
	.undo = amdgpu_criu_undo_userq,
	.undo_all = amdgpu_criu_undo_userqs,
};
