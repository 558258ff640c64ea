/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Dispatcher of the ioctl, with a table for each kind of node. It uses no driver type. */
#ifndef _CRIU_IOCTL_H_
#define _CRIU_IOCTL_H_

#include <linux/build_bug.h>
#include <linux/compiler_attributes.h>
#include <linux/stddef.h>
#include <linux/types.h>

#include "criu_session.h"

struct criu_blob_fault;
struct criu_blob_schema;
struct criu_kind;
struct file;
struct task_struct;

/* Maximum size of a structure of an operation in this kernel. */
#define CRIU_ARGS_MAX 128

/* Maximum bytes of the reason why a call is refused. */
#define CRIU_REASON_SIZE 256

/* Maximum number of descriptors that a call returns. */
#define CRIU_NEW_FILES_MAX 64

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
	/* The session that the caller passes, with a reference; NULL if the operation has none */
	struct criu_session *session;
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
	 * Runs the operation. args is the kernel's copy of the structure of the operation, padded
	 * with zeros if the caller's is shorter. It is copied back to the caller if the result is 0
	 * or -ENOSPC, unless in_only. The function checks flags and pads. NULL: not supported
	 */
	int (*fn)(struct criu_call *call, void *args);
	const char *name;
	u32 size_v1; /* bytes of the structure in its first released version */
	u32 size_now; /* bytes of the structure in this kernel */
	/* Kinds of session of which the first field of the structure is a descriptor, a __s32 */
	enum criu_session_kind session;
	bool in_only; /* the structure has no output fields */
};

/* Row of an operation table. @_last_v1: last field of the first released version of @_struct. */
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
void *criu_blob_from_user(const struct criu_call *call, u64 uptr, u64 size);

#endif /* _CRIU_IOCTL_H_ */
