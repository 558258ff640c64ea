// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of state that KFD has, one at a time: made in one process, restored in another, asked
 * for there, and checkpointed again, which must give the same records.
 */
#include "kselftest_harness.h"

#include "blob_edit.h"
#include "carry.h"

#define SOON 5000
#define NEVER 300
#define PAGE 4096
/* Result of a maker when the machine has not got what it needs. */
#define LACKS (-ENODATA)

struct notes {
	struct kfd_bo words;
	struct kfd_queue queues[4];
	struct kfd other;
	struct kfd_bo far;
	__u32 ids[4];
	char *svm;
	struct kfd_process_device_apertures apertures[2];
};

FIXTURE(kinds) {
	struct carry carry;
	struct kfd kfd;
	struct notes *notes;
	int session;
};

FIXTURE_SETUP(kinds)
{
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	self->kfd.node.fd = -1;
	self->kfd.drm_fd = -1;
	self->session = -1;
	self->notes = (struct notes *)self->carry.notes;
}

FIXTURE_TEARDOWN(kinds)
{
	close(self->session);
	carry_close(&self->carry, &self->kfd);
	carry_free(&self->carry);
}

static int call(const struct kfd *kfd, unsigned long cmd, void *args)
{
	return ioctl(kfd->node.fd, cmd, args) ? -errno : 0;
}

/* @lacks: in case of it, why the test is skipped. */
#define MAKE(maker, lacks) \
	do { \
		const int made = make(self, (maker), NULL); \
		if (made == LACKS) \
			SKIP(return, lacks); \
		ASSERT_EQ(0, made); \
	} while (0)

static int make(FIXTURE_DATA(kinds) *self, int (*maker)(struct kfd *, struct carry *),
		int (*when_paused)(struct kfd *, struct carry *))
{
	const struct carry_maker all = { .make = maker, .when_paused = when_paused };
	int ret = carry_make(&self->carry, &all);

	if (!ret)
		ret = carry_open(&self->carry, &self->kfd);
	if (ret)
		return ret;
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	return self->session < 0 ? self->session : 0;
}

/* Ids of the session and offsets of the node are not the process's. */
static void blank(struct blob_record *record)
{
	__u64 *payload = (__u64 *)(record + 1);

	if (record->type == BLOB_KFD_BO) {
		payload[0] = 0;
		payload[4] = 0;
	}
	if (record->type == BLOB_END)
		memset(payload, 0, record->size);
}

/* What is restored, checkpointed again, is what was checkpointed. */
static void expect_same_again(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self)
{
	int session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_image again;
	struct blob was, is;
	size_t at;

	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_checkpoint(&self->kfd.node, session, &again));
	ASSERT_EQ(self->carry.image.blob_size, again.blob_size);
	ASSERT_TRUE(blob_copy(&was, self->carry.image.blob, again.blob_size));
	ASSERT_TRUE(blob_copy(&is, again.blob, again.blob_size));
	for (at = sizeof(struct blob_head); at < is.size;
	     at += sizeof(struct blob_record) + blob_record(&is, at)->size) {
		blank(blob_record(&was, at));
		blank(blob_record(&is, at));
		EXPECT_EQ(0, memcmp(was.data + at, is.data + at, sizeof(struct blob_record) +
				    blob_record(&is, at)->size)) {
			TH_LOG("record of type %#x at byte %zu", blob_record(&is, at)->type, at);
		}
	}
	blob_free(&was);
	blob_free(&is);
	criu_image_free(&again);
	close(session);
}

/* The whole way; then the queues listed run. */
static void carry_over(struct __test_metadata *_metadata, FIXTURE_DATA(kinds) *self, int queues)
{
	struct notes *notes = self->notes;

	ASSERT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
	expect_same_again(_metadata, self);
	for (int i = 0; i < queues; i++) {
		__u32 *word = (__u32 *)notes->words.at + i;

		ASSERT_EQ(0, kfd_doorbell_map(&self->kfd, &notes->queues[i]));
		kfd_sdma_write(&notes->queues[i], word, 0x1000 + i);
		EXPECT_TRUE(kfd_becomes(word, 0x1000 + i, SOON)) {
			TH_LOG("queue %d", i);
		}
	}
}

static struct notes *notes_of(struct carry *carry)
{
	return (struct notes *)carry->notes;
}

static int make_words(struct kfd *kfd, struct carry *carry)
{
	return kfd_bo_alloc(kfd, &notes_of(carry)->words, KFD_GTT, PAGE);
}

static int make_sdma(struct kfd *kfd, struct carry *carry, int num)
{
	int ret = make_words(kfd, carry);

	for (int i = 0; !ret && i < num; i++)
		ret = kfd_sdma_create(kfd, &notes_of(carry)->queues[i]);
	return ret;
}

/* --- Queues */

static int make_inactive(struct kfd *kfd, struct carry *carry)
{
	int ret = make_sdma(kfd, carry, 2);

	/* Without a share of the engine it stands still. */
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

static int make_recreated(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_queue gone;
	int ret = make_words(kfd, carry);

	/* Numbers, doorbells and engines of those that stay are not the first free ones. */
	if (!ret)
		ret = kfd_sdma_create(kfd, &gone);
	for (int i = 0; !ret && i < 3; i++)
		ret = kfd_sdma_create(kfd, &notes->queues[i]);
	if (!ret)
		ret = kfd_queue_destroy(kfd, gone.id);
	if (!ret)
		ret = kfd_queue_destroy(kfd, notes->queues[1].id);
	/* Its number goes to a queue of another kind, its engine to none. */
	return ret ? ret : kfd_compute_create(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &notes->ids[0]);
}

TEST_F(kinds, queues_keep_numbers_doorbells_and_engines_when_others_were_free)
{
	ASSERT_EQ(0, make(self, make_recreated, NULL));
	self->notes->queues[1] = self->notes->queues[2];
	carry_over(_metadata, self, 2);
	EXPECT_EQ(0, kfd_queue_destroy(&self->kfd, self->notes->ids[0]));
}

static int make_by_engine(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = make_words(kfd, carry);

	for (__u32 i = 0; !ret && i < 2; i++)
		ret = kfd_sdma_create_as(kfd, &notes->queues[i],
					 KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 1);
	return ret;
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
	return ret == -ENOMEM ? LACKS : ret;
}

TEST_F(kinds, sdma_queues_for_xgmi_go_on)
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
		const __u32 mask[] = { 0x0f0f0f0f << i, 0x33333333 };
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
TEST_F(kinds, cu_masks_are_as_they_were)
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

TEST_F(kinds, percents_and_priorities_are_as_they_were)
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

TEST_F(kinds, a_queue_with_gws_has_it_again)
{
	struct kfd_ioctl_alloc_queue_gws_args args = { .num_gws = 1 };

	MAKE(make_gws, "the GPU has no GWS for queues");
	carry_over(_metadata, self, 0);
	/* One queue at a time: it has it. */
	args.queue_id = self->notes->ids[0];
	EXPECT_EQ(-EBUSY, call(&self->kfd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &args));
}

static int make_one_sdma(struct kfd *kfd, struct carry *carry)
{
	return make_sdma(kfd, carry, 1);
}

/* The queue is stopped: what is written now waits in its ring, and the doorbell has been rung. */
static int write_when_paused(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);

	for (__u32 i = 0; i < 5; i++)
		kfd_sdma_write(&notes->queues[0], (__u32 *)notes->words.at + i, 0x50 + i);
	return kfd_becomes(notes->words.at, 0x50, NEVER) ? -EBUSY : 0;
}

TEST_F(kinds, packets_whose_doorbell_was_rung_are_done_after_restore)
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

/* AQL: a barrier-AND packet that waits for one signal and counts another down. */
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
	/* The first runs; the second waits for signal 1, which nobody counts down yet. */
	write_barrier(queue, NULL, &signals(notes)[0]);
	for (int i = 2; i < CHAIN; i++)
		write_barrier(queue, &signals(notes)[i - 1], &signals(notes)[i]);
	return kfd_becomes((__u32 *)&signals(notes)[0].value, 0, SOON) ? 0 : -ETIME;
}

TEST_F(kinds, an_aql_queue_stopped_inside_a_chain_of_barriers_goes_on_in_it)
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
	/* None was done twice. */
	for (int i = 0; i < CHAIN; i++) {
		EXPECT_EQ(0, all[i].value);
	}
}

/* --- Several GPUs */

static int make_far(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	int ret = kfd_open_other(kfd, 1, &notes->other);

	if (ret)
		return ret == -ENOENT ? LACKS : ret;
	ret = make_words(kfd, carry);
	notes->other.next_address = CARRY_ADDRESS + 0x40000000;
	if (!ret)
		ret = kfd_bo_alloc(&notes->other, &notes->far, KFD_VRAM, 0x10000);
	/* Each GPU's memory on the other GPU. */
	if (!ret)
		ret = kfd_bo_map(&notes->other, &notes->words);
	if (!ret)
		ret = kfd_bo_map(kfd, &notes->far);
	if (ret)
		return ret == -EINVAL || ret == -EPERM ? LACKS : ret;
	ret = kfd_sdma_create(kfd, &notes->queues[0]);
	return ret ? ret : kfd_sdma_create(&notes->other, &notes->queues[1]);
}

/* GTT and VRAM, each reached by both; VRAM by the peer, over XGMI or PCIe as the machine has it. */
TEST_F(kinds, bos_on_one_gpu_are_mapped_on_its_peer_again)
{
	struct notes *notes = self->notes;

	MAKE(make_far, "needs two GPUs that reach each other's VRAM");
	carry_over(_metadata, self, 2);
	for (int i = 0; i < 2; i++) {
		__u32 *far = (__u32 *)notes->far.at + i;

		kfd_sdma_write(&notes->queues[i], far, 0x77 + i);
		EXPECT_TRUE(kfd_becomes(far, 0x77 + i, SOON)) {
			TH_LOG("GPU %d", i);
		}
	}
}

/* --- Modes of the process and of its GPUs */

static int set_xnack(const struct kfd *kfd, __s32 mode, __s32 *is)
{
	struct kfd_ioctl_set_xnack_mode_args args = { .xnack_enabled = mode };
	int ret = call(kfd, AMDKFD_IOC_SET_XNACK_MODE, &args);

	*is = args.xnack_enabled;
	return ret;
}

static int make_xnack(struct kfd *kfd, struct carry *carry)
{
	__s32 mode;
	int ret = set_xnack(kfd, 1, &mode);

	if (ret == -EPERM)
		return LACKS;
	return ret ? ret : make_sdma(kfd, carry, 1);
}

TEST_F(kinds, xnack_mode_is_as_it_was)
{
	__s32 mode = -1;

	MAKE(make_xnack, "the GPUs have no XNACK mode of the process's own");
	ASSERT_EQ(0, set_xnack(&self->kfd, -1, &mode));
	EXPECT_EQ(0, mode);
	carry_over(_metadata, self, 1);
	ASSERT_EQ(0, set_xnack(&self->kfd, -1, &mode));
	EXPECT_EQ(1, mode);
}

static int make_trap_handler(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_ioctl_set_trap_handler_args args = { .gpu_id = kfd->gpu.gpu_id };
	int ret = make_words(kfd, carry);

	args.tba_addr = (uintptr_t)notes->words.at;
	args.tma_addr = (uintptr_t)notes->words.at + 0x800;
	return ret ? ret : call(kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &args);
}

TEST_F(kinds, trap_handlers_are_as_they_were)
{
	ASSERT_EQ(0, make(self, make_trap_handler, NULL));
	carry_over(_metadata, self, 0);
}

static int read_apertures(const struct kfd *kfd, struct kfd_process_device_apertures *apertures)
{
	struct kfd_ioctl_get_process_apertures_new_args args = {
		.kfd_process_device_apertures_ptr = (uintptr_t)apertures, .num_of_nodes = 2,
	};

	memset(apertures, 0, 2 * sizeof(*apertures));
	return call(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &args);
}

static int make_scratch(struct kfd *kfd, struct carry *carry)
{
	struct kfd_ioctl_set_scratch_backing_va_args args = {
		.va_addr = 0x300000000000, .gpu_id = kfd->gpu.gpu_id,
	};
	int ret = call(kfd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &args);

	return ret ? ret : read_apertures(kfd, notes_of(carry)->apertures);
}

TEST_F(kinds, apertures_of_lds_scratch_and_gpuvm_are_as_the_process_was_told)
{
	struct kfd_process_device_apertures now[2];

	ASSERT_EQ(0, make(self, make_scratch, NULL));
	carry_over(_metadata, self, 0);
	ASSERT_EQ(0, read_apertures(&self->kfd, now));
	EXPECT_EQ(0, memcmp(now, self->notes->apertures, sizeof(now)));
}

static int make_memory_policy(struct kfd *kfd, struct carry *carry)
{
	struct kfd_ioctl_set_memory_policy_args args = {
		.gpu_id = kfd->gpu.gpu_id,
		.default_policy = KFD_IOC_CACHE_POLICY_NONCOHERENT,
		.alternate_policy = KFD_IOC_CACHE_POLICY_COHERENT,
		.alternate_aperture_base = 0x400000000000,
		.alternate_aperture_size = 0x10000000,
	};
	int ret = make_sdma(kfd, carry, 1);

	return ret ? ret : call(kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &args);
}

/* On GFX9 it is accepted and says nothing, but for a mode of GFX 9.5 that has a flag. */
TEST_F(kinds, a_process_that_has_set_a_memory_policy_goes_on)
{
	ASSERT_EQ(0, make(self, make_memory_policy, NULL));
	carry_over(_metadata, self, 1);
}

static int make_runtime(struct kfd *kfd, struct carry *carry)
{
	struct notes *notes = notes_of(carry);
	struct kfd_ioctl_runtime_enable_args args = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};
	int ret = make_words(kfd, carry);

	args.r_debug = (uintptr_t)notes->words.at;
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_RUNTIME_ENABLE, &args);
	return ret == -ENOTTY || ret == -EINVAL ? LACKS : ret;
}

TEST_F(kinds, runtime_enable_is_as_it_was)
{
	struct kfd_ioctl_runtime_enable_args args = {
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};

	MAKE(make_runtime, "this kernel has no runtime-enable");
	carry_over(_metadata, self, 0);
	args.r_debug = (uintptr_t)self->notes->words.at;
	EXPECT_EQ(-EBUSY, call(&self->kfd, AMDKFD_IOC_RUNTIME_ENABLE, &args));
}

/* --- Events */

static int make_events(struct kfd *kfd, struct carry *carry)
{
	static const __u32 types[] = {
		KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_NODECHANGE,
		KFD_IOC_EVENT_DEVICESTATECHANGE,
	};
	int ret = 0;

	for (int i = 0; !ret && i < 4; i++) {
		struct kfd_ioctl_create_event_args args = {
			.event_type = types[i], .auto_reset = i % 2, .node_id = i,
		};

		ret = call(kfd, AMDKFD_IOC_CREATE_EVENT, &args);
		notes_of(carry)->ids[i] = args.event_id;
	}
	return ret;
}

/* Places in the record of an event, see kfd_criu_event_record. */
static __u32 *event_word(struct blob *blob, __u32 id, size_t word)
{
	size_t at;

	for (unsigned int i = 0; (at = blob_find(blob, BLOB_KFD_EVENT, i)); i++)
		if (*(__u32 *)blob_payload(blob, at) == id)
			return (__u32 *)blob_payload(blob, at) + word;
	return NULL;
}

/* What a GPU's fault leaves in an event names the GPU as the process knows it. */
TEST_F(kinds, events_of_every_type_have_their_data_with_the_gpu_that_it_names)
{
	struct kfd_event_data data = {};
	struct kfd_ioctl_wait_events_args wait = {
		.events_ptr = (uintptr_t)&data, .num_events = 1, .wait_for_all = 1,
	};
	struct kfd_hsa_memory_exception_data *memory;
	struct blob blob;

	ASSERT_EQ(0, make(self, make_events, NULL));
	blob.data = self->carry.image.blob;
	blob.size = self->carry.image.blob_size;
	/* A fault without one: as if it had come before the checkpoint. */
	*event_word(&blob, self->notes->ids[1], 2) |= 2;
	memory = (void *)event_word(&blob, self->notes->ids[1], 6);
	memory->failure.NotPresent = 1;
	memory->va = 0x123456789000;
	memory->gpu_id = self->kfd.gpu.gpu_id;
	blob_repair(&blob);
	carry_over(_metadata, self, 0);
	data.event_id = self->notes->ids[1];
	ASSERT_EQ(0, call(&self->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait));
	EXPECT_EQ(KFD_IOC_WAIT_RESULT_COMPLETE, wait.wait_result);
	EXPECT_EQ(1, data.memory_exception_data.failure.NotPresent);
	EXPECT_EQ(0x123456789000, data.memory_exception_data.va);
	EXPECT_EQ(self->kfd.gpu.gpu_id, data.memory_exception_data.gpu_id);
	data.event_id = self->notes->ids[0];
	ASSERT_EQ(0, call(&self->kfd, AMDKFD_IOC_WAIT_EVENTS, &wait));
	EXPECT_EQ(KFD_IOC_WAIT_RESULT_TIMEOUT, wait.wait_result);
}

/* --- SVM */

#define SVM_PAGES 32
#define SVM_SIZE (SVM_PAGES * PAGE)

static int set_svm(const struct kfd *kfd, void *at, size_t size,
		   const struct kfd_ioctl_svm_attribute *attrs, __u32 num)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct kfd_ioctl_svm_attribute attrs[8];
	} svm = {
		.args = {
			.start_addr = (uintptr_t)at, .size = size,
			.op = KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = num,
		},
	};

	memcpy(svm.attrs, attrs, num * sizeof(*attrs));
	return call(kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20,
			      sizeof(svm.args) + num * sizeof(*attrs)), &svm);
}

static int make_svm(struct kfd *kfd, struct carry *carry)
{
	const struct kfd_ioctl_svm_attribute first[] = {
		{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_HOST_ACCESS |
						KFD_IOCTL_SVM_FLAG_COHERENT },
		{ KFD_IOCTL_SVM_ATTR_CLR_FLAGS, ~(KFD_IOCTL_SVM_FLAG_HOST_ACCESS |
						  KFD_IOCTL_SVM_FLAG_COHERENT) },
		{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, kfd->gpu.gpu_id },
		/* Goes to VRAM now. */
		{ KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 3 },
	};
	const struct kfd_ioctl_svm_attribute second[] = {
		{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_HOST_ACCESS |
						KFD_IOCTL_SVM_FLAG_GPU_RO |
						KFD_IOCTL_SVM_FLAG_GPU_EXEC },
		{ KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_LOCATION_SYSMEM },
	};
	struct notes *notes = notes_of(carry);
	int ret = make_sdma(kfd, carry, 1);

	if (ret)
		return ret;
	notes->svm = mmap(CARRY_ADDRESS + 0x80000000, 2 * SVM_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (notes->svm == MAP_FAILED)
		return -errno;
	carry->areas[0].at = notes->svm;
	carry->areas[0].size = 2 * SVM_SIZE;
	for (size_t i = 0; i < 2 * SVM_SIZE / sizeof(__u32); i++)
		((__u32 *)notes->svm)[i] = i * 3;
	ret = set_svm(kfd, notes->svm, SVM_SIZE, first, ARRAY_SIZE(first));
	if (ret == -EPERM || ret == -EOPNOTSUPP || ret == -ENOTTY)
		return LACKS;
	return ret ? ret : set_svm(kfd, notes->svm + SVM_SIZE, SVM_SIZE, second,
				   ARRAY_SIZE(second));
}

TEST_F(kinds, svm_ranges_in_vram_and_in_system_memory_keep_attributes_and_contents)
{
	__u32 *words;

	MAKE(make_svm, "this kernel has no SVM ranges");
	carry_over(_metadata, self, 1);
	words = (__u32 *)self->notes->svm;
	for (size_t i = 0; i < 2 * SVM_SIZE / sizeof(__u32); i++) {
		ASSERT_EQ(i * 3, words[i]);
	}
	/* By the GPU, then by the CPU, in the range that lives in VRAM. */
	kfd_sdma_write(&self->notes->queues[0], &words[100], 0xcafe);
	EXPECT_TRUE(kfd_becomes(&words[100], 0xcafe, SOON));
	words[101] = 0xbabe;
	kfd_sdma_write(&self->notes->queues[0], &words[102], 0xd00d);
	EXPECT_TRUE(kfd_becomes(&words[102], 0xd00d, SOON));
	EXPECT_EQ(0xbabe, words[101]);
}

TEST_HARNESS_MAIN
