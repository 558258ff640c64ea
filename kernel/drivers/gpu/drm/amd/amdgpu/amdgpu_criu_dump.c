// SPDX-License-Identifier: GPL-2.0 OR MIT
/* PROCESS_INFO, CHECKPOINT, UNPAUSE: the process of a file, and the session that pauses it. */
#include <drm/drm_file.h>
#include <linux/cleanup.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

#include "amdgpu.h"
#include "amdgpu_criu_gate.h"
#include "amdgpu_criu_render.h"

/* Limit for running calls and submitted jobs. A hung job is reset earlier. */
#define AMDGPU_CRIU_PAUSE_TIME (20 * HZ)

/* A client of a session is a &struct drm_file, which exists as long as its struct file. */
static void amdgpu_criu_file_get(void *client)
{
	struct drm_file *file = client;

	get_file(file->filp);
}

static void amdgpu_criu_file_put(void *client)
{
	struct drm_file *file = client;

	fput(file->filp);
}

static void amdgpu_criu_file_end_hold(struct criu_session *session, void *client)
{
	struct drm_file *file = client;
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct amdgpu_criu_gate *gate = fpriv->criu_gate;

	guard(mutex)(&gate->lock);
	if (!criu_session_release(session, file))
		amdgpu_criu_gate_open(gate);
}

/* The gate of a file is closed while a session holds it. */
const struct criu_client_ops amdgpu_criu_file_ops = {
	.get = amdgpu_criu_file_get,
	.put = amdgpu_criu_file_put,
	.end_hold = amdgpu_criu_file_end_hold,
};

static int amdgpu_criu_is_file(const void *filp, struct file *file, unsigned int fd)
{
	return file == filp;
}

/*
 * Returns the leader of the process that an operation on a file refers to, with a reference. A file
 * may be open in several processes; the DRM core records only its last user.
 */
struct task_struct *amdgpu_criu_process(struct criu_call *call, pid_t nr)
{
	struct task_struct *task;
	struct pid *pid;
	int ret;

	if (nr < 0)
		return ERR_PTR(-EINVAL);
	if (!nr)
		return get_task_struct(current->group_leader);
	pid = find_get_pid(nr);
	task = get_pid_task(pid, PIDTYPE_TGID);
	put_pid(pid);
	if (!task)
		return ERR_PTR(-ESRCH);
	ret = criu_check_owner(task);
	if (!ret && !criu_has_file(task, amdgpu_criu_is_file, call->filp))
		ret = -EBADF;
	if (!ret)
		return task;
	put_task_struct(task);
	return ERR_PTR(ret);
}

/* Returns 1 if the file is now paused, 0 if this session had already paused it, or an error. */
static int amdgpu_criu_pause_locked(struct amdgpu_criu_dump *dump, struct criu_session *session,
				    unsigned long deadline)
{
	struct amdgpu_criu_gate *gate = dump->fpriv->criu_gate;
	int ret;

	ret = criu_session_hold(session, dump->file, &amdgpu_criu_file_ops);
	if (ret == -EALREADY)
		return 0;
	if (ret)
		return ret;
	ret = amdgpu_criu_gate_close(gate, deadline);
	if (!ret)
		return 1;
	if (ret == -ETIME)
		criu_refuse(dump->out.call, ret, "a call on the file does not return");
	criu_session_release(session, dump->file);
	return ret;
}

static int amdgpu_criu_process_info_locked(struct amdgpu_criu_dump *dump,
					   struct amdgpu_criu_process_info *info)
{
	const unsigned long deadline = jiffies + AMDGPU_CRIU_PAUSE_TIME;
	struct criu_session *session = dump->out.call->session;
	struct amdgpu_criu_gate *gate = dump->fpriv->criu_gate;
	int paused, ret;

	paused = amdgpu_criu_pause_locked(dump, session, deadline);
	if (paused < 0)
		return paused;
	ret = amdgpu_criu_file_carriable(dump);
	if (!ret)
		ret = amdgpu_criu_drain_vm(dump, deadline);
	if (!ret)
		ret = amdgpu_criu_drain_ctxs(dump, deadline);
	if (!ret)
		ret = amdgpu_criu_drain_syncobjs(dump, deadline);
	if (!ret)
		ret = amdgpu_criu_find_objects(dump);
	if (!ret)
		ret = amdgpu_criu_output_measure(&dump->out);
	if (ret) {
		/* A file that an earlier call paused stays paused. */
		if (paused) {
			amdgpu_criu_gate_open(gate);
			criu_session_release(session, dump->file);
		}
		return ret;
	}
	dump->out.paused = paused;
	if (gate->task)
		put_task_struct(gate->task);
	gate->task = get_task_struct(dump->task);
	*info = (struct amdgpu_criu_process_info) {
		.session_fd = info->session_fd,
		.pid = task_tgid_vnr(dump->task),
		.num_bos = dump->out.num_bos,
		.blob_size = dump->out.blob_size,
	};
	return 0;
}

static int amdgpu_criu_live_info_locked(struct amdgpu_criu_dump *dump,
					struct amdgpu_criu_process_info *info)
{
	int ret = amdgpu_criu_find_objects(dump);

	return ret ? ret : amdgpu_criu_live_info(&dump->out, info);
}

/* Fails with -ESRCH if the process has released its memory. */
int amdgpu_criu_dump_init(struct amdgpu_criu_dump *dump, struct criu_call *call,
			  struct task_struct *task)
{
	dump->out.call = call;
	dump->file = call->client;
	dump->fpriv = dump->file->driver_priv;
	dump->adev = drm_to_adev(dump->file->minor->dev);
	dump->task = task;
	dump->mm = get_task_mm(task);
	if (!dump->mm)
		return -ESRCH;
	call->task = task;
	return 0;
}

void amdgpu_criu_dump_fini(struct amdgpu_criu_dump *dump)
{
	amdgpu_criu_drop_objects(dump);
	mmput(dump->mm);
	dump->out.call->task = current->group_leader;
}

static int amdgpu_criu_process_info_of(struct criu_call *call,
				       struct amdgpu_criu_process_info *info,
				       struct task_struct *task)
{
	struct amdgpu_criu_dump dump = {};
	int ret;

	ret = amdgpu_criu_dump_init(&dump, call, task);
	if (ret)
		return ret;
	ret = mutex_lock_interruptible(&dump.fpriv->criu_gate->lock);
	if (!ret) {
		ret = info->flags ? amdgpu_criu_live_info_locked(&dump, info) :
				    amdgpu_criu_process_info_locked(&dump, info);
		mutex_unlock(&dump.fpriv->criu_gate->lock);
	}
	amdgpu_criu_dump_fini(&dump);
	if (!ret && criu_call_put_args(call)) {
		if (dump.out.paused)
			amdgpu_criu_file_end_hold(call->session, call->client);
		ret = -EFAULT;
	}
	return ret == -EINTR ? -ERESTARTSYS : ret;
}

int amdgpu_criu_process_info(struct criu_call *call, void *args)
{
	struct amdgpu_criu_process_info *info = args;
	struct task_struct *task;
	int ret;

	ret = amdgpu_criu_info_check(call, info);
	if (ret)
		return ret;
	/* Check before the gate closes: a refused call must not block other calls. */
	ret = amdgpu_criu_check_render(call);
	if (ret)
		return ret;
	task = amdgpu_criu_process(call, info->pid);
	if (IS_ERR(task))
		return PTR_ERR(task);
	ret = amdgpu_criu_process_info_of(call, info, task);
	put_task_struct(task);
	return ret;
}

int amdgpu_criu_unpause(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_unpause *unpause = args;
	struct drm_file *file = call->client;
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	int ret;

	if (unpause->flags)
		return -EINVAL;
	guard(mutex)(&fpriv->criu_gate->lock);
	ret = criu_session_release(call->session, file);
	if (!ret)
		amdgpu_criu_gate_open(fpriv->criu_gate);
	return ret;
}

/* Runs both passes under one hold of the lock. The results stay in kernel buffers. */
static int amdgpu_criu_dump_file_state(struct amdgpu_criu_dump *dump,
				       struct amdgpu_criu_state *args)
{
	struct mutex *lock = &dump->fpriv->criu_gate->lock;
	int ret;

	if (mutex_lock_interruptible(lock))
		return -ERESTARTSYS;
	ret = dump->out.live ? 0 : criu_session_held(dump->out.call->session, dump->file);
	if (!ret)
		ret = amdgpu_criu_find_objects(dump);
	if (!ret)
		ret = amdgpu_criu_output_write(&dump->out, args);
	mutex_unlock(lock);
	return ret;
}

/* Returns the process of PROCESS_INFO; of a live dump, which reads no memory, the caller. */
static struct task_struct *amdgpu_criu_dumped_task(const struct criu_call *call, bool live)
{
	struct drm_file *file = call->client;
	struct amdgpu_fpriv *fpriv = file->driver_priv;

	if (live)
		return get_task_struct(current->group_leader);
	guard(mutex)(&fpriv->criu_gate->lock);
	if (criu_session_held(call->session, file))
		return ERR_PTR(-EBADFD);
	return get_task_struct(fpriv->criu_gate->task);
}

static int amdgpu_criu_dump_client(struct amdgpu_criu_dump *dump, struct criu_call *call,
				   struct amdgpu_criu_state *args)
{
	struct task_struct *task = amdgpu_criu_dumped_task(call, dump->out.live);
	int ret;

	if (IS_ERR(task))
		return PTR_ERR(task);
	ret = amdgpu_criu_dump_init(dump, call, task);
	if (!ret) {
		ret = amdgpu_criu_dump_file_state(dump, args);
		if (!ret)
			ret = amdgpu_criu_output_put(&dump->out, args);
		amdgpu_criu_dump_fini(dump);
	}
	put_task_struct(task);
	return ret == -EINTR ? -ERESTARTSYS : ret;
}

int amdgpu_criu_checkpoint(struct criu_call *call, void *args)
{
	struct amdgpu_criu_dump dump = {};
	int ret;

	ret = amdgpu_criu_output_init(&dump.out, call, args);
	if (!ret)
		ret = amdgpu_criu_dump_client(&dump, call, args);
	amdgpu_criu_output_free(&dump.out);
	return ret;
}
