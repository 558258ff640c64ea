/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Time limits on a slow machine or kernel: PATIENCE=FACTOR in the environment multiplies them,
 * after CRIU_TEST_SECONDS, the time that a race lasts, is added. Include it after
 * kselftest_harness.h.
 */
#ifndef AMDGPU_CRIU_TEST_PATIENCE_H
#define AMDGPU_CRIU_TEST_PATIENCE_H

#include <stdlib.h>

static inline int patience(void)
{
	const char *text = getenv("PATIENCE");
	int factor = text ? atoi(text) : 1;

	return factor > 1 ? factor : 1;
}

#ifdef TEST_HARNESS_MAIN
static inline int patient_harness_run(int argc, char **argv)
{
	const char *seconds = getenv("CRIU_TEST_SECONDS");
	struct __fixture_metadata *fixture;
	struct __test_metadata *test;

	for (fixture = __fixture_list; fixture; fixture = fixture->next)
		for (test = fixture->tests; test; test = test->next)
			test->timeout = (test->timeout + (seconds ? atoi(seconds) : 0)) *
					patience();
	return test_harness_run(argc, argv);
}

#undef TEST_HARNESS_MAIN
#define TEST_HARNESS_MAIN \
	int main(int argc, char **argv) \
	{ \
		return patient_harness_run(argc, argv); \
	}
#endif

#endif /* AMDGPU_CRIU_TEST_PATIENCE_H */
