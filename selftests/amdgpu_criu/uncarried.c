// SPDX-License-Identifier: GPL-2.0
/*
 * State that no blob can hold: PROCESS_INFO refuses it and the process continues. Once the state is
 * gone, the process can be paused.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>

#include "reset.h"

#define SOON 5000
/* As in KFD of 7.2; older headers lack them. */
#define IOC_CREATE_PROCESS _IO('K', 0x27)
#define PROFILER_PMC 0
/* The first of 16 words. On the software GPU a copy of just these uses poisoned memory. */
#define POISON 0xbad0ecc0
#define POISON_WORDS 16
/* No page of the process. */
#define NO_MEMORY ((__u32 *)0x123456789000)
#define GFX90A 90010

struct profiler {
	__u32 op;
	__u32 gpu_id;
	__u32 lock;
	__u32 perfcount_enable;
	__u32 room;
};

FIXTURE(uncarried) {
	struct kfd kfd;
	struct kfd_bo word;
	struct kfd_queue queue;
	int session;
	struct amdgpu_criu_process_info info;
};

FIXTURE_SETUP(uncarried)
{
	int ret = kfd_open(&self->kfd);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, kfd_bo_alloc(&self->kfd, &self->word, KFD_GTT, 4096));
	ASSERT_EQ(0, kfd_sdma_create(&self->kfd, &self->queue));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(uncarried)
{
	close(self->session);
	kfd_close(&self->kfd);
}

static int call(FIXTURE_DATA(uncarried) *self, unsigned long cmd, void *args)
{
	return ioctl(self->kfd.node.fd, cmd, args) ? -errno : 0;
}

static void expect_refused(struct __test_metadata *_metadata, FIXTURE_DATA(uncarried) *self,
			   const char *state)
{
	char reason[256];

	snprintf(reason, sizeof(reason), "cannot carry: %s", state);
	for (__u32 i = 1; i <= 3; i++) {
		EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->kfd.node, self->session, &self->info));
		EXPECT_STREQ(reason, criu_reason);
		kfd_sdma_write(&self->queue, self->word.at, i);
		EXPECT_TRUE(kfd_becomes(self->word.at, i, SOON));
	}
	EXPECT_EQ(-EBADFD, criu_unpause(&self->kfd.node, self->session));
}

static void expect_taken(struct __test_metadata *_metadata, FIXTURE_DATA(uncarried) *self)
{
	EXPECT_EQ(0, criu_pause(&self->kfd.node, self->session, &self->info));
	EXPECT_EQ(0, criu_unpause(&self->kfd.node, self->session));
}

TEST_F(uncarried, an_open_file_of_smi_events_is_EOPNOTSUPP)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = self->kfd.gpu.gpu_id };

	ASSERT_EQ(0, call(self, AMDKFD_IOC_SMI_EVENTS, &args));
	expect_refused(_metadata, self, "an open file of SMI events");
	close(args.anon_fd);
	expect_taken(_metadata, self);
}

struct smi_thread {
	int kfd;
	__u32 gpu_id;
	int ready[2], done[2];
};

/* Opens the file in a table of its own, until @done is closed. */
static void *hold_smi_file(void *data)
{
	struct smi_thread *thread = data;
	struct kfd_ioctl_smi_events_args args = { .gpuid = thread->gpu_id };
	char ret;

	ret = unshare(CLONE_FILES) || ioctl(thread->kfd, AMDKFD_IOC_SMI_EVENTS, &args);
	close(thread->done[1]);
	if (write(thread->ready[1], &ret, 1) == 1)
		ret = read(thread->done[0], &ret, 1);
	close(args.anon_fd); /* the table may outlive pthread_join() */
	return NULL;
}

TEST_F(uncarried, an_open_file_of_smi_events_of_one_thread_is_EOPNOTSUPP)
{
	struct smi_thread thread = {
		.kfd = self->kfd.node.fd, .gpu_id = self->kfd.gpu.gpu_id,
	};
	pthread_t id;
	char ret;

	ASSERT_EQ(0, pipe(thread.ready));
	ASSERT_EQ(0, pipe(thread.done));
	ASSERT_EQ(0, pthread_create(&id, NULL, hold_smi_file, &thread));
	ASSERT_EQ(1, read(thread.ready[0], &ret, 1));
	ASSERT_EQ(0, ret);
	expect_refused(_metadata, self, "an open file of SMI events");
	close(thread.done[1]);
	ASSERT_EQ(0, pthread_join(id, NULL));
	expect_taken(_metadata, self);
}

/* Makes this process the debugger of @pid. */
static int debug(FIXTURE_DATA(uncarried) *self, pid_t pid)
{
	char name[] = "/tmp/amdgpu-criu-XXXXXX";
	struct kfd_runtime_info runtime;
	struct kfd_ioctl_dbg_trap_args args = {
		.pid = pid,
		.op = KFD_IOC_DBG_TRAP_ENABLE,
		.enable.rinfo_ptr = (uintptr_t)&runtime,
		.enable.rinfo_size = sizeof(runtime),
	};
	int ret;

	/* The ioctl needs a writable file. */
	args.enable.dbg_fd = mkstemp(name);
	unlink(name);
	ret = call(self, AMDKFD_IOC_DBG_TRAP, &args);
	close(args.enable.dbg_fd);
	return ret;
}

static int end_debug(FIXTURE_DATA(uncarried) *self, pid_t pid)
{
	struct kfd_ioctl_dbg_trap_args args = { .pid = pid, .op = KFD_IOC_DBG_TRAP_DISABLE };

	return call(self, AMDKFD_IOC_DBG_TRAP, &args);
}

TEST_F(uncarried, an_attached_debugger_is_EOPNOTSUPP)
{
	int ret = debug(self, getpid());

	if (ret)
		SKIP(return, "no debugger of GPUs here: %s", strerror(-ret));
	expect_refused(_metadata, self, "a debugger is attached");
	ASSERT_EQ(0, end_debug(self, getpid()));
	expect_taken(_metadata, self);
}

/* A process of KFD that this one traces; it ends when @hold is closed. */
static pid_t start_traced(int *hold)
{
	struct criu_node node;
	int ready[2], held[2];
	char byte = 0;
	pid_t child;

	if (pipe(ready) || pipe(held))
		return -errno;
	child = fork();
	if (!child) {
		close(held[1]);
		if (!criu_node_open(&node, CRIU_NODE_KFD) && write(ready[1], &byte, 1) == 1)
			_exit(read(held[0], &byte, 1));
		_exit(1);
	}
	close(ready[1]);
	close(held[0]);
	*hold = held[1];
	if (child < 0 || read(ready[0], &byte, 1) != 1 || ptrace(PTRACE_SEIZE, child, 0, 0))
		child = -ECHILD;
	close(ready[0]);
	return child;
}

TEST_F(uncarried, debugging_another_process_is_EOPNOTSUPP)
{
	int hold = -1, ret, status;
	pid_t child = start_traced(&hold);

	ASSERT_LT(0, child);
	ret = debug(self, child);
	if (ret)
		SKIP(return, "no debugger of GPUs here: %s", strerror(-ret));
	expect_refused(_metadata, self, "it debugs another process");
	ASSERT_EQ(0, end_debug(self, child));
	expect_taken(_metadata, self);
	close(hold);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

/* Without a queue: with one, set_perfcount() of 7.2 waits for a lock that it holds. */
TEST_F(uncarried, a_locked_profiler_is_EOPNOTSUPP)
{
	struct profiler args = {
		.op = PROFILER_PMC, .gpu_id = self->kfd.gpu.gpu_id, .lock = 1,
	};
	unsigned long cmd = _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x28, sizeof(args));
	int ret;

	ASSERT_EQ(0, kfd_queue_destroy(&self->kfd, self->queue.id));
	ret = call(self, cmd, &args);
	if (ret)
		SKIP(return, "no profiler here: %s", strerror(-ret));
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->kfd.node, self->session, &self->info));
	EXPECT_STREQ("cannot carry: the profiler is locked", criu_reason);
	EXPECT_EQ(-EBADFD, criu_unpause(&self->kfd.node, self->session));
	args.lock = 0;
	ASSERT_EQ(0, call(self, cmd, &args));
	expect_taken(_metadata, self);
}

static bool becomes_refused(FIXTURE_DATA(uncarried) *self)
{
	for (int i = 0; i < SOON * patience() / 10; i++) {
		if (criu_pause(&self->kfd.node, self->session, &self->info) == -EOPNOTSUPP)
			return true;
		criu_unpause(&self->kfd.node, self->session);
		usleep(10000);
	}
	return false;
}

TEST_F(uncarried, use_of_poisoned_memory_is_EOPNOTSUPP)
{
	__u32 *words = self->word.at;

	if (self->kfd.gpu.gfx_version != GFX90A)
		SKIP(return, "the GPU is no gfx90a");
	for (int i = 0; i < POISON_WORDS; i++)
		words[i] = POISON + i;
	expect_taken(_metadata, self);
	/* A driver with RAS sends this. */
	signal(SIGBUS, SIG_IGN);
	kfd_sdma_copy(&self->queue, words + POISON_WORDS, words, POISON_WORDS * sizeof(*words));
	if (!becomes_refused(self))
		SKIP(return, "this GPU has no errors to inject");
	expect_refused(_metadata, self, "it has used poisoned memory");
}

/* The pause evicts the queues. KFD resets the one that does not stop, and the others continue. */
TEST_F(uncarried, a_queue_that_hangs_and_is_reset_is_EOPNOTSUPP)
{
	struct kfd_queue hung;

	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (self->kfd.gpu.gfx_version / 10000 != 9)
		SKIP(return, "MES schedules the queues of this GPU");
	ASSERT_EQ(0, kfd_compute_make(&self->kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &hung));
	kfd_pm4_truncate(&hung);
	usleep(50 * 1000 * patience());
	expect_refused(_metadata, self, "a queue that was reset");
}

/* The pause fails, and KFD resets the GPU, because it cannot remove the queue. */
static void expect_gpu_reset(struct __test_metadata *_metadata, FIXTURE_DATA(uncarried) *self)
{
	int kmsg = complaints_open();

	ASSERT_LE(0, kmsg);
	complaints_allow("GPU reset begin|\\*ERROR\\*");
	usleep(50 * 1000 * patience());
	EXPECT_GT(0, criu_pause(&self->kfd.node, self->session, &self->info));
	EXPECT_TRUE(becomes_refused(self));
	EXPECT_STREQ("cannot carry: a queue that was reset", criu_reason);
	EXPECT_TRUE(complaints_wait(kmsg, "GPU reset(", 30 * patience()));
	complaints_disallow();
	close(kmsg);
}

TEST_F_TIMEOUT(uncarried, a_queue_that_hangs_and_resets_the_gpu_is_EOPNOTSUPP, 180)
{
	struct kfd_queue hung;

	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (self->kfd.gpu.gfx_version / 10000 == 9)
		SKIP(return, "KFD resets the queue alone");
	ASSERT_EQ(0, kfd_compute_make(&self->kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &hung));
	kfd_pm4_truncate(&hung);
	expect_gpu_reset(_metadata, self);
}

/* Without a PSP no SDMA engine is reset alone. */
TEST_F_TIMEOUT(uncarried, an_sdma_queue_that_hangs_and_resets_the_gpu_is_EOPNOTSUPP, 180)
{
	struct kfd_gpu second;

	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (!kfd_gpu_at(1, &second))
		SKIP(return, "resets its GPU, which must be the only one");
	kfd_sdma_truncate(&self->queue);
	expect_gpu_reset(_metadata, self);
}

/* After a reset for another reason, no queue is marked. */
TEST_F_TIMEOUT(uncarried, memory_that_a_reset_has_lost_is_EOPNOTSUPP, 180)
{
	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (!reset_is_possible())
		SKIP(return, RESET_SKIP);
	complaints_allow(RESET_COMPLAINTS);
	ASSERT_EQ(0, reset_gpu());
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->kfd.node, self->session, &self->info));
	EXPECT_STREQ("cannot carry: memory that a reset of the GPU has lost", criu_reason);
	complaints_disallow();
}

/* KFD stops the queues on that GPU for good. After a restore they would run. */
TEST_F(uncarried, a_page_fault_that_was_reported_is_EOPNOTSUPP)
{
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_MEMORY };
	struct kfd_event_data data = {};
	struct kfd_ioctl_wait_events_args wait = {
		.events_ptr = (uintptr_t)&data, .num_events = 1, .wait_for_all = 1,
		.timeout = SOON * patience(),
	};

	ASSERT_EQ(0, call(self, AMDKFD_IOC_CREATE_EVENT, &event));
	expect_taken(_metadata, self);
	complaints_allow("page fault \\(src_id|VM fault: VMID .* cannot write 0x123456789000");
	kfd_sdma_write(&self->queue, NO_MEMORY, 1);
	data.event_id = event.event_id;
	EXPECT_EQ(0, call(self, AMDKFD_IOC_WAIT_EVENTS, &wait));
	EXPECT_EQ(KFD_IOC_WAIT_RESULT_COMPLETE, wait.wait_result);
	EXPECT_EQ((uintptr_t)NO_MEMORY, data.memory_exception_data.va);
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->kfd.node, self->session, &self->info));
	EXPECT_STREQ("cannot carry: a memory fault was reported", criu_reason);
	complaints_disallow();
}

TEST_F(uncarried, a_secondary_context_is_EOPNOTSUPP)
{
	struct amdgpu_criu_process_info info;
	struct criu_node other;

	ASSERT_EQ(0, criu_node_open(&other, CRIU_NODE_KFD));
	if (ioctl(other.fd, IOC_CREATE_PROCESS))
		SKIP(return, "no secondary contexts here: %s", strerror(errno));
	expect_refused(_metadata, self, "secondary contexts");
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&other, self->session, &info));
	criu_node_close(&other);
}

TEST_HARNESS_MAIN
