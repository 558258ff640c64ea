/* SPDX-License-Identifier: GPL-2.0 */
/* A system call that stays in flight until a test supplies its missing argument. */
#ifndef AMDGPU_CRIU_TEST_MISSING_H
#define AMDGPU_CRIU_TEST_MISSING_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "render.h"

struct missing {
	const struct criu_node *node;
	void *page;
	size_t size;
	int uffd;
	pthread_t thread;
	int result;
};

static void *missing_call(void *data)
{
	struct missing *missing = data;

	missing->result = render_ioctl(missing->node, DRM_IOCTL_VERSION, missing->page);
	return NULL;
}

static inline int missing_page(struct missing *missing)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };

	missing->size = sysconf(_SC_PAGESIZE);
	missing->page = mmap(NULL, missing->size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (missing->page == MAP_FAILED)
		return -errno;
	missing->uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (missing->uffd < 0)
		return -errno;
	reg.range.start = (uintptr_t)missing->page;
	reg.range.len = missing->size;
	return ioctl(missing->uffd, UFFDIO_API, &api) ||
	       ioctl(missing->uffd, UFFDIO_REGISTER, &reg) ? -errno : 0;
}

/* Begins a call on @node; returns when it is in flight. -ENOSYS: no userfaultfd. */
static inline int missing_begin(struct missing *missing, const struct criu_node *node)
{
	struct uffd_msg fault;
	int ret;

	missing->node = node;
	missing->result = 1;
	ret = missing_page(missing);
	if (ret)
		return ret;
	if (pthread_create(&missing->thread, NULL, missing_call, missing))
		return -EAGAIN;
	if (read(missing->uffd, &fault, sizeof(fault)) != sizeof(fault))
		return -errno;
	return fault.event == UFFD_EVENT_PAGEFAULT ? 0 : -EPROTO;
}

/* Supplies the argument; returns the result of the call. */
static inline int missing_end(struct missing *missing)
{
	struct uffdio_zeropage zero = {
		.range = { .start = (uintptr_t)missing->page, .len = missing->size },
	};

	if (ioctl(missing->uffd, UFFDIO_ZEROPAGE, &zero) || pthread_join(missing->thread, NULL))
		return -errno;
	close(missing->uffd);
	munmap(missing->page, missing->size);
	return missing->result;
}

#endif /* AMDGPU_CRIU_TEST_MISSING_H */
