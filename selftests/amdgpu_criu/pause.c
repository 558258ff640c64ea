// SPDX-License-Identifier: GPL-2.0
/* PROCESS_INFO and UNPAUSE: order, owners, the end of a pause, and what it stops. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/ptrace.h>

#include "criu.h"
#include "kfd.h"

/* Time limits: a running engine needs less, a paused one never finishes. */
#define SOON 5000
#define NEVER 300

FIXTURE(pause) {
	struct kfd kfd;
	struct kfd_queue queue;
	struct kfd_bo memory;
	__u32 *word;
	__u32 value;
	int session;
	struct amdgpu_criu_process_info info;
};

FIXTURE_SETUP(pause)
{
	int ret = kfd_open(&self->kfd);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, kfd_bo_alloc(&self->kfd, &self->memory, KFD_GTT, 4096));
	ASSERT_EQ(0, kfd_sdma_create(&self->kfd, &self->queue));
	self->word = self->memory.at;
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(pause)
{
	close(self->session);
	kfd_close(&self->kfd);
}

/* Submits work to the engine. Returns true if it is done. */
static bool runs(FIXTURE_DATA(pause) *self, int milliseconds)
{
	kfd_sdma_write(&self->queue, self->word, ++self->value);
	return kfd_becomes(self->word, self->value, milliseconds);
}

static int pause_by(FIXTURE_DATA(pause) *self, int session)
{
	return criu_pause(&self->kfd.node, session, &self->info);
}

static int unpause_by(FIXTURE_DATA(pause) *self, int session)
{
	return criu_unpause(&self->kfd.node, session);
}

TEST_F(pause, stops_queues_until_unpause)
{
	ASSERT_TRUE(runs(self, SOON));
	ASSERT_EQ(0, pause_by(self, self->session));
	EXPECT_FALSE(runs(self, NEVER));
	ASSERT_EQ(0, unpause_by(self, self->session));
	/* Work submitted in the meantime is done now. */
	EXPECT_TRUE(kfd_becomes(self->word, self->value, SOON));
	EXPECT_TRUE(runs(self, SOON));
}

TEST_F(pause, counts_the_state_of_the_process)
{
	ASSERT_EQ(0, pause_by(self, self->session));
	EXPECT_EQ(getpid(), self->info.pid);
	EXPECT_LE(1, self->info.num_devices);
	/* The word, the ring and the pointers. */
	EXPECT_EQ(3, self->info.num_bos);
	EXPECT_EQ(1, self->info.num_queues);
	EXPECT_EQ(0, self->info.num_events);
	EXPECT_LT(0, self->info.blob_size);
	EXPECT_EQ(0, self->info.blob_size % 8);
}

TEST_F(pause, is_idempotent_in_a_session)
{
	struct amdgpu_criu_process_info first;

	ASSERT_EQ(0, pause_by(self, self->session));
	first = self->info;
	ASSERT_EQ(0, pause_by(self, self->session));
	EXPECT_EQ(0, memcmp(&first, &self->info, sizeof(first)));
	EXPECT_FALSE(runs(self, NEVER));
	/* One UNPAUSE is enough. */
	ASSERT_EQ(0, unpause_by(self, self->session));
	EXPECT_TRUE(runs(self, SOON));
}

/* It does not pause a running process either. */
TEST_F(pause, a_repeated_process_info_that_fails_changes_nothing)
{
	struct amdgpu_criu_process_info *fixed = criu_readonly_info(self->session);

	ASSERT_NE(NULL, fixed);
	EXPECT_EQ(-EFAULT, criu_op(&self->kfd.node, PROCESS_INFO, fixed));
	EXPECT_EQ(-EBADFD, unpause_by(self, self->session));
	ASSERT_EQ(0, pause_by(self, self->session));
	EXPECT_EQ(-EFAULT, criu_op(&self->kfd.node, PROCESS_INFO, fixed));
	EXPECT_FALSE(runs(self, NEVER));
	ASSERT_EQ(0, unpause_by(self, self->session));
	EXPECT_TRUE(kfd_becomes(self->word, self->value, SOON));
}

TEST_F(pause, of_another_session_is_EBUSY)
{
	int other = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, pause_by(self, self->session));
	EXPECT_EQ(-EBUSY, pause_by(self, other));
	EXPECT_EQ(-EBADFD, unpause_by(self, other));
	EXPECT_FALSE(runs(self, NEVER));
	ASSERT_EQ(0, unpause_by(self, self->session));
	EXPECT_EQ(0, pause_by(self, other));
	EXPECT_EQ(-EBUSY, pause_by(self, self->session));
	EXPECT_EQ(0, unpause_by(self, other));
	close(other);
}

TEST_F(pause, unpause_when_not_paused_is_EBADFD)
{
	EXPECT_EQ(-EBADFD, unpause_by(self, self->session));
	ASSERT_EQ(0, pause_by(self, self->session));
	ASSERT_EQ(0, unpause_by(self, self->session));
	EXPECT_EQ(-EBADFD, unpause_by(self, self->session));
	EXPECT_TRUE(runs(self, SOON));
}

TEST_F(pause, may_be_repeated)
{
	int round;

	for (round = 0; round < 20; round++) {
		ASSERT_EQ(0, pause_by(self, self->session));
		ASSERT_EQ(0, unpause_by(self, self->session));
	}
	EXPECT_TRUE(runs(self, SOON));
}

TEST_F(pause, ends_with_the_session)
{
	ASSERT_EQ(0, pause_by(self, self->session));
	EXPECT_FALSE(runs(self, NEVER));
	close(self->session);
	EXPECT_TRUE(kfd_becomes(self->word, self->value, SOON));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	EXPECT_EQ(0, pause_by(self, self->session));
}

TEST_F(pause, lasts_until_the_last_descriptor_of_the_session_is_closed)
{
	int other = dup(self->session);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, pause_by(self, self->session));
	close(self->session);
	EXPECT_FALSE(runs(self, NEVER));
	EXPECT_EQ(0, unpause_by(self, other));
	EXPECT_TRUE(runs(self, SOON));
	self->session = other;
}

TEST_F(pause, of_a_restore_session_is_EBADFD)
{
	int restore = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);

	ASSERT_LE(0, restore);
	EXPECT_EQ(-EBADFD, pause_by(self, restore));
	EXPECT_EQ(-EBADFD, unpause_by(self, restore));
	EXPECT_TRUE(runs(self, SOON));
	close(restore);
}

TEST_F(pause, is_shown_in_fdinfo)
{
	char path[64], text[512] = "";
	int fd;

	ASSERT_EQ(0, pause_by(self, self->session));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->session);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_LT(0, read(fd, text, sizeof(text) - 1));
	EXPECT_NE(NULL, strstr(text, "criu-session-clients:\t1\n"));
	close(fd);
}

TEST_F(pause, resume_is_for_restored_processes_only)
{
	int restore = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);

	ASSERT_LE(0, restore);
	ASSERT_EQ(0, pause_by(self, self->session));
	EXPECT_EQ(-EBADFD, criu_resume(&self->kfd.node, self->session, 0));
	EXPECT_EQ(-EBADFD, criu_resume(&self->kfd.node, restore, 0));
	EXPECT_FALSE(runs(self, NEVER));
	close(restore);
}

/*
 * A tracer pauses this process and is killed, as when CRIU is killed in the middle of
 * a dump.
 */
TEST_F(pause, ends_when_the_process_that_paused_dies)
{
	int go[2], status;
	pid_t us = getpid(), tracer;
	char byte = 0;

	if (geteuid())
		SKIP(return, "needs root, to be traced by a child");
	ASSERT_EQ(0, pipe2(go, O_CLOEXEC));
	tracer = fork();
	ASSERT_LE(0, tracer);
	if (!tracer) {
		struct criu_node node = { .kind = CRIU_NODE_KFD };
		struct amdgpu_criu_process_info info;
		int session;

		if (ptrace(PTRACE_SEIZE, us, 0, 0))
			_exit(1);
		node.fd = fd_of_process(us, self->kfd.node.fd);
		session = criu_session(&node, AMDGPU_CRIU_SESSION_CHECKPOINT);
		if (session < 0 || criu_pause(&node, session, &info) || info.pid != us)
			_exit(2);
		if (write(go[1], &byte, 1) != 1)
			_exit(3);
		/* Waits to be killed, so that the pause lasts until the parent has examined it. */
		for (;;)
			pause();
	}
	close(go[1]);
	ASSERT_EQ(1, read(go[0], &byte, 1));
	EXPECT_EQ(-EBUSY, pause_by(self, self->session));
	EXPECT_FALSE(runs(self, NEVER));
	ASSERT_EQ(0, kill(tracer, SIGKILL));
	ASSERT_EQ(tracer, waitpid(tracer, &status, 0));
	EXPECT_TRUE(kfd_becomes(self->word, self->value, SOON));
	EXPECT_EQ(0, pause_by(self, self->session));
	close(go[0]);
}

TEST_F(pause, ends_with_the_process)
{
	pid_t child = fork();
	int status;

	ASSERT_LE(0, child);
	if (!child) {
		struct amdgpu_criu_process_info info;
		struct kfd_queue queue;
		struct kfd kfd;
		int session;

		if (kfd_open(&kfd) || kfd_sdma_create(&kfd, &queue))
			_exit(1);
		session = criu_session(&kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
		if (session < 0 || criu_pause(&kfd.node, session, &info))
			_exit(2);
		_exit(0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(runs(self, SOON));
}

TEST_HARNESS_MAIN
