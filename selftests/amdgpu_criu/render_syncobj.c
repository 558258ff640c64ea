// SPDX-License-Identifier: GPL-2.0
/* Syncobjs of a render node: what is restored, what is shared, and what is refused. */
#include "kselftest_harness.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include "render.h"
#include "render_blob.h"

FIXTURE(syncobj) {
	struct criu_node node;
	struct criu_node to;
	struct criu_image image;
	int session;
};

FIXTURE_SETUP(syncobj)
{
	self->to.fd = -1;
	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
}

FIXTURE_TEARDOWN(syncobj)
{
	criu_image_free(&self->image);
	criu_node_close(&self->to);
	criu_node_close(&self->node);
	if (self->session >= 0)
		close(self->session);
}

static void save(struct __test_metadata *_metadata, FIXTURE_DATA(syncobj) *self)
{
	ASSERT_EQ(0, render_save(&self->node, &self->image));
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
}

static void restore(struct __test_metadata *_metadata, FIXTURE_DATA(syncobj) *self)
{
	struct criu_image again;
	unsigned int i, num = blob_count(&self->image, BLOB_RENDER_SYNCOBJ);

	ASSERT_EQ(0, criu_restore(&self->to, self->session, &self->image));
	ASSERT_EQ(0, criu_resume(&self->to, self->session, 0));
	ASSERT_EQ(0, render_save(&self->to, &again));
	EXPECT_EQ(num, blob_count(&again, BLOB_RENDER_SYNCOBJ));
	for (i = 0; i < num; i++) {
		EXPECT_TRUE(blob_same(&self->image, &again, BLOB_RENDER_SYNCOBJ, i)) {
			TH_LOG("syncobj number %u", i);
		}
	}
	criu_image_free(&again);
}

static int reset(const struct criu_node *node, __u32 handle)
{
	struct drm_syncobj_array args = { .handles = (uintptr_t)&handle, .count_handles = 1 };

	return render_ioctl(node, DRM_IOCTL_SYNCOBJ_RESET, &args);
}

TEST_F(syncobj, handles_and_states_are_restored)
{
	__u32 handles[5], handle, i;

	for (i = 0; i < ARRAY_SIZE(handles); i++) {
		ASSERT_EQ(0, render_syncobj_create(&self->node,
						   i == 3 ? DRM_SYNCOBJ_CREATE_SIGNALED : 0,
						   &handles[i]));
	}
	ASSERT_EQ(0, render_syncobj_destroy(&self->node, handles[1]));
	save(_metadata, self);
	restore(_metadata, self);
	EXPECT_EQ(-EINVAL, render_syncobj_wait(&self->to, handles[0], 0));
	EXPECT_EQ(-ENOENT, render_syncobj_wait(&self->to, handles[1], 0));
	EXPECT_EQ(-EINVAL, render_syncobj_wait(&self->to, handles[2], 0));
	EXPECT_EQ(0, render_syncobj_wait(&self->to, handles[3], 0));
	EXPECT_EQ(-EINVAL, render_syncobj_wait(&self->to, handles[4], 0));
	EXPECT_EQ(0, render_syncobj_create(&self->to, 0, &handle));
	EXPECT_EQ(handles[1], handle);
	EXPECT_EQ(0, render_syncobj_create(&self->to, 0, &handle));
	EXPECT_EQ(handles[4] + 1, handle);
	EXPECT_EQ(0, reset(&self->to, handles[3]));
	EXPECT_EQ(-EINVAL, render_syncobj_wait(&self->to, handles[3], 0));
}

TEST_F(syncobj, a_timeline_continues_from_its_point)
{
	__u64 far = 0x123456789abcull, point;
	__u32 zero, seven, late;

	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &zero));
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &seven));
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &late));
	ASSERT_EQ(0, render_syncobj_signal_point(&self->node, zero, 0));
	ASSERT_EQ(0, render_syncobj_signal_point(&self->node, seven, 3));
	ASSERT_EQ(0, render_syncobj_signal_point(&self->node, seven, 7));
	ASSERT_EQ(0, render_syncobj_signal_point(&self->node, late, far));
	save(_metadata, self);
	restore(_metadata, self);
	EXPECT_EQ(0, render_syncobj_point(&self->to, zero, &point));
	EXPECT_EQ(0, point);
	EXPECT_EQ(0, render_syncobj_point(&self->to, seven, &point));
	EXPECT_EQ(7, point);
	EXPECT_EQ(0, render_syncobj_point(&self->to, late, &point));
	EXPECT_EQ(far, point);
	EXPECT_EQ(0, render_syncobj_wait_point(&self->to, seven, 2, 0));
	EXPECT_EQ(0, render_syncobj_wait_point(&self->to, seven, 7, 0));
	EXPECT_EQ(-EINVAL, render_syncobj_wait_point(&self->to, seven, 8, 0));
	EXPECT_EQ(0, render_syncobj_signal_point(&self->to, seven, 9));
	EXPECT_EQ(0, render_syncobj_wait_point(&self->to, seven, 8, 0));
	EXPECT_EQ(0, render_syncobj_point(&self->to, seven, &point));
	EXPECT_EQ(9, point);
}

static void *set_word(void *word)
{
	usleep(500000);
	__atomic_store_n((__u32 *)word, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Fences that are pending when the pause begins are signaled when it returns. */
TEST_F(syncobj, a_pause_waits_for_pending_fences)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .wait_word = 5, .word = 6,
				  .value = 0x600d };
	struct render_work work;
	__u32 binary, timeline;
	__u64 sequence, point;
	pthread_t thread;

	ASSERT_EQ(0, render_work_make(&self->node, &work));
	ASSERT_EQ(0, render_ctx_create(&self->node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx));
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &binary));
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &timeline));
	job.syncobj = binary;
	ASSERT_EQ(0, render_submit(&self->node, &work, &job, &sequence));
	job.syncobj = timeline;
	job.point = 5;
	ASSERT_EQ(0, render_submit(&self->node, &work, &job, &sequence));
	EXPECT_EQ(-ETIME, render_syncobj_wait(&self->node, binary, 1));
	EXPECT_EQ(0, render_syncobj_point(&self->node, timeline, &point));
	EXPECT_EQ(0, point);
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_word, &work.words[5]));
	save(_metadata, self);
	EXPECT_EQ(0x600d, work.words[6]);
	restore(_metadata, self);
	EXPECT_EQ(0, render_syncobj_wait(&self->to, binary, 0));
	EXPECT_EQ(0, render_syncobj_point(&self->to, timeline, &point));
	EXPECT_EQ(5, point);
	EXPECT_EQ(0, pthread_join(thread, NULL));
	render_work_unmap(&work);
}

TEST_F(syncobj, two_handles_of_one_file_stay_one_object)
{
	__u32 first, second;
	int fd;

	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &first));
	fd = render_syncobj_export(&self->node, first);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_syncobj_import(&self->node, fd, &second));
	ASSERT_NE(first, second);
	close(fd);
	save(_metadata, self);
	restore(_metadata, self);
	EXPECT_EQ(0, render_syncobj_signal_point(&self->to, first, 4));
	EXPECT_EQ(0, render_syncobj_wait_point(&self->to, second, 4, 0));
	EXPECT_EQ(0, render_syncobj_destroy(&self->to, first));
	EXPECT_EQ(0, render_syncobj_wait_point(&self->to, second, 4, 0));
}

/* Files of two GPUs, where there are two. */
TEST_F(syncobj, two_files_of_a_session_share_one_object)
{
	struct criu_node other, other_to;
	struct criu_image images[2];
	__u32 here, padding, there;
	int session, fd, index = render_open(&other, 1) ? 0 : 1;

	if (!index)
		ASSERT_EQ(0, render_open(&other, 0));
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &here));
	fd = render_syncobj_export(&self->node, here);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_syncobj_create(&other, 0, &padding));
	ASSERT_EQ(0, render_syncobj_import(&other, fd, &there));
	close(fd);
	session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, criu_checkpoint(&self->node, session, &images[0]));
	ASSERT_EQ(0, criu_checkpoint(&other, session, &images[1]));
	close(session);

	session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_keep(session));
	ASSERT_EQ(0, render_restore_to(&other_to, index, session, &images[1]));
	ASSERT_EQ(0, render_restore_to(&self->to, 0, session, &images[0]));
	close(session);
	EXPECT_EQ(0, render_syncobj_signal_point(&other_to, there, 4));
	EXPECT_EQ(0, render_syncobj_wait_point(&self->to, here, 4, 0));
	EXPECT_EQ(-EINVAL, render_syncobj_wait(&other_to, padding, 0));
	/* The files that were checkpointed keep their own object. */
	EXPECT_EQ(-EINVAL, render_syncobj_wait(&self->node, here, 0));
	criu_node_close(&other_to);
	EXPECT_EQ(0, render_syncobj_wait_point(&self->to, here, 4, 0));
	criu_node_close(&other);
	criu_image_free(&images[0]);
	criu_image_free(&images[1]);
}

static int wait_by_eventfd(const struct criu_node *node, __u32 handle, int fd)
{
	struct drm_syncobj_eventfd args = { .handle = handle, .fd = fd };

	return render_ioctl(node, DRM_IOCTL_SYNCOBJ_EVENTFD, &args);
}

TEST_F(syncobj, an_eventfd_that_waits_is_EOPNOTSUPP)
{
	__u64 count;
	__u32 handle;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &handle));
	ASSERT_EQ(0, wait_by_eventfd(&self->node, handle, fd));
	EXPECT_EQ(-EOPNOTSUPP, render_save(&self->node, &self->image));
	criu_image_free(&self->image);
	/* The process continues, and can be saved once the eventfd does not wait any longer. */
	EXPECT_EQ(0, render_syncobj_signal_point(&self->node, handle, 1));
	EXPECT_EQ(sizeof(count), read(fd, &count, sizeof(count)));
	save(_metadata, self);
	restore(_metadata, self);
	close(fd);
}

TEST_F(syncobj, invalid_records_are_refused)
{
	static const struct blob_fault faults[] = {
		BLOB_FAULT_FOR(": handle", "handle 0", blob_syncobj, handle, 0, -EBADMSG),
		BLOB_FAULT_FOR("its number occurs twice", "handle of the next", blob_syncobj,
			       handle, 2, -EBADMSG),
		BLOB_FAULT_FOR("unknown flags", "unknown flag", blob_syncobj, flags, 1 << 2,
			       -EOPNOTSUPP),
		BLOB_FAULT_FOR("state of a fence, but no fence", "timeline without fence",
			       blob_syncobj, flags, BLOB_SYNCOBJ_TIMELINE, -EBADMSG),
		BLOB_FAULT_FOR("object id", "no object", blob_syncobj, object_id, 0, -EBADMSG),
		BLOB_FAULT_FOR(": point", "point without a timeline", blob_syncobj, point, 1,
			       -EBADMSG),
		BLOB_FAULT_FOR("state of a fence, but no fence", "error without a fence",
			       blob_syncobj, error, -EIO, -EBADMSG),
		BLOB_FAULT_FOR("pad is not zero", "pad", blob_syncobj, pad, 1, -EBADMSG),
	};
	static const struct blob_fault of_fence[] = {
		BLOB_FAULT_FOR(": error", "error that is not an errno", blob_syncobj, error, 1,
			       -EBADMSG),
		BLOB_FAULT_FOR(": error", "error beyond the last", blob_syncobj, error, -4096,
			       -EBADMSG),
		BLOB_FAULT_FOR("pad is not zero", "pad", blob_syncobj, pad, 1, -EBADMSG),
	};
	__u32 handle;
	size_t i;

	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &handle));
	ASSERT_EQ(0, render_syncobj_create(&self->node, DRM_SYNCOBJ_CREATE_SIGNALED, &handle));
	save(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_SYNCOBJ, 0, 0,
			     &faults[i]);
	}
	for (i = 0; i < ARRAY_SIZE(of_fence); i++) {
		EXPECT_FAULT(&self->to, self->session, &self->image, BLOB_RENDER_SYNCOBJ, 1, 0,
			     &of_fence[i]);
	}
	restore(_metadata, self);
}

/* An error of a fence, as after a hung job: seen in a sync file of it. */
TEST_F(syncobj, the_error_of_a_fence_and_the_greatest_handle_are_restored)
{
	static const struct blob_fault error = BLOB_FAULT("", blob_syncobj, error, -ETIME, 0);
	/* The limit of kernels that have syncobjs in an IDR. */
	const bool all = kernel_is_at_least(7, 2);
	const struct blob_fault beyond = BLOB_FAULT("", blob_syncobj, handle, 0x80000000, 0);
	const struct blob_fault far = BLOB_FAULT("", blob_syncobj, handle,
						 all ? 0xffffffff : 0x7fffffff, 0);
	struct criu_image again;
	struct blob blob;
	__u32 handle;
	const struct blob_syncobj *record;

	ASSERT_EQ(0, render_syncobj_create(&self->node, DRM_SYNCOBJ_CREATE_SIGNALED, &handle));
	save(_metadata, self);
	ASSERT_EQ(0, blob_restore_fault(&self->to, self->session, &self->image,
					BLOB_RENDER_SYNCOBJ, 0, 0, &error));
	ASSERT_EQ(0, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(0, render_syncobj_wait(&self->to, handle, 0));
	ASSERT_EQ(0, render_save(&self->to, &again));
	blob = (struct blob) { .data = again.blob, .size = again.blob_size };
	record = blob_payload(&blob, blob_find(&blob, BLOB_RENDER_SYNCOBJ, 0));
	EXPECT_EQ(-ETIME, record->error);
	criu_image_free(&again);

	criu_node_close(&self->to);
	close(self->session);
	ASSERT_EQ(0, render_open(&self->to, 0));
	self->session = criu_session(&self->to, AMDGPU_CRIU_SESSION_RESTORE);
	if (!all) {
		EXPECT_EQ(-EOPNOTSUPP, blob_restore_fault(&self->to, self->session, &self->image,
							  BLOB_RENDER_SYNCOBJ, 0, 0, &beyond));
	}
	ASSERT_EQ(0, blob_restore_fault(&self->to, self->session, &self->image,
					BLOB_RENDER_SYNCOBJ, 0, 0, &far));
	ASSERT_EQ(0, criu_resume(&self->to, self->session, 0));
	EXPECT_EQ(0, render_syncobj_wait(&self->to, far.value, 0));
	EXPECT_EQ(-ENOENT, render_syncobj_wait(&self->to, handle, 0));
}

/* One id cannot be both a BO and a syncobj, and a syncobj has no dma-buf. */
TEST_F(syncobj, objects_of_different_kinds_are_not_confused)
{
	struct blob_fault fault = BLOB_FAULT("", blob_syncobj, object_id, 0, -EBADMSG);
	const struct blob_syncobj *record;
	struct blob blob;
	__u32 handle, bo;

	ASSERT_EQ(0, render_syncobj_create(&self->node, 0, &handle));
	ASSERT_EQ(0, render_bo_create(&self->node, 4096, AMDGPU_GEM_DOMAIN_GTT, 0, &bo));
	save(_metadata, self);
	ASSERT_EQ(1, self->image.num_bos);
	fault.value = self->image.bos[0].object_id;
	EXPECT_EQ(-EBADMSG, blob_restore_fault(&self->to, self->session, &self->image,
					       BLOB_RENDER_SYNCOBJ, 0, 0, &fault));
	/* It is refused when it is applied, not by a check. */
	EXPECT_NE(NULL, strstr(criu_reason, "cannot restore: -74")) {
		TH_LOG("%s", criu_reason);
	}
	restore(_metadata, self);
	blob = (struct blob) { .data = self->image.blob, .size = self->image.blob_size };
	record = blob_payload(&blob, blob_find(&blob, BLOB_RENDER_SYNCOBJ, 0));
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->to, self->session, record->object_id));
}

TEST_HARNESS_MAIN
