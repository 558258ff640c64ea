// SPDX-License-Identifier: GPL-2.0
/* SESSION, and DMABUF of a session without objects. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "criu.h"

FIXTURE(session) {
	struct criu_node node;
	struct amdgpu_criu_session args;
};

FIXTURE_VARIANT(session) {
	enum criu_node_kind kind;
};

FIXTURE_VARIANT_ADD(session, kfd) {
	.kind = CRIU_NODE_KFD,
};

FIXTURE_VARIANT_ADD(session, render) {
	.kind = CRIU_NODE_RENDER,
};

FIXTURE_SETUP(session)
{
	int ret = criu_node_open(&self->node, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
	self->args.kind = AMDGPU_CRIU_SESSION_CHECKPOINT;
}

FIXTURE_TEARDOWN(session)
{
	criu_node_close(&self->node);
}

/* Value of a line of /proc/self/fdinfo, or "". */
static void read_fdinfo(int fd, const char *name, char *value, size_t size)
{
	char path[64], line[256];
	FILE *file;

	*value = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "r");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) || line[strlen(name)] != ':')
			continue;
		snprintf(value, size, "%s", line + strlen(name) + 2);
		value[strcspn(value, "\n")] = 0;
	}
	fclose(file);
}

TEST_F(session, returns_a_close_on_exec_descriptor_of_each_kind)
{
	static const char * const names[] = { "", "checkpoint", "restore" };
	char value[32];
	__u32 kind;

	for (kind = AMDGPU_CRIU_SESSION_CHECKPOINT; kind <= AMDGPU_CRIU_SESSION_RESTORE; kind++) {
		self->args.kind = kind;
		ASSERT_EQ(0, criu_op(&self->node, SESSION, &self->args));
		EXPECT_EQ(FD_CLOEXEC, fcntl(self->args.fd, F_GETFD));
		read_fdinfo(self->args.fd, "criu-session-kind", value, sizeof(value));
		EXPECT_STREQ(names[kind], value);
		read_fdinfo(self->args.fd, "criu-session-objects", value, sizeof(value));
		EXPECT_STREQ("0", value);
		read_fdinfo(self->args.fd, "criu-session-clients", value, sizeof(value));
		EXPECT_STREQ("0", value);
		EXPECT_EQ(0, close(self->args.fd));
	}
}

TEST_F(session, many_may_be_open)
{
	int fds[100];
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
		ASSERT_LE(0, fds[i]);
		for (j = 0; j < i; j++) {
			ASSERT_NE(fds[j], fds[i]);
		}
	}
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		EXPECT_EQ(0, close(fds[i]));
	}
}

TEST_F(session, outlives_the_file_that_created_it)
{
	int fd = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_node other;

	ASSERT_LE(0, fd);
	criu_node_close(&self->node);
	ASSERT_EQ(0, criu_node_open(&other, variant->kind));
	EXPECT_EQ(-ENOENT, criu_dmabuf(&other, fd, 1));
	criu_node_close(&other);
	EXPECT_EQ(0, close(fd));
}

TEST_F(session, refuses_unknown_kinds)
{
	static const __u32 kinds[] = { 0, 3, 0x80000001, 0xffffffff };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		self->args.kind = kinds[i];
		EXPECT_EQ(-EINVAL, criu_op(&self->node, SESSION, &self->args)) {
			TH_LOG("kind %u", kinds[i]);
		}
	}
}

TEST_F(session, no_descriptor_left_is_EMFILE)
{
	int free_fd = lowest_free_fd();
	struct rlimit limit;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = free_fd;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(-EMFILE, criu_op(&self->node, SESSION, &self->args));
	limit.rlim_cur = limit.rlim_max;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(0, criu_op(&self->node, SESSION, &self->args));
}

/* The caller could never close a descriptor whose number it does not get. */
TEST_F(session, an_unwritable_result_leaves_no_descriptor)
{
	struct amdgpu_criu_session *args;
	int free_fd = lowest_free_fd();
	struct criu_hole hole;

	ASSERT_EQ(0, criu_hole_make(&hole));
	args = (void *)hole.page;
	*args = self->args;
	ASSERT_EQ(0, mprotect(hole.page, sysconf(_SC_PAGESIZE), PROT_READ));
	EXPECT_EQ(-EFAULT, criu_op(&self->node, SESSION, args));
	EXPECT_EQ(free_fd, lowest_free_fd());
}

TEST_F(session, cannot_be_read_written_or_mapped)
{
	int fd = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	char byte = 0;

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, read(fd, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(fd, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	EXPECT_EQ(ENODEV, errno);
	close(fd);
}

TEST_F(session, has_no_objects_at_first)
{
	static const __u64 ids[] = { 0, 1, 0x100000001ULL, ~0ULL };
	__u32 kind;
	size_t i;
	int fd;

	for (kind = AMDGPU_CRIU_SESSION_CHECKPOINT; kind <= AMDGPU_CRIU_SESSION_RESTORE; kind++) {
		fd = criu_session(&self->node, kind);
		ASSERT_LE(0, fd);
		for (i = 0; i < ARRAY_SIZE(ids); i++) {
			EXPECT_EQ(-ENOENT, criu_dmabuf(&self->node, fd, ids[i]));
		}
		close(fd);
	}
}

TEST_F(session, a_descriptor_of_another_file_is_EBADF)
{
	int closed = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	int file = open("/dev/null", O_RDWR | O_CLOEXEC);

	ASSERT_LE(0, closed);
	ASSERT_LE(0, file);
	close(closed);
	EXPECT_EQ(-EBADF, criu_dmabuf(&self->node, -1, 1));
	EXPECT_EQ(-EBADF, criu_dmabuf(&self->node, 0x7fffffff, 1));
	EXPECT_EQ(-EBADF, criu_dmabuf(&self->node, closed, 1));
	EXPECT_EQ(-EBADF, criu_dmabuf(&self->node, file, 1));
	EXPECT_EQ(-EBADF, criu_dmabuf(&self->node, self->node.fd, 1));
	close(file);
}

TEST_HARNESS_MAIN
