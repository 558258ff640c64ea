// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * First pass of a restore: parses the blob into a plan. Every reference in the plan is
 * resolved and there are no duplicates. State that the ordinary ioctls would refuse is
 * refused. This pass creates nothing.
 */
#include <drm/drm_gem.h>
#include <linux/slab.h>

#include "amdgpu_criu_render.h"

static const struct criu_list amdgpu_criu_lists[] = {
	CRIU_LIST(AMDGPU_CRIU_RECORD_OBJECT, struct amdgpu_criu_plan, objects, num_objects,
		  struct amdgpu_criu_plan_object,
		  CRIU_LIST_TAIL(struct amdgpu_criu_plan_object, metadata_size, metadata, __u8)),
	CRIU_LIST(AMDGPU_CRIU_RECORD_HANDLE, struct amdgpu_criu_plan, handles, num_handles,
		  struct amdgpu_criu_plan_handle),
	CRIU_LIST(AMDGPU_CRIU_RECORD_MAPPING, struct amdgpu_criu_plan, mappings, num_mappings,
		  struct amdgpu_criu_plan_mapping),
	CRIU_LIST(AMDGPU_CRIU_RECORD_CTX, struct amdgpu_criu_plan, ctxs, num_ctxs,
		  struct amdgpu_criu_plan_ctx,
		  CRIU_LIST_TAIL(struct amdgpu_criu_plan_ctx, num_entities, entities,
				 struct amdgpu_criu_ctx_entity)),
	CRIU_LIST(AMDGPU_CRIU_RECORD_BO_LIST, struct amdgpu_criu_plan, bo_lists, num_bo_lists,
		  struct amdgpu_criu_plan_bo_list,
		  CRIU_LIST_TAIL(struct amdgpu_criu_plan_bo_list, num_entries, items,
				 struct amdgpu_criu_bo_list_item)),
	CRIU_LIST(AMDGPU_CRIU_RECORD_SYNCOBJ, struct amdgpu_criu_plan, syncobjs, num_syncobjs,
		  struct amdgpu_criu_plan_syncobj),
};

/* Loads the records of @plan->blob that have an array in the plan. */
int amdgpu_criu_plan_load(struct amdgpu_criu_plan *plan)
{
	return criu_lists_load(plan->call, plan->blob, amdgpu_criu_lists,
			       ARRAY_SIZE(amdgpu_criu_lists), plan);
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
	criu_blob_get(plan->blob, AMDGPU_CRIU_RECORD_FILE, &plan->file_record,
		      sizeof(plan->file_record));
	plan->has_client_name = criu_blob_get(plan->blob, AMDGPU_CRIU_RECORD_CLIENT_NAME,
					      &plan->client_name, sizeof(plan->client_name));
	ret = amdgpu_criu_plan_load(plan);
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
	criu_lists_free(amdgpu_criu_lists, ARRAY_SIZE(amdgpu_criu_lists), plan);
}
