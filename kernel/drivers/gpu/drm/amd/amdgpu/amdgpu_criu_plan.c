// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * First pass of a restore: parses the blob into a plan. Every reference in the plan is
 * resolved and there are no duplicates. State that the ordinary ioctls would refuse is
 * refused. This pass creates nothing.
 */
#include <drm/drm_gem.h>
#include <linux/slab.h>

#include "amdgpu_criu_render.h"

static int amdgpu_criu_plan_alloc(struct amdgpu_criu_plan *plan)
{
	int ret = 0;

	plan->objects = criu_blob_room(plan->blob, AMDGPU_CRIU_RECORD_OBJECT,
				       sizeof(*plan->objects), &plan->num_objects, &ret);
	plan->handles = criu_blob_room(plan->blob, AMDGPU_CRIU_RECORD_HANDLE,
				       sizeof(*plan->handles), &plan->num_handles, &ret);
	plan->mappings = criu_blob_room(plan->blob, AMDGPU_CRIU_RECORD_MAPPING,
					sizeof(*plan->mappings), &plan->num_mappings, &ret);
	plan->ctxs = criu_blob_room(plan->blob, AMDGPU_CRIU_RECORD_CTX,
				    sizeof(*plan->ctxs), &plan->num_ctxs, &ret);
	plan->bo_lists = criu_blob_room(plan->blob, AMDGPU_CRIU_RECORD_BO_LIST,
					sizeof(*plan->bo_lists), &plan->num_bo_lists, &ret);
	plan->syncobjs = criu_blob_room(plan->blob, AMDGPU_CRIU_RECORD_SYNCOBJ,
					sizeof(*plan->syncobjs), &plan->num_syncobjs, &ret);
	return ret;
}

/* Parses the records that have no tail. An entry of the plan begins with the fixed structure. */
static void amdgpu_criu_parse_simple(struct amdgpu_criu_plan *plan)
{
	criu_blob_get_all(plan->blob, AMDGPU_CRIU_RECORD_FILE, &plan->file_record, 0,
			  sizeof(plan->file_record));
	criu_blob_get_all(plan->blob, AMDGPU_CRIU_RECORD_CLIENT_NAME, &plan->client_name, 0,
			  sizeof(plan->client_name));
	plan->has_client_name = criu_blob_count(plan->blob, AMDGPU_CRIU_RECORD_CLIENT_NAME);
	criu_blob_get_all(plan->blob, AMDGPU_CRIU_RECORD_HANDLE, plan->handles,
			  sizeof(*plan->handles), sizeof(plan->handles->record));
	criu_blob_get_all(plan->blob, AMDGPU_CRIU_RECORD_MAPPING, plan->mappings,
			  sizeof(*plan->mappings), sizeof(plan->mappings->record));
	criu_blob_get_all(plan->blob, AMDGPU_CRIU_RECORD_SYNCOBJ, plan->syncobjs,
			  sizeof(*plan->syncobjs), sizeof(plan->syncobjs->record));
}

static int amdgpu_criu_parse_tailed(struct amdgpu_criu_plan *plan)
{
	struct criu_record record = {};
	u32 object = 0, ctx = 0, list = 0;
	int ret = 0;

	while (!ret && criu_blob_next(plan->blob, &record)) {
		switch (record.desc->type) {
		case AMDGPU_CRIU_RECORD_OBJECT:
			ret = amdgpu_criu_parse_object(plan, &plan->objects[object++], &record);
			break;
		case AMDGPU_CRIU_RECORD_CTX:
			ret = amdgpu_criu_parse_ctx(plan, &plan->ctxs[ctx++], &record);
			break;
		case AMDGPU_CRIU_RECORD_BO_LIST:
			ret = amdgpu_criu_parse_bo_list(plan, &plan->bo_lists[list++], &record);
			break;
		}
	}
	return ret;
}

static int amdgpu_criu_check_all(struct amdgpu_criu_plan *plan,
				 const struct amdgpu_criu_state *args)
{
	static int (* const checks[])(struct amdgpu_criu_plan *plan) = {
		amdgpu_criu_check_handles,
		amdgpu_criu_check_mappings,
		amdgpu_criu_check_ctxs,
		amdgpu_criu_check_bo_lists,
		amdgpu_criu_check_syncobjs,
	};
	int ret = amdgpu_criu_check_file(plan);

	if (!ret)
		ret = amdgpu_criu_check_objects(plan, args);
	for (u32 i = 0; !ret && i < ARRAY_SIZE(checks); i++)
		ret = checks[i](plan);
	return ret;
}

/*
 * Builds a plan, the first pass of a restore. @plan: the plan, with call, file, session and blob
 * set; the gate of the file is closed. Returns 0, and applying the plan can fail only if resources
 * are missing; or an error, which has been logged if the blob causes it. The caller frees the plan
 * in both cases.
 */
int amdgpu_criu_plan_make(struct amdgpu_criu_plan *plan, const struct amdgpu_criu_state *args)
{
	int ret;

	if (args->num_devices)
		return criu_refuse(plan->call, -EBADMSG, "table of %u GPUs for a render node",
				   args->num_devices);
	ret = amdgpu_criu_plan_alloc(plan);
	if (ret)
		return ret;
	amdgpu_criu_parse_simple(plan);
	ret = amdgpu_criu_parse_tailed(plan);
	if (!ret)
		ret = amdgpu_criu_check_all(plan, args);
	return ret;
}

/* Frees a plan */
void amdgpu_criu_plan_free(struct amdgpu_criu_plan *plan)
{
	/* The handles and the session now own what was applied. */
	for (u32 i = 0; i < plan->num_objects; i++)
		if (plan->objects[i].gem)
			drm_gem_object_put(plan->objects[i].gem);
	kvfree(plan->object_ids.ids);
	kvfree(plan->objects);
	kvfree(plan->handles);
	kvfree(plan->mappings);
	kvfree(plan->ctxs);
	kvfree(plan->bo_lists);
	kvfree(plan->syncobjs);
}
