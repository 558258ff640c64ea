// SPDX-License-Identifier: GPL-2.0
/* Fences of user queues: a restored queue signals them, in syncobjs that a process waits for. */
#include "kselftest_harness.h"

#include "complaints.h"
#include "userq_files.h"

#define WAIT_WORD 8

/* Queues for compute have fences. */
FIXTURE(fences) {
	struct files f;
	__u32 syncobjs[4];
};

FIXTURE_SETUP(fences)
{
	if (!setup(_metadata, &self->f, AMDGPU_HW_IP_COMPUTE))
		SKIP(return, "the driver has no user queues for this GPU");
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, render_syncobj_create(&self->f.node, 0, &self->syncobjs[i]));
}

FIXTURE_TEARDOWN(fences)
{
	/* Queues that are destroyed wait for their fences. */
	if (self->f.queue.memory)
		self->f.queue.memory[USERQ_WORDS / sizeof(__u32) + WAIT_WORD] = 1;
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

/* Three fences; two syncobjs have the second one. */
static void make_pending(struct __test_metadata *_metadata, FIXTURE_DATA(fences) *self)
{
	struct files *f = &self->f;

	userq_wait_word(&f->queue, WAIT_WORD);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, &self->syncobjs[3], 1, 0, true));
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, &self->syncobjs[1], 2, 0, true));
	userq_write(&f->queue, 0, 5);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, &self->syncobjs[0], 1, 0, true));
}

TEST_F(fences, that_are_pending_are_signaled_when_the_restored_queue_gets_there)
{
	struct files *f = &self->f;

	make_pending(_metadata, self);
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	resume(_metadata, f);
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(-ETIME, render_syncobj_wait(&f->to, self->syncobjs[i], 0));
	}
	EXPECT_EQ(-ETIME, render_syncobj_wait(&f->to, self->syncobjs[3], RENDER_SECOND / 10));
	set_word(&f->restored);
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(0, render_syncobj_wait(&f->to, self->syncobjs[i], 10 * RENDER_SECOND));
	}
	EXPECT_TRUE(userq_wrote(&f->restored, 0, 5));
	/* Those of the source are still pending. */
	ASSERT_EQ(0, criu_unpause(&f->node, f->session));
	EXPECT_EQ(-ETIME, render_syncobj_wait(&f->node, self->syncobjs[3], RENDER_SECOND / 10));
	set_word(&f->queue);
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(0, render_syncobj_wait(&f->node, self->syncobjs[i], 10 * RENDER_SECOND));
	}
	EXPECT_TRUE(userq_runs(&f->restored, 6));
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

/* As when the process is stopped between AMDGPU_USERQ_SIGNAL and its doorbell. */
TEST_F(fences, without_a_doorbell_are_signaled_by_a_doorbell_after_the_restore)
{
	struct files *f = &self->f;

	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, self->syncobjs, 1, 0, false));
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	resume(_metadata, f);
	userq_write(&f->restored, 0, 1);
	EXPECT_EQ(0, render_syncobj_wait(&f->to, self->syncobjs[0], 10 * RENDER_SECOND));
	ASSERT_EQ(0, criu_unpause(&f->node, f->session));
	userq_write(&f->queue, 0, 1);
	EXPECT_EQ(0, render_syncobj_wait(&f->node, self->syncobjs[0], 10 * RENDER_SECOND));
}

TEST_F(fences, of_a_queue_that_is_not_resumed_do_not_delay_the_close)
{
	struct files *f = &self->f;

	make_pending(_metadata, self);
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	close(f->load);
	f->load = -1;
	EXPECT_EQ(-ETIME, render_syncobj_wait(&f->to, self->syncobjs[3], 0));
	criu_node_close(&f->to);
	f->to.fd = -1;
	/* A paused queue whose file is closed. */
	criu_node_close(&f->node);
	f->node.fd = -1;
	close(f->session);
	f->session = -1;
}

/* Another file copies the contents of BOs, and must not wait for a stopped queue. */
TEST_F_TIMEOUT(fences, of_a_bo_that_are_pending_are_ETIME, 120)
{
	struct files *f = &self->f;

	userq_wait_word(&f->queue, WAIT_WORD);
	ASSERT_EQ(0, userq_signal(&f->node, &f->queue, NULL, 0, f->queue.memory_handle, true));
	EXPECT_EQ(-ETIME, criu_pause(&f->node, f->session, &f->info));
	set_word(&f->queue);
	EXPECT_EQ(0, criu_pause(&f->node, f->session, &f->info));
	EXPECT_EQ(0, criu_unpause(&f->node, f->session));
	EXPECT_TRUE(userq_runs(&f->queue, 2));
}

TEST_F(fences, invalid_records_are_refused)
{
	static const struct blob_fault faults[] = {
		BLOB_FAULT("no such syncobj", blob_userq_fence, handle, 99, -EBADMSG),
		BLOB_FAULT("greater than the next", blob_userq_fence, value, 1000, -EBADMSG),
		BLOB_FAULT("pad", blob_userq_fence, pad, 1, -EBADMSG),
	};
	/* cp_hqd_cntl_stack_offset */
	const struct blob_fault stack = { .offset = 174 * 4, .size = 4, .value = 0x1000 };
	struct files *f = &self->f;
	const struct blob_userq *record;
	struct blob blob;
	size_t at;

	make_pending(_metadata, self);
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	ASSERT_EQ(0, render_open(&f->to, 0));
	f->load = criu_session(&f->to, AMDGPU_CRIU_SESSION_RESTORE);
	blob = (struct blob){ .data = f->image.blob, .size = f->image.blob_size };
	record = blob_payload(&blob, blob_find(&blob, BLOB_RENDER_USERQ, 0));
	EXPECT_EQ(4, record->num_fences);
	at = sizeof(*record) + record->num_words * sizeof(__u32);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		EXPECT_EQ(faults[i].error,
			  blob_restore_fault(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 0,
					     at, &faults[i])) {
			TH_LOG("%s", faults[i].what);
		}
	}
	EXPECT_EQ(-EBADMSG, blob_restore_fault(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 0,
					       sizeof(*record), &stack));
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
