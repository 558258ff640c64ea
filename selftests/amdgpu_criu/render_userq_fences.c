// SPDX-License-Identifier: GPL-2.0
/*
 * Fences of user queues. Others may wait for them, so all are signaled when the queue is stopped,
 * and a restored queue has none.
 */
#include "kselftest_harness.h"

#include <sys/wait.h>

#include "reset.h"
#include "userq_files.h"

#define WAIT_WORD 8

/* Queues for compute have fences. */
FIXTURE(fences) {
	struct files f;
	__u32 syncobjs[4];
	/* Another file with the first one: ioctls of a paused file block. */
	struct criu_node other;
	__u32 imported;
};

FIXTURE_SETUP(fences)
{
	int fd;

	self->other.fd = -1;
	if (!setup(_metadata, &self->f, AMDGPU_HW_IP_COMPUTE))
		SKIP(return, "the driver has no user queues for this GPU");
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, render_syncobj_create(&self->f.node, 0, &self->syncobjs[i]));
	fd = render_syncobj_export(&self->f.node, self->syncobjs[0]);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_open(&self->other, 0));
	ASSERT_EQ(0, render_syncobj_import(&self->other, fd, &self->imported));
	close(fd);
}

FIXTURE_TEARDOWN(fences)
{
	complaints_disallow();
	/* Queues that are destroyed wait for their fences. */
	if (self->f.queue.memory)
		self->f.queue.memory[USERQ_WORDS / sizeof(__u32) + WAIT_WORD] = 1;
	criu_node_close(&self->other);
	teardown(&self->f);
}

static void set_word(struct userq *queue)
{
	__atomic_store_n(&queue->memory[USERQ_WORDS / sizeof(__u32) + WAIT_WORD], 1,
			 __ATOMIC_SEQ_CST);
}

TEST_F(fences, that_are_signaled_stay_signaled)
{
	struct files *f = &self->f;

	userq_write(&f->queue, 0, 1);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, self->syncobjs, 2, 0, true));
	EXPECT_EQ(0, render_syncobj_wait(&f->node, self->syncobjs[1], 10 * RENDER_SECOND));
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	resume(_metadata, f);
	EXPECT_EQ(0, render_syncobj_wait(&f->to, self->syncobjs[0], 0));
	EXPECT_EQ(0, render_syncobj_wait(&f->to, self->syncobjs[1], 0));
	/* New fences continue. */
	userq_write(&f->restored, 0, 2);
	ASSERT_EQ(0, userq_signal(&f->to, &f->restored, self->syncobjs, 1, 0, true));
	EXPECT_EQ(0, render_syncobj_wait(&f->to, self->syncobjs[0], 10 * RENDER_SECOND));
	EXPECT_TRUE(userq_wrote(&f->restored, 0, 2));
}

/* Longer than MES waits for waves: if the queue was unmapped meanwhile, the GPU would be reset. */
TEST_F_TIMEOUT(fences, of_a_long_dispatch_are_signaled_when_the_file_is_paused, 60)
{
	struct files *f = &self->f;

	userq_occupy(&f->queue, 4000);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, self->syncobjs, 1, 0, true));
	EXPECT_EQ(-ETIME, render_syncobj_wait(&f->node, self->syncobjs[0], 0));
	pause_file(_metadata, f);
	EXPECT_EQ(0, render_syncobj_wait(&self->other, self->imported, 0));
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	EXPECT_EQ(0, criu_unpause(&f->node, f->session));
	EXPECT_TRUE(userq_runs(&f->queue, 2));
	resume(_metadata, f);
	EXPECT_EQ(0, render_syncobj_wait(&f->to, self->syncobjs[0], 0));
	EXPECT_TRUE(userq_runs(&f->restored, 3));
}

/* A file whose pause fails, in a process of its own: that takes as long as a pause waits. */
struct pauser {
	struct criu_node node;
	struct userq queue;
	int session;
	pid_t pid;
};

static void start_pause(struct __test_metadata *_metadata, struct pauser *pauser,
			const char *reason)
{
	struct amdgpu_criu_process_info info;
	int ret;

	pauser->session = criu_session(&pauser->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, pauser->session);
	pauser->pid = fork();
	ASSERT_LE(0, pauser->pid);
	if (pauser->pid)
		return;
	ret = criu_pause(&pauser->node, pauser->session, &info);
	if (ret != -ETIME || strcmp(reason, criu_reason))
		printf("# %d: %s\n", ret, criu_reason);
	fflush(stdout);
	_exit(ret != -ETIME || strcmp(reason, criu_reason));
}

/* One of them is in a syncobj only, one in a BO, and the last packets of a queue have none. */
TEST_F_TIMEOUT(fences, that_are_pending_are_ETIME_and_the_queue_runs_on, 120)
{
	static const char *const reasons[] = {
		"user queue 1: its fences are not signaled",
		"BO 2: work of a user queue hangs",
		"user queue 1: no fence follows its packets",
	};
	struct pauser pausers[3] = {};
	__u32 syncobj;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, render_open(&pausers[i].node, 0));
		ASSERT_EQ(0, userq_make(&pausers[i].node, &pausers[i].queue,
					AMDGPU_HW_IP_COMPUTE, 0));
		EXPECT_TRUE(userq_runs(&pausers[i].queue, 1));
	}
	ASSERT_EQ(0, render_syncobj_create(&pausers[0].node, 0, &syncobj));
	for (int i = 0; i < 2; i++) {
		userq_wait_word(&pausers[i].queue, WAIT_WORD);
		ASSERT_EQ(0, userq_signal(&pausers[i].node, &pausers[i].queue, &syncobj, !i,
					  i ? pausers[i].queue.memory_handle : 0, true));
	}
	userq_occupy(&pausers[2].queue, 25000);
	for (int i = 0; i < 3; i++)
		start_pause(_metadata, &pausers[i], reasons[i]);
	for (int i = 0; i < 3; i++) {
		struct amdgpu_criu_process_info info;
		int status = -1;

		EXPECT_EQ(pausers[i].pid, waitpid(pausers[i].pid, &status, 0));
		EXPECT_EQ(0, status);
		EXPECT_EQ(-EBADFD, criu_unpause(&pausers[i].node, pausers[i].session));
		if (i < 2)
			set_word(&pausers[i].queue);
		EXPECT_TRUE(userq_runs(&pausers[i].queue, 2));
		EXPECT_EQ(0, criu_pause(&pausers[i].node, pausers[i].session, &info));
		close(pausers[i].session);
		EXPECT_TRUE(userq_runs(&pausers[i].queue, 3));
		criu_node_close(&pausers[i].node);
	}
}

/* The last one has a smaller value. The queue signals it, and is destroyed. */
TEST_F(fences, that_are_pending_when_their_queue_is_destroyed_are_signaled)
{
	struct files *f = &self->f;

	f->queue.next = 100;
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, &self->syncobjs[2], 1, 0, false));
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, &self->syncobjs[0], 1, 0, false));
	userq_rewind(&f->queue);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, &self->syncobjs[1], 1, 0, true));
	for (int i = 0; i < 1000 && render_syncobj_wait(&f->node, self->syncobjs[1], 0); i++)
		usleep(10000);
	EXPECT_EQ(-ETIME, render_syncobj_wait(&f->node, self->syncobjs[0], 0));
	ASSERT_EQ(0, userq_free(&f->node, &f->queue));
	EXPECT_EQ(0, render_syncobj_wait(&f->node, self->syncobjs[0], RENDER_SECOND));
}

/* Packets that write and signal, and the write pointer. */
static void write_without_doorbell(struct userq *queue)
{
	volatile __u64 *doorbells = queue->doorbells, unused[USERQ_PAGE / sizeof(__u64)];

	queue->doorbells = unused;
	userq_write(queue, 0, 1);
	userq_fence(queue);
	queue->doorbells = doorbells;
}

/* The restored queue, and the paused one. */
static void both_run_on(struct __test_metadata *_metadata, struct files *f)
{
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	resume(_metadata, f);
	EXPECT_TRUE(userq_runs(&f->restored, 2));
	ASSERT_EQ(0, criu_unpause(&f->node, f->session));
	EXPECT_TRUE(userq_runs(&f->queue, 3));
}

/* As when the process is stopped between AMDGPU_USERQ_SIGNAL and its doorbell. */
TEST_F(fences, without_a_doorbell_are_signaled_when_the_file_is_paused)
{
	struct files *f = &self->f;

	write_without_doorbell(&f->queue);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, self->syncobjs, 1, f->queue.memory_handle,
				  false));
	pause_file(_metadata, f);
	EXPECT_EQ(0, render_syncobj_wait(&self->other, self->imported, 0));
	both_run_on(_metadata, f);
}

/* As when the process is stopped between the write pointer and AMDGPU_USERQ_SIGNAL. */
TEST_F(fences, of_packets_without_a_doorbell_are_signaled_when_the_file_is_paused)
{
	struct files *f = &self->f;

	write_without_doorbell(&f->queue);
	usleep(100000);
	EXPECT_EQ(0, f->queue.memory[USERQ_WORDS / sizeof(__u32)]);
	pause_file(_metadata, f);
	EXPECT_TRUE(userq_wrote(&f->queue, 0, 1));
	both_run_on(_metadata, f);
}

/* A file that is not resumed could publish fences that no queue signals. */
TEST_F(fences, cannot_be_published_by_a_queue_that_is_not_resumed)
{
	struct files *f = &self->f;

	EXPECT_TRUE(userq_runs(&f->queue, 1));
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	close(f->load);
	f->load = -1;
	EXPECT_EQ(-ENOENT, userq_signal(&f->to, &f->restored, self->syncobjs, 1, 0, false));
	/* A paused queue whose file is closed. */
	criu_node_close(&f->node);
	f->node.fd = -1;
	close(f->session);
	f->session = -1;
}

/*
 * A write pointer in memory that is less than the doorbell hides a dispatch, so the queue looks
 * idle. MES cannot unmap it, and the driver resets the GPU.
 */
TEST_F_TIMEOUT(fences, that_hide_a_dispatch_fail_the_pause, 120)
{
	struct files *f = &self->f;
	__u64 position;

	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (!reset_is_possible())
		SKIP(return, RESET_SKIP);
	complaints_allow(RESET_COMPLAINTS);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, self->syncobjs, 1, 0, true));
	EXPECT_EQ(0, render_syncobj_wait(&f->node, self->syncobjs[0], 10 * RENDER_SECOND));
	position = *f->queue.wptr;
	userq_occupy(&f->queue, 30000);
	*f->queue.wptr = position;
	expect_refused(_metadata, f, "a user queue that the driver has stopped");
	/* The reset does not map the queue again behind a pause: a pause never succeeds. */
	for (int i = 0; i < 3; i++) {
		EXPECT_NE(0, criu_pause(&f->node, f->session, &f->info));
		sleep(1);
	}
}

TEST_F(fences, of_a_record_with_saved_waves_or_a_pad_are_EBADMSG)
{
	/* cp_hqd_cntl_stack_offset */
	const struct blob_fault stack = { .offset = 174 * 4, .size = 4, .value = 0x1000 };
	const struct blob_fault pad = BLOB_FAULT("pad", blob_userq, pad, 1, -EBADMSG);
	struct files *f = &self->f;

	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	ASSERT_EQ(0, render_open(&f->to, 0));
	f->load = criu_session(&f->to, AMDGPU_CRIU_SESSION_RESTORE);
	EXPECT_EQ(-EBADMSG, blob_restore_fault(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 0, 0,
					       &pad));
	EXPECT_NE(NULL, strstr(criu_reason, "pad is not zero"));
	EXPECT_EQ(-EBADMSG, blob_restore_fault(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 0,
					       sizeof(struct blob_userq), &stack));
	EXPECT_NE(NULL, strstr(criu_reason, "saved waves"));
	ASSERT_EQ(0, criu_restore(&f->to, f->load, &f->image));
}

TEST_F(fences, of_another_queue_that_packets_may_wait_for_are_EOPNOTSUPP)
{
	struct files *f = &self->f;
	struct userq other = { .doorbell_handle = f->queue.doorbell_handle };

	ASSERT_EQ(0, userq_make(&f->node, &other, AMDGPU_HW_IP_COMPUTE, 1));
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, self->syncobjs, 1, 0, true));
	ASSERT_EQ(0, userq_wait(&f->node, &other, self->syncobjs[0]));
	expect_refused(_metadata, f, "a user queue that waits for another");
	/* The next fence ends it. */
	ASSERT_EQ(0, userq_signal(&f->node, &other, &self->syncobjs[1], 1, 0, true));
	expect_taken(_metadata, f);
	EXPECT_EQ(0, render_syncobj_wait(&f->node, self->syncobjs[1], 10 * RENDER_SECOND));
}

TEST_HARNESS_MAIN
