/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Dma-bufs for copying the contents of BOs. */
#ifndef _AMDGPU_CRIU_COPY_H_
#define _AMDGPU_CRIU_COPY_H_

#include <linux/types.h>

struct amdgpu_fpriv;
struct dma_buf;
struct drm_device;
struct drm_file;
struct drm_gem_object;

struct dma_buf *amdgpu_criu_new_copy(struct drm_gem_object *gem, int flags);
void amdgpu_criu_end_copy(struct dma_buf *dmabuf);
bool amdgpu_criu_is_copy(const struct dma_buf *dmabuf);
int amdgpu_criu_allow_copy(const struct drm_file *file, const struct dma_buf *dmabuf);

bool amdgpu_criu_may_open(const struct amdgpu_fpriv *fpriv, const struct drm_gem_object *gem);
int amdgpu_criu_fd_to_handle(struct drm_device *dev, struct drm_file *file, int fd, u32 *handle);

#endif /* _AMDGPU_CRIU_COPY_H_ */
