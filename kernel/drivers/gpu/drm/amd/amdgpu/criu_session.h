/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A session is the scope of the object ids of one checkpoint or one restore, for any
 * number of processes and nodes. It uses no driver type.
 *
 * A reference to a session is a reference to its file. The session ends when the last
 * descriptor is closed and no call uses it any longer.
 *
 * Lock order:
 *   client's own lock (KFD: kfd_process.mutex) -> session lock
 *   client's own lock -> hold lock (a spinlock, one for all sessions)
 *   client's own lock -> export lock of the session -> what
 *	criu_object_ops.export and .copy take, and the session lock
 * get() of objects and clients is called with one of these locks held and must not sleep.
 * put(), export(), copy(), end_copy() and end_hold() are called without these locks, except
 * put() of a client, which criu_session_release() calls under the lock of its caller. No
 * operation of an object takes a client's own lock.
 */
#ifndef _CRIU_SESSION_H_
#define _CRIU_SESSION_H_

#include <linux/sizes.h>
#include <linux/types.h>

struct dma_buf;
struct file;
struct criu_session;

/* CHECKPOINT and RESTORE have the same numbers as in the uapi header. */
enum criu_session_kind {
	CRIU_SESSION_NONE = 0,
	CRIU_SESSION_CHECKPOINT = 1,
	CRIU_SESSION_RESTORE = 2,
	/* Was of kind CHECKPOINT until criu_session_set_live(). */
	CRIU_SESSION_LIVE = 4,

	/* Sets of kinds. */
	CRIU_SESSION_BOTH = CRIU_SESSION_CHECKPOINT | CRIU_SESSION_RESTORE,
	CRIU_SESSION_DUMP = CRIU_SESSION_CHECKPOINT | CRIU_SESSION_LIVE,
	CRIU_SESSION_ANY = CRIU_SESSION_BOTH | CRIU_SESSION_LIVE,
};

/* Maximum number of objects in a session, far above the needs of real processes. */
#define CRIU_SESSION_OBJECTS_MAX SZ_1M

bool criu_session_allowed(void);
struct file *criu_session_create(enum criu_session_kind kind);
struct criu_session *criu_session_get(int fd);
void criu_session_put(struct criu_session *session);
enum criu_session_kind criu_session_kind(const struct criu_session *session);
int criu_session_set_live(struct criu_session *session);

/*
 * Operations of an object, an opaque pointer that identifies it. The session holds a reference
 * while it contains the object, so that the address cannot be reused for another one.
 */
struct criu_object_ops {
	void (*get)(void *object);
	void (*put)(void *object);
	/*
	 * Returns the object's own dma-buf with a reference, or ERR_PTR(). The session keeps it, so
	 * all descriptors of an object refer to one dma-buf. Called in any process with the session
	 */
	struct dma_buf *(*export)(void *object);
	/* As export, for copying the contents. It does not change the object */
	struct dma_buf *(*copy)(void *object);
	void (*end_copy)(struct dma_buf *dmabuf); /* before the session drops the result of copy */
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
struct dma_buf *criu_session_copy(struct criu_session *session, u64 id);

/*
 * Operations of a client, also an opaque pointer (KFD: &struct kfd_process). A session of kind
 * CHECKPOINT holds the clients that it has paused. A session of kind RESTORE holds the clients
 * that were restored in it and not yet resumed. A session of kind LIVE holds none.
 */
struct criu_client_ops {
	void (*get)(void *client);
	void (*put)(void *client);
	/*
	 * Called when the session closes and still holds the client: takes the client's own lock,
	 * calls criu_session_release() and, if it returns 0, ends the held state
	 */
	void (*end_hold)(struct criu_session *session, void *client);
};

typedef u32 (*criu_list_fn)(void *arg, void **clients, u32 room, u32 *num);
void **criu_list_clients(const struct criu_client_ops *ops, criu_list_fn list, void *arg, u32 *num);
int criu_session_hold(struct criu_session *session, void *client,
		      const struct criu_client_ops *ops);
int criu_session_release(struct criu_session *session, void *client);
int criu_session_held(struct criu_session *session, void *client);
bool criu_client_in_restore(void *client);
void **criu_session_clients(struct criu_session *session, const struct criu_client_ops *ops,
			    u32 *num);
void criu_clients_put(const struct criu_client_ops *ops, void **clients, u32 num);

#endif /* _CRIU_SESSION_H_ */
