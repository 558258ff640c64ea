/* SPDX-License-Identifier: GPL-2.0 */
/* Queues and events of the process of target.h. */
#ifndef AMDGPU_CRIU_TEST_TARGET_QUEUES_H
#define AMDGPU_CRIU_TEST_TARGET_QUEUES_H

#include "target.h"

#define TARGET_RING_SIZE 0x1000
/* Doorbells of one process, on GFX9. */
#define TARGET_DOORBELL_SIZE 0x2000

int target_queues_create(struct target_state *state);
/* PM4 adds and signals an event; AQL decrements and signals an event; SDMA adds. */
int target_queues_step(struct target_state *state);
/* Destroys the SDMA queue; later steps leave it out. */
int target_sdma_drop(struct target_state *state);
/* Events are unchanged: one set, the others not. */
int target_events_verify(struct target_state *state);

#endif /* AMDGPU_CRIU_TEST_TARGET_QUEUES_H */
