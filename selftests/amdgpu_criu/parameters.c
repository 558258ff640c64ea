// SPDX-License-Identifier: GPL-2.0
/*
 * A driver whose module parameters take features of the GPU away.
 *
 * cwsr_enable=0, as of a GPU without compute wave save/restore: queues are neither saved nor
 * restored, and AMDKFD_IOC_CRIU_OP saves none either.
 * vis_vramlimit=N, or a GPU with a small BAR: BOs that the CPU can access are refused.
 * user_queue=0, as of older firmware: user queues are refused.
 */
#include "kselftest_harness.h"

#include "blob_edit.h"
#include "carry.h"
#include "criu.h"
#include "golden_file.h"
#include "kfd.h"
#include "render_blob.h"

#define SOON 5000
#define VRAM "/sys/class/drm/renderD128/device/mem_info_"
/* Offsets in the record of a BO, as in kfd_criu_records.h. */
#define BO_ALLOC_FLAGS 48
#define BO_DOMAIN 56
#define REASON "cannot carry: a queue of a GPU without compute wave save/restore"

FIXTURE(no_cwsr) {
	struct kfd kfd;
	struct kfd_bo word;
	int session;
	struct amdgpu_criu_process_info info;
};

/* A number in sysfs, such as the value of a module parameter; -1 if it is unknown. */
static long parameter(const char *path)
{
	FILE *file = fopen(path, "re");
	long value = -1;

	if (file && fscanf(file, "%ld", &value) != 1)
		value = -1;
	if (file)
		fclose(file);
	return value;
}

FIXTURE_SETUP(no_cwsr)
{
	if (parameter("/sys/module/amdgpu/parameters/cwsr_enable"))
		SKIP(return, "the driver saves waves");
	ASSERT_EQ(0, kfd_open(&self->kfd));
	ASSERT_EQ(0, kfd_bo_alloc(&self->kfd, &self->word, KFD_GTT, 4096));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(no_cwsr)
{
	close(self->session);
	kfd_close(&self->kfd);
}

TEST_F(no_cwsr, a_process_without_queues_is_paused)
{
	EXPECT_EQ(0, criu_pause(&self->kfd.node, self->session, &self->info));
	EXPECT_EQ(0, criu_unpause(&self->kfd.node, self->session));
}

TEST_F(no_cwsr, queues_are_EOPNOTSUPP_and_continue)
{
	struct kfd_queue queue;

	ASSERT_EQ(0, kfd_sdma_create(&self->kfd, &queue));
	for (__u32 i = 1; i <= 3; i++) {
		EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->kfd.node, self->session, &self->info));
		EXPECT_EQ(0, strncmp(REASON, criu_reason, strlen(REASON)));
		kfd_sdma_write(&queue, self->word.at, i);
		EXPECT_TRUE(kfd_becomes(self->word.at, i, SOON));
	}
	EXPECT_EQ(0, kfd_queue_destroy(&self->kfd, queue.id));
	EXPECT_EQ(0, criu_pause(&self->kfd.node, self->session, &self->info));
}

/* See checkpoint_mqd() in kfd_device_queue_manager.c. */
TEST_F(no_cwsr, the_stock_ioctl_fails_with_EINVAL)
{
	static struct kfd_criu_device_bucket devices[8];
	static struct kfd_criu_bo_bucket bos[8];
	static char priv[0x40000];
	struct kfd_ioctl_criu_args args = { .op = KFD_CRIU_OP_PROCESS_INFO };
	struct kfd_queue queue;

	ASSERT_EQ(0, kfd_sdma_create(&self->kfd, &queue));
	ASSERT_EQ(0, ioctl(self->kfd.node.fd, AMDKFD_IOC_CRIU_OP, &args));
	ASSERT_GE(sizeof(priv), args.priv_data_size);
	ASSERT_GE(8, args.num_bos);
	args.op = KFD_CRIU_OP_CHECKPOINT;
	args.devices = (uintptr_t)devices;
	args.bos = (uintptr_t)bos;
	args.priv_data = (uintptr_t)priv;
	EXPECT_EQ(-1, ioctl(self->kfd.node.fd, AMDKFD_IOC_CRIU_OP, &args));
	EXPECT_EQ(EINVAL, errno);
	args = (struct kfd_ioctl_criu_args) { .op = KFD_CRIU_OP_UNPAUSE };
	EXPECT_EQ(0, ioctl(self->kfd.node.fd, AMDKFD_IOC_CRIU_OP, &args));
}

/* All memory in GTT, because the CPU cannot access the whole VRAM. */
static void move_to_gtt(struct blob *blob)
{
	size_t at;

	for (unsigned int i = 0; (at = blob_find(blob, BLOB_KFD_BO, i)); i++) {
		char *bo = blob_payload(blob, at);
		__u32 flags, domain = AMDGPU_CRIU_DOMAIN_GTT;

		memcpy(&flags, bo + BO_ALLOC_FLAGS, sizeof(flags));
		if (!(flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM))
			continue;
		flags = (flags & ~KFD_VRAM) | KFD_GTT;
		memcpy(bo + BO_ALLOC_FLAGS, &flags, sizeof(flags));
		memcpy(bo + BO_DOMAIN, &domain, sizeof(domain));
	}
	blob_repair(blob);
}

/* A saved wave would vanish, and on GFX9 the MQD has no room for the saved control stack. */
TEST(a_compute_queue_is_ENODEV_without_wave_save)
{
	struct carry carry = {};
	struct blob blob;
	struct kfd kfd;
	int session;

	if (parameter("/sys/module/amdgpu/parameters/cwsr_enable"))
		SKIP(return, "the driver saves waves");
	ASSERT_TRUE(golden_load("kfd-1-options", &blob));
	move_to_gtt(&blob);
	golden_tables(&carry, &blob);
	carry.image.blob = blob.data;
	carry.image.blob_size = blob.size;
	ASSERT_EQ(0, carry_open(&carry, &kfd));
	session = criu_session(&kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, session);
	EXPECT_EQ(-ENODEV, criu_restore(&kfd.node, session, &carry.image));
	EXPECT_NE(NULL, strstr(criu_reason, " has no compute wave save/restore")) {
		TH_LOG("%s", criu_reason);
	}
	close(session);
	carry_close(&carry, &kfd);
	carry_free(&carry);
}

static int make_gtt(struct kfd *kfd, struct carry *carry)
{
	struct kfd_bo bo;

	return kfd_bo_alloc(kfd, &bo, KFD_GTT, 65536);
}

FIXTURE(small_bar) {
	struct carry carry;
	struct blob blob;
	struct kfd kfd;
	int session;
};

FIXTURE_SETUP(small_bar)
{
	const struct carry_maker maker = { .make = make_gtt };

	if (parameter(VRAM "vis_vram_total") == parameter(VRAM "vram_total"))
		SKIP(return, "the CPU can access the whole VRAM");
	ASSERT_EQ(0, carry_make(&self->carry, &maker));
	ASSERT_EQ(0, carry_open(&self->carry, &self->kfd));
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, self->session);
	ASSERT_TRUE(blob_copy(&self->blob, self->carry.image.blob, self->carry.image.blob_size));
}

FIXTURE_TEARDOWN(small_bar)
{
	blob_free(&self->blob);
	close(self->session);
	carry_close(&self->carry, &self->kfd);
	carry_free(&self->carry);
}

TEST_F(small_bar, a_bo_that_the_cpu_could_access_is_ENODEV)
{
	struct amdgpu_criu_state args = criu_image_args(self->session, &self->carry.image);
	char *bo = blob_payload(&self->blob, blob_find(&self->blob, BLOB_KFD_BO, 0));
	const __u32 flags = KFD_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	const __u32 domain = AMDGPU_CRIU_DOMAIN_VRAM;

	memcpy(bo + BO_ALLOC_FLAGS, &flags, sizeof(flags));
	memcpy(bo + BO_DOMAIN, &domain, sizeof(domain));
	blob_repair(&self->blob);
	args.blob = (uintptr_t)self->blob.data;
	EXPECT_EQ(-ENODEV, criu_op(&self->kfd.node, RESTORE, &args));
	EXPECT_NE(NULL, strstr(criu_reason, "the CPU had access, GPU "));
	/* Nothing is left behind. */
	EXPECT_EQ(0, carry_restore(&self->carry, &self->kfd, self->session));
}

TEST(a_user_queue_is_ENODEV_without_user_queues)
{
	struct amdgpu_criu_bo bos[16];
	struct criu_image image = { .bos = bos };
	struct criu_node node;
	struct blob blob;
	int session;

	ASSERT_EQ(0, parameter("/sys/module/amdgpu/parameters/user_queue"));
	ASSERT_TRUE(golden_load("render-1-userq", &blob));
	image.blob = blob.data;
	image.blob_size = blob.size;
	image.num_bos = blob_render_table(&blob, bos);
	ASSERT_EQ(0, render_open(&node, 0));
	session = criu_session(&node, AMDGPU_CRIU_SESSION_RESTORE);
	ASSERT_LE(0, session);
	EXPECT_EQ(-ENODEV, criu_restore(&node, session, &image));
	EXPECT_NE(NULL, strstr(criu_reason, "the GPU has no user queues of type 1"));
	close(session);
	criu_node_close(&node);
	blob_free(&blob);
}

TEST_HARNESS_MAIN
