// SPDX-License-Identifier: GPL-2.0 OR MIT
/* PROCESS_INFO, CHECKPOINT, UNPAUSE: the process of a file, and the session that pauses it. */
#include <linux/fdtable.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>

#include "amdgpu_criu_render.h"

/* Limit for running calls and submitted jobs. A hung job is reset earlier. */
#define AMDGPU_CRIU_PAUSE_TIME (20 * HZ)

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

/* Closes the gate, and waits for work in progress, also if the file was already paused. */
static int amdgpu_criu_pause(struct amdgpu_criu_output *out)
{
	struct amdgpu_criu_dump *dump = container_of(out, struct amdgpu_criu_dump, out);
	const unsigned long deadline = jiffies + AMDGPU_CRIU_PAUSE_TIME;
	struct criu_client *client = out->call->client;
	int ret = criu_session_hold(out->call->session, client);

	if (ret && ret != -EALREADY)
		return ret;
	if (!ret) {
		ret = criu_client_stop(client, deadline);
		if (ret == -ETIME)
			criu_refuse(out->call, ret, "a call on the file does not return");
		if (ret) {
			criu_session_release(out->call->session, client);
			return ret;
		}
		out->paused = true;
	}
	return amdgpu_criu_file_carriable(dump) ?:
	       amdgpu_criu_drain_vm(dump, deadline) ?:
	       amdgpu_criu_drain_ctxs(dump, deadline) ?:
	       amdgpu_criu_stop_userqs(dump, deadline) ?:
	       amdgpu_criu_drain_syncobjs(dump, deadline);
}

static int amdgpu_criu_prepare(struct amdgpu_criu_output *out)
{
	return amdgpu_criu_find_objects(container_of(out, struct amdgpu_criu_dump, out));
}

/*
 * @task: leader of the process, or an error; its reference is taken over. The caller calls
 * amdgpu_criu_dump_fini() in each case. Fails with -ESRCH if the process has released its memory.
 */
int amdgpu_criu_dump_init(struct amdgpu_criu_dump *dump, struct criu_call *call,
			  struct task_struct *task)
{
	dump->out.call = call;
	INIT_LIST_HEAD(&dump->objects);
	xa_init(&dump->by_gem);
	if (IS_ERR(task))
		return PTR_ERR(task);
	dump->out.pause = amdgpu_criu_pause;
	dump->out.prepare = amdgpu_criu_prepare;
	dump->file = call->client->owner;
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
	if (dump->mm)
		mmput(dump->mm);
	if (dump->task)
		put_task_struct(dump->task);
	dump->out.call->task = current->group_leader;
}

int amdgpu_criu_process_info(struct criu_call *call, void *args)
{
	struct amdgpu_criu_process_info *info = args;
	struct amdgpu_criu_dump dump = {};
	int ret = amdgpu_criu_check_render(call);

	/* Before the gate closes: a refused call must not block other calls. */
	if (ret)
		return ret;
	ret = amdgpu_criu_dump_init(&dump, call, amdgpu_criu_process(call, info->pid));
	if (!ret)
		ret = amdgpu_criu_info(&dump.out, info);
	amdgpu_criu_dump_fini(&dump);
	return ret == -EINTR ? -ERESTARTSYS : ret;
}

int amdgpu_criu_checkpoint(struct criu_call *call, void *args)
{
	struct task_struct *task = current->group_leader;
	struct amdgpu_criu_dump dump = {};
	int ret = amdgpu_criu_output_init(&dump.out, call, args);

	if (!ret) {
		/* A live dump reads no memory of the process of PROCESS_INFO. */
		scoped_guard(mutex, call->client->lock) {
			if (!dump.out.live)
				task = call->client->task;
			if (task)
				get_task_struct(task);
		}
		ret = amdgpu_criu_dump_init(&dump, call, task ?: ERR_PTR(-EBADFD));
		if (!ret)
			ret = amdgpu_criu_dump(&dump.out, args);
		amdgpu_criu_dump_fini(&dump);
	}
	amdgpu_criu_output_free(&dump.out);
	return ret == -EINTR ? -ERESTARTSYS : ret;
}
