/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Checks between the records of a blob: references, duplicates, overlaps. Like the codec,
 * this code uses no driver types, allocates no memory, and builds on the host.
 */
#ifndef _CRIU_IDS_H_
#define _CRIU_IDS_H_

#include <linux/types.h>

/* An id and its index in the caller's plan */
struct criu_id {
	__u64 id; /* unique in its set */
	__u32 index; /* index of the caller */
};

/* Ids of one kind, to find duplicates and dangling references */
struct criu_id_set {
	struct criu_id *ids; /* allocated by the caller, see criu_blob_count() */
	__u32 num; /* number of ids in the set */
	__u32 room; /* capacity of ids */
};

int criu_id_set_add(struct criu_id_set *set, __u64 id, __u32 index);
int criu_id_set_seal(struct criu_id_set *set, __u64 *duplicate);
const struct criu_id *criu_id_set_find(const struct criu_id_set *set, __u64 id);

/* Part of an address space */
struct criu_range {
	__u64 start; /* first byte */
	__u64 size; /* bytes, not 0 */
	__u32 index; /* index of the caller */
};

int criu_ranges_check(struct criu_range *ranges, __u32 num, const struct criu_range **culprit);
const struct criu_range *criu_ranges_find(const struct criu_range *ranges, __u32 num, __u64 start,
					  __u64 size);

static inline bool criu_ranges_contain(const struct criu_range *ranges, __u32 num, __u64 start,
				       __u64 size)
{
	return criu_ranges_find(ranges, num, start, size);
}

#endif /* _CRIU_IDS_H_ */
