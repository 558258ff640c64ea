// SPDX-License-Identifier: GPL-2.0
/*
 * A process with every kind of KFD state goes through CHECKPOINT and RESTORE: another process
 * replaces it, and its queues continue where they stopped.
 */
#include "kselftest_harness.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crc32c.h"
#include "neighbour.h"
#include "sample.h"
#include "target.h"

#define STEPS 3

FIXTURE(roundtrip) {
	struct target_state *state;
	struct target target;
	struct criu_node own;
	struct criu_node node;
	int save, load;
	struct criu_image image;
	/* Sizes of the parts that share_image() has moved, or 0. */
	size_t shared_bos, shared_blob;
	/* Contents of BOs that have them, by their index in the image. */
	char **contents;
};

FIXTURE_SETUP(roundtrip)
{
	int ret = criu_node_open(&self->own, CRIU_NODE_KFD);

	if (ret == -ENOENT)
		SKIP(return, "no /dev/kfd");
	ASSERT_EQ(0, ret);
	self->state = target_state_make();
	ASSERT_NE(NULL, self->state);
	ASSERT_EQ(0, target_start(&self->target, self->state));
	for (int i = 0; i < STEPS; i++) {
		ASSERT_EQ(0, target_do(&self->target, TARGET_STEP));
	}
	self->save = criu_session(&self->own, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->save);
	self->load = criu_session(&self->own, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->load);
	ASSERT_EQ(0, target_seize(&self->target, &self->node));
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->save, &self->image));
}

static void *make_shared(void *private, size_t size)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared == MAP_FAILED)
		abort();
	memcpy(shared, private, size);
	free(private);
	return shared;
}

/* Memory shared between the test and the process that calls RESTORE. */
static void share_image(FIXTURE_DATA(roundtrip) *self)
{
	self->shared_bos = self->image.num_bos * sizeof(*self->image.bos);
	self->shared_blob = self->image.blob_size;
	self->image.bos = make_shared(self->image.bos, self->shared_bos);
	self->image.blob = make_shared(self->image.blob, self->shared_blob);
}

static void unshare_image(FIXTURE_DATA(roundtrip) *self)
{
	if (!self->shared_bos)
		return;
	munmap(self->image.bos, self->shared_bos);
	munmap(self->image.blob, self->shared_blob);
	self->image.bos = NULL;
	self->image.blob = NULL;
	self->shared_bos = 0;
}

FIXTURE_TEARDOWN(roundtrip)
{
	for (__u32 i = 0; self->contents && i < self->image.num_bos; i++)
		free(self->contents[i]);
	free(self->contents);
	unshare_image(self);
	criu_image_free(&self->image);
	target_kill(&self->target);
	close(self->save);
	close(self->load);
	criu_node_close(&self->node);
	criu_node_close(&self->own);
}

static int copy_contents(FIXTURE_DATA(roundtrip) *self, int session, __u32 index, bool out)
{
	const struct amdgpu_criu_bo *bo = &self->image.bos[index];
	int fd = criu_dmabuf(&self->own, session, bo->object_id);
	void *at;

	if (fd < 0)
		return fd;
	at = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return -errno;
	if (out)
		memcpy(self->contents[index], at, bo->size);
	else
		memcpy(at, self->contents[index], bo->size);
	munmap(at, bo->size);
	return 0;
}

static int save_contents(FIXTURE_DATA(roundtrip) *self)
{
	int ret = 0;

	self->contents = calloc(self->image.num_bos, sizeof(*self->contents));
	for (__u32 i = 0; !ret && i < self->image.num_bos; i++) {
		if (!(self->image.bos[i].flags & AMDGPU_CRIU_BO_CONTENTS))
			continue;
		self->contents[i] = malloc(self->image.bos[i].size);
		ret = copy_contents(self, self->save, i, true);
	}
	return ret;
}

static int load_contents(FIXTURE_DATA(roundtrip) *self)
{
	int ret = 0;

	for (__u32 i = 0; !ret && i < self->image.num_bos; i++)
		if (self->contents[i])
			ret = copy_contents(self, self->load, i, false);
	return ret;
}

/* A process with only open nodes, which replaces the first one. */
static int replace(FIXTURE_DATA(roundtrip) *self)
{
	int ret = save_contents(self);

	if (ret)
		return ret;
	for (__u32 i = 0; i < self->image.num_devices; i++)
		close(self->image.devices[i].drm_fd);
	target_kill(&self->target);
	criu_node_close(&self->node);
	close(self->save);
	self->save = -1;
	return target_start_empty(&self->target, self->state, self->load, &self->image);
}

static int renew_sessions(FIXTURE_DATA(roundtrip) *self)
{
	if (self->save >= 0)
		close(self->save);
	close(self->load);
	self->save = criu_session(&self->own, AMDGPU_CRIU_SESSION_CHECKPOINT);
	self->load = criu_session(&self->own, AMDGPU_CRIU_SESSION_RESTORE);
	return self->save < 0 || self->load < 0 ? -EMFILE : 0;
}

/* Checkpoints the process that runs now. */
static int checkpoint_again(FIXTURE_DATA(roundtrip) *self)
{
	int ret = renew_sessions(self);

	if (!ret)
		ret = target_seize(&self->target, &self->node);
	unshare_image(self);
	if (!ret)
		ret = criu_checkpoint(&self->node, self->save, &self->image);
	share_image(self);
	return ret;
}

static void recompute_crc(struct criu_image *image)
{
	__u32 crc = crc32c(image->blob, image->blob_size - sizeof(crc));

	memcpy(image->blob + image->blob_size - sizeof(crc), &crc, sizeof(crc));
}

/* A killed process keeps its queues until a worker of the kernel has freed its memory. */
static int restore_in_time(struct target *target)
{
	int ret;

	for (int i = 0; i < 100; i++) {
		ret = target_do(target, TARGET_RESTORE);
		if (ret != -EBUSY)
			return ret;
		usleep(100 * 1000);
	}
	return ret;
}

static void resume_and_check(struct __test_metadata *_metadata, FIXTURE_DATA(roundtrip) *self)
{
	ASSERT_EQ(0, restore_in_time(&self->target));
	ASSERT_EQ(0, load_contents(self));
	ASSERT_EQ(0, criu_resume(&self->own, self->load, self->target.pid));
	EXPECT_EQ(0, target_do(&self->target, TARGET_VERIFY));
	EXPECT_EQ(0, target_do(&self->target, TARGET_STEP));
}

TEST_F(roundtrip, every_kind_of_queue_continues_after_unpause)
{
	ASSERT_EQ(0, criu_unpause(&self->node, self->save));
	target_continue(&self->target);
	for (int i = 0; i < STEPS; i++) {
		ASSERT_EQ(0, target_do(&self->target, TARGET_STEP));
	}
	ASSERT_EQ(0, target_do(&self->target, TARGET_VERIFY));
}

TEST_F(roundtrip, svm_ranges_are_counted)
{
	struct amdgpu_criu_process_info info;

	ASSERT_EQ(0, criu_pause(&self->node, self->save, &info));
	EXPECT_EQ(self->state->gpu.svm, info.num_svm_ranges > 0);
	/* One is imported as well. */
	EXPECT_EQ(TARGET_AREAS - self->state->gpu.svm + 1, info.num_bos);
	EXPECT_EQ(3, info.num_queues);
	EXPECT_EQ(3, info.num_events);
}

TEST_F(roundtrip, a_repeated_checkpoint_is_the_same)
{
	struct criu_image again;

	ASSERT_EQ(0, criu_checkpoint(&self->node, self->save, &again));
	EXPECT_EQ(self->image.blob_size, again.blob_size);
	EXPECT_EQ(0, memcmp(self->image.blob, again.blob, again.blob_size));
	EXPECT_EQ(0, memcmp(self->image.bos, again.bos, again.num_bos * sizeof(*again.bos)));
	criu_image_free(&again);
}

/* The session holds references to the process's objects. */
TEST_F(roundtrip, a_process_may_die_while_it_is_paused)
{
	ASSERT_EQ(0, save_contents(self));
	target_kill(&self->target);
	EXPECT_EQ(0, copy_contents(self, self->save, 0, true));
	close(self->save);
	self->save = -1;
	ASSERT_EQ(0, target_start(&self->target, self->state));
	EXPECT_EQ(0, target_do(&self->target, TARGET_STEP));
}

TEST_F_TIMEOUT(roundtrip, every_kind_of_queue_continues_after_each_restore, 120)
{
	share_image(self);
	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(0, replace(self));
		resume_and_check(_metadata, self);
		for (int i = 0; i < 100; i++) {
			ASSERT_EQ(0, target_do(&self->target, TARGET_STEP));
		}
		ASSERT_EQ(0, target_do(&self->target, TARGET_VERIFY));
		ASSERT_EQ(0, checkpoint_again(self));
	}
}

/* The doorbell of an SDMA queue belongs to an engine, which another partition does not have. */
TEST_F(roundtrip, an_sdma_queue_does_not_move_to_another_partition)
{
	struct target_place places[2];

	if (target_find_places(places) || !target_are_partitions(places))
		SKIP(return, "needs a GPU in partitions");
	share_image(self);
	self->state->left = self->state->place;
	self->state->place = places[1];
	ASSERT_EQ(0, replace(self));
	EXPECT_EQ(-ENODEV, restore_in_time(&self->target));
	/* Its own partition is still free. */
	self->state->place = places[0];
	target_kill(&self->target);
	ASSERT_EQ(0, target_start_empty(&self->target, self->state, self->load, &self->image));
	resume_and_check(_metadata, self);
}

/* Each GPU replaces the other, and keeps the gpu_id that the process uses. */
TEST_F_TIMEOUT(roundtrip, a_process_moves_to_another_gpu_and_back, 120)
{
	struct target_place places[2];

	if (target_find_places(places))
		SKIP(return, "needs two GPUs");
	share_image(self);
	if (target_are_partitions(places)) {
		ASSERT_EQ(0, criu_unpause(&self->node, self->save));
		target_continue(&self->target);
		ASSERT_EQ(0, target_do(&self->target, TARGET_DROP_SDMA));
		ASSERT_EQ(0, checkpoint_again(self));
	}
	for (int round = 0; round < 4; round++) {
		self->state->left = self->state->place;
		self->state->place = places[(round + 1) % 2];
		ASSERT_EQ(0, replace(self));
		resume_and_check(_metadata, self);
		for (int i = 0; i < STEPS; i++)
			ASSERT_EQ(0, target_do(&self->target, TARGET_STEP));
		ASSERT_EQ(0, checkpoint_again(self));
	}
}

/* Creates all SDMA queues that are left. */
static int hoard_sdma(struct kfd *kfd, const void *unused)
{
	struct kfd_queue queue;
	int ret;

	do {
		ret = kfd_sdma_create(kfd, &queue);
	} while (!ret);
	return ret == -ENOMEM ? 0 : ret;
}

/* While others have all SDMA queues, RESTORE fails after it has created everything before them. */
TEST_F(roundtrip, a_restore_that_fails_late_leaves_nothing)
{
	struct target first;
	pid_t hoarder = neighbour_start(hoard_sdma, NULL);

	ASSERT_LT(0, hoarder);
	share_image(self);
	ASSERT_EQ(0, save_contents(self));
	first = self->target;
	ASSERT_EQ(0, target_start_empty(&self->target, self->state, self->load, &self->image));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(-EBUSY, target_do(&self->target, TARGET_RESTORE));
	}
	EXPECT_EQ(hoarder, neighbour_end(hoarder));
	target_kill(&first);
	resume_and_check(_metadata, self);
}

/* With a valid checksum: a forged blob may work, but neither crashes nor leaves anything. */
TEST_F_TIMEOUT(roundtrip, forged_blobs_are_refused_or_work_and_leave_nothing, 240)
{
	struct sample sample = sample_start();
	size_t refused = 0, tried = 0;

	share_image(self);
	ASSERT_EQ(0, replace(self));
	for (size_t at = 24; at + 8 < self->image.blob_size;
	     at += (at < 4096 ? 12 : 1021) * sample_step(&sample)) {
		int ret;

		self->image.blob[at] ^= 0x81;
		recompute_crc(&self->image);
		ret = target_do(&self->target, TARGET_RESTORE);
		self->image.blob[at] ^= 0x81;
		ASSERT_NE(-EPIPE, ret);
		tried++;
		refused += ret != 0;
		if (ret)
			continue;
		/* That process is used; continue with another. */
		target_kill(&self->target);
		ASSERT_EQ(0, renew_sessions(self));
		ASSERT_EQ(0, target_start_empty(&self->target, self->state, self->load,
						&self->image));
	}
	TH_LOG("%zu of %zu forged blobs refused, one in %lu, seed %#lx", refused, tried,
	       sample.one_in, sample.seed);
	if (sample.one_in == 1)
		EXPECT_LT(tried / 4, refused);
	recompute_crc(&self->image);
	resume_and_check(_metadata, self);
}

TEST_HARNESS_MAIN
