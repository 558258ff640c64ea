// SPDX-License-Identifier: GPL-2.0 OR MIT
/* RESTORE, RESUME, and mmap() between them; and the end of a pause. */
#include "kfd_criu.h"
#include "kfd_events.h"
#include "kfd_svm.h"

static_assert(KFD_CRIU_DEVICES_MAX == MAX_GPU_INSTANCE);
static_assert(KFD_CRIU_QUEUES_MAX == KFD_MAX_NUM_OF_QUEUES_PER_PROCESS);

#define KFD_CRIU_UNPAUSE_TRIES 3 /* each fails only if a small allocation fails */
#define KFD_CRIU_ATTACH_TIME (30 * HZ) /* until a failure to attach userptrs is final */
#define KFD_CRIU_EVICTED_TIME (120 * HZ) /* until workers have moved memory back */

/* Return: true if the process has opened /dev/kfd and has no other state. */
static bool kfd_criu_is_fresh(const struct criu_plan *plan)
{
	struct kfd_process *p = plan->p;
	u32 num_svms;
	u64 unused;
	bool fresh;

	for (u32 i = 0; i < p->n_pdds; i++) {
		const struct kfd_process_device *pdd = p->pdds[i];

		if (pdd->drm_file || pdd->qpd.proc_doorbells || !idr_is_empty(&pdd->alloc_idr) ||
		    !list_empty(&pdd->qpd.queues_list) || pdd->user_gpu_id != pdd->dev->id)
			return false;
	}
	scoped_guard(mutex, &p->event_mutex)
		fresh = !p->signal_page && !kfd_get_num_events(p);
	svm_range_get_info(p, &num_svms, &unused);
	return fresh && !p->queues_paused && !p->criu_pending && !p->debug_trap_enabled &&
	       !atomic_read(&p->kfd_sigbus_delay_ms) &&
	       p->runtime_info.runtime_state == DEBUG_RUNTIME_STATE_DISABLED &&
	       p->context_id == KFD_CONTEXT_ID_PRIMARY && ida_is_empty(&p->id_table) && !num_svms;
}

int kfd_criu_restore(struct criu_call *call, void *args)
{
	struct criu_plan plan = {
		.call = call, .state = args, .p = call->client->owner,
		.is_fresh = kfd_criu_is_fresh, .entry = kfd_criu_bo_entry,
	};
	int ret;

	/* BOs, userptrs and VMAs are created only in the context of their process. */
	if (call->task != current->group_leader)
		return -EBADF;
	ret = amdgpu_criu_restore(&plan);
	for (u32 i = 0; i < plan.num_devices; i++)
		if (plan.devices[i].drm_file)
			fput(plan.devices[i].drm_file);
	amdgpu_criu_input_free(&plan);
	return ret;
}

/* After -ENOMEM for a new runlist, the queues count as restored: the next try evicts them first. */
int kfd_criu_unpause_locked(struct kfd_process *p)
{
	int ret = kfd_process_restore_queues(p);

	for (int tries = 0; ret == -ENOMEM && tries < KFD_CRIU_UNPAUSE_TRIES; tries++) {
		ret = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_CHECKPOINT);
		ret = ret ?: kfd_process_restore_queues(p);
	}
	if (!ret || !p->mm)
		return 0;
	dev_err(kfd_device, "process %d: queues do not run on: %d\n",
		task_tgid_nr(p->lead_thread), ret);
	return ret;
}

/* Returns the memory, or NULL. While a reference is held, the mm notifier destroys no queues. */
struct mm_struct *kfd_criu_get_mm(struct kfd_process *p)
{
	struct task_struct *task = same_thread_group(p->lead_thread, current) ? current :
				   p->lead_thread;
	struct mm_struct *mm = get_task_mm(task);

	if (!mm || mm == p->mm)
		return mm;
	mmput(mm);
	return NULL;
}

static struct kfd_process *kfd_criu_resume_target(struct criu_call *call, pid_t nr)
{
	struct kfd_process *p = call->client->owner;
	struct task_struct *task;
	struct pid *pid;

	if (!nr) {
		kref_get(&p->ref);
		return p;
	}
	task = criu_get_process(nr);
	if (IS_ERR(task))
		return ERR_CAST(task);
	pid = get_task_pid(task, PIDTYPE_PID);
	put_task_struct(task);
	/* NULL: the process has been reaped meanwhile. */
	p = pid ? kfd_lookup_process_by_pid(pid) : NULL;
	put_pid(pid);
	return p ?: ERR_PTR(-ESRCH);
}

static int kfd_criu_fault_in_userptrs(struct kfd_process *p)
{
	struct kgd_mem *mem;
	int handle, ret = 0;
	u64 addr;

	for (u32 i = 0; i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, handle) {
			if (ret || !amdgpu_ttm_tt_is_userptr(mem->bo->tbo.ttm))
				continue;
			amdgpu_ttm_tt_get_userptr(&mem->bo->tbo, &addr);
			ret = amdgpu_criu_fault_in(p->mm, addr, amdgpu_bo_size(mem->bo), true);
		}
	return ret;
}

static bool kfd_criu_userptrs_attached(struct amdkfd_process_info *info)
{
	/* Held by the worker until it has restored the queues */
	guard(mutex)(&info->notifier_lock);
	return !info->evicted_bos;
}

/* A worker attaches userptrs, without an error. One more eviction leaves queues to the caller. */
static int kfd_criu_attach_userptrs(struct criu_call *call, struct kfd_process *p)
{
	struct amdkfd_process_info *info = p->kgd_process_info;
	int ret = kfd_criu_fault_in_userptrs(p);
	/* Not before: pages that are swapped out take their time. */
	const unsigned long end = jiffies + KFD_CRIU_ATTACH_TIME;
	unsigned int busy = WORK_BUSY_RUNNING, before;

	if (!ret && READ_ONCE(info->block_mmu_notifications)) {
		ret = kfd_process_evict_queues(p, KFD_QUEUE_EVICTION_CRIU_RESTORE);
		ret = ret ?: amdgpu_amdkfd_criu_resume(info);
	}
	while (!ret && !kfd_criu_userptrs_attached(info)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		/* Running, it may wait for memory that user space fills. Idle, it gave up. */
		before = busy;
		busy = work_busy(&info->restore_userptr_work.work);
		if (!(before | busy) ||
		    (time_after(jiffies, end) && !((before | busy) & WORK_BUSY_RUNNING)))
			return criu_refuse(call, -ETIME, "its userptrs cannot be attached");
		schedule_timeout_killable(1);
	}
	return ret;
}

/*
 * Waits until at most @num evictions are left. One worker ends those of all processes, in turn. A
 * reset of a GPU evicts all queues forever.
 */
int kfd_criu_wait_evictions(struct kfd_process *p, unsigned int num)
{
	const unsigned long end = jiffies + KFD_CRIU_EVICTED_TIME;

	for (;;) {
		unsigned int left = 0;

		for (u32 i = 0; i < p->n_pdds; i++) {
			if (kfd_criu_is_reset(p->pdds[i]))
				return -EIO;
			left = max(left, READ_ONCE(p->pdds[i]->qpd.evicted));
		}
		if (left <= num || !READ_ONCE(p->mm))
			return 0;
		if (fatal_signal_pending(current))
			return -EINTR;
		if (time_after(jiffies, end))
			return -ETIME;
		schedule_timeout_killable(1);
	}
}

/* A worker ends evictions of memory. The last eviction that ends makes the queues run. */
static int kfd_criu_run_queues(struct criu_call *call, struct kfd_process *p)
{
	int waited = kfd_criu_wait_evictions(p, 1);
	int ret = kfd_criu_unpause_locked(p);

	ret = waited ?: ret ?: kfd_criu_wait_evictions(p, 0);
	return ret ? criu_refuse(call, ret, "its queues do not run: %d", ret) : 0;
}

static int kfd_criu_resume_locked(struct criu_call *call, struct kfd_process *p)
{
	int ret = criu_session_held(call->session, &p->criu);

	if (ret)
		return ret;
	if (p->criu.restoring)
		return -EBADFD;
	ret = kfd_criu_svm_resume(p, call) ?: kfd_criu_queues_resume(p, call);
	if (!ret && p->kgd_process_info)
		ret = kfd_criu_attach_userptrs(call, p);
	if (ret)
		return ret;
	/* Final: queues that a GPU did not take cannot be restored a second time. */
	ret = kfd_criu_run_queues(call, p);
	kfd_criu_signal_events(p);
	criu_session_release(call->session, &p->criu);
	criu_client_allow(&p->criu);
	return ret;
}

int kfd_criu_resume(struct criu_call *call, void *args)
{
	const struct amdgpu_criu_resume *resume = args;
	struct mm_struct *mm;
	struct kfd_process *p;
	int ret;

	if (resume->flags || resume->pad)
		return -EINVAL;
	p = kfd_criu_resume_target(call, resume->pid);
	if (IS_ERR(p))
		return PTR_ERR(p);
	mm = kfd_criu_get_mm(p);
	ret = mm ? mutex_lock_killable(&p->mutex) : -ESRCH;
	if (!ret) {
		ret = kfd_criu_resume_locked(call, p);
		mutex_unlock(&p->mutex);
	}
	if (mm)
		mmput(mm);
	kfd_unref_process(p);
	if (!ret)
		criu_session_resumed(call->session);
	return ret;
}

/* mmap() between RESTORE and RESUME, also of a part: the process may have split a mapping. */
int kfd_criu_mmap(struct kfd_process *p, struct vm_area_struct *vma)
{
	const u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	const u64 inside = offset & ~(KFD_MMAP_TYPE_MASK | KFD_MMAP_GPU_ID_MASK);
	const u64 type = offset & KFD_MMAP_TYPE_MASK;
	const u64 size = vma->vm_end - vma->vm_start;
	struct kfd_process_device *pdd =
		kfd_process_device_data_by_id(p, KFD_MMAP_GET_GPU_ID(offset));
	u64 room = PAGE_SIZE;
	phys_addr_t address;

	if (type == KFD_MMAP_TYPE_EVENTS) {
		/* The page is a BO, mapped through a render node. */
		return -EINVAL;
	} else if (type != KFD_MMAP_TYPE_DOORBELL && type != KFD_MMAP_TYPE_MMIO) {
		return -EFAULT;
	} else if (!pdd) {
		return -ENODEV;
	} else if (type == KFD_MMAP_TYPE_DOORBELL) {
		address = kfd_get_process_doorbells(pdd);
		room = kfd_doorbell_process_slice(pdd->dev->kfd);
	} else {
		address = pdd->dev->adev->rmmio_remap.bus_addr;
		room = PAGE_SHIFT > 12 ? 0 : PAGE_SIZE;
	}
	if (!address)
		return -ENOMEM;
	if (inside >= room || size > room - inside)
		return -EINVAL;
	vm_flags_set(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_NORESERVE | VM_DONTDUMP |
			  VM_PFNMAP);
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	return io_remap_pfn_range(vma, vma->vm_start, PHYS_PFN(address + inside), size,
				  vma->vm_page_prot);
}
