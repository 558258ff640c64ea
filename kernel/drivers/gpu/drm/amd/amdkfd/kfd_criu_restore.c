// SPDX-License-Identifier: GPL-2.0 OR MIT
/* RESTORE: makes a plan of the blob and applies it, or undoes all of it. mmap() until RESUME. */
#include <linux/file.h>
#include <linux/mm.h>

#include "kfd_criu.h"
#include "kfd_events.h"
#include "kfd_svm.h"

static_assert(KFD_CRIU_DEVICES_MAX == MAX_GPU_INSTANCE);
static_assert(KFD_CRIU_QUEUES_MAX == KFD_MAX_NUM_OF_QUEUES_PER_PROCESS);

/* Return: true if the process has opened /dev/kfd and has no other state. */
static bool kfd_criu_is_fresh(void *data)
{
	const struct kfd_criu_plan *plan = data;
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
	mutex_lock(&p->event_mutex);
	fresh = !p->signal_page && !kfd_get_num_events(p);
	mutex_unlock(&p->event_mutex);
	svm_range_get_info(p, &num_svms, &unused);
	return fresh && !p->queues_paused && !p->criu_pending && !p->debug_trap_enabled &&
	       !atomic_read(&p->kfd_sigbus_delay_ms) &&
	       p->runtime_info.runtime_state == DEBUG_RUNTIME_STATE_DISABLED &&
	       p->context_id == KFD_CONTEXT_ID_PRIMARY && ida_is_empty(&p->id_table) && !num_svms;
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
 * mmap() between RESTORE and RESUME. KFD maps doorbells only as a whole. A restore maps the
 * remaining parts of a mapping that the process has split.
 */
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
