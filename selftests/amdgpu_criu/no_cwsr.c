// SPDX-License-Identifier: GPL-2.0
/*
 * A driver with the module parameter cwsr_enable=0, or a GPU without compute wave save/restore:
 * queues are refused, and AMDKFD_IOC_CRIU_OP saves none either.
 */
#include "kselftest_harness.h"

#include "criu.h"
#include "kfd.h"

#define SOON 5000
#define REASON "cannot carry: a queue of a GPU without compute wave save/restore"

FIXTURE(no_cwsr) {
	struct kfd kfd;
	struct kfd_bo word;
	int session;
	struct amdgpu_criu_process_info info;
};

static bool is_off(void)
{
	FILE *file = fopen("/sys/module/amdgpu/parameters/cwsr_enable", "re");
	int on = 1, found = file ? fscanf(file, "%d", &on) : 0;

	if (file)
		fclose(file);
	return found == 1 && !on;
}

FIXTURE_SETUP(no_cwsr)
{
	if (!is_off())
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

TEST_HARNESS_MAIN
