// SPDX-License-Identifier: GPL-2.0
/* A process has queues on two GPUs, and the first one is reset. */
#include "kselftest_harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "kfd.h"
#include "patience.h"
#include "reset.h"

/* Of kfd_suspend_all_processes(), if kfd_process_evict_queues() fails */
#define NOT_STOPPED "Failed to suspend process"

FIXTURE(reset) {
	struct kfd kfd, peer;
	int session, log;
};

/* The driver does not survive the reset of a GPU with XGMI peers. */
static bool in_hive(const struct kfd_gpu *gpu)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/class/drm/renderD%d/device/xgmi_hive_info",
		 gpu->render_minor);
	return !access(path, F_OK);
}

FIXTURE_SETUP(reset)
{
	struct kfd *gpus[] = { &self->kfd, &self->peer };

	if (reset_is_forbidden())
		SKIP(return, RESET_FORBIDDEN);
	ASSERT_EQ(0, kfd_open(&self->kfd));
	if (in_hive(&self->kfd.gpu) || kfd_open_other(&self->kfd, 1, &self->peer))
		SKIP(return, "needs two GPUs without XGMI");
	self->log = complaints_open();
	ASSERT_LE(0, self->log);
	for (int i = 0; i < 2; i++) {
		struct kfd_queue queue;

		ASSERT_EQ(0, kfd_sdma_create(gpus[i], &queue));
	}
	self->session = criu_session(&self->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
	complaints_allow(RESET_COMPLAINTS);
}

FIXTURE_TEARDOWN(reset)
{
	complaints_disallow();
	close(self->session);
	close(self->peer.drm_fd);
	kfd_close(&self->kfd);
	close(self->log);
}

/* The other GPU stops, and does not hide that. */
TEST_F_TIMEOUT(reset, a_gpu_that_does_not_stop_fails_an_eviction, 180)
{
	ASSERT_EQ(0, reset_gpu());
	EXPECT_TRUE(complaints_wait(self->log, NOT_STOPPED, 5 * patience()));
}

static void *reset_in_thread(void *done)
{
	int ret = reset_gpu();

	*(atomic_int *)done = ret ? ret : 1;
	return NULL;
}

TEST_F_TIMEOUT(reset, no_pause_succeeds_once_a_gpu_is_being_reset, 180)
{
	struct amdgpu_criu_process_info info;
	unsigned int refused = 0;
	atomic_int done = 0;
	pthread_t thread;
	int ret;

	ASSERT_EQ(0, criu_pause(&self->kfd.node, self->session, &info));
	ASSERT_EQ(0, criu_unpause(&self->kfd.node, self->session));
	ASSERT_EQ(0, pthread_create(&thread, NULL, reset_in_thread, &done));
	do {
		ret = criu_pause(&self->kfd.node, self->session, &info);
		if (ret)
			refused++;
		else
			criu_unpause(&self->kfd.node, self->session);
		ASSERT_TRUE(ret || !refused);
	} while (!done);
	pthread_join(thread, NULL);
	EXPECT_EQ(1, done);
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->kfd.node, self->session, &info));
	EXPECT_STREQ("cannot carry: memory that a reset of the GPU has lost", criu_reason);
	TH_LOG("refused %u times during the reset", refused);
}

TEST_HARNESS_MAIN
