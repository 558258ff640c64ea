// SPDX-License-Identifier: GPL-2.0
/* Files of render nodes that one process restores and another resumes, as CRIU does. */
#include "kselftest_harness.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "lazy.h"
#include "render.h"
#include "render_blob.h"

#define BO_SIZE 0x4000
#define USERPTR_VA 0x10000000
#define USERPTR_FLAGS (AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_VALIDATE)
/* In words, as the jobs of render.h count. */
#define WORD_AT(va) (((va) - RENDER_WORK_VA) / 4)
#define VALUE 0xc0ffee

FIXTURE(restore) {
	struct criu_node node;
	/* Open in both processes, as a file that CRIU restores is. */
	struct criu_node to;
	struct render_work work;
	struct criu_image image;
	__u32 userptr;
	__u32 *memory;
	int session;
	pid_t child;
};

FIXTURE_SETUP(restore)
{
	self->to.fd = -1;
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
	self->memory = mmap(NULL, BO_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->memory);
	ASSERT_EQ(0, render_userptr_create(&self->node, self->memory, BO_SIZE, USERPTR_FLAGS,
					   &self->userptr));
	ASSERT_EQ(0, render_va_map(&self->node, self->userptr, USERPTR_VA, BO_SIZE));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(restore)
{
	if (self->child > 0) {
		kill(self->child, SIGKILL);
		while (waitpid(self->child, NULL, 0) == self->child)
			continue;
	}
	render_work_unmap(&self->work);
	criu_image_free(&self->image);
	if (self->session >= 0)
		close(self->session);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
}

/* The GPU writes to the userptr by the restored file. */
static int write_by_gpu(FIXTURE_DATA(restore) *self)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .word = WORD_AT(USERPTR_VA),
				  .value = VALUE };
	struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->work.handle }, { .bo_handle = self->userptr },
	};
	struct render_work work;
	__u64 sequence;
	int ret;

	ret = render_work_again(&self->to, &self->work, &work);
	if (!ret)
		ret = render_list_create(&self->to, entries, ARRAY_SIZE(entries), &job.list);
	if (!ret)
		ret = render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx);
	if (!ret)
		ret = render_submit(&self->to, &work, &job, &sequence);
	if (!ret)
		ret = render_wait(&self->to, &job, sequence, 10 * RENDER_SECOND);
	return ret;
}

/* The process that is restored: restores its file, stops, and continues when it is resumed. */
static void child_main(FIXTURE_DATA(restore) *self, bool traced)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (criu_restore(&self->to, self->session, &self->image))
		_exit(1);
	if (traced)
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	if (write_by_gpu(self))
		_exit(2);
	_exit(self->memory[0] == VALUE ? 0 : 3);
}

static void start_child(struct __test_metadata *_metadata, FIXTURE_DATA(restore) *self,
			bool traced)
{
	int status;

	self->child = fork();
	ASSERT_LE(0, self->child);
	if (!self->child)
		child_main(self, traced);
	ASSERT_EQ(self->child, waitpid(self->child, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
}

static int end_of_child(FIXTURE_DATA(restore) *self, bool traced)
{
	int status;

	if (traced ? ptrace(PTRACE_DETACH, self->child, NULL, NULL) : kill(self->child, SIGCONT))
		return -1;
	if (waitpid(self->child, &status, 0) != self->child || !WIFEXITED(status))
		return -1;
	self->child = 0;
	return WEXITSTATUS(status);
}

TEST_F(restore, a_tracer_resumes_and_userptrs_are_in_the_child)
{
	start_child(_metadata, self, true);
	ASSERT_EQ(0, criu_resume(&self->to, self->session, self->child));
	EXPECT_EQ(0, end_of_child(self, true));
	EXPECT_EQ(0, self->memory[0]);
}

TEST_F(restore, a_caller_that_does_not_trace_is_EBADF)
{
	start_child(_metadata, self, false);
	EXPECT_EQ(-EBADF, criu_resume(&self->to, self->session, self->child));
	/* Not resumed, so its userptr is not attached, and its calls wait. */
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, self->session, &self->image));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
}

TEST_F(restore, resume_of_a_process_that_has_exited_is_ESRCH)
{
	pid_t gone = fork();

	if (!gone)
		_exit(0);
	ASSERT_LT(0, gone);
	ASSERT_EQ(gone, waitpid(gone, NULL, 0));
	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	EXPECT_EQ(-ESRCH, criu_resume(&self->to, self->session, gone));
	EXPECT_EQ(-EINVAL, criu_resume(&self->to, self->session, -1));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(0, write_by_gpu(self));
	EXPECT_EQ(VALUE, self->memory[0]);
}

TEST_F(restore, resume_requires_the_session_of_restore)
{
	int other = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);

	ASSERT_LE(0, other);
	EXPECT_EQ(-EBADFD, criu_resume(&self->to, self->session, 0));
	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	EXPECT_EQ(-EBADFD, criu_resume(&self->to, other, 0));
	EXPECT_EQ(-EBUSY, criu_restore(&self->to, other, &self->image));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
	close(other);
}

/* The process may have unmapped the memory meanwhile, as it could before the checkpoint. */
TEST_F(restore, a_userptr_without_memory_is_resumed)
{
	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	ASSERT_EQ(0, munmap(self->memory, BO_SIZE));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(-EFAULT, write_by_gpu(self));
}

/* "criu lazy-pages" fills memory while RESUME runs, and later. */
TEST_F(restore, a_userptr_that_userfaultfd_fills_is_complete)
{
	struct lazy lazy;
	int ret;

	self->memory[1] = VALUE + 1;
	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	ret = lazy_start(&lazy, self->memory, BO_SIZE, true);
	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(BO_SIZE / LAZY_PAGE, lazy.filled);
	lazy_end(&lazy);
	EXPECT_EQ(0, write_by_gpu(self));
	EXPECT_EQ(VALUE, self->memory[0]);
	EXPECT_EQ(VALUE + 1, self->memory[1]);
}

/* A userptr of the child, in a file of both: it is carried for the child alone. */
TEST_F(restore, userptrs_are_carried_for_the_named_process)
{
	struct amdgpu_criu_process_info info = {};
	int session = criu_session(&self->to, AMDGPU_CRIU_SESSION_CHECKPOINT);
	__u32 handle;
	int status;

	ASSERT_LE(0, session);
	self->child = fork();
	ASSERT_LE(0, self->child);
	if (!self->child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		if (render_userptr_create(&self->to, self->memory, BO_SIZE, USERPTR_FLAGS,
					  &handle))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	ASSERT_EQ(self->child, waitpid(self->child, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->to, session, &info));
	info = (struct amdgpu_criu_process_info) { .session_fd = session, .pid = self->child };
	EXPECT_EQ(0, criu_op(&self->to, PROCESS_INFO, &info));
	EXPECT_EQ(self->child, info.pid);
	EXPECT_EQ(1, info.num_bos);
	/* The other process is refused again; the pause remains. */
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->to, session, &info));
	EXPECT_EQ(0, criu_unpause(&self->to, session));
	close(session);
}

/* In kernels and headers since 6.13. */
struct client_name {
	__u64 length, name;
};

#define SET_CLIENT_NAME DRM_IOWR(0xd1, struct client_name)

/* The name of a file from its fdinfo, or "". */
static void client_name(const struct criu_node *node, char name[80])
{
	char path[64], line[128];
	FILE *file;

	name[0] = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", node->fd);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "drm-client-name: %79s", name);
	if (file)
		fclose(file);
}

#define WRONG_NAME "invalid characters"

TEST_F(restore, the_client_name_is_restored)
{
	static const struct blob_fault faults[] = {
		BLOB_FAULT_FOR(WRONG_NAME, "none", blob_client_name, name[0], 0, -EBADMSG),
		BLOB_FAULT_FOR(WRONG_NAME, "a space", blob_client_name, name[1], ' ', -EBADMSG),
		BLOB_FAULT_FOR(WRONG_NAME, "beyond ASCII", blob_client_name, name[1], 0xe4,
			       -EBADMSG),
		BLOB_FAULT_FOR(WRONG_NAME, "bytes after its end", blob_client_name, name[8], 0,
			       -EBADMSG),
	};
	/* A name of maximal length. */
	const char *name = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	struct client_name set = { .length = 64, .name = (uintptr_t)name };
	char found[80];
	size_t i;
	int ret = render_ioctl(&self->node, SET_CLIENT_NAME, &set);

	if (ret && !kernel_is_at_least(7, 2))
		SKIP(return, "files of this kernel have no names");
	ASSERT_EQ(0, ret);
	criu_image_free(&self->image);
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_CLIENT_NAME, 0, 0,
			     &faults[i]);
	}
	client_name(&self->to, found);
	EXPECT_STREQ("", found);
	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	ASSERT_EQ(0, criu_resume(&self->to, self->session, 0));
	client_name(&self->to, found);
	EXPECT_STREQ(name, found);
}

TEST_F(restore, tables_that_are_too_small_are_ENOSPC)
{
	int session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_image small;
	struct amdgpu_criu_state args;

	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_checkpoint(&self->node, session, &small));
	ASSERT_EQ(2, small.num_bos);
	args = criu_image_args(session, &small);
	args.num_bos = 1;
	EXPECT_EQ(-ENOSPC, criu_op(&self->node, CHECKPOINT, &args));
	EXPECT_EQ(2, args.num_bos);
	EXPECT_EQ(small.blob_size, args.blob_size);
	args.blob_size--;
	EXPECT_EQ(-ENOSPC, criu_op(&self->node, CHECKPOINT, &args));
	EXPECT_EQ(small.blob_size, args.blob_size);
	args.num_bos = 7;
	args.blob_size += 100;
	args.blob = (uintptr_t)calloc(1, args.blob_size);
	args.bos = (uintptr_t)calloc(7, sizeof(struct amdgpu_criu_bo));
	EXPECT_EQ(0, criu_op(&self->node, CHECKPOINT, &args));
	EXPECT_EQ(2, args.num_bos);
	EXPECT_EQ(small.blob_size, args.blob_size);
	criu_image_free(&small);
	close(session);
}

TEST_HARNESS_MAIN
