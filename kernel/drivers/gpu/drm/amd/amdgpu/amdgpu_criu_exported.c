// SPDX-License-Identifier: GPL-2.0 OR MIT
/* EXPORTED: one BO in a blob of its own, of a dma-buf descriptor or without a file of its GPU. */
#include "amdgpu_criu_render.h"

static const struct criu_kind *const amdgpu_criu_exported_kinds[] = { &amdgpu_criu_objects };

static const struct criu_node amdgpu_criu_exported_node = {
	.name = "render node",
	.schema = &amdgpu_criu_exported_schema,
	.kinds = amdgpu_criu_exported_kinds, .num_kinds = ARRAY_SIZE(amdgpu_criu_exported_kinds),
};

static int amdgpu_criu_prepare_exported(struct criu_dump *dump)
{
	struct drm_gem_object *gem = amdgpu_criu_dmabuf_gem(dump->exported);

	return gem ? amdgpu_criu_add_object(dump, gem, 0) :
		     criu_refuse_state(dump->call, "a dma-buf of another driver");
}

/* Metadata may grow between the two passes, because other users of the BO are not stopped. */
static int amdgpu_criu_dump_exported(struct criu_call *call, struct amdgpu_criu_exported *args,
				     struct amdgpu_criu_state *state)
{
	struct dma_buf *dmabuf __free(criu_dma_buf) = dma_buf_get(args->fd);
	struct criu_dump dump = { .call = call, .exported = dmabuf,
				  .prepare = amdgpu_criu_prepare_exported };
	int ret;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	INIT_LIST_HEAD(&dump.objects);
	xa_init_flags(&dump.by_gem, XA_FLAGS_ACCOUNT);
	ret = amdgpu_criu_dump(&dump, state);
	args->blob_size = state->blob_size;
	amdgpu_criu_drop_objects(&dump);
	return ret;
}

/* Like DRM_AMDGPU_GEM_CREATE and DRM_IOCTL_PRIME_HANDLE_TO_FD. The schema says: one BO. */
static int amdgpu_criu_apply_exported(struct criu_plan *plan, struct amdgpu_criu_exported *args)
{
	struct amdgpu_criu_plan_object *object = plan->objects;
	struct dma_buf *dmabuf;
	int ret = amdgpu_criu_object_get(plan, object);

	if (ret)
		return ret;
	plan->bo_table->new_mmap_offset = amdgpu_criu_object_offset(object->gem);
	ret = amdgpu_criu_bos_put(plan);
	if (!ret) {
		dmabuf = criu_session_dmabuf(plan->call->session, object->record.object_id, false);
		/* A reference to the dma-buf is a reference to its file. */
		args->fd = IS_ERR(dmabuf) ? PTR_ERR(dmabuf) :
					    criu_call_new_fd(plan->call, dmabuf->file);
		ret = min(args->fd, 0);
	}
	/* The session owns the BO now, until a file opens a handle. */
	if (!ret)
		object->bound = false;
	amdgpu_criu_object_put(plan, object);
	return ret;
}

static int amdgpu_criu_restore_exported(struct criu_call *call, struct amdgpu_criu_exported *args,
					const struct amdgpu_criu_state *state)
{
	struct criu_plan plan = {};
	int ret;

	amdgpu_criu_plan_init(&plan, call, state);
	ret = amdgpu_criu_input_read(&plan) ?: criu_plan_make(call, &plan.blob, &plan) ?:
	      amdgpu_criu_apply_exported(&plan, args);
	amdgpu_criu_plan_free(&plan);
	return ret;
}

int amdgpu_criu_exported(struct criu_call *call, void *data)
{
	struct amdgpu_criu_exported *args = data;
	/* A table of one entry, as in CHECKPOINT and RESTORE */
	struct amdgpu_criu_state state = {
		.flags = args->flags,
		.bos = args->bo, .num_bos = 1, .bo_stride = args->bo_stride,
		.blob = args->blob, .blob_size = args->blob_size,
	};

	call->node = &amdgpu_criu_exported_node;
	return READ_ONCE(call->session->kind) == CRIU_SESSION_CHECKPOINT ?
	       amdgpu_criu_dump_exported(call, args, &state) :
	       amdgpu_criu_restore_exported(call, args, &state);
}
