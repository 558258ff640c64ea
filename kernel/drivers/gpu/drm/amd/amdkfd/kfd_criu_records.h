/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Records of a KFD process in a checkpoint blob: the arguments that the process passed to ioctls,
 * and the state that no ioctl can set, never an address of the kernel or a structure of the driver.
 * For their growth see "How the interface may grow" in criu.rst.
 */
#ifndef KFD_CRIU_RECORDS_H_
#define KFD_CRIU_RECORDS_H_

#include <linux/bits.h>
#include <linux/types.h>
#include <uapi/linux/kfd_ioctl.h>

#include "criu_blob.h"

/* Limits of the driver. */
#define KFD_CRIU_DEVICES_MAX 64
#define KFD_CRIU_SHADER_ARRAYS_MAX 16
#define KFD_CRIU_XCCS_MAX 8
#define KFD_CRIU_QUEUES_MAX 1024

#define KFD_CRIU_NODE 1 /* criu_blob_schema.node */

extern const struct criu_blob_schema kfd_criu_schema;

enum kfd_criu_record_type {
	KFD_CRIU_PROCESS = 0x100,
	KFD_CRIU_DEVICE,
	KFD_CRIU_BO,
	KFD_CRIU_EVENT_PAGE,
	KFD_CRIU_EVENT,
	KFD_CRIU_QUEUE,
	KFD_CRIU_SVM_RANGE,
	KFD_CRIU_OPTIONS,
};

/* kfd_criu_process_record.flags */
#define KFD_CRIU_PROCESS_XNACK BIT(0)
#define KFD_CRIU_PROCESS_RUNTIME BIT(1) /* AMDKFD_IOC_RUNTIME_ENABLE was called ... */
#define KFD_CRIU_PROCESS_TTMP BIT(2) /* ... with KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK */

/* State of the whole process; exactly one */
struct kfd_criu_process_record {
	__u32 flags;
	__u32 pad;
	__u64 r_debug; /* address that the process passed to AMDKFD_IOC_RUNTIME_ENABLE */
};

/* kfd_criu_device_record.flags */
#define KFD_CRIU_DEVICE_VM BIT(0) /* AMDKFD_IOC_ACQUIRE_VM was called */
#define KFD_CRIU_DEVICE_DOORBELLS BIT(1) /* doorbells of the process are allocated */
#define KFD_CRIU_DEVICE_MFMA_HIGH_PRECISION BIT(2) /* AMDKFD_IOC_SET_MEMORY_POLICY */

/* A GPU as the process sees it */
struct kfd_criu_device_record {
	__u32 gpu_id; /* id that the process uses */
	__u32 flags;
	__u32 gc_version; /* IP version of the graphics core */
	__u32 sdma_version; /* IP version of the SDMA engines */
	__u32 mec_fw_version; /* firmware that wrote the saved wave state */
	__u32 mec2_fw_version;
	__u32 sdma_fw_version;
	__u32 num_xcc; /* graphics cores of this GPU */
	__u32 simd_count; /* SIMDs in use */
	__u32 array_count; /* shader arrays */
	__u32 cwsr_size; /* bytes of wave-save area per queue and graphics core */
	__u32 ctl_stack_size; /* bytes of control stack in cwsr_size */
	__u32 debug_memory_size; /* bytes of debugger memory after the wave-save area */
	__u32 num_sdma_engines; /* engines for system memory */
	__u32 num_xgmi_engines; /* engines for other GPUs */
	__u32 num_sdma_queues; /* queues per engine */
	__u64 lds_base; /* aperture that KFD reported to the process */
	__u64 lds_limit;
	__u64 scratch_base;
	__u64 scratch_limit;
	__u64 gpuvm_base;
	__u64 gpuvm_limit;
	__u64 tba_addr; /* second-level trap handler of AMDKFD_IOC_SET_TRAP_HANDLER */
	__u64 tma_addr; /* memory of the trap handler */
	__u64 scratch_va; /* address of AMDKFD_IOC_SET_SCRATCH_BACKING_VA */
	__u64 wave_layout; /* CRC-32C of the newest trap handler with this layout, 0: not known */
};

/* kfd_criu_bo_record.flags */
#define KFD_CRIU_BO_IMPORTED BIT(0) /* by AMDKFD_IOC_IMPORT_DMABUF */

/* A BO of AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, or imported. Tail: __u32 gpu_id[num_mapped]. */
struct kfd_criu_bo_record {
	__u64 object_id; /* in the session; all but one of the BOs with an id are imports */
	__u64 size; /* bytes of the BO */
	__u64 va; /* GPU virtual address, 0 if it has none */
	__u64 user_addr; /* userptr: address in the process */
	__u64 mmap_offset; /* offset for mmap(), ~0 if the BO cannot be mapped */
	__u32 gpu_id; /* GPU of the allocation or import */
	__u32 handle; /* low half of its handle */
	__u32 alloc_flags; /* KFD_IOC_ALLOC_MEM_FLAGS_* */
	__u32 table_flags; /* AMDGPU_CRIU_BO_* as in the BO table */
	__u32 domain;
	__u32 num_mapped; /* number of GPUs that map the BO */
	__u32 flags;
	__u32 pad;
};

/* The page of signal slots; at most one. Tail: __u64 slot[num_slots]. */
struct kfd_criu_event_page_record {
	__u64 handle; /* BO that user mode has provided; 0: of the kernel, if it is before 7.3 */
	__u64 mapped_size; /* bytes of the page that user mode can map */
	__u32 num_slots; /* slots in the tail; 0 if a BO holds them */
	__u32 pad;
};

/* kfd_criu_event_record.flags */
#define KFD_CRIU_EVENT_AUTO_RESET BIT(0)
#define KFD_CRIU_EVENT_SIGNALED BIT(1)

/* An event of AMDKFD_IOC_CREATE_EVENT */
struct kfd_criu_event_record {
	__u32 event_id; /* id of the event, and its slot if it has one */
	__u32 type; /* KFD_IOC_EVENT_* */
	__u32 flags;
	__u32 pad;
	__u64 age; /* number of signals, as reported to waiters */
	struct kfd_hsa_memory_exception_data memory; /* data for waiters of a memory exception */
	struct kfd_hsa_hw_exception_data hw; /* data for waiters of a hardware exception */
};

/* kfd_criu_queue_record.flags */
#define KFD_CRIU_QUEUE_GWS BIT(0)
#define KFD_CRIU_QUEUE_CU_MASK BIT(1) /* the process has set the CU mask in the MQD */
#define KFD_CRIU_QUEUE_CWSR_IN_SVM BIT(2) /* the wave-save area is in an SVM range */
#define KFD_CRIU_QUEUE_NO_RING BIT(3) /* disabled by AMDKFD_IOC_UPDATE_QUEUE with a NULL ring */

/* CUs that are not harvested: of each XCC, the number in array A of engine E at 2 * E + A. */
struct kfd_criu_cus {
	__u8 xcc[KFD_CRIU_XCCS_MAX][KFD_CRIU_SHADER_ARRAYS_MAX];
};

/* A queue of AMDKFD_IOC_CREATE_QUEUE. Tail: MQDs, 0 where the kernel sets them, then stacks. */
struct kfd_criu_queue_record {
	__u32 gpu_id; /* GPU of the queue */
	__u32 queue_id;
	__u32 type; /* KFD_IOC_QUEUE_TYPE_*; of its engine if it was created by engine id */
	__u32 flags;
	__u64 ring_base; /* address of the ring, 0 with KFD_CRIU_QUEUE_NO_RING */
	__u64 ring_size;
	__u64 metadata_size; /* bytes of AQL metadata after the ring */
	__u64 read_ptr; /* address of the read pointer */
	__u64 write_ptr; /* address of the write pointer */
	__u64 eop_addr; /* address of the end-of-pipe buffer */
	__u64 ctx_addr; /* address of the wave-save area */
	__u32 eop_size;
	__u32 ctx_size; /* bytes at ctx_addr per graphics core */
	__u32 ctl_stack_size; /* bytes of control stack per graphics core */
	__u32 percent; /* 0 to 100; 0: the process has stopped the queue */
	__u32 priority; /* 0 to 15 */
	__u32 pm4_target_xcc; /* graphics core for PM4 */
	__u32 doorbell_id; /* number of its doorbell */
	__u32 doorbell_offset; /* byte offset of its doorbell in the doorbells of the process */
	__u32 sdma_id; /* SDMA: identifies the engine, and the queue that the doorbell is for */
	__u32 mqd_size; /* bytes of all MQDs */
	__u32 mqd_stack_size; /* bytes of all control stacks that the kernel keeps */
	__u32 pad;
	struct kfd_criu_cus active_cus; /* if masks in MQDs or saved waves refer to them */
};

/* A range of AMDKFD_IOC_SVM. Tail: struct kfd_ioctl_svm_attribute[num_attrs]. */
struct kfd_criu_svm_record {
	__u64 start;
	__u64 size;
	__u32 num_attrs; /* attributes in the tail */
	__u32 pad;
};

/* Options of DRM_IOCTL_AMDGPU_PROC_OPTIONS, if one differs from its default; at most one */
struct kfd_criu_options_record {
	__u32 sigbus_delay; /* of AMDGPU_PROC_OPTIONS_OP_KFD_SIGBUS_DELAY */
	__u32 pad;
};

#endif /* KFD_CRIU_RECORDS_H_ */
