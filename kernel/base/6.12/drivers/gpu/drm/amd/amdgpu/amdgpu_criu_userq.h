/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/**
 * DOC: User queues
 *
 * This kernel has none.
 */
#ifndef _AMDGPU_CRIU_USERQ_H_
#define _AMDGPU_CRIU_USERQ_H_

#include <linux/types.h>

struct criu_dump;
struct amdgpu_fpriv;

static inline bool amdgpu_criu_has_userqs(struct amdgpu_fpriv *fpriv)
{
	return false;
}

static inline int amdgpu_criu_ring_userqs(struct criu_dump *dump)
{
	return 0;
}

static inline int amdgpu_criu_stop_userqs(struct criu_dump *dump, unsigned long deadline)
{
	return 0;
}

static inline int amdgpu_criu_resume_userqs(struct criu_dump *dump)
{
	return 0;
}

static inline int amdgpu_criu_start_userqs(struct amdgpu_fpriv *fpriv)
{
	return 0;
}

static inline void amdgpu_criu_drop_userqs(struct amdgpu_fpriv *fpriv)
{
}

#endif /* _AMDGPU_CRIU_USERQ_H_ */
