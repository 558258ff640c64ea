// SPDX-License-Identifier: GPL-2.0 OR MIT
/* RESTORE: makes a plan of the blob and applies it, or undoes all of it. mmap() until RESUME. */
#include <linux/file.h>
#include <linux/idr.h>
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

static bool kfd_criu_has_svm(struct kfd_process *p)
{
	u32 num;
	u64 unused;

	svm_range_get_info(p, &num, &unused);
	return num;
}

/* Return: true if the process has opened /dev/kfd and has no other state. */
static bool kfd_criu_is_fresh(void *data)
{
	const struct kfd_criu_plan *plan = data;
	struct kfd_process *p = plan->p;
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

int kfd_criu_restore(struct criu_call *call, void *args)
{
	struct kfd_criu_plan plan = {
		.in = {
			.state = args,
			.is_fresh = kfd_criu_is_fresh,
			.entry = kfd_criu_plan_entry,
		},
		.call = call,
		.p = call->client->owner,
	};
	int ret;

	/* BOs, userptrs and VMAs are created only in the context of their process. */
	if (call->task != current->group_leader)
		return -EBADF;
	ret = amdgpu_criu_restore(call, &plan.in);
	for (u32 i = 0; i < plan.num_devices; i++)
		if (plan.devices[i].drm_file)
			fput(plan.devices[i].drm_file);
	kvfree(plan.svm_areas);
	criu_plan_free(call, &plan);
	amdgpu_criu_input_free(&plan.in);
	return ret;
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
