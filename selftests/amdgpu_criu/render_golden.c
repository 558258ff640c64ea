// SPDX-License-Identifier: GPL-2.0
/*
 * Blobs of a render-node file and of an exported BO in released formats, as in golden.c: every
 * later kernel restores them with the same values.
 *
 *   render_golden --write DIRECTORY    writes blobs of this format, for a new fixture
 */
#include "kselftest_harness.h"

#include <sys/mman.h>

#include "carry.h"
#include "golden_file.h"
#include "render_blob.h"
#include "share.h"
#include "userq.h"

#define FILE_NAME "render-1-file"
#define EXPORTED_NAME "render-1-exported"
#define USERQ_NAME "render-1-userq"
#define USERPTR_SIZE 0x8000
#define USERPTR_FLAGS (AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_REGISTER)
#define EXPORTED_SIZE 0x30000
#define MAX_BOS 16

/* --- Writing blobs */

static int set_metadata(const struct criu_node *node, __u32 handle)
{
	struct drm_amdgpu_gem_metadata args = {
		.handle = handle,
		.op = AMDGPU_GEM_METADATA_OP_SET_METADATA,
		.data = { .flags = 5, .tiling_info = 0x123, .data_size_bytes = 8,
			  .data = { 0x11111111, 0x22222222 } },
	};

	return render_ioctl(node, DRM_IOCTL_AMDGPU_GEM_METADATA, &args);
}

static int set_name(const struct criu_node *node)
{
	struct {
		__u64 length, name;
	} args = { .length = 6, .name = (uintptr_t)"golden" };

	return render_ioctl(node, DRM_IOWR(0xd1, args), &args);
}

static int write_file(const struct criu_node *node, const char *directory)
{
	void *memory = mmap(CARRY_ADDRESS, USERPTR_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct criu_image image;
	struct render_work work;
	__u32 handle;
	int ret = render_fill(node, &work);

	if (!ret)
		ret = render_userptr_create(node, memory, USERPTR_SIZE, USERPTR_FLAGS, &handle);
	if (!ret)
		ret = set_metadata(node, work.handle);
	if (!ret)
		ret = set_name(node);
	if (!ret)
		ret = render_save(node, &image);
	return ret ? ret : golden_write(directory, FILE_NAME, image.blob, image.blob_size);
}

static int write_exported(const struct criu_node *node, const char *directory)
{
	int session = criu_session(node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	struct share_exported exported;
	__u32 handle;
	int fd = -1;
	int ret = render_bo_create(node, EXPORTED_SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				   AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, &handle);

	if (!ret)
		ret = set_metadata(node, handle);
	if (!ret) {
		fd = render_bo_export(node, handle);
		ret = fd < 0 ? fd : render_bo_close(node, handle);
	}
	if (!ret)
		ret = share_export_save(node, session, fd, &exported);
	return ret ? ret :
	       golden_write(directory, EXPORTED_NAME, exported.blob, exported.blob_size);
}

/* Words of a ring: two packets that were executed; one that waits, and one with a pending fence. */
#define USERQ_DONE 7

static int write_userq(const struct criu_node *node, const char *directory)
{
	struct userq queue = {};
	struct criu_image image;
	__u32 syncobj;
	int ret = userq_make(node, &queue, AMDGPU_HW_IP_COMPUTE, 0);

	if (ret)
		return ret == -ENODEV ? 0 : ret;
	ret = render_syncobj_create(node, 0, &syncobj);
	userq_write(&queue, 0, 1);
	if (!ret)
		ret = userq_signal(node, &queue, &syncobj, 1, 0, true);
	if (!ret)
		ret = render_save(node, &image);
	return ret ? ret : golden_write(directory, USERQ_NAME, image.blob, image.blob_size);
}

static void __attribute__((constructor)) write_all(int argc, char **argv)
{
	struct criu_node node;
	int ret;

	if (argc != 3 || strcmp(argv[1], "--write"))
		return;
	ret = render_open(&node, 0);
	if (!ret)
		ret = write_file(&node, argv[2]);
	if (!ret)
		ret = render_open(&node, 0);
	if (!ret)
		ret = write_exported(&node, argv[2]);
	if (!ret)
		ret = render_open(&node, 0);
	if (!ret)
		ret = write_userq(&node, argv[2]);
	if (ret)
		fprintf(stderr, "render_golden: %s\n", strerror(-ret));
	_exit(!!ret);
}

/* --- Restoring blobs */

FIXTURE(golden) {
	struct criu_node to;
	struct blob blob;
	struct amdgpu_criu_bo bos[MAX_BOS];
};

FIXTURE_SETUP(golden)
{
	const char *missing = golden_missing(1, FILE_NAME);

	self->to.fd = -1;
	if (missing)
		SKIP(return, "%s", missing);
}

FIXTURE_TEARDOWN(golden)
{
	blob_free(&self->blob);
	criu_node_close(&self->to);
}

/*
 * Clears offsets of the node, and a flag that the driver sets when the CPU accesses a BO, even if
 * the process has not requested it.
 */
static void blank(struct blob *blob)
{
	size_t at;

	for (unsigned int i = 0; (at = blob_find(blob, BLOB_RENDER_OBJECT, i)); i++) {
		struct blob_object *object = blob_payload(blob, at);

		object->mmap_offset = 0;
		object->create_flags &= ~AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
	}
}

TEST_F(golden, a_file_is_restored_with_all_values)
{
	static const __u16 types[] = {
		BLOB_RENDER_OBJECT, BLOB_RENDER_HANDLE, BLOB_RENDER_MAPPING, BLOB_RENDER_CTX,
		BLOB_RENDER_BO_LIST, BLOB_RENDER_SYNCOBJ, BLOB_RENDER_CLIENT_NAME,
	};
	struct criu_image image = { .bos = self->bos }, again;
	struct blob blob;
	size_t num = ARRAY_SIZE(types);

	ASSERT_TRUE(golden_load(FILE_NAME, &self->blob));
	image.num_bos = blob_render_table(&self->blob, self->bos);
	image.blob = self->blob.data;
	image.blob_size = self->blob.size;
	ASSERT_EQ(CARRY_ADDRESS, mmap(CARRY_ADDRESS, USERPTR_SIZE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	ASSERT_EQ(0, render_restore_to(&self->to, 0, -1, &image));
	ASSERT_EQ(0, render_save(&self->to, &again));
	blob.data = again.blob;
	blob.size = again.blob_size;
	blank(&self->blob);
	blank(&blob);
	/* Files of older kernels have no names. */
	if (!kernel_is_at_least(7, 2))
		num--;
	for (size_t i = 0; i < num; i++) {
		const unsigned int records = blob_count(&image, types[i]);

		EXPECT_LT(0, records);
		EXPECT_EQ(records, blob_count(&again, types[i]));
		for (unsigned int j = 0; j < records; j++) {
			EXPECT_EQ(-1, golden_difference(&self->blob, &blob, types[i], j)) {
				TH_LOG("type %#x, record %u", types[i], j);
			}
		}
	}
	criu_image_free(&again);
}

TEST_F(golden, an_exported_bo_is_restored_with_all_values)
{
	struct share_exported exported, again;
	struct blob blob;
	int restore, save, fd;

	ASSERT_TRUE(golden_load(EXPORTED_NAME, &self->blob));
	ASSERT_EQ(1, blob_render_table(&self->blob, self->bos));
	ASSERT_EQ(0, render_open(&self->to, 0));
	restore = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	save = criu_session(&self->to, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, restore);
	ASSERT_LE(0, save);
	ASSERT_LE(self->blob.size, sizeof(exported.blob));
	exported.bo = self->bos[0];
	exported.blob_size = self->blob.size;
	memcpy(exported.blob, self->blob.data, self->blob.size);
	fd = share_export_restore(&self->to, restore, &exported);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, share_export_save(&self->to, save, fd, &again));
	blob.data = again.blob;
	blob.size = again.blob_size;
	blank(&self->blob);
	blank(&blob);
	EXPECT_EQ(-1, golden_difference(&self->blob, &blob, BLOB_RENDER_OBJECT, 0));
	close(fd);
	close(save);
	close(restore);
}

TEST_F(golden, a_user_queue_is_restored_with_all_values)
{
	static __u32 memory[USERQ_SIZE / sizeof(__u32)];
	static __u64 wptr = USERQ_DONE;
	const struct userq from = {
		.memory = memory, .wptr = &wptr, .next = USERQ_DONE,
		.ip_type = AMDGPU_HW_IP_COMPUTE,
		.doorbell_handle = 1, .memory_handle = 2, .wptr_handle = 3,
	};
	struct criu_image image = { .bos = self->bos }, again;
	struct userq queue;
	struct blob blob;
	int session;

	if (!golden_load(USERQ_NAME, &self->blob))
		SKIP(return, "the driver has no user queues for this GPU");
	image.num_bos = blob_render_table(&self->blob, self->bos);
	image.blob = self->blob.data;
	image.blob_size = self->blob.size;
	ASSERT_EQ(0, render_open(&self->to, 0));
	session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	if (!kernel_is_at_least(7, 2)) {
		EXPECT_EQ(-EOPNOTSUPP, criu_restore(&self->to, session, &image));
		close(session);
		return;
	}
	ASSERT_EQ(0, criu_restore(&self->to, session, &image));
	ASSERT_EQ(0, userq_again(&self->to, &image, &from, &queue));
	ASSERT_EQ(0, criu_resume(&self->to, session, 0));
	close(session);
	ASSERT_EQ(0, render_save(&self->to, &again));
	blob.data = again.blob;
	blob.size = again.blob_size;
	EXPECT_EQ(-1, golden_difference(&self->blob, &blob, BLOB_RENDER_USERQ, 0));
	EXPECT_EQ(-1, golden_difference(&self->blob, &blob, BLOB_RENDER_SYNCOBJ, 0));
	EXPECT_TRUE(userq_runs(&queue, 2));
	criu_image_free(&again);
}

TEST_HARNESS_MAIN
