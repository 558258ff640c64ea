// SPDX-License-Identifier: GPL-2.0
/* PROCESS_INFO and UNPAUSE of a render node: which calls wait, and for how long. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <time.h>

#include "render.h"

#define BO_SIZE 0x1000

FIXTURE(pause) {
	struct criu_node node;
	int session;
	struct amdgpu_criu_process_info info;
};

FIXTURE_SETUP(pause)
{
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(pause)
{
	if (self->session >= 0)
		close(self->session);
	criu_node_close(&self->node);
}

static void sleep_ms(unsigned int ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&left, &left) && errno == EINTR)
		continue;
}

static int create(const struct criu_node *node)
{
	__u32 handle;

	return render_bo_create(node, BO_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle);
}

/* A process that also has the file, and creates a BO; its exit status is the result. */
static pid_t start_create(const struct criu_node *node)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(-create(node));
	}
	return child;
}

static bool is_running(pid_t child)
{
	sleep_ms(200);
	return waitpid(child, NULL, WNOHANG) == 0;
}

static int end_of(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

TEST_F(pause, returns_counts_and_the_caller)
{
	__u64 empty;

	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(getpid(), self->info.pid);
	EXPECT_EQ(0, self->info.num_devices);
	EXPECT_EQ(0, self->info.num_bos);
	EXPECT_LT(0, self->info.blob_size);
	empty = self->info.blob_size;
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	ASSERT_EQ(0, create(&self->node));
	ASSERT_EQ(0, create(&self->node));
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(2, self->info.num_bos);
	EXPECT_LT(empty, self->info.blob_size);
}

TEST_F(pause, is_idempotent_and_one_unpause_ends_it)
{
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, create(&self->node));
}

TEST_F(pause, a_repeated_process_info_that_fails_changes_nothing)
{
	struct amdgpu_criu_process_info *fixed = criu_readonly_info(self->session);
	pid_t child;

	ASSERT_NE(NULL, fixed);
	EXPECT_EQ(-EFAULT, criu_op(&self->node, PROCESS_INFO, fixed));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->node, self->session));
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-EFAULT, criu_op(&self->node, PROCESS_INFO, fixed));
	child = start_create(&self->node);
	ASSERT_LT(0, child);
	EXPECT_TRUE(is_running(child));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, end_of(child));
}

TEST_F(pause, belongs_to_one_session)
{
	int other = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-EBUSY, criu_pause(&self->node, other, &self->info));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->node, other));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, criu_pause(&self->node, other, &self->info));
	close(other);
}

TEST_F(pause, affects_only_its_file)
{
	struct criu_node second;

	ASSERT_EQ(0, render_open(&second, 0));
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(0, create(&second));
	EXPECT_EQ(0, criu_pause(&second, self->session, &self->info));
	EXPECT_EQ(0, criu_unpause(&second, self->session));
	EXPECT_EQ(0, create(&second));
	criu_node_close(&second);
}

TEST_F(pause, calls_wait_until_unpause)
{
	pid_t child;

	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	child = start_create(&self->node);
	ASSERT_LT(0, child);
	EXPECT_TRUE(is_running(child));
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, end_of(child));
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(1, self->info.num_bos);
}

TEST_F(pause, calls_wait_until_the_session_closes)
{
	pid_t child;

	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Otherwise this process would hold the session whose end it waits for. */
		close(self->session);
		_exit(-create(&self->node));
	}
	EXPECT_TRUE(is_running(child));
	close(self->session);
	self->session = -1;
	EXPECT_EQ(0, end_of(child));
	EXPECT_EQ(0, create(&self->node));
}

static void nothing(int signal)
{
}

TEST_F(pause, a_call_that_waits_can_be_interrupted)
{
	pid_t child;

	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		union drm_amdgpu_gem_create args = {
			.in = { .bo_size = BO_SIZE, .domains = AMDGPU_GEM_DOMAIN_GTT },
		};
		struct sigaction action = { .sa_handler = nothing };

		sigaction(SIGALRM, &action, NULL);
		alarm(1);
		_exit(!ioctl(self->node.fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args) || errno != EINTR);
	}
	EXPECT_EQ(0, end_of(child));
}

/* The wait lasts until the syncobj is signaled. */
TEST_F(pause, a_wait_in_progress_does_not_block_the_pause)
{
	__u32 syncobj;
	pid_t child;

	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &syncobj));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct drm_syncobj_wait args = {
			.handles = (uintptr_t)&syncobj,
			.count_handles = 1,
			.flags = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
			.timeout_nsec = INT64_MAX,
		};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(-render_ioctl(&self->node, DRM_IOCTL_SYNCOBJ_WAIT, &args));
	}
	EXPECT_TRUE(is_running(child));
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, render_syncobj_signal_point(&self->node, syncobj, 1));
	EXPECT_EQ(0, end_of(child));
}

TEST_F(pause, waits_for_submitted_work)
{
	struct render_job job = {
		.hw_ip = AMDGPU_HW_IP_DMA, .wait_word = 1, .word = 2, .value = 3,
	};
	struct render_work work;
	__u64 sequence;
	pid_t child;

	ASSERT_EQ(0, render_work_make(&self->node, &work));
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
	ASSERT_EQ(0, render_submit(&self->node, &work, &job, &sequence));
	/* A destroyed context has left its job behind. */
	ASSERT_EQ(0, render_ctx_free(&self->node, job.ctx));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		sleep_ms(300);
		work.words[job.wait_word] = 1;
		_exit(0);
	}
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(job.value, work.words[job.word]);
	EXPECT_EQ(0, end_of(child));
	render_work_unmap(&work);
}

/* A process that has the file open, unless @closed, and stops. */
static pid_t start_traced(const struct criu_node *node, bool traced, bool closed)
{
	pid_t child = fork();
	int status;

	if (child) {
		if (child > 0 && waitpid(child, &status, WUNTRACED) != child)
			return -1;
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (closed)
		close(node->fd);
	if (traced)
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	_exit(0);
}

static int pause_pid(FIXTURE_DATA(pause) *self, int pid)
{
	self->info = (struct amdgpu_criu_process_info) { .session_fd = self->session, .pid = pid };
	return criu_op(&self->node, PROCESS_INFO, &self->info);
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) == child)
		continue;
}

TEST_F(pause, a_traced_process_that_has_the_file_can_be_named)
{
	pid_t child = start_traced(&self->node, true, false);

	ASSERT_LT(0, child);
	EXPECT_EQ(0, pause_pid(self, child));
	EXPECT_EQ(child, self->info.pid);
	end_child(child);
}

TEST_F(pause, a_traced_process_without_the_file_is_EBADF)
{
	pid_t child = start_traced(&self->node, true, true);

	ASSERT_LT(0, child);
	EXPECT_EQ(-EBADF, pause_pid(self, child));
	end_child(child);
	EXPECT_EQ(0, create(&self->node));
}

TEST_F(pause, a_process_that_is_not_traced_is_EBADF)
{
	pid_t child = start_traced(&self->node, false, false);

	ASSERT_LT(0, child);
	EXPECT_EQ(-EBADF, pause_pid(self, child));
	end_child(child);
}

TEST_F(pause, a_process_that_has_exited_is_ESRCH)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	ASSERT_LT(0, child);
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_EQ(-ESRCH, pause_pid(self, child));
	EXPECT_EQ(-EINVAL, pause_pid(self, -1));
}

/* Dead, but not waited for: it has no memory. */
TEST_F(pause, a_zombie_is_ESRCH)
{
	pid_t child = fork();
	siginfo_t info;

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		_exit(0);
	}
	ASSERT_LT(0, child);
	ASSERT_EQ(0, waitid(P_PID, child, &info, WEXITED | WNOWAIT));
	EXPECT_EQ(-ESRCH, pause_pid(self, child));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
}

TEST_F(pause, checkpoint_requires_it)
{
	struct criu_image image = { .bos = calloc(1, sizeof(*image.bos)) };
	struct amdgpu_criu_state args = criu_image_args(self->session, &image);
	unsigned char blob[8];

	args.blob = (uintptr_t)blob;
	args.blob_size = sizeof(blob);
	EXPECT_EQ(-EBADFD, criu_op(&self->node, CHECKPOINT, &args));
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-ENOSPC, criu_op(&self->node, CHECKPOINT, &args));
	EXPECT_EQ(self->info.blob_size, args.blob_size);
	EXPECT_EQ(0, args.num_bos);
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(-EBADFD, criu_op(&self->node, CHECKPOINT, &args));
	criu_image_free(&image);
}

TEST_HARNESS_MAIN
