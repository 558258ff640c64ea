// SPDX-License-Identifier: GPL-2.0
/* RESTORE and RESUME: the state of one process continues in another. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "fixtures.h"

#define SOON 5000
#define NEVER 300

FIXTURE(restore) {
	struct restorer r;
};

FIXTURE_SETUP(restore)
{
	int ret = restorer_open(&self->r);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(restore)
{
	restorer_close(&self->r);
}

static int restore(FIXTURE_DATA(restore) *self)
{
	return criu_restore(&self->r.kfd.node, self->r.session, &self->r.saved.carry.image);
}

static int resume(FIXTURE_DATA(restore) *self)
{
	return criu_resume(&self->r.kfd.node, self->r.session, 0);
}

/* Does what CRIU does between RESTORE and RESUME, and maps the doorbell. */
static int map_and_fill(FIXTURE_DATA(restore) *self)
{
	int ret = carry_fill(&self->r.saved.carry);

	return ret ? ret : kfd_doorbell_map(&self->r.kfd, &self->r.saved.state.sdma);
}

static int restore_all(FIXTURE_DATA(restore) *self)
{
	int ret = restore(self);

	if (!ret)
		ret = map_and_fill(self);
	return ret ? ret : resume(self);
}

static bool runs(FIXTURE_DATA(restore) *self, __u32 value, int milliseconds)
{
	__u32 *word = self->r.saved.state.gtt.at;

	kfd_sdma_write(&self->r.saved.state.sdma, word, value);
	return kfd_becomes(word, value, milliseconds);
}

TEST_F(restore, memory_is_restored)
{
	ASSERT_EQ(0, restore_all(self));
	EXPECT_TRUE(state_is_filled(&self->r.saved.state, 1));
}

TEST_F(restore, queues_continue_where_they_stopped)
{
	__u32 i;

	ASSERT_EQ(0, restore_all(self));
	for (i = 1; i <= 100; i++) {
		ASSERT_TRUE(runs(self, i, SOON));
	}
	EXPECT_EQ(0, kfd_queue_destroy(&self->r.kfd, self->r.saved.state.sdma.id));
	EXPECT_EQ(0, kfd_queue_destroy(&self->r.kfd, self->r.saved.state.compute));
	EXPECT_EQ(-EINVAL, kfd_queue_destroy(&self->r.kfd, self->r.saved.state.compute));
}

TEST_F(restore, nothing_runs_before_resume)
{
	ASSERT_EQ(0, restore(self));
	ASSERT_EQ(0, map_and_fill(self));
	EXPECT_FALSE(runs(self, 77, NEVER));
	ASSERT_EQ(0, resume(self));
	EXPECT_TRUE(kfd_becomes(self->r.saved.state.gtt.at, 77, SOON));
}

TEST_F(restore, a_userptr_refers_to_memory_of_the_new_process)
{
	__u32 *word = self->r.saved.state.userptr.at;

	ASSERT_EQ(0, restore_all(self));
	kfd_sdma_write(&self->r.saved.state.sdma, word, 0xabcd);
	EXPECT_TRUE(kfd_becomes(word, 0xabcd, SOON));
}

TEST_F(restore, events_are_restored)
{
	const struct state *state = &self->r.saved.state;

	ASSERT_EQ(0, restore_all(self));
	EXPECT_EQ(0, kfd_event_wait(&self->r.kfd, state->event_set, 0));
	EXPECT_EQ(-ETIME, kfd_event_wait(&self->r.kfd, state->event_manual, 0));
	EXPECT_EQ(-ETIME, kfd_event_wait(&self->r.kfd, state->event_auto, 0));
	ASSERT_EQ(0, kfd_event_set(&self->r.kfd, state->event_auto));
	EXPECT_EQ(0, kfd_event_wait(&self->r.kfd, state->event_auto, SOON));
	EXPECT_EQ(-ETIME, kfd_event_wait(&self->r.kfd, state->event_auto, 0));
	ASSERT_EQ(0, kfd_event_set(&self->r.kfd, state->event_manual));
	EXPECT_EQ(0, kfd_event_wait(&self->r.kfd, state->event_manual, SOON));
	EXPECT_EQ(0, kfd_event_wait(&self->r.kfd, state->event_manual, 0));
}

TEST_F(restore, handles_are_restored)
{
	struct state *state = &self->r.saved.state;
	struct kfd_bo fresh;

	ASSERT_EQ(0, restore_all(self));
	/* A number in use is not assigned again. */
	ASSERT_EQ(0, kfd_bo_alloc(&self->r.kfd, &fresh, KFD_GTT, 4096));
	EXPECT_NE(state->vram.handle, fresh.handle);
	EXPECT_NE(state->gtt.handle, fresh.handle);
	EXPECT_NE(state->userptr.handle, fresh.handle);
	EXPECT_EQ(0, kfd_bo_free(&self->r.kfd, &state->vram));
	EXPECT_EQ(0, kfd_bo_free(&self->r.kfd, &state->gtt));
	EXPECT_EQ(0, kfd_bo_free(&self->r.kfd, &state->userptr));
}

TEST_F(restore, a_checkpoint_of_the_restored_process_is_the_same)
{
	const struct criu_image *first = &self->r.saved.carry.image;
	struct criu_image second;
	int session;
	__u32 i;

	ASSERT_EQ(0, restore_all(self));
	session = criu_session(&self->r.kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_checkpoint(&self->r.kfd.node, session, &second));
	ASSERT_EQ(first->num_bos, second.num_bos);
	for (i = 0; i < second.num_bos; i++) {
		EXPECT_EQ(first->bos[i].object_id, second.bos[i].object_id);
		EXPECT_EQ(first->bos[i].handle, second.bos[i].handle);
		EXPECT_EQ(first->bos[i].va, second.bos[i].va);
		EXPECT_EQ(first->bos[i].size, second.bos[i].size);
		EXPECT_EQ(first->bos[i].flags, second.bos[i].flags);
		EXPECT_EQ(first->bos[i].new_mmap_offset, second.bos[i].mmap_offset);
	}
	EXPECT_EQ(first->blob_size, second.blob_size);
	criu_image_free(&second);
	close(session);
}

TEST_F(restore, dmabuf_finds_the_new_bo_under_the_old_id)
{
	const struct amdgpu_criu_bo *bo;
	void *at;
	__u32 i;
	int fd;

	ASSERT_EQ(0, restore(self));
	ASSERT_EQ(0, map_and_fill(self));
	for (i = 0; i < self->r.saved.carry.image.num_bos; i++) {
		bo = &self->r.saved.carry.image.bos[i];
		if (bo->domain != AMDGPU_CRIU_DOMAIN_GTT)
			continue;
		fd = criu_dmabuf(&self->r.kfd.node, self->r.session, bo->object_id);
		ASSERT_LE(0, fd);
		at = mmap(NULL, bo->size, PROT_READ, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, at);
		EXPECT_EQ(0, memcmp(at, (void *)(uintptr_t)bo->va, bo->size));
		munmap(at, bo->size);
		close(fd);
	}
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->r.kfd.node, self->r.session,
				       self->r.saved.carry.image.bos[0].object_id));
}

TEST_F(restore, restored_state_outlives_the_session)
{
	ASSERT_EQ(0, restore_all(self));
	close(self->r.session);
	self->r.session = -1;
	EXPECT_TRUE(runs(self, 5, SOON));
}

TEST_F(restore, twice_is_EBADFD)
{
	ASSERT_EQ(0, restore(self));
	EXPECT_EQ(-EBADFD, restore(self));
	ASSERT_EQ(0, map_and_fill(self));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(-EBADFD, restore(self));
	EXPECT_TRUE(runs(self, 5, SOON));
}

TEST_F(restore, into_a_process_with_state_is_EBADFD)
{
	/* Of a type that needs no page of slots. */
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_MEMORY };

	ASSERT_EQ(0, ioctl(self->r.kfd.node.fd, AMDKFD_IOC_CREATE_EVENT, &event));
	EXPECT_EQ(-EBADFD, restore(self));
}

TEST_F(restore, into_a_process_with_a_delay_of_SIGBUS_is_EBADFD)
{
	if (!kernel_is_at_least(7, 3))
		SKIP(return, "this kernel has no such option");
	ASSERT_EQ(0, kfd_sigbus_delay(&self->r.kfd, 5));
	EXPECT_EQ(-EBADFD, restore(self));
	ASSERT_EQ(0, kfd_sigbus_delay(&self->r.kfd, 0));
	EXPECT_EQ(0, restore(self));
}

TEST_F(restore, resume_is_accepted_once_from_the_same_session)
{
	int other = criu_session(&self->r.kfd.node, AMDGPU_CRIU_SESSION_RESTORE);

	ASSERT_LE(0, other);
	EXPECT_EQ(-EBADFD, resume(self));
	ASSERT_EQ(0, restore(self));
	ASSERT_EQ(0, map_and_fill(self));
	EXPECT_EQ(-EBADFD, criu_resume(&self->r.kfd.node, other, 0));
	EXPECT_EQ(0, resume(self));
	EXPECT_EQ(-EBADFD, resume(self));
	EXPECT_TRUE(runs(self, 5, SOON));
	close(other);
}

TEST_F(restore, resume_of_an_unused_pid_is_ESRCH)
{
	ASSERT_EQ(0, restore(self));
	EXPECT_EQ(-ESRCH, criu_resume(&self->r.kfd.node, self->r.session, 0x3fffff));
	EXPECT_EQ(-EINVAL, criu_resume(&self->r.kfd.node, self->r.session, -1));
}

/* CRIU's main process resumes processes that restored themselves. */
TEST_F(restore, resume_may_come_from_another_process)
{
	pid_t us = getpid(), child;
	int status;

	if (geteuid())
		SKIP(return, "needs root, to be traced by a child");
	ASSERT_EQ(0, restore(self));
	ASSERT_EQ(0, map_and_fill(self));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct criu_node node;

		if (criu_node_open(&node, CRIU_NODE_KFD))
			_exit(100);
		if (criu_resume(&node, self->r.session, 0) != -EBADFD)
			_exit(101);
		/* Only a tracer may. */
		if (criu_resume(&node, self->r.session, us) != -EBADF)
			_exit(102);
		if (ptrace(PTRACE_SEIZE, us, 0, 0))
			_exit(103);
		_exit(-criu_resume(&node, self->r.session, us));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(runs(self, 5, SOON));
}

TEST_F(restore, pausing_before_resume_is_EBUSY)
{
	int session = criu_session(&self->r.kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct amdgpu_criu_process_info info;

	ASSERT_LE(0, session);
	ASSERT_EQ(0, restore(self));
	EXPECT_EQ(-EBUSY, criu_pause(&self->r.kfd.node, session, &info));
	ASSERT_EQ(0, map_and_fill(self));
	ASSERT_EQ(0, resume(self));
	EXPECT_EQ(0, criu_pause(&self->r.kfd.node, session, &info));
	close(session);
}

/* Exactly one of the processes that need an object in a session creates it. */
TEST_F(restore, an_object_is_restored_once_in_a_session)
{
	int done = 0, refused = 0, round, status;
	int go[2];
	char byte;

	ASSERT_EQ(0, pipe(go));
	for (round = 0; round < 4; round++) {
		pid_t child = fork();

		ASSERT_LE(0, child);
		if (!child) {
			close(go[1]);
			if (carry_open(&self->r.saved.carry, &self->r.kfd))
				_exit(255);
			if (read(go[0], &byte, 1))
				_exit(255);
			_exit(-restore(self));
		}
	}
	/* All at once. */
	close(go[0]);
	close(go[1]);
	for (round = 0; round < 4; round++) {
		ASSERT_LE(0, wait(&status));
		done += status == 0;
		/* The object is there already, or its SDMA queue is in use already. */
		refused += WIFEXITED(status) && (WEXITSTATUS(status) == EBADMSG ||
						 WEXITSTATUS(status) == EBUSY);
	}
	EXPECT_EQ(1, done);
	EXPECT_EQ(3, refused);
	/* Another session is not affected. */
	close(self->r.session);
	self->r.session = criu_session(&self->r.kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	EXPECT_EQ(0, restore_all(self));
}

TEST_HARNESS_MAIN
