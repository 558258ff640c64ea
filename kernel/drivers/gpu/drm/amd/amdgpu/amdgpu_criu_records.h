/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Records of an open render-node file in a checkpoint blob, by the rules of kfd_criu_records.h. */
#ifndef _AMDGPU_CRIU_RECORDS_H_
#define _AMDGPU_CRIU_RECORDS_H_

#include <linux/bits.h>
#include <linux/types.h>
#include <drm/amdgpu_drm.h>

#include "amdgpu_criu_userq.h"
#include "criu_blob.h"

/* criu_blob_schema.node: after that of KFD. EXPORTED has no node. */
#define AMDGPU_CRIU_NODE_RENDER 2
#define AMDGPU_CRIU_NODE_EXPORTED 3

extern const struct criu_blob_schema amdgpu_criu_render_schema;
extern const struct criu_blob_schema amdgpu_criu_exported_schema;

enum amdgpu_criu_record_type {
	AMDGPU_CRIU_RECORD_FILE = 0x200, /* after those of KFD */
	AMDGPU_CRIU_RECORD_OBJECT,
	AMDGPU_CRIU_RECORD_HANDLE,
	AMDGPU_CRIU_RECORD_MAPPING,
	AMDGPU_CRIU_RECORD_CTX,
	AMDGPU_CRIU_RECORD_BO_LIST,
	AMDGPU_CRIU_RECORD_SYNCOBJ,
	AMDGPU_CRIU_RECORD_CLIENT_NAME,
	AMDGPU_CRIU_RECORD_USERQ, /* see amdgpu_criu_userq.h */
};

/* amdgpu_criu_file_record.flags */
#define AMDGPU_CRIU_FILE_VM_COMPUTE BIT(0) /* KFD acquired its VM */
#define AMDGPU_CRIU_FILE_RESERVED_VMID BIT(1) /* AMDGPU_VM_OP_RESERVE_VMID */

/* The file itself; exactly one */
struct amdgpu_criu_file_record {
	__u32 flags;
	__u32 gpu_id; /* number of the GPU in KFD, 0 if KFD does not drive it */
	__u64 device; /* PCI location, domain << 16 | bus << 8 | devfn: the GPU in all records */
	__u32 gc_version; /* IP version of the graphics core */
	__u32 sdma_version; /* IP version of the SDMA engines */
	__u32 vcn_version; /* IP version of the video engines, 0 if there are none */
	__u32 gb_addr_config; /* layout of tiled surfaces */
	__u64 va_end; /* end of the GPU address space that the process may use */
};

#define AMDGPU_CRIU_CLIENT_NAME_SIZE 64 /* DRM_CLIENT_NAME_MAX_LEN */

/* Name of DRM_IOCTL_SET_CLIENT_NAME; at most one. A reader may skip it. */
struct amdgpu_criu_client_name_record {
	__u8 name[AMDGPU_CRIU_CLIENT_NAME_SIZE]; /* zero-padded, not terminated if it is full */
};

/* amdgpu_criu_object_record.flags */
#define AMDGPU_CRIU_OBJECT_USERPTR BIT(0)
#define AMDGPU_CRIU_OBJECT_EXPORTED BIT(1) /* has a dma-buf ... */
#define AMDGPU_CRIU_OBJECT_EXPORTED_RDWR BIT(2) /* ... made with DRM_RDWR */
#define AMDGPU_CRIU_OBJECT_FLAGS GENMASK(2, 0)

/* A BO of the file; one record for each BO. Tail: metadata of DRM_AMDGPU_GEM_METADATA. */
struct amdgpu_criu_object_record {
	__u64 object_id; /* id in the session */
	__u64 size; /* bytes; GDS, GWS, OA: one page for each unit */
	__u64 device; /* GPU that allocated it, not the file's if the file imported the BO ... */
	__u64 create_flags; /* AMDGPU_GEM_CREATE_* */
	__u64 user_addr; /* userptr: address in the process */
	__u64 tiling_flags; /* of DRM_AMDGPU_GEM_METADATA */
	__u64 metadata_flags; /* of DRM_AMDGPU_GEM_METADATA */
	__u64 mmap_offset; /* offset for mmap() of the file, ~0 if it cannot be mapped */
	__u32 flags;
	__u32 alignment; /* bytes; GDS, GWS, OA: units */
	/* AMDGPU_GEM_DOMAIN_*, of DRM_AMDGPU_GEM_CREATE or AMDGPU_GEM_OP_SET_PLACEMENT */
	__u32 preferred_domains;
	__u32 allowed_domains;
	__u32 placement; /* current AMDGPU_GEM_DOMAIN_*, 0 if it has no memory yet */
	__u32 user_flags; /* userptr: AMDGPU_GEM_USERPTR_* */
	__u32 kfd_flags; /* of AMDKFD_IOC_ALLOC_MEMORY_OF_GPU: KFD_IOC_ALLOC_MEM_FLAGS_* */
	__u32 gpu_id; /* ... and its number, or that of its partition, in KFD; in the BO table */
	__u32 handle; /* BO table: lowest GEM handle, 0 if it has none */
	__u32 domain; /* BO table: AMDGPU_CRIU_DOMAIN_* */
	__u32 table_flags; /* BO table: AMDGPU_CRIU_BO_* */
	__u32 metadata_size; /* bytes of the tail */
};

struct amdgpu_criu_handle_record {
	__u32 handle;
	__u32 pad;
	__u64 object_id; /* the BO of the handle */
};

/* A mapping of DRM_AMDGPU_GEM_VA, or the part that later calls did not unmap */
struct amdgpu_criu_mapping_record {
	__u64 object_id; /* the BO, 0 if it has none (AMDGPU_VM_PAGE_PRT) */
	__u64 va; /* GPU address */
	__u64 size;
	__u64 offset; /* in the BO */
	__u32 flags; /* AMDGPU_VM_PAGE_*, AMDGPU_VM_MTYPE_* */
	__u32 pad;
};

/* amdgpu_criu_ctx_record.flags: state that ioctls report about the time before the checkpoint */
#define AMDGPU_CRIU_CTX_PSTATE BIT(0) /* owns the stable power state of the GPU */
#define AMDGPU_CRIU_CTX_RESET BIT(1) /* GPU reset since its creation ... */
#define AMDGPU_CRIU_CTX_RESET_UNREAD BIT(2) /* ... since AMDGPU_CTX_OP_QUERY_STATE */
#define AMDGPU_CRIU_CTX_LOST BIT(3) /* VRAM or page tables lost: submissions fail */
#define AMDGPU_CRIU_CTX_RAS_CE_UNREAD BIT(4) /* correctable errors not read by QUERY_STATE2 */
#define AMDGPU_CRIU_CTX_RAS_UE_UNREAD BIT(5) /* uncorrectable errors, same */
#define AMDGPU_CRIU_CTX_FLAGS GENMASK(5, 0)

/* A context. Tail: struct amdgpu_criu_ctx_entity. */
struct amdgpu_criu_ctx_record {
	__u32 id;
	__u32 flags;
	__s32 init_priority; /* AMDGPU_CTX_PRIORITY_*, of AMDGPU_CTX_OP_ALLOC_CTX */
	__s32 override_priority; /* of DRM_AMDGPU_SCHED, or AMDGPU_CTX_PRIORITY_UNSET */
	__u32 stable_pstate; /* AMDGPU_CRIU_CTX_PSTATE: AMDGPU_CTX_STABLE_PSTATE_* */
	__u32 num_entities; /* entries of the tail */
};

struct amdgpu_criu_ctx_entity {
	__u32 hw_ip; /* AMDGPU_HW_IP_* */
	__u32 ring; /* as in struct drm_amdgpu_cs_chunk_ib */
	__u64 sequence; /* drm_amdgpu_cs_out.handle of the next submission */
	__s32 error; /* 0, or the negative errno of the last job; submissions fail if it is not 0 */
	__u32 pad;
};

/* A BO list. Tail: struct amdgpu_criu_bo_list_item. */
struct amdgpu_criu_bo_list_record {
	__u32 id;
	__u32 num_entries; /* entries of the tail */
};

struct amdgpu_criu_bo_list_item {
	__u64 object_id; /* the BO, which may have no handle */
	__u32 priority; /* limited to the values that the kernel distinguishes */
	__u32 pad;
};

/* amdgpu_criu_syncobj_record.flags */
#define AMDGPU_CRIU_SYNCOBJ_SIGNALED BIT(0) /* has a fence, which is signaled ... */
#define AMDGPU_CRIU_SYNCOBJ_TIMELINE BIT(1) /* ... and a point of a timeline */

/* A handle of a syncobj */
struct amdgpu_criu_syncobj_record {
	__u32 handle;
	__u32 flags;
	__u64 object_id; /* id of the syncobj in the session; a syncobj may have several handles */
	__u64 point; /* last point of the timeline */
	__s32 error; /* 0, or the negative errno of the fence */
	__u32 pad;
};

#endif /* _AMDGPU_CRIU_RECORDS_H_ */
