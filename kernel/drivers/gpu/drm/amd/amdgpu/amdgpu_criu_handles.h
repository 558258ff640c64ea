/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Creation of GEM handles with chosen numbers. drm_gem_handle_create() and
 * drm_gem_prime_fd_to_handle() allocate the lowest free number. Restore needs a specific
 * number, so every free number below it gets an empty entry until the restore ends.
 *
 *   begin; for each handle, in ascending order { seek; create }; end
 *
 * No one else may open or close handles of the file in between. If this happens, create
 * returns a different number, and no object is lost.
 *
 * Contexts, BO lists and syncobjs do not need this: their numbers can be requested.
 */
#ifndef _AMDGPU_CRIU_HANDLES_H_
#define _AMDGPU_CRIU_HANDLES_H_

#include <linux/sizes.h>
#include <linux/types.h>

struct criu_call;
struct drm_file;

/*
 * Greater handles are not carried, because each number below a handle takes a temporary
 * empty entry. The kernel allocates the lowest free number, so a file with a handle above
 * this limit has, or had, that many handles at once.
 */
#define AMDGPU_CRIU_HANDLE_MAX SZ_1M

/* Empty entries in a file's table of GEM handles */
struct amdgpu_criu_handles {
	struct drm_file *file;
	unsigned long *fillers; /* numbers with an empty entry; bit 0 is not used */
	u32 last; /* greatest number that may be requested */
	u32 next; /* all numbers below it have an entry */
};

int amdgpu_criu_handles_begin(struct amdgpu_criu_handles *handles, struct drm_file *file,
			      u32 last);
int amdgpu_criu_handles_seek(struct amdgpu_criu_handles *handles, u32 handle);
void amdgpu_criu_handles_end(struct amdgpu_criu_handles *handles);

int amdgpu_criu_sort_numbers(const struct criu_call *call, const char *what, void *entries,
			     u32 num, size_t size);

#endif /* _AMDGPU_CRIU_HANDLES_H_ */
