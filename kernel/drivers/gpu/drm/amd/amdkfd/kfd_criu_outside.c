// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * BOs that processes of KFD share: those that a session has paused, and others.
 */
#include <linux/hashtable.h>
#include <linux/sched.h>
#include <linux/srcu.h>

#include "amdgpu_amdkfd.h"
#include "amdgpu_criu_outside.h"
#include "amdgpu_object.h"
#include "kfd_criu.h"

static int kfd_criu_add_process(struct amdgpu_criu_sharing *sharing, struct kfd_process *p)
{
	const pid_t pid = task_tgid_vnr(p->lead_thread);
	struct kgd_mem *mem;
	int handle, ret;
	u32 i;

	for (i = 0; i < p->n_pdds; i++) {
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle) {
			ret = amdgpu_criu_add_insider(sharing, &mem->bo->tbo.base, pid, handle);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/**
 * kfd_criu_add_insiders() - add what the processes have that the session has paused
 * @sharing: the search
 *
 * Return: 0 or -ENOMEM.
 */
int kfd_criu_add_insiders(struct amdgpu_criu_sharing *sharing)
{
	struct kfd_process *p;
	void **processes;
	u32 i, num;
	int ret = 0;

	processes = criu_session_clients(sharing->session, &kfd_criu_paused_ops, &num);
	if (IS_ERR(processes))
		return PTR_ERR(processes);
	for (i = 0; !ret && i < num; i++) {
		p = processes[i];
		mutex_lock(&p->mutex);
		ret = kfd_criu_add_process(sharing, p);
		mutex_unlock(&p->mutex);
	}
	criu_session_clients_put(&kfd_criu_paused_ops, processes, num);
	return ret;
}

static void kfd_criu_see_process(struct amdgpu_criu_sharing *sharing, struct kfd_process *p)
{
	const pid_t pid = task_tgid_vnr(p->lead_thread);
	struct kgd_mem *mem;
	int handle;
	u32 i;

	for (i = 0; i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle)
			amdgpu_criu_see_outsider(sharing, &mem->bo->tbo.base, pid);
}

/**
 * kfd_criu_see_outsiders() - look at what all other processes have
 * @sharing: the search
 */
void kfd_criu_see_outsiders(struct amdgpu_criu_sharing *sharing)
{
	int idx = srcu_read_lock(&kfd_processes_srcu);
	struct kfd_process *p;
	int bucket;

	hash_for_each_rcu(kfd_processes_table, bucket, p, kfd_processes) {
		mutex_lock(&p->mutex);
		if (criu_session_held(sharing->session, p))
			kfd_criu_see_process(sharing, p);
		mutex_unlock(&p->mutex);
	}
	srcu_read_unlock(&kfd_processes_srcu, idx);
}
