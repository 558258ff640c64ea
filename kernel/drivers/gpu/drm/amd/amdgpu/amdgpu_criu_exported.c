// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * EXPORTED: saves or restores one BO in a separate blob: the BO of a dma-buf descriptor of
 * a process, or a BO that no file of its own GPU may hold.
 */
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
	};
}

static int amdgpu_criu_write_exported(struct dma_buf *dmabuf, u64 id, void *buf, size_t room,
				      size_t *size, struct amdgpu_criu_bo *entry)
{
	struct drm_gem_object *owner = dmabuf->priv;
	struct amdgpu_criu_object_record record = {
		.object_id = id,
		.mmap_offset = amdgpu_criu_object_offset(owner),
		.flags = AMDGPU_CRIU_OBJECT_EXPORTED,
		.table_flags = AMDGPU_CRIU_BO_SHARED,
	};
	struct criu_blob_writer *writer;
	int ret;

	if (dmabuf->file->f_mode & FMODE_WRITE)
		record.flags |= AMDGPU_CRIU_OBJECT_EXPORTED_RDWR;
	writer = kmalloc_obj(*writer);
	if (!writer)
		return -ENOMEM;
	criu_writer_init(writer, &amdgpu_criu_exported_schema, buf, room);
	ret = amdgpu_criu_write_object(writer, owner, &record, entry);
	if (!ret)
		ret = criu_writer_finish(writer, size);
	kfree(writer);
	return ret;
}

/* Metadata may grow between the two passes, because other users of the BO are not stopped. */
static int amdgpu_criu_save_exported(struct dma_buf *dmabuf, u64 id,
				     struct amdgpu_criu_exported *args)
{
	struct amdgpu_criu_bo entry;
	size_t size;
	void *buf;
	int ret = amdgpu_criu_write_exported(dmabuf, id, NULL, 0, &size, NULL);

	if (ret)
		return ret;
	if (args->blob_size < size) {
		args->blob_size = size;
		return -ENOSPC;
	}
	buf = kvmalloc(size, GFP_KERNEL_ACCOUNT);
	if (!buf)
		return -ENOMEM;
	ret = amdgpu_criu_write_exported(dmabuf, id, buf, size, &size, &entry);
	if (!ret || ret == -ENOSPC)
		args->blob_size = size;
	if (!ret && copy_to_user(u64_to_user_ptr(args->blob), buf, size))
		ret = -EFAULT;
	if (!ret)
		ret = amdgpu_criu_table_put(args->bo, 0, args->bo_stride, &entry, sizeof(entry));
	kvfree(buf);
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

static int amdgpu_criu_dump_exported(struct criu_call *call, struct criu_session *session,
				     struct amdgpu_criu_exported *args)
{
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
		ret = amdgpu_criu_save_exported(dmabuf, id, args);
	}
	dma_buf_put(dmabuf);
	return ret;
}

/* EXPORTED never writes a BO without a dma-buf of its own, so such a blob is damaged. */
static int amdgpu_criu_check_exported(struct amdgpu_criu_plan *plan,
				      const struct amdgpu_criu_exported *args)
{
	const struct amdgpu_criu_state state = amdgpu_criu_exported_table(args);
	const struct amdgpu_criu_object_record *record;
	struct amdgpu_criu_tables tables;
	int ret = amdgpu_criu_plan_load(plan);

	if (ret)
		return ret;
	/* The schema says that there is one. */
	record = &plan->objects->record;
	plan->file_record.device = record->device;
	ret = amdgpu_criu_tables_get(&tables, &state);
	if (ret)
		return ret;
	plan->tables = &tables;
	ret = amdgpu_criu_check_objects(plan, &state);
	amdgpu_criu_tables_put(&tables);
	plan->tables = NULL;
	if (ret)
		return ret;
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
	struct amdgpu_criu_bo entry;
	struct dma_buf *dmabuf;
	int ret = amdgpu_criu_object_get(plan, object);

	if (ret)
		return ret;
	amdgpu_criu_object_entry(&object->record, &entry);
	entry.new_mmap_offset = amdgpu_criu_object_offset(object->gem);
	ret = amdgpu_criu_table_put(args->bo, 0, args->bo_stride, &entry, sizeof(entry));
	if (ret)
		goto out_put;
	dmabuf = criu_session_dmabuf(plan->session, object->record.object_id);
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

static int amdgpu_criu_restore_exported(struct criu_call *call, struct criu_session *session,
					struct amdgpu_criu_exported *args, const void *buf)
{
	struct drm_file *file = call->client;
	struct criu_blob blob;
	struct amdgpu_criu_plan plan = {
		.call = call,
		.adev = drm_to_adev(file->minor->dev),
		.file = file,
		.fpriv = file->driver_priv,
		.session = session,
		.blob = &blob,
	};
	struct criu_blob_fault fault;
	int ret = criu_blob_open(&blob, &amdgpu_criu_exported_schema, buf, args->blob_size, &fault);

	if (ret)
		return criu_refuse_blob(call, &fault, ret);
	ret = amdgpu_criu_check_exported(&plan, args);
	if (!ret)
		ret = amdgpu_criu_apply_exported(&plan, args);
	amdgpu_criu_plan_free(&plan);
	return ret;
}

static int amdgpu_criu_load_exported(struct criu_call *call, struct criu_session *session,
				     struct amdgpu_criu_exported *args)
{
	void *buf;
	int ret;

	buf = criu_blob_from_user(args->blob, args->blob_size);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	ret = amdgpu_criu_restore_exported(call, session, args, buf);
	kvfree(buf);
	return ret;
}

/* EXPORTED */
int amdgpu_criu_exported(struct criu_call *call, void *args)
{
	struct amdgpu_criu_exported *exported = args;
	const struct amdgpu_criu_state table = amdgpu_criu_exported_table(exported);
	int ret = amdgpu_criu_state_check(&table);

	if (ret)
		return ret;
	return criu_session_kind(call->session) == CRIU_SESSION_CHECKPOINT ?
	       amdgpu_criu_dump_exported(call, call->session, exported) :
	       amdgpu_criu_load_exported(call, call->session, exported);
}
