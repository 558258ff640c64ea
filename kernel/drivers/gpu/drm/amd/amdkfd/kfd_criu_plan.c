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

static int kfd_criu_plan_alloc(struct kfd_criu_plan *plan)
{
	int ret = 0;

	plan->devices = criu_blob_room(plan->blob, KFD_CRIU_DEVICE, sizeof(*plan->devices),
				       &plan->num_devices, &ret);
	plan->bos = criu_blob_room(plan->blob, KFD_CRIU_BO, sizeof(*plan->bos), &plan->num_bos,
				   &ret);
	plan->events = criu_blob_room(plan->blob, KFD_CRIU_EVENT, sizeof(*plan->events),
				      &plan->num_events, &ret);
	plan->queues = criu_blob_room(plan->blob, KFD_CRIU_QUEUE, sizeof(*plan->queues),
				      &plan->num_queues, &ret);
	plan->svms = criu_blob_room(plan->blob, KFD_CRIU_SVM_RANGE, sizeof(*plan->svms),
				    &plan->num_svms, &ret);
	return ret;
}

/* Parses records without a tail. The entry of the plan begins with the record. */
static void kfd_criu_parse_simple(struct kfd_criu_plan *plan)
{
	criu_blob_get_all(plan->blob, KFD_CRIU_PROCESS, &plan->process, 0, sizeof(plan->process));
	criu_blob_get_all(plan->blob, KFD_CRIU_DEVICE, plan->devices, sizeof(*plan->devices),
			  sizeof(plan->devices->record));
	criu_blob_get_all(plan->blob, KFD_CRIU_EVENT, plan->events, sizeof(*plan->events),
			  sizeof(*plan->events));
}

static int kfd_criu_parse_tailed(struct kfd_criu_plan *plan)
{
	struct criu_record record = {};
	u32 bo = 0, queue = 0, svm = 0;
	int ret = 0;

	while (!ret && criu_blob_next(plan->blob, &record)) {
		switch (record.desc->type) {
		case KFD_CRIU_BO:
			ret = kfd_criu_parse_bo(plan, &plan->bos[bo++], &record);
			break;
		case KFD_CRIU_EVENT_PAGE:
			ret = kfd_criu_parse_event_page(plan, &record);
			break;
		case KFD_CRIU_QUEUE:
			ret = kfd_criu_parse_queue(plan, &plan->queues[queue++], &record);
			break;
		case KFD_CRIU_SVM_RANGE:
			ret = kfd_criu_parse_svm(plan, &plan->svms[svm++], &record);
			break;
		}
	}
	return ret;
}

/*
 * Makes a checked plan of the blob. @plan: with call, process, session and blob; the mutex of the
 * process is held. The caller frees the plan in either case. Returns 0, and applying the plan
 * fails only without resources; or an error. An error in the blob is logged.
 */
int kfd_criu_plan_make(struct kfd_criu_plan *plan, const struct amdgpu_criu_state *args)
{
	int ret = kfd_criu_plan_alloc(plan);

	if (ret)
		return ret;
	kfd_criu_parse_simple(plan);
	ret = kfd_criu_parse_tailed(plan);
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
	kvfree(plan->devices);
	kvfree(plan->bos);
	kvfree(plan->events);
	kvfree(plan->queues);
	kvfree(plan->svms);
	kvfree(plan->svm_areas);
}
