/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process that uses everything that KFD has, for tests of checkpoint and restore.
 *
 * Its memory is at fixed addresses, and CPU memory is shared with the test, so that
 * another process can replace it: only GPU state must be restored.
 */
#ifndef AMDGPU_CRIU_TEST_TARGET_H
#define AMDGPU_CRIU_TEST_TARGET_H

#include <sys/types.h>

#include "criu.h"
#include "kfd.h"

enum target_area {
	/* Data: every word has a known pattern. */
	TARGET_VRAM,
	TARGET_GTT,
	TARGET_USERPTR,
	TARGET_HIDDEN, /* VRAM that the GPU has not mapped */
	/* Words that the queues work on. */
	TARGET_WORDS,
	TARGET_EVENT_PAGE,
	TARGET_PM4_RING,
	TARGET_PM4_POINTERS,
	TARGET_PM4_EOP,
	TARGET_PM4_CWSR,
	TARGET_AQL_RING, /* a userptr */
	TARGET_AQL_POINTERS,
	TARGET_AQL_EOP,
	TARGET_AQL_CWSR, /* an SVM range if there can be one, as ROCr has it */
	TARGET_SDMA_RING,
	TARGET_SDMA_POINTERS,
	TARGET_DOORBELL,
	TARGET_AREAS,
};

/* @flags: of AMDKFD_IOC_ALLOC_MEMORY_OF_GPU; 0: an SVM range */
struct target_bo {
	char *at;
	size_t size;
	__u32 flags;
	__u64 handle;
};

struct target_ring {
	__u32 id;
	__u64 doorbell;
	__u64 written;
};

/* The GPU that a process runs on; target_state.gpu has the gpu_id that it uses. */
struct target_place {
	__u32 gpu_id;
	int render_minor;
	unsigned long chip; /* the same for all partitions of a GPU */
};

/* Everything that a replacement process needs, in memory shared with the test. */
struct target_state {
	struct kfd_gpu gpu;
	struct target_place place;
	/* Its GPU before, if that was another one. */
	struct target_place left;
	struct target_bo bos[TARGET_AREAS];
	struct target_ring pm4, aql, sdma;
	__u32 pm4_event, aql_event, set_event;
	__u64 steps;
	/* Written by the process: numbers of its descriptors, and its last result. */
	bool no_sdma;
	int kfd_fd, drm_fd;
	int result;
	/* Which step of RESTORE fails (see fail_nth.h), 0: none; the process writes if it did. */
	unsigned int fail_nth;
	bool failed;
};

struct target {
	struct target_state *state;
	pid_t pid;
	int to, from;
	bool traced;
};

static inline bool target_are_partitions(const struct target_place places[2])
{
	return places[0].chip == places[1].chip;
}

/* Commands, each answered with a result in target_state.result. */
enum target_command {
	TARGET_STEP = 's', /* each queue does one step that depends on all before */
	TARGET_VERIFY = 'v', /* all data, and all events */
	TARGET_RESTORE = 'r', /* RESTORE, then map the VMAs */
	TARGET_MAP = 'm', /* VMAs only */
	TARGET_DROP_SDMA = 'd', /* destroys the SDMA queue; later steps leave it out */
	TARGET_QUIT = 'q',
};

/* The two GPUs of the machine, -ENODEV if there are fewer. */
int target_find_places(struct target_place places[2]);
/* Memory of the state, for any number of processes one after the other. */
struct target_state *target_state_make(void);
/* A process that creates everything. */
int target_start(struct target *target, struct target_state *state);
/*
 * A process that has opened the nodes and waits for TARGET_RESTORE of this image. It is traced,
 * but not stopped, so that it can be resumed from here.
 */
int target_start_empty(struct target *target, struct target_state *state, int session,
		       const struct criu_image *image);
int target_do(struct target *target, enum target_command command);
/* Kills and reaps it. */
void target_kill(struct target *target);
/* Becomes its tracer and stops it; returns its /dev/kfd. */
int target_seize(struct target *target, struct criu_node *node);
void target_continue(struct target *target);

#endif /* AMDGPU_CRIU_TEST_TARGET_H */
