// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that restore files in one session, close and share BOs, fork, and are killed at any
 * moment. No call may fail in an unexpected way, no file may stay closed to other calls, and the
 * session must still work at the end. CRIU_TEST_SECONDS is the time to race.
 */
#include "kselftest_harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "race.h"
#include "render.h"

#define SIZE 0x4000
#define HANDLES 4

enum { OWN_FILE, OWN_FILE_TOO, SHARED_FILE, CLOSE, PRIME, PAUSE, FORK, WORKERS };

FIXTURE(race) {
	/* Open in all processes. */
	struct criu_node node;
	struct criu_image image;
	int session;
	int dmabuf;
	struct race race;
};

static void work(void *test, int worker);

/* Two BOs, one of which has a dma-buf. */
static int make_image(FIXTURE_DATA(race) *self)
{
	struct criu_node node;
	__u32 handle[2];
	int ret = render_open(&node, 0);

	if (ret)
		return ret;
	for (int i = 0; !ret && i < 2; i++)
		ret = render_bo_create(&node, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle[i]);
	if (!ret) {
		self->dmabuf = render_bo_export(&node, handle[1]);
		ret = self->dmabuf < 0 ? self->dmabuf : render_save(&node, &self->image);
	}
	criu_node_close(&node);
	return ret;
}

FIXTURE_SETUP(race)
{
	self->session = -1;
	self->race = (struct race) {
		.num_workers = WORKERS, .pause_us = 40000, .work = work, .test = self,
	};
	ASSERT_EQ(0, race_init(&self->race));
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, make_image(self));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(race)
{
	if (self->session >= 0) {
		close(self->session);
		close(self->dmabuf);
		criu_image_free(&self->image);
	}
	criu_node_close(&self->node);
}

/* 0 for a result that a race may have: @ret is 0, or one of the two. */
static int allow(int ret, int one, int two)
{
	return ret == one || ret == two ? 0 : ret;
}

/* All of these restore the same BOs to files of their own: one of them creates each BO. */
static int restore_own_file(FIXTURE_DATA(race) *self)
{
	struct criu_node node;
	int ret = render_restore_to(&node, 0, self->session, &self->image);

	if (ret)
		return ret;
	for (__u32 handle = 1; !ret && handle <= self->image.num_bos; handle++)
		ret = render_bo_close(&node, handle);
	criu_node_close(&node);
	return ret;
}

/* Fails while the file has a handle, or another session holds it. */
static int restore_shared_file(FIXTURE_DATA(race) *self)
{
	int session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	int ret;

	if (session < 0)
		return session;
	ret = criu_restore(&self->node, session, &self->image);
	if (!ret)
		ret = criu_resume(&self->node, session, 0);
	else
		ret = allow(ret, -EBADFD, -EBUSY);
	close(session);
	return ret;
}

static int pause_shared_file(FIXTURE_DATA(race) *self)
{
	int session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_image image = {};
	int ret;

	if (session < 0)
		return session;
	ret = allow(criu_checkpoint(&self->node, session, &image), -EBUSY, -EBUSY);
	criu_image_free(&image);
	close(session);
	return ret;
}

static int share(FIXTURE_DATA(race) *self, __u32 handle)
{
	int fd = render_bo_export(&self->node, handle);
	int ret;

	if (fd >= 0)
		close(fd);
	ret = allow(fd < 0 ? fd : 0, -ENOENT, -ENOENT);
	if (!ret)
		ret = render_bo_import(&self->node, self->dmabuf, &handle);
	return ret;
}

static int fork_and_wait(void)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return -errno;
	if (!child)
		_exit(0);
	return waitpid(child, &status, 0) == child && !status ? 0 : -ECHILD;
}

static int one_round(FIXTURE_DATA(race) *self, int worker, unsigned int round)
{
	const __u32 handle = 1 + round % HANDLES;

	switch (worker) {
	case OWN_FILE:
	case OWN_FILE_TOO:
		return restore_own_file(self);
	case SHARED_FILE:
		return restore_shared_file(self);
	case CLOSE:
		return allow(render_bo_close(&self->node, handle), -EINVAL, -EINVAL);
	case PRIME:
		return share(self, handle);
	case PAUSE:
		return pause_shared_file(self);
	default:
		return fork_and_wait();
	}
}

static void work(void *test, int worker)
{
	FIXTURE_DATA(race) *self = test;
	int ret = 0;

	for (unsigned int round = 0; !ret; round++) {
		ret = one_round(self, worker, round);
		race_count(self->race.score, worker, ret);
	}
}

TEST_F_TIMEOUT(race, restores_close_share_and_fork_while_they_are_killed, 120)
{
	struct criu_node to;
	__u32 handle;

	ASSERT_EQ(0, race_run(&self->race, WORKERS));
	RACE_EXPECT_GOOD(&self->race, WORKERS);
	/* The file is open to calls again, and the session restores what it has. */
	EXPECT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	EXPECT_EQ(0, render_restore_to(&to, 0, self->session, &self->image));
	criu_node_close(&to);
	race_fini(&self->race);
}

/* --- A RESTORE that fails while others copy its BOs */

/* RESTORE creates the others while the first one is copied. */
#define COPIED_BOS 32
#define TABLE_SIZE 0x10000

struct copies {
	struct criu_node copier, other;
	int session;
	atomic_bool stop;
	/* Copies that DMABUF has returned, and those that a file should not have imported */
	unsigned int made, wrong;
};

static ino_t inode_of(int fd)
{
	struct stat status;

	return fstat(fd, &status) ? 0 : status.st_ino;
}

/* In turn, DMABUF allows a file to import a copy, and another file imports the next one. */
static void *copy_in_thread(void *data)
{
	struct copies *copies = data;
	ino_t allowed = 0;
	__u32 handle;

	for (unsigned int i = 0; !copies->stop; i++) {
		struct criu_node *node = i % 2 ? &copies->other : &copies->copier;
		int fd = criu_dmabuf(node, copies->session, 1);

		if (fd < 0)
			continue;
		copies->made++;
		if (node == &copies->copier)
			allowed = inode_of(fd);
		else if (inode_of(fd) != allowed)
			copies->wrong += render_bo_import(&copies->copier, fd, &handle) != -EPERM;
		close(fd);
	}
	return NULL;
}

/* BOs that only files with their VM, and those of DMABUF, may open. */
static int make_vm_image(struct criu_image *image)
{
	struct criu_node node;
	__u32 handle;
	int ret = render_open(&node, 0);

	if (ret)
		return ret;
	for (int i = 0; !ret && i < COPIED_BOS; i++)
		ret = render_bo_create(&node, SIZE, AMDGPU_GEM_DOMAIN_GTT,
				       AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, &handle);
	if (!ret)
		ret = render_save(&node, image);
	criu_node_close(&node);
	return ret;
}

TEST_F_TIMEOUT(race, copies_of_a_restore_that_fails_are_not_imported_later, 120)
{
	struct copies copies = { .session = self->session };
	struct amdgpu_criu_state args;
	struct criu_image image;
	struct criu_node to;
	pthread_t thread;
	long long end;
	void *table;

	ASSERT_EQ(0, make_vm_image(&image));
	ASSERT_EQ(COPIED_BOS, image.num_bos);
	ASSERT_EQ(1, image.bos[0].object_id);
	ASSERT_EQ(0, render_open(&to, 0));
	ASSERT_EQ(0, render_open(&copies.copier, 0));
	ASSERT_EQ(0, render_open(&copies.other, 0));
	/* RESTORE fails when it writes the results. */
	ASSERT_GE(TABLE_SIZE, COPIED_BOS * sizeof(*image.bos));
	table = mmap(NULL, TABLE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, table);
	memcpy(table, image.bos, COPIED_BOS * sizeof(*image.bos));
	ASSERT_EQ(0, mprotect(table, TABLE_SIZE, PROT_READ));
	args = criu_image_args(self->session, &image);
	args.bos = (uintptr_t)table;
	ASSERT_EQ(0, pthread_create(&thread, NULL, copy_in_thread, &copies));
	end = race_now() + 1000LL * patience() * sample_number("CRIU_TEST_SECONDS", 1);
	while (race_now() < end)
		ASSERT_EQ(-EFAULT, criu_op(&to, RESTORE, &args));
	copies.stop = true;
	pthread_join(thread, NULL);
	/* One processor may run the thread only between the calls. kselftest-smp has two. */
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		EXPECT_LT(0, copies.made);
	}
	EXPECT_EQ(0, copies.wrong);
	TH_LOG("%u copies", copies.made);
	munmap(table, TABLE_SIZE);
	criu_image_free(&image);
	criu_node_close(&to);
	criu_node_close(&copies.copier);
	criu_node_close(&copies.other);
}

TEST_HARNESS_MAIN
