// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The checkpoint/restore ioctl of a render node: its operations.
 */
#include <drm/drm_file.h>
#include <linux/sched.h>

#include "amdgpu_criu_object.h"
#include "amdgpu_criu_render.h"

/* Whoever gets a dma-buf by its session may open it by this file, to copy the BO. */
static int amdgpu_criu_render_dmabuf(struct criu_call *call, void *args)
{
	int ret = amdgpu_criu_dmabuf(call, args);

	if (!ret)
		amdgpu_criu_let_open(call->client);
	return ret;
}

static const struct criu_op amdgpu_criu_render_ops[] = {
	AMDGPU_CRIU_OP(QUERY, amdgpu_criu_query, struct amdgpu_criu_query, pad),
	AMDGPU_CRIU_OP(SESSION, amdgpu_criu_session, struct amdgpu_criu_session, pad),
	AMDGPU_CRIU_OP(PROCESS_INFO, amdgpu_criu_process_info, struct amdgpu_criu_process_info,
		       blob_size),
	AMDGPU_CRIU_OP(CHECKPOINT, amdgpu_criu_checkpoint, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(UNPAUSE, amdgpu_criu_unpause, struct amdgpu_criu_unpause, flags),
	AMDGPU_CRIU_OP_IN(RESTORE, amdgpu_criu_restore, struct amdgpu_criu_state, bo_stride),
	AMDGPU_CRIU_OP_IN(RESUME, amdgpu_criu_resume, struct amdgpu_criu_resume, pad),
	AMDGPU_CRIU_OP(DMABUF, amdgpu_criu_render_dmabuf, struct amdgpu_criu_dmabuf, pad),
	AMDGPU_CRIU_OP(EXPORTED, amdgpu_criu_exported, struct amdgpu_criu_exported, blob_size),
	AMDGPU_CRIU_OP(OUTSIDE, amdgpu_criu_outside, struct amdgpu_criu_outside, size),
};

static const struct criu_node amdgpu_criu_render_node = {
	.name = "render node",
	.ops = amdgpu_criu_render_ops,
	.num_ops = ARRAY_SIZE(amdgpu_criu_render_ops),
	.schema = &amdgpu_criu_render_schema,
};

/**
 * amdgpu_criu_ioctl() - the ioctl on a render node
 * @dev: DRM device
 * @data: &struct amdgpu_criu_ioctl
 * @file_priv: open file
 *
 * The DRM core has made the caller the owner of the file by now (see
 * drm_file_update_pid()), so there is no other process to check for.
 *
 * Return: 0 or an error as in the uapi header.
 */
int amdgpu_criu_ioctl(struct drm_device *dev, void *data, struct drm_file *file_priv)
{
	const struct amdgpu_criu_ioctl *envelope = data;
	struct criu_call call = {
		.node = &amdgpu_criu_render_node,
		.client = file_priv,
		.filp = file_priv->filp,
		.task = current->group_leader,
	};

	return criu_ioctl(&call, envelope->op, envelope->size, envelope->arg);
}
