/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Lock order: kfd_process.mutex, then the order of criu_session.h. */
#ifndef KFD_CRIU_H_
#define KFD_CRIU_H_

#include "amdgpu_criu_node.h"
#include "kfd_criu_records.h"
#include "kfd_priv.h"

long kfd_criu_call(struct file *filep, unsigned int cmd, unsigned long arg);
int kfd_criu_mmap(struct kfd_process *p, struct vm_area_struct *vma);
bool kfd_criu_is_reset(const struct kfd_process_device *pdd);
int kfd_criu_process_carriable(struct criu_call *call, struct kfd_process *p);

extern const struct criu_client_ops kfd_criu_process_ops;
extern const struct criu_kind kfd_criu_processes, kfd_criu_devices, kfd_criu_bos,
	kfd_criu_event_pages, kfd_criu_events, kfd_criu_svms, kfd_criu_queues, kfd_criu_options;

/* Entries of a plan, each with its record */
struct kfd_criu_plan_device {
	struct kfd_criu_device_record record;
	struct kfd_process_device *pdd; /* of the target; NULL: missing, and had no VM */
	struct file *drm_file; /* file whose VM it takes; the reference passes to pdd */
	u32 wave_layout; /* of the trap handler of pdd */
	bool vm_done; /* pdd has the VM */
};

struct kfd_criu_plan_bo {
	struct kfd_criu_bo_record record;
	const __u32 *mapped; /* tail of the record */
	struct kfd_criu_plan_device *device; /* GPU of the allocation */
	struct kgd_mem *mem; /* the BO, NULL until it is created */
	bool bound; /* the BO was created for this plan, and its id is bound in the session */
};

struct kfd_criu_plan_page {
	struct kfd_criu_event_page_record record;
	const __u64 *slots; /* tail of the record */
};

struct kfd_criu_plan_queue {
	struct kfd_criu_queue_record record;
	const void *mqd; /* MQDs, the first part of the tail */
	const u8 *stack; /* control stacks, the second part of the tail */
	struct kfd_criu_plan_device *device; /* GPU of the queue */
};

struct kfd_criu_plan_svm {
	struct kfd_criu_svm_record record;
	const struct kfd_ioctl_svm_attribute *attrs; /* tail of the record */
};

struct kfd_criu_plan_device *kfd_criu_plan_device(struct criu_plan *plan, u32 gpu_id);
int kfd_criu_restore(struct criu_call *call, void *args);
int kfd_criu_resume(struct criu_call *call, void *args);
int kfd_criu_unpause_locked(struct kfd_process *p);
int kfd_criu_wait_evictions(struct kfd_process *p, unsigned int num);
struct mm_struct *kfd_criu_get_mm(struct kfd_process *p);
void kfd_criu_unblock_notifications(struct kfd_process *p);
int kfd_criu_apply_process(struct criu_plan *plan);
void kfd_criu_undo_process(struct kfd_process *p);
void kfd_criu_bo_entry(const void *from, struct amdgpu_criu_bo *entry);
void kfd_criu_forget_svm(struct kfd_process *p);
/* RESUME, under the mutex of the process. */
void kfd_criu_signal_events(struct kfd_process *p);
int kfd_criu_svm_resume(struct kfd_process *p, const struct criu_call *call);
int kfd_criu_queues_resume(struct kfd_process *p, const struct criu_call *call);
bool kfd_criu_mqd_tested(struct kfd_node *node);
void kfd_criu_count_cus(u32 gc_version, const u32 bitmap[4][4], u32 num_se, u32 num_sh, u8 *cus);
void kfd_criu_mqd_strip_stacks(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			       void *stacks, u32 num, u32 size);
u32 kfd_criu_mqd_stack_size(const struct kfd_criu_mqd_layout *layout, u32 ctl_stack_size);
bool kfd_criu_mqd_masks_cus(const struct kfd_criu_mqd_layout *layout, const u32 *mqd);
bool kfd_criu_mqd_has_waves(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 size);
bool kfd_criu_mqd_waves_fit(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			    const u32 *stack, u32 size, const u8 *is, const u8 *was, u32 num);
int kfd_criu_mqd_check_xccs(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 num,
			    bool aql);

/* Handles an ioctl of /dev/kfd: that of checkpoint/restore, or another once it may begin. */
static inline long kfd_criu_ioctl(struct file *filep, unsigned int cmd, unsigned long arg,
				  criu_ioctl_fn ioctl)
{
	struct kfd_process *p = filep->private_data;
	const u32 nr = _IOC_NR(cmd);

	if (nr == AMDGPU_CRIU_NR)
		return kfd_criu_call(filep, cmd, arg);
	/* kfd_ioctl() refuses it. It may not wait: CREATE_PROCESS puts the file's reference. */
	if (p->lead_thread != current->group_leader)
		return ioctl(filep, cmd, arg);
	return criu_client_ioctl(&p->criu, nr == _IOC_NR(AMDKFD_IOC_WAIT_EVENTS), filep, cmd, arg,
				 ioctl);
}

#endif /* KFD_CRIU_H_ */
