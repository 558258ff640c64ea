// SPDX-License-Identifier: GPL-2.0
/*
 * RESTORE and the fields of records: each row makes one field of a valid blob invalid, and has the
 * errno and the reason that are expected, so no other check may refuse it. The tables agree with
 * the changed blob. Afterwards the valid blob is restored in the same process.
 */
#include "kselftest_harness.h"

#include "blob_edit.h"
#include "carry.h"
#include "state.h"

#define SVM_SIZE 0x20000
#define ROOM 16

/* Offsets of fields in bytes, as in kfd_criu_records.h. */
enum process { PROCESS_FLAGS = 0, PROCESS_PAD = 4, PROCESS_R_DEBUG = 8 };

enum device {
	DEVICE_GPU_ID = 0, DEVICE_FLAGS = 4, DEVICE_GC_VERSION = 8, DEVICE_SDMA_VERSION = 12,
	DEVICE_MEC_FW = 16, DEVICE_MEC2_FW = 20, DEVICE_SDMA_FW = 24, DEVICE_NUM_XCC = 28,
	DEVICE_SIMDS = 32, DEVICE_ARRAYS = 36, DEVICE_CWSR = 40, DEVICE_CTL_STACK = 44,
	DEVICE_DEBUG_MEMORY = 48, DEVICE_SDMA_ENGINES = 52, DEVICE_XGMI_ENGINES = 56,
	DEVICE_SDMA_QUEUES = 60, DEVICE_LDS_BASE = 64, DEVICE_LDS_LIMIT = 72,
	DEVICE_SCRATCH_BASE = 80, DEVICE_SCRATCH_LIMIT = 88, DEVICE_GPUVM_BASE = 96,
	DEVICE_GPUVM_LIMIT = 104, DEVICE_SCRATCH_VA = 128, DEVICE_WAVE_LAYOUT = 136,
};

enum bo {
	BO_OBJECT_ID = 0, BO_SIZE = 8, BO_VA = 16, BO_USER_ADDR = 24,
	BO_MMAP_OFFSET = 32, BO_GPU_ID = 40,
	BO_HANDLE = 44, BO_ALLOC_FLAGS = 48, BO_TABLE_FLAGS = 52, BO_DOMAIN = 56,
	BO_NUM_MAPPED = 60, BO_FLAGS = 64, BO_PAD = 68, BO_MAPPED = 72,
};

enum page { PAGE_HANDLE = 0, PAGE_MAPPED = 8, PAGE_SLOTS = 16, PAGE_PAD = 20 };
enum event { EVENT_ID = 0, EVENT_TYPE = 4, EVENT_FLAGS = 8, EVENT_PAD = 12, EVENT_AGE = 16 };

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

enum svm { SVM_START = 0, SVM_SIZE_FIELD = 8, SVM_NUM = 16, SVM_PAD = 20, SVM_ATTR = 24 };

/* Added to both sizes at once: eight bytes of the tail belong to the stack, not to the MQD. */
#define MOVE_TO_STACK ((8ULL << 32) - 8)

/* Reasons of several types of records */
#define CREATE_FAULT "properties that AMDKFD_IOC_CREATE_QUEUE refuses"
#define MQD_FAULT "MQD has words that this kernel sets itself"

enum how { SET, ADD, OR, COPY };

struct row {
	const char *name;
	int offset, size;
	enum how how;
	/* COPY: index of the record of the same type that has the value. */
	__u64 value;
	int errno_expected;
	const char *reason; /* a part of it */
};

FIXTURE(records) {
	struct carry carry;
	struct blob blob;
	struct kfd kfd;
	int session;
};

static int make_with_svm(struct kfd *kfd, struct carry *carry)
{
	struct {
		struct kfd_ioctl_svm_args args;
		struct kfd_ioctl_svm_attribute attrs[2];
	} svm = {
		.args = { .size = SVM_SIZE, .op = KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = 2 },
		.attrs = {
			{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
			{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 4 },
		},
	};
	void *at = mmap(CARRY_ADDRESS + 0x80000000, 2 * SVM_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int ret = state_make(kfd, (struct state *)carry->notes);

	/* Two with different attributes; on a kernel without SVM their tests are skipped. */
	svm.args.start_addr = (uintptr_t)at;
	if (!ioctl(kfd->node.fd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(svm)), &svm)) {
		svm.args.start_addr += SVM_SIZE;
		svm.attrs[1].value = 6;
		ioctl(kfd->node.fd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(svm)), &svm);
		carry->areas[0] = (struct carry_area) { .at = at, .size = 2 * SVM_SIZE };
	}
	return ret;
}

FIXTURE_SETUP(records)
{
	const struct carry_maker maker = { .make = make_with_svm };
	struct kfd_gpu gpu;

	if (kfd_find_gpu(&gpu))
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, carry_make(&self->carry, &maker));
	ASSERT_EQ(0, carry_open(&self->carry, &self->kfd));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
	ASSERT_TRUE(blob_copy(&self->blob, self->carry.image.blob, self->carry.image.blob_size));
	ASSERT_GE(ROOM, self->carry.image.num_devices);
	ASSERT_GE(ROOM, self->carry.image.num_bos);
}

FIXTURE_TEARDOWN(records)
{
	EXPECT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
	blob_free(&self->blob);
	close(self->session);
	carry_close(&self->carry, &self->kfd);
	carry_free(&self->carry);
}

static __u64 value_of(struct blob *blob, __u16 type, const struct row *row, size_t at)
{
	unsigned char *field = (unsigned char *)blob_payload(blob, at) + row->offset;
	__u64 value = 0;

	memcpy(&value, field, row->size);
	if (row->how == SET)
		return row->value;
	if (row->how == ADD)
		return value + row->value;
	if (row->how == OR)
		return value | row->value;
	value = 0;
	memcpy(&value, (unsigned char *)blob_payload(blob, blob_find(blob, type, row->value)) +
	       row->offset, row->size);
	return value;
}

/* A field of record @index of a type. */
static void *field_of(FIXTURE_DATA(records) *self, __u16 type, unsigned int index, int offset)
{
	return (unsigned char *)blob_payload(&self->blob, blob_find(&self->blob, type, index)) +
	       offset;
}

static __u32 word_of(FIXTURE_DATA(records) *self, __u16 type, unsigned int index, int offset)
{
	return *(__u32 *)field_of(self, type, index, offset);
}

static __u64 long_of(FIXTURE_DATA(records) *self, __u16 type, unsigned int index, int offset)
{
	return *(__u64 *)field_of(self, type, index, offset);
}

/* The tables as CHECKPOINT returns them with the changed blob */
static void set_tables(FIXTURE_DATA(records) *self, struct amdgpu_criu_device *devices,
		       struct amdgpu_criu_bo *bos)
{
	const struct criu_image *image = &self->carry.image;
	const __u16 type = BLOB_KFD_BO;

	for (__u32 i = 0; i < image->num_devices; i++) {
		devices[i] = image->devices[i];
		devices[i].gpu_id = word_of(self, BLOB_KFD_DEVICE, i, DEVICE_GPU_ID);
	}
	for (__u32 i = 0; i < image->num_bos; i++)
		bos[i] = (struct amdgpu_criu_bo) {
			.object_id = long_of(self, type, i, BO_OBJECT_ID),
			.size = long_of(self, type, i, BO_SIZE),
			.va = long_of(self, type, i, BO_VA),
			.mmap_offset = long_of(self, type, i, BO_MMAP_OFFSET),
			.gpu_id = word_of(self, type, i, BO_GPU_ID),
			.handle = word_of(self, type, i, BO_HANDLE),
			.domain = word_of(self, type, i, BO_DOMAIN),
			.flags = word_of(self, type, i, BO_TABLE_FLAGS),
		};
}

/* With the changed blob; then the blob is valid again. */
static int restore_changed(FIXTURE_DATA(records) *self)
{
	struct amdgpu_criu_state args = criu_image_args(self->session, &self->carry.image);
	struct amdgpu_criu_device devices[ROOM];
	struct amdgpu_criu_bo bos[ROOM];
	int ret;

	blob_repair(&self->blob);
	set_tables(self, devices, bos);
	args.devices = (uintptr_t)devices;
	args.bos = (uintptr_t)bos;
	args.blob = (uintptr_t)self->blob.data;
	args.blob_size = self->blob.size;
	ret = criu_op(&self->kfd.node, RESTORE, &args);
	self->blob.size = self->carry.image.blob_size;
	memcpy(self->blob.data, self->carry.image.blob, self->blob.size);
	return ret;
}

/* One row on record @index of a type. */
static int restore_with(FIXTURE_DATA(records) *self, __u16 type, unsigned int index,
			const struct row *row)
{
	size_t at = blob_find(&self->blob, type, index);
	__u64 value;

	if (!at)
		return -ENOKEY;
	value = value_of(&self->blob, type, row, at);
	memcpy(field_of(self, type, index, row->offset), &value, row->size);
	return restore_changed(self);
}

/* All rows; the call returns a reason with this text, by default the name of the row. */
#define EXPECT_ROWS_REFUSED_FOR(type, index, rows, text) \
	do { \
		for (size_t row = 0; row < ARRAY_SIZE(rows); row++) { \
			const char *expected = (text); \
			\
			if (!expected) \
				expected = (rows)[row].name; \
			EXPECT_EQ(-(rows)[row].errno_expected, \
				  restore_with(self, (type), (index), &(rows)[row])) { \
				TH_LOG("%s", (rows)[row].name); \
			} \
			EXPECT_NE(NULL, strstr(criu_reason, expected)) { \
				TH_LOG("%s: %s", (rows)[row].name, criu_reason); \
			} \
		} \
	} while (0)

#define EXPECT_ROWS(type, index, rows) \
	EXPECT_ROWS_REFUSED_FOR(type, index, rows, (rows)[row].reason)

TEST_F(records, invalid_process_fields_are_refused)
{
	static const struct row rows[] = {
		{ "unknown flag", PROCESS_FLAGS, 4, OR, 1u << 31, EOPNOTSUPP, "unknown flags" },
		{ "pad", PROCESS_PAD, 4, SET, 1, EOPNOTSUPP, "unknown flags" },
		{ "debug state without runtime-enable", PROCESS_R_DEBUG, 8, SET, 0x1000, EBADMSG,
		  "debug state without runtime-enable" },
		{ "TTMPs without runtime-enable", PROCESS_FLAGS, 4, OR, 4, EBADMSG,
		  "debug state without runtime-enable" },
	};

	EXPECT_ROWS(BLOB_KFD_PROCESS, 0, rows);
}

TEST_F(records, xnack_mode_on_a_gpu_without_it_is_ENODEV)
{
	static const struct row rows[] = {
		{ "XNACK", PROCESS_FLAGS, 4, OR, 1, ENODEV, "XNACK mode was on" },
	};

	if (self->kfd.gpu.gfx_version < 100000)
		SKIP(return, "the GPU has XNACK");
	EXPECT_ROWS(BLOB_KFD_PROCESS, 0, rows);
}

/* A GPU that differs: the reason names the property. */
TEST_F(records, a_device_that_does_not_match_is_ENODEV)
{
	static const struct row rows[] = {
		{ "graphics IP version", DEVICE_GC_VERSION, 4, ADD, 1, ENODEV, NULL },
		{ "SDMA IP version", DEVICE_SDMA_VERSION, 4, ADD, 1, ENODEV, NULL },
		{ "number of XCCs", DEVICE_NUM_XCC, 4, ADD, 1, ENODEV, NULL },
		{ "number of SIMDs", DEVICE_SIMDS, 4, ADD, 4, ENODEV, NULL },
		{ "number of arrays", DEVICE_ARRAYS, 4, ADD, 1, ENODEV, NULL },
		{ "wave-save size", DEVICE_CWSR, 4, ADD, 0x1000, ENODEV, NULL },
		{ "control stack size", DEVICE_CTL_STACK, 4, ADD, 0x1000, ENODEV, NULL },
		{ "debug memory size", DEVICE_DEBUG_MEMORY, 4, ADD, 64, ENODEV, NULL },
		{ "number of SDMA engines", DEVICE_SDMA_ENGINES, 4, ADD, 1, ENODEV, NULL },
		{ "number of XGMI engines", DEVICE_XGMI_ENGINES, 4, ADD, 1, ENODEV, NULL },
		{ "number of SDMA queues", DEVICE_SDMA_QUEUES, 4, ADD, 1, ENODEV, NULL },
		{ "LDS base", DEVICE_LDS_BASE, 8, ADD, 0x1000, ENODEV, NULL },
		{ "LDS limit", DEVICE_LDS_LIMIT, 8, ADD, 0x1000, ENODEV, NULL },
		{ "scratch base", DEVICE_SCRATCH_BASE, 8, ADD, 0x1000, ENODEV, NULL },
		{ "scratch limit", DEVICE_SCRATCH_LIMIT, 8, ADD, 0x1000, ENODEV, NULL },
		{ "GPUVM base", DEVICE_GPUVM_BASE, 8, ADD, 0x1000, ENODEV, NULL },
		{ "GPUVM limit", DEVICE_GPUVM_LIMIT, 8, ADD, 0x1000, ENODEV, NULL },
	};

	EXPECT_ROWS_REFUSED_FOR(BLOB_KFD_DEVICE, 0, rows, NULL);
}

TEST_F(records, a_device_with_older_firmware_is_ENODEV)
{
	static const struct row rows[] = {
		{ "newer MEC firmware", DEVICE_MEC_FW, 4, ADD, 1, ENODEV, NULL },
		{ "newer MEC2 firmware", DEVICE_MEC2_FW, 4, ADD, 1, ENODEV, NULL },
		{ "newer SDMA firmware", DEVICE_SDMA_FW, 4, ADD, 1, ENODEV, NULL },
	};

	EXPECT_ROWS_REFUSED_FOR(BLOB_KFD_DEVICE, 0, rows, "has firmware MEC");
}

TEST_F(records, invalid_device_fields_are_refused)
{
	static const struct row rows[] = {
		{ "unknown flag", DEVICE_FLAGS, 4, OR, 1u << 31, EOPNOTSUPP, "unknown flags" },
		{ "no id", DEVICE_GPU_ID, 4, SET, 0, EBADMSG, "table and record do not agree" },
		{ "id of no GPU", DEVICE_GPU_ID, 4, SET, 0x10000, EBADMSG,
		  "table and record do not agree" },
		{ "no VM, but a file", DEVICE_FLAGS, 4, SET, 0, EBADMSG,
		  "table and record do not agree" },
		{ "scratch beyond 32 bits", DEVICE_SCRATCH_VA, 8, SET, 1ULL << 32, EBADMSG,
		  "scratch address above 4 GiB" },
		{ "no doorbells, but queues", DEVICE_FLAGS, 4, SET, 1, EBADMSG,
		  "on a GPU without doorbells" },
	};

	EXPECT_ROWS(BLOB_KFD_DEVICE, 0, rows);
}

/* A walk over an IDR that has the last number continues at a negative one. */
TEST_F(records, handles_that_an_idr_cannot_walk_are_refused)
{
	static const struct row rows[] = {
		{ "out of range", BO_HANDLE, 4, SET, 0x80000000, EBADMSG, NULL },
		{ "the last number", BO_HANDLE, 4, SET, 0x7fffffff, EBADMSG, NULL },
	};

	EXPECT_ROWS_REFUSED_FOR(BLOB_KFD_BO, 0, rows, "bad id or handle");
}

TEST_F(records, invalid_bo_fields_are_refused)
{
	static const struct row rows[] = {
		{ "no object", BO_OBJECT_ID, 8, SET, 0, EBADMSG, "bad id or handle" },
		{ "duplicate object", BO_OBJECT_ID, 8, COPY, 1, EBADMSG,
		  "its object occurs twice" },
		{ "duplicate handle", BO_HANDLE, 4, COPY, 1, EBADMSG, "its number occurs twice" },
		{ "GPU that does not exist", BO_GPU_ID, 4, SET, 1, EBADMSG,
		  ": on a GPU without a VM" },
		{ "no size", BO_SIZE, 8, SET, 0, EBADMSG, "bad size or address" },
		{ "size of half a page", BO_SIZE, 8, ADD, 0x800, EBADMSG, "bad size or address" },
		{ "size of 2^63", BO_SIZE, 8, SET, 1ULL << 63, EBADMSG, "bad size or address" },
		{ "address inside of a page", BO_VA, 8, ADD, 8, EBADMSG, "bad size or address" },
		{ "address out of range", BO_VA, 8, SET, 1ULL << 58, EBADMSG,
		  "bad size or address" },
		{ "address of another", BO_VA, 8, COPY, 1, EBADMSG, "it overlaps another" },
		{ "mapped without an address", BO_VA, 8, SET, 0, EBADMSG,
		  "mapped, but has no address" },
		{ "user address without a userptr", BO_USER_ADDR, 8, SET, 0x1000, EBADMSG,
		  "bad user address" },
		{ "two kinds", BO_ALLOC_FLAGS, 4, OR, 3, EBADMSG, "flags of several kinds of BO" },
		{ "no kind", BO_ALLOC_FLAGS, 4, SET, 0, EBADMSG, "flags of several kinds of BO" },
		{ "unknown attribute", BO_ALLOC_FLAGS, 4, OR, 1 << 16, EOPNOTSUPP,
		  "unknown flags" },
		{ "kind of a later kernel", BO_ALLOC_FLAGS, 4, SET, 1 << 16, EOPNOTSUPP,
		  "unknown flags" },
		{ "domain of another kind", BO_DOMAIN, 4, ADD, 1, EBADMSG,
		  "domain or flags do not fit its kind" },
		{ "table flags of another kind", BO_TABLE_FLAGS, 4, SET, 2, EBADMSG,
		  "domain or flags do not fit its kind" },
		{ "number of GPUs beyond the tail", BO_NUM_MAPPED, 4, SET, 0xffffffff, EBADMSG,
		  TAIL_FAULT },
		{ "unknown flag", BO_FLAGS, 4, OR, 1u << 31, EOPNOTSUPP, "unknown flags" },
		{ "pad", BO_PAD, 4, SET, 1, EOPNOTSUPP, "unknown flags" },
		{ "mapped on a GPU that does not exist", BO_MAPPED, 4, SET, 1, EBADMSG,
		  "mapped on a GPU without a VM" },
	};

	EXPECT_ROWS(BLOB_KFD_BO, 0, rows);
}

/* Rows of several fields: a BO whose size or flags do not fit its kind. */
TEST_F(records, bos_of_a_kind_that_they_cannot_be_are_refused)
{
	static const struct {
		__u32 alloc_flags, table_flags, domain, flags;
		const char *reason;
	} rows[] = {
		{ KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, AMDGPU_CRIU_BO_DOORBELL,
		  AMDGPU_CRIU_DOMAIN_NONE, 0, "doorbells of another size" },
		{ KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP, AMDGPU_CRIU_BO_MMIO,
		  AMDGPU_CRIU_DOMAIN_NONE, 0, "MMIO page of another size" },
		{ KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL, AMDGPU_CRIU_BO_DOORBELL,
		  AMDGPU_CRIU_DOMAIN_NONE, 1, "imported, but of a kind that cannot be imported" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		/* Three fields in this order. */
		memcpy(field_of(self, BLOB_KFD_BO, 0, BO_ALLOC_FLAGS), &rows[i],
		       3 * sizeof(__u32));
		memcpy(field_of(self, BLOB_KFD_BO, 0, BO_FLAGS), &rows[i].flags, sizeof(__u32));
		EXPECT_EQ(-EBADMSG, restore_changed(self));
		EXPECT_NE(NULL, strstr(criu_reason, rows[i].reason)) {
			TH_LOG("%s", criu_reason);
		}
	}
}

/* The tail has space for two GPUs. */
TEST_F(records, a_bo_that_is_mapped_twice_on_one_gpu_is_refused)
{
	__u32 *num = field_of(self, BLOB_KFD_BO, 0, BO_NUM_MAPPED);
	__u32 *mapped = field_of(self, BLOB_KFD_BO, 0, BO_MAPPED);

	ASSERT_EQ(1, *num);
	*num = 2;
	mapped[1] = mapped[0];
	EXPECT_EQ(-EBADMSG, restore_changed(self));
	EXPECT_NE(NULL, strstr(criu_reason, "mapped twice on one GPU"));
}

TEST_F(records, an_event_page_with_another_number_of_slots_is_refused)
{
	size_t at = blob_find(&self->blob, BLOB_KFD_EVENT_PAGE, 0);
	__u32 *slots = field_of(self, BLOB_KFD_EVENT_PAGE, 0, PAGE_SLOTS);
	struct blob_record *record = blob_record(&self->blob, at);

	if (kernel_is_at_least(7, 3)) {
		/* The page is a BO, so there are no slots in the blob. */
		memset(field_of(self, BLOB_KFD_EVENT_PAGE, 0, PAGE_HANDLE), 0, sizeof(__u64));
	} else {
		--*slots;
		record->size -= sizeof(__u64);
		blob_erase(&self->blob, at + sizeof(*record) + record->size, sizeof(__u64));
	}
	EXPECT_EQ(-EBADMSG, restore_changed(self));
	EXPECT_NE(NULL, strstr(criu_reason, "number of slots"));
}

/* As in the images of kernels before 7.3. */
TEST_F(records, an_event_page_that_no_BO_contains_is_EOPNOTSUPP)
{
	static const __u64 slots[4096];
	size_t at = blob_find(&self->blob, BLOB_KFD_EVENT_PAGE, 0);

	if (!kernel_is_at_least(7, 3))
		SKIP(return, "this kernel allocates event pages");
	memset(field_of(self, BLOB_KFD_EVENT_PAGE, 0, PAGE_HANDLE), 0, sizeof(__u64));
	*(__u32 *)field_of(self, BLOB_KFD_EVENT_PAGE, 0, PAGE_SLOTS) = ARRAY_SIZE(slots);
	blob_insert(&self->blob, at + sizeof(struct blob_record) +
		    blob_record(&self->blob, at)->size, slots, sizeof(slots));
	blob_record(&self->blob, at)->size += sizeof(slots);
	EXPECT_EQ(-EOPNOTSUPP, restore_changed(self));
	EXPECT_NE(NULL, strstr(criu_reason, "this kernel allocates no page"));
}

TEST_F(records, an_event_page_that_does_not_fit_its_bo_is_refused)
{
	unsigned int index = 0;
	__u32 handle[2];

	if (kernel_is_at_least(7, 3)) {
		/* It is in a BO already. */
		*(__u64 *)field_of(self, BLOB_KFD_EVENT_PAGE, 0, PAGE_MAPPED) += sizeof(__u64);
		EXPECT_EQ(-EBADMSG, restore_changed(self));
		EXPECT_NE(NULL, strstr(criu_reason, "does not fit its BO"));
		return;
	}

	while (!(*(__u32 *)field_of(self, BLOB_KFD_BO, index, BO_ALLOC_FLAGS) & KFD_GTT))
		index++;
	memcpy(&handle[0], field_of(self, BLOB_KFD_BO, index, BO_HANDLE), sizeof(handle[0]));
	memcpy(&handle[1], field_of(self, BLOB_KFD_BO, index, BO_GPU_ID), sizeof(handle[1]));
	/* It still has slots in the blob, which belong to a page in kernel memory. */
	memcpy(field_of(self, BLOB_KFD_EVENT_PAGE, 0, PAGE_HANDLE), handle, sizeof(handle));
	EXPECT_EQ(-EBADMSG, restore_changed(self));
	EXPECT_NE(NULL, strstr(criu_reason, "does not fit its BO"));
}

TEST_F(records, invalid_event_page_fields_are_refused)
{
	static const struct row rows[] = {
		{ "in a BO that does not exist", PAGE_HANDLE, 8, SET, 0x1234500000001, EBADMSG,
		  "not in a GTT BO" },
		{ "different number of slots", PAGE_SLOTS, 4, ADD, -1, EBADMSG, TAIL_FAULT },
		{ "slots beyond the tail", PAGE_SLOTS, 4, SET, 0xffffffff, EBADMSG, TAIL_FAULT },
		{ "pad", PAGE_PAD, 4, SET, 1, EBADMSG, "pad is not zero" },
	};
	static const struct row mapped[] = {
		{ "no bytes mapped", PAGE_MAPPED, 8, SET, 0, EBADMSG, NULL },
		{ "more mapped than there is", PAGE_MAPPED, 8, SET, 1 << 20, EBADMSG, NULL },
		{ "half a slot mapped", PAGE_MAPPED, 8, ADD, -4, EBADMSG, NULL },
	};

	EXPECT_ROWS(BLOB_KFD_EVENT_PAGE, 0, rows);
	/* Before, the page is in kernel memory. */
	EXPECT_ROWS_REFUSED_FOR(BLOB_KFD_EVENT_PAGE, 0, mapped,
				kernel_is_at_least(7, 3) ? "does not fit its BO" : "mapped size");
}

static int restore_with_options(FIXTURE_DATA(records) *self, __u32 delay, __u32 pad)
{
	const struct {
		struct blob_record record;
		__u32 delay, pad;
	} options = {
		.record = { .type = BLOB_KFD_OPTIONS, .version = 1, .fixed_size = 8, .size = 8 },
		.delay = delay, .pad = pad,
	};

	blob_insert(&self->blob, blob_find(&self->blob, BLOB_KFD_DEVICE, 0), &options,
		    sizeof(options));
	return restore_changed(self);
}

/* No kernel loses them. */
TEST_F(records, options_are_refused_if_invalid_or_unknown)
{
	if (!kernel_is_at_least(7, 3)) {
		EXPECT_EQ(-EOPNOTSUPP, restore_with_options(self, 5, 0));
		EXPECT_NE(NULL, strstr(criu_reason, "unknown type of record"));
		return;
	}
	EXPECT_EQ(-EBADMSG, restore_with_options(self, 0, 0));
	EXPECT_NE(NULL, strstr(criu_reason, "no option is set"));
	EXPECT_EQ(-EBADMSG, restore_with_options(self, 5, 1));
	EXPECT_NE(NULL, strstr(criu_reason, "pad is not zero"));
}

TEST_F(records, invalid_event_fields_are_refused)
{
	static const struct row rows[] = {
		{ "duplicate id", EVENT_ID, 4, COPY, 1, EBADMSG, "its number occurs twice" },
		{ "id beyond the slots", EVENT_ID, 4, SET, 4096, EBADMSG, ": id" },
		{ "id of events with a slot", EVENT_TYPE, 4, SET, KFD_IOC_EVENT_MEMORY, EBADMSG,
		  ": id" },
		{ "last id of events without one", EVENT_ID, 8, SET,
		  (__u64)KFD_IOC_EVENT_MEMORY << 32 | 0x7fffffff, EBADMSG, ": id" },
		{ "unknown flag", EVENT_FLAGS, 4, OR, 4, EBADMSG, "unknown flags" },
		{ "pad", EVENT_PAD, 4, SET, 1, EBADMSG, "pad is not zero" },
		{ "age 0", EVENT_AGE, 8, SET, 0, EBADMSG, ": age" },
	};

	EXPECT_ROWS(BLOB_KFD_EVENT, 0, rows);
}

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

TEST_F(records, invalid_svm_range_fields_are_refused)
{
	static const struct row rows[] = {
		{ "address inside of a page", SVM_START, 8, ADD, 8, EBADMSG,
		  "address, size or pad" },
		{ "no address", SVM_START, 8, SET, 0, EBADMSG, "address, size or pad" },
		{ "address of another", SVM_START, 8, COPY, 1, EBADMSG, "it overlaps another" },
		{ "no size", SVM_SIZE_FIELD, 8, SET, 0, EBADMSG, "address, size or pad" },
		{ "half a page", SVM_SIZE_FIELD, 8, ADD, 0x800, EBADMSG, "address, size or pad" },
		{ "beyond the end", SVM_SIZE_FIELD, 8, SET, ~0xfffULL, EBADMSG,
		  "it overlaps another" },
		{ "attributes beyond the tail", SVM_NUM, 4, SET, 0xffffffff, EBADMSG, TAIL_FAULT },
		{ "pad", SVM_PAD, 4, SET, 1, EBADMSG, "address, size or pad" },
		{ "unknown attribute", SVM_ATTR, 4, SET, 0x77, EBADMSG, ": attributes" },
		{ "location on a GPU that does not exist", SVM_ATTR + 4, 4, SET, 1, EBADMSG,
		  ": attributes" },
	};

	if (!blob_find(&self->blob, BLOB_KFD_SVM_RANGE, 0))
		SKIP(return, "this kernel has no SVM ranges");
	EXPECT_ROWS(BLOB_KFD_SVM_RANGE, 0, rows);
}

TEST_HARNESS_MAIN
