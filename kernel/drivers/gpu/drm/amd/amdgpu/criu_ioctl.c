// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/printk.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "criu_ioctl.h"

/* Returns the id of an entry of a plan, and its GPU in the upper half. */
u64 criu_entry_id(const struct criu_kind *kind, const void *entry)
{
	const u64 gpu = kind->gpu ? *(const u32 *)(entry + kind->gpu) : 0;

	if (kind->id64)
		return *(const u64 *)(entry + kind->id);
	return gpu << 32 | *(const u32 *)(entry + kind->id);
}

/* Writes the name of an entry, as in "context 3: ", or nothing without one. */
static void criu_entry_name(const struct criu_call *call, char *name, size_t size)
{
	const struct criu_kind *kind = call->kind;
	u64 id;

	*name = '\0';
	if (!call->entry)
		return;
	id = criu_entry_id(kind, call->entry);
	snprintf(name, size, kind->subject, kind->gpu ? (u32)id : id, (u32)(id >> 32));
	strlcat(name, ": ", size);
}

/*
 * Reports to the log and, for its first reason, to the caller why a call is refused. For errors
 * whose errno does not explain enough: EOPNOTSUPP, EBADMSG, ENODEV. Returns @error.
 */
int criu_refuse(const struct criu_call *call, int error, const char *fmt, ...)
{
	struct va_format vaf = { .fmt = fmt };
	char name[64];
	va_list args;

	va_start(args, fmt);
	vaf.va = &args;
	criu_entry_name(call, name, sizeof(name));
	if (!*call->reason)
		snprintf(call->reason, CRIU_REASON_SIZE, "%s%pV", name, &vaf);
	pr_warn_ratelimited("criu: %s: %s of process %d refused: %s%pV\n", call->node->name,
			    call->op->name, task_tgid_nr(call->task), name, &vaf);
	va_end(args);
	return error;
}

/* Refuses a call that a live session does not serve. Returns -EBADFD. */
int criu_refuse_live(const struct criu_call *call)
{
	return criu_refuse(call, -EBADFD, "the session is live: it pauses and changes nothing");
}

int criu_refuse_blob(const struct criu_call *call, const struct criu_blob_fault *fault, int error)
{
	const struct criu_record_desc *desc = criu_schema_find(call->node->schema, fault->type);

	if (!fault->type)
		return criu_refuse(call, error, "blob: byte %zu: %s", fault->offset, fault->reason);
	return criu_refuse(call, error, "blob: record of type %u (%s) version %u at byte %zu: %s",
			   fault->type, desc ? desc->name : "unknown", fault->version,
			   fault->offset, fault->reason);
}

/* Fails with -EBADF unless the process is the caller's own or traced by it; -ESRCH if it exited. */
int criu_check_owner(struct task_struct *task)
{
	struct task_struct *tracer;

	if (same_thread_group(task, current))
		return 0;
	if (!atomic_read(&task->signal->live))
		return -ESRCH;
	guard(rcu)();
	tracer = ptrace_parent(task);
	return tracer && same_thread_group(tracer, current) ? 0 : -EBADF;
}

/* Returns the leader of a process that passes criu_check_owner(), with a reference. 0: its own. */
struct task_struct *criu_get_process(pid_t nr)
{
	struct task_struct *task;
	struct pid *pid;
	int ret;

	if (nr < 0)
		return ERR_PTR(-EINVAL);
	if (!nr)
		return get_task_struct(current->group_leader);
	pid = find_get_pid(nr);
	task = get_pid_task(pid, PIDTYPE_TGID);
	put_pid(pid);
	ret = task ? criu_check_owner(task) : -ESRCH;
	if (!ret)
		return task;
	if (task)
		put_task_struct(task);
	return ERR_PTR(ret);
}

/* True if @match finds a file of the process, whose threads may have tables of their own. */
bool criu_has_file(struct task_struct *task, criu_file_fn match, const void *arg)
{
	const struct files_struct *seen = NULL;
	struct task_struct *thread;
	bool found = false;

	guard(rcu)();
	for_each_thread(task, thread) {
		task_lock(thread);
		if (!found && thread->files != seen) {
			seen = thread->files;
			found = iterate_fd(thread->files, 0, match, arg);
		}
		task_unlock(thread);
	}
	return found;
}

/* A caller without a session that may not create one lacks the permission for any descriptor. */
static int criu_get_session(struct criu_call *call, const void *args)
{
	const s32 *fd = args;
	struct criu_session *session;
	enum criu_session_kind kind;

	if (call->op->session == CRIU_SESSION_NONE)
		return 0;
	session = criu_session_get(*fd);
	if (session == ERR_PTR(-EBADF) && !criu_session_allowed())
		return -EPERM;
	if (IS_ERR(session))
		return PTR_ERR(session);
	kind = READ_ONCE(session->kind);
	if (!(kind & call->op->session)) {
		fput(session->file);
		return kind == CRIU_SESSION_LIVE ? criu_refuse_live(call) : -EBADFD;
	}
	call->session = session;
	return 0;
}

/* Copies the results to the caller. Called by an operation that undoes its work if this fails. */
int criu_call_put_args(struct criu_call *call)
{
	if (call->args_put || call->op->in_only)
		return 0;
	if (copy_to_user(u64_to_user_ptr(call->uargs), call->args, call->uargs_size))
		return -EFAULT;
	call->args_put = true;
	return 0;
}

static int criu_do_op(struct criu_call *call, u32 op, u32 size, u64 arg)
{
	u64 args[CRIU_ARGS_MAX / sizeof(u64)] = {};
	int ret;

	if (op >= call->node->num_ops)
		return -ENOTTY;
	call->op = &call->node->ops[array_index_nospec(op, call->node->num_ops)];
	if (!call->op->fn)
		return -ENOTTY;
	if (size < call->op->size_v1)
		return -EINVAL;
	if (size > SZ_4K)
		return -E2BIG;
	if (arg != (uintptr_t)arg)
		return -EFAULT;
	ret = copy_struct_from_user(args, call->op->size_now, u64_to_user_ptr(arg), size) ?:
	      criu_get_session(call, args);
	if (ret)
		return ret;

	call->args = args;
	call->uargs = arg;
	call->uargs_size = min(size, call->op->size_now);
	ret = call->op->fn(call, args);
	/* As waits of GEM and TTM return it: the call can be repeated. */
	if (ret == -EINTR && signal_pending(current))
		ret = -ERESTARTSYS;
	if ((!ret || ret == -ENOSPC) && criu_call_put_args(call))
		ret = -EFAULT;
	for (u32 i = 0; i < call->num_new_files; i++) {
		if (!ret) {
			fd_install(call->new_fds[i], call->new_files[i]);
			continue;
		}
		put_unused_fd(call->new_fds[i]);
		fput(call->new_files[i]);
	}
	if (call->session)
		fput(call->session->file);
	return ret;
}

/* Runs an operation. @call: all zero except what amdgpu_criu_call() sets. */
int criu_ioctl(struct criu_call *call, u32 op, u32 size, u64 arg)
{
	char reason[CRIU_REASON_SIZE] = "";
	size_t room;
	int ret;

	call->reason = reason;
	ret = criu_do_op(call, op, size, arg);
	if (!ret || !call->ureason_size)
		return ret;
	room = min_t(size_t, strlen(reason) + 1, call->ureason_size);
	reason[room - 1] = '\0';
	if (copy_to_user(u64_to_user_ptr(call->ureason), reason, room))
		pr_debug("criu: the reason cannot be written\n");
	return ret;
}

/* Takes over a reference to @file. Its new descriptor is installed if the call succeeds. */
int criu_call_new_fd(struct criu_call *call, struct file *file)
{
	int fd = call->num_new_files < CRIU_NEW_FILES_MAX ? get_unused_fd_flags(O_CLOEXEC) :
							    -EMFILE;

	if (fd < 0) {
		fput(file);
		return fd;
	}
	call->new_fds[call->num_new_files] = fd;
	call->new_files[call->num_new_files++] = file;
	return fd;
}
