// SPDX-License-Identifier: GPL-2.0
/*
 * A signal interrupts RESTORE, and another thread handles it while RESTORE undoes what it did. The
 * kernel then restarts the call, as if the other thread had got the signal at once.
 */
#include "kinds.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "render.h"

/* Jobs that wait for this word of the work BO, more than a GPU has engines */
#define GATE 7
#define JOBS 24
/* Each job writes 1 to a word from here when it starts. */
#define STARTED (GATE + 1 + JOBS)

static atomic_int handled_by;
static atomic_bool restored, sent;

static void handle(int signal)
{
	handled_by = gettid();
}

struct blocker {
	struct criu_node node;
	struct render_work work;
	pthread_t thread;
};

static int started(const struct blocker *blocker)
{
	int num = 0;

	for (int i = 0; i < JOBS; i++)
		num += __atomic_load_n(&blocker->work.words[STARTED + i], __ATOMIC_SEQ_CST);
	return num;
}

/*
 * Submissions of page tables wait behind the jobs. A job starts only when its own page tables are
 * done, so wait until each engine has started one.
 */
static int block_engines(struct blocker *blocker)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .wait_word = GATE, .value = 1 };
	int engines, ret = render_open(&blocker->node, 0);
	__u64 sequence;

	if (!ret)
		ret = render_work_make(&blocker->node, &blocker->work);
	for (int i = 0; !ret && i < JOBS; i++) {
		job.start_word = STARTED + i;
		job.word = GATE + 1 + i;
		ret = render_ctx_create(&blocker->node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx);
		if (!ret)
			ret = render_submit(&blocker->node, &blocker->work, &job, &sequence);
	}
	if (ret)
		return ret;
	engines = __builtin_popcount(render_rings(&blocker->node, AMDGPU_HW_IP_DMA));
	for (int i = 0; started(blocker) < engines; i++) {
		if (i == 1000 * patience())
			return -ETIME;
		usleep(10000);
	}
	return 0;
}

/* Signals the process while RESTORE waits, then lets the engines continue. */
static void *send_signal(void *data)
{
	struct blocker *blocker = data;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	usleep(500000 * patience());
	if (!restored) {
		sent = true;
		kill(getpid(), SIGUSR1);
	}
	usleep(500000 * patience());
	__atomic_store_n(&blocker->work.words[GATE], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* At once, also if there is one CPU. */
static void *take_signal(void *data)
{
	const struct sched_param param = { .sched_priority = 1 };

	pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	while (!restored)
		usleep(100000);
	return NULL;
}

TEST_F(kinds, a_restore_whose_signal_another_thread_takes_is_restarted)
{
	const struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	struct blocker blocker;
	pthread_t taker;
	int ret;

	ASSERT_EQ(0, make(self, make_words, NULL));
	ASSERT_EQ(0, block_engines(&blocker));
	/* A VM whose page directory is not cleared yet */
	carry_close(&self->carry, &self->kfd);
	ASSERT_EQ(0, carry_open(&self->carry, &self->kfd));
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, pthread_create(&taker, NULL, take_signal, NULL));
	ASSERT_EQ(0, pthread_create(&blocker.thread, NULL, send_signal, &blocker));
	ret = criu_restore(&self->kfd.node, self->session, &self->carry.image);
	restored = true;
	pthread_join(taker, NULL);
	pthread_join(blocker.thread, NULL);
	criu_node_close(&blocker.node);
	ASSERT_EQ(0, ret) {
		TH_LOG("%s", criu_reason);
	}
	if (!sent)
		SKIP(return, "RESTORE waits for no engine: the CPU writes page tables");
	TH_LOG("the signal was handled by thread %d of process %d", handled_by, getpid());
	EXPECT_NE(0, handled_by);
	ASSERT_EQ(0, carry_fill(&self->carry));
	EXPECT_EQ(0, criu_resume(&self->kfd.node, self->session, 0));
}


TEST_HARNESS_MAIN
