/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Shared declarations of the files that handle BOs. */
#ifndef KFD_CRIU_BO_H_
#define KFD_CRIU_BO_H_

#include "amdgpu_criu_object.h"
#include "kfd_criu.h"

/* Each BO is of exactly one kind, and has any number of attributes. */
#define KFD_CRIU_BO_KINDS (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT | \
			   KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | \
			   KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
#define KFD_CRIU_BO_ATTRS (KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
			   KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE | \
			   KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | \
			   KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE | \
			   KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM | \
			   KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | \
			   KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED | \
			   KFD_IOC_ALLOC_MEM_FLAGS_EXT_COHERENT | \
			   KFD_IOC_ALLOC_MEM_FLAGS_CONTIGUOUS)

struct drm_gem_object;

int kfd_criu_find_object(struct kfd_criu_plan *plan, const struct kfd_criu_plan_bo *bo,
			 struct drm_gem_object **gem);
int kfd_criu_take_bo(struct kfd_criu_plan *plan, struct kfd_criu_plan_bo *bo,
		     struct drm_gem_object *gem);
void kfd_criu_disown_bo(struct kfd_criu_plan_bo *bo);

u32 kfd_criu_bo_domain(u32 alloc_flags);
u32 kfd_criu_bo_table_flags(u32 alloc_flags);
u64 kfd_criu_bo_offset(u32 alloc_flags, u32 gpu_id, struct kgd_mem *mem);
u64 kfd_criu_bo_va_size(const struct kfd_criu_bo_record *record);
void kfd_criu_bo_entry(const struct kfd_criu_bo_record *record, struct amdgpu_criu_bo *entry);

#endif /* KFD_CRIU_BO_H_ */
