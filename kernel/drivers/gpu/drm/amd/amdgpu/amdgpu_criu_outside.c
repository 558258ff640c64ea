// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * OUTSIDE: finds the BOs that the paused clients share with clients that are not paused.
 */
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
#include "amdgpu_criu_gate.h"
#include "amdgpu_criu_gem.h"
#include "amdgpu_criu_object.h"
#include "amdgpu_criu_outside.h"
#include "amdgpu_criu_render.h"

/**
 * amdgpu_criu_add_insider() - add a BO of a paused client
 * @sharing: the search
 * @gem: the client's GEM object of it, with a reference
 * @pid: process of the client, in the caller's pid namespace
 * @handle: the client's handle
 *
 * Return: 0 or -ENOMEM.
 */
int amdgpu_criu_add_insider(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			    pid_t pid, u32 handle)
{
	struct drm_gem_object *home = amdgpu_criu_object_home(gem);
	struct amdgpu_criu_insider *bos = sharing->bos;
	u32 room = sharing->room;

	/* Exported by another driver: PROCESS_INFO has refused it. */
	if (!home)
		return 0;
	if (sharing->num_bos == room) {
		room = room ? room * 2 : 64;
		bos = kvrealloc(bos, room * sizeof(*bos), GFP_KERNEL_ACCOUNT);
		if (!bos)
			return -ENOMEM;
		sharing->bos = bos;
		sharing->room = room;
	}
	drm_gem_object_get(home);
	bos[sharing->num_bos++] = (struct amdgpu_criu_insider) {
		.home = home,
		.pid = pid,
		.handle = handle,
	};
	return 0;
}

static int amdgpu_criu_cmp_insider(const void *a, const void *b)
{
	const struct amdgpu_criu_insider *x = a, *y = b;

	return x->home < y->home ? -1 : x->home > y->home;
}

/* Sorts the BOs for lookups and removes duplicates. */
static void amdgpu_criu_sort_insiders(struct amdgpu_criu_sharing *sharing)
{
	struct amdgpu_criu_insider *bos = sharing->bos;
	u32 i, num = 0;

	sort(bos, sharing->num_bos, sizeof(*bos), amdgpu_criu_cmp_insider, NULL);
	for (i = 0; i < sharing->num_bos; i++) {
		if (num && bos[num - 1].home == bos[i].home)
			drm_gem_object_put(bos[i].home);
		else
			bos[num++] = bos[i];
	}
	sharing->num_bos = num;
}

/**
 * amdgpu_criu_see_outsider() - mark a BO of a client that is not paused
 * @sharing: the search
 * @gem: the client's GEM object of it, with a reference
 * @pid: process of the client, in the caller's pid namespace, or 0
 */
void amdgpu_criu_see_outsider(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			      pid_t pid)
{
	struct amdgpu_criu_insider key = { .home = amdgpu_criu_object_home(gem) };
	struct amdgpu_criu_insider *insider;

	insider = bsearch(&key, sharing->bos, sharing->num_bos, sizeof(key),
			  amdgpu_criu_cmp_insider);
	if (!insider || insider->outside)
		return;
	insider->outside = true;
	sharing->num_outside++;
	if (sharing->first)
		return;
	sharing->first = insider;
	sharing->pid = pid;
}

static int amdgpu_criu_add_file(struct amdgpu_criu_sharing *sharing, struct drm_file *file)
{
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct amdgpu_criu_gate *gate = fpriv->criu_gate;
	struct drm_gem_object *gem;
	int handle, ret = 0;
	pid_t pid;

	if (mutex_lock_killable(&gate->lock))
		return -ERESTARTSYS;
	pid = gate->task ? task_tgid_vnr(gate->task) : 0;
	mutex_unlock(&gate->lock);
	for (handle = 1; !ret && (gem = amdgpu_criu_next_handle(file, &handle)); handle++) {
		ret = amdgpu_criu_add_insider(sharing, gem, pid, handle);
		drm_gem_object_put(gem);
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
	criu_session_clients_put(&amdgpu_criu_file_ops, files, num);
	return ret;
}

static void amdgpu_criu_see_file(struct amdgpu_criu_sharing *sharing, struct drm_file *file)
{
	struct drm_gem_object *gem;
	int handle;
	pid_t pid;

	rcu_read_lock();
	pid = pid_vnr(rcu_dereference(file->pid));
	rcu_read_unlock();
	for (handle = 1; (gem = amdgpu_criu_next_handle(file, &handle)); handle++) {
		amdgpu_criu_see_outsider(sharing, gem, pid);
		drm_gem_object_put(gem);
	}
}

/* Checks user-space files only. A paused file stays paused while its session is in use. */
static void amdgpu_criu_see_device(struct amdgpu_criu_sharing *sharing, struct drm_device *dev)
{
	struct drm_file *file;

	mutex_lock(&dev->filelist_mutex);
	list_for_each_entry(file, &dev->filelist, lhead)
		if (criu_session_held(sharing->session, file))
			amdgpu_criu_see_file(sharing, file);
	mutex_unlock(&dev->filelist_mutex);
}

/* Checks every GPU, because a BO may have been imported on any of them. */
static void amdgpu_criu_see_devices(struct amdgpu_criu_sharing *sharing)
{
	u32 i;

	mutex_lock(&mgpu_info.mutex);
	for (i = 0; i < mgpu_info.num_gpu; i++)
		amdgpu_criu_see_device(sharing, adev_to_drm(mgpu_info.gpu_ins[i].adev));
	mutex_unlock(&mgpu_info.mutex);
}

static int amdgpu_criu_search_outside(struct amdgpu_criu_sharing *sharing)
{
	int ret;

	ret = amdgpu_criu_add_files(sharing);
	if (!ret && IS_ENABLED(CONFIG_HSA_AMD))
		ret = kfd_criu_add_insiders(sharing);
	if (ret)
		return ret;
	amdgpu_criu_sort_insiders(sharing);
	amdgpu_criu_see_devices(sharing);
	return IS_ENABLED(CONFIG_HSA_AMD) ? kfd_criu_see_outsiders(sharing) : 0;
}

static void amdgpu_criu_tell_outside(const struct amdgpu_criu_sharing *sharing,
				     struct amdgpu_criu_outside *args)
{
	const struct amdgpu_criu_insider *first = sharing->first;

	args->num_bos = sharing->num_outside;
	args->pid = sharing->pid;
	args->paused_pid = first ? first->pid : 0;
	args->handle = first ? first->handle : 0;
	args->size = first ? first->home->size : 0;
}

/**
 * amdgpu_criu_outside() - OUTSIDE
 * @call: the call
 * @data: &struct amdgpu_criu_outside
 *
 * Return: 0; errors as in the uapi header.
 */
int amdgpu_criu_outside(struct criu_call *call, void *data)
{
	struct amdgpu_criu_outside *args = data;
	struct amdgpu_criu_sharing sharing = { .session = call->session };
	u32 i;
	int ret;

	if (args->flags)
		return -EINVAL;
	ret = amdgpu_criu_search_outside(&sharing);
	if (!ret)
		amdgpu_criu_tell_outside(&sharing, args);
	for (i = 0; i < sharing.num_bos; i++)
		drm_gem_object_put(sharing.bos[i].home);
	kvfree(sharing.bos);
	return ret;
}
