// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "criu_session.h"

/* Protects criu_session.holds and criu_client.session of all of them. */
static DEFINE_SPINLOCK(criu_hold_lock);

/* Ioctls wait here until they may begin. criu_client_stop() waits until none is running. */
static DECLARE_WAIT_QUEUE_HEAD(criu_client_wait);

static void criu_client_idle(struct percpu_ref *calls)
{
	wake_up_all(&criu_client_wait);
}

/* @client: all zero. Fails with -ENOMEM. */
int criu_client_init(struct criu_client *client, void *owner, struct mutex *lock,
		     const struct criu_client_ops *ops)
{
	client->owner = owner;
	client->lock = lock;
	client->ops = ops;
	return percpu_ref_init(&client->calls, criu_client_idle, PERCPU_REF_ALLOW_REINIT,
			       GFP_KERNEL);
}

void criu_client_fini(struct criu_client *client)
{
	percpu_ref_exit(&client->calls);
}

/* Waits until an ioctl of the client may begin, and counts it. */
int criu_client_begin(struct criu_client *client)
{
	/* A signal can stop the process. */
	return wait_event_interruptible(criu_client_wait, criu_client_try_begin(client));
}

/* Blocks new ioctls and waits for running ones. Fails with -EBUSY, -ETIME or -ERESTARTSYS. */
int criu_client_stop(struct criu_client *client, unsigned long deadline)
{
	long ret;

	if (xchg(&client->stopped, 1))
		return -EBUSY;
	/* Running ioctls are counted, on each CPU. The sum is valid after a grace period. */
	percpu_ref_kill(&client->calls);
	ret = wait_event_interruptible_timeout(criu_client_wait, percpu_ref_is_zero(&client->calls),
					       max(1L, (long)(deadline - jiffies)));
	if (ret > 0)
		return 0;
	criu_client_allow(client);
	/* The callback of percpu_ref_kill() may still use the client, which may be freed soon. */
	rcu_barrier();
	return ret ? ret : -ETIME;
}

void criu_client_allow(struct criu_client *client)
{
	percpu_ref_resurrect(&client->calls);
	/* Pairs with xchg() of criu_client_stop(). */
	smp_store_release(&client->stopped, 0);
	wake_up_all(&criu_client_wait);
}

void criu_client_set_task(struct criu_client *client, struct task_struct *task)
{
	if (task)
		get_task_struct(task);
	scoped_guard(spinlock, &criu_hold_lock)
		swap(client->task, task);
	if (task)
		put_task_struct(task);
}

/* Returns the number of that process in the pid namespace of the caller, or 0. */
pid_t criu_client_pid(struct criu_client *client)
{
	guard(spinlock)(&criu_hold_lock);
	return client->task ? task_tgid_vnr(client->task) : 0;
}

/* True if a client is restored and not yet resumed. May change without the client's own lock. */
bool criu_client_in_restore(struct criu_client *client)
{
	guard(spinlock)(&criu_hold_lock);
	return client->session && client->session->kind == CRIU_SESSION_RESTORE;
}

/*
 * Holds a client, under its own lock. The caller then puts it into the held state (evicts the
 * queues), or calls criu_session_release(). Under its lock, a client is held if and only if it is
 * in this state. Fails with -EALREADY if this session holds it; -EBUSY if another does; -EBADFD if
 * this session is live.
 */
int criu_session_hold(struct criu_session *session, struct criu_client *client)
{
	guard(spinlock)(&criu_hold_lock);
	if (session->kind == CRIU_SESSION_LIVE)
		return -EBADFD;
	if (client->session)
		return client->session == session ? -EALREADY : -EBUSY;
	client->ops->get(client->owner);
	WRITE_ONCE(client->session, session);
	list_add_tail(&client->of_session, &session->holds);
	return 0;
}

/* Returns 0 or -EBADFD, which does not change under the client's own lock. */
int criu_session_held(struct criu_session *session, struct criu_client *client)
{
	return READ_ONCE(client->session) == session ? 0 : -EBADFD;
}

/* Ends the hold of @session, or of any session if it is NULL. Returns the kind of the session. */
static enum criu_session_kind criu_client_detach(struct criu_client *client,
						 const struct criu_session *session)
{
	enum criu_session_kind kind;

	scoped_guard(spinlock, &criu_hold_lock) {
		if (!client->session || (session && client->session != session))
			return CRIU_SESSION_NONE;
		kind = client->session->kind;
		WRITE_ONCE(client->session, NULL);
		list_del(&client->of_session);
	}
	criu_client_set_task(client, NULL);
	return kind;
}

/* Stops holding a client, under its lock. The caller ends its held state. Fails with -EBADFD. */
int criu_session_release(struct criu_session *session, struct criu_client *client)
{
	if (criu_client_detach(client, session) == CRIU_SESSION_NONE)
		return -EBADFD;
	client->ops->put(client->owner);
	return 0;
}

/* With a reference, and under the lock except at the close. Fails with -EBADFD, or as end(). */
int criu_session_end_hold(struct criu_session *session, struct criu_client *client)
{
	return criu_session_release(session, client) ?:
	       client->ops->end(client->owner, session->kind);
}

/* After RESUME, without the lock of a client. After the last, keeps no memory that is freed. */
void criu_session_resumed(struct criu_session *session)
{
	scoped_guard(spinlock, &criu_hold_lock)
		if (!list_empty(&session->holds))
			return;
	criu_objects_drop(session);
}

/*
 * Ends the held state of a client that goes away. Of all other calls, only the close of the session
 * can still use it. Does not take its lock, whose holder may wait for the caller.
 */
void criu_client_end(struct criu_client *client)
{
	const enum criu_session_kind kind = criu_client_detach(client, NULL);

	if (kind == CRIU_SESSION_NONE)
		return;
	client->ops->end(client->owner, kind);
	client->ops->put(client->owner);
}

/*
 * Ends a hold at the close of a session, which no call uses any longer. An ioctl of a client that
 * is not stopped may hold the lock forever, while it waits for memory. The pause of such a client
 * is one eviction of its queues, which the driver counts, so it may end without the lock.
 */
static void criu_session_close_hold(struct criu_session *session, struct criu_client *client)
{
	const unsigned long end = jiffies + HZ;
	/* No other session stops it meanwhile. */
	const bool stopped = xchg(&client->stopped, 1);
	bool locked;

	while (!(locked = mutex_trylock(client->lock)) && (stopped || time_before(jiffies, end)))
		schedule_timeout_uninterruptible(1);
	criu_session_end_hold(session, client);
	if (locked)
		mutex_unlock(client->lock);
	if (!stopped)
		xchg(&client->stopped, 0);
}

static int criu_session_close(struct inode *inode, struct file *file)
{
	struct criu_session *session = file->private_data;
	struct criu_client *client;

	for (;;) {
		spin_lock(&criu_hold_lock);
		client = list_first_entry_or_null(&session->holds, struct criu_client, of_session);
		if (client)
			client->ops->get(client->owner);
		spin_unlock(&criu_hold_lock);
		if (!client)
			break;
		criu_session_close_hold(session, client);
		client->ops->put(client->owner);
	}
	criu_objects_destroy(session);
	kfree(session);
	return 0;
}

static void criu_session_fdinfo(struct seq_file *m, struct file *file)
{
	struct criu_session *session = file->private_data;
	size_t num_held;

	scoped_guard(spinlock, &criu_hold_lock)
		num_held = list_count_nodes(&session->holds);
	seq_printf(m, "criu-session-kind:\t%s\ncriu-session-objects:\t%u\n",
		   READ_ONCE(session->kind) == CRIU_SESSION_RESTORE ? "restore" : "checkpoint",
		   READ_ONCE(session->num_objects));
	seq_printf(m, "criu-session-clients:\t%zu\n", num_held);
}

static const struct file_operations criu_session_fops = {
	.owner = THIS_MODULE,
	.release = criu_session_close,
	.show_fdinfo = criu_session_fdinfo,
};

/* In the initial user namespace only: any user has all capabilities in a new one. */
bool criu_session_allowed(void)
{
	return checkpoint_restore_ns_capable(&init_user_ns);
}

/*
 * Creates a session. Capabilities are checked only here: the task that CRIU restores has none, or
 * has one in its own user namespace.
 */
struct file *criu_session_create(enum criu_session_kind kind)
{
	struct criu_session *session;
	struct file *file;

	if (!criu_session_allowed())
		return ERR_PTR(-EPERM);
	session = kzalloc_obj(*session, GFP_KERNEL_ACCOUNT);
	if (!session)
		return ERR_PTR(-ENOMEM);
	session->kind = kind;
	mutex_init(&session->lock);
	mutex_init(&session->export_lock);
	xa_init_flags(&session->by_id, XA_FLAGS_ACCOUNT);
	xa_init_flags(&session->by_object, XA_FLAGS_ACCOUNT);
	init_waitqueue_head(&session->claim_wait);
	INIT_LIST_HEAD(&session->holds);
	file = anon_inode_getfile("[gpu-criu-session]", &criu_session_fops, session,
				  O_RDWR | O_CLOEXEC);
	if (IS_ERR(file)) {
		kfree(session);
		return file;
	}
	session->file = file;
	return file;
}

struct criu_session *criu_session_get(int fd)
{
	struct file *file = fget(fd);

	if (file && file->f_op == &criu_session_fops)
		return file->private_data;
	if (file)
		fput(file);
	return ERR_PTR(-EBADF);
}

/* Makes a session live permanently. Fails with -EBADFD if it holds a client. */
int criu_session_set_live(struct criu_session *session)
{
	guard(spinlock)(&criu_hold_lock);
	if (!list_empty(&session->holds))
		return -EBADFD;
	WRITE_ONCE(session->kind, CRIU_SESSION_LIVE);
	return 0;
}
