/* SPDX-License-Identifier: GPL-2.0 */
/* Resets the only GPU of the machine, by the debugfs of the driver. */
#ifndef AMDGPU_CRIU_TEST_RESET_H
#define AMDGPU_CRIU_TEST_RESET_H

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "complaints.h"
#include "kfd.h"

#define RESET_COMPLAINTS "GPU reset begin|\\*ERROR\\*"
#define RESET_FILES "/sys/kernel/debug/dri/*/amdgpu_gpu_recover"
/* The driver does not survive the reset of a GPU with peers. */
#define RESET_SKIP "resets its GPU, which must be the only one"
#define RESET_FORBIDDEN "resets its GPU, which CRIU_TEST_NO_RESET forbids"

/* On a machine with a GPU that others use, too. */
static inline bool reset_is_forbidden(void)
{
	return getenv("CRIU_TEST_NO_RESET");
}

static inline bool reset_is_possible(void)
{
	struct kfd_gpu second;

	return kfd_gpu_at(1, &second);
}

/* 0 once the reset is complete, or a negative errno. */
static inline int reset_gpu(void)
{
	char answer[16];
	glob_t files;
	int fd, ret;

	mount("none", "/sys/kernel/debug", "debugfs", 0, NULL);
	if (glob(RESET_FILES, 0, NULL, &files))
		return -ENOENT;
	fd = open(files.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	globfree(&files);
	if (fd < 0)
		return -errno;
	ret = read(fd, answer, sizeof(answer)) < 1 ? -errno : answer[0] == '0' ? 0 : -EIO;
	close(fd);
	return ret;
}

#endif /* AMDGPU_CRIU_TEST_RESET_H */
