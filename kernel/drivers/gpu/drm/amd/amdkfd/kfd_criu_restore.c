// SPDX-License-Identifier: GPL-2.0 OR MIT
/* RESTORE: makes a plan of the blob and applies it, or undoes all of it. mmap() until RESUME. */
#include <linux/file.h>
#include <linux/idr.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "amdgpu.h"
#include "amdgpu_amdkfd.h"
#include "kfd_criu.h"
#include "kfd_criu_driver.h"
#include "kfd_events.h"
#include "kfd_svm.h"

static_assert(KFD_CRIU_DEVICES_MAX == MAX_GPU_INSTANCE);
static_assert(KFD_CRIU_QUEUES_MAX == KFD_MAX_NUM_OF_QUEUES_PER_PROCESS);

/* Limit of the wait for running ioctls of the process. */
#define KFD_CRIU_STOP_TIME (5 * HZ)

static bool kfd_criu_has_svm(struct kfd_process *p)
{
	u32 num;
	u64 unused;

	svm_range_get_info(p, &num, &unused);
	return num;
}

/* Return: true if the process has opened /dev/kfd and has no other state. */
static bool kfd_criu_is_fresh(struct kfd_process *p)
{
	bool fresh;

	for (u32 i = 0; i < p->n_pdds; i++) {
		const struct kfd_process_device *pdd = p->pdds[i];

		if (pdd->drm_file || pdd->qpd.proc_doorbells || !idr_is_empty(&pdd->alloc_idr) ||
		    !list_empty(&pdd->qpd.queues_list) || pdd->user_gpu_id != pdd->dev->id)
			return false;
	}
	mutex_lock(&p->event_mutex);
	fresh = !p->signal_page && !kfd_get_num_events(p);
	mutex_unlock(&p->event_mutex);
	return fresh && !p->queues_paused && !p->criu_pending && !p->debug_trap_enabled &&
	       p->runtime_info.runtime_state == DEBUG_RUNTIME_STATE_DISABLED &&
	       !kfd_criu_has_contexts(p) && !kfd_criu_has_svm(p);
}

static void kfd_criu_unblock_notifications(struct kfd_process *p)
{
	struct amdkfd_process_info *process_info = p->kgd_process_info;

	if (!process_info)
		return;
	mutex_lock(&process_info->lock);
	WRITE_ONCE(process_info->block_mmu_notifications, false);
	mutex_unlock(&process_info->lock);
}

/*
 * Ends the restrictions between RESTORE and RESUME. @p: the process; its mutex is held. MMU
 * notifiers reach its userptrs again, and its ioctls are no longer blocked. Queues stay evicted:
 * their userptrs have no pages.
 */
void kfd_criu_end_restore(struct kfd_process *p)
{
	kfd_criu_unblock_notifications(p);
	amdgpu_criu_calls_allow(&p->criu_calls);
}

/* Undoes the applied steps in reverse order. Skips steps that have not begun. */
static void kfd_criu_undo(struct kfd_criu_plan *plan)
{
	kfd_criu_unblock_notifications(plan->p);
	criu_plan_undo(plan->call, plan);
	if (plan->evicted)
		kfd_process_restore_queues(plan->p);
	criu_session_release(plan->session, plan->p);
}

static int kfd_criu_apply(struct kfd_criu_plan *plan)
{
	/* No queue may run before RESUME: its memory has no contents yet. */
	int ret = kfd_process_evict_queues(plan->p, KFD_QUEUE_EVICTION_CRIU_RESTORE);

	plan->evicted = !ret || ret == -EIO;
	return ret ? ret : criu_plan_apply(plan->call, plan);
}

static int kfd_criu_restore_locked(struct kfd_criu_plan *plan)
{
	int ret;

	if (!kfd_criu_is_fresh(plan->p))
		return criu_refuse(plan->call, -EBADFD, "the process has used the GPU already");
	ret = criu_session_hold(plan->session, plan->p, &kfd_criu_restored_ops);
	if (ret)
		return ret == -EALREADY ? -EBADFD : ret;
	if (plan->args->num_devices != criu_blob_count(plan->blob, KFD_CRIU_DEVICE))
		ret = criu_refuse(plan->call, -EBADMSG, "table of %u GPUs for a blob of %u",
				  plan->args->num_devices,
				  criu_blob_count(plan->blob, KFD_CRIU_DEVICE));
	if (!ret)
		ret = criu_plan_make(plan->call, plan->blob, plan);
	if (!ret)
		ret = kfd_criu_apply(plan);
	if (ret)
		kfd_criu_undo(plan);
	return ret;
}

static void kfd_criu_plan_free(struct kfd_criu_plan *plan)
{
	for (u32 i = 0; i < plan->num_devices; i++)
		if (plan->devices[i].drm_file)
			fput(plan->devices[i].drm_file);
	kvfree(plan->svm_areas);
	criu_plan_free(plan->call, plan);
}

/*
 * A failed restore frees doorbells and event pages. No thread of the process may map them
 * before, so mmap() of the node fails while @criu_restoring is set. Taking the mmap lock
 * waits for a running mmap() that has not seen the flag.
 *
 * Writing the results may block, so the mutex is not held. The session holds the process:
 * other operations refuse it, and RESUME checks @criu_restoring.
 */
static int kfd_criu_restore_stopped(struct kfd_criu_plan *plan)
{
	struct kfd_process *p = plan->p;
	int ret;

	WRITE_ONCE(p->criu_restoring, true);
	mmap_write_lock(current->mm);
	mmap_write_unlock(current->mm);
	mutex_lock(&p->mutex);
	ret = kfd_criu_restore_locked(plan);
	mutex_unlock(&p->mutex);
	if (!ret) {
		ret = amdgpu_criu_bos_put(plan->args, plan, plan->num_bos, kfd_criu_plan_entry);
		if (ret) {
			mutex_lock(&p->mutex);
			kfd_criu_undo(plan);
			mutex_unlock(&p->mutex);
		}
	}
	WRITE_ONCE(p->criu_restoring, false);
	return ret;
}

/*
 * Other ioctls block until RESUME. Userptr notifiers are blocked, so a userptr that is
 * allocated before RESUME would keep pages that the process has freed.
 */
static int kfd_criu_restore_blob(struct criu_call *call, const struct amdgpu_criu_state *args,
				 const struct amdgpu_criu_tables *tables,
				 const struct criu_blob *blob)
{
	struct kfd_criu_plan plan = {
		.call = call,
		.p = call->client,
		.session = call->session,
		.args = args,
		.tables = tables,
		.blob = blob,
	};
	int ret = amdgpu_criu_calls_stop(&plan.p->criu_calls, jiffies + KFD_CRIU_STOP_TIME);

	if (ret)
		return ret == -EBUSY ? -EBADFD : ret;
	ret = kfd_criu_restore_stopped(&plan);
	if (ret)
		amdgpu_criu_calls_allow(&plan.p->criu_calls);
	kfd_criu_plan_free(&plan);
	return ret;
}

int kfd_criu_restore(struct criu_call *call, void *args)
{
	/* BOs, userptrs and VMAs are created only in the context of their process. */
	if (call->task != current->group_leader)
		return -EBADF;
	return amdgpu_criu_restore_with(call, args, &kfd_criu_schema, kfd_criu_restore_blob);
}

/*
 * mmap() between RESTORE and RESUME. KFD maps doorbells only as a whole, and the event page only
 * from its start. A restore maps the remaining parts of a mapping that the process has split.
 */

/* Pages at an offset of /dev/kfd */
struct kfd_criu_pages {
	phys_addr_t address; /* physical address */
	u64 size;
	bool in_ram; /* the pages are system memory, not MMIO */
};

static int kfd_criu_find_pages(struct kfd_process *p, u64 offset, struct kfd_criu_pages *pages)
{
	struct kfd_process_device *pdd =
		kfd_process_device_data_by_id(p, KFD_MMAP_GET_GPU_ID(offset));

	*pages = (struct kfd_criu_pages) {};
	switch (offset & KFD_MMAP_TYPE_MASK) {
	case KFD_MMAP_TYPE_EVENTS:
		/* A page that user mode has provided is a BO, mapped through a render node. */
		if (!p->signal_page || !p->signal_page->need_to_free_pages)
			return -EINVAL;
		pages->address = __pa(p->signal_page->kernel_address);
		pages->size = PAGE_SIZE << get_order(KFD_SIGNAL_EVENT_LIMIT * sizeof(u64));
		pages->in_ram = true;
		return 0;
	case KFD_MMAP_TYPE_DOORBELL:
		if (!pdd)
			return -ENODEV;
		pages->address = kfd_get_process_doorbells(pdd);
		pages->size = kfd_doorbell_process_slice(pdd->dev->kfd);
		return pages->address ? 0 : -ENOMEM;
	case KFD_MMAP_TYPE_MMIO:
		if (!pdd)
			return -ENODEV;
		pages->address = pdd->dev->adev->rmmio_remap.bus_addr;
		pages->size = PAGE_SIZE;
		return PAGE_SHIFT > 12 ? -EINVAL : 0;
	}
	return -EFAULT;
}

/* Maps parts. kfd_process.signal_mapped_size stays as RESTORE has set it. */
int kfd_criu_mmap(struct kfd_process *p, struct vm_area_struct *vma)
{
	const u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	const u64 size = vma->vm_end - vma->vm_start;
	u64 inside = offset & ~(KFD_MMAP_TYPE_MASK | KFD_MMAP_GPU_ID_MASK);
	struct kfd_criu_pages pages;
	int ret = kfd_criu_find_pages(p, offset, &pages);

	if (ret)
		return ret;
	if (inside >= pages.size || size > pages.size - inside)
		return -EINVAL;
	vm_flags_set(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_NORESERVE | VM_DONTDUMP |
			  VM_PFNMAP);
	if (pages.in_ram)
		return remap_pfn_range(vma, vma->vm_start, PHYS_PFN(pages.address + inside), size,
				       vma->vm_page_prot);
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	return io_remap_pfn_range(vma, vma->vm_start, PHYS_PFN(pages.address + inside), size,
				  vma->vm_page_prot);
}
