/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BOs that clients paused by a session share with others: what render nodes and KFD
 * know of it.
 */
#ifndef _AMDGPU_CRIU_OUTSIDE_H_
#define _AMDGPU_CRIU_OUTSIDE_H_

#include <linux/types.h>

struct criu_session;
struct drm_gem_object;

/**
 * struct amdgpu_criu_insider - a BO of a client that the session has paused
 * @home: GEM object on the GPU that it was allocated on; a reference of ours
 * @pid: process of that client, in the caller's pid namespace
 * @handle: the client's handle of it
 * @outside: a client that is not paused has it as well
 */
struct amdgpu_criu_insider {
	struct drm_gem_object *home;
	pid_t pid;
	u32 handle;
	bool outside;
};

/**
 * struct amdgpu_criu_sharing - one search for what is shared with others
 * @session: of kind CHECKPOINT
 * @bos: BOs of its clients; sorted before the others are looked at
 * @num_bos: entries at @bos
 * @room: room at @bos
 * @num_outside: entries that have @outside
 * @first: the first one found, or NULL
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

/* KFD's part. */
int kfd_criu_add_insiders(struct amdgpu_criu_sharing *sharing);
void kfd_criu_see_outsiders(struct amdgpu_criu_sharing *sharing);

#endif /* _AMDGPU_CRIU_OUTSIDE_H_ */
