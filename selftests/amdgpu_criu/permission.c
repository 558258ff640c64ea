// SPDX-License-Identifier: GPL-2.0
/* Who may call: capability, its user namespace, and whose file it is. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "criu.h"
#include "ops.h"

#define PROBE "--probe"

static int set_capabilities(__u64 capabilities)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .effective = capabilities, .permitted = capabilities },
		{ .effective = capabilities >> 32, .permitted = capabilities >> 32 },
	};

	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

static int query(const struct criu_node *node)
{
	struct amdgpu_criu_query args = {};

	return criu_op(node, QUERY, &args);
}

FIXTURE(permission) {
	struct op_context context;
};

FIXTURE_VARIANT(permission) {
	enum criu_node_kind kind;
};

FIXTURE_VARIANT_ADD(permission, kfd) {
	.kind = CRIU_NODE_KFD,
};

FIXTURE_VARIANT_ADD(permission, render) {
	.kind = CRIU_NODE_RENDER,
};

FIXTURE_SETUP(permission)
{
	int ret;

	if (geteuid())
		SKIP(return, "needs root, to give capabilities up");
	ret = op_context_open(&self->context, variant->kind);
	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(permission)
{
	op_context_close(&self->context);
}

/* The index of operations that only render nodes have, and that ops[] lacks. */
#define RENDER_ONLY 50

/* All operations but QUERY, with a descriptor that is no session. Return: index of a wrong one. */
static int first_allowed(struct op_context *context, int session_fd)
{
	struct amdgpu_criu_exported exported = { .session_fd = session_fd };
	struct amdgpu_criu_outside outside = { .session_fd = session_fd };
	union op_args args;
	size_t i;

	if (context->node.kind == CRIU_NODE_RENDER &&
	    (criu_op(&context->node, EXPORTED, &exported) != -EPERM ||
	     criu_op(&context->node, OUTSIDE, &outside) != -EPERM))
		return RENDER_ONLY;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		op_fill(context, &ops[i], &args);
		if (ops[i].session_kind)
			args.session_fd = session_fd;
		if (ops[i].nr != AMDGPU_CRIU_OP_QUERY &&
		    criu_call(&context->node, ops[i].nr, ops[i].size_now, &args) != -EPERM)
			return i;
	}
	return -1;
}

/* All operations, with sessions that others have made. Return: index of a wrong one. */
static int first_refused(struct op_context *context, enum criu_node_kind kind)
{
	union op_args args;
	size_t i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i].nr == AMDGPU_CRIU_OP_SESSION)
			continue;
		op_fill(context, &ops[i], &args);
		ret = criu_call(&context->node, ops[i].nr, ops[i].size_now, &args);
		if (ret != op_answer(&ops[i], kind) ||
		    (!ret && op_undo(context, &ops[i], &args)))
			return i;
	}
	return -1;
}

/* Like `unshare -Ur` of that user: all capabilities, in a namespace that any user can create. */
static int enter_namespace(uid_t uid)
{
	char map[32];

	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid) || unshare(CLONE_NEWUSER) ||
	    prctl(PR_SET_DUMPABLE, 1) || criu_write_file("/proc/self/setgroups", "deny") ||
	    criu_write_file("/proc/self/uid_map", map) ||
	    criu_write_file("/proc/self/gid_map", map))
		return -errno;
	return 0;
}

/*
 * Runs a child with its own file, which returns 0, NO_NAMESPACE, or an index into ops[] plus
 * WRONG.
 */
#define NO_NAMESPACE 100
#define WRONG 1

static int in_child(struct op_context *context, enum criu_node_kind kind,
		    int (*body)(struct op_context *context, enum criu_node_kind kind))
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return -errno;
	if (!child) {
		op_context_close(context);
		_exit(op_context_open(context, kind) ? NO_NAMESPACE + 1 : body(context, kind));
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -ECHILD;
	return WEXITSTATUS(status);
}

static int nobody_without_session(struct op_context *context, enum criu_node_kind kind)
{
	int wrong;

	if (enter_namespace(65534))
		return NO_NAMESPACE;
	wrong = first_allowed(context, -1);
	if (wrong < 0)
		wrong = first_allowed(context, context->node.fd);
	if (wrong >= 0)
		return WRONG + wrong;
	return query(&context->node) ? NO_NAMESPACE + 2 : 0;
}

TEST_F(permission, every_operation_is_EPERM_for_nobody_in_a_namespace_of_its_own)
{
	int ret = in_child(&self->context, variant->kind, nobody_without_session);

	if (ret == NO_NAMESPACE)
		SKIP(return, "no user namespaces");
	EXPECT_EQ(0, ret);
}

static int nobody_with_session(struct op_context *context, enum criu_node_kind kind)
{
	if (enter_namespace(65534))
		return NO_NAMESPACE;
	return WRONG + first_refused(context, kind);
}

/* Like a task that CRIU restores in a container. */
TEST_F(permission, a_session_is_enough_for_nobody_in_a_namespace_of_its_own)
{
	int ret = in_child(&self->context, variant->kind, nobody_with_session);

	if (ret == NO_NAMESPACE)
		SKIP(return, "no user namespaces");
	EXPECT_EQ(0, ret);
}

TEST_F(permission, every_operation_without_capability_and_session_is_EPERM)
{
	ASSERT_EQ(0, set_capabilities(~(1ULL << CAP_SYS_ADMIN |
					1ULL << CAP_CHECKPOINT_RESTORE) &
				      ((1ULL << (CAP_LAST_CAP + 1)) - 1)));
	EXPECT_EQ(-1, first_allowed(&self->context, -1));
	EXPECT_EQ(0, query(&self->context.node));
	EXPECT_EQ(-1, first_refused(&self->context, variant->kind));
}

TEST_F(permission, either_capability_alone_is_enough)
{
	static const int enough[] = { CAP_CHECKPOINT_RESTORE, CAP_SYS_ADMIN };
	union op_args args;
	size_t i, j;
	int ret;

	for (i = 0; i < ARRAY_SIZE(enough); i++) {
		pid_t child = fork();

		ASSERT_LE(0, child);
		if (child) {
			int status;

			ASSERT_EQ(child, waitpid(child, &status, 0));
			EXPECT_EQ(0, status);
			continue;
		}
		/* A file of its own, because it may not use that of the parent. */
		op_context_close(&self->context);
		if (op_context_open(&self->context, variant->kind) ||
		    set_capabilities(1ULL << enough[i]))
			_exit(1);
		for (j = 0; j < ARRAY_SIZE(ops); j++) {
			op_fill(&self->context, &ops[j], &args);
			ret = criu_call(&self->context.node, ops[j].nr, ops[j].size_now, &args);
			if (ret != op_answer(&ops[j], variant->kind))
				_exit(10 + j);
			if (!ret && op_undo(&self->context, &ops[j], &args))
				_exit(2);
		}
		_exit(0);
	}
}

TEST_F(permission, capability_in_the_namespace_of_exec_is_EPERM)
{
	pid_t child = fork();
	int status;

	ASSERT_LE(0, child);
	if (!child) {
		if (enter_namespace(0))
			_exit(NO_NAMESPACE);
		execl("/proc/self/exe", "permission", PROBE,
		      variant->kind == CRIU_NODE_KFD ? "kfd" : "render", NULL);
		_exit(NO_NAMESPACE + 1);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_NAMESPACE)
		SKIP(return, "no user namespaces");
	EXPECT_EQ(EPERM, WEXITSTATUS(status));
}

/* The new program of the test above; its exit code is the errno. */
static int probe(const char *kind)
{
	struct criu_node node;
	int ret = criu_node_open(&node, strcmp(kind, "kfd") ? CRIU_NODE_RENDER : CRIU_NODE_KFD);

	if (ret)
		return NO_NAMESPACE + 2;
	ret = criu_session(&node, AMDGPU_CRIU_SESSION_RESTORE);
	return ret < 0 ? -ret : 0;
}

/* A process with a /dev/kfd of its own, and this process with a descriptor of it. */
FIXTURE(other) {
	pid_t pid;
	struct criu_node node;
	int quit;
};

FIXTURE_SETUP(other)
{
	int ready[2], quit[2], theirs = -1;
	struct criu_node probe_node;
	char byte;

	if (geteuid())
		SKIP(return, "needs root");
	if (criu_node_open(&probe_node, CRIU_NODE_KFD))
		SKIP(return, "no /dev/kfd");
	criu_node_close(&probe_node);
	ASSERT_EQ(0, pipe2(ready, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(quit, O_CLOEXEC));
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		close(quit[1]);
		if (!criu_node_open(&self->node, CRIU_NODE_KFD) &&
		    write(ready[1], &self->node.fd, sizeof(int)) == sizeof(int))
			while (read(quit[0], &byte, 1) < 0)
				;
		_exit(0);
	}
	close(ready[1]);
	close(quit[0]);
	self->quit = quit[1];
	ASSERT_EQ(sizeof(int), read(ready[0], &theirs, sizeof(theirs)));
	close(ready[0]);
	self->node.kind = CRIU_NODE_KFD;
	self->node.fd = fd_of_process(self->pid, theirs);
	ASSERT_LE(0, self->node.fd);
}

FIXTURE_TEARDOWN(other)
{
	close(self->quit);
	if (self->pid > 0) {
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, __WALL);
	}
	criu_node_close(&self->node);
}

/* With arguments that are valid for a file of this process. */
TEST_F(other, file_of_another_process_is_EBADF)
{
	struct op_context context;
	union op_args args;
	size_t i;
	int ret;

	ASSERT_EQ(0, op_context_open(&context, CRIU_NODE_KFD));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		op_fill(&context, &ops[i], &args);
		EXPECT_EQ(-EBADF, criu_call(&self->node, ops[i].nr, ops[i].size_now, &args)) {
			TH_LOG("%s", ops[i].name);
		}
		ret = criu_call(&context.node, ops[i].nr, ops[i].size_now, &args);
		EXPECT_EQ(op_answer(&ops[i], CRIU_NODE_KFD), ret) {
			TH_LOG("%s", ops[i].name);
		}
		if (!ret)
			EXPECT_EQ(0, op_undo(&context, &ops[i], &args));
	}
	op_context_close(&context);
}

TEST_F(other, file_of_the_parent_is_EBADF_in_a_child)
{
	struct criu_node node;
	int status;
	pid_t child;

	ASSERT_EQ(0, criu_node_open(&node, CRIU_NODE_KFD));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(-query(&node));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(EBADF, WEXITSTATUS(status));
	EXPECT_EQ(0, query(&node));
	criu_node_close(&node);
}

/* Reading may take as long as a file system in user space likes, and no one holds the process. */
TEST_F(other, no_argument_is_read_before_EBADF)
{
	EXPECT_EQ(-1, ioctl(self->node.fd, AMDKFD_IOC_AMDGPU_CRIU, (void *)1));
	EXPECT_EQ(EBADF, errno);
}

TEST_F(other, is_for_its_tracer_as_long_as_it_traces)
{
	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, self->pid, 0, 0));
	EXPECT_EQ(0, query(&self->node));
	ASSERT_EQ(0, ptrace(PTRACE_INTERRUPT, self->pid, 0, 0));
	ASSERT_EQ(self->pid, waitpid(self->pid, NULL, __WALL));
	EXPECT_EQ(0, query(&self->node));
	ASSERT_EQ(0, ptrace(PTRACE_DETACH, self->pid, 0, 0));
	EXPECT_EQ(-EBADF, query(&self->node));
}

static void *query_in_thread(void *node)
{
	return (void *)(intptr_t)query(node);
}

TEST_F(other, is_for_every_thread_of_its_tracer)
{
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, self->pid, 0, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, query_in_thread, &self->node));
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(0, (int)(intptr_t)result);
}

TEST_F(other, is_not_for_a_child_of_its_tracer)
{
	int status;
	pid_t child;

	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, self->pid, 0, 0));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(-query(&self->node));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(EBADF, WEXITSTATUS(status));
}

TEST_F(other, tracer_without_capability_needs_a_session)
{
	struct amdgpu_criu_process_info info;
	int session;

	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, self->pid, 0, 0));
	session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, set_capabilities(1ULL << CAP_SYS_PTRACE | 1ULL << CAP_KILL));
	EXPECT_EQ(-EPERM, criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT));
	EXPECT_EQ(-EPERM, criu_pause(&self->node, -1, &info));
	EXPECT_EQ(0, criu_pause(&self->node, session, &info));
	EXPECT_EQ(0, criu_unpause(&self->node, session));
	close(session);
}

TEST_F(other, a_process_that_is_gone_is_ESRCH)
{
	siginfo_t info;

	ASSERT_EQ(0, ptrace(PTRACE_SEIZE, self->pid, 0, 0));
	ASSERT_EQ(0, kill(self->pid, SIGKILL));
	ASSERT_EQ(0, waitid(P_PID, self->pid, &info, WEXITED | WNOWAIT | __WALL));
	EXPECT_EQ(-ESRCH, query(&self->node));
	ASSERT_EQ(self->pid, waitpid(self->pid, NULL, __WALL));
	self->pid = 0;
	EXPECT_EQ(-ESRCH, query(&self->node));
}

static void __attribute__((constructor)) run_probe(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], PROBE))
		_exit(probe(argv[2]));
}

TEST_HARNESS_MAIN
