/* SPDX-License-Identifier: GPL-2.0 */
/* Raw ioctls of KFD that give a process state to be checkpointed. */
#ifndef AMDGPU_CRIU_TEST_KFD_H
#define AMDGPU_CRIU_TEST_KFD_H

#include <linux/kfd_ioctl.h>
#include <stdbool.h>

#include "criu.h"

#define KFD_VRAM (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC)
#define KFD_GTT KFD_IOC_ALLOC_MEM_FLAGS_GTT
#define KFD_USERPTR KFD_IOC_ALLOC_MEM_FLAGS_USERPTR

struct kfd_gpu {
	__u32 gpu_id;
	int render_minor;
	__u32 gfx_version;
	/* Graphics cores: a compute queue is on all of them. */
	__u32 num_xcc;
	__u32 ctl_stack_size;
	__u32 cwsr_size;
	/* Bytes of the whole BO, with the debugger's part, for all graphics cores. */
	__u32 cwsr_area;
	/* True if the kernel has AMDKFD_IOC_SVM, which needs CONFIG_HSA_AMD_SVM. */
	bool svm;
};

/* A process's /dev/kfd, with the VM of its first GPU acquired. */
struct kfd {
	struct criu_node node;
	int drm_fd;
	struct kfd_gpu gpu;
	/* The address of the next BO; NULL: any. */
	char *next_address;
};

/* GPU @index of the topology, -ENOENT if there are fewer. */
int kfd_gpu_at(unsigned int index, struct kfd_gpu *gpu);
/* The first. */
int kfd_find_gpu(struct kfd_gpu *gpu);
/* A descriptor of the GPU's render node. */
int kfd_render_open(const struct kfd_gpu *gpu);
int kfd_open(struct kfd *kfd);
/* With a render node that is open already: kfd_close() closes it. */
int kfd_open_with(struct kfd *kfd, int drm_fd);
/* Acquires the VMs of all other GPUs, too. */
int kfd_acquire_others(struct kfd *kfd);
/*
 * The same process on GPU @index, whose VM it acquires; -ENOENT if there is none. Close only
 * @other->drm_fd.
 */
int kfd_open_other(const struct kfd *kfd, unsigned int index, struct kfd *other);
void kfd_close(struct kfd *kfd);
/* 0 or a negative errno. */
int kfd_ioctl(const struct kfd *kfd, unsigned long cmd, void *args);
/* AMDKFD_IOC_SVM: at most 8 attributes of a range. */
int kfd_set_svm(const struct kfd *kfd, void *at, size_t size,
		const struct kfd_ioctl_svm_attribute *attrs, __u32 num);

/* The render nodes that a CHECKPOINT has returned, so that the next one may return them. */
void kfd_close_drm_fds(struct criu_image *image);

/* Mapped on the GPU and, at the same address, on the CPU. */
struct kfd_bo {
	__u64 handle;
	size_t size;
	void *at;
};

int kfd_bo_alloc(struct kfd *kfd, struct kfd_bo *bo, __u32 flags, size_t size);
/* On another GPU, too. */
int kfd_bo_map(const struct kfd *other, const struct kfd_bo *bo);
int kfd_bo_free(struct kfd *kfd, struct kfd_bo *bo);
/* A dma-buf descriptor. */
int kfd_bo_export(struct kfd *kfd, const struct kfd_bo *bo);
/* Mapped on the GPU at an address of its own; @at is for the GPU alone. */
int kfd_bo_import(struct kfd *kfd, struct kfd_bo *bo, int dmabuf, size_t size);

/* Bytes of a page of signal slots. */
#define KFD_EVENT_PAGE_SIZE 0x8000
/* Number of a new signal event. The first one may allocate a BO, for the page. */
int kfd_event_create(struct kfd *kfd, bool auto_reset, __u32 *id);
/* The same; @page: handle of the BO that becomes the page, or 0. */
int kfd_event_create_in(struct kfd *kfd, bool auto_reset, __u64 page, __u32 *id);
int kfd_event_set(struct kfd *kfd, __u32 id);
/* 0, or -ETIME if the event was not signaled. */
int kfd_event_wait(struct kfd *kfd, __u32 id, __u32 milliseconds);

/* Milliseconds until SIGBUS after a memory error, ~0 for none. Kernels before 7.3 cannot do it. */
int kfd_sigbus_delay(struct kfd *kfd, __u32 delay);

struct kfd_queue {
	__u32 id;
	struct kfd_bo ring;
	struct kfd_bo pointers;
	/* The offset for mmap() of /dev/kfd, and the mapping. */
	__u64 doorbell_offset;
	__u64 *doorbell;
	__u64 written;
	/* Of a compute queue, for its waves. */
	void *save_area;
};

/* KFD_IOC_QUEUE_TYPE_SDMA_XGMI, and KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID with an @engine. */
int kfd_sdma_create_as(struct kfd *kfd, struct kfd_queue *queue, __u32 type, __u32 engine);
int kfd_sdma_create(struct kfd *kfd, struct kfd_queue *queue);
int kfd_doorbell_map(struct kfd *kfd, struct kfd_queue *queue);
void kfd_doorbell_unmap(struct kfd_queue *queue);
int kfd_queue_destroy(struct kfd *kfd, __u32 id);
int kfd_queue_update(struct kfd *kfd, const struct kfd_queue *queue, __u32 percent,
		     __u32 priority);
/* The engine writes @value to @to, which is in a BO. */
void kfd_sdma_write(struct kfd_queue *queue, __u32 *to, __u32 value);
/* It copies memory of BOs. */
void kfd_sdma_copy(struct kfd_queue *queue, void *to, const void *from, __u32 size);
/*
 * Waits until the GPU has all queues of the process. It has none while memory of the process moves;
 * a GPU with a small BAR clears page tables by a job, for which KFD stops the process.
 */
int kfd_queues_run(struct kfd *kfd);
/* A compute queue, with its doorbell mapped; its buffers stay allocated. */
int kfd_compute_make(struct kfd *kfd, __u32 type, struct kfd_queue *queue);
/* Submits a packet of that type, all else zero, to a new AQL queue. */
void kfd_aql_submit(struct kfd_queue *queue, __u16 type);
/* Submits the beginning of a packet to a new queue, which waits for the rest and hangs. */
void kfd_pm4_truncate(struct kfd_queue *queue);
void kfd_sdma_truncate(struct kfd_queue *queue);
/* A queue that is never used. */
int kfd_compute_create(struct kfd *kfd, __u32 type, __u32 *id);

/* True if *at becomes value within that time. */
bool kfd_becomes(const __u32 *at, __u32 value, int milliseconds);

/* True if KFD has something of the process, which may have exited. */
bool kfd_has_process(pid_t pid);
/* True if KFD has nothing of it any more within that time. A worker of KFD ends it. */
bool kfd_process_ends(pid_t pid, int milliseconds);

#endif /* AMDGPU_CRIU_TEST_KFD_H */
