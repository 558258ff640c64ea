/* SPDX-License-Identifier: GPL-2.0 */
/* kfd_criu_mqd.c and its tables, for a host program. */
#ifndef MQD_LAYOUTS_H_
#define MQD_LAYOUTS_H_

#include <linux/types.h>

SHIM_C_BEGIN

struct kfd_criu_mqd_layout;

enum mqd_kind {
	MQD_CP_8,
	MQD_SDMA_8,
	MQD_CP,
	MQD_CP_9_4_3,
	MQD_SDMA,
	MQD_CP_10,
	MQD_SDMA_10,
	MQD_CP_11,
	MQD_SDMA_11,
	MQD_CP_12,
	MQD_SDMA_12,
	MQD_CP_12_1,
	MQD_SDMA_12_1,
};

const struct kfd_criu_mqd_layout *mqd_layout(enum mqd_kind kind);
u32 mqd_words(const struct kfd_criu_mqd_layout *layout);
/* The number of spans that contain the word; the number of spans that are out of order or range. */
u32 mqd_num_spans(const struct kfd_criu_mqd_layout *layout, u32 word);
u32 mqd_num_bad_spans(const struct kfd_criu_mqd_layout *layout);
/* Bits of a word that may go through a blob. */
u32 mqd_mask(const struct kfd_criu_mqd_layout *layout, u32 word);
/* Words with a meaning of their own; 0: none. */
u32 mqd_stack_word(const struct kfd_criu_mqd_layout *layout);
u32 mqd_wave_word(const struct kfd_criu_mqd_layout *layout);
u32 mqd_logic_xcc_word(const struct kfd_criu_mqd_layout *layout);
/* The layout of a GPU with this graphics IP version; NULL: unknown. */
const struct kfd_criu_mqd_layout *mqd_layout_of(u32 major, u32 minor, u32 revision, bool sdma);
/* Whether tests run queues of it, with a kernel that saves and loads this many MQDs of a queue. */
bool mqd_tested(u32 major, u32 minor, u32 revision);

/* CUs of each shader array, from the driver's bitmap of a GPU of this generation. */
void mqd_count_cus(u32 major, const u32 bitmap[4][4], u32 num_se, u32 num_sh, u8 *cus);

/* The driver's functions. */
u32 kfd_criu_mqd_stack_size(const struct kfd_criu_mqd_layout *layout, u32 ctl_stack_size);
u32 kfd_criu_mqd_size(const struct kfd_criu_mqd_layout *layout);
void kfd_criu_mqd_strip(const struct kfd_criu_mqd_layout *layout, u32 *mqd, u32 num);
void kfd_criu_mqd_strip_stacks(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			       void *stacks, u32 num, u32 size);
bool kfd_criu_mqd_masks_cus(const struct kfd_criu_mqd_layout *layout, const u32 *mqd);
bool kfd_criu_mqd_waves_fit(const struct kfd_criu_mqd_layout *layout, const u32 *mqd,
			    const u32 *stack, u32 stack_size, const u8 *is, const u8 *was, u32 num);
int kfd_criu_mqd_check(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 num);
int kfd_criu_mqd_check_bounds(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 num,
			      u32 ctl_stack_size, u32 ctx_size);
int kfd_criu_mqd_check_xccs(const struct kfd_criu_mqd_layout *layout, const u32 *mqd, u32 num,
			    bool aql);
void kfd_criu_mqd_merge(const struct kfd_criu_mqd_layout *layout, u32 *to, const u32 *from,
			u32 num);

SHIM_C_END

#endif /* MQD_LAYOUTS_H_ */
