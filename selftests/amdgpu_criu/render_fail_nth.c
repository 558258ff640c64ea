// SPDX-License-Identifier: GPL-2.0
/*
 * Operations of a render node, with each of their allocations and copies failing in turn: they
 * fail, leave nothing behind, and work when they are called again.
 */
#include "kselftest_harness.h"

#include "complaints.h"
#include "fail_sweep.h"
#include "render.h"
#include "render_blob.h"
#include "share.h"
#include "userq.h"

FIXTURE(fail_nth) {
	struct criu_node node, to;
	struct render_work work;
	struct criu_image image;
	int save, load, dmabuf;
	struct amdgpu_criu_state args;
	struct share_exported exported;
};

FIXTURE_SETUP(fail_nth)
{
	int ret;

	self->save = -1;
	self->load = -1;
	self->dmabuf = -1;
	self->to.fd = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ret = fail_nth_prepare();
	if (ret == -ENOENT || ret == -EACCES || ret == -EPERM)
		SKIP(return, FAIL_SWEEP_NEEDS);
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, render_fill(&self->node, &self->work));
	self->save = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->save);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->save, &self->image));
}

FIXTURE_TEARDOWN(fail_nth)
{
	criu_image_free(&self->image);
	render_work_unmap(&self->work);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
	if (self->save >= 0)
		close(self->save);
	if (self->load >= 0)
		close(self->load);
	if (self->dmabuf >= 0)
		close(self->dmabuf);
}

/* The file works. */
static int runs(const struct criu_node *node)
{
	__u32 handle;
	int ret = render_bo_create(node, 0x1000, AMDGPU_GEM_DOMAIN_GTT, 0, &handle);

	return ret ? ret : render_bo_close(node, handle);
}

/* Opens the node again. */
static int open_node(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", self->node.fd);
	self->to = self->node;
	self->to.fd = open(path, O_RDWR | O_CLOEXEC);
	return self->to.fd < 0 ? -errno : 0;
}

static int opened(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = runs(&self->to);

	criu_node_close(&self->to);
	return ret;
}

static const struct fail_row open_row = {
	.call = open_node,
	.done = opened,
	.opens = 1,
	.allocates = true,
};

/* kmemleak finds what is left. */
TEST_F_TIMEOUT(fail_nth, a_fault_in_open_leaves_nothing, 1200)
{
	complaints_allow("failed to do (bo_map|vm_bo_update) on userq sem");
	fail_sweep(_metadata, self, &open_row);
	complaints_disallow();
}

static int unpause(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = criu_unpause(&self->node, self->save);

	return ret ? ret : runs(&self->node);
}

static int process_info(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	struct amdgpu_criu_process_info info;

	return criu_pause(&self->node, self->save, &info);
}

static int process_info_failed(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = criu_unpause(&self->node, self->save);

	return ret == -EBADFD ? runs(&self->node) : -EEXIST;
}

static const struct fail_row process_info_row = {
	.call = process_info,
	.failed = process_info_failed,
	.done = unpause,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_PROCESS_INFO_leaves_nothing, 1200)
{
	ASSERT_EQ(0, unpause(self));
	fail_sweep(_metadata, self, &process_info_row);
}

static int checkpoint(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	self->args = criu_image_args(self->save, &self->image);
	return criu_op(&self->node, CHECKPOINT, &self->args);
}

static const struct fail_row checkpoint_row = { .call = checkpoint, .allocates = true };

TEST_F_TIMEOUT(fail_nth, a_fault_in_CHECKPOINT_leaves_nothing, 1200)
{
	fail_sweep(_metadata, self, &checkpoint_row);
	/* With a new session, which has no objects yet. */
	close(self->save);
	self->save = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->save);
	ASSERT_EQ(0, process_info(self));
	fail_sweep(_metadata, self, &checkpoint_row);
	EXPECT_EQ(0, unpause(self));
}

/* The same file is used for the next call if the last one has failed. */
static int restore_before(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	if (self->to.fd >= 0)
		return 0;
	if (self->load >= 0)
		close(self->load);
	self->load = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	return self->load < 0 ? self->load : render_open(&self->to, 0);
}

static int restore(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	return criu_restore(&self->to, self->load, &self->image);
}

/* All state is restored. */
static int resumed(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	static const __u16 types[] = {
		BLOB_RENDER_HANDLE, BLOB_RENDER_MAPPING, BLOB_RENDER_CTX, BLOB_RENDER_BO_LIST,
		BLOB_RENDER_SYNCOBJ, BLOB_RENDER_USERQ,
	};
	struct criu_image again;
	size_t i;
	int ret = render_save(&self->to, &again);

	if (ret)
		return ret;
	for (i = 0; i < ARRAY_SIZE(types); i++)
		if (blob_count(&again, types[i]) != blob_count(&self->image, types[i]))
			ret = -ENODATA;
	criu_image_free(&again);
	criu_node_close(&self->to);
	return ret;
}

static int resume(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	return criu_resume(&self->to, self->load, 0);
}

static int restored(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret = resume(self);

	return ret ? ret : resumed(self);
}

static const struct fail_row restore_row = {
	.before = restore_before,
	.call = restore,
	.done = restored,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_RESTORE_leaves_nothing, 3600)
{
	fail_sweep(_metadata, self, &restore_row);
}

/* The same file is used for the next call if the last one has failed. */
static int resume_before(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int ret;

	if (self->to.fd >= 0)
		return 0;
	ret = restore_before(self);
	return ret ? ret : restore(self);
}

static const struct fail_row resume_row = {
	.before = resume_before,
	.call = resume,
	.done = resumed,
	.allocates = true,
};

/* The image is one of a file with a user queue. */
static int save_userq(FIXTURE_DATA(fail_nth) *self)
{
	struct userq queue = {};
	int ret;

	criu_node_close(&self->node);
	ret = render_open(&self->node, 0);
	if (!ret)
		ret = userq_make(&self->node, &queue, AMDGPU_HW_IP_COMPUTE, 0);
	if (ret)
		return ret;
	criu_image_free(&self->image);
	return criu_checkpoint(&self->node, self->save, &self->image);
}

TEST_F_TIMEOUT(fail_nth, a_fault_in_RESTORE_or_RESUME_of_a_user_queue_leaves_nothing, 3600)
{
	int ret = save_userq(self);

	if (ret == -ENODEV)
		SKIP(return, "the driver has no user queues for this GPU");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(1, blob_count(&self->image, BLOB_RENDER_USERQ));
	complaints_allow("ERROR.*[Ff]ailed (to|mapping)");
	fail_sweep(_metadata, self, &restore_row);
	fail_sweep(_metadata, self, &resume_row);
	complaints_disallow();
}

static int outside(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	struct amdgpu_criu_outside args = { .session_fd = self->save };

	return criu_op(&self->node, OUTSIDE, &args);
}

static const struct fail_row outside_row = { .call = outside, .allocates = true };

TEST_F_TIMEOUT(fail_nth, a_fault_in_OUTSIDE_leaves_nothing, 600)
{
	fail_sweep(_metadata, self, &outside_row);
}

/* Exports a BO of a file that is not paused. */
static int export_bo(FIXTURE_DATA(fail_nth) *self)
{
	int ret = render_open(&self->to, 0);
	__u32 handle;

	if (!ret)
		ret = render_bo_create(&self->to, 0x1000, AMDGPU_GEM_DOMAIN_VRAM, 0, &handle);
	if (ret)
		return ret;
	self->dmabuf = render_bo_export(&self->to, handle);
	return self->dmabuf < 0 ? self->dmabuf : 0;
}

static int export_save(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	return share_export_save(&self->to, self->save, self->dmabuf, &self->exported);
}

static const struct fail_row export_save_row = { .call = export_save, .allocates = true };

static int export_restore_before(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;

	if (self->load >= 0)
		close(self->load);
	self->load = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	return self->load < 0 ? self->load : 0;
}

static int export_restore(void *data)
{
	FIXTURE_DATA(fail_nth) *self = data;
	int fd = share_export_restore(&self->to, self->load, &self->exported);

	return fd < 0 ? fd : close(fd);
}

static const struct fail_row export_restore_row = {
	.before = export_restore_before,
	.call = export_restore,
	.allocates = true,
};

TEST_F_TIMEOUT(fail_nth, a_fault_in_EXPORTED_leaves_nothing, 1200)
{
	ASSERT_EQ(0, export_bo(self));
	fail_sweep(_metadata, self, &export_save_row);
	fail_sweep(_metadata, self, &export_restore_row);
}

TEST_HARNESS_MAIN
