// SPDX-License-Identifier: GPL-2.0
/*
 * RESTORE of slightly changed blobs: derived from a real one, with a valid checksum. Each is
 * accepted or refused; a refused one leaves nothing, and none does harm.
 */
#include "kselftest_harness.h"

#include "answers.h"
#include "render.h"
#include "render_blob.h"
#include "sample.h"

/* Environment: how many; the default is small enough for a daily run. */
#define MUTATIONS "AMDGPU_CRIU_MUTATIONS"

static __u64 random_state;

static __u32 random_below(__u32 limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 16) % limit;
}

FIXTURE(mutate) {
	struct criu_node node;
	struct render_work work;
	struct criu_image image;
	int session;
};

FIXTURE_SETUP(mutate)
{
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_fill(&self->node, &self->work));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
	random_state = sample_start().random;
}

FIXTURE_TEARDOWN(mutate)
{
	if (self->session >= 0)
		close(self->session);
	render_work_unmap(&self->work);
	criu_image_free(&self->image);
	criu_node_close(&self->node);
}

/* Offset of a random record other than END. */
static size_t any_record(struct blob *blob)
{
	unsigned int num = 0, choice;
	size_t at;

	for (at = sizeof(struct blob_head); blob_record(blob, at)->type != BLOB_END;
	     at += sizeof(struct blob_record) + blob_record(blob, at)->size)
		num++;
	at = sizeof(struct blob_head);
	for (choice = num ? random_below(num) : 0; choice; choice--)
		at += sizeof(struct blob_record) + blob_record(blob, at)->size;
	return at;
}

static void change_field(struct blob *blob)
{
	static const __u64 values[] = {
		0, 1, 2, 3, 0x7f, 0x80, 0xff, 0x100, 0xfff, 0x1000, 0x1001, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000ull, 0x7fffffffffffffffull, 0x8000000000000000ull,
		0xfffffffffffff000ull, 0xffffffffffffffffull,
	};
	size_t at = any_record(blob);
	size_t size = random_below(2) ? 4 : 8;
	__u32 words = blob_record(blob, at)->size / size;
	__u64 value = values[random_below(ARRAY_SIZE(values))];
	unsigned char *field;

	if (!words)
		return;
	field = blob_payload(blob, at) + random_below(words) * size;
	if (random_below(3))
		memcpy(field, &value, size);
	else
		field[random_below(size)] ^= 1 << random_below(8);
}

static void change_header(struct blob *blob)
{
	struct blob_record *record = blob_record(blob, any_record(blob));

	switch (random_below(3)) {
	case 0:
		record->type = random_below(2) ? BLOB_RENDER_FILE + random_below(8) :
						 random_below(0x10000);
		break;
	case 1:
		record->version = random_below(4);
		break;
	default:
		record->fixed_size = random_below(16) * 8;
	}
}

static void move_record(struct blob *blob)
{
	size_t from = any_record(blob);
	size_t size = sizeof(struct blob_record) + blob_record(blob, from)->size;
	unsigned char copy[4096];

	if (size > sizeof(copy))
		return;
	memcpy(copy, blob->data + from, size);
	blob_erase(blob, from, size);
	blob_insert(blob, any_record(blob), copy, size);
}

static void mutate(struct blob *blob)
{
	unsigned int i, num = 1 + random_below(3) / 2;
	size_t at;

	for (i = 0; i < num; i++) {
		switch (random_below(12)) {
		case 0:
			blob_double(blob, any_record(blob));
			break;
		case 1:
			at = any_record(blob);
			blob_erase(blob, at,
				   sizeof(struct blob_record) + blob_record(blob, at)->size);
			break;
		case 2:
			move_record(blob);
			break;
		case 3:
			change_header(blob);
			break;
		default:
			change_field(blob);
		}
	}
}

/* Results that RESTORE may return, with the reasons. */
static const struct answer restore_answers[] = {
	{ 0, "the changed blob describes another valid state" },
	{ -EBADMSG, "the blob contradicts itself" },
	{ -EOPNOTSUPP, "a record, a version or a flag that this kernel does not know" },
	{ -ENODEV, "a GPU, an engine or a heap that does not exist" },
	{ -EINVAL, "an address or a size that the ordinary ioctl refuses" },
	{ -ENOMEM, "more memory, or more numbers, than there are" },
	{ -EBUSY, "a reserved VMID or a stable power state that another file has" },
	{ -EACCES, "a priority that the caller may not have" },
	{ -EFAULT, "a userptr where the caller has no memory" },
	{ -EPERM, "a userptr to memory that the caller may not use" },
	{ -EEXIST, "an address that is mapped twice" },
	{ -ENOENT, "a mapping of a BO that the file does not have" },
	{ -EBADFD, "a BO of another GPU that was not restored before" },
};

/* Uses the restored state as a process may. */
static void use(const struct criu_node *to, int session)
{
	__u32 handle;

	criu_resume(to, session, 0);
	render_ctx_free(to, 1 + random_below(3));
	render_bo_close(to, 1 + random_below(4));
	render_list_destroy(to, 1);
	render_syncobj_destroy(to, 1 + random_below(4));
	render_syncobj_create(to, 0, &handle);
	render_bo_create(to, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, &handle);
}

TEST_F_TIMEOUT(mutate, slightly_changed_blobs_do_no_harm, 3600)
{
	unsigned long i, num = sample_number(MUTATIONS, 1000) / sample_start().one_in, taken = 0;
	struct answers answers = ANSWERS(restore_answers);
	struct criu_node to = { .fd = -1 };
	struct blob blob;
	int ret, session = -1;

	TH_LOG("%lu mutations, seed %lu", num, sample_seed());
	for (i = 0; i < num; i++) {
		if (to.fd < 0) {
			ASSERT_EQ(0, render_open(&to, 0));
			session = criu_session(&to, AMDGPU_CRIU_SESSION_RESTORE);
			ASSERT_LE(0, session);
		}
		ASSERT_TRUE(blob_copy(&blob, self->image.blob, self->image.blob_size));
		mutate(&blob);
		ret = blob_restore(&to, session, &self->image, &blob);
		blob_free(&blob);
		EXPECT_TRUE(answer_is_known(&answers, ret)) {
			TH_LOG("mutation %lu: %s", i, strerror(-ret));
		}
		taken += !ret;
		if (!ret) {
			use(&to, session);
		} else if (i % 16) {
			/* The same file is used for the next one. */
			continue;
		} else {
			ASSERT_EQ(0, criu_restore(&to, session, &self->image)) {
				TH_LOG("the valid one after mutation %lu: %d", i, ret);
			}
		}
		criu_node_close(&to);
		close(session);
	}
	if (to.fd >= 0) {
		EXPECT_EQ(0, criu_restore(&to, session, &self->image));
		criu_node_close(&to);
		close(session);
	}
	TH_LOG("%lu accepted, %lu refused", taken, num - taken);
	answers_log(&answers);
	/* Otherwise only the frame would be tested, not the records. */
	EXPECT_LT(num / 50, taken);
	EXPECT_LT(num / 4, num - taken);
}

TEST_HARNESS_MAIN
