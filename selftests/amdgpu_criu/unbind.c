// SPDX-License-Identifier: GPL-2.0
/*
 * The driver is unbound from a GPU while sessions hold objects of it. It takes the GPU away, so
 * nothing else may use the GPU meanwhile.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kfd.h"
#include "render.h"
#include "share.h"

#define SIZE 0x10000
#define DRIVER "/sys/bus/pci/drivers/amdgpu/"
#define GPU_SECONDS 60

FIXTURE(unbind) {
	struct criu_node node;
	struct criu_image image;
	char slot[32];
	__u32 handle;
	int session, log;
	bool bound;
};

/* PCI slot of the GPU behind a file. */
static int find_slot(const struct criu_node *node, char *slot, size_t size)
{
	char path[64], target[256];
	struct stat status;
	ssize_t length;
	const char *name;

	if (fstat(node->fd, &status))
		return -errno;
	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/device", major(status.st_rdev),
		 minor(status.st_rdev));
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return -errno;
	target[length] = 0;
	name = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
	return snprintf(slot, size, "%s", name) < (int)size ? 0 : -E2BIG;
}

/* The kernel log from now on; a descriptor, or an error. */
static int follow_log(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	lseek(fd, 0, SEEK_END);
	return fd;
}

/* How often the driver has freed a device, and TTM with it, since the last call. */
static int releases(FIXTURE_DATA(unbind) *self)
{
	char line[1024];
	int num = 0;
	ssize_t got;

	for (;;) {
		got = read(self->log, line, sizeof(line) - 1);
		if (got < 0 && errno == EPIPE)
			continue;
		if (got <= 0)
			return num;
		line[got] = 0;
		num += !!strstr(line, "ttm finalized");
	}
}

FIXTURE_SETUP(unbind)
{
	self->session = -1;
	self->bound = true;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, find_slot(&self->node, self->slot, sizeof(self->slot)));
	self->log = follow_log();
	ASSERT_LE(0, self->log);
	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0,
				      &self->handle));
}

static void end_session(FIXTURE_DATA(unbind) *self)
{
	if (self->session >= 0)
		close(self->session);
	self->session = -1;
}

/* The GPU is there for the next test. */
static bool bind(FIXTURE_DATA(unbind) *self)
{
	struct criu_node node;
	int tenths;

	if (self->bound)
		return true;
	if (criu_write_file(DRIVER "bind", self->slot))
		return false;
	for (tenths = 0; tenths < 10 * GPU_SECONDS * patience(); tenths++) {
		if (!render_open(&node, 0)) {
			criu_node_close(&node);
			return true;
		}
		usleep(100 * 1000);
	}
	return false;
}

FIXTURE_TEARDOWN(unbind)
{
	end_session(self);
	criu_image_free(&self->image);
	criu_node_close(&self->node);
	EXPECT_TRUE(bind(self));
	close(self->log);
}

static int unbind(FIXTURE_DATA(unbind) *self)
{
	int ret = criu_write_file(DRIVER "unbind", self->slot);

	self->bound = ret != 0;
	return ret;
}

/* The BO is in the session, and nothing else has the device. */
static void expect_held(struct __test_metadata *_metadata, FIXTURE_DATA(unbind) *self)
{
	criu_node_close(&self->node);
	ASSERT_EQ(0, unbind(self));
	/* The last reference frees the device. */
	sleep(1);
	EXPECT_EQ(0, releases(self));
	end_session(self);
	sleep(1);
	EXPECT_EQ(1, releases(self));
}

/* In a process of its own: opens /dev/kfd, pauses itself by the session, and exits. */
static int pause_and_exit(int session)
{
	struct amdgpu_criu_process_info info;
	struct kfd kfd;
	int ret = kfd_open(&kfd);

	return ret ? ret : criu_pause(&kfd.node, session, &info);
}

/*
 * The first test: 6.12 gives EINVAL to new processes of a GPU that was bound again. KFD waits for
 * its processes before it gives a GPU up, and must not forget one that has exited.
 */
TEST_F_TIMEOUT(unbind, with_a_session_that_has_paused_a_process_that_exited, 180)
{
	int status;
	pid_t pid;

	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(-pause_and_exit(self->session));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_TRUE(kfd_process_ends(pid, 5000));
	/* The session has nothing of the device any more. */
	criu_node_close(&self->node);
	ASSERT_EQ(0, unbind(self));
	sleep(1);
	EXPECT_EQ(1, releases(self));
	end_session(self);
}

TEST_F_TIMEOUT(unbind, with_a_session_that_has_saved_a_bo, 180)
{
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &self->image));
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	expect_held(_metadata, self);
}

TEST_F_TIMEOUT(unbind, with_a_session_that_has_paused_a_file, 180)
{
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &self->image));
	expect_held(_metadata, self);
}

TEST_F_TIMEOUT(unbind, with_a_session_that_has_restored_a_file, 180)
{
	struct criu_node to;

	ASSERT_EQ(0, render_save(&self->node, &self->image));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, render_open(&to, 0));
	ASSERT_EQ(0, criu_restore(&to, self->session, &self->image));
	criu_node_close(&to);
	expect_held(_metadata, self);
}

/* A dma-buf holds the device by itself, with its session and without. */
TEST_F_TIMEOUT(unbind, with_a_copy_of_a_bo, 180)
{
	int fd;

	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &self->image));
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	fd = criu_dmabuf(&self->node, self->session, self->image.bos[0].object_id);
	ASSERT_LE(0, fd);
	criu_node_close(&self->node);
	ASSERT_EQ(0, unbind(self));
	end_session(self);
	sleep(1);
	EXPECT_EQ(0, releases(self));
	close(fd);
	sleep(1);
	EXPECT_EQ(1, releases(self));
}

TEST_HARNESS_MAIN
