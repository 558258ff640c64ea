/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* BOs in a session: declarations for render nodes, KFD and the GEM code. */
#ifndef _AMDGPU_CRIU_OBJECT_H_
#define _AMDGPU_CRIU_OBJECT_H_

#include <linux/types.h>

#include "criu_session.h"

struct amdgpu_fpriv;
struct dma_buf;
struct drm_device;
struct drm_file;
struct drm_gem_object;

/* Operations of a BO in a session, a &struct drm_gem_object, for any node. */
extern const struct criu_object_ops amdgpu_criu_bo_ops;

struct drm_gem_object *amdgpu_criu_owner_object(struct drm_gem_object *gem);
struct dma_buf *amdgpu_criu_object_dmabuf(struct drm_gem_object *gem);
bool amdgpu_criu_dmabuf_has_importer(struct dma_buf *dmabuf);
bool amdgpu_criu_object_has_importer(struct drm_gem_object *gem);
int amdgpu_criu_object_id(struct criu_session *session, struct drm_gem_object *gem, u64 *id);

bool amdgpu_criu_is_copy(const struct dma_buf *dmabuf);
int amdgpu_criu_allow_copy(const struct drm_file *file, const struct dma_buf *dmabuf);
bool amdgpu_criu_may_open(const struct amdgpu_fpriv *fpriv, const struct drm_gem_object *gem);
int amdgpu_criu_fd_to_handle(struct drm_device *dev, struct drm_file *file, int fd, u32 *handle);

#endif /* _AMDGPU_CRIU_OBJECT_H_ */
