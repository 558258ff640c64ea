/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A plan holds the records of a blob. They are checked before anything is created, and then
 * applied. A table describes each kind of record, in the order in which they are applied. It uses
 * no driver type.
 */
#ifndef _CRIU_PLAN_H_
#define _CRIU_PLAN_H_

#include <linux/stddef.h>
#include <linux/types.h>

struct criu_blob;
struct criu_call;
struct criu_kind;
struct criu_range;

/* What a dump writes and what RESTORE reads. The driver defines both. */
struct criu_dump;
struct criu_plan;

#define CRIU_TAILS_MAX 2
#define CRIU_UNIQUE_MAX 2

/* Returns the range of an entry, of size 0 if it has none */
typedef struct criu_range (*criu_range_fn)(const struct criu_kind *kind, const void *entry);

/*
 * A kind of record. The plan has an array of entries for it, each of which begins with the record.
 * criu_refuse() names the entry that is checked or applied.
 */
struct criu_kind {
	const char *subject; /* Required: format of a name; arguments: u64 id, u32 gpu */
	/* Required, by CRIU_KIND(): type of the records, and offsets in the plan and in an entry */
	u16 type;
	u16 entries; /* pointer to the array */
	u16 num; /* number of entries, a u32 */
	u16 size; /* bytes of an entry */
	u16 id; /* in an entry: a u32 */
	u16 gpu; /* Optional: offset in an entry: a u32; 0: ids are not per GPU */
	u16 extent; /* Optional: offset in an entry: a u64; the id is the start of so many bytes */
	bool id64; /* Optional: the id is a u64 */
	bool backwards; /* Optional: applied from the last entry to the first */
	bool live; /* Optional: also dumped while the client runs */
	/* Optional: arrays, each with its number of items in a field of the record */
	struct criu_kind_tail {
		u16 count; /* offset in the entry: number of items, a __u32 */
		u16 items; /* offset in the entry: pointer to the items */
		u16 size; /* bytes of an item; 0: no such tail */
	} tails[CRIU_TAILS_MAX];
	/* Optional: ranges that do not overlap, ids among them, and the reason if they do */
	struct criu_kind_unique {
		criu_range_fn range_of;
		const char *fault;
		u16 kept; /* Optional: offset in the plan: pointer to the sorted ranges */
	} unique[CRIU_UNIQUE_MAX];

	/* Optional: writes the records of a client. Without it, another kind writes them. */
	int (*dump)(struct criu_dump *dump);

	/* First pass. Optional: returns why a record is damaged (-EBADMSG), or NULL */
	const char *(*fault)(struct criu_plan *plan, void *entry);
	/* Optional: for other errors; reports the reason */
	int (*check)(struct criu_plan *plan, void *entry);
	/* Optional: called last, also without entries */
	int (*check_all)(struct criu_plan *plan);
	/*
	 * Second pass. undo() and undo_all() revert what was done, also if it failed, and are not
	 * called for what has not begun. Required: apply(), or begin() for all entries.
	 */
	int (*begin)(struct criu_plan *plan);
	int (*apply)(struct criu_plan *plan, void *entry);
	/* Optional: called with the result; returns the new result */
	int (*end)(struct criu_plan *plan, int ret);
	/* Required if what was done does not go away with what other kinds undo */
	void (*undo)(struct criu_plan *plan, void *entry);
	void (*undo_all)(struct criu_plan *plan);
};

/* Fields of a row: @_entries and num_@_entries are fields of the plan. */
#define CRIU_KIND(_type, _entries, _entry, _id) \
	.type = (_type), .entries = offsetof(struct criu_plan, _entries), \
	.num = offsetof(struct criu_plan, num_##_entries), \
	.size = sizeof(_entry), .id = offsetof(_entry, _id)
#define CRIU_KIND_TAIL(_entry, _count, _items, _item) \
	{ \
		.count = offsetof(_entry, record._count), .items = offsetof(_entry, _items), \
		.size = sizeof(_item), \
	}

/* The id of an entry occurs once. @_ranges: field of the plan for the ranges that are kept. */
#define CRIU_UNIQUE_ID { criu_id_range, "its number occurs twice" }
#define CRIU_UNIQUE_ID_KEPT(_ranges) \
	{ criu_id_range, "its number occurs twice", offsetof(struct criu_plan, _ranges) }
/* The ids are ranges that do not overlap. */
#define CRIU_UNIQUE_EXTENT_KEPT(_ranges) \
	{ criu_id_range, "it overlaps another", offsetof(struct criu_plan, _ranges) }
struct criu_range criu_id_range(const struct criu_kind *kind, const void *entry);
void *criu_entry(const struct criu_kind *kind, const struct criu_plan *plan, u32 position);

int criu_plan_make(struct criu_call *call, const struct criu_blob *blob, struct criu_plan *plan);
int criu_plan_apply(struct criu_call *call, struct criu_plan *plan);
void criu_plan_undo(struct criu_call *call, struct criu_plan *plan);
void criu_plan_free(const struct criu_call *call, struct criu_plan *plan);

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
