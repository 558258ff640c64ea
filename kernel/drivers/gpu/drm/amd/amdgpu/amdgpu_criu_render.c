// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The ioctl of a render node: its operations, of which RESTORE and RESUME are here. */
#include <drm/drm_file.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "amdgpu.h"
#include "amdgpu_criu_driver.h"
#include "amdgpu_criu_gate.h"
#include "amdgpu_criu_render.h"

/* Limit for running calls of the process. */
#define AMDGPU_CRIU_CLOSE_TIME (5 * HZ)

static bool amdgpu_criu_has_prt(struct amdgpu_fpriv *fpriv)
{
	struct amdgpu_bo *root = fpriv->vm.root.bo;
	bool has;

	if (amdgpu_bo_reserve(root, true))
		return true;
	has = !list_empty(&fpriv->prt_va->valids) || !list_empty(&fpriv->prt_va->invalids);
	amdgpu_bo_unreserve(root);
	return has;
}

/* True if the file has no state, except that KFD may use its VM. */
static bool amdgpu_criu_is_fresh(const struct amdgpu_criu_plan *plan)
{
	struct amdgpu_fpriv *fpriv = plan->fpriv;

	return idr_is_empty(&plan->file->object_idr) && !amdgpu_criu_has_syncobjs(plan->file) &&
	       idr_is_empty(&fpriv->ctx_mgr.ctx_handles) &&
	       idr_is_empty(&fpriv->bo_list_handles) &&
	       !amdgpu_criu_has_user_queues(fpriv) && !amdgpu_criu_has_client_name(plan->file) &&
	       !fpriv->vm.reserved_vmid[AMDGPU_GFXHUB(0)] && !amdgpu_criu_has_prt(fpriv);
}

void amdgpu_criu_plan_free(struct amdgpu_criu_plan *plan)
{
	for (u32 i = 0; i < plan->num_objects; i++)
		if (plan->objects[i].gem)
			drm_gem_object_put(plan->objects[i].gem);
	kvfree(plan->object_ids.ids);
	criu_plan_free(plan->call, plan);
}

static int amdgpu_criu_restore_closed(struct amdgpu_criu_plan *plan)
{
	int ret;

	if (!amdgpu_criu_is_fresh(plan))
		return criu_refuse(plan->call, -EBADFD, "the file has been used already");
	if (plan->args->num_devices)
		return criu_refuse(plan->call, -EBADMSG, "table of %u GPUs for a render node",
				   plan->args->num_devices);
	ret = criu_plan_make(plan->call, plan->blob, plan);
	if (!ret)
		ret = criu_plan_apply(plan->call, plan);
	if (ret)
		criu_plan_undo(plan->call, plan);
	return ret;
}

/* The gate stays closed until RESUME, because userptrs have no memory until then. */
static int amdgpu_criu_restore_locked(struct amdgpu_criu_plan *plan)
{
	struct amdgpu_criu_gate *gate = plan->fpriv->criu_gate;
	int ret = criu_session_hold(plan->session, plan->file, &amdgpu_criu_file_ops);

	if (ret)
		return ret == -EALREADY ? -EBADFD : ret;
	ret = amdgpu_criu_gate_close(gate, jiffies + AMDGPU_CRIU_CLOSE_TIME);
	if (!ret) {
		ret = amdgpu_criu_restore_closed(plan);
		if (ret)
			amdgpu_criu_gate_open(gate);
	}
	if (ret)
		criu_session_release(plan->session, plan->file);
	gate->restoring = !ret;
	return ret;
}

/*
 * Writing the results may block indefinitely, so it is done without the lock. The gate is
 * closed and the session holds the file, so that only RESUME could change the file, and
 * RESUME checks @restoring.
 */
static int amdgpu_criu_restore_answer(struct amdgpu_criu_plan *plan)
{
	struct amdgpu_criu_gate *gate = plan->fpriv->criu_gate;
	int ret = amdgpu_criu_bos_put(plan->args, plan, plan->num_objects, amdgpu_criu_plan_entry);

	mutex_lock(&gate->lock);
	gate->restoring = false;
	if (ret) {
		criu_plan_undo(plan->call, plan);
		amdgpu_criu_gate_open(gate);
		criu_session_release(plan->session, plan->file);
	}
	mutex_unlock(&gate->lock);
	return ret;
}

static int amdgpu_criu_restore_blob(struct criu_call *call,
				    const struct amdgpu_criu_state *args,
				    const struct amdgpu_criu_tables *tables,
				    const struct criu_blob *blob)
{
	struct drm_file *file = call->client;
	struct amdgpu_criu_plan plan = {
		.call = call,
		.adev = drm_to_adev(file->minor->dev),
		.file = file,
		.fpriv = file->driver_priv,
		.session = call->session,
		.args = args,
		.tables = tables,
		.blob = blob,
	};
	int ret = mutex_lock_interruptible(&plan.fpriv->criu_gate->lock);

	if (ret)
		return -ERESTARTSYS;
	ret = amdgpu_criu_restore_locked(&plan);
	mutex_unlock(&plan.fpriv->criu_gate->lock);
	if (!ret)
		ret = amdgpu_criu_restore_answer(&plan);
	amdgpu_criu_plan_free(&plan);
	return ret;
}

static int amdgpu_criu_restore(struct criu_call *call, void *args)
{
	int ret = amdgpu_criu_check_render(call);

	return ret ? ret : amdgpu_criu_restore_with(call, args, &amdgpu_criu_render_schema,
						    amdgpu_criu_restore_blob);
}

static int amdgpu_criu_resume_locked(struct amdgpu_criu_dump *dump, struct criu_session *session)
{
	int ret = criu_session_held(session, dump->file);

	if (!ret && dump->fpriv->criu_gate->restoring)
		ret = -EBADFD;
	if (!ret)
		ret = amdgpu_criu_find_objects(dump);
	if (!ret)
		ret = amdgpu_criu_attach_userptrs(dump);
	if (ret)
		return ret;
	amdgpu_criu_gate_open(dump->fpriv->criu_gate);
	return criu_session_release(session, dump->file);
}

static int amdgpu_criu_resume_task(struct criu_call *call, struct criu_session *session,
				   struct task_struct *task)
{
	struct amdgpu_criu_dump dump = {};
	int ret = amdgpu_criu_dump_init(&dump, call, task);

	if (ret)
		return ret;
	mutex_lock(&dump.fpriv->criu_gate->lock);
	ret = amdgpu_criu_resume_locked(&dump, session);
	mutex_unlock(&dump.fpriv->criu_gate->lock);
	amdgpu_criu_dump_fini(&dump);
	return ret;
}

static int amdgpu_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct task_struct *task;
	int ret;

	if (resume->flags || resume->pad)
		return -EINVAL;
	task = amdgpu_criu_process(call, resume->pid);
	if (IS_ERR(task))
		return PTR_ERR(task);
	ret = amdgpu_criu_resume_task(call, call->session, task);
	put_task_struct(task);
	return ret;
}

/* A file of a card node could create GEM names for BOs of other processes. */
static int amdgpu_criu_render_dmabuf(struct criu_call *call, void *args)
{
	int ret = amdgpu_criu_check_render(call);

	return ret ? ret : amdgpu_criu_dmabuf_for(call, args, call->client);
}

static const struct criu_op amdgpu_criu_render_ops[] = {
	AMDGPU_CRIU_OP(QUERY, NONE, amdgpu_criu_query, struct amdgpu_criu_query, pad),
	AMDGPU_CRIU_OP(SESSION, NONE, amdgpu_criu_session, struct amdgpu_criu_session, pad),
	AMDGPU_CRIU_OP(PROCESS_INFO, DUMP, amdgpu_criu_process_info,
		       struct amdgpu_criu_process_info, blob_size),
	AMDGPU_CRIU_OP(CHECKPOINT, DUMP, amdgpu_criu_checkpoint, struct amdgpu_criu_state,
		       bo_stride),
	AMDGPU_CRIU_OP_IN(UNPAUSE, CHECKPOINT, amdgpu_criu_unpause, struct amdgpu_criu_unpause,
			  flags),
	AMDGPU_CRIU_OP_IN(RESTORE, RESTORE, amdgpu_criu_restore, struct amdgpu_criu_state,
			  bo_stride),
	AMDGPU_CRIU_OP_IN(RESUME, RESTORE, amdgpu_criu_resume, struct amdgpu_criu_resume, pad),
	AMDGPU_CRIU_OP(DMABUF, ANY, amdgpu_criu_render_dmabuf, struct amdgpu_criu_dmabuf, pad),
	AMDGPU_CRIU_OP(EXPORTED, BOTH, amdgpu_criu_exported, struct amdgpu_criu_exported,
		       blob_size),
	AMDGPU_CRIU_OP(OUTSIDE, CHECKPOINT, amdgpu_criu_outside, struct amdgpu_criu_outside, size),
};

static const struct criu_kind *const amdgpu_criu_kinds[] = {
	&amdgpu_criu_files,
	&amdgpu_criu_names,
	&amdgpu_criu_objects,
	&amdgpu_criu_handles,
	&amdgpu_criu_mappings,
	&amdgpu_criu_ctxs,
	&amdgpu_criu_bo_lists,
	&amdgpu_criu_syncobjs,
};

static const struct criu_node amdgpu_criu_render_node = {
	.name = "render node",
	.ops = amdgpu_criu_render_ops,
	.num_ops = ARRAY_SIZE(amdgpu_criu_render_ops),
	.schema = &amdgpu_criu_render_schema,
	.kinds = amdgpu_criu_kinds,
	.num_kinds = ARRAY_SIZE(amdgpu_criu_kinds),
};

/* DRM has made the caller the owner of the file, see drm_file_update_pid(). */
int amdgpu_criu_ioctl(struct drm_device *dev, void *data, struct drm_file *file_priv)
{
	struct criu_call call = {
		.node = &amdgpu_criu_render_node,
		.client = file_priv,
		.filp = file_priv->filp,
		.task = current->group_leader,
	};

	return amdgpu_criu_call(&call, data);
}
