// SPDX-License-Identifier: GPL-2.0 OR MIT
/* OUTSIDE: finds what paused clients share with clients that are not paused. */
#include <drm/drm_syncobj.h>
#include <linux/pid.h>

#include "amdgpu_criu_render.h"

static int amdgpu_criu_visit_file(struct amdgpu_criu_sharing *sharing, struct drm_file *file,
				  pid_t pid)
{
	struct amdgpu_criu_paused_object object = { .ops = &amdgpu_criu_syncobj_ops, .pid = pid };
	struct drm_syncobj *syncobj;
	struct drm_gem_object *gem;
	unsigned long number = 0;
	int handle, ret = 0;

	for (handle = 1; !ret && (gem = amdgpu_criu_next_handle(file, &handle)); handle++) {
		ret = amdgpu_criu_visit_bo(sharing, gem, pid, handle);
		drm_gem_object_put(gem);
	}
	while (!ret && (syncobj = amdgpu_criu_next_syncobj(file, &number))) {
		object.object = syncobj;
		object.handle = number;
		if (sharing->paused)
			ret = amdgpu_criu_add_paused(sharing, &object);
		else
			amdgpu_criu_mark_outside(sharing, syncobj, pid);
		drm_syncobj_put(syncobj);
	}
	return ret;
}

/* Visits user-space files only. A paused file stays paused while its session is in use. */
static int amdgpu_criu_visit_files(struct amdgpu_criu_sharing *sharing, struct drm_device *dev)
{
	struct drm_file *file;
	pid_t pid;
	int ret;

	guard(mutex)(&dev->filelist_mutex);
	list_for_each_entry(file, &dev->filelist, lhead) {
		struct amdgpu_fpriv *fpriv = file->driver_priv;
		const bool paused = !criu_session_held(sharing->session, &fpriv->criu);

		if (paused != sharing->paused)
			continue;
		scoped_guard(rcu)
			pid = paused ? criu_client_pid(&fpriv->criu) :
				       pid_vnr(rcu_dereference(file->pid));
		ret = amdgpu_criu_visit_file(sharing, file, pid);
		if (ret)
			return ret;
	}
	return 0;
}

/* Visits every GPU, because an object may have been imported on any of them. */
static int amdgpu_criu_visit_clients(struct amdgpu_criu_sharing *sharing)
{
	int ret = 0;

	scoped_guard(mutex, &mgpu_info.mutex)
		for (u32 i = 0; !ret && i < mgpu_info.num_gpu; i++)
			ret = amdgpu_criu_visit_files(sharing,
						      adev_to_drm(mgpu_info.gpu_ins[i].adev));
	if (!ret && IS_ENABLED(CONFIG_HSA_AMD))
		ret = kfd_criu_visit_processes(sharing);
	return ret;
}

int amdgpu_criu_outside(struct criu_call *call, void *data)
{
	const struct amdgpu_criu_paused_object none = {}, *first;
	struct amdgpu_criu_sharing sharing = {
		.call = call, .session = call->session, .paused = true,
	};
	struct amdgpu_criu_paused_object *object;
	struct amdgpu_criu_outside *args = data;
	unsigned long index;
	int ret;

	if (args->flags || args->pad)
		return -EINVAL;
	xa_init(&sharing.objects);
	ret = amdgpu_criu_visit_clients(&sharing);
	sharing.paused = false;
	if (!ret)
		ret = amdgpu_criu_visit_clients(&sharing);
	first = sharing.first ?: &none;
	args->num_bos = sharing.num_bos;
	args->num_syncobjs = sharing.num_syncobjs;
	args->pid = sharing.pid;
	args->paused_pid = first->pid;
	args->handle = first->handle;
	args->size = first->size;
	xa_for_each(&sharing.objects, index, object) {
		object->ops->put(object->object);
		kfree(object);
	}
	xa_destroy(&sharing.objects);
	return ret;
}
