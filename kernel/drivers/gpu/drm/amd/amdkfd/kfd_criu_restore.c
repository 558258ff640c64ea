// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * RESTORE: a plan is made of the blob, then applied, or all of it taken back.
 */
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "kfd_criu.h"
#include "kfd_criu_driver.h"
#include "kfd_svm.h"

static bool kfd_criu_has_svm(struct kfd_process *p)
{
	u32 num;
	u64 unused;

	svm_range_get_info(p, &num, &unused);
	return num;
}

/* Nothing but the open file? */
static bool kfd_criu_is_fresh(struct kfd_process *p)
{
	bool fresh;
	u32 i;

	for (i = 0; i < p->n_pdds; i++) {
		const struct kfd_process_device *pdd = p->pdds[i];

		if (pdd->drm_file || pdd->qpd.proc_doorbells || !idr_is_empty(&pdd->alloc_idr) ||
		    !list_empty(&pdd->qpd.queues_list) || pdd->user_gpu_id != pdd->dev->id)
			return false;
	}
	mutex_lock(&p->event_mutex);
	fresh = !p->signal_page && !kfd_get_num_events(p);
	mutex_unlock(&p->event_mutex);
	return fresh && !p->queues_paused && !p->criu_pending && !p->debug_trap_enabled &&
	       p->runtime_info.runtime_state == DEBUG_RUNTIME_STATE_DISABLED &&
	       !kfd_criu_has_contexts(p) && !kfd_criu_has_svm(p);
}

/* Takes back what was applied, in reverse. Whatever was not begun is passed over. */
static void kfd_criu_undo(struct kfd_criu_plan *plan)
{
	kfd_criu_forget_svm(plan->p);
	kfd_criu_undo_queues(plan);
	kfd_criu_undo_process(plan);
	kfd_criu_undo_events(plan);
	kfd_criu_undo_bos(plan);
	kfd_criu_undo_devices(plan);
	if (plan->evicted)
		kfd_process_restore_queues(plan->p);
	plan->evicted = false;
}

static int kfd_criu_apply_all(struct kfd_criu_plan *plan)
{
	static int (* const steps[])(struct kfd_criu_plan *plan) = {
		kfd_criu_apply_devices,
		kfd_criu_apply_bos,
		kfd_criu_apply_events,
		kfd_criu_apply_process,
		kfd_criu_apply_queues,
		kfd_criu_apply_svm,
	};
	u32 i;
	int ret;

	/* No queue may run before RESUME: its memory has no contents yet. */
	ret = kfd_process_evict_queues(plan->p, KFD_QUEUE_EVICTION_CRIU_RESTORE);
	plan->evicted = !ret || ret == -EIO;
	for (i = 0; !ret && i < ARRAY_SIZE(steps); i++)
		ret = steps[i](plan);
	return ret;
}

static int kfd_criu_restore_locked(struct kfd_criu_plan *plan,
				   const struct amdgpu_criu_state *args)
{
	int ret;

	if (!kfd_criu_is_fresh(plan->p)) {
		criu_refuse(plan->call, "the process has used the GPU already");
		return -EBADFD;
	}
	ret = criu_session_hold(plan->session, plan->p, &kfd_criu_restored_ops);
	if (ret)
		return ret == -EALREADY ? -EBADFD : ret;
	ret = kfd_criu_plan_make(plan, args);
	if (!ret)
		ret = kfd_criu_apply_all(plan);
	if (!ret)
		ret = kfd_criu_put_bos(plan, args);
	if (ret) {
		kfd_criu_undo(plan);
		criu_session_release(plan->session, plan->p);
	}
	return ret;
}

/*
 * A failed restore frees doorbells and event pages, so no thread of the process may
 * have mapped them: mmap() of the node is closed meanwhile. Taking the mmap lock
 * waits for one that did not see the flag.
 */
static int kfd_criu_restore_closed(struct kfd_criu_plan *plan,
				   const struct amdgpu_criu_state *args)
{
	struct kfd_process *p = plan->p;
	int ret;

	mutex_lock(&p->mutex);
	WRITE_ONCE(p->criu_restoring, true);
	mmap_write_lock(current->mm);
	mmap_write_unlock(current->mm);
	ret = kfd_criu_restore_locked(plan, args);
	WRITE_ONCE(p->criu_restoring, false);
	mutex_unlock(&p->mutex);
	return ret;
}

static int kfd_criu_restore_blob(struct criu_call *call, struct criu_session *session,
				 const struct amdgpu_criu_state *args,
				 const struct criu_blob *blob)
{
	struct kfd_criu_plan plan = {
		.call = call,
		.p = call->client,
		.session = session,
		.blob = blob,
	};
	int ret;

	ret = kfd_criu_restore_closed(&plan, args);
	kfd_criu_plan_free(&plan);
	return ret;
}

/**
 * kfd_criu_restore() - RESTORE
 * @call: the call
 * @args: &struct amdgpu_criu_state
 *
 * Return: 0; errors as in the uapi header, and what the ioctls return whose paths
 * it takes.
 */
int kfd_criu_restore(struct criu_call *call, void *args)
{
	int ret = amdgpu_criu_restore_check(args);

	if (ret)
		return ret;
	/* BOs, userptrs and VMAs of a process are made in its own context only. */
	if (call->task != current->group_leader)
		return -EBADF;
	return amdgpu_criu_restore_with(call, args, kfd_criu_restore_blob);
}
