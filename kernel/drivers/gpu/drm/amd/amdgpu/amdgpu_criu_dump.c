// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * CHECKPOINT: writes the state of a paused file to a table and a blob.
 */
#include <drm/drm_file.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "amdgpu.h"
#include "amdgpu_criu_gate.h"
#include "amdgpu_criu_render.h"

/* Walks the file once. The size pass and the write pass make the same calls. */
static int amdgpu_criu_dump_walk(struct amdgpu_criu_dump *dump, void *buf, size_t room,
				 size_t *size)
{
	static int (* const nouns[])(struct amdgpu_criu_dump *dump) = {
		amdgpu_criu_dump_file,
		amdgpu_criu_dump_objects,
		amdgpu_criu_dump_handles,
		amdgpu_criu_dump_mappings,
		amdgpu_criu_dump_ctxs,
		amdgpu_criu_dump_bo_lists,
		amdgpu_criu_dump_syncobjs,
	};
	u32 i;
	int ret;

	dump->num_bos = 0;
	criu_writer_init_for(&dump->writer, &amdgpu_criu_render_schema, dump->targets,
			     dump->num_targets, buf, room);
	for (i = 0; i < ARRAY_SIZE(nouns); i++) {
		ret = nouns[i](dump);
		if (ret)
			return ret;
	}
	ret = criu_writer_finish(&dump->writer, size);
	return dump->writer.fault.reason ?
	       criu_refuse_blob(dump->call, &dump->writer.fault, ret) : ret;
}

/**
 * amdgpu_criu_dump_sizes() - find the objects and run the size pass
 * @dump: dump of a paused file
 * @blob_size: output
 *
 * Return: 0, with the counts in @dump; or the error of the first object that cannot be
 * carried.
 */
int amdgpu_criu_dump_sizes(struct amdgpu_criu_dump *dump, size_t *blob_size)
{
	int ret = amdgpu_criu_find_objects(dump);

	return ret ? ret : amdgpu_criu_dump_walk(dump, NULL, 0, blob_size);
}

/* Fails if the caller's buffers are too small for the size pass. Always returns the counts. */
static int amdgpu_criu_dump_fits(const struct amdgpu_criu_dump *dump, size_t blob_size,
				 struct amdgpu_criu_state *args)
{
	bool fits = args->num_bos >= dump->num_bos && args->blob_size >= blob_size;

	args->num_devices = 0;
	args->num_bos = dump->num_bos;
	args->blob_size = blob_size;
	return fits ? 0 : -ENOSPC;
}

static int amdgpu_criu_dump_alloc(struct amdgpu_criu_dump *dump, size_t blob_size, void **blob)
{
	dump->bos = kvcalloc(dump->num_bos, sizeof(*dump->bos), GFP_KERNEL_ACCOUNT);
	*blob = kvmalloc(blob_size, GFP_KERNEL_ACCOUNT);
	return (dump->num_bos && !dump->bos) || !*blob ? -ENOMEM : 0;
}

/* Runs both passes under one hold of the lock. The results stay in kernel buffers. */
static int amdgpu_criu_dump_locked(struct amdgpu_criu_dump *dump, struct criu_session *session,
				   struct amdgpu_criu_state *args, void **blob)
{
	size_t blob_size;
	int ret;

	ret = amdgpu_criu_dump_sizes(dump, &blob_size);
	if (!ret)
		ret = amdgpu_criu_dump_fits(dump, blob_size, args);
	if (!ret)
		ret = amdgpu_criu_dump_alloc(dump, blob_size, blob);
	if (ret)
		return ret;
	dump->session = session;
	return amdgpu_criu_dump_walk(dump, *blob, blob_size, &blob_size);
}

static int amdgpu_criu_dump_put(struct amdgpu_criu_dump *dump,
				const struct amdgpu_criu_state *args, const void *blob)
{
	u32 i;
	int ret;

	if (copy_to_user(u64_to_user_ptr(args->blob), blob, args->blob_size))
		return -EFAULT;
	for (i = 0; i < dump->num_bos; i++) {
		ret = amdgpu_criu_table_put(args->bos, i, args->bo_stride, &dump->bos[i],
					    sizeof(dump->bos[i]));
		if (ret)
			return ret;
	}
	return 0;
}

/* Returns the process that was passed to PROCESS_INFO, with a reference. */
static struct task_struct *amdgpu_criu_paused_task(struct criu_session *session,
						   struct drm_file *file)
{
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct task_struct *task;

	if (criu_session_held(session, file))
		return ERR_PTR(-EBADFD);
	task = fpriv->criu_gate->task;
	return get_task_struct(task);
}

static int amdgpu_criu_dump_task(struct criu_call *call, struct criu_session *session,
				 struct amdgpu_criu_state *args,
				 const struct criu_record_target *targets,
				 struct task_struct *task)
{
	struct amdgpu_criu_dump dump;
	void *blob = NULL;
	int ret;

	ret = amdgpu_criu_dump_init(&dump, call, task);
	if (ret)
		return ret;
	dump.targets = targets;
	dump.num_targets = args->num_records;
	ret = mutex_lock_interruptible(&dump.fpriv->criu_gate->lock);
	if (!ret) {
		ret = criu_session_held(session, dump.file);
		if (!ret)
			ret = amdgpu_criu_dump_locked(&dump, session, args, &blob);
		mutex_unlock(&dump.fpriv->criu_gate->lock);
	}
	if (!ret)
		ret = amdgpu_criu_dump_put(&dump, args, blob);
	kvfree(dump.bos);
	kvfree(blob);
	amdgpu_criu_dump_fini(&dump);
	return ret == -EINTR ? -ERESTARTSYS : ret;
}

static int amdgpu_criu_checkpoint_in(struct criu_call *call, struct criu_session *session,
				     struct amdgpu_criu_state *args,
				     const struct criu_record_target *targets)
{
	struct drm_file *file = call->client;
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct task_struct *leader = call->task;
	struct task_struct *task;
	int ret;

	mutex_lock(&fpriv->criu_gate->lock);
	task = amdgpu_criu_paused_task(session, file);
	mutex_unlock(&fpriv->criu_gate->lock);
	if (IS_ERR(task))
		return PTR_ERR(task);
	ret = amdgpu_criu_dump_task(call, session, args, targets, task);
	call->task = leader;
	put_task_struct(task);
	return ret;
}

/**
 * amdgpu_criu_checkpoint() - CHECKPOINT
 * @call: the call
 * @args: &struct amdgpu_criu_state
 *
 * Return: 0; -ENOSPC, with the required sizes in @args; other errors as in the uapi
 * header.
 */
int amdgpu_criu_checkpoint(struct criu_call *call, void *args)
{
	return amdgpu_criu_checkpoint_with(call, args, amdgpu_criu_checkpoint_in);
}
