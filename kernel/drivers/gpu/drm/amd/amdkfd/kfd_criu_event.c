// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: Events
 *
 * Carried: events of every type, with id, age and data; the page of their signal slots, if it is
 * in a BO.
 */
#include "kfd_criu.h"
#include "kfd_events.h"

static void kfd_criu_dump_event_page(struct criu_dump *dump)
{
	const struct kfd_criu_event_page_record record = {
		.handle = dump->p->signal_handle,
		.mapped_size = dump->p->signal_mapped_size,
	};

	criu_writer_record(&dump->writer, KFD_CRIU_EVENT_PAGE, &record);
}

static int kfd_criu_dump_events(struct criu_dump *dump)
{
	struct kfd_process *p = dump->p;
	struct kfd_criu_event_record record;
	struct kfd_event *ev;
	u32 id;

	/* Threads use events without kfd_process.mutex, and hold this one as they read memory. */
	if (mutex_lock_interruptible(&p->event_mutex))
		return -ERESTARTSYS;
	if (p->signal_page)
		kfd_criu_dump_event_page(dump);
	idr_for_each_entry(&p->event_idr, ev, id) {
		spin_lock(&ev->lock);
		record = (struct kfd_criu_event_record) {
			.event_id = ev->event_id,
			.type = ev->type,
			.flags = (ev->auto_reset ? KFD_CRIU_EVENT_AUTO_RESET : 0) |
				 (ev->signaled ? KFD_CRIU_EVENT_SIGNALED : 0),
			.age = ev->event_age,
		};
		if (ev->type == KFD_EVENT_TYPE_MEMORY)
			record.memory = ev->memory_exception_data;
		else if (ev->type == KFD_EVENT_TYPE_HW_EXCEPTION)
			record.hw = ev->hw_exception_data;
		spin_unlock(&ev->lock);
		criu_writer_record(&dump->writer, KFD_CRIU_EVENT, &record);
		dump->info.num_events++;
	}
	mutex_unlock(&p->event_mutex);
	return 0;
}

static const struct kfd_criu_plan_bo *kfd_criu_find_bo(const struct criu_plan *plan, u64 handle)
{
	for (u32 i = 0; i < plan->num_bos; i++)
		if (MAKE_HANDLE(plan->bos[i].record.gpu_id, plan->bos[i].record.handle) == handle)
			return &plan->bos[i];
	return NULL;
}

/* Makes the checks of kfd_kmap_event_page() and kfd_event_page_set(). */
static const char *kfd_criu_page_fault(struct criu_plan *plan, void *entry)
{
	const u64 limit = KFD_SIGNAL_EVENT_LIMIT * sizeof(u64);
	const struct kfd_criu_event_page_record *page = entry;
	const struct kfd_criu_plan_bo *bo;

	if (page->pad)
		return "pad is not zero";
	if (!page->handle) {
		if (page->num_slots != KFD_SIGNAL_EVENT_LIMIT)
			return "number of slots";
		if (!page->mapped_size || page->mapped_size > limit ||
		    page->mapped_size % sizeof(u64))
			return "mapped size";
		return NULL;
	}
	bo = kfd_criu_find_bo(plan, page->handle);
	if (!bo || !(bo->record.alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT))
		return "not in a GTT BO";
	if (page->num_slots || bo->record.size < limit || page->mapped_size != bo->record.size)
		return "does not fit its BO";
	return NULL;
}

static const char *kfd_criu_event_fault(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_event_record *record = entry;

	if (record->flags & ~(KFD_CRIU_EVENT_AUTO_RESET | KFD_CRIU_EVENT_SIGNALED))
		return "unknown flags";
	if (record->pad)
		return "pad is not zero";
	if (!record->age)
		return "age";
	if (record->type != KFD_EVENT_TYPE_SIGNAL && record->type != KFD_EVENT_TYPE_DEBUG)
		/* Walking an IDR that has the last id, INT_MAX, warns. */
		return record->event_id < KFD_FIRST_NONSIGNAL_EVENT_ID ||
		       record->event_id >= KFD_LAST_NONSIGNAL_EVENT_ID ? "id" : NULL;
	if (!plan->num_pages)
		return "has no page for its slot";
	if (!record->event_id || record->event_id >= KFD_SIGNAL_EVENT_LIMIT ||
	    record->event_id >= plan->pages->record.mapped_size / sizeof(u64))
		return "id";
	return NULL;
}

/* Kernels before 7.3 allocate a page if user mode provides none. */
static int kfd_criu_check_page(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_event_page_record *page = entry;

	return page->handle ? 0 : criu_refuse(plan->call, -EOPNOTSUPP,
					      "this kernel allocates no page");
}

/* Takes the path of AMDKFD_IOC_CREATE_EVENT with an event page. */
static int kfd_criu_apply_page(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_event_page_record *page = entry;

	return kfd_kmap_event_page(plan->p, page->handle);
}

static void kfd_criu_undo_page(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_event_page_record *record = entry;
	const struct kfd_criu_plan_bo *bo;
	struct kfd_process *p = plan->p;

	if (!p->signal_page)
		return;
	mutex_lock(&p->event_mutex);
	WRITE_ONCE(p->signal_page, NULL);
	p->signal_mapped_size = 0;
	p->signal_handle = 0;
	mutex_unlock(&p->event_mutex);
	/* The interrupt worker reads the page under RCU. */
	synchronize_rcu();
	bo = kfd_criu_find_bo(plan, record->handle);
	if (bo)
		amdgpu_amdkfd_gpuvm_unmap_bo_from_kernel(bo->mem);
}

const struct criu_kind kfd_criu_event_pages = {
	CRIU_KIND(KFD_CRIU_EVENT_PAGE, pages, struct kfd_criu_plan_page, record.handle),
	.subject = "event page",
	.tails = { CRIU_KIND_TAIL(struct kfd_criu_plan_page, num_slots, slots, __u64) },
	.fault = kfd_criu_page_fault, .check = kfd_criu_check_page,
	.apply = kfd_criu_apply_page, .undo = kfd_criu_undo_page,
};

/* Takes the path of AMDKFD_IOC_CREATE_EVENT, with the saved id of the event. */
static int kfd_criu_apply_event(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_event_record *record = entry;
	struct kfd_criu_event_priv_data data = {
		.event_id = record->event_id,
		.auto_reset = !!(record->flags & KFD_CRIU_EVENT_AUTO_RESET),
		.type = record->type,
		.signaled = !!(record->flags & KFD_CRIU_EVENT_SIGNALED),
	};

	if (record->type == KFD_EVENT_TYPE_MEMORY)
		data.memory_exception_data = record->memory;
	else if (record->type == KFD_EVENT_TYPE_HW_EXCEPTION)
		data.hw_exception_data = record->hw;
	return kfd_event_restore(plan->call->filp, plan->p, &data, record->age);
}

/* KFD looks at slots only after an interrupt, which the saved process may not have received. */
void kfd_criu_signal_events(struct kfd_process *p)
{
	for (u32 i = 0; i < p->n_pdds; i++)
		if (p->pdds[i]->drm_file)
			return kfd_signal_event_interrupt(p->pdds[i]->pasid, 0, 0, false);
}

static void kfd_criu_undo_event(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_event_record *record = entry;

	kfd_event_destroy(plan->p, record->event_id);
}

const struct criu_kind kfd_criu_events = {
	CRIU_KIND(KFD_CRIU_EVENT, events, struct kfd_criu_event_record, event_id),
	.subject = "event %llu", .unique = { CRIU_UNIQUE_ID },
	.dump = kfd_criu_dump_events,
	.fault = kfd_criu_event_fault,
	.apply = kfd_criu_apply_event, .undo = kfd_criu_undo_event,
};
