// SPDX-License-Identifier: GPL-2.0 OR MIT
/* GPUs of a process: the properties that KFD has reported, and the acquired VMs. */
#include <drm/drm_file.h>
#include <linux/file.h>

#include "amdgpu_amdkfd.h"
#include "kfd_criu.h"
#include "kfd_criu_driver.h"
#include "kfd_topology.h"

/* Returns the id of a GPU, for the render node. Returns 0 if KFD does not drive it. */
u32 kfd_criu_gpu_id(struct amdgpu_device *adev)
{
	const struct kfd_dev *kfd = adev->kfd.dev;

	return adev->kfd.init_complete && kfd->num_nodes ? kfd->nodes[0]->id : 0;
}

static u32 kfd_criu_device_flags(const struct kfd_process_device *pdd)
{
	u32 flags = 0;

	if (pdd->drm_file)
		flags |= KFD_CRIU_DEVICE_VM;
	if (pdd->qpd.proc_doorbells)
		flags |= KFD_CRIU_DEVICE_DOORBELLS;
	if (kfd_criu_is_mfma_high_precision(pdd))
		flags |= KFD_CRIU_DEVICE_MFMA_HIGH_PRECISION;
	return flags;
}

/* Describes properties of the hardware. The target GPU must have the same ones. */
static void kfd_criu_describe_node(struct kfd_node *node, struct kfd_criu_device_record *record)
{
	struct kfd_topology_device *topology = kfd_topology_device_by_id(node->id);

	record->gc_version = KFD_GC_VERSION(node);
	record->sdma_version = amdgpu_ip_version(node->adev, SDMA0_HWIP, 0);
	record->mec_fw_version = node->kfd->mec_fw_version;
	record->mec2_fw_version = node->kfd->mec2_fw_version;
	record->sdma_fw_version = node->kfd->sdma_fw_version;
	record->num_xcc = NUM_XCC(node->xcc_mask);
	record->num_sdma_engines = kfd_get_num_sdma_engines(node);
	record->num_xgmi_engines = kfd_get_num_xgmi_sdma_engines(node);
	record->num_sdma_queues = node->kfd->device_info.num_sdma_queues_per_engine;
	if (!topology)
		return;
	record->simd_count = topology->node_props.simd_count;
	record->array_count = topology->node_props.array_count;
	record->cwsr_size = topology->node_props.cwsr_size;
	record->ctl_stack_size = topology->node_props.ctl_stack_size;
	record->debug_memory_size = topology->node_props.debug_memory_size;
}

/* Describes what AMDKFD_IOC_GET_PROCESS_APERTURES_NEW has reported to the process. */
static void kfd_criu_describe_apertures(const struct kfd_process_device *pdd,
					struct kfd_criu_device_record *record)
{
	record->lds_base = pdd->lds_base;
	record->lds_limit = pdd->lds_limit;
	record->scratch_base = pdd->scratch_base;
	record->scratch_limit = pdd->scratch_limit;
	record->gpuvm_base = pdd->gpuvm_base;
	record->gpuvm_limit = pdd->gpuvm_limit;
}

static void kfd_criu_get_trap_handler(const struct qcm_process_device *qpd,
				      struct kfd_criu_device_record *record)
{
	const u64 *tma;

	if (qpd->cwsr_kaddr) {
		/* kfd_process_set_trap_handler() stores the addresses there. */
		tma = qpd->cwsr_kaddr + KFD_CWSR_TMA_OFFSET;
		record->tba_addr = tma[0];
		record->tma_addr = tma[1];
	} else {
		record->tba_addr = qpd->tba_addr;
		record->tma_addr = qpd->tma_addr;
	}
}

int kfd_criu_dump_devices(struct kfd_criu_dump *dump)
{
	struct kfd_process *p = dump->p;
	u32 i;

	for (i = 0; i < p->n_pdds; i++) {
		const struct kfd_process_device *pdd = p->pdds[i];
		struct kfd_criu_device_record record = {
			.gpu_id = pdd->user_gpu_id,
			.flags = kfd_criu_device_flags(pdd),
			.scratch_va = pdd->qpd.sh_hidden_private_base,
		};

		kfd_criu_describe_node(pdd->dev, &record);
		kfd_criu_describe_apertures(pdd, &record);
		kfd_criu_get_trap_handler(&pdd->qpd, &record);
		criu_writer_record(&dump->out.writer, KFD_CRIU_DEVICE, &record);
		if (dump->out.devices) {
			dump->out.devices[i].gpu_id = pdd->user_gpu_id;
			dump->out.devices[i].actual_gpu_id = pdd->dev->id;
			dump->out.devices[i].drm_fd = -1;
		}
		dump->out.num_devices++;
	}
	return 0;
}

#define KFD_CRIU_SAME(_type, _field, _name) \
	{ offsetof(struct kfd_criu_device_record, _field), sizeof(_type), _name }

/* Properties that the target GPU must have, too. */
static const struct {
	u16 offset;
	u16 size;
	const char *name;
} kfd_criu_same[] = {
	KFD_CRIU_SAME(u32, gc_version, "graphics IP version"),
	KFD_CRIU_SAME(u32, sdma_version, "SDMA IP version"),
	KFD_CRIU_SAME(u32, num_xcc, "number of XCCs"),
	KFD_CRIU_SAME(u32, simd_count, "number of SIMDs"),
	KFD_CRIU_SAME(u32, array_count, "number of arrays"),
	KFD_CRIU_SAME(u32, cwsr_size, "wave-save size"),
	KFD_CRIU_SAME(u32, ctl_stack_size, "control stack size"),
	KFD_CRIU_SAME(u32, debug_memory_size, "debug memory size"),
	KFD_CRIU_SAME(u32, num_sdma_engines, "number of SDMA engines"),
	KFD_CRIU_SAME(u32, num_xgmi_engines, "number of XGMI engines"),
	KFD_CRIU_SAME(u32, num_sdma_queues, "number of SDMA queues"),
	KFD_CRIU_SAME(u64, lds_base, "LDS base"),
	KFD_CRIU_SAME(u64, lds_limit, "LDS limit"),
	KFD_CRIU_SAME(u64, scratch_base, "scratch base"),
	KFD_CRIU_SAME(u64, scratch_limit, "scratch limit"),
	KFD_CRIU_SAME(u64, gpuvm_base, "GPUVM base"),
	KFD_CRIU_SAME(u64, gpuvm_limit, "GPUVM limit"),
};

/* The records are little-endian, like the CPU. */
static int kfd_criu_check_same(const struct kfd_criu_plan *plan, u32 actual_gpu_id,
			       const struct kfd_criu_device_record *old,
			       const struct kfd_criu_device_record *now)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(kfd_criu_same); i++) {
		u64 is = 0, was = 0;

		memcpy(&is, (const void *)now + kfd_criu_same[i].offset, kfd_criu_same[i].size);
		memcpy(&was, (const void *)old + kfd_criu_same[i].offset, kfd_criu_same[i].size);
		if (is != was)
			return criu_refuse(plan->call, -ENODEV,
					   "GPU %u does not fit for %u: %s is %#llx, was %#llx",
					   actual_gpu_id, old->gpu_id, kfd_criu_same[i].name, is,
					   was);
	}
	return 0;
}

/* Newer firmware reads saved waves of older firmware. The reverse may fail. */
static int kfd_criu_check_firmware(const struct kfd_criu_plan *plan, u32 actual_gpu_id,
				   const struct kfd_criu_device_record *old,
				   const struct kfd_criu_device_record *now)
{
	if (now->mec_fw_version >= old->mec_fw_version &&
	    now->mec2_fw_version >= old->mec2_fw_version &&
	    now->sdma_fw_version >= old->sdma_fw_version)
		return 0;
	return criu_refuse(plan->call, -ENODEV,
			   "GPU %u has firmware MEC %u/%u, SDMA %u; %u had %u/%u, %u",
			   actual_gpu_id, now->mec_fw_version, now->mec2_fw_version,
			   now->sdma_fw_version, old->gpu_id, old->mec_fw_version,
			   old->mec2_fw_version, old->sdma_fw_version);
}

static int kfd_criu_check_file(const struct kfd_criu_plan *plan,
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
	if (drm_to_adev(file->minor->dev) == device->pdd->dev->adev)
		return 0;
	return criu_refuse(plan->call, -EINVAL, "GPU %u: drm_fd is a file of another GPU than %u",
			   device->record.gpu_id, device->pdd->dev->id);
}

static int kfd_criu_check_target(struct kfd_criu_plan *plan, struct kfd_criu_plan_device *device,
				 u32 actual_gpu_id)
{
	struct kfd_criu_device_record now = {};
	u32 i;
	int ret;

	for (i = 0; i < plan->p->n_pdds; i++)
		if (plan->p->pdds[i]->dev->id == actual_gpu_id)
			device->pdd = plan->p->pdds[i];
	if (!device->pdd)
		return criu_refuse(plan->call, -ENODEV, "no GPU %u for %u", actual_gpu_id,
				   device->record.gpu_id);
	kfd_criu_describe_node(device->pdd->dev, &now);
	kfd_criu_describe_apertures(device->pdd, &now);
	ret = kfd_criu_check_same(plan, actual_gpu_id, &device->record, &now);
	if (!ret)
		ret = kfd_criu_check_firmware(plan, actual_gpu_id, &device->record, &now);
	return ret ? ret : kfd_criu_check_file(plan, device);
}

static int kfd_criu_check_device(struct kfd_criu_plan *plan, struct kfd_criu_plan_device *device,
				 const struct amdgpu_criu_device *entry)
{
	const struct kfd_criu_device_record *record = &device->record;
	bool has_vm = record->flags & KFD_CRIU_DEVICE_VM;
	bool has_file = entry->drm_fd >= 0;

	if (entry->flags)
		return -EINVAL;
	if (record->flags & ~(KFD_CRIU_DEVICE_VM | KFD_CRIU_DEVICE_DOORBELLS |
			      KFD_CRIU_DEVICE_MFMA_HIGH_PRECISION))
		return criu_refuse(plan->call, -EOPNOTSUPP, "GPU %u: unknown flags %#x",
				   record->gpu_id, record->flags);
	if (!record->gpu_id || record->gpu_id >= BIT(KFD_GPU_ID_HASH_WIDTH) ||
	    entry->gpu_id != record->gpu_id || has_vm != has_file ||
	    (!has_vm && record->flags) || record->scratch_va > U32_MAX)
		return criu_refuse(plan->call, -EBADMSG, "GPU %u: table and record do not agree",
				   record->gpu_id);
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

static int kfd_criu_check_device_ids(struct kfd_criu_plan *plan)
{
	u32 i, j;

	for (i = 0; i < plan->num_devices; i++) {
		const struct kfd_criu_plan_device *one = &plan->devices[i];

		for (j = 0; j < i; j++) {
			const struct kfd_criu_plan_device *two = &plan->devices[j];

			if (one->record.gpu_id == two->record.gpu_id)
				return criu_refuse(plan->call, -EBADMSG, "GPU %u is there twice",
						   one->record.gpu_id);
			if (one->pdd && one->pdd == two->pdd)
				return criu_refuse(plan->call, -ENODEV,
						   "GPU %u stands for both %u and %u",
						   one->pdd->dev->id, one->record.gpu_id,
						   two->record.gpu_id);
		}
	}
	return 0;
}

int kfd_criu_check_devices(struct kfd_criu_plan *plan, const struct amdgpu_criu_state *args)
{
	u32 i;
	int ret;

	if (args->num_devices != plan->num_devices)
		return criu_refuse(plan->call, -EBADMSG, "table of %u GPUs for a blob of %u",
				   args->num_devices, plan->num_devices);
	if (plan->num_devices > MAX_GPU_INSTANCE)
		return criu_refuse(plan->call, -EBADMSG, "%u GPUs", plan->num_devices);
	for (i = 0; i < plan->num_devices; i++) {
		ret = kfd_criu_check_device(plan, &plan->devices[i], &plan->tables->devices[i]);
		if (ret)
			return ret;
	}
	return kfd_criu_check_device_ids(plan);
}
