// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: SVM ranges
 *
 * Carried: all attributes. CRIU saves and restores the pages as memory of the process: those in
 * VRAM migrate to system memory when CRIU reads them, and again as the attributes say.
 */
#include "kfd_criu.h"
#include "kfd_svm.h"

/* Preferred location, prefetch location, flags, granularity. Access by each GPU follows. */
#define KFD_CRIU_SVM_COMMON 4
#define KFD_CRIU_SVM_ATTRS_MAX 512 /* far above one for each GPU */

#define KFD_CRIU_SVM_TIME (30 * HZ) /* limit of the tries to register one range */

/* A range that RESUME registers, because its VMA does not exist yet */
struct kfd_criu_pending {
	struct kfd_criu_pending *next;
	u64 start;
	u64 size;
	u32 num_attrs;
	struct kfd_ioctl_svm_attribute attrs[];
};

/* Finds the range at or after a page: 1, or 0. Holders of the lock may wait for memory. */
static int kfd_criu_next_svm(struct kfd_process *p, unsigned long page, struct criu_range *extent)
{
	const struct interval_tree_node *node;

	if (mutex_lock_interruptible(&p->svms.lock))
		return -ERESTARTSYS;
	node = interval_tree_iter_first(&p->svms.objects, page, ULONG_MAX);
	if (node)
		*extent = (struct criu_range) { node->start, node->last - node->start + 1 };
	mutex_unlock(&p->svms.lock);
	return !!node;
}

/* Reads the attributes that AMDKFD_IOC_SVM with KFD_IOCTL_SVM_OP_GET_ATTR can return. */
static int kfd_criu_dump_extent(struct criu_dump *dump, const struct criu_range *extent)
{
	struct kfd_ioctl_svm_attribute attrs[KFD_CRIU_SVM_COMMON + MAX_GPU_INSTANCE] = {};
	struct kfd_process *p = dump->p;
	const u32 num = KFD_CRIU_SVM_COMMON + p->n_pdds;
	struct kfd_criu_svm_record record = {
		.start = extent->start << PAGE_SHIFT,
		.size = extent->size << PAGE_SHIFT,
		.num_attrs = num,
	};
	int ret;

	attrs[0].type = KFD_IOCTL_SVM_ATTR_PREFERRED_LOC;
	attrs[1].type = KFD_IOCTL_SVM_ATTR_PREFETCH_LOC;
	attrs[2].type = KFD_IOCTL_SVM_ATTR_SET_FLAGS;
	attrs[3].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
	for (u32 i = 0; i < p->n_pdds; i++) {
		attrs[KFD_CRIU_SVM_COMMON + i].type = KFD_IOCTL_SVM_ATTR_ACCESS;
		attrs[KFD_CRIU_SVM_COMMON + i].value = p->pdds[i]->user_gpu_id;
	}
	ret = svm_range_get_attr(p, p->mm, extent->start, extent->size, num, attrs);
	if (ret)
		return criu_refuse(dump->call, ret, "SVM range %#llx+%#llx: cannot read: %d",
				   record.start, record.size, ret);
	criu_writer_record(&dump->writer, KFD_CRIU_SVM_RANGE, &record);
	criu_writer_tail_copy(&dump->writer, attrs, num * sizeof(*attrs));
	dump->info.num_svm_ranges++;
	return 0;
}

static int kfd_criu_dump_svm(struct criu_dump *dump)
{
	struct kfd_process *p = dump->p;
	struct criu_range extent = {};
	int ret = 0, found = 0;

	if (!IS_ENABLED(CONFIG_HSA_AMD_SVM))
		return 0;
	/* A worker splits and merges ranges after the VMAs have changed. */
	flush_work(&p->svms.deferred_list_work);
	while (!ret && (found = kfd_criu_next_svm(p, extent.start + extent.size, &extent)) > 0)
		ret = kfd_criu_dump_extent(dump, &extent);
	return ret ?: found;
}

/* Repeats KFD_IOCTL_SVM_OP_SET_ATTR as user mode does, if the memory changes meanwhile. */
static int kfd_criu_set_svm(struct kfd_process *p, struct kfd_criu_pending *svm)
{
	int ret = amdgpu_criu_fault_in(p->mm, svm->start, svm->size, false);
	/* Not before: pages that are swapped out take their time. */
	const unsigned long end = jiffies + KFD_CRIU_SVM_TIME;

	if (ret)
		return ret;
	for (;;) {
		ret = svm_range_set_attr(p, p->mm, svm->start >> PAGE_SHIFT,
					 svm->size >> PAGE_SHIFT, svm->num_attrs, svm->attrs);
		if (ret != -EAGAIN || time_after(jiffies, end) || fatal_signal_pending(current))
			return ret;
		schedule_timeout_killable(1);
	}
}

/* Registers the SVM ranges, whose VMAs are restored. The caller holds a reference of p->mm. */
int kfd_criu_svm_resume(struct kfd_process *p, const struct criu_call *call)
{
	if (!IS_ENABLED(CONFIG_HSA_AMD_SVM))
		return 0;
	for (struct kfd_criu_pending *svm = p->criu_pending; svm; svm = svm->next) {
		const int ret = kfd_criu_set_svm(p, svm);

		if (ret)
			return criu_refuse(call, ret, "SVM range %#llx+%#llx: cannot restore: %d",
					   svm->start, svm->size, ret);
	}
	kfd_criu_forget_svm(p);
	return 0;
}

/* Each GPU that an attribute refers to must be a GPU of the plan. It may be missing. */
static bool kfd_criu_svm_attr_ok(struct criu_plan *plan, const struct kfd_ioctl_svm_attribute *attr)
{
	if (attr->type > KFD_IOCTL_SVM_ATTR_NO_ACCESS)
		return attr->type == KFD_IOCTL_SVM_ATTR_SET_FLAGS ||
		       attr->type == KFD_IOCTL_SVM_ATTR_GRANULARITY;
	if (attr->type < KFD_IOCTL_SVM_ATTR_ACCESS &&
	    (attr->value == KFD_IOCTL_SVM_LOCATION_SYSMEM ||
	     attr->value == KFD_IOCTL_SVM_LOCATION_UNDEFINED))
		return true;
	return kfd_criu_plan_device(plan, attr->value);
}

static const char *kfd_criu_svm_fault(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_svm_record *record = entry;
	const struct kfd_criu_plan_svm *svm = entry;

	if (!IS_ENABLED(CONFIG_HSA_AMD_SVM))
		return NULL; /* the check refuses any range */
	if (record->pad || !record->start || !record->size || !PAGE_ALIGNED(record->start) ||
	    !PAGE_ALIGNED(record->size) || record->num_attrs > KFD_CRIU_SVM_ATTRS_MAX)
		return "number of attributes, address, size or pad";
	for (u32 i = 0; i < record->num_attrs; i++)
		if (!kfd_criu_svm_attr_ok(plan, &svm->attrs[i]))
			return "attributes";
	return NULL;
}

static int kfd_criu_check_svm(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_plan_svm *svm = entry;
	const struct kfd_criu_plan_device *on;

	if (!IS_ENABLED(CONFIG_HSA_AMD_SVM))
		return criu_refuse(plan->call, -EOPNOTSUPP,
				   "this kernel is built without CONFIG_HSA_AMD_SVM");
	for (u32 i = 0; i < svm->record.num_attrs; i++) {
		const u32 type = svm->attrs[i].type;

		on = kfd_criu_plan_device(plan, svm->attrs[i].value);
		/* Later types deny access, or refer to no GPU. */
		if (!on || type >= KFD_IOCTL_SVM_ATTR_NO_ACCESS)
			continue;
		if (!on->pdd && type < KFD_IOCTL_SVM_ATTR_ACCESS)
			return criu_refuse(plan->call, -ENODEV, "its location, GPU %u, is missing",
					   on->record.gpu_id);
		if (on->pdd && !KFD_IS_SVM_API_SUPPORTED(on->pdd->dev->adev))
			return criu_refuse(plan->call, -ENODEV, "GPU %u has no SVM",
					   on->pdd->dev->id);
	}
	return 0;
}

/* Merges adjacent ranges. */
static int kfd_criu_merge_svms(struct criu_plan *plan)
{
	struct criu_range *ranges = plan->svm_areas;
	u32 last = 0;

	for (u32 i = 1; i < plan->num_svms; i++) {
		if (ranges[i].start == ranges[last].start + ranges[last].size)
			ranges[last].size += ranges[i].size;
		else
			ranges[++last] = ranges[i];
	}
	plan->num_svm_areas = plan->num_svms ? last + 1 : 0;
	return 0;
}

/*
 * Omits access by a GPU that is missing or has no SVM: with XNACK, a range has ACCESS of all GPUs,
 * also of those that the process has no VM on. Omits UNDEFINED. Adds CLR_FLAGS, which GET_ATTR
 * does not return.
 */
static u32 kfd_criu_copy_attrs(struct kfd_process *p, const struct kfd_criu_plan_svm *svm,
			       struct kfd_ioctl_svm_attribute *to)
{
	u32 set_flags = 0, num = 0;

	for (u32 i = 0; i < svm->record.num_attrs; i++) {
		const struct kfd_ioctl_svm_attribute *attr = &svm->attrs[i];
		const int gpu = kfd_process_gpuidx_from_gpuid(p, attr->value);

		if ((attr->type >= KFD_IOCTL_SVM_ATTR_ACCESS &&
		     attr->type <= KFD_IOCTL_SVM_ATTR_NO_ACCESS &&
		     (gpu < 0 || !test_bit(gpu, p->svms.bitmap_supported))) ||
		    (attr->type == KFD_IOCTL_SVM_ATTR_PREFETCH_LOC &&
		     attr->value == KFD_IOCTL_SVM_LOCATION_UNDEFINED))
			continue;
		if (attr->type == KFD_IOCTL_SVM_ATTR_SET_FLAGS)
			set_flags |= attr->value;
		to[num++] = *attr;
	}
	to[num].type = KFD_IOCTL_SVM_ATTR_CLR_FLAGS;
	to[num++].value = ~set_flags;
	return num;
}

static int kfd_criu_apply_svm(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_plan_svm *svm = entry;
	struct kfd_criu_pending *pending;

	/* One more for CLR_FLAGS. */
	pending = kvzalloc_flex(*pending, attrs, svm->record.num_attrs + 1, GFP_KERNEL_ACCOUNT);
	if (!pending)
		return -ENOMEM;
	pending->start = svm->record.start;
	pending->size = svm->record.size;
	pending->num_attrs = kfd_criu_copy_attrs(plan->p, svm, pending->attrs);
	pending->next = plan->p->criu_pending;
	plan->p->criu_pending = pending;
	return 0;
}

/* Frees what RESUME registers. The session no longer holds the restored process. */
void kfd_criu_forget_svm(struct kfd_process *p)
{
	struct kfd_criu_pending *pending;

	while ((pending = p->criu_pending)) {
		p->criu_pending = pending->next;
		kvfree(pending);
	}
}

static void kfd_criu_undo_svms(struct criu_plan *plan)
{
	kfd_criu_forget_svm(plan->p);
}

/* Added at the head of a list, so the last range is applied first. */
const struct criu_kind kfd_criu_svms = {
	CRIU_KIND(KFD_CRIU_SVM_RANGE, svms, struct kfd_criu_plan_svm, record.start),
	.subject = "SVM range %#llx", .id64 = true,
	.extent = offsetof(struct kfd_criu_plan_svm, record.size), .backwards = true,
	.unique = { CRIU_UNIQUE_EXTENT_KEPT(svm_areas) },
	.tails = { CRIU_KIND_TAIL(struct kfd_criu_plan_svm, num_attrs, attrs,
				  struct kfd_ioctl_svm_attribute) },
	.dump = kfd_criu_dump_svm,
	.fault = kfd_criu_svm_fault, .check = kfd_criu_check_svm, .check_all = kfd_criu_merge_svms,
	.apply = kfd_criu_apply_svm, .undo_all = kfd_criu_undo_svms,
};
