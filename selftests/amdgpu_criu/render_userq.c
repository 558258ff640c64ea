// SPDX-License-Identifier: GPL-2.0
/*
 * User queues: the process writes packets and rings a doorbell, without an ioctl. PROCESS_INFO
 * refuses a file that has one, and the queue runs on.
 */
#include "kselftest_harness.h"

#include <time.h>

#include "render.h"

/* As the driver of 7.2 has them; older headers do not. */
#define IOC_USERQ DRM_IOWR(DRM_COMMAND_BASE + 0x16, struct userq)
#define USERQ_CREATE 1
#define USERQ_FREE 2
/* ENOTSUPP of the kernel: the driver runs without user queues. */
#define NOT_SUPPORTED 524

struct userq {
	__u32 op;
	__u32 queue_id;
	__u32 ip_type;
	__u32 doorbell_handle;
	__u32 doorbell_offset;
	__u32 flags;
	__u64 queue_va;
	__u64 queue_size;
	__u64 rptr_va;
	__u64 wptr_va;
	__u64 mqd;
	__u64 mqd_size;
};

#define PAGE 0x1000
#define VA 0x600000
/* One BO: the ring, the read pointer, what packets write, and an EOP buffer or a CSA. */
#define RPTR 0x1000
#define WORD 0x2000
#define AREA 0x3000
#define SIZE 0x4000
/* The write pointer is in a BO of its own. */
#define WPTR_VA (VA + SIZE)
/* Doorbells have 64 bits. */
#define DOORBELL 3

FIXTURE(userq) {
	struct criu_node node;
	struct amdgpu_criu_process_info info;
	struct userq queue;
	__u32 *memory;
	volatile __u64 *wptr;
	volatile __u64 *doorbells;
	__u32 id;
	__u32 next; /* word of the ring */
	int session;
};

FIXTURE_VARIANT(userq) {
	__u32 ip_type;
};

FIXTURE_VARIANT_ADD(userq, compute) {
	.ip_type = AMDGPU_HW_IP_COMPUTE,
};

FIXTURE_VARIANT_ADD(userq, sdma) {
	.ip_type = AMDGPU_HW_IP_DMA,
};

/* Mappings are written in order by an SDMA engine, and no queue of the process waits for them. */
static int wait_for_mappings(const struct criu_node *node)
{
	struct render_job job = { .hw_ip = AMDGPU_HW_IP_DMA, .word = 1, .value = 1 };
	struct render_work work;
	__u64 sequence;
	int ret = render_work_make(node, &work);

	if (ret)
		return ret;
	ret = render_ctx_create(node, AMDGPU_CTX_PRIORITY_NORMAL, &job.ctx);
	if (!ret)
		ret = render_submit(node, &work, &job, &sequence);
	if (!ret)
		ret = render_wait(node, &job, sequence, 10 * RENDER_SECOND);
	render_work_unmap(&work);
	return ret;
}

static void *map(const struct criu_node *node, __u64 size, __u32 domain, __u64 va, __u32 *handle)
{
	if (render_bo_create(node, size, domain, 0, handle) ||
	    (va && render_va_map(node, *handle, va, size)))
		return NULL;
	return render_bo_mmap(node, *handle, size);
}

static int userq_call(const struct criu_node *node, struct userq *args, __u32 op)
{
	args->op = op;
	return render_ioctl(node, IOC_USERQ, args);
}

FIXTURE_SETUP(userq)
{
	__u64 area = VA + AREA;
	__u32 handle;
	int ret;

	self->session = -1;
	if (render_open(&self->node, 0))
		SKIP(return, "no amdgpu render node");
	self->memory = map(&self->node, SIZE, AMDGPU_GEM_DOMAIN_GTT, VA, &handle);
	self->wptr = map(&self->node, PAGE, AMDGPU_GEM_DOMAIN_GTT, WPTR_VA, &handle);
	self->queue = (struct userq){
		.ip_type = variant->ip_type,
		.doorbell_offset = DOORBELL,
		.queue_va = VA,
		.queue_size = PAGE,
		.rptr_va = VA + RPTR,
		.wptr_va = WPTR_VA,
		.mqd = (uintptr_t)&area,
		.mqd_size = sizeof(area),
	};
	self->doorbells = map(&self->node, PAGE, AMDGPU_GEM_DOMAIN_DOORBELL, 0,
			      &self->queue.doorbell_handle);
	ASSERT_NE(NULL, self->memory);
	ASSERT_NE(NULL, self->wptr);
	ASSERT_EQ(0, wait_for_mappings(&self->node));
	ret = userq_call(&self->node, &self->queue, USERQ_CREATE);
	/* The kernel has replaced the operation by the id. */
	self->id = self->queue.op;
	if (ret == -NOT_SUPPORTED || ret == -EINVAL || ret == -ENOTTY)
		SKIP(return, "the driver has no user queues for this GPU");
	ASSERT_EQ(0, ret);
	ASSERT_NE(NULL, self->doorbells);
	self->session = criu_session(&self->node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	ASSERT_LE(0, self->session);
}

FIXTURE_TEARDOWN(userq)
{
	if (self->session >= 0)
		close(self->session);
	criu_node_close(&self->node);
}

static __u64 submit(FIXTURE_DATA(userq) *self, bool sdma, __u32 value)
{
	const __u64 at = VA + WORD;
	const __u32 pm4[] = { 0xc0033700, 5 << 8 | 1 << 20, at, at >> 32, value };
	const __u32 write[] = { 2, at, at >> 32, 0, value };
	const size_t num = sizeof(pm4) / sizeof(pm4[0]);
	__u64 wptr;

	memcpy(self->memory + self->next, sdma ? write : pm4, sizeof(pm4));
	self->next += num;
	wptr = sdma ? self->next * sizeof(__u32) : self->next;
	*self->wptr = wptr;
	__sync_synchronize();
	self->doorbells[DOORBELL] = wptr;
	return wptr;
}

static bool runs(FIXTURE_DATA(userq) *self, bool sdma, __u32 value)
{
	const volatile __u32 *word = self->memory + WORD / sizeof(__u32);
	const struct timespec nap = { .tv_nsec = 10000000 };

	submit(self, sdma, value);
	for (int i = 0; i < 1000 && *word != value; i++)
		nanosleep(&nap, NULL);
	return *word == value;
}

TEST_F(userq, is_refused_by_name_and_runs_on)
{
	const bool sdma = variant->ip_type == AMDGPU_HW_IP_DMA;

	EXPECT_TRUE(runs(self, sdma, 1));
	EXPECT_EQ(-EOPNOTSUPP, criu_pause(&self->node, self->session, &self->info));
	EXPECT_STREQ("cannot carry: user queues", criu_reason);
	EXPECT_TRUE(runs(self, sdma, 2));
	self->queue = (struct userq){ .queue_id = self->id };
	ASSERT_EQ(0, userq_call(&self->node, &self->queue, USERQ_FREE));
	EXPECT_EQ(0, criu_pause(&self->node, self->session, &self->info));
	EXPECT_EQ(0, criu_unpause(&self->node, self->session));
}

TEST_HARNESS_MAIN
