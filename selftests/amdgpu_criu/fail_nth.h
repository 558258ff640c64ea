/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fault injection by /proc/thread-self/fail-nth: the n-th step of the calling thread that can
 * fail, because memory is exhausted or a pointer is bad, fails. Needs CONFIG_FAULT_INJECTION and,
 * for allocations to be among these, CONFIG_FAILSLAB and CONFIG_FAIL_PAGE_ALLOC.
 */
#ifndef AMDGPU_CRIU_TEST_FAIL_NTH_H
#define AMDGPU_CRIU_TEST_FAIL_NTH_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "criu.h"
#include "sample.h"

#define FAIL_NTH_DEBUGFS "/sys/kernel/debug/"
#define FAIL_NTH_USERCOPY FAIL_NTH_DEBUGFS "fail_usercopy"

/* Makes every allocation one that may fail. -ENOENT: the kernel does not support that. */
static inline int fail_nth_prepare(void)
{
	static const struct {
		const char *path;
		const char *value;
	} settings[] = {
		{ FAIL_NTH_DEBUGFS "failslab/ignore-gfp-wait", "N" },
		{ FAIL_NTH_DEBUGFS "failslab/verbose", "0" },
		{ FAIL_NTH_DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N" },
		{ FAIL_NTH_DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N" },
		{ FAIL_NTH_DEBUGFS "fail_page_alloc/min-order", "0" },
		{ FAIL_NTH_DEBUGFS "fail_page_alloc/verbose", "0" },
		/* Not in every kernel, see fail_nth_copies(). */
		{ FAIL_NTH_USERCOPY "/verbose", "0" },
	};
	const size_t num = sizeof(settings) / sizeof(settings[0]);
	size_t i;
	int ret;

	if (access("/proc/thread-self/fail-nth", F_OK))
		return -ENOENT;
	for (i = 0; i < num; i++) {
		ret = criu_write_file(settings[i].path, settings[i].value);
		if (ret && i < num - 1)
			return ret;
	}
	return 0;
}

/* True if copies from and to user memory fail as well: each operation has at least one. */
static inline bool fail_nth_copies(void)
{
	return !access(FAIL_NTH_USERCOPY, F_OK);
}

/* A descriptor for fail_nth_disarm(), or an error. */
static inline int fail_nth_arm(unsigned int n)
{
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	char text[16];
	int ret;

	if (fd < 0)
		return -errno;
	ret = snprintf(text, sizeof(text), "%u", n);
	if (write(fd, text, ret) != ret) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

/* True if a step has failed since fail_nth_arm(). */
static inline bool fail_nth_disarm(int fd)
{
	char text[16] = "";
	bool left;

	/* The pending fault may hit this very call. */
	left = pread(fd, text, sizeof(text) - 1, 0) < 0 || atoi(text);
	while (write(fd, "0", 1) != 1)
		continue;
	close(fd);
	return !left;
}

/* A sample includes all of the first faults, because short operations have only these. */
#define FAIL_NTH_ALL 40

/* The fault that comes after @n. */
static inline unsigned int fail_nth_next(struct sample *sample, unsigned int n)
{
	return n + (n < FAIL_NTH_ALL ? 1 : sample_step(sample));
}

#endif /* AMDGPU_CRIU_TEST_FAIL_NTH_H */
