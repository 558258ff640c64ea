// SPDX-License-Identifier: GPL-2.0 OR MIT
/* EXPORTED: one BO in a blob of its own, of a dma-buf descriptor or without a file of its GPU. */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>

#include "amdgpu.h"
#include "amdgpu_criu_object.h"
#include "amdgpu_criu_render.h"
#include "amdgpu_dma_buf.h"
#include "amdgpu_object.h"

/* Describes the entry as a table of one entry, as in CHECKPOINT and RESTORE. */
static struct amdgpu_criu_state amdgpu_criu_exported_table(const struct amdgpu_criu_exported *args)
{
	return (struct amdgpu_criu_state) {
		.flags = args->flags,
		.bos = args->bo,
		.num_bos = 1,
		.bo_stride = args->bo_stride,
		.blob = args->blob,
		.blob_size = args->blob_size,
	};
}

/* The dump of a BO */
struct amdgpu_criu_exported_dump {
	struct amdgpu_criu_output out; /* what is written */
	struct dma_buf *dmabuf;
	u64 id; /* of the BO in the session */
};

static int amdgpu_criu_write_exported(struct amdgpu_criu_output *out)
{
	const struct amdgpu_criu_exported_dump *dump =
		container_of(out, struct amdgpu_criu_exported_dump, out);
	struct drm_gem_object *owner = dump->dmabuf->priv;
	struct amdgpu_criu_object_record record = {
		.object_id = dump->id,
		.mmap_offset = amdgpu_criu_object_offset(owner),
		.flags = AMDGPU_CRIU_OBJECT_EXPORTED,
		.table_flags = AMDGPU_CRIU_BO_SHARED,
	};

	if (dump->dmabuf->file->f_mode & FMODE_WRITE)
		record.flags |= AMDGPU_CRIU_OBJECT_EXPORTED_RDWR;
	out->num_bos = 1;
	return amdgpu_criu_write_object(&out->writer, owner, &record, out->bos);
}

/* Metadata may grow between the two passes, because other users of the BO are not stopped. */
static int amdgpu_criu_save_exported(struct criu_call *call, struct dma_buf *dmabuf, u64 id,
				     struct amdgpu_criu_exported *args)
{
	struct amdgpu_criu_state state = amdgpu_criu_exported_table(args);
	struct amdgpu_criu_exported_dump dump = {
		.out.call = call,
		.out.schema = &amdgpu_criu_exported_schema,
		.out.walk = amdgpu_criu_write_exported,
		.dmabuf = dmabuf,
		.id = id,
	};
	int ret = amdgpu_criu_output_write(&dump.out, &state);

	args->blob_size = state.blob_size;
	if (!ret)
		ret = amdgpu_criu_output_put(&dump.out, &state);
	amdgpu_criu_output_free(&dump.out);
	return ret;
}

static u64 amdgpu_criu_exported_flags(const struct dma_buf *dmabuf)
{
	return gem_to_amdgpu_bo((struct drm_gem_object *)dmabuf->priv)->flags;
}

static int amdgpu_criu_exported_fault(const struct criu_call *call, struct dma_buf *dmabuf)
{
	const char *fault = NULL;

	if (dmabuf->ops != &amdgpu_dmabuf_ops && !amdgpu_criu_is_copy(dmabuf))
		fault = "a dma-buf of another driver";
	else if (amdgpu_criu_exported_flags(dmabuf) & AMDGPU_GEM_CREATE_ENCRYPTED)
		fault = "an encrypted BO";
	else if (amdgpu_criu_exported_flags(dmabuf) & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
		fault = "a BO of one VM by itself";
	else if (amdgpu_criu_dmabuf_has_importer(dmabuf))
		fault = "a BO that another driver has imported";
	if (!fault)
		return 0;
	return criu_refuse(call, -EOPNOTSUPP, "cannot carry: %s", fault);
}

static int amdgpu_criu_dump_exported(struct criu_call *call, struct amdgpu_criu_exported *args)
{
	struct criu_session *session = call->session;
	struct dma_buf *dmabuf = dma_buf_get(args->fd);
	u64 id;
	int ret;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = amdgpu_criu_exported_fault(call, dmabuf);
	if (!ret)
		ret = criu_session_object_id(session, dmabuf->priv, &amdgpu_criu_bo_ops, &id);
	if (!ret) {
		if (!amdgpu_criu_is_copy(dmabuf))
			criu_session_exported(session, id, dmabuf);
		ret = amdgpu_criu_save_exported(call, dmabuf, id, args);
	}
	dma_buf_put(dmabuf);
	return ret;
}

/* EXPORTED never writes a BO without a dma-buf of its own, so such a blob is damaged. */
static int amdgpu_criu_check_exported(struct amdgpu_criu_plan *plan)
{
	const struct amdgpu_criu_object_record *record;
	int ret = criu_plan_make(plan->call, &plan->in.blob, plan);

	if (ret)
		return ret;
	/* The schema says that there is one. */
	record = &plan->objects->record;
	if ((record->flags & (AMDGPU_CRIU_OBJECT_USERPTR | AMDGPU_CRIU_OBJECT_EXPORTED)) ==
	    AMDGPU_CRIU_OBJECT_EXPORTED &&
	    !(record->create_flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID) && !record->handle &&
	    !(record->table_flags & AMDGPU_CRIU_BO_IMPORTED))
		return 0;
	return criu_refuse(plan->call, -EBADMSG, "BO %llu: of a kind that has no dma-buf",
			   record->object_id);
}

/* Follows the code paths of DRM_AMDGPU_GEM_CREATE and DRM_IOCTL_PRIME_HANDLE_TO_FD. */
static int amdgpu_criu_apply_exported(struct amdgpu_criu_plan *plan,
				      struct amdgpu_criu_exported *args)
{
	struct amdgpu_criu_plan_object *object = plan->objects;
	struct dma_buf *dmabuf;
	int ret = amdgpu_criu_object_get(plan, object);

	if (ret)
		return ret;
	object->new_mmap_offset = amdgpu_criu_object_offset(object->gem);
	ret = amdgpu_criu_bos_put(&plan->in);
	if (ret)
		goto out_put;
	dmabuf = criu_session_dmabuf(plan->call->session, object->record.object_id);
	if (IS_ERR(dmabuf)) {
		ret = PTR_ERR(dmabuf);
		goto out_put;
	}
	/* A reference to the dma-buf is a reference to its file. */
	ret = criu_call_new_fd(plan->call, dmabuf->file);
	if (ret < 0)
		goto out_put;
	args->fd = ret;
	/* The session owns the BO now, until a file opens a handle. */
	object->bound = false;
	ret = 0;

out_put:
	amdgpu_criu_object_put(plan, object);
	return ret;
}

static int amdgpu_criu_restore_exported(struct criu_call *call, struct amdgpu_criu_exported *args)
{
	const struct amdgpu_criu_state state = amdgpu_criu_exported_table(args);
	struct amdgpu_criu_object_record record;
	struct amdgpu_criu_plan plan = {};
	int ret;

	amdgpu_criu_plan_init(&plan, call, &state);
	ret = amdgpu_criu_input_read(&plan.in, call, &amdgpu_criu_exported_schema);
	if (!ret) {
		criu_blob_get(&plan.in.blob, AMDGPU_CRIU_RECORD_OBJECT, &record, sizeof(record));
		plan.device = record.device;
		ret = amdgpu_criu_check_exported(&plan);
	}
	if (!ret)
		ret = amdgpu_criu_apply_exported(&plan, args);
	amdgpu_criu_plan_free(&plan);
	return ret;
}

int amdgpu_criu_exported(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_state state = amdgpu_criu_exported_table(args);
	int ret = amdgpu_criu_state_check(&state);

	if (ret)
		return ret;
	return criu_session_kind(call->session) == CRIU_SESSION_CHECKPOINT ?
	       amdgpu_criu_dump_exported(call, args) : amdgpu_criu_restore_exported(call, args);
}
