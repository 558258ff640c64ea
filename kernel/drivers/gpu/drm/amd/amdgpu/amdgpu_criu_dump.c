// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * CHECKPOINT: writes the state of a paused file to a table and a blob, or lists the BOs of a
 * running one.
 */
#include <drm/drm_file.h>
#include <linux/cleanup.h>
#include <linux/sched/task.h>

#include "amdgpu.h"
#include "amdgpu_criu_gate.h"
#include "amdgpu_criu_render.h"

/* Writes all records of a file. Returns 0; the error of the first object that cannot be carried. */
int amdgpu_criu_dump_walk(struct amdgpu_criu_output *out)
{
	static int (* const kinds[])(struct amdgpu_criu_dump *dump) = {
		amdgpu_criu_dump_file,
		amdgpu_criu_dump_objects,
		amdgpu_criu_dump_handles,
		amdgpu_criu_dump_mappings,
		amdgpu_criu_dump_ctxs,
		amdgpu_criu_dump_bo_lists,
		amdgpu_criu_dump_syncobjs,
	};
	struct amdgpu_criu_dump *dump = container_of(out, struct amdgpu_criu_dump, out);
	u32 i;
	int ret = 0;

	if (out->live)
		return amdgpu_criu_dump_objects(dump);
	for (i = 0; !ret && i < ARRAY_SIZE(kinds); i++)
		ret = kinds[i](dump);
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
		ret = amdgpu_criu_output_write(&dump->out, args, amdgpu_criu_dump_walk);
	mutex_unlock(lock);
	return ret;
}

/*
 * Returns the process that was passed to PROCESS_INFO, with a reference. A live dump does not read
 * its memory: the caller stands for it.
 */
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
	struct task_struct *leader = call->task;
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
	call->task = leader;
	put_task_struct(task);
	return ret == -EINTR ? -ERESTARTSYS : ret;
}

/* CHECKPOINT */
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
