/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Raw ioctls of a render node that give an open file state to be checkpointed. All state belongs
 * to the file: the state of one file is restored to another file of the same process.
 *
 * Functions return 0 or a negative errno unless noted otherwise.
 */
#ifndef AMDGPU_CRIU_TEST_RENDER_H
#define AMDGPU_CRIU_TEST_RENDER_H

#include <drm/amdgpu_drm.h>
#include <drm/drm.h>

#include "criu.h"

/* Opens the file of GPU @index; -ENOENT if there are fewer. */
int render_open(struct criu_node *node, unsigned int index);

/* True if XGMI links the GPU with others. */
bool render_in_hive(const struct criu_node *node);
/* True if both GPUs are below one PCIe switch, through which they reach one another's BARs. */
bool render_below_one_switch(const struct criu_node *one, const struct criu_node *two);
/* Of BOs of this GPU that the driver has moved to or from VRAM, since it was loaded. */
__u64 render_bytes_moved(const struct criu_node *node);
/* Bytes of VRAM that processes may use; 0: unknown. */
__u64 render_usable_vram(const struct criu_node *node);
int render_ioctl(const struct criu_node *node, unsigned long cmd, void *args);

int render_bo_create(const struct criu_node *node, __u64 size, __u32 domains, __u64 flags,
		     __u32 *handle);
/* @at: NULL: new pages, which stay mapped. @flags: AMDGPU_GEM_USERPTR_*. */
int render_userptr_create(const struct criu_node *node, void *at, __u64 size, __u32 flags,
			  __u32 *handle);
int render_bo_close(const struct criu_node *node, __u32 handle);
/* A descriptor of a dma-buf. */
int render_bo_export(const struct criu_node *node, __u32 handle);
int render_bo_import(const struct criu_node *node, int dmabuf, __u32 *handle);
/* AMDGPU_VA_OP_*, with all permissions; the BO's beginning is at @va. */
int render_va_op(const struct criu_node *node, __u32 operation, __u32 handle, __u64 va, __u64 size);
int render_va_map(const struct criu_node *node, __u32 handle, __u64 va, __u64 size);
int render_va_unmap(const struct criu_node *node, __u32 handle, __u64 va, __u64 size);
/* NULL on failure. */
void *render_bo_mmap(const struct criu_node *node, __u32 handle, size_t size);

int render_ctx_create(const struct criu_node *node, __s32 priority, __u32 *ctx);
int render_ctx_free(const struct criu_node *node, __u32 ctx);
/* AMDGPU_CTX_QUERY2_FLAGS_* */
int render_ctx_state(const struct criu_node *node, __u32 ctx, __u64 *flags);
int render_ctx_pstate(const struct criu_node *node, __u32 ctx, __u32 pstate);

int render_list_create(const struct criu_node *node, const struct drm_amdgpu_bo_list_entry *entries,
		       __u32 num, __u32 *list);
int render_list_destroy(const struct criu_node *node, __u32 list);

int render_syncobj_create(const struct criu_node *node, __u32 flags, __u32 *handle);
int render_syncobj_destroy(const struct criu_node *node, __u32 handle);
/* -EINVAL: no fence; -ETIME: not signaled */
int render_syncobj_wait(const struct criu_node *node, __u32 handle, __s64 nanoseconds);
int render_syncobj_signal_point(const struct criu_node *node, __u32 handle, __u64 point);
int render_syncobj_wait_point(const struct criu_node *node, __u32 handle, __u64 point,
			      __s64 nanoseconds);
int render_syncobj_point(const struct criu_node *node, __u32 handle, __u64 *point);
/* A descriptor, or a handle of one. */
int render_syncobj_export(const struct criu_node *node, __u32 handle);
int render_syncobj_import(const struct criu_node *node, int fd, __u32 *handle);

/* A GTT BO with commands and the words that they write; at the same address in every file. */
#define RENDER_WORK_SIZE 0x10000
#define RENDER_WORK_VA 0x400000

struct render_work {
	__u32 handle;
	__u32 *words;
	/* The next free words for commands. */
	__u32 next;
};

/* Words that commands write to, or wait for. */
#define RENDER_WORK_WORDS 1024

int render_work_make(const struct criu_node *node, struct render_work *work);
/* In the file that was restored from one that had it. */
int render_work_again(const struct criu_node *node, const struct render_work *from,
		      struct render_work *work);
void render_work_unmap(struct render_work *work);

/* A submission. */
struct render_job {
	__u32 ctx;
	/* AMDGPU_HW_IP_DMA, _COMPUTE or _GFX; _VCN_*, which use no words */
	__u32 hw_ip;
	__u32 ring;
	/* 0: only the work BO */
	__u32 list;
	/* Write 1 to this word first; 0: do not. DMA only. */
	__u32 start_word;
	/* Then wait until this word is not 0; 0: do not. */
	__u32 wait_word;
	/* Then write to it. */
	__u32 word;
	__u32 value;
	/* Signaled when done, 0: none; with a point of a timeline, or 0: binary */
	__u32 syncobj;
	__u64 point;
	/* Depends on this one of the same context and engine; 0: none */
	__u64 after;
};

/* A mask of the rings of an AMDGPU_HW_IP_*, 0: the GPU has none. */
__u32 render_rings(const struct criu_node *node, __u32 hw_ip);
int render_submit(const struct criu_node *node, struct render_work *work,
		  const struct render_job *job, __u64 *sequence);
/* -ETIME, or the error of the job */
int render_wait(const struct criu_node *node, const struct render_job *job, __u64 sequence,
		__u64 nanoseconds);
/* AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ of a submission */
int render_fence_syncobj(const struct criu_node *node, const struct render_job *job,
			 __u64 sequence, __u32 *handle);

#define RENDER_SECOND 1000000000LL

/* Creates the work BO and some of every kind of state that can be restored. */
int render_fill(const struct criu_node *node, struct render_work *work);

/* Checkpoints and unpauses. */
int render_save(const struct criu_node *node, struct criu_image *image);
/* Restores to a new file of GPU number @index, and resumes it. @session: -1: a new one */
int render_restore_to(struct criu_node *node, unsigned int index, int session,
		      const struct criu_image *image);
/* Restores a file that is never resumed, so that the session keeps its objects. It stays open. */
int render_keep(int session);
/* Both: restores the state of @from to a new file. */
int render_move(const struct criu_node *from, struct criu_node *to);

#endif /* AMDGPU_CRIU_TEST_RENDER_H */
