// SPDX-License-Identifier: GPL-2.0
#include "target_queues.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Offsets of the pointers in amd_queue_t, which AQL queues use. */
#define WRITE_POINTER 56
#define READ_POINTER 128
/* Packets: soc15d.h of the driver, packets of sdma_v4_0, and the AQL specification. */
#define PM4(opcode, words) (3u << 30 | ((words) - 2) << 16 | (opcode) << 8)
#define PM4_ATOMIC_MEM 0x1e
#define PM4_RELEASE_MEM 0x49
#define PM4_WRITE_DATA 0x37
#define ATOMIC_ADD64 0x2f
#define SDMA_FENCE 5
#define SDMA_ATOMIC 10
#define AQL_BARRIER_AND (3 | 1 << 8 | 2 << 9 | 2 << 11)
#define AQL_INVALID 1
#define AQL_PACKET 64
#define SECONDS 10

/* Words of TARGET_WORDS, in 64 bits. */
enum {
	PM4_COUNT,
	PM4_FENCE,
	SDMA_COUNT,
	SDMA_FENCED,
	AQL_SIGNAL = 8, /* amd_signal_t: kind, value, mailbox, event id */
};

static __u64 *word(struct target_state *state, int which)
{
	return (__u64 *)state->bos[TARGET_WORDS].at + which;
}

static __u32 lo(const volatile void *address)
{
	return (uintptr_t)address;
}

static __u32 hi(const volatile void *address)
{
	return (uintptr_t)address >> 32;
}

static int kfd_call(const struct target_state *state, unsigned long cmd, void *args)
{
	return ioctl(state->kfd_fd, cmd, args) ? -errno : 0;
}

/* The same for every queue; mapped as often. */
static int map_doorbells(struct target_state *state, __u64 offset)
{
	struct target_bo *bo = &state->bos[TARGET_DOORBELL];

	return mmap(bo->at, bo->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    state->kfd_fd, offset) == MAP_FAILED ? -errno : 0;
}

static int create_queue(struct target_state *state, struct target_ring *ring,
			enum target_area first, __u32 type)
{
	struct target_bo *bos = &state->bos[first];
	struct kfd_ioctl_create_queue_args args = {
		.ring_base_address = (uintptr_t)bos[0].at,
		.ring_size = TARGET_RING_SIZE,
		.write_pointer_address = (uintptr_t)bos[1].at + WRITE_POINTER,
		.read_pointer_address = (uintptr_t)bos[1].at + READ_POINTER,
		.gpu_id = state->gpu.gpu_id,
		.queue_type = type,
		.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE,
		.queue_priority = 7,
	};
	int ret;

	if (type != KFD_IOC_QUEUE_TYPE_SDMA) {
		args.eop_buffer_address = (uintptr_t)bos[2].at;
		args.eop_buffer_size = bos[2].size;
		args.ctx_save_restore_address = (uintptr_t)bos[3].at;
		args.ctx_save_restore_size = state->gpu.cwsr_size;
		args.ctl_stack_size = state->gpu.ctl_stack_size;
	}
	ret = kfd_call(state, AMDKFD_IOC_CREATE_QUEUE, &args);
	ring->id = args.queue_id;
	ring->doorbell = args.doorbell_offset % TARGET_DOORBELL_SIZE;
	ring->written = 0;
	return ret ? ret : map_doorbells(state, args.doorbell_offset - ring->doorbell);
}

static int create_event(struct target_state *state, __u64 page, __u32 *id)
{
	struct kfd_ioctl_create_event_args args = {
		.event_type = KFD_IOC_EVENT_SIGNAL,
		.auto_reset = 1,
		.event_page_offset = page,
	};
	int ret = kfd_call(state, AMDKFD_IOC_CREATE_EVENT, &args);

	*id = args.event_id;
	return ret;
}

static int create_events(struct target_state *state)
{
	struct kfd_ioctl_destroy_event_args destroy = {};
	struct kfd_ioctl_set_event_args set = {};
	__u32 gap;
	int ret = create_event(state, state->bos[TARGET_EVENT_PAGE].handle, &gap);

	/* The remaining numbers are not the first ones. */
	destroy.event_id = gap;
	if (!ret)
		ret = create_event(state, 0, &state->pm4_event);
	if (!ret)
		ret = create_event(state, 0, &state->aql_event);
	if (!ret)
		ret = create_event(state, 0, &state->set_event);
	if (!ret)
		ret = kfd_call(state, AMDKFD_IOC_DESTROY_EVENT, &destroy);
	set.event_id = state->set_event;
	return ret ? ret : kfd_call(state, AMDKFD_IOC_SET_EVENT, &set);
}

int target_queues_create(struct target_state *state)
{
	char *ring = state->bos[TARGET_AQL_RING].at;
	int ret, i;

	for (i = 0; i < TARGET_RING_SIZE / AQL_PACKET; i++)
		*(__u16 *)(ring + i * AQL_PACKET) = AQL_INVALID;
	ret = create_events(state);
	if (!ret)
		ret = create_queue(state, &state->pm4, TARGET_PM4_RING,
				   KFD_IOC_QUEUE_TYPE_COMPUTE);
	if (!ret)
		ret = create_queue(state, &state->aql, TARGET_AQL_RING,
				   KFD_IOC_QUEUE_TYPE_COMPUTE_AQL);
	if (!ret)
		ret = create_queue(state, &state->sdma, TARGET_SDMA_RING, KFD_IOC_QUEUE_TYPE_SDMA);
	return ret;
}

static void ring_doorbell(struct target_state *state, struct target_ring *ring,
			  enum target_area pointers, __u64 written, __u64 value)
{
	char *doorbells = state->bos[TARGET_DOORBELL].at;

	ring->written = written;
	__atomic_store_n((__u64 *)(state->bos[pointers].at + WRITE_POINTER), written,
			 __ATOMIC_SEQ_CST);
	__atomic_store_n((__u64 *)(doorbells + ring->doorbell), value, __ATOMIC_SEQ_CST);
}

static int wait_event(const struct target_state *state, __u32 id, __u32 milliseconds)
{
	struct kfd_event_data data = { .event_id = id };
	struct kfd_ioctl_wait_events_args args = {
		.events_ptr = (uintptr_t)&data,
		.num_events = 1,
		.wait_for_all = 1,
		.timeout = milliseconds,
	};
	int ret = kfd_call(state, AMDKFD_IOC_WAIT_EVENTS, &args);

	if (ret)
		return ret;
	return args.wait_result == KFD_IOC_WAIT_RESULT_COMPLETE ? 0 : -ETIME;
}

static int wait_word(const __u64 *at, __u64 value, const char *what)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int tries;

	for (tries = 0; tries < SECONDS * 1000 * patience(); tries++) {
		if (__atomic_load_n(at, __ATOMIC_ACQUIRE) == value)
			return 0;
		nanosleep(&pause, NULL);
	}
	fprintf(stderr, "# %s is %llu, not %llu\n", what, (unsigned long long)*at,
		(unsigned long long)value);
	return -ETIMEDOUT;
}

static int step_pm4(struct target_state *state)
{
	__u64 *slot = (__u64 *)state->bos[TARGET_EVENT_PAGE].at + state->pm4_event;
	__u64 *count = word(state, PM4_COUNT), *fence = word(state, PM4_FENCE);
	const __u32 packets[] = {
		PM4(PM4_ATOMIC_MEM, 9), ATOMIC_ADD64, lo(count), hi(count), 1, 0, 0, 0, 0,
		/* The slot identifies the event: KFD ignores interrupts of unwritten slots. */
		PM4(PM4_WRITE_DATA, 6), 5 << 8 | 1 << 20, lo(slot), hi(slot), state->pm4_event, 0,
		PM4(PM4_RELEASE_MEM, 8), 0x14 | 5 << 8 | 7 << 15, 1u << 29 | 2 << 24, lo(fence),
		hi(fence), (__u32)state->steps, 0, state->pm4_event,
	};
	__u32 *ring = (__u32 *)state->bos[TARGET_PM4_RING].at;
	__u64 at = state->pm4.written;
	int ret;

	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++)
		ring[at++ % (TARGET_RING_SIZE / sizeof(*ring))] = packets[i];
	ring_doorbell(state, &state->pm4, TARGET_PM4_POINTERS, at, at);
	ret = wait_event(state, state->pm4_event, SECONDS * 1000);
	if (!ret)
		ret = wait_word(count, state->steps, "PM4 count");
	return ret ? ret : wait_word(fence, state->steps, "PM4 fence");
}

static int step_aql(struct target_state *state)
{
	__u64 *signal = word(state, AQL_SIGNAL);
	__u64 index = state->aql.written;
	char *packet = state->bos[TARGET_AQL_RING].at +
		       index % (TARGET_RING_SIZE / AQL_PACKET) * AQL_PACKET;
	int ret;

	signal[0] = 1; /* AMD_SIGNAL_KIND_USER */
	signal[1] = 1;
	signal[2] = (uintptr_t)((__u64 *)state->bos[TARGET_EVENT_PAGE].at + state->aql_event);
	signal[3] = state->aql_event;
	memset(packet + 2, 0, AQL_PACKET - 2);
	*(__u64 *)(packet + 56) = (uintptr_t)signal;
	__atomic_store_n((__u16 *)packet, AQL_BARRIER_AND, __ATOMIC_RELEASE);
	ring_doorbell(state, &state->aql, TARGET_AQL_POINTERS, index + 1, index);
	ret = wait_event(state, state->aql_event, SECONDS * 1000);
	return ret ? ret : wait_word(&signal[1], 0, "AQL signal");
}

int target_sdma_drop(struct target_state *state)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = state->sdma.id };

	state->no_sdma = true;
	return kfd_call(state, AMDKFD_IOC_DESTROY_QUEUE, &args);
}

static int step_sdma(struct target_state *state)
{
	__u64 *count = word(state, SDMA_COUNT), *fence = word(state, SDMA_FENCED);
	const __u32 packets[] = {
		SDMA_ATOMIC | (__u32)ATOMIC_ADD64 << 25, lo(count), hi(count), 1, 0, 0, 0, 0,
		SDMA_FENCE, lo(fence), hi(fence), (__u32)state->steps,
	};
	__u32 *ring = (__u32 *)state->bos[TARGET_SDMA_RING].at;
	__u64 at = state->sdma.written;
	int ret;

	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++, at += 4)
		ring[at % TARGET_RING_SIZE / 4] = packets[i];
	ring_doorbell(state, &state->sdma, TARGET_SDMA_POINTERS, at, at);
	ret = wait_word(fence, state->steps, "SDMA fence");
	return ret ? ret : wait_word(count, state->steps, "SDMA count");
}

int target_queues_step(struct target_state *state)
{
	int ret;

	state->steps++;
	ret = step_pm4(state);
	if (!ret)
		ret = step_aql(state);
	return ret || state->no_sdma ? ret : step_sdma(state);
}

int target_events_verify(struct target_state *state)
{
	struct kfd_ioctl_set_event_args set = { .event_id = state->set_event };
	int ret = wait_event(state, state->set_event, 0);

	if (ret)
		return ret;
	/* Waiting for it has reset it. */
	if (wait_event(state, state->set_event, 0) != -ETIME ||
	    wait_event(state, state->pm4_event, 0) != -ETIME)
		return -EBADE;
	return kfd_call(state, AMDKFD_IOC_SET_EVENT, &set);
}
