/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Shared by the two files that implement sessions. No other file includes this. */
#ifndef _CRIU_SESSION_PRIV_H_
#define _CRIU_SESSION_PRIV_H_

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/wait.h>

#include "criu_session.h"

/* See criu_session.h */
struct criu_session {
	struct file *file; /* its file; a reference to the file is a reference to the session */
	/* Changes once, from CHECKPOINT to LIVE, under the hold lock */
	enum criu_session_kind kind;
	/* Innermost, except for get(). Protects the tables and what follows up to claims_ended. */
	struct mutex lock;
	struct rhashtable by_id; /* all objects, by id */
	struct rhashtable by_object; /* objects by address, without those that are only claimed */
	u32 num_objects; /* entries in by_id */
	u64 last_id; /* last allocated id, in a session of kind CHECKPOINT */
	unsigned long claims_ended; /* number of ended claims; waiters check it */
	wait_queue_head_t claim_wait; /* wait queue of the waiters */
	/*
	 * Outermost: taken before @lock and before what export() takes. Held during export() and
	 * copy(), so that each object is exported once, and to set criu_object.dmabuf or .copy.
	 */
	struct mutex export_lock;
	struct list_head holds; /* clients held, protected by the hold lock */
};

int criu_objects_init(struct criu_session *session);
void criu_objects_destroy(struct criu_session *session);

#endif /* _CRIU_SESSION_PRIV_H_ */
