// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Userptr BOs. RESTORE creates them without memory. The memory of the process is in place
 * when RESUME is called, possibly by another process.
 */
#include <drm/ttm/ttm_tt.h>
#include <linux/sched/signal.h>

#include "amdgpu.h"
#include "amdgpu_criu_driver.h"
#include "amdgpu_criu_gem.h"
#include "amdgpu_hmm.h"
#include "amdgpu_object.h"
#include "amdgpu_ttm.h"

/*
 * Gets the memory that a userptr is attached to. Returns the memory, without a new reference; NULL
 * if the userptr is not attached.
 */
struct mm_struct *amdgpu_criu_userptr_mm(const struct amdgpu_bo *bo)
{
#ifdef CONFIG_MMU_NOTIFIER
	return bo->notifier.mm;
#else
	return NULL;
#endif
}

/* Makes a new BO a userptr. Follows the code path of DRM_AMDGPU_GEM_USERPTR, up to the notifier. */
int amdgpu_criu_set_userptr(const struct amdgpu_criu_plan *plan,
			    const struct amdgpu_criu_object_record *record,
			    struct amdgpu_bo *bo)
{
	bo->parent = amdgpu_bo_ref(plan->fpriv->vm.root.bo);
	return amdgpu_ttm_tt_set_userptr(&bo->tbo, record->user_addr, record->user_flags);
}

static int amdgpu_criu_bind_pages(struct amdgpu_bo *bo, struct amdgpu_hmm_range *range)
{
	struct ttm_operation_ctx ctx = { .interruptible = true };
	int ret;

	ret = amdgpu_bo_reserve(bo, false);
	if (ret)
		return ret;
	amdgpu_ttm_tt_set_user_pages(bo->tbo.ttm, range);
	amdgpu_bo_placement_from_domain(bo, AMDGPU_GEM_DOMAIN_GTT);
	ret = ttm_bo_validate(&bo->tbo, &bo->placement, &ctx);
	amdgpu_bo_unreserve(bo);
	return ret;
}

/*
 * The process may have unmapped the memory. Its next submission with the BO then fails, as
 * it would have failed before the checkpoint.
 */
static int amdgpu_criu_try_validate(struct amdgpu_bo *bo)
{
	struct amdgpu_hmm_range *range = amdgpu_hmm_range_alloc(NULL);
	int ret;

	if (!range)
		return -ENOMEM;
	ret = amdgpu_ttm_tt_get_user_pages(bo, range);
	if (!ret)
		ret = amdgpu_criu_bind_pages(bo, range);
	else if (ret == -EFAULT || ret == -EPERM)
		ret = 0;
	amdgpu_hmm_range_free(range);
	return ret;
}

/*
 * Validates the BO as the process requested by AMDGPU_GEM_USERPTR_VALIDATE. If the memory
 * changes during an attempt, for example by a copy on write, the attempt is repeated, as
 * user space repeats the ioctl.
 */
static int amdgpu_criu_validate_userptr(struct amdgpu_bo *bo)
{
	int ret;

	do {
		ret = amdgpu_criu_try_validate(bo);
	} while (ret == -EAGAIN && !fatal_signal_pending(current));
	return ret;
}

static int amdgpu_criu_attach_userptr(struct amdgpu_criu_dump *dump, struct amdgpu_bo *bo)
{
	u64 addr;
	int ret;

	amdgpu_ttm_tt_get_userptr(&bo->tbo, &addr);
	amdgpu_ttm_tt_set_usertask(bo->tbo.ttm, dump->task);
	ret = amdgpu_hmm_register_mm(bo, dump->mm, addr);
	if (ret)
		return ret;
	if (amdgpu_ttm_tt_get_userflags(bo->tbo.ttm) & AMDGPU_GEM_USERPTR_VALIDATE)
		ret = amdgpu_criu_validate_userptr(bo);
	if (ret)
		amdgpu_hmm_unregister(bo);
	return ret;
}

/* A BO that several files of the process share is attached by the first of them. */
static bool amdgpu_criu_is_detached(struct amdgpu_bo *bo)
{
	return amdgpu_ttm_tt_is_userptr(bo->tbo.ttm) && !amdgpu_criu_userptr_mm(bo);
}

/* Attaches the userptrs of a restored file */
int amdgpu_criu_attach_userptrs(struct amdgpu_criu_dump *dump)
{
	u32 i;
	int ret;

	for (i = 0; i < dump->num_objects; i++) {
		const struct amdgpu_criu_dump_object *object = dump->in_order[i];
		struct amdgpu_bo *bo = gem_to_amdgpu_bo(object->gem);

		if (!amdgpu_criu_is_detached(bo))
			continue;
		ret = amdgpu_criu_attach_userptr(dump, bo);
		if (ret)
			return criu_refuse(dump->out.call, ret,
					   "userptr (handle %u): cannot attach: %d", object->handle,
					   ret);
	}
	return 0;
}
