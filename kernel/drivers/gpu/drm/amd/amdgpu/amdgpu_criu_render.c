// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The ioctl of a render node: its operations, of which RESTORE and RESUME are here. */
#include "amdgpu_criu_render.h"

/* True if the file has no state, except that KFD may use its VM. */
static bool amdgpu_criu_is_fresh(void *data)
{
	const struct amdgpu_criu_plan *plan = data;
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
	struct amdgpu_criu_plan plan = {};
	int ret = amdgpu_criu_check_render(call);

	if (ret)
		return ret;
	amdgpu_criu_plan_init(&plan, call, args);
	plan.in.is_fresh = amdgpu_criu_is_fresh;
	ret = amdgpu_criu_restore(call, &plan.in);
	amdgpu_criu_plan_free(&plan);
	return ret;
}

static int amdgpu_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct criu_client *client = call->client;
	struct amdgpu_criu_dump dump = {};
	int ret;

	if (resume->flags || resume->pad)
		return -EINVAL;
	ret = amdgpu_criu_dump_init(&dump, call, amdgpu_criu_process(call, resume->pid));
	if (!ret)
		ret = mutex_lock_interruptible(client->lock);
	if (!ret) {
		ret = client->restoring ? -EBADFD : criu_session_held(call->session, client);
		ret = ret ?:
		      amdgpu_criu_find_objects(&dump) ?:
		      amdgpu_criu_attach_userptrs(&dump) ?:
		      amdgpu_criu_resume_userqs(&dump) ?:
		      criu_session_release(call->session, client);
		if (!ret)
			criu_client_allow(client);
		mutex_unlock(client->lock);
	}
	amdgpu_criu_dump_fini(&dump);
	if (!ret)
		criu_session_resumed(call->session);
	return ret == -EINTR ? -ERESTARTSYS : ret;
}

/* A file of a card node could create GEM names for BOs of other processes. */
static int amdgpu_criu_render_dmabuf(struct criu_call *call, void *args)
{
	int ret = amdgpu_criu_check_render(call);

	return ret ? ret : amdgpu_criu_dmabuf_for(call, args, call->client->owner);
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
	AMDGPU_CRIU_OP_IN(RESTORE, RESTORE, amdgpu_criu_restore_file, struct amdgpu_criu_state,
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
	&amdgpu_criu_userqs,
};

static const struct criu_node amdgpu_criu_render_node = {
	.name = "render node",
	.ops = amdgpu_criu_render_ops,
	.num_ops = ARRAY_SIZE(amdgpu_criu_render_ops),
	.schema = &amdgpu_criu_render_schema,
	.kinds = amdgpu_criu_kinds,
	.num_kinds = ARRAY_SIZE(amdgpu_criu_kinds),
	.features = IS_ENABLED(CONFIG_HSA_AMD) ? kfd_criu_features : NULL,
};

/* DRM has made the caller the owner of the file, see drm_file_update_pid(). */
int amdgpu_criu_ioctl(struct drm_device *dev, void *data, struct drm_file *file_priv)
{
	struct amdgpu_fpriv *fpriv = file_priv->driver_priv;
	struct criu_call call = {
		.node = &amdgpu_criu_render_node,
		.client = &fpriv->criu,
		.filp = file_priv->filp,
		.task = current->group_leader,
	};

	return amdgpu_criu_call(&call, data);
}
