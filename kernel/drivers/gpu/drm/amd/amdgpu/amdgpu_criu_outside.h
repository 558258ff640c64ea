/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BOs that clients paused by a session share with other clients, of render nodes and KFD.
 */
#ifndef _AMDGPU_CRIU_OUTSIDE_H_
#define _AMDGPU_CRIU_OUTSIDE_H_

#include <linux/types.h>

struct criu_session;
struct drm_gem_object;

/**
 * struct amdgpu_criu_insider - a BO of a client that the session has paused
 * @home: GEM object on the GPU where it was allocated, with a reference
 * @pid: process of that client, in the caller's pid namespace
 * @handle: the client's handle of the BO
 * @outside: a client that is not paused has the BO as well
 */
struct amdgpu_criu_insider {
	struct drm_gem_object *home;
	pid_t pid;
	u32 handle;
	bool outside;
};

/**
 * struct amdgpu_criu_sharing - a search for BOs that are shared with other clients
 * @session: session of kind CHECKPOINT
 * @bos: BOs of its clients; sorted before other clients are checked
 * @num_bos: entries at @bos
 * @room: capacity of @bos in entries
 * @num_outside: number of entries with @outside set
 * @first: the first such entry, or NULL
 * @pid: process that has @first and is not paused, 0 if the caller cannot see it
 */
struct amdgpu_criu_sharing {
	struct criu_session *session;
	struct amdgpu_criu_insider *bos;
	u32 num_bos;
	u32 room;
	u32 num_outside;
	const struct amdgpu_criu_insider *first;
	pid_t pid;
};

int amdgpu_criu_add_insider(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			    pid_t pid, u32 handle);
void amdgpu_criu_see_outsider(struct amdgpu_criu_sharing *sharing, struct drm_gem_object *gem,
			      pid_t pid);

/* The KFD part. */
int kfd_criu_add_insiders(struct amdgpu_criu_sharing *sharing);
int kfd_criu_see_outsiders(struct amdgpu_criu_sharing *sharing);

#endif /* _AMDGPU_CRIU_OUTSIDE_H_ */
