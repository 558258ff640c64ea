/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A plan holds the records of a blob. They are checked before anything is created, and then
 * applied. A table describes each kind of record, in the order in which they are applied. It uses
 * no driver type.
 */
#ifndef _CRIU_PLAN_H_
#define _CRIU_PLAN_H_

#include <linux/limits.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct criu_blob;
struct criu_call;

#define CRIU_TAILS_MAX 2

/*
 * A kind of record. The plan has an array of entries for it, each of which begins with the record.
 * Functions that are NULL do nothing. criu_refuse() names the entry that is checked or applied.
 */
struct criu_kind {
	u16 type; /* of the records */
	bool unique; /* no two entries have the same id and GPU */
	bool backwards; /* applied from the last entry to the first */
	const char *subject; /* format of a name for messages; arguments: u64 id, u32 gpu */
	u16 entries; /* offset in the plan: pointer to the array */
	u16 num; /* offset in the plan: number of entries, a u32 */
	u16 size; /* bytes of an entry */
	u16 id; /* offset in an entry: a u32 */
	bool id64; /* the id is a u64 */
	u16 gpu; /* offset in an entry: a u32; 0: ids are not per GPU */
	/* The tail of a record: arrays, each with its number of items in a field of the record */
	struct criu_kind_tail {
		u16 count; /* offset in the entry: number of items, a __u32 */
		u16 items; /* offset in the entry: pointer to the items */
		u16 size; /* bytes of an item; 0: no such tail */
	} tails[CRIU_TAILS_MAX];

	bool live; /* also dumped while the client runs */
	int (*dump)(void *dump); /* writes the records of a client */

	/* First pass. Returns why the record of an entry is damaged (-EBADMSG), or NULL. */
	const char *(*fault)(void *plan, void *entry);
	int (*check)(void *plan, void *entry); /* for other errors; reports the reason */
	int (*check_all)(void *plan); /* called last, also without entries */
	/*
	 * Second pass. undo() and undo_all() revert what was done, also if it failed, and are not
	 * called for what has not begun.
	 */
	int (*begin)(void *plan);
	int (*apply)(void *plan, void *entry);
	int (*end)(void *plan, int ret); /* called with the result; returns the new result */
	void (*undo)(void *plan, void *entry);
	void (*undo_all)(void *plan);
};

/* Fields of a row: @_entries and num_@_entries are fields of @_plan. */
#define CRIU_KIND(_plan, _entries, _entry, _id) \
	.entries = offsetof(_plan, _entries), .num = offsetof(_plan, num_##_entries), \
	.size = sizeof(_entry), .id = offsetof(_entry, _id)
#define CRIU_KIND_TAIL(_entry, _count, _items, _item) \
	{ \
		.count = offsetof(_entry, record._count), .items = offsetof(_entry, _items), \
		.size = sizeof(_item), \
	}

int criu_plan_make(struct criu_call *call, const struct criu_blob *blob, void *plan);
int criu_plan_apply(struct criu_call *call, void *plan);
void criu_plan_undo(struct criu_call *call, void *plan);
void criu_plan_free(const struct criu_call *call, void *plan);

/* The id of an entry without an id. */
#define CRIU_NO_ID U64_MAX

typedef u64 (*criu_id_fn)(const struct criu_kind *kind, const void *entry);
int criu_check_unique(struct criu_call *call, const void *plan, const char *what, criu_id_fn id_of);

/* A field of a record, a __u32 or a __u64, that must be the same on the target */
struct criu_same {
	u16 offset;
	u16 size;
	const char *name;
};

#define CRIU_SAME(_struct, _type, _field, _name) \
	{ offsetof(_struct, _field), sizeof(_type), _name }
int criu_check_same(const struct criu_call *call, const struct criu_same *same, u32 num,
		    const void *was, const void *is);

#endif /* _CRIU_PLAN_H_ */
