/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The gate of an open file: all its ioctls go through it but the one of
 * checkpoint/restore, which closes it: between PROCESS_INFO and UNPAUSE, and
 * between RESTORE and RESUME, nobody changes what the file has.
 */
#ifndef _AMDGPU_CRIU_GATE_H_
#define _AMDGPU_CRIU_GATE_H_

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/wait.h>

struct file;
struct task_struct;

/**
 * struct amdgpu_criu_gate - the gate of an open file
 * @lock: the client's own lock of criu_session.h; held by whoever closes or opens the
 *	gate, and over all that is done with the file while it is closed
 * @inside: ioctls that have passed and not yet come back
 * @closed: calls that come wait until it is false
 * @wait: where they wait, and whoever closes the gate waits for @inside
 * @task: CHECKPOINT: leader of the process whose userptrs are carried, with a
 *	reference, while the gate is closed; else NULL
 */
struct amdgpu_criu_gate {
	/* Outermost of checkpoint/restore of the file. */
	struct mutex lock;
	atomic_t inside;
	bool closed;
	wait_queue_head_t wait;
	struct task_struct *task;
};

struct amdgpu_criu_gate *amdgpu_criu_gate_create(void);
void amdgpu_criu_gate_destroy(struct amdgpu_criu_gate *gate);
int amdgpu_criu_gate_close(struct amdgpu_criu_gate *gate, unsigned long deadline);
void amdgpu_criu_gate_open(struct amdgpu_criu_gate *gate);

long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     long (*ioctl)(struct file *filp, unsigned int cmd,
					   unsigned long arg));

#endif /* _AMDGPU_CRIU_GATE_H_ */
