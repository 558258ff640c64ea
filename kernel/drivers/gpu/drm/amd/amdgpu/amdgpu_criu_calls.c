// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/wait.h>

#include "amdgpu_criu_calls.h"

/* Ioctls wait here until they may begin. amdgpu_criu_calls_stop() waits until none is running. */
static DECLARE_WAIT_QUEUE_HEAD(amdgpu_criu_calls_wait);

static void amdgpu_criu_calls_end(struct amdgpu_criu_calls *calls)
{
	if (atomic_dec_and_test(&calls->inside) && READ_ONCE(calls->stopped))
		wake_up_all(&amdgpu_criu_calls_wait);
}

/* The wait is interruptible, so that signals can stop the process. */
static int amdgpu_criu_calls_begin(struct amdgpu_criu_calls *calls)
{
	int ret;

	for (;;) {
		atomic_inc(&calls->inside);
		/* Pairs with amdgpu_criu_calls_stop(): at least one side sees the other's store. */
		smp_mb__after_atomic();
		if (!READ_ONCE(calls->stopped))
			return 0;
		amdgpu_criu_calls_end(calls);
		ret = wait_event_interruptible(amdgpu_criu_calls_wait,
					       !READ_ONCE(calls->stopped));
		if (ret)
			return ret;
	}
}

/* Blocks new ioctls and waits for running ones. Fails with -EBUSY, -ETIME or -ERESTARTSYS. */
int amdgpu_criu_calls_stop(struct amdgpu_criu_calls *calls, unsigned long deadline)
{
	long ret;

	/* A full barrier, which pairs with the barrier in amdgpu_criu_calls_begin(). */
	if (xchg(&calls->stopped, 1))
		return -EBUSY;
	ret = wait_event_interruptible_timeout(amdgpu_criu_calls_wait,
					       !atomic_read(&calls->inside),
					       max(1L, (long)(deadline - jiffies)));
	if (ret > 0)
		return 0;
	amdgpu_criu_calls_allow(calls);
	return ret ? ret : -ETIME;
}

void amdgpu_criu_calls_allow(struct amdgpu_criu_calls *calls)
{
	WRITE_ONCE(calls->stopped, 0);
	wake_up_all(&amdgpu_criu_calls_wait);
}

/* Runs an ioctl once it may begin. @is_wait: it may block forever, and no caller waits for it. */
long amdgpu_criu_calls_ioctl(struct amdgpu_criu_calls *calls, bool is_wait, struct file *filp,
			     unsigned int cmd, unsigned long arg, amdgpu_criu_ioctl_fn ioctl)
{
	long ret = amdgpu_criu_calls_begin(calls);

	if (ret)
		return ret;
	if (!is_wait) {
		ret = ioctl(filp, cmd, arg);
		amdgpu_criu_calls_end(calls);
		return ret;
	}
	amdgpu_criu_calls_end(calls);
	return ioctl(filp, cmd, arg);
}
