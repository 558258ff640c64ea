// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * RESTORE: parses the blob into a plan, then applies the plan or undoes all of it. RESUME:
 * allows the process to use the file.
 */
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

/* Undoes what was applied, in reverse order, and skips what was not applied. */
static void amdgpu_criu_undo(struct amdgpu_criu_plan *plan)
{
	amdgpu_criu_undo_syncobjs(plan);
	amdgpu_criu_undo_bo_lists(plan);
	amdgpu_criu_undo_ctxs(plan);
	amdgpu_criu_undo_mappings(plan);
	amdgpu_criu_undo_handles(plan);
	amdgpu_criu_undo_objects(plan);
	amdgpu_criu_undo_file(plan);
}

static int amdgpu_criu_apply_all(struct amdgpu_criu_plan *plan)
{
	static int (* const steps[])(struct amdgpu_criu_plan *plan) = {
		amdgpu_criu_apply_file,
		amdgpu_criu_apply_objects,
		amdgpu_criu_apply_handles,
		amdgpu_criu_apply_mappings,
		amdgpu_criu_apply_ctxs,
		amdgpu_criu_apply_bo_lists,
		amdgpu_criu_apply_syncobjs,
	};
	int ret = 0;

	for (u32 i = 0; !ret && i < ARRAY_SIZE(steps); i++)
		ret = steps[i](plan);
	return ret;
}

static int amdgpu_criu_restore_closed(struct amdgpu_criu_plan *plan,
				      const struct amdgpu_criu_state *args)
{
	int ret;

	if (!amdgpu_criu_is_fresh(plan))
		return criu_refuse(plan->call, -EBADFD, "the file has been used already");
	ret = amdgpu_criu_plan_make(plan, args);
	if (!ret)
		ret = amdgpu_criu_apply_all(plan);
	if (ret)
		amdgpu_criu_undo(plan);
	return ret;
}

/* The gate stays closed until RESUME, because userptrs have no memory until then. */
static int amdgpu_criu_restore_locked(struct amdgpu_criu_plan *plan,
				      const struct amdgpu_criu_state *args)
{
	struct amdgpu_criu_gate *gate = plan->fpriv->criu_gate;
	int ret = criu_session_hold(plan->session, plan->file, &amdgpu_criu_file_ops);

	if (ret)
		return ret == -EALREADY ? -EBADFD : ret;
	ret = amdgpu_criu_gate_close(gate, jiffies + AMDGPU_CRIU_CLOSE_TIME);
	if (!ret) {
		ret = amdgpu_criu_restore_closed(plan, args);
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
static int amdgpu_criu_restore_answer(struct amdgpu_criu_plan *plan,
				      const struct amdgpu_criu_state *args)
{
	struct amdgpu_criu_gate *gate = plan->fpriv->criu_gate;
	int ret = amdgpu_criu_bos_put(args, plan, plan->num_objects, amdgpu_criu_plan_entry);

	mutex_lock(&gate->lock);
	gate->restoring = false;
	if (ret) {
		amdgpu_criu_undo(plan);
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
		.tables = tables,
		.blob = blob,
	};
	int ret = mutex_lock_interruptible(&plan.fpriv->criu_gate->lock);

	if (ret)
		return -ERESTARTSYS;
	ret = amdgpu_criu_restore_locked(&plan, args);
	mutex_unlock(&plan.fpriv->criu_gate->lock);
	if (!ret)
		ret = amdgpu_criu_restore_answer(&plan, args);
	amdgpu_criu_plan_free(&plan);
	return ret;
}

/* RESTORE */
int amdgpu_criu_restore(struct criu_call *call, void *args)
{
	int ret = amdgpu_criu_restore_check(args);

	if (!ret)
		ret = amdgpu_criu_check_render(call);
	return ret ? ret : amdgpu_criu_restore_with(call, args, amdgpu_criu_restore_blob);
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

/* RESUME */
int amdgpu_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct task_struct *leader = call->task;
	struct task_struct *task;
	int ret;

	if (resume->flags || resume->pad)
		return -EINVAL;
	task = amdgpu_criu_process(call, resume->pid);
	if (IS_ERR(task))
		return PTR_ERR(task);
	ret = amdgpu_criu_resume_task(call, call->session, task);
	call->task = leader;
	put_task_struct(task);
	return ret;
}
