// SPDX-License-Identifier: GPL-2.0
/*
 * The table of a RESTORE is in memory that never arrives, as a file system in user space can
 * arrange. No other process waits for that caller.
 */
#include "kselftest_harness.h"

#include "caller.h"
#include "fixtures.h"
#include "fuse.h"
#include "render.h"
#include "uffd.h"

FIXTURE(stall) {
	struct restorer r;
	struct criu_node render;
	struct amdgpu_criu_state args;
	struct uffd table;
	struct caller restore;
	size_t size;
	int checkpoint;
};

FIXTURE_VARIANT(stall) {
	bool writes_only;
};

FIXTURE_VARIANT_ADD(stall, of_the_read) {
	.writes_only = false,
};

FIXTURE_VARIANT_ADD(stall, of_the_answer) {
	.writes_only = true,
};

FIXTURE_SETUP(stall)
{
	struct criu_image *image;
	int ret = restorer_open(&self->r);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, render_open(&self->render, 0));
	self->checkpoint = criu_session(&self->render, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->checkpoint);
	image = &self->r.saved.carry.image;
	self->size = image->num_bos * sizeof(*image->bos);
	ret = uffd_make(&self->table, variant->writes_only, image->bos, self->size);
	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	self->args = criu_image_args(self->r.session, image);
	self->args.bos = (uintptr_t)self->table.at;
	ASSERT_EQ(0, CALL(&self->restore, &self->r.kfd.node, RESTORE, &self->args));
	ASSERT_TRUE(uffd_is_waited_for(&self->table, SOON * patience()));
}

FIXTURE_TEARDOWN(stall)
{
	uffd_close(&self->table);
	close(self->checkpoint);
	criu_node_close(&self->render);
	restorer_close(&self->r);
}

static int serve(FIXTURE_DATA(stall) *self)
{
	return uffd_serve(&self->table, self->r.saved.carry.image.bos, self->size);
}

TEST_F(stall, outside_does_not_wait)
{
	struct amdgpu_criu_outside args = { .session_fd = self->checkpoint };
	struct caller outside;

	ASSERT_EQ(0, CALL(&outside, &self->render, OUTSIDE, &args));
	EXPECT_TRUE(caller_is_done(&outside, SOON * patience()));
	EXPECT_FALSE(self->restore.done);
	EXPECT_EQ(0, serve(self));
	EXPECT_EQ(0, caller_end(&outside));
	EXPECT_EQ(0, caller_end(&self->restore));
}

static void use_kfd(void)
{
	struct criu_node node;

	_exit(criu_node_open(&node, CRIU_NODE_KFD) ? 1 : 0);
}

/* Even while OUTSIDE runs. */
TEST_F(stall, processes_of_kfd_can_exit)
{
	struct amdgpu_criu_outside args = { .session_fd = self->checkpoint };
	struct caller outside;
	int status = -1;
	pid_t child;

	ASSERT_EQ(0, CALL(&outside, &self->render, OUTSIDE, &args));
	caller_is_done(&outside, 500);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		use_kfd();
	EXPECT_EQ(child, wait_for_exit(child, &status));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, serve(self));
	EXPECT_EQ(0, caller_end(&outside));
	EXPECT_EQ(0, caller_end(&self->restore));
}

TEST_F(stall, the_process_cannot_be_resumed_or_restored_meanwhile)
{
	const struct criu_node *node = &self->r.kfd.node;

	EXPECT_EQ(-EBADFD, criu_resume(node, self->r.session, 0));
	if (variant->writes_only) {
		EXPECT_EQ(-EBADFD, criu_restore(node, self->r.session,
						&self->r.saved.carry.image));
	}
	EXPECT_EQ(0, serve(self));
	EXPECT_EQ(0, caller_end(&self->restore));
	/* With the new offsets. */
	memcpy(self->r.saved.carry.image.bos, self->table.at, self->size);
	EXPECT_EQ(0, carry_fill(&self->r.saved.carry));
	EXPECT_EQ(0, criu_resume(node, self->r.session, 0));
}

TEST_F(stall, a_table_that_is_taken_away_leaves_nothing)
{
	EXPECT_EQ(0, uffd_take_away(&self->table));
	EXPECT_EQ(-EFAULT, caller_end(&self->restore));
	EXPECT_EQ(0, carry_restore(&self->r.saved.carry, &self->r.kfd, self->r.session));
	EXPECT_TRUE(state_is_filled(&self->r.saved.state, 1));
}

/* Another process allocates a userptr in memory that never arrives, and holds its lock. */
FIXTURE(fuse) {
	struct fuse_stall stall;
	struct criu_node render;
	int session;
	pid_t child;
};

static void allocate_stalled(const struct fuse_stall *stall)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = FUSE_STALL_SIZE, .flags = KFD_USERPTR,
	};
	struct kfd kfd;

	if (kfd_open(&kfd))
		_exit(1);
	args.gpu_id = kfd.gpu.gpu_id;
	args.mmap_offset = (uintptr_t)fuse_stall_map(stall);
	args.va_addr = args.mmap_offset;
	ioctl(kfd.node.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
	_exit(0);
}

FIXTURE_SETUP(fuse)
{
	struct kfd_gpu gpu;
	int ret;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ret = fuse_stall_make(&self->stall);
	if (ret)
		SKIP(return, "no file system in user space: %s", strerror(-ret));
	ASSERT_EQ(0, render_open(&self->render, 0));
	self->session = criu_session(&self->render, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	self->child = fork();
	ASSERT_LE(0, self->child);
	if (!self->child)
		allocate_stalled(&self->stall);
	ASSERT_TRUE(BECOMES_TRUE(self->stall.waiting));
}

FIXTURE_TEARDOWN(fuse)
{
	int status;

	fuse_stall_end(&self->stall);
	waitpid(self->child, &status, 0);
	close(self->session);
	criu_node_close(&self->render);
}

TEST_F(fuse, outside_does_not_wait_for_a_process_that_waits_for_memory)
{
	struct amdgpu_criu_outside args = { .session_fd = self->session };
	struct amdgpu_criu_process_info info;
	struct caller outside;
	__u32 handle;

	/* Without an object that is paused, nothing can be outside. */
	ASSERT_EQ(0, CALL(&outside, &self->render, OUTSIDE, &args));
	ASSERT_TRUE(caller_is_done(&outside, SOON * patience()));
	EXPECT_EQ(0, caller_end(&outside));
	ASSERT_EQ(0, render_bo_create(&self->render, 0x1000, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	ASSERT_EQ(0, criu_pause(&self->render, self->session, &info));
	ASSERT_EQ(0, CALL(&outside, &self->render, OUTSIDE, &args));
	/* The wait has a limit of its own. */
	ASSERT_TRUE(caller_is_done(&outside, 5 * SOON * patience()));
	EXPECT_EQ(-ETIME, caller_end(&outside));
}

/* The same on a render node. */
FIXTURE(render_stall) {
	struct criu_node node;
	struct criu_node to;
	struct criu_image image;
	struct amdgpu_criu_state args;
	struct uffd table;
	struct caller restore;
	size_t size;
	int session;
	int checkpoint;
};

FIXTURE_VARIANT(render_stall) {
	bool writes_only;
};

FIXTURE_VARIANT_ADD(render_stall, of_the_read) {
	.writes_only = false,
};

FIXTURE_VARIANT_ADD(render_stall, of_the_answer) {
	.writes_only = true,
};

FIXTURE_SETUP(render_stall)
{
	__u32 handle;
	int ret;

	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_bo_create(&self->node, 0x1000, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	self->checkpoint = criu_session(&self->to, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	ASSERT_LE(0, self->checkpoint);
	self->size = self->image.num_bos * sizeof(*self->image.bos);
	ret = uffd_make(&self->table, variant->writes_only, self->image.bos, self->size);
	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	self->args = criu_image_args(self->session, &self->image);
	self->args.bos = (uintptr_t)self->table.at;
	ASSERT_EQ(0, CALL(&self->restore, &self->to, RESTORE, &self->args));
	ASSERT_TRUE(uffd_is_waited_for(&self->table, SOON * patience()));
}

FIXTURE_TEARDOWN(render_stall)
{
	uffd_close(&self->table);
	close(self->session);
	close(self->checkpoint);
	criu_image_free(&self->image);
	criu_node_close(&self->node);
	criu_node_close(&self->to);
}

/* Before the file is changed, it may be paused; afterwards the session of the restore has it. */
TEST_F(render_stall, the_gate_does_not_wait)
{
	struct amdgpu_criu_process_info info = { .session_fd = self->checkpoint };
	struct caller pause;

	ASSERT_EQ(0, CALL(&pause, &self->to, PROCESS_INFO, &info));
	EXPECT_TRUE(caller_is_done(&pause, SOON * patience()));
	EXPECT_FALSE(self->restore.done);
	if (!variant->writes_only && pause.done) {
		EXPECT_EQ(0, criu_unpause(&self->to, self->checkpoint));
	}
	EXPECT_EQ(0, uffd_serve(&self->table, self->image.bos, self->size));
	EXPECT_EQ(variant->writes_only ? -EBUSY : 0, caller_end(&pause));
	EXPECT_EQ(0, caller_end(&self->restore));
}

TEST_F(render_stall, the_file_cannot_be_resumed_meanwhile)
{
	EXPECT_EQ(-EBADFD, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(0, uffd_serve(&self->table, self->image.bos, self->size));
	EXPECT_EQ(0, caller_end(&self->restore));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
}

TEST_F(render_stall, a_table_that_is_taken_away_leaves_nothing)
{
	EXPECT_EQ(0, uffd_take_away(&self->table));
	EXPECT_EQ(-EFAULT, caller_end(&self->restore));
	EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
}

TEST_HARNESS_MAIN
