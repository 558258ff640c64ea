/* SPDX-License-Identifier: GPL-2.0 */
/* Calls in a thread or process of their own, which may not return. */
#ifndef AMDGPU_CRIU_TEST_CALLER_H
#define AMDGPU_CRIU_TEST_CALLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "criu.h"
#include "patience.h"

#define SOON 5000 /* ms, times patience() */
#define CALLER_POLL_US 10000

/* One call in a thread of its own. */
struct caller {
	pthread_t thread;
	const struct criu_node *node;
	__u32 op;
	__u32 size;
	void *args;
	atomic_int ret;
	atomic_bool done;
};

static inline void *call_in_thread(void *data)
{
	struct caller *caller = data;

	caller->ret = criu_call(caller->node, caller->op, caller->size, caller->args);
	caller->done = true;
	return NULL;
}

static inline int caller_start(struct caller *caller, const struct criu_node *node, __u32 op,
			       void *args, __u32 size)
{
	*caller = (struct caller) { .node = node, .op = op, .args = args, .size = size };
	return -pthread_create(&caller->thread, NULL, call_in_thread, caller);
}

#define CALL(caller, node, op, args) \
	caller_start(caller, node, AMDGPU_CRIU_OP_##op, args, sizeof(*(args)))

static inline bool caller_is_done(struct caller *caller, int milliseconds)
{
	int i;

	for (i = 0; !caller->done && i < milliseconds * 1000 / CALLER_POLL_US; i++)
		usleep(CALLER_POLL_US);
	return caller->done;
}

static inline int caller_end(struct caller *caller)
{
	pthread_join(caller->thread, NULL);
	return caller->ret;
}

/* Waits for a number that another process or thread sets. */
#define BECOMES_TRUE(condition) \
	({ \
		int _i = 0; \
		\
		while (!(condition) && _i++ < SOON * patience() * 1000 / CALLER_POLL_US) \
			usleep(CALLER_POLL_US); \
		(bool)(condition); \
	})

/* Returns 0 if the process does not exit soon. */
static inline pid_t wait_for_exit(pid_t pid, int *status)
{
	pid_t ret = 0;
	int i;

	for (i = 0; !ret && i < SOON * patience() * 1000 / CALLER_POLL_US; i++) {
		ret = waitpid(pid, status, WNOHANG);
		usleep(CALLER_POLL_US);
	}
	return ret;
}

#endif /* AMDGPU_CRIU_TEST_CALLER_H */
