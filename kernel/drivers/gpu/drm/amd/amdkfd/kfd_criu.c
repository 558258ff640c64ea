// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The checkpoint/restore ioctl of /dev/kfd: its operations, and the paused processes. */
#include <linux/sched/mm.h>
#include <linux/srcu.h>

#include "kfd_criu.h"
#include "kfd_device_queue_manager.h"

/* Limit of the waits for processes that hold their lock */
#define KFD_CRIU_OUTSIDE_TIME (5 * HZ)

static void kfd_criu_process_get(void *client)
{
	struct kfd_process *p = client;

	kref_get(&p->ref);
}

static void kfd_criu_process_put(void *client)
{
	kfd_unref_process(client);
}

/*
 * A session of kind CHECKPOINT holds one eviction of the queues. TTM, userptrs and SVM count their
 * own evictions. If a session of kind RESTORE closes, no later RESUME is possible, and the queues
 * never run: their userptrs have no pages.
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
	.get = kfd_criu_process_get,
	.put = kfd_criu_process_put,
	.end = kfd_criu_process_end,
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
	/* The driver has put the queues back, but drops the error of that. */
	if (ret == -ENOMEM && !kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT))
		kfd_criu_unpause_locked(p);
	/* -EIO: the GPU is being reset, and the eviction is counted anyway. */
	if (ret == -EIO)
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
	struct criu_dump dump = {
		.call = call,
		.pause = kfd_criu_pause,
		.prepare = kfd_criu_prepare,
		.p = call->client->owner,
	};

	return amdgpu_criu_info(&dump, args);
}

static int kfd_criu_checkpoint(struct criu_call *call, void *args)
{
	struct criu_dump dump = {
		.call = call,
		.prepare = kfd_criu_prepare,
		.p = call->client->owner,
	};

	return amdgpu_criu_dump(&dump, args);
}

static int kfd_criu_visit_process(struct amdgpu_criu_sharing *sharing, struct kfd_process *p,
				  unsigned long end)
{
	const pid_t pid = task_tgid_vnr(p->lead_thread);
	struct kgd_mem *mem;
	int handle, ret = 0;

	/* A paused process stays in its session while no other operation runs. */
	if (sharing->paused && criu_session_held(sharing->session, &p->criu))
		return 0;
	/* A process that waits for a file system in user space may hold its lock forever. */
	while (!mutex_trylock(&p->mutex)) {
		if (time_after(jiffies, end) || fatal_signal_pending(current))
			return criu_refuse(sharing->call, -ETIME,
					   "process %d waits for memory in an ioctl of KFD", pid);
		schedule_timeout_killable(1);
	}
	if (sharing->paused != !criu_session_held(sharing->session, &p->criu))
		goto out_unlock;
	for (u32 i = 0; i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle)
			if (!ret)
				ret = amdgpu_criu_visit_bo(sharing, &mem->bo->tbo.base, pid,
							   handle);
out_unlock:
	mutex_unlock(&p->mutex);
	return ret;
}

/*
 * Visits the BOs of processes. kfd_processes_srcu is not held while this waits for a mutex: every
 * exiting process waits for it, and a page fault may hold the mutex.
 */
int kfd_criu_visit_processes(struct amdgpu_criu_sharing *sharing)
{
	const unsigned long end = jiffies + KFD_CRIU_OUTSIDE_TIME;
	int idx, bucket, ret = 0;
	struct xarray processes;
	struct kfd_process *p;
	unsigned long index;

	/* Without objects of paused clients there is nothing to find. */
	if (!sharing->paused && xa_empty(&sharing->objects))
		return 0;
	xa_init(&processes);
	idx = srcu_read_lock(&kfd_processes_srcu);
	hash_for_each_rcu(kfd_processes_table, bucket, p, kfd_processes) {
		if (ret || !kref_get_unless_zero(&p->ref))
			continue;
		ret = xa_err(xa_store(&processes, (unsigned long)p, p, GFP_KERNEL_ACCOUNT));
		if (ret)
			kfd_unref_process(p);
	}
	srcu_read_unlock(&kfd_processes_srcu, idx);
	xa_for_each(&processes, index, p) {
		if (!ret)
			ret = kfd_criu_visit_process(sharing, p, end);
		kfd_unref_process(p);
	}
	xa_destroy(&processes);
	return ret;
}

static const struct criu_op kfd_criu_ops[] = {
	AMDGPU_CRIU_OP(QUERY, NONE, amdgpu_criu_query, struct amdgpu_criu_query, pad),
	AMDGPU_CRIU_OP(SESSION, NONE, amdgpu_criu_session, struct amdgpu_criu_session, pad),
	AMDGPU_CRIU_OP(PROCESS_INFO, DUMP, kfd_criu_process_info,
		       struct amdgpu_criu_process_info, blob_size),
	AMDGPU_CRIU_OP(CHECKPOINT, DUMP, kfd_criu_checkpoint, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(UNPAUSE, CHECKPOINT, amdgpu_criu_unpause, struct amdgpu_criu_unpause,
			  flags),
	AMDGPU_CRIU_OP_IN(RESTORE, RESTORE, kfd_criu_restore, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(RESUME, RESTORE, kfd_criu_resume, struct amdgpu_criu_resume, pad),
	AMDGPU_CRIU_OP(DMABUF, ANY, amdgpu_criu_dmabuf, struct amdgpu_criu_dmabuf, pad),
	AMDGPU_CRIU_OP(EVICT, CHECKPOINT, kfd_criu_evict_memory, struct amdgpu_criu_evict, kept),
};

static const struct criu_kind *const kfd_criu_kinds[] = {
	&kfd_criu_processes,
	&kfd_criu_options,
	&kfd_criu_devices,
	&kfd_criu_bos,
	&kfd_criu_event_pages,
	&kfd_criu_events,
	&kfd_criu_svms,
	&kfd_criu_queues,
};

static const struct criu_node kfd_criu_node = {
	.name = "kfd",
	.ops = kfd_criu_ops,
	.num_ops = ARRAY_SIZE(kfd_criu_ops),
	.schema = &kfd_criu_schema,
	.kinds = kfd_criu_kinds,
	.num_kinds = ARRAY_SIZE(kfd_criu_kinds),
	.features = kfd_criu_features,
};

/* The ioctl of checkpoint/restore */
long kfd_criu_call(struct file *filep, unsigned int cmd, unsigned long arg)
{
	struct kfd_process *p = filep->private_data;
	struct amdgpu_criu_ioctl envelope;
	struct criu_call call = {
		.node = &kfd_criu_node,
		.client = &p->criu,
		.filp = filep,
		.task = p->lead_thread,
	};
	struct mm_struct *mm;
	long ret;

	if (cmd != AMDKFD_IOC_AMDGPU_CRIU)
		return -ENOTTY;
	if (copy_from_user(&envelope, (void __user *)arg, sizeof(envelope)))
		return -EFAULT;
	mm = kfd_criu_get_mm(p);
	if (!mm)
		return -ESRCH;
	ret = amdgpu_criu_call(&call, &envelope);
	mmput(mm);
	return ret;
}
