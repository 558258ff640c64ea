/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The gate of an open file, which all its ioctls pass except the checkpoint/restore ioctl. */
#ifndef _AMDGPU_CRIU_GATE_H_
#define _AMDGPU_CRIU_GATE_H_

#include <drm/amdgpu_criu.h>
#include <drm/drm_file.h>
#include <drm/drm_ioctl.h>

#include "amdgpu.h"

struct criu_call;

int amdgpu_criu_open(struct amdgpu_fpriv *fpriv, struct drm_file *file);
bool amdgpu_criu_is_wait(unsigned int cmd);
int amdgpu_criu_evict(struct criu_call *call, void *args);

static inline long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
					   criu_ioctl_fn ioctl)
{
	struct drm_file *file = filp->private_data;
	struct amdgpu_fpriv *fpriv = file->driver_priv;

	if (_IOC_NR(cmd) == DRM_COMMAND_BASE + AMDGPU_CRIU_NR)
		return ioctl(filp, cmd, arg);
	return criu_client_ioctl(&fpriv->criu, amdgpu_criu_is_wait(cmd), filp, cmd, arg, ioctl);
}

#endif /* _AMDGPU_CRIU_GATE_H_ */
