// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/rcupdate.h>
#include <linux/sched/exec_state.h>
#include <linux/sched/signal.h>

#include "criu_ioctl.h"

/**
 * criu_check_capable() - may the caller checkpoint or restore this process?
 * @task: leader of the process
 *
 * The namespace is the one that owns the process's memory: it is fixed by exec,
 * while a process may enter another by itself.
 *
 * Return: 0; -EPERM without CAP_CHECKPOINT_RESTORE and CAP_SYS_ADMIN in that user
 * namespace; -ESRCH if all threads of the process are gone.
 */
int criu_check_capable(struct task_struct *task)
{
	bool capable;

	if (!atomic_read(&task->signal->live))
		return -ESRCH;
	rcu_read_lock();
	capable = checkpoint_restore_ns_capable(rcu_dereference(task->exec_state)->user_ns);
	rcu_read_unlock();
	return capable ? 0 : -EPERM;
}
