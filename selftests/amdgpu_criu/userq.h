/* SPDX-License-Identifier: GPL-2.0 */
/* User queues of a render node, with the definitions of 7.2, which older headers do not have. */
#ifndef AMDGPU_CRIU_TEST_USERQ_H
#define AMDGPU_CRIU_TEST_USERQ_H

#include "render.h"

#define IOC_USERQ DRM_IOWR(DRM_COMMAND_BASE + 0x16, struct userq_args)
#define USERQ_CREATE 1
#define USERQ_FREE 2
#define USERQ_SECURE 4
#define USERQ_PRIORITY_HIGH 3

struct userq_args {
	__u32 op; /* CREATE: replaced by the id */
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

#define USERQ_PAGE 0x1000
/* One BO: the ring, the read pointer, words that packets write, and an EOP buffer or a CSA. */
#define USERQ_RPTR 0x1000
#define USERQ_WORDS 0x2000
#define USERQ_AREA 0x3000
#define USERQ_SIZE 0x4000
/* Queue @n has its memory here, and its write pointer in a BO behind it. */
#define USERQ_VA(n) (0x600000ull + (n) * 0x10000)
#define USERQ_WPTR_VA(n) (USERQ_VA(n) + USERQ_SIZE)

struct userq {
	__u32 id;
	__u32 ip_type;
	__u32 n;
	__u32 next; /* word of the ring */
	__u32 memory_handle;
	__u32 wptr_handle;
	__u32 doorbell_handle;
	__u32 *memory;
	volatile __u64 *wptr;
	volatile __u64 *doorbells;
};

/* Writes the page tables of everything that is mapped, and waits until they are written. */
int userq_wait_for_mappings(const struct criu_node *node);
/* Memory, and a BO of doorbells unless @queue has one. */
int userq_memory(const struct criu_node *node, struct userq *queue, __u32 ip_type, __u32 n);
/* The arguments of CREATE; @area: where those of the IP are. */
struct userq_args userq_create_args(const struct userq *queue, __u64 *area);
int userq_call(const struct criu_node *node, struct userq_args *args, __u32 op);
/* Memory and the queue. -ENODEV: the driver has no user queues for this GPU. */
int userq_make(const struct criu_node *node, struct userq *queue, __u32 ip_type, __u32 n);
int userq_free(const struct criu_node *node, const struct userq *queue);
/* Maps the BOs in the file that the queue is restored to, and copies their contents. */
int userq_again(const struct criu_node *to, const struct criu_image *image,
		const struct userq *from, struct userq *queue);

/* A packet that writes word @at; rings the doorbell. */
void userq_write(struct userq *queue, __u32 at, __u32 value);
/* A packet that waits until word @at is not 0. Compute only. */
void userq_wait_word(struct userq *queue, __u32 at);
/* The same, for a word at any address of the GPU. */
void userq_write_va(struct userq *queue, __u64 va, __u32 value);
void userq_wait_va(struct userq *queue, __u64 va);
/*
 * A packet that stands for a dispatch of some milliseconds, whose waves cannot be saved: the
 * software GPU goes on to the next packet at once, but does not unmap the queue meanwhile. Compute
 * only.
 */
void userq_occupy(struct userq *queue, __u32 milliseconds);
/* A packet that signals the fence, without the ioctl. Compute only; rings the doorbell. */
void userq_fence(struct userq *queue);
/* A packet that signals the fence, and the ioctl. Compute only. @ring: rings the doorbell. */
int userq_signal(const struct criu_node *node, struct userq *queue, const __u32 *syncobjs,
		 __u32 num, __u32 bo, bool ring);
/* Writes at the beginning of the ring again, with a write pointer that goes back. */
void userq_rewind(struct userq *queue);
/* AMDGPU_USERQ_WAIT: gets the fences of a syncobj for packets of the queue. */
int userq_wait(const struct criu_node *node, const struct userq *queue, __u32 syncobj);
/* The value arrives in time. */
bool userq_wrote(const struct userq *queue, __u32 at, __u32 value);
/* Packets are executed. A fence that no one waits for follows those of a compute queue. */
bool userq_runs(struct userq *queue, __u32 value);

#endif /* AMDGPU_CRIU_TEST_USERQ_H */
