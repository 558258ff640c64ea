/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The gate of an open file, which all its ioctls pass except the checkpoint/restore ioctl. */
#ifndef _AMDGPU_CRIU_GATE_H_
#define _AMDGPU_CRIU_GATE_H_

#include "criu_session.h"

struct amdgpu_fpriv;
struct drm_file;

int amdgpu_criu_open(struct amdgpu_fpriv *fpriv, struct drm_file *file);
long amdgpu_criu_gated_ioctl(struct file *filp, unsigned int cmd, unsigned long arg,
			     criu_ioctl_fn ioctl);

#endif /* _AMDGPU_CRIU_GATE_H_ */
