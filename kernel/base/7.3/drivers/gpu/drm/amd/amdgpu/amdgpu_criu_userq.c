// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * User queues. A paused file has them unmapped, so their MQDs contain what they have done. Packets
 * of a queue signal fences: they write a value to memory that is mapped in all files of the GPU at
 * the same address. A saved queue may have fences that are not signaled, but only in syncobjs.
 */
#include <drm/drm_syncobj.h>
#include <linux/delay.h>
#include <linux/dma-resv.h>

#include "amdgpu_criu_render.h"
#include "amdgpu_userq_fence.h"

/* Limit of the wait for fences that may be saved: most queues are between two submissions. */
#define AMDGPU_CRIU_FENCE_TIME (HZ / 2)
/* Milliseconds */
#define AMDGPU_CRIU_EVICTION_POLL 10

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

/*
 * True if the fence is one of a queue of the file, which is saved with the queue. The gate of the
 * file is closed: no queue is created or destroyed.
 */
bool amdgpu_criu_carries_fence(struct amdgpu_fpriv *fpriv, const struct dma_fence *fence)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;

	xa_for_each(&fpriv->userq_mgr.userq_xa, id, queue)
		if (queue->fence_drv->context == fence->context)
			return true;
	return false;
}

/* Gets the next greater value of a fence that is not signaled. */
static bool amdgpu_criu_next_value(struct amdgpu_userq_fence_driver *drv, u64 *value)
{
	const struct amdgpu_userq_fence *fence;
	u64 next = U64_MAX;

	guard(spinlock_irqsave)(&drv->fence_list_lock);
	list_for_each_entry(fence, &drv->fences, link)
		if (fence->base.seqno > *value)
			next = min(next, fence->base.seqno);
	*value = next;
	return next != U64_MAX;
}

/*
 * True if packets may wait for a fence value of another queue: one that AMDGPU_USERQ_WAIT has
 * returned since the last fence of this queue, or before a fence that is not signaled. The
 * addresses of fence values change at a restore.
 */
static bool amdgpu_criu_userq_waits(struct amdgpu_usermode_queue *queue)
{
	const struct amdgpu_userq_fence *fence;

	if (!xa_empty(&queue->fence_drv_xa))
		return true;
	guard(spinlock_irqsave)(&queue->fence_drv->fence_list_lock);
	list_for_each_entry(fence, &queue->fence_drv->fences, link)
		if (fence->fence_drv_array_count)
			return true;
	return false;
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

static const char *amdgpu_criu_userq_uncarriable(struct amdgpu_criu_dump *dump,
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

static int amdgpu_criu_userqs_carriable(struct amdgpu_criu_dump *dump)
{
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	const char *why;

	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue) {
		why = amdgpu_criu_userq_uncarriable(dump, queue);
		if (why)
			return criu_refuse(dump->out.call, -EOPNOTSUPP,
					   "cannot carry: %s (number %lu)", why, id);
	}
	return 0;
}

/*
 * Waits for the work on the BOs of a file. Another file copies their contents, and would wait for
 * fences that no queue signals. Fences in syncobjs need not be signaled.
 */
static int amdgpu_criu_drain_userqs(struct amdgpu_criu_dump *dump, unsigned long deadline)
{
	const unsigned long soon = jiffies + AMDGPU_CRIU_FENCE_TIME;
	struct amdgpu_usermode_queue *queue;
	struct drm_gem_object *gem;
	unsigned long id;
	int handle = 1;
	long ret = 1;

	for (; ret > 0 && (gem = amdgpu_criu_next_handle(dump->file, &handle)); handle++) {
		ret = dma_resv_wait_timeout(gem->resv, DMA_RESV_USAGE_READ, true,
					    max(1L, (long)(deadline - jiffies)));
		drm_gem_object_put(gem);
		if (!ret)
			return criu_refuse(dump->out.call, -ETIME,
					   "BO %d: work of a user queue hangs", handle);
	}
	if (ret < 0)
		return ret;
	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue) {
		if (queue->last_fence)
			ret = dma_fence_wait_timeout(queue->last_fence, true,
						     max(1L, (long)(soon - jiffies)));
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Does what the eviction fence does, but does not wait for fences, and nothing resumes. */
static int amdgpu_criu_unmap_userqs(struct amdgpu_criu_dump *dump, unsigned long deadline)
{
	struct amdgpu_userq_mgr *mgr = &dump->fpriv->userq_mgr;
	struct amdgpu_eviction_fence_mgr *evf_mgr = &dump->fpriv->evf_mgr;
	struct dma_fence *fence;

	WRITE_ONCE(mgr->stopped, true);
	cancel_delayed_work_sync(&mgr->resume_work);
	/* An eviction that has begun holds the lock until fences are signaled. */
	while (!mutex_trylock(&mgr->userq_mutex)) {
		if (time_after(jiffies, deadline))
			return criu_refuse(dump->out.call, -ETIME,
					   "an eviction of user queues does not complete");
		if (msleep_interruptible(AMDGPU_CRIU_EVICTION_POLL))
			return -ERESTARTSYS;
	}
	amdgpu_userq_evict(mgr);
	fence = amdgpu_evf_mgr_get_fence(evf_mgr);
	dma_fence_signal(fence);
	dma_fence_put(fence);
	mutex_unlock(&mgr->userq_mutex);
	flush_work(&evf_mgr->suspend_work);
	return 0;
}

/* UNPAUSE would map queues whose userptrs and page tables RESUME has not prepared. */
int amdgpu_criu_check_resumed(const struct amdgpu_criu_dump *dump)
{
	return dump->fpriv->userq_mgr.stopped ?
	       criu_refuse_state(dump->out.call, "user queues that wait for RESUME") : 0;
}

/* Unmaps the queues of a paused file until amdgpu_criu_start_userqs(), also after an error. */
int amdgpu_criu_stop_userqs(struct amdgpu_criu_dump *dump, unsigned long deadline)
{
	int ret;

	if (!amdgpu_criu_has_userqs(dump->fpriv))
		return 0;
	ret = amdgpu_criu_userqs_carriable(dump);
	if (ret || dump->fpriv->userq_mgr.stopped)
		return ret;
	ret = amdgpu_criu_drain_userqs(dump, deadline);
	if (!ret)
		ret = amdgpu_criu_unmap_userqs(dump, deadline);
	/* A queue that does not respond has another state now. */
	return ret ?: amdgpu_criu_userqs_carriable(dump);
}

/* Maps restored queues, after the page tables are written. */
int amdgpu_criu_resume_userqs(struct amdgpu_criu_dump *dump)
{
	struct amdgpu_userq_mgr *mgr = &dump->fpriv->userq_mgr;
	int ret;

	if (!mgr->stopped)
		return 0;
	WRITE_ONCE(mgr->stopped, false);
	ret = amdgpu_userq_restart(mgr);
	if (!ret)
		return 0;
	WRITE_ONCE(mgr->stopped, true);
	return criu_refuse(dump->out.call, ret, "user queues cannot be mapped: %d", ret);
}

/* Writes the syncobjs that a queue will signal, or only counts them. */
static u32 amdgpu_criu_dump_fences(struct amdgpu_criu_dump *dump,
				   struct amdgpu_userq_fence_driver *drv, bool write)
{
	struct amdgpu_criu_userq_fence item = { .value = le64_to_cpup((__le64 *)drv->cpu_addr) };
	struct drm_syncobj *syncobj;
	struct dma_fence *fence;
	unsigned long handle;
	u32 num = 0;

	while (amdgpu_criu_next_value(drv, &item.value)) {
		handle = 0;
		while ((syncobj = amdgpu_criu_next_syncobj(dump->file, &handle))) {
			fence = drm_syncobj_fence_get(syncobj);
			drm_syncobj_put(syncobj);
			if (fence && fence->context == drv->context &&
			    fence->seqno == item.value) {
				item.handle = handle;
				if (write)
					criu_writer_tail_copy(&dump->out.writer, &item,
							      sizeof(item));
				num++;
			}
			dma_fence_put(fence);
		}
	}
	return num;
}

static int amdgpu_criu_dump_userq(struct amdgpu_criu_dump *dump,
				  struct amdgpu_usermode_queue *queue, u32 id)
{
	const struct kfd_criu_mqd_layout *layout = amdgpu_criu_userq_layout(dump->adev,
									     queue->queue_type);
	struct amdgpu_bo *bo = queue->db_obj.obj;
	const struct amdgpu_criu_dump_object *doorbells =
		xa_load(&dump->by_gem, (unsigned long)&bo->tbo.base);
	const struct amdgpu_mqd_prop *prop = queue->userq_prop;
	const u32 first_doorbell = amdgpu_doorbell_index_on_bar(dump->adev, bo, 0, sizeof(u64));
	struct amdgpu_criu_userq_record record = {
		.id = id,
		.ip_type = queue->queue_type,
		.priority = queue->priority,
		.doorbell_handle = doorbells ? doorbells->handle : 0,
		.doorbell_offset = (queue->doorbell_index - first_doorbell) / 2,
		.queue_va = prop->hqd_base_gpu_addr,
		.queue_size = prop->queue_size,
		.rptr_va = prop->rptr_gpu_addr,
		.wptr_va = prop->wptr_gpu_addr,
		.area_va = amdgpu_criu_userq_area(queue),
		.fence_value = le64_to_cpup((__le64 *)queue->fence_drv->cpu_addr),
		.num_fences = amdgpu_criu_dump_fences(dump, queue->fence_drv, false),
	};
	void *words;

	if (!IS_ENABLED(CONFIG_HSA_AMD) || !record.doorbell_handle)
		return criu_refuse(dump->out.call, -EOPNOTSUPP,
				   "cannot carry: a user queue whose doorbell has no handle");
	if (amdgpu_criu_userq_waits(queue))
		return criu_refuse(dump->out.call, -EOPNOTSUPP,
				   "cannot carry: a user queue that waits for another");
	record.num_words = kfd_criu_mqd_size(layout) / sizeof(u32);
	criu_writer_record(&dump->out.writer, AMDGPU_CRIU_RECORD_USERQ, &record);
	words = criu_writer_tail(&dump->out.writer, kfd_criu_mqd_size(layout));
	if (words) {
		memcpy(words, queue->mqd.cpu_ptr, kfd_criu_mqd_size(layout));
		kfd_criu_mqd_strip(layout, words, 1);
	}
	dump->out.num_queues++;
	/* A reset of the GPU signals fences. */
	return amdgpu_criu_dump_fences(dump, queue->fence_drv, true) == record.num_fences ?
	       0 : -EAGAIN;
}

int amdgpu_criu_dump_userqs(void *data)
{
	struct amdgpu_criu_dump *dump = data;
	struct amdgpu_usermode_queue *queue;
	unsigned long id;
	int ret;

	xa_for_each(&dump->fpriv->userq_mgr.userq_xa, id, queue) {
		ret = amdgpu_criu_dump_userq(dump, queue, id);
		if (ret)
			return ret;
	}
	return 0;
}
