/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The results that an operation may return for randomly changed blobs: a table of errors with
 * their reasons. Each result is counted. To be included after kselftest_harness.h.
 */
#ifndef AMDGPU_CRIU_TEST_ANSWERS_H
#define AMDGPU_CRIU_TEST_ANSWERS_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ANSWERS_MAX 16

struct answer {
	int error;
	const char *why;
};

struct answers {
	const struct answer *table;
	unsigned int num;
	unsigned long given[ANSWERS_MAX];
};

#define ANSWERS(answers_table) { .table = (answers_table), .num = ARRAY_SIZE(answers_table) }

/* False if the table has no reason for this answer. */
static inline bool answer_is_known(struct answers *answers, int error)
{
	for (unsigned int i = 0; i < answers->num && i < ANSWERS_MAX; i++) {
		if (answers->table[i].error != error)
			continue;
		answers->given[i]++;
		return true;
	}
	return false;
}

static inline void answers_log(const struct answers *answers)
{
	for (unsigned int i = 0; i < answers->num && i < ANSWERS_MAX; i++)
		fprintf(stderr, "# %lu times %s: %s\n", answers->given[i],
			strerror(-answers->table[i].error), answers->table[i].why);
}

#endif /* AMDGPU_CRIU_TEST_ANSWERS_H */
