/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Steering of GEM handles: drm_gem_handle_create() and
 * drm_gem_prime_fd_to_handle() give the lowest number that is free. Restore wants
 * a certain one, so everything below it gets an empty entry until restore is done.
 *
 *   begin; for each handle, in ascending order { seek; create }; end
 *
 * Nobody else may make or close handles of the file meanwhile; if somebody does,
 * create gives another number than the one wanted, and no object is lost.
 *
 * Contexts, BO lists and syncobjs need none of it: their numbers can be asked for.
 */
#ifndef _AMDGPU_CRIU_HANDLES_H_
#define _AMDGPU_CRIU_HANDLES_H_

#include <linux/sizes.h>
#include <linux/types.h>

struct criu_call;
struct drm_file;

/*
 * No greater handle is carried: each number below one that is costs an empty entry
 * for a moment. The kernel gives the lowest free number, so a file whose handles
 * reach it has, or had, that many at once.
 */
#define AMDGPU_CRIU_HANDLE_MAX SZ_1M

/**
 * struct amdgpu_criu_handles - empty entries in a file's table of GEM handles
 * @file: the file
 * @fillers: numbers that an empty entry was put at; bit 0 is not used
 * @last: no greater number will be sought
 * @next: all numbers below have an entry
 */
struct amdgpu_criu_handles {
	struct drm_file *file;
	unsigned long *fillers;
	u32 last;
	u32 next;
};

int amdgpu_criu_handles_begin(struct amdgpu_criu_handles *handles, struct drm_file *file,
			      u32 last);
int amdgpu_criu_handles_seek(struct amdgpu_criu_handles *handles, u32 handle);
void amdgpu_criu_handles_end(struct amdgpu_criu_handles *handles);

int amdgpu_criu_sort_numbers(const struct criu_call *call, const char *what, void *entries,
			     u32 num, size_t size);

#endif /* _AMDGPU_CRIU_HANDLES_H_ */
