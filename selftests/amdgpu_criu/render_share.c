// SPDX-License-Identifier: GPL-2.0
/*
 * BOs that render-node files share, of one GPU or two: after a restore all still see what one
 * writes.
 */
#include "kselftest_harness.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "render.h"
#include "render_blob.h"
#include "share.h"

#define SIZE 0x10000
#define SHARED_VA 0x10000000
#define FILES 3

/* A file, and the one that replaces it. */
struct member {
	struct criu_node node;
	unsigned int gpu;
	bool unlisted;
	__u32 handle;
	__u32 *words;
	struct render_work work;
	struct criu_image image;
};

FIXTURE(share) {
	struct member members[FILES];
	struct share_exported exported;
	int dmabuf;
	int save, restore;
};

FIXTURE_VARIANT(share) {
	__u32 domain;
	/* The others import on the second GPU. */
	bool two_gpus;
};

FIXTURE_VARIANT_ADD(share, vram) {
	.domain = AMDGPU_GEM_DOMAIN_VRAM,
};

FIXTURE_VARIANT_ADD(share, gtt) {
	.domain = AMDGPU_GEM_DOMAIN_GTT,
};

FIXTURE_VARIANT_ADD(share, vram_of_another_gpu) {
	.domain = AMDGPU_GEM_DOMAIN_VRAM, .two_gpus = true,
};

FIXTURE_VARIANT_ADD(share, gtt_of_another_gpu) {
	.domain = AMDGPU_GEM_DOMAIN_GTT, .two_gpus = true,
};

FIXTURE_SETUP(share)
{
	int i, ret;

	self->save = -1;
	self->restore = -1;
	self->dmabuf = -1;
	for (i = 0; i < FILES; i++)
		self->members[i].node.fd = -1;
	for (i = 0; i < FILES; i++) {
		self->members[i].gpu = i && variant->two_gpus;
		ret = render_open(&self->members[i].node, self->members[i].gpu);
		if (ret == -ENOENT)
			SKIP(return, "not as many amdgpu render nodes");
		ASSERT_EQ(0, ret);
		self->members[i].unlisted = self->members[i].gpu &&
					    variant->domain == AMDGPU_GEM_DOMAIN_VRAM &&
					    render_in_hive(&self->members[i].node);
	}
	self->save = criu_session(&self->members[0].node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	self->restore = criu_session(&self->members[0].node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->save);
	ASSERT_LE(0, self->restore);
	ASSERT_EQ(0, render_keep(self->restore));
}

static void unmap(struct member *member)
{
	if (member->words)
		munmap(member->words, SIZE);
	member->words = NULL;
	render_work_unmap(&member->work);
}

FIXTURE_TEARDOWN(share)
{
	int i;

	for (i = 0; i < FILES; i++) {
		unmap(&self->members[i]);
		criu_image_free(&self->members[i].image);
		criu_node_close(&self->members[i].node);
	}
	if (self->dmabuf >= 0)
		close(self->dmabuf);
	close(self->save);
	close(self->restore);
}

/* File 0 creates a BO, the others import it, all map it. */
static int make(FIXTURE_DATA(share) *self, __u32 domain)
{
	struct member *first = &self->members[0];
	int i, ret;

	ret = render_bo_create(&first->node, SIZE, domain, 0, &first->handle);
	if (ret)
		return ret;
	self->dmabuf = render_bo_export(&first->node, first->handle);
	if (self->dmabuf < 0)
		return self->dmabuf;
	for (i = 0; !ret && i < FILES; i++) {
		struct member *member = &self->members[i];

		ret = render_work_make(&member->node, &member->work);
		if (!ret && i)
			ret = render_bo_import(&member->node, self->dmabuf, &member->handle);
		if (!ret)
			ret = render_va_map(&member->node, member->handle, SHARED_VA, SIZE);
	}
	return ret ? ret : share_export_save(&first->node, self->save, self->dmabuf,
					     &self->exported);
}

static int save(FIXTURE_DATA(share) *self)
{
	int i, ret = 0;

	for (i = 0; !ret && i < FILES; i++) {
		struct member *member = &self->members[i];

		unmap(member);
		ret = criu_checkpoint(&member->node, self->save, &member->image);
	}
	for (i = 0; i < FILES; i++)
		criu_node_close(&self->members[i].node);
	close(self->dmabuf);
	self->dmabuf = -1;
	return ret;
}

static int restore(FIXTURE_DATA(share) *self, int which)
{
	struct member *member = &self->members[which];
	int ret = render_restore_to(&member->node, member->gpu, self->restore, &member->image);

	if (ret)
		return ret;
	ret = render_work_again(&member->node, &member->work, &member->work);
	/* The CPU can map a BO of another GPU only through a file of that GPU. */
	if (!ret && !member->gpu) {
		member->words = render_bo_mmap(&member->node, member->handle, SIZE);
		ret = member->words ? 0 : -ENOMEM;
	}
	return ret;
}

/* On the first GPU, as required before RESTORE of a file of another GPU. */
static int create_first(FIXTURE_DATA(share) *self)
{
	struct criu_node node;
	int fd, ret;

	ret = render_open(&node, 0);
	if (ret)
		return ret;
	fd = share_export_restore(&node, self->restore, &self->exported);
	criu_node_close(&node);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/*
 * VRAM of another GPU of a hive is not in the list: amdgpu cannot validate it, and the page tables
 * suffice. Without a link, validation moves the BO to memory that both GPUs can access.
 */
static int gpu_write(struct member *member, __u32 value)
{
	const __u32 num_listed = member->unlisted ? 1 : 2;
	struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = member->work.handle }, { .bo_handle = member->handle },
	};
	struct render_job job = {
		.hw_ip = AMDGPU_HW_IP_DMA,
		.word = (SHARED_VA - RENDER_WORK_VA) / sizeof(__u32),
		.value = value,
	};
	__u64 sequence;
	int ret;

	ret = render_ctx_create(&member->node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx);
	if (!ret)
		ret = render_list_create(&member->node, entries, num_listed, &job.list);
	if (!ret)
		ret = render_submit(&member->node, &member->work, &job, &sequence);
	if (!ret)
		ret = render_wait(&member->node, &job, sequence, 10 * RENDER_SECOND);
	render_list_destroy(&member->node, job.list);
	render_ctx_free(&member->node, job.ctx);
	return ret;
}

/* The CPU sees what each GPU writes, and dma-buf and handles are as before. */
static void expect_shared(struct __test_metadata *_metadata, FIXTURE_DATA(share) *self)
{
	int fds[FILES], i, j;
	__u32 handle;

	for (i = 0; i < FILES; i++) {
		ASSERT_EQ(0, gpu_write(&self->members[i], 100 + i)) {
			TH_LOG("file %d", i);
		}
		for (j = 0; j < FILES; j++)
			if (self->members[j].words)
				EXPECT_EQ(100 + i, *(volatile __u32 *)self->members[j].words);
	}
	for (i = 0; i < FILES; i++) {
		fds[i] = render_bo_export(&self->members[i].node, self->members[i].handle);
		ASSERT_LE(0, fds[i]);
		EXPECT_TRUE(share_same_file(fds[0], fds[i]));
		ASSERT_EQ(0, render_bo_import(&self->members[i].node, fds[0], &handle));
		EXPECT_EQ(self->members[i].handle, handle);
	}
	for (i = 0; i < FILES; i++)
		close(fds[i]);
}

static const struct amdgpu_criu_bo *shared_row(const struct member *member)
{
	__u32 i;

	for (i = 0; i < member->image.num_bos; i++)
		if (member->image.bos[i].handle == member->handle)
			return &member->image.bos[i];
	return NULL;
}

TEST_F(share, one_object_has_one_id)
{
	const struct amdgpu_criu_bo *row;
	int i;

	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	for (i = 0; i < FILES; i++) {
		row = shared_row(&self->members[i]);
		ASSERT_NE(NULL, row);
		EXPECT_EQ(self->exported.bo.object_id, row->object_id);
		EXPECT_EQ(self->exported.bo.gpu_id, row->gpu_id);
		EXPECT_EQ(SIZE, row->size);
		EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_SHARED |
			  (self->members[i].gpu ? AMDGPU_CRIU_BO_IMPORTED : 0), row->flags);
	}
}

TEST_F(share, restoring_the_creator_first_works)
{
	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	ASSERT_EQ(0, restore(self, 0));
	ASSERT_EQ(0, restore(self, 1));
	ASSERT_EQ(0, restore(self, 2));
	expect_shared(_metadata, self);
}

TEST_F(share, restoring_the_creator_last_works)
{
	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	if (variant->two_gpus) {
		EXPECT_EQ(-EBADFD, restore(self, 2));
		ASSERT_EQ(0, create_first(self));
	}
	ASSERT_EQ(0, restore(self, 2));
	ASSERT_EQ(0, restore(self, 1));
	ASSERT_EQ(0, restore(self, 0));
	expect_shared(_metadata, self);
}

/* GPUs that reach the BO need no copy of it in the memory of the CPU. */
TEST_F(share, the_bo_stays_where_it_is)
{
	const bool far = variant->two_gpus && variant->domain == AMDGPU_GEM_DOMAIN_VRAM;
	const struct criu_node *node = &self->members[0].node;
	__u64 moved;

	if (far && !self->members[1].unlisted &&
	    !render_below_one_switch(node, &self->members[1].node))
		SKIP(return, "the GPUs do not reach one another's VRAM");
	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	ASSERT_EQ(0, restore(self, 0));
	moved = render_bytes_moved(node);
	ASSERT_EQ(0, restore(self, 1));
	ASSERT_EQ(0, restore(self, 2));
	expect_shared(_metadata, self);
	EXPECT_EQ(moved, render_bytes_moved(node));
}

TEST_F(share, closing_one_does_not_free_the_rest)
{
	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	ASSERT_EQ(0, create_first(self));
	ASSERT_EQ(0, restore(self, 1));
	ASSERT_EQ(0, restore(self, 0));
	ASSERT_EQ(0, restore(self, 2));
	close(self->restore);
	self->restore = -1;
	ASSERT_EQ(0, render_bo_close(&self->members[0].node, self->members[0].handle));
	ASSERT_EQ(0, gpu_write(&self->members[1], 7));
	EXPECT_EQ(7, *self->members[0].words);
	unmap(&self->members[1]);
	criu_node_close(&self->members[1].node);
	ASSERT_EQ(0, gpu_write(&self->members[2], 8));
	EXPECT_EQ(8, *self->members[0].words);
}

/* RESTORE imports without descriptors: there may be no room for one. */
TEST_F(share, needs_no_descriptors_at_restore)
{
	struct rlimit all, few = {};
	struct criu_node nodes[FILES];
	int i;

	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	ASSERT_EQ(0, create_first(self));
	for (i = 0; i < FILES; i++)
		ASSERT_EQ(0, render_open(&nodes[i], self->members[i].gpu));
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &all));
	few.rlim_max = all.rlim_max;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	EXPECT_EQ(-1, dup(0));
	for (i = 0; i < FILES; i++)
		EXPECT_EQ(0, criu_restore(&nodes[i], self->restore, &self->members[i].image));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &all));
	for (i = 0; i < FILES; i++)
		criu_node_close(&nodes[i]);
}

/* Only the descriptor refers to it, and later a file that imports it. */
TEST_F(share, a_descriptor_without_handles_is_restored)
{
	struct member *first = &self->members[0];
	struct amdgpu_criu_bo row;
	int again, other;

	ASSERT_EQ(0, render_bo_create(&first->node, SIZE, variant->domain, 0, &first->handle));
	self->dmabuf = render_bo_export(&first->node, first->handle);
	ASSERT_LE(0, self->dmabuf);
	ASSERT_EQ(0, render_bo_close(&first->node, first->handle));
	ASSERT_EQ(0, share_export_save(&first->node, self->save, self->dmabuf, &self->exported));
	row = self->exported.bo;
	EXPECT_EQ(SIZE, row.size);
	EXPECT_EQ(0, row.handle);
	EXPECT_EQ(AMDGPU_CRIU_BO_CONTENTS | AMDGPU_CRIU_BO_SHARED, row.flags);
	/* The same descriptor comes from DMABUF. */
	other = criu_dmabuf(&first->node, self->save, row.object_id);
	ASSERT_LE(0, other);
	EXPECT_TRUE(share_same_file(self->dmabuf, other));
	close(other);
	close(self->dmabuf);

	self->dmabuf = share_export_restore(&first->node, self->restore, &self->exported);
	ASSERT_LE(0, self->dmabuf);
	again = share_export_restore(&first->node, self->restore, &self->exported);
	ASSERT_LE(0, again);
	EXPECT_TRUE(share_same_file(self->dmabuf, again));
	EXPECT_EQ(SIZE, lseek(again, 0, SEEK_END));
	close(again);
	close(self->restore);
	self->restore = -1;
	ASSERT_EQ(0, render_bo_import(&first->node, self->dmabuf, &first->handle));
	other = render_bo_export(&first->node, first->handle);
	ASSERT_LE(0, other);
	EXPECT_TRUE(share_same_file(self->dmabuf, other));
	close(other);
}

/* A descriptor of a BO that other files have as a handle, restored in both orders. */
TEST_F(share, a_descriptor_beside_handles_is_restored)
{
	struct criu_node node;
	int before, after, fd;

	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	ASSERT_EQ(0, render_open(&node, 0));
	before = share_export_restore(&node, self->restore, &self->exported);
	ASSERT_LE(0, before);
	ASSERT_EQ(0, restore(self, 1));
	ASSERT_EQ(0, restore(self, 0));
	after = share_export_restore(&node, self->restore, &self->exported);
	ASSERT_LE(0, after);
	ASSERT_EQ(0, restore(self, 2));
	fd = render_bo_export(&self->members[2].node, self->members[2].handle);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(share_same_file(before, after));
	EXPECT_TRUE(share_same_file(before, fd));
	close(before);
	close(after);
	close(fd);
	criu_node_close(&node);
	expect_shared(_metadata, self);
}

/* A blob of the session that differs from the creator's blob about an object. */
TEST_F(share, another_size_of_a_shared_object_is_EBADMSG)
{
	struct member *second = &self->members[1];
	struct criu_image spoiled;
	struct blob_object *object;
	struct blob blob;
	size_t at;
	__u32 i;

	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, save(self));
	ASSERT_EQ(0, restore(self, 0));
	spoiled = second->image;
	ASSERT_TRUE(blob_copy(&blob, spoiled.blob, spoiled.blob_size));
	for (i = 0; i < spoiled.num_bos; i++) {
		at = blob_find(&blob, BLOB_RENDER_OBJECT, i);
		object = blob_payload(&blob, at);
		if (object->object_id != self->exported.bo.object_id)
			continue;
		object->size *= 2;
		spoiled.bos[i].size *= 2;
	}
	blob_repair(&blob);
	spoiled.blob = blob.data;
	EXPECT_EQ(-EBADMSG, render_restore_to(&second->node, second->gpu, self->restore,
					      &spoiled));
	blob_free(&blob);
	for (i = 0; i < spoiled.num_bos; i++)
		if (spoiled.bos[i].object_id == self->exported.bo.object_id)
			spoiled.bos[i].size /= 2;
	EXPECT_EQ(0, restore(self, 1));
	EXPECT_EQ(0, restore(self, 2));
	expect_shared(_metadata, self);
}

/* The id of a syncobj for a BO, and vice versa. */
TEST_F(share, another_kind_of_object_is_EBADMSG)
{
	struct member *second = &self->members[1];
	struct blob_syncobj *syncobj;
	struct criu_image spoiled;
	struct blob blob;
	__u32 handle;
	size_t at;

	ASSERT_EQ(0, make(self, variant->domain));
	ASSERT_EQ(0, render_syncobj_create(&second->node, 0, &handle));
	ASSERT_EQ(0, save(self));
	ASSERT_EQ(0, restore(self, 0));
	spoiled = second->image;
	ASSERT_TRUE(blob_copy(&blob, spoiled.blob, spoiled.blob_size));
	at = blob_find(&blob, BLOB_RENDER_SYNCOBJ, 0);
	ASSERT_NE(0, at);
	syncobj = blob_payload(&blob, at);
	syncobj->object_id = self->exported.bo.object_id;
	blob_repair(&blob);
	spoiled.blob = blob.data;
	EXPECT_EQ(-EBADMSG, render_restore_to(&second->node, second->gpu, self->restore,
					      &spoiled));
	blob_free(&blob);
	EXPECT_EQ(0, restore(self, 1));
	EXPECT_EQ(0, restore(self, 2));
	expect_shared(_metadata, self);
}

TEST_HARNESS_MAIN
