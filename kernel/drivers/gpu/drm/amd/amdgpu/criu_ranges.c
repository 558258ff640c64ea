// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/errno.h>
#include <linux/overflow.h>
#include <linux/sort.h>

#include "criu_blob.h"

/* struct criu_range begins with the number that it is sorted by. */
static int criu_cmp(const void *a, const void *b)
{
	const __u64 *x = a;
	const __u64 *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Sorts ranges. Fails with -EBADMSG and @culprit if one is empty, wraps around, or overlaps. */
int criu_ranges_check(struct criu_range *ranges, __u32 num, const struct criu_range **culprit)
{
	__u64 last, last_before = 0;

	sort_nonatomic(ranges, num, sizeof(*ranges), criu_cmp, NULL);
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

/* Returns the one of the ranges, which are checked, that contains all of @size bytes, or NULL. */
const struct criu_range *criu_ranges_find(const struct criu_range *ranges, __u32 num, __u64 start,
					  __u64 size)
{
	__u32 low = 0, high = num;
	__u32 middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (ranges[middle].start <= start)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	ranges += low - 1;
	start -= ranges->start;
	return start < ranges->size && size <= ranges->size - start ? ranges : NULL;
}
