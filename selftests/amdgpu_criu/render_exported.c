// SPDX-License-Identifier: GPL-2.0
/*
 * BOs that only descriptors refer to: what EXPORTED saves, creates and refuses; and the file
 * through which DMABUF gives access to a BO that belongs to one VM.
 */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <sys/mman.h>

#include "answers.h"
#include "render.h"
#include "render_blob.h"
#include "sample.h"
#include "share.h"
#include "uffd.h"

#define SIZE 0x10000
#define SOON 5000

/* BOs of one VM: only the file that DMABUF was called on may open them. */
FIXTURE(one_vm) {
	struct criu_node node;
	struct criu_node copier;
	struct criu_node other;
	struct criu_image image;
	__u32 handle;
	int save;
};

FIXTURE_SETUP(one_vm)
{
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ASSERT_EQ(0, render_open(&self->copier, 0));
	ASSERT_EQ(0, render_open(&self->other, 0));
	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM,
				      AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, &self->handle));
	self->save = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->save);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->save, &self->image));
	ASSERT_EQ(1, self->image.num_bos);
}

FIXTURE_TEARDOWN(one_vm)
{
	criu_image_free(&self->image);
	if (self->save >= 0)
		close(self->save);
	criu_node_close(&self->node);
	criu_node_close(&self->copier);
	criu_node_close(&self->other);
}

TEST_F(one_vm, is_opened_by_the_file_that_copies_it)
{
	__u32 handle, none, *words, *copied;
	int fd;

	fd = criu_dmabuf(&self->copier, self->save, self->image.bos[0].object_id);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_bo_import(&self->copier, fd, &handle));
	EXPECT_EQ(-EPERM, render_bo_import(&self->other, fd, &none));
	ASSERT_EQ(0, criu_unpause(&self->node, self->save));
	words = render_bo_mmap(&self->node, self->handle, SIZE);
	copied = render_bo_mmap(&self->copier, handle, SIZE);
	ASSERT_NE(NULL, words);
	ASSERT_NE(NULL, copied);
	*words = 0x12345678;
	EXPECT_EQ(0x12345678, *copied);
	munmap(words, SIZE);
	munmap(copied, SIZE);
	EXPECT_EQ(0, render_bo_close(&self->copier, handle));
	close(fd);
}

TEST_F(one_vm, cannot_be_exported_by_its_process_afterwards)
{
	__u32 handle;
	int fd;

	fd = criu_dmabuf(&self->copier, self->save, self->image.bos[0].object_id);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_bo_import(&self->copier, fd, &handle));
	EXPECT_EQ(0, render_bo_close(&self->copier, handle));
	close(fd);
	close(self->save);
	self->save = -1;
	EXPECT_EQ(-EPERM, render_bo_export(&self->node, self->handle));
}

TEST_F(one_vm, is_filled_after_restore)
{
	int session = criu_session(&self->copier, AMDGPU_CRIU_SESSION_RESTORE);
	__u32 handle, *words, *copied;
	struct criu_node to;
	int fd;

	ASSERT_LE(0, session);
	ASSERT_EQ(0, render_open(&to, 0));
	ASSERT_EQ(0, criu_restore(&to, session, &self->image));
	fd = criu_dmabuf(&self->copier, session, self->image.bos[0].object_id);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, render_bo_import(&self->copier, fd, &handle));
	ASSERT_EQ(0, criu_resume(&to, session, 0));
	words = render_bo_mmap(&to, self->handle, SIZE);
	copied = render_bo_mmap(&self->copier, handle, SIZE);
	ASSERT_NE(NULL, words);
	ASSERT_NE(NULL, copied);
	copied[1] = 0x9abcdef0;
	EXPECT_EQ(0x9abcdef0, words[1]);
	munmap(words, SIZE);
	munmap(copied, SIZE);
	close(fd);
	close(session);
	criu_node_close(&to);
}

/* Refusals. */
FIXTURE(exported) {
	struct criu_node node;
	struct share_exported exported;
	__u32 handle;
	int dmabuf, save, restore;
};

FIXTURE_SETUP(exported)
{
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	self->save = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	self->restore = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_EQ(0, render_bo_create(&self->node, SIZE, AMDGPU_GEM_DOMAIN_VRAM, 0,
				      &self->handle));
	self->dmabuf = render_bo_export(&self->node, self->handle);
	ASSERT_LE(0, self->dmabuf);
	ASSERT_EQ(0, share_export_save(&self->node, self->save, self->dmabuf, &self->exported));
}

FIXTURE_TEARDOWN(exported)
{
	close(self->dmabuf);
	close(self->save);
	close(self->restore);
	criu_node_close(&self->node);
}

TEST_F(exported, returns_the_size_of_its_blob)
{
	struct amdgpu_criu_exported args = {
		.session_fd = self->save,
		.fd = self->dmabuf,
		.bo_stride = sizeof(self->exported.bo),
		.bo = (uintptr_t)&self->exported.bo,
	};
	size_t size = self->exported.blob_size;

	EXPECT_EQ(-ENOSPC, criu_op(&self->node, EXPORTED, &args));
	EXPECT_EQ(size, args.blob_size);
	args.blob = (uintptr_t)self->exported.blob;
	args.blob_size = size - 1;
	EXPECT_EQ(-ENOSPC, criu_op(&self->node, EXPORTED, &args));
	EXPECT_EQ(size, args.blob_size);
	EXPECT_EQ(0, criu_op(&self->node, EXPORTED, &args));
	args.blob_size = sizeof(self->exported.blob);
	EXPECT_EQ(0, criu_op(&self->node, EXPORTED, &args));
	EXPECT_EQ(size, args.blob_size);
}

TEST_F(exported, requires_a_descriptor_of_this_driver)
{
	struct udmabuf_create create = { .size = SIZE };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	struct share_exported *exported = &self->exported;
	int foreign;

	EXPECT_EQ(-EBADF, share_export_save(&self->node, self->save, -1, exported));
	EXPECT_EQ(-EINVAL, share_export_save(&self->node, self->save, null, exported));
	EXPECT_EQ(-EINVAL, share_export_save(&self->node, self->save, self->save, exported));
	close(null);
	if (udmabuf < 0)
		SKIP(return, "no /dev/udmabuf for a dma-buf of another driver");
	create.memfd = memfd_create("foreign", MFD_ALLOW_SEALING);
	ASSERT_LE(0, (int)create.memfd);
	ASSERT_EQ(0, ftruncate(create.memfd, SIZE));
	ASSERT_EQ(0, fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	foreign = ioctl(udmabuf, UDMABUF_CREATE, &create);
	ASSERT_LE(0, foreign);
	EXPECT_EQ(-EOPNOTSUPP, share_export_save(&self->node, self->save, foreign, exported));
	close(foreign);
	close(create.memfd);
	close(udmabuf);
}

TEST_F(exported, refuses_bad_strides_and_flags)
{
	struct amdgpu_criu_exported args = {
		.session_fd = self->save,
		.fd = self->dmabuf,
		.bo_stride = sizeof(self->exported.bo) - 8,
		.bo = (uintptr_t)&self->exported.bo,
		.blob = (uintptr_t)self->exported.blob,
		.blob_size = sizeof(self->exported.blob),
	};

	EXPECT_EQ(-EINVAL, criu_op(&self->node, EXPORTED, &args));
	args.bo_stride = sizeof(self->exported.bo) + 4;
	EXPECT_EQ(-EINVAL, criu_op(&self->node, EXPORTED, &args));
	args.bo_stride = sizeof(self->exported.bo);
	args.flags = 1;
	EXPECT_EQ(-EINVAL, criu_op(&self->node, EXPORTED, &args));
	args.flags = 0;
	args.session_fd = self->dmabuf;
	EXPECT_EQ(-EBADF, criu_op(&self->node, EXPORTED, &args));
	args.session_fd = self->save;
	args.bo = 8;
	EXPECT_EQ(-EFAULT, criu_op(&self->node, EXPORTED, &args));
}

TEST_F(exported, is_ENOTTY_on_dev_kfd)
{
	struct criu_node kfd;

	if (criu_node_open(&kfd, CRIU_NODE_KFD))
		SKIP(return, "no /dev/kfd");
	EXPECT_EQ(-ENOTTY, share_export_save(&kfd, self->save, self->dmabuf, &self->exported));
	criu_node_close(&kfd);
}

static int objects_of(int session)
{
	char path[64], line[128];
	int num = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", session);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "criu-session-objects: %d", &num);
	if (file)
		fclose(file);
	return num;
}

/* Each object once while the session is open, even if no process has it any longer. */
TEST_F(exported, a_session_holds_its_objects)
{
	__u64 id = self->exported.bo.object_id;
	int fd, again;

	EXPECT_EQ(1, objects_of(self->save));
	ASSERT_EQ(0, share_export_save(&self->node, self->save, self->dmabuf, &self->exported));
	EXPECT_EQ(1, objects_of(self->save));
	EXPECT_EQ(id, self->exported.bo.object_id);
	EXPECT_EQ(0, objects_of(self->restore));
	fd = share_export_restore(&self->node, self->restore, &self->exported);
	ASSERT_LE(0, fd);
	close(fd);
	EXPECT_EQ(1, objects_of(self->restore));
	fd = criu_dmabuf(&self->node, self->restore, id);
	again = share_export_restore(&self->node, self->restore, &self->exported);
	ASSERT_LE(0, fd);
	ASSERT_LE(0, again);
	EXPECT_TRUE(share_same_file(fd, again));
	EXPECT_EQ(1, objects_of(self->restore));
	close(fd);
	close(again);
	/* In another session it is a different object. */
	again = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, again);
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->node, again, id));
	close(again);
}

/* Memory that a restored process frees is free, even if its restorer keeps the session open. */
TEST_F(exported, the_last_resume_empties_the_session)
{
	struct criu_image image;
	struct criu_node to[2];
	size_t i;
	int fd;

	ASSERT_EQ(0, render_save(&self->node, &image));
	for (i = 0; i < ARRAY_SIZE(to); i++) {
		ASSERT_EQ(0, render_open(&to[i], 0));
		ASSERT_EQ(0, criu_restore(&to[i], self->restore, &image));
	}
	fd = share_export_restore(&self->node, self->restore, &self->exported);
	ASSERT_LE(0, fd);
	close(fd);
	ASSERT_EQ(0, criu_resume(&to[1], self->restore, 0));
	EXPECT_LT(0, objects_of(self->restore));
	ASSERT_EQ(0, criu_resume(&to[0], self->restore, 0));
	EXPECT_EQ(0, objects_of(self->restore));
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->node, self->restore, image.bos[0].object_id));
	for (i = 0; i < ARRAY_SIZE(to); i++)
		criu_node_close(&to[i]);
	criu_image_free(&image);
}

struct late {
	const struct criu_node *node;
	struct amdgpu_criu_exported args;
	int ret;
};

static void *export_late(void *data)
{
	struct late *late = data;

	late->ret = criu_op(late->node, EXPORTED, &late->args);
	return NULL;
}

/* Its own object is gone when the session was emptied. Another call may have created a new one. */
TEST_F(exported, a_call_that_fails_late_drops_no_object_of_another)
{
	struct late late = { .node = &self->node, .args = {
		.session_fd = self->restore,
		.bo_stride = sizeof(self->exported.bo),
		.blob = (uintptr_t)self->exported.blob,
		.blob_size = self->exported.blob_size,
	} };
	struct criu_image empty;
	struct criu_node from, to;
	struct uffd answer = {};
	pthread_t thread;
	int ret;

	ret = uffd_make(&answer, true, &self->exported.bo, sizeof(self->exported.bo));
	if (ret)
		SKIP(return, "no userfaultfd that stops the kernel: %s", strerror(-ret));
	late.args.bo = (uintptr_t)answer.at;
	ASSERT_EQ(0, render_open(&from, 0));
	ASSERT_EQ(0, render_open(&to, 0));
	ASSERT_EQ(0, render_save(&from, &empty));
	ASSERT_EQ(0, pthread_create(&thread, NULL, export_late, &late));
	ASSERT_TRUE(uffd_is_waited_for(&answer, SOON * patience()));
	EXPECT_EQ(1, objects_of(self->restore));
	ASSERT_EQ(0, criu_restore(&to, self->restore, &empty));
	ASSERT_EQ(0, criu_resume(&to, self->restore, 0));
	EXPECT_EQ(0, objects_of(self->restore));
	ret = share_export_restore(&self->node, self->restore, &self->exported);
	ASSERT_LE(0, ret);
	close(ret);
	EXPECT_EQ(0, uffd_take_away(&answer));
	pthread_join(thread, NULL);
	EXPECT_EQ(-EFAULT, late.ret);
	EXPECT_EQ(1, objects_of(self->restore));
	uffd_close(&answer);
	criu_image_free(&empty);
	criu_node_close(&from);
	criu_node_close(&to);
}

/* A field of the record, an invalid value, and the expected error. */
static const struct blob_fault faults[] = {
	BLOB_FAULT("id 0", blob_object, object_id, 0, -EBADMSG),
	BLOB_FAULT("no size", blob_object, size, 0, -EBADMSG),
	BLOB_FAULT("size that is not whole pages", blob_object, size, SIZE + 1, -EBADMSG),
	BLOB_FAULT("huge size", blob_object, size, 1ULL << 50, -EBADMSG),
	BLOB_FAULT("of one VM", blob_object, create_flags, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID,
		   -EBADMSG),
	BLOB_FAULT("encrypted", blob_object, create_flags, AMDGPU_GEM_CREATE_ENCRYPTED,
		   -EOPNOTSUPP),
	BLOB_FAULT("unknown flag", blob_object, create_flags, 1ULL << 60, -EOPNOTSUPP),
};

TEST_F(exported, an_invalid_record_is_refused)
{
	struct share_exported spoiled;
	struct blob_object *object;
	struct blob blob;
	size_t i, at;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		spoiled = self->exported;
		blob.data = spoiled.blob;
		blob.size = spoiled.blob_size;
		at = blob_find(&blob, BLOB_RENDER_OBJECT, 0);
		ASSERT_NE(0, at);
		object = blob_payload(&blob, at);
		memcpy((char *)object + faults[i].offset, &faults[i].value, faults[i].size);
		spoiled.bo.object_id = object->object_id;
		spoiled.bo.size = object->size;
		blob_repair(&blob);
		EXPECT_EQ(faults[i].error, share_export_restore(&self->node, self->restore,
								&spoiled)) {
			TH_LOG("%s", faults[i].what);
		}
	}
	/* None of them was created. */
	EXPECT_EQ(-ENOENT, criu_dmabuf(&self->node, self->restore, self->exported.bo.object_id));
}

/* Such a blob is accepted, or refused with one of these errors, without harm. */
static const struct answer exported_answers[] = {
	{ -EBADMSG, "the blob contradicts itself or the BO's entry" },
	{ -EOPNOTSUPP, "a record, a version or a flag that this kernel does not know" },
	{ -ENODEV, "a GPU or a heap that does not exist" },
	{ -ENOMEM, "more memory than the GPU has" },
	{ -EINVAL, "a heap or a flag that the ordinary ioctl refuses" },
};

TEST_F(exported, random_words_do_no_harm)
{
	int round, session, ret, taken = 0, refused = 0;
	struct answers answers = ANSWERS(exported_answers);
	struct share_exported spoiled;
	struct blob_object *object;
	struct blob blob;
	__u32 *words;
	size_t at;

	srand(sample_seed());
	for (round = 0; round < 500; round++) {
		session = criu_session(&self->node, AMDGPU_CRIU_SESSION_RESTORE);
		ASSERT_LE(0, session);
		spoiled = self->exported;
		blob.data = spoiled.blob;
		blob.size = spoiled.blob_size;
		at = blob_find(&blob, BLOB_RENDER_OBJECT, 0);
		words = blob_payload(&blob, at);
		words[rand() % (blob_record(&blob, at)->size / sizeof(*words))] ^=
			rand() % 2 ? 1u << rand() % 32 : (__u32)rand();
		object = blob_payload(&blob, at);
		spoiled.bo.object_id = object->object_id;
		/* A size that is valid, but not for this BO. */
		if (object->size > 64 * SIZE)
			object->size = SIZE;
		spoiled.bo.size = object->size;
		blob_repair(&blob);
		ret = share_export_restore(&self->node, session, &spoiled);
		taken += ret >= 0;
		refused += ret < 0;
		EXPECT_TRUE(ret >= 0 || answer_is_known(&answers, ret)) {
			TH_LOG("round %d: %s", round, strerror(-ret));
		}
		if (ret >= 0)
			close(ret);
		close(session);
	}
	answers_log(&answers);
	TH_LOG("taken %d, refused %d", taken, refused);
	EXPECT_LT(0, taken);
	EXPECT_LT(0, refused);
	EXPECT_EQ(1, objects_of(self->save));
}

TEST_F(exported, an_entry_of_another_bo_is_EBADMSG)
{
	self->exported.bo.size *= 2;
	EXPECT_EQ(-EBADMSG, share_export_restore(&self->node, self->restore, &self->exported));
	self->exported.bo.size /= 2;
	self->exported.bo.object_id++;
	EXPECT_EQ(-EBADMSG, share_export_restore(&self->node, self->restore, &self->exported));
}

/* It has records that EXPORTED does not accept. */
TEST_F(exported, a_blob_of_a_file_is_EOPNOTSUPP)
{
	struct criu_image image;

	close(self->dmabuf);
	ASSERT_EQ(0, criu_checkpoint(&self->node, self->save, &image));
	ASSERT_LE(image.blob_size, sizeof(self->exported.blob));
	memcpy(self->exported.blob, image.blob, image.blob_size);
	self->exported.blob_size = image.blob_size;
	self->exported.bo = image.bos[0];
	EXPECT_EQ(-EOPNOTSUPP, share_export_restore(&self->node, self->restore, &self->exported));
	criu_image_free(&image);
	ASSERT_EQ(0, criu_unpause(&self->node, self->save));
	self->dmabuf = render_bo_export(&self->node, self->handle);
}

TEST_HARNESS_MAIN
