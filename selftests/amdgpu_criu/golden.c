// SPDX-License-Identifier: GPL-2.0
/*
 * Blobs of released formats, created once and restored by every later kernel. Tests of the host
 * (kernel/tests) read the same files; here they become processes again.
 *
 *   golden --write DIRECTORY    writes blobs of this format, for a new fixture
 */
#include "kselftest_harness.h"

#include "carry.h"
#include "golden_file.h"
#include "state.h"

#define SVM_SIZE 0x40000

/* Sizes in a queue record, at this offset; and the offset of cp_hqd_cntl_stack_offset in an MQD. */
struct queue_sizes {
	__u32 mqd, stack;
};

#define QUEUE_SIZES 108
#define CNTL_STACK_OFFSET (174 * 4)

/* --- Writing blobs */

static int call(const struct kfd *kfd, unsigned long cmd, void *args)
{
	return ioctl(kfd->node.fd, cmd, args) ? -errno : 0;
}

static int make_svm(struct kfd *kfd)
{
	const struct kfd_ioctl_svm_attribute attrs[] = {
		{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC },
		{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 4 },
	};
	void *at = mmap(CARRY_ADDRESS + 0x80000000, SVM_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return at == MAP_FAILED ? -errno :
	       kfd_set_svm(kfd, at, SVM_SIZE, attrs, ARRAY_SIZE(attrs));
}

/* One GPU, with some of every kind of state. */
static int make_one(struct kfd *kfd, struct carry *carry)
{
	const __u32 mask[] = { 0x0f0f0f0f, 0x33333333 };
	struct state *state = (struct state *)carry->notes;
	struct kfd_ioctl_set_cu_mask_args cu = {
		.num_cu_mask = 64, .cu_mask_ptr = (uintptr_t)mask,
	};
	struct kfd_ioctl_create_event_args event = { .event_type = KFD_IOC_EVENT_MEMORY };
	struct kfd_ioctl_set_trap_handler_args trap = { .gpu_id = kfd->gpu.gpu_id };
	struct kfd_ioctl_runtime_enable_args runtime = {
		.r_debug = (uintptr_t)CARRY_ADDRESS,
		.mode_mask = KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
	};
	struct kfd_queue queues[2];
	/* Before any queue is created. */
	int ret = call(kfd, AMDKFD_IOC_RUNTIME_ENABLE, &runtime);

	if (!ret)
		ret = state_make(kfd, state);
	trap.tba_addr = (uintptr_t)state->gtt.at;
	cu.queue_id = state->compute;
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_SET_CU_MASK, &cu);
	if (!ret)
		ret = kfd_compute_make(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE, &queues[0]);
	if (!ret)
		ret = kfd_queue_update(kfd, &queues[0], 0, 11);
	if (!ret)
		ret = kfd_sdma_create_as(kfd, &queues[1], KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 1);
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_CREATE_EVENT, &event);
	if (!ret)
		ret = call(kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &trap);
	return ret ? ret : make_svm(kfd);
}

static int make_options(struct kfd *kfd, struct carry *carry)
{
	return make_one(kfd, carry) ?: kfd_sigbus_delay(kfd, 1500);
}

/* Two GPUs, each with access to the other's memory. */
static int make_two(struct kfd *kfd, struct carry *carry)
{
	struct kfd_queue queues[2];
	struct kfd_bo here, there;
	struct kfd other;
	int ret = kfd_open_other(kfd, 1, &other);

	other.next_address = CARRY_ADDRESS + 0x40000000;
	if (!ret)
		ret = kfd_bo_alloc(kfd, &here, KFD_GTT, 0x1000);
	if (!ret)
		ret = kfd_bo_alloc(&other, &there, KFD_VRAM, 0x10000);
	if (!ret)
		ret = kfd_bo_map(&other, &here);
	if (!ret)
		ret = kfd_bo_map(kfd, &there);
	if (!ret)
		ret = kfd_sdma_create(kfd, &queues[0]);
	return ret ? ret : kfd_sdma_create(&other, &queues[1]);
}

static int write_one(const char *directory, const char *name,
		     int (*make)(struct kfd *, struct carry *))
{
	const struct carry_maker maker = { .make = make };
	struct carry carry;
	int ret = carry_make(&carry, &maker);

	return ret ? ret : golden_write(directory, name, carry.image.blob, carry.image.blob_size);
}

static void __attribute__((constructor)) write_all(int argc, char **argv)
{
	int ret;

	if (argc != 3 || strcmp(argv[1], "--write"))
		return;
	/* kfd-1-one-gpu is from a kernel before 7.3, which allocated event pages. */
	ret = write_one(argv[2], "kfd-1-options", make_options);
	if (!ret)
		ret = write_one(argv[2], "kfd-1-two-gpus", make_two);
	if (ret)
		fprintf(stderr, "golden: %s\n", strerror(-ret));
	_exit(!!ret);
}

/* --- Restoring blobs */

FIXTURE(golden) {
	struct carry carry;
	struct kfd kfd;
	struct blob blob;
	int session;
};

FIXTURE_VARIANT(golden) {
	const char *file;
	unsigned int gpus;
};

FIXTURE_VARIANT_ADD(golden, kfd_1_one_gpu) {
	.file = "kfd-1-one-gpu", .gpus = 1,
};

FIXTURE_VARIANT_ADD(golden, kfd_1_options) {
	.file = "kfd-1-options", .gpus = 1,
};

FIXTURE_VARIANT_ADD(golden, kfd_1_two_gpus) {
	.file = "kfd-1-two-gpus", .gpus = 2,
};

static unsigned int count(struct blob *blob, __u16 type)
{
	unsigned int num = 0;

	while (blob_find(blob, type, num))
		num++;
	return num;
}

FIXTURE_SETUP(golden)
{
	const char *missing = golden_missing(variant->gpus, variant->file);
	struct kfd_gpu gpu;

	self->kfd.node.fd = -1;
	self->kfd.drm_fd = -1;
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_TRUE(golden_load(variant->file, &self->blob)) {
		TH_LOG("%s", variant->file);
	}
	if (!kfd_gpu_at(count(&self->blob, BLOB_KFD_DEVICE), &gpu))
		SKIP(return, "more GPUs than the process had");
	self->carry.image.blob = malloc(self->blob.size);
	ASSERT_NE(NULL, self->carry.image.blob);
	self->carry.image.blob_size = self->blob.size;
	memcpy(self->carry.image.blob, self->blob.data, self->blob.size);
	golden_tables(&self->carry, &self->blob);
	ASSERT_EQ(0, carry_open(&self->carry, &self->kfd));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(golden)
{
	blob_free(&self->blob);
	close(self->session);
	carry_close(&self->carry, &self->kfd);
	carry_free(&self->carry);
}

/* Clears the unused part of a control stack, which early blobs contain. */
static void blank_stack(struct blob_record *record)
{
	unsigned char *payload = (unsigned char *)(record + 1);
	const struct queue_sizes *sizes = (struct queue_sizes *)(payload + QUEUE_SIZES);
	unsigned char *mqd = payload + record->fixed_size;
	__u32 offset;

	if (!sizes->stack)
		return;
	memcpy(&offset, mqd + CNTL_STACK_OFFSET, sizeof(offset));
	memset(mqd + sizes->mqd, 0, offset < sizes->stack ? offset : sizes->stack);
}

/* Clears what is not state of the process. */
static void blank(struct blob *blob)
{
	size_t at;

	for (at = sizeof(struct blob_head); at < blob->size;
	     at += sizeof(struct blob_record) + blob_record(blob, at)->size) {
		blob_blank(blob_record(blob, at));
		if (blob_record(blob, at)->type == BLOB_KFD_QUEUE)
			blank_stack(blob_record(blob, at));
	}
}

/* Removes the records of a type. */
static void drop(struct blob *blob, __u16 type)
{
	size_t at;

	while ((at = blob_find(blob, type, 0)))
		blob_erase(blob, at, sizeof(struct blob_record) + blob_record(blob, at)->size);
}

/* True if a kernel before 7.3 has allocated the event page. */
static bool has_kernel_page(struct blob *blob)
{
	const size_t at = blob_find(blob, BLOB_KFD_EVENT_PAGE, 0);

	return at && !*(__u64 *)blob_payload(blob, at);
}

TEST_F(golden, is_restored_with_all_values)
{
	static const __u16 types[] = {
		BLOB_KFD_PROCESS, BLOB_KFD_BO, BLOB_KFD_EVENT_PAGE, BLOB_KFD_EVENT, BLOB_KFD_QUEUE,
		BLOB_KFD_SVM_RANGE, BLOB_KFD_OPTIONS,
	};
	struct amdgpu_criu_state args;
	struct criu_image again;
	struct blob blob;
	int session;
	int ret = criu_restore(&self->kfd.node, self->session, &self->carry.image);

	if (has_kernel_page(&self->blob) && kernel_is_at_least(7, 3)) {
		EXPECT_EQ(-EOPNOTSUPP, ret);
		EXPECT_NE(NULL, strstr(criu_reason, "this kernel allocates no page"));
		return;
	}
	if (count(&self->blob, BLOB_KFD_OPTIONS) && !kernel_is_at_least(7, 3)) {
		EXPECT_EQ(-EOPNOTSUPP, ret);
		EXPECT_NE(NULL, strstr(criu_reason, "unknown type of record"));
		/* What is left can be restored, without SVM ranges if the kernel has none. */
		drop(&self->blob, BLOB_KFD_OPTIONS);
		if (!self->kfd.gpu.svm)
			drop(&self->blob, BLOB_KFD_SVM_RANGE);
		blob_repair(&self->blob);
		args = criu_image_args(self->session, &self->carry.image);
		args.blob = (uintptr_t)self->blob.data;
		args.blob_size = self->blob.size;
		ret = criu_op(&self->kfd.node, RESTORE, &args);
	}
	if (ret == -EOPNOTSUPP && count(&self->blob, BLOB_KFD_SVM_RANGE))
		SKIP(return, "this kernel has no SVM ranges");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, carry_fill(&self->carry));
	ASSERT_EQ(0, criu_resume(&self->kfd.node, self->session, 0));
	session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_checkpoint(&self->kfd.node, session, &again));
	blob.data = again.blob;
	blob.size = again.blob_size;
	blank(&self->blob);
	blank(&blob);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		const unsigned int records = count(&self->blob, types[i]);

		EXPECT_EQ(records, count(&blob, types[i]));
		for (unsigned int j = 0; j < records; j++) {
			EXPECT_EQ(-1, golden_difference(&self->blob, &blob, types[i], j)) {
				TH_LOG("type %#x, record %u", types[i], j);
			}
		}
	}
	criu_image_free(&again);
	close(session);
}

TEST_HARNESS_MAIN
