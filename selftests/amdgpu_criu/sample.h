/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Long series of cases, or a sample of them for a machine on which they would take hours. The
 * environment says which: AMDGPU_CRIU_SAMPLE=K takes one in K, by chance, from AMDGPU_CRIU_SEED.
 */
#ifndef AMDGPU_CRIU_TEST_SAMPLE_H
#define AMDGPU_CRIU_TEST_SAMPLE_H

#include <stdlib.h>

struct sample {
	unsigned long one_in, seed;
	unsigned long long random;
};

static inline unsigned long sample_number(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 0) : otherwise;
}

static inline struct sample sample_start(void)
{
	struct sample sample = {
		.one_in = sample_number("AMDGPU_CRIU_SAMPLE", 1),
		.seed = sample_number("AMDGPU_CRIU_SEED", 0x9e3779b9),
	};

	if (!sample.one_in)
		sample.one_in = 1;
	sample.random = sample.seed * 2 + 1;
	return sample;
}

/* How far it is to the next case: 1 for all of them, otherwise one_in in the middle. */
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
