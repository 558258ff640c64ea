/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What both kinds of nodes of amdgpu share */
#ifndef _AMDGPU_CRIU_NODE_H_
#define _AMDGPU_CRIU_NODE_H_

#include <drm/amdgpu_criu.h>
#include <drm/drm_file.h>
#include <linux/dma-buf.h>

#include "amdgpu.h"
#include "criu_ioctl.h"

struct kfd_criu_mqd_layout;

#define AMDGPU_CRIU_NO_OFFSET (~0ULL) /* mmap_offset of a BO that cannot be mapped */
#define AMDGPU_CRIU_TARGETS_MAX 1024 /* record types that a caller may list for another kernel */

/* What a dump writes: the size pass and the write pass call the dump functions of the kinds. */
struct criu_dump {
	struct criu_call *call;
	int (*pause)(struct criu_dump *dump); /* PROCESS_INFO: sets paused if it has paused */
	int (*prepare)(struct criu_dump *dump); /* called before the passes, with the lock held */
	struct criu_session *session; /* session that allocates object ids; NULL in the size pass */
	struct criu_record_target *targets; /* of the target kernel; NULL: as this kernel */
	u32 num_targets;
	struct criu_blob_writer writer; /* writer of the blob; without a buffer in the size pass */
	struct amdgpu_criu_device *devices; /* table for the caller, NULL in the size pass */
	struct amdgpu_criu_bo *bos; /* table for the caller, NULL in the size pass */
	struct amdgpu_criu_process_info info; /* the counts so far */
	void *blob; /* the blob, NULL in the size pass */
	size_t blob_size; /* bytes of the blob, once a pass has ended */
	bool paused; /* PROCESS_INFO: this call has paused the client */
	bool live; /* the client runs: only the tables are written, and no blob */

	/* /dev/kfd */
	struct kfd_process *p; /* the process; its mutex is held */

	/* Render node */
	struct amdgpu_device *adev;
	struct drm_file *file; /* the file; its gate is closed and the gate's lock held */
	struct amdgpu_fpriv *fpriv;
	struct task_struct *task; /* leader of the process whose memory its userptrs refer to */
	struct mm_struct *mm; /* that memory, with a reference to its users */
	struct list_head objects; /* BOs of the file in the order of handles; without one last */
	struct xarray by_gem; /* the same BOs by the address of gem */
	struct dma_buf *exported; /* EXPORTED: the dma-buf of the only BO; nothing else is dumped */
};

/* What RESTORE reads from the caller: a checked blob, and the progress of applying it */
struct criu_plan {
	struct criu_call *call;
	const struct amdgpu_criu_state *state; /* arguments of the call */
	struct amdgpu_criu_device *device_table; /* state->num_devices entries */
	struct amdgpu_criu_bo *bo_table; /* state->num_bos entries; gets the new mmap offsets */
	struct criu_blob blob; /* the plan points into it */
	bool (*is_fresh)(const struct criu_plan *plan); /* true if the client has no state */
	void (*entry)(const void *record, struct amdgpu_criu_bo *entry); /* fills that of a BO */

	/* /dev/kfd, see kfd_criu.h */
	struct kfd_process *p; /* process to restore */
	struct kfd_criu_process_record *processes; /* one */
	struct kfd_criu_options_record *options; /* one or none */
	struct kfd_criu_plan_device *devices;
	struct kfd_criu_plan_bo *bos;
	struct kfd_criu_plan_queue *queues;
	struct kfd_criu_plan_page *pages; /* one or none */
	struct kfd_criu_event_record *events;
	struct kfd_criu_plan_svm *svms;
	struct criu_range *svm_areas; /* of svms, sorted; adjacent ones are merged */
	u32 num_processes, num_options, num_devices, num_bos, num_queues, num_pages, num_events;
	u32 num_svms, num_svm_areas;
	bool evicted; /* the queues of the process are evicted */

	/* Render node, see amdgpu_criu_render.h */
	struct amdgpu_device *adev;
	struct drm_file *file; /* to be restored; its gate is closed and the gate's lock held */
	struct amdgpu_fpriv *fpriv;
	struct amdgpu_criu_file_record *files; /* one; EXPORTED: NULL */
	struct amdgpu_criu_client_name_record *names; /* one or none */
	struct amdgpu_criu_plan_object *objects; /* in the order of the BO table */
	struct amdgpu_criu_plan_handle *handles; /* sorted when they are checked */
	struct amdgpu_criu_plan_mapping *mappings;
	struct amdgpu_criu_plan_ctx *ctxs;
	struct amdgpu_criu_plan_bo_list *bo_lists;
	struct amdgpu_criu_plan_syncobj *syncobjs;
	struct amdgpu_criu_plan_userq *userqs; /* NULL if the kernel has none */
	struct criu_range *object_ids; /* of objects, sorted, set when they are checked */
	struct criu_range *ranges; /* of mappings, sorted, set when they are checked */
	u32 num_files, num_names, num_objects, num_handles, num_mappings, num_ctxs, num_bo_lists;
	u32 num_syncobjs, num_userqs;
	u32 last_handle; /* all numbers up to it have an entry, while handles are created */
};

int amdgpu_criu_state_check(const struct amdgpu_criu_state *state);
int amdgpu_criu_info(struct criu_dump *dump, struct amdgpu_criu_process_info *info);
int amdgpu_criu_dump(struct criu_dump *dump, struct amdgpu_criu_state *state);
int amdgpu_criu_input_read(struct criu_plan *plan);
void amdgpu_criu_input_free(struct criu_plan *plan);
int amdgpu_criu_bos_check(struct criu_plan *plan);
int amdgpu_criu_bos_put(const struct criu_plan *plan);
int amdgpu_criu_restore(struct criu_plan *plan);
int amdgpu_criu_fault_in(struct mm_struct *mm, u64 start, u64 size, bool all);
int amdgpu_criu_call(struct criu_call *call, const struct amdgpu_criu_ioctl *envelope);
bool amdgpu_criu_is_reset(struct amdgpu_device *adev, const struct amdgpu_fpriv *fpriv);

/* These operations have the same rows in every table. */
int amdgpu_criu_query(struct criu_call *call, void *args);
int amdgpu_criu_session(struct criu_call *call, void *args);
int amdgpu_criu_unpause(struct criu_call *call, void *args);
int amdgpu_criu_dmabuf(struct criu_call *call, void *args);
int amdgpu_criu_dmabuf_for(struct criu_call *call, void *args, const struct drm_file *copier);

/* Rows of operation tables. @_struct: name after amdgpu_criu_. _IN: it has no output fields. */
#define AMDGPU_CRIU_OP(_op, _session, _fn, _struct, _last_v1) \
	CRIU_OP(AMDGPU_CRIU_OP_##_op, #_op, _session, _fn, struct amdgpu_criu_##_struct, \
		_last_v1, false)
#define AMDGPU_CRIU_OP_IN(_op, _session, _fn, _struct, _last_v1) \
	CRIU_OP(AMDGPU_CRIU_OP_##_op, #_op, _session, _fn, struct amdgpu_criu_##_struct, \
		_last_v1, true)

u32 kfd_criu_gpu_id(struct amdgpu_device *adev, u32 xcp_id);
u64 kfd_criu_features(void);
const struct kfd_criu_mqd_layout *kfd_criu_mqd_layout(u32 gc_version, bool sdma);
u32 kfd_criu_mqd_size(const struct kfd_criu_mqd_layout *layout);
void kfd_criu_mqd_strip(const struct kfd_criu_mqd_layout *layout, u32 *mqd, u32 num);
int kfd_criu_mqd_check(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 num);
int kfd_criu_mqd_check_bounds(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			      u32 num, u32 ctl_stack_size, u32 ctx_size);
void kfd_criu_mqd_merge(const struct kfd_criu_mqd_layout *layout, u32 *to, const u32 *from,
			u32 num);

DEFINE_FREE(criu_dma_buf, struct dma_buf *, IS_ERR_OR_NULL(_T) ? (void)0 : dma_buf_put(_T))

/* Operations of a BO in a session, a &struct drm_gem_object, for any node. */
extern const struct criu_object_ops amdgpu_criu_bo_ops;

struct drm_gem_object *amdgpu_criu_owner_object(struct drm_gem_object *gem);
bool amdgpu_criu_dmabuf_has_importer(struct dma_buf *dmabuf);
bool amdgpu_criu_object_has_importer(struct drm_gem_object *gem);
int amdgpu_criu_claim(struct criu_call *call, u64 id, const struct drm_device *dev, u64 size,
		      struct drm_gem_object **owner);
int amdgpu_criu_object_id(struct criu_session *session, struct drm_gem_object *gem, u64 *id);
struct drm_gem_object *amdgpu_criu_next_handle(struct drm_file *file, int *handle);
struct drm_gem_object *amdgpu_criu_dmabuf_gem(const struct dma_buf *dmabuf);
bool amdgpu_criu_is_copy(const struct dma_buf *dmabuf);
int amdgpu_criu_allow_copy(const struct drm_file *file, const struct dma_buf *dmabuf);
bool amdgpu_criu_may_open(const struct amdgpu_fpriv *fpriv, const struct drm_gem_object *gem);
int amdgpu_criu_fd_to_handle(struct drm_device *dev, struct drm_file *file, int fd, u32 *handle);
int amdgpu_criu_evict_bo(struct amdgpu_bo *bo, struct amdgpu_criu_evict *args);
void amdgpu_criu_readmit_bo(struct amdgpu_bo *bo);

/* OUTSIDE: an object of a client that the session has paused */
struct amdgpu_criu_paused_object {
	void *object; /* with a reference; of a BO the GEM object where it was allocated */
	const struct criu_object_ops *ops; /* amdgpu_criu_bo_ops or amdgpu_criu_syncobj_ops */
	u64 size; /* bytes of a BO */
	pid_t pid; /* process of that client, in the caller's pid namespace */
	u32 handle; /* the client's handle of the object */
	bool outside; /* a client that is not paused has the object as well */
};

/* A search for objects that are shared with other clients */
struct amdgpu_criu_sharing {
	const struct criu_call *call; /* its session is of kind CHECKPOINT */
	bool paused; /* first its clients are visited, then others, which mark objects */
	struct xarray objects; /* struct amdgpu_criu_paused_object by the address of the object */
	struct amdgpu_criu_outside *args; /* reports the first BO that is outside, or syncobj */
};

int amdgpu_criu_visit(struct amdgpu_criu_sharing *sharing,
		      const struct amdgpu_criu_paused_object *object);
int amdgpu_criu_visit_bo(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			 pid_t pid, u32 handle);
int kfd_criu_visit_processes(struct amdgpu_criu_sharing *sharing);

/* The gate of an open file, which all its ioctls pass except the checkpoint/restore ioctl. */
int amdgpu_criu_open(struct amdgpu_fpriv *fpriv, struct drm_file *file);
int amdgpu_criu_ioctl(struct drm_device *dev, void *data, struct drm_file *file_priv);
int amdgpu_criu_mmap(struct file *filp, struct vm_area_struct *vma);
long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     criu_ioctl_fn ioctl);
int amdgpu_criu_evict(struct criu_call *call, void *args);

#endif /* _AMDGPU_CRIU_NODE_H_ */
