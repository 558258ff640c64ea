/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes (workers) that are killed and started again at random for CRIU_TEST_SECONDS. Include it
 * after kselftest_harness.h.
 */
#ifndef AMDGPU_CRIU_TEST_RACE_H
#define AMDGPU_CRIU_TEST_RACE_H

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "patience.h"
#include "sample.h"

#define RACE_SECONDS 3
#define RACE_WORKERS_MAX 8
#define RACE_COUNTS_MAX 16

/* In memory of all processes. */
struct race_score {
	/* How often each worker, or thread of one, has completed a round. */
	unsigned int rounds[RACE_COUNTS_MAX];
	/* An unexpected result, and the worker that got it. */
	int error, whose;
};

struct race {
	struct race_score *score;
	pid_t workers[RACE_WORKERS_MAX];
	int num_workers;
	/* Maximum time between two kills. */
	int pause_us;
	/* A worker: runs until it is killed, or returns after an error, which it has counted. */
	void (*work)(void *test, int worker);
	void *test;
	unsigned int seed;
};

/* The caller sets the other fields. */
static inline int race_init(struct race *race)
{
	race->seed = sample_seed();
	race->score = mmap(NULL, sizeof(*race->score), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return race->score == MAP_FAILED ? -errno : 0;
}

static inline void race_fini(struct race *race)
{
	munmap(race->score, sizeof(*race->score));
}

/* Counts a round of a worker or a thread, or its unexpected result. */
static inline void race_count(struct race_score *score, int number, int ret)
{
	if (!ret) {
		score->rounds[number]++;
		return;
	}
	score->whose = number;
	score->error = ret;
}

static inline int race_start(struct race *race, int worker)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		race->work(race->test, worker);
		_exit(1);
	}
	race->workers[worker] = pid;
	return pid < 0 ? -errno : 0;
}

static inline void race_end(struct race *race, int worker)
{
	kill(race->workers[worker], SIGKILL);
	waitpid(race->workers[worker], NULL, 0);
}

/* Milliseconds. */
static inline long long race_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

/* Waits until each of @num workers and threads has completed a round. */
static inline void race_wait_for_all(const struct race *race, int num, long long limit)
{
	const volatile struct race_score *score = race->score;

	for (int i = 0; i < num; i++)
		while (!score->rounds[i] && !score->error && race_now() < limit)
			usleep(10000);
}

/*
 * Runs all workers. Their results, and those of threads, are in the first @num elements of the
 * score. On a slow machine a worker may be killed each time before it has completed a round, so the
 * last ones live until they have.
 */
static inline int race_run(struct race *race, int num)
{
	const long long time = 1000LL * patience() *
			       sample_number("CRIU_TEST_SECONDS", RACE_SECONDS);
	const long long stop = race_now() + time;
	int started = 0, ret = 0;

	while (!ret && started < race->num_workers) {
		ret = race_start(race, started);
		started += !ret;
	}
	while (!ret && race_now() < stop && !race->score->error) {
		const int worker = rand_r(&race->seed) % race->num_workers;

		usleep(rand_r(&race->seed) % race->pause_us * patience());
		race_end(race, worker);
		ret = race_start(race, worker);
	}
	if (!ret)
		race_wait_for_all(race, num, stop + 2 * time);
	for (int worker = 0; worker < started; worker++)
		if (race->workers[worker] > 0)
			race_end(race, worker);
	return ret;
}

/* Expects no unexpected result, and at least one round of each of @num workers and threads. */
#define RACE_EXPECT_GOOD(race, num) do { \
	const struct race_score *score_ = (race)->score; \
	\
	EXPECT_EQ(0, score_->error) { \
		TH_LOG("worker or thread %d", score_->whose); \
	} \
	for (int i_ = 0; i_ < (num); i_++) { \
		EXPECT_LT(0, score_->rounds[i_]) { \
			TH_LOG("worker or thread %d", i_); \
		} \
	} \
} while (0)

#endif /* AMDGPU_CRIU_TEST_RACE_H */
