// SPDX-License-Identifier: GPL-2.0 OR MIT
/* BOs that processes paused by a session share with other processes of KFD. */
#include <linux/err.h>
#include <linux/hashtable.h>
#include <linux/kref.h>
#include <linux/sched.h>
#include <linux/srcu.h>

#include "amdgpu_amdkfd.h"
#include "amdgpu_object.h"
#include "kfd_criu.h"

static int kfd_criu_add_process(struct amdgpu_criu_sharing *sharing, struct kfd_process *p)
{
	const pid_t pid = task_tgid_vnr(p->lead_thread);
	struct kgd_mem *mem;
	int handle, ret;

	for (u32 i = 0; i < p->n_pdds; i++) {
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle) {
			ret = amdgpu_criu_add_paused_bo(sharing, &mem->bo->tbo.base, pid,
							handle);
			if (ret)
				return ret;
		}
	}
	return 0;
}

int kfd_criu_add_paused_bos(struct amdgpu_criu_sharing *sharing)
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
		ret = mutex_lock_killable(&p->mutex) ? -ERESTARTSYS : 0;
		if (ret)
			break;
		ret = kfd_criu_add_process(sharing, p);
		mutex_unlock(&p->mutex);
	}
	criu_clients_put(&kfd_criu_paused_ops, processes, num);
	return ret;
}

static void kfd_criu_mark_process(struct amdgpu_criu_sharing *sharing, struct kfd_process *p)
{
	const pid_t pid = task_tgid_vnr(p->lead_thread);
	struct kgd_mem *mem;
	int handle;

	for (u32 i = 0; i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle)
			amdgpu_criu_mark_outside_bo(sharing, &mem->bo->tbo.base, pid);
}

static u32 kfd_criu_list_processes(void *arg, void **processes, u32 room, u32 *num)
{
	int idx = srcu_read_lock(&kfd_processes_srcu);
	struct kfd_process *p;
	u32 all = 0;
	int bucket;

	*num = 0;
	hash_for_each_rcu(kfd_processes_table, bucket, p, kfd_processes)
		if (all++ < room && kref_get_unless_zero(&p->ref))
			processes[(*num)++] = p;
	srcu_read_unlock(&kfd_processes_srcu, idx);
	return all;
}

/*
 * Compares the BOs of all other processes. kfd_processes_srcu is not held while this waits for a
 * mutex: every exiting process waits for it, and a page fault may hold the mutex.
 */
int kfd_criu_mark_outside_bos(struct amdgpu_criu_sharing *sharing)
{
	void **processes;
	u32 i, num;
	int ret = 0;

	processes = criu_list_clients(&kfd_criu_paused_ops, kfd_criu_list_processes, NULL, &num);
	if (IS_ERR(processes))
		return PTR_ERR(processes);
	for (i = 0; i < num; i++) {
		struct kfd_process *p = processes[i];

		ret = mutex_lock_killable(&p->mutex) ? -ERESTARTSYS : 0;
		if (ret)
			break;
		if (criu_session_held(sharing->session, p))
			kfd_criu_mark_process(sharing, p);
		mutex_unlock(&p->mutex);
	}
	criu_clients_put(&kfd_criu_paused_ops, processes, num);
	return ret;
}
