// SPDX-License-Identifier: GPL-2.0
/*
 * Either the driver times out a job that hangs, or, if the parameter lockup_timeout is
 * longer, PROCESS_INFO fails first.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "complaints.h"
#include "render.h"
#include "render_blob.h"
#include "reset.h"

/* The longest wait of PROCESS_INFO. */
#define PAUSE_MILLISECONDS 20000
/* The driver's reports about a job that it gives up. */
#define RESET_MESSAGES "[Rr]ing sdma[0-9]+ (timeout|reset)|GPU reset begin"
/* The word that the engine waits for. */
#define GATE 7

FIXTURE(hang) {
	struct criu_node node;
	struct render_work work;
	struct render_job hung;
	/* True if the driver times a job out before PROCESS_INFO does. */
	bool is_reset;
};

static unsigned int lockup_milliseconds(void)
{
	unsigned int value = 0;
	FILE *file = fopen("/sys/module/amdgpu/parameters/lockup_timeout", "re");

	if (file) {
		if (fscanf(file, "%u", &value) != 1)
			value = 0;
		fclose(file);
	}
	return value ? value : 2000;
}

FIXTURE_SETUP(hang)
{
	struct criu_node second;

	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	if (!render_open(&second, 1)) {
		criu_node_close(&second);
		SKIP(return, "resets its GPU, which must be the only one");
	}
	self->is_reset = lockup_milliseconds() < PAUSE_MILLISECONDS;
	self->hung = (struct render_job) {
		.hw_ip = AMDGPU_HW_IP_DMA, .wait_word = GATE, .word = GATE + 1, .value = 1,
	};
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &self->hung.ctx));
}

FIXTURE_TEARDOWN(hang)
{
	complaints_disallow();
	render_work_unmap(&self->work);
	criu_node_close(&self->node);
}

/* A new context works; after a reset its first use finds that page tables were lost. */
static void expect_work(struct __test_metadata *_metadata, const struct criu_node *node,
			struct render_work *work)
{
	struct render_job job = {
		.hw_ip = AMDGPU_HW_IP_COMPUTE, .word = GATE + 2, .value = 0x600d,
	};
	int i, ret = -ECANCELED;
	__u64 sequence;

	for (i = 0; i < 3 && ret == -ECANCELED; i++) {
		ASSERT_EQ(0, render_ctx_create(node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
		ret = render_submit(node, work, &job, &sequence);
		if (!ret)
			ret = render_wait(node, &job, sequence, 10 * RENDER_SECOND);
	}
	EXPECT_EQ(0, ret);
	EXPECT_EQ(job.value, work->words[job.word]);
}

TEST_F_TIMEOUT(hang, a_guilty_context_stays_guilty, 180)
{
	__u64 sequence, before, after;
	struct criu_image image, again;
	struct render_work work;
	struct criu_node to;
	int error;

	if (!self->is_reset)
		SKIP(return, "lockup_timeout is too long");
	complaints_allow(RESET_MESSAGES);
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &self->hung, &sequence));
	EXPECT_NE(0, render_wait(&self->node, &self->hung, sequence, 60 * RENDER_SECOND));
	/* PROCESS_INFO waits until the reset is over. */
	ASSERT_EQ(0, render_save(&self->node, &image));
	ASSERT_EQ(0, render_ctx_state(&self->node, self->hung.ctx, &before));
	EXPECT_NE(0, before & AMDGPU_CTX_QUERY2_FLAGS_GUILTY);
	EXPECT_NE(0, before & AMDGPU_CTX_QUERY2_FLAGS_RESET);
	EXPECT_EQ(0, before & AMDGPU_CTX_QUERY2_FLAGS_RESET_IN_PROGRESS);
	error = render_submit(&self->node, &self->work, &self->hung, &sequence);
	ASSERT_NE(0, error);

	ASSERT_EQ(0, render_restore_to(&to, 0, -1, &image));
	ASSERT_EQ(0, render_work_again(&to, &self->work, &work));
	EXPECT_EQ(error, render_submit(&to, &work, &self->hung, &sequence));
	ASSERT_EQ(0, render_ctx_state(&to, self->hung.ctx, &after));
	EXPECT_EQ(before, after);
	/* The record equals the original, and new work succeeds. */
	ASSERT_EQ(0, render_save(&to, &again));
	EXPECT_TRUE(blob_same(&image, &again, BLOB_RENDER_CTX, 0));
	expect_work(_metadata, &to, &work);
	render_work_unmap(&work);
	criu_node_close(&to);
	criu_image_free(&image);
	criu_image_free(&again);
}

static int pause_now(FIXTURE_DATA(hang) *self, int session)
{
	struct amdgpu_criu_process_info info;

	return criu_pause(&self->node, session, &info);
}

TEST_F_TIMEOUT(hang, a_pause_waits_for_a_reset, 180)
{
	int session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	__u64 sequence;

	if (!self->is_reset)
		SKIP(return, "lockup_timeout is too long");
	complaints_allow(RESET_MESSAGES);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &self->hung, &sequence));
	EXPECT_EQ(0, pause_now(self, session));
	EXPECT_EQ(0, criu_unpause(&self->node, session));
	EXPECT_NE(0, render_wait(&self->node, &self->hung, sequence, RENDER_SECOND));
	expect_work(_metadata, &self->node, &self->work);
	close(session);
}

TEST_F_TIMEOUT(hang, a_job_that_does_not_end_is_ETIME_and_the_process_continues, 180)
{
	int session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	__u64 sequence;

	if (self->is_reset)
		SKIP(return, "needs a lockup_timeout of more than %d", PAUSE_MILLISECONDS);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &self->hung, &sequence));
	EXPECT_EQ(-ETIME, pause_now(self, session));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->node, session));
	expect_work(_metadata, &self->node, &self->work);
	EXPECT_EQ(-ETIME, render_wait(&self->node, &self->hung, sequence, 1));
	__atomic_store_n(&self->work.words[GATE], 1, __ATOMIC_SEQ_CST);
	EXPECT_EQ(0, render_wait(&self->node, &self->hung, sequence, 10 * RENDER_SECOND));
	EXPECT_EQ(1, self->work.words[GATE + 1]);
	EXPECT_EQ(0, pause_now(self, session));
	close(session);
}

/* It waits for the job of a file that is not paused. */
TEST_F_TIMEOUT(hang, syncobj_of_a_job_that_never_ends_is_ETIME, 180)
{
	struct amdgpu_criu_process_info info;
	struct criu_node other;
	__u64 sequence;
	__u32 syncobj;
	int fd, session;

	if (self->is_reset)
		SKIP(return, "needs a lockup_timeout of more than %d", PAUSE_MILLISECONDS);
	ASSERT_EQ(0, render_open(&other, 0));
	session = criu_session(&other, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &self->hung.syncobj));
	fd = render_syncobj_export(&self->node, self->hung.syncobj);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_syncobj_import(&other, fd, &syncobj));
	close(fd);
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &self->hung, &sequence));
	EXPECT_EQ(-ETIME, criu_pause(&other, session, &info));
	EXPECT_EQ(-EBADFD, criu_unpause(&other, session));
	EXPECT_EQ(0, render_syncobj_destroy(&other, syncobj));
	EXPECT_EQ(0, criu_pause(&other, session, &info));
	__atomic_store_n(&self->work.words[GATE], 1, __ATOMIC_SEQ_CST);
	EXPECT_EQ(0, render_wait(&self->node, &self->hung, sequence, 10 * RENDER_SECOND));
	close(session);
	criu_node_close(&other);
}

static void *open_gate(void *data)
{
	struct render_work *work = data;

	sleep(1);
	__atomic_store_n(&work->words[GATE], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A process that is not paused may use a shared syncobj at any time. */
TEST_F_TIMEOUT(hang, a_checkpoint_waits_for_a_job_that_others_submit_after_the_pause, 180)
{
	struct amdgpu_criu_process_info info;
	struct amdgpu_criu_state args = {};
	struct criu_node other;
	pthread_t thread;
	__u64 sequence;
	__u32 syncobj;
	void *blob;
	int fd;

	if (self->is_reset)
		SKIP(return, "needs a lockup_timeout of more than %d", PAUSE_MILLISECONDS);
	ASSERT_EQ(0, render_open(&other, 0));
	args.session_fd = criu_session(&other, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, args.session_fd);
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &self->hung.syncobj));
	fd = render_syncobj_export(&self->node, self->hung.syncobj);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_syncobj_import(&other, fd, &syncobj));
	close(fd);
	ASSERT_EQ(0, criu_pause(&other, args.session_fd, &info));
	args.blob_size = info.blob_size;
	blob = malloc(info.blob_size);
	ASSERT_NE(NULL, blob);
	args.blob = (uintptr_t)blob;
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &self->hung, &sequence));
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_gate, &self->work));
	EXPECT_EQ(0, criu_op(&other, CHECKPOINT, &args)) {
		TH_LOG("%s", criu_reason);
	}
	EXPECT_EQ(1, self->work.words[GATE + 1]);
	pthread_join(thread, NULL);
	EXPECT_EQ(0, render_wait(&self->node, &self->hung, sequence, 10 * RENDER_SECOND));
	free(blob);
	close(args.session_fd);
	criu_node_close(&other);
}

/* Contents that were written since RESTORE are lost. */
TEST_F_TIMEOUT(hang, a_gpu_that_was_reset_since_restore_is_EIO, 180)
{
	struct criu_image image;
	struct criu_node to;
	int session;

	if (!self->is_reset)
		SKIP(return, "lockup_timeout is too long");
	complaints_allow(RESET_COMPLAINTS);
	ASSERT_EQ(0, render_save(&self->node, &image));
	ASSERT_EQ(0, render_open(&to, 0));
	session = criu_session(&to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_restore(&to, session, &image));
	ASSERT_EQ(0, reset_gpu());
	EXPECT_EQ(-EIO, criu_resume(&to, session, 0));
	EXPECT_STREQ("a reset of the GPU has lost its memory", criu_reason);
	close(session);
	criu_node_close(&to);
	criu_image_free(&image);
}

/* Reading the file resets the GPU. */
static void *reset_in_thread(void *data)
{
	char path[64], text[16];
	int fd = -1;

	for (int minor = 0; minor < 256 && fd < 0; minor++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/dri/%d/amdgpu_gpu_recover", minor);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd >= 0 && read(fd, text, sizeof(text)) < 0)
		close(fd);
	*(atomic_int *)data = fd < 0 ? -ENOENT : 1;
	return NULL;
}

/* What is shared is found during a reset, too. */
TEST_F_TIMEOUT(hang, outside_sees_a_gpu_that_is_being_reset, 180)
{
	struct amdgpu_criu_outside args = {
		.session_fd = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT),
	};
	unsigned int calls = 0;
	atomic_int done = 0;
	struct criu_node other;
	pthread_t thread;
	__u32 handle;
	int fd;

	complaints_allow(RESET_MESSAGES);
	ASSERT_EQ(0, render_open(&other, 0));
	fd = render_bo_export(&self->node, self->work.handle);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_bo_import(&other, fd, &handle));
	close(fd);
	EXPECT_EQ(0, pause_now(self, args.session_fd));
	ASSERT_EQ(0, pthread_create(&thread, NULL, reset_in_thread, &done));
	for (; !done; calls++) {
		ASSERT_EQ(0, criu_op(&self->node, OUTSIDE, &args));
		ASSERT_EQ(1, args.num_bos) {
			TH_LOG("call %u", calls);
		}
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(1, done);
	EXPECT_LT(10, calls);
	close(args.session_fd);
	criu_node_close(&other);
}

TEST_HARNESS_MAIN
