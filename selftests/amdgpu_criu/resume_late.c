// SPDX-License-Identifier: GPL-2.0
/* RESUME waits for what takes long: pages that are brought in, and memory that others move back. */
#include "kinds.h"

#include "fuse.h"
#include "lazy.h"
#include "neighbour.h"
#include "render.h"
#include "reset.h"

#define USERPTR_SIZE (4 * PAGE)
#define HUGE_PAGE (512UL * PAGE)
#define VRAM_SIZE (32 * HUGE_PAGE)
/* Longer than RESUME repeats a failure, and than it once waited for evictions */
#define FILL_SECONDS 31
#define STALL_SECONDS 15

/* --- Pages that take their time, before anything is attached to them */

static int make_userptr(struct kfd *kfd, struct carry *carry)
{
	int ret = kfd_bo_alloc(kfd, &notes_of(carry)->words, KFD_USERPTR, USERPTR_SIZE);

	return ret ? ret : kfd_sdma_create(kfd, &notes_of(carry)->queues[0]);
}

/* Fills the pages, then changes one of them for a second, so that attaching them fails. */
static void *fill_late(void *data)
{
	struct lazy *lazy = data;
	struct uffdio_range range = { .start = (uintptr_t)lazy->uffd.at, .len = lazy->size };
	pthread_t filler;

	sleep(FILL_SECONDS);
	pthread_create(&filler, NULL, lazy_fill, lazy);
	while (lazy->filled < USERPTR_SIZE / PAGE && !lazy->stop)
		usleep(1000);
	ioctl(lazy->uffd.fd, UFFDIO_UNREGISTER, &range);
	for (int i = 0; i < 1000; i++) {
		madvise(lazy->uffd.at, PAGE, MADV_DONTNEED);
		*(volatile __u32 *)lazy->uffd.at = i;
		usleep(1000);
	}
	pthread_join(filler, NULL);
	return NULL;
}

TEST_F_TIMEOUT(kinds, a_userptr_whose_pages_come_late_is_attached, 90)
{
	__u32 *words;
	struct lazy lazy;
	int ret;

	ASSERT_EQ(0, make(self, make_userptr, NULL));
	ASSERT_EQ(0, criu_restore(&self->kfd.node, self->session, &self->carry.image));
	ASSERT_EQ(0, carry_fill(&self->carry));
	words = self->notes->words.at;
	ret = lazy_start(&lazy, words, USERPTR_SIZE, false);
	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	ASSERT_EQ(0, pthread_create(&lazy.thread, NULL, fill_late, &lazy));
	EXPECT_EQ(0, criu_resume(&self->kfd.node, self->session, 0)) {
		TH_LOG("%s", criu_reason);
	}
	lazy_end(&lazy);
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->notes->queues[0]));
	kfd_sdma_write(&self->notes->queues[0], words, 0xcafe);
	EXPECT_TRUE(kfd_becomes(words, 0xcafe, SOON * patience()));
}

/* --- Memory that a worker moves back after that of another process, which holds it up */

struct stalled {
	struct fuse_stall stall;
	pthread_t thread;
	pid_t process;
};

static int make_vram(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_sdma(kfd, carry, 1);

	return ret ? ret : kfd_bo_alloc(kfd, &notes->far, KFD_VRAM, VRAM_SIZE);
}

/* Leaves room for half of the memory of one of the processes. */
static int take_vram(struct kfd *kfd, const void *unused)
{
	const struct criu_node render = { .fd = kfd->drm_fd, .kind = CRIU_NODE_RENDER };
	const __u64 size = (render_usable_vram(&render) - VRAM_SIZE / 2) & -HUGE_PAGE;
	__u32 handle;

	return render_bo_create(&render, size, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle);
}

/* Has VRAM that is moved, and holds the lock that moving it back needs. */
static void stall(const struct stalled *stalled)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = FUSE_STALL_SIZE, .flags = KFD_USERPTR,
	};
	struct kfd_bo vram;
	struct kfd kfd;

	if (kfd_open(&kfd) || kfd_bo_alloc(&kfd, &vram, KFD_VRAM, VRAM_SIZE))
		_exit(1);
	memset(vram.at, 1, PAGE);
	args.gpu_id = kfd.gpu.gpu_id;
	args.mmap_offset = (uintptr_t)fuse_stall_map(&stalled->stall);
	args.va_addr = args.mmap_offset;
	ioctl(kfd.node.fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
	_exit(0);
}

static int stalled_start(struct stalled *stalled)
{
	int ret = fuse_stall_make(&stalled->stall);

	if (ret)
		return ret;
	stalled->process = fork();
	if (stalled->process < 0)
		return -errno;
	if (!stalled->process)
		stall(stalled);
	for (int i = 0; !stalled->stall.waiting && i < SOON * patience() / 10; i++)
		usleep(10000);
	return stalled->stall.waiting ? 0 : -ETIME;
}

static void *end_late(void *data)
{
	struct stalled *stalled = data;

	sleep(STALL_SECONDS);
	fuse_stall_end(&stalled->stall);
	return NULL;
}

/* The driver has moved memory of the restored process, and before that of the one that stalls. */
static int restore_and_move(FIXTURE_DATA(kinds) *self, struct stalled *stalled)
{
	pid_t other;
	int ret = stalled_start(stalled);

	if (!ret)
		ret = criu_restore(&self->kfd.node, self->session, &self->carry.image);
	if (!ret)
		ret = carry_fill(&self->carry);
	if (ret)
		return ret;
	other = neighbour_start(take_vram, NULL);
	return other < 0 ? other : neighbour_end(other) == other ? 0 : -ECHILD;
}

TEST_F_TIMEOUT(kinds, memory_that_moves_back_after_that_of_others_is_awaited, 120)
{
	struct stalled stalled;

	ASSERT_EQ(0, make(self, make_vram, NULL));
	ASSERT_EQ(0, restore_and_move(self, &stalled));
	ASSERT_EQ(0, pthread_create(&stalled.thread, NULL, end_late, &stalled));
	EXPECT_EQ(0, criu_resume(&self->kfd.node, self->session, 0)) {
		TH_LOG("%s", criu_reason);
	}
	pthread_join(stalled.thread, NULL);
	waitpid(stalled.process, NULL, 0);
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->notes->queues[0]));
	kfd_sdma_write(&self->notes->queues[0], self->notes->words.at, 0xcafe);
	EXPECT_TRUE(kfd_becomes(self->notes->words.at, 0xcafe, SOON * patience()));
}

static void *reset_soon(void *done)
{
	usleep(500000 * patience());
	reset_gpu();
	*(atomic_bool *)done = true;
	return NULL;
}

TEST_F_TIMEOUT(kinds, a_reset_of_the_gpu_ends_the_wait, 180)
{
	struct stalled stalled;
	atomic_bool done = false;
	pthread_t thread;

	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	if (!reset_is_possible())
		SKIP(return, RESET_SKIP);
	complaints_allow(RESET_COMPLAINTS);
	ASSERT_EQ(0, make(self, make_vram, NULL));
	ASSERT_EQ(0, restore_and_move(self, &stalled));
	ASSERT_EQ(0, pthread_create(&thread, NULL, reset_soon, &done));
	EXPECT_EQ(-EIO, criu_resume(&self->kfd.node, self->session, 0));
	EXPECT_STREQ("its queues do not run: -5", criu_reason);
	fuse_stall_end(&stalled.stall);
	waitpid(stalled.process, NULL, 0);
	pthread_join(thread, NULL);
	EXPECT_TRUE(done);
	complaints_disallow();
}

TEST_HARNESS_MAIN
