/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A test that makes the driver complain about its GPU (a ring timeout, a reset, a page fault)
 * announces that in the kernel's log, for the program that reads the log. Without permission to
 * write there, it announces nothing.
 */
#ifndef AMDGPU_CRIU_TEST_COMPLAINTS_H
#define AMDGPU_CRIU_TEST_COMPLAINTS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
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

/* Opens the kernel's log for complaints_wait(). Messages before the call are not read. */
static inline int complaints_open(void)
{
	int kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (kmsg >= 0)
		lseek(kmsg, 0, SEEK_END);
	return kmsg;
}

/* Reads the log up to a message with @text. Returns false if there is none within @seconds. */
static inline bool complaints_wait(int kmsg, const char *text, int seconds)
{
	char line[1024];
	ssize_t size;

	for (int i = 0; i < 100 * seconds; i++) {
		while ((size = read(kmsg, line, sizeof(line) - 1)) > 0) {
			line[size] = 0;
			if (strstr(line, text))
				return true;
		}
		usleep(10000);
	}
	return false;
}

#endif /* AMDGPU_CRIU_TEST_COMPLAINTS_H */
