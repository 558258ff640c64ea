// SPDX-License-Identifier: GPL-2.0
/* GPU mappings of a render node: what is restored, and what is refused. */
#include "kselftest_harness.h"

#include <sys/mman.h>

#include "render.h"
#include "render_blob.h"

#define PAGE 0x1000ULL
#define BO_PAGES 16
#define BO_SIZE (BO_PAGES * PAGE)
/* Addresses that the jobs of render.h can use. */
#define VA 0x10000000ULL
#define WORD_AT(va) (((va) - RENDER_WORK_VA) / 4)

#define RWX (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE)

struct blob_mapping {
	__u64 object_id;
	__u64 va;
	__u64 size;
	__u64 offset;
	__u32 flags;
	__u32 pad;
};

FIXTURE(va) {
	struct criu_node node;
	struct criu_node to;
	struct render_work work;
	struct render_work work_to;
	struct render_job job;
	struct criu_image image;
	struct criu_image again;
	__u32 bos[3];
};

static int va_op(const struct criu_node *node, __u32 op, __u32 handle, __u64 va, __u64 offset,
		 __u64 size, __u32 flags)
{
	struct drm_amdgpu_gem_va args = {
		.handle = handle, .operation = op, .flags = flags, .va_address = va,
		.offset_in_bo = offset, .map_size = size,
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_VA, &args);
}

static int map(const struct criu_node *node, __u32 handle, __u64 va, __u64 offset, __u64 size)
{
	return va_op(node, AMDGPU_VA_OP_MAP, handle, va, offset, size, RWX);
}

FIXTURE_SETUP(va)
{
	static const struct {
		__u32 domains;
		__u64 flags;
	} kinds[] = {
		{ AMDGPU_GEM_DOMAIN_GTT, 0 },
		{ AMDGPU_GEM_DOMAIN_VRAM, 0 },
		{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID },
	};
	__u32 i;

	self->to.fd = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		ASSERT_EQ(0, render_bo_create(&self->node, BO_SIZE, kinds[i].domains,
					      kinds[i].flags, &self->bos[i]));
}

FIXTURE_TEARDOWN(va)
{
	render_work_unmap(&self->work);
	render_work_unmap(&self->work_to);
	criu_image_free(&self->image);
	criu_image_free(&self->again);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
}

/* Restores to a new file, with a context and a BO list for submissions. */
static void move(struct __test_metadata *_metadata, FIXTURE_DATA(va) *self)
{
	struct drm_amdgpu_bo_list_entry entries[3] = {};

	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_restore_to(&self->to, 0, -1, &self->image));
	ASSERT_EQ(0, render_work_again(&self->to, &self->work, &self->work_to));
	self->job.hw_ip = AMDGPU_HW_IP_DMA;
	ASSERT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &self->job.ctx));
	/* The third is always valid: it is in no list. */
	entries[0].bo_handle = self->work.handle;
	entries[1].bo_handle = self->bos[0];
	entries[2].bo_handle = self->bos[1];
	ASSERT_EQ(0, render_list_create(&self->to, entries, 3, &self->job.list));
}

static void expect_same(struct __test_metadata *_metadata, FIXTURE_DATA(va) *self)
{
	unsigned int i, num = blob_count(&self->image, BLOB_RENDER_MAPPING);

	ASSERT_EQ(0, render_save(&self->to, &self->again));
	EXPECT_EQ(num, blob_count(&self->again, BLOB_RENDER_MAPPING));
	for (i = 0; i < num; i++)
		EXPECT_TRUE(blob_same(&self->image, &self->again, BLOB_RENDER_MAPPING, i)) {
			TH_LOG("mapping number %u", i);
		}
}

/* True if a write of the GPU to @va is visible at @offset of the BO. */
static void expect_reaches(struct __test_metadata *_metadata, FIXTURE_DATA(va) *self, __u64 va,
			   __u32 handle, __u64 offset)
{
	__u32 *at = render_bo_mmap(&self->to, handle, BO_SIZE);
	__u64 sequence;

	ASSERT_NE(NULL, at);
	self->job.word = WORD_AT(va);
	self->job.value++;
	ASSERT_NE(self->job.value, at[offset / 4]);
	ASSERT_EQ(0, render_submit(&self->to, &self->work_to, &self->job, &sequence));
	ASSERT_EQ(0, render_wait(&self->to, &self->job, sequence, 10 * RENDER_SECOND));
	EXPECT_EQ(self->job.value, at[offset / 4]) {
		TH_LOG("va %#llx", va);
	}
	munmap(at, BO_SIZE);
}

TEST_F(va, bos_of_all_kinds_keep_their_addresses)
{
	__u32 i;

	for (i = 0; i < ARRAY_SIZE(self->bos); i++)
		ASSERT_EQ(0, map(&self->node, self->bos[i], VA + i * 0x1000000, 0, BO_SIZE));
	move(_metadata, self);
	expect_same(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(self->bos); i++)
		expect_reaches(_metadata, self, VA + i * 0x1000000 + 8, self->bos[i], 8);
}

TEST_F(va, several_and_partial_mappings_of_one_bo_are_restored)
{
	const __u32 bo = self->bos[1];

	ASSERT_EQ(0, map(&self->node, bo, VA, 0, BO_SIZE));
	ASSERT_EQ(0, map(&self->node, bo, VA + 0x100000, 4 * PAGE, 2 * PAGE));
	ASSERT_EQ(0, map(&self->node, bo, VA + 0x200000, 15 * PAGE, PAGE));
	move(_metadata, self);
	expect_same(_metadata, self);
	expect_reaches(_metadata, self, VA + 5 * PAGE, bo, 5 * PAGE);
	expect_reaches(_metadata, self, VA + 0x100000 + PAGE, bo, 5 * PAGE);
	expect_reaches(_metadata, self, VA + 0x200000 + 16, bo, 15 * PAGE + 16);
}

TEST_F(va, remains_of_replace_and_clear_are_restored)
{
	ASSERT_EQ(0, map(&self->node, self->bos[0], VA, 0, BO_SIZE));
	/* Pages 0-3 and 8-15 stay the first BO's. */
	ASSERT_EQ(0, va_op(&self->node, AMDGPU_VA_OP_REPLACE, self->bos[1], VA + 4 * PAGE,
			   2 * PAGE, 4 * PAGE, RWX));
	ASSERT_EQ(0, va_op(&self->node, AMDGPU_VA_OP_CLEAR, 0, VA + 10 * PAGE, 0, 2 * PAGE, 0));
	move(_metadata, self);
	/* With the work BO: 5. */
	EXPECT_EQ(5, blob_count(&self->image, BLOB_RENDER_MAPPING));
	expect_same(_metadata, self);
	expect_reaches(_metadata, self, VA + 3 * PAGE, self->bos[0], 3 * PAGE);
	expect_reaches(_metadata, self, VA + 4 * PAGE, self->bos[1], 2 * PAGE);
	expect_reaches(_metadata, self, VA + 8 * PAGE, self->bos[0], 8 * PAGE);
	expect_reaches(_metadata, self, VA + 12 * PAGE, self->bos[0], 12 * PAGE);
	/* The cleared range is free. */
	EXPECT_EQ(0, map(&self->to, self->bos[2], VA + 10 * PAGE, 0, 2 * PAGE));
	expect_reaches(_metadata, self, VA + 11 * PAGE, self->bos[2], PAGE);
	EXPECT_EQ(-EINVAL, map(&self->to, self->bos[2], VA + 12 * PAGE, 0, PAGE));
}

TEST_F(va, flags_are_restored)
{
	static const __u32 flags[] = {
		AMDGPU_VM_PAGE_READABLE,
		AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
		RWX | AMDGPU_VM_MTYPE_NC,
		RWX | AMDGPU_VM_MTYPE_CC,
		RWX | AMDGPU_VM_MTYPE_UC,
		RWX | AMDGPU_VM_MTYPE_RW,
		RWX | AMDGPU_VM_PAGE_NOALLOC,
		RWX | AMDGPU_VM_DELAY_UPDATE,
	};
	__u32 i;

	for (i = 0; i < ARRAY_SIZE(flags); i++)
		ASSERT_EQ(0, va_op(&self->node, AMDGPU_VA_OP_MAP, self->bos[0],
				   VA + i * 0x100000, i * PAGE, PAGE, flags[i]));
	move(_metadata, self);
	expect_same(_metadata, self);
	expect_reaches(_metadata, self, VA + 0x200000, self->bos[0], 2 * PAGE);
	expect_reaches(_metadata, self, VA + 0x700000, self->bos[0], 7 * PAGE);
}

TEST_F(va, sparse_ranges_are_restored)
{
	ASSERT_EQ(0, va_op(&self->node, AMDGPU_VA_OP_MAP, 0, VA, 0, 64 * PAGE,
			   AMDGPU_VM_PAGE_PRT));
	ASSERT_EQ(0, va_op(&self->node, AMDGPU_VA_OP_REPLACE, self->bos[0], VA + 8 * PAGE, 0,
			   BO_SIZE, RWX));
	move(_metadata, self);
	EXPECT_EQ(4, blob_count(&self->image, BLOB_RENDER_MAPPING));
	expect_same(_metadata, self);
	expect_reaches(_metadata, self, VA + 9 * PAGE, self->bos[0], PAGE);
	EXPECT_EQ(0, va_op(&self->to, AMDGPU_VA_OP_UNMAP, 0, VA, 0, 8 * PAGE,
			   AMDGPU_VM_PAGE_PRT));
}

TEST_F(va, the_process_can_change_restored_mappings)
{
	ASSERT_EQ(0, map(&self->node, self->bos[0], VA, 0, BO_SIZE));
	move(_metadata, self);
	EXPECT_EQ(0, va_op(&self->to, AMDGPU_VA_OP_UNMAP, self->bos[0], VA, 0, BO_SIZE, RWX));
	EXPECT_EQ(-ENOENT, va_op(&self->to, AMDGPU_VA_OP_UNMAP, self->bos[0], VA, 0, BO_SIZE,
				 RWX));
	ASSERT_EQ(0, map(&self->to, self->bos[1], VA, 0, BO_SIZE));
	expect_reaches(_metadata, self, VA + PAGE, self->bos[1], PAGE);
}

TEST_F(va, the_reserved_vmid_is_restored)
{
	union drm_amdgpu_vm reserve = { .in = { .op = AMDGPU_VM_OP_RESERVE_VMID } };
	union drm_amdgpu_vm unreserve = { .in = { .op = AMDGPU_VM_OP_UNRESERVE_VMID } };
	struct criu_image again;
	struct criu_node other;
	int shared;

	ASSERT_EQ(0, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_VM, &reserve));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	/* There is only one; older kernels assign it to every file that requests it. */
	ASSERT_EQ(0, render_open(&other, 0));
	shared = render_ioctl(&other, DRM_IOCTL_AMDGPU_VM, &reserve);
	criu_node_close(&other);
	ASSERT_TRUE(!shared || shared == -ENOENT);
	if (shared)
		EXPECT_EQ(-ENOENT, render_restore_to(&self->to, 0, -1, &self->image));
	ASSERT_EQ(0, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_VM, &unreserve));
	ASSERT_EQ(0, render_restore_to(&self->to, 0, -1, &self->image));
	reserve.in.op = AMDGPU_VM_OP_RESERVE_VMID;
	EXPECT_EQ(shared, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_VM, &reserve));
	/* Releasing it succeeds, so the file has it. */
	ASSERT_EQ(0, render_save(&self->to, &again));
	EXPECT_TRUE(blob_same(&self->image, &again, BLOB_RENDER_FILE, 0));
	criu_image_free(&again);
	unreserve.in.op = AMDGPU_VM_OP_UNRESERVE_VMID;
	ASSERT_EQ(0, render_ioctl(&self->to, DRM_IOCTL_AMDGPU_VM, &unreserve));
}

/* Mapping 0 is the work BO's; 1: the first BO at VA; 2: sparse. */
static void prepare_faults(struct __test_metadata *_metadata, FIXTURE_DATA(va) *self,
			   int *session)
{
	ASSERT_EQ(0, map(&self->node, self->bos[0], VA, 0, BO_SIZE));
	ASSERT_EQ(0, va_op(&self->node, AMDGPU_VA_OP_MAP, 0, VA + 0x1000000, 0, PAGE,
			   AMDGPU_VM_PAGE_PRT));
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_open(&self->to, 0));
	*session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, *session);
}

static const struct {
	unsigned int index;
	struct blob_fault fault;
} mapping_faults[] = {
	{ 1, BLOB_FAULT_FOR("without BO, and not PRT", "no BO", blob_mapping, object_id, 0,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("of a BO without handle", "a BO that does not exist", blob_mapping,
			    object_id, 99, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("not in the address space", "in the first pages", blob_mapping, va,
			    0x1000, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("bad address, size or offset", "odd address", blob_mapping, va, VA + 1,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("not in the address space", "in the driver's own range", blob_mapping,
			    va, 0xffffffe00000, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("not in the address space", "in the hole", blob_mapping, va, 1ULL << 48,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("not in the address space", "at the end of the address space",
			    blob_mapping, va, ~0xfffULL, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("it overlaps another", "over another", blob_mapping, va,
			    RENDER_WORK_VA + PAGE, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("it overlaps another", "up to another", blob_mapping, va,
			    RENDER_WORK_VA - PAGE, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("bad address, size or offset", "no size", blob_mapping, size, 0,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("bad address, size or offset", "odd size", blob_mapping, size, 17,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("beyond the end of its BO", "more than the BO has", blob_mapping, size,
			    BO_SIZE + PAGE, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("not in the address space", "endless", blob_mapping, size, ~0xfffULL,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("bad address, size or offset", "odd offset", blob_mapping, offset, 1,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("beyond the end of its BO", "beyond the BO", blob_mapping, offset, PAGE,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("beyond the end of its BO", "endless offset", blob_mapping, offset,
			    ~0xfffULL, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("unknown flags", "unknown flag", blob_mapping, flags, 1u << 31,
			    -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("unknown flags", "sparse, with a BO", blob_mapping, flags,
			    AMDGPU_VM_PAGE_PRT, -EBADMSG) },
	{ 1, BLOB_FAULT_FOR("bad address, size or offset", "pad", blob_mapping, pad, 1, -EBADMSG) },
	{ 2, BLOB_FAULT_FOR("without BO, and not PRT", "not sparse", blob_mapping, flags, 0,
			    -EBADMSG) },
	{ 2, BLOB_FAULT_FOR("without BO, and not PRT", "sparse and writeable", blob_mapping, flags,
			    AMDGPU_VM_PAGE_PRT | AMDGPU_VM_PAGE_WRITEABLE, -EBADMSG) },
};

TEST_F(va, invalid_records_are_refused)
{
	unsigned int i;
	int session;

	prepare_faults(_metadata, self, &session);
	for (i = 0; i < ARRAY_SIZE(mapping_faults); i++)
		EXPECT_FAULT(&self->to, session, &self->image, BLOB_RENDER_MAPPING,
			     mapping_faults[i].index, 0, &mapping_faults[i].fault);
	/* None of them has left anything behind. */
	EXPECT_EQ(0, criu_restore(&self->to, session, &self->image));
	close(session);
}

struct blob_file {
	__u32 flags;
	__u32 gpu_id;
	__u64 device;
	__u32 gc_version;
	__u32 sdma_version;
	__u32 vcn_version;
	__u32 gb_addr_config;
	__u64 va_end;
};

static const struct blob_fault file_faults[] = {
	BLOB_FAULT_FOR("unknown flags", "unknown flag", blob_file, flags, 1u << 31, -EOPNOTSUPP),
	BLOB_FAULT_FOR("its VM was KFD's", "a VM of KFD's", blob_file, flags, 1, -EBADFD),
	BLOB_FAULT_FOR("graphics IP version", "other graphics", blob_file, gc_version, 0x0a030000,
		       -ENODEV),
	BLOB_FAULT_FOR("SDMA IP version", "other SDMA", blob_file, sdma_version, 1, -ENODEV),
	BLOB_FAULT_FOR("video IP version", "other video", blob_file, vcn_version, 0xffff, -ENODEV),
	BLOB_FAULT_FOR("tiling configuration", "other tiling", blob_file, gb_addr_config,
		       0x12345678, -ENODEV),
	BLOB_FAULT_FOR("end of the address space", "another address space", blob_file, va_end,
		       1ULL << 40, -ENODEV),
};

TEST_F(va, an_invalid_record_of_the_file_is_refused)
{
	unsigned int i;
	int session;

	prepare_faults(_metadata, self, &session);
	for (i = 0; i < ARRAY_SIZE(file_faults); i++)
		EXPECT_FAULT(&self->to, session, &self->image, BLOB_RENDER_FILE, 0, 0,
			     &file_faults[i]);
	EXPECT_EQ(0, criu_restore(&self->to, session, &self->image));
	close(session);
}

TEST_F(va, a_file_that_was_used_is_EBADFD)
{
	__u32 ctx, syncobj, list, handle;
	int session;

	prepare_faults(_metadata, self, &session);
	ASSERT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &ctx));
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, session, &self->image));
	ASSERT_EQ(0, render_ctx_free(&self->to, ctx));
	ASSERT_EQ(0, render_syncobj_create(&self->to, 0, &syncobj));
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, session, &self->image));
	ASSERT_EQ(0, render_syncobj_destroy(&self->to, syncobj));
	ASSERT_EQ(0, render_bo_create(&self->to, PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, session, &self->image));
	ASSERT_EQ(0, render_bo_close(&self->to, handle));
	ASSERT_EQ(0, render_list_create(&self->to, NULL, 0, &list));
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, session, &self->image));
	ASSERT_EQ(0, render_list_destroy(&self->to, list));
	ASSERT_EQ(0, va_op(&self->to, AMDGPU_VA_OP_MAP, 0, VA, 0, PAGE, AMDGPU_VM_PAGE_PRT));
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, session, &self->image));
	ASSERT_EQ(0, va_op(&self->to, AMDGPU_VA_OP_UNMAP, 0, VA, 0, PAGE, AMDGPU_VM_PAGE_PRT));
	EXPECT_EQ(0, criu_restore(&self->to, session, &self->image));
	/* A second time is refused, too. */
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, session, &self->image));
	EXPECT_EQ(0, criu_resume(&self->to, session, 0));
	EXPECT_EQ(-EBADFD, criu_resume(&self->to, session, 0));
	EXPECT_EQ(-EBADFD, criu_restore(&self->to, session, &self->image));
	close(session);
}

/* Other calls on the file block until RESUME or the end of the session. */
TEST_F(va, calls_wait_until_resume)
{
	pid_t child;
	int session, status;

	prepare_faults(_metadata, self, &session);
	ASSERT_EQ(0, criu_restore(&self->to, session, &self->image));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		__u32 ctx;

		_exit(-render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &ctx));
	}
	usleep(200000);
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	ASSERT_EQ(0, criu_resume(&self->to, session, 0));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	close(session);
}

TEST_F(va, calls_continue_if_the_session_ends_before_resume)
{
	__u32 ctx;
	int session;

	prepare_faults(_metadata, self, &session);
	ASSERT_EQ(0, criu_restore(&self->to, session, &self->image));
	close(session);
	EXPECT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &ctx));
}

TEST_HARNESS_MAIN
