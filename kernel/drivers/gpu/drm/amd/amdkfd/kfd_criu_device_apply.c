// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Sets the ids of the GPUs of a plan, and acquires or releases their VMs. */
#include <linux/dma-fence.h>
#include <linux/pm_runtime.h>

#include "amdgpu_amdkfd.h"
#include "kfd_criu.h"
#include "kfd_criu_driver.h"
#include "kfd_device_queue_manager.h"

/* Takes the path of AMDKFD_IOC_ACQUIRE_VM, then that of the first use of the GPU. */
static int kfd_criu_apply_vm(struct kfd_criu_plan_device *device)
{
	struct kfd_process_device *pdd = device->pdd;
	int ret;

	ret = kfd_process_device_init_vm(pdd, device->drm_file);
	if (ret)
		return ret;
	device->drm_file = NULL;
	device->vm_done = true;
	pdd = kfd_bind_process_to_device(pdd->dev, pdd->process);
	if (IS_ERR(pdd))
		return PTR_ERR(pdd);
	if (!(device->record.flags & KFD_CRIU_DEVICE_DOORBELLS))
		return 0;
	return kfd_alloc_process_doorbells(pdd->dev->kfd, pdd);
}

/*
 * Takes the paths of AMDKFD_IOC_SET_TRAP_HANDLER, AMDKFD_IOC_SET_SCRATCH_BACKING_VA
 * and AMDKFD_IOC_SET_MEMORY_POLICY.
 */
static int kfd_criu_apply_device_modes(const struct kfd_criu_plan_device *device)
{
	const struct kfd_criu_device_record *record = &device->record;
	struct kfd_process_device *pdd = device->pdd;

	if (record->tba_addr || record->tma_addr)
		kfd_process_set_trap_handler(&pdd->qpd, record->tba_addr, record->tma_addr);
	pdd->qpd.sh_hidden_private_base = record->scratch_va;
	if ((record->flags & KFD_CRIU_DEVICE_MFMA_HIGH_PRECISION) &&
	    !kfd_criu_set_mfma_high_precision(pdd))
		return -EINVAL;
	return 0;
}

/* A GPU outside the plan keeps its id, unless a GPU of the plan has the same id. */
static void kfd_criu_rename_others(struct kfd_criu_plan *plan)
{
	u32 free_id = BIT(KFD_GPU_ID_HASH_WIDTH) - 1;
	u32 i, j;

	for (i = 0; i < plan->p->n_pdds; i++) {
		struct kfd_process_device *pdd = plan->p->pdds[i];
		bool planned = false;

		for (j = 0; j < plan->num_devices; j++)
			planned |= plan->devices[j].pdd == pdd;
		if (planned || !kfd_criu_plan_device(plan, pdd->user_gpu_id))
			continue;
		while (kfd_criu_plan_device(plan, free_id) ||
		       kfd_process_device_data_by_id(plan->p, free_id))
			free_id--;
		pdd->user_gpu_id = free_id;
	}
}

int kfd_criu_apply_devices(struct kfd_criu_plan *plan)
{
	u32 i;
	int ret;

	kfd_criu_rename_others(plan);
	for (i = 0; i < plan->num_devices; i++) {
		struct kfd_criu_plan_device *device = &plan->devices[i];

		if (device->pdd)
			device->pdd->user_gpu_id = device->record.gpu_id;
	}
	for (i = 0; i < plan->num_devices; i++) {
		struct kfd_criu_plan_device *device = &plan->devices[i];

		plan->devices_done = i + 1;
		if (!(device->record.flags & KFD_CRIU_DEVICE_VM))
			continue;
		ret = kfd_criu_apply_vm(device);
		if (!ret)
			ret = kfd_criu_apply_device_modes(device);
		if (ret)
			return criu_refuse(plan->call, ret, "GPU %u: cannot acquire the VM: %d",
					   device->record.gpu_id, ret);
	}
	/* CRIU moves VMAs to their addresses until RESUME. These moves must not evict. */
	if (plan->p->kgd_process_info)
		amdgpu_amdkfd_block_mmu_notifications(plan->p->kgd_process_info);
	return 0;
}

static void kfd_criu_undo_vm(struct kfd_criu_plan_device *device)
{
	struct kfd_process_device *pdd = device->pdd;

	if (pdd->qpd.proc_doorbells)
		kfd_free_process_doorbells(pdd->dev->kfd, pdd);
	kfd_process_device_fini_vm(pdd);
	if (pdd->runtime_inuse) {
		pm_runtime_put_autosuspend(adev_to_drm(pdd->dev->adev)->dev);
		pdd->runtime_inuse = false;
	}
	pdd->qpd.sh_hidden_private_base = 0;
	pdd->qpd.sh_mem_config = 0;
	device->vm_done = false;
}

/*
 * The eviction fence and its workers belong to the VMs. A running worker may replace the
 * fence that is signaled here with a new one.
 */
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
void kfd_criu_undo_devices(struct kfd_criu_plan *plan)
{
	struct kfd_process *p = plan->p;
	u32 i;

	for (i = 0; i < p->n_pdds; i++)
		if (!idr_is_empty(&p->pdds[i]->alloc_idr))
			return;
	kfd_criu_undo_eviction(p);
	for (i = 0; i < plan->devices_done; i++)
		if (plan->devices[i].vm_done)
			kfd_criu_undo_vm(&plan->devices[i]);
	/* The last of its VMs frees it. */
	p->kgd_process_info = NULL;
	for (i = 0; i < p->n_pdds; i++)
		p->pdds[i]->user_gpu_id = p->pdds[i]->dev->id;
	plan->devices_done = 0;
}
