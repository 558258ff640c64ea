/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory that a thread fills page by page when it is accessed, as "criu lazy-pages" does. All
 * functions return 0 or a negative errno. Include it after uffd.h.
 */
#ifndef AMDGPU_CRIU_TEST_LAZY_H
#define AMDGPU_CRIU_TEST_LAZY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "uffd.h"

#define LAZY_PAGE 4096

struct lazy {
	struct uffd uffd;
	size_t size;
	/* What the pages contain once they are filled */
	unsigned char *contents;
	pthread_t thread;
	atomic_bool stop;
	/* Pages that the thread has filled */
	atomic_uint filled;
};

static inline void *lazy_fill(void *data)
{
	struct pollfd events = { .events = POLLIN };
	struct lazy *lazy = data;
	struct uffd_msg message;

	events.fd = lazy->uffd.fd;
	while (!lazy->stop) {
		struct uffdio_copy args = { .len = LAZY_PAGE };

		if (poll(&events, 1, 10) != 1 ||
		    read(lazy->uffd.fd, &message, sizeof(message)) != sizeof(message) ||
		    message.event != UFFD_EVENT_PAGEFAULT)
			continue;
		/* A page takes its time. */
		usleep(1000);
		args.dst = message.arg.pagefault.address & ~(LAZY_PAGE - 1ULL);
		args.src = (uintptr_t)lazy->contents + args.dst - (uintptr_t)lazy->uffd.at;
		/* Before a caller that waits for the last page continues */
		lazy->filled++;
		if (ioctl(lazy->uffd.fd, UFFDIO_COPY, &args))
			lazy->filled--;
	}
	return NULL;
}

/* Takes the pages of existing private memory away. @serve: a thread fills them. */
static inline int lazy_start(struct lazy *lazy, void *at, size_t size, bool serve)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register args = {
		.range = { .start = (uintptr_t)at, .len = size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	*lazy = (struct lazy) { .uffd.at = at, .size = size };
	lazy->contents = aligned_alloc(LAZY_PAGE, size);
	if (!lazy->contents)
		return -ENOMEM;
	memcpy(lazy->contents, at, size);
	lazy->uffd.fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (lazy->uffd.fd < 0 || ioctl(lazy->uffd.fd, UFFDIO_API, &api) ||
	    ioctl(lazy->uffd.fd, UFFDIO_REGISTER, &args) || madvise(at, size, MADV_DONTNEED))
		return -errno;
	return serve ? -pthread_create(&lazy->thread, NULL, lazy_fill, lazy) : 0;
}

/* Ends the thread. Pages that it has not filled become zero. */
static inline void lazy_end(struct lazy *lazy)
{
	lazy->stop = true;
	pthread_join(lazy->thread, NULL);
	close(lazy->uffd.fd);
	free(lazy->contents);
}

#endif /* AMDGPU_CRIU_TEST_LAZY_H */
