// SPDX-License-Identifier: GPL-2.0
/*
 * 100,000 changes to blobs of real processes, with a valid checksum. The kernel may accept or
 * refuse each, but none does harm: a refused one leaves nothing, and an accepted one is freed with
 * its process.
 *
 * To need one ioctl each, the GPU's file is one whose VM another process uses. A valid blob then
 * fails in the first step of applying it, with an errno that no check returns. A sample of those is
 * applied completely afterwards.
 */
#include "kselftest_harness.h"

#include <fcntl.h>

#include "answers.h"
#include "mutations.h"
#include "sample.h"
#include "state.h"

#define TOTAL 100000
/* How many of the valid ones are applied, each in a process of its own: of all, or of a sample. */
#define APPLIED 75
#define APPLIED_OF_SAMPLE 25
#define WORKERS 2
/* Errno of AMDKFD_IOC_ACQUIRE_VM for a VM that is in use: the blob is valid. */
#define FOUND_GOOD EINVAL

/* In memory that all processes share. */
struct tally {
	unsigned long refused, good;
	int by_errno[256];
	/* Numbers of the valid ones. */
	unsigned long good_at[8192];
	unsigned long failed_at;
	const char *failed;
};

FIXTURE(mutation) {
	struct carry carry;
	struct kfd kfd;
	struct kfd_bo fence;
	struct mutations all;
	struct blob blob;
	struct tally *tallies;
	/* Keeps the VM of taken_fd in use. */
	pid_t owner;
	int owner_quit, taken_fd;
};

FIXTURE_VARIANT(mutation) {
	int (*make)(struct kfd *kfd, struct carry *carry);
	unsigned long first, num;
};

/* The event page is a BO: with 4096 slots it would be most of the blob. */
static int make_events(struct kfd *kfd, struct state *state)
{
	static const __u32 types[] = { KFD_IOC_EVENT_SIGNAL, KFD_IOC_EVENT_MEMORY };
	int ret = kfd_bo_alloc(kfd, &state->gtt, KFD_GTT, STATE_GTT_SIZE);

	for (int i = 0; !ret && i < 2; i++) {
		struct kfd_ioctl_create_event_args args = {
			.event_type = types[i],
			.event_page_offset = i ? 0 : state->gtt.handle,
		};

		ret = ioctl(kfd->node.fd, AMDKFD_IOC_CREATE_EVENT, &args) ? -errno : 0;
	}
	return ret;
}

/* Small, so that most of them are of this one: no control stack. */
static int make_small(struct kfd *kfd, struct carry *carry)
{
	struct state *state = (struct state *)carry->notes;
	int ret = kfd_bo_alloc(kfd, &state->vram, KFD_VRAM, STATE_VRAM_SIZE);

	if (!ret)
		ret = kfd_bo_alloc(kfd, &state->userptr, KFD_USERPTR, STATE_USERPTR_SIZE);
	if (!ret)
		ret = make_events(kfd, state);
	return ret ? ret : kfd_sdma_create(kfd, &state->sdma);
}

#define SVM_SIZE 0x10000

/* Not an error if this kernel has no SVM. */
static int make_svm(struct kfd *kfd, struct carry *carry)
{
	const struct kfd_ioctl_svm_attribute access = {
		KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id,
	};
	void *at = mmap(CARRY_ADDRESS + 0x80000000, SVM_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	if (!kfd_set_svm(kfd, at, SVM_SIZE, &access, 1))
		carry->areas[0] = (struct carry_area) { .at = at, .size = SVM_SIZE };
	return 0;
}

static int make_all(struct kfd *kfd, struct carry *carry)
{
	struct state *state = (struct state *)carry->notes;
	int ret = make_small(kfd, carry);

	if (!ret)
		ret = kfd_compute_create(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &state->compute);
	return ret ? ret : make_svm(kfd, carry);
}

FIXTURE_VARIANT_ADD(mutation, small) {
	.make = make_small, .num = TOTAL - 20000,
};

FIXTURE_VARIANT_ADD(mutation, all) {
	.make = make_all, .num = 20000,
};

/* A process that uses the VM of a file while the test runs. */
static int own_vm(FIXTURE_DATA(mutation) *self, const struct kfd_gpu *gpu)
{
	int ready[2], quit[2];
	struct kfd kfd;
	char byte;

	self->taken_fd = kfd_render_open(gpu);
	if (self->taken_fd < 0 || pipe2(ready, O_CLOEXEC) || pipe2(quit, O_CLOEXEC))
		return -errno;
	self->owner = fork();
	if (!self->owner) {
		close(quit[1]);
		if (!kfd_open_with(&kfd, self->taken_fd) && write(ready[1], "x", 1) == 1)
			while (read(quit[0], &byte, 1) < 0)
				;
		_exit(0);
	}
	close(ready[1]);
	close(quit[0]);
	self->owner_quit = quit[1];
	if (self->owner < 0 || read(ready[0], &byte, 1) != 1)
		return -ECHILD;
	close(ready[0]);
	return 0;
}

FIXTURE_SETUP(mutation)
{
	const struct carry_maker maker = { .make = variant->make };
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, carry_make(&self->carry, &maker));
	ASSERT_EQ(0, own_vm(self, &gpu));
	ASSERT_TRUE(mutations_init(&self->all, self->carry.image.blob,
				   self->carry.image.blob_size));
	/* Any record may occur twice. */
	self->blob.data = malloc(2 * self->carry.image.blob_size + BLOB_SPARE);
	ASSERT_NE(NULL, self->blob.data);
	self->tallies = mmap(NULL, WORKERS * sizeof(*self->tallies), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->tallies);
}

FIXTURE_TEARDOWN(mutation)
{
	close(self->owner_quit);
	waitpid(self->owner, NULL, 0);
	close(self->taken_fd);
	blob_free(&self->blob);
	mutations_free(&self->all);
	carry_free(&self->carry);
}

static int restore_mutation(FIXTURE_DATA(mutation) *self, int session, unsigned long number)
{
	struct amdgpu_criu_state args = criu_image_args(session, &self->carry.image);

	mutations_make(&self->all, &self->blob, number);
	args.blob = (uintptr_t)self->blob.data;
	args.blob_size = self->blob.size;
	return criu_op(&self->kfd.node, RESTORE, &args);
}

/* How many objects and clients a session has: must be 0. */
static bool session_is_empty(int session)
{
	char path[64], text[512];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", session);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		return false;
	text[length] = 0;
	return strstr(text, "criu-session-objects:\t0\n") &&
	       strstr(text, "criu-session-clients:\t0\n");
}

/* Counts a result. Returns NULL, or why the kernel must not return it. */
static const char *count(struct tally *tally, int ret, unsigned long number)
{
	if (!ret)
		return "restored onto a VM of another process";
	tally->by_errno[-ret & 0xff]++;
	switch (-ret) {
	case FOUND_GOOD:
		if (tally->good < ARRAY_SIZE(tally->good_at))
			tally->good_at[tally->good] = number;
		tally->good++;
		return NULL;
	/* Only these come from the checks before anything is applied. */
	case EBADMSG: /* the blob contradicts itself */
	case EOPNOTSUPP: /* a record, a version or a flag that this kernel does not know */
	case ENODEV: /* a GPU that is not there, or is another one */
		tally->refused++;
		return NULL;
	case EBADFD:
		return "the previous one has left an object";
	}
	return strerror(-ret);
}

/* Every WORKERS-th number, or some of these, in this process and one session. */
static void work(FIXTURE_DATA(mutation) *self, unsigned long first, unsigned long num)
{
	struct tally *tally = &self->tallies[first];
	struct sample sample = sample_start();
	const char *failed = NULL;
	unsigned long number, last = 0, calls = 0;
	int session, free_fd;

	if (carry_open(&self->carry, &self->kfd)) {
		tally->failed = "cannot open the nodes";
		return;
	}
	for (__u32 i = 0; i < self->carry.image.num_devices; i++)
		if (self->carry.has_vm[i])
			dup2(self->taken_fd, self->carry.image.devices[i].drm_fd);
	session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	free_fd = lowest_free_fd();
	for (number = first; !failed && number < num; number += WORKERS * sample_step(&sample)) {
		failed = count(tally, restore_mutation(self, session, number), number);
		if (!failed && calls++ % 512 == 0 && !session_is_empty(session))
			failed = "the session has an object or a client";
		last = number;
	}
	if (!failed && free_fd != lowest_free_fd())
		failed = "a descriptor is left";
	tally->failed = failed;
	tally->failed_at = last;
}

/* After its mutations the process is unused: the valid blob is restored there, and runs. */
static int restore_right(FIXTURE_DATA(mutation) *self)
{
	struct state *state = (struct state *)self->carry.notes;
	int session;
	int ret = carry_open(&self->carry, &self->kfd);

	if (ret)
		return ret;
	session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	ret = carry_restore(&self->carry, &self->kfd, session);
	if (!ret)
		ret = kfd_doorbell_map(&self->kfd, &state->sdma);
	if (ret)
		return ret;
	kfd_sdma_write(&state->sdma, state->vram.at, 0x5a5a);
	return kfd_becomes(state->vram.at, 0x5a5a, 10000) ? 0 : -ETIME;
}

/* 0 to 254: the errno of RESTORE, 0 for success. */
static int apply(FIXTURE_DATA(mutation) *self, unsigned long number)
{
	int status, session;
	pid_t child = fork();

	if (!child) {
		if (carry_open(&self->carry, &self->kfd))
			_exit(255);
		session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
		_exit(-restore_mutation(self, session, number));
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 255;
	return WEXITSTATUS(status);
}

/* Results that RESTORE may return for a valid blob, with the reasons. */
static const struct answer apply_answers[] = {
	{ 0, "the changed blob describes another valid state" },
	{ -EINVAL, "an address, a size or a property that the ordinary ioctls refuse" },
	{ -ENOMEM, "more memory than there is, or an address that is in use" },
	{ -EBUSY, "a number of a queue or a doorbell that is in use" },
	{ -EFAULT, "a userptr, or memory of a queue, where the process has none" },
	{ -EOVERFLOW, "a userptr that ends beyond the address space" },
	{ -ENOENT, "an object that the process does not have" },
	{ -EEXIST, "a number that is there twice" },
	{ -ENOSPC, "a number beyond those that there are" },
	{ -ENODEV, "a heap or an engine that the GPU does not have" },
	{ -EOPNOTSUPP, "a property that this kernel or this GPU does not support" },
	{ -EPERM, "memory that the caller may not use" },
	{ -EBADMSG, "a part of a BO that a queue does not fit into" },
};

TEST_F_TIMEOUT(mutation, of_a_real_blob_does_no_harm, 900)
{
	struct answers answers = ANSWERS(apply_answers);
	const struct sample sample = sample_start();
	const int applied = sample.one_in == 1 ? APPLIED : APPLIED_OF_SAMPLE;
	unsigned long refused = 0, good = 0, taken = 0, failed = 0;
	int status, i, j, ended[2];
	pid_t pids[WORKERS];

	ASSERT_LT(self->all.in_order, variant->num);
	ASSERT_EQ(0, pipe2(ended, O_CLOEXEC));
	TH_LOG("%lu mutations, %lu of them in order; of these one in %lu, seed %#lx", variant->num,
	       self->all.in_order, sample.one_in, sample.seed);
	for (i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		ASSERT_LE(0, pids[i]);
		if (!pids[i]) {
			work(self, i, variant->num);
			close(ended[1]);
			/*
			 * In a process that has received many, and after the others: to them its
			 * SDMA queue would be in use.
			 */
			if (!self->tallies[i].failed && i == 0) {
				while (read(ended[0], &(char){ 0 }, 1) > 0)
					;
				carry_close(&self->carry, &self->kfd);
				self->tallies[i].failed = restore_right(self) ?
							  "the valid blob is refused" : NULL;
			}
			_exit(0);
		}
	}
	close(ended[0]);
	close(ended[1]);
	for (i = 0; i < WORKERS; i++) {
		const struct tally *tally = &self->tallies[i];

		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		EXPECT_TRUE(WIFEXITED(status));
		EXPECT_EQ(NULL, tally->failed) {
			TH_LOG("mutation %lu: %s", tally->failed_at, tally->failed);
		}
		refused += tally->refused;
		good += tally->good;
		for (j = 0; j < 256; j++)
			if (i && (tally->by_errno[j] + self->tallies[0].by_errno[j]))
				TH_LOG("%s: %d", strerror(j),
				       tally->by_errno[j] + self->tallies[0].by_errno[j]);
	}
	if (sample.one_in == 1)
		EXPECT_EQ(variant->num, refused + good);
	EXPECT_LT(variant->num / sample.one_in / 2, refused + good);
	/* Without both kinds the test would have no meaning. */
	EXPECT_LT((refused + good) / 4, refused);
	EXPECT_LT((refused + good) / 100, good);
	/* Spread over all of them, except copies of the valid blob. */
	for (i = 0; i < applied; i++) {
		const struct tally *tally = &self->tallies[i % WORKERS];
		unsigned long many = tally->good < ARRAY_SIZE(tally->good_at) ?
				     tally->good : ARRAY_SIZE(tally->good_at);
		int ret = apply(self, tally->good_at[i * many / applied]);

		EXPECT_TRUE(answer_is_known(&answers, -ret)) {
			TH_LOG("a blob that was found good: %s", strerror(ret));
		}
		taken += !ret;
		failed += !!ret;
	}
	TH_LOG("%lu refused, %lu valid; of %d applied %lu succeeded, %lu failed and were undone",
	       refused, good, applied, taken, failed);
	answers_log(&answers);
	EXPECT_LT(0, taken);
}

TEST_HARNESS_MAIN
