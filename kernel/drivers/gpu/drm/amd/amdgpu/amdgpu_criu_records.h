/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Records of an open render-node file in a checkpoint blob. They hold what the
 * process gave to ioctls, and the state that no ioctl can set; never an address of
 * the kernel and never a structure of the driver.
 *
 * These are stored for years: a field's meaning never changes, fields are added
 * at the end only, zero means "as before". See criu_blob.h for the rules.
 */
#ifndef _AMDGPU_CRIU_RECORDS_H_
#define _AMDGPU_CRIU_RECORDS_H_

#include <linux/bits.h>
#include <linux/types.h>
#include <drm/amdgpu_drm.h>

#include "amdgpu_criu_node.h"

enum amdgpu_criu_record_type {
	AMDGPU_CRIU_RECORD_FILE = AMDGPU_CRIU_RECORD_RENDER,
	AMDGPU_CRIU_RECORD_OBJECT,
	AMDGPU_CRIU_RECORD_HANDLE,
	AMDGPU_CRIU_RECORD_MAPPING,
	AMDGPU_CRIU_RECORD_CTX,
	AMDGPU_CRIU_RECORD_BO_LIST,
	AMDGPU_CRIU_RECORD_SYNCOBJ,
};

/* amdgpu_criu_file_record.flags */
#define AMDGPU_CRIU_FILE_VM_COMPUTE BIT(0) /* KFD acquired its VM */
#define AMDGPU_CRIU_FILE_RESERVED_VMID BIT(1) /* AMDGPU_VM_OP_RESERVE_VMID */

/**
 * struct amdgpu_criu_file_record - the file itself; exactly one
 * @flags: AMDGPU_CRIU_FILE_*
 * @gpu_id: the GPU as KFD knows it, 0 if KFD does not drive it
 * @device: PCI location, domain << 16 | bus << 8 | devfn: other records refer to
 *	GPUs by it
 * @gc_version: IP version of the graphics core
 * @sdma_version: IP version of the SDMA engines
 * @vcn_version: IP version of the video engines, 0 if there are none
 * @gb_addr_config: how tiled surfaces are laid out
 * @va_end: end of the GPU address space that the process may use
 */
struct amdgpu_criu_file_record {
	__u32 flags;
	__u32 gpu_id;
	__u64 device;
	__u32 gc_version;
	__u32 sdma_version;
	__u32 vcn_version;
	__u32 gb_addr_config;
	__u64 va_end;
};

/* amdgpu_criu_object_record.flags */
#define AMDGPU_CRIU_OBJECT_USERPTR BIT(0)
#define AMDGPU_CRIU_OBJECT_KFD BIT(1) /* of AMDKFD_IOC_ALLOC_MEMORY_OF_GPU */
#define AMDGPU_CRIU_OBJECT_EXPORTED BIT(2) /* has a dma-buf ... */
#define AMDGPU_CRIU_OBJECT_EXPORTED_RDWR BIT(3) /* ... made with DRM_RDWR */
#define AMDGPU_CRIU_OBJECT_PINNED BIT(4) /* pinned by an importer */

/**
 * struct amdgpu_criu_object_record - a BO that the file has, once for each
 * @object_id: id in the session
 * @size: bytes; GDS, GWS, OA: in units of the resource
 * @device: GPU that it was allocated on, as in amdgpu_criu_file_record.device: not
 *	the file's own if the file imported it
 * @create_flags: AMDGPU_GEM_CREATE_*
 * @user_addr: userptr: where in the process
 * @tiling_flags: of DRM_AMDGPU_GEM_METADATA
 * @metadata_flags: same
 * @mmap_offset: offset for mmap() of the file, ~0 if it cannot be mapped
 * @kfd_va: KFD: address of AMDKFD_IOC_ALLOC_MEMORY_OF_GPU
 * @flags: AMDGPU_CRIU_OBJECT_*
 * @alignment: bytes
 * @preferred_domains: AMDGPU_GEM_DOMAIN_*, of DRM_AMDGPU_GEM_CREATE or
 *	AMDGPU_GEM_OP_SET_PLACEMENT
 * @allowed_domains: same
 * @placement: AMDGPU_GEM_DOMAIN_* where it is now, 0: it has no memory yet
 * @user_flags: userptr: AMDGPU_GEM_USERPTR_*
 * @kfd_flags: KFD: KFD_IOC_ALLOC_MEM_FLAGS_*
 * @gpu_id: BO table: GPU of @device as KFD knows it
 * @handle: BO table: lowest GEM handle, 0 if it has none
 * @domain: BO table: AMDGPU_CRIU_DOMAIN_*
 * @table_flags: BO table: AMDGPU_CRIU_BO_*
 * @metadata_size: bytes of the tail
 *
 * Tail: metadata of DRM_AMDGPU_GEM_METADATA.
 */
struct amdgpu_criu_object_record {
	__u64 object_id;
	__u64 size;
	__u64 device;
	__u64 create_flags;
	__u64 user_addr;
	__u64 tiling_flags;
	__u64 metadata_flags;
	__u64 mmap_offset;
	__u64 kfd_va;
	__u32 flags;
	__u32 alignment;
	__u32 preferred_domains;
	__u32 allowed_domains;
	__u32 placement;
	__u32 user_flags;
	__u32 kfd_flags;
	__u32 gpu_id;
	__u32 handle;
	__u32 domain;
	__u32 table_flags;
	__u32 metadata_size;
};

/**
 * struct amdgpu_criu_handle_record - a GEM handle
 * @object_id: what it stands for
 * @handle: its number
 * @pad: 0
 */
struct amdgpu_criu_handle_record {
	__u64 object_id;
	__u32 handle;
	__u32 pad;
};

/**
 * struct amdgpu_criu_mapping_record - a mapping of DRM_AMDGPU_GEM_VA, or what later
 * calls left of it
 * @object_id: the BO, 0 if it has none (AMDGPU_VM_PAGE_PRT)
 * @va: GPU address
 * @size: bytes
 * @offset: in the BO
 * @flags: AMDGPU_VM_PAGE_*, AMDGPU_VM_MTYPE_*
 * @pad: 0
 */
struct amdgpu_criu_mapping_record {
	__u64 object_id;
	__u64 va;
	__u64 size;
	__u64 offset;
	__u32 flags;
	__u32 pad;
};

#endif /* _AMDGPU_CRIU_RECORDS_H_ */
