// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a pause, on both kinds of node: after an answer that cannot be written, and while an
 * ioctl of the process does not return.
 */
#include "kselftest_harness.h"

#include <sys/mman.h>
#include <sys/ptrace.h>

#include "caller.h"
#include "fuse.h"
#include "kfd.h"
#include "render.h"
#include "uffd.h"

/* PROCESS_INFO has paused a client, and its answer waits for memory. */
FIXTURE(answer) {
	struct criu_node node;
	struct uffd memory;
	struct caller first;
	struct amdgpu_criu_process_info info;
	int session;
};

FIXTURE_VARIANT(answer) {
	bool render;
};

FIXTURE_VARIANT_ADD(answer, of_kfd) {
	.render = false,
};

FIXTURE_VARIANT_ADD(answer, of_a_render_node) {
	.render = true,
};

FIXTURE_SETUP(answer)
{
	struct kfd_gpu gpu;
	int ret;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, variant->render ? render_open(&self->node, 0) :
				       criu_node_open(&self->node, CRIU_NODE_KFD));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	self->info.session_fd = self->session;
	ret = uffd_make(&self->memory, true, &self->info, sizeof(self->info));
	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	ASSERT_EQ(0, CALL(&self->first, &self->node, PROCESS_INFO,
			  (struct amdgpu_criu_process_info *)self->memory.at));
	ASSERT_TRUE(uffd_is_waited_for(&self->memory, SOON * patience()));
}

FIXTURE_TEARDOWN(answer)
{
	uffd_close(&self->memory);
	close(self->session);
	criu_node_close(&self->node);
}

static int answer_fails(FIXTURE_DATA(answer) *self)
{
	int ret = uffd_take_away(&self->memory);

	return ret ? ret : caller_end(&self->first);
}

TEST_F(answer, that_fails_ends_the_pause)
{
	EXPECT_EQ(-EFAULT, answer_fails(self));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->node, self->session));
}

TEST_F(answer, that_fails_ends_no_pause_that_another_call_has_found)
{
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-EFAULT, answer_fails(self));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
}

TEST_F(answer, that_fails_ends_no_later_pause)
{
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-EFAULT, answer_fails(self));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
}

/* A process that a tracer has paused. Then a thread of it holds a lock and waits for memory. */
struct shared {
	atomic_int kfd; /* its descriptor of /dev/kfd plus 1 */
	atomic_uint steps; /* of its queue */
	atomic_bool paused;
	atomic_int stall; /* the thread begins */
	atomic_int call; /* what the tracer does next */
	atomic_bool called;
};

/* Locks: of the process, of its events, of its SVM ranges */
enum { STALL_ALLOC = 1, STALL_WAIT, STALL_SVM };
enum { CALL_UNPAUSE = 1, CALL_CLOSE, CALL_PROCESS_INFO };

FIXTURE(lock) {
	struct fuse_stall stall;
	struct shared *shared;
	pid_t target;
	pid_t tracer;
};

struct stalled {
	const struct kfd *kfd;
	struct shared *shared;
	void *at;
};

static void *call_stalled(void *data)
{
	const struct stalled *stalled = data;
	const __u32 gpu_id = stalled->kfd->gpu.gpu_id;
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc = {
		.va_addr = (uintptr_t)stalled->at, .mmap_offset = (uintptr_t)stalled->at,
		.size = FUSE_STALL_SIZE, .gpu_id = gpu_id, .flags = KFD_USERPTR,
	};
	struct kfd_ioctl_wait_events_args wait = {
		.events_ptr = (uintptr_t)stalled->at, .num_events = 1,
	};
	const struct kfd_ioctl_svm_attribute access = { KFD_IOCTL_SVM_ATTR_ACCESS, gpu_id };

	while (!stalled->shared->stall)
		usleep(CALLER_POLL_US);
	if (stalled->shared->stall == STALL_ALLOC)
		kfd_ioctl(stalled->kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &alloc);
	else if (stalled->shared->stall == STALL_WAIT)
		kfd_ioctl(stalled->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait);
	else
		kfd_set_svm(stalled->kfd, stalled->at, FUSE_STALL_SIZE, &access, 1);
	return NULL;
}

/* While the thread waits, nothing here may change the memory map. */
static void run_target(FIXTURE_DATA(lock) *self)
{
	struct shared *shared = self->shared;
	struct kfd_queue queue;
	struct kfd_bo memory;
	struct kfd kfd;
	struct stalled stalled = { &kfd, shared, fuse_stall_map(&self->stall) };
	pthread_t thread;

	if (kfd_open(&kfd) || kfd_bo_alloc(&kfd, &memory, KFD_GTT, 4096) ||
	    kfd_sdma_create(&kfd, &queue) ||
	    pthread_create(&thread, NULL, call_stalled, &stalled))
		_exit(1);
	shared->kfd = kfd.node.fd + 1;
	for (__u32 value = 1; ; value++) {
		kfd_sdma_write(&queue, memory.at, value);
		while (!kfd_becomes(memory.at, value, SOON))
			;
		shared->steps++;
		usleep(CALLER_POLL_US);
	}
}

static void run_tracer(FIXTURE_DATA(lock) *self)
{
	struct criu_node node = { .kind = CRIU_NODE_KFD };
	struct amdgpu_criu_process_info info;
	int session;

	if (ptrace(PTRACE_SEIZE, self->target, 0, 0))
		_exit(1);
	node.fd = fd_of_process(self->target, self->shared->kfd - 1);
	session = criu_session(&node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	if (session < 0 || criu_pause(&node, session, &info))
		_exit(2);
	self->shared->paused = true;
	while (!self->shared->call)
		usleep(CALLER_POLL_US);
	if (self->shared->call == CALL_CLOSE)
		close(session);
	else if (self->shared->call == CALL_UNPAUSE)
		criu_unpause(&node, session);
	else
		criu_pause(&node, session, &info);
	self->shared->called = true;
	for (;;)
		pause();
}

FIXTURE_SETUP(lock)
{
	struct kfd_gpu gpu;
	int ret;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	if (geteuid())
		SKIP(return, "needs root, for a file system in user space");
	ret = fuse_stall_make(&self->stall);
	if (ret)
		SKIP(return, "no file system in user space: %s", strerror(-ret));
	self->shared = mmap(NULL, sizeof(*self->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
	self->target = fork();
	ASSERT_LE(0, self->target);
	if (!self->target)
		run_target(self);
	ASSERT_TRUE(BECOMES_TRUE(self->shared->steps));
	self->tracer = fork();
	ASSERT_LE(0, self->tracer);
	if (!self->tracer)
		run_tracer(self);
	ASSERT_TRUE(BECOMES_TRUE(self->shared->paused));
}

FIXTURE_TEARDOWN(lock)
{
	fuse_stall_end(&self->stall);
	if (self->tracer > 0 && !kill(self->tracer, SIGKILL))
		waitpid(self->tracer, NULL, 0);
	if (self->target > 0 && !kill(self->target, SIGKILL))
		waitpid(self->target, NULL, 0);
	munmap(self->shared, sizeof(*self->shared));
}

static bool stalls(FIXTURE_DATA(lock) *self, int call)
{
	self->shared->stall = call;
	return BECOMES_TRUE(self->stall.waiting);
}

/* True if the call waits, and its process exits when it is killed. */
static bool can_be_killed(FIXTURE_DATA(lock) *self, int call)
{
	int status;

	self->shared->call = call;
	usleep(20 * CALLER_POLL_US);
	if (self->shared->called)
		return false;
	kill(self->tracer, SIGKILL);
	return wait_for_exit(self->tracer, &status) == self->tracer;
}

TEST_F(lock, is_not_waited_for_by_an_unpause_that_is_killed)
{
	const unsigned int steps = self->shared->steps;

	ASSERT_TRUE(stalls(self, STALL_ALLOC));
	EXPECT_TRUE(can_be_killed(self, CALL_UNPAUSE));
	EXPECT_TRUE(BECOMES_TRUE(self->shared->steps > steps));
}

TEST_F(lock, is_not_waited_for_when_the_session_closes)
{
	const unsigned int steps = self->shared->steps;

	ASSERT_TRUE(stalls(self, STALL_ALLOC));
	self->shared->call = CALL_CLOSE;
	EXPECT_TRUE(BECOMES_TRUE(self->shared->called));
	EXPECT_TRUE(BECOMES_TRUE(self->shared->steps > steps));
}

TEST_F(lock, of_events_is_not_waited_for_by_a_process_info_that_is_killed)
{
	ASSERT_TRUE(stalls(self, STALL_WAIT));
	EXPECT_TRUE(can_be_killed(self, CALL_PROCESS_INFO));
}

TEST_F(lock, of_svm_is_not_waited_for_by_a_process_info_that_is_killed)
{
	struct kfd_gpu gpu;

	ASSERT_EQ(0, kfd_find_gpu(&gpu));
	if (!gpu.svm)
		SKIP(return, "this kernel has no SVM");
	ASSERT_TRUE(stalls(self, STALL_SVM));
	EXPECT_TRUE(can_be_killed(self, CALL_PROCESS_INFO));
}

TEST_HARNESS_MAIN
