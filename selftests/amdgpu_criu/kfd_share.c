// SPDX-License-Identifier: GPL-2.0
/* BOs that KFD processes share by dma-buf: after a restore all still see what one writes. */
#include "kselftest_harness.h"

#include <pthread.h>
#include <stdatomic.h>

#include "kfd.h"
#include "patience.h"
#include "render.h"
#include "share.h"
#include "state.h"
#include "uffd.h"

#define SIZE 0x20000
#define SOON 5000

enum command {
	OPEN, /* nodes and VM, and a queue to check memory with */
	OPEN_EMPTY, /* nodes only */
	ALLOC,
	EXPORT, /* a descriptor */
	IMPORT, /* @argument: a descriptor of the test */
	SAVE,
	RESTORE,
	RESTORE_TO_READ_ONLY,
	RESTORE_TO_LOST,
	QUEUE,
	WRITE, /* the GPU writes @argument to the first word */
	WRITE_IMPORT, /* the same, through the import */
	READ, /* the first word, by the CPU */
	FREE,
	FREE_IMPORT,
};

/* State of one process, and of the process that replaces it. */
struct member {
	struct kfd kfd;
	struct kfd_bo bo;
	struct kfd_bo import;
	struct kfd_queue queue;
	struct share_image image;
	__u32 *words;
	pid_t test;
};

/* What RESTORE_TO_LOST does: its results are lost once the test has seen that they WAIT. */
enum lost { START, WAIT, LOSE, LACKS };

struct board {
	struct member members[3];
	int save, restore;
	atomic_int lost;
};

static struct board *board;

static int open_nodes(struct member *member)
{
	struct share_image *image = &member->image;
	struct kfd *kfd = &member->kfd;
	__u32 i;
	int ret;

	ret = criu_node_open(&kfd->node, CRIU_NODE_KFD);
	if (ret)
		return ret;
	kfd->drm_fd = kfd_render_open(&kfd->gpu);
	for (i = 0; i < image->num_devices; i++)
		image->devices[i].drm_fd = image->devices[i].actual_gpu_id == kfd->gpu.gpu_id ?
					   kfd->drm_fd : -1;
	return kfd->drm_fd < 0 ? kfd->drm_fd : 0;
}

static int save(struct member *member)
{
	struct criu_image image;
	int ret = criu_checkpoint(&member->kfd.node, board->save, &image);

	if (!ret)
		ret = share_put(&member->image, &image);
	criu_image_free(&image);
	return ret;
}

/* Through the first BO of the table, which is the import if there is no other. */
static int map_words(struct member *member)
{
	member->words = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, member->kfd.drm_fd,
			     member->image.bos[0].new_mmap_offset);
	return member->words == MAP_FAILED ? -errno : 0;
}

static int restore(struct member *member)
{
	struct criu_image image = share_get(&member->image);
	int ret = criu_restore(&member->kfd.node, board->restore, &image);

	if (!ret)
		ret = map_words(member);
	return ret ? ret : criu_resume(&member->kfd.node, board->restore, 0);
}

/* The results cannot be written, so all of it is undone. */
static int restore_to_read_only(struct member *member)
{
	struct criu_image image = share_get(&member->image);
	const size_t size = image.num_bos * sizeof(*image.bos);
	void *table = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
		return -errno;
	memcpy(table, image.bos, size);
	if (mprotect(table, size, PROT_READ))
		return -errno;
	image.bos = table;
	return criu_restore(&member->kfd.node, board->restore, &image);
}

static void *lose(void *table)
{
	if (!uffd_is_waited_for(table, SOON * patience()))
		return NULL;
	board->lost = WAIT;
	while (board->lost == WAIT)
		usleep(1000);
	return uffd_take_away(table) ? NULL : table;
}

/* As restore_to_read_only(), after another process has found what is created. */
static int restore_to_lost(struct member *member)
{
	struct criu_image image = share_get(&member->image);
	struct uffd table;
	pthread_t thread;
	int ret = uffd_make(&table, true, image.bos, image.num_bos * sizeof(*image.bos));

	if (ret) {
		board->lost = LACKS;
		return ret;
	}
	image.bos = (struct amdgpu_criu_bo *)table.at;
	ret = -pthread_create(&thread, NULL, lose, &table);
	if (!ret) {
		ret = criu_restore(&member->kfd.node, board->restore, &image);
		pthread_join(thread, NULL);
	}
	uffd_close(&table);
	return ret;
}

static int gpu_write(struct member *member, const struct kfd_bo *bo, __u32 value)
{
	__u32 *fence = member->queue.pointers.at;

	kfd_sdma_write(&member->queue, bo->at, value);
	/* The write after it signals that it is complete. */
	kfd_sdma_write(&member->queue, fence, value);
	return kfd_becomes(fence, value, SOON) ? 0 : -ETIME;
}

static int act(void *data, int command, int argument)
{
	struct member *member = data;
	struct kfd *kfd = &member->kfd;

	switch (command) {
	case OPEN:
		kfd->next_address = STATE_ADDRESS;
		argument = kfd_open(kfd);
		kfd->next_address = STATE_ADDRESS;
		return argument;
	case OPEN_EMPTY:
		return open_nodes(member);
	case ALLOC:
		return kfd_bo_alloc(kfd, &member->bo, argument, SIZE);
	case EXPORT:
		return kfd_bo_export(kfd, &member->bo);
	case IMPORT:
		return kfd_bo_import(kfd, &member->import, fd_of_process(member->test, argument),
				     SIZE);
	case SAVE:
		return save(member);
	case RESTORE:
		return restore(member);
	case RESTORE_TO_READ_ONLY:
		return restore_to_read_only(member);
	case RESTORE_TO_LOST:
		return restore_to_lost(member);
	case QUEUE:
		/* In addition to the restored state. */
		kfd->next_address = STATE_ADDRESS + 0x40000000;
		return kfd_sdma_create(kfd, &member->queue);
	case WRITE:
		return gpu_write(member, &member->bo, argument);
	case WRITE_IMPORT:
		return gpu_write(member, &member->import, argument);
	case READ:
		return member->words[0];
	case FREE:
		return kfd_bo_free(kfd, &member->bo);
	case FREE_IMPORT:
		return kfd_bo_free(kfd, &member->import);
	default:
		return -EINVAL;
	}
}

FIXTURE(kfd_share) {
	struct criu_node node;
	struct share_process processes[3];
	struct share_exported exported;
};

FIXTURE_VARIANT(kfd_share) {
	__u32 flags;
};

FIXTURE_VARIANT_ADD(kfd_share, vram) {
	.flags = KFD_VRAM,
};

FIXTURE_VARIANT_ADD(kfd_share, gtt) {
	.flags = KFD_GTT,
};

FIXTURE_SETUP(kfd_share)
{
	struct kfd_gpu gpu;
	size_t i;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, criu_node_open(&self->node, CRIU_NODE_RENDER));
	board = share_board(sizeof(*board));
	ASSERT_NE(NULL, board);
	board->save = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	board->restore = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, board->save);
	ASSERT_LE(0, board->restore);
	ASSERT_EQ(0, render_keep(board->restore));
	for (i = 0; i < ARRAY_SIZE(board->members); i++) {
		board->members[i].test = getpid();
		ASSERT_EQ(0, share_start(&self->processes[i], act, &board->members[i]));
	}
}

FIXTURE_TEARDOWN(kfd_share)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(self->processes); i++)
		share_kill(&self->processes[i]);
	close(board->save);
	close(board->restore);
	munmap(board, sizeof(*board));
	criu_node_close(&self->node);
}

#define DO(who, command, argument) share_do(&self->processes[who], command, argument)

/* Process 0 allocates, the others import. */
static int make(FIXTURE_DATA(kfd_share) *self, __u32 flags, int num)
{
	int dmabuf, fd, i, ret = 0;

	for (i = 0; !ret && i < num; i++)
		ret = DO(i, OPEN, 0);
	if (!ret)
		ret = DO(0, ALLOC, flags);
	dmabuf = ret ? ret : DO(0, EXPORT, 0);
	if (dmabuf < 0)
		return dmabuf;
	fd = fd_of_process(self->processes[0].pid, dmabuf);
	if (fd < 0)
		return fd;
	for (i = 1; !ret && i < num; i++)
		ret = DO(i, IMPORT, fd);
	if (!ret)
		ret = share_export_save(&self->node, board->save, fd, &self->exported);
	close(fd);
	return ret;
}

/* Checkpoints them, and replaces them by new processes. */
static int move(FIXTURE_DATA(kfd_share) *self, int num)
{
	int i, ret = 0;

	for (i = 0; !ret && i < num; i++)
		ret = DO(i, SAVE, 0);
	for (i = 0; !ret && i < num; i++) {
		share_kill(&self->processes[i]);
		ret = share_start(&self->processes[i], act, &board->members[i]);
		if (!ret)
			ret = DO(i, OPEN_EMPTY, 0);
	}
	return ret;
}

static int create_first(FIXTURE_DATA(kfd_share) *self)
{
	int fd = share_export_restore(&self->node, board->restore, &self->exported);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* All see what each writes, by GPU or CPU. */
static void expect_shared(struct __test_metadata *_metadata, FIXTURE_DATA(kfd_share) *self,
			  int num)
{
	int i, j;

	for (i = 0; i < num; i++) {
		ASSERT_EQ(0, DO(i, QUEUE, 0));
		ASSERT_EQ(0, DO(i, i ? WRITE_IMPORT : WRITE, 100 + i));
		for (j = 0; j < num; j++) {
			EXPECT_EQ(100 + i, DO(j, READ, 0)) {
				TH_LOG("%d wrote, %d reads", i, j);
			}
		}
	}
}

TEST_F(kfd_share, one_object_has_one_id)
{
	const struct share_image *image = &board->members[0].image;
	__u32 i;

	ASSERT_EQ(0, make(self, variant->flags, 3));
	ASSERT_EQ(0, move(self, 3));
	ASSERT_EQ(1, image->num_bos);
	EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_SHARED, image->bos[0].flags);
	EXPECT_EQ(self->exported.bo.object_id, image->bos[0].object_id);
	for (i = 1; i < 3; i++) {
		const struct share_image *other = &board->members[i].image;

		ASSERT_EQ(1, other->num_bos);
		EXPECT_EQ(image->bos[0].object_id, other->bos[0].object_id);
		EXPECT_EQ(SIZE, other->bos[0].size);
		EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_SHARED |
			  AMDGPU_CRIU_BO_IMPORTED, other->bos[0].flags);
	}
}

TEST_F(kfd_share, restoring_the_owner_first_works)
{
	ASSERT_EQ(0, make(self, variant->flags, 3));
	ASSERT_EQ(0, move(self, 3));
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	ASSERT_EQ(0, DO(1, RESTORE, 0));
	ASSERT_EQ(0, DO(2, RESTORE, 0));
	expect_shared(_metadata, self, 3);
}

TEST_F(kfd_share, restoring_the_owner_last_works)
{
	ASSERT_EQ(0, make(self, variant->flags, 3));
	ASSERT_EQ(0, move(self, 3));
	ASSERT_EQ(0, create_first(self));
	ASSERT_EQ(0, DO(2, RESTORE, 0));
	ASSERT_EQ(0, DO(1, RESTORE, 0));
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	expect_shared(_metadata, self, 3);
}

TEST_F(kfd_share, restoring_all_at_once_works)
{
	int i;

	ASSERT_EQ(0, make(self, variant->flags, 3));
	ASSERT_EQ(0, move(self, 3));
	ASSERT_EQ(0, create_first(self));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, share_begin(&self->processes[i], RESTORE, 0));
	}
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, share_end(&self->processes[i]));
	}
	expect_shared(_metadata, self, 3);
}

TEST_F(kfd_share, an_import_that_was_not_created_is_EBADFD)
{
	ASSERT_EQ(0, make(self, variant->flags, 2));
	ASSERT_EQ(0, move(self, 2));
	EXPECT_EQ(-EBADFD, DO(1, RESTORE, 0));
	/* Nothing is left, and later it works. */
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	EXPECT_EQ(0, DO(1, RESTORE, 0));
}

TEST_F(kfd_share, closing_one_does_not_free_the_rest)
{
	ASSERT_EQ(0, make(self, variant->flags, 3));
	ASSERT_EQ(0, move(self, 3));
	ASSERT_EQ(0, create_first(self));
	ASSERT_EQ(0, DO(1, RESTORE, 0));
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	ASSERT_EQ(0, DO(2, RESTORE, 0));
	ASSERT_EQ(0, DO(2, QUEUE, 0));
	ASSERT_EQ(0, DO(0, FREE, 0));
	ASSERT_EQ(0, DO(2, WRITE_IMPORT, 7));
	EXPECT_EQ(7, DO(1, READ, 0));
	share_kill(&self->processes[1]);
	ASSERT_EQ(0, DO(2, WRITE_IMPORT, 8));
	EXPECT_EQ(8, DO(2, READ, 0));
	EXPECT_EQ(0, DO(2, FREE_IMPORT, 0));
}

/* A checkpoint of the restored processes has the same contents. */
TEST_F(kfd_share, restored_processes_can_be_checkpointed_again)
{
	int i;

	ASSERT_EQ(0, make(self, variant->flags, 2));
	ASSERT_EQ(0, move(self, 2));
	ASSERT_EQ(0, create_first(self));
	ASSERT_EQ(0, DO(1, RESTORE, 0));
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	ASSERT_EQ(0, move(self, 2));
	EXPECT_EQ(board->members[0].image.bos[0].object_id,
		  board->members[1].image.bos[0].object_id);
	EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_SHARED,
		  board->members[0].image.bos[0].flags);
	/* The first session still has the object under its old id, so a new session is used. */
	close(board->restore);
	board->restore = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, board->restore);
	ASSERT_EQ(0, render_keep(board->restore));
	for (i = 0; i < 2; i++) {
		share_kill(&self->processes[i]);
		ASSERT_EQ(0, share_start(&self->processes[i], act, &board->members[i]));
		ASSERT_EQ(0, DO(i, OPEN_EMPTY, 0));
		ASSERT_EQ(0, DO(i, RESTORE, 0));
	}
	expect_shared(_metadata, self, 2);
}

/* An import in the same process, at a second address; another process is to restore both. */
static int move_own_import(struct __test_metadata *_metadata, FIXTURE_DATA(kfd_share) *self,
			   __u32 flags)
{
	int dmabuf, fd;

	ASSERT_EQ(0, DO(0, OPEN, 0));
	ASSERT_EQ(0, DO(0, ALLOC, flags));
	dmabuf = DO(0, EXPORT, 0);
	ASSERT_LE(0, dmabuf);
	fd = fd_of_process(self->processes[0].pid, dmabuf);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, DO(0, IMPORT, fd));
	ASSERT_EQ(0, move(self, 1));
	return fd;
}

TEST_F(kfd_share, a_process_may_import_its_own_bo)
{
	struct member *member = &board->members[0];
	int fd = move_own_import(_metadata, self, variant->flags);

	ASSERT_EQ(2, member->image.num_bos);
	EXPECT_EQ(member->image.bos[0].object_id, member->image.bos[1].object_id);
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	ASSERT_EQ(0, DO(0, QUEUE, 0));
	ASSERT_EQ(0, DO(0, WRITE_IMPORT, 5));
	EXPECT_EQ(5, DO(0, READ, 0));
	ASSERT_EQ(0, DO(0, WRITE, 6));
	EXPECT_EQ(6, DO(0, READ, 0));
	close(fd);
}

/* Also if it fails after the import has found the BO. */
TEST_F(kfd_share, a_restore_of_an_own_import_that_fails_can_be_repeated)
{
	int fd = move_own_import(_metadata, self, variant->flags);

	EXPECT_EQ(-EFAULT, DO(0, RESTORE_TO_READ_ONLY, 0));
	EXPECT_EQ(0, DO(0, RESTORE, 0));
	close(fd);
}

/* The other process keeps the BO, and the session does. */
TEST_F(kfd_share, a_restore_that_fails_after_another_has_found_its_bo_can_be_repeated)
{
	int tries, ret;

	ASSERT_EQ(0, make(self, variant->flags, 2));
	ASSERT_EQ(0, move(self, 2));
	ASSERT_EQ(0, share_begin(&self->processes[0], RESTORE_TO_LOST, 0));
	for (tries = 0; board->lost == START && tries < SOON * patience(); tries++)
		usleep(1000);
	ret = board->lost == WAIT ? DO(1, RESTORE, 0) : -ETIME;
	if (board->lost == WAIT)
		board->lost = LOSE;
	EXPECT_EQ(-EFAULT, board->lost == LACKS ? -EFAULT : share_end(&self->processes[0]));
	if (board->lost == LACKS)
		SKIP(return, "no userfaultfd that stops the kernel");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	expect_shared(_metadata, self, 2);
}

/* The same id is a different object in another blob. */
TEST_F(kfd_share, two_owners_of_one_object_are_EBADMSG)
{
	ASSERT_EQ(0, make(self, variant->flags, 1));
	ASSERT_EQ(0, move(self, 1));
	ASSERT_EQ(0, DO(0, RESTORE, 0));
	board->members[1].image = board->members[0].image;
	board->members[1].kfd.gpu = board->members[0].kfd.gpu;
	ASSERT_EQ(0, DO(1, OPEN_EMPTY, 0));
	EXPECT_EQ(-EBADMSG, DO(1, RESTORE, 0));
	EXPECT_EQ(0, DO(0, QUEUE, 0));
	EXPECT_EQ(0, DO(0, WRITE, 9));
	EXPECT_EQ(9, DO(0, READ, 0));
}

/*
 * A test of the driver itself, without a checkpoint: each import has its own handle in KFD's
 * table, so that freeing one import frees no other handle.
 */
TEST_F(kfd_share, freeing_an_import_frees_no_other_handle)
{
	struct kfd_bo *fresh = &board->members[0].bo;
	int fd;

	ASSERT_EQ(0, make(self, variant->flags, 3));
	ASSERT_EQ(0, DO(1, FREE_IMPORT, 0));
	ASSERT_EQ(0, DO(0, ALLOC, variant->flags));
	ASSERT_EQ(0, DO(2, FREE_IMPORT, 0));
	fd = DO(0, EXPORT, 0);
	EXPECT_LE(0, fd);
	EXPECT_NE(0, fresh->handle);
}

TEST_HARNESS_MAIN
