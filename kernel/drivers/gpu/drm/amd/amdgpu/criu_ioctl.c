// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/printk.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "criu_blob.h"
#include "criu_ioctl.h"

/**
 * criu_refuse() - say in the log why a call is refused
 * @call: the call
 * @fmt: why, without end of line
 *
 * For what a user has to know and an errno cannot tell: EOPNOTSUPP, EBADMSG,
 * ENODEV. Rate-limited, because whoever may call may call often.
 */
void criu_refuse(const struct criu_call *call, const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	va_list args;

	va_start(args, fmt);
	vaf.va = &args;
	pr_warn_ratelimited("criu: %s: %s of process %d refused: %pV\n", call->node->name,
			    call->op->name, task_tgid_nr(call->task), &vaf);
	va_end(args);
}

/**
 * criu_refuse_blob() - say in the log why a blob is refused
 * @call: the call
 * @fault: from criu_blob_open()
 * @error: what it returned
 *
 * Return: @error.
 */
int criu_refuse_blob(const struct criu_call *call, const struct criu_blob_fault *fault, int error)
{
	const struct criu_record_desc *desc = criu_schema_find(call->node->schema, fault->type);

	if (fault->type)
		criu_refuse(call, "blob: record of type %u (%s) version %u at byte %zu: %s",
			    fault->type, desc ? desc->name : "unknown", fault->version,
			    fault->offset, fault->reason);
	else
		criu_refuse(call, "blob: byte %zu: %s", fault->offset, fault->reason);
	return error;
}

/**
 * criu_check_owner() - is it the caller's own process, or one that it traces?
 * @task: leader of the process
 *
 * Return: 0; -EBADF; -ESRCH if all threads of the process are gone.
 */
int criu_check_owner(struct task_struct *task)
{
	struct task_struct *tracer;
	int ret = -EBADF;

	if (same_thread_group(task, current))
		return 0;
	if (!atomic_read(&task->signal->live))
		return -ESRCH;
	rcu_read_lock();
	tracer = ptrace_parent(task);
	if (tracer && same_thread_group(tracer, current))
		ret = 0;
	rcu_read_unlock();
	return ret;
}

/* Reads the caller's structure by the rules of copy_struct_from_user(). */
static int criu_read_args(const struct criu_op *op, void *args, u32 size, u64 arg)
{
	if (size < op->size_v1)
		return -EINVAL;
	if (size > SZ_4K)
		return -E2BIG;
	if (arg != (uintptr_t)arg)
		return -EFAULT;
	return copy_struct_from_user(args, op->size_now, u64_to_user_ptr(arg), size);
}

/**
 * criu_call_put_args() - give the caller its structure back, with the answers
 * @call: the call
 *
 * Done for every operation once it has succeeded. An operation that must take back
 * what it did if the caller's structure cannot be written calls this itself.
 *
 * Return: 0 or -EFAULT.
 */
int criu_call_put_args(struct criu_call *call)
{
	if (call->args_put || call->op->in_only)
		return 0;
	if (copy_to_user(u64_to_user_ptr(call->uargs), call->args, call->uargs_size))
		return -EFAULT;
	call->args_put = true;
	return 0;
}

/* Nothing can fail any more: the descriptor becomes visible, or is given back. */
static void criu_end_new_fd(struct criu_call *call, int ret)
{
	if (!call->new_file)
		return;
	if (!ret) {
		fd_install(call->new_fd, call->new_file);
		return;
	}
	put_unused_fd(call->new_fd);
	fput(call->new_file);
}

/**
 * criu_ioctl() - do an operation
 * @call: @node, @client, @filp and @task filled in; the rest zero
 * @op: number of the operation
 * @size: bytes of its structure as the caller knows it
 * @arg: user pointer to it
 *
 * Return: what the operation returns; the errors common to all operations, as in
 * the uapi header.
 */
int criu_ioctl(struct criu_call *call, u32 op, u32 size, u64 arg)
{
	u64 args[CRIU_ARGS_MAX / sizeof(u64)] = {};
	int ret;

	if (op >= call->node->num_ops)
		return -ENOTTY;
	call->op = &call->node->ops[array_index_nospec(op, call->node->num_ops)];
	if (!call->op->fn)
		return -ENOTTY;
	ret = criu_check_owner(call->task);
	if (ret)
		return ret;
	ret = criu_check_capable(call->task);
	if (ret)
		return ret;
	ret = criu_read_args(call->op, args, size, arg);
	if (ret)
		return ret;

	call->args = args;
	call->uargs = arg;
	call->uargs_size = min(size, call->op->size_now);
	ret = call->op->fn(call, args);
	if ((!ret || ret == -ENOSPC) && criu_call_put_args(call))
		ret = -EFAULT;
	criu_end_new_fd(call, ret);
	return ret;
}

/**
 * criu_call_new_fd() - give the caller a descriptor of a file
 * @call: the call; one descriptor each
 * @file: the file; its reference is taken over, in case of an error too
 *
 * The descriptor is close-on-exec. It becomes visible when the call has succeeded
 * and its number has reached the caller.
 *
 * Return: number of the descriptor, or an error.
 */
int criu_call_new_fd(struct criu_call *call, struct file *file)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0) {
		fput(file);
		return fd;
	}
	call->new_fd = fd;
	call->new_file = file;
	return fd;
}

/**
 * criu_blob_from_user() - copy a blob into the kernel
 * @uptr: user pointer
 * @size: bytes, as the caller says
 *
 * Return: the copy, to be freed by kvfree(); ERR_PTR(-EBADMSG) for a size that no
 * blob has, ERR_PTR(-EFAULT), ERR_PTR(-ENOMEM).
 */
void *criu_blob_from_user(u64 uptr, u64 size)
{
	void *blob;

	if (size < sizeof(struct criu_blob_header) || size > CRIU_BLOB_SIZE_MAX)
		return ERR_PTR(-EBADMSG);
	if (uptr != (uintptr_t)uptr)
		return ERR_PTR(-EFAULT);
	blob = kvmalloc(size, GFP_KERNEL_ACCOUNT);
	if (!blob)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(blob, u64_to_user_ptr(uptr), size)) {
		kvfree(blob);
		return ERR_PTR(-EFAULT);
	}
	return blob;
}

/**
 * criu_blob_room() - room for all records of a type
 * @blob: an open blob
 * @type: type number
 * @size: bytes for each record
 * @num: out, how many there are, 0 in case of an error
 * @ret: set to -ENOMEM in case of an error, else left alone
 *
 * Return: zeroed room, to be freed by kvfree(); NULL if there are none.
 */
void *criu_blob_room(const struct criu_blob *blob, u16 type, size_t size, u32 *num, int *ret)
{
	void *room;

	*num = criu_blob_count(blob, type);
	if (!*num)
		return NULL;
	room = kvcalloc(*num, size, GFP_KERNEL_ACCOUNT);
	if (!room) {
		*num = 0;
		*ret = -ENOMEM;
	}
	return room;
}
