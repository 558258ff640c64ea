// SPDX-License-Identifier: GPL-2.0
/* BOs and GEM handles of a render node: what is restored. */
#include "kselftest_harness.h"

#include <sys/mman.h>

#include "render.h"
#include "render_blob.h"

#define BO_SIZE 0x4000

FIXTURE(gem) {
	struct criu_node node;
	struct criu_node to;
	struct criu_image image;
	struct criu_image again;
	int session;
};

FIXTURE_SETUP(gem)
{
	self->to.fd = -1;
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
}

FIXTURE_TEARDOWN(gem)
{
	if (self->session >= 0)
		close(self->session);
	criu_image_free(&self->image);
	criu_image_free(&self->again);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
}

/* Saves, and restores to a new file in a session that stays open. */
static void move(struct __test_metadata *_metadata, FIXTURE_DATA(gem) *self)
{
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, render_restore_to(&self->to, 0, self->session, &self->image));
}

static struct blob_object *object_of(const struct criu_image *image, unsigned int index)
{
	struct blob blob = { .data = image->blob, .size = image->blob_size };
	size_t at = blob_find(&blob, BLOB_RENDER_OBJECT, index);

	return at ? blob_payload(&blob, at) : NULL;
}

/* A checkpoint of the restored file has the same records, except for mmap offsets. */
static void expect_same(struct __test_metadata *_metadata, FIXTURE_DATA(gem) *self)
{
	struct blob_object *was, *now;
	unsigned int i;

	ASSERT_EQ(0, render_save(&self->to, &self->again));
	ASSERT_EQ(self->image.num_bos, self->again.num_bos);
	for (i = 0; i < self->image.num_bos; i++) {
		was = object_of(&self->image, i);
		now = object_of(&self->again, i);
		ASSERT_NE(NULL, was);
		ASSERT_NE(NULL, now);
		if (was->mmap_offset != ~0ULL && now->mmap_offset != ~0ULL)
			now->mmap_offset = was->mmap_offset;
		EXPECT_TRUE(blob_same(&self->image, &self->again, BLOB_RENDER_OBJECT, i)) {
			TH_LOG("BO of handle %u", was->handle);
		}
	}
	EXPECT_EQ(blob_count(&self->image, BLOB_RENDER_HANDLE),
		  blob_count(&self->again, BLOB_RENDER_HANDLE));
	for (i = 0; i < blob_count(&self->image, BLOB_RENDER_HANDLE); i++)
		EXPECT_TRUE(blob_same(&self->image, &self->again, BLOB_RENDER_HANDLE, i));
}

static int create(const struct criu_node *node, __u32 *handle)
{
	return render_bo_create(node, BO_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0, handle);
}

TEST_F(gem, a_file_without_bos_is_restored)
{
	move(_metadata, self);
	expect_same(_metadata, self);
	EXPECT_EQ(0, self->again.num_bos);
}

TEST_F(gem, handles_are_restored_with_gaps)
{
	__u32 handles[7], handle, i;

	for (i = 0; i < ARRAY_SIZE(handles); i++)
		ASSERT_EQ(0, create(&self->node, &handles[i]));
	ASSERT_EQ(0, render_bo_close(&self->node, handles[0]));
	ASSERT_EQ(0, render_bo_close(&self->node, handles[3]));
	ASSERT_EQ(0, render_bo_close(&self->node, handles[4]));
	move(_metadata, self);
	expect_same(_metadata, self);
	EXPECT_EQ(-EINVAL, render_bo_close(&self->to, handles[0]));
	EXPECT_EQ(-EINVAL, render_bo_close(&self->to, handles[3]));
	/* Freed numbers are reused, lowest first, and then new ones are used. */
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, create(&self->to, &handle));
		EXPECT_EQ(handles[i ? i + 2 : 0], handle);
	}
	EXPECT_EQ(0, create(&self->to, &handle));
	EXPECT_EQ(handles[6] + 1, handle);
	for (i = 0; i < ARRAY_SIZE(handles); i++)
		EXPECT_EQ(0, render_bo_close(&self->to, handles[i]));
}

static const struct kind {
	__u32 domains;
	__u64 flags;
} kinds[] = {
	{ AMDGPU_GEM_DOMAIN_VRAM, 0 },
	{ AMDGPU_GEM_DOMAIN_GTT, 0 },
	{ AMDGPU_GEM_DOMAIN_CPU, 0 },
	{ AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT, 0 },
	{ AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_CPU, 0 },
	{ 0, 0 },
	{ AMDGPU_GEM_DOMAIN_GDS, 0 },
	{ AMDGPU_GEM_DOMAIN_GWS, 0 },
	{ AMDGPU_GEM_DOMAIN_OA, 0 },
	{ AMDGPU_GEM_DOMAIN_DOORBELL, 0 },
	{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED },
	{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_NO_CPU_ACCESS },
	{ AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_CPU_GTT_USWC },
	{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_VRAM_CLEARED },
	{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID },
	{ AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID |
				 AMDGPU_GEM_CREATE_CPU_GTT_USWC },
	{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_EXPLICIT_SYNC },
	{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE },
	{ AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_DISCARDABLE },
	{ AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_COHERENT },
	{ AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_UNCACHED },
	{ AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_EXT_COHERENT },
};

static __u64 kind_size(__u32 domains)
{
	return domains & (AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA) ?
	       4 : BO_SIZE;
}

static int create_info(const struct criu_node *node, __u32 handle,
		       struct drm_amdgpu_gem_create_in *info)
{
	struct drm_amdgpu_gem_op args = {
		.handle = handle,
		.op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
		.value = (uintptr_t)info,
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_OP, &args);
}

/* Kernels before 7.2 do not accept it from user space. */
static bool is_newer(const struct kind *kind)
{
	const __u64 newer = AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE | AMDGPU_GEM_CREATE_COHERENT |
			    AMDGPU_GEM_CREATE_UNCACHED | AMDGPU_GEM_CREATE_EXT_COHERENT;

	return kind->domains == AMDGPU_GEM_DOMAIN_DOORBELL || kind->flags & newer;
}

/* Handle 0: this kernel does not create such BOs. */
static void create_kind(struct __test_metadata *_metadata, const struct criu_node *node,
			const struct kind *kind, __u32 *handle)
{
	int ret = render_bo_create(node, kind_size(kind->domains), kind->domains, kind->flags,
				   handle);

	if (ret == -EINVAL && is_newer(kind) && !kernel_is_at_least(7, 2)) {
		TH_LOG("without domains %#x flags %#llx: this kernel creates no such BO",
		       kind->domains, kind->flags);
		*handle = 0;
		return;
	}
	ASSERT_EQ(0, ret) {
		TH_LOG("domains %#x flags %#llx", kind->domains, kind->flags);
	}
}

TEST_F(gem, all_domains_and_flags_are_restored)
{
	struct drm_amdgpu_gem_create_in was, now;
	__u32 handles[ARRAY_SIZE(kinds)], i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		create_kind(_metadata, &self->node, &kinds[i], &handles[i]);
	move(_metadata, self);
	expect_same(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!handles[i])
			continue;
		ASSERT_EQ(0, create_info(&self->node, handles[i], &was));
		ASSERT_EQ(0, create_info(&self->to, handles[i], &now));
		EXPECT_EQ(0, memcmp(&was, &now, sizeof(was))) {
			TH_LOG("domains %#x flags %#llx", kinds[i].domains, kinds[i].flags);
		}
		/* The driver sets it for memory that the CPU cannot access. */
		if (kind_size(kinds[i].domains) < BO_SIZE)
			EXPECT_TRUE(now.domain_flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS);
	}
}

/* Whether user space can copy a BO, map it, or neither. */
TEST_F(gem, the_table_has_the_kind_of_each_bo)
{
	static const struct kind doorbell = { AMDGPU_GEM_DOMAIN_DOORBELL, 0 };
	__u32 handle, last;

	ASSERT_EQ(0, render_bo_create(&self->node, BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_EQ(0, create(&self->node, &handle));
	ASSERT_EQ(0, render_bo_create(&self->node, 4, AMDGPU_GEM_DOMAIN_GDS, 0, &handle));
	ASSERT_EQ(0, render_bo_create(&self->node, BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				      AMDGPU_GEM_CREATE_NO_CPU_ACCESS, &handle));
	create_kind(_metadata, &self->node, &doorbell, &last);
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(4 + !!last, self->image.num_bos);
	EXPECT_EQ(AMDGPU_CRIU_DOMAIN_VRAM, self->image.bos[0].domain);
	EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS, self->image.bos[0].flags);
	EXPECT_EQ(BO_SIZE, self->image.bos[0].size);
	EXPECT_EQ(AMDGPU_CRIU_DOMAIN_GTT, self->image.bos[1].domain);
	EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS, self->image.bos[1].flags);
	EXPECT_EQ(AMDGPU_CRIU_DOMAIN_NONE, self->image.bos[2].domain);
	EXPECT_EQ(0, self->image.bos[2].flags);
	EXPECT_EQ(~0ULL, self->image.bos[2].mmap_offset);
	EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS, self->image.bos[3].flags);
	EXPECT_EQ(~0ULL, self->image.bos[3].mmap_offset);
	for (handle = 0; handle < self->image.num_bos; handle++)
		EXPECT_EQ(handle + 1, self->image.bos[handle].handle);
	if (!last)
		return;
	EXPECT_EQ(AMDGPU_CRIU_DOMAIN_NONE, self->image.bos[4].domain);
	EXPECT_EQ(AMDGPU_CRIU_BO_DOORBELL, self->image.bos[4].flags);
	EXPECT_NE(~0ULL, self->image.bos[4].mmap_offset);
}

/* As CRIU does: contents through dma-bufs, mappings by the offsets of the table. */
static void copy_contents(struct __test_metadata *_metadata, FIXTURE_DATA(gem) *self, int from)
{
	__u32 i;

	for (i = 0; i < self->image.num_bos; i++) {
		const struct amdgpu_criu_bo *bo = &self->image.bos[i];
		int src = criu_dmabuf(&self->node, from, bo->object_id);
		int dst = criu_dmabuf(&self->node, self->session, bo->object_id);
		void *in, *out;

		ASSERT_LE(0, src);
		ASSERT_LE(0, dst);
		in = mmap(NULL, bo->size, PROT_READ, MAP_SHARED, src, 0);
		out = mmap(NULL, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED, dst, 0);
		ASSERT_NE(MAP_FAILED, in);
		ASSERT_NE(MAP_FAILED, out);
		memcpy(out, in, bo->size);
		munmap(in, bo->size);
		munmap(out, bo->size);
		close(src);
		close(dst);
	}
}

TEST_F(gem, contents_and_mmap_offsets_belong_together)
{
	__u32 handles[3], i, *at;
	int from;

	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		ASSERT_EQ(0, render_bo_create(&self->node, BO_SIZE, i ? AMDGPU_GEM_DOMAIN_VRAM :
					      AMDGPU_GEM_DOMAIN_GTT, 0, &handles[i]));
		at = render_bo_mmap(&self->node, handles[i], BO_SIZE);
		ASSERT_NE(NULL, at);
		memset(at, 0x10 + i, BO_SIZE);
		munmap(at, BO_SIZE);
	}
	from = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, from);
	ASSERT_EQ(0, criu_checkpoint(&self->node, from, &self->image));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, render_open(&self->to, 0));
	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	copy_contents(_metadata, self, from);
	close(from);
	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		at = mmap(NULL, BO_SIZE, PROT_READ, MAP_SHARED, self->to.fd,
			  self->image.bos[i].new_mmap_offset);
		ASSERT_NE(MAP_FAILED, at);
		EXPECT_EQ(0x01010101 * (0x10 + i), at[0]);
		EXPECT_EQ(0x01010101 * (0x10 + i), at[BO_SIZE / 4 - 1]);
		munmap(at, BO_SIZE);
	}
	ASSERT_EQ(0, criu_resume(&self->to, self->session, 0));
	at = render_bo_mmap(&self->to, handles[2], BO_SIZE);
	ASSERT_NE(NULL, at);
	EXPECT_EQ(0x12121212, at[1]);
	munmap(at, BO_SIZE);
}

TEST_F(gem, metadata_and_tiling_are_restored)
{
	struct drm_amdgpu_gem_metadata was = { .op = AMDGPU_GEM_METADATA_OP_SET_METADATA };
	struct drm_amdgpu_gem_metadata now = { .op = AMDGPU_GEM_METADATA_OP_GET_METADATA };
	__u32 i;

	ASSERT_EQ(0, create(&self->node, &was.handle));
	was.data.flags = 0x123456789;
	was.data.tiling_info = AMDGPU_TILING_SET(SWIZZLE_MODE, 9);
	was.data.data_size_bytes = sizeof(was.data.data);
	for (i = 0; i < ARRAY_SIZE(was.data.data); i++)
		was.data.data[i] = i * 0x9e3779b1;
	ASSERT_EQ(0, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_GEM_METADATA, &was));
	move(_metadata, self);
	expect_same(_metadata, self);
	now.handle = was.handle;
	ASSERT_EQ(0, render_ioctl(&self->to, DRM_IOCTL_AMDGPU_GEM_METADATA, &now));
	EXPECT_EQ(0, memcmp(&was.data, &now.data, sizeof(was.data)));
}

TEST_F(gem, a_changed_placement_is_restored)
{
	struct drm_amdgpu_gem_op args = { .op = AMDGPU_GEM_OP_SET_PLACEMENT };
	struct drm_amdgpu_gem_create_in info;

	ASSERT_EQ(0, create(&self->node, &args.handle));
	args.value = AMDGPU_GEM_DOMAIN_VRAM;
	ASSERT_EQ(0, render_ioctl(&self->node, DRM_IOCTL_AMDGPU_GEM_OP, &args));
	move(_metadata, self);
	/* It prefers VRAM, and is still in GTT. */
	EXPECT_EQ(AMDGPU_GEM_DOMAIN_GTT, object_of(&self->image, 0)->placement);
	expect_same(_metadata, self);
	ASSERT_EQ(0, create_info(&self->to, args.handle, &info));
	EXPECT_EQ(AMDGPU_GEM_DOMAIN_VRAM, info.domains);
}

static const __u32 userptr_flags[] = {
	AMDGPU_GEM_USERPTR_REGISTER,
	AMDGPU_GEM_USERPTR_READONLY,
	AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_ANONONLY,
	AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_VALIDATE,
	AMDGPU_GEM_USERPTR_REGISTER | AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_VALIDATE,
};

TEST_F(gem, userptrs_are_restored_with_all_flags)
{
	__u32 handle, i;

	for (i = 0; i < ARRAY_SIZE(userptr_flags); i++)
		ASSERT_EQ(0, render_userptr_create(&self->node, NULL, BO_SIZE, userptr_flags[i],
						   &handle));
	move(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(userptr_flags); i++) {
		EXPECT_EQ(AMDGPU_CRIU_BO_USERPTR, self->image.bos[i].flags);
		EXPECT_EQ(AMDGPU_CRIU_DOMAIN_CPU, self->image.bos[i].domain);
		EXPECT_EQ(~0ULL, self->image.bos[i].mmap_offset);
		EXPECT_EQ(userptr_flags[i], object_of(&self->image, i)->user_flags);
	}
	/* A checkpoint refuses userptrs that were never attached, so attach these. */
	expect_same(_metadata, self);
}

#define USERPTR_VA 0x10000000
/* In words, as the jobs of render.h count. */
#define WORD_AT(va) (((va) - RENDER_WORK_VA) / 4)

TEST_F(gem, a_restored_userptr_accesses_the_memory)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .word = WORD_AT(USERPTR_VA + 8),
				  .value = 0xfeed };
	struct drm_amdgpu_bo_list_entry entries[2] = {};
	struct render_work work, work_to;
	__u32 *at = mmap(NULL, BO_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__u64 sequence;

	ASSERT_NE(MAP_FAILED, (void *)at);
	ASSERT_EQ(0, render_work_make(&self->node, &work));
	ASSERT_EQ(0, render_userptr_create(&self->node, at, BO_SIZE, AMDGPU_GEM_USERPTR_REGISTER,
					   &entries[1].bo_handle));
	ASSERT_EQ(0, render_va_map(&self->node, entries[1].bo_handle, USERPTR_VA, BO_SIZE));
	move(_metadata, self);
	ASSERT_EQ(0, render_work_again(&self->to, &work, &work_to));
	entries[0].bo_handle = work.handle;
	ASSERT_EQ(0, render_list_create(&self->to, entries, 2, &job.list));
	ASSERT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
	ASSERT_EQ(0, render_submit(&self->to, &work_to, &job, &sequence));
	ASSERT_EQ(0, render_wait(&self->to, &job, sequence, 10 * RENDER_SECOND));
	EXPECT_EQ(0xfeed, at[2]);
	/* The notifier works, too: new memory at the address is used. */
	ASSERT_NE(MAP_FAILED, mmap(at, BO_SIZE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	ASSERT_EQ(0, at[2]);
	ASSERT_EQ(0, render_submit(&self->to, &work_to, &job, &sequence));
	ASSERT_EQ(0, render_wait(&self->to, &job, sequence, 10 * RENDER_SECOND));
	EXPECT_EQ(0xfeed, at[2]);
	render_work_unmap(&work);
	render_work_unmap(&work_to);
}

TEST_F(gem, a_userptr_of_another_process_is_EOPNOTSUPP)
{
	__u32 handle;
	int status;
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		int ret = render_userptr_create(&self->node, NULL, BO_SIZE,
						AMDGPU_GEM_USERPTR_REGISTER, &handle);

		_exit(-ret);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_EQ(-EOPNOTSUPP, render_save(&self->node, &self->image));
	ASSERT_EQ(0, create(&self->node, &handle));
}

TEST_F(gem, two_files_of_one_gpu_are_independent)
{
	struct criu_node second, second_to;
	struct criu_image image;
	__u32 handle;

	ASSERT_EQ(0, render_open(&second, 0));
	ASSERT_EQ(0, create(&self->node, &handle));
	ASSERT_EQ(0, render_bo_create(&second, 2 * BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	ASSERT_EQ(0, render_bo_create(&second, 3 * BO_SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->session, &self->image));
	ASSERT_EQ(0, criu_checkpoint(&second, self->session, &image));
	ASSERT_EQ(1, self->image.num_bos);
	ASSERT_EQ(2, image.num_bos);
	EXPECT_NE(self->image.bos[0].object_id, image.bos[0].object_id);
	EXPECT_NE(self->image.bos[0].object_id, image.bos[1].object_id);
	close(self->session);
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
	EXPECT_EQ(0, render_restore_to(&second_to, 0, self->session, &image));
	EXPECT_EQ(0, render_restore_to(&self->to, 0, self->session, &self->image));
	EXPECT_EQ(0, render_bo_close(&second_to, 2));
	EXPECT_EQ(-EINVAL, render_bo_close(&self->to, 2));
	criu_image_free(&image);
	criu_node_close(&second_to);
	criu_node_close(&second);
}

#define MANY 300

TEST_F(gem, many_bos_are_restored)
{
	__u32 handle, i;

	for (i = 1; i <= MANY; i++)
		ASSERT_EQ(0, render_bo_create(&self->node, 0x1000, i % 2 ? AMDGPU_GEM_DOMAIN_GTT :
					      AMDGPU_GEM_DOMAIN_VRAM, 0, &handle));
	for (i = 2; i <= MANY; i += 3)
		ASSERT_EQ(0, render_bo_close(&self->node, i));
	move(_metadata, self);
	expect_same(_metadata, self);
	for (i = 1; i <= MANY; i++)
		ASSERT_EQ(i % 3 == 2 ? -EINVAL : 0, render_bo_close(&self->to, i));
}

TEST_HARNESS_MAIN
