// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a pause, on both kinds of node: after an answer that cannot be written, and while an
 * ioctl of the process does not return.
 */
#include "kselftest_harness.h"

#include <sys/ptrace.h>

#include "caller.h"
#include "fuse.h"
#include "kfd.h"
#include "render.h"
#include "uffd.h"

/* PROCESS_INFO has paused a client, and its answer waits for memory. */
FIXTURE(answer) {
	struct criu_node node;
	struct uffd memory;
	struct caller first;
	struct amdgpu_criu_process_info info;
	int session;
};

FIXTURE_VARIANT(answer) {
	bool render;
};

FIXTURE_VARIANT_ADD(answer, of_kfd) {
	.render = false,
};

FIXTURE_VARIANT_ADD(answer, of_a_render_node) {
	.render = true,
};

FIXTURE_SETUP(answer)
{
	struct kfd_gpu gpu;
	int ret;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, variant->render ? render_open(&self->node, 0) :
				       criu_node_open(&self->node, CRIU_NODE_KFD));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	self->info.session_fd = self->session;
	ret = uffd_make(&self->memory, true, &self->info, sizeof(self->info));
	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	ASSERT_EQ(0, CALL(&self->first, &self->node, PROCESS_INFO,
			  (struct amdgpu_criu_process_info *)self->memory.at));
	ASSERT_TRUE(uffd_is_waited_for(&self->memory, SOON * patience()));
}

FIXTURE_TEARDOWN(answer)
{
	uffd_close(&self->memory);
	close(self->session);
	criu_node_close(&self->node);
}

static int answer_fails(FIXTURE_DATA(answer) *self)
{
	int ret = uffd_take_away(&self->memory);

	return ret ? ret : caller_end(&self->first);
}

TEST_F(answer, that_fails_ends_the_pause)
{
	EXPECT_EQ(-EFAULT, answer_fails(self));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->node, self->session));
}

TEST_F(answer, that_fails_ends_no_pause_that_another_call_has_found)
{
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-EFAULT, answer_fails(self));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
}

TEST_F(answer, that_fails_ends_no_later_pause)
{
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-EFAULT, answer_fails(self));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
}

TEST_HARNESS_MAIN
