// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * User queues. A paused file has them unmapped, so their MQDs contain what they have done. Packets
 * of a queue signal fences: they write a value to memory that is mapped in all files of the GPU at
 * the same address. Others may wait for a fence, so a queue is unmapped only when all fences that
 * it has published are signaled, and none is published until it is mapped again.
 */
#include <linux/bsearch.h>

#include "amdgpu_criu_render.h"
#include "amdgpu_userq_fence.h"

#define AMDGPU_CRIU_USERQ_POLL 10 /* ms */

static const struct kfd_criu_mqd_layout *
amdgpu_criu_userq_layout(struct amdgpu_device *adev, u32 ip_type)
{
	if (!IS_ENABLED(CONFIG_HSA_AMD) ||
	    (ip_type != AMDGPU_HW_IP_COMPUTE && ip_type != AMDGPU_HW_IP_DMA))
		return NULL;
	return kfd_criu_mqd_layout(amdgpu_ip_version(adev, GC_HWIP, 0),
				   ip_type == AMDGPU_HW_IP_DMA);
}

/* The value of the last fence that the queue has signaled: its place in the ring. */
static u64 amdgpu_criu_fence_value(const struct amdgpu_usermode_queue *queue)
{
	return le64_to_cpup((__le64 *)queue->fence_drv->cpu_addr);
}

/* Returns a fence that is published and not signaled, with a reference, or NULL. */
static struct dma_fence *amdgpu_criu_pending_fence(struct amdgpu_usermode_queue *queue)
{
	const u64 value = amdgpu_criu_fence_value(queue);
	struct amdgpu_userq_fence *fence;

	guard(spinlock_irqsave)(&queue->fence_drv->fence_list_lock);
	list_for_each_entry(fence, &queue->fence_drv->fences, link)
		if (fence->base.seqno > value)
			return dma_fence_get(&fence->base);
	return NULL;
}

/* Returns the bytes that mes_userq_mqd_create() expects there. */
static u64 amdgpu_criu_userq_area_size(u32 ip_type)
{
	return ip_type == AMDGPU_HW_IP_DMA ? 32 : 2048;
}

static u64 amdgpu_criu_userq_area(const struct amdgpu_usermode_queue *queue)
{
	return queue->queue_type == AMDGPU_HW_IP_DMA ? queue->userq_prop->csa_addr :
						       queue->userq_prop->eop_gpu_addr;
}

/* Returns the position of the queue's doorbell in its BO, in doorbells. */
static u32 amdgpu_criu_doorbell_offset(struct amdgpu_device *adev,
				       const struct amdgpu_usermode_queue *queue)
{
	return (queue->doorbell_index -
		amdgpu_doorbell_index_on_bar(adev, queue->db_obj.obj, 0, sizeof(u64))) / 2;
}

/* Performs the checks of AMDGPU_USERQ_OP_CREATE, because mappings may have changed since. */
static bool amdgpu_criu_userq_mapped(struct amdgpu_device *adev,
				     struct amdgpu_usermode_queue *queue)
{
	const struct amdgpu_mqd_prop *prop = queue->userq_prop;
	const u64 parts[][2] = {
		{ prop->hqd_base_gpu_addr, prop->queue_size },
		{ prop->rptr_gpu_addr, sizeof(u64) },
		{ prop->wptr_gpu_addr, sizeof(u64) },
		{ amdgpu_criu_userq_area(queue), amdgpu_criu_userq_area_size(queue->queue_type) },
	};
	struct amdgpu_bo *root = queue->vm->root.bo;
	bool mapped = true;
	u64 page;

	if (amdgpu_bo_reserve(root, true))
		return false;
	for (u32 i = 0; i < ARRAY_SIZE(parts); i++)
		mapped &= !amdgpu_userq_input_va_validate(adev, queue, parts[i][0], parts[i][1],
							  &page);
	amdgpu_bo_unreserve(root);
	return mapped;
}

static const char *amdgpu_criu_userq_uncarriable(struct criu_dump *dump,
						 struct amdgpu_usermode_queue *queue)
{
	if (dump->fpriv->vm.process_info)
		return "a user queue in the VM of /dev/kfd";
	if (queue->queue_type == AMDGPU_HW_IP_GFX)
		return "a user queue for graphics";
	if (!amdgpu_criu_userq_layout(dump->adev, queue->queue_type))
		return "a user queue of a GPU generation that is not known yet";
	if (queue->userq_prop->tmz_queue)
		return "a secure user queue";
	if (!amdgpu_criu_userq_mapped(dump->adev, queue))
		return "a user queue whose memory is not mapped";
	if (queue->state > AMDGPU_USERQ_STATE_PREEMPTED)
		return "a user queue that the driver has stopped";
	if (amdgpu_ttm_tt_is_userptr(queue->wptr_obj.obj->tbo.ttm))
		return "a user queue whose write pointer is in a userptr";
	return NULL;
}

static int amdgpu_criu_userqs_carriable(struct criu_dump *dump)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	const char *why;

	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue) {
		why = amdgpu_criu_userq_uncarriable(dump, queue);
		if (why)
			return criu_refuse_state(dump->call, "%s (number %lu)", why, id);
	}
	return 0;
}

static int amdgpu_criu_drain_bos(struct criu_dump *dump, unsigned long deadline)
{
	struct drm_gem_object *gem;
	int handle, ret = 0;

	for (handle = 1; !ret && (gem = amdgpu_criu_next_handle(dump->file, &handle)); handle++) {
		ret = amdgpu_criu_wait_resv(gem->resv, deadline);
		drm_gem_object_put(gem);
		ret = criu_refuse_late(dump->call, ret, "BO %d: work of a user queue hangs",
				       handle);
	}
	return ret;
}

/* Returns 1 if packets follow the last fence that the queue has signaled. */
static int amdgpu_criu_userq_has_packets(struct amdgpu_device *adev,
					 struct amdgpu_usermode_queue *queue, u64 *wptr)
{
	return amdgpu_userq_fence_read_wptr(adev, queue, wptr) ?:
	       *wptr > amdgpu_criu_fence_value(queue);
}

static int amdgpu_criu_ring_doorbell(struct amdgpu_device *adev,
				     struct amdgpu_usermode_queue *queue)
{
	struct amdgpu_bo *bo = queue->db_obj.obj;
	void *doorbells;
	u64 wptr;
	int ret = amdgpu_criu_userq_has_packets(adev, queue, &wptr);

	if (ret <= 0)
		return ret;
	ret = amdgpu_bo_reserve(bo, false);
	if (ret)
		return ret;
	ret = amdgpu_bo_kmap(bo, &doorbells);
	if (!ret) {
		atomic64_set((atomic64_t *)doorbells + amdgpu_criu_doorbell_offset(adev, queue),
			     wptr);
		amdgpu_bo_kunmap(bo);
	}
	amdgpu_bo_unreserve(bo);
	return ret;
}

/*
 * Before anything is awaited: a process may be stopped before it rings a doorbell, and before
 * AMDGPU_USERQ_SIGNAL. Packets before the write pointer are complete.
 */
int amdgpu_criu_ring_userqs(struct criu_dump *dump)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	int ret = amdgpu_criu_userqs_carriable(dump);

	if (dump->fpriv->userq_mgr.stopped)
		return ret;
	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue)
		ret = ret ?: amdgpu_criu_ring_doorbell(dump->adev, queue);
	return ret;
}

/*
 * Afterwards no wave of the queue can be in flight. MES waits for their end to unmap a compute
 * queue, and when it gives up, the GPU is reset. The packet of a fence is executed when those
 * before it are complete. SDMA queues stop inside of a packet.
 */
static int amdgpu_criu_drain_userq(struct criu_dump *dump,
				   struct amdgpu_usermode_queue *queue, unsigned long id,
				   unsigned long deadline)
{
	struct dma_fence *fence;
	u64 wptr;
	int ret = 0;

	while (!ret && (fence = amdgpu_criu_pending_fence(queue))) {
		ret = amdgpu_criu_wait_fence(fence, deadline);
		dma_fence_put(fence);
		ret = criu_refuse_late(dump->call, ret,
				       "user queue %lu: its fences are not signaled", id);
	}
	while (!ret && queue->queue_type != AMDGPU_HW_IP_DMA) {
		ret = amdgpu_criu_userq_has_packets(dump->adev, queue, &wptr);
		if (ret <= 0)
			break;
		if (time_after(jiffies, deadline))
			return criu_refuse(dump->call, -ETIME,
					   "user queue %lu: no fence follows its packets", id);
		ret = msleep_interruptible(AMDGPU_CRIU_USERQ_POLL) ? -ERESTARTSYS : 0;
	}
	return ret;
}

static int amdgpu_criu_drain_userqs(struct criu_dump *dump, unsigned long deadline)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	int ret = amdgpu_criu_drain_bos(dump, deadline);

	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue)
		ret = ret ?: amdgpu_criu_drain_userq(dump, queue, id, deadline);
	return ret;
}

/* Does what the eviction fence does, but nothing resumes, so that it waits for no resume worker. */
static int amdgpu_criu_unmap_userqs(struct amdgpu_fpriv *fpriv, unsigned long deadline)
{
	struct amdgpu_userq_mgr *mgr = &fpriv->userq_mgr;
	struct dma_fence *fence;

	/* An eviction that has begun holds the lock until fences are signaled. */
	while (!mutex_trylock(&mgr->userq_mutex)) {
		if (time_after(jiffies, deadline))
			return -ETIME;
		if (msleep_interruptible(AMDGPU_CRIU_USERQ_POLL))
			return -ERESTARTSYS;
	}
	WRITE_ONCE(mgr->stopped, true);
	amdgpu_userq_evict(mgr);
	fence = amdgpu_evf_mgr_get_fence(&fpriv->evf_mgr);
	dma_fence_signal(fence);
	dma_fence_put(fence);
	mutex_unlock(&mgr->userq_mutex);
	return 0;
}

/* Unmaps the queues of a paused file until amdgpu_criu_start_userqs(), also after an error. */
int amdgpu_criu_stop_userqs(struct criu_dump *dump, unsigned long deadline)
{
	int ret;

	if (!amdgpu_criu_has_userqs(dump->fpriv) || dump->fpriv->userq_mgr.stopped)
		return 0;
	ret = amdgpu_criu_drain_userqs(dump, deadline);
	if (ret)
		return ret;
	ret = amdgpu_criu_unmap_userqs(dump->fpriv, deadline);
	if (ret)
		return criu_refuse_late(dump->call, ret,
					"an eviction of user queues does not complete");
	/* A queue that does not respond has another state now. */
	return amdgpu_criu_userqs_carriable(dump);
}

/* Maps restored queues. If it fails, they are unmapped, so that it can be repeated. */
int amdgpu_criu_resume_userqs(struct criu_dump *dump)
{
	int ret = amdgpu_criu_start_userqs(dump->fpriv), undone;

	if (!ret)
		return 0;
	undone = amdgpu_criu_unmap_userqs(dump->fpriv, jiffies + AMDGPU_USERQ_START_TIME);
	WRITE_ONCE(dump->fpriv->userq_mgr.stopped, true);
	return criu_refuse(dump->call, ret, "user queues cannot be mapped: %d%s", ret,
			   undone ? ", and some run" : "");
}

static int amdgpu_criu_dump_userq(struct criu_dump *dump,
				  struct amdgpu_usermode_queue *queue, u32 id)
{
	const struct kfd_criu_mqd_layout *layout = amdgpu_criu_userq_layout(dump->adev,
									     queue->queue_type);
	const struct amdgpu_criu_dump_object *doorbells =
		xa_load(&dump->by_gem, (unsigned long)&queue->db_obj.obj->tbo.base);
	const struct amdgpu_mqd_prop *prop = queue->userq_prop;
	struct amdgpu_criu_userq_record record = {
		.id = id,
		.ip_type = queue->queue_type,
		.priority = queue->priority,
		.doorbell_handle = doorbells ? doorbells->handle : 0,
		.doorbell_offset = amdgpu_criu_doorbell_offset(dump->adev, queue),
		.queue_va = prop->hqd_base_gpu_addr,
		.queue_size = prop->queue_size,
		.rptr_va = prop->rptr_gpu_addr,
		.wptr_va = prop->wptr_gpu_addr,
		.area_va = amdgpu_criu_userq_area(queue),
		.fence_value = amdgpu_criu_fence_value(queue),
	};
	void *words;

	if (!IS_ENABLED(CONFIG_HSA_AMD) || !record.doorbell_handle)
		return criu_refuse_state(dump->call, "a user queue whose doorbell has no handle");
	/* Packets wait for fence values of other queues, whose addresses change at a restore. */
	if (!xa_empty(&queue->fence_drv_xa))
		return criu_refuse_state(dump->call, "a user queue that waits for another");
	record.num_words = kfd_criu_mqd_size(layout) / sizeof(u32);
	criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_USERQ, &record);
	words = criu_writer_tail(&dump->writer, kfd_criu_mqd_size(layout));
	if (words) {
		memcpy(words, queue->mqd.cpu_ptr, kfd_criu_mqd_size(layout));
		kfd_criu_mqd_strip(layout, words, 1);
	}
	dump->info.num_queues++;
	return 0;
}

static int amdgpu_criu_dump_userqs(struct criu_dump *dump)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	int ret = 0;

	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue)
		ret = ret ?: amdgpu_criu_dump_userq(dump, queue, id);
	return ret;
}

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

/* The handles are sorted. */
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

static struct criu_range amdgpu_criu_doorbell_range(const struct criu_kind *kind, const void *entry,
						    u32 gpu)
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
	CRIU_KIND(AMDGPU_CRIU_RECORD_USERQ, userqs, struct amdgpu_criu_plan_userq, record.id),
	.subject = "user queue %llu",
	.unique = { CRIU_UNIQUE_ID, { amdgpu_criu_doorbell_range, "its doorbell occurs twice" } },
	.tails = { CRIU_KIND_TAIL(struct amdgpu_criu_plan_userq, num_words, words, u32) },
	.dump = amdgpu_criu_dump_userqs,
	.fault = amdgpu_criu_userq_fault, .check = amdgpu_criu_check_userq,
	.begin = amdgpu_criu_begin_userqs,
	.apply = amdgpu_criu_apply_userq, .undo = amdgpu_criu_undo_userq,
	.undo_all = amdgpu_criu_undo_userqs,
};
