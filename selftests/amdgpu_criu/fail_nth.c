// SPDX-License-Identifier: GPL-2.0
/*
 * As self_fail_nth, with the state of a busy process that CRIU would trace, and beside another one
 * whose queue runs.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "complaints.h"
#include "fail_sweep.h"
#include "neighbour.h"
#include "target.h"

FIXTURE(fail_nth) {
	struct target_state *state;
	struct target target;
	/* /dev/kfd of the test, and that of the target, which it traces. */
	struct criu_node own, node;
	int save, load;
	struct criu_image image;
	/* The target's data about its queues at the checkpoint. */
	struct target_state then;
	/* True if a target is not resumed yet, and if it has been restored. */
	bool fresh, waiting;
	struct amdgpu_criu_state args;
};

FIXTURE_SETUP(fail_nth)
{
	int ret = criu_node_open(&self->own, CRIU_NODE_KFD);

	self->save = -1;
	self->load = -1;
	self->node.fd = -1;
	if (ret == -ENOENT)
		SKIP(return, "no /dev/kfd");
	ASSERT_EQ(0, ret);
	ret = fail_nth_prepare();
	if (ret == -ENOENT || ret == -EACCES || ret == -EPERM)
		SKIP(return, FAIL_SWEEP_NEEDS);
	ASSERT_EQ(0, ret);
	self->state = target_state_make();
	ASSERT_NE(NULL, self->state);
	ASSERT_EQ(0, target_start(&self->target, self->state));
	ASSERT_EQ(0, target_do(&self->target, TARGET_STEP));
	self->save = criu_session(&self->own, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->save);
	ASSERT_EQ(0, target_seize(&self->target, &self->node));
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->save, &self->image));
	self->then = *self->state;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void end_target(FIXTURE_DATA(fail_nth) *self)
{
	if (self->target.pid > 0)
		target_kill(&self->target);
	self->target.pid = 0;
	self->fresh = false;
	self->waiting = false;
	criu_node_close(&self->node);
}

FIXTURE_TEARDOWN(fail_nth)
{
	criu_image_free(&self->image);
	end_target(self);
	close_fd(&self->save);
	close_fd(&self->load);
	criu_node_close(&self->own);
}

/* Bytes of all GPUs in use, of VRAM and of system memory. */
static unsigned long long memory_in_use(void)
{
	static const char *const files[] = { "mem_info_vram_used", "mem_info_gtt_used" };
	unsigned long long sum = 0, value;
	char path[96];
	FILE *file;
	int minor;
	size_t i;

	for (minor = 128; minor < 192; minor++) {
		for (i = 0; i < ARRAY_SIZE(files); i++) {
			snprintf(path, sizeof(path), "/sys/class/drm/renderD%d/device/%s", minor,
				 files[i]);
			file = fopen(path, "r");
			if (!file)
				continue;
			if (fscanf(file, "%llu", &value) == 1)
				sum += value;
			fclose(file);
		}
	}
	return sum;
}

/* The driver frees in the background. */
static bool memory_comes_down_to(unsigned long long bytes)
{
	int tries;

	for (tries = 0; tries < 100; tries++) {
		if (memory_in_use() <= bytes)
			return true;
		usleep(100000);
	}
	return false;
}

static int both_fds(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;


	return count_fds(getpid()) + count_fds(self->target.pid);
}

/* The target calls it, and arms the fault itself. */
static bool call_in_target(void *data, const struct fail_row *row, unsigned int nth, int *ret)
{
	FIXTURE_DATA(fail_nth) *self = data;


	self->state->fail_nth = nth;
	*ret = row->call(self);
	self->state->fail_nth = 0;
	return self->state->failed;
}

/* The target runs, and its queues work. */
static int target_runs(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret;

	target_continue(&self->target);
	ret = target_do(&self->target, TARGET_STEP);
	criu_node_close(&self->node);
	return ret ? ret : target_seize(&self->target, &self->node);
}

static int unpause(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	return criu_unpause(&self->node, self->save);
}

static int unpause_and_run(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = unpause(self);

	return ret ? ret : target_runs(self);
}

static int process_info(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	struct amdgpu_criu_process_info info;

	return criu_pause(&self->node, self->save, &info);
}

/* The last number that the queue of another process has written */
static __u32 *neighbour_word;

/* The other process runs, too: its queue still writes. */
static bool neighbour_runs(void)
{
	const __u32 before = __atomic_load_n(neighbour_word, __ATOMIC_ACQUIRE);
	int tries;

	for (tries = 0; tries < 6000; tries++) {
		/* The first change may be due to a write before the call. */
		if (__atomic_load_n(neighbour_word, __ATOMIC_ACQUIRE) - before > 1)
			return true;
		usleep(10000);
	}
	return false;
}

/* On error the process runs as before: it is not paused. */
static int process_info_failed(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = unpause(self);

	if (ret != -EBADFD)
		return -EEXIST;
	if (!neighbour_runs())
		return -ETIME;
	return target_runs(self);
}

static const struct fail_row process_info_row = {
	.call = process_info,
	.failed = process_info_failed,
	.done = unpause_and_run,
	.fds = both_fds,
	.allocates = true,
};

struct neighbour {
	struct kfd_queue queue;
	struct kfd_bo bo;
};

/* Writes the next number when the queue has written the last one. */
static void *count_by_queue(void *data)
{
	struct neighbour *neighbour = data;
	__u32 *written = neighbour->bo.at, number = 0;

	for (;;) {
		kfd_sdma_write(&neighbour->queue, written, ++number);
		while (__atomic_load_n(written, __ATOMIC_ACQUIRE) != number)
			usleep(5000);
		__atomic_store_n(neighbour_word, number, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* With a queue that runs, the GPU gets a new runlist when another process is paused. */
static int make_queue(struct kfd *kfd, const void *unused)
{
	static struct neighbour neighbour;
	pthread_t thread;
	int ret = kfd_bo_alloc(kfd, &neighbour.bo, KFD_GTT, 4096);

	if (!ret)
		ret = kfd_sdma_create(kfd, &neighbour.queue);
	return ret ? ret : -pthread_create(&thread, NULL, count_by_queue, &neighbour);
}

TEST_F_TIMEOUT(fail_nth, a_fault_in_PROCESS_INFO_leaves_nothing, 1200)
{
	pid_t neighbour;

	neighbour_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);
	ASSERT_NE(MAP_FAILED, neighbour_word);
	neighbour = neighbour_start(make_queue, NULL);
	ASSERT_LT(0, neighbour);
	ASSERT_EQ(0, unpause_and_run(self));
	fail_sweep(_metadata, self, &process_info_row);
	EXPECT_EQ(neighbour, neighbour_end(neighbour));
	munmap(neighbour_word, 4096);
}

static int checkpoint(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	self->args = criu_image_args(self->save, &self->image);
	return criu_op(&self->node, CHECKPOINT, &self->args);
}

static int checkpoint_before(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	kfd_close_drm_fds(&self->image);
	return 0;
}

/* A call that failed may have written numbers of descriptors that are not open. */
static int checkpoint_failed(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	__u32 i;

	for (i = 0; i < self->image.num_devices; i++)
		self->image.devices[i].drm_fd = -1;
	return 0;
}

static const struct fail_row checkpoint_row = {
	.before = checkpoint_before,
	.call = checkpoint,
	.failed = checkpoint_failed,
	.opens = -1,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_CHECKPOINT_leaves_nothing, 1200)
{
	fail_sweep(_metadata, self, &checkpoint_row);
	/* With a new session, which has no objects yet. */
	close_fd(&self->save);
	ASSERT_EQ(0, target_runs(self));
	self->save = criu_session(&self->own, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->save);
	ASSERT_EQ(0, process_info(self));
	fail_sweep(_metadata, self, &checkpoint_row);
	ASSERT_EQ(0, unpause_and_run(self));
}

static const struct fail_row unpause_row = {
	.before = process_info,
	.call = unpause,
	.failed = unpause_and_run,
	.done = target_runs,
	.fds = both_fds,
	.opens = -1,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_UNPAUSE_leaves_nothing, 1200)
{
	fail_sweep(_metadata, self, &unpause_row);
}

/* From the BOs of the process that has exited, which the first session still holds. */
static int copy_contents(FIXTURE_DATA(fail_nth) *self, const struct amdgpu_criu_bo *bo)
{
	int from_fd = criu_dmabuf(&self->own, self->save, bo->object_id);
	int to_fd = criu_dmabuf(&self->own, self->load, bo->object_id);
	void *from = MAP_FAILED, *to = MAP_FAILED;

	if (from_fd >= 0 && to_fd >= 0) {
		from = mmap(NULL, bo->size, PROT_READ, MAP_SHARED, from_fd, 0);
		to = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, to_fd, 0);
	}
	if (from != MAP_FAILED && to != MAP_FAILED)
		memcpy(to, from, bo->size);
	if (from != MAP_FAILED)
		munmap(from, bo->size);
	if (to != MAP_FAILED)
		munmap(to, bo->size);
	close_fd(&from_fd);
	close_fd(&to_fd);
	return from == MAP_FAILED || to == MAP_FAILED ? -ENXIO : 0;
}

static int copy_all_contents(FIXTURE_DATA(fail_nth) *self)
{
	int ret = 0;
	__u32 i;

	for (i = 0; !ret && i < self->image.num_bos; i++)
		if (self->image.bos[i].flags & AMDGPU_CRIU_BO_CONTENTS)
			ret = copy_contents(self, &self->image.bos[i]);
	return ret;
}

/* A process with only open nodes, which replaces the one that has exited. */
static int fresh_target(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret;

	if (self->fresh)
		return 0;
	end_target(self);
	close_fd(&self->load);
	*self->state = self->then;
	self->load = criu_session(&self->own, AMDGPU_CRIU_SESSION_RESTORE);
	if (self->load < 0)
		return self->load;
	ret = target_start_empty(&self->target, self->state, self->load, &self->image);
	self->fresh = !ret;
	return ret;
}

static int restore(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	return target_do(&self->target, TARGET_RESTORE);
}

static int resume(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	return criu_resume(&self->own, self->load, self->target.pid);
}

static int resumed(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = target_do(&self->target, TARGET_VERIFY);

	self->fresh = false;
	return ret ? ret : target_do(&self->target, TARGET_STEP);
}

static int restored(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = copy_all_contents(self);

	if (!ret)
		ret = resume(self);
	return ret ? ret : resumed(self);
}

static const struct fail_row restore_row = {
	.before = fresh_target,
	.call = restore,
	.done = restored,
	.fds = both_fds,
	.opens = -1,
	.call_with_fault = call_in_target,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_RESTORE_leaves_nothing, 3600)
{
	unsigned long long before;

	kfd_close_drm_fds(&self->image);
	end_target(self);
	/* The objects of the first process remain in its session. */
	before = memory_in_use();
	complaints_allow("ERROR.*Failed to (allocate|initialize) process doorbell");
	fail_sweep(_metadata, self, &restore_row);
	complaints_disallow();
	end_target(self);
	close_fd(&self->load);
	EXPECT_TRUE(memory_comes_down_to(before));
}

static int resume_before(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = fresh_target(self);

	if (ret || self->waiting)
		return ret;
	ret = restore(self);
	if (!ret)
		ret = copy_all_contents(self);
	self->waiting = !ret;
	return ret;
}

static const struct fail_row resume_row = {
	.before = resume_before,
	.call = resume,
	.done = resumed,
	.fds = both_fds,
	.opens = -1,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_RESUME_leaves_nothing, 3600)
{
	kfd_close_drm_fds(&self->image);
	end_target(self);
	fail_sweep(_metadata, self, &resume_row);
}

TEST_HARNESS_MAIN
