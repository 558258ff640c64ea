// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The checkpoint/restore ioctl of /dev/kfd: its operations, and the paused processes. */
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>

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
	return ret;
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
	if (ret)
		return ret;
	/* The worker attaches the userptrs, then restores the queues. */
	if (p->kgd_process_info)
		ret = amdgpu_amdkfd_criu_resume(p->kgd_process_info);
	else
		ret = kfd_process_restore_queues(p);
	if (!ret)
		ret = criu_session_release(call->session, &p->criu);
	if (!ret)
		criu_client_allow(&p->criu);
	return ret;
}

static int kfd_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct amdkfd_process_info *process_info;
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
	process_info = p->kgd_process_info;
	/* The queues run when the call returns, unless the userptrs need a second try. */
	if (!ret && process_info)
		flush_delayed_work(&process_info->restore_userptr_work);
	if (mm)
		mmput(mm);
	kfd_unref_process(p);
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
