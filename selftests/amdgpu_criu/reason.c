// SPDX-License-Identifier: GPL-2.0
/* The text that says why a call is refused. */
#include "kselftest_harness.h"

#include "criu.h"
#include "ops.h"

#define PAGE 4096

/* Refused by each kind of node for a reason that is in the log as well: a blob of zeros. */
FIXTURE(reason) {
	struct op_context context;
	union op_args args;
	struct amdgpu_criu_ioctl envelope;
	char text[256];
	size_t length;
};

FIXTURE_VARIANT(reason) {
	enum criu_node_kind kind;
};

FIXTURE_VARIANT_ADD(reason, kfd) {
	.kind = CRIU_NODE_KFD,
};

FIXTURE_VARIANT_ADD(reason, render) {
	.kind = CRIU_NODE_RENDER,
};

FIXTURE_SETUP(reason)
{
	const struct op *op = op_find(AMDGPU_CRIU_OP_RESTORE);
	int ret = op_context_open(&self->context, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
	op_fill(&self->context, op, &self->args);
	self->envelope = (struct amdgpu_criu_ioctl) {
		.op = op->nr,
		.size = op->size_now,
		.arg = (uintptr_t)&self->args,
		.reason = (uintptr_t)self->text,
		.reason_size = sizeof(self->text),
	};
	memset(self->text, 'x', sizeof(self->text));
	ASSERT_EQ(-EBADMSG, criu_envelope(&self->context.node, &self->envelope));
	self->length = strnlen(self->text, sizeof(self->text));
	ASSERT_GT(sizeof(self->text), self->length);
}

FIXTURE_TEARDOWN(reason)
{
	op_context_close(&self->context);
}

TEST_F(reason, names_what_is_wrong)
{
	EXPECT_EQ(0, strncmp("blob: byte 0: ", self->text, strlen("blob: byte 0: "))) {
		TH_LOG("%s", self->text);
	}
}

TEST_F(reason, is_cut_to_every_size)
{
	struct criu_hole hole;
	__u32 size;

	ASSERT_EQ(0, criu_hole_make(&hole));
	for (size = 1; size <= self->length + 8; size++) {
		const size_t length = size <= self->length ? size - 1 : self->length;
		char *at = hole.hole - size;

		memset(hole.page, 'x', PAGE);
		self->envelope.reason = (uintptr_t)at;
		self->envelope.reason_size = size;
		EXPECT_EQ(-EBADMSG, criu_envelope(&self->context.node, &self->envelope));
		EXPECT_EQ('x', at[-1]);
		EXPECT_EQ(0, memcmp(self->text, at, length));
		EXPECT_EQ(0, at[length]) {
			TH_LOG("size %u", size);
		}
		EXPECT_TRUE(size <= length + 1 || at[length + 1] == 'x');
	}
	self->envelope.reason = (uintptr_t)self->text;
	self->envelope.reason_size = 0xffffffff;
	EXPECT_EQ(-EBADMSG, criu_envelope(&self->context.node, &self->envelope));
}

TEST_F(reason, may_be_left_out)
{
	self->envelope.reason = 0;
	self->envelope.reason_size = 0;
	EXPECT_EQ(-EBADMSG, criu_envelope(&self->context.node, &self->envelope));
}

TEST_F(reason, that_cannot_be_written_changes_no_error)
{
	struct criu_hole hole;

	ASSERT_EQ(0, criu_hole_make(&hole));
	self->envelope.reason = (uintptr_t)hole.hole;
	EXPECT_EQ(-EBADMSG, criu_envelope(&self->context.node, &self->envelope));
	self->envelope.reason = 0xffff800000000000UL;
	EXPECT_EQ(-EBADMSG, criu_envelope(&self->context.node, &self->envelope));
}

TEST_F(reason, is_empty_if_the_errno_is_sufficient)
{
	self->envelope.op = 0;
	EXPECT_EQ(-ENOTTY, criu_envelope(&self->context.node, &self->envelope));
	EXPECT_STREQ("", self->text);
}

TEST_F(reason, is_not_written_by_success)
{
	struct amdgpu_criu_query query = {};

	self->envelope.op = AMDGPU_CRIU_OP_QUERY;
	self->envelope.size = sizeof(query);
	self->envelope.arg = (uintptr_t)&query;
	snprintf(self->text, sizeof(self->text), "before");
	EXPECT_EQ(0, criu_envelope(&self->context.node, &self->envelope));
	EXPECT_STREQ("before", self->text);
}

TEST_F(reason, needs_both_pointer_and_size)
{
	self->envelope.reason_size = 0;
	EXPECT_EQ(-EINVAL, criu_envelope(&self->context.node, &self->envelope));
	self->envelope.reason = 0;
	self->envelope.reason_size = 1;
	EXPECT_EQ(-EINVAL, criu_envelope(&self->context.node, &self->envelope));
}

TEST_F(reason, pad_is_zero)
{
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		self->envelope.pad = 1U << bit;
		EXPECT_EQ(-EINVAL, criu_envelope(&self->context.node, &self->envelope));
	}
}

TEST_HARNESS_MAIN
