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

#define ROOM 16

FIXTURE(blob) {
	struct restorer r;
	struct blob blob;
	/* The tables that are passed with the blob. */
	struct amdgpu_criu_device devices[ROOM];
	struct amdgpu_criu_bo bos[ROOM];
	__u32 num_devices, num_bos;
};

/* Makes blob and tables valid. */
static bool reset(FIXTURE_DATA(blob) *self)
{
	const struct criu_image *image = &self->r.saved.carry.image;

	self->num_devices = image->num_devices;
	self->num_bos = image->num_bos;
	memcpy(self->devices, image->devices, image->num_devices * sizeof(self->devices[0]));
	memcpy(self->bos, image->bos, image->num_bos * sizeof(self->bos[0]));
	return blob_copy(&self->blob, image->blob, image->blob_size);
}

FIXTURE_SETUP(blob)
{
	int ret = restorer_open(&self->r);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	ASSERT_GT(ROOM, self->r.saved.carry.image.num_devices);
	ASSERT_GT(ROOM, self->r.saved.carry.image.num_bos);
	ASSERT_TRUE(reset(self));
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

/* In a child, whose tables have its own files */
static int become(FIXTURE_DATA(blob) *self)
{
	int ret = restorer_become(&self->r);

	blob_free(&self->blob);
	return ret ? ret : reset(self) ? 0 : -ENOMEM;
}

static int restore_blob(FIXTURE_DATA(blob) *self, const void *blob, __u64 size)
{
	struct amdgpu_criu_state args = criu_image_args(self->r.session,
							&self->r.saved.carry.image);

	args.devices = (uintptr_t)self->devices;
	args.num_devices = self->num_devices;
	args.bos = (uintptr_t)self->bos;
	args.num_bos = self->num_bos;
	args.blob = (uintptr_t)blob;
	args.blob_size = size;
	return criu_op(&self->r.kfd.node, RESTORE, &args);
}

/* The edited blob; afterwards it and the tables are valid again. */
static int restore_edited(FIXTURE_DATA(blob) *self)
{
	int ret;

	blob_repair(&self->blob);
	ret = restore_blob(self, self->blob.data, self->blob.size);
	blob_free(&self->blob);
	return reset(self) ? ret : -ENOMEM;
}

/* The edited blob is refused with this errno, for a reason with this text. */
#define EXPECT_REFUSED(error, text) \
	do { \
		EXPECT_EQ(-(error), restore_edited(self)); \
		EXPECT_NE(NULL, strstr(criu_reason, (text))) { \
			TH_LOG("%s, not: %s", criu_reason, (text)); \
		} \
	} while (0)

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
	EXPECT_REFUSED(self->r.kfd.gpu.svm ? EBADMSG : EOPNOTSUPP,
		       self->r.kfd.gpu.svm ? "address, size or pad" : "CONFIG_HSA_AMD_SVM");
}

TEST_F(blob, of_a_newer_format_is_EOPNOTSUPP)
{
	blob_header(&self->blob)->format++;
	EXPECT_REFUSED(EOPNOTSUPP, "newer format");
	blob_header(&self->blob)->flags = 1;
	EXPECT_REFUSED(EOPNOTSUPP, "unknown flag or field in the header");
}

TEST_F(blob, of_another_node_or_driver_is_EOPNOTSUPP)
{
	size_t at = blob_find(&self->blob, BLOB_IDENTITY, 0);
	struct blob_identity *identity = blob_payload(&self->blob, at);

	identity->driver[0] = 'x';
	EXPECT_REFUSED(EOPNOTSUPP, "of another driver");
	identity = blob_payload(&self->blob, at);
	identity->node = 2;
	EXPECT_REFUSED(EOPNOTSUPP, "of another kind of node");
	identity = blob_payload(&self->blob, at);
	identity->page_size *= 2;
	EXPECT_REFUSED(EOPNOTSUPP, "of another page size");
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
	EXPECT_REFUSED(EOPNOTSUPP, "unknown type of record");
	/* One that may be skipped, with an unknown flag. */
	add_unknown(&self->blob, BLOB_MAY_SKIP | 2);
	EXPECT_REFUSED(EOPNOTSUPP, "unknown flag of record");
}

/* The counterpart of the tests above: with the flag the blob is accepted. */
TEST_F(blob, with_an_unknown_record_that_may_be_skipped_is_accepted)
{
	int status;
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		if (become(self))
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
		EXPECT_REFUSED(EOPNOTSUPP, "newer version of record");
		blob_record(&self->blob, at)->version = 0;
		EXPECT_REFUSED(EBADMSG, "version 0 at");
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
		EXPECT_REFUSED(EOPNOTSUPP, "record has a field that is not known");
	}
}

/* The second record of a GPU is that of one that the process has never used, and has no target. */
static void double_device(FIXTURE_DATA(blob) *self)
{
	const size_t at = blob_find(&self->blob, BLOB_KFD_DEVICE, 0);
	__u32 *second;

	blob_double(&self->blob, at);
	second = blob_payload(&self->blob, blob_find(&self->blob, BLOB_KFD_DEVICE, 1));
	second[1] = 0; /* flags */
	memmove(&self->devices[1], &self->devices[0],
		self->num_devices++ * sizeof(self->devices[0]));
	self->devices[1].actual_gpu_id = 0;
	self->devices[1].drm_fd = -1;
}

TEST_F(blob, with_any_record_twice_is_EBADMSG)
{
	static const struct {
		__u16 type;
		const char *reason;
	} rows[] = {
		{ BLOB_KFD_PROCESS, "too many of the type" },
		{ BLOB_KFD_DEVICE, "its number occurs twice" },
		{ BLOB_KFD_BO, "its number occurs twice" },
		{ BLOB_KFD_EVENT_PAGE, "too many of the type" },
		{ BLOB_KFD_EVENT, "its number occurs twice" },
		{ BLOB_KFD_QUEUE, "its number occurs twice" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].type == BLOB_KFD_DEVICE)
			double_device(self);
		else
			blob_double(&self->blob, blob_find(&self->blob, rows[i].type, 0));
		EXPECT_REFUSED(EBADMSG, rows[i].reason);
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
		EXPECT_REFUSED(EBADMSG, "record too short");
	}
}

/* Erases a record, and its entry of the table. */
static void erase(FIXTURE_DATA(blob) *self, __u16 type, unsigned int index)
{
	const size_t at = blob_find(&self->blob, type, index);

	blob_erase(&self->blob, at,
		   sizeof(struct blob_record) + blob_record(&self->blob, at)->size);
	if (type == BLOB_KFD_DEVICE)
		memmove(&self->devices[index], &self->devices[index + 1],
			(--self->num_devices - index) * sizeof(self->devices[0]));
	if (type == BLOB_KFD_BO)
		memmove(&self->bos[index], &self->bos[index + 1],
			(--self->num_bos - index) * sizeof(self->bos[0]));
}

/* Index of the BO that contains the event page, or the number of BOs. */
static unsigned int event_page_bo(FIXTURE_DATA(blob) *self)
{
	const size_t at = blob_find(&self->blob, BLOB_KFD_EVENT_PAGE, 0);
	const __u64 handle = *(__u64 *)blob_payload(&self->blob, at);
	unsigned int i;

	for (i = 0; i < self->num_bos; i++)
		if ((__u64)self->bos[i].gpu_id << 32 == (handle & ~0xffffffffULL) &&
		    self->bos[i].handle == (__u32)handle)
			break;
	return i;
}

/* Other records refer to each of these. */
TEST_F(blob, without_a_record_that_others_need_is_EBADMSG)
{
	static const struct {
		__u16 type;
		const char *reason;
	} rows[] = {
		{ BLOB_IDENTITY, "identity is not the first record" },
		{ BLOB_KFD_PROCESS, "too few of the type" },
		{ BLOB_KFD_DEVICE, "on a GPU without a VM" },
		{ BLOB_KFD_EVENT_PAGE, "has no page for its slot" },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		ASSERT_NE(0, blob_find(&self->blob, rows[i].type, 0));
		erase(self, rows[i].type, 0);
		EXPECT_REFUSED(EBADMSG, rows[i].reason);
	}
	/* Before, the event page is in kernel memory. */
	if (!kernel_is_at_least(7, 3))
		return;
	i = event_page_bo(self);
	ASSERT_GT(self->num_bos, i);
	erase(self, BLOB_KFD_BO, i);
	EXPECT_REFUSED(EBADMSG, "event page: not in a GTT BO");
}

TEST_F(blob, with_a_tail_longer_or_shorter_than_declared_is_EBADMSG)
{
	static const __u16 tailed[] = { BLOB_KFD_BO, BLOB_KFD_EVENT_PAGE, BLOB_KFD_QUEUE };
	const __u64 zero = 0;
	size_t i, at;
	bool empty;

	for (i = 0; i < ARRAY_SIZE(tailed); i++) {
		struct blob_record *record;

		at = blob_find(&self->blob, tailed[i], 0);
		record = blob_record(&self->blob, at);
		/* An event page in a BO has an empty tail. */
		ASSERT_LE(record->fixed_size, record->size);
		at += sizeof(*record) + record->size;
		record->size += 8;
		blob_insert(&self->blob, at, &zero, sizeof(zero));
		EXPECT_REFUSED(EBADMSG, TAIL_FAULT);
		record = blob_record(&self->blob, blob_find(&self->blob, tailed[i], 0));
		empty = record->size == record->fixed_size;
		record->size -= 8;
		blob_erase(&self->blob, at - 8, 8);
		EXPECT_REFUSED(EBADMSG, empty ? "bad size of record" : TAIL_FAULT);
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
			if (become(self))
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
