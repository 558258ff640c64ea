/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file of a file system in user space whose contents never arrive: access to a mapping of it
 * blocks until the test ends. All functions return 0 or a negative errno.
 */
#ifndef AMDGPU_CRIU_TEST_FUSE_H
#define AMDGPU_CRIU_TEST_FUSE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUSE_STALL_SIZE 0x10000
#define FUSE_STALL_NODE 2

struct fuse_stall {
	int device;
	char directory[32];
	pthread_t thread;
	/* READ requests that nobody has answered */
	atomic_uint waiting;
};

static inline void fuse_answer(const struct fuse_stall *stall, const struct fuse_in_header *in,
			       int error, const void *data, size_t size)
{
	char buffer[sizeof(struct fuse_out_header) + 256];
	struct fuse_out_header out = {
		.len = sizeof(out) + size, .error = error, .unique = in->unique,
	};

	memcpy(buffer, &out, sizeof(out));
	if (size)
		memcpy(buffer + sizeof(out), data, size);
	if (write(stall->device, buffer, out.len) < 0)
		return;
}

static inline struct fuse_attr fuse_attr_of(__u64 node)
{
	return (struct fuse_attr) {
		.ino = node, .nlink = 1, .blksize = 4096,
		.mode = node == FUSE_STALL_NODE ? S_IFREG | 0600 : S_IFDIR | 0700,
		.size = node == FUSE_STALL_NODE ? FUSE_STALL_SIZE : 0,
	};
}

static inline void fuse_handle(struct fuse_stall *stall, const struct fuse_in_header *in)
{
	const struct fuse_init_out init = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION,
		.max_write = 4096,
	};
	const struct fuse_entry_out entry = {
		.nodeid = FUSE_STALL_NODE, .entry_valid = 1000, .attr_valid = 1000,
		.attr = fuse_attr_of(FUSE_STALL_NODE),
	};
	const struct fuse_attr_out attr = { .attr_valid = 1000, .attr = fuse_attr_of(in->nodeid) };
	const struct fuse_open_out opened = { .fh = 1 };

	switch (in->opcode) {
	case FUSE_INIT:
		return fuse_answer(stall, in, 0, &init, sizeof(init));
	case FUSE_LOOKUP:
		return fuse_answer(stall, in, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return fuse_answer(stall, in, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
		return fuse_answer(stall, in, 0, &opened, sizeof(opened));
	case FUSE_READ:
		stall->waiting++;
		return;
	case FUSE_FORGET:
	case FUSE_INTERRUPT:
		return;
	}
	fuse_answer(stall, in, -ENOSYS, NULL, 0);
}

static inline void *fuse_serve(void *data)
{
	static char request[FUSE_MIN_READ_BUFFER + 4096];
	struct fuse_stall *stall = data;

	while (read(stall->device, request, sizeof(request)) > 0)
		fuse_handle(stall, (struct fuse_in_header *)request);
	return NULL;
}

/* -ENOENT or -ENODEV: this kernel has no FUSE. */
static inline int fuse_stall_make(struct fuse_stall *stall)
{
	char options[96];

	strcpy(stall->directory, "/tmp/stallXXXXXX");
	stall->waiting = 0;
	stall->device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (stall->device < 0 || !mkdtemp(stall->directory))
		return -errno;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0",
		 stall->device);
	if (mount("stall", stall->directory, "fuse", MS_NOSUID | MS_NODEV, options))
		return -errno;
	return -pthread_create(&stall->thread, NULL, fuse_serve, stall);
}

/* A private mapping of the file */
static inline void *fuse_stall_map(const struct fuse_stall *stall)
{
	char path[64];
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s/file", stall->directory);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	at = mmap(NULL, FUSE_STALL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	return at;
}

/* Waiting callers fail. */
static inline void fuse_stall_end(struct fuse_stall *stall)
{
	umount2(stall->directory, MNT_FORCE | MNT_DETACH);
	pthread_join(stall->thread, NULL);
	close(stall->device);
	rmdir(stall->directory);
}

#endif /* AMDGPU_CRIU_TEST_FUSE_H */
