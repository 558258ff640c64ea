// SPDX-License-Identifier: GPL-2.0
/*
 * User queues: the process writes packets and rings a doorbell, without an ioctl. They are stopped
 * while the file is paused, and restored with what is left in their rings.
 */
#include "kselftest_harness.h"

#include <signal.h>
#include <sys/time.h>

#include "capability.h"
#include "complaints.h"
#include "kfd.h"
#include "userq_files.h"

/* The most user queues that a file can have */
#define USERQS_MAX 512

FIXTURE(userq) {
	struct files f;
};

FIXTURE_VARIANT(userq) {
	__u32 ip_type;
};

FIXTURE_VARIANT_ADD(userq, compute) {
	.ip_type = AMDGPU_HW_IP_COMPUTE,
};

FIXTURE_VARIANT_ADD(userq, sdma) {
	.ip_type = AMDGPU_HW_IP_DMA,
};

FIXTURE_SETUP(userq)
{
	if (!setup(_metadata, &self->f, variant->ip_type))
		SKIP(return, "the driver has no user queues for this GPU");
}

FIXTURE_TEARDOWN(userq)
{
	teardown(&self->f);
}

TEST_F(userq, runs_on_after_UNPAUSE_and_after_the_last_close)
{
	struct files *f = &self->f;

	EXPECT_TRUE(userq_runs(&f->queue, 1));
	pause_file(_metadata, f);
	EXPECT_EQ(1, f->info.num_queues);
	userq_write(&f->queue, 0, 2);
	if (variant->ip_type == AMDGPU_HW_IP_COMPUTE)
		userq_fence(&f->queue);
	usleep(200000);
	EXPECT_TRUE(userq_wrote(&f->queue, 0, 1));
	/* Again, and it stays paused. */
	pause_file(_metadata, f);
	EXPECT_TRUE(userq_wrote(&f->queue, 0, 1));
	ASSERT_EQ(0, criu_unpause(&f->node, f->session));
	EXPECT_TRUE(userq_wrote(&f->queue, 0, 2));
	pause_file(_metadata, f);
	userq_write(&f->queue, 0, 3);
	usleep(200000);
	EXPECT_TRUE(userq_wrote(&f->queue, 0, 2));
	close(f->session);
	f->session = -1;
	EXPECT_TRUE(userq_wrote(&f->queue, 0, 3));
	EXPECT_TRUE(userq_runs(&f->queue, 4));
	EXPECT_EQ(0, userq_free(&f->node, &f->queue));
}

static void carry(struct __test_metadata *_metadata, struct files *f, unsigned int gpu)
{
	struct userq first = f->queue, other = { .doorbell_handle = first.doorbell_handle };
	struct userq again;

	/* Queue 1 of four is free, and there is one of the other type. */
	f->queue = other;
	ASSERT_EQ(0, userq_make(&f->node, &f->queue, first.ip_type, 1));
	ASSERT_EQ(0, userq_make(&f->node, &other, AMDGPU_HW_IP_DMA, 2));
	ASSERT_EQ(0, userq_free(&f->node, &first));
	for (__u32 i = 1; i <= 300; i++)
		EXPECT_TRUE(userq_runs(&f->queue, i));
	EXPECT_TRUE(userq_runs(&other, 10));
	pause_file(_metadata, f);
	EXPECT_EQ(2, f->info.num_queues);
	userq_write(&f->queue, 1, 301);
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, gpu);
	ASSERT_EQ(0, userq_again(&f->to, &f->image, &other, &again));
	usleep(100000);
	EXPECT_TRUE(userq_wrote(&f->restored, 1, 0));
	resume(_metadata, f);
	EXPECT_TRUE(userq_wrote(&f->restored, 1, 301));
	for (__u32 i = 302; i <= 600; i++)
		EXPECT_TRUE(userq_runs(&f->restored, i));
	EXPECT_TRUE(userq_runs(&again, 11));
	/* The source has its own memory. */
	EXPECT_TRUE(userq_wrote(&f->queue, 1, 0));
	ASSERT_EQ(0, criu_unpause(&f->node, f->session));
	EXPECT_TRUE(userq_wrote(&f->queue, 1, 301));
	EXPECT_TRUE(userq_wrote(&other, 0, 10));
	EXPECT_EQ(-ENOENT, userq_free(&f->to, &first));
	EXPECT_EQ(0, userq_free(&f->to, &again));
	EXPECT_EQ(0, userq_free(&f->to, &f->restored));
	memset(&again, 0, sizeof(again));
	ASSERT_EQ(0, userq_make(&f->to, &again, first.ip_type, 3));
	EXPECT_EQ(first.id, again.id);
	EXPECT_TRUE(userq_runs(&again, 12));
}

TEST_F(userq, continues_at_its_id_with_packets_in_the_ring)
{
	struct files *f = &self->f;

	carry(_metadata, f, 0);
}

TEST_F(userq, continues_on_another_gpu)
{
	struct files *f = &self->f;
	struct criu_node other;

	if (render_open(&other, 1))
		SKIP(return, "needs two GPUs");
	criu_node_close(&other);
	carry(_metadata, f, 1);
}

TEST_F(userq, that_was_restored_is_saved_as_before)
{
	struct files *f = &self->f;
	struct criu_image again;

	EXPECT_TRUE(userq_runs(&f->queue, 1));
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	resume(_metadata, f);
	ASSERT_EQ(0, render_save(&f->to, &again));
	EXPECT_EQ(1, blob_count(&again, BLOB_RENDER_USERQ));
	EXPECT_TRUE(blob_same(&f->image, &again, BLOB_RENDER_USERQ, 0));
	criu_image_free(&again);
	EXPECT_TRUE(userq_runs(&f->restored, 2));
}

static void nothing(int signal)
{
}

/* A driver that maps the queues in the caller would be interrupted, and leave some unmapped. */
TEST_F(userq, runs_although_signals_interrupt_RESUME)
{
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = {};
	const struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	struct files *f = &self->f;

	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
	resume(_metadata, f);
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
	EXPECT_TRUE(userq_runs(&f->restored, 1));
}

/* The session ends without RESUME. The end of a checkpoint would start the queue. */
TEST_F(userq, that_is_not_resumed_never_runs)
{
	struct files *f = &self->f;

	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	userq_write(&f->restored, 0, 1);
	close(f->load);
	f->load = -1;
	EXPECT_EQ(0, criu_pause(&f->to, f->session, &f->info));
	EXPECT_EQ(0, f->info.num_queues);
	EXPECT_EQ(0, criu_unpause(&f->to, f->session));
	usleep(200000);
	EXPECT_TRUE(userq_wrote(&f->restored, 0, 0));
	EXPECT_EQ(-ENOENT, userq_free(&f->to, &f->restored));
}

/* Each field, in a file with one queue. */
TEST_F(userq, invalid_records_are_refused)
{
	const struct blob_fault faults[] = {
		BLOB_FAULT_FOR(": id", "id 0", blob_userq, id, 0, -EBADMSG),
		BLOB_FAULT_FOR(": id", "id beyond the last", blob_userq, id, 513, -EBADMSG),
		BLOB_FAULT_FOR("unknown flags", "unknown flag", blob_userq, flags, 1, -EOPNOTSUPP),
		BLOB_FAULT_FOR(": type", "type", blob_userq, ip_type, AMDGPU_HW_IP_GFX, -EBADMSG),
		BLOB_FAULT_FOR(": MQD size", "type of another MQD", blob_userq, ip_type,
			       AMDGPU_HW_IP_COMPUTE + AMDGPU_HW_IP_DMA - variant->ip_type,
			       -EBADMSG),
		BLOB_FAULT_FOR(": priority", "priority", blob_userq, priority, 4, -EBADMSG),
		BLOB_FAULT_FOR(": doorbell", "no such doorbells", blob_userq, doorbell_handle, 99,
			       -EBADMSG),
		BLOB_FAULT_FOR(": doorbell", "doorbells in another BO", blob_userq, doorbell_handle,
			       self->f.queue.memory_handle, -EBADMSG),
		BLOB_FAULT_FOR(": doorbell", "doorbell behind the BO", blob_userq, doorbell_offset,
			       USERQ_PAGE / 8, -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "ring that is not mapped", blob_userq,
			       queue_va, 0x10000, -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "ring behind the mapping", blob_userq,
			       queue_va, USERQ_VA(0) + USERQ_PAGE * 6, -EBADMSG),
		BLOB_FAULT_FOR("size of the ring", "size of the ring", blob_userq, queue_size,
			       0x1800, -EBADMSG),
		BLOB_FAULT_FOR("size of the ring", "small ring", blob_userq, queue_size, 0x800,
			       -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "ring beyond the mapping", blob_userq,
			       queue_size, 0x8000, -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "read pointer", blob_userq, rptr_va,
			       0x10000, -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "write pointer", blob_userq, wptr_va,
			       0x10000, -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "pointer in a large BO", blob_userq,
			       wptr_va, USERQ_VA(0), -EBADMSG),
		BLOB_FAULT_FOR("alignment of a pointer", "pointer that is not aligned", blob_userq,
			       rptr_va, USERQ_VA(0) + 4, -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "area", blob_userq, area_va, 0x10000,
			       -EBADMSG),
		BLOB_FAULT_FOR("its memory is not mapped", "area that ends outside", blob_userq,
			       area_va, USERQ_VA(0) + USERQ_SIZE - 16, -EBADMSG),
		BLOB_FAULT_FOR(TAIL_FAULT, "number of words", blob_userq, num_words, 2, -EBADMSG),
	};
	const struct blob_fault high =
		BLOB_FAULT_FOR("its priority needs CAP_SYS_NICE", "high", blob_userq, priority,
			       USERQ_PRIORITY_HIGH, -EACCES);
	/* A word that the driver sets: the header of compute MQDs, the size of SDMA rings. */
	const struct blob_fault word = {
		.what = "owned word", .size = 4, .value = 1 << 1, .error = -EOPNOTSUPP,
		.reason = "MQD has words that this kernel sets itself",
	};
	struct files *f = &self->f;

	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	ASSERT_EQ(0, render_open(&f->to, 0));
	f->load = criu_session(&f->to, AMDGPU_CRIU_SESSION_RESTORE);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		EXPECT_FAULT(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 0, 0, &faults[i]);
	}
	EXPECT_FAULT(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 0, sizeof(struct blob_userq),
		     &word);
	ASSERT_EQ(0, drop_sys_nice());
	EXPECT_FAULT(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 0, 0, &high);
	ASSERT_EQ(0, raise_all());
	ASSERT_EQ(0, criu_restore(&f->to, f->load, &f->image));
	ASSERT_EQ(0, userq_again(&f->to, &f->image, &f->queue, &f->restored));
	resume(_metadata, f);
	EXPECT_TRUE(userq_runs(&f->restored, 1));
}

/* Ids and doorbells are unique. */
TEST_F(userq, two_with_one_id_or_one_doorbell_are_EBADMSG)
{
	struct files *f = &self->f;
	struct userq other = { .doorbell_handle = f->queue.doorbell_handle };
	const struct blob_fault faults[] = {
		BLOB_FAULT_FOR("its number occurs twice", "id", blob_userq, id, f->queue.id,
			       -EBADMSG),
		BLOB_FAULT_FOR("its doorbell occurs twice", "doorbell", blob_userq,
			       doorbell_offset, 3, -EBADMSG),
	};

	ASSERT_EQ(0, userq_make(&f->node, &other, variant->ip_type, 1));
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	ASSERT_EQ(0, render_open(&f->to, 0));
	f->load = criu_session(&f->to, AMDGPU_CRIU_SESSION_RESTORE);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		EXPECT_FAULT(&f->to, f->load, &f->image, BLOB_RENDER_USERQ, 1, 0, &faults[i]);
	}
}

/* Each record is compared with the others and with the mappings, so their number is limited. */
TEST_F(userq, more_of_them_than_a_file_can_have_are_EBADMSG)
{
	struct files *f = &self->f;
	struct blob blob;
	size_t at;

	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	ASSERT_EQ(0, render_open(&f->to, 0));
	f->load = criu_session(&f->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_TRUE(blob_copy(&blob, f->image.blob, f->image.blob_size));
	at = blob_find(&blob, BLOB_RENDER_USERQ, 0);
	blob.data = realloc(blob.data, blob.size + USERQS_MAX * (sizeof(struct blob_record) +
								 blob_record(&blob, at)->size));
	ASSERT_NE(NULL, blob.data);
	for (int i = 0; i < USERQS_MAX; i++)
		blob_double(&blob, at);
	EXPECT_EQ(-EBADMSG, blob_restore(&f->to, f->load, &f->image, &blob));
	EXPECT_NE(NULL, strstr(criu_reason, "too many of the type")) {
		TH_LOG("%s", criu_reason);
	}
	blob_free(&blob);
}

TEST_F(userq, whose_doorbell_has_no_handle_is_EOPNOTSUPP)
{
	struct files *f = &self->f;

	ASSERT_EQ(0, render_bo_close(&f->node, f->queue.doorbell_handle));
	expect_refused(_metadata, f, "a user queue whose doorbell has no handle");
	EXPECT_TRUE(userq_runs(&f->queue, 1));
	ASSERT_EQ(0, userq_free(&f->node, &f->queue));
	expect_taken(_metadata, f);
}

TEST_F(userq, whose_memory_is_not_mapped_is_EOPNOTSUPP)
{
	struct files *f = &self->f;

	complaints_allow("trying restore queue without va mapping");
	ASSERT_EQ(0, render_va_unmap(&f->node, f->queue.memory_handle, USERQ_VA(0), USERQ_SIZE));
	expect_refused(_metadata, f, "a user queue whose memory is not mapped");
	/* Without its write pointer, the driver no longer maps it, and will not later. */
	ASSERT_EQ(0, render_va_unmap(&f->node, f->queue.wptr_handle, USERQ_WPTR_VA(0), USERQ_PAGE));
	usleep(500000);
	expect_refused(_metadata, f, "a user queue whose memory is not mapped");
	ASSERT_EQ(0, render_va_map(&f->node, f->queue.wptr_handle, USERQ_WPTR_VA(0), USERQ_PAGE));
	ASSERT_EQ(0, render_va_map(&f->node, f->queue.memory_handle, USERQ_VA(0), USERQ_SIZE));
	expect_refused(_metadata, f, "a user queue that the driver has stopped");
	complaints_disallow();
	ASSERT_EQ(0, userq_free(&f->node, &f->queue));
	expect_taken(_metadata, f);
}

TEST_F(userq, beside_a_secure_one_is_EOPNOTSUPP)
{
	struct files *f = &self->f;
	struct userq other = { .doorbell_handle = f->queue.doorbell_handle };
	struct userq_args args;
	__u64 area;

	ASSERT_EQ(0, userq_memory(&f->node, &other, AMDGPU_HW_IP_COMPUTE, 1));
	args = userq_create_args(&other, &area);
	args.flags = USERQ_SECURE;
	ASSERT_EQ(0, userq_call(&f->node, &args, USERQ_CREATE));
	expect_refused(_metadata, f, "a secure user queue");
}

TEST_F(userq, beside_one_for_graphics_is_EOPNOTSUPP)
{
	struct files *f = &self->f;
	struct userq other = { .doorbell_handle = f->queue.doorbell_handle };
	const __u64 size = 0x400000, areas[] = { 0x10000000, 0x10200000 };
	struct userq_args args;
	__u32 handle;
	__u64 area;

	ASSERT_EQ(0, userq_memory(&f->node, &other, AMDGPU_HW_IP_GFX, 1));
	ASSERT_EQ(0, render_bo_create(&f->node, size, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	ASSERT_EQ(0, render_va_map(&f->node, handle, areas[0], size));
	args = userq_create_args(&other, &area);
	args.mqd = (uintptr_t)areas;
	args.mqd_size = sizeof(areas);
	/* The software GPU does not run such a queue. */
	complaints_allow("cannot be mapped: user queues of type 0");
	ASSERT_EQ(0, userq_call(&f->node, &args, USERQ_CREATE));
	expect_refused(_metadata, f, "a user queue for graphics");
	other.id = args.op;
	EXPECT_EQ(0, userq_free(&f->node, &other));
	complaints_disallow();
	expect_taken(_metadata, f);
}

TEST(a_queue_in_the_VM_of_kfd_is_EOPNOTSUPP)
{
	struct files f = { .session = -1, .load = -1, .to = { .fd = -1 } };
	struct kfd kfd;

	if (!setup(_metadata, &f, AMDGPU_HW_IP_COMPUTE))
		SKIP(return, "the driver has no user queues for this GPU");
	ASSERT_EQ(0, kfd_open_with(&kfd, f.node.fd));
	expect_refused(_metadata, &f, "a user queue in the VM of /dev/kfd");
	close(f.session);
	kfd_close(&kfd);
}

TEST_HARNESS_MAIN
