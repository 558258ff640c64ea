/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* BOs in a session: declarations for render nodes, KFD and the GEM code. */
#ifndef _AMDGPU_CRIU_OBJECT_H_
#define _AMDGPU_CRIU_OBJECT_H_

#include <linux/cleanup.h>
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "criu_session.h"

struct amdgpu_bo;
struct amdgpu_criu_evict;
struct amdgpu_criu_outside;
struct amdgpu_fpriv;
struct criu_call;
struct drm_device;
struct drm_file;
struct drm_gem_object;

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

/* OUTSIDE: BOs and syncobjs that clients paused by a session share with other clients. */

/* An object of a client that the session has paused */
struct amdgpu_criu_paused_object {
	/* The object, with a reference; of a BO the GEM object on the GPU where it was allocated */
	void *object;
	const struct criu_object_ops *ops; /* amdgpu_criu_bo_ops or amdgpu_criu_syncobj_ops */
	u64 size; /* bytes of a BO */
	pid_t pid; /* process of that client, in the caller's pid namespace */
	u32 handle; /* the client's handle of the object */
	bool outside; /* a client that is not paused has the object as well */
};

/* A search for objects that are shared with other clients */
struct amdgpu_criu_sharing {
	const struct criu_call *call; /* its session is of kind CHECKPOINT */
	/* Its clients are visited, and their objects added. Then others are, which mark them. */
	bool paused;
	struct xarray objects; /* struct amdgpu_criu_paused_object by the address of the object */
	/* What is reported: the first BO with outside set, or else the first syncobj */
	struct amdgpu_criu_outside *args;
};

int amdgpu_criu_visit(struct amdgpu_criu_sharing *sharing,
		      const struct amdgpu_criu_paused_object *object);
int amdgpu_criu_visit_bo(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			 pid_t pid, u32 handle);
int kfd_criu_visit_processes(struct amdgpu_criu_sharing *sharing);

#endif /* _AMDGPU_CRIU_OBJECT_H_ */
