// SPDX-License-Identifier: GPL-2.0
/* DMABUF of the objects that CHECKPOINT has added to its session. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "fixtures.h"

FIXTURE(dmabuf) {
	struct paused p;
};

FIXTURE_SETUP(dmabuf)
{
	int ret = paused_open(&self->p);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(dmabuf)
{
	paused_close(&self->p);
}

TEST_F(dmabuf, is_of_the_bo_and_always_the_same)
{
	struct stat first, second;
	__u32 i;
	int fd;

	for (i = 0; i < self->p.image.num_bos; i++) {
		const struct amdgpu_criu_bo *bo = &self->p.image.bos[i];

		if (!(bo->flags & AMDGPU_CRIU_BO_CONTENTS))
			continue;
		fd = criu_dmabuf(&self->p.kfd.node, self->p.session, bo->object_id);
		ASSERT_LE(0, fd);
		EXPECT_EQ(bo->size, (__u64)lseek(fd, 0, SEEK_END));
		EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
		EXPECT_EQ(O_RDWR, fcntl(fd, F_GETFL) & O_ACCMODE);
		ASSERT_EQ(0, fstat(fd, &first));
		close(fd);
		fd = criu_dmabuf(&self->p.kfd.node, self->p.session, bo->object_id);
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, fstat(fd, &second));
		EXPECT_EQ(first.st_ino, second.st_ino);
		close(fd);
	}
}

TEST_F(dmabuf, has_the_contents)
{
	const struct amdgpu_criu_bo *bo = paused_find(&self->p, &self->p.state.gtt);
	void *at;
	int fd;

	ASSERT_NE(NULL, bo);
	fd = criu_dmabuf(&self->p.kfd.node, self->p.session, bo->object_id);
	ASSERT_LE(0, fd);
	at = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(0, memcmp(at, self->p.state.gtt.at, bo->size));
	munmap(at, bo->size);
	close(fd);
}

TEST_F(dmabuf, works_in_any_process_with_the_session)
{
	int status;
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		struct criu_node node;
		int fd;

		if (criu_node_open(&node, CRIU_NODE_KFD))
			_exit(1);
		fd = criu_dmabuf(&node, self->p.session, self->p.image.bos[0].object_id);
		if (fd < 0)
			_exit(-fd);
		_exit(lseek(fd, 0, SEEK_END) != (off_t)self->p.image.bos[0].size);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(dmabuf, of_an_unknown_object_is_ENOENT)
{
	__u64 last = 0;
	__u32 i;

	for (i = 0; i < self->p.image.num_bos; i++) {
		if (self->p.image.bos[i].object_id > last)
			last = self->p.image.bos[i].object_id;
	}
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->p.kfd.node, self->p.session, 0));
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->p.kfd.node, self->p.session, last + 1));
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->p.kfd.node, self->p.session, ~0ULL));
}

/* The session holds the object until it is closed, and the object keeps its id. */
TEST_F(dmabuf, a_bo_that_is_freed_keeps_its_id)
{
	__u64 id = paused_find(&self->p, &self->p.state.gtt)->object_id;
	struct criu_image second;
	struct kfd_bo fresh;
	__u32 i;

	ASSERT_EQ(0, criu_unpause(&self->p.kfd.node, self->p.session));
	ASSERT_EQ(0, kfd_bo_free(&self->p.kfd, &self->p.state.gtt));
	ASSERT_EQ(0, kfd_bo_alloc(&self->p.kfd, &fresh, KFD_GTT, STATE_GTT_SIZE));
	ASSERT_EQ(0, criu_checkpoint(&self->p.kfd.node, self->p.session, &second));
	ASSERT_EQ(STATE_BOS, second.num_bos);
	for (i = 0; i < second.num_bos; i++) {
		EXPECT_NE(id, second.bos[i].object_id);
	}
	criu_image_free(&second);
}

TEST_HARNESS_MAIN
