/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Dispatcher of the checkpoint/restore ioctl: one table of operations for each kind of
 * node. It uses no driver type.
 */
#ifndef _CRIU_IOCTL_H_
#define _CRIU_IOCTL_H_

#include <linux/build_bug.h>
#include <linux/compiler_attributes.h>
#include <linux/stddef.h>
#include <linux/types.h>

#include "criu_session.h"

struct criu_blob;
struct criu_blob_fault;
struct criu_blob_schema;
struct file;
struct task_struct;

/* Maximum size of a structure of an operation in this kernel. */
#define CRIU_ARGS_MAX 128

/* Maximum bytes of the reason why a call is refused. */
#define CRIU_REASON_SIZE 256

/**
 * struct criu_call - one call of an operation
 * @node: the kind of node
 * @client: the driver's object of the file (KFD: &struct kfd_process, render node:
 *	&struct drm_file)
 * @filp: the file on which the ioctl was called
 * @task: leader of the process that the file belongs to
 * @ureason: user pointer to a buffer for the reason of an error, or 0
 * @ureason_size: bytes at @ureason
 * @reason: %CRIU_REASON_SIZE bytes, empty until criu_refuse()
 * @op: row of the operation
 * @session: the session that the caller passes, with a reference; NULL if the operation
 *	has none
 * @args: the kernel's copy of its structure
 * @uargs: user pointer to the caller's structure
 * @uargs_size: bytes at @uargs
 * @args_put: set by criu_call_put_args()
 * @new_file: set by criu_call_new_fd()
 * @new_fd: descriptor reserved for @new_file
 */
struct criu_call {
	const struct criu_node *node;
	void *client;
	struct file *filp;
	struct task_struct *task;
	u64 ureason;
	u32 ureason_size;
	char *reason;
	const struct criu_op *op;
	struct criu_session *session;
	void *args;
	u64 uargs;
	u32 uargs_size;
	bool args_put;
	struct file *new_file;
	int new_fd;
};

/**
 * struct criu_op - row of an operation table
 * @fn: runs the operation. @args is the kernel's copy of the structure of the operation,
 *	padded with zeros if the caller's is shorter. It is copied back to the caller if
 *	the result is 0 or -ENOSPC, unless @in_only. The function checks flags and pads.
 *	NULL: not supported
 * @name: for logs
 * @size_v1: bytes of the structure in its first released version
 * @size_now: bytes of the structure in this kernel
 * @session: kinds of session of which the caller must pass a descriptor. Unless it is
 *	%CRIU_SESSION_NONE, that descriptor is the first field of the structure, a __s32
 * @in_only: the structure has no output fields
 */
struct criu_op {
	int (*fn)(struct criu_call *call, void *args);
	const char *name;
	u32 size_v1;
	u32 size_now;
	enum criu_session_kind session;
	bool in_only;
};

/**
 * CRIU_OP() - row of an operation table
 * @_op: number of the operation
 * @_session: criu_op.session, without its prefix
 * @_fn: criu_op.fn
 * @_name: for logs
 * @_struct: structure of the operation
 * @_last_v1: last field of its first released version
 */
#define CRIU_OP(_op, _session, _fn, _name, _struct, _last_v1) \
	CRIU_OP_ROW(_op, _session, _fn, _name, _struct, _last_v1, false)

/* CRIU_OP_IN(): as CRIU_OP(), for a structure without output fields */
#define CRIU_OP_IN(_op, _session, _fn, _name, _struct, _last_v1) \
	CRIU_OP_ROW(_op, _session, _fn, _name, _struct, _last_v1, true)

#define CRIU_OP_ROW(_op, _session, _fn, _name, _struct, _last_v1, _in_only) \
	[_op] = { \
		.fn = (_fn), .name = (_name), .in_only = (_in_only), \
		.session = CRIU_SESSION_##_session, \
		.size_v1 = offsetofend(_struct, _last_v1), \
		.size_now = sizeof(_struct) + \
			    BUILD_BUG_ON_ZERO(sizeof(_struct) > CRIU_ARGS_MAX) + \
			    BUILD_BUG_ON_ZERO(sizeof(_struct) % 8), \
	}

/**
 * struct criu_node - a kind of device node
 * @name: for logs
 * @ops: operations by number; unused numbers have no fn
 * @num_ops: rows of @ops
 * @schema: record types of its blobs, NULL if it has none
 */
struct criu_node {
	const char *name;
	const struct criu_op *ops;
	u32 num_ops;
	const struct criu_blob_schema *schema;
};

int criu_ioctl(struct criu_call *call, u32 op, u32 size, u64 arg);
int criu_check_owner(struct task_struct *task);
int criu_call_put_args(struct criu_call *call);
int criu_call_new_fd(struct criu_call *call, struct file *file);

__printf(3, 4) int criu_refuse(const struct criu_call *call, int error, const char *fmt, ...);
int criu_refuse_state(const struct criu_call *call, const char *what);
int criu_refuse_live(const struct criu_call *call);
int criu_refuse_blob(const struct criu_call *call, const struct criu_blob_fault *fault, int error);
void *criu_blob_from_user(u64 uptr, u64 size);
void *criu_grow(void *array, u32 num, u32 *room, size_t size);
void *criu_blob_room(const struct criu_blob *blob, u16 type, size_t size, u32 *num, int *ret);

#endif /* _CRIU_IOCTL_H_ */
