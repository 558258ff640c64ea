// SPDX-License-Identifier: GPL-2.0
/*
 * Threads of one process change its queues, events and memory, checkpoint it, and use a
 * session that one of them closes; other processes restore, and call OUTSIDE; all are killed at
 * any moment. No call may fail in an unexpected way, and a process can still be restored at
 * the end. CRIU_TEST_SECONDS is the time to race.
 */
#include "kselftest_harness.h"

#include <pthread.h>

#include "fixtures.h"
#include "race.h"
#include "render.h"

#define SIZE 0x8000
#define TRIES 50

/* Workers are processes. The first consists of threads. */
enum { THREADS, RESTORE, RESTORE_TOO, OUTSIDE, WORKERS };
enum { CHECKPOINT = WORKERS, QUEUES, EVENTS, MEMORY, CLOSE, CALL, FORK, COUNTS };

FIXTURE(kfd_race) {
	struct state_image saved;
	struct race race;
};

static void work(void *test, int worker);

FIXTURE_SETUP(kfd_race)
{
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	self->race = (struct race) {
		.num_workers = WORKERS, .pause_us = 200000, .work = work, .test = self,
	};
	ASSERT_EQ(0, race_init(&self->race));
	ASSERT_EQ(0, state_image_make(&self->saved));
}

FIXTURE_TEARDOWN(kfd_race)
{
	state_image_free(&self->saved);
	race_fini(&self->race);
}

struct thread {
	struct race_score *score;
	struct kfd *kfd;
	int number;
	/* The session that one thread closes and another one uses. */
	int *session;
	unsigned int round;
	pthread_t id;
};

static bool is_one_of(int ret, const int *allowed, size_t num)
{
	for (size_t i = 0; i < num; i++)
		if (ret == allowed[i])
			return true;
	return false;
}

/* 0 for a result that a race may have. */
#define ALLOW(ret, ...) ({ \
	const int allowed[] = { 0, __VA_ARGS__ }; \
	const int result = (ret); \
	is_one_of(result, allowed, ARRAY_SIZE(allowed)) ? 0 : result; \
})

/* Another thread may pause, unpause, and create what there is no room for. */
static int checkpoint(struct thread *thread)
{
	int session = criu_session(&thread->kfd->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_image image;
	int ret;

	if (session < 0)
		return session;
	ret = ALLOW(criu_checkpoint(&thread->kfd->node, session, &image), -EBUSY, -EBADFD,
		    -ENOSPC);
	criu_image_free(&image);
	if (!ret && thread->round % 2)
		ret = ALLOW(criu_unpause(&thread->kfd->node, session), -EBADFD);
	close(session);
	return ret;
}

static int change_queues(struct thread *thread)
{
	struct kfd *kfd = thread->kfd;
	struct kfd_queue queue;
	int ret = kfd_sdma_create(kfd, &queue);

	if (ret)
		return ret;
	ret = kfd_queue_update(kfd, &queue, thread->round % 2 ? 0 : 100, thread->round % 16);
	if (!ret)
		ret = kfd_queue_destroy(kfd, queue.id);
	if (!ret)
		ret = kfd_bo_free(kfd, &queue.ring);
	if (!ret)
		ret = kfd_bo_free(kfd, &queue.pointers);
	kfd_doorbell_unmap(&queue);
	return ret;
}

static int change_events(struct thread *thread)
{
	struct kfd_ioctl_destroy_event_args destroy = {};
	int ret = kfd_event_create(thread->kfd, thread->round % 2, &destroy.event_id);

	if (!ret)
		ret = kfd_event_set(thread->kfd, destroy.event_id);
	if (!ret && ioctl(thread->kfd->node.fd, AMDKFD_IOC_DESTROY_EVENT, &destroy))
		ret = -errno;
	return ret;
}

/* -EAGAIN: a fork has changed the pages of a userptr meanwhile. */
static int change_memory(struct thread *thread)
{
	static const __u32 kinds[] = { KFD_VRAM, KFD_GTT, KFD_USERPTR };
	struct kfd_bo bo;
	int ret = kfd_bo_alloc(thread->kfd, &bo, kinds[thread->round % ARRAY_SIZE(kinds)], SIZE);

	if (ret == -EAGAIN) {
		munmap(bo.at, bo.size);
		return 0;
	}
	return ret ? ret : kfd_bo_free(thread->kfd, &bo);
}

/* The number may be that of any descriptor, or of none, when another thread uses it. */
static int close_session(struct thread *thread)
{
	struct amdgpu_criu_process_info info;
	int session = criu_session(&thread->kfd->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	int ret;

	if (session < 0)
		return session;
	__atomic_store_n(thread->session, session, __ATOMIC_RELEASE);
	ret = ALLOW(criu_pause(&thread->kfd->node, session, &info), -EBUSY);
	close(session);
	return ret;
}

static int call_session(struct thread *thread)
{
	const int session = __atomic_load_n(thread->session, __ATOMIC_ACQUIRE);
	const struct criu_node *node = &thread->kfd->node;
	struct amdgpu_criu_process_info info;

	switch (thread->round % 3) {
	case 0:
		return ALLOW(criu_pause(node, session, &info), -EBADF, -EBUSY);
	case 1:
		return ALLOW(criu_unpause(node, session), -EBADF, -EBADFD);
	default:
		return ALLOW(criu_dmabuf(node, session, 0), -EBADF, -ENOENT, -EINVAL);
	}
}

/* A process that uses KFD for a moment. */
static int fork_and_wait(void)
{
	struct criu_node node;
	pid_t child = fork();
	int status;

	if (child < 0)
		return -errno;
	if (!child)
		_exit(criu_node_open(&node, CRIU_NODE_KFD) ? 1 : 0);
	return waitpid(child, &status, 0) == child && !status ? 0 : -ECHILD;
}

static int thread_round(struct thread *thread)
{
	switch (thread->number) {
	case CHECKPOINT:
		return checkpoint(thread);
	case QUEUES:
		return change_queues(thread);
	case EVENTS:
		return change_events(thread);
	case MEMORY:
		return change_memory(thread);
	case CLOSE:
		return close_session(thread);
	case CALL:
		return call_session(thread);
	default:
		return fork_and_wait();
	}
}

static void *run_thread(void *data)
{
	struct thread *thread = data;
	int ret = 0;

	for (thread->round = 0; !ret && !thread->score->error; thread->round++) {
		ret = thread_round(thread);
		race_count(thread->score, thread->number, ret);
	}
	return NULL;
}

/* Ends only with an error. */
static int race_threads(FIXTURE_DATA(kfd_race) *self)
{
	struct thread threads[COUNTS];
	int session = -1;
	struct kfd kfd;
	int ret = kfd_open(&kfd);

	for (int i = CHECKPOINT; !ret && i < COUNTS; i++) {
		threads[i] = (struct thread) {
			.score = self->race.score, .kfd = &kfd, .number = i, .session = &session,
		};
		ret = -pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
	}
	race_count(self->race.score, THREADS, ret);
	for (int i = CHECKPOINT; !ret && i < COUNTS; i++)
		pthread_join(threads[i].id, NULL);
	return ret ? ret : self->race.score->error;
}

/* A process restores once. -EBUSY: others have all SDMA queues of the engine. */
static int restore_in_child(FIXTURE_DATA(kfd_race) *self)
{
	struct restorer to = { .saved = self->saved };
	pid_t child = fork();
	int status, ret;

	if (child < 0)
		return -errno;
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ret = restorer_become(&to);
		if (!ret)
			ret = carry_restore(&to.saved.carry, &to.kfd, to.session);
		if (!ret && !state_is_filled(&to.saved.state, 1))
			ret = -EUCLEAN;
		_exit(-ret);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -ECHILD;
	return -WEXITSTATUS(status);
}

/* With a paused file that has a BO: without one there is nothing to look for. */
static int ask_outside(void)
{
	struct amdgpu_criu_process_info info;
	struct amdgpu_criu_outside args = {};
	struct criu_node node;
	__u32 handle;
	int ret = render_open(&node, 0);

	if (ret)
		return ret;
	args.session_fd = criu_session(&node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ret = args.session_fd < 0 ? args.session_fd :
	      render_bo_create(&node, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle);
	if (!ret)
		ret = criu_pause(&node, args.session_fd, &info);
	if (!ret)
		ret = criu_op(&node, OUTSIDE, &args);
	close(args.session_fd);
	criu_node_close(&node);
	return ret ? ret : args.num_bos ? -EUCLEAN : 0;
}

static void work(void *test, int worker)
{
	FIXTURE_DATA(kfd_race) *self = test;
	int ret = 0;

	if (worker == THREADS) {
		race_threads(self);
		return;
	}
	while (!ret) {
		ret = worker == OUTSIDE ? ask_outside() : restore_in_child(self);
		if (ret == -EBUSY && worker != OUTSIDE)
			ret = 0;
		else
			race_count(self->race.score, worker, ret);
	}
}

/* KFD destroys the queues of a killed process in a worker. */
static int restore_after_race(FIXTURE_DATA(kfd_race) *self)
{
	int ret = -EBUSY;

	for (int i = 0; ret == -EBUSY && i < TRIES * patience(); i++) {
		usleep(100000);
		ret = restore_in_child(self);
	}
	return ret;
}

TEST_F_TIMEOUT(kfd_race, checkpoints_restores_and_changes_while_they_are_killed, 120)
{
	ASSERT_EQ(0, race_run(&self->race, COUNTS));
	RACE_EXPECT_GOOD(&self->race, COUNTS);
	EXPECT_EQ(0, restore_after_race(self));
}

TEST_HARNESS_MAIN
