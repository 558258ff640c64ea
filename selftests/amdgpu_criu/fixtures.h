/* SPDX-License-Identifier: GPL-2.0 */
/* Fixtures of several programs: a process that is checkpointed, and one that is restored. */
#ifndef AMDGPU_CRIU_TEST_FIXTURES_H
#define AMDGPU_CRIU_TEST_FIXTURES_H

#include <unistd.h>

#include "state.h"

/* This process, with some of every kind of state, paused by @session, and its image. */
struct paused {
	struct kfd kfd;
	struct state state;
	int session;
	struct criu_image image;
};

/* -ENOENT: no GPU in the topology of KFD. */
static inline int paused_open(struct paused *p)
{
	struct kfd_gpu gpu;
	int ret;

	p->session = -1;
	ret = kfd_find_gpu(&gpu);
	if (!ret)
		ret = kfd_open(&p->kfd);
	if (!ret)
		ret = state_make(&p->kfd, &p->state);
	if (ret)
		return ret;
	state_fill(&p->state, 1);
	p->session = criu_session(&p->kfd.node, AMDGPU_CRIU_SESSION_CHECKPOINT);
	return p->session < 0 ? p->session : criu_checkpoint(&p->kfd.node, p->session, &p->image);
}

static inline void paused_close(struct paused *p)
{
	criu_image_free(&p->image);
	close(p->session);
	kfd_close(&p->kfd);
}

/* Entry of a BO in the table, NULL if there is none. */
static inline const struct amdgpu_criu_bo *paused_find(const struct paused *p,
						       const struct kfd_bo *bo)
{
	for (__u32 i = 0; i < p->image.num_bos; i++)
		if (p->image.bos[i].va == (uintptr_t)bo->at)
			return &p->image.bos[i];
	return NULL;
}

/* The image of another process, and this process, with open nodes, to restore it in. */
struct restorer {
	struct state_image saved;
	struct kfd kfd;
	int session;
};

/* New nodes and session, also in a child: a session restores each object only once. */
static inline int restorer_become(struct restorer *r)
{
	int ret = carry_open(&r->saved.carry, &r->kfd);

	if (ret)
		return ret;
	r->session = criu_session(&r->kfd.node, AMDGPU_CRIU_SESSION_RESTORE);
	return r->session < 0 ? r->session : 0;
}

/* -ENOENT: no GPU in the topology of KFD. */
static inline int restorer_open(struct restorer *r)
{
	struct kfd_gpu gpu;
	int ret;

	r->kfd.node.fd = -1;
	r->kfd.drm_fd = -1;
	r->session = -1;
	ret = kfd_find_gpu(&gpu);
	if (!ret)
		ret = state_image_make(&r->saved);
	return ret ? ret : restorer_become(r);
}

static inline void restorer_close(struct restorer *r)
{
	close(r->session);
	carry_close(&r->saved.carry, &r->kfd);
	state_image_free(&r->saved);
}

#endif /* AMDGPU_CRIU_TEST_FIXTURES_H */
