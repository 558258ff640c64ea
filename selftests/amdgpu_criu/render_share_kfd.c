// SPDX-License-Identifier: GPL-2.0
/*
 * One BO of both nodes: allocated by KFD, imported on the render node and mapped there, as ROCm's
 * virtual-memory API does; and vice versa.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "kfd.h"
#include "render.h"
#include "share.h"
#include "state.h"

#define SIZE 0x20000
#define RENDER_VA 0x300000000000
#define SOON 5000

enum command {
	OPEN,
	OPEN_EMPTY,
	FROM_KFD, /* a BO of KFD, in the domain @argument */
	FROM_RENDER, /* a BO of the render node, in the domain @argument */
	PIN, /* makes the BO the event page */
	SAVE,
	RESTORE_KFD,
	RESTORE_RENDER,
	RESUME,
	WRITE_KFD, /* @argument, at KFD's address of the BO */
	WRITE_RENDER, /* @argument, at the render node's address */
	READ, /* the first word, by a mapping of the render node */
	FREE, /* the BO of KFD */
	EVENT, /* a further event, on the page */
};

struct board {
	struct kfd kfd;
	struct kfd_bo bo;
	struct kfd_queue queue;
	__u32 handle;
	__u32 *words;
	struct share_image kfd_image, render_image;
	struct share_exported exported;
	int save, restore;
};

static struct criu_node render_node(const struct board *board)
{
	return (struct criu_node) { .fd = board->kfd.drm_fd, .kind = CRIU_NODE_RENDER };
}

static int describe(struct board *board, int dmabuf)
{
	struct criu_node node = render_node(board);
	int ret = render_va_map(&node, board->handle, RENDER_VA, SIZE);

	if (!ret)
		ret = share_export_save(&node, board->save, dmabuf, &board->exported);
	close(dmabuf);
	return ret;
}

static int from_kfd(struct board *board, __u32 flags)
{
	struct criu_node node = render_node(board);
	int fd, ret = kfd_bo_alloc(&board->kfd, &board->bo, flags, SIZE);

	if (ret)
		return ret;
	fd = kfd_bo_export(&board->kfd, &board->bo);
	if (fd < 0)
		return fd;
	ret = render_bo_import(&node, fd, &board->handle);
	return ret ? ret : describe(board, fd);
}

static int from_render(struct board *board, __u32 flags)
{
	__u32 domain = flags == KFD_VRAM ? AMDGPU_GEM_DOMAIN_VRAM : AMDGPU_GEM_DOMAIN_GTT;
	struct criu_node node = render_node(board);
	int fd, ret = render_bo_create(&node, SIZE, domain, 0, &board->handle);

	if (ret)
		return ret;
	fd = render_bo_export(&node, board->handle);
	if (fd < 0)
		return fd;
	ret = kfd_bo_import(&board->kfd, &board->bo, fd, SIZE);
	return ret ? ret : describe(board, fd);
}

static int save_node(const struct criu_node *node, int session, struct share_image *to)
{
	struct criu_image image;
	int ret = criu_checkpoint(node, session, &image);

	if (!ret)
		ret = share_put(to, &image);
	criu_image_free(&image);
	return ret;
}

static int save(struct board *board)
{
	struct criu_node node = render_node(board);
	int ret = save_node(&board->kfd.node, board->save, &board->kfd_image);

	return ret ? ret : save_node(&node, board->save, &board->render_image);
}

static int open_nodes(struct board *board)
{
	struct share_image *image = &board->kfd_image;
	struct kfd *kfd = &board->kfd;
	int ret = criu_node_open(&kfd->node, CRIU_NODE_KFD);
	__u32 i;

	/* So that the test has the last descriptor of what is done with. */
	close(board->save);
	kfd->drm_fd = kfd_render_open(&kfd->gpu);
	for (i = 0; i < image->num_devices; i++)
		image->devices[i].drm_fd = image->devices[i].actual_gpu_id == kfd->gpu.gpu_id ?
					   kfd->drm_fd : -1;
	return ret;
}

static int restore_kfd(struct board *board)
{
	struct criu_image image = share_get(&board->kfd_image);

	return criu_restore(&board->kfd.node, board->restore, &image);
}

static int restore_render(struct board *board)
{
	struct criu_image image = share_get(&board->render_image);
	struct criu_node node = render_node(board);

	return criu_restore(&node, board->restore, &image);
}

static int resume(struct board *board)
{
	struct criu_node node = render_node(board);
	int ret = criu_resume(&node, board->restore, 0);

	if (!ret)
		ret = criu_resume(&board->kfd.node, board->restore, 0);
	if (ret)
		return ret;
	board->words = render_bo_mmap(&node, board->handle, SIZE);
	board->kfd.next_address = STATE_ADDRESS + 0x40000000;
	return board->words ? kfd_sdma_create(&board->kfd, &board->queue) : -ENOMEM;
}

static int gpu_write(struct board *board, __u32 *to, __u32 value)
{
	__u32 *fence = board->queue.pointers.at;

	kfd_sdma_write(&board->queue, to, value);
	kfd_sdma_write(&board->queue, fence, value);
	return kfd_becomes(fence, value, SOON) ? 0 : -ETIME;
}

static int act(void *data, int command, int argument)
{
	struct board *board = data;
	struct kfd *kfd = &board->kfd;
	__u32 event;

	switch (command) {
	case OPEN:
		argument = kfd_open(kfd);
		kfd->next_address = STATE_ADDRESS;
		return argument;
	case OPEN_EMPTY:
		return open_nodes(board);
	case FROM_KFD:
		return from_kfd(board, argument);
	case FROM_RENDER:
		return from_render(board, argument);
	case PIN: {
		struct kfd_ioctl_create_event_args args = {
			.event_type = KFD_IOC_EVENT_SIGNAL,
			.event_page_offset = board->bo.handle,
		};

		return ioctl(kfd->node.fd, AMDKFD_IOC_CREATE_EVENT, &args) ? -errno : 0;
	}
	case SAVE:
		return save(board);
	case RESTORE_KFD:
		return restore_kfd(board);
	case RESTORE_RENDER:
		return restore_render(board);
	case RESUME:
		return resume(board);
	case WRITE_KFD:
		return gpu_write(board, board->bo.at, argument);
	case WRITE_RENDER:
		return gpu_write(board, (__u32 *)RENDER_VA, argument);
	case READ:
		return board->words[0];
	case FREE:
		return kfd_bo_free(kfd, &board->bo);
	case EVENT:
		return kfd_event_create(kfd, true, &event);
	default:
		return -EINVAL;
	}
}

struct crew {
	struct criu_node node;
	struct share_process process;
	struct board *board;
};

FIXTURE(both) {
	struct crew crew;
};

FIXTURE_VARIANT(both) {
	__u32 flags;
	enum command from;
};

FIXTURE_VARIANT_ADD(both, vram_of_kfd) {
	.flags = KFD_VRAM, .from = FROM_KFD,
};

FIXTURE_VARIANT_ADD(both, gtt_of_kfd) {
	.flags = KFD_GTT, .from = FROM_KFD,
};

FIXTURE_VARIANT_ADD(both, vram_of_the_render_node) {
	.flags = KFD_VRAM, .from = FROM_RENDER,
};

FIXTURE_VARIANT_ADD(both, gtt_of_the_render_node) {
	.flags = KFD_GTT, .from = FROM_RENDER,
};

static int make(struct crew *crew, enum command from, __u32 flags)
{
	struct board *board = share_board(sizeof(*board));
	int ret;

	crew->board = board;
	if (!board)
		return -ENOMEM;
	board->save = criu_session(&crew->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	board->restore = criu_session(&crew->node, AMDGPU_CRIU_SESSION_RESTORE);
	ret = share_start(&crew->process, act, board);
	if (!ret)
		ret = share_do(&crew->process, OPEN, 0);
	return ret ? ret : share_do(&crew->process, from, flags);
}

static void end(struct crew *crew)
{
	share_kill(&crew->process);
	close(crew->board->save);
	close(crew->board->restore);
	munmap(crew->board, sizeof(*crew->board));
	criu_node_close(&crew->node);
}

#define DO(command, argument) share_do(&self->crew.process, command, argument)

FIXTURE_SETUP(both)
{
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, render_open(&self->crew.node, 0));
	ASSERT_EQ(0, make(&self->crew, variant->from, variant->flags));
}

FIXTURE_TEARDOWN(both)
{
	end(&self->crew);
}

/* Checkpoints the process, and replaces it by a new one. */
static int move(struct crew *crew)
{
	int ret = share_do(&crew->process, SAVE, 0);

	share_kill(&crew->process);
	if (!ret)
		ret = share_start(&crew->process, act, crew->board);
	return ret ? ret : share_do(&crew->process, OPEN_EMPTY, 0);
}

static int create_first(struct crew *crew)
{
	int fd = share_export_restore(&crew->node, crew->board->restore, &crew->board->exported);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void expect_shared(struct __test_metadata *_metadata, FIXTURE_DATA(both) *self)
{
	ASSERT_EQ(0, DO(WRITE_KFD, 5));
	EXPECT_EQ(5, DO(READ, 0));
	ASSERT_EQ(0, DO(WRITE_RENDER, 6));
	EXPECT_EQ(6, DO(READ, 0));
	/* The handle and mapping of the render node stay. */
	ASSERT_EQ(0, DO(FREE, 0));
	ASSERT_EQ(0, DO(WRITE_RENDER, 7));
	EXPECT_EQ(7, DO(READ, 0));
}

TEST_F(both, nodes_use_one_id)
{
	const struct share_image *kfd = &self->crew.board->kfd_image;
	const struct share_image *render = &self->crew.board->render_image;

	ASSERT_EQ(0, move(&self->crew));
	ASSERT_EQ(1, kfd->num_bos);
	ASSERT_EQ(1, render->num_bos);
	EXPECT_EQ(kfd->bos[0].object_id, render->bos[0].object_id);
	EXPECT_EQ(kfd->bos[0].object_id, self->crew.board->exported.bo.object_id);
	EXPECT_EQ(variant->from == FROM_RENDER,
		  !!(kfd->bos[0].flags & AMDGPU_CRIU_BO_IMPORTED));
	EXPECT_FALSE(render->bos[0].flags & AMDGPU_CRIU_BO_IMPORTED);
}

TEST_F(both, is_restored_as_one_bo)
{
	ASSERT_EQ(0, move(&self->crew));
	if (variant->from == FROM_RENDER)
		ASSERT_EQ(0, create_first(&self->crew));
	ASSERT_EQ(0, DO(RESTORE_KFD, 0));
	ASSERT_EQ(0, DO(RESTORE_RENDER, 0));
	ASSERT_EQ(0, DO(RESUME, 0));
	expect_shared(_metadata, self);
}

/* Another process may have restored it before KFD restores it here. */
TEST_F(both, is_restored_as_one_bo_if_it_was_restored_before)
{
	ASSERT_EQ(0, move(&self->crew));
	ASSERT_EQ(0, create_first(&self->crew));
	ASSERT_EQ(0, DO(RESTORE_KFD, 0));
	ASSERT_EQ(0, DO(RESTORE_RENDER, 0));
	ASSERT_EQ(0, DO(RESUME, 0));
	expect_shared(_metadata, self);
}

TEST_F(both, the_render_node_waits_for_kfd)
{
	ASSERT_EQ(0, move(&self->crew));
	EXPECT_EQ(-EBADFD, DO(RESTORE_RENDER, 0));
}

/*
 * The number of pinned BOs of that size in debugfs; -ENOENT without debugfs. A GPU in partitions
 * has a file for each that it could have, with the BOs of all.
 */
static int pinned(int size)
{
	char line[256], path[64];
	int card, for_card, num = -ENOENT;
	FILE *file;

	for (card = 0; card < 64; card++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/dri/%d/amdgpu_gem_info", card);
		file = fopen(path, "r");
		if (!file)
			continue;
		for_card = 0;
		while (fgets(line, sizeof(line), file)) {
			const char *bytes = strchr(line, ':');

			for_card += bytes && atoi(bytes + 1) == size && strstr(line, "pin count");
		}
		fclose(file);
		num = for_card > num ? for_card : num;
	}
	return num;
}

/* KFD frees a process some time after it has exited. */
static bool becomes_unpinned(int size)
{
	int tries;

	for (tries = 0; tries < SOON / 50 && pinned(size); tries++)
		usleep(50000);
	return !pinned(size);
}

/* KFD pins the event page, which the kernel writes to. */
FIXTURE(pinned) {
	struct crew crew;
};

FIXTURE_SETUP(pinned)
{
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	if (pinned(SIZE) < 0)
		SKIP(return, "no debugfs with the pinned BOs");
	ASSERT_EQ(0, render_open(&self->crew.node, 0));
	ASSERT_EQ(0, make(&self->crew, FROM_KFD, KFD_GTT));
}

FIXTURE_TEARDOWN(pinned)
{
	end(&self->crew);
}

TEST_F(pinned, stays_pinned)
{
	EXPECT_EQ(0, pinned(SIZE));
	ASSERT_EQ(0, DO(PIN, 0));
	EXPECT_EQ(1, pinned(SIZE));
	ASSERT_EQ(0, move(&self->crew));
	/* The session holds a reference to the process that it has paused. */
	close(self->crew.board->save);
	EXPECT_TRUE(becomes_unpinned(SIZE));
	ASSERT_EQ(0, DO(RESTORE_KFD, 0));
	ASSERT_EQ(0, DO(RESTORE_RENDER, 0));
	ASSERT_EQ(0, DO(RESUME, 0));
	EXPECT_EQ(1, pinned(SIZE));
	EXPECT_EQ(0, DO(EVENT, 0));
	ASSERT_EQ(0, DO(WRITE_RENDER, 6));
	EXPECT_EQ(6, DO(READ, 0));
}

TEST_HARNESS_MAIN
