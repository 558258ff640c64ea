// SPDX-License-Identifier: GPL-2.0
/* CHECKPOINT of a process that has some of every kind of state. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "blob_edit.h"
#include "fixtures.h"

#define UNTOUCHED 0xee

FIXTURE(checkpoint) {
	struct paused p;
	struct amdgpu_criu_state args;
};

FIXTURE_SETUP(checkpoint)
{
	int ret = paused_open(&self->p);

	if (ret == -ENOENT)
		SKIP(return, "no GPU in the topology of KFD");
	ASSERT_EQ(0, ret);
	self->args = criu_image_args(self->p.session, &self->p.image);
}

FIXTURE_TEARDOWN(checkpoint)
{
	paused_close(&self->p);
}

static int again(FIXTURE_DATA(checkpoint) *self)
{
	return criu_op(&self->p.kfd.node, CHECKPOINT, &self->args);
}

static bool untouched(const void *data, size_t size)
{
	const unsigned char *byte = data;

	for (; size; byte++, size--)
		if (*byte != UNTOUCHED)
			return false;
	return true;
}

TEST_F(checkpoint, counts_the_state_of_the_process)
{
	struct amdgpu_criu_process_info info;

	ASSERT_EQ(0, criu_pause(&self->p.kfd.node, self->p.session, &info));
	EXPECT_EQ(getpid(), info.pid);
	EXPECT_LE(1, info.num_devices);
	EXPECT_EQ(STATE_BOS, info.num_bos);
	EXPECT_EQ(STATE_QUEUES, info.num_queues);
	EXPECT_EQ(STATE_EVENTS, info.num_events);
	EXPECT_EQ(info.num_devices, self->p.image.num_devices);
	EXPECT_EQ(info.num_bos, self->p.image.num_bos);
	EXPECT_EQ(info.blob_size, self->p.image.blob_size);
}

TEST_F(checkpoint, reports_every_bo_as_it_is)
{
	const struct {
		const struct kfd_bo *bo;
		__u32 domain;
		__u32 flags;
	} expected[] = {
		{ &self->p.state.vram, AMDGPU_CRIU_DOMAIN_VRAM, AMDGPU_CRIU_BO_CONTENTS },
		{ &self->p.state.gtt, AMDGPU_CRIU_DOMAIN_GTT, AMDGPU_CRIU_BO_CONTENTS },
		{ &self->p.state.userptr, AMDGPU_CRIU_DOMAIN_CPU, AMDGPU_CRIU_BO_USERPTR },
		{ &self->p.state.sdma.ring, AMDGPU_CRIU_DOMAIN_GTT, AMDGPU_CRIU_BO_CONTENTS },
		{ &self->p.state.sdma.pointers, AMDGPU_CRIU_DOMAIN_GTT, AMDGPU_CRIU_BO_CONTENTS },
	};
	const struct amdgpu_criu_bo *bo;
	__u32 i, j;

	for (i = 0; i < ARRAY_SIZE(expected); i++) {
		bo = paused_find(&self->p, expected[i].bo);
		ASSERT_NE(NULL, bo);
		EXPECT_NE(0, bo->object_id);
		EXPECT_EQ(expected[i].bo->size, bo->size);
		EXPECT_EQ(expected[i].domain, bo->domain);
		EXPECT_EQ(expected[i].flags, bo->flags);
		EXPECT_EQ(self->p.kfd.gpu.gpu_id, bo->gpu_id);
		EXPECT_EQ((__u32)expected[i].bo->handle, bo->handle);
		EXPECT_EQ(0, bo->new_mmap_offset);
		if (bo->flags & AMDGPU_CRIU_BO_USERPTR) {
			EXPECT_EQ(~0ULL, bo->mmap_offset);
		} else {
			EXPECT_NE(~0ULL, bo->mmap_offset);
		}
	}
	for (i = 0; i < self->p.image.num_bos; i++) {
		for (j = 0; j < i; j++) {
			EXPECT_NE(self->p.image.bos[i].object_id, self->p.image.bos[j].object_id);
		}
	}
}

TEST_F(checkpoint, returns_the_file_whose_vm_is_used)
{
	struct amdgpu_criu_device *device;
	pid_t pid = getpid();
	__u32 i, found = 0;

	for (i = 0; i < self->p.image.num_devices; i++) {
		device = &self->p.image.devices[i];
		EXPECT_EQ(0, device->flags);
		if (device->gpu_id != self->p.kfd.gpu.gpu_id) {
			EXPECT_EQ(-1, device->drm_fd);
			continue;
		}
		found++;
		EXPECT_EQ(device->gpu_id, device->actual_gpu_id);
		EXPECT_EQ(FD_CLOEXEC, fcntl(device->drm_fd, F_GETFD));
		EXPECT_EQ(0, syscall(SYS_kcmp, pid, pid, KCMP_FILE, device->drm_fd,
				     self->p.kfd.drm_fd));
	}
	EXPECT_EQ(1, found);
}

TEST_F(checkpoint, twice_is_the_same)
{
	struct criu_image second;

	ASSERT_EQ(0, criu_checkpoint(&self->p.kfd.node, self->p.session, &second));
	ASSERT_EQ(self->p.image.blob_size, second.blob_size);
	EXPECT_EQ(0, memcmp(self->p.image.blob, second.blob, second.blob_size));
	ASSERT_EQ(self->p.image.num_bos, second.num_bos);
	EXPECT_EQ(0, memcmp(self->p.image.bos, second.bos, second.num_bos * sizeof(*second.bos)));
	criu_image_free(&second);
}

TEST_F(checkpoint, of_another_session_after_running_is_the_same)
{
	int other = criu_session(&self->p.kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct criu_image second;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, criu_unpause(&self->p.kfd.node, self->p.session));
	ASSERT_EQ(0, criu_checkpoint(&self->p.kfd.node, other, &second));
	ASSERT_EQ(self->p.image.blob_size, second.blob_size);
	EXPECT_EQ(0, memcmp(self->p.image.blob, second.blob, second.blob_size));
	criu_image_free(&second);
	close(other);
}

TEST_F(checkpoint, changes_nothing)
{
	__u32 *word = self->p.state.gtt.at;

	ASSERT_EQ(0, criu_unpause(&self->p.kfd.node, self->p.session));
	EXPECT_TRUE(state_is_filled(&self->p.state, 1));
	EXPECT_EQ(0, kfd_event_wait(&self->p.kfd, self->p.state.event_set, 0));
	EXPECT_EQ(-ETIME, kfd_event_wait(&self->p.kfd, self->p.state.event_manual, 0));
	EXPECT_EQ(-ETIME, kfd_event_wait(&self->p.kfd, self->p.state.event_auto, 0));
	kfd_sdma_write(&self->p.state.sdma, word, 0x12345678);
	EXPECT_TRUE(kfd_becomes(word, 0x12345678, 5000));
	EXPECT_EQ(0, kfd_queue_destroy(&self->p.kfd, self->p.state.compute));
}

/* True for addresses of kernel data, text and modules (upper half: ones) except masks of ones. */
static bool is_kernel_address(__u64 word)
{
	__u32 upper = word >> 32, lower = word;

	if (upper == 0xffffffff)
		return lower >= 0x80000000 && lower < 0xffff0000;
	return upper >= 0xffff8000;
}

/* Type of the record that a byte is in, and the offset in it. */
static unsigned int record_at(const struct criu_image *image, size_t byte, size_t *within)
{
	struct blob blob = { .data = image->blob, .size = image->blob_size };
	size_t at = sizeof(struct blob_head), next;

	for (;; at = next) {
		next = at + sizeof(struct blob_record) + blob_record(&blob, at)->size;
		if (byte < next || next >= blob.size)
			break;
	}
	*within = byte - at;
	return blob_record(&blob, at)->type;
}

TEST_F(checkpoint, blob_has_no_address_of_the_kernel)
{
	unsigned int type;
	size_t at, within;
	__u64 word;

	ASSERT_TRUE(is_kernel_address(0xffff888000123000));
	/* 64-bit fields are aligned; two 32-bit fields may look like an address. */
	for (at = 0; at + 8 <= self->p.image.blob_size; at += 8) {
		memcpy(&word, self->p.image.blob + at, sizeof(word));
		EXPECT_FALSE(is_kernel_address(word)) {
			type = record_at(&self->p.image, at, &within);
			TH_LOG("byte %zu, %zu of a record of type %u: %#llx", at, within, type,
			       (unsigned long long)word);
		}
	}
}

/* The kernel writes every byte of a blob, whatever the buffer contained. */
TEST_F(checkpoint, writes_every_byte_of_the_buffers)
{
	struct criu_image *image = &self->p.image;
	unsigned char *blob = malloc(image->blob_size);

	memcpy(blob, image->blob, image->blob_size);
	kfd_close_drm_fds(&self->p.image);
	memset(image->blob, UNTOUCHED, image->blob_size);
	memset(image->bos, UNTOUCHED, image->num_bos * sizeof(*image->bos));
	memset(image->devices, UNTOUCHED, image->num_devices * sizeof(*image->devices));
	ASSERT_EQ(0, again(self));
	EXPECT_EQ(0, memcmp(blob, image->blob, image->blob_size));
	EXPECT_EQ(0, image->bos[0].new_mmap_offset);
	EXPECT_EQ(0, image->devices[0].flags);
	free(blob);
}

TEST_F(checkpoint, too_little_room_is_ENOSPC_with_the_sizes_needed)
{
	const struct amdgpu_criu_state right = self->args;
	struct criu_image *image = &self->p.image;
	int free_fd, i;

	kfd_close_drm_fds(&self->p.image);
	free_fd = lowest_free_fd();
	memset(image->blob, UNTOUCHED, image->blob_size);
	memset(image->bos, UNTOUCHED, image->num_bos * sizeof(*image->bos));
	for (i = 0; i < 6; i++) {
		self->args = right;
		if (i == 0)
			self->args.num_devices--;
		else if (i == 1)
			self->args.num_bos--;
		else if (i == 2)
			self->args.blob_size--;
		else if (i == 3)
			self->args.num_devices = 0;
		else if (i == 4)
			self->args.num_bos = 0;
		else
			self->args.blob_size = 0;
		ASSERT_EQ(-ENOSPC, again(self)) {
			TH_LOG("case %d", i);
		}
		EXPECT_EQ(right.num_devices, self->args.num_devices);
		EXPECT_EQ(right.num_bos, self->args.num_bos);
		EXPECT_EQ(right.blob_size, self->args.blob_size);
		EXPECT_TRUE(untouched(image->blob, image->blob_size));
		EXPECT_TRUE(untouched(image->bos, image->num_bos * sizeof(*image->bos)));
		EXPECT_EQ(free_fd, lowest_free_fd());
	}
	self->args = right;
	EXPECT_EQ(0, again(self));
}

TEST_F(checkpoint, no_room_at_all_needs_no_arrays)
{
	struct amdgpu_criu_state args = { .session_fd = self->p.session };

	ASSERT_EQ(-ENOSPC, criu_op(&self->p.kfd.node, CHECKPOINT, &args));
	EXPECT_EQ(self->args.num_devices, args.num_devices);
	EXPECT_EQ(self->args.num_bos, args.num_bos);
	EXPECT_EQ(self->args.blob_size, args.blob_size);
}

TEST_F(checkpoint, more_room_than_needed_is_not_written)
{
	struct criu_image *image = &self->p.image;
	size_t bos = image->num_bos * sizeof(*image->bos);
	unsigned char *blob = malloc(image->blob_size + 64);
	unsigned char *table = malloc(bos + 4 * sizeof(*image->bos));

	memset(blob, UNTOUCHED, image->blob_size + 64);
	memset(table, UNTOUCHED, bos + 4 * sizeof(*image->bos));
	self->args.blob = (uintptr_t)blob;
	self->args.blob_size += 64;
	self->args.bos = (uintptr_t)table;
	self->args.num_bos += 4;
	ASSERT_EQ(0, again(self));
	EXPECT_EQ(image->blob_size, self->args.blob_size);
	EXPECT_EQ(image->num_bos, self->args.num_bos);
	EXPECT_EQ(0, memcmp(blob, image->blob, image->blob_size));
	EXPECT_EQ(0, memcmp(table, image->bos, bos));
	EXPECT_TRUE(untouched(blob + image->blob_size, 64));
	EXPECT_TRUE(untouched(table + bos, 4 * sizeof(*image->bos)));
	free(table);
	free(blob);
}

TEST_F(checkpoint, keeps_to_the_stride_and_clears_unknown_fields)
{
	struct {
		struct amdgpu_criu_bo bo;
		__u64 newer;
	} wide[STATE_BOS_MAX];
	__u32 i;

	memset(wide, UNTOUCHED, sizeof(wide));
	self->args.bos = (uintptr_t)wide;
	self->args.bo_stride = sizeof(wide[0]);
	ASSERT_EQ(0, again(self));
	for (i = 0; i < STATE_BOS; i++) {
		EXPECT_EQ(0, memcmp(&wide[i].bo, &self->p.image.bos[i], sizeof(wide[i].bo)));
		EXPECT_EQ(0, wide[i].newer);
	}
}

TEST_F(checkpoint, refuses_strides_that_are_too_small_odd_or_huge)
{
	static const __u32 strides[] = { 0, 1, 8, 12, 4096 + 8, 0x80000000, 0xfffffff8 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(strides); i++) {
		self->args.bo_stride = strides[i];
		EXPECT_EQ(-EINVAL, again(self));
		self->args.bo_stride = sizeof(self->p.image.bos[0]);
		self->args.device_stride = strides[i];
		EXPECT_EQ(-EINVAL, again(self));
		self->args.device_stride = sizeof(self->p.image.devices[0]);
	}
	self->args.bo_stride = sizeof(self->p.image.bos[0]) + 4;
	EXPECT_EQ(-EINVAL, again(self));
	self->args.bo_stride = sizeof(self->p.image.bos[0]);
	self->args.device_stride = sizeof(self->p.image.devices[0]) + 1;
	EXPECT_EQ(-EINVAL, again(self));
}

TEST_F(checkpoint, unwritable_arrays_are_EFAULT_and_leave_no_descriptor)
{
	const struct amdgpu_criu_state right = self->args;
	struct criu_hole hole;
	int free_fd;

	ASSERT_EQ(0, criu_hole_make(&hole));
	kfd_close_drm_fds(&self->p.image);
	free_fd = lowest_free_fd();
	self->args.blob = (uintptr_t)hole.hole - 8;
	EXPECT_EQ(-EFAULT, again(self));
	self->args = right;
	self->args.bos = (uintptr_t)hole.hole - sizeof(self->p.image.bos[0]);
	EXPECT_EQ(-EFAULT, again(self));
	self->args = right;
	self->args.devices = (uintptr_t)hole.hole;
	EXPECT_EQ(-EFAULT, again(self));
	EXPECT_EQ(free_fd, lowest_free_fd());
	self->args = right;
	EXPECT_EQ(0, again(self));
}

TEST_F(checkpoint, no_descriptor_left_is_EMFILE)
{
	struct rlimit limit;

	kfd_close_drm_fds(&self->p.image);
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = lowest_free_fd();
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(-EMFILE, again(self));
	limit.rlim_cur = limit.rlim_max;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(0, again(self));
}

TEST_F(checkpoint, when_not_paused_is_EBADFD)
{
	ASSERT_EQ(0, criu_unpause(&self->p.kfd.node, self->p.session));
	EXPECT_EQ(-EBADFD, again(self));
}

TEST_F(checkpoint, by_a_session_that_has_not_paused_is_EBADFD)
{
	int other = criu_session(&self->p.kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);

	ASSERT_LE(0, other);
	self->args.session_fd = other;
	EXPECT_EQ(-EBADFD, again(self));
	close(other);
}

TEST_HARNESS_MAIN
