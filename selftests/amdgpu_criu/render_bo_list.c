// SPDX-License-Identifier: GPL-2.0
/* BO lists of a render node: what is restored, and what is refused. */
#include "kselftest_harness.h"

#include "render.h"
#include "render_blob.h"

#define MAX_PRIORITY 32

FIXTURE(list) {
	struct criu_node node;
	struct criu_node to;
	struct render_work work;
	struct render_work work_to;
	struct criu_image image;
	struct criu_image again;
	int session;
	/* Another BO. */
	__u32 other;
};

FIXTURE_SETUP(list)
{
	self->to.fd = -1;
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
	ASSERT_EQ(0, render_bo_create(&self->node, 8192, AMDGPU_GEM_DOMAIN_VRAM, 0, &self->other));
}

FIXTURE_TEARDOWN(list)
{
	render_work_unmap(&self->work);
	render_work_unmap(&self->work_to);
	criu_image_free(&self->image);
	criu_image_free(&self->again);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
	if (self->session >= 0)
		close(self->session);
}

static void save(struct __test_metadata *_metadata, FIXTURE_DATA(list) *self)
{
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

static void restore(struct __test_metadata *_metadata, FIXTURE_DATA(list) *self)
{
	unsigned int i, num = blob_count(&self->image, BLOB_RENDER_BO_LIST);

	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	ASSERT_EQ(0, criu_resume(&self->to, self->session, 0));
	ASSERT_EQ(0, render_work_again(&self->to, &self->work, &self->work_to));
	/* Objects keep their order, and so their ids; entries do if their priorities differ. */
	ASSERT_EQ(0, render_save(&self->to, &self->again));
	EXPECT_EQ(num, blob_count(&self->again, BLOB_RENDER_BO_LIST));
	for (i = 0; i < num; i++) {
		EXPECT_TRUE(blob_same(&self->image, &self->again, BLOB_RENDER_BO_LIST, i)) {
			TH_LOG("list number %u", i);
		}
	}
}

/* A submission can use it. */
static void expect_usable(struct __test_metadata *_metadata, FIXTURE_DATA(list) *self, __u32 list)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .list = list, .word = list,
				  .value = 0x600d0000 + list };
	__u64 sequence;

	ASSERT_EQ(0, render_ctx_create(&self->to, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
	ASSERT_EQ(0, render_submit(&self->to, &self->work_to, &job, &sequence)) {
		TH_LOG("list %u", list);
	}
	EXPECT_EQ(0, render_wait(&self->to, &job, sequence, 10 * RENDER_SECOND));
	EXPECT_EQ(job.value, self->work_to.words[list]);
}

TEST_F(list, ids_are_restored_with_gaps)
{
	struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->work.handle, .bo_priority = 3 },
		{ .bo_handle = self->other, .bo_priority = 1 },
	};
	__u32 ids[5], id, i;

	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		ASSERT_EQ(0, render_list_create(&self->node, entries, ARRAY_SIZE(entries),
						&ids[i]));
	}
	ASSERT_EQ(0, render_list_destroy(&self->node, ids[0]));
	ASSERT_EQ(0, render_list_destroy(&self->node, ids[3]));
	save(_metadata, self);
	EXPECT_EQ(3, blob_count(&self->image, BLOB_RENDER_BO_LIST));
	restore(_metadata, self);
	expect_usable(_metadata, self, ids[1]);
	expect_usable(_metadata, self, ids[2]);
	expect_usable(_metadata, self, ids[4]);
	EXPECT_EQ(0, render_list_create(&self->to, entries, 1, &id));
	EXPECT_EQ(ids[0], id);
	EXPECT_EQ(0, render_list_create(&self->to, entries, 1, &id));
	EXPECT_EQ(ids[3], id);
	EXPECT_EQ(0, render_list_create(&self->to, entries, 1, &id));
	EXPECT_EQ(ids[4] + 1, id);
}

TEST_F(list, priorities_and_an_empty_list_are_restored)
{
	struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->work.handle, .bo_priority = 1000 },
		{ .bo_handle = self->other, .bo_priority = 7 },
		{ .bo_handle = self->other, .bo_priority = 0 },
	};
	const struct blob_item *items;
	struct blob blob;
	__u32 id;

	ASSERT_EQ(0, render_list_create(&self->node, entries, ARRAY_SIZE(entries), &id));
	ASSERT_EQ(0, render_list_create(&self->node, entries, 0, &id));
	save(_metadata, self);
	restore(_metadata, self);
	blob = (struct blob) { .data = self->again.blob, .size = self->again.blob_size };
	items = blob_payload(&blob, blob_find(&blob, BLOB_RENDER_BO_LIST, 0)) +
		sizeof(struct blob_list);
	EXPECT_EQ(0, items[0].priority);
	EXPECT_EQ(7, items[1].priority);
	EXPECT_EQ(MAX_PRIORITY, items[2].priority);
	EXPECT_EQ(items[0].object_id, items[1].object_id);
	EXPECT_NE(items[0].object_id, items[2].object_id);
}

/* The list holds the BO, and the number of the handle is free. */
TEST_F(list, an_entry_whose_handle_was_closed_is_restored)
{
	struct drm_amdgpu_bo_list_entry entries[2] = {
		{ .bo_handle = self->work.handle }, { .bo_priority = 1 },
	};
	__u32 list, handle;

	ASSERT_EQ(0, render_bo_create(&self->node, 4096, AMDGPU_GEM_DOMAIN_GTT, 0,
				      &entries[1].bo_handle));
	ASSERT_EQ(0, render_list_create(&self->node, entries, 2, &list));
	ASSERT_EQ(0, render_bo_close(&self->node, entries[1].bo_handle));
	save(_metadata, self);
	EXPECT_EQ(3, self->image.num_bos);
	EXPECT_EQ(2, blob_count(&self->image, BLOB_RENDER_HANDLE));
	restore(_metadata, self);
	EXPECT_EQ(-EINVAL, render_bo_close(&self->to, entries[1].bo_handle));
	expect_usable(_metadata, self, list);
	EXPECT_EQ(0, render_bo_create(&self->to, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, &handle));
	EXPECT_EQ(entries[1].bo_handle, handle);
	/* Destroying the list keeps the other BOs. */
	EXPECT_EQ(0, render_list_destroy(&self->to, list));
	self->work_to.words[1] = 1;
}

TEST_F(list, invalid_records_are_refused)
{
	static const struct blob_fault of_list[] = {
		BLOB_FAULT_FOR(": id", "id 0", blob_list, id, 0, -EBADMSG),
		BLOB_FAULT_FOR("its number occurs twice", "id of the next", blob_list, id, 2,
			       -EBADMSG),
		BLOB_FAULT_FOR(TAIL_FAULT, "fewer entries", blob_list, num_entries, 1, -EBADMSG),
		BLOB_FAULT_FOR(TAIL_FAULT, "more entries", blob_list, num_entries, 3, -EBADMSG),
		BLOB_FAULT_FOR(TAIL_FAULT, "huge number of entries", blob_list, num_entries,
			       0x10000001, -EBADMSG),
	};
	static const struct blob_fault of_item[] = {
		BLOB_FAULT_FOR("no such BO", "no BO", blob_item, object_id, 0, -EBADMSG),
		BLOB_FAULT_FOR("no such BO", "unknown BO", blob_item, object_id, 0x1234, -EBADMSG),
		BLOB_FAULT_FOR("priority of an entry", "priority", blob_item, priority,
			       MAX_PRIORITY + 1, -EBADMSG),
		BLOB_FAULT_FOR("pad is not zero", "pad", blob_item, pad, 1, -EBADMSG),
	};
	struct drm_amdgpu_bo_list_entry entries[] = {
		{ .bo_handle = self->work.handle },
		{ .bo_handle = self->other, .bo_priority = 1 },
	};
	__u32 id;
	size_t i;

	ASSERT_EQ(0, render_list_create(&self->node, entries, 2, &id));
	ASSERT_EQ(0, render_list_create(&self->node, entries, 2, &id));
	save(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(of_list); i++) {
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_BO_LIST, 0, 0,
			     &of_list[i]);
	}
	for (i = 0; i < ARRAY_SIZE(of_item); i++) {
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_BO_LIST, 1,
			     sizeof(struct blob_list) + sizeof(struct blob_item), &of_item[i]);
	}
	restore(_metadata, self);
}

/* Kernels before 7.3 have lists in an IDR. */
TEST_F(list, the_greatest_id_is_restored)
{
	const bool all = kernel_is_at_least(7, 3);
	const struct blob_fault beyond = BLOB_FAULT("", blob_list, id, 0x7fffffff, -EOPNOTSUPP);
	const struct blob_fault far = BLOB_FAULT("", blob_list, id, all ? 0xffffffff : 0x7ffffffe,
						 0);
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = self->work.handle };
	__u32 id;

	ASSERT_EQ(0, render_list_create(&self->node, &entry, 1, &id));
	save(_metadata, self);
	if (!all) {
		EXPECT_EQ(beyond.error,
			  blob_restore_fault(&self->to, self->session, &self->image,
					     BLOB_RENDER_BO_LIST, 0, 0, &beyond));
		EXPECT_NE(NULL, strstr(criu_reason, "its number is above"));
	}
	ASSERT_EQ(0, blob_restore_fault(&self->to, self->session, &self->image,
					BLOB_RENDER_BO_LIST, 0, 0, &far));
	EXPECT_EQ(0, criu_resume(&self->to, self->session, 0));
	ASSERT_EQ(0, render_save(&self->to, &self->again));
	EXPECT_EQ(1, blob_count(&self->again, BLOB_RENDER_BO_LIST));
	EXPECT_EQ(0, render_list_destroy(&self->to, far.value));
}

/* The limit of DRM_AMDGPU_BO_LIST. */
#define MAX_ENTRIES (128 * 1024)

TEST_F(list, a_list_longer_than_the_ioctl_accepts_is_refused)
{
	const size_t more = MAX_ENTRIES * sizeof(struct blob_item);
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = self->work.handle };
	struct blob_record *record;
	struct blob blob;
	void *items;
	size_t at;
	__u32 id;

	ASSERT_EQ(0, render_list_create(&self->node, &entry, 1, &id));
	save(_metadata, self);
	blob.size = self->image.blob_size;
	blob.data = malloc(blob.size + more);
	items = calloc(1, more);
	ASSERT_TRUE(blob.data && items);
	memcpy(blob.data, self->image.blob, blob.size);
	at = blob_find(&blob, BLOB_RENDER_BO_LIST, 0);
	record = blob_record(&blob, at);
	((struct blob_list *)blob_payload(&blob, at))->num_entries += MAX_ENTRIES;
	blob_insert(&blob, at + sizeof(*record) + record->size, items, more);
	record->size += more;
	EXPECT_EQ(-EBADMSG, blob_restore(&self->to, self->session, &self->image, &blob));
	EXPECT_NE(NULL, strstr(criu_reason, "number of entries"));
	free(items);
	blob_free(&blob);
	restore(_metadata, self);
}

/* A process may have had two billion lists at once. */
TEST_F(list, the_greatest_possible_id_is_restored)
{
	const struct blob_fault far = BLOB_FAULT("", blob_list, id, 0x7ffffffe, 0);
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = self->work.handle };
	__u32 id;

	ASSERT_EQ(0, render_list_create(&self->node, &entry, 1, &id));
	save(_metadata, self);
	EXPECT_EQ(far.error, blob_restore_fault(&self->to, self->session, &self->image,
						BLOB_RENDER_BO_LIST, 0, 0, &far));
	ASSERT_EQ(0, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(0, render_list_create(&self->to, &entry, 1, &id));
	EXPECT_EQ(1, id);
	EXPECT_EQ(0, render_list_destroy(&self->to, far.value));
}

TEST_HARNESS_MAIN
