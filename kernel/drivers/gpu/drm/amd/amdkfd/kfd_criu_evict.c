// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * EVICT of a process. Uses the eviction by which the driver makes room for other processes, and
 * leaves out the restore that follows 0.1 s later, until the process is unpaused.
 */
#include "kfd_criu.h"

/* Limit for running ioctls */
#define KFD_CRIU_STOP_TIME (20 * HZ)

/* Limit of the wait until the memory is back */
#define KFD_CRIU_READMIT_TIME (120 * HZ)

/* Signals the eviction fence. Returns false if another thread has, which schedules the restore. */
static bool kfd_criu_signal_eviction(struct kfd_process *p)
{
	struct dma_fence *fence;
	bool signaled;

	scoped_guard(rcu)
		fence = dma_fence_get_rcu_safe(&p->ef);
	/* Without a VM there is no memory. */
	if (!fence)
		return true;
	signaled = dma_fence_check_and_signal(fence);
	dma_fence_put(fence);
	return !signaled;
}

/*
 * Evicts the process once more: the queues of a paused process are evicted already, so that this
 * only counts. If a restore is scheduled, cancels it and takes over its eviction.
 */
static int kfd_criu_take_eviction(struct kfd_process *p)
{
	for (;;) {
		kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
		if (kfd_criu_signal_eviction(p))
			return 0;
		kfd_process_restore_queues(p);
		if (cancel_delayed_work_sync(&p->restore_work))
			return 0;
		/* The restore has just run, or its eviction is about to schedule it. */
		schedule_timeout_interruptible(1);
		if (signal_pending(current))
			return -ERESTARTSYS;
	}
}

/* Moves all BOs. Those that the process has allocated no longer count against KFD's limit. */
static int kfd_criu_evict_bos(struct kfd_process *p, struct amdgpu_criu_evict *args)
{
	struct amdkfd_process_info *info = p->kgd_process_info;
	struct kgd_mem *mem;
	int ret = 0;

	if (!info)
		return 0;
	if (mutex_lock_interruptible(&info->lock))
		return -ERESTARTSYS;
	list_for_each_entry(mem, &info->kfd_bo_list, validate_list) {
		const u64 before = args->bytes;
		struct amdgpu_bo *bo = mem->bo;

		ret = amdgpu_criu_evict_bo(bo, args);
		if (ret)
			break;
		if (args->bytes == before || mem->evicted || bo->kfd_bo != mem)
			continue;
		mem->evicted = true;
		amdgpu_amdkfd_unreserve_mem_limit(amdgpu_ttm_adev(bo->tbo.bdev), amdgpu_bo_size(bo),
						  mem->alloc_flags, bo->xcp_id);
	}
	mutex_unlock(&info->lock);
	return ret;
}

/* @stopped: this call has blocked the ioctls of the process. */
static int kfd_criu_evict_locked(struct criu_call *call, struct amdgpu_criu_evict *args,
				 bool stopped)
{
	struct criu_client *client = call->client;
	int ret = criu_session_held(call->session, client);

	if (ret)
		return ret;
	/* It was unpaused and paused again since this call has looked. */
	if (!stopped && !client->evicted)
		return -EBUSY;
	if (!client->evicted)
		ret = kfd_criu_take_eviction(client->owner);
	if (ret)
		return ret;
	client->evicted = true;
	return kfd_criu_evict_bos(client->owner, args);
}

/* Blocks all other ioctls first, without the lock that they need: they could allocate memory. */
int kfd_criu_evict_memory(struct criu_call *call, void *data)
{
	struct criu_client *client = call->client;
	const bool stop = !READ_ONCE(client->evicted);
	struct amdgpu_criu_evict *args = data;
	int ret = criu_session_held(call->session, client);

	if (args->flags)
		return -EINVAL;
	args->bytes = 0;
	args->kept = 0;
	if (!ret && stop)
		ret = criu_client_stop(client, jiffies + KFD_CRIU_STOP_TIME);
	if (ret)
		return criu_refuse_late(call, ret, "an ioctl of KFD does not return");
	ret = -ERESTARTSYS;
	if (!mutex_lock_interruptible(client->lock)) {
		ret = kfd_criu_evict_locked(call, args, stop);
		if (stop && !client->evicted)
			criu_client_allow(client);
		mutex_unlock(client->lock);
	} else if (stop) {
		criu_client_allow(client);
	}
	return ret == -EINTR ? -ERESTARTSYS : ret;
}

static void kfd_criu_count_bos(struct amdkfd_process_info *info)
{
	struct kgd_mem *mem;

	guard(mutex)(&info->lock);
	list_for_each_entry(mem, &info->kfd_bo_list, validate_list) {
		if (mem->evicted)
			amdgpu_amdkfd_force_mem_limit(mem->bo);
		mem->evicted = false;
	}
}

/*
 * Ends EVICT, under the lock of the process or when it exits: moves the memory back, and waits for
 * that, so that only the eviction of the pause is left. A restore that fails is repeated by the
 * driver. A process that exits frees its memory where it is.
 */
int kfd_criu_readmit(struct kfd_process *p)
{
	int ret = 0;

	if (!p->criu.evicted)
		return 0;
	if (p->kgd_process_info)
		kfd_criu_count_bos(p->kgd_process_info);
	if (READ_ONCE(p->mm)) {
		/* One that is scheduled already has an eviction of its own. */
		if (!schedule_delayed_work(&p->restore_work, 0))
			kfd_process_restore_queues(p);
		ret = kfd_criu_wait_evictions(p, 1, jiffies + KFD_CRIU_READMIT_TIME);
	}
	/* Exit clears mm, then cancels the work, perhaps before this has scheduled it. */
	if (!READ_ONCE(p->mm)) {
		cancel_delayed_work_sync(&p->restore_work);
		ret = 0;
	}
	p->criu.evicted = false;
	criu_client_allow(&p->criu);
	return ret;
}
