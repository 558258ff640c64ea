// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Words of a memory queue descriptor that are state of the queue.
 *
 * An MQD selects the privilege, the address space and the kernel buffers of a queue.
 * A blob may be damaged or forged even if the caller of RESTORE is privileged. So
 * RESTORE never uses a saved MQD as a whole. It creates the queue with a new MQD, then
 * copies single words to it:
 *
 *   owned   The driver sets them from the properties of the queue, or the firmware
 *           sets them when it maps the queue. Neither saved nor copied.
 *   state   Progress of the queue, and words that packets of the process can set.
 *           Saved and copied.
 *   opaque  All other words: scratch of the firmware without public documentation.
 *           Saved and copied, because only privileged callers can open a session.
 *
 * The words are defined in v9_structs.h and v11_structs.h, init_mqd() and update_mqd() in
 * kfd_mqd_manager_v9.c and kfd_mqd_manager_v11.c, and the register headers gc_9_4_3,
 * sdma0_4_2 and gc_11_0_0. Bits that are masked below are the same in all of these headers.
 */
#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "kfd_criu.h"
#include "v11_structs.h"
#include "v9_structs.h"
#include "gc/gc_9_4_3_sh_mask.h"
#include "sdma0/sdma0_4_2_sh_mask.h"

/* Words of one kind */
struct kfd_criu_mqd_span {
	u16 first;
	u16 last;
	u32 mask; /* bits that are state; 0: all bits are owned */
};

/* Owned and state words. A word outside all spans of an MQD is opaque. */
struct kfd_criu_mqd_part {
	const struct kfd_criu_mqd_span *spans;
	u32 num;
};

struct kfd_criu_mqd_layout {
	struct kfd_criu_mqd_part parts[2];
	u32 size; /* bytes of the MQD */
	u16 stack_offset; /* word with the fill level of the control stack; 0: no control stack */
	u16 wave_offset; /* word with the fill level of the wave-save area */
	u16 logic_xcc; /* word with the logical id of the XCC; 0: no such word */
	u16 more_cu_masks; /* first word of the CUs of shader engines 4 to 7; 0: no such words */
	bool stack_with_mqd; /* the control stack is behind the MQD, not memory of the process */
};

#define WORD(type, field) (offsetof(struct type, field) / sizeof(u32))
#define SPAN(type, from, to, bits) \
	{ .first = WORD(type, from), .last = WORD(type, to), .mask = (bits) }

#define CP_OWNED(from, to) SPAN(v9_mqd, from, to, 0)
#define CP_STATE(from, to) SPAN(v9_mqd, from, to, ~0u)

static const struct kfd_criu_mqd_span kfd_criu_cp_v9[] = {
	CP_OWNED(header, header),
	CP_STATE(compute_dispatch_initiator, compute_num_thread_z),
	CP_OWNED(compute_pipelinestat_enable, compute_perfcount_enable),
	CP_STATE(compute_pgm_lo, compute_pgm_hi),
	CP_OWNED(compute_tba_lo, compute_tma_hi),
	SPAN(v9_mqd, compute_pgm_rsrc1, compute_pgm_rsrc1,
	     ~(u32)COMPUTE_PGM_RSRC1__PRIV_MASK),
	SPAN(v9_mqd, compute_pgm_rsrc2, compute_pgm_rsrc2,
	     ~(u32)COMPUTE_PGM_RSRC2__TRAP_PRESENT_MASK),
	CP_OWNED(compute_vmid, compute_vmid),
	CP_STATE(compute_resource_limits, compute_restart_z),
	CP_OWNED(compute_thread_trace_enable, compute_misc_reserved),
	CP_STATE(compute_dispatch_id, compute_wave_restore_control),
	CP_STATE(compute_user_data_0, cp_compute_csinvoc_count_hi),
	CP_STATE(cp_mqd_query_time_lo, cp_mqd_restore_end_time_hi),
	CP_OWNED(disable_queue, disable_queue),
	CP_STATE(gds_cs_ctxsw_cnt0, gds_cs_ctxsw_cnt3),
	CP_STATE(cp_pq_exe_status_lo, cp_packet_exe_status_hi),
	CP_OWNED(gds_save_base_addr_lo, cp_hqd_pq_base_hi),
	CP_STATE(cp_hqd_pq_rptr, cp_hqd_pq_rptr),
	CP_OWNED(cp_hqd_pq_rptr_report_addr_lo, cp_hqd_pq_control),
	CP_STATE(cp_hqd_ib_base_addr_lo, cp_hqd_ib_rptr),
	CP_OWNED(cp_hqd_ib_control, cp_hqd_dma_offload),
	CP_STATE(cp_hqd_sema_cmd, cp_hqd_sema_cmd),
	CP_OWNED(cp_hqd_msg_type, cp_hqd_msg_type),
	CP_STATE(cp_hqd_atomic0_preop_lo, cp_hqd_atomic1_preop_hi),
	CP_OWNED(cp_hqd_hq_status0, cp_hqd_eop_control),
	CP_STATE(cp_hqd_eop_rptr, cp_hqd_eop_done_events),
	CP_OWNED(cp_hqd_ctx_save_base_addr_lo, cp_hqd_ctx_save_control),
	CP_STATE(cp_hqd_cntl_stack_offset, cp_hqd_cntl_stack_offset),
	CP_OWNED(cp_hqd_cntl_stack_size, cp_hqd_cntl_stack_size),
	CP_STATE(cp_hqd_wg_state_offset, cp_hqd_wg_state_offset),
	CP_OWNED(cp_hqd_ctx_save_size, cp_hqd_ctx_save_size),
	CP_STATE(cp_hqd_gds_resource_state, cp_hqd_eop_wptr_mem),
	CP_OWNED(cp_hqd_aql_control, cp_hqd_aql_control),
	CP_STATE(cp_hqd_pq_wptr_lo, cp_hqd_pq_wptr_hi),
	CP_OWNED(iqtimer_pkt_header, iqtimer_pkt_dw31),
	CP_OWNED(pm4_target_xcc_in_xcp, cp_mqd_stride_size),
	CP_OWNED(set_resources_header, set_resources_dw7),
	CP_OWNED(queue_doorbell_id0, queue_doorbell_id15),
};

/* Words that differ on graphics cores with partitions. */
static const struct kfd_criu_mqd_span kfd_criu_cp_v9_one[] = {
	CP_STATE(compute_static_thread_mgmt_se4, compute_static_thread_mgmt_se7),
};

static const struct kfd_criu_mqd_span kfd_criu_cp_v9_4_3[] = {
	CP_STATE(compute_current_logic_xcc_id, compute_restart_cg_tg_id),
	CP_OWNED(compute_tg_chunk_size, compute_tg_chunk_size),
	CP_STATE(compute_restore_tg_chunk_size, compute_restore_tg_chunk_size),
};

#define SDMA_OWNED(from, to) SPAN(v9_sdma_mqd, from, to, 0)
#define SDMA_STATE(from, to) SPAN(v9_sdma_mqd, from, to, ~0u)

static const struct kfd_criu_mqd_span kfd_criu_sdma_v9[] = {
	SDMA_OWNED(sdmax_rlcx_rb_cntl, sdmax_rlcx_rb_base_hi),
	SDMA_STATE(sdmax_rlcx_rb_rptr, sdmax_rlcx_rb_wptr_hi),
	SDMA_OWNED(sdmax_rlcx_rb_wptr_poll_cntl, sdmax_rlcx_rb_rptr_addr_lo),
	/* The word also holds the VMID and the privilege that the engine runs IBs with. */
	SPAN(v9_sdma_mqd, sdmax_rlcx_ib_cntl, sdmax_rlcx_ib_cntl,
	     SDMA0_RLC0_IB_CNTL__IB_ENABLE_MASK),
	SDMA_STATE(sdmax_rlcx_ib_rptr, sdmax_rlcx_context_status),
	SDMA_OWNED(sdmax_rlcx_doorbell, sdmax_rlcx_doorbell),
	SDMA_STATE(sdmax_rlcx_status, sdmax_rlcx_watermark),
	SDMA_OWNED(sdmax_rlcx_doorbell_offset, sdmax_rlcx_csa_addr_hi),
	SDMA_STATE(sdmax_rlcx_ib_sub_remain, sdmax_rlcx_ib_sub_remain),
	SDMA_OWNED(sdmax_rlcx_preempt, sdmax_rlcx_minor_ptr_update),
	SDMA_STATE(sdmax_rlcx_midcmd_data0, sdmax_rlcx_midcmd_cntl),
	SDMA_OWNED(sdma_engine_id, sdma_queue_id),
};

#define CP11_OWNED(from, to) SPAN(v11_compute_mqd, from, to, 0)
#define CP11_STATE(from, to) SPAN(v11_compute_mqd, from, to, ~0u)

static const struct kfd_criu_mqd_span kfd_criu_cp_v11[] = {
	CP11_OWNED(header, header),
	CP11_STATE(compute_dispatch_initiator, compute_num_thread_z),
	CP11_OWNED(compute_pipelinestat_enable, compute_perfcount_enable),
	CP11_STATE(compute_pgm_lo, compute_dispatch_scratch_base_hi),
	SPAN(v11_compute_mqd, compute_pgm_rsrc1, compute_pgm_rsrc1,
	     ~(u32)COMPUTE_PGM_RSRC1__PRIV_MASK),
	SPAN(v11_compute_mqd, compute_pgm_rsrc2, compute_pgm_rsrc2,
	     ~(u32)COMPUTE_PGM_RSRC2__TRAP_PRESENT_MASK),
	CP11_OWNED(compute_vmid, compute_vmid),
	CP11_STATE(compute_resource_limits, compute_restart_z),
	CP11_OWNED(compute_thread_trace_enable, compute_misc_reserved),
	CP11_STATE(compute_dispatch_id, compute_wave_restore_control),
	CP11_STATE(compute_user_data_0, cp_compute_csinvoc_count_hi),
	CP11_STATE(cp_mqd_query_time_lo, cp_mqd_restore_end_time_hi),
	CP11_OWNED(disable_queue, disable_queue),
	CP11_STATE(gds_cs_ctxsw_cnt0, gds_cs_ctxsw_cnt3),
	CP11_STATE(cp_pq_exe_status_lo, cp_packet_exe_status_hi),
	CP11_OWNED(gds_save_base_addr_lo, cp_hqd_pq_base_hi),
	CP11_STATE(cp_hqd_pq_rptr, cp_hqd_pq_rptr),
	CP11_OWNED(cp_hqd_pq_rptr_report_addr_lo, cp_hqd_pq_control),
	CP11_STATE(cp_hqd_ib_base_addr_lo, cp_hqd_ib_rptr),
	CP11_OWNED(cp_hqd_ib_control, cp_hqd_dma_offload),
	CP11_STATE(cp_hqd_sema_cmd, cp_hqd_sema_cmd),
	CP11_OWNED(cp_hqd_msg_type, cp_hqd_msg_type),
	CP11_STATE(cp_hqd_atomic0_preop_lo, cp_hqd_atomic1_preop_hi),
	CP11_OWNED(cp_hqd_hq_status0, cp_hqd_eop_control),
	CP11_STATE(cp_hqd_eop_rptr, cp_hqd_eop_done_events),
	CP11_OWNED(cp_hqd_ctx_save_base_addr_lo, cp_hqd_ctx_save_control),
	CP11_STATE(cp_hqd_cntl_stack_offset, cp_hqd_cntl_stack_offset),
	CP11_OWNED(cp_hqd_cntl_stack_size, cp_hqd_cntl_stack_size),
	CP11_STATE(cp_hqd_wg_state_offset, cp_hqd_wg_state_offset),
	CP11_OWNED(cp_hqd_ctx_save_size, cp_hqd_ctx_save_size),
	CP11_STATE(cp_hqd_gds_resource_state, cp_hqd_eop_wptr_mem),
	CP11_OWNED(cp_hqd_aql_control, cp_hqd_aql_control),
	CP11_STATE(cp_hqd_pq_wptr_lo, cp_hqd_pq_wptr_hi),
	CP11_OWNED(iqtimer_pkt_header, iqtimer_pkt_dw31),
	CP11_OWNED(set_resources_header, set_resources_dw7),
	CP11_OWNED(queue_doorbell_id0, queue_doorbell_id15),
	/* Buffers and fences that the firmware writes with the privileges of the driver. */
	CP11_OWNED(control_buf_addr_lo, draw_ring_addr_hi),
	/* fence_address_lo and fence_address_hi: reserved words in older kernels. */
	{ .first = 446, .last = 447 },
	CP11_STATE(gws_0_val, gws_63_val),
};

#define SDMA11_OWNED(from, to) SPAN(v11_sdma_mqd, from, to, 0)
#define SDMA11_STATE(from, to) SPAN(v11_sdma_mqd, from, to, ~0u)

static const struct kfd_criu_mqd_span kfd_criu_sdma_v11[] = {
	SDMA11_OWNED(sdmax_rlcx_rb_cntl, sdmax_rlcx_rb_base_hi),
	SDMA11_STATE(sdmax_rlcx_rb_rptr, sdmax_rlcx_rb_wptr_hi),
	SDMA11_OWNED(sdmax_rlcx_rb_rptr_addr_hi, sdmax_rlcx_rb_rptr_addr_lo),
	SPAN(v11_sdma_mqd, sdmax_rlcx_ib_cntl, sdmax_rlcx_ib_cntl,
	     SDMA0_RLC0_IB_CNTL__IB_ENABLE_MASK),
	SDMA11_STATE(sdmax_rlcx_ib_rptr, sdmax_rlcx_context_status),
	SDMA11_OWNED(sdmax_rlcx_doorbell, sdmax_rlcx_doorbell),
	SDMA11_STATE(sdmax_rlcx_doorbell_log, sdmax_rlcx_doorbell_log),
	SDMA11_OWNED(sdmax_rlcx_doorbell_offset, sdmax_rlcx_sched_cntl),
	SDMA11_STATE(sdmax_rlcx_ib_sub_remain, sdmax_rlcx_ib_sub_remain),
	SDMA11_OWNED(sdmax_rlcx_preempt, sdmax_rlcx_rb_preempt),
	SDMA11_STATE(sdmax_rlcx_midcmd_data0, sdmax_rlcx_midcmd_cntl),
	SDMA11_OWNED(sdmax_rlcx_f32_dbg0, sdmax_rlcx_f32_dbg1),
	SDMA11_OWNED(sdma_engine_id, sdma_queue_id),
};

static const struct kfd_criu_mqd_layout kfd_criu_layout_cp_v9 = {
	.parts = {
		{ .spans = kfd_criu_cp_v9, .num = ARRAY_SIZE(kfd_criu_cp_v9) },
		{ .spans = kfd_criu_cp_v9_one, .num = ARRAY_SIZE(kfd_criu_cp_v9_one) },
	},
	.size = sizeof(struct v9_mqd),
	.stack_offset = WORD(v9_mqd, cp_hqd_cntl_stack_offset),
	.wave_offset = WORD(v9_mqd, cp_hqd_wg_state_offset),
	.more_cu_masks = WORD(v9_mqd, compute_static_thread_mgmt_se4),
	.stack_with_mqd = true,
};

static const struct kfd_criu_mqd_layout kfd_criu_layout_cp_v9_4_3 = {
	.parts = {
		{ .spans = kfd_criu_cp_v9, .num = ARRAY_SIZE(kfd_criu_cp_v9) },
		{ .spans = kfd_criu_cp_v9_4_3, .num = ARRAY_SIZE(kfd_criu_cp_v9_4_3) },
	},
	.size = sizeof(struct v9_mqd),
	.stack_offset = WORD(v9_mqd, cp_hqd_cntl_stack_offset),
	.wave_offset = WORD(v9_mqd, cp_hqd_wg_state_offset),
	.logic_xcc = WORD(v9_mqd, compute_current_logic_xcc_id),
	.stack_with_mqd = true,
};

static const struct kfd_criu_mqd_layout kfd_criu_layout_sdma_v9 = {
	.parts = {
		{ .spans = kfd_criu_sdma_v9, .num = ARRAY_SIZE(kfd_criu_sdma_v9) },
	},
	.size = sizeof(struct v9_sdma_mqd),
};

static const struct kfd_criu_mqd_layout kfd_criu_layout_cp_v11 = {
	.parts = {
		{ .spans = kfd_criu_cp_v11, .num = ARRAY_SIZE(kfd_criu_cp_v11) },
	},
	.size = sizeof(struct v11_compute_mqd),
	.stack_offset = WORD(v11_compute_mqd, cp_hqd_cntl_stack_offset),
	.wave_offset = WORD(v11_compute_mqd, cp_hqd_wg_state_offset),
	.more_cu_masks = WORD(v11_compute_mqd, compute_static_thread_mgmt_se4),
};

static const struct kfd_criu_mqd_layout kfd_criu_layout_sdma_v11 = {
	.parts = {
		{ .spans = kfd_criu_sdma_v11, .num = ARRAY_SIZE(kfd_criu_sdma_v11) },
	},
	.size = sizeof(struct v11_sdma_mqd),
};

/* Returns the layout of the MQDs of a GPU, or NULL if they are not supported. */
const struct kfd_criu_mqd_layout *kfd_criu_mqd_layout(struct kfd_node *node,
						      enum kfd_queue_type type)
{
	u32 version = KFD_GC_VERSION(node);

	if (version >= IP_VERSION(11, 0, 0) && version < IP_VERSION(12, 0, 0))
		return type == KFD_QUEUE_TYPE_COMPUTE ? &kfd_criu_layout_cp_v11 :
							&kfd_criu_layout_sdma_v11;
	if (version < IP_VERSION(9, 0, 1) || version >= IP_VERSION(10, 0, 0))
		return NULL;
	if (type != KFD_QUEUE_TYPE_COMPUTE)
		return &kfd_criu_layout_sdma_v9;
	if (version == IP_VERSION(9, 4, 3) || version == IP_VERSION(9, 4, 4) ||
	    version == IP_VERSION(9, 5, 0))
		return &kfd_criu_layout_cp_v9_4_3;
	return &kfd_criu_layout_cp_v9;
}

u32 kfd_criu_mqd_size(const struct kfd_criu_mqd_layout *layout)
{
	return layout->size;
}

/*
 * Returns the bytes of the control stack that are saved with each MQD. Where it lies in the
 * wave-save area, it is saved as memory of the process.
 */
u32 kfd_criu_mqd_stack_size(const struct kfd_criu_mqd_layout *layout, u32 ctl_stack_size)
{
	return layout->stack_with_mqd ? ctl_stack_size : 0;
}

/* Returns the bits of a word that a blob may contain: all bits of an opaque word. */
static u32 kfd_criu_mqd_mask(const struct kfd_criu_mqd_layout *layout, u32 word)
{
	u32 i, j;

	for (i = 0; i < ARRAY_SIZE(layout->parts); i++) {
		const struct kfd_criu_mqd_span *spans = layout->parts[i].spans;

		for (j = 0; j < layout->parts[i].num; j++)
			if (word >= spans[j].first && word <= spans[j].last)
				return spans[j].mask;
	}
	return ~0u;
}

void kfd_criu_mqd_strip(const struct kfd_criu_mqd_layout *layout, void *mqds, u32 num)
{
	const u32 words = layout->size / sizeof(u32);
	u32 *mqd = mqds;
	u32 i, word;

	for (i = 0; i < num; i++, mqd += words)
		for (word = 0; word < words; word++)
			mqd[word] &= kfd_criu_mqd_mask(layout, word);
}

/*
 * Clears the unused part of control stacks. CP fills a control stack from its end down to
 * cp_hqd_cntl_stack_offset. See get_wave_state() of kfd_mqd_manager_v9.c. Memory below that offset
 * has undefined contents.
 */
void kfd_criu_mqd_strip_stacks(const struct kfd_criu_mqd_layout *layout, const void *mqds,
			       void *stacks, u32 num, u32 size)
{
	const u32 words = layout->size / sizeof(u32);
	const u32 *mqd = mqds;
	u32 i;

	for (i = 0; i < num; i++, mqd += words, stacks += size)
		memset(stacks, 0, min(mqd[layout->stack_offset], size));
}

/* Checks that saved MQDs contain no owned bits */
int kfd_criu_mqd_check(const struct kfd_criu_mqd_layout *layout, const void *mqds, u32 num)
{
	const u32 words = layout->size / sizeof(u32);
	const u32 *mqd = mqds;
	u32 i, word;

	for (i = 0; i < num; i++, mqd += words)
		for (word = 0; word < words; word++)
			if (mqd[word] & ~kfd_criu_mqd_mask(layout, word))
				return -EOPNOTSUPP;
	return 0;
}

/* Checks that saved waves lie within their area */
int kfd_criu_mqd_check_bounds(const struct kfd_criu_mqd_layout *layout, const void *mqds,
			      u32 num, u32 ctl_stack_size, u32 ctx_size)
{
	const u32 words = layout->size / sizeof(u32);
	const u32 *mqd = mqds;
	u32 i;

	if (!layout->stack_offset)
		return 0;
	for (i = 0; i < num; i++, mqd += words)
		if (mqd[layout->stack_offset] > ctl_stack_size ||
		    mqd[layout->wave_offset] > ctx_size)
			return -EBADMSG;
	return 0;
}

/* XCCs share the work-groups of an AQL packet by unique logical ids. With PM4 packets all are 0. */
int kfd_criu_mqd_check_xccs(const struct kfd_criu_mqd_layout *layout, const void *mqds, u32 num,
			    bool aql)
{
	const u32 words = layout->size / sizeof(u32);
	const u32 *mqd = mqds;
	u32 seen = 0;

	if (!layout->logic_xcc)
		return 0;
	for (u32 i = 0; i < num; i++, mqd += words) {
		u32 id = mqd[layout->logic_xcc];

		if (id >= num || (aql ? seen & BIT(id) : id))
			return -EBADMSG;
		seen |= BIT(id);
	}
	return 0;
}

void kfd_criu_mqd_merge(const struct kfd_criu_mqd_layout *layout, void *fresh,
			const void *saved, u32 num)
{
	const u32 words = layout->size / sizeof(u32);
	const u32 *from = saved;
	u32 *to = fresh;
	u32 i, word;

	for (i = 0; i < num; i++, to += words, from += words) {
		for (word = 0; word < words; word++) {
			u32 mask = kfd_criu_mqd_mask(layout, word);

			to[word] = (to[word] & ~mask) | (from[word] & mask);
		}
	}
}

/*
 * Checks whether a queue does not use all CUs. AMDKFD_IOC_SET_CU_MASK and packets of the process
 * set these words. Returns true if an enable mask differs from that of a new MQD.
 */
bool kfd_criu_mqd_masks_cus(const struct kfd_criu_mqd_layout *layout, const void *mqd)
{
	const struct v9_mqd *m = mqd;
	const u32 *words = mqd;
	u32 all;

	if (!layout->stack_offset)
		return false;
	/* The first four words are at the same place in v11_compute_mqd. */
	all = m->compute_static_thread_mgmt_se0 & m->compute_static_thread_mgmt_se1 &
	      m->compute_static_thread_mgmt_se2 & m->compute_static_thread_mgmt_se3;
	for (u32 i = 0; layout->more_cu_masks && i < 4; i++)
		all &= words[layout->more_cu_masks + i];
	return all != ~0u;
}
