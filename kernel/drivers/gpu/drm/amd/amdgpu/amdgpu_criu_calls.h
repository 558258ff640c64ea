/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Stops all ioctls of a client but ours, so that its state does not change */
#ifndef _AMDGPU_CRIU_CALLS_H_
#define _AMDGPU_CRIU_CALLS_H_

#include <linux/atomic.h>
#include <linux/types.h>

struct file;

/* Ioctls of a client; all zero: none is running and all may begin */
struct amdgpu_criu_calls {
	atomic_t inside; /* number of running ioctls */
	int stopped; /* new ioctls wait until it is 0; an int for xchg() */
};

typedef long (*amdgpu_criu_ioctl_fn)(struct file *filp, unsigned int cmd, unsigned long arg);

int amdgpu_criu_calls_stop(struct amdgpu_criu_calls *calls, unsigned long deadline);
void amdgpu_criu_calls_allow(struct amdgpu_criu_calls *calls);
long amdgpu_criu_calls_ioctl(struct amdgpu_criu_calls *calls, bool is_wait, struct file *filp,
			     unsigned int cmd, unsigned long arg, amdgpu_criu_ioctl_fn ioctl);

#endif /* _AMDGPU_CRIU_CALLS_H_ */
