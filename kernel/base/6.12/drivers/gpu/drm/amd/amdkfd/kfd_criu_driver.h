/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Accessors of KFD state that differ between releases.
 */
#ifndef KFD_CRIU_DRIVER_H_
#define KFD_CRIU_DRIVER_H_

#include "kfd_device_queue_manager.h"
#include "kfd_priv.h"

/* pqm_create_queue() does not use its file argument. */
#define pqm_create_queue(_pqm, _node, ...) pqm_create_queue(_pqm, _node, NULL, __VA_ARGS__)

/* Return: MQDs of a queue that checkpoint_mqd() and restore_mqd() process. */
static inline u32 kfd_criu_mqds_max(const struct kfd_node *node)
{
	return 1;
}

/* Return: true if the process is or has a secondary context. */
static inline bool kfd_criu_has_contexts(const struct kfd_process *p)
{
	return false;
}

static inline bool kfd_criu_has_profiler(const struct kfd_process_device *pdd)
{
	return false;
}

/* This kernel records a reset for the whole GPU: kfd_process_device.has_reset_queue. */
static inline bool kfd_criu_queue_was_reset(const struct queue_properties *properties)
{
	return false;
}

static inline u64 kfd_criu_metadata_size(const struct queue_properties *properties)
{
	return 0;
}

/* Return: false if this kernel does not support the ring. */
static inline bool kfd_criu_set_metadata_size(struct kfd_ioctl_create_queue_args *args, u32 size)
{
	return !size;
}

/* This kernel does not support the GPU that has the mode. */
static inline bool kfd_criu_is_mfma_high_precision(const struct kfd_process_device *pdd)
{
	return false;
}

static inline bool kfd_criu_set_mfma_high_precision(struct kfd_process_device *pdd)
{
	return false;
}

#endif /* KFD_CRIU_DRIVER_H_ */
