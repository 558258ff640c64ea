// SPDX-License-Identifier: GPL-2.0
/* The memory of user queues: the pages of userptrs change, and write pointers have none. */
#include "kselftest_harness.h"

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "complaints.h"
#include "fuse.h"
#include "patience.h"
#include "render_blob.h"
#include "userq.h"

#define USERPTR_VA 0x10000000ull
#define USERPTR_SIZE 0x4000
/* Longer than the 20 s of a pause */
#define LATE_SECONDS 22
#define USERPTR_FLAGS (AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_REGISTER)

FIXTURE(memory) {
	struct criu_node node, to;
	struct criu_image image;
	struct userq queue, restored;
	/* What the userptr describes */
	volatile __u32 *pages;
	__u32 userptr;
};

FIXTURE_SETUP(memory)
{
	int ret = render_open(&self->node, 0);

	self->to.fd = -1;
	if (!ret)
		ret = userq_make(&self->node, &self->queue, AMDGPU_HW_IP_COMPUTE, 0);
	if (ret == -ENODEV)
		SKIP(return, "the driver has no user queues for this GPU");
	ASSERT_EQ(0, ret);
	self->pages = mmap(NULL, USERPTR_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->pages);
}

FIXTURE_TEARDOWN(memory)
{
	criu_image_free(&self->image);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
}

static void make_userptr(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self,
			 __u32 flags)
{
	ASSERT_EQ(0, render_userptr_create(&self->node, (void *)self->pages, USERPTR_SIZE,
					   USERPTR_FLAGS | flags, &self->userptr));
	ASSERT_EQ(0, render_va_map(&self->node, self->userptr, USERPTR_VA, USERPTR_SIZE));
	ASSERT_EQ(0, userq_wait_for_mappings(&self->node));
}

/* The queue reads and writes the last word of the pages. */
static bool accesses_pages(FIXTURE_DATA(memory) *self, struct userq *queue, __u32 value)
{
	const __u32 last = USERPTR_SIZE / sizeof(__u32) - 1;

	self->pages[0] = value;
	userq_wait_va(queue, USERPTR_VA);
	userq_write_va(queue, USERPTR_VA + last * sizeof(__u32), value);
	if (!userq_runs(queue, value))
		return false;
	return self->pages[last] == value;
}

/* The driver attaches the eviction fence to a new BO, and validates it. */
TEST_F(memory, a_userptr_without_VALIDATE_is_created_beside_a_queue)
{
	EXPECT_TRUE(userq_runs(&self->queue, 1));
	make_userptr(_metadata, self, 0);
	EXPECT_TRUE(userq_runs(&self->queue, 2));
	EXPECT_EQ(0, render_bo_close(&self->node, self->userptr));
	EXPECT_TRUE(userq_runs(&self->queue, 3));
}

/* Each change stops the queue, which then gets the new pages. */
static void change_pages(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self,
			 struct userq *queue)
{
	for (__u32 i = 2; i < 10; i++) {
		ASSERT_EQ(0, madvise((void *)self->pages, USERPTR_SIZE, MADV_DONTNEED));
		EXPECT_EQ(0, self->pages[0]);
		ASSERT_TRUE(accesses_pages(self, queue, i)) {
			TH_LOG("change %u", i);
		}
	}
}

TEST_F(memory, of_a_userptr_changes_and_the_queue_accesses_the_new_pages)
{
	make_userptr(_metadata, self, AMDGPU_GEM_USERPTR_VALIDATE);
	EXPECT_TRUE(accesses_pages(self, &self->queue, 1));
	change_pages(_metadata, self, &self->queue);
}

/* Saves the file and restores it. The caller calls RESUME and closes the session. */
static int restore(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self)
{
	int session;

	EXPECT_EQ(0, render_save(&self->node, &self->image));
	EXPECT_EQ(0, render_open(&self->to, 0));
	session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	EXPECT_LE(0, session);
	EXPECT_EQ(0, criu_restore(&self->to, session, &self->image)) {
		TH_LOG("%s", criu_reason);
	}
	EXPECT_EQ(0, userq_again(&self->to, &self->image, &self->queue, &self->restored));
	return session;
}

/* RESUME attaches the userptr. The restored queue waits for pages that change. */
static void carry_userptr(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self,
			  __u32 flags)
{
	int session;

	make_userptr(_metadata, self, flags);
	session = restore(_metadata, self);
	EXPECT_EQ(0, criu_resume(&self->to, session, 0)) {
		TH_LOG("%s", criu_reason);
	}
	close(session);
	EXPECT_TRUE(accesses_pages(self, &self->restored, 1));
	change_pages(_metadata, self, &self->restored);
	EXPECT_TRUE(accesses_pages(self, &self->queue, 10));
}

TEST_F(memory, of_a_userptr_is_accessed_by_the_restored_queue)
{
	carry_userptr(_metadata, self, AMDGPU_GEM_USERPTR_VALIDATE);
}

TEST_F(memory, of_a_userptr_without_VALIDATE_is_accessed_by_the_restored_queue)
{
	carry_userptr(_metadata, self, 0);
}

/* Fails with -EBADMSG if RESTORE gets a queue that has its write pointer there. */
static int restore_wptr(FIXTURE_DATA(memory) *self, __u64 va)
{
	const struct blob_fault wptr = BLOB_FAULT("", blob_userq, wptr_va, va, -EBADMSG);
	int session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	int ret = blob_restore_fault(&self->to, session, &self->image, BLOB_RENDER_USERQ, 0, 0,
				     &wptr);

	close(session);
	return ret;
}

/* RESTORE needs the pages of a write pointer, and a userptr has none before RESUME. */
TEST_F(memory, of_a_write_pointer_in_a_userptr_is_refused)
{
	struct userq other = { .doorbell_handle = self->queue.doorbell_handle };
	struct amdgpu_criu_process_info info;
	struct userq_args args;
	__u64 area;
	int session;

	ASSERT_EQ(0, render_userptr_create(&self->node, (void *)self->pages, USERQ_PAGE,
					   USERPTR_FLAGS | AMDGPU_GEM_USERPTR_VALIDATE,
					   &self->userptr));
	ASSERT_EQ(0, render_va_map(&self->node, self->userptr, USERPTR_VA, USERQ_PAGE));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_open(&self->to, 0));
	EXPECT_EQ(-EBADMSG, restore_wptr(self, USERPTR_VA));
	EXPECT_NE(NULL, strstr(criu_reason, "its write pointer is in a userptr"));
	ASSERT_EQ(0, userq_memory(&self->node, &other, AMDGPU_HW_IP_COMPUTE, 1));
	args = userq_create_args(&other, &area);
	args.wptr_va = USERPTR_VA;
	ASSERT_EQ(0, userq_call(&self->node, &args, USERQ_CREATE));
	other.id = args.op;
	session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->node, session, &info));
	EXPECT_NE(NULL, strstr(criu_reason, "a user queue whose write pointer is in a userptr"));
	ASSERT_EQ(0, userq_free(&self->node, &other));
	EXPECT_EQ(0, criu_pause(&self->node, session, &info));
	close(session);
}

/* MES reads the write pointer, and would poll address 0 for one without pages. */
TEST_F(memory, of_a_write_pointer_without_pages_is_refused)
{
	struct userq other = { .doorbell_handle = self->queue.doorbell_handle };
	struct drm_amdgpu_gem_va sparse = {
		.operation = AMDGPU_VA_OP_MAP, .flags = AMDGPU_VM_PAGE_PRT,
		.va_address = USERPTR_VA + USERQ_PAGE, .map_size = USERQ_PAGE,
	};
	struct userq_args args;
	__u64 area;

	ASSERT_EQ(0, render_userptr_create(&self->node, (void *)self->pages, USERQ_PAGE,
					   USERPTR_FLAGS, &self->userptr));
	ASSERT_EQ(0, render_va_map(&self->node, self->userptr, USERPTR_VA, USERQ_PAGE));
	ASSERT_EQ(0, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_GEM_VA, &sparse));
	ASSERT_EQ(0, userq_memory(&self->node, &other, AMDGPU_HW_IP_COMPUTE, 1));
	complaints_allow("ERROR.*Failed to create (WPTR mapping|Queue|usermode queue)");
	args = userq_create_args(&other, &area);
	args.wptr_va = USERPTR_VA;
	EXPECT_EQ(-EFAULT, userq_call(&self->node, &args, USERQ_CREATE));
	args = userq_create_args(&other, &area);
	args.wptr_va = sparse.va_address;
	EXPECT_EQ(-EINVAL, userq_call(&self->node, &args, USERQ_CREATE));
	complaints_disallow();
	/* It would wait for the users of its BO. */
	sparse.operation = AMDGPU_VA_OP_UNMAP;
	EXPECT_EQ(0, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_GEM_VA, &sparse));
	EXPECT_TRUE(userq_runs(&self->queue, 1));
}

/* Two ioctls read the write pointer of a queue. A sparse mapping has no BO to read. */
TEST_F(memory, of_a_write_pointer_that_becomes_sparse_is_refused)
{
	const struct criu_node *node = &self->node;
	int session = criu_session(node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct amdgpu_criu_process_info info;
	struct drm_amdgpu_gem_va sparse = {
		.operation = AMDGPU_VA_OP_REPLACE, .flags = AMDGPU_VM_PAGE_PRT,
		.va_address = USERQ_WPTR_VA(0), .map_size = USERQ_PAGE,
	};

	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_VA, &sparse));
	EXPECT_EQ(-EINVAL, userq_signal(node, &self->queue, NULL, 0, 0, false));
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(node, session, &info));
	EXPECT_NE(NULL, strstr(criu_reason, "a user queue whose memory is not mapped"));
	close(session);
	EXPECT_EQ(0, userq_free(node, &self->queue));
}

/* The queue is given up, the others run. */
TEST_F(memory, of_a_write_pointer_may_be_unmapped)
{
	struct userq other = { .doorbell_handle = self->queue.doorbell_handle };
	int log = complaints_open();
	struct userq_args args;
	__u64 area;

	ASSERT_LE(0, log);
	ASSERT_EQ(0, render_userptr_create(&self->node, (void *)self->pages, USERQ_PAGE,
					   USERPTR_FLAGS | AMDGPU_GEM_USERPTR_VALIDATE,
					   &self->userptr));
	ASSERT_EQ(0, render_va_map(&self->node, self->userptr, USERPTR_VA, USERQ_PAGE));
	ASSERT_EQ(0, userq_memory(&self->node, &other, AMDGPU_HW_IP_COMPUTE, 1));
	args = userq_create_args(&other, &area);
	args.wptr_va = USERPTR_VA;
	ASSERT_EQ(0, userq_call(&self->node, &args, USERQ_CREATE));
	other.id = args.op;
	complaints_allow("ERROR.*trying restore queue without va mapping");
	ASSERT_EQ(0, munmap((void *)self->pages, USERPTR_SIZE));
	EXPECT_TRUE(complaints_wait(log, "trying restore queue without va mapping",
				    10 * patience()));
	EXPECT_TRUE(userq_runs(&self->queue, 1));
	EXPECT_EQ(0, userq_free(&self->node, &other));
	complaints_disallow();
	close(log);
}

/* The change does not start the queue. */
TEST_F(memory, of_a_queue_that_is_not_resumed_changes)
{
	make_userptr(_metadata, self, AMDGPU_GEM_USERPTR_VALIDATE);
	close(restore(_metadata, self));
	userq_write(&self->restored, 0, 1);
	ASSERT_EQ(0, madvise((void *)self->pages, USERPTR_SIZE, MADV_DONTNEED));
	EXPECT_TRUE(accesses_pages(self, &self->queue, 2));
	EXPECT_EQ(0, self->restored.memory[USERQ_WORDS / sizeof(__u32)]);
	EXPECT_EQ(-ENOENT, userq_free(&self->to, &self->restored));
}

/* The resume worker faults a page that does not arrive, while a child pauses the file. */
struct late {
	struct fuse_stall stall;
	/* Shared with the child: 1: it may begin, 2: it has paused the file */
	volatile __u32 *state;
	int session;
	pid_t child;
	__u32 userptr;
};

/*
 * In a child that exists before: the worker holds the lock of the memory, which fork() needs. Only
 * its tracer names another process.
 */
static void pause_later(const struct criu_node *node, const struct late *late, bool unpauses)
{
	struct amdgpu_criu_process_info info = {
		.session_fd = late->session, .pid = getppid(),
	};
	int ret;

	if (ptrace(PTRACE_SEIZE, info.pid, 0, 0))
		_exit(2);
	while (!*late->state)
		usleep(10000);
	ret = criu_op(node, PROCESS_INFO, &info);
	*late->state = 2;
	if (!ret && unpauses)
		ret = criu_unpause(node, late->session);
	if (ret)
		printf("# %d: %s\n", ret, criu_reason);
	fflush(stdout);
	_exit(!!ret);
}

static void pause_while_late(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self,
			     struct late *late, bool unpauses)
{
	const struct criu_node *node = &self->node;

	late->state = mmap(NULL, USERPTR_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)late->state);
	make_userptr(_metadata, self, AMDGPU_GEM_USERPTR_VALIDATE);
	EXPECT_TRUE(accesses_pages(self, &self->queue, 1));
	late->session = criu_session(node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, late->session);
	late->child = fork();
	ASSERT_LE(0, late->child);
	if (!late->child)
		pause_later(node, late, unpauses);
	ASSERT_EQ(0, render_userptr_create(node, fuse_stall_map(&late->stall), USERPTR_SIZE,
					   AMDGPU_GEM_USERPTR_REGISTER, &late->userptr));
	ASSERT_EQ(0, render_va_map(node, late->userptr, USERPTR_VA + USERPTR_SIZE, USERPTR_SIZE));
	ASSERT_EQ(0, madvise((void *)self->pages, USERPTR_SIZE, MADV_DONTNEED));
	for (int i = 0; i < 500 && !late->stall.waiting; i++)
		usleep(10000);
	EXPECT_LT(0, late->stall.waiting);
	*late->state = 1;
}

static bool child_ends(const struct late *late, int *status)
{
	int ret = 0;

	for (int i = 0; i < 500 * patience() && !ret; i++) {
		ret = waitpid(late->child, status, WNOHANG);
		usleep(10000);
	}
	return ret == late->child;
}

static void expect_to_run(struct __test_metadata *_metadata, FIXTURE_DATA(memory) *self,
			  const struct late *late)
{
	close(late->session);
	EXPECT_EQ(0, render_bo_close(&self->node, late->userptr));
	EXPECT_TRUE(accesses_pages(self, &self->queue, 2));
}

/* A pause must not wait for the worker. */
TEST_F_TIMEOUT(memory, that_never_arrives_delays_no_pause, 120)
{
	struct late late = {};
	int status = -1, ret = fuse_stall_make(&late.stall);
	bool ended;

	if (ret == -ENOENT || ret == -ENODEV)
		SKIP(return, "this kernel has no FUSE");
	ASSERT_EQ(0, ret);
	pause_while_late(_metadata, self, &late, false);
	ended = child_ends(&late, &status);
	EXPECT_TRUE(ended);
	fuse_stall_end(&late.stall);
	if (!ended)
		waitpid(late.child, &status, 0);
	EXPECT_EQ(0, status);
	expect_to_run(_metadata, self, &late);
}

/* UNPAUSE cannot be repeated, so it waits longer than a pause. */
TEST_F_TIMEOUT(memory, that_comes_late_is_awaited_by_UNPAUSE, 120)
{
	struct late late = {};
	int status = -1, ret = fuse_stall_make(&late.stall);

	if (ret == -ENOENT || ret == -ENODEV)
		SKIP(return, "this kernel has no FUSE");
	ASSERT_EQ(0, ret);
	pause_while_late(_metadata, self, &late, true);
	while (*late.state != 2)
		usleep(10000);
	sleep(LATE_SECONDS);
	EXPECT_EQ(0, waitpid(late.child, &status, WNOHANG));
	fuse_stall_end(&late.stall);
	EXPECT_TRUE(child_ends(&late, &status));
	EXPECT_EQ(0, status);
	expect_to_run(_metadata, self, &late);
}

TEST_HARNESS_MAIN
