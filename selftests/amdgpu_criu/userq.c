// SPDX-License-Identifier: GPL-2.0
#include "userq.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* ENOTSUPP of the kernel: the driver runs without user queues. */
#define NOT_SUPPORTED 524

#define DOORBELL 3

#define IOC_SIGNAL DRM_IOWR(DRM_COMMAND_BASE + 0x17, struct signal_args)
#define IOC_WAIT DRM_IOWR(DRM_COMMAND_BASE + 0x18, struct wait_args)

struct signal_args {
	__u32 queue_id;
	__u32 pad;
	__u64 syncobjs;
	__u64 num_syncobjs;
	__u64 read_bos;
	__u64 write_bos;
	__u32 num_read_bos;
	__u32 num_write_bos;
};

struct wait_args {
	__u32 queue_id;
	__u32 pad;
	__u64 syncobjs;
	__u64 timelines;
	__u64 points;
	__u64 read_bos;
	__u64 write_bos;
	__u16 num_timelines;
	__u16 num_fences;
	__u16 num_syncobjs;
	__u16 pad0;
	__u32 num_read_bos;
	__u32 num_write_bos;
	__u64 fences;
};

/* Mappings are written in order by an SDMA engine. */
int userq_wait_for_mappings(const struct criu_node *node)
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
	if (!ret)
		ret = render_ctx_free(node, job.ctx);
	render_work_unmap(&work);
	return ret ? ret : render_bo_close(node, work.handle);
}

int userq_memory(const struct criu_node *node, struct userq *queue, __u32 ip_type, __u32 n)
{
	int ret = 0;

	queue->ip_type = ip_type;
	queue->n = n;
	queue->next = 0;
	if (!queue->doorbell_handle)
		ret = render_bo_create(node, USERQ_PAGE, AMDGPU_GEM_DOMAIN_DOORBELL, 0,
				       &queue->doorbell_handle);
	if (!ret)
		ret = render_bo_create(node, USERQ_SIZE, AMDGPU_GEM_DOMAIN_GTT, 0,
				       &queue->memory_handle);
	if (!ret)
		ret = render_va_map(node, queue->memory_handle, USERQ_VA(n), USERQ_SIZE);
	if (!ret)
		ret = render_bo_create(node, USERQ_PAGE, AMDGPU_GEM_DOMAIN_GTT, 0,
				       &queue->wptr_handle);
	if (!ret)
		ret = render_va_map(node, queue->wptr_handle, USERQ_WPTR_VA(n), USERQ_PAGE);
	if (ret)
		return ret;
	queue->memory = render_bo_mmap(node, queue->memory_handle, USERQ_SIZE);
	queue->wptr = render_bo_mmap(node, queue->wptr_handle, USERQ_PAGE);
	queue->doorbells = render_bo_mmap(node, queue->doorbell_handle, USERQ_PAGE);
	if (!queue->memory || !queue->wptr)
		return -ENOMEM;
	return userq_wait_for_mappings(node);
}

struct userq_args userq_create_args(const struct userq *queue, __u64 *area)
{
	*area = USERQ_VA(queue->n) + USERQ_AREA;
	return (struct userq_args){
		.ip_type = queue->ip_type,
		.doorbell_handle = queue->doorbell_handle,
		.doorbell_offset = DOORBELL + queue->n,
		.queue_va = USERQ_VA(queue->n),
		.queue_size = USERQ_PAGE,
		.rptr_va = USERQ_VA(queue->n) + USERQ_RPTR,
		.wptr_va = USERQ_WPTR_VA(queue->n),
		.mqd = (uintptr_t)area,
		.mqd_size = sizeof(*area),
	};
}

int userq_call(const struct criu_node *node, struct userq_args *args, __u32 op)
{
	args->op = op;
	return render_ioctl(node, IOC_USERQ, args);
}

int userq_make(const struct criu_node *node, struct userq *queue, __u32 ip_type, __u32 n)
{
	struct userq_args args;
	__u64 area;
	int ret = userq_memory(node, queue, ip_type, n);

	if (ret)
		return ret == -EINVAL ? -ENODEV : ret;
	args = userq_create_args(queue, &area);
	ret = userq_call(node, &args, USERQ_CREATE);
	queue->id = args.op;
	return ret == -NOT_SUPPORTED || ret == -EINVAL || ret == -ENOTTY ? -ENODEV : ret;
}

int userq_free(const struct criu_node *node, const struct userq *queue)
{
	struct userq_args args = { .queue_id = queue->id };

	return userq_call(node, &args, USERQ_FREE);
}

/* Without an ioctl, which would block until RESUME. */
static void *map_restored(const struct criu_node *to, const struct criu_image *image,
			  __u32 handle, size_t size)
{
	__u32 i = 0;
	void *at;

	while (i < image->num_bos && image->bos[i].handle != handle)
		i++;
	if (i == image->num_bos)
		return NULL;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, to->fd,
		  image->bos[i].new_mmap_offset);
	return at == MAP_FAILED ? NULL : at;
}

int userq_again(const struct criu_node *to, const struct criu_image *image,
		const struct userq *from, struct userq *queue)
{
	*queue = *from;
	queue->memory = map_restored(to, image, queue->memory_handle, USERQ_SIZE);
	queue->wptr = map_restored(to, image, queue->wptr_handle, USERQ_PAGE);
	queue->doorbells = map_restored(to, image, queue->doorbell_handle, USERQ_PAGE);
	if (!queue->memory || !queue->wptr || !queue->doorbells)
		return -ENOMEM;
	memcpy(queue->memory, from->memory, USERQ_SIZE);
	*queue->wptr = *from->wptr;
	return 0;
}

static void add(struct userq *queue, const __u32 *words, size_t num)
{
	for (size_t i = 0; i < num; i++)
		queue->memory[queue->next++ % (USERQ_PAGE / sizeof(__u32))] = words[i];
}

static __u64 position(const struct userq *queue)
{
	return queue->ip_type == AMDGPU_HW_IP_DMA ? queue->next * sizeof(__u32) : queue->next;
}

static void ring(struct userq *queue)
{
	*queue->wptr = position(queue);
	__sync_synchronize();
	queue->doorbells[DOORBELL + queue->n] = position(queue);
}

static __u64 word_va(const struct userq *queue, __u32 at)
{
	return USERQ_VA(queue->n) + USERQ_WORDS + at * sizeof(__u32);
}

void userq_write_va(struct userq *queue, __u64 va, __u32 value)
{
	const __u32 pm4[] = { 0xc0033700, 5 << 8 | 1 << 20, va, va >> 32, value };
	const __u32 write[] = { 2, va, va >> 32, 0, value };

	add(queue, queue->ip_type == AMDGPU_HW_IP_DMA ? write : pm4, 5);
	ring(queue);
}

void userq_write(struct userq *queue, __u32 at, __u32 value)
{
	userq_write_va(queue, word_va(queue, at), value);
}

void userq_wait_va(struct userq *queue, __u64 va)
{
	/* WAIT_REG_MEM, in memory, not equal. */
	const __u32 wait[] = { 0xc0053c00, 1 << 4 | 4, va, va >> 32, 0, ~0u, 4 };

	add(queue, wait, 7);
	ring(queue);
}

void userq_wait_word(struct userq *queue, __u32 at)
{
	userq_wait_va(queue, word_va(queue, at));
}

void userq_occupy(struct userq *queue, __u32 milliseconds)
{
	const __u32 nop[] = { 0xc0011000, 0x79737562, milliseconds };

	add(queue, nop, 3);
	ring(queue);
}

static const __u32 signal_fence[] = { 0xc000d000, 0 };

void userq_fence(struct userq *queue)
{
	add(queue, signal_fence, 2);
	ring(queue);
}

int userq_signal(const struct criu_node *node, struct userq *queue, const __u32 *syncobjs,
		 __u32 num, __u32 bo, bool rings)
{
	struct signal_args args = {
		.queue_id = queue->id,
		.syncobjs = (uintptr_t)syncobjs,
		.num_syncobjs = num,
		.write_bos = (uintptr_t)&bo,
		.num_write_bos = !!bo,
	};
	int ret;

	add(queue, signal_fence, 2);
	*queue->wptr = position(queue);
	ret = render_ioctl(node, IOC_SIGNAL, &args);
	if (!ret && rings)
		ring(queue);
	return ret;
}

void userq_rewind(struct userq *queue)
{
	queue->next = 0;
}

int userq_wait(const struct criu_node *node, const struct userq *queue, __u32 syncobj)
{
	struct {
		__u64 va, value;
	} fences[4];
	struct wait_args args = {
		.queue_id = queue->id,
		.syncobjs = (uintptr_t)&syncobj,
		.num_syncobjs = 1,
		.num_fences = 4,
		.fences = (uintptr_t)fences,
	};

	return render_ioctl(node, IOC_WAIT, &args);
}

bool userq_wrote(const struct userq *queue, __u32 at, __u32 value)
{
	const volatile __u32 *word = queue->memory + USERQ_WORDS / sizeof(__u32) + at;
	const struct timespec nap = { .tv_nsec = 10000000 };

	for (int i = 0; i < 1000 && *word != value; i++)
		nanosleep(&nap, NULL);
	return *word == value;
}

bool userq_runs(struct userq *queue, __u32 value)
{
	userq_write(queue, 0, value);
	if (queue->ip_type == AMDGPU_HW_IP_COMPUTE)
		userq_fence(queue);
	return userq_wrote(queue, 0, value);
}
