/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one process makes is checkpointed there, and restored in another: the image, and copies of
 * all memory that goes with it.
 */
#ifndef AMDGPU_CRIU_TEST_CARRY_H
#define AMDGPU_CRIU_TEST_CARRY_H

#include "kfd.h"

#define CARRY_BOS 64
#define CARRY_GPUS 16
#define CARRY_AREAS 4
#define CARRY_NOTES 4096

/* Memory of the process that is no BO, at the same address in both. */
struct carry_area {
	void *at;
	size_t size;
};

struct carry {
	struct criu_image image;
	/* By index in the tables; of BOs, NULL if the CPU has not mapped them. */
	unsigned char *contents[CARRY_BOS];
	bool has_vm[CARRY_GPUS];
	struct carry_area areas[CARRY_AREAS];
	unsigned char *area_contents[CARRY_AREAS];
	/* What the process that is no more has left: no pointers but to what is restored. */
	_Alignas(16) unsigned char notes[CARRY_NOTES];
};

struct carry_maker {
	/* Makes state; BOs are at their address for the CPU, too. */
	int (*make)(struct kfd *kfd, struct carry *carry);
	/* Between pause and checkpoint; NULL: nothing. */
	int (*when_paused)(struct kfd *kfd, struct carry *carry);
	/* For which kernel; NULL: this one. */
	const struct amdgpu_criu_record_info *records;
	__u32 num_records;
};

/* Where BOs are, in whatever process: nobody else maps anything there. */
#define CARRY_ADDRESS ((char *)0x200000000000)

int carry_make(struct carry *carry, const struct carry_maker *maker);
/* The nodes, and for RESTORE the devices of the image led to them. Also anew, in a child. */
int carry_open(struct carry *carry, struct kfd *kfd);
/* Memory and mappings as they were, and what is in them: what CRIU does before RESUME. */
int carry_fill(const struct carry *carry);
/* RESTORE, carry_fill(), RESUME. */
int carry_restore(struct carry *carry, struct kfd *kfd, int session);
void carry_close(struct carry *carry, struct kfd *kfd);
void carry_free(struct carry *carry);

#endif /* AMDGPU_CRIU_TEST_CARRY_H */
