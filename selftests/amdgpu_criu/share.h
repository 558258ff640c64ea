/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes that share BOs, for tests of their checkpoint and restore: each executes the test's
 * commands, one after the other, on memory that all of them share.
 */
#ifndef AMDGPU_CRIU_TEST_SHARE_H
#define AMDGPU_CRIU_TEST_SHARE_H

#include <sys/types.h>

#include "criu.h"

#define SHARE_BOS_MAX 16
#define SHARE_BLOB_MAX 0x10000

/* An image in memory that processes share. */
struct share_image {
	struct amdgpu_criu_device devices[8];
	struct amdgpu_criu_bo bos[SHARE_BOS_MAX];
	unsigned char blob[SHARE_BLOB_MAX];
	size_t blob_size;
	__u32 num_devices;
	__u32 num_bos;
};

/* -ENOSPC if it is too large. */
int share_put(struct share_image *to, const struct criu_image *image);
/* Points into @from; not to be freed. */
struct criu_image share_get(struct share_image *from);

/* The result and the argument of EXPORTED. */
struct share_exported {
	struct amdgpu_criu_bo bo;
	unsigned char blob[0x1000];
	size_t blob_size;
};

int share_export_save(const struct criu_node *node, int session, int dmabuf,
		      struct share_exported *exported);
/* A descriptor. */
int share_export_restore(const struct criu_node *node, int session,
			 struct share_exported *exported);

struct share_process {
	pid_t pid;
	int to, from;
};

/* Executes one command; 0, a descriptor or a negative errno. */
typedef int share_fn(void *board, int command, int argument);

void *share_board(size_t size);
int share_start(struct share_process *process, share_fn *fn, void *board);
/* The result of @fn in the process. */
int share_do(struct share_process *process, int command, int argument);
/* Two halves, so that several processes work at once. */
int share_begin(struct share_process *process, int command, int argument);
int share_end(struct share_process *process);
void share_kill(struct share_process *process);
/* True if both are the same open file. */
bool share_same_file(int one, int two);

#endif /* AMDGPU_CRIU_TEST_SHARE_H */
