// SPDX-License-Identifier: GPL-2.0 OR MIT
/**
 * DOC: Syncobjs
 *
 * Carried: binary and timeline syncobjs. The submissions of a paused file are complete, so a
 * syncobj has either no fence or a signaled one. Only the last point of a timeline is saved.
 *
 * Not carried: syncobjs that an eventfd waits for.
 */
#include <drm/drm_syncobj.h>

#include "amdgpu_criu_render.h"

static void amdgpu_criu_syncobj_get(void *object)
{
	drm_syncobj_get(object);
}

static void amdgpu_criu_syncobj_put(void *object)
{
	drm_syncobj_put(object);
}

/* Operations of a syncobj in a session, a &struct drm_syncobj, for any file. */
const struct criu_object_ops amdgpu_criu_syncobj_ops = {
	.get = amdgpu_criu_syncobj_get, .put = amdgpu_criu_syncobj_put,
};

/*
 * Waits for the fence, which may belong to another file, process, or driver. One that is not paused
 * may put a new fence into the syncobj at any time, so each pass waits.
 */
static int amdgpu_criu_dump_syncobj(struct criu_dump *dump, struct drm_syncobj *syncobj, u32 handle,
				    unsigned long deadline)
{
	struct amdgpu_criu_syncobj_record record = { .handle = handle };
	struct dma_fence *fence;
	bool has_eventfd;
	int ret = 0;

	scoped_guard(spinlock, &syncobj->lock)
		has_eventfd = !list_empty(&syncobj->ev_fd_list);
	if (has_eventfd)
		return criu_refuse_state(dump->call, "an eventfd waits for syncobj %u", handle);
	fence = drm_syncobj_fence_get(syncobj);
	if (fence) {
		ret = amdgpu_criu_wait_fence(fence, deadline);
		record.flags = AMDGPU_CRIU_SYNCOBJ_SIGNALED;
		record.error = dma_fence_chain_contained(fence)->error;
		if (to_dma_fence_chain(fence)) {
			record.flags |= AMDGPU_CRIU_SYNCOBJ_TIMELINE;
			record.point = fence->seqno;
		}
	}
	dma_fence_put(fence);
	if (ret)
		return criu_refuse_late(dump->call, ret, "syncobj %u: the work behind it hangs",
					handle);
	if (dump->session)
		ret = criu_session_object_id(dump->session, syncobj, &amdgpu_criu_syncobj_ops,
					     &record.object_id);
	if (!ret)
		criu_writer_record(&dump->writer, AMDGPU_CRIU_RECORD_SYNCOBJ, &record);
	return ret;
}

static int amdgpu_criu_dump_syncobjs(struct criu_dump *dump)
{
	const unsigned long deadline = jiffies + AMDGPU_CRIU_PAUSE_TIME;
	struct drm_syncobj *syncobj;
	unsigned long handle = 0;
	int ret = 0;

	while (!ret && (syncobj = amdgpu_criu_next_syncobj(dump->file, &handle))) {
		ret = amdgpu_criu_dump_syncobj(dump, syncobj, handle, deadline);
		drm_syncobj_put(syncobj);
	}
	return ret;
}

static const char *amdgpu_criu_syncobj_fault(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_syncobj_record *record = entry;

	if (!record->handle)
		return "handle";
	if (!record->object_id)
		return "object id";
	if (!(record->flags & AMDGPU_CRIU_SYNCOBJ_SIGNALED) &&
	    ((record->flags & AMDGPU_CRIU_SYNCOBJ_TIMELINE) || record->error))
		return "state of a fence, but no fence";
	if (!(record->flags & AMDGPU_CRIU_SYNCOBJ_TIMELINE) && record->point)
		return "point";
	if (record->error > 0 || record->error < -MAX_ERRNO)
		return "error";
	return record->pad ? "pad is not zero" : NULL;
}

static int amdgpu_criu_check_syncobj(struct criu_plan *plan, void *entry)
{
	const struct amdgpu_criu_syncobj_record *record = entry;

	if (record->flags & ~(AMDGPU_CRIU_SYNCOBJ_SIGNALED | AMDGPU_CRIU_SYNCOBJ_TIMELINE))
		return criu_refuse(plan->call, -EOPNOTSUPP, "unknown flags %#x", record->flags);
	return 0;
}

/* Follows the code path of DRM_IOCTL_SYNCOBJ_SIGNAL or DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL. */
static int amdgpu_criu_signal_syncobj(const struct amdgpu_criu_syncobj_record *record,
				      struct drm_syncobj *syncobj)
{
	const bool timeline = record->flags & AMDGPU_CRIU_SYNCOBJ_TIMELINE;
	struct dma_fence_chain *chain;
	struct dma_fence *fence;

	if (!(record->flags & AMDGPU_CRIU_SYNCOBJ_SIGNALED))
		return 0;
	fence = dma_fence_allocate_private_stub(ktime_get());
	if (!fence)
		return -ENOMEM;
	/* dma_fence_set_error() would warn: the fence is signaled. But no one else uses it yet. */
	fence->error = record->error;
	chain = timeline ? dma_fence_chain_alloc() : NULL;
	if (chain)
		drm_syncobj_add_point(syncobj, chain, fence, record->point);
	else if (!timeline)
		drm_syncobj_replace_fence(syncobj, fence);
	dma_fence_put(fence);
	return timeline && !chain ? -ENOMEM : 0;
}

/* Follows the code path of DRM_IOCTL_SYNCOBJ_CREATE. The caller has an open claim. */
static int amdgpu_criu_create_syncobj(struct criu_plan *plan,
				      struct amdgpu_criu_plan_syncobj *plan_syncobj,
				      struct drm_syncobj **syncobj)
{
	const struct amdgpu_criu_syncobj_record *record = &plan_syncobj->record;
	int ret = drm_syncobj_create(syncobj, 0, NULL);

	if (!ret) {
		ret = amdgpu_criu_signal_syncobj(record, *syncobj);
		if (ret)
			drm_syncobj_put(*syncobj);
	}
	criu_session_bind(plan->call->session, record->object_id, ret ? NULL : *syncobj);
	plan_syncobj->bound = !ret;
	return ret;
}

static int amdgpu_criu_apply_syncobj(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_syncobj *plan_syncobj = entry;
	const struct amdgpu_criu_syncobj_record *record = entry;
	struct drm_syncobj *syncobj;
	u32 handle = record->handle;
	void *object;
	int ret = criu_session_claim(plan->call->session, record->object_id,
				     &amdgpu_criu_syncobj_ops, true, &object);

	if (ret)
		return ret;
	syncobj = object;
	if (!syncobj) {
		ret = amdgpu_criu_create_syncobj(plan, plan_syncobj, &syncobj);
		if (ret)
			return ret;
	}
	/* The handle takes over the reference. */
	ret = xa_alloc(&plan->file->syncobj_xa, &handle, syncobj, XA_LIMIT(handle, handle),
		       GFP_KERNEL);
	if (ret)
		drm_syncobj_put(syncobj);
	return ret;
}

static void amdgpu_criu_undo_syncobj(struct criu_plan *plan, void *entry)
{
	struct amdgpu_criu_plan_syncobj *plan_syncobj = entry;
	struct drm_syncobj *syncobj;

	syncobj = xa_erase(&plan->file->syncobj_xa, plan_syncobj->record.handle);
	if (syncobj)
		drm_syncobj_put(syncobj);
	if (plan_syncobj->bound)
		criu_session_forget(plan->call->session, plan_syncobj->record.object_id);
}

const struct criu_kind amdgpu_criu_syncobjs = {
	CRIU_KIND(AMDGPU_CRIU_RECORD_SYNCOBJ, syncobjs, struct amdgpu_criu_plan_syncobj,
		  record.handle),
	.subject = "syncobj %llu", .unique = { CRIU_UNIQUE_ID },
	.dump = amdgpu_criu_dump_syncobjs,
	.fault = amdgpu_criu_syncobj_fault, .check = amdgpu_criu_check_syncobj,
	.apply = amdgpu_criu_apply_syncobj, .undo = amdgpu_criu_undo_syncobj,
};
