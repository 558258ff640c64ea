// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * First pass of a restore: parses the blob to a plan. Refuses dangling references,
 * duplicates, and anything that the ordinary ioctls would refuse. Creates nothing.
 */
#include <linux/cleanup.h>
#include <linux/file.h>
#include <linux/slab.h>

#include "kfd_criu.h"

static_assert(KFD_CRIU_DEVICES_MAX == MAX_GPU_INSTANCE);
static_assert(KFD_CRIU_QUEUES_MAX == KFD_MAX_NUM_OF_QUEUES_PER_PROCESS);

/* Looks up a GPU of the plan by the id that the process uses. Returns the GPU, or NULL. */
struct kfd_criu_plan_device *kfd_criu_plan_device(struct kfd_criu_plan *plan, u32 gpu_id)
{
	for (u32 i = 0; i < plan->num_devices; i++)
		if (plan->devices[i].record.gpu_id == gpu_id)
			return &plan->devices[i];
	return NULL;
}

/* Checks that the ids of entries of a plan are unique */
int kfd_criu_check_unique(struct kfd_criu_plan *plan, const char *what, const void *entries,
			  u32 num, size_t size, u64 (*id_of)(const void *entry))
{
	struct criu_id *ids __free(kvfree) = kvcalloc(num, sizeof(*ids), GFP_KERNEL_ACCOUNT);
	struct criu_id_set set = { .ids = ids, .room = num };
	u64 duplicate, id;

	if (num && !ids)
		return -ENOMEM;
	for (u32 i = 0; i < num; i++) {
		id = id_of(entries + i * size);
		if (id != KFD_CRIU_NO_ID)
			criu_id_set_add(&set, id, i);
	}
	if (!criu_id_set_seal(&set, &duplicate))
		return 0;
	return criu_refuse(plan->call, -EBADMSG, "%s %#llx is there twice", what, duplicate);
}

static const struct criu_list kfd_criu_lists[] = {
	CRIU_LIST(KFD_CRIU_DEVICE, struct kfd_criu_plan, devices, num_devices,
		  struct kfd_criu_plan_device),
	CRIU_LIST(KFD_CRIU_BO, struct kfd_criu_plan, bos, num_bos, struct kfd_criu_plan_bo,
		  CRIU_LIST_TAIL(struct kfd_criu_plan_bo, num_mapped, mapped, __u32)),
	CRIU_LIST(KFD_CRIU_EVENT_PAGE, struct kfd_criu_plan, pages, num_pages,
		  struct kfd_criu_plan_page,
		  CRIU_LIST_TAIL(struct kfd_criu_plan_page, num_slots, slots, __u64)),
	CRIU_LIST(KFD_CRIU_EVENT, struct kfd_criu_plan, events, num_events,
		  struct kfd_criu_event_record),
	CRIU_LIST(KFD_CRIU_QUEUE, struct kfd_criu_plan, queues, num_queues,
		  struct kfd_criu_plan_queue,
		  CRIU_LIST_TAIL(struct kfd_criu_plan_queue, mqd_size, mqd, __u8),
		  CRIU_LIST_TAIL(struct kfd_criu_plan_queue, mqd_stack_size, stack, __u8)),
	CRIU_LIST(KFD_CRIU_SVM_RANGE, struct kfd_criu_plan, svms, num_svms,
		  struct kfd_criu_plan_svm,
		  CRIU_LIST_TAIL(struct kfd_criu_plan_svm, num_attrs, attrs,
				 struct kfd_criu_svm_attr)),
};

/*
 * Makes a checked plan of the blob. @plan: with call, process, session and blob; the mutex of the
 * process is held. The caller frees the plan in either case. Returns 0, and applying the plan
 * fails only without resources; or an error. An error in the blob is logged.
 */
int kfd_criu_plan_make(struct kfd_criu_plan *plan, const struct amdgpu_criu_state *args)
{
	int ret = criu_lists_load(plan->call, plan->blob, kfd_criu_lists,
				  ARRAY_SIZE(kfd_criu_lists), plan);

	criu_blob_get(plan->blob, KFD_CRIU_PROCESS, &plan->process, sizeof(plan->process));
	if (!ret)
		ret = kfd_criu_check_process(plan);
	if (!ret)
		ret = kfd_criu_check_devices(plan, args);
	if (!ret)
		ret = kfd_criu_check_bos(plan, args);
	if (!ret)
		ret = kfd_criu_check_events(plan);
	if (!ret)
		ret = kfd_criu_check_svm(plan);
	if (!ret)
		ret = kfd_criu_check_queues(plan);
	return ret;
}

/* Frees a plan */
void kfd_criu_plan_free(struct kfd_criu_plan *plan)
{
	for (u32 i = 0; i < plan->num_devices; i++)
		if (plan->devices[i].drm_file)
			fput(plan->devices[i].drm_file);
	criu_lists_free(kfd_criu_lists, ARRAY_SIZE(kfd_criu_lists), plan);
	kvfree(plan->svm_areas);
}
