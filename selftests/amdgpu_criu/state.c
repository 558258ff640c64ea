// SPDX-License-Identifier: GPL-2.0
#include "state.h"

#include <string.h>

_Static_assert(sizeof(struct state) <= CARRY_NOTES, "a state must fit in the notes of a carry");

int state_make(struct kfd *kfd, struct state *state)
{
	int ret;

	memset(state, 0, sizeof(*state));
	kfd->next_address = CARRY_ADDRESS;
	ret = kfd_bo_alloc(kfd, &state->vram, KFD_VRAM, STATE_VRAM_SIZE);
	if (!ret)
		ret = kfd_bo_alloc(kfd, &state->gtt, KFD_GTT, STATE_GTT_SIZE);
	if (!ret)
		ret = kfd_bo_alloc(kfd, &state->userptr, KFD_USERPTR, STATE_USERPTR_SIZE);
	if (!ret)
		ret = kfd_sdma_create(kfd, &state->sdma);
	if (!ret)
		ret = kfd_compute_create(kfd, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, &state->compute);
	if (!ret)
		ret = kfd_event_create(kfd, true, &state->event_auto);
	if (!ret)
		ret = kfd_event_create(kfd, false, &state->event_manual);
	if (!ret)
		ret = kfd_event_create(kfd, false, &state->event_set);
	if (!ret)
		ret = kfd_event_set(kfd, state->event_set);
	return ret;
}

static __u32 pattern(__u32 seed, size_t bo, size_t word)
{
	return (seed + bo * 0x1000193 + word) * 0x9e3779b1;
}

void state_fill(const struct state *state, __u32 seed)
{
	const struct kfd_bo *bos[] = { &state->vram, &state->gtt, &state->userptr };
	size_t i, word;

	for (i = 0; i < 3; i++)
		for (word = 0; word < bos[i]->size / sizeof(__u32); word++)
			((__u32 *)bos[i]->at)[word] = pattern(seed, i, word);
}

bool state_is_filled(const struct state *state, __u32 seed)
{
	const struct kfd_bo *bos[] = { &state->vram, &state->gtt, &state->userptr };
	size_t i, word;

	for (i = 0; i < 3; i++)
		for (word = 0; word < bos[i]->size / sizeof(__u32); word++)
			if (((__u32 *)bos[i]->at)[word] != pattern(seed, i, word))
				return false;
	return true;
}

int state_make_filled(struct kfd *kfd, struct carry *carry)
{
	struct state *state = (struct state *)carry->notes;
	int ret = state_make(kfd, state);

	if (!ret)
		state_fill(state, 1);
	return ret;
}

int state_image_make(struct state_image *saved)
{
	static const struct carry_maker maker = { .make = state_make_filled };
	int ret;

	memset(saved, 0, sizeof(*saved));
	ret = carry_make(&saved->carry, &maker);
	memcpy(&saved->state, saved->carry.notes, sizeof(saved->state));
	return ret || saved->carry.image.num_bos == STATE_BOS ? ret : -EINVAL;
}

void state_image_free(struct state_image *saved)
{
	carry_free(&saved->carry);
}
