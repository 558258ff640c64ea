// SPDX-License-Identifier: GPL-2.0
/* Invalid fields of the records of a process, its GPUs, BOs, events and SVM ranges. */
#include "kselftest_harness.h"

#include "record_rows.h"

/* Offsets of fields, as in record_rows.h. */
enum process { PROCESS_FLAGS = 0, PROCESS_PAD = 4, PROCESS_R_DEBUG = 8 };

enum page { PAGE_HANDLE = 0, PAGE_MAPPED = 8, PAGE_SLOTS = 16, PAGE_PAD = 20 };
enum event { EVENT_ID = 0, EVENT_TYPE = 4, EVENT_FLAGS = 8, EVENT_PAD = 12, EVENT_AGE = 16 };
enum svm { SVM_START = 0, SVM_SIZE_FIELD = 8, SVM_NUM = 16, SVM_PAD = 20, SVM_ATTR = 24 };

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

/* Each valid by itself: a blob of 256 MiB would have millions of them. */
TEST_F(records, an_svm_range_with_far_too_many_attributes_is_refused)
{
	static struct kfd_ioctl_svm_attribute more[512];
	size_t at = blob_find(&self->blob, BLOB_KFD_SVM_RANGE, 0);
	struct blob_record *record;

	if (!at)
		SKIP(return, "this kernel has no SVM ranges");
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		more[i].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
	record = blob_record(&self->blob, at);
	blob_insert(&self->blob, at + sizeof(*record) + record->size, more, sizeof(more));
	record->size += sizeof(more);
	*(__u32 *)field_of(self, BLOB_KFD_SVM_RANGE, 0, SVM_NUM) += ARRAY_SIZE(more);
	EXPECT_EQ(-EBADMSG, restore_changed(self));
	EXPECT_NE(NULL, strstr(criu_reason, "number of attributes"));
}

TEST_HARNESS_MAIN
