// SPDX-License-Identifier: GPL-2.0
/*
 * State of a render-node file that no blob can hold: PROCESS_INFO refuses it, the file continues,
 * and once the state is gone the file can be paused.
 */
#include "kselftest_harness.h"

#include <linux/udmabuf.h>

#include "complaints.h"
#include "missing.h"
#include "render.h"
#include "share.h"

#define SIZE 0x10000
/* As long as PROCESS_INFO waits, and more. */
#define LONG 120

FIXTURE(refused) {
	struct criu_node node;
	struct criu_node other;
	struct amdgpu_criu_process_info info;
	int session;
};

FIXTURE_SETUP(refused)
{
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_open(&self->other, 0));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(refused)
{
	if (self->session >= 0)
		close(self->session);
	criu_node_close(&self->node);
	criu_node_close(&self->other);
}

static void expect_refused(struct __test_metadata *_metadata, FIXTURE_DATA(refused) *self,
			   int error)
{
	__u32 handle;

	EXPECT_EQ(error, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(-EBADFD, criu_unpause(&self->node, self->session));
	EXPECT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	EXPECT_EQ(0, render_bo_close(&self->node, handle));
}

static void expect_taken(struct __test_metadata *_metadata, FIXTURE_DATA(refused) *self)
{
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
}

/* A dma-buf of another driver. */
static int make_foreign(void)
{
	struct udmabuf_create create = { .size = SIZE };
	int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int fd;

	if (udmabuf < 0)
		return -errno;
	create.memfd = memfd_create("foreign", MFD_ALLOW_SEALING);
	fd = ftruncate(create.memfd, SIZE) || fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK) ?
	     -1 : ioctl(udmabuf, UDMABUF_CREATE, &create);
	if (fd < 0)
		fd = -errno;
	close(create.memfd);
	close(udmabuf);
	return fd;
}

TEST_F(refused, a_bo_of_another_driver)
{
	struct drm_amdgpu_bo_list_entry entry = {};
	int fd = make_foreign();
	__u32 handle, list;

	if (fd == -ENOENT)
		SKIP(return, "no /dev/udmabuf for a dma-buf of another driver");
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_bo_import(&self->node, fd, &handle));
	close(fd);
	expect_refused(_metadata, self, -EOPNOTSUPP);
	/* In a BO list alone as well. */
	entry.bo_handle = handle;
	ASSERT_EQ(0, render_list_create(&self->node, &entry, 1, &list));
	ASSERT_EQ(0, render_bo_close(&self->node, handle));
	expect_refused(_metadata, self, -EOPNOTSUPP);
	ASSERT_EQ(0, render_list_destroy(&self->node, list));
	expect_taken(_metadata, self);
}

/* The driver treats such a BO as one that is not a userptr. */
TEST_F(refused, a_userptr_at_address_0)
{
	struct drm_amdgpu_gem_userptr args = {
		.size = SIZE, .flags = AMDGPU_GEM_USERPTR_READONLY,
	};
	int ret = render_ioctl(&self->node, DRM_IOCTL_AMDGPU_GEM_USERPTR, &args);

	if (ret)
		SKIP(return, "the driver refuses it itself: %s", strerror(-ret));
	expect_refused(_metadata, self, -EOPNOTSUPP);
	ASSERT_EQ(0, render_bo_close(&self->node, args.handle));
	expect_taken(_metadata, self);
}

/* Through its copy, which is not a dma-buf of the process. */
TEST_F(refused, a_bo_of_one_vm_by_itself)
{
	struct share_exported exported;
	struct criu_image image;
	__u32 handle;
	int fd;

	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				      AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, &handle));
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &image));
	fd = criu_dmabuf(&self->other, self->session, image.bos[0].object_id);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EOPNOTSUPP, share_export_save(&self->other, self->session, fd, &exported));
	close(fd);
	criu_image_free(&image);
}

/* A BO that no process has exported, described by its copy: the description is that of the BO. */
TEST_F(refused, not_a_bo_by_its_copy)
{
	struct share_exported exported;
	struct criu_image image;
	__u32 handle;
	int fd;

	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &image));
	fd = criu_dmabuf(&self->other, self->session, image.bos[0].object_id);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, share_export_save(&self->other, self->session, fd, &exported));
	EXPECT_EQ(image.bos[0].object_id, exported.bo.object_id);
	EXPECT_EQ(SIZE, exported.bo.size);
	close(fd);
	criu_image_free(&image);
}

/*
 * Also if the call began before the first session of the machine was created: calls that are
 * counted only while a session exists would be missed.
 */
TEST_F_TIMEOUT(refused, a_call_older_than_all_sessions_that_does_not_end, LONG)
{
	struct missing missing;
	int ret;

	close(self->session);
	self->session = -1;
	ret = missing_begin(&missing, &self->node);
	if (ret == -ENOSYS)
		SKIP(return, "no userfaultfd");
	ASSERT_EQ(0, ret);
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	expect_refused(_metadata, self, -ETIME);
	EXPECT_EQ(0, missing_end(&missing));
	expect_taken(_metadata, self);
}

static __u32 last_fault(const struct criu_node *node)
{
	struct drm_amdgpu_info_gpuvm_fault fault = {};
	struct drm_amdgpu_info args = {
		.return_pointer = (uintptr_t)&fault,
		.return_size = sizeof(fault),
		.query = AMDGPU_INFO_GPUVM_FAULT,
	};

	render_ioctl(node, DRM_IOCTL_AMDGPU_INFO, &args);
	return fault.status;
}

/* AMDGPU_INFO_GPUVM_FAULT returns the last one for the rest of the file's life. */
TEST_F(refused, a_file_whose_memory_fault_was_reported)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .word = 1 << 28, .value = 1 };
	struct render_work work;
	__u64 sequence;

	ASSERT_EQ(0, render_work_make(&self->node, &work));
	ASSERT_EQ(0, render_ctx_create(&self->node, 0, &job.ctx));
	expect_taken(_metadata, self);
	complaints_allow("page fault \\(src_id|VM fault: VMID .* cannot write");
	ASSERT_EQ(0, render_submit(&self->node, &work, &job, &sequence));
	for (int i = 0; i < 1000 && !last_fault(&self->node); i++)
		usleep(10000);
	EXPECT_NE(0, last_fault(&self->node));
	EXPECT_EQ(0, render_wait(&self->node, &job, sequence, 10 * RENDER_SECOND));
	expect_refused(_metadata, self, -EOPNOTSUPP);
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->node, self->session, &self->info));
	EXPECT_STREQ("cannot carry: a memory fault was reported", criu_reason);
	complaints_disallow();
	render_work_unmap(&work);
}

TEST_HARNESS_MAIN
