// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/errno.h>
#include <linux/overflow.h>
#include <linux/sort.h>

#include "criu_ids.h"

static int criu_id_cmp(const void *a, const void *b)
{
	const struct criu_id *x = a;
	const struct criu_id *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Adds an id to a set that is not yet sealed. Returns 0, or -EBADMSG if the set is full. */
int criu_id_set_add(struct criu_id_set *set, __u64 id, __u32 index)
{
	if (set->num >= set->room)
		return -EBADMSG;
	set->ids[set->num].id = id;
	set->ids[set->num].index = index;
	set->num++;
	return 0;
}

/*
 * Sorts a set and checks for duplicates. @set: the set, which can only be searched afterwards.
 * @duplicate: output in case of an error: an id that occurs twice. Returns 0, or -EBADMSG.
 */
int criu_id_set_seal(struct criu_id_set *set, __u64 *duplicate)
{
	sort_nonatomic(set->ids, set->num, sizeof(*set->ids), criu_id_cmp, NULL);
	for (__u32 i = 1; i < set->num; i++) {
		if (set->ids[i].id != set->ids[i - 1].id)
			continue;
		*duplicate = set->ids[i].id;
		return -EBADMSG;
	}
	return 0;
}

/* Looks up an id. Returns the entry of the id, or NULL if the reference is dangling. */
const struct criu_id *criu_id_set_find(const struct criu_id_set *set, __u64 id)
{
	__u32 low = 0, high = set->num;
	__u32 middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (set->ids[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < set->num && set->ids[low].id == id ? &set->ids[low] : NULL;
}

static int criu_range_cmp(const void *a, const void *b)
{
	const struct criu_range *x = a;
	const struct criu_range *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * Sorts ranges of an address space and checks for overlaps. @ranges: the ranges, sorted on return.
 * @culprit: output in case of an error: a range that is empty, wraps around, or begins in the
 * preceding one. Returns 0, or -EBADMSG.
 */
int criu_ranges_check(struct criu_range *ranges, __u32 num, const struct criu_range **culprit)
{
	__u64 last, last_before = 0;

	sort_nonatomic(ranges, num, sizeof(*ranges), criu_range_cmp, NULL);
	for (__u32 i = 0; i < num; i++) {
		*culprit = &ranges[i];
		if (!ranges[i].size ||
		    check_add_overflow(ranges[i].start, ranges[i].size - 1, &last))
			return -EBADMSG;
		if (i && ranges[i].start <= last_before)
			return -EBADMSG;
		last_before = last;
	}
	*culprit = NULL;
	return 0;
}
