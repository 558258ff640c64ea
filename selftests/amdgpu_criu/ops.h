/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All operations, with the result of each for a valid argument on a file that has no
 * state: the result that every sweep compares with.
 */
#ifndef AMDGPU_CRIU_TEST_OPS_H
#define AMDGPU_CRIU_TEST_OPS_H

#include <sys/mman.h>
#include <unistd.h>

#include "criu.h"

/* Larger than the structure of any operation. */
#define OP_ARGS_MAX 256

union op_args {
	/* First field of every operation that has a session. */
	__s32 session_fd;
	struct amdgpu_criu_query query;
	struct amdgpu_criu_session session;
	struct amdgpu_criu_process_info process_info;
	struct amdgpu_criu_state state;
	struct amdgpu_criu_unpause unpause;
	struct amdgpu_criu_resume resume;
	struct amdgpu_criu_dmabuf dmabuf;
	struct amdgpu_criu_evict evict;
	unsigned char bytes[OP_ARGS_MAX];
};

struct op_field {
	const char *name;
	size_t offset;
	size_t size;
};

struct op {
	const char *name;
	__u32 nr;
	/* Bytes in the first released version: 64-bit and 32-bit alike. */
	__u32 size_v1;
	__u32 size_now;
	/* Kind of session that it needs, 0: none. */
	__u32 session_kind;
	int kfd_answer;
	int render_answer;
	/* Fields that must be zero, except these bits of the first. */
	struct op_field zeros[5];
	__u32 flags;
};

#define OP_FIELD(type, field) { #field, offsetof(struct type, field), \
	sizeof(((struct type *)0)->field) }

static const struct op ops[] = {
	{
		.name = "QUERY", .nr = AMDGPU_CRIU_OP_QUERY, .size_v1 = 40,
		.size_now = sizeof(struct amdgpu_criu_query),
		.zeros = { OP_FIELD(amdgpu_criu_query, pad) },
	}, {
		.name = "SESSION", .nr = AMDGPU_CRIU_OP_SESSION, .size_v1 = 16,
		.size_now = sizeof(struct amdgpu_criu_session),
		.zeros = { OP_FIELD(amdgpu_criu_session, flags),
			   OP_FIELD(amdgpu_criu_session, pad) },
	}, {
		.name = "PROCESS_INFO", .nr = AMDGPU_CRIU_OP_PROCESS_INFO, .size_v1 = 40,
		.size_now = sizeof(struct amdgpu_criu_process_info),
		.session_kind = AMDGPU_CRIU_SESSION_CHECKPOINT,
		.zeros = { OP_FIELD(amdgpu_criu_process_info, flags) },
		.flags = AMDGPU_CRIU_PROCESS_INFO_LIVE,
	}, {
		.name = "CHECKPOINT", .nr = AMDGPU_CRIU_OP_CHECKPOINT, .size_v1 = 56,
		.size_now = sizeof(struct amdgpu_criu_state),
		.session_kind = AMDGPU_CRIU_SESSION_CHECKPOINT,
		.kfd_answer = -EBADFD, .render_answer = -EBADFD,
		.zeros = { OP_FIELD(amdgpu_criu_state, flags) },
	}, {
		.name = "UNPAUSE", .nr = AMDGPU_CRIU_OP_UNPAUSE, .size_v1 = 8,
		.size_now = sizeof(struct amdgpu_criu_unpause),
		.session_kind = AMDGPU_CRIU_SESSION_CHECKPOINT,
		.kfd_answer = -EBADFD, .render_answer = -EBADFD,
		.zeros = { OP_FIELD(amdgpu_criu_unpause, flags) },
	}, {
		/* Refused because its blob is all zeros. */
		.name = "RESTORE", .nr = AMDGPU_CRIU_OP_RESTORE, .size_v1 = 56,
		.size_now = sizeof(struct amdgpu_criu_state),
		.session_kind = AMDGPU_CRIU_SESSION_RESTORE,
		.kfd_answer = -EBADMSG, .render_answer = -EBADMSG,
		.zeros = { OP_FIELD(amdgpu_criu_state, flags),
			   OP_FIELD(amdgpu_criu_state, records),
			   OP_FIELD(amdgpu_criu_state, num_records),
			   OP_FIELD(amdgpu_criu_state, record_stride) },
	}, {
		.name = "RESUME", .nr = AMDGPU_CRIU_OP_RESUME, .size_v1 = 16,
		.size_now = sizeof(struct amdgpu_criu_resume),
		.session_kind = AMDGPU_CRIU_SESSION_RESTORE,
		.kfd_answer = -EBADFD, .render_answer = -EBADFD,
		.zeros = { OP_FIELD(amdgpu_criu_resume, flags),
			   OP_FIELD(amdgpu_criu_resume, pad) },
	}, {
		.name = "DMABUF", .nr = AMDGPU_CRIU_OP_DMABUF, .size_v1 = 24,
		.size_now = sizeof(struct amdgpu_criu_dmabuf),
		.session_kind = AMDGPU_CRIU_SESSION_CHECKPOINT,
		.kfd_answer = -ENOENT, .render_answer = -ENOENT,
		.zeros = { OP_FIELD(amdgpu_criu_dmabuf, flags),
			   OP_FIELD(amdgpu_criu_dmabuf, pad) },
	}, {
		.name = "EVICT", .nr = AMDGPU_CRIU_OP_EVICT, .size_v1 = 24,
		.size_now = sizeof(struct amdgpu_criu_evict),
		.session_kind = AMDGPU_CRIU_SESSION_CHECKPOINT,
		.kfd_answer = -EBADFD, .render_answer = -EBADFD,
		.zeros = { OP_FIELD(amdgpu_criu_evict, flags) },
	},
};

/* The environment that an operation needs besides its argument. */
struct op_context {
	struct criu_node node;
	int sessions[3];
	unsigned char blob[4096];
	struct amdgpu_criu_device devices[4];
	struct amdgpu_criu_bo bos[4];
};

static inline int op_context_open(struct op_context *context, enum criu_node_kind kind)
{
	int ret = criu_node_open(&context->node, kind);

	if (ret)
		return ret;
	for (int i = AMDGPU_CRIU_SESSION_CHECKPOINT; i <= AMDGPU_CRIU_SESSION_RESTORE; i++) {
		context->sessions[i] = criu_session(&context->node, i);
		if (context->sessions[i] < 0)
			return context->sessions[i];
	}
	return 0;
}

static inline void op_context_close(struct op_context *context)
{
	for (int i = AMDGPU_CRIU_SESSION_CHECKPOINT; i <= AMDGPU_CRIU_SESSION_RESTORE; i++)
		if (context->sessions[i] > 0)
			close(context->sessions[i]);
	criu_node_close(&context->node);
}

static inline void op_fill(struct op_context *context, const struct op *op, union op_args *args)
{
	int session = context->sessions[op->session_kind];

	memset(args, 0, sizeof(*args));
	switch (op->nr) {
	case AMDGPU_CRIU_OP_SESSION:
		args->session.kind = AMDGPU_CRIU_SESSION_CHECKPOINT;
		break;
	case AMDGPU_CRIU_OP_PROCESS_INFO:
		args->process_info.session_fd = session;
		break;
	case AMDGPU_CRIU_OP_CHECKPOINT:
	case AMDGPU_CRIU_OP_RESTORE:
		args->state = (struct amdgpu_criu_state) {
			.session_fd = session,
			.devices = (uintptr_t)context->devices,
			.bos = (uintptr_t)context->bos,
			.blob = (uintptr_t)context->blob,
			.blob_size = sizeof(context->blob),
			.device_stride = sizeof(context->devices[0]),
			.bo_stride = sizeof(context->bos[0]),
		};
		break;
	case AMDGPU_CRIU_OP_DMABUF:
		args->dmabuf.session_fd = session;
		args->dmabuf.object_id = 1;
		break;
	case AMDGPU_CRIU_OP_UNPAUSE:
	case AMDGPU_CRIU_OP_RESUME:
	case AMDGPU_CRIU_OP_EVICT:
		args->evict.session_fd = session; /* the first member of each */
		break;
	}
}

/* After an operation that succeeded: the file has no state again. */
static inline int op_undo(struct op_context *context, const struct op *op,
			  const union op_args *args)
{
	if (op->nr == AMDGPU_CRIU_OP_SESSION)
		return close(args->session.fd) ? -errno : 0;
	if (op->nr == AMDGPU_CRIU_OP_PROCESS_INFO)
		return criu_unpause(&context->node,
				    context->sessions[AMDGPU_CRIU_SESSION_CHECKPOINT]);
	return 0;
}

static inline const struct op *op_find(__u32 nr)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (ops[i].nr == nr)
			return &ops[i];
	return NULL;
}

static inline int op_answer(const struct op *op, enum criu_node_kind kind)
{
	return kind == CRIU_NODE_KFD ? op->kfd_answer : op->render_answer;
}

#endif /* AMDGPU_CRIU_TEST_OPS_H */
