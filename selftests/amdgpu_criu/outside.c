// SPDX-License-Identifier: GPL-2.0
/*
 * BOs and syncobjs that a process shares with others that are not checkpointed: OUTSIDE reports
 * sharing through this driver, and a BO that another driver has imported is refused.
 */
#include "kselftest_harness.h"

#include <fcntl.h>

#include "importer.h"
#include "kfd.h"
#include "render.h"
#include "share.h"
#include "state.h"

#define SIZE 0x20000

FIXTURE(outside) {
	struct criu_node node, other;
	int session;
	__u32 handle;
	struct amdgpu_criu_outside args;
};

FIXTURE_SETUP(outside)
{
	struct amdgpu_criu_process_info info;
	int ret = render_open(&self->node, 0);
	__u32 lower;

	if (ret == -ENOENT)
		SKIP(return, "no render node of amdgpu");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, render_open(&self->other, 0));
	ASSERT_EQ(0, render_bo_create(&self->node, 0x1000, AMDGPU_GEM_DOMAIN_GTT, 0, &lower));
	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0,
				      &self->handle));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	self->args.session_fd = self->session;
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &info));
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
}

FIXTURE_TEARDOWN(outside)
{
	close(self->session);
	criu_node_close(&self->node);
	criu_node_close(&self->other);
}

static int export_to(const struct criu_node *from, __u32 handle, const struct criu_node *to,
		     __u32 *imported)
{
	int ret, fd = render_bo_export(from, handle);

	if (fd < 0)
		return fd;
	ret = render_bo_import(to, fd, imported);
	close(fd);
	return ret;
}

static int pause_file(FIXTURE_DATA(outside) *self, const struct criu_node *node)
{
	struct amdgpu_criu_process_info info;

	return criu_pause(node, self->session, &info);
}

static void expect_found(struct __test_metadata *_metadata, FIXTURE_DATA(outside) *self,
			 pid_t pid)
{
	ASSERT_EQ(0, criu_op(&self->node, OUTSIDE, &self->args));
	EXPECT_EQ(1, self->args.num_bos);
	EXPECT_EQ(pid, self->args.pid);
	EXPECT_EQ(getpid(), self->args.paused_pid);
	EXPECT_EQ(SIZE, self->args.size);
}

static void expect_nothing(struct __test_metadata *_metadata, FIXTURE_DATA(outside) *self)
{
	const struct amdgpu_criu_outside none = { .session_fd = self->session };

	memset(&self->args, 0xff, sizeof(self->args));
	self->args.session_fd = self->session;
	self->args.flags = 0;
	self->args.pad = 0;
	ASSERT_EQ(0, criu_op(&self->node, OUTSIDE, &self->args));
	EXPECT_EQ(0, memcmp(&none, &self->args, sizeof(none)));
}

TEST_F(outside, bos_of_the_paused_file_alone_are_not_reported)
{
	__u32 own;

	expect_nothing(_metadata, self);
	/* Other files have other BOs, and this file has one BO twice. */
	ASSERT_EQ(0, render_bo_create(&self->other, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &own));
	ASSERT_EQ(0, export_to(&self->node, self->handle, &self->node, &own));
	ASSERT_EQ(0, pause_file(self, &self->node));
	expect_nothing(_metadata, self);
}

TEST_F(outside, a_handle_of_another_file_is_reported_until_it_is_paused_or_closed)
{
	__u32 imported, second;

	ASSERT_EQ(0, export_to(&self->node, self->handle, &self->other, &imported));
	/* A client that is not paused has nothing to report. */
	expect_nothing(_metadata, self);
	ASSERT_EQ(0, pause_file(self, &self->node));
	expect_found(_metadata, self, getpid());
	EXPECT_EQ(self->handle, self->args.handle);
	ASSERT_EQ(0, pause_file(self, &self->other));
	expect_nothing(_metadata, self);
	/* Vice versa: only the file that has imported it is paused. */
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	expect_found(_metadata, self, getpid());
	EXPECT_EQ(imported, self->args.handle);
	ASSERT_EQ(0, criu_unpause(&self->other, self->session));
	ASSERT_EQ(0, export_to(&self->node, 1, &self->other, &second));
	ASSERT_EQ(0, pause_file(self, &self->node));
	ASSERT_EQ(0, criu_op(&self->node, OUTSIDE, &self->args));
	EXPECT_EQ(2, self->args.num_bos);
	ASSERT_EQ(0, render_bo_close(&self->other, second));
	expect_found(_metadata, self, getpid());
	ASSERT_EQ(0, render_bo_close(&self->other, imported));
	expect_nothing(_metadata, self);
}

TEST_F(outside, a_handle_on_another_GPU_is_reported)
{
	struct criu_node far, farther;
	__u32 imported, again;

	if (render_open(&far, 1) == -ENOENT)
		SKIP(return, "needs two GPUs");
	ASSERT_EQ(0, render_open(&farther, 1));
	ASSERT_EQ(0, export_to(&self->node, self->handle, &far, &imported));
	ASSERT_EQ(0, pause_file(self, &self->node));
	expect_found(_metadata, self, getpid());
	/* Two imports, on the GPU that does not own the BO. */
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	ASSERT_EQ(0, export_to(&far, imported, &farther, &again));
	ASSERT_EQ(0, render_bo_close(&self->node, self->handle));
	ASSERT_EQ(0, pause_file(self, &far));
	expect_found(_metadata, self, getpid());
	EXPECT_EQ(imported, self->args.handle);
	ASSERT_EQ(0, pause_file(self, &farther));
	expect_nothing(_metadata, self);
	criu_node_close(&far);
	criu_node_close(&farther);
}

/* A restore would create two, and signals of one side would no longer reach the other. */
TEST_F(outside, a_syncobj_of_another_file_is_reported_until_it_is_paused_or_closed)
{
	__u32 syncobj, unrelated, imported, handle;
	int fd;

	ASSERT_EQ(0, render_syncobj_create(&self->other, 0, &unrelated));
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &syncobj));
	ASSERT_EQ(0, pause_file(self, &self->node));
	expect_nothing(_metadata, self);
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	fd = render_syncobj_export(&self->node, syncobj);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_syncobj_import(&self->other, fd, &imported));
	close(fd);
	ASSERT_EQ(0, pause_file(self, &self->node));
	ASSERT_EQ(0, criu_op(&self->node, OUTSIDE, &self->args));
	EXPECT_EQ(0, self->args.num_bos);
	EXPECT_EQ(1, self->args.num_syncobjs);
	EXPECT_EQ(getpid(), self->args.pid);
	EXPECT_EQ(getpid(), self->args.paused_pid);
	EXPECT_EQ(syncobj, self->args.handle);
	EXPECT_EQ(0, self->args.size);
	/* A BO is reported rather than a syncobj. */
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	ASSERT_EQ(0, export_to(&self->node, self->handle, &self->other, &handle));
	ASSERT_EQ(0, pause_file(self, &self->node));
	expect_found(_metadata, self, getpid());
	EXPECT_EQ(1, self->args.num_syncobjs);
	EXPECT_EQ(self->handle, self->args.handle);
	ASSERT_EQ(0, pause_file(self, &self->other));
	expect_nothing(_metadata, self);
	ASSERT_EQ(0, criu_unpause(&self->other, self->session));
	ASSERT_EQ(0, render_bo_close(&self->other, handle));
	ASSERT_EQ(0, render_syncobj_destroy(&self->other, imported));
	expect_nothing(_metadata, self);
}

/* One process of KFD; the test has its exported descriptors. */
struct board {
	struct kfd kfd;
	struct kfd_bo bo, import;
	pid_t test;
};

enum command {
	ALLOC, /* a descriptor */
	IMPORT, /* @argument: a descriptor of the test */
};

static int act(void *data, int command, int argument)
{
	struct board *board = data;
	int ret;

	if (command == ALLOC) {
		ret = kfd_bo_alloc(&board->kfd, &board->bo, KFD_GTT, SIZE);
		return ret ? ret : kfd_bo_export(&board->kfd, &board->bo);
	}
	ret = kfd_open(&board->kfd);
	board->kfd.next_address = STATE_ADDRESS;
	if (ret || argument < 0)
		return ret;
	return kfd_bo_import(&board->kfd, &board->import, fd_of_process(board->test, argument),
			     SIZE);
}

static void start(struct __test_metadata *_metadata, struct share_process *process,
		  struct board *board, int dmabuf)
{
	board->test = getpid();
	ASSERT_EQ(0, share_start(process, act, board));
	ASSERT_EQ(0, share_do(process, IMPORT, dmabuf));
}

/* One process allocates a BO and another imports it; each is paused without the other. */
TEST_F(outside, a_bo_that_KFD_processes_share_is_reported)
{
	struct board *boards = share_board(2 * sizeof(*boards));
	struct share_process owner, taker;
	struct kfd_gpu gpu;
	struct kfd kfd;
	int dmabuf;

	if (kfd_find_gpu(&gpu) == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	start(_metadata, &owner, &boards[0], -1);
	dmabuf = fd_of_process(owner.pid, share_do(&owner, ALLOC, 0));
	ASSERT_LE(0, dmabuf);
	ASSERT_EQ(0, kfd_open(&kfd));
	/* Not at an address that a child, which inherits the mappings, uses. */
	kfd.next_address = STATE_ADDRESS + 0x40000000;
	ASSERT_EQ(0, kfd_bo_import(&kfd, &boards[0].import, dmabuf, SIZE));
	ASSERT_EQ(0, pause_file(self, &kfd.node));
	expect_found(_metadata, self, owner.pid);
	share_kill(&owner);
	usleep(100 * 1000);
	/* The caller must find descriptors itself. */
	expect_nothing(_metadata, self);
	start(_metadata, &taker, &boards[1], dmabuf);
	expect_found(_metadata, self, taker.pid);
	share_kill(&taker);
	close(dmabuf);
	kfd_close(&kfd);
}

/* KFD allocates, a render node maps: virtual memory of ROCm. */
TEST_F(outside, a_bo_that_a_KFD_process_and_a_file_share_is_reported)
{
	struct drm_prime_handle prime = {};
	struct kfd_gpu gpu;
	struct kfd_bo bo;
	struct kfd kfd;

	if (kfd_find_gpu(&gpu) == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, kfd_open(&kfd));
	kfd.next_address = STATE_ADDRESS;
	ASSERT_EQ(0, kfd_bo_alloc(&kfd, &bo, KFD_GTT, SIZE));
	prime.fd = kfd_bo_export(&kfd, &bo);
	ASSERT_LE(0, prime.fd);
	ASSERT_EQ(0, render_ioctl(&self->other, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime));
	close(prime.fd);
	ASSERT_EQ(0, pause_file(self, &kfd.node));
	expect_found(_metadata, self, getpid());
	EXPECT_EQ((__u32)bo.handle, self->args.handle);
	ASSERT_EQ(0, pause_file(self, &self->other));
	expect_nothing(_metadata, self);
	ASSERT_EQ(0, criu_unpause(&kfd.node, self->session));
	expect_found(_metadata, self, getpid());
	EXPECT_EQ(prime.handle, self->args.handle);
	kfd_close(&kfd);
}

TEST_F(outside, a_bo_that_another_driver_has_imported_is_EOPNOTSUPP)
{
	struct share_exported *exported = share_board(sizeof(*exported));
	int dmabuf = render_bo_export(&self->node, self->handle);
	int importer = importer_pin(dmabuf);
	struct kfd_gpu gpu;
	struct kfd_bo bo;
	struct kfd kfd;

	if (importer == -ENOENT)
		SKIP(return, IMPORTER_MISSING);
	ASSERT_LE(0, importer);
	EXPECT_EQ(-EOPNOTSUPP, pause_file(self, &self->node));
	EXPECT_EQ(-EOPNOTSUPP, share_export_save(&self->other, self->session, dmabuf, exported));
	close(importer);
	EXPECT_EQ(0, share_export_save(&self->other, self->session, dmabuf, exported));
	EXPECT_EQ(0, pause_file(self, &self->node));
	close(dmabuf);

	if (!kfd_find_gpu(&gpu)) {
		ASSERT_EQ(0, kfd_open(&kfd));
		ASSERT_EQ(0, kfd_bo_alloc(&kfd, &bo, KFD_GTT, SIZE));
		dmabuf = kfd_bo_export(&kfd, &bo);
		importer = importer_pin(dmabuf);
		ASSERT_LE(0, importer);
		EXPECT_EQ(-EOPNOTSUPP, pause_file(self, &kfd.node));
		close(importer);
		EXPECT_EQ(0, pause_file(self, &kfd.node));
		close(dmabuf);
		kfd_close(&kfd);
	}
}

TEST_F(outside, invalid_arguments_are_refused)
{
	struct {
		struct amdgpu_criu_outside args;
		__u64 tail;
	} longer = { .args.session_fd = self->session };
	/* The first version of the structure. */
	const __u32 size = offsetof(struct amdgpu_criu_outside, num_syncobjs);
	struct criu_hole hole;
	int restore = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);

	ASSERT_EQ(32, size);
	ASSERT_EQ(0, criu_hole_make(&hole));
	EXPECT_EQ(-EINVAL, criu_call(&self->node, AMDGPU_CRIU_OP_OUTSIDE, size - 1, &longer));
	EXPECT_EQ(-EINVAL, criu_call(&self->node, AMDGPU_CRIU_OP_OUTSIDE, 0, &longer));
	EXPECT_EQ(0, criu_call(&self->node, AMDGPU_CRIU_OP_OUTSIDE, sizeof(longer), &longer));
	longer.tail = 1;
	EXPECT_EQ(-E2BIG, criu_call(&self->node, AMDGPU_CRIU_OP_OUTSIDE, sizeof(longer), &longer));
	EXPECT_EQ(-EFAULT, criu_call(&self->node, AMDGPU_CRIU_OP_OUTSIDE, size, hole.hole));
	self->args.flags = 1;
	EXPECT_EQ(-EINVAL, criu_op(&self->node, OUTSIDE, &self->args));
	self->args.flags = 0;
	self->args.pad = 1;
	EXPECT_EQ(-EINVAL, criu_op(&self->node, OUTSIDE, &self->args));
	self->args.pad = 0;
	self->args.session_fd = -1;
	EXPECT_EQ(-EBADF, criu_op(&self->node, OUTSIDE, &self->args));
	self->args.session_fd = restore;
	EXPECT_EQ(-EBADFD, criu_op(&self->node, OUTSIDE, &self->args));
	close(restore);
}

TEST_HARNESS_MAIN
