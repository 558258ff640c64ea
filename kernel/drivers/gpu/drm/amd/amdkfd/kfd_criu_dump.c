// SPDX-License-Identifier: GPL-2.0 OR MIT
/* CHECKPOINT: writes tables and a blob of a paused process, or tables of a running one. */
#include <linux/file.h>

#include "kfd_criu.h"

/* Runs both passes without dropping the mutex. Kernel buffers hold the results. */
static int kfd_criu_dump_locked(struct kfd_criu_dump *dump, struct amdgpu_criu_state *args)
{
	int ret = dump->out.live ? 0 : criu_session_held(dump->out.call->session, dump->p);

	if (ret)
		return ret;
	if (!dump->p->mm)
		return -ESRCH;
	if (!dump->out.live)
		ret = kfd_criu_process_carriable(dump->out.call, dump->p);
	return ret ? ret : amdgpu_criu_output_write(&dump->out, args);
}

/* Installs descriptors when no later step can fail. */
static int kfd_criu_put_devices(struct kfd_criu_dump *dump, const struct amdgpu_criu_state *args,
				struct file **files)
{
	struct amdgpu_criu_device *device;
	int ret = 0;

	for (u32 i = 0; !ret && i < dump->out.num_devices; i++) {
		device = &dump->out.devices[i];
		if (files[i]) {
			device->drm_fd = get_unused_fd_flags(O_CLOEXEC);
			if (device->drm_fd < 0)
				ret = device->drm_fd;
		}
		if (!ret)
			ret = amdgpu_criu_table_put(args->devices, i, args->device_stride, device,
						    sizeof(*device));
	}
	for (u32 i = 0; i < dump->out.num_devices; i++) {
		device = &dump->out.devices[i];
		if (device->drm_fd < 0)
			continue;
		if (ret) {
			put_unused_fd(device->drm_fd);
		} else {
			fd_install(device->drm_fd, files[i]);
			files[i] = NULL;
		}
	}
	return ret;
}

static int kfd_criu_dump_client(struct kfd_criu_dump *dump, struct amdgpu_criu_state *args)
{
	struct file *files[MAX_GPU_INSTANCE] = {};
	int ret;

	if (mutex_lock_killable(&dump->p->mutex))
		return -ERESTARTSYS;
	ret = kfd_criu_dump_locked(dump, args);
	for (u32 i = 0; !ret && !dump->out.live && i < dump->out.num_devices; i++)
		if (dump->p->pdds[i]->drm_file)
			files[i] = get_file(dump->p->pdds[i]->drm_file);
	mutex_unlock(&dump->p->mutex);
	if (!ret)
		ret = amdgpu_criu_output_put(&dump->out, args);
	if (!ret)
		ret = criu_call_put_args(dump->out.call);
	if (!ret)
		ret = kfd_criu_put_devices(dump, args, files);
	for (u32 i = 0; i < ARRAY_SIZE(files); i++)
		if (files[i])
			fput(files[i]);
	return ret;
}

int kfd_criu_checkpoint(struct criu_call *call, void *args)
{
	struct kfd_criu_dump dump = { .p = call->client };
	int ret = amdgpu_criu_output_init(&dump.out, call, args);

	if (!ret)
		ret = kfd_criu_dump_client(&dump, args);
	amdgpu_criu_output_free(&dump.out);
	return ret;
}
