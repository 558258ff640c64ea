/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Checks between the records of a blob: references, duplicates, overlaps. As the codec,
 * this code uses no driver types, allocates no memory, and builds on the host.
 */
#ifndef _CRIU_IDS_H_
#define _CRIU_IDS_H_

#include <linux/types.h>

/**
 * struct criu_id - an id and its index in the caller's plan
 * @id: unique in its set
 * @index: index of the caller
 */
struct criu_id {
	__u64 id;
	__u32 index;
};

/**
 * struct criu_id_set - ids of one kind, to find duplicates and dangling references
 * @ids: room for @room ids, allocated by the caller (see criu_blob_count())
 * @num: number of ids in the set
 * @room: capacity of @ids
 */
struct criu_id_set {
	struct criu_id *ids;
	__u32 num;
	__u32 room;
};

int criu_id_set_add(struct criu_id_set *set, __u64 id, __u32 index);
int criu_id_set_seal(struct criu_id_set *set, __u64 *duplicate);
const struct criu_id *criu_id_set_find(const struct criu_id_set *set, __u64 id);

/**
 * struct criu_range - part of an address space
 * @start: first byte
 * @size: bytes, not 0
 * @index: index of the caller
 */
struct criu_range {
	__u64 start;
	__u64 size;
	__u32 index;
};

int criu_ranges_check(struct criu_range *ranges, __u32 num, const struct criu_range **culprit);

#endif /* _CRIU_IDS_H_ */
