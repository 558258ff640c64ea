/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Shared by the two files that implement sessions. No other file includes this. */
#ifndef _CRIU_SESSION_PRIV_H_
#define _CRIU_SESSION_PRIV_H_

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/wait.h>

#include "criu_session.h"

/**
 * struct criu_session - see criu_session.h
 * @file: its file; a reference to the file is a reference to the session
 * @kind: changes once, from CHECKPOINT to LIVE, under the hold lock
 * @lock: protects the tables, their entries, and the fields up to @claims_ended
 * @by_id: all objects, by id
 * @by_object: objects by address, without those that are only claimed
 * @num_objects: entries in @by_id
 * @last_id: last allocated id, in a session of kind CHECKPOINT
 * @claims_ended: number of ended claims; waiters check it
 * @claim_wait: wait queue of the waiters
 * @export_lock: held during export() and copy(), so that each object is exported once;
 *	held to set criu_object.dmabuf or criu_object.copy
 * @holds: clients held, protected by the hold lock
 */
struct criu_session {
	struct file *file;
	enum criu_session_kind kind;
	/* Innermost, except for get(). */
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
