// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/cleanup.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "criu_ioctl.h"

/* User space chooses the number of entries. Returns -EINTR if the caller is killed. */
static int criu_resched(void)
{
	cond_resched();
	return fatal_signal_pending(current) ? -EINTR : 0;
}

static u32 criu_num_entries(const struct criu_kind *kind, const struct criu_plan *plan)
{
	return *(const u32 *)((const void *)plan + kind->num);
}

static void *criu_entries(const struct criu_kind *kind, const struct criu_plan *plan)
{
	return *(void *const *)((const void *)plan + kind->entries);
}

/* Returns an entry by its position in the order of application. */
void *criu_entry(const struct criu_kind *kind, const struct criu_plan *plan, u32 position)
{
	if (kind->backwards)
		position = criu_num_entries(kind, plan) - 1 - position;
	return criu_entries(kind, plan) + (size_t)position * kind->size;
}

static int criu_load_entry(const struct criu_call *call, const struct criu_kind *kind,
			   struct criu_record *record, void *entry)
{
	const struct criu_blob_fault fault = {
		.offset = record->offset, .type = kind->type, .version = record->version,
		.reason = "the tail is not as long as the record says",
	};
	bool fits = true;

	criu_record_get(record, entry, record->desc->size_now);
	for (int i = 0; fits && i < CRIU_TAILS_MAX && kind->tails[i].size; i++) {
		const struct criu_kind_tail *tail = &kind->tails[i];
		const u32 *count = entry + tail->count;
		const void **items = entry + tail->items;

		*items = criu_record_tail(record, (u64)*count * tail->size);
		fits = *items;
	}
	if (fits && !record->tail_size)
		return 0;
	return criu_refuse_blob(call, &fault, -EBADMSG);
}

struct criu_range criu_id_range(const struct criu_kind *kind, const void *entry, u32 gpu)
{
	return (struct criu_range) {
		.start = criu_entry_id(kind, entry),
		.size = kind->extent ? *(const u64 *)(entry + kind->extent) : 1,
	};
}

/* Checks that the ranges of the entries of the current kind do not overlap. */
int criu_check_ranges(struct criu_call *call, struct criu_plan *plan,
		      const struct criu_kind_unique *unique, u32 gpu)
{
	const u32 max = criu_num_entries(call->kind, plan);
	struct criu_range *ranges __free(kvfree) =
		kvcalloc(max, sizeof(*ranges), GFP_KERNEL_ACCOUNT);
	const struct criu_range *culprit;
	u32 num = 0;

	if (!ranges)
		return -ENOMEM;
	for (u32 i = 0; i < max; i++) {
		ranges[num] = unique->range_of(call->kind, criu_entry(call->kind, plan, i), gpu);
		ranges[num].index = i;
		num += !!ranges[num].size;
	}
	if (criu_ranges_check(ranges, num, &culprit)) {
		call->entry = criu_entry(call->kind, plan, culprit->index);
		return criu_refuse(call, -EBADMSG, "%s", unique->fault);
	}
	if (unique->kept)
		*(void **)((void *)plan + unique->kept) = no_free_ptr(ranges);
	return criu_resched();
}

/* Compares the record of a GPU with the same record of its target. Returns 0 or -ENODEV. */
int criu_check_same(const struct criu_call *call, const struct criu_same *same, u32 num,
		    const void *was, const void *is)
{
	for (; num; num--, same++) {
		u64 old = 0, now = 0;

		/* Records are little-endian, like the CPU. */
		memcpy(&old, was + same->offset, same->size);
		memcpy(&now, is + same->offset, same->size);
		if (old != now)
			return criu_refuse(call, -ENODEV,
					   "the GPU does not fit: %s is %#llx, was %#llx",
					   same->name, now, old);
	}
	return 0;
}

static int criu_check_kind(struct criu_call *call, const struct criu_kind *kind,
			   struct criu_plan *plan)
{
	const char *fault = NULL;
	int ret = 0;

	call->kind = kind;
	for (u32 i = 0; !ret && i < criu_num_entries(kind, plan); i++) {
		call->entry = criu_entry(kind, plan, i);
		if (kind->fault)
			fault = kind->fault(plan, call->entry);
		if (fault)
			ret = criu_refuse(call, -EBADMSG, "%s", fault);
		else if (kind->check)
			ret = kind->check(plan, call->entry);
		ret = ret ?: criu_resched();
	}
	call->entry = NULL;
	for (int i = 0; !ret && i < CRIU_UNIQUE_MAX && kind->unique[i].range_of; i++)
		ret = criu_check_ranges(call, plan, &kind->unique[i], 0);
	if (!ret && kind->check_all)
		ret = kind->check_all(plan);
	call->entry = NULL;
	return ret;
}

/* First pass of a restore. The caller calls criu_plan_free() in each case. */
int criu_plan_make(struct criu_call *call, const struct criu_blob *blob, struct criu_plan *plan)
{
	const struct criu_node *node = call->node;
	int ret = 0;

	for (u32 i = 0; !ret && i < node->num_kinds; i++) {
		const struct criu_kind *kind = node->kinds[i];
		const u32 num = criu_blob_count(blob, kind->type);
		void *entry = kvcalloc(num, kind->size, GFP_KERNEL_ACCOUNT);
		struct criu_record record = {};

		if (!entry)
			return -ENOMEM;
		*(void **)((void *)plan + kind->entries) = entry;
		*(u32 *)((void *)plan + kind->num) = num;
		for (; !ret && criu_blob_next_of(blob, kind->type, &record); entry += kind->size)
			ret = criu_load_entry(call, kind, &record, entry) ?: criu_resched();
	}
	for (u32 i = 0; !ret && i < node->num_kinds; i++)
		ret = criu_check_kind(call, node->kinds[i], plan);
	return ret;
}

/* Second pass of a restore. The caller undoes what was done in case of an error. */
int criu_plan_apply(struct criu_call *call, struct criu_plan *plan)
{
	int ret = 0;

	while (!ret && call->kinds_begun < call->node->num_kinds) {
		const struct criu_kind *kind = call->node->kinds[call->kinds_begun++];

		call->kind = kind;
		call->entries_begun = 0;
		ret = kind->begin ? kind->begin(plan) : 0;
		while (!ret && kind->apply && call->entries_begun < criu_num_entries(kind, plan)) {
			call->entry = criu_entry(kind, plan, call->entries_begun++);
			ret = kind->apply(plan, call->entry);
			if (ret && ret != -ERESTARTSYS && !*call->reason)
				criu_refuse(call, ret, "cannot restore: %d", ret);
		}
		call->entry = NULL;
		ret = kind->end ? kind->end(plan, ret) : ret;
	}
	return ret;
}

/* Undoes what criu_plan_apply() has begun, in reverse order. */
void criu_plan_undo(struct criu_call *call, struct criu_plan *plan)
{
	const bool interrupted = signal_pending(current);
	sigset_t blocked, before;

	/* With a signal pending, functions of the driver leave what they should free. */
	siginitsetinv(&blocked, sigmask(SIGKILL));
	sigprocmask(SIG_BLOCK, &blocked, &before);
	while (call->kinds_begun) {
		const struct criu_kind *kind = call->node->kinds[--call->kinds_begun];

		while (kind->undo && call->entries_begun)
			kind->undo(plan, criu_entry(kind, plan, --call->entries_begun));
		if (kind->undo_all)
			kind->undo_all(plan);
		if (call->kinds_begun)
			call->entries_begun =
				criu_num_entries(call->node->kinds[call->kinds_begun - 1], plan);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	/* Another thread may have taken the signal. The kernel still has to restart the call. */
	if (interrupted)
		set_thread_flag(TIF_SIGPENDING);
}

void criu_plan_free(const struct criu_call *call, struct criu_plan *plan)
{
	for (u32 i = 0; i < call->node->num_kinds; i++) {
		const struct criu_kind *kind = call->node->kinds[i];

		kvfree(criu_entries(kind, plan));
		for (int j = 0; j < CRIU_UNIQUE_MAX; j++)
			if (kind->unique[j].kept)
				kvfree(*(void **)((void *)plan + kind->unique[j].kept));
	}
}
