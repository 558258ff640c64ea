/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Implements interfaces of later kernels that checkpoint/restore uses, with interfaces of
 * this kernel. The Makefile includes this header before each file of checkpoint/restore,
 * so that most of these files are the same on every kernel.
 */
#ifndef _CRIU_COMPAT_H_
#define _CRIU_COMPAT_H_

#include <linux/crc32.h>

/* sort_nonatomic() is preemptible, as sort() of this kernel is. */
#define sort_nonatomic sort

#define crc32c(_crc, _data, _size) __crc32c_le(_crc, (const u8 *)(_data), _size)

/* This kernel returns -EINVAL if the fence is signaled already. */
#define dma_fence_check_and_signal(_fence) (dma_fence_signal(_fence) == -EINVAL)

/* Flags of a BO that user space may set or receive. */
#define AMDGPU_GEM_CREATE_SETTABLE_MASK \
	(AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS | \
	 AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_VRAM_CLEARED | \
	 AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | AMDGPU_GEM_CREATE_EXPLICIT_SYNC | \
	 AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE | AMDGPU_GEM_CREATE_ENCRYPTED | \
	 AMDGPU_GEM_CREATE_GFX12_DCC | AMDGPU_GEM_CREATE_DISCARDABLE | \
	 AMDGPU_GEM_CREATE_COHERENT | AMDGPU_GEM_CREATE_UNCACHED | \
	 AMDGPU_GEM_CREATE_EXT_COHERENT)

/* The MQD of GFX 12.1, which this kernel does not support: words that its layout refers to */
struct v12_1_compute_mqd {
	u32 words_0[15];
	u32 compute_dispatch_pkt_addr_lo;
	u32 words_16[2];
	u32 compute_dispatch_scratch_base_hi;
	u32 word_19;
	u32 compute_pgm_rsrc2;
	u32 word_21;
	u32 compute_resource_limits;
	u32 words_23[3];
	u32 compute_restart_z;
	u32 compute_thread_trace_enable;
	u32 compute_misc_reserved;
	u32 compute_dispatch_id;
	u32 words_30[10];
	u32 compute_current_logical_xcc_id;
	u32 compute_restart_cg_tg_id;
	u32 compute_tg_chunk_size;
	u32 compute_restore_tg_chunk_size;
	u32 words_44[2];
	u32 compute_prescaled_dim_x;
	u32 words_47[2];
	u32 compute_static_thread_mgmt_se0;
	u32 words_50[7];
	u32 compute_static_thread_mgmt_se8;
	u32 words_58[6];
	u32 tg_counter_id;
	u32 words_65[33];
	u32 cp_compute_csinvoc_count_hi;
	u32 words_99[11];
	u32 compute_relaunch;
	u32 words_111[2];
	u32 compute_relaunch2;
	u32 words_114[60];
	u32 cp_hqd_cntl_stack_offset;
	u32 word_175;
	u32 cp_hqd_wg_state_offset;
	u32 words_177[7];
	u32 cp_hqd_suspend_cntl_stack_offset;
	u32 words_185[6];
	u32 cp_hqd_dequeue_status;
	u32 cp_hqd_aql_control_1;
	u32 cp_hqd_aql_dispatch_id;
	u32 cp_hqd_aql_dispatch_id_hi;
	u32 cp_hqd_kd_base;
	u32 word_196;
	u32 cp_hqd_kd_cntl;
	u32 words_198[27];
	u32 pm4_target_xcc_in_xcp;
	u32 cp_mqd_stride_size;
	u32 xcc_sync_counter;
	u32 words_228[28];
	u32 control_buf_addr_lo;
	u32 words_257[7];
	u32 control_buf_num_entries;
	u32 words_265[7];
	u32 dfwx_flags;
	u32 words_273[4];
	u32 dfwx_queue_connect_addr_hi;
	u32 words_278[10];
	u32 cp_mqd_query_time_lo;
	u32 words_289[18];
	u32 cp_mqd_restore_end_time_hi;
	u32 disable_queue;
	u32 words_309[75];
	u32 iqtimer_pkt_header;
	u32 words_385[31];
	u32 iqtimer_pkt_dw31;
	u32 words_417[607];
};

#endif /* _CRIU_COMPAT_H_ */
