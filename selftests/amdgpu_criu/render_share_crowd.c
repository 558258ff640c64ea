// SPDX-License-Identifier: GPL-2.0
/* Many processes that share BOs are restored in parallel, in any order; some are killed. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "render.h"
#include "share.h"

#define SIZE 0x1000
#define CROWD 6
#define BOS 12
#define ROUNDS 5

enum command {
	RESTORE, /* to a file of its own */
	RESTORE_LATE, /* after @argument microseconds */
	WRITE, /* @argument to its word of each BO */
	READ, /* counts the words that are @argument + the index of their writer */
};

struct image {
	struct share_image image;
	__u32 handles[BOS];
};

struct board {
	struct image images[CROWD];
	int restore;
};

/* State of one process. */
static struct {
	struct criu_node node;
	__u32 *words[BOS];
} mine;

struct place {
	struct board *board;
	int number;
};

static int restore(struct place *place)
{
	struct image *image = &place->board->images[place->number];
	struct criu_image saved = share_get(&image->image);
	int i, ret;

	ret = render_restore_to(&mine.node, 0, place->board->restore, &saved);
	for (i = 0; !ret && i < BOS; i++) {
		mine.words[i] = render_bo_mmap(&mine.node, image->handles[i], SIZE);
		ret = mine.words[i] ? 0 : -ENOMEM;
	}
	return ret;
}

static int act(void *data, int command, int argument)
{
	struct place *place = data;
	int i, j, num = 0;

	switch (command) {
	case RESTORE_LATE:
		usleep(argument);
		return restore(place);
	case RESTORE:
		return restore(place);
	case WRITE:
		for (i = 0; i < BOS; i++)
			mine.words[i][place->number] = argument + place->number;
		return 0;
	case READ:
		for (i = 0; i < BOS; i++)
			for (j = 0; j < CROWD; j++)
				num += mine.words[i][j] == (__u32)(argument + j);
		return num;
	default:
		return -EINVAL;
	}
}

FIXTURE(crowd) {
	struct criu_node node;
	struct share_process processes[CROWD];
	struct place places[CROWD];
	struct board *board;
};

static int exchange(const struct criu_node *from, __u32 handle, const struct criu_node *to,
		    __u32 *imported)
{
	struct drm_prime_handle out = { .handle = handle, .flags = DRM_CLOEXEC | DRM_RDWR };
	struct drm_prime_handle in = {};
	int ret = render_ioctl(from, DRM_IOCTL_PRIME_HANDLE_TO_FD, &out);

	if (ret)
		return ret;
	in.fd = out.fd;
	ret = render_ioctl(to, DRM_IOCTL_PRIME_FD_TO_HANDLE, &in);
	*imported = in.handle;
	close(out.fd);
	return ret;
}

/* Each file creates its share of the BOs and imports the others; then all are saved. */
static int make(FIXTURE_DATA(crowd) *self)
{
	struct criu_node nodes[CROWD];
	struct criu_image image;
	int session, i, j, ret = 0;

	session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	for (i = 0; !ret && i < CROWD; i++)
		ret = render_open(&nodes[i], 0);
	for (j = 0; !ret && j < BOS; j++) {
		struct image *images = self->board->images;
		int owner = j % CROWD;

		ret = render_bo_create(&nodes[owner], SIZE, AMDGPU_GEM_DOMAIN_GTT, 0,
				       &images[owner].handles[j]);
		for (i = 0; !ret && i < CROWD; i++)
			if (i != owner)
				ret = exchange(&nodes[owner], images[owner].handles[j], &nodes[i],
					       &images[i].handles[j]);
	}
	for (i = 0; !ret && i < CROWD; i++) {
		ret = criu_checkpoint(&nodes[i], session, &image);
		if (!ret)
			ret = share_put(&self->board->images[i].image, &image);
		criu_image_free(&image);
	}
	close(session);
	for (i = 0; i < CROWD; i++)
		criu_node_close(&nodes[i]);
	return ret;
}

FIXTURE_SETUP(crowd)
{
	int i;

	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	self->board = share_board(sizeof(*self->board));
	ASSERT_NE(NULL, self->board);
	for (i = 0; i < CROWD; i++)
		self->places[i] = (struct place) { .board = self->board, .number = i };
	ASSERT_EQ(0, make(self));
}

FIXTURE_TEARDOWN(crowd)
{
	int i;

	for (i = 0; i < CROWD; i++)
		share_kill(&self->processes[i]);
	munmap(self->board, sizeof(*self->board));
	criu_node_close(&self->node);
}

static int begin_round(FIXTURE_DATA(crowd) *self)
{
	int i, ret;

	self->board->restore = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	if (self->board->restore < 0)
		return self->board->restore;
	ret = render_keep(self->board->restore);
	for (i = 0; !ret && i < CROWD; i++)
		ret = share_start(&self->processes[i], act, &self->places[i]);
	return ret;
}

static void end_round(FIXTURE_DATA(crowd) *self)
{
	int i;

	for (i = 0; i < CROWD; i++)
		share_kill(&self->processes[i]);
	close(self->board->restore);
}

static void shuffle(int *order)
{
	int i, j, swap;

	for (i = 0; i < CROWD; i++)
		order[i] = i;
	for (i = CROWD - 1; i > 0; i--) {
		j = rand() % (i + 1);
		swap = order[i];
		order[i] = order[j];
		order[j] = swap;
	}
}

TEST_F(crowd, is_restored_in_parallel_in_any_order)
{
	int order[CROWD], round, i;

	for (round = 0; round < ROUNDS; round++) {
		srand(round);
		shuffle(order);
		ASSERT_EQ(0, begin_round(self));
		for (i = 0; i < CROWD; i++)
			ASSERT_EQ(0, share_begin(&self->processes[order[i]], RESTORE, 0));
		for (i = 0; i < CROWD; i++)
			ASSERT_EQ(0, share_end(&self->processes[i]));
		for (i = 0; i < CROWD; i++)
			ASSERT_EQ(0, share_do(&self->processes[i], WRITE, round * 100 + 1));
		for (i = 0; i < CROWD; i++)
			EXPECT_EQ(BOS * CROWD,
				  share_do(&self->processes[i], READ, round * 100 + 1));
		end_round(self);
	}
}

/* The survivors share their BOs, and do not wait for the killed ones. */
TEST_F(crowd, continues_without_killed_processes)
{
	int round, i, victim, alive;

	for (round = 0; round < 2 * ROUNDS; round++) {
		srand(round);
		victim = rand() % CROWD;
		ASSERT_EQ(0, begin_round(self));
		for (i = 0; i < CROWD; i++)
			ASSERT_EQ(0, share_begin(&self->processes[i], RESTORE_LATE,
						 rand() % 2000));
		usleep(rand() % 4000);
		share_kill(&self->processes[victim]);
		for (i = 0; i < CROWD; i++) {
			if (i != victim)
				ASSERT_EQ(0, share_end(&self->processes[i]));
		}
		for (i = 0; i < CROWD; i++) {
			if (i != victim)
				ASSERT_EQ(0, share_do(&self->processes[i], WRITE, 1));
		}
		alive = (CROWD - 1) * BOS;
		for (i = 0; i < CROWD; i++) {
			if (i != victim)
				EXPECT_EQ(alive, share_do(&self->processes[i], READ, 1));
		}
		end_round(self);
	}
}

TEST_HARNESS_MAIN
