/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Declarations shared by the files that handle BOs. */
#ifndef _AMDGPU_CRIU_GEM_H_
#define _AMDGPU_CRIU_GEM_H_

#include "amdgpu_criu_handles.h"
#include "amdgpu_criu_render.h"

/* A BO is in one of these domains only, or may be in several of the others. */
#define AMDGPU_CRIU_SPECIAL_DOMAINS (AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | \
				     AMDGPU_GEM_DOMAIN_OA | AMDGPU_GEM_DOMAIN_DOORBELL)
#define AMDGPU_CRIU_NORMAL_DOMAINS (AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | \
				    AMDGPU_GEM_DOMAIN_VRAM)
/* Sizes in these domains are in units of the resource; the driver counts a page for each. */
#define AMDGPU_CRIU_UNIT_DOMAINS (AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | \
				  AMDGPU_GEM_DOMAIN_OA)

struct drm_gem_object *amdgpu_criu_next_handle(struct drm_file *file, int *handle);
u32 amdgpu_criu_object_domain(const struct amdgpu_criu_object_record *record);
u32 amdgpu_criu_object_table_flags(const struct amdgpu_criu_object_record *record);
void amdgpu_criu_object_entry(const struct amdgpu_criu_object_record *record,
			      struct amdgpu_criu_bo *entry);
u64 amdgpu_criu_object_offset(struct drm_gem_object *gem);

struct mm_struct *amdgpu_criu_userptr_mm(const struct amdgpu_bo *bo);
int amdgpu_criu_set_userptr(const struct amdgpu_criu_plan *plan,
			    const struct amdgpu_criu_object_record *record,
			    struct amdgpu_bo *bo);

#endif /* _AMDGPU_CRIU_GEM_H_ */
