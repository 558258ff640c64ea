/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers of the ioctl: all return 0 (or a descriptor) or a negative errno, which a test
 * compares with exactly the one that it expects.
 */
#ifndef AMDGPU_CRIU_TEST_H
#define AMDGPU_CRIU_TEST_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include <drm/amdgpu_criu.h>

#include "patience.h"

#ifndef EBADFD
#error "no EBADFD"
#endif

enum criu_node_kind {
	CRIU_NODE_KFD,
	CRIU_NODE_RENDER,
};

struct criu_node {
	int fd;
	enum criu_node_kind kind;
};

/* -ENOENT: there is none; the test is skipped. */
int criu_node_open(struct criu_node *node, enum criu_node_kind kind);
void criu_node_close(struct criu_node *node);

/* Calls the ioctl with any envelope. */
int criu_envelope(const struct criu_node *node, const struct amdgpu_criu_ioctl *envelope);
/* Why the last criu_call() was refused; empty if the errno is sufficient. */
extern char criu_reason[256];
/* The plain ioctl: with any size and any pointer. */
int criu_call(const struct criu_node *node, __u32 op, __u32 size, const void *arg);

#define criu_op(node, op, args) criu_call(node, AMDGPU_CRIU_OP_##op, sizeof(*(args)), args)

/* A descriptor of a new session. */
int criu_session(const struct criu_node *node, __u32 kind);
int criu_pause(const struct criu_node *node, int session, struct amdgpu_criu_process_info *info);
int criu_unpause(const struct criu_node *node, int session);
int criu_resume(const struct criu_node *node, int session, int pid);
/* A descriptor of a dma-buf. */
int criu_dmabuf(const struct criu_node *node, int session, __u64 object_id);

/* The result of CHECKPOINT, and the argument of RESTORE. */
struct criu_image {
	struct amdgpu_criu_device *devices;
	struct amdgpu_criu_bo *bos;
	unsigned char *blob;
	size_t blob_size;
	__u32 num_devices;
	__u32 num_bos;
};

/* Pauses, allocates buffers of the sizes that PROCESS_INFO returned, and checkpoints. */
int criu_checkpoint(const struct criu_node *node, int session, struct criu_image *image);
/* For another kernel, which has these records. */
int criu_checkpoint_for(const struct criu_node *node, int session, struct criu_image *image,
			const struct amdgpu_criu_record_info *records, __u32 num_records);
int criu_restore(const struct criu_node *node, int session, const struct criu_image *image);
struct amdgpu_criu_state criu_image_args(int session, const struct criu_image *image);
void criu_image_free(struct criu_image *image);

/* The argument of PROCESS_INFO, in a read-only page; NULL: no memory. */
struct amdgpu_criu_process_info *criu_readonly_info(int session);

/* For features that the driver does not report. */
bool kernel_is_at_least(unsigned int major, unsigned int minor);

/* A page that cannot be read or written, and one that can just before it. */
struct criu_hole {
	char *page;
	char *hole;
};

int criu_hole_make(struct criu_hole *hole);

int lowest_free_fd(void);
/* A duplicate of a descriptor of a process; -errno. */
int fd_of_process(pid_t pid, int fd);
/* The number of descriptors that a process has open, and a constant. */
int count_fds(pid_t pid);

/* Writes @text to an existing file. 0, or a negative errno. */
int criu_write_file(const char *path, const char *text);

#endif /* AMDGPU_CRIU_TEST_H */
