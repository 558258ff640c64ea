// SPDX-License-Identifier: GPL-2.0
/*
 * RESTORE of blobs that are not quite right: made from a real one, with a right checksum. Each is
 * taken or refused; nothing is left of one that is refused, and none does harm.
 */
#include "kselftest_harness.h"

#include "render.h"
#include "render_blob.h"
#include "sample.h"

/* Environment: how many; by default few enough for every day. */
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

/* Offset of a record that is chosen by chance, but not END. */
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

static bool is_sensible(int error)
{
	static const int errors[] = {
		0, -EBADMSG, -EOPNOTSUPP, -ENODEV, -EINVAL, -ENOMEM, -EBUSY, -EACCES, -EBADFD,
		-EEXIST, -EFAULT, -EPERM, -ENOENT,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(errors); i++)
		if (error == errors[i])
			return true;
	return false;
}

/* What the process may do with what it got. */
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

TEST_F_TIMEOUT(mutate, blobs_that_are_not_quite_right, 3600)
{
	unsigned long i, num = sample_number(MUTATIONS, 1000) / sample_start().one_in, taken = 0;
	struct criu_node to = { .fd = -1 };
	struct blob blob;
	int ret, session = -1;

	TH_LOG("%lu mutations, seed %#llx", num, random_state / 2);
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
		EXPECT_TRUE(is_sensible(ret)) {
			TH_LOG("mutation %lu: %d", i, ret);
		}
		taken += !ret;
		if (!ret) {
			use(&to, session);
		} else if (i % 16) {
			/* The same file gets the next one. */
			continue;
		} else {
			ASSERT_EQ(0, criu_restore(&to, session, &self->image)) {
				TH_LOG("the right one after mutation %lu: %d", i, ret);
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
	TH_LOG("%lu taken, %lu refused", taken, num - taken);
	/* Else it would be the frame that is tested, not what is in it. */
	EXPECT_LT(num / 50, taken);
	EXPECT_LT(num / 4, num - taken);
}

TEST_HARNESS_MAIN
