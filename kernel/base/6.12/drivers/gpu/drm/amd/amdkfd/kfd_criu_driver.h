/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Questions to KFD whose answers change from release to release.
 */
#ifndef KFD_CRIU_DRIVER_H_
#define KFD_CRIU_DRIVER_H_

#include "kfd_device_queue_manager.h"
#include "kfd_priv.h"

/* The file that a queue is created through is not looked at. */
#define pqm_create_queue(_pqm, _node, ...) pqm_create_queue(_pqm, _node, NULL, __VA_ARGS__)

/* Is it, or has it, a context beside the process's own? */
static inline bool kfd_criu_has_contexts(const struct kfd_process *p)
{
	return false;
}

static inline bool kfd_criu_has_profiler(const struct kfd_process_device *pdd)
{
	return false;
}

/* The GPU as a whole remembers: kfd_process_device.has_reset_queue. */
static inline bool kfd_criu_queue_was_reset(const struct queue_properties *properties)
{
	return false;
}

/* checkpoint_mqd() of GFX9 takes the first for the only one. */
static inline bool kfd_criu_saves_all_mqds(const struct kfd_node *node)
{
	return NUM_XCC(node->xcc_mask) == 1;
}

static inline u64 kfd_criu_metadata_size(const struct queue_properties *properties)
{
	return 0;
}

/* Return: false if there is no such ring in this kernel. */
static inline bool kfd_criu_set_metadata_size(struct kfd_ioctl_create_queue_args *args, u32 size)
{
	return !size;
}

/* The GPU that has the mode is not known yet. */
static inline bool kfd_criu_is_mfma_high_precision(const struct kfd_process_device *pdd)
{
	return false;
}

static inline bool kfd_criu_set_mfma_high_precision(struct kfd_process_device *pdd)
{
	return false;
}

#endif /* KFD_CRIU_DRIVER_H_ */
