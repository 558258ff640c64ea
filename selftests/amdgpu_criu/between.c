// SPDX-License-Identifier: GPL-2.0
/*
 * Between RESTORE and RESUME of a process of KFD, notifiers of userptrs are blocked. Only
 * checkpoint/restore operations are served, until RESUME or the end of the session.
 */
#include "kselftest_harness.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "fixtures.h"
#include "uffd.h"

#define SOON 5000
#define NEVER 300
#define USERPTR_SIZE 0x4000

FIXTURE(between) {
	struct restorer r;
};

FIXTURE_SETUP(between)
{
	int ret = restorer_open(&self->r);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(between)
{
	restorer_close(&self->r);
}

static int restore(FIXTURE_DATA(between) *self)
{
	return criu_restore(&self->r.kfd.node, self->r.session, &self->r.saved.carry.image);
}

static void close_session(FIXTURE_DATA(between) *self)
{
	close(self->r.session);
	self->r.session = -1;
}

static int version(const struct kfd *kfd)
{
	struct kfd_ioctl_get_version_args args = {};

	return ioctl(kfd->node.fd, AMDKFD_IOC_GET_VERSION, &args) ? -errno : 0;
}

static void nothing(int signal)
{
}

/* An ioctl that a signal ends after some time. */
static int version_or_signal(const struct kfd *kfd)
{
	struct sigaction action = { .sa_handler = nothing };
	const struct itimerval after = {
		.it_value.tv_usec = NEVER * 1000, .it_interval.tv_usec = NEVER * 1000,
	};
	const struct itimerval never = {};
	int ret;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &after, NULL);
	ret = version(kfd);
	setitimer(ITIMER_REAL, &never, NULL);
	return ret;
}

TEST_F(between, other_ioctls_wait_until_resume)
{
	EXPECT_EQ(0, version(&self->r.kfd));
	ASSERT_EQ(0, restore(self));
	EXPECT_EQ(-EINTR, version_or_signal(&self->r.kfd));
	ASSERT_EQ(0, carry_fill(&self->r.saved.carry));
	EXPECT_EQ(-EINTR, version_or_signal(&self->r.kfd));
	ASSERT_EQ(0, criu_resume(&self->r.kfd.node, self->r.session, 0));
	EXPECT_EQ(0, version(&self->r.kfd));
}

TEST_F(between, a_restore_that_fails_stops_no_ioctl)
{
	struct criu_image *image = &self->r.saved.carry.image;

	image->bos[0].size += 4096;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_EQ(0, version(&self->r.kfd));
	image->bos[0].size -= 4096;
	EXPECT_EQ(0, restore(self));
}

static void *version_in_thread(void *kfd)
{
	return (void *)(intptr_t)version(kfd);
}

TEST_F(between, other_ioctls_wait_until_the_session_is_closed)
{
	struct timespec until;
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, restore(self));
	ASSERT_EQ(0, pthread_create(&thread, NULL, version_in_thread, &self->r.kfd));
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	EXPECT_EQ(ETIMEDOUT, pthread_timedjoin_np(thread, &result, &until));
	close_session(self);
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(0, (int)(intptr_t)result);
}

/* Return: a descriptor of the evictions of this process's queues. */
static int watch_evictions(const struct kfd *kfd)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = kfd->gpu.gpu_id };
	__u64 mask = KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION);

	if (ioctl(kfd->node.fd, AMDKFD_IOC_SMI_EVENTS, &args) ||
	    write(args.anon_fd, &mask, sizeof(mask)) != sizeof(mask))
		return -errno;
	return args.anon_fd;
}

static bool is_evicted(int events)
{
	struct pollfd poll_events = { .fd = events, .events = POLLIN };

	return poll(&poll_events, 1, SOON * patience()) == 1;
}

/*
 * If the notifier stays blocked, the GPU still has the pages that the process has freed, and
 * writes to their next owner.
 */
TEST_F(between, userptrs_are_watched_once_the_session_is_closed)
{
	struct kfd_bo bo;
	int events;

	ASSERT_EQ(0, restore(self));
	close_session(self);
	events = watch_evictions(&self->r.kfd);
	ASSERT_LE(0, events);
	ASSERT_EQ(0, kfd_bo_alloc(&self->r.kfd, &bo, KFD_USERPTR, USERPTR_SIZE));
	memset(bo.at, 1, USERPTR_SIZE);
	ASSERT_EQ(0, munmap(bo.at, USERPTR_SIZE));
	EXPECT_TRUE(is_evicted(events));
	close(events);
}

/* The control of the test above: after RESUME the unmapping evicts the queues. */
TEST_F(between, userptrs_are_watched_after_resume)
{
	struct kfd_bo bo;
	int events;

	ASSERT_EQ(0, carry_restore(&self->r.saved.carry, &self->r.kfd, self->r.session));
	events = watch_evictions(&self->r.kfd);
	ASSERT_LE(0, events);
	ASSERT_EQ(0, kfd_bo_alloc(&self->r.kfd, &bo, KFD_USERPTR, USERPTR_SIZE));
	memset(bo.at, 1, USERPTR_SIZE);
	ASSERT_EQ(0, munmap(bo.at, USERPTR_SIZE));
	EXPECT_TRUE(is_evicted(events));
	close(events);
}

struct slow {
	const struct kfd *kfd;
	struct uffd args;
};

static void *slow_version(void *data)
{
	struct slow *slow = data;
	int ret = ioctl(slow->kfd->node.fd, AMDKFD_IOC_GET_VERSION, slow->args.at) ? -errno : 0;

	return (void *)(intptr_t)ret;
}

/*
 * An ioctl in progress might allocate a userptr at any later time. It also counts if it began
 * before the first session of the machine was created: ioctls that are counted only while a
 * session exists would be missed.
 */
TEST_F(between, restore_waits_for_ioctls_older_than_all_sessions_and_gives_up)
{
	struct kfd_ioctl_get_version_args args = {};
	struct slow slow = { .kfd = &self->r.kfd };
	int ret = uffd_make(&slow.args, true, &args, sizeof(args));
	pthread_t thread;
	void *result;

	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	close_session(self);
	ASSERT_EQ(0, pthread_create(&thread, NULL, slow_version, &slow));
	ASSERT_TRUE(uffd_is_waited_for(&slow.args, SOON * patience()));
	self->r.session = criu_session(&self->r.kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->r.session);
	EXPECT_EQ(-ETIME, restore(self));
	EXPECT_EQ(0, uffd_serve(&slow.args, &args, sizeof(args)));
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(0, (int)(intptr_t)result);
	EXPECT_EQ(0, restore(self));
	uffd_close(&slow.args);
}

TEST_HARNESS_MAIN
