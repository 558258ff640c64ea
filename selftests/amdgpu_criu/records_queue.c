// SPDX-License-Identifier: GPL-2.0
/* Invalid fields of the records of queues, and saved waves that do not fit. */
#include "kselftest_harness.h"

#include "record_rows.h"

/* Offsets of fields, as in record_rows.h. */
enum queue {
	QUEUE_GPU_ID = 0, QUEUE_ID = 4, QUEUE_TYPE = 8, QUEUE_FLAGS = 12, QUEUE_RING = 16,
	QUEUE_RING_SIZE = 24, QUEUE_METADATA = 32, QUEUE_READ = 40, QUEUE_WRITE = 48,
	QUEUE_EOP = 56, QUEUE_CTX = 64, QUEUE_EOP_SIZE = 72, QUEUE_CTX_SIZE = 76,
	QUEUE_CTL_STACK = 80, QUEUE_PERCENT = 84, QUEUE_PRIORITY = 88, QUEUE_XCC = 92,
	QUEUE_DOORBELL_ID = 96, QUEUE_DOORBELL = 100, QUEUE_SDMA_ID = 104, QUEUE_MQD_SIZE = 108,
	QUEUE_STACK_SIZE = 112, QUEUE_PAD = 116, QUEUE_CUS = 120, QUEUE_MQD = 248,
	QUEUE_MASK = QUEUE_MQD + 4 * 23, /* compute_static_thread_mgmt_se0 */
	QUEUE_STACK_OFFSET = QUEUE_MQD + 4 * 174, /* cp_hqd_cntl_stack_offset */
};

/* Added to both sizes at once: eight bytes of the tail belong to the stack, not to the MQD. */
#define MOVE_TO_STACK ((8ULL << 32) - 8)

/* Reasons of several types of records */
#define CREATE_FAULT "properties that AMDKFD_IOC_CREATE_QUEUE refuses"
#define MQD_FAULT "MQD has words that this kernel sets itself"

/* The blob has the queues in the order of their list, the last one first: compute, then SDMA. */
TEST_F(records, invalid_compute_queue_fields_are_refused)
{
	static const struct row rows[] = {
		{ "GPU that does not exist", QUEUE_GPU_ID, 4, SET, 1, EBADMSG,
		  "on a GPU without doorbells" },
		{ "duplicate id", QUEUE_ID, 4, COPY, 1, EBADMSG, "its number occurs twice" },
		{ "id out of range", QUEUE_ID, 4, SET, 1024, EBADMSG, "id, ring or pad" },
		{ "type out of range", QUEUE_TYPE, 4, SET, 4, EBADMSG, CREATE_FAULT },
		{ "SDMA queue with fields of a compute queue", QUEUE_TYPE, 4, SET, 1, EBADMSG,
		  ": MQD size" },
		{ "unknown flag", QUEUE_FLAGS, 4, OR, 1u << 31, EOPNOTSUPP, "unknown flags" },
		{ "wave-save area outside of SVM ranges", QUEUE_FLAGS, 4, OR, 4, EBADMSG,
		  "its wave-save area is in no SVM range" },
		{ "no ring", QUEUE_RING, 8, SET, 0, EBADMSG, "id, ring or pad" },
		{ "ring size not a power of two", QUEUE_RING_SIZE, 8, SET, 0x3000, EBADMSG,
		  CREATE_FAULT },
		{ "ring of 2^32 bytes", QUEUE_RING_SIZE, 8, SET, 1ULL << 32, EBADMSG,
		  CREATE_FAULT },
		{ "metadata of 2^32 bytes", QUEUE_METADATA, 8, SET, 1ULL << 32, EBADMSG,
		  CREATE_FAULT },
		{ "read pointer in the kernel", QUEUE_READ, 8, SET, ~0xfULL, EBADMSG,
		  CREATE_FAULT },
		{ "write pointer in the kernel", QUEUE_WRITE, 8, SET, ~0xfULL, EBADMSG,
		  CREATE_FAULT },
		{ "EOP buffer in the kernel", QUEUE_EOP, 8, SET, ~0xfffULL, EBADMSG, CREATE_FAULT },
		{ "wave-save area in the kernel", QUEUE_CTX, 8, SET, ~0xfffULL, EBADMSG,
		  CREATE_FAULT },
		{ "control stack of another size", QUEUE_CTL_STACK, 4, ADD, 0x1000, EBADMSG,
		  ": control stack" },
		{ "percent", QUEUE_PERCENT, 4, SET, 101, EBADMSG, CREATE_FAULT },
		{ "percent beyond a byte", QUEUE_PERCENT, 4, SET, 0x100, EBADMSG, CREATE_FAULT },
		{ "priority", QUEUE_PRIORITY, 4, SET, 16, EBADMSG, CREATE_FAULT },
		{ "graphics core beyond a byte", QUEUE_XCC, 4, SET, 0x100, EBADMSG, CREATE_FAULT },
		{ "doorbell of another", QUEUE_DOORBELL, 4, COPY, 1, EBADMSG, ": doorbell" },
		{ "doorbell number out of range", QUEUE_DOORBELL_ID, 4, SET, 1024, EBADMSG,
		  ": doorbell" },
		{ "number and doorbell of another", QUEUE_DOORBELL_ID, 8, COPY, 1, EBADMSG,
		  "its doorbell occurs twice" },
		{ "MQD beyond the tail", QUEUE_MQD_SIZE, 4, ADD, 8, EBADMSG, TAIL_FAULT },
		{ "MQD of another size", QUEUE_MQD_SIZE, 8, ADD, MOVE_TO_STACK, EBADMSG,
		  ": MQD size" },
		{ "stacks beyond the tail", QUEUE_STACK_SIZE, 4, SET, 0xffffff00, EBADMSG,
		  TAIL_FAULT },
		{ "pad", QUEUE_PAD, 4, SET, 1, EBADMSG, "id, ring or pad" },
		{ "word of the MQD that the kernel sets", QUEUE_MQD, 4, SET, 1, EOPNOTSUPP,
		  MQD_FAULT },
	};

	EXPECT_ROWS(BLOB_KFD_QUEUE, 0, rows);
}

/* compute_current_logic_xcc_id of the first MQD */
TEST_F(records, logical_ids_of_xccs_that_occur_twice_are_refused)
{
	static const struct row rows[] = {
		{ "id of another XCC", QUEUE_MQD + 4 * 39, 4, ADD, 1, EBADMSG,
		  "logical ids of XCCs" },
		{ "id out of range", QUEUE_MQD + 4 * 39, 4, SET, ~0u, EBADMSG,
		  "logical ids of XCCs" },
	};
	struct kfd_gpu gpu;

	ASSERT_EQ(0, kfd_find_gpu(&gpu));
	if (gpu.num_xcc < 2)
		SKIP(return, "the GPU has a single XCC");
	EXPECT_ROWS(BLOB_KFD_QUEUE, 0, rows);
}

/* Makes the blob say that the first engine has saved waves: work-groups of one wave each. */
static void save_waves(struct blob *blob, __u32 groups)
{
	char *queue = blob_payload(blob, blob_find(blob, BLOB_KFD_QUEUE, 0));
	const __u32 first = 1 << 17;
	__u32 size, mqd_size, stack_size;

	memcpy(&size, queue + QUEUE_CTL_STACK, sizeof(size));
	memcpy(&mqd_size, queue + QUEUE_MQD_SIZE, sizeof(mqd_size));
	memcpy(&stack_size, queue + QUEUE_STACK_SIZE, sizeof(stack_size));
	size -= groups * sizeof(first);
	memcpy(queue + QUEUE_STACK_OFFSET, &size, sizeof(size));
	/* Other generations than GFX9 have it in memory of the process. */
	for (__u32 i = 0; stack_size && i < groups; i++)
		memcpy(queue + QUEUE_MQD + mqd_size + size + i * sizeof(first), &first,
		       sizeof(first));
}

/* A CRC, which has 32 bits. */
TEST_F(records, waves_of_another_trap_handler_are_ENODEV)
{
	for (int bit = 0; bit <= 32; bit += 16) {
		const struct row rows[] = {
			{ "layout of saved waves", DEVICE_WAVE_LAYOUT, 8, ADD, 1ULL << bit,
			  ENODEV, NULL },
		};

		save_waves(&self->blob, 1);
		EXPECT_ROWS_REFUSED_FOR(BLOB_KFD_DEVICE, 0, rows, NULL);
	}
}

/* COMPUTE_STATIC_THREAD_MGMT_SE0 has a mask. */
TEST_F(records, a_cu_mask_on_a_gpu_with_other_cus_is_ENODEV)
{
	static const struct row rows[] = {
		{ "CUs per shader array", QUEUE_CUS, 1, SET, 255, ENODEV, NULL },
	};
	char *queue = blob_payload(&self->blob, blob_find(&self->blob, BLOB_KFD_QUEUE, 0));

	memset(queue + QUEUE_MASK, 1, sizeof(__u32));
	EXPECT_ROWS_REFUSED_FOR(BLOB_KFD_QUEUE, 0, rows, NULL);
}

/* One engine had 255 CUs, and each of them a work-group. */
TEST_F(records, waves_without_room_in_their_engine_are_ENODEV)
{
	static const struct row rows[] = {
		{ "CUs per shader array", QUEUE_CUS, 1, SET, 255, ENODEV, NULL },
	};
	save_waves(&self->blob, 255);
	EXPECT_ROWS_REFUSED_FOR(BLOB_KFD_QUEUE, 0, rows, NULL);
}

TEST_F(records, invalid_sdma_queue_fields_are_refused)
{
	static const struct row rows[] = {
		{ "GWS", QUEUE_FLAGS, 4, OR, 1, EBADMSG, "fields of a compute queue" },
		{ "doorbell of another engine", QUEUE_SDMA_ID, 4, ADD, 1, ENODEV,
		  "doorbell is number" },
		{ "queue that no engine has", QUEUE_SDMA_ID, 4, SET, 0xffff, ENODEV,
		  "has no SDMA queue" },
		{ "wave-save area in SVM", QUEUE_FLAGS, 4, OR, 4, EBADMSG,
		  "fields of a compute queue" },
		{ "control stack beyond the tail", QUEUE_STACK_SIZE, 4, SET, 8, EBADMSG,
		  TAIL_FAULT },
		{ "MQD shorter than the tail", QUEUE_MQD_SIZE, 4, ADD, -8, EBADMSG, TAIL_FAULT },
		{ "MQD of another size", QUEUE_MQD_SIZE, 8, ADD, MOVE_TO_STACK, EBADMSG,
		  ": MQD size" },
		{ "word of the MQD that the kernel sets", QUEUE_MQD, 4, SET, 1, EOPNOTSUPP,
		  MQD_FAULT },
	};

	EXPECT_ROWS(BLOB_KFD_QUEUE, 1, rows);
}

TEST_F(records, a_control_stack_of_an_sdma_queue_is_refused)
{
	static const __u64 stack;
	size_t at = blob_find(&self->blob, BLOB_KFD_QUEUE, 1);
	struct blob_record *record = blob_record(&self->blob, at);

	*(__u32 *)field_of(self, BLOB_KFD_QUEUE, 1, QUEUE_STACK_SIZE) = sizeof(stack);
	blob_insert(&self->blob, at + sizeof(*record) + record->size, &stack, sizeof(stack));
	record->size += sizeof(stack);
	EXPECT_EQ(-EBADMSG, restore_changed(self));
	EXPECT_NE(NULL, strstr(criu_reason, "fields of a compute queue")) {
		TH_LOG("%s", criu_reason);
	}
}

TEST_HARNESS_MAIN
