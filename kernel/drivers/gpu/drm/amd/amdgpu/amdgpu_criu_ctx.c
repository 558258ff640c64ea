// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Contexts. Their jobs are complete when they are saved, and the fences of complete jobs
 * need not be saved: amdgpu_ctx_get_fence() treats a sequence number below the next one
 * that has no fence as a complete job.
 */
#include <linux/delay.h>
#include <linux/dma-fence.h>
#include <linux/idr.h>
#include <linux/jiffies.h>

#include "amdgpu.h"
#include "amdgpu_criu_render.h"
#include "amdgpu_ctx.h"
#include "amdgpu_ras.h"
#include "amdgpu_reset.h"

/* Milliseconds; a reset takes about a second. */
#define AMDGPU_CRIU_RESET_POLL 20

/* Waits for a fence until a deadline */
int amdgpu_criu_wait_fence(struct dma_fence *fence, unsigned long deadline)
{
	unsigned long now = jiffies;
	long ret;

	ret = dma_fence_wait_timeout(fence, true, time_before(now, deadline) ? deadline - now : 0);
	if (ret < 0)
		return ret;
	return ret ? 0 : -ETIME;
}

/*
 * Returns the context with the lowest id >= *@id, with a reference, and stores its id in *@id;
 * or NULL.
 */
static struct amdgpu_ctx *amdgpu_criu_next_ctx(struct amdgpu_ctx_mgr *mgr, int *id)
{
	struct amdgpu_ctx *ctx;

	guard(mutex)(&mgr->lock);
	ctx = idr_get_next(&mgr->ctx_handles, id);
	if (ctx)
		kref_get(&ctx->refcount);
	return ctx;
}

static int amdgpu_criu_drain_entity(struct amdgpu_ctx *ctx, const struct amdgpu_ctx_entity *entity,
				    unsigned long deadline)
{
	struct dma_fence *fence;
	int i, ret = 0;

	for (i = 0; !ret && i < amdgpu_sched_jobs; i++) {
		spin_lock(&ctx->ring_lock);
		fence = dma_fence_get(entity->fences[i]);
		spin_unlock(&ctx->ring_lock);
		if (!fence)
			continue;
		ret = amdgpu_criu_wait_fence(fence, deadline);
		dma_fence_put(fence);
	}
	return ret;
}

static int amdgpu_criu_drain_ctx(struct amdgpu_criu_dump *dump, struct amdgpu_ctx *ctx, int id,
				 unsigned long deadline)
{
	u32 hw_ip, ring;
	int ret;

	for (hw_ip = 0; hw_ip < AMDGPU_HW_IP_NUM; hw_ip++) {
		for (ring = 0; ring < amdgpu_ctx_num_entities[hw_ip]; ring++) {
			if (!ctx->entities[hw_ip][ring])
				continue;
			ret = amdgpu_criu_drain_entity(ctx, ctx->entities[hw_ip][ring], deadline);
			if (ret == -ETIME)
				criu_refuse(dump->out.call, ret,
					    "context %d: a job of engine %u:%u hangs", id, hw_ip,
					    ring);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/* A reset signals the fences of the jobs it ended before it records what was lost. */
static int amdgpu_criu_drain_reset(struct amdgpu_criu_dump *dump, unsigned long deadline)
{
	while (amdgpu_in_reset(dump->adev)) {
		if (time_after(jiffies, deadline))
			return criu_refuse(dump->out.call, -ETIME,
					   "a reset of the GPU does not come to its end");
		if (msleep_interruptible(AMDGPU_CRIU_RESET_POLL))
			return -ERESTARTSYS;
	}
	return 0;
}

int amdgpu_criu_drain_ctxs(struct amdgpu_criu_dump *dump, unsigned long deadline)
{
	struct amdgpu_ctx_mgr *mgr = &dump->fpriv->ctx_mgr;
	struct amdgpu_ctx *ctx;
	int id = 1, ret = 0;

	while (!ret) {
		ctx = amdgpu_criu_next_ctx(mgr, &id);
		if (!ctx)
			break;
		ret = amdgpu_criu_drain_ctx(dump, ctx, id, deadline);
		amdgpu_ctx_put(ctx);
		id++;
	}
	return ret ? ret : amdgpu_criu_drain_reset(dump, deadline);
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

static void amdgpu_criu_dump_entities(struct amdgpu_criu_dump *dump, struct amdgpu_ctx *ctx)
{
	struct amdgpu_criu_ctx_entity entry;
	u32 hw_ip, ring;

	for (hw_ip = 0; hw_ip < AMDGPU_HW_IP_NUM; hw_ip++) {
		for (ring = 0; ring < amdgpu_ctx_num_entities[hw_ip]; ring++) {
			struct amdgpu_ctx_entity *entity = ctx->entities[hw_ip][ring];

			if (!entity)
				continue;
			entry = (struct amdgpu_criu_ctx_entity) {
				.hw_ip = hw_ip,
				.ring = ring,
				.sequence = entity->sequence,
				.error = amdgpu_ctx_entity_error(entity),
			};
			criu_writer_tail_copy(&dump->out.writer, &entry, sizeof(entry));
		}
	}
}

/*
 * Checks if an engine keeps state between jobs. The state of a video session persists between
 * jobs, in the firmware and in memory that jobs refer to. No ioctl reads or sets it. Returns name
 * of the engine, or NULL if it keeps no state.
 */
const char *amdgpu_criu_stateful_engine(u32 hw_ip)
{
	switch (hw_ip) {
	case AMDGPU_HW_IP_UVD:
		return "UVD";
	case AMDGPU_HW_IP_VCE:
		return "VCE";
	case AMDGPU_HW_IP_UVD_ENC:
		return "UVD encode";
	case AMDGPU_HW_IP_VCN_DEC:
		return "VCN decode";
	case AMDGPU_HW_IP_VCN_ENC:
		return "VCN encode";
	case AMDGPU_HW_IP_VCN_JPEG:
		return "VCN JPEG";
	default:
		return NULL;
	}
}

static const char *amdgpu_criu_used_engine(const struct amdgpu_ctx *ctx)
{
	u32 hw_ip, ring;

	for (hw_ip = 0; hw_ip < AMDGPU_HW_IP_NUM; hw_ip++)
		for (ring = 0; ring < amdgpu_ctx_num_entities[hw_ip]; ring++)
			if (ctx->entities[hw_ip][ring] && amdgpu_criu_stateful_engine(hw_ip))
				return amdgpu_criu_stateful_engine(hw_ip);
	return NULL;
}

static int amdgpu_criu_ctx_carriable(struct amdgpu_criu_dump *dump, const struct amdgpu_ctx *ctx,
				     u32 id)
{
	const char *engine = amdgpu_criu_used_engine(ctx);

	if (!engine)
		return 0;
	return criu_refuse(dump->out.call, -EOPNOTSUPP, "cannot carry: context %u has used %s", id,
			   engine);
}

static int amdgpu_criu_dump_ctx(struct amdgpu_criu_dump *dump, struct amdgpu_ctx *ctx, u32 id)
{
	struct amdgpu_criu_ctx_record record = {
		.id = id,
		.flags = amdgpu_criu_ctx_flags(dump->adev, dump->fpriv, ctx),
		.init_priority = ctx->init_priority,
		.override_priority = ctx->override_priority,
	};
	u32 hw_ip, ring;
	int ret = amdgpu_criu_ctx_carriable(dump, ctx, id);

	if (ret)
		return ret;
	mutex_lock(&dump->adev->pm.stable_pstate_ctx_lock);
	if (dump->adev->pm.stable_pstate_ctx == ctx) {
		record.flags |= AMDGPU_CRIU_CTX_PSTATE;
		amdgpu_ctx_get_stable_pstate(ctx, &record.stable_pstate);
	}
	mutex_unlock(&dump->adev->pm.stable_pstate_ctx_lock);
	for (hw_ip = 0; hw_ip < AMDGPU_HW_IP_NUM; hw_ip++)
		for (ring = 0; ring < amdgpu_ctx_num_entities[hw_ip]; ring++)
			record.num_entities += !!ctx->entities[hw_ip][ring];
	criu_writer_record(&dump->out.writer, AMDGPU_CRIU_RECORD_CTX, &record);
	amdgpu_criu_dump_entities(dump, ctx);
	return 0;
}

int amdgpu_criu_dump_ctxs(struct amdgpu_criu_dump *dump)
{
	struct amdgpu_ctx_mgr *mgr = &dump->fpriv->ctx_mgr;
	struct amdgpu_ctx *ctx;
	u32 id;
	int ret;

	guard(mutex)(&mgr->lock);
	idr_for_each_entry(&mgr->ctx_handles, ctx, id) {
		ret = amdgpu_criu_dump_ctx(dump, ctx, id);
		if (ret)
			return ret;
	}
	return 0;
}
