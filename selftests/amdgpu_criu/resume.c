// SPDX-License-Identifier: GPL-2.0
/* When RESUME returns 0, memory of the process is there, its queues run, and no event is lost. */
#include "kinds.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "lazy.h"
#include "reset.h"

#define USERPTR_SIZE (16 * PAGE)
#define SVM_SIZE (1024 * PAGE)
/* The time that a thread changes memory while RESUME registers it */
#define CHANGE_MS 1000
#define FIRST_ROUNDS 10

/* --- Memory that userfaultfd fills */

static int make_userptr(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = kfd_bo_alloc(kfd, &notes->words, KFD_USERPTR, USERPTR_SIZE);

	if (ret)
		return ret;
	for (size_t i = 0; i < USERPTR_SIZE / sizeof(__u32); i++)
		((__u32 *)notes->words.at)[i] = i * 3;
	return kfd_sdma_create(kfd, &notes->queues[0]);
}

static int make_svm(struct kfd *kfd, struct carry *carry)
{
	const struct kfd_ioctl_svm_attribute attrs[] = {
		{ KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_LOCATION_SYSMEM },
	};
	struct notes *notes = notes_of(carry);
	int ret = make_sdma(kfd, carry, 1);

	if (!ret)
		ret = map_svm_memory(carry, SVM_SIZE);
	if (ret)
		return ret;
	for (size_t i = 0; i < SVM_SIZE / sizeof(__u32); i++)
		((__u32 *)notes->svm)[i] = i * 3;
	ret = kfd_set_svm(kfd, notes->svm, SVM_SIZE, attrs, ARRAY_SIZE(attrs));
	return ret == -EPERM || ret == -EOPNOTSUPP || ret == -ENOTTY ? LACKS : ret;
}

/* RESTORE, and what is restored in user mode. */
static int restore(FIXTURE_DATA(kinds) *self)
{
	int ret = criu_restore(&self->kfd.node, self->session, &self->carry.image);

	return ret ? ret : carry_fill(&self->carry);
}

/* The GPU reads and writes the last page, and nothing else has changed. */
static void expect_access(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self,
			  __u32 *words, size_t size)
{
	struct notes *notes = self->notes;
	const __u32 num = size / sizeof(__u32);

	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &notes->queues[0]));
	kfd_sdma_copy(&notes->queues[0], &words[num - 1], &words[num - 2], sizeof(__u32));
	EXPECT_TRUE(kfd_becomes(&words[num - 1], (num - 2) * 3, SOON * patience()));
	for (__u32 i = 0; i < num - 1; i++)
		ASSERT_EQ(i * 3, words[i]);
}

static void expect_filled(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self, void *at,
			  size_t size)
{
	struct lazy lazy;
	int ret = lazy_start(&lazy, at, size, true);

	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	EXPECT_EQ(0, criu_resume(&self->kfd.node, self->session, 0)) {
		TH_LOG("%s", criu_reason);
	}
	EXPECT_EQ(size / PAGE, lazy.filled);
	lazy_end(&lazy);
	expect_access(_metadata, self, at, size);
}

TEST_F(kinds, a_userptr_that_userfaultfd_fills_is_complete)
{
	ASSERT_EQ(0, make(self, make_userptr, NULL));
	ASSERT_EQ(0, restore(self));
	expect_filled(_metadata, self, self->notes->words.at, USERPTR_SIZE);
}

TEST_F(kinds, an_svm_range_that_userfaultfd_fills_is_complete)
{
	MAKE(make_svm, "this kernel has no SVM ranges");
	ASSERT_EQ(0, restore(self));
	expect_filled(_metadata, self, self->notes->svm, SVM_SIZE);
}

static void resume_forever(FIXTURE_DATA(kinds) *self)
{
	struct lazy lazy;

	if (carry_open(&self->carry, &self->kfd))
		_exit(1);
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	if (self->session < 0 || restore(self) ||
	    lazy_start(&lazy, self->notes->words.at, USERPTR_SIZE, false))
		_exit(2);
	criu_resume(&self->kfd.node, self->session, 0);
	_exit(3);
}

/* Even of memory that nobody fills. */
TEST_F(kinds, a_caller_that_waits_for_memory_can_be_killed)
{
	int status = 0, i;
	pid_t child;

	ASSERT_EQ(0, make(self, make_userptr, NULL));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		resume_forever(self);
	usleep(500000 * patience());
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	EXPECT_EQ(0, kill(child, SIGKILL));
	for (i = 0; i < SOON * patience() / 10 && !waitpid(child, &status, WNOHANG); i++)
		usleep(10000);
	EXPECT_TRUE(WIFSIGNALED(status)) {
		TH_LOG("status %#x", status);
	}
}

/* --- Memory that a cgroup limits */

#define CGROUP "/sys/fs/cgroup/"
#define LIMITED CGROUP "amdgpu_criu_resume/"
#define LIMITED_SIZE (4096 * PAGE)
#define LIMIT "1048576"

static int make_large_userptr(struct kfd *kfd, struct carry *carry)
{
	int ret = kfd_bo_alloc(kfd, &notes_of(carry)->words, KFD_USERPTR, LIMITED_SIZE);

	return ret ? ret : kfd_sdma_create(kfd, &notes_of(carry)->queues[0]);
}

/*
 * The kernel kills no process for memory of this one, so allocations fail. Returns a descriptor of
 * the limit, because opening needs memory.
 */
static int limit_memory(void)
{
	int ret = criu_write_file(CGROUP "cgroup.subtree_control", "+memory"), fd;

	if (!ret && mkdir(LIMITED, 0700))
		ret = -errno;
	if (!ret)
		ret = criu_write_file("/proc/self/oom_score_adj", "-1000");
	if (!ret)
		ret = criu_write_file(LIMITED "cgroup.procs", "0");
	if (ret)
		return ret;
	fd = open(LIMITED "memory.max", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, LIMIT, strlen(LIMIT)) > 0)
		return fd;
	return -errno;
}

/* The pages are zeros, and CRIU does not restore such pages. */
TEST_F(kinds, a_userptr_that_gets_no_memory_is_ENOMEM)
{
	__u32 *words;
	int limit, ret;

	ASSERT_EQ(0, make(self, make_large_userptr, NULL));
	ASSERT_EQ(0, restore(self));
	words = self->notes->words.at;
	ASSERT_EQ(0, madvise(words, LIMITED_SIZE, MADV_DONTNEED));
	limit = limit_memory();
	if (limit < 0)
		SKIP(return, "no cgroup that limits memory: %s", strerror(-limit));
	ret = criu_resume(&self->kfd.node, self->session, 0);
	ASSERT_EQ(3, write(limit, "max", 3));
	close(limit);
	EXPECT_EQ(-ENOMEM, ret);
	EXPECT_EQ(0, criu_resume(&self->kfd.node, self->session, 0));
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->notes->queues[0]));
	words += LIMITED_SIZE / sizeof(__u32) - 1;
	kfd_sdma_write(&self->notes->queues[0], words, 0xcafe);
	EXPECT_TRUE(kfd_becomes(words, 0xcafe, SOON * patience()));
	EXPECT_EQ(0, criu_write_file(CGROUP "cgroup.procs", "0"));
	EXPECT_EQ(0, rmdir(LIMITED));
}

/* --- Memory that changes */

#define HUGE_PAGE (512 * PAGE)

struct changer {
	pthread_t thread;
	int (*round)(char *at);
	char *at;
	atomic_uint steps; /* two a round, odd meanwhile */
	atomic_bool resumed;
};

static long long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static int replace_page(char *at)
{
	int ret = madvise(at, PAGE, MADV_DONTNEED) ? -errno : 0;

	__atomic_store_n(at, 1, __ATOMIC_RELAXED);
	return ret;
}

/* The store copies a page that the child has, too. */
static int copy_page(char *at)
{
	const pid_t child = fork();

	if (child < 0)
		return -errno;
	if (!child) {
		pause();
		_exit(0);
	}
	__atomic_store_n(at, 1, __ATOMIC_RELAXED);
	kill(child, SIGKILL);
	return waitpid(child, NULL, 0) == child ? 0 : -errno;
}

/* Splits a huge page, and makes one of its pages again, as khugepaged does. */
static int make_huge(char *at)
{
	void *huge = (void *)((uintptr_t)at & -HUGE_PAGE);
	int ret = replace_page(at);

	return ret || !madvise(huge, HUGE_PAGE, MADV_COLLAPSE) ? ret : -errno;
}

/* Each round invalidates the range. The time counts from the end of the first rounds. */
static void *change(void *data)
{
	struct changer *changer = data;
	long long end = 0;

	while (!changer->resumed && (!end || milliseconds() < end)) {
		changer->steps++;
		changer->round(changer->at);
		if (++changer->steps == 2 * FIRST_ROUNDS)
			end = milliseconds() + CHANGE_MS;
	}
	return NULL;
}

static void expect_registered(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self,
			      int (*round)(char *at))
{
	struct changer changer = { .round = round };
	unsigned int before;
	long long start;
	int ret;

	MAKE(make_svm, "this kernel has no SVM ranges");
	ASSERT_EQ(0, restore(self));
	changer.at = self->notes->svm + SVM_SIZE - PAGE;
	ret = round(changer.at);
	if (ret)
		SKIP(return, "this memory cannot change so: %s", strerror(-ret));
	ASSERT_EQ(0, pthread_create(&changer.thread, NULL, change, &changer));
	while (changer.steps < 2 * FIRST_ROUNDS)
		usleep(1000);
	start = milliseconds();
	before = changer.steps;
	EXPECT_EQ(0, criu_resume(&self->kfd.node, self->session, 0)) {
		TH_LOG("%s", criu_reason);
	}
	TH_LOG("%lld ms, %u changes", milliseconds() - start, (changer.steps - before) / 2);
	EXPECT_TRUE(before % 2 || before < changer.steps);
	changer.resumed = true;
	pthread_join(changer.thread, NULL);
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->notes->queues[0]));
	kfd_sdma_write(&self->notes->queues[0], (__u32 *)self->notes->svm, 0xcafe);
	EXPECT_TRUE(kfd_becomes((__u32 *)self->notes->svm, 0xcafe, SOON * patience()));
}

TEST_F(kinds, an_svm_range_whose_pages_are_replaced_meanwhile_is_registered)
{
	expect_registered(_metadata, self, replace_page);
}

TEST_F(kinds, an_svm_range_whose_pages_children_share_meanwhile_is_registered)
{
	expect_registered(_metadata, self, copy_page);
}

TEST_F(kinds, an_svm_range_whose_pages_become_huge_meanwhile_is_registered)
{
	expect_registered(_metadata, self, make_huge);
}

/* --- Pages that another process has, too, as CRIU restores those of parent and child */

static int make_svm_in_vram(struct kfd *kfd, struct carry *carry)
{
	const struct kfd_ioctl_svm_attribute prefetch = {
		KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, kfd->gpu.gpu_id,
	};
	int ret = make_svm(kfd, carry);

	return ret ? ret : kfd_set_svm(kfd, notes_of(carry)->svm, SVM_SIZE, &prefetch, 1);
}

/* Returns whether they are as they were made, when the test has closed the pipe. */
static bool child_has(const __u32 *words, int end)
{
	char byte;

	if (read(end, &byte, 1))
		return false;
	for (size_t i = 0; i < SVM_SIZE / sizeof(__u32); i++)
		if (words[i] != i * 3)
			return false;
	return true;
}

TEST_F(kinds, what_the_gpu_writes_to_an_svm_range_in_vram_a_child_does_not_see)
{
	struct notes *notes = self->notes;
	int ends[2], status;
	__u32 *words;
	pid_t child;

	MAKE(make_svm_in_vram, "this kernel has no SVM ranges");
	ASSERT_EQ(0, restore(self));
	words = (__u32 *)notes->svm;
	ASSERT_EQ(0, pipe(ends));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(ends[1]);
		_exit(!child_has(words, ends[0]));
	}
	EXPECT_EQ(0, criu_resume(&self->kfd.node, self->session, 0));
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &notes->queues[0]));
	kfd_sdma_write(&notes->queues[0], words, 0xcafe);
	EXPECT_TRUE(kfd_becomes(words, 0xcafe, SOON * patience()));
	close(ends[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

/* --- Events */

static __u64 *event_slots;

static int make_signals(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_sdma(kfd, carry, 1);
	struct kfd_bo page;

	if (!ret)
		ret = kfd_bo_alloc(kfd, &page, KFD_GTT, KFD_EVENT_PAGE_SIZE);
	for (int i = 0; !ret && i < 3; i++)
		ret = kfd_event_create_in(kfd, i, i ? 0 : page.handle, &notes->ids[i]);
	event_slots = page.at;
	return ret;
}

/* The GPU has signaled two events, and its interrupt has not arrived. */
static int signal_slots(struct kfd *kfd, struct carry *carry)
{
	for (int i = 0; i < 2; i++)
		event_slots[notes_of(carry)->ids[i]] = 0;
	return 0;
}

TEST_F(kinds, an_event_whose_interrupt_has_not_arrived_is_signaled)
{
	const __u32 *ids = self->notes->ids;

	ASSERT_EQ(0, make(self, make_signals, signal_slots));
	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
	EXPECT_EQ(0, kfd_event_wait(&self->kfd, ids[0], 100));
	EXPECT_EQ(0, kfd_event_wait(&self->kfd, ids[1], 100));
	EXPECT_EQ(-ETIME, kfd_event_wait(&self->kfd, ids[2], 100));
	/* The first has no automatic reset, the second one has. */
	EXPECT_EQ(0, kfd_event_wait(&self->kfd, ids[0], 100));
	EXPECT_EQ(-ETIME, kfd_event_wait(&self->kfd, ids[1], 100));
}

/* --- Queues that no longer run */

TEST_F_TIMEOUT(kinds, a_gpu_that_was_reset_since_restore_is_EIO, 180)
{
	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (!reset_is_possible())
		SKIP(return, RESET_SKIP);
	complaints_allow(RESET_COMPLAINTS);
	ASSERT_EQ(0, make(self, make_userptr, NULL));
	ASSERT_EQ(0, restore(self));
	ASSERT_EQ(0, reset_gpu());
	EXPECT_EQ(-EIO, criu_resume(&self->kfd.node, self->session, 0));
	EXPECT_STREQ("its queues do not run: -5", criu_reason);
	complaints_disallow();
}

TEST_HARNESS_MAIN
