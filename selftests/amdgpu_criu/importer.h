/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A driver of another device that imports a dma-buf: vivid, as if it captured metadata into it. Its
 * importer is static, so the memory is pinned where the device reaches it: in system memory.
 */
#ifndef AMDGPU_CRIU_TEST_IMPORTER_H
#define AMDGPU_CRIU_TEST_IMPORTER_H

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define IMPORTER_MISSING "no driver that imports: modprobe vivid allocators=1"

static inline int importer_open(void)
{
	struct v4l2_capability info;
	char path[32];
	int fd, minor;

	for (minor = 0; minor < 256; minor++) {
		snprintf(path, sizeof(path), "/dev/video%d", minor);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!ioctl(fd, VIDIOC_QUERYCAP, &info) && !strcmp((char *)info.driver, "vivid") &&
		    info.device_caps & V4L2_CAP_META_CAPTURE)
			return fd;
		close(fd);
	}
	return -ENOENT;
}

/*
 * A descriptor whose close() ends the import, or a negative errno: -ENOENT if there is no such
 * driver. The device uses the first bytes only, so the pages may be anywhere.
 */
static inline int importer_pin(int dmabuf)
{
	struct v4l2_requestbuffers buffers = {
		.count = 1, .type = V4L2_BUF_TYPE_META_CAPTURE, .memory = V4L2_MEMORY_DMABUF,
	};
	struct v4l2_buffer buffer = { .type = buffers.type, .memory = buffers.memory };
	int fd = importer_open(), ret;

	if (fd < 0)
		return fd;
	ret = ioctl(fd, VIDIOC_REQBUFS, &buffers) || ioctl(fd, VIDIOC_QUERYBUF, &buffer);
	/* With the other allocator, which takes pointers, it does not map for a device. */
	if (!ret && buffers.capabilities & V4L2_BUF_CAP_SUPPORTS_USERPTR) {
		close(fd);
		return -ENOENT;
	}
	buffer.m.fd = dmabuf;
	if (!ret && !ioctl(fd, VIDIOC_QBUF, &buffer))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

#endif
