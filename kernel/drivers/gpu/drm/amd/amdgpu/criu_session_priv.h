/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the two files that implement sessions share; nobody else includes this. */
#ifndef _CRIU_SESSION_PRIV_H_
#define _CRIU_SESSION_PRIV_H_

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/wait.h>

#include "criu_session.h"

/**
 * struct criu_session - see criu_session.h
 * @file: its file; whoever has a reference to it has one to the session
 * @kind: never changes
 * @lock: protects the tables, their entries, and what follows up to @claims_ended
 * @by_id: objects by id: all of them
 * @by_object: objects by address: those that are not only claimed
 * @num_objects: entries in @by_id
 * @last_id: last id given out, in a session of kind CHECKPOINT
 * @claims_ended: counts claims that came to an end; waiters look at it
 * @claim_wait: where they wait
 * @export_lock: held over export(), so that each object is exported once; whoever
 *	sets criu_object.dmabuf holds it
 * @holds: clients held, under the hold lock
 */
struct criu_session {
	struct file *file;
	enum criu_session_kind kind;
	/* Innermost but for get(). */
	struct mutex lock;
	struct rhashtable by_id;
	struct rhashtable by_object;
	u32 num_objects;
	u64 last_id;
	unsigned long claims_ended;
	wait_queue_head_t claim_wait;
	/* Outermost: taken before @lock and before what export() takes. */
	struct mutex export_lock;
	struct list_head holds;
};

int criu_objects_init(struct criu_session *session);
void criu_objects_destroy(struct criu_session *session);

#endif /* _CRIU_SESSION_PRIV_H_ */
