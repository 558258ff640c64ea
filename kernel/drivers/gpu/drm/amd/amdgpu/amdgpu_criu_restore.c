// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * RESTORE: reads what the caller passes, makes a plan of it and applies it, or undoes all of it.
 * RESUME: brings in memory of the process.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/userfaultfd_k.h>

#include "amdgpu_criu_node.h"
#include "criu_plan.h"

/* Limit of the wait for running ioctls of the client. */
#define AMDGPU_CRIU_STOP_TIME (5 * HZ)

void amdgpu_criu_input_free(const struct criu_plan *plan)
{
	kvfree(plan->device_table);
	kvfree(plan->bo_table);
	kvfree(plan->blob.buf);
}

/*
 * Reads the blob and the tables of criu_plan.state. Reading may block indefinitely if the memory
 * belongs to a file system in user space or to userfaultfd, so the caller holds no lock. The caller
 * calls amdgpu_criu_input_free() in each case.
 */
int amdgpu_criu_input_read(struct criu_plan *plan)
{
	struct criu_call *call = plan->call;
	const struct amdgpu_criu_state *state = plan->state;
	struct criu_blob_fault fault;
	void *buf;
	int ret = amdgpu_criu_state_check(state);

	if (ret)
		return ret;
	if (state->records || state->num_records || state->record_stride)
		return -EINVAL;
	buf = criu_blob_from_user(call, state->blob, state->blob_size);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	ret = criu_blob_open(&plan->blob, call->node->schema, buf, state->blob_size, &fault);
	if (ret)
		return criu_refuse_blob(call, &fault, ret);
	/* Each entry has a record, so the size of the blob limits the copies. */
	if (max(state->num_devices, state->num_bos) > state->blob_size / CRIU_BLOB_ALIGN)
		return criu_refuse(call, -EBADMSG, "the tables are longer than the blob");
	ret = amdgpu_criu_table_copy(state->devices, state->num_devices, state->device_stride,
				     sizeof(*plan->device_table), (void **)&plan->device_table);
	return ret ?: amdgpu_criu_table_copy(state->bos, state->num_bos, state->bo_stride,
					     sizeof(*plan->bo_table), (void **)&plan->bo_table);
}

/* Compares the caller's BO table with the BOs of a plan, the kind that is checked. */
int amdgpu_criu_bos_check(struct criu_plan *plan)
{
	/* Of /dev/kfd or of a render node */
	const u32 num = plan->num_bos ?: plan->num_objects;
	struct amdgpu_criu_bo expected;

	if (plan->state->num_bos != num)
		return criu_refuse(plan->call, -EBADMSG, "table of %u BOs for a blob of %u",
				   plan->state->num_bos, num);
	for (u32 i = 0; i < num; i++) {
		plan->entry(criu_entry(plan->call->kind, plan, i), &expected);
		plan->bo_table[i].new_mmap_offset = 0;
		if (memcmp(&plan->bo_table[i], &expected, sizeof(expected)))
			return criu_refuse(plan->call, -EBADMSG,
					   "BO %u: table and record do not agree", i);
	}
	return 0;
}

/* Writes the new mmap offsets to the caller's BO table. Returns 0 or -EFAULT. */
int amdgpu_criu_bos_put(const struct criu_plan *plan)
{
	const struct amdgpu_criu_state *state = plan->state;

	return amdgpu_criu_table_put(state->bos, state->num_bos, state->bo_stride, plan->bo_table,
				     sizeof(*plan->bo_table));
}

/*
 * A failed restore frees doorbells and event pages. No thread of the process may map them
 * before, so mmap() of KFD fails while @restoring is set. Taking the mmap lock waits for a
 * running mmap() that has not seen the flag.
 *
 * Writing the results may block indefinitely, so the lock is not held. The session holds the
 * client: other operations refuse it, and RESUME checks @restoring.
 */
static int amdgpu_criu_restore_stopped(struct criu_call *call, struct criu_plan *plan)
{
	struct mutex *lock = call->client->lock;
	int ret;

	mmap_write_lock(current->mm);
	mmap_write_unlock(current->mm);
	scoped_guard(mutex, lock) {
		if (!plan->is_fresh(plan))
			return criu_refuse(call, -EBADFD, "it has been used already");
		ret = criu_plan_make(call, &plan->blob, plan) ?: criu_plan_apply(call, plan);
		if (ret)
			criu_plan_undo(call, plan);
	}
	if (ret)
		return ret;
	ret = amdgpu_criu_bos_put(plan);
	if (ret) {
		guard(mutex)(lock);
		criu_plan_undo(call, plan);
	}
	return ret;
}

/*
 * Runs RESTORE. Other ioctls of the client block until RESUME: userptrs have no memory, and their
 * notifiers are blocked, so a new one would keep pages that the process has freed.
 */
int amdgpu_criu_restore(struct criu_plan *plan)
{
	struct criu_call *call = plan->call;
	struct criu_client *client = call->client;
	int ret = amdgpu_criu_input_read(plan);

	if (ret)
		return ret;
	if (mutex_lock_interruptible(client->lock))
		return -ERESTARTSYS;
	ret = criu_session_hold(call->session, client);
	if (!ret)
		WRITE_ONCE(client->restoring, true);
	mutex_unlock(client->lock);
	if (ret)
		return ret == -EALREADY ? -EBADFD : ret;
	ret = criu_client_stop(client, jiffies + AMDGPU_CRIU_STOP_TIME);
	if (!ret) {
		ret = amdgpu_criu_restore_stopped(call, plan);
		if (ret)
			criu_client_allow(client);
	}
	guard(mutex)(client->lock);
	WRITE_ONCE(client->restoring, false);
	if (ret)
		criu_session_release(call->session, client);
	return ret;
}

/*
 * Brings in memory of a process. hmm_range_fault() fails with -EFAULT, as for memory that is not
 * mapped, if there is no memory or if userfaultfd has not filled a page, and waits unkillably for a
 * file system in user space. Without @all, omits what it can bring in itself. Omits memory that is
 * not mapped or not accessible. Returns -ENOMEM, or -EINTR if the caller is killed.
 */
int amdgpu_criu_fault_in(struct mm_struct *mm, u64 start, u64 size, bool all)
{
	const u64 end = start + size;
	struct vm_area_struct *vma;
	int locked = 0;
	long num = 0;
	u64 last;

	for (u64 at = start; at < end; at = num > 0 ? at + ((u64)num << PAGE_SHIFT) : last) {
		if (!locked && mmap_read_lock_killable(mm))
			return -EINTR;
		locked = 1;
		vma = find_vma(mm, at);
		if (!vma || vma->vm_start >= end)
			break;
		at = max_t(u64, at, vma->vm_start);
		last = min_t(u64, end, vma->vm_end);
		num = 0;
		if (all || vma->vm_file || userfaultfd_armed(vma))
			num = get_user_pages_remote(mm, at, (last - at) >> PAGE_SHIFT,
						    vma->vm_flags & VM_WRITE ? FOLL_WRITE : 0,
						    NULL, &locked);
		if (num == -ENOMEM || fatal_signal_pending(current))
			break;
	}
	if (locked)
		mmap_read_unlock(mm);
	if (fatal_signal_pending(current))
		return -EINTR;
	return num == -ENOMEM ? num : 0;
}
