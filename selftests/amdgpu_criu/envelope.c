// SPDX-License-Identifier: GPL-2.0
/* Checks common to all operations: number, size, pointer, and fields that must be zero. */
#include "kselftest_harness.h"

#include "criu.h"
#include "ops.h"

#define PAGE 4096

/* Every operation on each kind of node: rows of ops[]. */
FIXTURE(envelope) {
	struct op_context context;
	struct criu_hole hole;
	const struct op *op;
	int answer;
};

FIXTURE_VARIANT(envelope) {
	enum criu_node_kind kind;
	__u32 op;
};

#define ADD(fixture, name, node, number) \
	FIXTURE_VARIANT_ADD(fixture, name) { \
		.kind = CRIU_NODE_##node, .op = AMDGPU_CRIU_OP_##number, \
	}

ADD(envelope, kfd_query, KFD, QUERY);
ADD(envelope, kfd_session, KFD, SESSION);
ADD(envelope, kfd_process_info, KFD, PROCESS_INFO);
ADD(envelope, kfd_checkpoint, KFD, CHECKPOINT);
ADD(envelope, kfd_unpause, KFD, UNPAUSE);
ADD(envelope, kfd_restore, KFD, RESTORE);
ADD(envelope, kfd_resume, KFD, RESUME);
ADD(envelope, kfd_dmabuf, KFD, DMABUF);
ADD(envelope, kfd_evict, KFD, EVICT);
ADD(envelope, render_query, RENDER, QUERY);
ADD(envelope, render_session, RENDER, SESSION);
ADD(envelope, render_process_info, RENDER, PROCESS_INFO);
ADD(envelope, render_checkpoint, RENDER, CHECKPOINT);
ADD(envelope, render_unpause, RENDER, UNPAUSE);
ADD(envelope, render_restore, RENDER, RESTORE);
ADD(envelope, render_resume, RENDER, RESUME);
ADD(envelope, render_dmabuf, RENDER, DMABUF);
ADD(envelope, render_evict, RENDER, EVICT);

FIXTURE_SETUP(envelope)
{
	int ret = op_context_open(&self->context, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, criu_hole_make(&self->hole));
	self->op = op_find(variant->op);
	ASSERT_NE(NULL, self->op);
	self->answer = op_answer(self->op, variant->kind);
}

FIXTURE_TEARDOWN(envelope)
{
	op_context_close(&self->context);
}

/*
 * Calls with an argument of @size bytes that ends at the end of a page. The bytes after
 * the structure are zero or not: its last byte or the one after.
 */
static int call_sized(struct op_context *context, struct criu_hole *hole, const struct op *op,
		      __u32 size, long dirty_at)
{
	union op_args args;
	unsigned char *at = (unsigned char *)hole->hole - size;
	int ret;

	op_fill(context, op, &args);
	memset(hole->page, 0, PAGE);
	memcpy(at, &args, size < op->size_now ? size : op->size_now);
	if (dirty_at >= 0)
		at[dirty_at] = 0x80;
	ret = criu_call(&context->node, op->nr, size, at);
	if (ret)
		return ret;
	memcpy(&args, at, op->size_now);
	return op_undo(context, op, &args);
}

TEST_F(envelope, accepts_its_own_size)
{
	EXPECT_EQ(self->answer, call_sized(&self->context, &self->hole, self->op,
					   self->op->size_now, -1));
}

TEST_F(envelope, the_first_version_keeps_its_size)
{
	ASSERT_LE(self->op->size_v1, self->op->size_now);
	EXPECT_EQ(self->answer, call_sized(&self->context, &self->hole, self->op,
					   self->op->size_v1, -1));
}

TEST_F(envelope, refuses_every_shorter_size)
{
	__u32 size;

	for (size = 0; size < self->op->size_v1; size++) {
		EXPECT_EQ(-EINVAL, call_sized(&self->context, &self->hole, self->op, size, -1)) {
			TH_LOG("size %u", size);
		}
	}
}

TEST_F(envelope, accepts_a_longer_one_with_a_zero_tail)
{
	const __u32 sizes[] = { self->op->size_now + 1, self->op->size_now + 8, 1024, PAGE };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_EQ(self->answer, call_sized(&self->context, &self->hole, self->op,
						   sizes[i], -1)) {
			TH_LOG("size %u", sizes[i]);
		}
	}
}

TEST_F(envelope, a_longer_one_with_a_nonzero_tail_is_E2BIG)
{
	const __u32 now = self->op->size_now;
	const __u32 sizes[] = { now + 1, now + 8, 1024, PAGE };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_EQ(-E2BIG, call_sized(&self->context, &self->hole, self->op, sizes[i],
					     now));
		EXPECT_EQ(-E2BIG, call_sized(&self->context, &self->hole, self->op, sizes[i],
					     sizes[i] - 1));
	}
}

TEST_F(envelope, huge_sizes_are_E2BIG)
{
	static const __u32 sizes[] = { PAGE + 1, PAGE + 8, 0x80000000, 0xffffffff };
	union op_args args;
	size_t i;

	op_fill(&self->context, self->op, &args);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_EQ(-E2BIG, criu_call(&self->context.node, self->op->nr, sizes[i], &args));
	}
}

TEST_F(envelope, an_unreadable_structure_is_EFAULT)
{
	const struct criu_node *node = &self->context.node;
	const struct op *op = self->op;
	char *hole = self->hole.hole;

	EXPECT_EQ(-EFAULT, criu_call(node, op->nr, op->size_now, NULL));
	EXPECT_EQ(-EFAULT, criu_call(node, op->nr, op->size_now, hole));
	EXPECT_EQ(-EFAULT, criu_call(node, op->nr, op->size_now, hole - op->size_now + 1));
	EXPECT_EQ(-EFAULT, criu_call(node, op->nr, op->size_now + 8, hole - op->size_now));
	EXPECT_EQ(-EFAULT, criu_call(node, op->nr, op->size_now,
				     (void *)0xffff800000000000UL));
}

static int call(const struct op_context *context, const struct op *op, const union op_args *args)
{
	return criu_call(&context->node, op->nr, op->size_now, args);
}

/* Operations that the node implements: they check their argument. */
FIXTURE(carried) {
	struct op_context context;
	const struct op *op;
	union op_args args;
};

FIXTURE_VARIANT(carried) {
	enum criu_node_kind kind;
	__u32 op;
};

ADD(carried, kfd_query, KFD, QUERY);
ADD(carried, kfd_session, KFD, SESSION);
ADD(carried, kfd_process_info, KFD, PROCESS_INFO);
ADD(carried, kfd_checkpoint, KFD, CHECKPOINT);
ADD(carried, kfd_unpause, KFD, UNPAUSE);
ADD(carried, kfd_restore, KFD, RESTORE);
ADD(carried, kfd_resume, KFD, RESUME);
ADD(carried, kfd_dmabuf, KFD, DMABUF);
ADD(carried, kfd_evict, KFD, EVICT);
ADD(carried, render_query, RENDER, QUERY);
ADD(carried, render_session, RENDER, SESSION);
ADD(carried, render_process_info, RENDER, PROCESS_INFO);
ADD(carried, render_checkpoint, RENDER, CHECKPOINT);
ADD(carried, render_unpause, RENDER, UNPAUSE);
ADD(carried, render_restore, RENDER, RESTORE);
ADD(carried, render_resume, RENDER, RESUME);
ADD(carried, render_dmabuf, RENDER, DMABUF);
ADD(carried, render_evict, RENDER, EVICT);

FIXTURE_SETUP(carried)
{
	int ret = op_context_open(&self->context, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
	self->op = op_find(variant->op);
	ASSERT_NE(NULL, self->op);
	op_fill(&self->context, self->op, &self->args);
}

FIXTURE_TEARDOWN(carried)
{
	op_context_close(&self->context);
}

TEST_F(carried, refuses_every_bit_of_a_field_that_must_be_zero)
{
	const struct op_field *field;
	unsigned int bit;

	for (field = self->op->zeros; field->name; field++) {
		for (bit = 0; bit < 8 * field->size; bit++) {
			if (field == self->op->zeros && bit < 32 && self->op->flags >> bit & 1)
				continue;
			op_fill(&self->context, self->op, &self->args);
			self->args.bytes[field->offset + bit / 8] = 1 << bit % 8;
			EXPECT_EQ(-EINVAL, call(&self->context, self->op, &self->args)) {
				TH_LOG("%s: bit %u", field->name, bit);
			}
		}
	}
}

/* Operations that have a session: its descriptor is their first field. */
FIXTURE(scoped) {
	struct op_context context;
	const struct op *op;
	union op_args args;
};

FIXTURE_VARIANT(scoped) {
	enum criu_node_kind kind;
	__u32 op;
	/* The error for a session of the other kind. */
	int other_kind;
};

#define ADD_SCOPED(name, node, number, error) \
	FIXTURE_VARIANT_ADD(scoped, name) { \
		.kind = CRIU_NODE_##node, .op = AMDGPU_CRIU_OP_##number, .other_kind = (error), \
	}

ADD_SCOPED(kfd_process_info, KFD, PROCESS_INFO, -EBADFD);
ADD_SCOPED(kfd_checkpoint, KFD, CHECKPOINT, -EBADFD);
ADD_SCOPED(kfd_unpause, KFD, UNPAUSE, -EBADFD);
ADD_SCOPED(kfd_restore, KFD, RESTORE, -EBADFD);
ADD_SCOPED(kfd_resume, KFD, RESUME, -EBADFD);
ADD_SCOPED(kfd_dmabuf, KFD, DMABUF, -ENOENT);
ADD_SCOPED(kfd_evict, KFD, EVICT, -EBADFD);
ADD_SCOPED(render_process_info, RENDER, PROCESS_INFO, -EBADFD);
ADD_SCOPED(render_checkpoint, RENDER, CHECKPOINT, -EBADFD);
ADD_SCOPED(render_unpause, RENDER, UNPAUSE, -EBADFD);
ADD_SCOPED(render_restore, RENDER, RESTORE, -EBADFD);
ADD_SCOPED(render_resume, RENDER, RESUME, -EBADFD);
ADD_SCOPED(render_dmabuf, RENDER, DMABUF, -ENOENT);
ADD_SCOPED(render_evict, RENDER, EVICT, -EBADFD);

FIXTURE_SETUP(scoped)
{
	int ret = op_context_open(&self->context, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
	self->op = op_find(variant->op);
	ASSERT_NE(NULL, self->op);
	op_fill(&self->context, self->op, &self->args);
}

FIXTURE_TEARDOWN(scoped)
{
	op_context_close(&self->context);
}

TEST_F(scoped, a_descriptor_of_another_file_is_EBADF)
{
	int closed = criu_session(&self->context.node, self->op->session_kind);

	ASSERT_LE(0, closed);
	close(closed);
	self->args.session_fd = closed;
	EXPECT_EQ(-EBADF, call(&self->context, self->op, &self->args));
	self->args.session_fd = -1;
	EXPECT_EQ(-EBADF, call(&self->context, self->op, &self->args));
	self->args.session_fd = self->context.node.fd;
	EXPECT_EQ(-EBADF, call(&self->context, self->op, &self->args));
}

TEST_F(scoped, a_session_of_the_wrong_kind_is_EBADFD)
{
	self->args.session_fd = self->context.sessions[3 - self->op->session_kind];
	EXPECT_EQ(variant->other_kind, call(&self->context, self->op, &self->args));
}

FIXTURE(number) {
	struct criu_node node;
};

FIXTURE_VARIANT(number) {
	enum criu_node_kind kind;
};

FIXTURE_VARIANT_ADD(number, kfd) {
	.kind = CRIU_NODE_KFD,
};

FIXTURE_VARIANT_ADD(number, render) {
	.kind = CRIU_NODE_RENDER,
};

FIXTURE_SETUP(number)
{
	int ret = criu_node_open(&self->node, variant->kind);

	if (ret == -ENOENT)
		SKIP(return, "no such node");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(number)
{
	criu_node_close(&self->node);
}

TEST_F(number, unknown_operations_are_ENOTTY)
{
	static const __u32 numbers[] = {
		0, AMDGPU_CRIU_OP_EVICT + 1, 0x7fffffff, 0x80000001, 0xffffffff,
	};
	union op_args args = {};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		EXPECT_EQ(-ENOTTY, criu_call(&self->node, numbers[i], sizeof(args), &args)) {
			TH_LOG("operation %u", numbers[i]);
		}
	}
	if (variant->kind != CRIU_NODE_KFD)
		return;
	EXPECT_EQ(-ENOTTY, criu_call(&self->node, AMDGPU_CRIU_OP_EXPORTED, sizeof(args), &args));
	EXPECT_EQ(-ENOTTY, criu_call(&self->node, AMDGPU_CRIU_OP_OUTSIDE, sizeof(args), &args));
}

TEST_F(number, an_unreadable_envelope_is_EFAULT)
{
	unsigned long cmd = variant->kind == CRIU_NODE_KFD ? AMDKFD_IOC_AMDGPU_CRIU :
							     DRM_IOCTL_AMDGPU_CRIU;
	struct criu_hole hole;

	ASSERT_EQ(0, criu_hole_make(&hole));
	EXPECT_EQ(-1, ioctl(self->node.fd, cmd, NULL));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, ioctl(self->node.fd, cmd, hole.hole));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, ioctl(self->node.fd, cmd, hole.hole - 8));
	EXPECT_EQ(EFAULT, errno);
}

TEST_HARNESS_MAIN
