// SPDX-License-Identifier: GPL-2.0
/*
 * Queues of KFD use BOs that the render node maps, as ROCr's virtual-memory API does. No ioctl of
 * KFD follows a change, so the change itself makes the GPU forget what was mapped there.
 */
#include "kselftest_harness.h"

#include "kfd.h"
#include "render.h"

#define SIZE 0x10000
#define VA 0x300000000000
#define LAST (SIZE / sizeof(__u32) - 1)
#define SOON 5000

FIXTURE(kfd_vmm) {
	struct kfd kfd;
	struct criu_node node;
	struct kfd_queue queue;
	__u32 handles[2];
	__u32 *words[2]; /* of the CPU */
};

FIXTURE_VARIANT(kfd_vmm) {
	__u32 domain;
};

FIXTURE_VARIANT_ADD(kfd_vmm, vram) {
	.domain = AMDGPU_GEM_DOMAIN_VRAM,
};

FIXTURE_VARIANT_ADD(kfd_vmm, gtt) {
	.domain = AMDGPU_GEM_DOMAIN_GTT,
};

static int map(FIXTURE_DATA(kfd_vmm) *self, __u32 operation, int bo)
{
	return render_va_op(&self->node, operation, self->handles[bo], VA, SIZE);
}

/* The queue writes to the last word of the mapping. */
static bool writes(FIXTURE_DATA(kfd_vmm) *self, int bo, __u32 value)
{
	kfd_sdma_write(&self->queue, (__u32 *)VA + LAST, value);
	return kfd_becomes(self->words[bo] + LAST, value, SOON);
}

FIXTURE_SETUP(kfd_vmm)
{
	ASSERT_EQ(0, kfd_open(&self->kfd));
	self->node = (struct criu_node) { .fd = self->kfd.drm_fd, .kind = CRIU_NODE_RENDER };
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, render_bo_create(&self->node, SIZE, variant->domain,
					      AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED,
					      &self->handles[i]));
		self->words[i] = render_bo_mmap(&self->node, self->handles[i], SIZE);
		ASSERT_NE(NULL, self->words[i]);
	}
	ASSERT_EQ(0, kfd_sdma_create(&self->kfd, &self->queue));
	ASSERT_EQ(0, map(self, AMDGPU_VA_OP_MAP, 0));
	ASSERT_TRUE(writes(self, 0, 1));
}

FIXTURE_TEARDOWN(kfd_vmm)
{
	/* The first one is as it was when it was unmapped. */
	EXPECT_EQ(1, self->words[0][LAST]);
	kfd_close(&self->kfd);
}

TEST_F(kfd_vmm, a_queue_uses_what_is_mapped_after_an_unmap)
{
	ASSERT_EQ(0, map(self, AMDGPU_VA_OP_UNMAP, 0));
	ASSERT_EQ(0, map(self, AMDGPU_VA_OP_MAP, 1));
	EXPECT_TRUE(writes(self, 1, 2));
}

TEST_F(kfd_vmm, a_queue_uses_what_replaces_a_mapping)
{
	ASSERT_EQ(0, map(self, AMDGPU_VA_OP_REPLACE, 1));
	EXPECT_TRUE(writes(self, 1, 2));
}

TEST_F(kfd_vmm, a_queue_uses_what_is_mapped_after_a_handle_was_closed)
{
	ASSERT_EQ(0, render_bo_close(&self->node, self->handles[0]));
	ASSERT_EQ(0, map(self, AMDGPU_VA_OP_MAP, 1));
	EXPECT_TRUE(writes(self, 1, 2));
}

TEST_HARNESS_MAIN
