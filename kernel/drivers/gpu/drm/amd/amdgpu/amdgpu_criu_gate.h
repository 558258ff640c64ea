/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The gate of an open file. All ioctls of the file except the checkpoint/restore ioctl
 * pass through the gate. The checkpoint/restore ioctl closes it, so that the state of the
 * file does not change between PROCESS_INFO and UNPAUSE, or between RESTORE and RESUME.
 */
#ifndef _AMDGPU_CRIU_GATE_H_
#define _AMDGPU_CRIU_GATE_H_

#include <linux/mutex.h>

#include "amdgpu_criu_calls.h"

struct task_struct;

/* The gate of an open file */
struct amdgpu_criu_gate {
	/*
	 * The outermost lock of checkpoint/restore of the file, and the client's own lock of
	 * criu_session.h. Held while the gate is closed or opened, and during every operation on
	 * the file while the gate is closed.
	 */
	struct mutex lock;
	struct amdgpu_criu_calls calls; /* the file's ioctls, stopped while the gate is closed */
	bool restoring; /* RESTORE is running; it holds lock except while it writes its results */
	/* CHECKPOINT: leader of the process whose userptrs are saved, while the gate is closed */
	struct task_struct *task;
};

struct amdgpu_criu_gate *amdgpu_criu_gate_create(void);
void amdgpu_criu_gate_destroy(struct amdgpu_criu_gate *gate);
int amdgpu_criu_gate_close(struct amdgpu_criu_gate *gate, unsigned long deadline);
void amdgpu_criu_gate_open(struct amdgpu_criu_gate *gate);

long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     amdgpu_criu_ioctl_fn ioctl);

#endif /* _AMDGPU_CRIU_GATE_H_ */
