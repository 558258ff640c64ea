// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The checkpoint/restore ioctl of a render node: its operations. */
#include <drm/drm_file.h>
#include <linux/sched.h>

#include "amdgpu_criu_render.h"

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

static const struct criu_node amdgpu_criu_render_node = {
	.name = "render node",
	.ops = amdgpu_criu_render_ops,
	.num_ops = ARRAY_SIZE(amdgpu_criu_render_ops),
	.schema = &amdgpu_criu_render_schema,
};

/*
 * The ioctl on a render node. The DRM core has already made the caller the owner of the file (see
 * drm_file_update_pid()), so no other process needs to be checked.
 */
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
