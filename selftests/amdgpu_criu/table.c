// SPDX-License-Identifier: GPL-2.0
/*
 * RESTORE and its tables: entries that do not belong to the blob, or are missing. After every
 * refusal the valid tables are restored in the same process.
 */
#include "kselftest_harness.h"

#include <fcntl.h>

#include "blob_edit.h"
#include "fixtures.h"
#include "render.h"

#define ROOM 16

FIXTURE(table) {
	struct restorer r;
	/* Copies for the tests to change. */
	struct amdgpu_criu_state args;
	struct amdgpu_criu_device devices[ROOM];
	struct amdgpu_criu_bo bos[ROOM];
	struct amdgpu_criu_device *used;
};

FIXTURE_SETUP(table)
{
	int ret = restorer_open(&self->r);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	ASSERT_GT(ROOM, self->r.saved.carry.image.num_devices);
	ASSERT_GT(ROOM, self->r.saved.carry.image.num_bos);
}

static int restore_right(FIXTURE_DATA(table) *self)
{
	return criu_restore(&self->r.kfd.node, self->r.session, &self->r.saved.carry.image);
}

FIXTURE_TEARDOWN(table)
{
	EXPECT_EQ(0, restore_right(self));
	restorer_close(&self->r);
}

/* Makes the copies valid again. */
static void reset(FIXTURE_DATA(table) *self)
{
	const struct criu_image *image = &self->r.saved.carry.image;
	__u32 i;

	self->args = criu_image_args(self->r.session, image);
	memcpy(self->devices, image->devices, image->num_devices * sizeof(self->devices[0]));
	memcpy(self->bos, image->bos, image->num_bos * sizeof(self->bos[0]));
	self->args.devices = (uintptr_t)self->devices;
	self->args.bos = (uintptr_t)self->bos;
	for (i = 0; i < image->num_devices; i++) {
		if (self->devices[i].drm_fd >= 0)
			self->used = &self->devices[i];
	}
}

static int restore(FIXTURE_DATA(table) *self)
{
	return criu_op(&self->r.kfd.node, RESTORE, &self->args);
}

TEST_F(table, bo_that_differs_from_the_blob_is_EBADMSG)
{
	static const struct {
		size_t offset, size;
	} fields[] = {
#define FIELD(field) { offsetof(struct amdgpu_criu_bo, field), \
	sizeof(((struct amdgpu_criu_bo *)0)->field) }
		FIELD(object_id), FIELD(size), FIELD(va), FIELD(mmap_offset), FIELD(gpu_id),
		FIELD(handle), FIELD(domain), FIELD(flags),
	};
	size_t i, byte;

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		for (byte = 0; byte < fields[i].size; byte++) {
			reset(self);
			((char *)&self->bos[1])[fields[i].offset + byte] ^= 0x10;
			EXPECT_EQ(-EBADMSG, restore(self)) {
				TH_LOG("field %zu, byte %zu", i, byte);
			}
			EXPECT_NE(NULL, strstr(criu_reason, "BO 1: table and record do not agree"));
		}
	}
}

TEST_F(table, bos_in_another_order_are_EBADMSG)
{
	reset(self);
	self->bos[0] = self->r.saved.carry.image.bos[1];
	self->bos[1] = self->r.saved.carry.image.bos[0];
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "BO 0: table and record do not agree"));
}

TEST_F(table, more_or_fewer_entries_than_in_the_blob_are_EBADMSG)
{
	reset(self);
	self->args.num_bos--;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "BOs for a blob of"));
	reset(self);
	self->args.num_bos++;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "BOs for a blob of"));
	reset(self);
	self->args.num_devices--;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "GPUs for a blob of"));
	reset(self);
	self->args.num_devices++;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "GPUs for a blob of"));
}

/* Before anything is allocated for them. */
TEST_F(table, more_entries_than_the_blob_has_room_for_are_EBADMSG)
{
	reset(self);
	self->args.num_bos = 0xffffffff;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_STREQ("the tables are longer than the blob", criu_reason);
	reset(self);
	self->args.num_devices = 0xffffffff;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_STREQ("the tables are longer than the blob", criu_reason);
}

TEST_F(table, strides_that_are_too_small_odd_or_huge_are_EINVAL)
{
	static const __u32 strides[] = { 0, 1, 8, 12, 4096 + 8, 0x80000000, 0xfffffff8 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(strides); i++) {
		reset(self);
		self->args.bo_stride = strides[i];
		EXPECT_EQ(-EINVAL, restore(self));
		reset(self);
		self->args.device_stride = strides[i];
		EXPECT_EQ(-EINVAL, restore(self));
	}
}

TEST_F(table, entries_with_an_unknown_field_are_E2BIG)
{
	struct {
		struct amdgpu_criu_bo bo;
		__u64 newer;
	} wide[ROOM] = {};
	__u32 i;

	reset(self);
	for (i = 0; i < self->args.num_bos; i++)
		wide[i].bo = self->bos[i];
	self->args.bos = (uintptr_t)wide;
	self->args.bo_stride = sizeof(wide[0]);
	wide[1].newer = 1ULL << 63;
	EXPECT_EQ(-E2BIG, restore(self));
}

TEST_F(table, unreadable_arrays_are_EFAULT)
{
	struct criu_hole hole;

	ASSERT_EQ(0, criu_hole_make(&hole));
	reset(self);
	self->args.bos = (uintptr_t)hole.hole;
	EXPECT_EQ(-EFAULT, restore(self));
	reset(self);
	self->args.devices = (uintptr_t)hole.hole;
	EXPECT_EQ(-EFAULT, restore(self));
	/* From the second entry on. */
	reset(self);
	memcpy(hole.hole - sizeof(self->bos[0]), &self->bos[0], sizeof(self->bos[0]));
	self->args.bos = (uintptr_t)hole.hole - sizeof(self->bos[0]);
	EXPECT_EQ(-EFAULT, restore(self));
}

/* Results are written last, after everything has been created. */
TEST_F(table, unwritable_results_are_EFAULT_and_leave_nothing)
{
	size_t size = sizeof(self->bos);
	void *only_read;

	reset(self);
	only_read = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, only_read);
	memcpy(only_read, self->bos, size);
	ASSERT_EQ(0, mprotect(only_read, size, PROT_READ));
	self->args.bos = (uintptr_t)only_read;
	EXPECT_EQ(-EFAULT, restore(self));
	EXPECT_EQ(-EFAULT, restore(self));
	munmap(only_read, size);
}

TEST_F(table, device_flags_are_EINVAL)
{
	reset(self);
	self->used->flags = 1;
	EXPECT_EQ(-EINVAL, restore(self));
	self->used->flags = 0x80000000;
	EXPECT_EQ(-EINVAL, restore(self));
}

TEST_F(table, device_that_differs_from_the_blob_is_EBADMSG)
{
	reset(self);
	self->used->gpu_id ^= 1;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "table and record do not agree"));
	reset(self);
	self->used->drm_fd = -1;
	EXPECT_EQ(-EBADMSG, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "table and record do not agree"));
}

TEST_F(table, a_device_that_does_not_exist_is_ENODEV)
{
	reset(self);
	self->used->actual_gpu_id = 0xfffe;
	EXPECT_EQ(-ENODEV, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "no GPU 65534"));
	reset(self);
	self->used->actual_gpu_id = 0;
	EXPECT_EQ(-ENODEV, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "no GPU 0"));
}

TEST_F(table, file_that_is_not_open_is_EBADF)
{
	int closed = dup(0);

	close(closed);
	reset(self);
	self->used->drm_fd = closed;
	EXPECT_EQ(-EBADF, restore(self));
}

/* The errno of AMDKFD_IOC_ACQUIRE_VM. */
TEST_F(table, a_file_that_is_not_a_render_node_is_EINVAL)
{
	int file = open("/dev/null", O_RDWR | O_CLOEXEC);

	ASSERT_LE(0, file);
	reset(self);
	self->used->drm_fd = file;
	EXPECT_EQ(-EINVAL, restore(self));
	self->used->drm_fd = self->r.kfd.node.fd;
	EXPECT_EQ(-EINVAL, restore(self));
	close(file);
}

TEST_F(table, a_file_of_another_gpu_is_EINVAL)
{
	struct kfd_gpu other;

	if (kfd_gpu_at(1, &other))
		SKIP(return, "needs a second GPU");
	if (other.gpu_id == self->r.kfd.gpu.gpu_id)
		ASSERT_EQ(0, kfd_gpu_at(0, &other));
	reset(self);
	self->used->drm_fd = kfd_render_open(&other);
	ASSERT_LE(0, self->used->drm_fd);
	EXPECT_EQ(-EINVAL, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "drm_fd is a file of another GPU"));
	close(self->used->drm_fd);
}

TEST_F(table, a_gpu_that_replaces_two_is_ENODEV)
{
	__u32 i;

	if (self->r.saved.carry.image.num_devices < 2)
		SKIP(return, "needs a second GPU");
	reset(self);
	for (i = 0; i < self->args.num_devices; i++)
		self->devices[i].actual_gpu_id = self->used->actual_gpu_id;
	EXPECT_EQ(-ENODEV, restore(self));
	EXPECT_NE(NULL, strstr(criu_reason, "replaces both"));
}

/* Restores a BO with id 1 and this size on a GPU, in the session of the process. */
static void restore_first(struct __test_metadata *_metadata, FIXTURE_DATA(table) *self,
			  const struct kfd_gpu *gpu, size_t size, struct criu_node *to)
{
	struct criu_node from = { .fd = kfd_render_open(gpu), .kind = CRIU_NODE_RENDER };
	struct criu_image image;
	__u32 handle;

	*to = (struct criu_node) { .fd = kfd_render_open(gpu), .kind = CRIU_NODE_RENDER };
	ASSERT_LE(0, from.fd);
	ASSERT_LE(0, to->fd);
	ASSERT_EQ(0, render_bo_create(&from, size, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_EQ(0, render_save(&from, &image));
	ASSERT_EQ(1, image.bos[0].object_id);
	ASSERT_EQ(0, criu_restore(to, self->r.session, &image));
	criu_image_free(&image);
	criu_node_close(&from);
}

/* A KFD BO of this kind has id 1, in blob and table. Frees nothing of the session. */
static int restore_as_first(FIXTURE_DATA(table) *self, __u32 flag)
{
	struct blob blob;
	__u32 i;
	int ret;

	reset(self);
	if (!blob_copy(&blob, self->r.saved.carry.image.blob, self->r.saved.carry.image.blob_size))
		return -ENOMEM;
	for (i = 0; i < self->args.num_bos; i++) {
		__u64 *id = blob_payload(&blob, blob_find(&blob, BLOB_KFD_BO, i));
		const bool is_it = self->bos[i].flags & flag;

		if (is_it || *id == 1) {
			*id = is_it ? 1 : ROOM;
			self->bos[i].object_id = *id;
		}
	}
	blob_repair(&blob);
	self->args.blob = (uintptr_t)blob.data;
	ret = restore(self);
	blob_free(&blob);
	return ret;
}

TEST_F(table, a_userptr_that_was_restored_as_memory_is_EBADMSG)
{
	struct criu_node node;

	restore_first(_metadata, self, &self->r.kfd.gpu, STATE_USERPTR_SIZE, &node);
	EXPECT_EQ(-EBADMSG, restore_as_first(self, AMDGPU_CRIU_BO_USERPTR));
	EXPECT_NE(NULL, strstr(criu_reason, "is of a kind that cannot be shared"));
	criu_node_close(&node);
	close(self->r.session);
	self->r.session = criu_session(&self->r.kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
}

TEST_F(table, memory_that_was_restored_on_another_gpu_is_ENODEV)
{
	struct criu_node node;
	struct kfd_gpu other;

	if (kfd_gpu_at(1, &other))
		SKIP(return, "needs a second GPU");
	ASSERT_EQ(1, self->r.saved.carry.image.bos[0].object_id);
	restore_first(_metadata, self, &other, self->r.saved.carry.image.bos[0].size, &node);
	EXPECT_EQ(-ENODEV, restore_right(self));
	EXPECT_NE(NULL, strstr(criu_reason, "it was restored before, on another GPU"));
	criu_node_close(&node);
	close(self->r.session);
	self->r.session = criu_session(&self->r.kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
}

/* Its VM is in use by a process. */
TEST_F(table, file_whose_vm_is_in_use_is_refused)
{
	struct kfd taken;
	int to_us[2], quit[2], status;
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(to_us));
	ASSERT_EQ(0, pipe(quit));
	taken.drm_fd = kfd_render_open(&self->r.kfd.gpu);
	ASSERT_LE(0, taken.drm_fd);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(quit[1]);
		if (kfd_open_with(&taken, taken.drm_fd) || write(to_us[1], "x", 1) != 1)
			_exit(1);
		_exit(read(quit[0], &byte, 1));
	}
	close(quit[0]);
	ASSERT_EQ(1, read(to_us[0], &byte, 1));
	reset(self);
	self->used->drm_fd = taken.drm_fd;
	EXPECT_EQ(-EINVAL, restore(self));
	/* It is refused when it is applied, not by a check. */
	EXPECT_NE(NULL, strstr(criu_reason, "cannot restore: -22")) {
		TH_LOG("%s", criu_reason);
	}
	close(quit[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	close(taken.drm_fd);
}

TEST_HARNESS_MAIN
