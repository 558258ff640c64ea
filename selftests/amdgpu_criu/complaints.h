/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A test that makes the driver complain about its GPU (a ring timeout, a reset, a page fault)
 * announces that in the kernel's log, for the program that reads the log. Without permission to
 * write there, it announces nothing.
 */
#ifndef AMDGPU_CRIU_TEST_COMPLAINTS_H
#define AMDGPU_CRIU_TEST_COMPLAINTS_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static inline void complaints_mark(const char *verb, const char *pattern)
{
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "vm: %s%s%s\n", verb, *pattern ? " " : "", pattern);
	close(fd);
}

/* Messages that match this extended regular expression are expected until complaints_disallow(). */
static inline void complaints_allow(const char *pattern)
{
	complaints_mark("allow", pattern);
}

static inline void complaints_disallow(void)
{
	complaints_mark("disallow", "");
}

#endif /* AMDGPU_CRIU_TEST_COMPLAINTS_H */
