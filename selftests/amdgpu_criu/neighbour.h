/* SPDX-License-Identifier: GPL-2.0 */
/* Another process that has state of /dev/kfd, and keeps it until it is killed. */
#ifndef AMDGPU_CRIU_TEST_NEIGHBOUR_H
#define AMDGPU_CRIU_TEST_NEIGHBOUR_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kfd.h"

/* Returns what waitpid() returns. */
static inline pid_t neighbour_end(pid_t pid)
{
	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0);
}

/* Returns the process once @make has created its state, or the error of @make. */
static inline pid_t neighbour_start(int (*make)(struct kfd *kfd, const void *data),
				    const void *data)
{
	int ready[2], ret = -EIO;
	struct kfd kfd;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		ret = kfd_open(&kfd);
		if (!ret)
			ret = make(&kfd, data);
		if (write(ready[1], &ret, sizeof(ret)) != sizeof(ret))
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (pid > 0 && (read(ready[0], &ret, sizeof(ret)) != sizeof(ret) || ret)) {
		neighbour_end(pid);
		pid = ret;
	}
	close(ready[0]);
	return pid;
}

#endif /* AMDGPU_CRIU_TEST_NEIGHBOUR_H */
