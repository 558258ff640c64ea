/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of one process is checkpointed there and restored in another: the image, and copies of
 * all memory that belongs to it.
 */
#ifndef AMDGPU_CRIU_TEST_CARRY_H
#define AMDGPU_CRIU_TEST_CARRY_H

#include "kfd.h"

#define CARRY_BOS 64
#define CARRY_GPUS 16
#define CARRY_AREAS 4
#define CARRY_NOTES 4096

/* Memory of the process outside of BOs, at the same address in both. */
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
	/* Data of the process that has exited; its pointers are to restored memory only. */
	_Alignas(16) unsigned char notes[CARRY_NOTES];
};

struct carry_maker {
	/* Creates state; BOs are at the same address for the CPU, too. */
	int (*make)(struct kfd *kfd, struct carry *carry);
	/* Between pause and checkpoint; NULL: nothing. */
	int (*when_paused)(struct kfd *kfd, struct carry *carry);
	/* The target kernel; NULL: this one. */
	const struct amdgpu_criu_record_info *records;
	__u32 num_records;
};

/* Addresses of BOs in every process; nothing else is mapped there. */
#define CARRY_ADDRESS ((char *)0x200000000000)

int carry_make(struct carry *carry, const struct carry_maker *maker);
/* Opens the nodes, and assigns the image's devices to them. May be repeated in a child. */
int carry_open(struct carry *carry, struct kfd *kfd);
/* Restores memory, mappings and their contents, as CRIU does before RESUME. */
int carry_fill(const struct carry *carry);
/* RESTORE, carry_fill(), RESUME. */
int carry_restore(struct carry *carry, struct kfd *kfd, int session);
void carry_close(struct carry *carry, struct kfd *kfd);
void carry_free(struct carry *carry);

#endif /* AMDGPU_CRIU_TEST_CARRY_H */
