// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * User queues. A paused file has them unmapped, so their MQDs contain what they have done. Packets
 * of a queue signal fences: they write a value to memory that is mapped in all files of the GPU at
 * the same address. Others may wait for a fence, so a queue is unmapped only when all fences that
 * it has published are signaled, and none is published until it is mapped again.
 */
#include <linux/delay.h>
#include <linux/dma-resv.h>

#include "amdgpu_criu_render.h"
#include "amdgpu_userq_fence.h"

/* Milliseconds */
#define AMDGPU_CRIU_USERQ_POLL 10

bool amdgpu_criu_has_userqs(struct amdgpu_fpriv *fpriv)
{
	return !xa_empty(&fpriv->userq_mgr.userq_xa);
}

const struct kfd_criu_mqd_layout *amdgpu_criu_userq_layout(struct amdgpu_device *adev, u32 ip_type)
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
u64 amdgpu_criu_userq_area_size(u32 ip_type)
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

/* Waits for the work on the BOs of a file. */
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

/*
 * Rings the doorbell. The process may be stopped between AMDGPU_USERQ_SIGNAL, which publishes a
 * fence, and its doorbell. Packets before the write pointer are complete: the GPU would execute
 * them whenever the driver maps the queue.
 */
static int amdgpu_criu_ring_doorbell(struct amdgpu_device *adev,
				     struct amdgpu_usermode_queue *queue)
{
	struct amdgpu_bo *bo = queue->db_obj.obj;
	void *doorbells;
	u64 wptr;
	int ret = amdgpu_userq_fence_read_wptr(adev, queue, &wptr) ?: amdgpu_bo_reserve(bo, false);

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
 * Returns 1 if no wave of the queue can be in flight. Those of a compute queue cannot be saved: MES
 * waits for their end to unmap the queue, and when it gives up, the GPU is reset. The packet of a
 * fence is executed when those before it are complete. SDMA queues stop inside of a packet.
 */
static int amdgpu_criu_userq_is_idle(struct amdgpu_device *adev,
				     struct amdgpu_usermode_queue *queue)
{
	u64 wptr;

	if (queue->queue_type == AMDGPU_HW_IP_DMA)
		return 1;
	return amdgpu_userq_fence_read_wptr(adev, queue, &wptr) ?:
	       wptr <= amdgpu_criu_fence_value(queue);
}

/* Waits for the fences of a queue, and until it is idle. */
static int amdgpu_criu_drain_userq(struct criu_dump *dump,
				   struct amdgpu_usermode_queue *queue, unsigned long id,
				   unsigned long deadline)
{
	struct dma_fence *fence;
	int ret = 0;

	while (!ret && (fence = amdgpu_criu_pending_fence(queue))) {
		ret = amdgpu_criu_ring_doorbell(dump->adev, queue) ?:
		      amdgpu_criu_wait_fence(fence, deadline);
		dma_fence_put(fence);
		if (ret == -ETIME)
			return criu_refuse(dump->call, ret,
					   "user queue %lu: its fences are not signaled", id);
	}
	while (!ret && !(ret = amdgpu_criu_userq_is_idle(dump->adev, queue))) {
		if (time_after(jiffies, deadline))
			return criu_refuse(dump->call, -ETIME,
					   "user queue %lu: no fence follows its packets", id);
		if (msleep_interruptible(AMDGPU_CRIU_USERQ_POLL))
			ret = -ERESTARTSYS;
	}
	return min(ret, 0);
}

static int amdgpu_criu_drain_userqs(struct criu_dump *dump, unsigned long deadline)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	int ret = amdgpu_criu_drain_bos(dump, deadline);

	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue)
		if (!ret)
			ret = amdgpu_criu_drain_userq(dump, queue, id, deadline);
	return ret;
}

/*
 * Does what the eviction fence does, but nothing resumes. Does not wait for a resume worker, which
 * may fault pages of a userptr: it neither maps a queue nor creates an eviction fence now.
 */
static int amdgpu_criu_unmap_userqs(struct amdgpu_fpriv *fpriv, unsigned long deadline)
{
	struct amdgpu_userq_mgr *mgr = &fpriv->userq_mgr;
	struct dma_fence *fence;

	WRITE_ONCE(mgr->stopped, true);
	/* An eviction that has begun holds the lock until fences are signaled. */
	while (!mutex_trylock(&mgr->userq_mutex)) {
		if (time_after(jiffies, deadline))
			return -ETIME;
		if (msleep_interruptible(AMDGPU_CRIU_USERQ_POLL))
			return -ERESTARTSYS;
	}
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

	if (!amdgpu_criu_has_userqs(dump->fpriv))
		return 0;
	ret = amdgpu_criu_userqs_carriable(dump);
	if (ret || dump->fpriv->userq_mgr.stopped)
		return ret;
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
	/*
	 * AMDGPU_USERQ_WAIT has returned fence values of other queues, for packets before the next
	 * fence of this one. Their addresses change at a restore.
	 */
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

int amdgpu_criu_dump_userqs(struct criu_dump *dump)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	int ret = 0;

	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue)
		if (!ret)
			ret = amdgpu_criu_dump_userq(dump, queue, id);
	return ret;
}
