/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Dispatcher of the ioctl, with a table for each kind of node, and plans. A plan holds the records
 * of a blob, which are checked before anything is created, and then applied in the order of a table
 * of their kinds. It uses no driver type.
 */
#ifndef _CRIU_IOCTL_H_
#define _CRIU_IOCTL_H_

#include <linux/compiler_attributes.h>

#include "criu_blob.h"
#include "criu_session.h"

#define CRIU_ARGS_MAX 128 /* bytes of the structure of an operation */
#define CRIU_REASON_SIZE 256 /* bytes of the reason why a call is refused */
#define CRIU_NEW_FILES_MAX 64 /* descriptors that a call returns */

/* One call of an operation */
struct criu_call {
	const struct criu_node *node; /* the kind of node */
	struct criu_client *client; /* of the file */
	struct file *filp; /* the file on which the ioctl was called */
	struct task_struct *task; /* leader of the process that the file belongs to */
	u64 ureason; /* user pointer to a buffer for the reason of an error, or 0 */
	u32 ureason_size;
	char *reason; /* CRIU_REASON_SIZE bytes, empty until criu_refuse() */
	const struct criu_op *op; /* row of the operation */
	struct criu_session *session; /* of the caller, with a reference; NULL without one */
	void *args; /* the kernel's copy of its structure */
	u64 uargs; /* user pointer to the caller's structure */
	u32 uargs_size;
	bool args_put; /* set by criu_call_put_args() */
	/* Set by criu_call_new_fd(): files, and descriptors that are reserved for them */
	struct file *new_files[CRIU_NEW_FILES_MAX];
	int new_fds[CRIU_NEW_FILES_MAX];
	u32 num_new_files;
	const struct criu_kind *kind; /* kind of entry */
	void *entry; /* of a plan, which is checked or applied, or NULL */
	u32 kinds_begun; /* RESTORE: kinds whose apply has begun */
	u32 entries_begun; /* of the last of them, entries whose apply has begun */
};

/* Row of an operation table */
struct criu_op {
	/*
	 * args: copy of the structure of the operation, padded with zeros, and copied back to the
	 * caller if the result is 0 or -ENOSPC, unless in_only; checks flags and pads. NULL: none
	 */
	int (*fn)(struct criu_call *call, void *args);
	const char *name;
	u32 size_v1; /* bytes of the structure in its first released version */
	u32 size_now; /* bytes of the structure in this kernel */
	enum criu_session_kind session; /* kinds of which the first field is a descriptor */
	bool in_only; /* the structure has no output fields */
};

/* @_last_v1: last field of the first released version of @_struct. */
#define CRIU_OP(_op, _name, _session, _fn, _struct, _last_v1, _in_only) \
	[_op] = { \
		.fn = (_fn), .name = (_name), .in_only = (_in_only), \
		.session = CRIU_SESSION_##_session, \
		.size_v1 = offsetofend(_struct, _last_v1), \
		.size_now = sizeof(_struct) + \
			    BUILD_BUG_ON_ZERO(sizeof(_struct) > CRIU_ARGS_MAX) + \
			    BUILD_BUG_ON_ZERO(sizeof(_struct) % 8), \
	}

/* A kind of device node */
struct criu_node {
	const char *name;
	const struct criu_op *ops; /* operations by number; unused numbers have no fn */
	u32 num_ops; /* rows of ops */
	const struct criu_blob_schema *schema; /* record types of its blobs */
	const struct criu_kind *const *kinds; /* of its plans, in the order of application */
	u32 num_kinds;
	u64 (*features)(void); /* returns features of QUERY that depend on the GPUs, or NULL */
};

int criu_ioctl(struct criu_call *call, u32 op, u32 size, u64 arg);
int criu_check_owner(struct task_struct *task);
struct task_struct *criu_get_process(pid_t nr);
typedef int (*criu_file_fn)(const void *arg, struct file *file, unsigned int fd);
bool criu_has_file(struct task_struct *task, criu_file_fn match, const void *arg);
int criu_call_put_args(struct criu_call *call);
int criu_call_new_fd(struct criu_call *call, struct file *file);

__printf(3, 4) int criu_refuse(const struct criu_call *call, int error, const char *fmt, ...);
/* Refuses a checkpoint because of state that no blob can hold. Returns -EOPNOTSUPP. */
#define criu_refuse_state(call, fmt, ...) \
	criu_refuse(call, -EOPNOTSUPP, "cannot carry: " fmt, ##__VA_ARGS__)
/* Reports why a wait failed with -ETIME. Returns @ret. */
#define criu_refuse_late(call, ret, fmt, ...) \
	({ \
		const int _ret = (ret); \
		_ret == -ETIME ? criu_refuse(call, _ret, fmt, ##__VA_ARGS__) : _ret; \
	})
int criu_refuse_live(const struct criu_call *call);
int criu_refuse_blob(const struct criu_call *call, const struct criu_blob_fault *fault, int error);
u64 criu_entry_id(const struct criu_kind *kind, const void *entry);

/* What a dump writes and what RESTORE reads. The driver defines both. */
struct criu_dump;
struct criu_plan;

#define CRIU_TAILS_MAX 2
#define CRIU_UNIQUE_MAX 2

/* Returns the range of an entry, of size 0 if it has none. @gpu: of criu_check_ranges() */
typedef struct criu_range (*criu_range_fn)(const struct criu_kind *kind, const void *entry,
					   u32 gpu);

/* A kind of record. The plan has an array of entries, each of which begins with the record. */
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
	struct criu_kind_tail { /* Optional: arrays */
		u16 count; /* offset in the entry: number of items, a __u32 */
		u16 items; /* offset in the entry: pointer to the items */
		u16 size; /* bytes of an item; 0: no such tail */
	} tails[CRIU_TAILS_MAX];
	struct criu_kind_unique { /* Optional: ranges that do not overlap, ids among them */
		criu_range_fn range_of;
		const char *fault; /* the reason if they do */
		u16 kept; /* Optional: offset in the plan: pointer to the sorted ranges */
	} unique[CRIU_UNIQUE_MAX];

	int (*dump)(struct criu_dump *dump); /* Optional: writes the records of a client */

	/* First pass. Optional: returns why a record is damaged (-EBADMSG), or NULL */
	const char *(*fault)(struct criu_plan *plan, void *entry);
	int (*check)(struct criu_plan *plan, void *entry); /* Optional: for other errors */
	int (*check_all)(struct criu_plan *plan); /* Optional: called last, also without entries */
	/*
	 * Second pass. undo() and undo_all() revert what was done, also if it failed, and are not
	 * called for what has not begun. Required: apply(), or begin() for all entries.
	 */
	int (*begin)(struct criu_plan *plan);
	int (*apply)(struct criu_plan *plan, void *entry);
	int (*end)(struct criu_plan *plan, int ret); /* Optional: returns the new result */
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
struct criu_range criu_id_range(const struct criu_kind *kind, const void *entry, u32 gpu);
int criu_check_ranges(struct criu_call *call, struct criu_plan *plan,
		      const struct criu_kind_unique *unique, u32 gpu);
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

#endif /* _CRIU_IOCTL_H_ */
