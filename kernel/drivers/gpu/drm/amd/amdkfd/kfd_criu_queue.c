// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: Queues
 *
 * Carried: compute (PM4, AQL) and SDMA queues, also by engine and for XGMI: id, MQDs and control
 * stacks of all XCCs, wave-save area, doorbell, engine, percentage, priority, CU mask, GWS; also
 * inactive, with packets in the ring, or without ring.
 *
 * Not carried: queues that were reset, or that a debugger has suspended; queues of GPUs without
 * compute wave save/restore.
 */
#include "kfd_criu.h"
#include "kfd_device_queue_manager.h"
#include "kfd_mqd_manager.h"

static u32 kfd_criu_queue_type(const struct queue_properties *properties)
{
	if (properties->type == KFD_QUEUE_TYPE_SDMA)
		return KFD_IOC_QUEUE_TYPE_SDMA;
	if (properties->type == KFD_QUEUE_TYPE_SDMA_XGMI)
		return KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
	if (properties->format == KFD_QUEUE_FORMAT_AQL)
		return KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	return KFD_IOC_QUEUE_TYPE_COMPUTE;
}

static const char *kfd_criu_queue_uncarriable(const struct queue *q,
					      const struct kfd_criu_mqds *mqds)
{
	const struct queue_properties *properties = &q->properties;

	if (properties->type != KFD_QUEUE_TYPE_COMPUTE && properties->type != KFD_QUEUE_TYPE_SDMA &&
	    properties->type != KFD_QUEUE_TYPE_SDMA_XGMI)
		return "a queue of unknown type";
	if (!kfd_criu_handles_mqds(q->device, mqds))
		return "a queue on several graphics cores";
	if (!mqds->layout)
		return "a queue of a GPU generation that is not known yet";
	if (!q->device->kfd->cwsr_enabled)
		return "a queue of a GPU without compute wave save/restore";
	if (properties->is_reset)
		return "a queue that was reset";
	if (properties->is_suspended)
		return "a queue suspended by a debugger";
	return NULL;
}

static u32 kfd_criu_queue_flags(const struct queue *q)
{
	const struct queue_properties *properties = &q->properties;
	u32 flags = 0;

	if (q->gws)
		flags |= KFD_CRIU_QUEUE_GWS;
	if (properties->is_user_cu_masked)
		flags |= KFD_CRIU_QUEUE_CU_MASK;
	if (!properties->queue_address)
		flags |= KFD_CRIU_QUEUE_NO_RING;
	if (properties->type == KFD_QUEUE_TYPE_COMPUTE &&
	    properties->ctx_save_restore_area_address && properties->wptr_bo &&
	    !properties->cwsr_bo)
		flags |= KFD_CRIU_QUEUE_CWSR_IN_SVM;
	return flags;
}

static void kfd_criu_describe_queue(const struct kfd_process_device *pdd, const struct queue *q,
				    struct kfd_criu_queue_record *record)
{
	const struct queue_properties *properties = &q->properties;
	const struct kfd_node *node = pdd->dev;
	u32 first = amdgpu_doorbell_index_on_bar(node->adev, pdd->qpd.proc_doorbells, 0,
						 node->kfd->device_info.doorbell_size);

	*record = (struct kfd_criu_queue_record) {
		.gpu_id = pdd->user_gpu_id,
		.queue_id = properties->queue_id,
		.type = kfd_criu_queue_type(properties),
		.flags = kfd_criu_queue_flags(q),
		.ring_base = properties->queue_address,
		.ring_size = properties->queue_size,
		.metadata_size = properties->metadata_queue_size,
		.read_ptr = (uintptr_t)properties->read_ptr,
		.write_ptr = (uintptr_t)properties->write_ptr,
		.eop_addr = properties->eop_ring_buffer_address,
		.ctx_addr = properties->ctx_save_restore_area_address,
		.eop_size = properties->eop_ring_buffer_size,
		.ctx_size = properties->ctx_save_restore_area_size,
		.ctl_stack_size = properties->ctl_stack_size,
		.percent = properties->queue_percent,
		.priority = properties->priority,
		.pm4_target_xcc = properties->pm4_target_xcc,
		.doorbell_id = q->doorbell_id,
		/* as pqm_create_queue() returns it */
		.doorbell_offset = (properties->doorbell_off - first) * sizeof(u32),
		.sdma_id = properties->type == KFD_QUEUE_TYPE_COMPUTE ? 0 :
			   kfd_criu_saved_sdma_id(q),
	};
}

static bool kfd_criu_queue_needs_cus(const struct queue *q, const struct kfd_criu_mqds *mqds)
{
	struct queue_properties to = q->properties;

	for (u32 i = 0; i < mqds->num; i++) {
		const void *mqd = q->mqd + i * mqds->mm->mqd_stride(mqds->mm, &to);

		if (kfd_criu_mqd_masks_cus(mqds->layout, mqd) ||
		    kfd_criu_mqd_has_waves(mqds->layout, mqd, to.ctl_stack_size))
			return true;
	}
	return false;
}

static int kfd_criu_dump_queue(struct criu_dump *dump, const struct kfd_process_device *pdd,
			       struct queue *q)
{
	struct device_queue_manager *dqm = q->device->dqm;
	const struct kfd_criu_mqds mqds = kfd_criu_mqds_of(q->device, q->properties.type);
	struct kfd_criu_queue_record record;
	const char *why = kfd_criu_queue_uncarriable(q, &mqds);
	void *mqd, *stack;
	u32 unused;
	int ret;

	if (why)
		return criu_refuse_state(dump->call, "%s (GPU %u, queue %u)", why,
					 pdd->user_gpu_id, q->properties.queue_id);
	kfd_criu_describe_queue(pdd, q, &record);
	record.mqd_size = kfd_criu_mqd_size(mqds.layout) * mqds.num;
	if (kfd_criu_queue_needs_cus(q, &mqds))
		kfd_criu_active_cus(pdd->dev, &record.active_cus);
	ret = pqm_get_queue_checkpoint_info(&dump->p->pqm, record.queue_id, &unused,
					    &record.mqd_stack_size);
	if (ret)
		return ret;
	criu_writer_record(&dump->writer, KFD_CRIU_QUEUE, &record);
	mqd = criu_writer_tail(&dump->writer, record.mqd_size);
	stack = criu_writer_tail(&dump->writer, record.mqd_stack_size);
	dump->info.num_queues++;
	/* A zero-length tail may be NULL. */
	if (!mqd || (!stack && record.mqd_stack_size))
		return 0;
	ret = dqm->ops.checkpoint_mqd(dqm, q, mqd, stack);
	if (ret)
		return criu_refuse(dump->call, ret, "queue %u: cannot read its MQD: %d",
				   record.queue_id, ret);
	kfd_criu_mqd_strip(mqds.layout, mqd, mqds.num);
	if (record.mqd_stack_size)
		kfd_criu_mqd_strip_stacks(mqds.layout, mqd, stack, mqds.num,
					  record.mqd_stack_size / mqds.num);
	return 0;
}

static int kfd_criu_dump_queues(struct criu_dump *dump)
{
	struct kfd_process *p = dump->p;
	struct queue *q;
	int ret = 0;

	for (u32 i = 0; i < p->n_pdds; i++)
		list_for_each_entry(q, &p->pdds[i]->qpd.queues_list, list)
			if (!ret)
				ret = kfd_criu_dump_queue(dump, p->pdds[i], q);
	return ret;
}

/* The queue is evicted, so neither the firmware nor the GPU reads its MQD. */
static void kfd_criu_load_mqd(const struct kfd_criu_plan_queue *queue, struct queue *q,
			      void *scratch)
{
	const struct kfd_criu_queue_record *record = &queue->record;
	const struct kfd_criu_mqds mqds = kfd_criu_mqds_of(q->device, q->properties.type);
	struct device_queue_manager *dqm = q->device->dqm;
	struct mqd_manager *mm = mqds.mm;

	dqm_lock(dqm);
	mm->init_mqd(mm, &q->mqd, q->mqd_mem_obj, &q->gart_mqd_addr, &q->properties);
	mm->checkpoint_mqd(mm, q->mqd, scratch, scratch + record->mqd_size);
	mm->restore_mqd(mm, &q->mqd, q->mqd_mem_obj, &q->gart_mqd_addr, &q->properties, scratch,
			queue->stack, record->mqd_stack_size);
	/* restore_mqd() sets only a part of the doorbell fields. */
	mm->update_mqd(mm, q->mqd, &q->properties, NULL);
	/* At last: update_mqd() sets a word that also contains the place in an IB. */
	for (u32 i = 0; i < mqds.num; i++)
		kfd_criu_mqd_merge(mqds.layout, q->mqd + i * mm->mqd_stride(mm, &q->properties),
				   queue->mqd + i * (record->mqd_size / mqds.num), 1);
	amdgpu_device_flush_hdp(q->device->adev, NULL);
	dqm_unlock(dqm);
}

/* Another process may take the SDMA queue that was found to be free. */
static int kfd_criu_create_with_free_id(struct criu_plan *plan, struct kfd_criu_plan_queue *queue,
					struct queue_properties *properties, void *scratch)
{
	const struct kfd_criu_queue_record *record = &queue->record;
	struct kfd_criu_queue_priv_data ids = {
		.q_id = record->queue_id,
		.doorbell_id = record->doorbell_id,
		.ctl_stack_size = record->mqd_stack_size,
	};
	struct kfd_node *node = queue->device->pdd->dev;
	int attempts = KFD_MAX_SDMA_QUEUES;
	u32 doorbell_offset, queue_id;
	int ret;

	do {
		if (properties->type != KFD_QUEUE_TYPE_COMPUTE) {
			ret = kfd_criu_find_sdma_id(node, record, &ids.sdma_id);
			if (ret)
				return criu_refuse(plan->call, ret,
						   "all SDMA queues of its engine of GPU %u are in use",
						   node->id);
		}
		ret = pqm_create_queue(&plan->p->pqm, node, properties, &queue_id, &ids, scratch,
				       queue->stack, &doorbell_offset);
	} while (ret == -EBUSY && properties->type != KFD_QUEUE_TYPE_COMPUTE && --attempts);
	return ret;
}

/* Takes the paths of AMDKFD_IOC_CREATE_QUEUE and AMDKFD_IOC_ALLOC_QUEUE_GWS. */
static int kfd_criu_apply_queue(struct criu_plan *plan, void *entry)
{
	void *scratch __free(kvfree) = NULL;
	const struct kfd_criu_queue_record *record = entry;
	struct kfd_criu_plan_queue *queue = entry;
	struct kfd_process_device *pdd = queue->device->pdd;
	struct queue_properties properties;
	int ret = kfd_criu_queue_properties(record, &properties);

	if (ret)
		return ret;
	scratch = kvzalloc((size_t)record->mqd_size + record->mqd_stack_size, GFP_KERNEL_ACCOUNT);
	if (!scratch)
		return -ENOMEM;
	ret = kfd_queue_acquire_buffers(pdd, &properties);
	if (ret)
		return ret;
	ret = kfd_criu_create_with_free_id(plan, queue, &properties, scratch);
	if (ret) {
		kfd_queue_unref_bo_vas(pdd, &properties);
		kfd_queue_release_buffers(pdd, &properties);
		return ret;
	}
	kfd_criu_load_mqd(queue, pqm_get_user_queue(&plan->p->pqm, record->queue_id), scratch);
	if (record->flags & KFD_CRIU_QUEUE_GWS)
		ret = pqm_set_gws(&plan->p->pqm, record->queue_id, pdd->dev->gws);
	return ret;
}

static void kfd_criu_undo_queue(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_queue_record *record = entry;

	if (pqm_get_user_queue(&plan->p->pqm, record->queue_id))
		pqm_destroy_queue(&plan->p->pqm, record->queue_id);
}

/* KFD inserts a new queue at the head of its list, so the last queue is created first. */
const struct criu_kind kfd_criu_queues = {
	.type = KFD_CRIU_QUEUE,
	.subject = "queue %llu",
	CRIU_KIND(queues, struct kfd_criu_plan_queue, record.queue_id),
	.tails = {
		CRIU_KIND_TAIL(struct kfd_criu_plan_queue, mqd_size, mqd, u8),
		CRIU_KIND_TAIL(struct kfd_criu_plan_queue, mqd_stack_size, stack, u8),
	},
	.unique = { CRIU_UNIQUE_ID, { kfd_criu_doorbell_range, "its doorbell occurs twice" } },
	.backwards = true,
	.dump = kfd_criu_dump_queues,
	.fault = kfd_criu_queue_fault,
	.check = kfd_criu_check_queue,
	.apply = kfd_criu_apply_queue,
	.undo = kfd_criu_undo_queue,
};

/* Takes the references of queues to restored SVM ranges. @p: the process; its mutex is held. */
int kfd_criu_queues_resume(struct kfd_process *p, const struct criu_call *call)
{
	struct queue *q;
	u64 size;
	int ret;

	for (u32 i = 0; i < p->n_pdds; i++) {
		list_for_each_entry(q, &p->pdds[i]->qpd.queues_list, list) {
			struct queue_properties *to = &q->properties;

			if (!to->cwsr_in_svm)
				continue;
			size = kfd_criu_ctx_total(p->pdds[i], to->ctx_save_restore_area_size);
			ret = kfd_queue_buffer_svm_get(p->pdds[i],
						       to->ctx_save_restore_area_address, size);
			if (ret)
				return criu_refuse(call, ret,
						   "queue %u: its wave-save area is not mapped",
						   to->queue_id);
			to->cwsr_in_svm = false;
		}
	}
	return 0;
}
