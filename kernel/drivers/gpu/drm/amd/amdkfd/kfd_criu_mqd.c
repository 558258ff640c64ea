// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Words of a memory queue descriptor that a blob contains.
 *
 * An MQD selects the privilege, the address space and the kernel buffers of a queue. A blob may be
 * damaged or forged even if the caller of RESTORE is privileged. So RESTORE never uses a saved MQD
 * as a whole. It creates the queue with a new MQD, then copies single words to it:
 *
 *   owned   The driver sets them from the properties of the queue, or the firmware
 *           sets them when it maps the queue. Neither saved nor copied.
 *   saved   All others: progress of the queue, words that packets of the process can
 *           set, and scratch of the firmware without public documentation. Saved and
 *           copied, because only privileged callers can open a session.
 *
 * The words are defined in the headers *_structs.h, in init_mqd() and update_mqd() in
 * kfd_mqd_manager_*.c, and in the register headers, which are right where the others have names of
 * an older generation. Bits that are masked below mean the same in all of them. Most words of
 * compute queues are the same in all generations: a layout is made of parts, which never overlap.
 */
#include <linux/bits.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "kfd_criu.h"
#include "v10_structs.h"
#include "v11_structs.h"
#include "v12_structs.h"
#include "v9_structs.h"
#include "vi_structs.h"
#include "gc/gc_9_4_3_sh_mask.h"
#include "sdma0/sdma0_4_2_sh_mask.h"

/* Words of one kind */
struct kfd_criu_mqd_span {
	u16 first;
	u16 last;
	u32 mask; /* bits that are saved; 0: all bits are owned */
};

/* Owned words. A word outside all spans of an MQD is saved. */
struct kfd_criu_mqd_part {
	const struct kfd_criu_mqd_span *spans;
	u32 num;
};

struct kfd_criu_mqd_layout {
	struct kfd_criu_mqd_part parts[6];
	u64 cu_masks; /* words with the CUs of shader engines */
	u32 words; /* of the MQD */
	u16 stack_offset; /* word with the fill level of the control stack; 0: no control stack */
	u16 wave_offset; /* word with the fill level of the wave-save area */
	u16 logic_xcc; /* word with the logical id of the XCC; 0: no such word */
	bool stack_with_mqd; /* the control stack is behind the MQD, not memory of the process */
};

#define WORD(type, field) (offsetof(struct type, field) / sizeof(u32))
#define SPAN(type, from, to, bits) \
	{ .first = WORD(type, from), .last = WORD(type, to), .mask = (bits) }
#define OWNED(type, from, to) SPAN(type, from, to, 0)
#define SPANS_OF(part, ...) \
	static const struct kfd_criu_mqd_span kfd_criu_##part[] = { __VA_ARGS__ }

/* Words of compute queues that are the same in all generations */
static const struct kfd_criu_mqd_span kfd_criu_cp[] = {
	OWNED(v9_mqd, header, header),
	OWNED(v9_mqd, compute_pipelinestat_enable, compute_perfcount_enable),
	SPAN(v9_mqd, compute_pgm_rsrc1, compute_pgm_rsrc1, ~(u32)COMPUTE_PGM_RSRC1__PRIV_MASK),
	OWNED(v9_mqd, compute_vmid, compute_vmid),
	OWNED(v9_mqd, ctx_save_base_addr_lo, cp_hqd_vmid),
	/* A dispatch runs, and its saved waves have to be launched again. */
	SPAN(v9_mqd, cp_hqd_persistent_state, cp_hqd_persistent_state,
	     CP_HQD_PERSISTENT_STATE__RESTORE_ACTIVE_MASK |
	     CP_HQD_PERSISTENT_STATE__RELAUNCH_WAVES_MASK |
	     CP_HQD_PERSISTENT_STATE__DISP_ACTIVE_MASK),
	OWNED(v9_mqd, cp_hqd_pipe_priority, cp_hqd_queue_priority),
	SPAN(v9_mqd, cp_hqd_quantum, cp_hqd_quantum, CP_HQD_QUANTUM__QUANTUM_ACTIVE_MASK),
	OWNED(v9_mqd, cp_hqd_pq_base_lo, cp_hqd_pq_base_hi),
	OWNED(v9_mqd, cp_hqd_pq_rptr_report_addr_lo, cp_hqd_pq_doorbell_control),
	/* A part of the place in an IB */
	SPAN(v9_mqd, cp_hqd_ib_control, cp_hqd_ib_control,
	     CP_HQD_IB_CONTROL__IB_SIZE_MASK | CP_HQD_IB_CONTROL__PROCESSING_IB_MASK),
	OWNED(v9_mqd, cp_hqd_iq_timer, cp_hqd_iq_timer),
	SPAN(v9_mqd, cp_hqd_hq_status0, cp_hqd_hq_status0,
	     CP_HQD_HQ_STATUS0__DEQUEUE_STATUS_MASK | CP_HQD_HQ_STATUS0__SCRATCH_RAM_INIT_MASK |
	     CP_HQD_HQ_STATUS0__TCL2_DIRTY_MASK | CP_HQD_HQ_STATUS0__QUEUE_IDLE_MASK),
	OWNED(v9_mqd, cp_hqd_hq_control0, cp_hqd_eop_control),
	OWNED(v9_mqd, cp_hqd_ctx_save_base_addr_lo, cp_hqd_ctx_save_control),
	OWNED(v9_mqd, cp_hqd_cntl_stack_size, cp_hqd_cntl_stack_size),
	OWNED(v9_mqd, cp_hqd_ctx_save_size, cp_hqd_ctx_save_size),
	OWNED(v9_mqd, set_resources_header, set_resources_dw7),
};

/* Since GFX9 */
static const struct kfd_criu_mqd_span kfd_criu_cp_since_v9[] = {
	OWNED(v9_mqd, reserved_144, reserved_144),
	SPAN(v9_mqd, cp_hqd_pq_control, cp_hqd_pq_control,
	     CP_HQD_PQ_CONTROL__WPTR_CARRY_MASK | CP_HQD_PQ_CONTROL__RPTR_CARRY_MASK |
	     CP_HQD_PQ_CONTROL__PQ_EMPTY_MASK),
	OWNED(v9_mqd, cp_hqd_aql_control, cp_hqd_aql_control),
};

/* Until GFX12, but not GFX 12.1 */
static const struct kfd_criu_mqd_span kfd_criu_cp_until_v12[] = {
	OWNED(v9_mqd, compute_thread_trace_enable, compute_thread_trace_enable),
	OWNED(v9_mqd, disable_queue, disable_queue),
	OWNED(v9_mqd, iqtimer_pkt_header, iqtimer_pkt_dw31),
	OWNED(v9_mqd, queue_doorbell_id0, queue_doorbell_id15),
};

/* Until GFX11 */
SPANS_OF(cp_until_v11, OWNED(v9_mqd, gds_save_base_addr_lo, gds_save_mask_hi));
/* Since GFX9, the first are registers of a dispatch: its packet, and its scratch. */
SPANS_OF(cp_v8, OWNED(vi_mqd, compute_tba_lo, compute_tma_hi),
	 OWNED(vi_mqd, cp_hqd_pq_control, cp_hqd_pq_control));
SPANS_OF(cp_v9, OWNED(v9_mqd, pm4_target_xcc_in_xcp, cp_mqd_stride_size));
/* Graphics cores with partitions */
SPANS_OF(cp_v9_4_3, OWNED(v9_mqd, compute_tg_chunk_size, compute_tg_chunk_size),
	 OWNED(v9_mqd, pm4_target_xcc_in_xcp, cp_mqd_stride_size));

static const struct kfd_criu_mqd_span kfd_criu_cp_since_v11[] = {
	/* Buffers and fences that the firmware writes with the privileges of the driver. */
	OWNED(v11_compute_mqd, control_buf_addr_lo, draw_ring_addr_hi),
	/* fence_address_lo and fence_address_hi: reserved words in older kernels. */
	{ .first = 446, .last = 447 },
};

SPANS_OF(cp_v12, OWNED(v12_compute_mqd, dfwx_flags, dfwx_client_data_addr_hi));

static const struct kfd_criu_mqd_span kfd_criu_cp_v12_1[] = {
	OWNED(v12_1_compute_mqd, compute_thread_trace_enable, compute_thread_trace_enable),
	OWNED(v12_1_compute_mqd, compute_tg_chunk_size, compute_tg_chunk_size),
	OWNED(v12_1_compute_mqd, cp_hqd_aql_control_1, cp_hqd_aql_control_1),
	OWNED(v12_1_compute_mqd, cp_hqd_kd_base, cp_hqd_kd_cntl),
	OWNED(v12_1_compute_mqd, pm4_target_xcc_in_xcp, cp_mqd_stride_size),
	OWNED(v12_1_compute_mqd, control_buf_addr_lo, control_buf_num_entries),
	OWNED(v12_1_compute_mqd, dfwx_flags, dfwx_queue_connect_addr_hi),
	OWNED(v12_1_compute_mqd, disable_queue, disable_queue),
	OWNED(v12_1_compute_mqd, iqtimer_pkt_header, iqtimer_pkt_dw31),
};

/* The word also holds the VMID and the privilege that an SDMA engine runs IBs with. */
#define SDMA_IB(type) \
	SPAN(type, sdmax_rlcx_ib_cntl, sdmax_rlcx_ib_cntl, SDMA0_RLC0_IB_CNTL__IB_ENABLE_MASK)

static const struct kfd_criu_mqd_span kfd_criu_sdma_v8[] = {
	OWNED(vi_sdma_mqd, sdmax_rlcx_rb_cntl, sdmax_rlcx_rb_base_hi),
	OWNED(vi_sdma_mqd, sdmax_rlcx_rb_wptr_poll_cntl, sdmax_rlcx_rb_rptr_addr_lo),
	SDMA_IB(vi_sdma_mqd),
	OWNED(vi_sdma_mqd, sdmax_rlcx_doorbell, sdmax_rlcx_ape1_cntl),
};

static const struct kfd_criu_mqd_span kfd_criu_sdma[] = {
	OWNED(v9_sdma_mqd, sdmax_rlcx_rb_cntl, sdmax_rlcx_rb_base_hi),
	OWNED(v9_sdma_mqd, sdmax_rlcx_rb_wptr_poll_cntl, sdmax_rlcx_rb_rptr_addr_lo),
	SDMA_IB(v9_sdma_mqd),
	OWNED(v9_sdma_mqd, sdmax_rlcx_doorbell, sdmax_rlcx_doorbell),
	OWNED(v9_sdma_mqd, sdmax_rlcx_doorbell_offset, sdmax_rlcx_csa_addr_hi),
	OWNED(v9_sdma_mqd, sdmax_rlcx_preempt, sdmax_rlcx_minor_ptr_update),
};

/* In all generations but GFX10 */
SPANS_OF(sdma_ids, OWNED(v9_sdma_mqd, sdma_engine_id, sdma_queue_id));
SPANS_OF(sdma_v10, OWNED(v10_sdma_mqd, sdma_engine_id, sdma_queue_id));
/* MQD_BASE_ADDR_HI and MQD_CONTROL, whose place the structure gives as in GFX 12.0 */
SPANS_OF(sdma_v12_1, { .first = 47, .last = 48 });

static const struct kfd_criu_mqd_span kfd_criu_sdma_v11[] = {
	OWNED(v11_sdma_mqd, sdmax_rlcx_rb_cntl, sdmax_rlcx_rb_base_hi),
	OWNED(v11_sdma_mqd, sdmax_rlcx_rb_rptr_addr_hi, sdmax_rlcx_rb_rptr_addr_lo),
	SDMA_IB(v11_sdma_mqd),
	OWNED(v11_sdma_mqd, sdmax_rlcx_doorbell, sdmax_rlcx_doorbell),
	OWNED(v11_sdma_mqd, sdmax_rlcx_doorbell_offset, sdmax_rlcx_sched_cntl),
	OWNED(v11_sdma_mqd, sdmax_rlcx_preempt, sdmax_rlcx_rb_preempt),
	OWNED(v11_sdma_mqd, sdmax_rlcx_f32_dbg0, sdmax_rlcx_f32_dbg1),
};

static const struct kfd_criu_mqd_span kfd_criu_sdma_v12[] = {
	OWNED(v12_sdma_mqd, sdmax_rlcx_rb_cntl, sdmax_rlcx_rb_base_hi),
	OWNED(v12_sdma_mqd, sdmax_rlcx_rb_rptr_addr_lo, sdmax_rlcx_rb_rptr_addr_hi),
	SDMA_IB(v12_sdma_mqd),
	OWNED(v12_sdma_mqd, sdmax_rlcx_doorbell, sdmax_rlcx_doorbell),
	OWNED(v12_sdma_mqd, sdmax_rlcx_doorbell_offset, sdmax_rlcx_sched_cntl),
	OWNED(v12_sdma_mqd, sdmax_rlcx_preempt, sdmax_rlcx_mcu_dbg1),
	OWNED(v12_sdma_mqd, sdmax_rlcx_wait_unsatisfied_thd, sdmax_rlcx_mqd_control),
};

#define PART(part) { .spans = kfd_criu_##part, .num = ARRAY_SIZE(kfd_criu_##part) }

#define CP(type, _xcc, _cu_masks, _stack, ...) { \
	.parts = { PART(cp), __VA_ARGS__ }, \
	.words = sizeof(struct type) / sizeof(u32), \
	.stack_offset = WORD(type, cp_hqd_cntl_stack_offset), \
	.wave_offset = WORD(type, cp_hqd_wg_state_offset), \
	.logic_xcc = (_xcc), \
	.cu_masks = (_cu_masks), \
	.stack_with_mqd = (_stack), \
}

#define CUS(type, from, to) \
	GENMASK_ULL(WORD(type, compute_static_thread_mgmt_##to), \
		    WORD(type, compute_static_thread_mgmt_##from))
/* These four words are at the same place until GFX12. */
#define CUS_0_3 (CUS(v9_mqd, se0, se1) | CUS(v9_mqd, se2, se3))

#define SDMA(type, ...) { .parts = { __VA_ARGS__ }, .words = sizeof(struct type) / sizeof(u32) }

/* Graphics IP versions, newest first. Before GFX9 the version is 0. */
static const struct kfd_criu_generation {
	u32 first; /* up to the first version of the entry before */
	struct kfd_criu_mqd_layout cp, sdma; /* without words: not supported */
} kfd_criu_generations[] = {
	{ .first = IP_VERSION(12, 2, 0) },
	{ IP_VERSION(12, 1, 0),
	  CP(v12_1_compute_mqd, WORD(v12_1_compute_mqd, compute_current_logical_xcc_id),
	     CUS(v12_1_compute_mqd, se0, se8), false, PART(cp_since_v9), PART(cp_v12_1)),
	  SDMA(v12_sdma_mqd, PART(sdma_v12), PART(sdma_v12_1), PART(sdma_ids)) },
	{ IP_VERSION(12, 0, 0),
	  CP(v12_compute_mqd, 0, CUS_0_3 | CUS(v12_compute_mqd, se4, se7), false,
	     PART(cp_since_v9), PART(cp_until_v12), PART(cp_since_v11), PART(cp_v12)),
	  SDMA(v12_sdma_mqd, PART(sdma_v12), PART(sdma_ids)) },
	{ IP_VERSION(11, 0, 0),
	  CP(v11_compute_mqd, 0, CUS_0_3 | CUS(v11_compute_mqd, se4, se7), false,
	     PART(cp_since_v9), PART(cp_until_v12), PART(cp_until_v11), PART(cp_since_v11)),
	  SDMA(v11_sdma_mqd, PART(sdma_v11), PART(sdma_ids)) },
	{ IP_VERSION(10, 0, 0),
	  CP(v10_compute_mqd, 0, CUS_0_3, false, PART(cp_since_v9), PART(cp_until_v12),
	     PART(cp_until_v11)),
	  SDMA(v10_sdma_mqd, PART(sdma), PART(sdma_v10)) },
	{ IP_VERSION(9, 4, 3),
	  CP(v9_mqd, WORD(v9_mqd, compute_current_logic_xcc_id), CUS_0_3, true, PART(cp_since_v9),
	     PART(cp_until_v12), PART(cp_until_v11), PART(cp_v9_4_3)),
	  SDMA(v9_sdma_mqd, PART(sdma), PART(sdma_ids)) },
	{ IP_VERSION(9, 0, 1),
	  CP(v9_mqd, 0, CUS_0_3 | CUS(v9_mqd, se4, se7), true, PART(cp_since_v9),
	     PART(cp_until_v12), PART(cp_until_v11), PART(cp_v9)),
	  SDMA(v9_sdma_mqd, PART(sdma), PART(sdma_ids)) },
	{ 0,
	  CP(vi_mqd, 0, CUS_0_3, false, PART(cp_until_v12), PART(cp_until_v11), PART(cp_v8)),
	  SDMA(vi_sdma_mqd, PART(sdma_v8), PART(sdma_ids)) },
};

/* Returns true if tests run queues of exactly this version. */
bool kfd_criu_mqd_tested(struct kfd_node *node)
{
	const u32 version = KFD_GC_VERSION(node);

	return version == IP_VERSION(9, 4, 2) || version == IP_VERSION(9, 4, 3) ||
	       version == IP_VERSION(11, 0, 0);
}

/* Returns the layout of the MQDs of a GPU, or NULL if they are not supported. */
const struct kfd_criu_mqd_layout *kfd_criu_mqd_layout(u32 gc_version, bool sdma)
{
	const struct kfd_criu_generation *generation = kfd_criu_generations;
	const struct kfd_criu_mqd_layout *layout;

	while (gc_version < generation->first)
		generation++;
	layout = sdma ? &generation->sdma : &generation->cp;
	return layout->words ? layout : NULL;
}

u32 kfd_criu_mqd_size(const struct kfd_criu_mqd_layout *layout)
{
	return layout->words * sizeof(u32);
}

/* Returns the bytes of control stack behind an MQD. In the wave-save area it is plain memory. */
u32 kfd_criu_mqd_stack_size(const struct kfd_criu_mqd_layout *layout, u32 ctl_stack_size)
{
	return layout->stack_with_mqd ? ctl_stack_size : 0;
}

/* Returns the bits of a word that a blob may contain. */
static u32 kfd_criu_mqd_mask(const struct kfd_criu_mqd_layout *layout, u32 word)
{
	for (u32 i = 0; i < ARRAY_SIZE(layout->parts); i++) {
		const struct kfd_criu_mqd_span *spans = layout->parts[i].spans;

		for (u32 j = 0; j < layout->parts[i].num; j++)
			if (word >= spans[j].first && word <= spans[j].last)
				return spans[j].mask;
	}
	return ~0u;
}

void kfd_criu_mqd_strip(const struct kfd_criu_mqd_layout *layout, u32 *mqd, u32 num)
{
	for (u32 i = 0; i < num * layout->words; i++)
		mqd[i] &= kfd_criu_mqd_mask(layout, i % layout->words);
}

/* Clears unused parts: CP fills a control stack from its end down, see get_wave_state() of v9. */
void kfd_criu_mqd_strip_stacks(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			       void *stacks, u32 num, u32 size)
{
	for (u32 i = 0; i < num; i++, mqd += layout->words, stacks += size)
		memset(stacks, 0, min(mqd[layout->stack_offset], size));
}

/* Checks that saved MQDs contain no owned bits */
int kfd_criu_mqd_check(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 num)
{
	for (u32 i = 0; i < num * layout->words; i++)
		if (mqd[i] & ~kfd_criu_mqd_mask(layout, i % layout->words))
			return -EOPNOTSUPP;
	return 0;
}

/* Checks that saved waves lie within their area */
int kfd_criu_mqd_check_bounds(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			      u32 num, u32 ctl_stack_size, u32 ctx_size)
{
	if (!layout->stack_offset)
		return 0;
	for (u32 i = 0; i < num; i++, mqd += layout->words)
		if (mqd[layout->stack_offset] > ctl_stack_size ||
		    mqd[layout->wave_offset] > ctx_size)
			return -EBADMSG;
	return 0;
}

/* XCCs share the work-groups of an AQL packet by unique logical ids. With PM4 packets all are 0. */
int kfd_criu_mqd_check_xccs(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 num,
			    bool aql)
{
	u32 seen = 0;

	if (!layout->logic_xcc)
		return 0;
	for (u32 i = 0; i < num; i++, mqd += layout->words) {
		u32 id = mqd[layout->logic_xcc];

		if (id >= num || (aql ? seen & BIT(id) : id))
			return -EBADMSG;
		seen |= BIT(id);
	}
	return 0;
}

void kfd_criu_mqd_merge(const struct kfd_criu_mqd_layout *layout, u32 *to, const u32 *from, u32 num)
{
	for (u32 i = 0; i < num * layout->words; i++) {
		u32 mask = kfd_criu_mqd_mask(layout, i % layout->words);

		to[i] = (to[i] & ~mask) | (from[i] & mask);
	}
}

/* In the bitmap, engine 4 follows the arrays of engine 0: see mqd_symmetrically_map_cu_mask(). */
void kfd_criu_count_cus(u32 gc_version, const u32 bitmap[4][4], u32 num_se, u32 num_sh, u8 *cus)
{
	const u32 next = gc_version >= IP_VERSION(11, 0, 0) && gc_version < IP_VERSION(13, 0, 0) ?
			 2 : 1;

	for (u32 se = 0; se < num_se; se++)
		for (u32 sh = 0; sh < num_sh; sh++)
			cus[se * 2 + sh] = hweight32(bitmap[se % 4][sh + se / 4 * next]);
}

/* True if an enable mask, of AMDKFD_IOC_SET_CU_MASK or packets, differs from a new MQD's. */
bool kfd_criu_mqd_masks_cus(const struct kfd_criu_mqd_layout *layout, const u32 *mqd)
{
	for (u32 word = 0; word < BITS_PER_TYPE(layout->cu_masks); word++)
		if (layout->cu_masks & BIT_ULL(word) && mqd[word] != ~0u)
			return true;
	return false;
}

/*
 * Returns how many CUs the saved waves of a shader engine need: each can hold as many work-groups
 * of a kind as the engine did on average. In a control stack of GFX9, a word with bit 31 begins
 * waves of another kind. Words of waves have neither this bit nor bit 30, the engine in bits 11:9,
 * and bit 17 in the first wave of a work-group.
 */
static u32 kfd_criu_cus_of_waves(const u32 *word, const u32 *end, u32 engine, u32 had)
{
	u32 cus = 0, groups = 0;

	for (; word < end; word++) {
		if (!(*word & (BIT(31) | BIT(30))) && (*word >> 9 & 7) == engine)
			groups += *word >> 17 & 1;
		if (!groups || (word + 1 < end && !(word[1] & BIT(31))))
			continue;
		cus += DIV_ROUND_UP(groups, DIV_ROUND_UP(groups, had));
		groups = 0;
	}
	return cus;
}

bool kfd_criu_mqd_has_waves(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 size)
{
	return mqd[layout->stack_offset] < size;
}

/*
 * Checks whether saved waves fit on an XCC whose engines have other numbers of CUs than before.
 * Each wave returns to its engine, and waves that wait for each other need room at the same time. A
 * control stack in memory of the process is not read: its waves fit if no engine has fewer CUs.
 */
bool kfd_criu_mqd_waves_fit(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			    const u32 *stack, u32 size, const u8 *is, const u8 *was, u32 num)
{
	if (!kfd_criu_mqd_has_waves(layout, mqd, size))
		return true;
	for (u32 i = 0; i < num; i += 2) {
		const u32 has = is[i] + is[i + 1], had = was[i] + was[i + 1];

		if (has < had &&
		    (!layout->stack_with_mqd ||
		     has < kfd_criu_cus_of_waves(stack + mqd[layout->stack_offset] / sizeof(u32),
						 stack + size / sizeof(u32), i / 2, had)))
			return false;
	}
	return true;
}
