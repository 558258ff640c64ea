// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The checkpoint/restore ioctl of /dev/kfd: its operations, and who is paused.
 */
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "amdgpu_amdkfd.h"
#include "kfd_criu.h"
#include "kfd_device_queue_manager.h"

/* Each fails only for want of a few bytes. */
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
 * A process that has exited meanwhile has no queues, and no use for them. When the new runlist
 * finds no memory the queues count as restored, but the GPU does not know of them: to start them
 * again they are stopped first.
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

static void kfd_criu_paused_let_go(struct criu_session *session, void *client)
{
	struct kfd_process *p = client;

	mutex_lock(&p->mutex);
	if (!criu_session_release(session, p))
		kfd_criu_unpause_locked(p);
	mutex_unlock(&p->mutex);
}

/*
 * A process that a session of kind CHECKPOINT holds has one eviction of its queues
 * on its account. TTM, userptrs and SVM count their own.
 */
const struct criu_client_ops kfd_criu_paused_ops = {
	.get = kfd_criu_process_get,
	.put = kfd_criu_process_put,
	.let_go = kfd_criu_paused_let_go,
};

/* Never resumed: it stays as it is, and nobody can resume it any more. */
static void kfd_criu_restored_let_go(struct criu_session *session, void *client)
{
	struct kfd_process *p = client;

	mutex_lock(&p->mutex);
	if (!criu_session_release(session, p))
		kfd_criu_forget_svm(p);
	mutex_unlock(&p->mutex);
}

/* A session of kind RESTORE holds a process from RESTORE to RESUME. */
const struct criu_client_ops kfd_criu_restored_ops = {
	.get = kfd_criu_process_get,
	.put = kfd_criu_process_put,
	.let_go = kfd_criu_restored_let_go,
};

/* Return: 1: paused now; 0: was paused by this session already; or an error. */
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
	/* -EIO: the GPU is being reset; the eviction counts all the same. */
	if (ret == -EIO)
		kfd_criu_unpause_locked(p);
	criu_session_release(session, p);
	return ret;
}

static int kfd_criu_process_info_locked(struct kfd_criu_dump *dump, struct criu_session *session,
					struct amdgpu_criu_process_info *info)
{
	struct kfd_process *p = dump->p;
	size_t blob_size;
	int paused, ret;

	if (!p->mm)
		return -ESRCH;
	ret = kfd_criu_process_carriable(dump->call, p);
	if (ret)
		return ret;
	paused = kfd_criu_pause_locked(session, p);
	if (paused < 0)
		return paused;
	/* Again: to stop a queue that hangs is to reset it. */
	ret = kfd_criu_process_carriable(dump->call, p);
	if (!ret)
		ret = kfd_criu_dump_sizes(dump, &blob_size);
	if (ret) {
		/* Paused by an earlier call, it stays so. */
		if (paused && !criu_session_release(session, p))
			kfd_criu_unpause_locked(p);
		return ret;
	}
	dump->paused = paused;
	info->pid = task_tgid_vnr(p->lead_thread);
	info->num_devices = dump->num_devices;
	info->num_bos = dump->num_bos;
	info->num_queues = dump->num_queues;
	info->num_events = dump->num_events;
	info->num_svm_ranges = dump->num_svm_ranges;
	info->blob_size = blob_size;
	return 0;
}

static int kfd_criu_process_info(struct criu_call *call, void *args)
{
	struct amdgpu_criu_process_info *info = args;
	struct kfd_criu_dump dump = { .call = call, .p = call->client };
	struct criu_session *session;
	int ret;

	if (info->flags)
		return -EINVAL;
	session = criu_session_get(info->session_fd, CRIU_SESSION_CHECKPOINT);
	if (IS_ERR(session))
		return PTR_ERR(session);
	mutex_lock(&dump.p->mutex);
	ret = kfd_criu_process_info_locked(&dump, session, info);
	mutex_unlock(&dump.p->mutex);
	if (!ret && criu_call_put_args(call)) {
		if (dump.paused)
			kfd_criu_paused_let_go(session, dump.p);
		ret = -EFAULT;
	}
	criu_session_put(session);
	return ret;
}

static int kfd_criu_unpause(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_unpause *unpause = args;
	struct kfd_process *p = call->client;
	struct criu_session *session;
	int ret;

	if (unpause->flags)
		return -EINVAL;
	session = criu_session_get(unpause->session_fd, CRIU_SESSION_CHECKPOINT);
	if (IS_ERR(session))
		return PTR_ERR(session);
	mutex_lock(&p->mutex);
	ret = criu_session_release(session, p);
	if (!ret)
		kfd_criu_unpause_locked(p);
	mutex_unlock(&p->mutex);
	criu_session_put(session);
	return ret;
}

/*
 * Memory of the process, with a reference. The queues go with it, and nobody asks for the
 * process's mutex then: whoever looks at them must not let it go.
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

/* With a reference. */
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
	if (!ret)
		ret = criu_check_capable(p->lead_thread);
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
	if (!p->mm)
		return -ESRCH;
	ret = kfd_criu_svm_resume(p, call);
	if (!ret)
		ret = kfd_criu_queues_resume(p, call);
	if (ret)
		return ret;
	/* The worker attaches the userptrs, then lets the queues run. */
	if (p->kgd_process_info)
		ret = amdgpu_amdkfd_criu_resume(p->kgd_process_info);
	else
		ret = kfd_process_restore_queues(p);
	if (!ret)
		ret = criu_session_release(session, p);
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
	mutex_lock(&p->mutex);
	ret = kfd_criu_resume_locked(call, session, p);
	mutex_unlock(&p->mutex);
	process_info = p->kgd_process_info;
	/* So that queues run when the call returns, unless userptrs take a second try. */
	if (!ret && process_info)
		flush_delayed_work(&process_info->restore_userptr_work);
	mmput(mm);
	return ret;
}

static int kfd_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct criu_session *session;
	struct kfd_process *p;
	int ret;

	if (resume->flags || resume->pad || resume->pid < 0)
		return -EINVAL;
	session = criu_session_get(resume->session_fd, CRIU_SESSION_RESTORE);
	if (IS_ERR(session))
		return PTR_ERR(session);
	p = kfd_criu_resume_target(call, resume->pid);
	if (IS_ERR(p)) {
		criu_session_put(session);
		return PTR_ERR(p);
	}
	ret = kfd_criu_resume_process(call, session, p);
	kfd_unref_process(p);
	criu_session_put(session);
	return ret;
}

static const struct criu_op kfd_criu_ops[] = {
	AMDGPU_CRIU_OP(QUERY, amdgpu_criu_query, struct amdgpu_criu_query, pad),
	AMDGPU_CRIU_OP(SESSION, amdgpu_criu_session, struct amdgpu_criu_session, pad),
	AMDGPU_CRIU_OP(PROCESS_INFO, kfd_criu_process_info, struct amdgpu_criu_process_info,
		       blob_size),
	AMDGPU_CRIU_OP(CHECKPOINT, kfd_criu_checkpoint, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(UNPAUSE, kfd_criu_unpause, struct amdgpu_criu_unpause, flags),
	AMDGPU_CRIU_OP_IN(RESTORE, kfd_criu_restore, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(RESUME, kfd_criu_resume, struct amdgpu_criu_resume, pad),
	AMDGPU_CRIU_OP(DMABUF, amdgpu_criu_dmabuf, struct amdgpu_criu_dmabuf, pad),
};

static const struct criu_node kfd_criu_node = {
	.name = "kfd",
	.ops = kfd_criu_ops,
	.num_ops = ARRAY_SIZE(kfd_criu_ops),
	.schema = &kfd_criu_schema,
};

/**
 * kfd_criu_ioctl() - the ioctl, as kfd_ioctl() gets it
 * @filep: file of /dev/kfd
 * @cmd: its number within the node is %AMDGPU_CRIU_NR
 * @arg: user pointer to &struct amdgpu_criu_ioctl
 *
 * Return: as in the uapi header.
 */
long kfd_criu_ioctl(struct file *filep, unsigned int cmd, unsigned long arg)
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
	ret = criu_ioctl(&call, envelope.op, envelope.size, envelope.arg);
	mmput(mm);
	return ret;
}
