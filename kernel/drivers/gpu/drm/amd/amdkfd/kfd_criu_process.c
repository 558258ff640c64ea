// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: Process
 *
 * Carried: XNACK mode, trap handlers, scratch and LDS apertures, runtime-enable, MFMA mode of
 * GFX 9.5, and the delay of SIGBUS of DRM_IOCTL_AMDGPU_PROC_OPTIONS.
 *
 * Not carried: secondary contexts, debuggers with their watch points and queues, a locked
 * profiler, files of AMDKFD_IOC_SMI_EVENTS, memory policies of GFX8; memory that was lost or
 * poisoned, and memory faults that were reported.
 */
#include "kfd_criu.h"
#include "kfd_smi_events.h"

static int kfd_criu_is_smi_file(const void *unused, struct file *file, unsigned int fd)
{
	return kfd_smi_event_is_file(file);
}

/* A reset loses memory of the process, and stops no queue. */
bool kfd_criu_is_reset(const struct kfd_process_device *pdd)
{
	const struct drm_file *file = pdd->drm_priv;

	return file && amdgpu_criu_is_reset(pdd->dev->adev, file->driver_priv);
}

static const char *kfd_criu_device_fault(struct kfd_process_device *pdd)
{
	struct kfd_dev *kfd = pdd->dev->kfd;
	bool has_profiler = pdd->ptl_disable_req;

	scoped_guard(mutex, &kfd->profiler_lock)
		has_profiler |= kfd->profiler_process == pdd->process;
	if (READ_ONCE(pdd->has_memory_fault))
		return "a memory fault was reported";
	if (has_profiler)
		return "the profiler is locked";
	if (pdd->has_reset_queue)
		return "a queue that was reset";
	if (kfd_criu_is_reset(pdd))
		return "memory that a reset of the GPU has lost";
	/* Only GFX7 and GFX8 have this aperture. */
	return pdd->qpd.sh_mem_ape1_base || pdd->qpd.sh_mem_ape1_limit ?
	       "a memory policy of GFX8" : NULL;
}

static const char *kfd_criu_process_fault(struct kfd_process *p)
{
	const char *fault = NULL;

	if (p->context_id != KFD_CONTEXT_ID_PRIMARY || !ida_is_empty(&p->id_table))
		return "secondary contexts";
	if (p->debug_trap_enabled || p->debugger_process)
		return "a debugger is attached";
	if (atomic_read(&p->debugged_process_count))
		return "it debugs another process";
	if (p->is_runtime_retry || p->runtime_info.runtime_state > DEBUG_RUNTIME_STATE_ENABLED)
		return "runtime-enable is under way";
	if (atomic_read(&p->poison))
		return "it has used poisoned memory";
	for (u32 i = 0; !fault && i < p->n_pdds; i++)
		fault = kfd_criu_device_fault(p->pdds[i]);
	if (!fault && criu_has_file(p->lead_thread, kfd_criu_is_smi_file, NULL))
		fault = "an open file of SMI events";
	return fault;
}

/* Checks for state that a blob cannot hold, except that of BOs and queues. */
int kfd_criu_process_carriable(struct criu_call *call, struct kfd_process *p)
{
	const char *fault = kfd_criu_process_fault(p);

	return fault ? criu_refuse_state(call, "%s", fault) : 0;
}

static int kfd_criu_dump_process(struct criu_dump *dump)
{
	const struct kfd_process *p = dump->p;
	struct kfd_criu_process_record record = {
		.flags = p->xnack_enabled ? KFD_CRIU_PROCESS_XNACK : 0,
	};

	if (p->runtime_info.runtime_state == DEBUG_RUNTIME_STATE_ENABLED) {
		record.flags |= KFD_CRIU_PROCESS_RUNTIME;
		record.flags |= p->runtime_info.ttmp_setup ? KFD_CRIU_PROCESS_TTMP : 0;
		record.r_debug = p->runtime_info.r_debug;
	}
	criu_writer_record(&dump->writer, KFD_CRIU_PROCESS, &record);
	return 0;
}

static int kfd_criu_check_process(struct criu_plan *plan, void *entry)
{
	const u32 known = KFD_CRIU_PROCESS_XNACK | KFD_CRIU_PROCESS_RUNTIME | KFD_CRIU_PROCESS_TTMP;
	const struct kfd_criu_process_record *record = entry;

	if (plan->state->num_devices != plan->num_devices)
		return criu_refuse(plan->call, -EBADMSG, "table of %u GPUs for a blob of %u",
				   plan->state->num_devices, plan->num_devices);
	if ((record->flags & ~known) || record->pad)
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x", record->flags);
	if (!(record->flags & KFD_CRIU_PROCESS_RUNTIME) &&
	    (record->r_debug || (record->flags & KFD_CRIU_PROCESS_TTMP)))
		return criu_refuse(plan->call, -EBADMSG, "debug state without runtime-enable");
	if ((record->flags & KFD_CRIU_PROCESS_XNACK) && !kfd_process_xnack_mode(plan->p, true))
		return criu_refuse(plan->call, -ENODEV,
				   "XNACK mode was on, these GPUs do not support it");
	return 0;
}

/* No queue may run before RESUME: its memory has no contents yet. */
static int kfd_criu_evict(struct criu_plan *plan)
{
	int ret = kfd_process_evict_queues(plan->p, KFD_QUEUE_EVICTION_CRIU_RESTORE);

	plan->evicted = !ret || ret == -EIO;
	return ret;
}

static void kfd_criu_undo_evict(struct criu_plan *plan)
{
	if (plan->evicted)
		kfd_process_restore_queues(plan->p);
}

const struct criu_kind kfd_criu_processes = {
	CRIU_KIND(KFD_CRIU_PROCESS, processes, struct kfd_criu_process_record, flags),
	.subject = "process",
	.dump = kfd_criu_dump_process,
	.check = kfd_criu_check_process,
	.begin = kfd_criu_evict,
	.undo_all = kfd_criu_undo_evict,
};

/* Like AMDKFD_IOC_RUNTIME_ENABLE, and _SET_XNACK_MODE, which would find no SVM range yet. */
int kfd_criu_apply_process(struct criu_plan *plan)
{
	const struct kfd_criu_process_record *record = plan->processes;
	struct kfd_process *p = plan->p;

	p->xnack_enabled = record->flags & KFD_CRIU_PROCESS_XNACK;
	return !(record->flags & KFD_CRIU_PROCESS_RUNTIME) ? 0 :
	       kfd_runtime_enable(p, record->r_debug, record->flags & KFD_CRIU_PROCESS_TTMP);
}

void kfd_criu_undo_process(struct kfd_process *p)
{
	p->xnack_enabled = kfd_process_xnack_mode(p, false);
	if (p->runtime_info.runtime_state == DEBUG_RUNTIME_STATE_ENABLED)
		kfd_runtime_disable(p);
}
