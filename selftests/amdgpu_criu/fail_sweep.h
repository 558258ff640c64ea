/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls an operation again and again, and each time another of its steps fails. Include it after
 * kselftest_harness.h.
 */
#ifndef AMDGPU_CRIU_TEST_FAIL_SWEEP_H
#define AMDGPU_CRIU_TEST_FAIL_SWEEP_H

#include "criu.h"
#include "fail_nth.h"

#define FAIL_SWEEP_MAX 100000
#define FAIL_SWEEP_NEEDS "needs root and FAULT_INJECTION_DEBUG_FS, FAILSLAB, FAIL_PAGE_ALLOC"

/*
 * One operation; its functions return 0 or a negative errno and get the data of the fixture.
 * @before: prepares the state in which it works
 * @call: calls it
 * @call_with_fault: calls it with a fault; NULL: in this thread. True if the fault has hit.
 * @failed: after a call that failed: nothing has changed
 * @done: after a call that succeeded, with or without a fault; undoes it
 * @fds: number of descriptors that must be the same after a call that failed; NULL: of the process
 * @opens: descriptors that are open after a call that succeeded, until @done; -1: any number
 * @allocates: at least one call has to fail, even if only allocations do
 */
struct fail_row {
	int (*before)(void *data);
	int (*call)(void *data);
	bool (*call_with_fault)(void *data, const struct fail_row *row, unsigned int nth, int *ret);
	int (*failed)(void *data);
	int (*done)(void *data);
	int (*fds)(void *data);
	int opens;
	bool allocates;
};

static inline bool fail_call(void *data, const struct fail_row *row, unsigned int nth, int *ret)
{
	int fault;

	if (row->call_with_fault)
		return row->call_with_fault(data, row, nth, ret);
	fault = fail_nth_arm(nth);
	*ret = fault < 0 ? fault : row->call(data);
	return fault >= 0 && fail_nth_disarm(fault);
}

static inline int fail_count_fds(void *data, const struct fail_row *row)
{
	return row->fds ? row->fds(data) : count_fds(getpid());
}

static inline void fail_sweep(struct __test_metadata *_metadata, void *data,
			      const struct fail_row *row)
{
	struct sample sample = sample_start();
	unsigned int nth, last = 0, calls = 0, refused = 0;
	bool hit = true;
	int fds, ret = -1;

	for (nth = 1; hit && nth < FAIL_SWEEP_MAX; nth = fail_nth_next(&sample, nth)) {
		ASSERT_EQ(0, row->before ? row->before(data) : 0) {
			TH_LOG("before fault %u", nth);
		}
		fds = fail_count_fds(data, row);
		hit = fail_call(data, row, nth, &ret);
		calls++;
		last = hit ? nth : last;
		if (ret || row->opens >= 0)
			EXPECT_EQ(fds + (ret ? 0 : row->opens), fail_count_fds(data, row)) {
				TH_LOG("descriptors after fault %u", nth);
			}
		if (!ret) {
			ASSERT_EQ(0, row->done ? row->done(data) : 0) {
				TH_LOG("after success with fault %u", nth);
			}
			continue;
		}
		refused++;
		/* Out of memory, or a bad pointer of the caller. */
		ASSERT_TRUE(hit && (ret == -ENOMEM || ret == -EFAULT)) {
			TH_LOG("fault %u: %d", nth, ret);
		}
		ASSERT_EQ(0, row->failed ? row->failed(data) : 0) {
			TH_LOG("after fault %u", nth);
		}
	}
	TH_LOG("%u faults of %u, one in %lu after %u, seed %#lx: %u calls failed", calls - 1, last,
	       sample.one_in, FAIL_NTH_ALL, sample.seed, refused);
	EXPECT_EQ(0, ret);
	if (!refused && !row->allocates && !fail_nth_copies())
		SKIP(return, "it allocates nothing, and needs FAULT_INJECTION_USERCOPY");
	EXPECT_LT(0, refused);
}

#endif /* AMDGPU_CRIU_TEST_FAIL_SWEEP_H */
