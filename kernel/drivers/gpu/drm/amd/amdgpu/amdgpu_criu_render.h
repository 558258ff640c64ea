/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Lock order: criu_client.lock, the locks of criu_session.h, the locks of GEM and reservations. */
#ifndef _AMDGPU_CRIU_RENDER_H_
#define _AMDGPU_CRIU_RENDER_H_

#include "amdgpu_criu_node.h"
#include "amdgpu_criu_records.h"

#define AMDGPU_CRIU_PAUSE_TIME (20 * HZ) /* for calls and jobs; a hung job is reset earlier */

extern const struct criu_object_ops amdgpu_criu_syncobj_ops;
extern const struct criu_kind amdgpu_criu_files, amdgpu_criu_names, amdgpu_criu_objects,
	amdgpu_criu_handles, amdgpu_criu_mappings, amdgpu_criu_ctxs, amdgpu_criu_bo_lists,
	amdgpu_criu_syncobjs;

/* A BO of the file */
struct amdgpu_criu_dump_object {
	struct list_head of_dump; /* in criu_dump.objects */
	struct drm_gem_object *gem; /* GEM object of the file's device, with a reference */
	u64 id; /* id in the session, once its record is written */
	u32 handle; /* its lowest handle, 0 if it has none */
};

struct drm_syncobj *amdgpu_criu_next_syncobj(struct drm_file *file, unsigned long *handle);
int amdgpu_criu_add_object(struct criu_dump *dump, struct drm_gem_object *gem, u32 handle);
int amdgpu_criu_find_objects(struct criu_dump *dump);
void amdgpu_criu_drop_objects(struct criu_dump *dump);

/* The drain functions wait until @deadline (jiffies), and report what hangs. */
int amdgpu_criu_file_carriable(struct criu_dump *dump);
int amdgpu_criu_drain_vm(struct criu_dump *dump, unsigned long deadline);
int amdgpu_criu_wait_reset(struct criu_dump *dump, unsigned long deadline);
int amdgpu_criu_wait_fence(struct dma_fence *fence, unsigned long deadline);
int amdgpu_criu_wait_resv(struct dma_resv *resv, unsigned long deadline);

/* Gets the id of a BO in the session, once it is dumped; 0 in the size pass. */
int amdgpu_criu_dump_object_id(struct criu_dump *dump, struct drm_gem_object *gem, u64 *id);

/* Entries of a plan, each with its record */
struct amdgpu_criu_plan_object {
	struct amdgpu_criu_object_record record;
	const u8 *metadata; /* tail of the record */
	struct drm_gem_object *gem; /* on the file's device, with a reference, once it exists */
	bool bound; /* it was created for this plan, and its id is bound in the session */
	u32 prime_handle; /* its handle in the file's table of imports, or 0 */
	u32 borrowed_handle; /* temporary handle until the BO lists are created, or 0 */
};

struct amdgpu_criu_plan_handle {
	struct amdgpu_criu_handle_record record;
	struct amdgpu_criu_plan_object *object; /* the BO of the handle */
};

struct amdgpu_criu_plan_mapping {
	struct amdgpu_criu_mapping_record record;
	struct amdgpu_criu_plan_object *object; /* the BO, NULL if it has none */
};

struct amdgpu_criu_plan_ctx {
	struct amdgpu_criu_ctx_record record;
	const struct amdgpu_criu_ctx_entity *entities; /* tail of the record */
};

struct amdgpu_criu_plan_bo_list {
	struct amdgpu_criu_bo_list_record record;
	const struct amdgpu_criu_bo_list_item *items; /* tail of the record */
};

struct amdgpu_criu_plan_syncobj {
	struct amdgpu_criu_syncobj_record record;
	bool bound; /* the syncobj was created for this plan, and its id is bound in the session */
};

void amdgpu_criu_plan_init(struct criu_plan *plan, struct criu_call *call,
			   const struct amdgpu_criu_state *state);
void amdgpu_criu_plan_free(struct criu_plan *plan);
struct amdgpu_criu_plan_object *amdgpu_criu_plan_object(const struct criu_plan *plan,
							u64 object_id);
int amdgpu_criu_exported(struct criu_call *call, void *args);
int amdgpu_criu_outside(struct criu_call *call, void *args);
int amdgpu_criu_object_get(struct criu_plan *plan, void *entry);
void amdgpu_criu_object_put(struct criu_plan *plan, void *entry);
int amdgpu_criu_object_handle(struct criu_plan *plan,
			      struct amdgpu_criu_plan_object *object, u32 *handle);
int amdgpu_criu_cmp_numbers(const void *a, const void *b);
u64 amdgpu_criu_device_of(struct amdgpu_device *adev);
u32 amdgpu_criu_gpu_id(struct amdgpu_device *adev, u32 xcp_id);
int amdgpu_criu_attach_userptrs(struct criu_dump *dump);
u64 amdgpu_criu_object_offset(struct drm_gem_object *gem);

#endif /* _AMDGPU_CRIU_RENDER_H_ */
