/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Accessors of KFD state that differ between releases. */
#ifndef KFD_CRIU_DRIVER_H_
#define KFD_CRIU_DRIVER_H_

#include "gc/gc_9_4_3_sh_mask.h"
#include "kfd_device_queue_manager.h"
#include "kfd_priv.h"

/* Return: MQDs of a queue that checkpoint_mqd() and restore_mqd() process. */
static inline u32 kfd_criu_mqds_max(const struct kfd_node *node)
{
	/* See restore_mqd_v12_1(). */
	return KFD_GC_VERSION(node) < IP_VERSION(12, 1, 0) ? KFD_CRIU_XCCS_MAX : 1;
}

/* Return: true if the process is or has a secondary context. */
static inline bool kfd_criu_has_contexts(const struct kfd_process *p)
{
	return p->context_id != KFD_CONTEXT_ID_PRIMARY || !ida_is_empty(&p->id_table);
}

static inline bool kfd_criu_has_profiler(const struct kfd_process_device *pdd)
{
	struct kfd_dev *kfd = pdd->dev->kfd;
	bool locked;

	mutex_lock(&kfd->profiler_lock);
	locked = kfd->profiler_process == pdd->process;
	mutex_unlock(&kfd->profiler_lock);
	return locked || pdd->ptl_disable_req;
}

static inline bool kfd_criu_queue_was_reset(const struct queue_properties *properties)
{
	return properties->is_reset;
}

static inline u64 kfd_criu_metadata_size(const struct queue_properties *properties)
{
	return properties->metadata_queue_size;
}

/* Return: false if this kernel does not support the ring. */
static inline bool kfd_criu_set_metadata_size(struct kfd_ioctl_create_queue_args *args, u32 size)
{
	args->metadata_ring_size = size;
	return true;
}

/* Only GPUs of this IP version have the mode, see set_cache_memory_policy_v9(). */
static inline bool kfd_criu_is_mfma_high_precision(const struct kfd_process_device *pdd)
{
	return KFD_GC_VERSION(pdd->dev) == IP_VERSION(9, 5, 0) &&
	       (pdd->qpd.sh_mem_config & SH_MEM_CONFIG__PRECISION_MODE_MASK);
}

static inline bool kfd_criu_set_mfma_high_precision(struct kfd_process_device *pdd)
{
	struct device_queue_manager *dqm = pdd->dev->dqm;

	return dqm->ops.set_cache_memory_policy(dqm, &pdd->qpd, cache_policy_coherent,
						cache_policy_coherent, NULL, 0,
						KFD_PROC_FLAG_MFMA_HIGH_PRECISION);
}

#endif /* KFD_CRIU_DRIVER_H_ */
