// SPDX-License-Identifier: GPL-2.0
/* Includes the driver's file, because its tables are static. */
#include <linux/types.h>
#include <linux/array_size.h>
#include <linux/bits.h>

#include <errno.h>

/* The parts of its header that the file uses; the header itself needs the driver. */
#define KFD_CRIU_H_

enum kfd_queue_type {
	KFD_QUEUE_TYPE_COMPUTE,
	KFD_QUEUE_TYPE_SDMA,
};

struct kfd_node {
	u32 gc_version;
};

#define KFD_GC_VERSION(node) ((node)->gc_version)
#define IP_VERSION(major, minor, revision) \
	((u32)(major) << 24 | (u32)(minor) << 16 | (u32)(revision) << 8)

#include "mqd_layouts.h"

const struct kfd_criu_mqd_layout *kfd_criu_mqd_layout(struct kfd_node *node,
						      enum kfd_queue_type type);

#include "../drivers/gpu/drm/amd/amdkfd/kfd_criu_mqd.c"

const struct kfd_criu_mqd_layout *mqd_layout(enum mqd_kind kind)
{
	switch (kind) {
	case MQD_CP:
		return &kfd_criu_layout_cp_v9;
	case MQD_CP_9_4_3:
		return &kfd_criu_layout_cp_v9_4_3;
	case MQD_CP_11:
		return &kfd_criu_layout_cp_v11;
	case MQD_SDMA_11:
		return &kfd_criu_layout_sdma_v11;
	default:
		return &kfd_criu_layout_sdma_v9;
	}
}

u32 mqd_words(const struct kfd_criu_mqd_layout *layout)
{
	return layout->size / sizeof(u32);
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

u32 mqd_mask(const struct kfd_criu_mqd_layout *layout, u32 word, bool *opaque)
{
	*opaque = !mqd_num_spans(layout, word);
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
	struct kfd_node node = { .gc_version = IP_VERSION(major, minor, revision) };

	return kfd_criu_mqd_layout(&node, sdma ? KFD_QUEUE_TYPE_SDMA : KFD_QUEUE_TYPE_COMPUTE);
}
