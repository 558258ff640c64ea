// SPDX-License-Identifier: GPL-2.0
/*
 * Words of MQDs that are state. The queues are inactive, so no engine changes a word between the
 * two checkpoints.
 */
#include "kinds.h"

/* Offsets of fields in bytes, as in kfd_criu_records.h. */
enum queue {
	QUEUE_TYPE = 8, QUEUE_CTL_STACK = 80, QUEUE_MQD_SIZE = 108, QUEUE_STACK_SIZE = 112,
	QUEUE_MQD = 136,
};

/* Words of an MQD that a blob must not contain. @saved: their bits that are state. */
struct owned {
	unsigned int first, last;
	__u32 saved;
};

/* Of struct v9_mqd */
static const struct owned owned_cp[] = {
	{ 0, 0, 0 }, { 11, 12, 0 }, { 15, 18, 0 }, { 19, 19, ~(1u << 20) },
	{ 20, 20, ~(1u << 6) }, { 21, 21, 0 }, { 31, 32, 0 }, { 106, 106, 0 }, { 120, 137, 0 },
	{ 139, 145, 0 }, { 149, 153, 0 }, { 155, 155, 0 }, { 160, 167, 0 }, { 171, 173, 0 },
	{ 175, 175, 0 }, { 177, 177, 0 }, { 181, 181, 0 }, { 192, 226, 0 }, { 228, 235, 0 },
	{ 240, 255, 0 },
};

/* cp_hqd_cntl_stack_offset and cp_hqd_wg_state_offset have bounds. */
#define CP_STACK_OFFSET 174
#define CP_WAVE_OFFSET 176

/* Of struct v9_sdma_mqd */
static const struct owned owned_sdma[] = {
	{ 0, 2, 0 }, { 7, 9, 0 }, { 10, 10, 1 }, { 18, 18, 0 }, { 22, 24, 0 }, { 26, 31, 0 },
	{ 126, 127, 0 },
};

static __u32 saved_bits(bool sdma, unsigned int word)
{
	const struct owned *owned = sdma ? owned_sdma : owned_cp;
	const size_t num = sdma ? ARRAY_SIZE(owned_sdma) : ARRAY_SIZE(owned_cp);

	for (size_t i = 0; i < num; i++)
		if (word >= owned[i].first && word <= owned[i].last)
			return owned[i].saved;
	return ~0u;
}

static int make_inactive_queues(struct kfd *kfd, struct carry *carry)
{
	static const __u32 types[] = {
		KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
	};
	const __u32 mask[] = { 0x0f0f0f0f, 0x33333333 };
	struct kfd_queue *queues = notes_of(carry)->queues;
	int ret = make_sdma(kfd, carry, 1);

	if (!ret)
		ret = kfd_queue_update(kfd, &queues[0], 0, 3);
	for (int i = 1; !ret && i < 3; i++) {
		struct kfd_ioctl_set_cu_mask_args args = {
			.num_cu_mask = 64, .cu_mask_ptr = (uintptr_t)mask,
		};

		ret = kfd_compute_make(kfd, types[i - 1], &queues[i]);
		if (!ret)
			ret = kfd_queue_update(kfd, &queues[i], 0, 3);
		/* With a CU mask, any CU mask may be in the MQD. */
		args.queue_id = queues[i].id;
		if (!ret)
			ret = call(kfd, AMDKFD_IOC_SET_CU_MASK, &args);
	}
	return ret;
}

static __u32 field(const unsigned char *payload, enum queue offset)
{
	__u32 value;

	memcpy(&value, payload + offset, sizeof(value));
	return value;
}

/* Fills the words and the control stack of a queue. @invert: all bits, for their other half. */
static void set_words(struct __test_metadata *_metadata, unsigned char *payload, __u32 invert)
{
	const __u32 type = field(payload, QUEUE_TYPE);
	const bool sdma = type != KFD_IOC_QUEUE_TYPE_COMPUTE &&
			  type != KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	const __u32 mqd_size = field(payload, QUEUE_MQD_SIZE);
	const __u32 stack_size = field(payload, QUEUE_STACK_SIZE);
	unsigned char *stack = payload + QUEUE_MQD + mqd_size;
	__u32 *mqd = (__u32 *)(payload + QUEUE_MQD);

	for (__u32 i = 0; i < mqd_size / sizeof(*mqd); i++) {
		EXPECT_EQ(0, mqd[i] & ~saved_bits(sdma, i)) {
			TH_LOG("word %u", i);
		}
		mqd[i] = ((i + 1) * 0x9e3779b9 ^ invert) & saved_bits(sdma, i);
	}
	if (sdma)
		return;
	ASSERT_LT(0, stack_size);
	ASSERT_EQ(stack_size, field(payload, QUEUE_CTL_STACK));
	/* The stack is used from its end down to the offset. */
	mqd[CP_STACK_OFFSET] = stack_size / 2;
	mqd[CP_WAVE_OFFSET] = 0x1230;
	memset(stack, 0, stack_size / 2);
	for (__u32 i = stack_size / 2; i < stack_size; i++)
		stack[i] = i * 7 ^ i >> 8 ^ invert;
}

static void carry_words(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self, __u32 invert)
{
	struct blob blob;
	size_t at;

	ASSERT_EQ(0, make(self, make_inactive_queues, NULL));
	blob.data = self->carry.image.blob;
	blob.size = self->carry.image.blob_size;
	for (unsigned int i = 0; i < 3; i++) {
		at = blob_find(&blob, BLOB_KFD_QUEUE, i);
		ASSERT_NE(0, at);
		set_words(_metadata, blob_payload(&blob, at), invert);
	}
	blob_repair(&blob);
	carry_over(_metadata, self, 0);
}

TEST_F(kinds, every_word_and_control_stack_of_an_inactive_queue_is_restored)
{
	carry_words(_metadata, self, 0);
}

TEST_F(kinds, every_word_is_restored_with_the_other_bits_set)
{
	carry_words(_metadata, self, ~0u);
}

TEST_HARNESS_MAIN
