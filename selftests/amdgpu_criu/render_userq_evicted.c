// SPDX-License-Identifier: GPL-2.0
/* BOs of user queues that the driver has moved out of reach of the GPU. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "complaints.h"
#include "importer.h"
#include "patience.h"
#include "userq_files.h"

#define BO_VA 0x10000000ull
#define CANNOT_RUN "Failed to validate BOs to restore"
#define COMPLAINTS CANNOT_RUN "|Failed to create usermode queue"
#define LARGE_BOS 5

FIXTURE(evicted) {
	struct files f;
};

FIXTURE_SETUP(evicted)
{
	if (!setup(_metadata, &self->f, AMDGPU_HW_IP_COMPUTE))
		SKIP(return, "the driver has no user queues for this GPU");
}

FIXTURE_TEARDOWN(evicted)
{
	teardown(&self->f);
}

/* Reading the file evicts all BOs of this kind that are not pinned. */
static int evict(const char *what)
{
	char path[64], text[32];
	int minor, fd, ret = -ENOENT;

	for (minor = 0; minor < 256 && ret == -ENOENT; minor++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/dri/%d/amdgpu_evict_%s", minor,
			 what);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		ret = read(fd, text, sizeof(text)) < 0 ? -errno : 0;
		close(fd);
	}
	return ret;
}

/* While the queue is stopped, because it would bring its memory back during the eviction. */
static void pause_and_evict(struct __test_metadata *_metadata, struct files *f)
{
	pause_file(_metadata, f);
	EXPECT_EQ(0, evict("vram"));
	EXPECT_EQ(0, evict("gtt"));
}

TEST_F(evicted, bo_is_there_again_when_the_queue_runs)
{
	struct files *f = &self->f;
	volatile __u32 *words;
	__u32 vram;

	ASSERT_EQ(0, render_bo_create(&f->node, USERQ_PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0, &vram));
	ASSERT_EQ(0, render_va_map(&f->node, vram, BO_VA, USERQ_PAGE));
	ASSERT_EQ(0, userq_wait_for_mappings(&f->node));
	words = render_bo_mmap(&f->node, vram, USERQ_PAGE);
	ASSERT_NE(NULL, words);
	for (__u32 i = 1; i < 4; i++) {
		pause_and_evict(_metadata, f);
		ASSERT_EQ(0, criu_unpause(&f->node, f->session));
		userq_write_va(&f->queue, BO_VA, i);
		ASSERT_TRUE(userq_runs(&f->queue, i));
		EXPECT_EQ(i, words[0]);
	}
}

/* RESTORE creates the queue with the address of its write pointer in the GART. */
TEST_F(evicted, write_pointer_at_CHECKPOINT_is_there_when_the_queue_is_restored)
{
	struct files *f = &self->f;

	pause_and_evict(_metadata, f);
	ASSERT_EQ(0, criu_checkpoint(&f->node, f->session, &f->image));
	load(_metadata, f, 0);
	resume(_metadata, f);
	EXPECT_TRUE(userq_runs(&f->restored, 1));
}

TEST_F(evicted, bo_starts_no_queue_that_is_not_resumed)
{
	struct files *f = &self->f;

	ASSERT_EQ(0, render_save(&f->node, &f->image));
	load(_metadata, f, 0);
	close(f->load);
	f->load = -1;
	userq_write(&f->restored, 0, 1);
	pause_and_evict(_metadata, f);
	ASSERT_EQ(0, criu_unpause(&f->node, f->session));
	EXPECT_TRUE(userq_runs(&f->queue, 2));
	EXPECT_TRUE(userq_wrote(&f->restored, 0, 0));
	EXPECT_EQ(-ENOENT, userq_free(&f->to, &f->restored));
}

/* The first queue writes to a BO that is elsewhere when it is mapped, as page tables may be. */
static void write_bo(struct __test_metadata *_metadata, struct files *f, __u32 handle,
		     const volatile __u32 *words)
{
	ASSERT_NE(NULL, words);
	ASSERT_EQ(0, render_va_map(&f->to, handle, BO_VA, USERQ_PAGE));
	ASSERT_EQ(0, userq_make(&f->to, &f->restored, AMDGPU_HW_IP_COMPUTE, 0));
	userq_write_va(&f->restored, BO_VA, 1);
	EXPECT_TRUE(userq_runs(&f->restored, 1));
	EXPECT_EQ(1, words[0]);
}

TEST_F(evicted, bo_is_there_when_the_first_queue_runs)
{
	struct files *f = &self->f;
	__u32 handle;

	ASSERT_EQ(0, render_open(&f->to, 0));
	ASSERT_EQ(0, render_bo_create(&f->to, USERQ_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	pause_and_evict(_metadata, f);
	write_bo(_metadata, f, handle, render_bo_mmap(&f->to, handle, USERQ_PAGE));
}

TEST_F(evicted, bo_of_another_gpu_is_there_when_the_first_queue_runs)
{
	struct files *f = &self->f;
	struct criu_node other;
	__u32 exported, handle;
	int dmabuf;

	if (render_open(&other, 1))
		SKIP(return, "needs two GPUs");
	ASSERT_EQ(0, render_open(&f->to, 0));
	ASSERT_EQ(0, render_bo_create(&other, USERQ_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &exported));
	dmabuf = render_bo_export(&other, exported);
	ASSERT_LE(0, dmabuf);
	ASSERT_EQ(0, render_bo_import(&f->to, dmabuf, &handle));
	close(dmabuf);
	write_bo(_metadata, f, handle, render_bo_mmap(&other, exported, USERQ_PAGE));
	criu_node_close(&other);
}

/* A new BO in VRAM, which is then pinned in system memory. Returns as importer_pin() does. */
static int pin_bo(struct __test_metadata *_metadata, const struct criu_node *node, int *dmabuf)
{
	__u32 handle;

	EXPECT_EQ(0, render_bo_create(node, USERQ_PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	*dmabuf = render_bo_export(node, handle);
	EXPECT_LE(0, *dmabuf);
	return importer_pin(*dmabuf);
}

TEST_F(evicted, pinned_bo_is_used_by_the_first_queue)
{
	struct files *f = &self->f;
	int importer, dmabuf;
	__u32 handle;

	ASSERT_EQ(0, render_open(&f->to, 0));
	importer = pin_bo(_metadata, &f->to, &dmabuf);
	if (importer == -ENOENT)
		SKIP(return, IMPORTER_MISSING);
	ASSERT_LE(0, importer);
	ASSERT_EQ(0, render_bo_import(&f->to, dmabuf, &handle));
	write_bo(_metadata, f, handle, render_bo_mmap(&f->to, handle, USERQ_PAGE));
	close(dmabuf);
	close(importer);
}

/* The second time after an eviction, which a checkpoint that is refused causes as well. */
TEST_F(evicted, pinned_bo_is_imported_beside_a_queue)
{
	struct files *f = &self->f;
	int importer, dmabuf;
	volatile __u32 *words;
	__u32 handle;

	ASSERT_EQ(0, render_open(&f->to, 0));
	importer = pin_bo(_metadata, &f->to, &dmabuf);
	if (importer == -ENOENT)
		SKIP(return, IMPORTER_MISSING);
	ASSERT_LE(0, importer);
	ASSERT_EQ(0, render_bo_import(&f->node, dmabuf, &handle));
	ASSERT_EQ(0, render_va_map(&f->node, handle, BO_VA, USERQ_PAGE));
	ASSERT_EQ(0, userq_wait_for_mappings(&f->node));
	words = render_bo_mmap(&f->node, handle, USERQ_PAGE);
	ASSERT_NE(NULL, words);
	for (__u32 i = 1; i < 3; i++) {
		userq_write_va(&f->queue, BO_VA, i);
		ASSERT_TRUE(userq_runs(&f->queue, i));
		EXPECT_EQ(i, words[0]);
		EXPECT_EQ(-EOPNOTSUPP, criu_pause(&f->node, f->session, &f->info));
	}
	close(dmabuf);
	close(importer);
}

struct large_bos {
	__u64 size;
	int dmabufs[LARGE_BOS];
};

/* BOs that may only be in VRAM, which four of them fill. The file of @node has no queue. */
static int large_bos_make(const struct criu_node *node, struct large_bos *bos)
{
	int ret = 0;
	__u32 handle;

	bos->size = render_usable_vram(node) / 4 & ~0x1fffffull;
	for (int i = 0; i < LARGE_BOS && !ret; i++) {
		ret = render_bo_create(node, bos->size, AMDGPU_GEM_DOMAIN_VRAM,
				       AMDGPU_GEM_CREATE_DISCARDABLE, &handle);
		if (!ret)
			bos->dmabufs[i] = render_bo_export(node, handle);
	}
	return ret;
}

/* The queues of the file cannot run any more. */
static int large_bos_map(const struct criu_node *node, const struct large_bos *bos)
{
	__u32 handle;
	int ret = 0;

	for (int i = 0; i < LARGE_BOS && !ret; i++) {
		/* The worker may hold what has to make room. */
		for (int n = 0; n < 100; n++) {
			ret = render_bo_import(node, bos->dmabufs[i], &handle);
			if (ret != -ENOMEM)
				break;
			usleep(10000);
		}
		if (!ret)
			ret = render_va_map(node, handle, BO_VA + i * bos->size, bos->size);
	}
	return ret;
}

/* @signals: waits in USERQ_SIGNAL, otherwise in USERQ_CREATE. Writes to @ready before that. */
static void wait_forever(const struct large_bos *bos, bool signals, int ready)
{
	struct userq queue = {};
	struct criu_node node;

	if (render_open(&node, 0))
		_exit(1);
	if (signals && (userq_make(&node, &queue, AMDGPU_HW_IP_COMPUTE, 0) ||
			!userq_runs(&queue, 1)))
		_exit(2);
	if (large_bos_map(&node, bos))
		_exit(3);
	if (write(ready, "", 1) != 1)
		_exit(4);
	_exit(signals ? 10 - userq_signal(&node, &queue, NULL, 0, 0, true) :
			10 - userq_make(&node, &queue, AMDGPU_HW_IP_COMPUTE, 0));
}

static void expect_killed(struct __test_metadata *_metadata, struct files *f, bool signals)
{
	struct large_bos bos;
	int pipes[2], log, status, n;
	pid_t child, ended = 0;
	char byte;

	complaints_allow(COMPLAINTS);
	ASSERT_EQ(0, render_open(&f->to, 0));
	ASSERT_EQ(0, large_bos_make(&f->to, &bos));
	ASSERT_EQ(0, pipe(pipes));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		wait_forever(&bos, signals, pipes[1]);
	close(pipes[1]);
	EXPECT_EQ(1, read(pipes[0], &byte, 1));
	/* From now on, the worker runs for the waiting task only. */
	usleep(100000);
	log = complaints_open();
	EXPECT_TRUE(complaints_wait(log, CANNOT_RUN, 10 * patience()));
	close(log);
	kill(child, SIGKILL);
	for (n = 0; n < 2000 * patience() && !ended; n++) {
		usleep(10000);
		ended = waitpid(child, &status, WNOHANG);
	}
	ASSERT_EQ(child, ended);
	EXPECT_TRUE(WIFSIGNALED(status)) {
		TH_LOG("status %#x", status);
	}
	complaints_disallow();
}

TEST_F_TIMEOUT(evicted, task_that_waits_in_CREATE_is_killed, 60)
{
	expect_killed(_metadata, &self->f, false);
}

/* It leaves no fence, which nothing would signal. */
TEST_F_TIMEOUT(evicted, task_that_waits_in_SIGNAL_is_killed, 60)
{
	expect_killed(_metadata, &self->f, true);
}

TEST_HARNESS_MAIN
