// SPDX-License-Identifier: GPL-2.0
#include "kfd.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define SOON 5000
#define RING_SIZE 0x10000
#define EOP_SIZE 0x1000
/* Doorbells of one process, on GFX9. */
#define DOORBELL_SLICE 0x2000
/* Offsets of the pointers in amd_queue_t, which AQL queues use. */
#define WRITE_POINTER 56
#define READ_POINTER 128
/* sdma_v4 packets.h: write one word to memory, as an engine does for a fence. */
#define SDMA_OP_FENCE 5
#define SDMA_OP_COPY 1
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static int create_queue(struct kfd *kfd, struct kfd_queue *queue,
			struct kfd_ioctl_create_queue_args *args)
{
	int ret = kfd_bo_alloc(kfd, &queue->ring, KFD_GTT, RING_SIZE);

	if (!ret)
		ret = kfd_bo_alloc(kfd, &queue->pointers, KFD_GTT, PAGE);
	if (ret)
		return ret;
	args->ring_base_address = (uintptr_t)queue->ring.at;
	args->ring_size = RING_SIZE;
	args->write_pointer_address = (uintptr_t)queue->pointers.at + WRITE_POINTER;
	args->read_pointer_address = (uintptr_t)queue->pointers.at + READ_POINTER;
	args->gpu_id = kfd->gpu.gpu_id;
	args->queue_percentage = KFD_MAX_QUEUE_PERCENTAGE;
	args->queue_priority = 7;
	ret = kfd_ioctl(kfd, AMDKFD_IOC_CREATE_QUEUE, args);
	queue->id = args->queue_id;
	return ret;
}

int kfd_doorbell_map(struct kfd *kfd, struct kfd_queue *queue)
{
	__u64 in_slice = queue->doorbell_offset % DOORBELL_SLICE;
	char *slice = mmap(NULL, DOORBELL_SLICE, PROT_READ | PROT_WRITE, MAP_SHARED,
			   kfd->node.fd, queue->doorbell_offset - in_slice);

	if (slice == MAP_FAILED)
		return -errno;
	queue->doorbell = (__u64 *)(slice + in_slice);
	return 0;
}

void kfd_doorbell_unmap(struct kfd_queue *queue)
{
	char *slice = (char *)queue->doorbell - queue->doorbell_offset % DOORBELL_SLICE;

	if (queue->doorbell)
		munmap(slice, DOORBELL_SLICE);
	queue->doorbell = NULL;
}

int kfd_sdma_create_as(struct kfd *kfd, struct kfd_queue *queue, __u32 type, __u32 engine)
{
	struct kfd_ioctl_create_queue_args args = {
		.queue_type = type,
		.sdma_engine_id = engine,
	};
	int ret;

	memset(queue, 0, sizeof(*queue));
	ret = create_queue(kfd, queue, &args);
	if (ret)
		return ret;
	queue->doorbell_offset = args.doorbell_offset;
	return kfd_doorbell_map(kfd, queue);
}

int kfd_sdma_create(struct kfd *kfd, struct kfd_queue *queue)
{
	return kfd_sdma_create_as(kfd, queue, KFD_IOC_QUEUE_TYPE_SDMA, 0);
}

int kfd_queue_update(struct kfd *kfd, const struct kfd_queue *queue, __u32 percent, __u32 priority)
{
	struct kfd_ioctl_update_queue_args args = {
		.ring_base_address = (uintptr_t)queue->ring.at,
		.queue_id = queue->id,
		.ring_size = RING_SIZE,
		.queue_percentage = percent,
		.queue_priority = priority,
	};

	return kfd_ioctl(kfd, AMDKFD_IOC_UPDATE_QUEUE, &args);
}

int kfd_queue_destroy(struct kfd *kfd, __u32 id)
{
	struct kfd_ioctl_destroy_queue_args args = { .queue_id = id };

	return kfd_ioctl(kfd, AMDKFD_IOC_DESTROY_QUEUE, &args);
}

/* As many words as divide the size of the ring. */
static void submit(struct kfd_queue *queue, const __u32 *words, size_t num)
{
	char *packet = (char *)queue->ring.at + queue->written % RING_SIZE;
	__u64 *write_pointer = (void *)((char *)queue->pointers.at + WRITE_POINTER);

	memcpy(packet, words, num * sizeof(*words));
	queue->written += num * sizeof(*words);
	__atomic_store_n(write_pointer, queue->written, __ATOMIC_SEQ_CST);
	__atomic_store_n(queue->doorbell, queue->written, __ATOMIC_SEQ_CST);
}

void kfd_sdma_write(struct kfd_queue *queue, __u32 *to, __u32 value)
{
	const __u32 words[] = { SDMA_OP_FENCE, (uintptr_t)to, (uintptr_t)to >> 32, value };

	submit(queue, words, ARRAY_SIZE(words));
}

/* Packets of four words and of eight: the last word does nothing. */
void kfd_sdma_copy(struct kfd_queue *queue, void *to, const void *from, __u32 size)
{
	const __u32 words[8] = {
		SDMA_OP_COPY, size - 1, 0, (uintptr_t)from, (uintptr_t)from >> 32, (uintptr_t)to,
		(uintptr_t)to >> 32,
	};
	static const __u32 nothing[4];

	if (queue->written % sizeof(words))
		submit(queue, nothing, ARRAY_SIZE(nothing));
	submit(queue, words, ARRAY_SIZE(words));
}

int kfd_queues_run(struct kfd *kfd)
{
	char *next_address = kfd->next_address;
	struct kfd_queue last;
	struct kfd_bo word;
	int ret = kfd_bo_alloc(kfd, &word, KFD_GTT, PAGE);

	if (!ret)
		ret = kfd_sdma_create(kfd, &last);
	if (ret)
		return ret;
	kfd_sdma_write(&last, word.at, 1);
	if (!kfd_becomes(word.at, 1, SOON))
		return -ETIMEDOUT;
	kfd_doorbell_unmap(&last);
	ret = kfd_queue_destroy(kfd, last.id);
	if (!ret)
		ret = kfd_bo_free(kfd, &last.pointers);
	if (!ret)
		ret = kfd_bo_free(kfd, &last.ring);
	kfd->next_address = next_address;
	return ret ? ret : kfd_bo_free(kfd, &word);
}

int kfd_compute_make(struct kfd *kfd, __u32 type, struct kfd_queue *queue)
{
	struct kfd_ioctl_create_queue_args args = { .queue_type = type };
	struct kfd_bo eop, cwsr;
	int ret = kfd_bo_alloc(kfd, &eop, KFD_VRAM, EOP_SIZE);

	memset(queue, 0, sizeof(*queue));
	if (!ret)
		ret = kfd_bo_alloc(kfd, &cwsr, KFD_GTT, kfd->gpu.cwsr_area);
	if (ret)
		return ret;
	args.eop_buffer_address = (uintptr_t)eop.at;
	args.eop_buffer_size = EOP_SIZE;
	args.ctx_save_restore_address = (uintptr_t)cwsr.at;
	args.ctx_save_restore_size = kfd->gpu.cwsr_size;
	args.ctl_stack_size = kfd->gpu.ctl_stack_size;
	ret = create_queue(kfd, queue, &args);
	if (ret)
		return ret;
	queue->doorbell_offset = args.doorbell_offset;
	queue->save_area = cwsr.at;
	return kfd_doorbell_map(kfd, queue);
}

/* @wptr: in the unit of the queue */
static void submit_first(struct kfd_queue *queue, const __u32 *words, size_t size, __u64 wptr)
{
	__u64 *write_pointer = (void *)((char *)queue->pointers.at + WRITE_POINTER);

	memcpy(queue->ring.at, words, size);
	__atomic_store_n(write_pointer, wptr, __ATOMIC_SEQ_CST);
	__atomic_store_n(queue->doorbell, wptr, __ATOMIC_SEQ_CST);
}

void kfd_pm4_truncate(struct kfd_queue *queue)
{
	/* Two of the six words of WRITE_DATA. */
	const __u32 words[] = { 3u << 30 | 4 << 16 | 0x37 << 8, 5 << 8 };

	submit_first(queue, words, sizeof(words), ARRAY_SIZE(words));
}

void kfd_aql_submit(struct kfd_queue *queue, __u16 type)
{
	const __u32 words[16] = { type };

	submit_first(queue, words, sizeof(words), 1);
}

void kfd_sdma_truncate(struct kfd_queue *queue)
{
	/* Two of the seven words. */
	const __u32 words[] = { SDMA_OP_COPY, 3 };

	submit_first(queue, words, sizeof(words), sizeof(words));
}

int kfd_compute_create(struct kfd *kfd, __u32 type, __u32 *id)
{
	struct kfd_queue queue;
	int ret = kfd_compute_make(kfd, type, &queue);

	*id = queue.id;
	return ret;
}
