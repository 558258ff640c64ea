/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RESTORE and the fields of records: each row makes one field of a valid blob invalid, and has the
 * errno and the reason that are expected, so no other check may refuse it. The tables agree with
 * the changed blob. Afterwards the valid blob is restored in the same process.
 */
#ifndef AMDGPU_CRIU_TEST_RECORD_ROWS_H
#define AMDGPU_CRIU_TEST_RECORD_ROWS_H

#include "blob_edit.h"
#include "carry.h"
#include "state.h"

#define SVM_SIZE 0x20000
#define ROOM 16

/* Offsets of fields in bytes, as in kfd_criu_records.h. */
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
	struct kfd_ioctl_svm_attribute attrs[] = {
		{ KFD_IOCTL_SVM_ATTR_ACCESS, kfd->gpu.gpu_id },
		{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 4 },
	};
	void *at = mmap(CARRY_ADDRESS + 0x80000000, 2 * SVM_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int ret = state_make(kfd, (struct state *)carry->notes);

	/* Two with different attributes; on a kernel without SVM their tests are skipped. */
	if (!kfd_set_svm(kfd, at, SVM_SIZE, attrs, ARRAY_SIZE(attrs))) {
		attrs[1].value = 6;
		kfd_set_svm(kfd, (char *)at + SVM_SIZE, SVM_SIZE, attrs, ARRAY_SIZE(attrs));
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

#endif /* AMDGPU_CRIU_TEST_RECORD_ROWS_H */
