/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/**
 * DOC: User queues
 *
 * Carried: user queues for compute and SDMA: id, doorbell, priority, MQD, with packets in the ring
 * that were written during the pause.
 *
 * Not carried: user queues for graphics, secure ones, those in the VM of KFD, those that hung or
 * wait for another.
 */
/* Kernels without user queues have a header of this name that does nothing. */
#ifndef _AMDGPU_CRIU_USERQ_H_
#define _AMDGPU_CRIU_USERQ_H_

#include <linux/types.h>

struct amdgpu_fpriv;
struct criu_dump;
struct criu_kind;

#define AMDGPU_CRIU_USERQS_MAX 512 /* AMDGPU_MAX_USERQ_COUNT of the driver */

/* A user queue. Its fences are signaled. Tail: __u32 for each word of the MQD. */
struct amdgpu_criu_userq_record {
	__u32 id;
	__u32 flags; /* none yet */
	__u32 ip_type; /* AMDGPU_HW_IP_* */
	__u32 priority; /* as in AMDGPU_USERQ_CREATE_FLAGS_QUEUE_PRIORITY_MASK, shifted */
	__u32 doorbell_handle; /* GEM handle of the BO with the doorbell */
	__u32 doorbell_offset; /* in the BO, in doorbells */
	__u64 queue_va;
	__u64 queue_size; /* bytes */
	__u64 rptr_va;
	__u64 wptr_va;
	__u64 area_va; /* compute: EOP buffer; SDMA: context save area */
	__u64 fence_value; /* the last value that a packet of the queue has signaled */
	__u32 num_words; /* entries of the tail: state of the MQD, see kfd_criu_mqd.c */
	__u32 pad;
};

struct amdgpu_criu_plan_userq {
	struct amdgpu_criu_userq_record record;
	const u32 *words; /* tail of the record */
};

extern const struct criu_kind amdgpu_criu_userqs;
#define amdgpu_criu_has_userqs(fpriv) (!xa_empty(&(fpriv)->userq_mgr.userq_xa))
int amdgpu_criu_ring_userqs(struct criu_dump *dump);
int amdgpu_criu_stop_userqs(struct criu_dump *dump, unsigned long deadline);
int amdgpu_criu_resume_userqs(struct criu_dump *dump);
/* Maps the queues of a file that is no longer paused, and waits until they run. */
#define amdgpu_criu_start_userqs(fpriv) amdgpu_userq_start(&(fpriv)->userq_mgr)
/* Destroys restored queues that were not resumed. */
#define amdgpu_criu_drop_userqs(fpriv) amdgpu_userq_drop(&(fpriv)->userq_mgr)

#endif /* _AMDGPU_CRIU_USERQ_H_ */
