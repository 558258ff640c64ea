// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The ioctl of a render node: its operations, and the process of a file. */
#include "amdgpu_criu_render.h"

static int amdgpu_criu_is_file(const void *filp, struct file *file, unsigned int fd)
{
	return file == filp;
}

/* Returns the leader of a process, with a reference. DRM records only the last user of a file. */
static struct task_struct *amdgpu_criu_process(struct criu_call *call, pid_t nr)
{
	struct task_struct *task = criu_get_process(nr);

	if (IS_ERR(task) || !nr || criu_has_file(task, amdgpu_criu_is_file, call->filp))
		return task;
	put_task_struct(task);
	return ERR_PTR(-EBADF);
}

/* Closes the gate, and waits for work in progress, also if the file was already paused. */
static int amdgpu_criu_pause(struct criu_dump *dump)
{
	const unsigned long deadline = jiffies + AMDGPU_CRIU_PAUSE_TIME;
	struct criu_client *client = dump->call->client;
	int ret = criu_session_hold(dump->call->session, client);

	if (ret && ret != -EALREADY)
		return ret;
	if (!ret) {
		ret = criu_client_stop(client, deadline);
		if (ret) {
			criu_session_release(dump->call->session, client);
			return criu_refuse_late(dump->call, ret,
						"a call on the file does not return");
		}
		dump->paused = true;
	}
	return amdgpu_criu_file_carriable(dump) ?:
	       amdgpu_criu_ring_userqs(dump) ?:
	       amdgpu_criu_drain_vm(dump, deadline) ?:
	       amdgpu_criu_wait_reset(dump, deadline) ?:
	       amdgpu_criu_stop_userqs(dump, deadline);
}

/* Takes over the reference to @task. Fails with -ESRCH if the process has released its memory. */
static int amdgpu_criu_set_process(struct criu_dump *dump, struct task_struct *task)
{
	if (IS_ERR(task))
		return PTR_ERR(task);
	dump->task = task;
	dump->mm = get_task_mm(task);
	if (!dump->mm)
		return -ESRCH;
	dump->call->task = task;
	return 0;
}

/* CHECKPOINT is of the process of PROCESS_INFO. A live one reads no memory of the process. */
static int amdgpu_criu_prepare(struct criu_dump *dump)
{
	struct task_struct *task = dump->live ? current->group_leader : dump->call->client->task;
	int ret = dump->task ? 0 : amdgpu_criu_set_process(dump, get_task_struct(task));

	return ret ?: amdgpu_criu_find_objects(dump);
}

static void amdgpu_criu_dump_init(struct criu_dump *dump, struct criu_call *call)
{
	dump->call = call;
	dump->pause = amdgpu_criu_pause;
	dump->prepare = amdgpu_criu_prepare;
	dump->file = call->client->owner;
	dump->fpriv = dump->file->driver_priv;
	dump->adev = drm_to_adev(dump->file->minor->dev);
	INIT_LIST_HEAD(&dump->objects);
	xa_init_flags(&dump->by_gem, XA_FLAGS_ACCOUNT);
}

static void amdgpu_criu_dump_fini(struct criu_dump *dump)
{
	amdgpu_criu_drop_objects(dump);
	if (dump->mm)
		mmput(dump->mm);
	if (dump->task)
		put_task_struct(dump->task);
	dump->call->task = current->group_leader;
}

static int amdgpu_criu_check_render(struct criu_call *call)
{
	return drm_is_render_client(call->client->owner) ?
	       0 : criu_refuse_state(call, "a file of a card node");
}

static int amdgpu_criu_process_info(struct criu_call *call, void *args)
{
	struct amdgpu_criu_process_info *info = args;
	struct criu_dump dump = {};
	int ret;

	amdgpu_criu_dump_init(&dump, call);
	/* Checked before the gate closes: a refused call must not block other calls. */
	ret = amdgpu_criu_check_render(call) ?:
	      amdgpu_criu_set_process(&dump, amdgpu_criu_process(call, info->pid)) ?:
	      amdgpu_criu_info(&dump, info);
	amdgpu_criu_dump_fini(&dump);
	return ret;
}

static int amdgpu_criu_checkpoint(struct criu_call *call, void *args)
{
	struct criu_dump dump = {};
	int ret;

	amdgpu_criu_dump_init(&dump, call);
	ret = amdgpu_criu_dump(&dump, args);
	amdgpu_criu_dump_fini(&dump);
	return ret;
}

/* True if the file has no state, except that KFD may use its VM. */
static bool amdgpu_criu_is_fresh(const struct criu_plan *plan)
{
	struct amdgpu_fpriv *fpriv = plan->fpriv;
	struct amdgpu_bo *root = fpriv->vm.root.bo;
	bool has_prt;

	if (amdgpu_bo_reserve(root, true))
		return false;
	has_prt = !list_empty(&fpriv->prt_va->valids) || !list_empty(&fpriv->prt_va->invalids);
	amdgpu_bo_unreserve(root);
	return idr_is_empty(&plan->file->object_idr) && xa_empty(&plan->file->syncobj_xa) &&
	       xa_empty(&fpriv->ctx_mgr.ctx_handles) &&
	       xa_empty(&fpriv->bo_list_handles) && !amdgpu_criu_has_userqs(fpriv) &&
	       !READ_ONCE(plan->file->client_name) &&
	       !fpriv->vm.reserved_vmid[AMDGPU_GFXHUB(0)] && !has_prt;
}

static int amdgpu_criu_restore_file(struct criu_call *call, void *args)
{
	struct criu_plan plan = {};
	int ret;

	amdgpu_criu_plan_init(&plan, call, args);
	plan.is_fresh = amdgpu_criu_is_fresh;
	ret = amdgpu_criu_check_render(call) ?: amdgpu_criu_restore(&plan);
	amdgpu_criu_plan_free(&plan);
	return ret;
}

static int amdgpu_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct criu_client *client = call->client;
	struct criu_dump dump = {};
	int ret;

	if (resume->flags || resume->pad)
		return -EINVAL;
	amdgpu_criu_dump_init(&dump, call);
	ret = amdgpu_criu_set_process(&dump, amdgpu_criu_process(call, resume->pid)) ?:
	      mutex_lock_interruptible(client->lock);
	if (!ret) {
		ret = client->restoring ? -EBADFD : criu_session_held(call->session, client);
		ret = ret ?:
		      amdgpu_criu_find_objects(&dump) ?:
		      amdgpu_criu_attach_userptrs(&dump);
		/* Contents that the caller has written are lost. */
		if (!ret && amdgpu_criu_is_reset(dump.adev, dump.fpriv))
			ret = criu_refuse(call, -EIO, "a reset of the GPU has lost its memory");
		ret = ret ?:
		      amdgpu_criu_resume_userqs(&dump) ?:
		      criu_session_release(call->session, client);
		if (!ret)
			criu_client_allow(client);
		mutex_unlock(client->lock);
	}
	amdgpu_criu_dump_fini(&dump);
	if (!ret)
		criu_session_resumed(call->session);
	return ret;
}

/* A file of a card node could create GEM names for BOs of other processes. */
static int amdgpu_criu_render_dmabuf(struct criu_call *call, void *args)
{
	return amdgpu_criu_check_render(call) ?:
	       amdgpu_criu_dmabuf_for(call, args, call->client->owner);
}

static const struct criu_op amdgpu_criu_render_ops[] = {
	AMDGPU_CRIU_OP(QUERY, NONE, amdgpu_criu_query, query, pad),
	AMDGPU_CRIU_OP(SESSION, NONE, amdgpu_criu_session, session, pad),
	AMDGPU_CRIU_OP(PROCESS_INFO, DUMP, amdgpu_criu_process_info, process_info, blob_size),
	AMDGPU_CRIU_OP(CHECKPOINT, DUMP, amdgpu_criu_checkpoint, state, bo_stride),
	AMDGPU_CRIU_OP_IN(UNPAUSE, CHECKPOINT, amdgpu_criu_unpause, unpause, flags),
	AMDGPU_CRIU_OP_IN(RESTORE, RESTORE, amdgpu_criu_restore_file, state, bo_stride),
	AMDGPU_CRIU_OP_IN(RESUME, RESTORE, amdgpu_criu_resume, resume, pad),
	AMDGPU_CRIU_OP(DMABUF, ANY, amdgpu_criu_render_dmabuf, dmabuf, pad),
	AMDGPU_CRIU_OP(EXPORTED, BOTH, amdgpu_criu_exported, exported, blob_size),
	AMDGPU_CRIU_OP(OUTSIDE, CHECKPOINT, amdgpu_criu_outside, outside, size),
	AMDGPU_CRIU_OP(EVICT, CHECKPOINT, amdgpu_criu_evict, evict, kept),
};

static const struct criu_kind *const amdgpu_criu_kinds[] = {
	&amdgpu_criu_files, &amdgpu_criu_names, &amdgpu_criu_objects, &amdgpu_criu_handles,
	&amdgpu_criu_mappings, &amdgpu_criu_ctxs, &amdgpu_criu_bo_lists, &amdgpu_criu_syncobjs,
	&amdgpu_criu_userqs,
};

static const struct criu_node amdgpu_criu_render_node = {
	.name = "render node",
	.ops = amdgpu_criu_render_ops, .num_ops = ARRAY_SIZE(amdgpu_criu_render_ops),
	.schema = &amdgpu_criu_render_schema,
	.kinds = amdgpu_criu_kinds, .num_kinds = ARRAY_SIZE(amdgpu_criu_kinds),
	.features = IS_ENABLED(CONFIG_HSA_AMD) ? kfd_criu_features : NULL,
};

/* DRM has made the caller the owner of the file, see drm_file_update_pid(). */
int amdgpu_criu_ioctl(struct drm_device *dev, void *data, struct drm_file *file_priv)
{
	struct amdgpu_fpriv *fpriv = file_priv->driver_priv;
	struct criu_call call = {
		.node = &amdgpu_criu_render_node, .client = &fpriv->criu,
		.filp = file_priv->filp, .task = current->group_leader,
	};

	return amdgpu_criu_call(&call, data);
}
