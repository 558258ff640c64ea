// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The checkpoint/restore ioctl of /dev/kfd: its operations, and the paused processes. */
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "amdgpu_amdkfd.h"
#include "kfd_criu.h"
#include "kfd_device_queue_manager.h"

/* A try fails only if a small allocation fails. */
#define KFD_CRIU_UNPAUSE_TRIES 3

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
static void kfd_criu_unpause_locked(struct kfd_process *p)
{
	int ret = kfd_process_restore_queues(p);
	int tries;

	for (tries = 0; ret == -ENOMEM && tries < KFD_CRIU_UNPAUSE_TRIES; tries++) {
		ret = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
		if (!ret)
			ret = kfd_process_restore_queues(p);
	}
	if (ret && p->mm)
		dev_err(kfd_device, "process %d: queues do not run on: %d\n",
			task_tgid_nr(p->lead_thread), ret);
}

static void kfd_criu_paused_end_hold(struct criu_session *session, void *client)
{
	struct kfd_process *p = client;

	guard(mutex)(&p->mutex);
	if (!criu_session_release(session, p))
		kfd_criu_unpause_locked(p);
}

/* Holds one eviction of the queues. TTM, userptrs and SVM count their own evictions. */
const struct criu_client_ops kfd_criu_paused_ops = {
	.get = kfd_criu_process_get,
	.put = kfd_criu_process_put,
	.end_hold = kfd_criu_paused_end_hold,
};

/* The session closes before RESUME. No later RESUME is possible, so the queues never run. */
static void kfd_criu_restored_end_hold(struct criu_session *session, void *client)
{
	struct kfd_process *p = client;

	guard(mutex)(&p->mutex);
	if (criu_session_release(session, p))
		return;
	kfd_criu_forget_svm(p);
	kfd_criu_end_restore(p);
}

/* A session of kind RESTORE holds a process from RESTORE to RESUME. */
const struct criu_client_ops kfd_criu_restored_ops = {
	.get = kfd_criu_process_get,
	.put = kfd_criu_process_put,
	.end_hold = kfd_criu_restored_end_hold,
};

/* Return: 1 if this call pauses the process; 0 if the session has paused it before; an error. */
static int kfd_criu_pause_locked(struct criu_session *session, struct kfd_process *p)
{
	int ret;

	if (p->queues_paused)
		return -EBUSY;
	ret = criu_session_hold(session, p, &kfd_criu_paused_ops);
	if (ret)
		return ret == -EALREADY ? 0 : ret;
	ret = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
	if (!ret)
		return 1;
	/* -EIO: the GPU is being reset, and the eviction is counted anyway. */
	if (ret == -EIO)
		kfd_criu_unpause_locked(p);
	criu_session_release(session, p);
	return ret;
}

static int kfd_criu_process_info_locked(struct kfd_criu_dump *dump,
					struct amdgpu_criu_process_info *info)
{
	struct criu_session *session = dump->out.call->session;
	struct kfd_process *p = dump->p;
	int paused, ret;

	if (!p->mm)
		return -ESRCH;
	if (info->flags)
		return amdgpu_criu_live_info(&dump->out, info);
	ret = kfd_criu_process_carriable(dump->out.call, p);
	if (ret)
		return ret;
	paused = kfd_criu_pause_locked(session, p);
	if (paused < 0)
		return paused;
	/* Check again: the eviction resets a queue that hangs. */
	ret = kfd_criu_process_carriable(dump->out.call, p);
	if (!ret)
		ret = amdgpu_criu_output_measure(&dump->out);
	if (ret) {
		/* A process that an earlier call has paused stays paused. */
		if (paused && !criu_session_release(session, p))
			kfd_criu_unpause_locked(p);
		return ret;
	}
	dump->out.paused = paused;
	info->pid = task_tgid_vnr(p->lead_thread);
	info->num_devices = dump->out.num_devices;
	info->num_bos = dump->out.num_bos;
	info->num_queues = dump->num_queues;
	info->num_events = dump->num_events;
	info->num_svm_ranges = dump->num_svm_ranges;
	info->blob_size = dump->out.blob_size;
	return 0;
}

static int kfd_criu_process_info(struct criu_call *call, void *args)
{
	struct amdgpu_criu_process_info *info = args;
	struct kfd_criu_dump dump = { .out.call = call, .p = call->client };
	int ret;

	ret = amdgpu_criu_info_check(call, info);
	if (ret)
		return ret;
	if (mutex_lock_killable(&dump.p->mutex))
		return -ERESTARTSYS;
	ret = kfd_criu_process_info_locked(&dump, info);
	mutex_unlock(&dump.p->mutex);
	if (!ret && criu_call_put_args(call)) {
		if (dump.out.paused)
			kfd_criu_paused_end_hold(call->session, dump.p);
		ret = -EFAULT;
	}
	return ret;
}

static int kfd_criu_unpause(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_unpause *unpause = args;
	struct kfd_process *p = call->client;
	int ret;

	if (unpause->flags)
		return -EINVAL;
	guard(mutex)(&p->mutex);
	ret = criu_session_release(call->session, p);
	if (!ret)
		kfd_criu_unpause_locked(p);
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
	struct kfd_process *p = call->client;
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

static int kfd_criu_resume_locked(struct criu_call *call, struct criu_session *session,
				  struct kfd_process *p)
{
	int ret;

	ret = criu_session_held(session, p);
	if (ret)
		return ret;
	if (READ_ONCE(p->criu_restoring))
		return -EBADFD;
	if (!p->mm)
		return -ESRCH;
	ret = kfd_criu_svm_resume(p, call);
	if (!ret)
		ret = kfd_criu_queues_resume(p, call);
	if (ret)
		return ret;
	/* The worker attaches the userptrs, then restores the queues. */
	if (p->kgd_process_info)
		ret = amdgpu_amdkfd_criu_resume(p->kgd_process_info);
	else
		ret = kfd_process_restore_queues(p);
	if (!ret)
		ret = criu_session_release(session, p);
	if (!ret)
		amdgpu_criu_calls_allow(&p->criu_calls);
	return ret;
}

static int kfd_criu_resume_process(struct criu_call *call, struct criu_session *session,
				   struct kfd_process *p)
{
	struct amdkfd_process_info *process_info;
	struct mm_struct *mm = kfd_criu_get_mm(p);
	int ret;

	if (!mm)
		return -ESRCH;
	if (mutex_lock_killable(&p->mutex)) {
		mmput(mm);
		return -ERESTARTSYS;
	}
	ret = kfd_criu_resume_locked(call, session, p);
	mutex_unlock(&p->mutex);
	process_info = p->kgd_process_info;
	/* The queues run when the call returns, unless the userptrs need a second try. */
	if (!ret && process_info)
		flush_delayed_work(&process_info->restore_userptr_work);
	mmput(mm);
	return ret;
}

static int kfd_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct kfd_process *p;
	int ret;

	if (resume->flags || resume->pad || resume->pid < 0)
		return -EINVAL;
	p = kfd_criu_resume_target(call, resume->pid);
	if (IS_ERR(p))
		return PTR_ERR(p);
	ret = kfd_criu_resume_process(call, call->session, p);
	kfd_unref_process(p);
	return ret;
}

static const struct criu_op kfd_criu_ops[] = {
	AMDGPU_CRIU_OP(QUERY, NONE, amdgpu_criu_query, struct amdgpu_criu_query, pad),
	AMDGPU_CRIU_OP(SESSION, NONE, amdgpu_criu_session, struct amdgpu_criu_session, pad),
	AMDGPU_CRIU_OP(PROCESS_INFO, DUMP, kfd_criu_process_info,
		       struct amdgpu_criu_process_info, blob_size),
	AMDGPU_CRIU_OP(CHECKPOINT, DUMP, kfd_criu_checkpoint, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(UNPAUSE, CHECKPOINT, kfd_criu_unpause, struct amdgpu_criu_unpause, flags),
	AMDGPU_CRIU_OP_IN(RESTORE, RESTORE, kfd_criu_restore, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(RESUME, RESTORE, kfd_criu_resume, struct amdgpu_criu_resume, pad),
	AMDGPU_CRIU_OP(DMABUF, ANY, amdgpu_criu_dmabuf, struct amdgpu_criu_dmabuf, pad),
};

static const struct criu_kind *const kfd_criu_kinds[] = {
	&kfd_criu_processes,
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
};

static long kfd_criu_call(struct file *filep, unsigned int cmd, unsigned long arg)
{
	struct kfd_process *p = filep->private_data;
	struct amdgpu_criu_ioctl envelope;
	struct criu_call call = {
		.node = &kfd_criu_node,
		.client = p,
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

/* Handles an ioctl of /dev/kfd, ours or, once it may begin, another. */
long kfd_criu_ioctl(struct file *filep, unsigned int cmd, unsigned long arg,
		    amdgpu_criu_ioctl_fn ioctl)
{
	struct kfd_process *p = filep->private_data;

	if (_IOC_NR(cmd) == AMDGPU_CRIU_NR)
		return kfd_criu_call(filep, cmd, arg);
	return amdgpu_criu_calls_ioctl(&p->criu_calls,
				       _IOC_NR(cmd) == _IOC_NR(AMDKFD_IOC_WAIT_EVENTS), filep,
				       cmd, arg, ioctl);
}
