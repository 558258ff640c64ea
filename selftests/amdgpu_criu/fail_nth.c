// SPDX-License-Identifier: GPL-2.0
/*
 * Every operation, with each of its allocations and each copy from or to the caller failing in
 * turn. The operation fails, leaves nothing behind, and works when it is called again.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "fail_nth.h"
#include "neighbour.h"
#include "target.h"

#define FAULTS_MAX 100000

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
	/* The result of a call, for sweep_row.done. */
	int fd;
	__u64 object_id;
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
		SKIP(return, "needs root and FAULT_INJECTION_DEBUG_FS, FAILSLAB, FAIL_PAGE_ALLOC");
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

static void close_drm_fds(FIXTURE_DATA(fail_nth) *self)
{
	__u32 i;

	for (i = 0; i < self->image.num_devices; i++) {
		if (self->image.devices[i].drm_fd >= 0)
			close(self->image.devices[i].drm_fd);
		self->image.devices[i].drm_fd = -1;
	}
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

/*
 * One operation, in the state in which it works.
 * @before: before each call
 * @call: with the fault; its error, or 0
 * @failed: after a call that failed: nothing has changed
 * @done: after a call that succeeded, with or without a fault
 * @in_target: the target calls it, and arms the fault itself
 * @allocates: it allocates, so at least one call has to fail
 */
struct sweep_row {
	int (*before)(FIXTURE_DATA(fail_nth) *self);
	int (*call)(FIXTURE_DATA(fail_nth) *self);
	int (*failed)(FIXTURE_DATA(fail_nth) *self);
	int (*done)(FIXTURE_DATA(fail_nth) *self);
	bool in_target;
	bool allocates;
};

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

/* One call whose @nth step fails. Returns true if it had that many steps. */
static bool call_with_fault(FIXTURE_DATA(fail_nth) *self, const struct sweep_row *row,
			    unsigned int nth, int *ret)
{
	int fault;

	if (row->in_target) {
		self->state->fail_nth = nth;
		*ret = row->call(self);
		self->state->fail_nth = 0;
		return self->state->failed;
	}
	fault = fail_nth_arm(nth);
	if (fault < 0) {
		*ret = fault;
		return false;
	}
	*ret = row->call(self);
	return fail_nth_disarm(fault);
}

static void sweep(struct __test_metadata *_metadata, FIXTURE_DATA(fail_nth) *self,
		  const struct sweep_row *row)
{
	struct sample sample = sample_start();
	unsigned int nth, last = 0, calls = 0, refused = 0;
	bool hit = true;
	int ret = -1;

	for (nth = 1; hit && nth < FAULTS_MAX; nth = fail_nth_next(&sample, nth)) {
		int fds, target_fds;

		ASSERT_EQ(0, row->before ? row->before(self) : 0) {
			TH_LOG("before fault %u", nth);
		}
		fds = count_fds(getpid());
		target_fds = count_fds(self->target.pid);
		hit = call_with_fault(self, row, nth, &ret);
		calls++;
		last = hit ? nth : last;
		if (!ret) {
			ASSERT_EQ(0, row->done ? row->done(self) : 0) {
				TH_LOG("after success with fault %u", nth);
			}
			continue;
		}
		refused++;
		/* Out of memory, or a bad pointer of the caller. */
		ASSERT_TRUE(hit && (ret == -ENOMEM || ret == -EFAULT)) {
			TH_LOG("fault %u: %d", nth, ret);
		}
		EXPECT_EQ(fds, count_fds(getpid())) {
			TH_LOG("descriptors after fault %u", nth);
		}
		EXPECT_EQ(target_fds, count_fds(self->target.pid)) {
			TH_LOG("descriptors of the target after fault %u", nth);
		}
		ASSERT_EQ(0, row->failed ? row->failed(self) : 0) {
			TH_LOG("after fault %u", nth);
		}
	}
	TH_LOG("%u faults of %u, one in %lu after %u, seed %#lx: %u calls failed", calls - 1, last,
	       sample.one_in, FAIL_NTH_ALL, sample.seed, refused);
	EXPECT_EQ(0, ret);
	if (row->allocates)
		EXPECT_LT(0, refused);
}

/* The target runs, and its queues work. */
static int target_runs(FIXTURE_DATA(fail_nth) *self)
{
	int ret;

	target_continue(&self->target);
	ret = target_do(&self->target, TARGET_STEP);
	criu_node_close(&self->node);
	return ret ? ret : target_seize(&self->target, &self->node);
}

static int unpause(FIXTURE_DATA(fail_nth) *self)
{
	return criu_unpause(&self->node, self->save);
}

static int unpause_and_run(FIXTURE_DATA(fail_nth) *self)
{
	int ret = unpause(self);

	return ret ? ret : target_runs(self);
}

static int query(FIXTURE_DATA(fail_nth) *self)
{
	struct amdgpu_criu_record_info records[64];
	struct amdgpu_criu_query args = {
		.records = (uintptr_t)records,
		.num_records = ARRAY_SIZE(records),
		.record_stride = sizeof(records[0]),
	};

	return criu_op(&self->own, QUERY, &args);
}

static const struct sweep_row query_row = { .call = query };

TEST_F_TIMEOUT(fail_nth, a_fault_in_QUERY_leaves_nothing, 600)
{
	sweep(_metadata, self, &query_row);
}

static int session(FIXTURE_DATA(fail_nth) *self)
{
	self->fd = criu_session(&self->own, AMDGPU_CRIU_SESSION_CHECKPOINT);
	return self->fd < 0 ? self->fd : 0;
}

static int session_done(FIXTURE_DATA(fail_nth) *self)
{
	return close(self->fd) ? -errno : 0;
}

static const struct sweep_row session_row = { .call = session, .done = session_done,
					     .allocates = true };

TEST_F_TIMEOUT(fail_nth, a_fault_in_SESSION_leaves_nothing, 600)
{
	sweep(_metadata, self, &session_row);
}

static int process_info(FIXTURE_DATA(fail_nth) *self)
{
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
static int process_info_failed(FIXTURE_DATA(fail_nth) *self)
{
	int ret = unpause(self);

	if (ret != -EBADFD)
		return -EEXIST;
	if (!neighbour_runs())
		return -ETIME;
	return target_runs(self);
}

static const struct sweep_row process_info_row = {
	.call = process_info,
	.failed = process_info_failed,
	.done = unpause_and_run,
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
	sweep(_metadata, self, &process_info_row);
	EXPECT_EQ(neighbour, neighbour_end(neighbour));
	munmap(neighbour_word, 4096);
}

static int checkpoint(FIXTURE_DATA(fail_nth) *self)
{
	self->args = criu_image_args(self->save, &self->image);
	return criu_op(&self->node, CHECKPOINT, &self->args);
}

static int checkpoint_before(FIXTURE_DATA(fail_nth) *self)
{
	close_drm_fds(self);
	return 0;
}

/* A call that failed may have written numbers of descriptors that are not open. */
static int checkpoint_failed(FIXTURE_DATA(fail_nth) *self)
{
	__u32 i;

	for (i = 0; i < self->image.num_devices; i++)
		self->image.devices[i].drm_fd = -1;
	return 0;
}

static const struct sweep_row checkpoint_row = {
	.before = checkpoint_before,
	.call = checkpoint,
	.failed = checkpoint_failed,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_CHECKPOINT_leaves_nothing, 1200)
{
	sweep(_metadata, self, &checkpoint_row);
	/* With a new session, which has no objects yet. */
	close_fd(&self->save);
	ASSERT_EQ(0, target_runs(self));
	self->save = criu_session(&self->own, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->save);
	ASSERT_EQ(0, process_info(self));
	sweep(_metadata, self, &checkpoint_row);
	ASSERT_EQ(0, unpause_and_run(self));
}

static const struct sweep_row unpause_row = {
	.before = process_info,
	.call = unpause,
	.failed = unpause_and_run,
	.done = target_runs,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_UNPAUSE_leaves_nothing, 1200)
{
	sweep(_metadata, self, &unpause_row);
}

/* An exported object is not exported again, so each call has a new session. */
static int dmabuf_before(FIXTURE_DATA(fail_nth) *self)
{
	__u32 i;
	int ret;

	if (self->object_id)
		return 0;
	close_fd(&self->save);
	close_drm_fds(self);
	self->save = criu_session(&self->own, AMDGPU_CRIU_SESSION_CHECKPOINT);
	if (self->save < 0)
		return self->save;
	ret = process_info(self);
	if (!ret)
		ret = checkpoint(self);
	for (i = 0; !ret && i < self->image.num_bos; i++)
		if (self->image.bos[i].flags & AMDGPU_CRIU_BO_CONTENTS)
			self->object_id = self->image.bos[i].object_id;
	return ret;
}

static int dmabuf(FIXTURE_DATA(fail_nth) *self)
{
	self->fd = criu_dmabuf(&self->own, self->save, self->object_id);
	return self->fd < 0 ? self->fd : 0;
}

static int dmabuf_done(FIXTURE_DATA(fail_nth) *self)
{
	self->object_id = 0;
	return close(self->fd) ? -errno : 0;
}

static const struct sweep_row dmabuf_row = {
	.before = dmabuf_before,
	.call = dmabuf,
	.done = dmabuf_done,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_DMABUF_leaves_nothing, 1200)
{
	sweep(_metadata, self, &dmabuf_row);
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
static int fresh_target(FIXTURE_DATA(fail_nth) *self)
{
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

static int restore(FIXTURE_DATA(fail_nth) *self)
{
	return target_do(&self->target, TARGET_RESTORE);
}

static int resume(FIXTURE_DATA(fail_nth) *self)
{
	return criu_resume(&self->own, self->load, self->target.pid);
}

static int resumed(FIXTURE_DATA(fail_nth) *self)
{
	int ret = target_do(&self->target, TARGET_VERIFY);

	self->fresh = false;
	return ret ? ret : target_do(&self->target, TARGET_STEP);
}

static int restored(FIXTURE_DATA(fail_nth) *self)
{
	int ret = copy_all_contents(self);

	if (!ret)
		ret = resume(self);
	return ret ? ret : resumed(self);
}

static const struct sweep_row restore_row = {
	.before = fresh_target,
	.call = restore,
	.done = restored,
	.in_target = true,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_RESTORE_leaves_nothing, 3600)
{
	unsigned long long before;

	close_drm_fds(self);
	end_target(self);
	/* The objects of the first process remain in its session. */
	before = memory_in_use();
	sweep(_metadata, self, &restore_row);
	end_target(self);
	close_fd(&self->load);
	EXPECT_TRUE(memory_comes_down_to(before));
}

static int resume_before(FIXTURE_DATA(fail_nth) *self)
{
	int ret = fresh_target(self);

	if (ret || self->waiting)
		return ret;
	ret = restore(self);
	if (!ret)
		ret = copy_all_contents(self);
	self->waiting = !ret;
	return ret;
}

static const struct sweep_row resume_row = {
	.before = resume_before,
	.call = resume,
	.done = resumed,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_RESUME_leaves_nothing, 3600)
{
	close_drm_fds(self);
	end_target(self);
	sweep(_metadata, self, &resume_row);
}

TEST_HARNESS_MAIN
