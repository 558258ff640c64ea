// SPDX-License-Identifier: GPL-2.0
/* Contexts of a render node: what is restored, and what is refused. */
#include "kselftest_harness.h"

#include <fcntl.h>

#include "capability.h"
#include "render.h"
#include "render_blob.h"

FIXTURE(ctx) {
	struct criu_node node;
	struct criu_node to;
	struct render_work work;
	struct render_work work_to;
	struct criu_image image;
	struct criu_image again;
};

FIXTURE_SETUP(ctx)
{
	self->to.fd = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
}

FIXTURE_TEARDOWN(ctx)
{
	render_work_unmap(&self->work);
	render_work_unmap(&self->work_to);
	criu_image_free(&self->image);
	criu_image_free(&self->again);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
}

/* A checkpoint of the restored file has the same records, also of state that no ioctl returns. */
static void expect_same(struct __test_metadata *_metadata, FIXTURE_DATA(ctx) *self)
{
	unsigned int i, num = blob_count(&self->image, BLOB_RENDER_CTX);

	ASSERT_EQ(0, render_save(&self->to, &self->again));
	EXPECT_EQ(num, blob_count(&self->again, BLOB_RENDER_CTX));
	for (i = 0; i < num; i++) {
		EXPECT_TRUE(blob_same(&self->image, &self->again, BLOB_RENDER_CTX, i)) {
			TH_LOG("context number %u", i);
		}
	}
}

static void move(struct __test_metadata *_metadata, FIXTURE_DATA(ctx) *self)
{
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_restore_to(&self->to, 0, -1, &self->image));
	ASSERT_EQ(0, render_work_again(&self->to, &self->work, &self->work_to));
	expect_same(_metadata, self);
}

TEST_F(ctx, ids_are_restored_with_gaps)
{
	__u32 ids[6], id, i;

	for (i = 0; i < ARRAY_SIZE(ids); i++)
		ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &ids[i]));
	ASSERT_EQ(0, render_ctx_free(&self->node, ids[1]));
	ASSERT_EQ(0, render_ctx_free(&self->node, ids[4]));
	move(_metadata, self);
	EXPECT_EQ(-EINVAL, render_ctx_free(&self->to, ids[1]));
	EXPECT_EQ(-EINVAL, render_ctx_free(&self->to, ids[4]));
	EXPECT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &id));
	EXPECT_EQ(ids[1], id);
	EXPECT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &id));
	EXPECT_EQ(ids[4], id);
	EXPECT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &id));
	EXPECT_EQ(ids[5] + 1, id);
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		EXPECT_EQ(0, render_ctx_free(&self->to, ids[i]));
}

static bool is_done(FIXTURE_DATA(ctx) *self, const struct render_job *job)
{
	__u64 sequence;

	return !render_submit(&self->node, &self->work, job, &sequence) &&
	       !render_wait(&self->node, job, sequence, 10 * RENDER_SECOND);
}

/* The engine keeps state between jobs. */
static void expect_refusal(struct __test_metadata *_metadata, FIXTURE_DATA(ctx) *self,
			   __u32 engine, const char *name)
{
	struct render_job job = { .hw_ip = engine, .value = 0x40 };
	struct amdgpu_criu_process_info info;
	char reason[64];
	int session;

	if (!render_rings(&self->node, engine))
		SKIP(return, "the GPU has no video engine");
	session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
	EXPECT_EQ(0, criu_pause(&self->node, session, &info));
	EXPECT_EQ(0, criu_unpause(&self->node, session));
	snprintf(reason, sizeof(reason), "cannot carry: context %u has used %s", job.ctx, name);
	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(is_done(self, &job));
		EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->node, session, &info));
		EXPECT_STREQ(reason, criu_reason);
	}
	EXPECT_EQ(0, render_ctx_free(&self->node, job.ctx));
	EXPECT_EQ(0, criu_pause(&self->node, session, &info));
	EXPECT_EQ(0, criu_unpause(&self->node, session));
	close(session);
}

TEST_F(ctx, one_that_has_used_JPEG_is_EOPNOTSUPP)
{
	expect_refusal(_metadata, self, AMDGPU_HW_IP_VCN_JPEG, "VCN JPEG");
}

TEST_F(ctx, one_that_has_used_the_encoder_is_EOPNOTSUPP)
{
	expect_refusal(_metadata, self, AMDGPU_HW_IP_VCN_ENC, "VCN encode");
}

/* More than the number of fences that the kernel keeps. */
#define JOBS 40

static void submit_some(struct __test_metadata *_metadata, FIXTURE_DATA(ctx) *self,
			struct render_job *job, __u32 num)
{
	__u64 sequence;
	__u32 i;

	for (i = 1; i <= num; i++) {
		job->word = job->hw_ip;
		job->value = i;
		ASSERT_EQ(0, render_submit(&self->node, &self->work, job, &sequence));
		ASSERT_EQ(i, sequence);
	}
}

static void check_sequence(struct __test_metadata *_metadata, FIXTURE_DATA(ctx) *self,
			   struct render_job *job, __u32 num)
{
	__u64 sequence;
	__u32 i;

	for (i = 1; i <= num; i++)
		EXPECT_EQ(0, render_wait(&self->to, job, i, 0));
	EXPECT_EQ(0, render_wait(&self->to, job, ~0ull, 0));
	EXPECT_EQ(-EINVAL, render_wait(&self->to, job, num + 1, 0));
	job->word = 100 + job->hw_ip;
	job->value = 0x600d;
	job->after = num - 1;
	ASSERT_EQ(0, render_submit(&self->to, &self->work_to, job, &sequence));
	EXPECT_EQ(num + 1, sequence);
	EXPECT_EQ(0, render_wait(&self->to, job, sequence, 10 * RENDER_SECOND));
	EXPECT_EQ(0x600d, self->work_to.words[job->word]);
}

TEST_F(ctx, old_fences_are_signaled_and_new_numbers_continue)
{
	struct render_job dma = { .hw_ip = AMDGPU_HW_IP_DMA };
	struct render_job second = { .hw_ip = AMDGPU_HW_IP_DMA, .ring = 1 };
	struct render_job compute = { .hw_ip = AMDGPU_HW_IP_COMPUTE, .ring = 2 };
	__u32 syncobj;

	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &dma.ctx));
	second.ctx = dma.ctx;
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &compute.ctx));
	submit_some(_metadata, self, &dma, JOBS);
	submit_some(_metadata, self, &second, 3);
	submit_some(_metadata, self, &compute, 5);
	move(_metadata, self);
	check_sequence(_metadata, self, &dma, JOBS);
	check_sequence(_metadata, self, &second, 3);
	check_sequence(_metadata, self, &compute, 5);

	dma.after = 0;
	EXPECT_EQ(0, render_fence_syncobj(&self->to, &dma, JOBS - 1, &syncobj));
	EXPECT_EQ(0, render_syncobj_wait(&self->to, syncobj, 0));
	/* The file that was checkpointed continues independently. */
	EXPECT_EQ(-EINVAL, render_wait(&self->node, &dma, JOBS + 1, 0));
	EXPECT_EQ(0, render_wait(&self->node, &dma, JOBS, 0));
}

TEST_F(ctx, old_fences_of_graphics_are_signaled_and_new_numbers_continue)
{
	struct render_job graphics = { .hw_ip = AMDGPU_HW_IP_GFX };
	struct render_job compute = { .hw_ip = AMDGPU_HW_IP_COMPUTE };

	if (!render_rings(&self->node, AMDGPU_HW_IP_GFX))
		SKIP(return, "the GPU has no graphics ring");
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &graphics.ctx));
	compute.ctx = graphics.ctx;
	submit_some(_metadata, self, &graphics, JOBS);
	submit_some(_metadata, self, &compute, 5);
	move(_metadata, self);
	check_sequence(_metadata, self, &graphics, JOBS);
	check_sequence(_metadata, self, &compute, 5);
}

static int override_priority(const struct criu_node *node, __u32 ctx, __s32 priority)
{
	union drm_amdgpu_sched args = {
		.in = { .op = AMDGPU_SCHED_OP_CONTEXT_PRIORITY_OVERRIDE, .fd = node->fd,
			.priority = priority, .ctx_id = ctx },
	};
	struct criu_node card = { .kind = CRIU_NODE_RENDER };
	char path[32];
	int i, ret = -ENOENT;

	for (i = 0; i < 16 && ret; i++) {
		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		card.fd = open(path, O_RDWR | O_CLOEXEC);
		if (card.fd < 0)
			continue;
		ret = render_ioctl(&card, DRM_IOCTL_SET_MASTER, NULL);
		if (!ret)
			ret = render_ioctl(&card, DRM_IOCTL_AMDGPU_SCHED, &args);
		close(card.fd);
	}
	return ret;
}

static const struct blob_ctx *saved_ctx(const struct criu_image *image, unsigned int index)
{
	struct blob blob = { .data = image->blob, .size = image->blob_size };

	return blob_payload(&blob, blob_find(&blob, BLOB_RENDER_CTX, index));
}

TEST_F(ctx, priorities_are_restored)
{
	static const __s32 priorities[] = {
		AMDGPU_CTX_PRIORITY_VERY_LOW, AMDGPU_CTX_PRIORITY_LOW, AMDGPU_CTX_PRIORITY_NORMAL,
		AMDGPU_CTX_PRIORITY_HIGH, AMDGPU_CTX_PRIORITY_VERY_HIGH,
	};
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_COMPUTE, .word = 1, .value = 1 };
	__u64 sequence;
	__u32 i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(priorities); i++) {
		ASSERT_EQ(0, render_ctx_create(&self->node, priorities[i], &job.ctx));
		ASSERT_EQ(0, render_submit(&self->node, &self->work, &job, &sequence));
	}
	ret = override_priority(&self->node, job.ctx, AMDGPU_CTX_PRIORITY_LOW);
	move(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(priorities); i++) {
		EXPECT_EQ(priorities[i], saved_ctx(&self->again, i)->init_priority);
		EXPECT_EQ(1, saved_ctx(&self->again, i)->num_entities);
	}
	EXPECT_EQ(ret ? AMDGPU_CTX_PRIORITY_UNSET : AMDGPU_CTX_PRIORITY_LOW,
		  saved_ctx(&self->again, i - 1)->override_priority);
	if (ret)
		SKIP(return, "no card node to override a priority with: %d", ret);
}

TEST_F(ctx, power_state_has_one_owner)
{
	__u32 owner, other;

	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &owner));
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &other));
	if (render_ctx_pstate(&self->node, owner, AMDGPU_CTX_STABLE_PSTATE_STANDARD))
		SKIP(return, "the GPU has no stable power state");
	ASSERT_EQ(-EBUSY, render_ctx_pstate(&self->node, other, AMDGPU_CTX_STABLE_PSTATE_PEAK));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	EXPECT_EQ(BLOB_CTX_PSTATE, saved_ctx(&self->image, 0)->flags);
	EXPECT_EQ(0, saved_ctx(&self->image, 1)->flags);
	/* The context that was checkpointed still has it. */
	EXPECT_EQ(-EBUSY, render_restore_to(&self->to, 0, -1, &self->image));
	ASSERT_EQ(0, render_ctx_free(&self->node, owner));
	ASSERT_EQ(0, render_restore_to(&self->to, 0, -1, &self->image));
	EXPECT_EQ(-EBUSY, render_ctx_pstate(&self->to, other, AMDGPU_CTX_STABLE_PSTATE_PEAK));
	EXPECT_EQ(-EBUSY, render_ctx_pstate(&self->node, other, AMDGPU_CTX_STABLE_PSTATE_PEAK));
	expect_same(_metadata, self);
	EXPECT_EQ(0, render_ctx_free(&self->to, owner));
	EXPECT_EQ(0, render_ctx_pstate(&self->to, other, AMDGPU_CTX_STABLE_PSTATE_PEAK));
}

/* A context with two engines, and an unused target file. */
FIXTURE(bad_ctx) {
	struct criu_node node;
	struct criu_node to;
	struct render_work work;
	struct criu_image image;
	int session;
};

FIXTURE_SETUP(bad_ctx)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .word = 1, .value = 1 };
	__u64 sequence;

	self->to.fd = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &job, &sequence));
	job.ring = 1;
	ASSERT_EQ(0, render_submit(&self->node, &self->work, &job, &sequence));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

/* Nothing is left of the refused blobs. */
FIXTURE_TEARDOWN(bad_ctx)
{
	if (self->to.fd >= 0)
		EXPECT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	render_work_unmap(&self->work);
	close(self->session);
	criu_image_free(&self->image);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
}

TEST_F(bad_ctx, fields_out_of_range_are_refused)
{
	static const struct blob_fault faults[] = {
		BLOB_FAULT_FOR(": id", "id 0", blob_ctx, id, 0, -EBADMSG),
		BLOB_FAULT_FOR("unknown flags", "unknown flag", blob_ctx, flags, 1 << 6,
			       -EOPNOTSUPP),
		BLOB_FAULT_FOR(": priority", "priority", blob_ctx, init_priority, 17, -EBADMSG),
		BLOB_FAULT_FOR(": priority", "priority unset", blob_ctx, init_priority,
			       AMDGPU_CTX_PRIORITY_UNSET, -EBADMSG),
		BLOB_FAULT_FOR("priority that overrides its own", "override", blob_ctx,
			       override_priority, 1, -EBADMSG),
		BLOB_FAULT_FOR("power state", "power state without owner", blob_ctx, stable_pstate,
			       1, -EBADMSG),
		BLOB_FAULT_FOR("power state", "power state", blob_ctx, stable_pstate, 5, -EBADMSG),
		BLOB_FAULT_FOR(TAIL_FAULT, "fewer entities", blob_ctx, num_entities, 1, -EBADMSG),
		BLOB_FAULT_FOR(TAIL_FAULT, "more entities", blob_ctx, num_entities, 3, -EBADMSG),
		BLOB_FAULT_FOR(TAIL_FAULT, "huge number of entities", blob_ctx, num_entities,
			       0x0aaaaaab, -EBADMSG),
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_CTX, 0, 0,
			     &faults[i]);
	}
}

/* Kernels before 7.3 limit ids. */
TEST_F(bad_ctx, the_greatest_id_is_restored)
{
	const bool all = kernel_is_at_least(7, 3);
	const struct blob_fault beyond = BLOB_FAULT("", blob_ctx, id, 4096, -EOPNOTSUPP);
	const struct blob_fault far = BLOB_FAULT("", blob_ctx, id, all ? 0xffffffff : 4095, 0);

	if (!all) {
		EXPECT_EQ(beyond.error,
			  blob_restore_fault(&self->to, self->session, &self->image,
					     BLOB_RENDER_CTX, 0, 0, &beyond));
		EXPECT_NE(NULL, strstr(criu_reason, "its number is above 4095"));
	}
	ASSERT_EQ(0, blob_restore_fault(&self->to, self->session, &self->image, BLOB_RENDER_CTX,
					0, 0, &far));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(0, render_ctx_free(&self->to, far.value));
	criu_node_close(&self->to);
	close(self->session);
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
}

TEST_F(bad_ctx, entities_out_of_range_are_refused)
{
	static const struct blob_fault faults[] = {
		BLOB_FAULT_FOR("no such engine", "engine type", blob_entity, hw_ip,
			       AMDGPU_HW_IP_NUM, -EBADMSG),
		BLOB_FAULT_FOR("no such engine", "huge engine type", blob_entity, hw_ip, 0xffffffff,
			       -EBADMSG),
		BLOB_FAULT_FOR("no such engine", "ring", blob_entity, ring, 2, -EBADMSG),
		BLOB_FAULT_FOR("no such engine", "huge ring", blob_entity, ring, 0xffffffff,
			       -EBADMSG),
		BLOB_FAULT_FOR("occurs twice", "duplicate", blob_entity, ring, 0, -EBADMSG),
		BLOB_FAULT_FOR("sequence number", "sequence 0", blob_entity, sequence, 0, -EBADMSG),
		BLOB_FAULT_FOR("sequence number", "sequence that would wrap", blob_entity, sequence,
			       1ull << 63, -EBADMSG),
		BLOB_FAULT_FOR(": error", "error that is not an errno", blob_entity, error, 1,
			       -EBADMSG),
		BLOB_FAULT_FOR(": error", "error beyond the last", blob_entity, error, -4096,
			       -EBADMSG),
		BLOB_FAULT_FOR("pad is not zero", "pad", blob_entity, pad, 1, -EBADMSG),
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_CTX, 0,
			     sizeof(struct blob_ctx) + sizeof(struct blob_entity), &faults[i]);
	}
}

TEST_F(bad_ctx, a_duplicate_context_is_EBADMSG)
{
	struct blob blob;

	ASSERT_TRUE(blob_copy(&blob, self->image.blob, self->image.blob_size));
	blob_double(&blob, blob_find(&blob, BLOB_RENDER_CTX, 0));
	EXPECT_EQ(-EBADMSG, blob_restore(&self->to, self->session, &self->image, &blob));
	EXPECT_NE(NULL, strstr(criu_reason, "its number occurs twice"));
	blob_free(&blob);
}

/* A type of engine without state of its own that the GPU lacks, -1 if it has all. */
static int missing_engine(const struct criu_node *node)
{
	int i;

	for (i = 0; i < AMDGPU_HW_IP_UVD; i++)
		if (!render_rings(node, i))
			return i;
	return -1;
}

TEST_F(bad_ctx, an_engine_that_the_GPU_lacks_is_ENODEV)
{
	int missing = missing_engine(&self->to);
	const struct blob_fault fault =
		BLOB_FAULT_FOR("the GPU has no engine of type", "", blob_entity, hw_ip, missing,
			       -ENODEV);

	if (missing < 0)
		SKIP(return, "the GPU has engines of all types");
	EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_CTX, 0,
		     sizeof(struct blob_ctx), &fault);
}

/* Its contexts cannot be carried to any GPU. */
TEST_F(bad_ctx, engine_that_keeps_state_is_EOPNOTSUPP)
{
	static const __u32 engines[] = {
		AMDGPU_HW_IP_UVD, AMDGPU_HW_IP_VCE, AMDGPU_HW_IP_UVD_ENC,
		AMDGPU_HW_IP_VCN_DEC, AMDGPU_HW_IP_VCN_ENC, AMDGPU_HW_IP_VCN_JPEG,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		const struct blob_fault fault =
			BLOB_FAULT_FOR(", which keeps state", "", blob_entity, hw_ip, engines[i],
				       -EOPNOTSUPP);

		TH_LOG("engine type %u", engines[i]);
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_CTX, 0,
			     sizeof(struct blob_ctx), &fault);
	}
}

TEST_F(bad_ctx, high_priority_without_CAP_SYS_NICE_is_EACCES)
{
	static const struct blob_fault faults[] = {
		BLOB_FAULT_FOR("its priority needs CAP_SYS_NICE", "own", blob_ctx, init_priority,
			       AMDGPU_CTX_PRIORITY_HIGH, -EACCES),
		BLOB_FAULT_FOR("its priority needs CAP_SYS_NICE", "override", blob_ctx,
			       override_priority, AMDGPU_CTX_PRIORITY_HIGH, -EACCES),
	};

	ASSERT_EQ(0, drop_sys_nice());
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_CTX, 0, 0,
			     &faults[i]);
	EXPECT_EQ(0, raise_all());
}

TEST_HARNESS_MAIN
