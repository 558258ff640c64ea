// SPDX-License-Identifier: GPL-2.0
/* EVICT: VRAM of a paused client is free for others, and comes back with its contents. */
#include "kselftest_harness.h"

#include <pthread.h>
#include <stdatomic.h>

#include "kfd.h"
#include "neighbour.h"
#include "render.h"

#define SOON 5000
#define NEVER 300
#define MIB (1024 * 1024)
/* What KFD and its queues use beside the BOs of a test. */
#define SLACK (8 * MIB)
#define MARK 0x5eed0000

static __u64 info(const struct criu_node *render, __u32 query)
{
	__u64 value = 0;
	struct drm_amdgpu_info args = {
		.return_pointer = (uintptr_t)&value,
		.return_size = sizeof(value),
		.query = query,
	};

	return render_ioctl(render, DRM_IOCTL_AMDGPU_INFO, &args) ? 0 : value;
}

/* VRAM in use. KFD frees that of an earlier test after the end of its process. */
static __u64 usage_at_rest(const struct criu_node *render)
{
	__u64 last, now = info(render, AMDGPU_INFO_VRAM_USAGE);

	do {
		last = now;
		usleep(100000);
		now = info(render, AMDGPU_INFO_VRAM_USAGE);
	} while (now != last);
	return now;
}

/* VRAM in use. The driver frees what it has moved when the copies have ended. */
static __u64 usage_down_to(const struct criu_node *render, __u64 most)
{
	__u64 now = info(render, AMDGPU_INFO_VRAM_USAGE);

	for (int left = SOON; now > most && left > 0; left -= 10) {
		usleep(10000);
		now = info(render, AMDGPU_INFO_VRAM_USAGE);
	}
	return now;
}

/* More than half of what KFD lets processes allocate, a multiple of 2 MiB. */
static size_t most_of_vram(const struct criu_node *render)
{
	return render_usable_vram(render) / 5 * 3 & ~(2UL * MIB - 1);
}

/* A word of each page, so that each page differs. */
static void fill(void *at, size_t size)
{
	for (size_t i = 0; i < size; i += 4096)
		*(volatile __u32 *)(at + i) = MARK + i / 4096;
}

/* The first page that differs, or @size. */
static size_t compare(const void *at, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += 4096)
		if (*(const volatile __u32 *)(at + i) != MARK + i / 4096)
			return i;
	return size;
}

static int evict(const struct criu_node *node, int session, struct amdgpu_criu_evict *args)
{
	*args = (struct amdgpu_criu_evict) { .session_fd = session };
	return criu_op(node, EVICT, args);
}

static int make_bo(struct kfd *kfd, const void *size)
{
	struct kfd_bo bo;
	int ret = kfd_bo_alloc(kfd, &bo, KFD_VRAM, *(const size_t *)size);

	if (!ret)
		fill(bo.at, bo.size);
	return ret;
}

FIXTURE(evict) {
	struct kfd kfd;
	struct criu_node render; /* another file, for queries */
	struct kfd_queue queue;
	struct kfd_bo memory; /* in VRAM */
	struct kfd_bo words; /* in the GTT domain */
	size_t size;
	__u32 value;
	int session;
	struct amdgpu_criu_process_info paused;
	struct amdgpu_criu_evict args;
};

FIXTURE_SETUP(evict)
{
	int ret = kfd_open(&self->kfd);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	self->render.kind = CRIU_NODE_RENDER;
	self->render.fd = kfd_render_open(&self->kfd.gpu);
	ASSERT_LE(0, self->render.fd);
	self->size = most_of_vram(&self->render);
	ASSERT_LT(0, self->size);
	ASSERT_EQ(0, kfd_bo_alloc(&self->kfd, &self->words, KFD_GTT, 4096));
	ASSERT_EQ(0, kfd_bo_alloc(&self->kfd, &self->memory, KFD_VRAM, self->size));
	ASSERT_EQ(0, kfd_sdma_create(&self->kfd, &self->queue));
	fill(self->memory.at, self->size);
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(evict)
{
	close(self->session);
	close(self->render.fd);
	kfd_close(&self->kfd);
}

static __u64 used(FIXTURE_DATA(evict) *self)
{
	return info(&self->render, AMDGPU_INFO_VRAM_USAGE);
}

static int pause_and_evict(FIXTURE_DATA(evict) *self)
{
	int ret = criu_pause(&self->kfd.node, self->session, &self->paused);

	return ret ? ret : evict(&self->kfd.node, self->session, &self->args);
}

/* Submits work to the engine. Returns true if it is done. */
static bool runs(FIXTURE_DATA(evict) *self, int milliseconds)
{
	kfd_sdma_write(&self->queue, self->words.at, ++self->value);
	return kfd_becomes(self->words.at, self->value, milliseconds);
}

/* True if the GPU, too, finds the contents of the last page. */
static bool gpu_sees_memory(FIXTURE_DATA(evict) *self)
{
	const size_t last = self->size - 4096;
	__u32 *word = self->words.at;

	kfd_sdma_copy(&self->queue, &word[1], self->memory.at + last, sizeof(*word));
	return runs(self, SOON) && word[1] == MARK + last / 4096;
}

TEST_F(evict, frees_the_vram_until_unpause_and_keeps_contents)
{
	const __u64 before = usage_at_rest(&self->render);
	const __u64 most = before - self->size + SLACK;

	ASSERT_EQ(0, pause_and_evict(self));
	EXPECT_LE(self->size, self->args.bytes);
	/* Buffers of queues are pinned. */
	EXPECT_GT(SLACK, self->args.kept);
	EXPECT_GE(most, usage_down_to(&self->render, most));
	EXPECT_EQ(self->size, compare(self->memory.at, self->size));
	EXPECT_FALSE(runs(self, NEVER));
	/* It stays there: the driver's own eviction ends after 0.1 s. */
	EXPECT_GE(most, used(self));
	ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	EXPECT_LE(before - SLACK, used(self));
	EXPECT_TRUE(gpu_sees_memory(self));
	EXPECT_EQ(self->size, compare(self->memory.at, self->size));
}

TEST_F(evict, others_allocate_what_was_freed)
{
	pid_t other;

	ASSERT_EQ(0, criu_pause(&self->kfd.node, self->session, &self->paused));
	EXPECT_EQ(-ENOMEM, neighbour_start(make_bo, &self->size));
	ASSERT_EQ(0, evict(&self->kfd.node, self->session, &self->args));
	other = neighbour_start(make_bo, &self->size);
	ASSERT_LT(0, other);
	ASSERT_EQ(other, neighbour_end(other));
	ASSERT_TRUE(kfd_process_ends(other, SOON));
	ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	EXPECT_TRUE(gpu_sees_memory(self));
	EXPECT_EQ(self->size, compare(self->memory.at, self->size));
	/* It counts again. */
	EXPECT_EQ(-ENOMEM, neighbour_start(make_bo, &self->size));
}

TEST_F(evict, memory_comes_back_though_others_have_the_vram)
{
	pid_t other;

	ASSERT_EQ(0, pause_and_evict(self));
	other = neighbour_start(make_bo, &self->size);
	ASSERT_LT(0, other);
	ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	ASSERT_EQ(other, neighbour_end(other));
	ASSERT_TRUE(kfd_process_ends(other, SOON));
	/* The driver moves the memory at 0.1 s intervals. */
	EXPECT_EQ(0, kfd_queues_run(&self->kfd));
	EXPECT_TRUE(gpu_sees_memory(self));
	EXPECT_EQ(self->size, compare(self->memory.at, self->size));
}

TEST_F(evict, ends_with_the_session)
{
	const __u64 before = usage_at_rest(&self->render);

	ASSERT_EQ(0, pause_and_evict(self));
	close(self->session);
	self->session = -1;
	EXPECT_LE(before - SLACK, used(self));
	EXPECT_TRUE(gpu_sees_memory(self));
}

TEST_F(evict, may_be_repeated)
{
	__u64 bytes;

	ASSERT_EQ(0, pause_and_evict(self));
	bytes = self->args.bytes;
	ASSERT_EQ(0, evict(&self->kfd.node, self->session, &self->args));
	EXPECT_EQ(bytes, self->args.bytes);
	ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(0, pause_and_evict(self));
		EXPECT_EQ(bytes, self->args.bytes);
		ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	}
	EXPECT_TRUE(gpu_sees_memory(self));
	EXPECT_EQ(-EBADFD, evict(&self->kfd.node, self->session, &self->args));
}

TEST_F(evict, of_another_session_is_EBADFD)
{
	int other = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, criu_pause(&self->kfd.node, self->session, &self->paused));
	EXPECT_EQ(-EBADFD, evict(&self->kfd.node, other, &self->args));
	close(other);
	/* A refused call blocks nothing. */
	EXPECT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	EXPECT_TRUE(runs(self, SOON));
}

struct creation {
	struct kfd *kfd;
	atomic_bool done;
	__u32 event;
	int ret;
};

static void *create_event(void *data)
{
	struct creation *creation = data;

	creation->ret = kfd_event_create(creation->kfd, true, &creation->event);
	creation->done = true;
	return NULL;
}

TEST_F(evict, blocks_ioctls_of_kfd_until_unpause)
{
	struct creation creation = { .kfd = &self->kfd };
	pthread_t thread;

	ASSERT_EQ(0, pause_and_evict(self));
	ASSERT_EQ(0, pthread_create(&thread, NULL, create_event, &creation));
	usleep(NEVER * 1000);
	EXPECT_FALSE(creation.done);
	ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	pthread_join(thread, NULL);
	EXPECT_EQ(0, creation.ret);
}

/* It has no part in the process, which may be gone when it continues. */
TEST_F(evict, does_not_block_a_call_of_another_process)
{
	struct kfd_ioctl_get_version_args args;
	int status;
	pid_t child;

	ASSERT_EQ(0, pause_and_evict(self));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		alarm(SOON * patience() / 1000);
		_exit(ioctl(self->kfd.node.fd, AMDKFD_IOC_GET_VERSION, &args) ? errno : 0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(EBADF, WEXITSTATUS(status));
	ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
}

static int take_vram(struct kfd *kfd, const void *size)
{
	const struct criu_node render = { .fd = kfd->drm_fd, .kind = CRIU_NODE_RENDER };
	__u32 handle;

	return render_bo_create(&render, *(const size_t *)size, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle);
}

/* A render node takes the VRAM before, so that the driver has evicted the process itself. */
TEST_F(evict, takes_over_from_an_eviction_by_the_driver)
{
	const __u64 most = usage_at_rest(&self->render) - self->size + SLACK;
	pid_t other;

	for (int delay = 0; delay < 300; delay += 60) {
		other = neighbour_start(take_vram, &self->size);
		ASSERT_LT(0, other);
		ASSERT_EQ(other, neighbour_end(other));
		usleep(delay * 1000);
		ASSERT_EQ(0, pause_and_evict(self));
		EXPECT_GE(most, usage_down_to(&self->render, most));
		usleep(NEVER * 1000);
		/* Nothing comes back. */
		EXPECT_GE(most, used(self));
		ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
		EXPECT_TRUE(gpu_sees_memory(self));
	}
	EXPECT_EQ(self->size, compare(self->memory.at, self->size));
}

static int evict_own(struct kfd *kfd, const void *size)
{
	struct amdgpu_criu_process_info paused;
	struct amdgpu_criu_evict args;
	int ret = make_bo(kfd, size), session;

	session = criu_session(&kfd->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	if (ret || session < 0)
		return ret ? ret : session;
	ret = criu_pause(&kfd->node, session, &paused);
	return ret ? ret : evict(&kfd->node, session, &args);
}

/* The driver frees BOs of a process after its entry in sysfs is gone. */
static int allocate_again(FIXTURE_DATA(evict) *self)
{
	int ret;

	for (int left = SOON; left > 0; left -= 10) {
		ret = kfd_bo_alloc(&self->kfd, &self->memory, KFD_VRAM, self->size);
		if (ret != -ENOMEM)
			return ret;
		usleep(10000);
	}
	return ret;
}

TEST_F(evict, of_a_process_that_is_killed_leaves_nothing)
{
	pid_t other;

	for (int round = 0; round < 2; round++) {
		ASSERT_EQ(0, kfd_bo_free(&self->kfd, &self->memory));
		other = neighbour_start(evict_own, &self->size);
		ASSERT_LT(0, other);
		ASSERT_EQ(other, neighbour_end(other));
		ASSERT_TRUE(kfd_process_ends(other, SOON));
		ASSERT_EQ(0, allocate_again(self));
	}
	/* Nor more VRAM than there is. */
	EXPECT_EQ(-ENOMEM, neighbour_start(make_bo, &self->size));
}

FIXTURE(file) {
	struct criu_node node;
	struct criu_node other;
	struct render_work work;
	__u32 handle;
	void *at;
	size_t size;
	int session;
	struct amdgpu_criu_process_info paused;
	struct amdgpu_criu_evict args;
};

FIXTURE_SETUP(file)
{
	int ret = render_open(&self->node, 0);

	if (ret == -ENOENT)
		SKIP(return, "no render node");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, render_open(&self->other, 0));
	self->size = 16 * MIB;
	ASSERT_EQ(0, render_bo_create(&self->node, self->size, AMDGPU_GEM_DOMAIN_VRAM,
				      AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, &self->handle));
	self->at = render_bo_mmap(&self->node, self->handle, self->size);
	ASSERT_NE(NULL, self->at);
	fill(self->at, self->size);
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(file)
{
	close(self->session);
	criu_node_close(&self->other);
	criu_node_close(&self->node);
}

TEST_F(file, its_vram_is_free_until_unpause_and_keeps_contents)
{
	const __u64 before = usage_at_rest(&self->other), most = before - self->size;
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .word = 1, .value = 5 };
	__u64 sequence;

	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->paused));
	ASSERT_EQ(0, evict(&self->node, self->session, &self->args));
	EXPECT_EQ(self->size, self->args.bytes);
	EXPECT_GE(most, usage_down_to(&self->other, most));
	EXPECT_EQ(self->size, compare(self->at, self->size));
	ASSERT_EQ(0, criu_unpause(&self->node, self->session));
	EXPECT_LE(before, info(&self->other, AMDGPU_INFO_VRAM_USAGE));
	EXPECT_EQ(self->size, compare(self->at, self->size));
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &job, &sequence));
	EXPECT_EQ(0, render_wait(&self->node, &job, sequence, 5 * RENDER_SECOND));
	EXPECT_EQ(5, self->work.words[1]);
}

TEST_F(file, is_not_evicted_unless_it_is_paused)
{
	const __u64 before = usage_at_rest(&self->other);

	EXPECT_EQ(-EBADFD, evict(&self->node, self->session, &self->args));
	ASSERT_EQ(0, criu_pause(&self->node, self->session, &self->paused));
	EXPECT_EQ(-EBADFD, evict(&self->other, self->session, &self->args));
	EXPECT_EQ(before, info(&self->other, AMDGPU_INFO_VRAM_USAGE));
}

TEST_HARNESS_MAIN
