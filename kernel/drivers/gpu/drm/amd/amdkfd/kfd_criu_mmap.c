// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * mmap() of /dev/kfd between RESTORE and RESUME. KFD maps doorbells only as a whole, and the event
 * page only from its start. A restore maps the remaining parts of a mapping that the process has
 * split.
 */
#include <linux/mm.h>

#include "amdgpu.h"
#include "kfd_criu.h"
#include "kfd_events.h"

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

/*
 * Maps parts of doorbells, the MMIO page or the event page. Does not change
 * kfd_process.signal_mapped_size, which RESTORE has set.
 */
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
