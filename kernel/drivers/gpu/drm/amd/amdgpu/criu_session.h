/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A session: the scope of object ids of one checkpoint or one restore, over any
 * number of processes and nodes. Knows no driver type.
 *
 * A reference to a session is a reference to its file: it ends with the last
 * close of the last descriptor, when no call is using it any more.
 *
 * Lock order:
 *   client's own lock (KFD: kfd_process.mutex) -> session lock
 *   client's own lock -> hold lock (a spinlock, one for all sessions)
 *   client's own lock -> export lock of the session -> what
 *	criu_object_ops.export takes, and the session lock
 * get() of objects and clients is called with one of these locks held and must
 * not sleep; put(), export(), unexport() and let_go() are called without, but for
 * put() of a client, which criu_session_release() calls under the lock that its
 * caller has. put(), export() and unexport() of an object take no client's own lock.
 */
#ifndef _CRIU_SESSION_H_
#define _CRIU_SESSION_H_

#include <linux/sizes.h>
#include <linux/types.h>

struct dma_buf;
struct file;
struct criu_session;

/* Same numbers as in the uapi header. */
enum criu_session_kind {
	CRIU_SESSION_ANY = 0,
	CRIU_SESSION_CHECKPOINT = 1,
	CRIU_SESSION_RESTORE = 2,
};

/* Objects in one session; far above what real processes have. */
#define CRIU_SESSION_OBJECTS_MAX SZ_1M

struct file *criu_session_create(enum criu_session_kind kind);
struct criu_session *criu_session_get(int fd, enum criu_session_kind kind);
void criu_session_put(struct criu_session *session);
enum criu_session_kind criu_session_kind(const struct criu_session *session);

/**
 * struct criu_object_ops - what a session needs to know of an object
 * @get: take a reference to the object; must not sleep
 * @put: drop one
 * @export: a dma-buf of the object with a reference for the caller, or ERR_PTR().
 *	Called at most once for each object that succeeds: the session keeps the
 *	result, so that all descriptors of an object are of one dma-buf. May be
 *	called in any process that holds the session
 * @unexport: the session is about to drop a dma-buf that it kept; may be NULL
 *
 * The object is an opaque pointer; its identity is the identity of the object.
 * The session holds a reference as long as it knows the object, so that the
 * address cannot come to mean another one.
 */
struct criu_object_ops {
	void (*get)(void *object);
	void (*put)(void *object);
	struct dma_buf *(*export)(void *object);
	void (*unexport)(void *object, struct dma_buf *dmabuf);
};

int criu_session_object_id(struct criu_session *session, void *object,
			   const struct criu_object_ops *ops, u64 *id);
int criu_session_claim(struct criu_session *session, u64 id,
		       const struct criu_object_ops *ops, void **object);
int criu_session_find(struct criu_session *session, u64 id,
		      const struct criu_object_ops *ops, void **object);
int criu_session_bind(struct criu_session *session, u64 id, void *object);
void criu_session_forget(struct criu_session *session, u64 id);
void criu_session_exported(struct criu_session *session, u64 id, struct dma_buf *dmabuf);
struct dma_buf *criu_session_dmabuf(struct criu_session *session, u64 id);

/**
 * struct criu_client_ops - what a session needs to know of a client it holds
 * @get: take a reference to the client; must not sleep
 * @put: drop one
 * @let_go: the session is closing and still holds the client: take the client's
 *	own lock, call criu_session_release(), and if that says 0 set the client
 *	right (CHECKPOINT: let it run on; RESTORE: it was never resumed). Cannot
 *	fail
 *
 * A client is an opaque pointer too (KFD: &struct kfd_process). A session of kind
 * CHECKPOINT holds the clients it has paused, one of kind RESTORE those that were
 * restored in it and not yet resumed.
 */
struct criu_client_ops {
	void (*get)(void *client);
	void (*put)(void *client);
	void (*let_go)(struct criu_session *session, void *client);
};

int criu_session_hold(struct criu_session *session, void *client,
		      const struct criu_client_ops *ops);
int criu_session_release(struct criu_session *session, void *client);
int criu_session_held(struct criu_session *session, void *client);
void **criu_session_clients(struct criu_session *session, const struct criu_client_ops *ops,
			    u32 *num);
void criu_session_clients_put(const struct criu_client_ops *ops, void **clients, u32 num);

#endif /* _CRIU_SESSION_H_ */
