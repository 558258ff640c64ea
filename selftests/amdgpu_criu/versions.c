// SPDX-License-Identifier: GPL-2.0
/* CHECKPOINT for another kernel, with the same, newer or older records. */
#include "kselftest_harness.h"

#include "blob_edit.h"
#include "criu.h"
#include "state.h"

#define ROOM 64
/* Newer than any kernel has. */
#define TOO_MANY 1025

FIXTURE(versions) {
	struct kfd kfd;
	struct state state;
	int session;
	struct criu_image image;
	struct amdgpu_criu_state args;
	/* The result of QUERY of this kernel, for tests to change. */
	struct amdgpu_criu_record_info records[ROOM];
	__u32 num_records;
	unsigned char *blob;
};

FIXTURE_SETUP(versions)
{
	struct amdgpu_criu_query query = {
		.records = (uintptr_t)self->records,
		.num_records = ROOM,
		.record_stride = sizeof(self->records[0]),
	};
	int ret = kfd_open(&self->kfd);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, state_make(&self->kfd, &self->state));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, criu_checkpoint(&self->kfd.node, self->session, &self->image));
	for (__u32 i = 0; i < self->image.num_devices; i++) {
		if (self->image.devices[i].drm_fd >= 0)
			close(self->image.devices[i].drm_fd);
		self->image.devices[i].drm_fd = -1;
	}
	ASSERT_EQ(0, criu_op(&self->kfd.node, QUERY, &query));
	self->num_records = query.num_records;
	self->blob = calloc(1, self->image.blob_size);
	ASSERT_NE(NULL, self->blob);
}

FIXTURE_TEARDOWN(versions)
{
	free(self->blob);
	criu_image_free(&self->image);
	close(self->session);
	kfd_close(&self->kfd);
}

static struct amdgpu_criu_record_info *info(FIXTURE_DATA(versions) *self, __u16 type)
{
	for (__u32 i = 0; i < self->num_records; i++)
		if (self->records[i].type == type)
			return &self->records[i];
	return NULL;
}

/* Valid arguments; the blob is written to a separate buffer. */
static void reset(FIXTURE_DATA(versions) *self)
{
	self->args = criu_image_args(self->session, &self->image);
	self->args.blob = (uintptr_t)self->blob;
	self->args.records = (uintptr_t)self->records;
	self->args.num_records = self->num_records;
	self->args.record_stride = sizeof(self->records[0]);
}

static int checkpoint(FIXTURE_DATA(versions) *self)
{
	int ret = criu_op(&self->kfd.node, CHECKPOINT, &self->args);

	for (__u32 i = 0; !ret && i < self->image.num_devices; i++) {
		if (self->image.devices[i].drm_fd >= 0)
			close(self->image.devices[i].drm_fd);
		self->image.devices[i].drm_fd = -1;
	}
	return ret;
}

static bool same_blob(FIXTURE_DATA(versions) *self)
{
	return self->args.blob_size == self->image.blob_size &&
	       !memcmp(self->blob, self->image.blob, self->image.blob_size);
}

TEST_F(versions, for_a_kernel_with_the_same_records_the_blob_is_the_same)
{
	reset(self);
	ASSERT_EQ(0, checkpoint(self));
	EXPECT_TRUE(same_blob(self));
}

TEST_F(versions, for_a_kernel_with_newer_records_the_blob_is_the_same)
{
	reset(self);
	for (__u32 i = 0; i < self->num_records; i++) {
		self->records[i].version_max += 7;
		self->records[i].size = 8;
	}
	self->records[self->num_records] = (struct amdgpu_criu_record_info) {
		.type = 0x1fe, .version_min = 1, .version_max = 1, .size = 8,
	};
	self->args.num_records++;
	ASSERT_EQ(0, checkpoint(self));
	EXPECT_TRUE(same_blob(self));
}

TEST_F(versions, a_type_that_the_kernel_lacks_is_EOPNOTSUPP)
{
	static const __u16 types[] = {
		BLOB_IDENTITY, BLOB_END, BLOB_KFD_PROCESS, BLOB_KFD_DEVICE, BLOB_KFD_BO,
		BLOB_KFD_EVENT_PAGE, BLOB_KFD_EVENT, BLOB_KFD_QUEUE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct amdgpu_criu_record_info *row = info(self, types[i]);

		ASSERT_NE(NULL, row);
		reset(self);
		row->type = 0x1fe;
		EXPECT_EQ(-EOPNOTSUPP, checkpoint(self)) {
			TH_LOG("type %#x", types[i]);
		}
		row->type = types[i];
	}
	reset(self);
	EXPECT_EQ(0, checkpoint(self));
}

TEST_F(versions, a_type_that_the_process_does_not_use_may_be_unknown)
{
	struct amdgpu_criu_record_info *row = info(self, BLOB_KFD_SVM_RANGE);

	if (!row)
		SKIP(return, "this kernel has no SVM ranges");
	reset(self);
	row->type = 0x1fe;
	EXPECT_EQ(0, checkpoint(self));
	EXPECT_TRUE(same_blob(self));
}

TEST_F(versions, a_kernel_that_no_longer_reads_this_version_is_EOPNOTSUPP)
{
	struct amdgpu_criu_record_info *row = info(self, BLOB_KFD_BO);

	reset(self);
	row->version_min = row->version_max + 1;
	row->version_max = row->version_min;
	EXPECT_EQ(-EOPNOTSUPP, checkpoint(self));
}

/* As if the record ended before the domain of a BO and the number of GPUs that it is mapped on. */
TEST_F(versions, a_field_in_use_that_the_kernel_lacks_is_EOPNOTSUPP)
{
	reset(self);
	info(self, BLOB_KFD_BO)->size = 56;
	EXPECT_EQ(-EOPNOTSUPP, checkpoint(self));
}

/* The last field of an event's record is for hardware exceptions, which do not occur here. */
TEST_F(versions, a_field_not_in_use_may_be_unknown)
{
	reset(self);
	info(self, BLOB_KFD_EVENT)->size -= 8;
	ASSERT_EQ(0, checkpoint(self));
	EXPECT_TRUE(same_blob(self));
}

TEST_F(versions, too_little_room_is_ENOSPC_with_the_sizes_needed)
{
	reset(self);
	self->args.blob_size = 8;
	EXPECT_EQ(-ENOSPC, checkpoint(self));
	EXPECT_EQ(self->image.blob_size, self->args.blob_size);
}

TEST_F(versions, entries_may_be_longer_if_the_rest_is_zero)
{
	struct {
		struct amdgpu_criu_record_info info;
		__u64 newer;
	} wide[ROOM] = {};

	reset(self);
	for (__u32 i = 0; i < self->num_records; i++)
		wide[i].info = self->records[i];
	self->args.records = (uintptr_t)wide;
	self->args.record_stride = sizeof(wide[0]);
	ASSERT_EQ(0, checkpoint(self));
	EXPECT_TRUE(same_blob(self));
	reset(self);
	wide[1].newer = 1;
	self->args.records = (uintptr_t)wide;
	self->args.record_stride = sizeof(wide[0]);
	EXPECT_EQ(-E2BIG, checkpoint(self));
}

TEST_F(versions, an_invalid_array_is_EINVAL)
{
	static const __u32 strides[] = { 0, 1, 4, 12, 4096 + 8, 0x80000000, 0xfffffff8 };

	for (size_t i = 0; i < ARRAY_SIZE(strides); i++) {
		reset(self);
		self->args.record_stride = strides[i];
		EXPECT_EQ(-EINVAL, checkpoint(self)) {
			TH_LOG("stride %u", strides[i]);
		}
	}
	reset(self);
	self->args.num_records = 0;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	self->args.num_records = TOO_MANY;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	self->args.num_records = 0xffffffff;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	reset(self);
	self->args.records = 0;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	self->args.num_records = 0;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	self->args.record_stride = 0;
	EXPECT_EQ(0, checkpoint(self));
}

TEST_F(versions, entries_that_no_kernel_returns_are_EINVAL)
{
	struct amdgpu_criu_record_info *row = info(self, BLOB_KFD_BO);
	const struct amdgpu_criu_record_info right = *row;

	reset(self);
	row->version_min = 0;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	*row = right;
	row->version_min = right.version_max + 1;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	*row = right;
	row->type = BLOB_KFD_QUEUE;
	EXPECT_EQ(-EINVAL, checkpoint(self));
	*row = right;
	EXPECT_EQ(0, checkpoint(self));
}

TEST_F(versions, an_unreadable_array_is_EFAULT)
{
	struct criu_hole hole;

	ASSERT_EQ(0, criu_hole_make(&hole));
	reset(self);
	self->args.records = (uintptr_t)hole.hole;
	EXPECT_EQ(-EFAULT, checkpoint(self));
	self->args.records = (uintptr_t)hole.hole - sizeof(self->records[0]);
	memcpy(hole.hole - sizeof(self->records[0]), self->records, sizeof(self->records[0]));
	EXPECT_EQ(-EFAULT, checkpoint(self));
	self->args.records = 0xffff800000000000ULL;
	EXPECT_EQ(-EFAULT, checkpoint(self));
}

TEST_HARNESS_MAIN
