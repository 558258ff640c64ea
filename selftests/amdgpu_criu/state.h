/* SPDX-License-Identifier: GPL-2.0 */
/* A process with some of every kind of state, which another process restores. */
#ifndef AMDGPU_CRIU_TEST_STATE_H
#define AMDGPU_CRIU_TEST_STATE_H

#include "carry.h"

#define STATE_VRAM_SIZE 0x20000
#define STATE_GTT_SIZE 0x8000
#define STATE_USERPTR_SIZE 0x10000
/* The three above, and 2 of the SDMA queue, and 4 of the compute queue, and the event page. */
#define STATE_BOS (kernel_is_at_least(7, 3) ? 10u : 9u)
#define STATE_BOS_MAX 10
#define STATE_QUEUES 2
#define STATE_EVENTS 3
#define STATE_ADDRESS CARRY_ADDRESS

/* Plain data; addresses are valid after the restore, too. */
struct state {
	struct kfd_bo vram;
	struct kfd_bo gtt;
	struct kfd_bo userptr;
	struct kfd_queue sdma;
	__u32 compute;
	__u32 event_auto;
	__u32 event_manual;
	__u32 event_set;
};

int state_make(struct kfd *kfd, struct state *state);
/* A maker of struct carry: with the state in its notes, and the BOs filled. */
int state_make_filled(struct kfd *kfd, struct carry *carry);
/* Fills the BOs with a pattern, or checks it. */
void state_fill(const struct state *state, __u32 seed);
bool state_is_filled(const struct state *state, __u32 seed);

/*
 * Creates the state in a child process, checkpoints it there, and ends the child.
 * This process can restore the result; free it by state_image_free().
 */
struct state_image {
	struct state state;
	struct carry carry;
};

int state_image_make(struct state_image *saved);
void state_image_free(struct state_image *saved);

#endif /* AMDGPU_CRIU_TEST_STATE_H */
