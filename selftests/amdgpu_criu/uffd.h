/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory whose first access, also by the kernel, blocks until a test continues it. All
 * functions return 0 or a negative errno.
 */
#ifndef AMDGPU_CRIU_TEST_UFFD_H
#define AMDGPU_CRIU_TEST_UFFD_H

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UFFD_SIZE 0x10000

struct uffd {
	int fd;
	/* UFFD_SIZE bytes. */
	unsigned char *at;
	bool writes_only;
};

static inline int uffd_protect(const struct uffd *uffd, bool protect)
{
	struct uffdio_writeprotect args = {
		.range = { .start = (uintptr_t)uffd->at, .len = UFFD_SIZE },
		.mode = protect ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(uffd->fd, UFFDIO_WRITEPROTECT, &args) ? -errno : 0;
}

/*
 * Reads and writes wait; or with @writes_only writes alone, and @from is what can be read.
 * -EPERM, -ENOSYS or -EINVAL: this kernel has no such memory.
 */
static inline int uffd_make(struct uffd *uffd, bool writes_only, const void *from, size_t size)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = writes_only ? UFFD_FEATURE_PAGEFAULT_FLAG_WP : 0,
	};
	struct uffdio_register args = {
		.range.len = UFFD_SIZE,
		.mode = writes_only ? UFFDIO_REGISTER_MODE_WP : UFFDIO_REGISTER_MODE_MISSING,
	};

	uffd->writes_only = writes_only;
	uffd->at = mmap(NULL, UFFD_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	if (uffd->at == MAP_FAILED)
		return -errno;
	if (size > UFFD_SIZE)
		return -E2BIG;
	if (writes_only) {
		memset(uffd->at, 0, UFFD_SIZE);
		memcpy(uffd->at, from, size);
	}
	args.range.start = (uintptr_t)uffd->at;
	uffd->fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd->fd < 0 || ioctl(uffd->fd, UFFDIO_API, &api) ||
	    ioctl(uffd->fd, UFFDIO_REGISTER, &args))
		return -errno;
	return writes_only ? uffd_protect(uffd, true) : 0;
}

/* True if a thread faults on the memory within that time. */
static inline bool uffd_is_waited_for(const struct uffd *uffd, int milliseconds)
{
	struct pollfd events = { .fd = uffd->fd, .events = POLLIN };

	return poll(&events, 1, milliseconds) == 1;
}

/* Continues waiting threads; memory that could not be read becomes a copy of @from. */
static inline int uffd_serve(const struct uffd *uffd, const void *from, size_t size)
{
	_Alignas(4096) static unsigned char pages[UFFD_SIZE];
	struct uffdio_copy args = {
		.dst = (uintptr_t)uffd->at, .src = (uintptr_t)pages, .len = UFFD_SIZE,
	};

	if (uffd->writes_only)
		return uffd_protect(uffd, false);
	memcpy(pages, from, size);
	return ioctl(uffd->fd, UFFDIO_COPY, &args) ? -errno : 0;
}

/* Continues waiting threads, which cannot use the memory. */
static inline int uffd_take_away(const struct uffd *uffd)
{
	struct uffdio_range range = { .start = (uintptr_t)uffd->at, .len = UFFD_SIZE };

	if (mprotect(uffd->at, UFFD_SIZE, PROT_NONE) || ioctl(uffd->fd, UFFDIO_WAKE, &range))
		return -errno;
	return 0;
}

static inline void uffd_close(struct uffd *uffd)
{
	close(uffd->fd);
	munmap(uffd->at, UFFD_SIZE);
}

#endif /* AMDGPU_CRIU_TEST_UFFD_H */
