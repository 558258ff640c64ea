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
#include "kfd_topology.h"

struct kfd_criu_mqds {
	struct mqd_manager *mm;
	const struct kfd_criu_mqd_layout *layout; /* NULL: this kernel does not save them */
	u32 num; /* one for each graphics core */
};

static struct kfd_criu_mqds kfd_criu_mqds_of(struct kfd_node *node, enum kfd_queue_type type)
{
	const bool cp = type == KFD_QUEUE_TYPE_COMPUTE;
	/* All that checkpoint_mqd() and restore_mqd() process, see restore_mqd_v12_1() */
	const u32 max = KFD_GC_VERSION(node) < IP_VERSION(12, 1, 0) ? KFD_CRIU_XCCS_MAX : 1;
	struct kfd_criu_mqds mqds = {
		.mm = node->dqm->mqd_mgrs[cp ? KFD_MQD_TYPE_CP : KFD_MQD_TYPE_SDMA],
		.layout = kfd_criu_mqd_layout(KFD_GC_VERSION(node), !cp),
		.num = cp ? NUM_XCC(node->xcc_mask) : 1,
	};

	if (mqds.num > max ||
	    (mqds.layout && (kfd_criu_mqd_size(mqds.layout) != mqds.mm->mqd_size ||
			     !mqds.mm->checkpoint_mqd || !mqds.mm->restore_mqd)))
		mqds.layout = NULL;
	return mqds;
}

/* Counts the CUs of each shader array. GPUs of one kind differ in which are harvested. */
static void kfd_criu_active_cus(const struct kfd_node *node, struct kfd_criu_cus *cus)
{
	const struct amdgpu_gfx *gfx = &node->adev->gfx;
	const u32 num_se = min_t(u32, gfx->config.max_shader_engines, KFD_MAX_NUM_SE);
	const u32 num_sh = min_t(u32, gfx->config.max_sh_per_se, KFD_MAX_NUM_SH_PER_SE);
	int xcc, i = 0;

	memset(cus, 0, sizeof(*cus));
	for_each_inst(xcc, node->xcc_mask) {
		if (i == KFD_CRIU_XCCS_MAX)
			break;
		kfd_criu_count_cus(KFD_GC_VERSION(node), gfx->cu_info.bitmap[xcc], num_se, num_sh,
				   cus->xcc[i++]);
	}
}

/* Checks a record and gets the properties of its queue, as AMDKFD_IOC_CREATE_QUEUE does. */
static int kfd_criu_queue_properties(const struct kfd_criu_queue_record *record,
				     struct queue_properties *properties)
{
	struct kfd_ioctl_create_queue_args args = {
		.ring_base_address = record->ring_base,
		.write_pointer_address = record->write_ptr,
		.read_pointer_address = record->read_ptr,
		.ring_size = record->ring_size,
		.gpu_id = record->gpu_id,
		.queue_type = record->type,
		.queue_percentage = record->percent | record->pm4_target_xcc << 8,
		.queue_priority = record->priority,
		.eop_buffer_address = record->eop_addr,
		.eop_buffer_size = record->eop_size,
		.ctx_save_restore_address = record->ctx_addr,
		.ctx_save_restore_size = record->ctx_size,
		.ctl_stack_size = record->ctl_stack_size,
		.metadata_ring_size = record->metadata_size,
	};
	int ret;

	if (record->ring_size > U32_MAX || record->metadata_size > U32_MAX ||
	    record->percent > U8_MAX || record->pm4_target_xcc > U8_MAX)
		return -EINVAL;
	*properties = (struct queue_properties) {};
	ret = kfd_set_queue_properties_from_user(properties, &args);
	properties->is_user_cu_masked = record->flags & KFD_CRIU_QUEUE_CU_MASK;
	properties->cwsr_in_svm = record->flags & KFD_CRIU_QUEUE_CWSR_IN_SVM;
	properties->no_ring = record->flags & KFD_CRIU_QUEUE_NO_RING;
	return ret;
}

static u64 kfd_criu_ctx_total(const struct kfd_process_device *pdd, u32 ctx_size)
{
	struct kfd_topology_device *topology = kfd_topology_device_by_id(pdd->dev->id);
	u64 debug_size = topology ? topology->node_props.debug_memory_size : 0;

	return PAGE_ALIGN((ctx_size + debug_size) * NUM_XCC(pdd->dev->xcc_mask));
}

static const char *kfd_criu_queue_fault(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_queue_record *record = entry;
	struct kfd_criu_plan_queue *queue = entry;
	const bool no_ring = record->flags & KFD_CRIU_QUEUE_NO_RING;
	struct queue_properties properties;
	struct kfd_criu_mqds mqds;
	struct kfd_node *node;

	queue->device = kfd_criu_plan_device(plan, record->gpu_id);
	if (!queue->device || !(queue->device->record.flags & KFD_CRIU_DEVICE_DOORBELLS))
		return "on a GPU without doorbells";
	node = queue->device->pdd->dev;
	if (record->queue_id >= KFD_MAX_NUM_OF_QUEUES_PER_PROCESS || record->pad ||
	    no_ring != !record->ring_base)
		return "id, ring or pad";
	/* See amdgpu_doorbell_index_on_bar(). */
	if (record->doorbell_id >= KFD_MAX_NUM_OF_QUEUES_PER_PROCESS ||
	    record->doorbell_offset !=
	    record->doorbell_id * round_up(node->kfd->device_info.doorbell_size, sizeof(u32)))
		return "doorbell";
	if (record->type > KFD_IOC_QUEUE_TYPE_SDMA_XGMI ||
	    kfd_criu_queue_properties(record, &properties))
		return "properties that AMDKFD_IOC_CREATE_QUEUE refuses";
	mqds = kfd_criu_mqds_of(node, properties.type);
	if (!mqds.layout)
		return NULL; /* the check refuses any queue */
	if (record->mqd_size != mqds.num * kfd_criu_mqd_size(mqds.layout))
		return "MQD size";
	if (properties.type == KFD_QUEUE_TYPE_COMPUTE) {
		if (record->ctl_stack_size != queue->device->record.ctl_stack_size ||
		    record->mqd_stack_size !=
		    mqds.num * kfd_criu_mqd_stack_size(mqds.layout, record->ctl_stack_size) ||
		    kfd_criu_mqd_check_bounds(mqds.layout, queue->mqd, mqds.num,
					      record->ctl_stack_size, record->ctx_size))
			return "control stack";
		if (properties.cwsr_in_svm &&
		    !criu_ranges_find(plan->svm_areas, plan->num_svm_areas, record->ctx_addr,
				      kfd_criu_ctx_total(queue->device->pdd, record->ctx_size)))
			return "its wave-save area is in no SVM range";
		if (kfd_criu_mqd_check_xccs(mqds.layout, queue->mqd, mqds.num,
					    record->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL))
			return "logical ids of XCCs";
	} else if (record->mqd_stack_size ||
		   (record->flags & (KFD_CRIU_QUEUE_CWSR_IN_SVM | KFD_CRIU_QUEUE_GWS))) {
		return "fields of a compute queue";
	}
	return NULL;
}

/* SDMA queues of one kind. Number N is queue N / num_engines of engine first + N % num_engines. */
struct kfd_criu_sdma {
	struct device_queue_manager *dqm;
	const unsigned long *free;
	u32 first;
	u32 num_engines;
	u32 num; /* of all engines */
};

static struct kfd_criu_sdma kfd_criu_sdma_of(struct kfd_node *node, bool xgmi)
{
	const u32 num_engines = xgmi ? kfd_get_num_xgmi_sdma_engines(node) :
				       kfd_get_num_sdma_engines(node);

	return (struct kfd_criu_sdma) {
		.dqm = node->dqm,
		.free = xgmi ? node->dqm->xgmi_sdma_bitmap : node->dqm->sdma_bitmap,
		.first = xgmi ? kfd_get_num_sdma_engines(node) : 0,
		.num_engines = num_engines,
		.num = num_engines * node->kfd->device_info.num_sdma_queues_per_engine,
	};
}

static u32 kfd_criu_sdma_doorbell(const struct kfd_criu_sdma *sdma, u32 sdma_id)
{
	return kfd_sdma_doorbell_id(sdma->dqm, sdma->first + sdma_id % sdma->num_engines,
				    sdma_id / sdma->num_engines);
}

/* Returns the number that the doorbell is made for: a restored queue may have another one. */
static u32 kfd_criu_saved_sdma_id(const struct queue *q)
{
	const bool xgmi = q->properties.type == KFD_QUEUE_TYPE_SDMA_XGMI;
	const struct kfd_criu_sdma sdma = kfd_criu_sdma_of(q->device, xgmi);

	/* On GFX8 the doorbell depends on the id of the queue. */
	if (!KFD_IS_SOC15(q->device))
		return q->sdma_id;
	for (u32 id = q->sdma_id % sdma.num_engines; id < sdma.num; id += sdma.num_engines)
		if (kfd_criu_sdma_doorbell(&sdma, id) == q->doorbell_id)
			return id;
	return q->sdma_id;
}

/* Finds a number on the engine of the saved queue: the process knows only its doorbell. */
static int kfd_criu_find_sdma_id(struct kfd_node *node, const struct kfd_criu_queue_record *record,
				 u32 *sdma_id)
{
	const struct kfd_criu_sdma sdma =
		kfd_criu_sdma_of(node, record->type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI);
	int ret = -EBUSY;

	dqm_lock(sdma.dqm);
	for (u32 i = 0; i < sdma.num && ret; i += sdma.num_engines) {
		*sdma_id = (record->sdma_id + i) % sdma.num;
		ret = test_bit(*sdma_id, sdma.free) ? 0 : -EBUSY;
	}
	dqm_unlock(sdma.dqm);
	return ret;
}

static int kfd_criu_check_sdma_here(struct criu_plan *plan,
				    const struct kfd_criu_queue_record *record,
				    struct kfd_node *node)
{
	const struct kfd_criu_sdma sdma =
		kfd_criu_sdma_of(node, record->type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI);
	u32 doorbell;

	if (record->sdma_id >= sdma.num)
		return criu_refuse(plan->call, -ENODEV, "GPU %u has no SDMA queue %u", node->id,
				   record->sdma_id);
	doorbell = !KFD_IS_SOC15(node) ? record->queue_id :
					 kfd_criu_sdma_doorbell(&sdma, record->sdma_id);
	return doorbell == record->doorbell_id ? 0 :
	       criu_refuse(plan->call, -ENODEV, "doorbell is number %u, was %u", doorbell,
			   record->doorbell_id);
}

/* Saved waves need their layout and room in their shader engine, CU masks the CUs of each array. */
static int kfd_criu_check_compute_here(struct criu_plan *plan,
				       const struct kfd_criu_plan_queue *queue,
				       const struct kfd_criu_mqds *mqds)
{
	const struct kfd_criu_queue_record *record = &queue->record;
	const struct kfd_criu_mqd_layout *words = mqds->layout;
	const u64 layout = queue->device->record.wave_layout;
	const u32 num = mqds->num;
	const bool has_cus = memchr_inv(&record->active_cus, 0, sizeof(record->active_cus));
	struct kfd_criu_cus cus;

	kfd_criu_active_cus(queue->device->pdd->dev, &cus);
	for (u32 i = 0; i < num; i++) {
		const void *mqd = queue->mqd + i * (record->mqd_size / num);
		const void *stack = queue->stack + i * (record->mqd_stack_size / num);
		const u8 *is = cus.xcc[i], *was = record->active_cus.xcc[i];

		if (layout && layout != queue->device->wave_layout &&
		    kfd_criu_mqd_has_waves(words, mqd, record->ctl_stack_size))
			return criu_refuse(plan->call, -ENODEV,
					   "layout of saved waves is %#x, was %#llx",
					   queue->device->wave_layout, layout);
		if (has_cus && memcmp(is, was, KFD_CRIU_SHADER_ARRAYS_MAX) &&
		    (kfd_criu_mqd_masks_cus(words, mqd) ||
		     !kfd_criu_mqd_waves_fit(words, mqd, stack, record->ctl_stack_size, is, was,
					     KFD_CRIU_SHADER_ARRAYS_MAX)))
			return criu_refuse(plan->call, -ENODEV,
					   "CUs per shader array are %*ph, were %*ph",
					   KFD_CRIU_SHADER_ARRAYS_MAX, is,
					   KFD_CRIU_SHADER_ARRAYS_MAX, was);
	}
	return 0;
}

static int kfd_criu_check_queue(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_queue_record *record = entry;
	const struct kfd_criu_plan_queue *queue = entry;
	struct kfd_node *node = queue->device->pdd->dev;
	enum kfd_queue_type type = record->type == KFD_IOC_QUEUE_TYPE_COMPUTE ||
				   record->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL ?
				   KFD_QUEUE_TYPE_COMPUTE : KFD_QUEUE_TYPE_SDMA;
	const struct kfd_criu_mqds mqds = kfd_criu_mqds_of(node, type);
	int ret;

	if (record->flags & ~(KFD_CRIU_QUEUE_GWS | KFD_CRIU_QUEUE_CU_MASK |
			      KFD_CRIU_QUEUE_CWSR_IN_SVM | KFD_CRIU_QUEUE_NO_RING))
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x", record->flags);
	if (!mqds.layout)
		return criu_refuse(plan->call, -EOPNOTSUPP,
				   "this kernel restores no such queue of GPU %u", node->id);
	/* Without it, MQDs have no room for control stacks, and the GPU ignores saved waves. */
	if (type == KFD_QUEUE_TYPE_COMPUTE && !node->kfd->cwsr_enabled)
		return criu_refuse(plan->call, -ENODEV,
				   "GPU %u has no compute wave save/restore", node->id);
	if ((record->flags & KFD_CRIU_QUEUE_GWS) && !node->gws)
		return criu_refuse(plan->call, -ENODEV, "GPU %u has no GWS", node->id);
	ret = type == KFD_QUEUE_TYPE_COMPUTE ? kfd_criu_check_compute_here(plan, queue, &mqds) :
					       kfd_criu_check_sdma_here(plan, record, node);
	if (ret)
		return ret;
	ret = kfd_criu_mqd_check(mqds.layout, queue->mqd, mqds.num);
	return ret ? criu_refuse(plan->call, ret, "MQD has words that this kernel sets itself") : 0;
}

/* Two queues must not share a doorbell. Each GPU numbers its own doorbells. */
static struct criu_range kfd_criu_doorbell_range(const struct criu_kind *kind, const void *entry,
						 u32 gpu)
{
	const struct kfd_criu_queue_record *record = entry;

	return (struct criu_range) {
		.start = MAKE_HANDLE(record->gpu_id, record->doorbell_offset), .size = 1,
	};
}

static u32 kfd_criu_queue_type(const struct queue_properties *properties)
{
	return properties->type == KFD_QUEUE_TYPE_SDMA ? KFD_IOC_QUEUE_TYPE_SDMA :
	       properties->type == KFD_QUEUE_TYPE_SDMA_XGMI ? KFD_IOC_QUEUE_TYPE_SDMA_XGMI :
	       properties->format == KFD_QUEUE_FORMAT_AQL ? KFD_IOC_QUEUE_TYPE_COMPUTE_AQL :
	       KFD_IOC_QUEUE_TYPE_COMPUTE;
}

static const char *kfd_criu_queue_uncarriable(const struct queue *q,
					      const struct kfd_criu_mqds *mqds)
{
	const struct queue_properties *properties = &q->properties;

	if (properties->type != KFD_QUEUE_TYPE_COMPUTE && properties->type != KFD_QUEUE_TYPE_SDMA &&
	    properties->type != KFD_QUEUE_TYPE_SDMA_XGMI)
		return "a queue of unknown type";
	if (!mqds->layout)
		return "a queue of a kind that this kernel does not save";
	if (!q->mqd)
		return "a queue that could not be restored after hibernation";
	return q->device->kfd->cwsr_enabled ? NULL :
	       "a queue of a GPU without compute wave save/restore";
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
			ret = ret ?: kfd_criu_dump_queue(dump, p->pdds[i], q);
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
		.q_id = record->queue_id, .doorbell_id = record->doorbell_id,
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
	CRIU_KIND(KFD_CRIU_QUEUE, queues, struct kfd_criu_plan_queue, record.queue_id),
	.subject = "queue %llu", .backwards = true,
	.unique = { CRIU_UNIQUE_ID, { kfd_criu_doorbell_range, "its doorbell occurs twice" } },
	.tails = {
		CRIU_KIND_TAIL(struct kfd_criu_plan_queue, mqd_size, mqd, u8),
		CRIU_KIND_TAIL(struct kfd_criu_plan_queue, mqd_stack_size, stack, u8),
	},
	.dump = kfd_criu_dump_queues,
	.fault = kfd_criu_queue_fault, .check = kfd_criu_check_queue,
	.apply = kfd_criu_apply_queue, .undo = kfd_criu_undo_queue,
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
