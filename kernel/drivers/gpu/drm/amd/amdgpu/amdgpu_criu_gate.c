// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <drm/amdgpu_criu.h>
#include <drm/amdgpu_drm.h>
#include <drm/drm_file.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "amdgpu.h"
#include "amdgpu_criu_gate.h"

/**
 * amdgpu_criu_gate_create() - gate of a new file; it is open
 *
 * Return: the gate, or NULL.
 */
struct amdgpu_criu_gate *amdgpu_criu_gate_create(void)
{
	struct amdgpu_criu_gate *gate = kzalloc_obj(*gate);

	if (!gate)
		return NULL;
	mutex_init(&gate->lock);
	init_waitqueue_head(&gate->wait);
	return gate;
}

/**
 * amdgpu_criu_gate_destroy() - free the gate of a file that nobody uses any more
 * @gate: the gate
 */
void amdgpu_criu_gate_destroy(struct amdgpu_criu_gate *gate)
{
	mutex_destroy(&gate->lock);
	kfree(gate);
}

static bool amdgpu_criu_is_criu(unsigned int cmd)
{
	return _IOC_NR(cmd) == DRM_COMMAND_BASE + AMDGPU_CRIU_NR;
}

/*
 * Waits change nothing, and may last for ever: nobody who closes the gate waits for
 * them. A process that is stopped in one calls it again when it runs on.
 */
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

static void amdgpu_criu_gate_leave(struct amdgpu_criu_gate *gate)
{
	if (atomic_dec_and_test(&gate->inside) && READ_ONCE(gate->closed))
		wake_up_all(&gate->wait);
}

/* Interruptible, so that whoever wants to stop the process can. */
static int amdgpu_criu_gate_enter(struct amdgpu_criu_gate *gate)
{
	int ret;

	for (;;) {
		atomic_inc(&gate->inside);
		/* Pairs with the barrier of amdgpu_criu_gate_close(): one sees the other. */
		smp_mb__after_atomic();
		if (!READ_ONCE(gate->closed))
			return 0;
		amdgpu_criu_gate_leave(gate);
		ret = wait_event_interruptible(gate->wait, !READ_ONCE(gate->closed));
		if (ret)
			return ret;
	}
}

/**
 * amdgpu_criu_gate_close() - let no other call begin, and wait for those under way
 * @gate: an open one; its lock is held
 * @deadline: jiffies
 *
 * Return: 0; or the gate is open: -ETIME, or -ERESTARTSYS.
 */
int amdgpu_criu_gate_close(struct amdgpu_criu_gate *gate, unsigned long deadline)
{
	long ret;

	lockdep_assert_held(&gate->lock);
	WRITE_ONCE(gate->closed, true);
	/* Pairs with the barrier of amdgpu_criu_gate_enter(). */
	smp_mb();
	ret = wait_event_interruptible_timeout(gate->wait, !atomic_read(&gate->inside),
					       max(1L, (long)(deadline - jiffies)));
	if (ret > 0)
		return 0;
	amdgpu_criu_gate_open(gate);
	return ret ? ret : -ETIME;
}

/**
 * amdgpu_criu_gate_open() - let calls begin again
 * @gate: a closed one; its lock is held
 */
void amdgpu_criu_gate_open(struct amdgpu_criu_gate *gate)
{
	lockdep_assert_held(&gate->lock);
	if (gate->task)
		put_task_struct(gate->task);
	gate->task = NULL;
	WRITE_ONCE(gate->closed, false);
	wake_up_all(&gate->wait);
}

/**
 * amdgpu_criu_gated_ioctl() - an ioctl of the file, when its gate is open
 * @filp: the file
 * @cmd: the ioctl
 * @arg: its argument
 * @ioctl: does it
 *
 * Return: what @ioctl returns, or -ERESTARTSYS.
 */
long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     long (*ioctl)(struct file *filp, unsigned int cmd,
					   unsigned long arg))
{
	struct drm_file *file = filp->private_data;
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct amdgpu_criu_gate *gate = fpriv->criu_gate;
	long ret;

	if (amdgpu_criu_is_criu(cmd))
		return ioctl(filp, cmd, arg);
	ret = amdgpu_criu_gate_enter(gate);
	if (ret)
		return ret;
	if (!amdgpu_criu_is_wait(cmd)) {
		ret = ioctl(filp, cmd, arg);
		amdgpu_criu_gate_leave(gate);
		return ret;
	}
	amdgpu_criu_gate_leave(gate);
	return ioctl(filp, cmd, arg);
}
