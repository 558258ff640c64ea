// SPDX-License-Identifier: GPL-2.0 OR MIT
/* OUTSIDE: BOs of the processes of KFD. */
#include <linux/srcu.h>

#include "kfd_criu.h"

/* Limit of the waits for processes that hold their lock */
#define KFD_CRIU_OUTSIDE_TIME (5 * HZ)

static int kfd_criu_visit_process(struct amdgpu_criu_sharing *sharing, struct kfd_process *p,
				  unsigned long end)
{
	const pid_t pid = task_tgid_vnr(p->lead_thread);
	struct kgd_mem *mem;
	int handle, ret = 0;

	/* A paused process stays in its session while no other operation runs. */
	if (sharing->paused && criu_session_held(sharing->session, &p->criu))
		return 0;
	/* A process that waits for a file system in user space may hold its lock forever. */
	while (!mutex_trylock(&p->mutex)) {
		if (time_after(jiffies, end) || fatal_signal_pending(current))
			return criu_refuse(sharing->call, -ETIME,
					   "process %d waits for memory in an ioctl of KFD", pid);
		schedule_timeout_killable(1);
	}
	if (sharing->paused != !criu_session_held(sharing->session, &p->criu))
		goto out_unlock;
	for (u32 i = 0; i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle)
			if (!ret)
				ret = amdgpu_criu_visit_bo(sharing, &mem->bo->tbo.base, pid,
							   handle);
out_unlock:
	mutex_unlock(&p->mutex);
	return ret;
}

/*
 * Visits the BOs of processes. kfd_processes_srcu is not held while this waits for a mutex: every
 * exiting process waits for it, and a page fault may hold the mutex.
 */
int kfd_criu_visit_processes(struct amdgpu_criu_sharing *sharing)
{
	const unsigned long end = jiffies + KFD_CRIU_OUTSIDE_TIME;
	int idx, bucket, ret = 0;
	struct xarray processes;
	struct kfd_process *p;
	unsigned long index;

	/* Without objects of paused clients there is nothing to find. */
	if (!sharing->paused && xa_empty(&sharing->objects))
		return 0;
	xa_init(&processes);
	idx = srcu_read_lock(&kfd_processes_srcu);
	hash_for_each_rcu(kfd_processes_table, bucket, p, kfd_processes) {
		if (ret || !kref_get_unless_zero(&p->ref))
			continue;
		ret = xa_err(xa_store(&processes, (unsigned long)p, p, GFP_KERNEL_ACCOUNT));
		if (ret)
			kfd_unref_process(p);
	}
	srcu_read_unlock(&kfd_processes_srcu, idx);
	xa_for_each(&processes, index, p) {
		if (!ret)
			ret = kfd_criu_visit_process(sharing, p, end);
		kfd_unref_process(p);
	}
	xa_destroy(&processes);
	return ret;
}
