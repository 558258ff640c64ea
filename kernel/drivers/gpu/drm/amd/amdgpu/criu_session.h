/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A session is the scope of the object ids of one checkpoint or one restore, for any
 * number of processes and nodes. It uses no driver type.
 *
 * A reference to a session is a reference to its file. The session ends when the last
 * descriptor is closed and no call uses it any longer.
 *
 * Lock order:
 *   criu_client.lock (KFD: kfd_process.mutex) -> session lock
 *   criu_client.lock -> hold lock (a spinlock, one for all sessions)
 *   criu_client.lock -> export lock of the session -> what
 *	criu_object_ops.export and .copy take, and the session lock
 * get() of objects and clients is called with one of these locks held and must not sleep.
 * export() and copy() are called under the export lock, and put() of an object may be. Otherwise
 * only a client's lock may be held: any in RESTORE, its own in criu_session_release(). No operation
 * of an object takes a client's lock.
 */
#ifndef _CRIU_SESSION_H_
#define _CRIU_SESSION_H_

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu-refcount.h>
#include <linux/sizes.h>
#include <linux/wait.h>
#include <linux/xarray.h>

struct dma_buf;
struct file;
struct task_struct;

/* CHECKPOINT and RESTORE have the same numbers as in the uapi header. */
enum criu_session_kind {
	CRIU_SESSION_NONE = 0,
	CRIU_SESSION_CHECKPOINT = 1,
	CRIU_SESSION_RESTORE = 2,
	CRIU_SESSION_LIVE = 4, /* was of kind CHECKPOINT until criu_session_set_live() */

	/* Sets of kinds. */
	CRIU_SESSION_BOTH = CRIU_SESSION_CHECKPOINT | CRIU_SESSION_RESTORE,
	CRIU_SESSION_DUMP = CRIU_SESSION_CHECKPOINT | CRIU_SESSION_LIVE,
	CRIU_SESSION_ANY = CRIU_SESSION_BOTH | CRIU_SESSION_LIVE,
};

#define CRIU_SESSION_OBJECTS_MAX SZ_1M /* far above the needs of real processes */

struct criu_session {
	struct file *file; /* its file; a reference to the file is a reference to the session */
	enum criu_session_kind kind; /* may change to LIVE, once, under the hold lock */
	/* Innermost, except for get(). Protects the tables and what follows up to claims_ended. */
	struct mutex lock;
	struct xarray by_id; /* all objects, by id */
	struct xarray by_object; /* CHECKPOINT: the same objects by address */
	u32 num_objects; /* entries in by_id */
	u64 last_id; /* last allocated id, in a session of kind CHECKPOINT */
	unsigned long claims_ended; /* number of ended claims; waiters check it */
	wait_queue_head_t claim_wait; /* wait queue of the waiters */
	/* Outermost, before @lock. Held during export() and copy(), and to set .dmabuf or .copy. */
	struct mutex export_lock;
	struct list_head holds; /* clients held, protected by the hold lock */
};

bool criu_session_allowed(void);
struct file *criu_session_create(enum criu_session_kind kind);
struct criu_session *criu_session_get(int fd);
int criu_session_set_live(struct criu_session *session);
void criu_session_resumed(struct criu_session *session);
void criu_objects_drop(struct criu_session *session);
void criu_objects_destroy(struct criu_session *session);

/* Operations of an object. The session has a reference, so that no other gets its address. */
struct criu_object_ops {
	void (*get)(void *object);
	void (*put)(void *object);
	/* Returns its dma-buf, referenced, or ERR_PTR(); in any process. The session keeps it */
	struct dma_buf *(*export)(void *object);
	struct dma_buf *(*copy)(void *object); /* for copying the contents, without changes */
	void (*end_copy)(struct dma_buf *dmabuf); /* before the session drops the result of copy */
};

int criu_session_object_id(struct criu_session *session, void *object,
			   const struct criu_object_ops *ops, u64 *id);
int criu_session_claim(struct criu_session *session, u64 id, const struct criu_object_ops *ops,
		       bool create, void **object);
void criu_session_bind(struct criu_session *session, u64 id, void *object);
void criu_session_forget(struct criu_session *session, u64 id);
void criu_session_exported(struct criu_session *session, u64 id, struct dma_buf *dmabuf);
struct dma_buf *criu_session_dmabuf(struct criu_session *session, u64 id, bool copy);

/*
 * A client is a process or a file whose state is saved or restored. A session holds clients that it
 * has paused, or that were restored in it and not yet resumed. A live one holds none.
 */
struct criu_client {
	void *owner; /* the driver's object of it: struct kfd_process or struct drm_file */
	struct mutex *lock; /* outermost lock of checkpoint/restore of the client */
	const struct criu_client_ops *ops;
	struct criu_session *session; /* holds the client, or NULL; protected by the hold lock */
	struct list_head of_session; /* in criu_session.holds */
	struct task_struct *task; /* leader of a paused process; protected by the hold lock */
	const void *pauser; /* last PROCESS_INFO that succeeded; only compared, under lock */
	struct percpu_ref calls; /* running ioctls; killed while new ones wait */
	int stopped; /* the reference is killed; an int for xchg() */
	bool restoring; /* RESTORE is running, which holds lock only in part */
	bool evicted; /* EVICT has begun, and the client is stopped; protected by lock */
	u32 epoch; /* for the driver: resets of the device before the client was made */
};

struct criu_client_ops {
	void (*get)(void *owner);
	void (*put)(void *owner);
	/* Ends the held state, with the lock or as its callers say. Fails if it does not run */
	int (*end)(void *owner, enum criu_session_kind kind);
};

typedef long (*criu_ioctl_fn)(struct file *filp, unsigned int cmd, unsigned long arg);
int criu_client_init(struct criu_client *client, void *owner, struct mutex *lock,
		     const struct criu_client_ops *ops);
void criu_client_fini(struct criu_client *client);
int criu_client_stop(struct criu_client *client, unsigned long deadline);
void criu_client_allow(struct criu_client *client);
int criu_client_begin(struct criu_client *client);
void criu_client_set_task(struct criu_client *client, struct task_struct *task);
pid_t criu_client_pid(struct criu_client *client);
bool criu_client_in_restore(struct criu_client *client);
int criu_session_hold(struct criu_session *session, struct criu_client *client);
int criu_session_held(struct criu_session *session, struct criu_client *client);
int criu_session_release(struct criu_session *session, struct criu_client *client);
int criu_session_end_hold(struct criu_session *session, struct criu_client *client);
void criu_client_end(struct criu_client *client);

static inline bool criu_client_try_begin(struct criu_client *client)
{
	/* Its inline functions read flags that change without a lock. */
	return data_race(percpu_ref_tryget_live(&client->calls));
}

/* Runs an ioctl once it may begin. @is_wait: it may block forever. Inlines @ioctl. */
static inline long criu_client_ioctl(struct criu_client *client, bool is_wait, struct file *filp,
				     unsigned int cmd, unsigned long arg, criu_ioctl_fn ioctl)
{
	long ret = criu_client_try_begin(client) ? 0 : criu_client_begin(client);

	if (ret)
		return ret;
	if (is_wait)
		percpu_ref_put(&client->calls);
	ret = ioctl(filp, cmd, arg);
	if (!is_wait)
		percpu_ref_put(&client->calls);
	return ret;
}

#endif /* _CRIU_SESSION_H_ */
