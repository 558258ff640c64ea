// SPDX-License-Identifier: GPL-2.0
/*
 * Words of MQDs that are state. The queues are inactive, so no engine changes a word between the
 * two checkpoints.
 */
#include "kinds.h"

/* Offsets of fields in bytes, as in kfd_criu_records.h. */
enum queue {
	QUEUE_TYPE = 8, QUEUE_CTL_STACK = 80, QUEUE_MQD_SIZE = 108, QUEUE_STACK_SIZE = 112,
	QUEUE_MQD = 248,
};

/* Words of an MQD that a blob must not contain. @saved: their bits that are state. */
struct owned {
	unsigned int first, last;
	__u32 saved;
};

/* Words of struct v9_mqd */
static const struct owned owned_cp[] = {
	{ 0, 0, 0 }, { 11, 12, 0 }, { 19, 19, ~(1u << 20) }, { 21, 21, 0 }, { 31, 31, 0 },
	{ 106, 106, 0 }, { 120, 131, 0 }, { 132, 132, 0xb0000000 }, { 133, 134, 0 },
	{ 135, 135, 0x80000000 }, { 136, 137, 0 }, { 139, 144, 0 }, { 145, 145, 0x80c0 },
	{ 149, 149, 0x800fffff }, { 150, 150, 0 }, { 160, 160, 0x40000183 }, { 161, 167, 0 },
	{ 171, 173, 0 }, { 175, 175, 0 }, { 177, 177, 0 }, { 181, 181, 0 }, { 192, 226, 0 },
	{ 228, 235, 0 }, { 240, 255, 0 },
};

/* Words of struct v11_compute_mqd */
static const struct owned owned_cp_11[] = {
	{ 0, 0, 0 }, { 11, 12, 0 }, { 19, 19, ~(1u << 20) }, { 21, 21, 0 }, { 31, 31, 0 },
	{ 106, 106, 0 }, { 120, 131, 0 }, { 132, 132, 0xb0000000 }, { 133, 134, 0 },
	{ 135, 135, 0x80000000 }, { 136, 137, 0 }, { 139, 144, 0 }, { 145, 145, 0x80c0 },
	{ 149, 149, 0x800fffff }, { 150, 150, 0 }, { 160, 160, 0x40000183 }, { 161, 167, 0 },
	{ 171, 173, 0 }, { 175, 175, 0 }, { 177, 177, 0 }, { 181, 181, 0 }, { 192, 224, 0 },
	{ 228, 235, 0 }, { 240, 264, 0 }, { 446, 447, 0 },
};

/* cp_hqd_cntl_stack_offset and cp_hqd_wg_state_offset have bounds. */
#define CP_STACK_OFFSET 174
#define CP_WAVE_OFFSET 176
/* Words of gfx942: compute_current_logic_xcc_id, unique for each XCC; compute_tg_chunk_size */
#define CP_LOGIC_XCC 39
#define CP_CHUNK_SIZE 41
#define CP_WORDS 512

/* Words of struct v9_sdma_mqd */
static const struct owned owned_sdma[] = {
	{ 0, 2, 0 }, { 7, 9, 0 }, { 10, 10, 1 }, { 18, 18, 0 }, { 22, 24, 0 }, { 26, 31, 0 },
	{ 126, 127, 0 },
};

/* Words of struct v11_sdma_mqd */
static const struct owned owned_sdma_11[] = {
	{ 0, 2, 0 }, { 7, 8, 0 }, { 9, 9, 1 }, { 17, 17, 0 }, { 19, 22, 0 }, { 24, 30, 0 },
	{ 43, 44, 0 }, { 126, 127, 0 },
};

/* Its control stacks are in memory of the process. */
static bool is_gfx11(const struct kfd_gpu *gpu)
{
	return gpu->gfx_version / 10000 == 11;
}

static bool has_logic_xccs(const struct kfd_gpu *gpu)
{
	return gpu->gfx_version == 90402 || gpu->gfx_version == 90500;
}

static __u32 saved_bits(const struct kfd_gpu *gpu, bool sdma, unsigned int word)
{
	static const struct {
		const struct owned *owned;
		size_t num;
	} tables[2][2] = {
		{ { owned_cp, ARRAY_SIZE(owned_cp) }, { owned_sdma, ARRAY_SIZE(owned_sdma) } },
		{ { owned_cp_11, ARRAY_SIZE(owned_cp_11) },
		  { owned_sdma_11, ARRAY_SIZE(owned_sdma_11) } },
	};
	const struct owned *owned = tables[is_gfx11(gpu)][sdma].owned;

	for (size_t i = 0; i < tables[is_gfx11(gpu)][sdma].num; i++)
		if (word >= owned[i].first && word <= owned[i].last)
			return owned[i].saved;
	return has_logic_xccs(gpu) && !sdma && word == CP_CHUNK_SIZE ? 0 : ~0u;
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

/* Fills words of one MQD. @salt: another value for each MQD */
static void set_words(struct __test_metadata *_metadata, const struct kfd_gpu *gpu, __u32 *mqd,
		      __u32 words, bool sdma, __u32 salt)
{
	for (__u32 i = 0; i < words; i++) {
		const __u32 saved = saved_bits(gpu, sdma, i);

		EXPECT_EQ(0, mqd[i] & ~saved) {
			TH_LOG("word %u", i);
		}
		mqd[i] = ((i + 1) * 0x9e3779b9 ^ salt) & saved;
	}
}

/* The stack of each XCC is used from its end down to the offset. */
static void set_stack(unsigned char *stack, __u32 size, __u32 salt)
{
	memset(stack, 0, size / 2);
	for (__u32 i = size / 2; i < size; i++)
		stack[i] = i * 7 ^ i >> 8 ^ salt;
}

/* Fills the words and the control stacks. @invert: all bits, for their other half. */
static void set_queue(struct __test_metadata *_metadata, const struct kfd_gpu *gpu,
		      unsigned char *payload, __u32 invert)
{
	const __u32 type = field(payload, QUEUE_TYPE);
	const bool aql = type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	const bool sdma = type != KFD_IOC_QUEUE_TYPE_COMPUTE && !aql;
	const __u32 mqd_size = field(payload, QUEUE_MQD_SIZE);
	const __u32 num = sdma ? 1 : gpu->num_xcc;
	const __u32 stack_size = field(payload, QUEUE_STACK_SIZE) / num;
	const __u32 words = mqd_size / sizeof(__u32) / num;
	unsigned char *stack = payload + QUEUE_MQD + mqd_size;
	__u32 *mqd = (__u32 *)(payload + QUEUE_MQD);

	for (__u32 xcc = 0; xcc < num; xcc++, mqd += words, stack += stack_size) {
		const __u32 salt = invert ^ xcc << 16 ^ xcc;

		set_words(_metadata, gpu, mqd, words, sdma, salt);
		if (sdma)
			return;
		ASSERT_EQ(CP_WORDS, words);
		ASSERT_EQ(stack_size, is_gfx11(gpu) ? 0 : field(payload, QUEUE_CTL_STACK));
		mqd[CP_STACK_OFFSET] = field(payload, QUEUE_CTL_STACK) / 2;
		mqd[CP_WAVE_OFFSET] = 0x1230;
		if (has_logic_xccs(gpu))
			mqd[CP_LOGIC_XCC] = aql ? num - 1 - xcc : 0;
		set_stack(stack, stack_size, salt);
	}
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
		set_queue(_metadata, &self->kfd.gpu, blob_payload(&blob, at), invert);
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
