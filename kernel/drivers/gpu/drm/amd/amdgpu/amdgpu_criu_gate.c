// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <drm/amdgpu_criu.h>
#include <drm/amdgpu_drm.h>
#include <drm/drm_file.h>
#include <linux/fs.h>
#include <linux/lockdep.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "amdgpu.h"
#include "amdgpu_criu_gate.h"

/* Creates the gate of a new file, open. Returns the gate, or NULL if out of memory. */
struct amdgpu_criu_gate *amdgpu_criu_gate_create(void)
{
	struct amdgpu_criu_gate *gate = kzalloc_obj(*gate);

	if (!gate)
		return NULL;
	mutex_init(&gate->lock);
	return gate;
}

/* Frees the gate of a file that is no longer in use */
void amdgpu_criu_gate_destroy(struct amdgpu_criu_gate *gate)
{
	mutex_destroy(&gate->lock);
	kfree(gate);
}

static bool amdgpu_criu_is_criu(unsigned int cmd)
{
	return _IOC_NR(cmd) == DRM_COMMAND_BASE + AMDGPU_CRIU_NR;
}

/* True if the ioctl only waits. A process stopped in one of these restarts it. */
static bool amdgpu_criu_is_wait(unsigned int cmd)
{
	switch (_IOC_NR(cmd)) {
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_WAIT_IDLE:
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_CS:
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_FENCES:
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_WAIT):
	case _IOC_NR(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT):
		return true;
	default:
		return false;
	}
}

/* Blocks other calls and waits for running ones. @gate: an open gate; its lock is held. */
int amdgpu_criu_gate_close(struct amdgpu_criu_gate *gate, unsigned long deadline)
{
	lockdep_assert_held(&gate->lock);
	return amdgpu_criu_calls_stop(&gate->calls, deadline);
}

/* Allows calls again. @gate: a closed gate; its lock is held. */
void amdgpu_criu_gate_open(struct amdgpu_criu_gate *gate)
{
	lockdep_assert_held(&gate->lock);
	if (gate->task)
		put_task_struct(gate->task);
	gate->task = NULL;
	amdgpu_criu_calls_allow(&gate->calls);
}

/* Runs an ioctl of the file once its gate is open. Returns what @ioctl returns, or -ERESTARTSYS. */
long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     amdgpu_criu_ioctl_fn ioctl)
{
	struct drm_file *file = filp->private_data;
	struct amdgpu_fpriv *fpriv = file->driver_priv;

	if (amdgpu_criu_is_criu(cmd))
		return ioctl(filp, cmd, arg);
	return amdgpu_criu_calls_ioctl(&fpriv->criu_gate->calls, amdgpu_criu_is_wait(cmd), filp,
				       cmd, arg, ioctl);
}
