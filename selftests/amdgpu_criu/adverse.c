// SPDX-License-Identifier: GPL-2.0
/* Callers that die, that run in parallel, and that do other things meanwhile. */
#include "kselftest_harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "state.h"

#define SOON 5000
#define KILLS 60
#define THREADS 4

/* RESTORE of a child */
struct progress {
	bool inside;
	long long lasted; /* microseconds */
};

FIXTURE(adverse) {
	struct state_image saved;
	struct kfd kfd;
	int session;
	struct progress *child; /* in memory that it shares */
};

FIXTURE_SETUP(adverse)
{
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	self->kfd.node.fd = -1;
	self->kfd.drm_fd = -1;
	self->session = -1;
	self->child = mmap(NULL, sizeof(*self->child), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->child);
	ASSERT_EQ(0, state_image_make(&self->saved));
}

FIXTURE_TEARDOWN(adverse)
{
	close(self->session);
	carry_close(&self->saved.carry, &self->kfd);
	state_image_free(&self->saved);
}

static int open_target(FIXTURE_DATA(adverse) *self)
{
	int ret = carry_open(&self->saved.carry, &self->kfd);

	if (ret)
		return ret;
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	return self->session < 0 ? self->session : 0;
}

static bool runs(FIXTURE_DATA(adverse) *self, __u32 value)
{
	__u32 *word = self->saved.state.gtt.at;

	kfd_sdma_write(&self->saved.state.sdma, word, value);
	return kfd_becomes(word, value, SOON);
}

static int restore_and_run(FIXTURE_DATA(adverse) *self)
{
	int ret = open_target(self);

	if (!ret)
		ret = carry_restore(&self->saved.carry, &self->kfd, self->session);
	if (!ret)
		ret = kfd_doorbell_map(&self->kfd, &self->saved.state.sdma);
	return ret ? ret : runs(self, 1) ? 0 : -ETIME;
}

/* Bytes of all GPUs' VRAM that are in use, as KFD accounts for them, and its processes. */
static unsigned long in_use(void)
{
	unsigned long all = 0;
	char line[128];
	FILE *file = popen("cat /sys/class/drm/renderD*/device/mem_info_vram_used 2>/dev/null; "
			   "ls /sys/class/kfd/kfd/proc | wc -l", "r");

	while (file && fgets(line, sizeof(line), file))
		all += strtoul(line, NULL, 10);
	if (file)
		pclose(file);
	return all;
}

/* KFD ends a process in a worker, after its exit. */
static bool becomes_unused(unsigned long before)
{
	for (int i = 0; i < 50; i++) {
		if (in_use() <= before)
			return true;
		usleep(100000);
	}
	return false;
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

/* A child that reports, then restores, in a session of its own or the one given. */
static pid_t start_restoring(FIXTURE_DATA(adverse) *self, int session, int *ready)
{
	long long start;
	int pipes[2];
	pid_t child;
	char byte = 0;
	int ret;

	if (pipe(pipes))
		return -1;
	self->child->inside = false;
	child = fork();
	if (!child) {
		if (open_target(self) || write(pipes[1], &byte, 1) != 1)
			_exit(255);
		start = now();
		__atomic_store_n(&self->child->inside, true, __ATOMIC_SEQ_CST);
		ret = criu_restore(&self->kfd.node, session < 0 ? self->session : session,
				   &self->saved.carry.image);
		__atomic_store_n(&self->child->inside, false, __ATOMIC_SEQ_CST);
		self->child->lasted = now() - start;
		_exit(-ret);
	}
	close(pipes[1]);
	*ready = read(pipes[0], &byte, 1);
	close(pipes[0]);
	return child;
}

/* Kills it after a random part of @microseconds. Returns true if it was in RESTORE. */
static bool kill_within(FIXTURE_DATA(adverse) *self, pid_t child, long long microseconds,
			int *status)
{
	usleep(rand() % microseconds);
	kill(child, SIGKILL);
	return waitpid(child, status, 0) == child && WIFSIGNALED(*status) && self->child->inside;
}

/* Microseconds of RESTORE when all code is in memory, or 0 */
static long long measure_restore(FIXTURE_DATA(adverse) *self)
{
	int status, ready;
	pid_t child;

	for (int round = 0; round < 2; round++) {
		child = start_restoring(self, -1, &ready);
		if (waitpid(child, &status, 0) != child || status)
			return 0;
	}
	return self->child->lasted;
}

/* The caller is killed at any point: before, during or after RESTORE. */
TEST_F_TIMEOUT(adverse, a_caller_killed_in_the_middle_of_restore_leaves_nothing, 400)
{
	unsigned long before = in_use();
	int status, ready, killed = 0, inside = 0, done = 0;
	long long whole = measure_restore(self);
	pid_t child;

	ASSERT_LT(0, whole);
	srand(1);
	for (int round = 0; round < KILLS; round++) {
		child = start_restoring(self, -1, &ready);
		ASSERT_EQ(1, ready);
		inside += kill_within(self, child, whole, &status);
		killed += WIFSIGNALED(status);
		done += WIFEXITED(status) && !WEXITSTATUS(status);
	}
	TH_LOG("%lld us; %d killed, %d of them in RESTORE, %d completed before", whole, killed,
	       inside, done);
	EXPECT_EQ(KILLS, killed + done);
	EXPECT_LT(KILLS / 6, inside);
	EXPECT_TRUE(becomes_unused(before)) {
		TH_LOG("in use %lu, before %lu", in_use(), before);
	}
	EXPECT_EQ(0, restore_and_run(self));
}

/* No caller waits for objects that a killed caller had claimed. */
TEST_F_TIMEOUT(adverse, a_session_outlives_callers_killed_in_it, 300)
{
	int session, ready, status, inside = 0, restored = 0;
	long long whole = measure_restore(self);
	struct criu_node node;
	pid_t child;

	ASSERT_LT(0, whole);
	srand(2);
	ASSERT_EQ(0, criu_node_open(&node, CRIU_NODE_KFD));
	for (int round = 0; round < 10; round++) {
		session = criu_session(&node, AMDGPU_CRIU_SESSION_RESTORE);
		ASSERT_LE(0, session);
		child = start_restoring(self, session, &ready);
		ASSERT_EQ(1, ready);
		inside += kill_within(self, child, whole, &status);
		/* It exists if the first caller restored it; otherwise it is restored now. */
		child = start_restoring(self, session, &ready);
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		EXPECT_TRUE(!WEXITSTATUS(status) || WEXITSTATUS(status) == EBADMSG) {
			TH_LOG("%s", strerror(WEXITSTATUS(status)));
		}
		restored += !WEXITSTATUS(status);
		close(session);
	}
	TH_LOG("%lld us; %d killed in RESTORE, %d restored after", whole, inside, restored);
	EXPECT_LT(0, inside);
	EXPECT_LT(0, restored);
	criu_node_close(&node);
}

/* Many threads of one process. */
struct thread {
	FIXTURE_DATA(adverse) *self;
	pthread_t id;
	const struct criu_image *image;
	unsigned int seed;
	unsigned int checkpoints, busy;
	atomic_uint rounds;
	int ret;
};

static atomic_bool go, stop;

static void *restore_thread(void *data)
{
	struct thread *thread = data;

	while (!go)
		;
	thread->ret = criu_restore(&thread->self->kfd.node, thread->self->session, thread->image);
	return NULL;
}

TEST_F(adverse, of_threads_that_restore_at_once_one_succeeds)
{
	struct thread threads[THREADS];
	int done = 0, i;

	ASSERT_EQ(0, open_target(self));
	go = false;
	for (i = 0; i < THREADS; i++) {
		threads[i] = (struct thread) {
			.self = self, .image = &self->saved.carry.image,
		};
		ASSERT_EQ(0, pthread_create(&threads[i].id, NULL, restore_thread, &threads[i]));
	}
	go = true;
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i].id, NULL));
		done += !threads[i].ret;
		EXPECT_TRUE(!threads[i].ret || threads[i].ret == -EBADFD) {
			TH_LOG("%s", strerror(-threads[i].ret));
		}
	}
	EXPECT_EQ(1, done);
	ASSERT_EQ(0, carry_fill(&self->saved.carry));
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->saved.state.sdma));
	ASSERT_EQ(0, criu_resume(&self->kfd.node, self->session, 0));
	EXPECT_TRUE(runs(self, 3));
}

/* A thread that keeps changing the process that is restored into. */
static void *meddle_thread(void *data)
{
	struct thread *thread = data;

	usleep(thread->seed / 2 * 20000);
	while (!stop) {
		/* One that needs no event page; as long as it exists, the process is not new. */
		struct kfd_ioctl_create_event_args create = {
			.event_type = KFD_IOC_EVENT_HW_EXCEPTION,
		};
		struct kfd_ioctl_destroy_event_args destroy = {};
		void *at;

		if (!ioctl(thread->self->kfd.node.fd, AMDKFD_IOC_CREATE_EVENT, &create)) {
			/* It often exists when RESTORE begins, in every fourth round always. */
			do
				usleep(100 * (++thread->rounds % 2));
			while (thread->seed % 4 == 1 && !stop);
			destroy.event_id = create.event_id;
			ioctl(thread->self->kfd.node.fd, AMDKFD_IOC_DESTROY_EVENT, &destroy);
		}
		/* The event page: it may exist or not. */
		at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			  thread->self->kfd.node.fd, 2ULL << 62);
		if (at != MAP_FAILED)
			munmap(at, 4096);
	}
	return NULL;
}

/*
 * Each in a process of its own. In every second one, the other thread interferes before RESTORE,
 * too. RESTORE may succeed or be refused.
 */
TEST_F_TIMEOUT(adverse, a_restore_while_other_threads_interfere_does_no_harm, 300)
{
	int restored = 0, refused = 0, status;

	for (int round = 0; round < 20; round++) {
		pid_t child = fork();

		ASSERT_LE(0, child);
		if (!child) {
			struct thread thread = { .self = self, .seed = round };
			int ret;

			if (open_target(self))
				_exit(255);
			stop = false;
			pthread_create(&thread.id, NULL, meddle_thread, &thread);
			while (round % 2 && !thread.rounds)
				usleep(100);
			ret = criu_restore(&self->kfd.node, self->session,
					   &self->saved.carry.image);
			stop = true;
			/* Ioctls block between RESTORE and RESUME or the end of the session. */
			close(self->session);
			pthread_join(thread.id, NULL);
			_exit(-ret);
		}
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		EXPECT_NE(255, WEXITSTATUS(status));
		restored += !WEXITSTATUS(status);
		refused += !!WEXITSTATUS(status);
	}
	TH_LOG("%d restored, %d refused", restored, refused);
	EXPECT_LT(0, restored);
	EXPECT_LE(20 / 4, refused);
	EXPECT_EQ(0, restore_and_run(self));
}

/* Threads that pause, checkpoint and unpause one process, each in a session of its own. */
static void *checkpoint_thread(void *data)
{
	struct thread *thread = data;
	const struct criu_node *node = &thread->self->kfd.node;
	int session = criu_session(node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_image image;
	int ret;

	thread->ret = session < 0 ? session : 0;
	for (int i = 0; !thread->ret && i < 30; i++) {
		ret = criu_checkpoint(node, session, &image);
		if (ret && ret != -EBUSY)
			thread->ret = ret;
		thread->checkpoints += !ret;
		thread->busy += ret == -EBUSY;
		criu_image_free(&image);
		ret = criu_unpause(node, session);
		if (ret && ret != -EBADFD)
			thread->ret = ret;
	}
	close(session);
	return NULL;
}

TEST_F_TIMEOUT(adverse, threads_that_checkpoint_at_once_do_not_disturb_each_other, 300)
{
	unsigned int checkpoints = 0, busy = 0;
	struct thread threads[THREADS];

	ASSERT_EQ(0, restore_and_run(self));
	for (int i = 0; i < THREADS; i++) {
		threads[i] = (struct thread) { .self = self };
		ASSERT_EQ(0, pthread_create(&threads[i].id, NULL, checkpoint_thread, &threads[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i].id, NULL));
		EXPECT_EQ(0, threads[i].ret) {
			TH_LOG("%s", strerror(-threads[i].ret));
		}
		checkpoints += threads[i].checkpoints;
		busy += threads[i].busy;
	}
	TH_LOG("%u checkpoints, %u busy", checkpoints, busy);
	EXPECT_LT(0, checkpoints);
	EXPECT_LT(0, busy);
	EXPECT_TRUE(runs(self, 9));
}

TEST_HARNESS_MAIN
