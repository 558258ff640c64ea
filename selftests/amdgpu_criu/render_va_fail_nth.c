// SPDX-License-Identifier: GPL-2.0
/* Updates of page tables that fail for lack of memory: the tables and the fences stay whole. */
#include "kselftest_harness.h"

#include "complaints.h"
#include "fail_sweep.h"
#include "render.h"

#define PAGE 0x1000ULL
/* What one page table maps, and one entry of its directory. */
#define TABLE 0x200000ULL
#define VA 0x80000000ULL
/* More than a fence has references. */
#define MAPPINGS 16

FIXTURE(fail_nth) {
	struct criu_node node;
	struct render_work work;
	__u32 small, large;
};

FIXTURE_SETUP(fail_nth)
{
	int ret;

	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	ret = fail_nth_prepare();
	if (ret == -ENOENT || ret == -EACCES || ret == -EPERM)
		SKIP(return, FAIL_SWEEP_NEEDS);
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, render_work_make(&self->node, &self->work));
	ASSERT_EQ(0, render_bo_create(&self->node, PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0, &self->small));
	ASSERT_EQ(0, render_bo_create(&self->node, TABLE + PAGE, AMDGPU_GEM_DOMAIN_VRAM, 0,
				      &self->large));
	/* The ioctl succeeds if the mapping is noted, also if no page table has it. */
	complaints_allow("ERROR.*Couldn't update BO_VA");
}

FIXTURE_TEARDOWN(fail_nth)
{
	render_work_unmap(&self->work);
	criu_node_close(&self->node);
	complaints_disallow();
}

/* A huge page replaces the table of a small one; the table behind it cannot be allocated. */
TEST_F_TIMEOUT(fail_nth, a_page_table_that_was_to_be_replaced_stays_in_its_vm, 600)
{
	unsigned int nth;
	bool hit = true;
	__u64 va = VA;
	int fault;

	for (nth = 1; hit; nth++, va += 4 * TABLE) {
		ASSERT_EQ(0, render_va_map(&self->node, self->small, va, PAGE));
		ASSERT_EQ(0, render_va_unmap(&self->node, self->small, va, PAGE));
		fault = fail_nth_arm(nth);
		ASSERT_LE(0, fault);
		render_va_map(&self->node, self->large, va, TABLE + PAGE);
		hit = fail_nth_disarm(fault);
	}
	TH_LOG("%u faults", nth - 2);
	EXPECT_LT(2, nth);
	ASSERT_EQ(0, render_va_unmap(&self->node, self->large, va - 4 * TABLE, TABLE + PAGE));
}

#define FAILSLAB_TIMES FAIL_NTH_DEBUGFS "failslab/times"
/* More than any test causes */
#define MANY_FAULTS "1000000"

/* Both steps of an allocation in an xarray fail, which no single fault achieves. */
static int fail_xarrays(bool fail)
{
	static const struct {
		const char *path;
		const char *on;
		const char *off;
	} settings[] = {
		{ "/sys/kernel/slab/radix_tree_node/failslab", "1", "0" },
		{ FAIL_NTH_DEBUGFS "failslab/cache-filter", "Y", "N" },
		{ FAIL_NTH_DEBUGFS "failslab/task-filter", "Y", "N" },
		{ FAILSLAB_TIMES, MANY_FAULTS, "1" },
		{ FAIL_NTH_DEBUGFS "failslab/probability", "100", "0" },
		{ "/proc/thread-self/make-it-fail", "1", "0" },
	};
	const size_t num = sizeof(settings) / sizeof(settings[0]);
	size_t i;
	int ret = 0;

	for (i = 0; i < num && !ret; i++) {
		size_t at = fail ? i : num - 1 - i;

		ret = criu_write_file(settings[at].path, fail ? settings[at].on : settings[at].off);
	}
	return ret;
}

/* Allocations that have failed since fail_xarrays(true), which count down, or an error. */
static int count_failed(void)
{
	FILE *file = fopen(FAILSLAB_TIMES, "re");
	int left, ret = -errno;

	if (!file)
		return ret;
	ret = fscanf(file, "%d", &left) == 1 ? atoi(MANY_FAULTS) - left : -EIO;
	fclose(file);
	return ret;
}

/* The update waits for jobs of two contexts, and only the first fence fits without memory. */
TEST_F_TIMEOUT(fail_nth, a_fence_that_a_job_cannot_wait_for_stays_whole, 120)
{
	struct render_job jobs[2] = {};
	__u64 sequence[2];
	unsigned int i;

	for (i = 0; i < MAPPINGS; i++)
		ASSERT_EQ(0, render_va_map(&self->node, self->small, VA + i * PAGE, PAGE));
	self->work.words[1] = 0;
	for (i = 0; i < 2; i++) {
		jobs[i] = (struct render_job) {
			.hw_ip = AMDGPU_HW_IP_COMPUTE, .ring = i, .wait_word = 1, .word = 2 + i,
			.value = 1,
		};
		ASSERT_EQ(0, render_ctx_create(&self->node, 0, &jobs[i].ctx));
		ASSERT_EQ(0, render_submit(&self->node, &self->work, &jobs[i], &sequence[i]));
	}
	ASSERT_EQ(0, fail_xarrays(true));
	for (i = 0; i < MAPPINGS; i++)
		EXPECT_EQ(0, render_va_unmap(&self->node, self->small, VA + i * PAGE, PAGE));
	EXPECT_LT(0, count_failed());
	ASSERT_EQ(0, fail_xarrays(false));
	self->work.words[1] = 1;
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, render_wait(&self->node, &jobs[i], sequence[i], 10 * RENDER_SECOND));
		EXPECT_EQ(0, render_ctx_free(&self->node, jobs[i].ctx));
	}
}

TEST_HARNESS_MAIN
