// SPDX-License-Identifier: GPL-2.0
/*
 * The dma-buf that DMABUF returns to copy a BO: it leaves no trace in the BO, few may import it,
 * and it never meets the dma-buf that the process itself exports.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "render.h"
#include "render_blob.h"
#include "share.h"

#define SIZE 0x10000
#define SESSIONS 3
#define SHARED_MAX 1024

FIXTURE(copy) {
	struct criu_node node;
	struct criu_node copier;
	struct criu_node other;
	struct criu_image image, again;
	__u32 handle;
	int sessions[SESSIONS];
};

FIXTURE_VARIANT(copy) {
	__u64 flags;
	/* It has no handle; only a BO list holds it. */
	bool listed;
};

FIXTURE_VARIANT_ADD(copy, of_a_bo) {};

FIXTURE_VARIANT_ADD(copy, of_a_bo_of_one_vm) {
	.flags = AMDGPU_GEM_CREATE_VM_ALWAYS_VALID,
};

FIXTURE_VARIANT_ADD(copy, of_a_bo_without_handles) {
	.listed = true,
};

static int only_listed(FIXTURE_DATA(copy) *self)
{
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = self->handle };
	__u32 list;
	int ret = render_list_create(&self->node, &entry, 1, &list);

	return ret ? ret : render_bo_close(&self->node, self->handle);
}

FIXTURE_SETUP(copy)
{
	int i;

	for (i = 0; i < SESSIONS; i++)
		self->sessions[i] = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_open(&self->copier, 0));
	ASSERT_EQ(0, render_open(&self->other, 0));
	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM, variant->flags,
				      &self->handle));
	if (variant->listed)
		ASSERT_EQ(0, only_listed(self));
}

static void end_session(FIXTURE_DATA(copy) *self, int which)
{
	if (self->sessions[which] >= 0)
		close(self->sessions[which]);
	self->sessions[which] = -1;
}

FIXTURE_TEARDOWN(copy)
{
	int i;

	for (i = 0; i < SESSIONS; i++)
		end_session(self, i);
	criu_image_free(&self->image);
	criu_image_free(&self->again);
	criu_node_close(&self->node);
	criu_node_close(&self->copier);
	criu_node_close(&self->other);
}

/* Adds the BO to a new session and unpauses the process. Returns its id or an error. */
static int save(FIXTURE_DATA(copy) *self, int which, struct criu_image *image)
{
	int ret;

	criu_image_free(image);
	self->sessions[which] = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	if (self->sessions[which] < 0)
		return self->sessions[which];
	ret = criu_checkpoint(&self->node, self->sessions[which], image);
	if (!ret)
		ret = criu_unpause(&self->node, self->sessions[which]);
	return ret ? ret : (int)image->bos[0].object_id;
}

/* Through a new session; returns a descriptor or an error. */
static int start_copy(FIXTURE_DATA(copy) *self, int which)
{
	int id = save(self, which, &self->image);

	return id < 0 ? id : criu_dmabuf(&self->copier, self->sessions[which], id);
}

static void expect_import(struct __test_metadata *_metadata, const struct criu_node *node, int fd,
			  __u32 value)
{
	__u32 handle, *words;

	ASSERT_EQ(0, render_bo_import(node, fd, &handle));
	words = render_bo_mmap(node, handle, SIZE);
	ASSERT_NE(NULL, words);
	if (value)
		*words = value;
	munmap(words, SIZE);
	EXPECT_EQ(0, render_bo_close(node, handle));
}

/* Each session has its own dma-buf, and the BO outlives all of them. */
TEST_F(copy, of_several_sessions_are_imported)
{
	__u32 handles[SESSIONS];
	int fds[SESSIONS], i;

	for (i = 0; i < SESSIONS; i++) {
		fds[i] = start_copy(self, i);
		ASSERT_LE(0, fds[i]);
		if (i == 1)
			end_session(self, 0);
	}
	/* The kernel warns if PRIME finds a second dma-buf. */
	for (i = 1; i < SESSIONS; i++)
		ASSERT_EQ(0, render_bo_import(&self->copier, fds[i], &handles[i]));
	for (i = 1; i < SESSIONS; i++)
		EXPECT_EQ(0, render_bo_close(&self->copier, handles[i]));
	for (i = 0; i < SESSIONS; i++)
		close(fds[i]);
}

/* The shared memory in fdinfo. */
static void shared(const struct criu_node *node, char *found)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", node->fd);
	file = fopen(path, "r");
	*found = 0;
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "shared") && strlen(found) + sizeof(line) < SHARED_MAX)
			strcat(found, line);
	if (file)
		fclose(file);
}

TEST_F(copy, leaves_no_trace_in_a_checkpoint)
{
	char before[SHARED_MAX], after[SHARED_MAX];
	int fd, i;

	fd = start_copy(self, 0);
	ASSERT_LE(0, fd);
	self->again = self->image;
	memset(&self->image, 0, sizeof(self->image));
	expect_import(_metadata, &self->copier, fd, 0);
	/* While the session is open, and when it is not. */
	for (i = 1; i < SESSIONS; i++) {
		ASSERT_LE(0, save(self, i, &self->image));
		ASSERT_EQ(self->again.blob_size, self->image.blob_size);
		EXPECT_EQ(0, memcmp(self->again.blob, self->image.blob, self->image.blob_size));
		EXPECT_EQ(0, memcmp(self->again.bos, self->image.bos, sizeof(*self->image.bos)));
		if (i == 1) {
			close(fd);
			end_session(self, 0);
			end_session(self, 1);
		}
	}
	/* After the next update of the counts, none of it is shared. */
	shared(&self->other, before);
	shared(&self->node, after);
	EXPECT_STREQ(before, after);
}

/* The process has the same rights as before, and its exports succeed. */
TEST_F(copy, is_not_what_the_process_exports)
{
	int fd, own, third;

	if (variant->listed)
		SKIP(return, "nothing to export by");
	fd = start_copy(self, 0);
	ASSERT_LE(0, fd);
	own = render_bo_export(&self->node, self->handle);
	if (variant->flags) {
		EXPECT_EQ(-EPERM, own);
		expect_import(_metadata, &self->copier, fd, 0);
		EXPECT_EQ(-EPERM, render_bo_export(&self->node, self->handle));
		close(fd);
		return;
	}
	ASSERT_LE(0, own);
	EXPECT_FALSE(share_same_file(fd, own));
	expect_import(_metadata, &self->copier, fd, 1);
	expect_import(_metadata, &self->other, own, 2);
	expect_import(_metadata, &self->copier, fd, 3);
	/* The next session copies through the dma-buf that the process has exported. */
	third = start_copy(self, 1);
	ASSERT_LE(0, third);
	EXPECT_TRUE(share_same_file(third, own));
	end_session(self, 0);
	end_session(self, 1);
	expect_import(_metadata, &self->other, own, 0);
	expect_import(_metadata, &self->copier, fd, 0);
	close(third);
	third = render_bo_export(&self->node, self->handle);
	EXPECT_TRUE(share_same_file(third, own));
	close(third);
	close(own);
	close(fd);
}

/* The permission to open a BO of another VM is for this BO, and ends with the session. */
TEST_F(copy, of_one_vm_is_for_one_file_as_long_as_the_session_is_open)
{
	__u32 handle, second;
	int fd, id, others;

	if (!variant->flags)
		SKIP(return, "any file may open it");
	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM, variant->flags,
				      &second));
	fd = start_copy(self, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(2, self->image.num_bos);
	others = criu_dmabuf(&self->other, self->sessions[0], self->image.bos[1].object_id);
	ASSERT_LE(0, others);
	EXPECT_EQ(-EPERM, render_bo_import(&self->other, fd, &handle));
	EXPECT_EQ(-EPERM, render_bo_import(&self->copier, others, &handle));
	expect_import(_metadata, &self->copier, fd, 0);
	expect_import(_metadata, &self->other, others, 0);
	/* The same one, to the other file as well. */
	id = criu_dmabuf(&self->other, self->sessions[0], self->image.bos[0].object_id);
	ASSERT_LE(0, id);
	EXPECT_TRUE(share_same_file(fd, id));
	expect_import(_metadata, &self->other, fd, 0);
	end_session(self, 0);
	EXPECT_EQ(-EPERM, render_bo_import(&self->copier, fd, &handle));
	EXPECT_EQ(-EPERM, render_bo_import(&self->other, others, &handle));
	close(id);
	close(fd);
	close(others);
}

/* Only files of the BO's device may import it, and without attaching to it. */
TEST_F(copy, is_attached_to_nothing)
{
	struct criu_node second;
	__u32 handle;
	int fd, ret;

	fd = start_copy(self, 0);
	ASSERT_LE(0, fd);
	ret = render_open(&second, 1);
	if (ret == -ENOENT) {
		close(fd);
		SKIP(return, "one GPU");
	}
	ASSERT_EQ(0, ret);
	EXPECT_EQ(-EPERM, render_bo_import(&second, fd, &handle));
	criu_node_close(&second);
	close(fd);
}

/* The dma-buf that fills a BO after a restore is not an export of it either. */
TEST_F(copy, leaves_no_trace_in_what_was_restored)
{
	int session, fd;
	struct criu_node to;
	struct blob_object *was, *now;
	struct blob x, y;

	ASSERT_LE(0, save(self, 0, &self->image));
	session = criu_session(&self->copier, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_open(&to, 0));
	ASSERT_EQ(0, criu_restore(&to, session, &self->image));
	fd = criu_dmabuf(&self->copier, session, self->image.bos[0].object_id);
	ASSERT_LE(0, fd);
	expect_import(_metadata, &self->copier, fd, 1);
	close(fd);
	ASSERT_EQ(0, criu_resume(&to, session, 0));
	close(session);
	ASSERT_EQ(0, render_save(&to, &self->again));
	x = (struct blob){ .data = self->image.blob, .size = self->image.blob_size };
	y = (struct blob){ .data = self->again.blob, .size = self->again.blob_size };
	was = blob_payload(&x, blob_find(&x, BLOB_RENDER_OBJECT, 0));
	now = blob_payload(&y, blob_find(&y, BLOB_RENDER_OBJECT, 0));
	EXPECT_EQ(was->flags, now->flags);
	EXPECT_EQ(was->table_flags, now->table_flags);
	criu_node_close(&to);
}

TEST_HARNESS_MAIN
