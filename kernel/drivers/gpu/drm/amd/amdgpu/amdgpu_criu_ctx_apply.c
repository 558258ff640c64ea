// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Contexts of a plan: check, create, and free. */
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/err.h>
#include <linux/limits.h>

#include "amdgpu.h"
#include "amdgpu_criu_render.h"
#include "amdgpu_ctx.h"
#include "amdgpu_ras.h"

#define AMDGPU_CRIU_CTX_FLAGS \
	(AMDGPU_CRIU_CTX_PSTATE | AMDGPU_CRIU_CTX_RESET | AMDGPU_CRIU_CTX_RESET_UNREAD | \
	 AMDGPU_CRIU_CTX_LOST | AMDGPU_CRIU_CTX_RAS_CE_UNREAD | AMDGPU_CRIU_CTX_RAS_UE_UNREAD)

static const char *amdgpu_criu_ctx_fault(const struct amdgpu_criu_ctx_record *record)
{
	if (!record->id || record->id >= AMDGPU_VM_MAX_NUM_CTX)
		return "id";
	if (!amdgpu_ctx_priority_is_valid(record->init_priority))
		return "priority";
	if (record->override_priority != AMDGPU_CTX_PRIORITY_UNSET &&
	    !amdgpu_ctx_priority_is_valid(record->override_priority))
		return "priority that overrides its own";
	if (record->stable_pstate > AMDGPU_CTX_STABLE_PSTATE_PEAK ||
	    (record->stable_pstate && !(record->flags & AMDGPU_CRIU_CTX_PSTATE)))
		return "power state";
	return NULL;
}

static const char *amdgpu_criu_entity_fault(const struct amdgpu_criu_ctx_entity *entity, u64 *seen)
{
	u64 bit;

	BUILD_BUG_ON(AMDGPU_HW_IP_NUM * AMDGPU_MAX_ENTITY_NUM > BITS_PER_TYPE(bit));

	if (entity->hw_ip >= AMDGPU_HW_IP_NUM ||
	    entity->ring >= amdgpu_ctx_num_entities[entity->hw_ip])
		return "no such engine";
	bit = BIT_ULL(entity->hw_ip * AMDGPU_MAX_ENTITY_NUM + entity->ring);
	if (*seen & bit)
		return "is there twice";
	*seen |= bit;
	if (!entity->sequence || entity->sequence > S64_MAX)
		return "sequence number";
	if (entity->error > 0 || entity->error < -MAX_ERRNO)
		return "error";
	return entity->pad ? "pad is not zero" : NULL;
}

/* Without a scheduler, amdgpu_ctx_get_entity() would fail. */
static bool amdgpu_criu_has_engine(const struct amdgpu_criu_plan *plan, u32 hw_ip)
{
	const struct amdgpu_xcp_mgr *xcp_mgr = plan->adev->xcp_mgr;
	u32 xcp = plan->fpriv->xcp_id;

	if (!xcp_mgr)
		return plan->adev->gpu_sched[hw_ip][AMDGPU_RING_PRIO_DEFAULT].num_scheds;
	xcp = xcp == AMDGPU_XCP_NO_PARTITION ? 0 : xcp;
	return xcp_mgr->xcp[xcp].gpu_sched[hw_ip][AMDGPU_RING_PRIO_DEFAULT].num_scheds;
}

static int amdgpu_criu_check_entities(struct amdgpu_criu_plan *plan,
				      const struct amdgpu_criu_plan_ctx *ctx)
{
	const struct amdgpu_criu_ctx_entity *entity = ctx->entities;
	const char *fault;
	u64 seen = 0;

	for (u32 i = 0; i < ctx->record.num_entities; i++, entity++) {
		fault = amdgpu_criu_entity_fault(entity, &seen);
		if (fault)
			return criu_refuse(plan->call, -EBADMSG, "context %u: engine %u:%u: %s",
					   ctx->record.id, entity->hw_ip, entity->ring, fault);
		if (amdgpu_criu_stateful_engine(entity->hw_ip))
			return criu_refuse(plan->call, -EOPNOTSUPP,
					   "context %u has used %s, which keeps state",
					   ctx->record.id,
					   amdgpu_criu_stateful_engine(entity->hw_ip));
		if (!amdgpu_criu_has_engine(plan, entity->hw_ip))
			return criu_refuse(plan->call, -ENODEV,
					   "context %u: the GPU has no engine of type %u",
					   ctx->record.id, entity->hw_ip);
	}
	return 0;
}

static int amdgpu_criu_check_ctx(struct amdgpu_criu_plan *plan,
				 const struct amdgpu_criu_plan_ctx *ctx)
{
	const struct amdgpu_criu_ctx_record *record = &ctx->record;
	const char *fault = amdgpu_criu_ctx_fault(record);

	if (fault)
		return criu_refuse(plan->call, -EBADMSG, "context %u: %s", record->id, fault);
	if (record->flags & ~AMDGPU_CRIU_CTX_FLAGS)
		return criu_refuse(plan->call, -EOPNOTSUPP, "context %u: unknown flags %#x",
				   record->id, record->flags);
	if (amdgpu_ctx_priority_permit(plan->file, record->init_priority) ||
	    amdgpu_ctx_priority_permit(plan->file, record->override_priority))
		return criu_refuse(plan->call, -EACCES,
				   "context %u: its priority needs CAP_SYS_NICE", record->id);
	return amdgpu_criu_check_entities(plan, ctx);
}

int amdgpu_criu_check_ctxs(struct amdgpu_criu_plan *plan)
{
	int ret;

	for (u32 i = 0; i < plan->num_ctxs; i++) {
		ret = amdgpu_criu_check_ctx(plan, &plan->ctxs[i]);
		if (ret)
			return ret;
	}
	return amdgpu_criu_sort_numbers(plan->call, "context", plan->ctxs, plan->num_ctxs,
					sizeof(*plan->ctxs));
}

static void amdgpu_criu_set_ctx(struct amdgpu_criu_plan *plan,
				const struct amdgpu_criu_ctx_record *record,
				struct amdgpu_ctx *ctx)
{
	struct amdgpu_ras *ras = amdgpu_ras_get_context(plan->adev);

	if (record->override_priority != AMDGPU_CTX_PRIORITY_UNSET)
		amdgpu_ctx_priority_override(ctx, record->override_priority);
	/* Ioctls report only whether a counter differs, not its value. */
	ctx->reset_counter -= !!(record->flags & AMDGPU_CRIU_CTX_RESET);
	ctx->reset_counter_query -= !!(record->flags & AMDGPU_CRIU_CTX_RESET_UNREAD);
	if (record->flags & AMDGPU_CRIU_CTX_LOST)
		ctx->generation = ~ctx->generation;
	if (!ras)
		return;
	ctx->ras_counter_ce = atomic_read(&ras->ras_ce_count) -
			      !!(record->flags & AMDGPU_CRIU_CTX_RAS_CE_UNREAD);
	ctx->ras_counter_ue = atomic_read(&ras->ras_ue_count) -
			      !!(record->flags & AMDGPU_CRIU_CTX_RAS_UE_UNREAD);
}

static int amdgpu_criu_apply_entities(const struct amdgpu_criu_plan_ctx *plan_ctx,
				      struct amdgpu_ctx *ctx)
{
	struct drm_sched_entity *unused;
	int ret;

	for (u32 i = 0; i < plan_ctx->record.num_entities; i++) {
		const struct amdgpu_criu_ctx_entity *from = &plan_ctx->entities[i];
		struct amdgpu_ctx_entity *entity;

		ret = amdgpu_ctx_get_entity(ctx, from->hw_ip, 0, from->ring, &unused);
		if (ret)
			return ret;
		entity = ctx->entities[from->hw_ip][from->ring];
		entity->sequence = from->sequence;
		entity->restored_error = from->error;
	}
	return 0;
}

/*
 * Follows the code path of AMDGPU_CTX_OP_SET_STABLE_PSTATE, and owns the state even if it did
 * not change.
 */
static int amdgpu_criu_apply_pstate(struct amdgpu_criu_plan *plan, u32 pstate,
				    struct amdgpu_ctx *ctx)
{
	struct amdgpu_device *adev = plan->adev;
	int ret;

	guard(mutex)(&adev->pm.stable_pstate_ctx_lock);
	ret = __amdgpu_ctx_set_stable_pstate(ctx, pstate);
	if (!ret && !adev->pm.stable_pstate_ctx) {
		ctx->stable_pstate = pstate;
		adev->pm.stable_pstate_ctx = ctx;
	}
	return ret;
}

/* Follows the code path of AMDGPU_CTX_OP_ALLOC_CTX, with the saved id of the context. */
static int amdgpu_criu_apply_ctx(struct amdgpu_criu_plan *plan,
				 const struct amdgpu_criu_plan_ctx *plan_ctx)
{
	const struct amdgpu_criu_ctx_record *record = &plan_ctx->record;
	struct amdgpu_ctx *ctx;
	u32 id;
	int ret = amdgpu_ctx_alloc(plan->adev, plan->fpriv, plan->file, record->init_priority,
				   record->id, record->id + 1, &id);

	if (ret)
		return ret == -ENOSPC ? -EBUSY : ret;
	plan->ctxs_done++;
	ctx = amdgpu_ctx_get(plan->fpriv, id);
	if (!ctx)
		return -EBUSY;
	amdgpu_criu_set_ctx(plan, record, ctx);
	ret = amdgpu_criu_apply_entities(plan_ctx, ctx);
	if (!ret && (record->flags & AMDGPU_CRIU_CTX_PSTATE))
		ret = amdgpu_criu_apply_pstate(plan, record->stable_pstate, ctx);
	amdgpu_ctx_put(ctx);
	return ret;
}

int amdgpu_criu_apply_ctxs(struct amdgpu_criu_plan *plan)
{
	int ret;

	for (u32 i = 0; i < plan->num_ctxs; i++) {
		ret = amdgpu_criu_apply_ctx(plan, &plan->ctxs[i]);
		if (ret)
			return criu_refuse(plan->call, ret, "context %u: cannot restore: %d",
					   plan->ctxs[i].record.id, ret);
	}
	return 0;
}

void amdgpu_criu_undo_ctxs(struct amdgpu_criu_plan *plan)
{
	for (; plan->ctxs_done; plan->ctxs_done--)
		amdgpu_ctx_free(plan->fpriv, plan->ctxs[plan->ctxs_done - 1].record.id);
}
