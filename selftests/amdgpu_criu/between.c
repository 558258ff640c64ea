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
#include "render.h"
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

/* Return: a descriptor of the evictions and restores of this process's queues. */
static int watch_queues(const struct kfd *kfd)
{
	struct kfd_ioctl_smi_events_args args = { .gpuid = kfd->gpu.gpu_id };
	__u64 mask = KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_EVICTION) |
		     KFD_SMI_EVENT_MASK_FROM_INDEX(KFD_SMI_EVENT_QUEUE_RESTORE);

	if (ioctl(kfd->node.fd, AMDKFD_IOC_SMI_EVENTS, &args) ||
	    write(args.anon_fd, &mask, sizeof(mask)) != sizeof(mask))
		return -errno;
	return args.anon_fd;
}

/* True if an eviction, and then a restore, occur within some time. */
static bool are_evicted_and_restored(int events)
{
	struct pollfd poll_events = { .fd = events, .events = POLLIN };
	bool evicted = false;
	char text[4096];

	while (poll(&poll_events, 1, SOON * patience()) == 1) {
		ssize_t size = read(events, text, sizeof(text) - 1);
		char *line, *rest = text;

		if (size <= 0)
			return false;
		text[size] = 0;
		while ((line = strsep(&rest, "\n")) && *line) {
			unsigned long event = strtoul(line, NULL, 16);

			evicted |= event == KFD_SMI_EVENT_QUEUE_EVICTION;
			if (evicted && event == KFD_SMI_EVENT_QUEUE_RESTORE)
				return true;
		}
	}
	return false;
}

/* Jobs of the render node in the VM of the process, whose KFD queues may be evicted. */
struct writer {
	struct criu_node node;
	struct render_work work;
	struct render_job job;
};

static int writer_make(struct writer *writer, const struct kfd *kfd)
{
	int ret;

	writer->node = (struct criu_node) { .fd = kfd->drm_fd, .kind = CRIU_NODE_RENDER };
	writer->job = (struct render_job) { .hw_ip = AMDGPU_HW_IP_DMA };
	ret = render_work_make(&writer->node, &writer->work);
	return ret ? ret : render_ctx_create(&writer->node, AMDGPU_CTX_PRIORITY_NORMAL,
					     &writer->job.ctx);
}

static int write_by_gpu(struct writer *writer, const void *at, __u32 value)
{
	__u64 sequence;
	int ret;

	writer->job.word = ((uintptr_t)at - RENDER_WORK_VA) / sizeof(__u32);
	writer->job.value = value;
	ret = render_submit(&writer->node, &writer->work, &writer->job, &sequence);
	return ret ? ret : render_wait(&writer->node, &writer->job, sequence, 10 * RENDER_SECOND);
}

/*
 * The pages of a userptr move to another address, as if the process had freed them and another
 * one had got them. If the notifier is blocked, the GPU still writes to these pages.
 */
static void expect_userptrs_are_watched(struct __test_metadata *_metadata,
					FIXTURE_DATA(between) *self)
{
	int events = watch_queues(&self->r.kfd);
	struct writer writer;
	__u32 *used, *freed;
	struct kfd_bo bo;

	ASSERT_LE(0, events);
	/* A job has 32 bits for the number of a word. */
	self->r.kfd.next_address = (char *)0x10000000;
	ASSERT_EQ(0, kfd_bo_alloc(&self->r.kfd, &bo, KFD_USERPTR, USERPTR_SIZE));
	ASSERT_EQ(0, writer_make(&writer, &self->r.kfd));
	used = bo.at;
	used[0] = 1;
	ASSERT_EQ(0, write_by_gpu(&writer, used, 2));
	ASSERT_EQ(2, used[0]);
	freed = mremap(used, USERPTR_SIZE, USERPTR_SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	ASSERT_NE(MAP_FAILED, (void *)freed);
	EXPECT_TRUE(are_evicted_and_restored(events));
	EXPECT_EQ(0, write_by_gpu(&writer, used, 3));
	EXPECT_EQ(2, freed[0]);
	EXPECT_EQ(3, used[0]);
	render_work_unmap(&writer.work);
	close(events);
}

TEST_F(between, userptrs_are_watched_once_the_session_is_closed)
{
	ASSERT_EQ(0, restore(self));
	close_session(self);
	expect_userptrs_are_watched(_metadata, self);
}

/* The control of the test above: after RESUME the GPU uses the new pages. */
TEST_F(between, userptrs_are_watched_after_resume)
{
	ASSERT_EQ(0, carry_restore(&self->r.saved.carry, &self->r.kfd, self->r.session));
	expect_userptrs_are_watched(_metadata, self);
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
