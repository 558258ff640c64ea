// SPDX-License-Identifier: GPL-2.0
/* Includes the driver's file, because its tables are static. */
#include <linux/types.h>
#include <linux/array_size.h>
#include <linux/bits.h>

#include <errno.h>

/* The parts of its headers that the file uses; the headers themselves need the driver. */
#define KFD_CRIU_H_

struct kfd_node {
	u32 gc_version;
};

#define KFD_GC_VERSION(node) ((node)->gc_version)
#define IP_VERSION(major, minor, revision) \
	((u32)(major) << 24 | (u32)(minor) << 16 | (u32)(revision) << 8)

#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define hweight32(word) ((u32)__builtin_popcount(word))

#include "mqd_layouts.h"

const struct kfd_criu_mqd_layout *kfd_criu_mqd_layout(u32 gc_version, bool sdma);
bool kfd_criu_mqd_tested(struct kfd_node *node);
void kfd_criu_count_cus(u32 gc_version, const u32 bitmap[4][4], u32 num_se, u32 num_sh, u8 *cus);

#include "../drivers/gpu/drm/amd/amdkfd/kfd_criu_mqd.c"

/* The tables that generations share have the names of one of them. */
#define SAME(type, other, field) \
	_Static_assert(WORD(type, field) == WORD(other, field), #type " " #field);
#define SAME_SINCE_V11(field) SAME(v12_compute_mqd, v11_compute_mqd, field)
#define SAME_V9_TO_V12(field) \
	SAME(v10_compute_mqd, v9_mqd, field) \
	SAME(v11_compute_mqd, v9_mqd, field) \
	SAME(v12_compute_mqd, v9_mqd, field)
#define SAME_SINCE_V9(field) \
	SAME_V9_TO_V12(field) \
	SAME(v12_1_compute_mqd, v9_mqd, field)
#define SAME_UNTIL_V12(field) \
	SAME(vi_mqd, v9_mqd, field) \
	SAME_V9_TO_V12(field)
#define SAME_UNTIL_V11(field) \
	SAME(vi_mqd, v9_mqd, field) \
	SAME(v10_compute_mqd, v9_mqd, field) \
	SAME(v11_compute_mqd, v9_mqd, field)
#define SAME_IN_ALL(field) \
	SAME(vi_mqd, v9_mqd, field) \
	SAME_SINCE_V9(field)
#define SAME_SDMA(field) SAME(v10_sdma_mqd, v9_sdma_mqd, field)
#define SAME_SDMA_BUT_V10(field) \
	SAME(vi_sdma_mqd, v9_sdma_mqd, field) \
	SAME(v11_sdma_mqd, v9_sdma_mqd, field) \
	SAME(v12_sdma_mqd, v9_sdma_mqd, field)

SAME_IN_ALL(header)
SAME_IN_ALL(compute_dispatch_initiator)
SAME_IN_ALL(compute_num_thread_z)
SAME_IN_ALL(compute_pipelinestat_enable)
SAME_IN_ALL(compute_perfcount_enable)
SAME_IN_ALL(compute_pgm_lo)
SAME_IN_ALL(compute_pgm_hi)
SAME_IN_ALL(compute_pgm_rsrc1)
SAME_IN_ALL(compute_vmid)
SAME_IN_ALL(cp_pq_exe_status_lo)
SAME_IN_ALL(cp_packet_exe_status_hi)
SAME_IN_ALL(ctx_save_base_addr_lo)
SAME_IN_ALL(cp_hqd_pq_base_hi)
SAME_IN_ALL(cp_hqd_pq_rptr)
SAME_IN_ALL(cp_hqd_pq_rptr_report_addr_lo)
SAME_IN_ALL(cp_hqd_pq_doorbell_control)
SAME_IN_ALL(cp_hqd_pq_control)
SAME_IN_ALL(cp_hqd_ib_base_addr_lo)
SAME_IN_ALL(cp_hqd_ib_rptr)
SAME_IN_ALL(cp_hqd_vmid)
SAME_IN_ALL(cp_hqd_persistent_state)
SAME_IN_ALL(cp_hqd_pipe_priority)
SAME_IN_ALL(cp_hqd_queue_priority)
SAME_IN_ALL(cp_hqd_quantum)
SAME_IN_ALL(cp_hqd_pq_base_lo)
SAME_IN_ALL(cp_hqd_ib_control)
SAME_IN_ALL(cp_hqd_iq_timer)
SAME_IN_ALL(cp_hqd_iq_rptr)
SAME(vi_mqd, v9_mqd, cp_hqd_hq_status0)
SAME(v11_compute_mqd, v9_mqd, cp_hqd_hq_status0)
SAME(v12_compute_mqd, v9_mqd, cp_hqd_hq_status0)
SAME(v12_1_compute_mqd, v9_mqd, cp_hqd_hq_status0)
SAME_IN_ALL(cp_mqd_control)
SAME_IN_ALL(cp_hqd_atomic1_preop_hi)
SAME_IN_ALL(cp_hqd_eop_control)
SAME_IN_ALL(cp_hqd_eop_rptr)
SAME_IN_ALL(cp_hqd_eop_done_events)
SAME_IN_ALL(cp_hqd_ctx_save_base_addr_lo)
SAME_IN_ALL(cp_hqd_ctx_save_control)
SAME_IN_ALL(cp_hqd_cntl_stack_offset)
SAME_IN_ALL(cp_hqd_cntl_stack_size)
SAME_IN_ALL(cp_hqd_wg_state_offset)
SAME_IN_ALL(cp_hqd_ctx_save_size)
SAME_IN_ALL(cp_hqd_error)
SAME_IN_ALL(cp_hqd_eop_wptr_mem)
SAME_IN_ALL(set_resources_header)
SAME_IN_ALL(set_resources_dw7)
SAME_SINCE_V9(reserved_144)
SAME_SINCE_V9(cp_hqd_aql_control)
SAME_SINCE_V9(cp_hqd_pq_wptr_lo)
SAME_SINCE_V9(cp_hqd_pq_wptr_hi)
SAME_UNTIL_V12(compute_resource_limits)
SAME_UNTIL_V12(compute_static_thread_mgmt_se0)
SAME_UNTIL_V12(compute_static_thread_mgmt_se1)
SAME_UNTIL_V12(compute_static_thread_mgmt_se2)
SAME_UNTIL_V12(compute_static_thread_mgmt_se3)
SAME_UNTIL_V12(compute_restart_z)
SAME_UNTIL_V12(compute_thread_trace_enable)
SAME_UNTIL_V12(compute_dispatch_id)
SAME_UNTIL_V12(compute_threadgroup_id)
SAME_UNTIL_V12(compute_user_data_0)
SAME_UNTIL_V12(cp_compute_csinvoc_count_hi)
SAME_UNTIL_V12(cp_mqd_query_time_lo)
SAME_UNTIL_V12(cp_mqd_restore_end_time_hi)
SAME_UNTIL_V12(disable_queue)
SAME_UNTIL_V12(iqtimer_pkt_header)
SAME_UNTIL_V12(iqtimer_pkt_dw31)
SAME_UNTIL_V12(queue_doorbell_id0)
SAME_UNTIL_V12(queue_doorbell_id15)
SAME_UNTIL_V11(gds_cs_ctxsw_cnt0)
SAME_UNTIL_V11(gds_cs_ctxsw_cnt3)
SAME_UNTIL_V11(gds_save_base_addr_lo)
SAME_UNTIL_V11(gds_save_mask_hi)
SAME_UNTIL_V11(cp_hqd_gds_resource_state)
SAME_SINCE_V11(compute_dispatch_pkt_addr_lo)
SAME_SINCE_V11(compute_dispatch_scratch_base_hi)
SAME_SINCE_V11(compute_req_ctrl)
SAME_SINCE_V11(compute_wave_restore_control)
SAME_SINCE_V11(control_buf_addr_lo)
SAME_SINCE_V11(draw_ring_addr_hi)
SAME_SINCE_V11(gws_0_val)
SAME_SINCE_V11(gws_63_val)
SAME_SDMA(sdmax_rlcx_rb_cntl)
SAME_SDMA(sdmax_rlcx_rb_rptr)
SAME_SDMA(sdmax_rlcx_rb_wptr_hi)
SAME_SDMA(sdmax_rlcx_rb_wptr_poll_cntl)
SAME_SDMA(sdmax_rlcx_ib_cntl)
SAME_SDMA(sdmax_rlcx_context_status)
SAME_SDMA(sdmax_rlcx_doorbell)
SAME_SDMA(sdmax_rlcx_status)
SAME_SDMA(sdmax_rlcx_watermark)
SAME_SDMA(sdmax_rlcx_doorbell_offset)
SAME_SDMA(sdmax_rlcx_csa_addr_hi)
SAME_SDMA(sdmax_rlcx_ib_sub_remain)
SAME_SDMA(sdmax_rlcx_preempt)
SAME_SDMA(sdmax_rlcx_minor_ptr_update)
SAME_SDMA(sdmax_rlcx_midcmd_data0)
SAME_SDMA(sdmax_rlcx_midcmd_cntl)
SAME_SDMA_BUT_V10(sdma_engine_id)
SAME_SDMA_BUT_V10(sdma_queue_id)

const struct kfd_criu_mqd_layout *mqd_layout(enum mqd_kind kind)
{
	static const struct {
		u32 gc_version;
		bool sdma;
	} of[] = {
		[MQD_CP_8] = { 0, false },
		[MQD_SDMA_8] = { 0, true },
		[MQD_CP] = { IP_VERSION(9, 0, 1), false },
		[MQD_CP_9_4_3] = { IP_VERSION(9, 4, 3), false },
		[MQD_SDMA] = { IP_VERSION(9, 0, 1), true },
		[MQD_CP_10] = { IP_VERSION(10, 0, 0), false },
		[MQD_SDMA_10] = { IP_VERSION(10, 0, 0), true },
		[MQD_CP_11] = { IP_VERSION(11, 0, 0), false },
		[MQD_SDMA_11] = { IP_VERSION(11, 0, 0), true },
		[MQD_CP_12] = { IP_VERSION(12, 0, 0), false },
		[MQD_SDMA_12] = { IP_VERSION(12, 0, 0), true },
		[MQD_CP_12_1] = { IP_VERSION(12, 1, 0), false },
		[MQD_SDMA_12_1] = { IP_VERSION(12, 1, 0), true },
	};

	return kfd_criu_mqd_layout(of[kind].gc_version, of[kind].sdma);
}

void mqd_count_cus(u32 major, const u32 bitmap[4][4], u32 num_se, u32 num_sh, u8 *cus)
{
	kfd_criu_count_cus(IP_VERSION(major, 0, 0), bitmap, num_se, num_sh, cus);
}

u32 mqd_words(const struct kfd_criu_mqd_layout *layout)
{
	return layout->words;
}

u32 mqd_num_spans(const struct kfd_criu_mqd_layout *layout, u32 word)
{
	u32 i, j, num = 0;

	for (i = 0; i < ARRAY_SIZE(layout->parts); i++)
		for (j = 0; j < layout->parts[i].num; j++)
			num += word >= layout->parts[i].spans[j].first &&
			       word <= layout->parts[i].spans[j].last;
	return num;
}

u32 mqd_num_bad_spans(const struct kfd_criu_mqd_layout *layout)
{
	u32 i, j, num = 0;

	for (i = 0; i < ARRAY_SIZE(layout->parts); i++)
		for (j = 0; j < layout->parts[i].num; j++)
			num += layout->parts[i].spans[j].first > layout->parts[i].spans[j].last ||
			       layout->parts[i].spans[j].last >= mqd_words(layout);
	return num;
}

u32 mqd_mask(const struct kfd_criu_mqd_layout *layout, u32 word)
{
	return kfd_criu_mqd_mask(layout, word);
}

u32 mqd_stack_word(const struct kfd_criu_mqd_layout *layout)
{
	return layout->stack_offset;
}

u32 mqd_wave_word(const struct kfd_criu_mqd_layout *layout)
{
	return layout->wave_offset;
}

u32 mqd_logic_xcc_word(const struct kfd_criu_mqd_layout *layout)
{
	return layout->logic_xcc;
}

const struct kfd_criu_mqd_layout *mqd_layout_of(u32 major, u32 minor, u32 revision, bool sdma)
{
	return kfd_criu_mqd_layout(IP_VERSION(major, minor, revision), sdma);
}

bool mqd_tested(u32 major, u32 minor, u32 revision)
{
	struct kfd_node node = {
		.gc_version = IP_VERSION(major, minor, revision),
	};

	return kfd_criu_mqd_tested(&node);
}
