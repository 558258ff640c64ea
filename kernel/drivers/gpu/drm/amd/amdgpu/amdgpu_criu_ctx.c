// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: Contexts
 *
 * Carried: id, priority, stable power state, guilt, next sequence numbers. Jobs are complete when
 * contexts are saved, and their fences need not be saved: amdgpu_ctx_get_fence() treats a sequence
 * number below the next one that has no fence as a complete job.
 *
 * Not carried: contexts that have used a video engine.
 */
#include "amdgpu_criu_render.h"

#define AMDGPU_CRIU_RESET_POLL 20 /* ms; a reset takes about a second */

/* Returns the first entity of a context from *@hw_ip and *@ring on, or NULL. */
static struct amdgpu_ctx_entity *amdgpu_criu_next_entity(const struct amdgpu_ctx *ctx, u32 *hw_ip,
							 u32 *ring)
{
	for (; *hw_ip < AMDGPU_HW_IP_NUM; ++*hw_ip, *ring = 0)
		for (; *ring < amdgpu_ctx_num_entities[*hw_ip]; ++*ring)
			if (ctx->entities[*hw_ip][*ring])
				return ctx->entities[*hw_ip][*ring];
	return NULL;
}

/* A reset signals the fences of the jobs it ended before it records what was lost. */
int amdgpu_criu_wait_reset(struct criu_dump *dump, unsigned long deadline)
{
	while (amdgpu_in_reset(dump->adev)) {
		if (time_after(jiffies, deadline))
			return criu_refuse(dump->call, -ETIME,
					   "a reset of the GPU does not complete");
		if (msleep_interruptible(AMDGPU_CRIU_RESET_POLL))
			return -ERESTARTSYS;
	}
	return 0;
}

static u32 amdgpu_criu_ctx_flags(struct amdgpu_device *adev, struct amdgpu_fpriv *fpriv,
				 const struct amdgpu_ctx *ctx)
{
	struct amdgpu_ras *ras = amdgpu_ras_get_context(adev);
	unsigned int resets = atomic_read(&adev->gpu_reset_counter);
	u32 flags = 0;

	if (ctx->reset_counter != resets)
		flags |= AMDGPU_CRIU_CTX_RESET;
	if (ctx->reset_counter_query != resets)
		flags |= AMDGPU_CRIU_CTX_RESET_UNREAD;
	if (ctx->generation != amdgpu_vm_generation(adev, &fpriv->vm))
		flags |= AMDGPU_CRIU_CTX_LOST;
	if (!ras)
		return flags;
	if (ctx->ras_counter_ce != atomic_read(&ras->ras_ce_count))
		flags |= AMDGPU_CRIU_CTX_RAS_CE_UNREAD;
	if (ctx->ras_counter_ue != atomic_read(&ras->ras_ue_count))
		flags |= AMDGPU_CRIU_CTX_RAS_UE_UNREAD;
	return flags;
}

/* Engines whose firmware keeps state between jobs, which no ioctl reads or sets */
static const char *const amdgpu_criu_stateful_engines[AMDGPU_HW_IP_NUM] = {
	[AMDGPU_HW_IP_UVD] = "UVD",
	[AMDGPU_HW_IP_VCE] = "VCE",
	[AMDGPU_HW_IP_UVD_ENC] = "UVD encode",
	[AMDGPU_HW_IP_VCN_DEC] = "VCN decode",
	[AMDGPU_HW_IP_VCN_ENC] = "VCN encode",
	[AMDGPU_HW_IP_VCN_JPEG] = "VCN JPEG",
};

static int amdgpu_criu_dump_ctx(struct criu_dump *dump, struct amdgpu_ctx *ctx, u32 id)
{
	struct amdgpu_criu_ctx_record record = {
		.id = id,
		.flags = amdgpu_criu_ctx_flags(dump->adev, dump->fpriv, ctx),
		.init_priority = ctx->init_priority,
		.override_priority = ctx->override_priority,
	};
	struct amdgpu_criu_ctx_entity entry;
	struct amdgpu_ctx_entity *entity;
	u32 hw_ip = 0, ring;

	for (ring = 0; amdgpu_criu_next_entity(ctx, &hw_ip, &ring); ring++) {
		if (amdgpu_criu_stateful_engines[hw_ip])
			return criu_refuse_state(dump->call, "context %u has used %s", id,
						 amdgpu_criu_stateful_engines[hw_ip]);
		record.num_entities++;
	}
	mutex_lock(&dump->adev->pm.stable_pstate_ctx_lock);
	if (dump->adev->pm.stable_pstate_ctx == ctx) {
		record.flags |= AMDGPU_CRIU_CTX_PSTATE;
		record.stable_pstate = amdgpu_get_stable_pstate(dump->adev);
	}
	mutex_unlock(&dump->adev->pm.stable_pstate_ctx_lock);
	criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_CTX, &record);
	hw_ip = 0;
	for (ring = 0; (entity = amdgpu_criu_next_entity(ctx, &hw_ip, &ring)); ring++) {
		entry = (struct amdgpu_criu_ctx_entity) {
			.hw_ip = hw_ip, .ring = ring,
			.sequence = entity->sequence,
			.error = amdgpu_ctx_entity_error(entity),
		};
		criu_writer_tail_copy(&dump->writer, &entry, sizeof(entry));
	}
	return 0;
}

static int amdgpu_criu_dump_ctxs(struct criu_dump *dump)
{
	struct amdgpu_ctx *ctx;
	unsigned long id;
	int ret = 0;

	/* The gate of the file is closed: no context is created or destroyed. */
	xa_for_each(&dump->fpriv->ctx_mgr.ctx_handles, id, ctx)
		ret = ret ?: amdgpu_criu_dump_ctx(dump, ctx, id);
	return ret;
}

static const char *amdgpu_criu_ctx_fault(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_ctx_record *record = entry;

	if (!record->id)
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
		return "occurs twice";
	*seen |= bit;
	if (!entity->sequence || entity->sequence > S64_MAX)
		return "sequence number";
	if (entity->error > 0 || entity->error < -MAX_ERRNO)
		return "error";
	return entity->pad ? "pad is not zero" : NULL;
}

static int amdgpu_criu_check_ctx(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_plan_ctx *ctx = entry;
	const struct amdgpu_xcp_mgr *xcp_mgr = plan->adev->xcp_mgr;
	const u32 xcp = plan->fpriv->xcp_id == AMDGPU_XCP_NO_PARTITION ? 0 : plan->fpriv->xcp_id;
	const struct amdgpu_sched *sched;
	const char *fault;
	u64 seen = 0;

	if (ctx->record.flags & ~AMDGPU_CRIU_CTX_FLAGS)
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x", ctx->record.flags);
	if (amdgpu_ctx_priority_permit(plan->file, ctx->record.init_priority) ||
	    amdgpu_ctx_priority_permit(plan->file, ctx->record.override_priority))
		return criu_refuse(plan->call, -EACCES, "its priority needs CAP_SYS_NICE");
	for (u32 i = 0; i < ctx->record.num_entities; i++) {
		const u32 hw_ip = ctx->entities[i].hw_ip;

		fault = amdgpu_criu_entity_fault(&ctx->entities[i], &seen);
		if (fault)
			return criu_refuse(plan->call, -EBADMSG, "engine %u:%u: %s", hw_ip,
					   ctx->entities[i].ring, fault);
		if (amdgpu_criu_stateful_engines[hw_ip])
			return criu_refuse(plan->call, -EOPNOTSUPP,
					   "it has used %s, which keeps state",
					   amdgpu_criu_stateful_engines[hw_ip]);
		/* Without a scheduler, amdgpu_ctx_get_entity() would fail. */
		sched = xcp_mgr ? xcp_mgr->xcp[xcp].gpu_sched[hw_ip] : plan->adev->gpu_sched[hw_ip];
		if (!sched[AMDGPU_RING_PRIO_DEFAULT].num_scheds)
			return criu_refuse(plan->call, -ENODEV, "the GPU has no engine of type %u",
					   hw_ip);
	}
	return 0;
}

static void amdgpu_criu_set_ctx(struct criu_plan *plan, const struct amdgpu_criu_ctx_record *record,
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

/* Like AMDGPU_CTX_OP_ALLOC_CTX and _SET_STABLE_PSTATE, with the saved id of the context. */
static int amdgpu_criu_apply_ctx(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_ctx_record *record = entry;
	struct amdgpu_device *adev = plan->adev;
	struct amdgpu_ctx *ctx;
	u32 id;
	int ret = amdgpu_ctx_alloc(adev, plan->fpriv, plan->file, record->init_priority,
				   XA_LIMIT(record->id, record->id), &id);

	if (ret)
		return ret;
	ctx = amdgpu_ctx_get(plan->fpriv, id);
	if (!ctx)
		return -EBUSY;
	amdgpu_criu_set_ctx(plan, record, ctx);
	ret = amdgpu_criu_apply_entities(entry, ctx);
	if (!ret && (record->flags & AMDGPU_CRIU_CTX_PSTATE)) {
		/* As the ioctl does. The context owns the state even if it did not change. */
		guard(mutex)(&adev->pm.stable_pstate_ctx_lock);
		ret = __amdgpu_ctx_set_stable_pstate(ctx, record->stable_pstate);
		if (!ret && !adev->pm.stable_pstate_ctx) {
			ctx->stable_pstate = record->stable_pstate;
			adev->pm.stable_pstate_ctx = ctx;
		}
	}
	amdgpu_ctx_put(ctx);
	return ret;
}

static void amdgpu_criu_undo_ctx(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_ctx_record *record = entry;

	amdgpu_ctx_free(plan->fpriv, record->id);
}

const struct criu_kind amdgpu_criu_ctxs = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_CTX, ctxs, struct amdgpu_criu_plan_ctx, record.id),
	.subject = "context %llu", .unique = { CRIU_UNIQUE_ID },
	.tails = { CRIU_KIND_TAIL(struct amdgpu_criu_plan_ctx, num_entities, entities,
				  struct amdgpu_criu_ctx_entity) },
	.dump = amdgpu_criu_dump_ctxs,
	.fault = amdgpu_criu_ctx_fault, .check = amdgpu_criu_check_ctx,
	.apply = amdgpu_criu_apply_ctx, .undo = amdgpu_criu_undo_ctx,
};
