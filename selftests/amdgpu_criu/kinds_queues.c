// SPDX-License-Identifier: GPL-2.0
/* Queues in every possible state. */
#include <unistd.h>

#include "kinds.h"
#include "neighbour.h"

#define NEVER 300
/* Bytes of the doorbells of one process, on GFX9 */
#define DOORBELLS 0x2000
#define SDMA_WRITE 2

static int make_inactive(struct kfd *kfd, struct carry *carry)
{
	int ret = make_sdma(kfd, carry, 2);

	/* A queue without a share of the engine does not run. */
	return ret ? ret : kfd_queue_update(kfd, &notes_of(carry)->queues[1], 0, 3);
}

TEST_F(kinds, a_queue_that_was_inactive_is_inactive_until_updated)
{
	struct kfd_queue *queue = &self->notes->queues[1];
	__u32 *word;

	ASSERT_EQ(0, make(self, make_inactive, NULL));
	carry_over(_metadata, self, 1);
	word = (__u32 *)self->notes->words.at + 1;
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, queue));
	kfd_sdma_write(queue, word, 9);
	EXPECT_FALSE(kfd_becomes(word, 9, NEVER));
	ASSERT_EQ(0, kfd_queue_update(&self->kfd, queue, KFD_MAX_QUEUE_PERCENTAGE, 3));
	EXPECT_TRUE(kfd_becomes(word, 9, SOON));
}

static int set_ring(struct kfd *kfd, struct kfd_queue *queue, void *ring)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = (uintptr_t)ring,
		.queue_id = queue->id,
		.ring_size = queue->ring.size,
		.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
		.queue_priority = 7,
	};

	return call(kfd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

static int make_ringless(struct kfd *kfd, struct carry *carry)
{
	int ret = make_sdma(kfd, carry, 2);

	return ret ? ret : set_ring(kfd, &notes_of(carry)->queues[1], NULL);
}

TEST_F(kinds, a_queue_whose_ring_was_taken_away_is_disabled_until_it_gets_one)
{
	struct kfd_queue *queue = &self->notes->queues[1];
	__u32 *word;

	ASSERT_EQ(0, make(self, make_ringless, NULL));
	carry_over(_metadata, self, 1);
	word = (__u32 *)self->notes->words.at + 1;
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, queue));
	kfd_sdma_write(queue, word, 9);
	EXPECT_FALSE(kfd_becomes(word, 9, NEVER));
	ASSERT_EQ(0, set_ring(&self->kfd, queue, queue->ring.at));
	EXPECT_TRUE(kfd_becomes(word, 9, SOON));
}

static int make_recreated(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_queue gone;
	int ret = make_words(kfd, carry);

	/* The remaining queues do not have the first free numbers, doorbells and engines. */
	if (!ret)
		ret = kfd_sdma_create(kfd, &gone);
	for (int i = 0; !ret && i < 3; i++)
		ret = kfd_sdma_create(kfd, &notes->queues[i]);
	if (!ret)
		ret = kfd_queue_destroy(kfd, gone.id);
	if (!ret)
		ret = kfd_queue_destroy(kfd, notes->queues[1].id);
	/* Its number is reused by a queue of another kind, its engine is not. */
	return ret ? ret : kfd_compute_create(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &notes->ids[0]);
}

/* A compute queue whose wave-save area is in an SVM range, and that has lost its ring */
static int make_ringless_in_svm(struct kfd *kfd, struct carry *carry)
{
	const struct kfd_ioctl_svm_attribute attrs[] = {
		{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED },
	};
	struct notes *notes = notes_of(carry);
	struct kfd_ioctl_create_queue_args args = {
		.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE, .gpu_id = kfd->gpu.gpu_id,
		.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE, .eop_buffer_size = PAGE,
		.ctx_save_restore_size = kfd->gpu.cwsr_size,
		.ctl_stack_size = kfd->gpu.ctl_stack_size, .ring_size = PAGE,
	};
	struct kfd_bo eop, ring;
	int ret = make_words(kfd, carry);

	if (!ret)
		ret = kfd_bo_alloc(kfd, &eop, KFD_VRAM, PAGE);
	if (!ret)
		ret = kfd_bo_alloc(kfd, &ring, KFD_GTT, PAGE);
	if (!ret)
		ret = map_svm_memory(carry, kfd->gpu.cwsr_area);
	if (ret)
		return ret;
	ret = kfd_set_svm(kfd, notes->svm, kfd->gpu.cwsr_area, attrs, ARRAY_SIZE(attrs));
	if (ret)
		return ret == -EPERM || ret == -EOPNOTSUPP || ret == -ENOTTY ? LACKS : ret;
	args.ring_base_address = (uintptr_t)ring.at;
	args.read_pointer_address = (uintptr_t)notes->words.at;
	args.write_pointer_address = (uintptr_t)notes->words.at + 8;
	args.eop_buffer_address = (uintptr_t)eop.at;
	args.ctx_save_restore_address = (uintptr_t)notes->svm;
	ret = call(kfd, AMDKFD_IOC_CREATE_QUEUE, &args);
	notes->queues[0].id = args.queue_id;
	notes->queues[0].ring.size = PAGE;
	return ret ? ret : set_ring(kfd, &notes->queues[0], NULL);
}

/* The second checkpoint, which carry_over() makes, has the same record. */
TEST_F(kinds, a_wave_save_area_in_an_svm_range_is_found_again_without_a_ring)
{
	MAKE(make_ringless_in_svm, "this kernel has no SVM ranges");
	carry_over(_metadata, self, 0);
}

TEST_F(kinds, queues_keep_numbers_doorbells_and_engines_when_others_were_free)
{
	ASSERT_EQ(0, make(self, make_recreated, NULL));
	self->notes->queues[1] = self->notes->queues[2];
	carry_over(_metadata, self, 2);
	EXPECT_EQ(0, kfd_queue_destroy(&self->kfd, self->notes->ids[0]));
}

/* Has the SDMA queues of two doorbells, as soon as the process that had them is gone. */
static int hold_sdma(struct kfd *kfd, const void *data)
{
	const struct kfd_queue *wanted = data;
	int held = 0;

	for (int i = 0; i < 100 && held < 2; i++) {
		struct kfd_queue queue;
		int ret = kfd_sdma_create(kfd, &queue);

		if (ret)
			return ret;
		if (queue.doorbell_offset == wanted[0].doorbell_offset ||
		    queue.doorbell_offset == wanted[1].doorbell_offset) {
			held++;
			continue;
		}
		ret = kfd_queue_destroy(kfd, queue.id);
		if (ret)
			return ret;
		usleep(50 * 1000);
	}
	return held == 2 ? 0 : -ETIMEDOUT;
}

static int make_two(struct kfd *kfd, struct carry *carry)
{
	return make_sdma(kfd, carry, 2);
}

/* A replica's numbers on the engines are others, and its doorbells the same. */
TEST_F(kinds, sdma_queues_run_beside_those_that_have_their_numbers)
{
	struct kfd_queue queues[64];
	pid_t holder;
	int num = 2;

	ASSERT_EQ(0, make(self, make_two, NULL));
	holder = neighbour_start(hold_sdma, self->notes->queues);
	ASSERT_LT(0, holder);
	carry_over(_metadata, self, 2);
	EXPECT_EQ(holder, neighbour_end(holder));
	/* The numbers that are free now have doorbells that the process uses already. */
	memcpy(queues, self->notes->queues, sizeof(*queues) * 2);
	for (int tries = 0; tries < 20 && num < 64;) {
		if (!kfd_sdma_create(&self->kfd, &queues[num])) {
			num++;
			continue;
		}
		usleep(50 * 1000);
		tries++;
	}
	EXPECT_LE(4, num);
	for (int i = 0; i < num; i++) {
		for (int j = 0; j < i; j++) {
			EXPECT_NE(queues[j].doorbell_offset, queues[i].doorbell_offset);
		}
	}
	for (int i = 2; i < num; i++) {
		__u32 *word = (__u32 *)self->notes->words.at + 8 + i;

		kfd_sdma_write(&queues[i], word, i);
		EXPECT_TRUE(kfd_becomes(word, i, SOON));
	}
}

static int make_by_engine(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_words(kfd, carry);

	for (__u32 i = 0; !ret && i < 2; i++)
		ret = kfd_sdma_create_as(kfd, &notes->queues[i],
					 KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 1);
	return ret ? ret : kfd_queues_run(kfd);
}

TEST_F(kinds, sdma_queues_by_engine_stay_on_their_engine)
{
	ASSERT_EQ(0, make(self, make_by_engine, NULL));
	carry_over(_metadata, self, 2);
}

static int make_xgmi(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_words(kfd, carry);

	if (ret)
		return ret;
	ret = kfd_sdma_create_as(kfd, &notes->queues[0], KFD_IOC_QUEUE_TYPE_SDMA_XGMI, 0);
	if (ret == -ENOMEM)
		return LACKS;
	return ret ? ret : kfd_queues_run(kfd);
}

TEST_F(kinds, sdma_queues_for_xgmi_continue)
{
	MAKE(make_xgmi, "the GPU has no SDMA engines for XGMI");
	carry_over(_metadata, self, 1);
}

static int make_cu_masks(struct kfd *kfd, struct carry *carry)
{
	static const __u32 types[] = {
		KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
	};
	struct notes *notes = notes_of(carry);
	int ret = 0;

	for (int i = 0; !ret && i < 2; i++) {
		/* Newer GPUs take only pairs of CUs. */
		const __u32 mask[] = { 0x0f0f0f0f << 2 * i, 0x33333333 };
		struct kfd_ioctl_set_cu_mask_args args = {
			.num_cu_mask = 64, .cu_mask_ptr = (uintptr_t)mask,
		};

		ret = kfd_compute_create(kfd, types[i], &notes->ids[i]);
		args.queue_id = notes->ids[i];
		if (!ret)
			ret = call(kfd, AMDKFD_IOC_SET_CU_MASK, &args);
	}
	return ret;
}

/* The mask is in the MQD, which is compared. */
TEST_F(kinds, cu_masks_are_restored)
{
	size_t at;

	ASSERT_EQ(0, make(self, make_cu_masks, NULL));
	for (unsigned int i = 0; i < 2; i++) {
		struct blob blob = { self->carry.image.blob, self->carry.image.blob_size };
		__u32 *payload;

		at = blob_find(&blob, BLOB_KFD_QUEUE, i);
		ASSERT_NE(0, at);
		payload = blob_payload(&blob, at);
		/* kfd_criu_queue_record.flags: KFD_CRIU_QUEUE_CU_MASK. */
		EXPECT_EQ(2, payload[3] & 2);
		/* .active_cus: on a GPU with other CUs the mask would mean something else. */
		EXPECT_NE(0, payload[30]);
	}
	carry_over(_metadata, self, 0);
}

static int make_priorities(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_words(kfd, carry);

	for (__u32 i = 0; !ret && i < 4; i++) {
		ret = kfd_compute_make(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &notes->queues[i]);
		if (!ret)
			ret = kfd_queue_update(kfd, &notes->queues[i], 25 * (i + 1), 5 * i);
	}
	return ret;
}

TEST_F(kinds, percents_and_priorities_are_restored)
{
	ASSERT_EQ(0, make(self, make_priorities, NULL));
	carry_over(_metadata, self, 0);
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(0, kfd_queue_destroy(&self->kfd, self->notes->queues[i].id));
	}
}

static int make_gws(struct kfd *kfd, struct carry *carry)
{
	struct kfd_ioctl_alloc_queue_gws_args args = { .num_gws = 1 };
	int ret = kfd_compute_create(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &args.queue_id);

	notes_of(carry)->ids[0] = args.queue_id;
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &args);
	return ret == -ENODEV || ret == -EPERM ? LACKS : ret;
}

TEST_F(kinds, a_queue_gets_its_gws_again)
{
	struct kfd_ioctl_alloc_queue_gws_args args = { .num_gws = 1 };

	MAKE(make_gws, "the GPU has no GWS for queues");
	carry_over(_metadata, self, 0);
	/* Only one queue can have GWS: this one has it. */
	args.queue_id = self->notes->ids[0];
	EXPECT_EQ(-EBUSY, call(&self->kfd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &args));
}

static int make_one_sdma(struct kfd *kfd, struct carry *carry)
{
	return make_sdma(kfd, carry, 1);
}

/* The queue is stopped: new packets wait in its ring, and the doorbell has been rung. */
static int write_when_paused(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);

	for (__u32 i = 0; i < 5; i++)
		kfd_sdma_write(&notes->queues[0], (__u32 *)notes->words.at + i, 0x50 + i);
	return kfd_becomes(notes->words.at, 0x50, NEVER) ? -EBUSY : 0;
}

TEST_F(kinds, packets_whose_doorbell_was_rung_run_after_restore)
{
	ASSERT_EQ(0, make(self, make_one_sdma, write_when_paused));
	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
	for (__u32 i = 0; i < 5; i++) {
		EXPECT_TRUE(kfd_becomes((__u32 *)self->notes->words.at + i, 0x50 + i, SOON));
	}
	ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &self->notes->queues[0]));
	kfd_sdma_write(&self->notes->queues[0], self->notes->words.at, 7);
	EXPECT_TRUE(kfd_becomes(self->notes->words.at, 7, SOON));
}

/* The doorbells of the process, at an address of the GPU. */
static int make_gpu_doorbells(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = DOORBELLS,
		.gpu_id = kfd->gpu.gpu_id,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_COHERENT,
	};
	int ret = make_sdma(kfd, carry, 2);

	notes->far.at = mmap(NULL, DOORBELLS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	args.va_addr = (uintptr_t)notes->far.at;
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args);
	notes->far.handle = args.handle;
	return ret ? ret : kfd_bo_map(kfd, &notes->far);
}

/* The engine writes a doorbell. */
static void write_doorbell(struct kfd_queue *queue, char *to, __u64 value)
{
	__u32 *packet = (__u32 *)((char *)queue->ring.at + queue->written);
	const __u32 words[] = {
		SDMA_WRITE, (uintptr_t)to, (uintptr_t)to >> 32, 1, value, value >> 32,
	};

	memcpy(packet, words, sizeof(words));
	queue->written += sizeof(words);
	__atomic_store_n((__u64 *)((char *)queue->pointers.at + 56), queue->written,
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(queue->doorbell, queue->written, __ATOMIC_SEQ_CST);
}

TEST_F(kinds, a_queue_rings_the_doorbell_of_another_after_restore)
{
	struct kfd_queue *queues = self->notes->queues;
	__u32 *word;
	__u64 unused;

	ASSERT_EQ(0, make(self, make_gpu_doorbells, NULL));
	carry_over(_metadata, self, 2);
	word = (__u32 *)self->notes->words.at + 2;
	queues[1].doorbell = &unused;
	kfd_sdma_write(&queues[1], word, 9);
	EXPECT_FALSE(kfd_becomes(word, 9, NEVER));
	write_doorbell(&queues[0], (char *)self->notes->far.at +
		       queues[1].doorbell_offset % DOORBELLS, queues[1].written);
	EXPECT_TRUE(kfd_becomes(word, 9, SOON));
}

/* AQL: a barrier-AND packet that waits for one signal and decrements another. */
#define AQL_BARRIER_AND (3 | 1 << 8 | 2 << 9 | 2 << 11)
#define AQL_INVALID 1
#define AQL_PACKET 64
#define CHAIN 6

struct signal {
	__s64 kind, value;
	__u64 unused[6];
};

static struct signal *signals(struct notes *notes)
{
	return notes->words.at;
}

static void write_barrier(struct kfd_queue *queue, struct signal *dependency, struct signal *done)
{
	char *packet = (char *)queue->ring.at + queue->written * AQL_PACKET;

	memset(packet + 2, 0, AQL_PACKET - 2);
	*(__u64 *)(packet + 8) = (uintptr_t)dependency;
	*(__u64 *)(packet + 56) = (uintptr_t)done;
	__atomic_store_n((__u16 *)packet, AQL_BARRIER_AND, __ATOMIC_RELEASE);
	queue->written++;
	__atomic_store_n((__u64 *)((char *)queue->pointers.at + 56), queue->written,
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(queue->doorbell, queue->written - 1, __ATOMIC_SEQ_CST);
}

static int make_chain(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_queue *queue = &notes->queues[0];
	int ret = make_words(kfd, carry);

	for (int i = 0; i < CHAIN; i++)
		signals(notes)[i] = (struct signal) { .kind = 1, .value = 1 };
	if (!ret)
		ret = kfd_compute_make(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, queue);
	if (ret)
		return ret;
	for (size_t at = 0; at < queue->ring.size; at += AQL_PACKET)
		*(__u16 *)((char *)queue->ring.at + at) = AQL_INVALID;
	/* The first runs; the second waits for signal 1, which is not decremented yet. */
	write_barrier(queue, NULL, &signals(notes)[0]);
	for (int i = 2; i < CHAIN; i++)
		write_barrier(queue, &signals(notes)[i - 1], &signals(notes)[i]);
	return kfd_becomes((__u32 *)&signals(notes)[0].value, 0, SOON) ? 0 : -ETIME;
}

TEST_F(kinds, an_aql_queue_stopped_inside_a_chain_of_barriers_continues_there)
{
	struct signal *all;

	ASSERT_EQ(0, make(self, make_chain, NULL));
	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
	all = signals(self->notes);
	EXPECT_EQ(0, all[0].value);
	EXPECT_FALSE(kfd_becomes((__u32 *)&all[2].value, 0, NEVER));
	__atomic_store_n(&all[1].value, 0, __ATOMIC_SEQ_CST);
	for (int i = 2; i < CHAIN; i++) {
		EXPECT_TRUE(kfd_becomes((__u32 *)&all[i].value, 0, SOON)) {
			TH_LOG("signal %d", i);
		}
	}
	/* None ran twice. */
	for (int i = 0; i < CHAIN; i++) {
		EXPECT_EQ(0, all[i].value);
	}
}

TEST_HARNESS_MAIN
