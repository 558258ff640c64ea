// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * CHECKPOINT: writes the state of a paused process to tables and a blob.
 */
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "kfd_criu.h"

/* One walk. The size pass and the write pass make the same calls. */
static int kfd_criu_dump_walk(struct kfd_criu_dump *dump, void *buf, size_t room, size_t *size)
{
	static int (* const nouns[])(struct kfd_criu_dump *dump) = {
		kfd_criu_dump_process,
		kfd_criu_dump_devices,
		kfd_criu_dump_bos,
		kfd_criu_dump_events,
		kfd_criu_dump_svm,
		kfd_criu_dump_queues,
	};
	u32 i;
	int ret;

	dump->num_devices = 0;
	dump->num_bos = 0;
	dump->num_queues = 0;
	dump->num_events = 0;
	dump->num_svm_ranges = 0;
	criu_writer_init_for(&dump->writer, &kfd_criu_schema, dump->targets, dump->num_targets,
			     buf, room);
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
 * kfd_criu_dump_sizes() - compute the counts and the size of the blob
 * @dump: with call and process; its mutex is held
 * @blob_size: out
 *
 * Return: 0, with the counts in @dump; the error of the first object that a blob cannot
 * hold.
 */
int kfd_criu_dump_sizes(struct kfd_criu_dump *dump, size_t *blob_size)
{
	return kfd_criu_dump_walk(dump, NULL, 0, blob_size);
}

/* Returns -ENOSPC if the caller's buffers are too small. Always reports the counts. */
static int kfd_criu_dump_fits(const struct kfd_criu_dump *dump, size_t blob_size,
			      struct amdgpu_criu_state *args)
{
	bool fits = args->num_devices >= dump->num_devices && args->num_bos >= dump->num_bos &&
		    args->blob_size >= blob_size;

	args->num_devices = dump->num_devices;
	args->num_bos = dump->num_bos;
	args->blob_size = blob_size;
	return fits ? 0 : -ENOSPC;
}

static int kfd_criu_dump_alloc(struct kfd_criu_dump *dump, size_t blob_size, void **blob)
{
	dump->devices = kvcalloc(dump->num_devices, sizeof(*dump->devices), GFP_KERNEL_ACCOUNT);
	dump->bos = kvcalloc(dump->num_bos, sizeof(*dump->bos), GFP_KERNEL_ACCOUNT);
	*blob = kvmalloc(blob_size, GFP_KERNEL_ACCOUNT);
	if ((dump->num_devices && !dump->devices) || (dump->num_bos && !dump->bos) || !*blob)
		return -ENOMEM;
	return 0;
}

/* Runs both passes without dropping the mutex. Kernel buffers hold the results. */
static int kfd_criu_dump_locked(struct kfd_criu_dump *dump, struct criu_session *session,
				struct amdgpu_criu_state *args, void **blob)
{
	size_t blob_size;
	int ret;

	ret = criu_session_held(session, dump->p);
	if (ret)
		return ret;
	if (!dump->p->mm)
		return -ESRCH;
	ret = kfd_criu_process_carriable(dump->call, dump->p);
	if (!ret)
		ret = kfd_criu_dump_sizes(dump, &blob_size);
	if (!ret)
		ret = kfd_criu_dump_fits(dump, blob_size, args);
	if (!ret)
		ret = kfd_criu_dump_alloc(dump, blob_size, blob);
	if (ret)
		return ret;
	dump->session = session;
	ret = kfd_criu_dump_walk(dump, *blob, blob_size, &blob_size);
	/* The mutex does not protect events: the write pass may find more of them. */
	if (ret == -ENOSPC || !ret)
		args->blob_size = blob_size;
	return ret;
}

/* Collects the files of the first @num VMs, with references. */
static void kfd_criu_dump_files(const struct kfd_process *p, struct file **files, u32 num)
{
	u32 i;

	for (i = 0; i < num; i++) {
		files[i] = p->pdds[i]->drm_file;
		if (files[i])
			get_file(files[i]);
	}
}

/* Installs descriptors when no later step can fail. */
static int kfd_criu_put_devices(struct kfd_criu_dump *dump, const struct amdgpu_criu_state *args,
				struct file **files)
{
	u32 i;
	int ret = 0;

	for (i = 0; !ret && i < dump->num_devices; i++) {
		if (files[i]) {
			dump->devices[i].drm_fd = get_unused_fd_flags(O_CLOEXEC);
			if (dump->devices[i].drm_fd < 0)
				ret = dump->devices[i].drm_fd;
		}
		if (!ret)
			ret = amdgpu_criu_table_put(args->devices, i, args->device_stride,
						    &dump->devices[i], sizeof(dump->devices[i]));
	}
	for (i = 0; i < dump->num_devices; i++) {
		if (dump->devices[i].drm_fd < 0)
			continue;
		if (ret) {
			put_unused_fd(dump->devices[i].drm_fd);
		} else {
			fd_install(dump->devices[i].drm_fd, files[i]);
			files[i] = NULL;
		}
	}
	return ret;
}

static int kfd_criu_dump_put(struct kfd_criu_dump *dump, const struct amdgpu_criu_state *args,
			     const void *blob, struct file **files)
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
	ret = criu_call_put_args(dump->call);
	return ret ? ret : kfd_criu_put_devices(dump, args, files);
}

static int kfd_criu_checkpoint_in(struct criu_call *call, struct criu_session *session,
				  struct amdgpu_criu_state *args,
				  const struct criu_record_target *targets)
{
	struct kfd_criu_dump dump = {
		.call = call,
		.p = call->client,
		.targets = targets,
		.num_targets = args->num_records,
	};
	struct file *files[MAX_GPU_INSTANCE] = {};
	void *blob = NULL;
	u32 i;
	int ret;

	if (mutex_lock_killable(&dump.p->mutex))
		return -ERESTARTSYS;
	ret = kfd_criu_dump_locked(&dump, session, args, &blob);
	if (!ret)
		kfd_criu_dump_files(dump.p, files, dump.num_devices);
	mutex_unlock(&dump.p->mutex);
	if (!ret)
		ret = kfd_criu_dump_put(&dump, args, blob, files);
	for (i = 0; i < ARRAY_SIZE(files); i++)
		if (files[i])
			fput(files[i]);
	kvfree(dump.devices);
	kvfree(dump.bos);
	kvfree(blob);
	return ret;
}

/**
 * kfd_criu_checkpoint() - CHECKPOINT
 * @call: the call
 * @args: &struct amdgpu_criu_state
 *
 * Return: 0; -ENOSPC, with the needed counts and sizes in @args; other errors as in the
 * uapi header.
 */
int kfd_criu_checkpoint(struct criu_call *call, void *args)
{
	return amdgpu_criu_checkpoint_with(call, args, kfd_criu_checkpoint_in);
}
