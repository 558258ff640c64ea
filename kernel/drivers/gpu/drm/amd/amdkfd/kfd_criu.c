// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The checkpoint/restore ioctl of /dev/kfd: its operations, and the paused processes. */
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>

#include "kfd_criu.h"
#include "kfd_device_queue_manager.h"

/* A try fails only if a small allocation fails. */
#define KFD_CRIU_UNPAUSE_TRIES 3

/* After this time RESUME gives up if attaching userptrs fails once more. */
#define KFD_CRIU_ATTACH_TIME (30 * HZ)

/* Limit of the wait until workers have restored all queues */
#define KFD_CRIU_RUN_TIME (10 * HZ)

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
 * A process that has exited in the meantime has no queues, and an error is ignored. If the
 * allocation of the new runlist fails, the queues count as restored, but the GPU does not run
 * them. The next try evicts them before it restores them.
 */
static int kfd_criu_unpause_locked(struct kfd_process *p)
{
	int ret = kfd_process_restore_queues(p);
	int tries;

	for (tries = 0; ret == -ENOMEM && tries < KFD_CRIU_UNPAUSE_TRIES; tries++) {
		ret = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
		if (!ret)
			ret = kfd_process_restore_queues(p);
	}
	if (!ret || !p->mm)
		return 0;
	dev_err(kfd_device, "process %d: queues do not run on: %d\n",
		task_tgid_nr(p->lead_thread), ret);
	return ret;
}

/*
 * A session of kind CHECKPOINT holds one eviction of the queues. TTM, userptrs and SVM count their
 * own evictions. If a session of kind RESTORE closes, no later RESUME is possible, and the queues
 * never run: their userptrs have no pages.
 */
static int kfd_criu_process_end(void *owner, enum criu_session_kind kind)
{
	if (kind == CRIU_SESSION_CHECKPOINT)
		return kfd_criu_unpause_locked(owner);
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

static int kfd_criu_pause(struct amdgpu_criu_output *out)
{
	struct criu_call *call = out->call;
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
	out->paused = !ret;
	if (!ret)
		return 0;
	/* -EIO: the GPU is being reset, and the eviction is counted anyway. */
	if (ret == -EIO)
		kfd_criu_unpause_locked(p);
	criu_session_release(call->session, call->client);
	return criu_refuse(call, ret, "its queues do not stop: %d", ret);
}

/* Checks again after a pause: the eviction resets a queue that hangs. */
static int kfd_criu_prepare(struct amdgpu_criu_output *out)
{
	return out->live ? 0 : kfd_criu_process_carriable(out->call, out->call->client->owner);
}

static int kfd_criu_process_info(struct criu_call *call, void *args)
{
	struct kfd_criu_dump dump = {
		.out = { .call = call, .pause = kfd_criu_pause, .prepare = kfd_criu_prepare },
		.p = call->client->owner,
	};

	return amdgpu_criu_info(&dump.out, args);
}

/* Installs descriptors when no later step can fail. */
static int kfd_criu_put_devices(struct kfd_criu_dump *dump, const struct amdgpu_criu_state *args)
{
	struct amdgpu_criu_device *device;
	int ret = criu_call_put_args(dump->out.call);

	for (u32 i = 0; !ret && i < dump->out.num_devices; i++) {
		device = &dump->out.devices[i];
		if (dump->files[i]) {
			device->drm_fd = get_unused_fd_flags(O_CLOEXEC);
			if (device->drm_fd < 0)
				ret = device->drm_fd;
		}
		if (!ret)
			ret = amdgpu_criu_table_put(args->devices, i, args->device_stride, device,
						    sizeof(*device));
	}
	for (u32 i = 0; i < dump->out.num_devices; i++) {
		device = &dump->out.devices[i];
		if (device->drm_fd < 0)
			continue;
		if (ret) {
			put_unused_fd(device->drm_fd);
		} else {
			fd_install(device->drm_fd, dump->files[i]);
			dump->files[i] = NULL;
		}
	}
	return ret;
}

static int kfd_criu_checkpoint(struct criu_call *call, void *args)
{
	struct kfd_criu_dump dump = {
		.out.prepare = kfd_criu_prepare,
		.p = call->client->owner,
	};
	int ret = amdgpu_criu_output_init(&dump.out, call, args);

	if (!ret)
		ret = amdgpu_criu_dump(&dump.out, args);
	if (!ret)
		ret = kfd_criu_put_devices(&dump, args);
	for (u32 i = 0; i < ARRAY_SIZE(dump.files); i++)
		if (dump.files[i])
			fput(dump.files[i]);
	amdgpu_criu_output_free(&dump.out);
	return ret;
}

/*
 * Returns the memory of the process with a reference, or NULL. The mm notifier destroys the
 * queues without the mutex of the process. A caller that reads them must hold this reference.
 */
static struct mm_struct *kfd_criu_get_mm(struct kfd_process *p)
{
	struct task_struct *task = same_thread_group(p->lead_thread, current) ? current :
				   p->lead_thread;
	struct mm_struct *mm = get_task_mm(task);

	if (!mm || mm == p->mm)
		return mm;
	mmput(mm);
	return NULL;
}

/* Returns the process with a reference. */
static struct kfd_process *kfd_criu_resume_target(struct criu_call *call, pid_t nr)
{
	struct kfd_process *p = call->client->owner;
	struct pid *pid;
	int ret;

	if (!nr) {
		kref_get(&p->ref);
		return p;
	}
	pid = find_get_pid(nr);
	p = pid ? kfd_lookup_process_by_pid(pid) : NULL;
	put_pid(pid);
	if (!p)
		return ERR_PTR(-ESRCH);
	ret = criu_check_owner(p->lead_thread);
	if (ret) {
		kfd_unref_process(p);
		return ERR_PTR(ret);
	}
	return p;
}

static int kfd_criu_fault_in_userptrs(struct kfd_process *p)
{
	struct kgd_mem *mem;
	int handle, ret = 0;
	u64 addr;

	for (u32 i = 0; i < p->n_pdds; i++) {
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle) {
			if (ret || !amdgpu_ttm_tt_is_userptr(mem->bo->tbo.ttm))
				continue;
			amdgpu_ttm_tt_get_userptr(&mem->bo->tbo, &addr);
			ret = amdgpu_criu_fault_in(p->mm, addr, amdgpu_bo_size(mem->bo));
		}
	}
	return ret;
}

static bool kfd_criu_userptrs_attached(struct amdkfd_process_info *info)
{
	/* Held by the worker until it has restored the queues */
	guard(mutex)(&info->notifier_lock);
	return !info->evicted_bos;
}

/*
 * A worker attaches the userptrs, then restores the queues without reporting an error. One more
 * eviction leaves that to the caller. RESUME may be called again if this fails.
 */
static int kfd_criu_attach_userptrs(struct criu_call *call, struct kfd_process *p)
{
	struct amdkfd_process_info *info = p->kgd_process_info;
	const unsigned long end = jiffies + KFD_CRIU_ATTACH_TIME;
	int ret = kfd_criu_fault_in_userptrs(p);

	if (!ret && READ_ONCE(info->block_mmu_notifications)) {
		ret = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_RESTORE);
		if (!ret)
			ret = amdgpu_amdkfd_criu_resume(info);
	}
	while (!ret && !kfd_criu_userptrs_attached(info)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		if (time_after(jiffies, end) && delayed_work_pending(&info->restore_userptr_work))
			return criu_refuse(call, -ETIME, "its userptrs cannot be attached");
		schedule_timeout_killable(1);
	}
	return ret;
}

/*
 * Ends the eviction of RESTORE, and waits for the end of others: a worker ends those of memory. A
 * reset of a GPU evicts the queues of all processes forever.
 */
static int kfd_criu_run_queues(struct criu_call *call, struct kfd_process *p)
{
	const unsigned long end = jiffies + KFD_CRIU_RUN_TIME;
	int ret = kfd_criu_unpause_locked(p);

	for (u32 i = 0; !ret && i < p->n_pdds; i++) {
		if (kfd_criu_is_reset(p->pdds[i]))
			ret = -EIO;
		while (!ret && READ_ONCE(p->pdds[i]->qpd.evicted)) {
			if (time_after(jiffies, end) || fatal_signal_pending(current))
				ret = -ETIME;
			schedule_timeout_killable(1);
		}
	}
	return ret ? criu_refuse(call, ret, "its queues do not run: %d", ret) : 0;
}

static int kfd_criu_resume_locked(struct criu_call *call, struct kfd_process *p)
{
	int ret = criu_session_held(call->session, &p->criu);

	if (ret)
		return ret;
	if (p->criu.restoring)
		return -EBADFD;
	ret = kfd_criu_svm_resume(p, call);
	if (!ret)
		ret = kfd_criu_queues_resume(p, call);
	if (!ret && p->kgd_process_info)
		ret = kfd_criu_attach_userptrs(call, p);
	if (ret)
		return ret;
	/* Final: queues that a GPU did not take cannot be restored a second time. */
	ret = kfd_criu_run_queues(call, p);
	kfd_criu_signal_events(p);
	criu_session_release(call->session, &p->criu);
	criu_client_allow(&p->criu);
	return ret;
}

static int kfd_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct mm_struct *mm;
	struct kfd_process *p;
	int ret = -ERESTARTSYS;

	if (resume->flags || resume->pad || resume->pid < 0)
		return -EINVAL;
	p = kfd_criu_resume_target(call, resume->pid);
	if (IS_ERR(p))
		return PTR_ERR(p);
	mm = kfd_criu_get_mm(p);
	if (!mm) {
		ret = -ESRCH;
	} else if (!mutex_lock_killable(&p->mutex)) {
		ret = kfd_criu_resume_locked(call, p);
		mutex_unlock(&p->mutex);
	}
	if (mm)
		mmput(mm);
	kfd_unref_process(p);
	if (!ret)
		criu_session_resumed(call->session);
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
