// SPDX-License-Identifier: GPL-2.0
/*
 * Files of card nodes are refused before the kernel waits for them, and are not
 * changed.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <time.h>

#include "missing.h"
#include "render.h"

#define BO_SIZE 0x1000

static int create(const struct criu_node *node)
{
	__u32 handle;

	return render_bo_create(node, BO_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle);
}

FIXTURE(card) {
	struct criu_node node;
	struct criu_node card;
	int session;
};

FIXTURE_SETUP(card)
{
	char path[32];
	int minor;

	self->session = -1;
	self->card = (struct criu_node){ .fd = -1, .kind = CRIU_NODE_RENDER };
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	for (minor = 0; self->session < 0 && minor < 64; minor++) {
		criu_node_close(&self->card);
		snprintf(path, sizeof(path), "/dev/dri/card%d", minor);
		self->card.fd = open(path, O_RDWR | O_CLOEXEC);
		if (self->card.fd >= 0)
			self->session = criu_session(&self->card, AMDGPU_CRIU_SESSION_CHECKPOINT);
	}
	if (self->session < 0)
		SKIP(return, "no card node of amdgpu");
}

FIXTURE_TEARDOWN(card)
{
	if (self->session >= 0)
		close(self->session);
	criu_node_close(&self->card);
	criu_node_close(&self->node);
}

TEST_F(card, is_not_paused)
{
	struct amdgpu_criu_process_info info;

	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->card, self->session, &info));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->card, self->session));
	EXPECT_EQ(0, create(&self->card));
}

TEST_F(card, is_not_restored)
{
	struct criu_image image;
	int session;

	ASSERT_EQ(0, create(&self->node));
	ASSERT_EQ(0, render_save(&self->node, &image));
	session = criu_session(&self->card, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, session);
	EXPECT_EQ(-EOPNOTSUPP, criu_restore(&self->card, session, &image));
	EXPECT_EQ(0, create(&self->card));
	close(session);
	criu_image_free(&image);
}

/* It could give the BO of another VM a name, by which all files can open it. */
TEST_F(card, copies_nothing)
{
	struct criu_image image;
	__u32 handle;
	int fd;

	ASSERT_EQ(0, render_bo_create(&self->node, BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				      AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, &handle));
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &image));
	EXPECT_EQ(-EOPNOTSUPP, criu_dmabuf(&self->card, self->session, image.bos[0].object_id));
	fd = criu_dmabuf(&self->node, self->session, image.bos[0].object_id);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EPERM, render_bo_import(&self->card, fd, &handle));
	close(fd);
	criu_image_free(&image);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

TEST_F(card, with_a_call_in_flight_blocks_no_other_caller)
{
	struct amdgpu_criu_process_info info;
	struct missing missing;
	double begin;
	int ret;

	ret = missing_begin(&missing, &self->card);
	if (ret == -ENOSYS)
		SKIP(return, "no userfaultfd");
	ASSERT_EQ(0, ret);
	begin = seconds();
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->card, self->session, &info));
	EXPECT_GT(5 * patience(), seconds() - begin);
	EXPECT_EQ(0, create(&self->card));
	EXPECT_EQ(0, missing_end(&missing));
}

TEST_HARNESS_MAIN
