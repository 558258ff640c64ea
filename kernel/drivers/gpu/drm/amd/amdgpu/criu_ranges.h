/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Checks between the records of a blob: references, duplicates, overlaps. Like the codec,
 * this code uses no driver types, allocates no memory, and builds on the host.
 */
#ifndef _CRIU_RANGES_H_
#define _CRIU_RANGES_H_

#include <linux/types.h>

/* Part of an address space; or an id, whose size is 1 */
struct criu_range {
	__u64 start; /* first byte */
	__u64 size; /* bytes, not 0 */
	__u32 index; /* index of the caller */
};

int criu_ranges_check(struct criu_range *ranges, __u32 num, const struct criu_range **culprit);
const struct criu_range *criu_ranges_find(const struct criu_range *ranges, __u32 num, __u64 start,
					  __u64 size);

#endif /* _CRIU_RANGES_H_ */
