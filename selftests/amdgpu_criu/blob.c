// SPDX-License-Identifier: GPL-2.0
/*
 * RESTORE with blobs of a hostile or careless caller. After every refusal the valid blob is
 * restored in the same process, which shows that the other was refused for one reason and
 * left nothing.
 */
#include "kselftest_harness.h"

#include <fcntl.h>

#include "blob_edit.h"
#include "fixtures.h"
#include "sample.h"

FIXTURE(blob) {
	struct restorer r;
	struct blob blob;
};

FIXTURE_SETUP(blob)
{
	int ret = restorer_open(&self->r);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	ASSERT_TRUE(blob_copy(&self->blob, self->r.saved.carry.image.blob,
			      self->r.saved.carry.image.blob_size));
}

/* The valid one, which the edits never change. */
static int restore_right(FIXTURE_DATA(blob) *self)
{
	return criu_restore(&self->r.kfd.node, self->r.session, &self->r.saved.carry.image);
}

FIXTURE_TEARDOWN(blob)
{
	EXPECT_EQ(0, restore_right(self));
	blob_free(&self->blob);
	restorer_close(&self->r);
}

static int restore_blob(FIXTURE_DATA(blob) *self, const void *blob, __u64 size)
{
	struct amdgpu_criu_state args = criu_image_args(self->r.session,
							&self->r.saved.carry.image);

	args.blob = (uintptr_t)blob;
	args.blob_size = size;
	return criu_op(&self->r.kfd.node, RESTORE, &args);
}

/* The edited blob; afterwards it is valid again. */
static int restore_edited(FIXTURE_DATA(blob) *self)
{
	int ret;

	blob_repair(&self->blob);
	ret = restore_blob(self, self->blob.data, self->blob.size);
	blob_free(&self->blob);
	if (!blob_copy(&self->blob, self->r.saved.carry.image.blob,
		       self->r.saved.carry.image.blob_size))
		return -ENOMEM;
	return ret;
}

TEST_F(blob, truncated_is_EBADMSG)
{
	size_t size;

	for (size = 0; size < self->blob.size; size += size % 8 ? 89 : 1) {
		EXPECT_EQ(-EBADMSG, restore_blob(self, self->blob.data, size)) {
			TH_LOG("%zu of %zu bytes", size, self->blob.size);
		}
	}
}

TEST_F(blob, sizes_that_no_blob_has_are_EBADMSG)
{
	static const __u64 sizes[] = {
		0, 8, 31, (256 << 20) + 8, 0x100000000ULL, 1ULL << 63, ~0ULL,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_EQ(-EBADMSG, restore_blob(self, self->blob.data, sizes[i]));
		EXPECT_NE(NULL, strstr(criu_reason, "no blob has"));
	}
}

TEST_F(blob, unreadable_is_EFAULT)
{
	struct criu_hole hole;

	ASSERT_EQ(0, criu_hole_make(&hole));
	EXPECT_EQ(-EFAULT, restore_blob(self, NULL, self->blob.size));
	EXPECT_EQ(-EFAULT, restore_blob(self, hole.hole - 64, self->blob.size));
	EXPECT_EQ(-EFAULT, restore_blob(self, (void *)0xffff800000000000UL, self->blob.size));
}

TEST_F(blob, with_a_flipped_bit_is_EBADMSG)
{
	size_t at;

	for (at = 0; at < self->blob.size; at += at < 512 ? 1 : 61) {
		int ret;

		self->blob.data[at] ^= 1 << at % 8;
		ret = restore_blob(self, self->blob.data, self->blob.size);
		self->blob.data[at] ^= 1 << at % 8;
		/* A higher format number looks like a newer format. */
		EXPECT_TRUE(ret == -EBADMSG || (at >= 8 && at < 12 && ret == -EOPNOTSUPP)) {
			TH_LOG("byte %zu: %d", at, ret);
		}
	}
}

/* At address 0, which is EBADMSG with SVM; a kernel without SVM does not check that first. */
TEST_F(blob, with_an_svm_range_is_EOPNOTSUPP_without_svm)
{
	const struct {
		struct blob_record record;
		__u64 start, size;
		__u32 num_attrs, pad;
	} range = {
		.record = {
			.type = BLOB_KFD_SVM_RANGE, .version = 1, .fixed_size = 24, .size = 24,
		},
		.size = 4096,
	};

	blob_insert(&self->blob, blob_find(&self->blob, BLOB_END, 0), &range, sizeof(range));
	EXPECT_EQ(self->r.kfd.gpu.svm ? -EBADMSG : -EOPNOTSUPP, restore_edited(self));
}

TEST_F(blob, of_a_newer_format_is_EOPNOTSUPP)
{
	blob_header(&self->blob)->format++;
	EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
	blob_header(&self->blob)->flags = 1;
	EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
}

TEST_F(blob, of_another_node_or_driver_is_EOPNOTSUPP)
{
	size_t at = blob_find(&self->blob, BLOB_IDENTITY, 0);
	struct blob_identity *identity = blob_payload(&self->blob, at);

	identity->driver[0] = 'x';
	EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
	identity = blob_payload(&self->blob, at);
	identity->node = 2;
	EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
	identity = blob_payload(&self->blob, at);
	identity->page_size *= 2;
	EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
}

static void add_unknown(struct blob *blob, __u32 flags)
{
	struct {
		struct blob_record record;
		__u64 payload;
	} unknown = {
		.record = {
			.type = 0x1ff, .version = 1, .flags = flags, .fixed_size = 8, .size = 8,
		},
		.payload = 42,
	};

	blob_insert(blob, blob_find(blob, BLOB_END, 0), &unknown, sizeof(unknown));
}

TEST_F(blob, with_an_unknown_record_is_EOPNOTSUPP)
{
	add_unknown(&self->blob, 0);
	EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
	/* One that may be skipped, with an unknown flag. */
	add_unknown(&self->blob, BLOB_MAY_SKIP | 2);
	EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
}

/* The counterpart of the tests above: with the flag the blob is accepted. */
TEST_F(blob, with_an_unknown_record_that_may_be_skipped_is_accepted)
{
	int status;
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		if (restorer_become(&self->r))
			_exit(1);
		add_unknown(&self->blob, BLOB_MAY_SKIP);
		_exit(-restore_edited(self));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

static const __u16 kfd_types[] = {
	BLOB_KFD_PROCESS, BLOB_KFD_DEVICE, BLOB_KFD_BO, BLOB_KFD_EVENT_PAGE, BLOB_KFD_EVENT,
	BLOB_KFD_QUEUE,
};

TEST_F(blob, with_a_newer_version_of_any_record_is_EOPNOTSUPP)
{
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(kfd_types); i++) {
		at = blob_find(&self->blob, kfd_types[i], 0);
		ASSERT_NE(0, at);
		blob_record(&self->blob, at)->version = 0x7fff;
		EXPECT_EQ(-EOPNOTSUPP, restore_edited(self));
		blob_record(&self->blob, at)->version = 0;
		EXPECT_EQ(-EBADMSG, restore_edited(self));
	}
}

TEST_F(blob, with_an_unknown_field_in_any_record_is_EOPNOTSUPP)
{
	const __u64 field = 1;
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(kfd_types); i++) {
		struct blob_record *record;

		at = blob_find(&self->blob, kfd_types[i], 0);
		record = blob_record(&self->blob, at);
		at += sizeof(*record) + record->fixed_size;
		record->fixed_size += 8;
		record->size += 8;
		blob_insert(&self->blob, at, &field, sizeof(field));
		EXPECT_EQ(-EOPNOTSUPP, restore_edited(self)) {
			TH_LOG("type %#x", kfd_types[i]);
		}
	}
}

TEST_F(blob, with_any_record_twice_is_EBADMSG)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kfd_types); i++) {
		blob_double(&self->blob, blob_find(&self->blob, kfd_types[i], 0));
		EXPECT_EQ(-EBADMSG, restore_edited(self)) {
			TH_LOG("type %#x", kfd_types[i]);
		}
	}
}

TEST_F(blob, with_any_record_cut_short_is_EBADMSG)
{
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(kfd_types); i++) {
		struct blob_record *record;
		__u32 size;

		at = blob_find(&self->blob, kfd_types[i], 0);
		record = blob_record(&self->blob, at);
		size = record->size;
		record->size = 0;
		record->fixed_size = 0;
		blob_erase(&self->blob, at + sizeof(*record), size);
		EXPECT_EQ(-EBADMSG, restore_edited(self)) {
			TH_LOG("type %#x", kfd_types[i]);
		}
	}
}

/* Other records refer to each of these. */
TEST_F(blob, without_a_record_that_others_need_is_EBADMSG)
{
	static const __u16 needed[] = {
		BLOB_IDENTITY, BLOB_KFD_PROCESS, BLOB_KFD_DEVICE, BLOB_KFD_BO, BLOB_KFD_EVENT_PAGE,
	};
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(needed); i++) {
		at = blob_find(&self->blob, needed[i], 0);
		ASSERT_NE(0, at);
		blob_erase(&self->blob, at, sizeof(struct blob_record) +
			   blob_record(&self->blob, at)->size);
		EXPECT_EQ(-EBADMSG, restore_edited(self)) {
			TH_LOG("type %#x", needed[i]);
		}
	}
}

TEST_F(blob, with_a_tail_longer_or_shorter_than_declared_is_EBADMSG)
{
	static const __u16 tailed[] = { BLOB_KFD_BO, BLOB_KFD_EVENT_PAGE, BLOB_KFD_QUEUE };
	const __u64 zero = 0;
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(tailed); i++) {
		struct blob_record *record;

		at = blob_find(&self->blob, tailed[i], 0);
		record = blob_record(&self->blob, at);
		/* An event page in a BO has an empty tail. */
		ASSERT_LE(record->fixed_size, record->size);
		at += sizeof(*record) + record->size;
		record->size += 8;
		blob_insert(&self->blob, at, &zero, sizeof(zero));
		EXPECT_EQ(-EBADMSG, restore_edited(self));
		record = blob_record(&self->blob, blob_find(&self->blob, tailed[i], 0));
		record->size -= 8;
		blob_erase(&self->blob, at - 8, 8);
		EXPECT_EQ(-EBADMSG, restore_edited(self));
	}
}

/*
 * Any words changed, with a valid checksum: whatever the result, the kernel survives, and another
 * process can still be restored. Changed blobs may be accepted, so each has a process of its own.
 */
TEST_F_TIMEOUT(blob, with_random_words_and_a_valid_checksum_does_no_harm, 240)
{
	static const __u32 words[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffff000 };
	const unsigned int seed = sample_seed();
	int taken = 0, refused = 0;
	int round;

	for (round = 0; round < 150; round++) {
		int edits, status;
		pid_t child = fork();

		ASSERT_LE(0, child);
		if (!child) {
			srand(seed + round);
			if (restorer_become(&self->r))
				_exit(EFAULT);
			for (edits = 1 + rand() % 3; edits; edits--)
				blob_set_word(&self->blob, rand(),
					      rand() % 2 ? words[rand() % ARRAY_SIZE(words)] :
							   (__u32)rand());
			status = -restore_edited(self);
			_exit(status ? status : 255);
		}
		ASSERT_EQ(child, waitpid(child, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		EXPECT_NE(EFAULT, WEXITSTATUS(status));
		taken += WEXITSTATUS(status) == 255;
		refused += WEXITSTATUS(status) != 255;
	}
	TH_LOG("taken %d, refused %d", taken, refused);
	EXPECT_LT(15, refused);
	EXPECT_LT(5, taken);
}

TEST_HARNESS_MAIN
