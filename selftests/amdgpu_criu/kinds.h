/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One kind of KFD state: created in one process, restored in another, checked there, and
 * checkpointed again, which must give the same records.
 */
#ifndef AMDGPU_CRIU_TEST_KINDS_H
#define AMDGPU_CRIU_TEST_KINDS_H

#include "kselftest_harness.h"

#include "blob_edit.h"
#include "carry.h"

#define SOON 5000
#define PAGE 4096
/* Result of a maker if the machine lacks what it needs. */
#define LACKS (-ENODATA)

struct notes {
	struct kfd_bo words;
	struct kfd_queue queues[4];
	struct kfd other;
	struct kfd_bo far;
	__u32 ids[4];
	char *svm;
	struct kfd_process_device_apertures apertures[2];
};

FIXTURE(kinds) {
	struct carry carry;
	struct kfd kfd;
	struct notes *notes;
	int session;
};

FIXTURE_SETUP(kinds)
{
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	self->kfd.node.fd = -1;
	self->kfd.drm_fd = -1;
	self->session = -1;
	self->notes = (struct notes *)self->carry.notes;
}

FIXTURE_TEARDOWN(kinds)
{
	close(self->session);
	carry_close(&self->carry, &self->kfd);
	carry_free(&self->carry);
}

static int call(const struct kfd *kfd, unsigned long cmd, void *args)
{
	return ioctl(kfd->node.fd, cmd, args) ? -errno : 0;
}

/* @lacks: why the test is skipped if the machine lacks it. */
#define MAKE(maker, lacks) \
	do { \
		const int made = make(self, (maker), NULL); \
		if (made == LACKS) \
			SKIP(return, lacks); \
		ASSERT_EQ(0, made); \
	} while (0)

static int make(FIXTURE_DATA(kinds) *self, int (*maker)(struct kfd *, struct carry *),
		int (*when_paused)(struct kfd *, struct carry *))
{
	const struct carry_maker all = { .make = maker, .when_paused = when_paused };
	int ret = carry_make(&self->carry, &all);

	if (!ret)
		ret = carry_open(&self->carry, &self->kfd);
	if (ret)
		return ret;
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	return self->session < 0 ? self->session : 0;
}

/* A checkpoint of the restored process equals the first one. */
static void expect_same_again(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self)
{
	int session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_image again;
	struct blob was, is;
	size_t at;

	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_checkpoint(&self->kfd.node, session, &again));
	ASSERT_EQ(self->carry.image.blob_size, again.blob_size);
	ASSERT_TRUE(blob_copy(&was, self->carry.image.blob, again.blob_size));
	ASSERT_TRUE(blob_copy(&is, again.blob, again.blob_size));
	for (at = sizeof(struct blob_head); at < is.size;
	     at += sizeof(struct blob_record) + blob_record(&is, at)->size) {
		blob_blank(blob_record(&was, at));
		blob_blank(blob_record(&is, at));
		EXPECT_EQ(0, memcmp(was.data + at, is.data + at, sizeof(struct blob_record) +
				    blob_record(&is, at)->size)) {
			TH_LOG("record of type %#x at byte %zu", blob_record(&is, at)->type, at);
		}
	}
	blob_free(&was);
	blob_free(&is);
	criu_image_free(&again);
	close(session);
}

/* Checkpoint and restore; then the listed queues run. */
static inline void carry_over(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self,
			      int queues)
{
	struct notes *notes = self->notes;

	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
	expect_same_again(_metadata, self);
	for (int i = 0; i < queues; i++) {
		__u32 *word = (__u32 *)notes->words.at + i;

		ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &notes->queues[i]));
		kfd_sdma_write(&notes->queues[i], word, 0x1000 + i);
		EXPECT_TRUE(kfd_becomes(word, 0x1000 + i, SOON)) {
			TH_LOG("queue %d", i);
		}
	}
}

static struct notes *notes_of(struct carry *carry)
{
	return (struct notes *)carry->notes;
}

static int make_words(struct kfd *kfd, struct carry *carry)
{
	return kfd_bo_alloc(kfd, &notes_of(carry)->words, KFD_GTT, PAGE);
}

static inline int make_sdma(struct kfd *kfd, struct carry *carry, int num)
{
	int ret = make_words(kfd, carry);

	for (int i = 0; !ret && i < num; i++)
		ret = kfd_sdma_create(kfd, &notes_of(carry)->queues[i]);
	/* A queue that runs for the first time has another MQD. */
	return ret || !num ? ret : kfd_queues_run(kfd);
}

/* Maps memory of the process for SVM ranges, and carries its contents over. */
static inline int map_svm_memory(struct carry *carry, size_t size)
{
	struct notes *notes = notes_of(carry);

	notes->svm = mmap(CARRY_ADDRESS + 0x80000000, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (notes->svm == MAP_FAILED)
		return -errno;
	carry->areas[0].at = notes->svm;
	carry->areas[0].size = size;
	return 0;
}

/* @mode: -1 only reads it. */
static inline int set_xnack(const struct kfd *kfd, __s32 mode, __s32 *is)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = mode };
	int ret = call(kfd, AMDKFD_IOC_SET_XNACK_MODE, &args);

	*is = args.xnack_enabled;
	return ret;
}

#endif /* AMDGPU_CRIU_TEST_KINDS_H */
