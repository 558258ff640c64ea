// SPDX-License-Identifier: GPL-2.0 OR MIT
/* OUTSIDE: finds what paused clients share with clients that are not paused. */
#include <drm/drm_syncobj.h>

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
		ret = amdgpu_criu_visit(sharing, &object);
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
		const bool paused = !criu_session_held(sharing->call->session, &fpriv->criu);

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

/* Visits every GPU, also one in a reset or whose reset failed, which mgpu_info does not list. */
static int amdgpu_criu_visit_clients(struct amdgpu_criu_sharing *sharing,
				     const struct device_driver *driver)
{
	struct pci_dev *pdev = NULL;
	int ret = 0;

	while (!ret && (pdev = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, pdev))) {
		if (READ_ONCE(pdev->dev.driver) != driver)
			continue;
		/* The driver may be about to leave it. */
		ret = device_lock_interruptible(&pdev->dev);
		if (ret)
			break;
		if (pdev->dev.driver == driver)
			ret = amdgpu_criu_visit_files(sharing, pci_get_drvdata(pdev));
		device_unlock(&pdev->dev);
	}
	pci_dev_put(pdev);
	if (!ret && IS_ENABLED(CONFIG_HSA_AMD))
		ret = kfd_criu_visit_processes(sharing);
	return ret;
}

int amdgpu_criu_outside(struct criu_call *call, void *data)
{
	const struct drm_file *file = call->client->owner;
	const struct device_driver *driver = drm_to_adev(file->minor->dev)->pdev->dev.driver;
	struct amdgpu_criu_sharing sharing = { .call = call, .paused = true, .args = data };
	struct amdgpu_criu_paused_object *object;
	struct amdgpu_criu_outside *args = data;
	unsigned long index;
	int ret;

	if (args->flags || args->pad)
		return -EINVAL;
	if (!driver)
		return -ENODEV;
	*args = (struct amdgpu_criu_outside) { .session_fd = args->session_fd };
	xa_init_flags(&sharing.objects, XA_FLAGS_ACCOUNT);
	ret = amdgpu_criu_visit_clients(&sharing, driver);
	sharing.paused = false;
	if (!ret)
		ret = amdgpu_criu_visit_clients(&sharing, driver);
	xa_for_each(&sharing.objects, index, object) {
		object->ops->put(object->object);
		kfree(object);
	}
	xa_destroy(&sharing.objects);
	return ret;
}
