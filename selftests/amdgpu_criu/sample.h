/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Long series of cases, or a sample of them for a machine on which they would take hours.
 * CRIU_TEST_SAMPLE=K in the environment selects one in K at random. Each run has another seed,
 * which the test prints; CRIU_TEST_SEED=SEED repeats the run.
 */
#ifndef AMDGPU_CRIU_TEST_SAMPLE_H
#define AMDGPU_CRIU_TEST_SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct sample {
	unsigned long one_in, seed;
	unsigned long long random;
};

static inline unsigned long sample_number(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 0) : otherwise;
}

/* The same for a process and its children, if it asked first. */
static inline unsigned long sample_seed(void)
{
	static unsigned long seed;
	struct timespec now;

	if (seed)
		return seed;
	/* A list of what the tests reach would differ from run to run. */
	unsetenv("CRIU_TEST_REASONS");
	clock_gettime(CLOCK_REALTIME, &now);
	seed = sample_number("CRIU_TEST_SEED", (now.tv_sec ^ now.tv_nsec) & 0x7fffffff);
	if (!seed)
		seed = 1;
	fprintf(stderr, "# CRIU_TEST_SEED=%lu\n", seed);
	return seed;
}

static inline struct sample sample_start(void)
{
	struct sample sample = {
		.one_in = sample_number("CRIU_TEST_SAMPLE", 1),
		.seed = sample_seed(),
	};

	if (!sample.one_in)
		sample.one_in = 1;
	sample.random = sample.seed * 2 + 1;
	return sample;
}

/* The distance to the next case: 1 for all of them, otherwise one_in on average. */
static inline unsigned long sample_step(struct sample *sample)
{
	if (sample->one_in == 1)
		return 1;
	sample->random ^= sample->random << 13;
	sample->random ^= sample->random >> 7;
	sample->random ^= sample->random << 17;
	return 1 + (sample->random >> 16) % (2 * sample->one_in - 1);
}

#endif /* AMDGPU_CRIU_TEST_SAMPLE_H */
