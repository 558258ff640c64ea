// SPDX-License-Identifier: GPL-2.0 OR MIT
/* EVICT: moves BOs from VRAM to system memory, and back when the client runs again. */
#include <drm/amdgpu_criu.h>
#include <drm/ttm/ttm_bo.h>

#include "amdgpu.h"
#include "amdgpu_criu_object.h"

static bool amdgpu_criu_in_vram(const struct amdgpu_bo *bo)
{
	return bo->tbo.resource && bo->tbo.resource->mem_type == TTM_PL_VRAM;
}

/* Moves a BO to system memory, and counts it. The client does not run. */
int amdgpu_criu_evict_bo(struct amdgpu_bo *bo, struct amdgpu_criu_evict *args)
{
	/* Fails rather than that the kernel kills a process for the memory. */
	struct ttm_operation_ctx ctx = { .interruptible = true, .gfp_retry_mayfail = true };
	bool kept;
	int ret;

	if (!(bo->preferred_domains & AMDGPU_GEM_DOMAIN_VRAM))
		return 0;
	ret = amdgpu_bo_reserve(bo, false);
	if (ret)
		return ret;
	kept = amdgpu_criu_in_vram(bo) && (bo->tbo.pin_count || amdgpu_bo_encrypted(bo));
	if (amdgpu_criu_in_vram(bo) && !kept) {
		/* Not in the GTT domain, whose size is limited, and others need it. */
		amdgpu_bo_placement_from_domain(bo, AMDGPU_GEM_DOMAIN_CPU);
		ret = ttm_bo_validate(&bo->tbo, &bo->placement, &ctx);
	}
	if (!ret)
		*(kept ? &args->kept : &args->bytes) += amdgpu_bo_size(bo);
	amdgpu_bo_unreserve(bo);
	return ret;
}

/* Moves a BO back, or to where the GPU can access it. */
void amdgpu_criu_readmit_bo(struct amdgpu_bo *bo)
{
	struct ttm_operation_ctx ctx = {};

	if (!(bo->preferred_domains & AMDGPU_GEM_DOMAIN_VRAM) || amdgpu_bo_reserve(bo, true))
		return;
	if (!amdgpu_criu_in_vram(bo) && !bo->tbo.pin_count) {
		amdgpu_bo_placement_from_domain(bo, bo->preferred_domains);
		if (ttm_bo_validate(&bo->tbo, &bo->placement, &ctx)) {
			amdgpu_bo_placement_from_domain(bo, AMDGPU_GEM_DOMAIN_GTT);
			(void)ttm_bo_validate(&bo->tbo, &bo->placement, &ctx);
		}
	}
	amdgpu_bo_unreserve(bo);
}
