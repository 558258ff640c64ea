// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: GPUs
 *
 * Carried: the acquired VMs, also to other GPUs with the same properties, as KFD has reported
 * them. The process keeps its gpu_id.
 */
#include <linux/crc32.h>
#include <linux/pm_runtime.h>

#include "gc/gc_9_4_3_sh_mask.h"
#include "kfd_criu.h"
#include "kfd_device_queue_manager.h"
#include "kfd_topology.h"

struct kfd_criu_plan_device *kfd_criu_plan_device(struct criu_plan *plan, u32 gpu_id)
{
	for (u32 i = 0; i < plan->num_devices; i++)
		if (plan->devices[i].record.gpu_id == gpu_id)
			return &plan->devices[i];
	return NULL;
}

/* Returns the id of a GPU or of its partition, or 0 if KFD does not drive it. */
u32 kfd_criu_gpu_id(struct amdgpu_device *adev, u32 xcp_id)
{
	const struct kfd_dev *kfd = adev->kfd.dev;

	if (!adev->kfd.init_complete || !kfd || !kfd->num_nodes)
		return 0;
	/* A BO of a card node belongs to no partition. */
	return kfd->nodes[xcp_id < kfd->num_nodes ? xcp_id : 0]->id;
}

u64 kfd_criu_features(void)
{
	return kfd_topology_all_gpus(kfd_criu_mqd_tested) ? 0 : AMDGPU_CRIU_FEATURE_UNTESTED;
}

/* Returns a name of the layout in which the trap handler of the driver saves waves. */
static u32 kfd_criu_wave_layout(const struct kfd_dev *kfd)
{
	/* Handlers of 6.12, and those of later kernels with the same layout */
	static const u32 same[][2] = {
		{ 0x64887f9e, 0x9d584e41 }, /* GFX9 */
		{ 0x9baedabb, 0x550358b5 }, /* Arcturus */
		{ 0x58556719, 0x1485ee1e }, /* Aldebaran */
		{ 0x236a04a6, 0x465c189f }, /* GFX 9.4.3 */
	};
	const u32 crc = crc32c(~0U, kfd->cwsr_isa, kfd->cwsr_isa_size);

	for (u32 i = 0; i < ARRAY_SIZE(same); i++)
		if (crc == same[i][0])
			return same[i][1];
	return crc;
}

/* Describes what a target GPU must have, and the apertures as KFD reported them to the process. */
static void kfd_criu_describe(const struct kfd_process_device *pdd,
			      struct kfd_criu_device_record *record)
{
	struct kfd_node *node = pdd->dev;
	struct kfd_topology_device *topology = kfd_topology_device_by_id(node->id);

	record->gc_version = KFD_GC_VERSION(node);
	record->sdma_version = amdgpu_ip_version(node->adev, SDMA0_HWIP, 0);
	record->mec_fw_version = node->kfd->mec_fw_version;
	record->mec2_fw_version = node->kfd->mec2_fw_version;
	record->sdma_fw_version = node->kfd->sdma_fw_version;
	record->wave_layout = kfd_criu_wave_layout(node->kfd);
	record->num_xcc = NUM_XCC(node->xcc_mask);
	record->num_sdma_engines = kfd_get_num_sdma_engines(node);
	record->num_xgmi_engines = kfd_get_num_xgmi_sdma_engines(node);
	record->num_sdma_queues = node->kfd->device_info.num_sdma_queues_per_engine;
	record->lds_base = pdd->lds_base;
	record->lds_limit = pdd->lds_limit;
	record->scratch_base = pdd->scratch_base;
	record->scratch_limit = pdd->scratch_limit;
	record->gpuvm_base = pdd->gpuvm_base;
	record->gpuvm_limit = pdd->gpuvm_limit;
	if (!topology)
		return;
	record->simd_count = topology->node_props.simd_count;
	record->array_count = topology->node_props.array_count;
	record->cwsr_size = topology->node_props.cwsr_size;
	record->ctl_stack_size = topology->node_props.ctl_stack_size;
	record->debug_memory_size = topology->node_props.debug_memory_size;
}

static void kfd_criu_get_trap_handler(const struct qcm_process_device *qpd,
				      struct kfd_criu_device_record *record)
{
	if (!iosys_map_is_null(&qpd->cwsr_map)) {
		/* kfd_process_set_trap_handler() stores the addresses there. */
		record->tba_addr = iosys_map_rd(&qpd->cwsr_map, KFD_CWSR_TMA_OFFSET, u64);
		record->tma_addr = iosys_map_rd(&qpd->cwsr_map,
						KFD_CWSR_TMA_OFFSET + sizeof(u64), u64);
	} else {
		record->tba_addr = qpd->tba_addr;
		record->tma_addr = qpd->tma_addr;
	}
}

static int kfd_criu_dump_devices(struct criu_dump *dump)
{
	struct kfd_process *p = dump->p;

	for (u32 i = 0; i < p->n_pdds; i++) {
		const struct kfd_process_device *pdd = p->pdds[i];
		struct kfd_criu_device_record record = {
			.gpu_id = pdd->user_gpu_id,
			.scratch_va = pdd->qpd.sh_hidden_private_base,
		};
		int fd = -1;

		if (pdd->drm_file)
			record.flags |= KFD_CRIU_DEVICE_VM;
		if (pdd->qpd.proc_doorbells)
			record.flags |= KFD_CRIU_DEVICE_DOORBELLS;
		/* Only GFX 9.5 has the mode, see set_cache_memory_policy_v9(). */
		if (KFD_GC_VERSION(pdd->dev) == IP_VERSION(9, 5, 0) &&
		    (pdd->qpd.sh_mem_config & SH_MEM_CONFIG__PRECISION_MODE_MASK))
			record.flags |= KFD_CRIU_DEVICE_MFMA_HIGH_PRECISION;
		kfd_criu_describe(pdd, &record);
		kfd_criu_get_trap_handler(&pdd->qpd, &record);
		criu_writer_record(&dump->writer, KFD_CRIU_DEVICE, &record);
		dump->info.num_devices++;
		if (!dump->devices)
			continue;
		if (pdd->drm_file && !dump->live) {
			fd = criu_call_new_fd(dump->call, get_file(pdd->drm_file));
			if (fd < 0)
				return fd;
		}
		dump->devices[i] = (struct amdgpu_criu_device) {
			.gpu_id = pdd->user_gpu_id, .actual_gpu_id = pdd->dev->id, .drm_fd = fd,
		};
	}
	return 0;
}

static const struct criu_same kfd_criu_same[] = {
	CRIU_SAME(struct kfd_criu_device_record, u32, gc_version, "graphics IP version"),
	CRIU_SAME(struct kfd_criu_device_record, u32, sdma_version, "SDMA IP version"),
	CRIU_SAME(struct kfd_criu_device_record, u32, num_xcc, "number of XCCs"),
	CRIU_SAME(struct kfd_criu_device_record, u32, simd_count, "number of SIMDs"),
	CRIU_SAME(struct kfd_criu_device_record, u32, array_count, "number of arrays"),
	CRIU_SAME(struct kfd_criu_device_record, u32, cwsr_size, "wave-save size"),
	CRIU_SAME(struct kfd_criu_device_record, u32, ctl_stack_size, "control stack size"),
	CRIU_SAME(struct kfd_criu_device_record, u32, debug_memory_size, "debug memory size"),
	CRIU_SAME(struct kfd_criu_device_record, u32, num_sdma_engines, "number of SDMA engines"),
	CRIU_SAME(struct kfd_criu_device_record, u32, num_xgmi_engines, "number of XGMI engines"),
	CRIU_SAME(struct kfd_criu_device_record, u32, num_sdma_queues, "number of SDMA queues"),
	CRIU_SAME(struct kfd_criu_device_record, u64, lds_base, "LDS base"),
	CRIU_SAME(struct kfd_criu_device_record, u64, lds_limit, "LDS limit"),
	CRIU_SAME(struct kfd_criu_device_record, u64, scratch_base, "scratch base"),
	CRIU_SAME(struct kfd_criu_device_record, u64, scratch_limit, "scratch limit"),
	CRIU_SAME(struct kfd_criu_device_record, u64, gpuvm_base, "GPUVM base"),
	CRIU_SAME(struct kfd_criu_device_record, u64, gpuvm_limit, "GPUVM limit"),
};

static int kfd_criu_check_file(const struct criu_plan *plan,
			       const struct kfd_criu_plan_device *device)
{
	struct amdgpu_fpriv *fpriv;
	const struct drm_file *file;
	int ret;

	if (!device->drm_file)
		return 0;
	ret = amdgpu_file_to_fpriv(device->drm_file, &fpriv);
	if (ret)
		return ret;
	file = device->drm_file->private_data;
	if (kfd_criu_gpu_id(drm_to_adev(file->minor->dev), fpriv->xcp_id) == device->pdd->dev->id)
		return 0;
	return criu_refuse(plan->call, -EINVAL, "drm_fd is a file of another GPU than %u",
			   device->pdd->dev->id);
}

static int kfd_criu_check_target(struct criu_plan *plan, struct kfd_criu_plan_device *device,
				 u32 actual_gpu_id)
{
	const struct kfd_criu_device_record *old = &device->record;
	struct kfd_criu_device_record now = {};
	int ret;

	/* A new process knows the GPUs by their own ids. */
	device->pdd = kfd_process_device_data_by_id(plan->p, actual_gpu_id);
	if (!device->pdd)
		return criu_refuse(plan->call, -ENODEV, "no GPU %u", actual_gpu_id);
	for (u32 i = 0; &plan->devices[i] != device; i++)
		if (plan->devices[i].pdd == device->pdd)
			return criu_refuse(plan->call, -ENODEV,
					   "GPU %u replaces both %u and %u", actual_gpu_id,
					   plan->devices[i].record.gpu_id, old->gpu_id);
	kfd_criu_describe(device->pdd, &now);
	ret = criu_check_same(plan->call, kfd_criu_same, ARRAY_SIZE(kfd_criu_same), old, &now);
	if (ret)
		return ret;
	device->wave_layout = now.wave_layout;
	/* Newer firmware reads saved waves of older firmware. The reverse may fail. */
	if (now.mec_fw_version < old->mec_fw_version ||
	    now.mec2_fw_version < old->mec2_fw_version ||
	    now.sdma_fw_version < old->sdma_fw_version)
		return criu_refuse(plan->call, -ENODEV,
				   "GPU %u has firmware MEC %u/%u, SDMA %u; was %u/%u, %u",
				   actual_gpu_id, now.mec_fw_version, now.mec2_fw_version,
				   now.sdma_fw_version, old->mec_fw_version, old->mec2_fw_version,
				   old->sdma_fw_version);
	return kfd_criu_check_file(plan, device);
}

static int kfd_criu_check_device(struct criu_plan *plan, void *elem)
{
	const struct kfd_criu_device_record *record = elem;
	struct kfd_criu_plan_device *device = elem;
	const struct amdgpu_criu_device *entry = &plan->device_table[device - plan->devices];
	bool has_vm = record->flags & KFD_CRIU_DEVICE_VM;
	bool has_file = entry->drm_fd >= 0;

	if (entry->flags)
		return -EINVAL;
	if (record->flags & ~(KFD_CRIU_DEVICE_VM | KFD_CRIU_DEVICE_DOORBELLS |
			      KFD_CRIU_DEVICE_MFMA_HIGH_PRECISION))
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x", record->flags);
	if (!record->gpu_id || record->gpu_id >= BIT(KFD_GPU_ID_HASH_WIDTH) ||
	    entry->gpu_id != record->gpu_id || has_vm != has_file || (!has_vm && record->flags))
		return criu_refuse(plan->call, -EBADMSG, "table and record do not agree");
	if (record->scratch_va > U32_MAX)
		return criu_refuse(plan->call, -EBADMSG, "scratch address above 4 GiB");
	/* A GPU that the process has never used may be missing. */
	if (!entry->actual_gpu_id && !has_vm)
		return 0;
	if (has_vm) {
		device->drm_file = fget(entry->drm_fd);
		if (!device->drm_file)
			return -EBADF;
	}
	return kfd_criu_check_target(plan, device, entry->actual_gpu_id);
}

/* Takes the path of AMDKFD_IOC_ACQUIRE_VM, then that of the first use of the GPU. */
static int kfd_criu_apply_vm(struct kfd_criu_plan_device *device)
{
	struct kfd_process_device *pdd = device->pdd;
	int ret = kfd_process_device_init_vm(pdd, device->drm_file);

	if (ret)
		return ret;
	device->drm_file = NULL;
	device->vm_done = true;
	pdd = kfd_bind_process_to_device(pdd->dev, pdd->process);
	if (IS_ERR(pdd))
		return PTR_ERR(pdd);
	return device->record.flags & KFD_CRIU_DEVICE_DOORBELLS ?
	       kfd_alloc_process_doorbells(pdd->dev->kfd, pdd) : 0;
}

/* A GPU outside the plan keeps its id, unless a GPU of the plan has the same id. */
static int kfd_criu_name_devices(struct criu_plan *plan)
{
	u32 free_id = BIT(KFD_GPU_ID_HASH_WIDTH) - 1;

	for (u32 i = 0; i < plan->p->n_pdds; i++) {
		struct kfd_process_device *pdd = plan->p->pdds[i];
		bool planned = false;

		for (u32 j = 0; j < plan->num_devices; j++)
			planned |= plan->devices[j].pdd == pdd;
		if (planned || !kfd_criu_plan_device(plan, pdd->user_gpu_id))
			continue;
		while (kfd_criu_plan_device(plan, free_id) ||
		       kfd_process_device_data_by_id(plan->p, free_id))
			free_id--;
		pdd->user_gpu_id = free_id;
	}
	for (u32 i = 0; i < plan->num_devices; i++)
		if (plan->devices[i].pdd)
			plan->devices[i].pdd->user_gpu_id = plan->devices[i].record.gpu_id;
	return 0;
}

/* Like AMDKFD_IOC_ACQUIRE_VM, _SET_TRAP_HANDLER, _SET_SCRATCH_BACKING_VA, _SET_MEMORY_POLICY. */
static int kfd_criu_apply_device(struct criu_plan *plan, void *entry)
{
	const struct kfd_criu_device_record *record = entry;
	struct kfd_criu_plan_device *device = entry;
	struct kfd_process_device *pdd = device->pdd;
	struct device_queue_manager *dqm;
	int ret;

	if (!(record->flags & KFD_CRIU_DEVICE_VM))
		return 0;
	dqm = pdd->dev->dqm;
	ret = kfd_criu_apply_vm(device);
	if (ret)
		return ret;
	if (record->tba_addr || record->tma_addr)
		kfd_process_set_trap_handler(&pdd->qpd, record->tba_addr, record->tma_addr);
	pdd->qpd.sh_hidden_private_base = record->scratch_va;
	if ((record->flags & KFD_CRIU_DEVICE_MFMA_HIGH_PRECISION) &&
	    !dqm->ops.set_cache_memory_policy(dqm, &pdd->qpd, cache_policy_coherent,
					      cache_policy_coherent, NULL, 0,
					      KFD_PROC_FLAG_MFMA_HIGH_PRECISION))
		return -EINVAL;
	return 0;
}

/* MMU notifiers reach the userptrs of the process again. */
void kfd_criu_unblock_notifications(struct kfd_process *p)
{
	struct amdkfd_process_info *process_info = p->kgd_process_info;

	if (process_info)
		WRITE_ONCE(process_info->block_mmu_notifications, false);
}

static int kfd_criu_end_devices(struct criu_plan *plan, int ret)
{
	if (ret)
		return ret;
	/* CRIU moves VMAs to their addresses until RESUME. These moves must not evict. */
	if (plan->p->kgd_process_info)
		amdgpu_amdkfd_block_mmu_notifications(plan->p->kgd_process_info);
	/* The modes of the process are those of its GPUs. */
	return kfd_criu_apply_process(plan);
}

/* A running worker may replace the eviction fence that is signaled here with a new one. */
static void kfd_criu_undo_eviction(struct kfd_process *p)
{
	struct dma_fence *fence;

	for (;;) {
		fence = rcu_dereference_protected(p->ef, true);
		if (!fence)
			return;
		dma_fence_signal(fence);
		cancel_delayed_work_sync(&p->eviction_work);
		/* Drop the eviction of a canceled restore. */
		if (cancel_delayed_work_sync(&p->restore_work))
			kfd_process_restore_queues(p);
		if (fence == rcu_dereference_protected(p->ef, true))
			break;
	}
	RCU_INIT_POINTER(p->ef, NULL);
	dma_fence_put(fence);
}

/* A VM with a BO that could not be freed stays until the process ends. */
static void kfd_criu_undo_devices(struct criu_plan *plan)
{
	struct kfd_process *p = plan->p;

	kfd_criu_unblock_notifications(p);
	kfd_criu_undo_process(p);
	for (u32 i = 0; i < p->n_pdds; i++)
		if (!idr_is_empty(&p->pdds[i]->alloc_idr))
			return;
	kfd_criu_undo_eviction(p);
	for (u32 i = 0; i < plan->num_devices; i++) {
		struct kfd_process_device *pdd = plan->devices[i].pdd;

		if (!plan->devices[i].vm_done)
			continue;
		if (pdd->qpd.proc_doorbells)
			kfd_free_process_doorbells(pdd->dev->kfd, pdd);
		kfd_process_device_fini_vm(pdd);
		if (pdd->runtime_inuse) {
			pm_runtime_put_autosuspend(adev_to_drm(pdd->dev->adev)->dev);
			pdd->runtime_inuse = false;
		}
		pdd->qpd.sh_hidden_private_base = 0;
		pdd->qpd.sh_mem_config = 0;
	}
	/* The last of its VMs frees it. */
	p->kgd_process_info = NULL;
	for (u32 i = 0; i < p->n_pdds; i++)
		p->pdds[i]->user_gpu_id = p->pdds[i]->dev->id;
}

const struct criu_kind kfd_criu_devices = {
	CRIU_KIND(KFD_CRIU_DEVICE, devices, struct kfd_criu_plan_device, record.gpu_id),
	.subject = "GPU %llu", .live = true,
	.unique = { CRIU_UNIQUE_ID },
	.dump = kfd_criu_dump_devices,
	.check = kfd_criu_check_device,
	.begin = kfd_criu_name_devices, .end = kfd_criu_end_devices,
	.apply = kfd_criu_apply_device, .undo_all = kfd_criu_undo_devices,
};
