// SPDX-License-Identifier: GPL-2.0
/* QUERY: what it returns, and everything that it refuses. */
#include "kselftest_harness.h"

#include "criu.h"

#define RECORD_IDENTITY 1
#define RECORD_END 0xffff
/* The range of record types of each kind of node. */
#define RECORD_KFD 0x100
#define RECORD_RENDER 0x200
#define ROOM 64

FIXTURE(query) {
	struct criu_node node;
	struct amdgpu_criu_query args;
	struct amdgpu_criu_record_info records[ROOM];
};

FIXTURE_VARIANT(query) {
	enum criu_node_kind kind;
	__u32 least_records;
};

FIXTURE_VARIANT_ADD(query, kfd) {
	.kind = CRIU_NODE_KFD,
	.least_records = 3,
};

FIXTURE_VARIANT_ADD(query, render) {
	.kind = CRIU_NODE_RENDER,
	.least_records = 9,
};

FIXTURE_SETUP(query)
{
	int ret = criu_node_open(&self->node, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
	self->args.records = (uintptr_t)self->records;
	self->args.num_records = ROOM;
	self->args.record_stride = sizeof(self->records[0]);
}

FIXTURE_TEARDOWN(query)
{
	criu_node_close(&self->node);
}

TEST_F(query, returns_abi_features_and_format)
{
	struct amdgpu_criu_query args = {};

	ASSERT_EQ(0, criu_op(&self->node, QUERY, &args));
	EXPECT_LE(1, args.abi_min);
	EXPECT_LE(args.abi_min, args.abi_max);
	EXPECT_EQ(1, args.blob_format);
	EXPECT_EQ(AMDGPU_CRIU_FEATURE_KFD | AMDGPU_CRIU_FEATURE_RENDER | AMDGPU_CRIU_FEATURE_LIVE |
		  AMDGPU_CRIU_FEATURE_EVICT, args.features);
	EXPECT_EQ(0, args.pad);
}

TEST_F(query, ignores_its_output_fields)
{
	struct amdgpu_criu_query args = {};

	ASSERT_EQ(0, criu_op(&self->node, QUERY, &args));
	self->args.abi_min = ~0;
	self->args.abi_max = ~0;
	self->args.features = ~0ULL;
	self->args.blob_format = ~0;
	ASSERT_EQ(0, criu_op(&self->node, QUERY, &self->args));
	EXPECT_EQ(args.abi_min, self->args.abi_min);
	EXPECT_EQ(args.abi_max, self->args.abi_max);
	EXPECT_EQ(args.features, self->args.features);
	EXPECT_EQ(args.blob_format, self->args.blob_format);
}

TEST_F(query, only_counts_without_an_array)
{
	struct amdgpu_criu_query args = {};

	ASSERT_EQ(0, criu_op(&self->node, QUERY, &args));
	EXPECT_LE(variant->least_records, args.num_records);
	/* An array without entries has the same result. */
	self->args.num_records = 0;
	ASSERT_EQ(0, criu_op(&self->node, QUERY, &self->args));
	EXPECT_EQ(args.num_records, self->args.num_records);
	EXPECT_EQ(0, self->records[0].type);
}

TEST_F(query, lists_every_record_type_once)
{
	bool identity = false, end = false;
	__u32 i, j;

	ASSERT_EQ(0, criu_op(&self->node, QUERY, &self->args));
	ASSERT_LE(variant->least_records, self->args.num_records);
	for (i = 0; i < self->args.num_records; i++) {
		const struct amdgpu_criu_record_info *info = &self->records[i];
		__u16 first = variant->kind == CRIU_NODE_KFD ? RECORD_KFD : RECORD_RENDER;

		identity |= info->type == RECORD_IDENTITY;
		end |= info->type == RECORD_END;
		EXPECT_LE(1, info->version_min);
		EXPECT_LE(info->version_min, info->version_max);
		EXPECT_LT(0, info->size);
		EXPECT_EQ(0, info->size % 8);
		if (info->type != RECORD_IDENTITY && info->type != RECORD_END) {
			EXPECT_EQ(first, info->type & 0xff00);
		}
		for (j = 0; j < i; j++) {
			EXPECT_NE(info->type, self->records[j].type);
		}
	}
	EXPECT_TRUE(identity);
	EXPECT_TRUE(end);
}

TEST_F(query, keeps_to_the_stride_and_clears_unknown_fields)
{
	struct {
		struct amdgpu_criu_record_info info;
		__u64 newer[2];
	} wide[ROOM];
	__u32 i;

	memset(wide, 0xff, sizeof(wide));
	ASSERT_EQ(0, criu_op(&self->node, QUERY, &self->args));
	self->args.records = (uintptr_t)wide;
	self->args.num_records = ROOM;
	self->args.record_stride = sizeof(wide[0]);
	ASSERT_EQ(0, criu_op(&self->node, QUERY, &self->args));
	for (i = 0; i < self->args.num_records; i++) {
		EXPECT_EQ(0, memcmp(&wide[i].info, &self->records[i], sizeof(wide[i].info)));
		EXPECT_EQ(0, wide[i].newer[0]);
		EXPECT_EQ(0, wide[i].newer[1]);
	}
	/* Nothing is written after the last one. */
	EXPECT_EQ(~0ULL, wide[i].newer[0]);
}

TEST_F(query, too_little_room_is_ENOSPC_with_the_number_needed)
{
	__u32 needed;

	ASSERT_EQ(0, criu_op(&self->node, QUERY, &self->args));
	needed = self->args.num_records;
	memset(self->records, 0xff, sizeof(self->records));
	for (self->args.num_records = 1; self->args.num_records < needed;) {
		__u32 room = self->args.num_records;

		ASSERT_EQ(-ENOSPC, criu_op(&self->node, QUERY, &self->args));
		EXPECT_EQ(needed, self->args.num_records);
		EXPECT_EQ(0xffff, self->records[0].type);
		self->args.num_records = room + 1;
	}
	EXPECT_EQ(0, criu_op(&self->node, QUERY, &self->args));
}

TEST_F(query, refuses_a_pad)
{
	self->args.pad = 1;
	EXPECT_EQ(-EINVAL, criu_op(&self->node, QUERY, &self->args));
}

TEST_F(query, refuses_a_number_without_an_array)
{
	self->args.records = 0;
	self->args.record_stride = 0;
	EXPECT_EQ(-EINVAL, criu_op(&self->node, QUERY, &self->args));
}

TEST_F(query, refuses_a_stride_without_an_array)
{
	self->args.records = 0;
	self->args.num_records = 0;
	EXPECT_EQ(-EINVAL, criu_op(&self->node, QUERY, &self->args));
}

TEST_F(query, refuses_strides_that_are_too_small_odd_or_huge)
{
	static const __u32 strides[] = {
		0, 1, sizeof(struct amdgpu_criu_record_info) - 1,
		sizeof(struct amdgpu_criu_record_info) + 1,
		sizeof(struct amdgpu_criu_record_info) + 4, 4096 + 8, 0x80000000, 0xfffffff8,
		0xffffffff,
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(strides); i++) {
		self->args.record_stride = strides[i];
		EXPECT_EQ(-EINVAL, criu_op(&self->node, QUERY, &self->args)) {
			TH_LOG("stride %u", strides[i]);
		}
	}
}

TEST_F(query, an_unwritable_array_is_EFAULT)
{
	struct criu_hole hole;

	ASSERT_EQ(0, criu_hole_make(&hole));
	self->args.records = (uintptr_t)hole.hole;
	EXPECT_EQ(-EFAULT, criu_op(&self->node, QUERY, &self->args));
	self->args.num_records = ROOM;
	self->args.records = (uintptr_t)hole.hole - sizeof(self->records[0]);
	EXPECT_EQ(-EFAULT, criu_op(&self->node, QUERY, &self->args));
}

TEST_F(query, an_array_in_the_kernel_is_EFAULT)
{
	self->args.records = 0xffff800000000000ULL;
	EXPECT_EQ(-EFAULT, criu_op(&self->node, QUERY, &self->args));
}

TEST_HARNESS_MAIN
