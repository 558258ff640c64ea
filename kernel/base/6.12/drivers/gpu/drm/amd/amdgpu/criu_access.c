// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/mm_types.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "criu_ioctl.h"

/**
 * criu_check_capable() - may the caller checkpoint or restore this process?
 * @task: leader of the process
 *
 * The namespace is the one that owns the process's memory: it is fixed by exec,
 * while a process may enter another by itself.
 *
 * Return: 0; -EPERM without CAP_CHECKPOINT_RESTORE and CAP_SYS_ADMIN in that user
 * namespace; -ESRCH if all threads of the process are gone, or the leader is.
 */
int criu_check_capable(struct task_struct *task)
{
	int ret = -ESRCH;

	task_lock(task);
	if (task->mm)
		ret = checkpoint_restore_ns_capable(task->mm->user_ns) ? 0 : -EPERM;
	task_unlock(task);
	return ret;
}
