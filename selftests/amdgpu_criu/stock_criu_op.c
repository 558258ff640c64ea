// SPDX-License-Identifier: GPL-2.0
/*
 * AMDKFD_IOC_CRIU_OP, which exists since Linux 5.18, keeps working alongside the new ioctl.
 */
#include "kselftest_harness.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "criu.h"
#include "kfd.h"

#define SIZE 0x10000
#define ADDRESS ((char *)0x200000000000)
#define GFX11 110000

/* Data that one process passes to the next. */
struct stock_image {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket devices[8];
	struct kfd_criu_bo_bucket bos[8];
	char priv[0x40000];
	struct kfd_bo memory;
	struct kfd_queue queue;
	__u32 event;
	unsigned char ring[0x10000];
	unsigned char pointers[4096];
};

/* The memory, those of the queue, and the event page unless the kernel allocates it. */
#define NUM_BOS (kernel_is_at_least(7, 3) ? 4u : 3u)

FIXTURE(stock) {
	struct stock_image *image;
	struct kfd kfd;
};

FIXTURE_SETUP(stock)
{
	struct kfd_gpu gpu;

	if (geteuid())
		SKIP(return, "needs root");
	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	self->image = mmap(NULL, sizeof(*self->image), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->image);
}

FIXTURE_TEARDOWN(stock)
{
	kfd_close(&self->kfd);
	munmap(self->image, sizeof(*self->image));
}

static int stock_op(const struct kfd *kfd, __u32 op, struct kfd_ioctl_criu_args *args)
{
	args->op = op;
	return ioctl(kfd->node.fd, AMDKFD_IOC_CRIU_OP, args) ? -errno : 0;
}

static int make_state(struct kfd *kfd, struct stock_image *image, bool all_gpus)
{
	int ret = kfd_open(kfd);

	kfd->next_address = ADDRESS;
	/* As ROCm's user mode does: restore needs a file for every GPU. */
	if (!ret && all_gpus)
		ret = kfd_acquire_others(kfd);
	if (!ret)
		ret = kfd_bo_alloc(kfd, &image->memory, KFD_GTT, SIZE);
	if (!ret)
		ret = kfd_sdma_create(kfd, &image->queue);
	if (!ret)
		ret = kfd_event_create(kfd, false, &image->event);
	if (!ret)
		ret = kfd_event_set(kfd, image->event);
	if (ret)
		return ret;
	memset(image->memory.at, 0x5a, SIZE);
	kfd_sdma_write(&image->queue, image->memory.at, 1);
	return kfd_becomes(image->memory.at, 1, 5000) ? 0 : -ETIME;
}

static int checkpoint(struct kfd *kfd, struct stock_image *image)
{
	struct kfd_ioctl_criu_args *args = &image->args;
	int ret = stock_op(kfd, KFD_CRIU_OP_PROCESS_INFO, args);

	if (ret)
		return ret;
	if (args->num_devices > ARRAY_SIZE(image->devices) ||
	    args->num_bos > ARRAY_SIZE(image->bos) || args->priv_data_size > sizeof(image->priv))
		return -ENOSPC;
	args->devices = (uintptr_t)image->devices;
	args->bos = (uintptr_t)image->bos;
	args->priv_data = (uintptr_t)image->priv;
	ret = stock_op(kfd, KFD_CRIU_OP_CHECKPOINT, args);
	if (ret)
		return ret;
	memcpy(image->ring, image->queue.ring.at, sizeof(image->ring));
	memcpy(image->pointers, image->queue.pointers.at, sizeof(image->pointers));
	return 0;
}

static int open_target(struct kfd *kfd, struct stock_image *image)
{
	struct kfd_gpu gpu;
	__u32 i, index;
	int ret = kfd_find_gpu(&kfd->gpu);

	if (!ret)
		ret = criu_node_open(&kfd->node, CRIU_NODE_KFD);
	if (ret)
		return ret;
	for (index = 0; !kfd_gpu_at(index, &gpu); index++) {
		int fd = kfd_render_open(&gpu);

		if (fd < 0)
			return fd;
		if (!index)
			kfd->drm_fd = fd;
		for (i = 0; i < image->args.num_devices; i++)
			if (image->devices[i].actual_gpu_id == gpu.gpu_id)
				image->devices[i].drm_fd = fd;
	}
	return 0;
}

static int put_back(struct kfd *kfd, struct stock_image *image)
{
	struct {
		struct kfd_bo *bo;
		const unsigned char *contents;
	} what[] = {
		{ &image->memory, NULL },
		{ &image->queue.ring, image->ring },
		{ &image->queue.pointers, image->pointers },
	};
	__u32 i, j;

	for (i = 0; i < ARRAY_SIZE(what); i++) {
		for (j = 0; image->bos[j].addr != (uintptr_t)what[i].bo->at; j++)
			if (j + 1 == image->args.num_bos)
				return -ENOENT;
		if (mmap(what[i].bo->at, what[i].bo->size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED_NOREPLACE, kfd->drm_fd,
			 image->bos[j].restored_offset) == MAP_FAILED)
			return -errno;
		if (what[i].contents)
			memcpy(what[i].bo->at, what[i].contents, what[i].bo->size);
	}
	return kfd_doorbell_map(kfd, &image->queue);
}

/* In a child, which the test then replaces. */
static int checkpoint_in_child(struct stock_image *image)
{
	int status;
	pid_t child = fork();

	if (!child) {
		struct kfd kfd;
		int ret = make_state(&kfd, image, true);

		_exit(ret ? -ret : -checkpoint(&kfd, image));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

TEST_F(stock, pauses_and_unpauses)
{
	struct stock_image *image = self->image;
	struct kfd_ioctl_criu_args args = {};

	ASSERT_EQ(0, make_state(&self->kfd, image, true));
	ASSERT_EQ(0, stock_op(&self->kfd, KFD_CRIU_OP_PROCESS_INFO, &args));
	EXPECT_EQ(getpid(), args.pid);
	EXPECT_EQ(NUM_BOS, args.num_bos);
	kfd_sdma_write(&image->queue, image->memory.at, 2);
	EXPECT_FALSE(kfd_becomes(image->memory.at, 2, 300));
	ASSERT_EQ(0, stock_op(&self->kfd, KFD_CRIU_OP_UNPAUSE, &args));
	EXPECT_TRUE(kfd_becomes(image->memory.at, 2, 5000));
}

/* Why this ioctl restores no queue on the GPU, or NULL. */
static const char *obstacle_on(const struct kfd_gpu *gpu)
{
	/* MES needs the BO of the write pointer, which a restore does not look up. */
	if (gpu->gfx_version >= GFX11)
		return "the stock ioctl restores no queue that MES schedules";
	/* A checkpoint has the MQDs of all XCCs, a restore expects that of one. */
	if (gpu->num_xcc > 1)
		return "the stock ioctl restores no queue of several XCCs";
	return NULL;
}

TEST_F(stock, checkpoints_and_restores)
{
	struct stock_image *image = self->image;
	struct kfd_ioctl_criu_args *args = &image->args;
	const char *obstacle;

	ASSERT_EQ(0, checkpoint_in_child(image));
	ASSERT_EQ(NUM_BOS, args->num_bos);
	ASSERT_EQ(0, open_target(&self->kfd, image));
	obstacle = obstacle_on(&self->kfd.gpu);
	if (obstacle) {
		ASSERT_EQ(-EINVAL, stock_op(&self->kfd, KFD_CRIU_OP_RESTORE, args));
		SKIP(return, "%s", obstacle);
	}
	ASSERT_EQ(0, stock_op(&self->kfd, KFD_CRIU_OP_RESTORE, args));
	ASSERT_EQ(0, put_back(&self->kfd, image));
	args->pid = getpid();
	ASSERT_EQ(0, stock_op(&self->kfd, KFD_CRIU_OP_RESUME, args));
	kfd_sdma_write(&image->queue, image->memory.at, 3);
	EXPECT_TRUE(kfd_becomes(image->memory.at, 3, 5000));
	EXPECT_EQ(0, kfd_event_wait(&self->kfd, image->event, 0));
}

/* The other GPUs are not examined. */
TEST_F(stock, checkpoints_a_process_that_uses_one_gpu)
{
	struct stock_image *image = self->image;

	ASSERT_EQ(0, make_state(&self->kfd, image, false));
	ASSERT_EQ(0, checkpoint(&self->kfd, image));
	EXPECT_EQ(NUM_BOS, image->args.num_bos);
	EXPECT_EQ(0, stock_op(&self->kfd, KFD_CRIU_OP_UNPAUSE, &image->args));
}

/* A process is not paused by both. */
TEST_F(stock, excludes_the_new_ioctl_and_vice_versa)
{
	struct amdgpu_criu_process_info info;
	struct kfd_ioctl_criu_args args = {};
	int session;

	ASSERT_EQ(0, make_state(&self->kfd, self->image, true));
	session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, stock_op(&self->kfd, KFD_CRIU_OP_PROCESS_INFO, &args));
	EXPECT_EQ(-EBUSY, criu_pause(&self->kfd.node, session, &info));
	ASSERT_EQ(0, stock_op(&self->kfd, KFD_CRIU_OP_UNPAUSE, &args));
	EXPECT_EQ(0, criu_pause(&self->kfd.node, session, &info));
	EXPECT_EQ(0, criu_unpause(&self->kfd.node, session));
	kfd_sdma_write(&self->image->queue, self->image->memory.at, 4);
	EXPECT_TRUE(kfd_becomes(self->image->memory.at, 4, 5000));
	close(session);
}

TEST_HARNESS_MAIN
