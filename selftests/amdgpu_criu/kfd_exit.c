// SPDX-License-Identifier: GPL-2.0
/* Processes that exit while KFD uses their memory. */
#include "kselftest_harness.h"

#include <signal.h>
#include <sys/wait.h>

#include "complaints.h"
#include "kfd.h"
#include "patience.h"
#include "uffd.h"

#define SOON 10000
/* A reserved type of packet. */
#define AQL_UNKNOWN 200
#define COMPLAINTS "model fault: .*reserved AQL packet|Illegal opcode in command stream"

FIXTURE(kfd_exit) {
	pid_t pid;
	/* Of the child: its memory whose first access waits. */
	struct uffd uffd;
};

/*
 * With a runtime, a worker of KFD writes exceptions of a queue to the address in the header of the
 * save area. Returns the descriptor of that memory.
 */
static int raise_exception(void)
{
	struct kfd_ioctl_runtime_enable_args runtime = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};
	struct kfd_context_save_area_header *header;
	struct kfd_queue queue;
	struct uffd uffd = { .fd = -1 };
	struct kfd kfd;
	int ret = uffd_make(&uffd, false, NULL, 0);

	if (!ret)
		ret = kfd_open(&kfd);
	if (!ret && ioctl(kfd.node.fd, AMDKFD_IOC_RUNTIME_ENABLE, &runtime))
		ret = -errno;
	if (!ret)
		ret = kfd_compute_make(&kfd, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &queue);
	if (ret)
		return ret;
	header = queue.save_area;
	header->err_payload_addr = (uintptr_t)uffd.at;
	kfd_aql_submit(&queue, AQL_UNKNOWN);
	return uffd.fd;
}

FIXTURE_SETUP(kfd_exit)
{
	int ends[2], fd;
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, pipe(ends));
	complaints_allow(COMPLAINTS);
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid) {
		fd = raise_exception();
		if (write(ends[1], &fd, sizeof(fd)) == sizeof(fd))
			pause();
		_exit(1);
	}
	ASSERT_EQ(sizeof(fd), read(ends[0], &fd, sizeof(fd)));
	close(ends[0]);
	close(ends[1]);
	if (fd == -EPERM || fd == -ENOSYS)
		SKIP(return, "no userfaultfd");
	ASSERT_LE(0, fd);
	self->uffd.fd = fd_of_process(self->pid, fd);
	ASSERT_LE(0, self->uffd.fd);
}

FIXTURE_TEARDOWN(kfd_exit)
{
	complaints_disallow();
}

/*
 * The worker drops the last reference to the memory of the process, so it runs the MMU notifier of
 * KFD. The interrupt handler waits for the worker and holds the mutex of the process meanwhile.
 */
TEST_F_TIMEOUT(kfd_exit, while_an_exception_is_reported_ends_the_process, 60)
{
	EXPECT_TRUE(uffd_is_waited_for(&self->uffd, SOON * patience()));
	ASSERT_EQ(0, kill(self->pid, SIGKILL));
	ASSERT_EQ(self->pid, waitpid(self->pid, NULL, 0));
	EXPECT_TRUE(kfd_has_process(self->pid));
	/* The worker continues. */
	close(self->uffd.fd);
	EXPECT_TRUE(kfd_process_ends(self->pid, SOON));
}

TEST_HARNESS_MAIN
