// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The checkpoint/restore ioctl of /dev/kfd: its operations, and the paused processes. */
#include "kfd_criu.h"

#define KFD_CRIU_WAIT_TIME (20 * HZ) /* for running ioctls, and for locks of processes */

static void kfd_criu_process_get(void *client)
{
	kref_get(&((struct kfd_process *)client)->ref);
}

static void kfd_criu_process_put(void *client)
{
	kfd_unref_process(client);
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
 * Ends EVICT, under the lock of the process or when it exits: moves the memory back, and waits
 * until only the eviction of the pause is left. The driver repeats a restore that fails.
 */
static int kfd_criu_readmit(struct kfd_process *p)
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
		ret = kfd_criu_wait_evictions(p, 1);
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

/*
 * A session of kind CHECKPOINT holds one eviction of the queues; TTM, userptrs and SVM count their
 * own. If one of kind RESTORE closes, the queues never run: their userptrs have no pages.
 */
static int kfd_criu_process_end(void *owner, enum criu_session_kind kind)
{
	if (kind == CRIU_SESSION_CHECKPOINT) {
		const int ret = kfd_criu_readmit(owner);

		return kfd_criu_unpause_locked(owner) ?: ret;
	}
	kfd_criu_forget_svm(owner);
	kfd_criu_unblock_notifications(owner);
	criu_client_allow(&((struct kfd_process *)owner)->criu);
	return 0;
}

const struct criu_client_ops kfd_criu_process_ops = {
	.get = kfd_criu_process_get, .put = kfd_criu_process_put, .end = kfd_criu_process_end,
};

static int kfd_criu_pause(struct criu_dump *dump)
{
	struct criu_call *call = dump->call;
	struct kfd_process *p = call->client->owner;
	int ret = kfd_criu_process_carriable(call, p);

	if (ret)
		return ret;
	if (p->queues_paused)
		return -EBUSY;
	ret = criu_session_hold(call->session, call->client);
	if (ret)
		return ret == -EALREADY ? 0 : ret;
	ret = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
	dump->paused = !ret;
	if (!ret)
		return 0;
	/* -ENOMEM: the queues may be back. -EIO: the eviction is counted anyway. */
	if (ret == -EIO || (ret == -ENOMEM &&
			    !kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT)))
		kfd_criu_unpause_locked(p);
	criu_session_release(call->session, call->client);
	return criu_refuse(call, ret, "its queues do not stop: %d", ret);
}

/* Checks again after a pause: the eviction resets a queue that hangs. */
static int kfd_criu_prepare(struct criu_dump *dump)
{
	return dump->live ? 0 : kfd_criu_process_carriable(dump->call, dump->call->client->owner);
}

static int kfd_criu_process_info(struct criu_call *call, void *args)
{
	struct criu_dump dump = { .call = call, .p = call->client->owner, .pause = kfd_criu_pause,
				  .prepare = kfd_criu_prepare };

	return amdgpu_criu_info(&dump, args);
}

static int kfd_criu_checkpoint(struct criu_call *call, void *args)
{
	struct criu_dump dump = { .call = call, .p = call->client->owner,
				  .prepare = kfd_criu_prepare };

	return amdgpu_criu_dump(&dump, args);
}

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
 * EVICT uses the eviction by which the driver makes room for other processes, without the restore
 * that follows: the queues of a paused process are evicted already, so that this only counts. If a
 * restore is scheduled, cancels it and takes over its eviction.
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
static int kfd_criu_evict_memory(struct criu_call *call, void *data)
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
		ret = criu_client_stop(client, jiffies + KFD_CRIU_WAIT_TIME);
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
	return ret;
}

static int kfd_criu_visit_process(struct amdgpu_criu_sharing *sharing, struct kfd_process *p,
				  unsigned long end)
{
	const pid_t pid = task_tgid_vnr(p->lead_thread);
	struct kgd_mem *mem;
	int handle, ret = 0;
	bool paused;

	/* A paused process stays in its session while no other operation runs. */
	if (sharing->paused && criu_session_held(sharing->call->session, &p->criu))
		return 0;
	/* A process that waits for a file system in user space may hold its lock forever. */
	while (!mutex_trylock(&p->mutex)) {
		if (time_after(jiffies, end) || fatal_signal_pending(current))
			return criu_refuse(sharing->call, -ETIME,
					   "process %d waits for memory in an ioctl of KFD", pid);
		schedule_timeout_killable(1);
	}
	paused = !criu_session_held(sharing->call->session, &p->criu);
	for (u32 i = 0; paused == sharing->paused && i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle)
			ret = ret ?: amdgpu_criu_visit_bo(sharing, &mem->bo->tbo.base, pid,
							  handle);
	mutex_unlock(&p->mutex);
	return ret;
}

/* Visits without kfd_processes_mutex, under which processes are created, and freed if it fails. */
int kfd_criu_visit_processes(struct amdgpu_criu_sharing *sharing)
{
	const unsigned long end = jiffies + KFD_CRIU_WAIT_TIME;
	struct xarray processes;
	int bucket, ret = 0;
	struct kfd_process *p;
	unsigned long index;

	/* Without objects of paused clients there is nothing to find. */
	if (!sharing->paused && xa_empty(&sharing->objects))
		return 0;
	if (mutex_lock_killable(&kfd_processes_mutex))
		return -EINTR;
	xa_init_flags(&processes, XA_FLAGS_ACCOUNT);
	hash_for_each(kfd_processes_table, bucket, p, kfd_processes) {
		if (ret || !kref_get_unless_zero(&p->ref))
			continue;
		ret = xa_err(xa_store(&processes, (unsigned long)p, p, GFP_KERNEL_ACCOUNT));
		if (ret)
			kfd_unref_process(p);
	}
	mutex_unlock(&kfd_processes_mutex);
	xa_for_each(&processes, index, p) {
		ret = ret ?: kfd_criu_visit_process(sharing, p, end);
		kfd_unref_process(p);
	}
	xa_destroy(&processes);
	return ret;
}

static const struct criu_op kfd_criu_ops[] = {
	AMDGPU_CRIU_OP(QUERY, NONE, amdgpu_criu_query, query, pad),
	AMDGPU_CRIU_OP(SESSION, NONE, amdgpu_criu_session, session, pad),
	AMDGPU_CRIU_OP(PROCESS_INFO, DUMP, kfd_criu_process_info, process_info, blob_size),
	AMDGPU_CRIU_OP(CHECKPOINT, DUMP, kfd_criu_checkpoint, state, bo_stride),
	AMDGPU_CRIU_OP_IN(UNPAUSE, CHECKPOINT, amdgpu_criu_unpause, unpause, flags),
	AMDGPU_CRIU_OP_IN(RESTORE, RESTORE, kfd_criu_restore, state, bo_stride),
	AMDGPU_CRIU_OP_IN(RESUME, RESTORE, kfd_criu_resume, resume, pad),
	AMDGPU_CRIU_OP(DMABUF, ANY, amdgpu_criu_dmabuf, dmabuf, pad),
	AMDGPU_CRIU_OP(EVICT, CHECKPOINT, kfd_criu_evict_memory, evict, kept),
};

static const struct criu_kind *const kfd_criu_kinds[] = {
	&kfd_criu_processes, &kfd_criu_options, &kfd_criu_devices, &kfd_criu_bos,
	&kfd_criu_event_pages, &kfd_criu_events, &kfd_criu_svms, &kfd_criu_queues,
};

static const struct criu_node kfd_criu_node = {
	.name = "kfd",
	.ops = kfd_criu_ops, .num_ops = ARRAY_SIZE(kfd_criu_ops),
	.schema = &kfd_criu_schema,
	.kinds = kfd_criu_kinds, .num_kinds = ARRAY_SIZE(kfd_criu_kinds),
	.features = kfd_criu_features,
};

long kfd_criu_call(struct file *filep, unsigned int cmd, unsigned long arg)
{
	struct kfd_process *p = filep->private_data;
	struct amdgpu_criu_ioctl envelope;
	struct criu_call call = {
		.node = &kfd_criu_node, .client = &p->criu, .filp = filep, .task = p->lead_thread,
	};
	struct mm_struct *mm;
	long ret;

	if (cmd != AMDKFD_IOC_AMDGPU_CRIU)
		return -ENOTTY;
	/* Before anything that may block: a tracer has no reference to @p, see kfd_criu_ioctl(). */
	ret = criu_check_owner(call.task);
	mm = ret ? NULL : kfd_criu_get_mm(p);
	if (!mm)
		return ret ?: -ESRCH;
	ret = copy_from_user(&envelope, (void __user *)arg, sizeof(envelope)) ?
	      -EFAULT : amdgpu_criu_call(&call, &envelope);
	mmput(mm);
	return ret;
}
