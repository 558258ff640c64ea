// SPDX-License-Identifier: GPL-2.0 OR MIT
/* OUTSIDE: finds what paused clients share with clients that are not paused. */
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <linux/bsearch.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "amdgpu.h"
#include "amdgpu_criu_driver.h"
#include "amdgpu_criu_gate.h"
#include "amdgpu_criu_object.h"
#include "amdgpu_criu_render.h"

static int amdgpu_criu_add_paused(struct amdgpu_criu_sharing *sharing,
				  const struct amdgpu_criu_paused_object *object)
{
	struct amdgpu_criu_paused_object *objects;

	objects = criu_grow(sharing->objects, sharing->num, &sharing->room, sizeof(*objects));
	if (!objects)
		return -ENOMEM;
	sharing->objects = objects;
	object->ops->get(object->object);
	objects[sharing->num++] = *object;
	return 0;
}

/* Adds a BO of a paused client. @gem: the client's GEM object of it, with a reference. */
int amdgpu_criu_add_paused_bo(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			      pid_t pid, u32 handle)
{
	struct drm_gem_object *owner = amdgpu_criu_owner_object(gem);
	const struct amdgpu_criu_paused_object object = {
		.object = owner,
		.ops = &amdgpu_criu_bo_ops,
		.size = owner ? owner->size : 0,
		.pid = pid,
		.handle = handle,
	};

	/* Exported by another driver: PROCESS_INFO has refused it. */
	return owner ? amdgpu_criu_add_paused(sharing, &object) : 0;
}

static int amdgpu_criu_cmp_paused(const void *a, const void *b)
{
	const struct amdgpu_criu_paused_object *x = a, *y = b;

	return x->object < y->object ? -1 : x->object > y->object;
}

/* Sorts the objects for lookups and removes duplicates. */
static void amdgpu_criu_sort_paused(struct amdgpu_criu_sharing *sharing)
{
	struct amdgpu_criu_paused_object *objects = sharing->objects;
	u32 i, num = 0;

	sort_nonatomic(objects, sharing->num, sizeof(*objects), amdgpu_criu_cmp_paused, NULL);
	for (i = 0; i < sharing->num; i++) {
		if (num && objects[num - 1].object == objects[i].object)
			objects[i].ops->put(objects[i].object);
		else
			objects[num++] = objects[i];
	}
	sharing->num = num;
}

static void amdgpu_criu_mark_outside(struct amdgpu_criu_sharing *sharing, void *object, pid_t pid)
{
	const struct amdgpu_criu_paused_object key = { .object = object };
	struct amdgpu_criu_paused_object *found;
	bool is_bo;

	found = bsearch(&key, sharing->objects, sharing->num, sizeof(key),
			amdgpu_criu_cmp_paused);
	if (!found || found->outside)
		return;
	found->outside = true;
	is_bo = found->ops == &amdgpu_criu_bo_ops;
	if (!sharing->first || (is_bo && !sharing->num_bos)) {
		sharing->first = found;
		sharing->pid = pid;
	}
	sharing->num_bos += is_bo;
	sharing->num_syncobjs += !is_bo;
}

/* Marks a BO of a client that is not paused. @gem: the client's GEM object of it. */
void amdgpu_criu_mark_outside_bo(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
				 pid_t pid)
{
	amdgpu_criu_mark_outside(sharing, amdgpu_criu_owner_object(gem), pid);
}

static int amdgpu_criu_add_file(struct amdgpu_criu_sharing *sharing, struct drm_file *file)
{
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct amdgpu_criu_gate *gate = fpriv->criu_gate;
	struct amdgpu_criu_paused_object object = { .ops = &amdgpu_criu_syncobj_ops };
	struct drm_syncobj *syncobj;
	struct drm_gem_object *gem;
	unsigned long number = 0;
	int handle, ret = 0;

	if (mutex_lock_killable(&gate->lock))
		return -ERESTARTSYS;
	object.pid = gate->task ? task_tgid_vnr(gate->task) : 0;
	mutex_unlock(&gate->lock);
	for (handle = 1; !ret && (gem = amdgpu_criu_next_handle(file, &handle)); handle++) {
		ret = amdgpu_criu_add_paused_bo(sharing, gem, object.pid, handle);
		drm_gem_object_put(gem);
	}
	while (!ret && (syncobj = amdgpu_criu_next_syncobj(file, &number))) {
		object.object = syncobj;
		object.handle = number;
		ret = amdgpu_criu_add_paused(sharing, &object);
		drm_syncobj_put(syncobj);
	}
	return ret;
}

static int amdgpu_criu_add_files(struct amdgpu_criu_sharing *sharing)
{
	void **files;
	u32 i, num;
	int ret = 0;

	files = criu_session_clients(sharing->session, &amdgpu_criu_file_ops, &num);
	if (IS_ERR(files))
		return PTR_ERR(files);
	for (i = 0; !ret && i < num; i++)
		ret = amdgpu_criu_add_file(sharing, files[i]);
	criu_clients_put(&amdgpu_criu_file_ops, files, num);
	return ret;
}

static void amdgpu_criu_mark_file(struct amdgpu_criu_sharing *sharing, struct drm_file *file)
{
	struct drm_syncobj *syncobj;
	struct drm_gem_object *gem;
	unsigned long number = 0;
	int handle;
	pid_t pid;

	rcu_read_lock();
	pid = pid_vnr(rcu_dereference(file->pid));
	rcu_read_unlock();
	for (handle = 1; (gem = amdgpu_criu_next_handle(file, &handle)); handle++) {
		amdgpu_criu_mark_outside_bo(sharing, gem, pid);
		drm_gem_object_put(gem);
	}
	while ((syncobj = amdgpu_criu_next_syncobj(file, &number))) {
		amdgpu_criu_mark_outside(sharing, syncobj, pid);
		drm_syncobj_put(syncobj);
	}
}

/* Checks user-space files only. A paused file stays paused while its session is in use. */
static void amdgpu_criu_mark_files(struct amdgpu_criu_sharing *sharing, struct drm_device *dev)
{
	struct drm_file *file;

	mutex_lock(&dev->filelist_mutex);
	list_for_each_entry(file, &dev->filelist, lhead)
		if (criu_session_held(sharing->session, file))
			amdgpu_criu_mark_file(sharing, file);
	mutex_unlock(&dev->filelist_mutex);
}

static int amdgpu_criu_search_outside(struct amdgpu_criu_sharing *sharing)
{
	int ret = amdgpu_criu_add_files(sharing);

	if (!ret && IS_ENABLED(CONFIG_HSA_AMD))
		ret = kfd_criu_add_paused_bos(sharing);
	if (ret)
		return ret;
	amdgpu_criu_sort_paused(sharing);
	/* Checks every GPU, because an object may have been imported on any of them. */
	mutex_lock(&mgpu_info.mutex);
	for (u32 i = 0; i < mgpu_info.num_gpu; i++)
		amdgpu_criu_mark_files(sharing, adev_to_drm(mgpu_info.gpu_ins[i].adev));
	mutex_unlock(&mgpu_info.mutex);
	return IS_ENABLED(CONFIG_HSA_AMD) ? kfd_criu_mark_outside_bos(sharing) : 0;
}

int amdgpu_criu_outside(struct criu_call *call, void *data)
{
	struct amdgpu_criu_outside *args = data;
	struct amdgpu_criu_sharing sharing = { .session = call->session };
	const struct amdgpu_criu_paused_object none = {}, *first;
	int ret;

	if (args->flags || args->pad)
		return -EINVAL;
	ret = amdgpu_criu_search_outside(&sharing);
	if (!ret) {
		first = sharing.first ?: &none;
		args->num_bos = sharing.num_bos;
		args->num_syncobjs = sharing.num_syncobjs;
		args->pid = sharing.pid;
		args->paused_pid = first->pid;
		args->handle = first->handle;
		args->size = first->size;
	}
	for (u32 i = 0; i < sharing.num; i++)
		sharing.objects[i].ops->put(sharing.objects[i].object);
	kvfree(sharing.objects);
	return ret;
}
