// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/anon_inodes.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "criu_session_priv.h"

/* A client held by a session */
struct criu_hold {
	struct hlist_node by_client; /* in criu_holds */
	struct list_head of_session; /* in criu_session.holds */
	struct criu_session *session; /* the session that holds it */
	void *client; /* the client, with a reference */
	const struct criu_client_ops *ops; /* operations of the client */
};

/* All clients held by any session. Two sessions never hold the same client. */
static DEFINE_HASHTABLE(criu_holds, 8);
static DEFINE_SPINLOCK(criu_hold_lock);

static struct criu_hold *criu_find_hold(void *client)
{
	struct criu_hold *hold;

	lockdep_assert_held(&criu_hold_lock);
	hash_for_each_possible(criu_holds, hold, by_client, (unsigned long)client)
		if (hold->client == client)
			return hold;
	return NULL;
}

/*
 * Holds a client, under its own lock. The caller then puts it into the held state (evicts the
 * queues), or calls criu_session_release(). Under its lock, a client is held if and only if it is
 * in this state. Fails with -EALREADY if this session holds it; -EBUSY if another does; -EBADFD if
 * this session is live.
 */
int criu_session_hold(struct criu_session *session, void *client,
		      const struct criu_client_ops *ops)
{
	struct criu_hold *hold __free(kfree) = kzalloc_obj(*hold, GFP_KERNEL_ACCOUNT);
	const struct criu_hold *old;

	if (!hold)
		return -ENOMEM;
	hold->session = session;
	hold->client = client;
	hold->ops = ops;

	guard(spinlock)(&criu_hold_lock);
	if (session->kind == CRIU_SESSION_LIVE)
		return -EBADFD;
	old = criu_find_hold(client);
	if (old)
		return old->session == session ? -EALREADY : -EBUSY;
	ops->get(client);
	hash_add(criu_holds, &hold->by_client, (unsigned long)client);
	list_add_tail(&hold->of_session, &session->holds);
	/* The table and the list have it now. */
	hold = NULL;
	return 0;
}

/*
 * Stops holding a client, under its own lock. The caller then ends its held state. Fails with
 * -EBADFD if this session does not hold it.
 */
int criu_session_release(struct criu_session *session, void *client)
{
	struct criu_hold *hold;

	spin_lock(&criu_hold_lock);
	hold = criu_find_hold(client);
	if (!hold || hold->session != session) {
		spin_unlock(&criu_hold_lock);
		return -EBADFD;
	}
	hash_del(&hold->by_client);
	list_del(&hold->of_session);
	spin_unlock(&criu_hold_lock);
	hold->ops->put(client);
	kfree(hold);
	return 0;
}

/* Returns 0 or -EBADFD, which does not change under the client's own lock. */
int criu_session_held(struct criu_session *session, void *client)
{
	const struct criu_hold *hold;

	guard(spinlock)(&criu_hold_lock);
	hold = criu_find_hold(client);
	return hold && hold->session == session ? 0 : -EBADFD;
}

/* True if a client is restored and not yet resumed. May change without the client's own lock. */
bool criu_client_in_restore(void *client)
{
	const struct criu_hold *hold;

	guard(spinlock)(&criu_hold_lock);
	hold = criu_find_hold(client);
	return hold && hold->session->kind == CRIU_SESSION_RESTORE;
}

/*
 * Returns clients with references, for criu_clients_put(). @list: stores up to @room of them, with
 * references, sets @num to their number, and returns how many there are.
 */
void **criu_list_clients(const struct criu_client_ops *ops, criu_list_fn list, void *arg, u32 *num)
{
	u32 room = list(arg, NULL, 0, num);
	void **clients;
	u32 all;

	for (;;) {
		clients = kvcalloc(room + 1, sizeof(*clients), GFP_KERNEL_ACCOUNT);
		if (!clients)
			return ERR_PTR(-ENOMEM);
		all = list(arg, clients, room, num);
		if (all <= room)
			return clients;
		/* There are more than before. */
		criu_clients_put(ops, clients, *num);
		room = all;
	}
}

struct criu_clients_of {
	struct criu_session *session;
	const struct criu_client_ops *ops;
};

static u32 criu_list_held(void *arg, void **clients, u32 room, u32 *num)
{
	const struct criu_clients_of *of = arg;
	struct criu_hold *hold;
	u32 all = 0;

	*num = 0;
	guard(spinlock)(&criu_hold_lock);
	list_for_each_entry(hold, &of->session->holds, of_session) {
		if (hold->ops != of->ops || all++ >= room)
			continue;
		of->ops->get(hold->client);
		clients[(*num)++] = hold->client;
	}
	return all;
}

/* Returns the clients of one kind that a session holds, as criu_list_clients(). */
void **criu_session_clients(struct criu_session *session, const struct criu_client_ops *ops,
			    u32 *num)
{
	struct criu_clients_of of = { .session = session, .ops = ops };

	return criu_list_clients(ops, criu_list_held, &of, num);
}

void criu_clients_put(const struct criu_client_ops *ops, void **clients, u32 num)
{
	for (u32 i = 0; i < num; i++)
		ops->put(clients[i]);
	kvfree(clients);
}

static void criu_end_all_holds(struct criu_session *session)
{
	const struct criu_client_ops *ops;
	struct criu_hold *hold;
	void *client;

	for (;;) {
		spin_lock(&criu_hold_lock);
		hold = list_first_entry_or_null(&session->holds, struct criu_hold, of_session);
		if (!hold) {
			spin_unlock(&criu_hold_lock);
			return;
		}
		client = hold->client;
		ops = hold->ops;
		ops->get(client);
		spin_unlock(&criu_hold_lock);

		ops->end_hold(session, client);
		WARN_ON_ONCE(!criu_session_release(session, client));
		ops->put(client);
	}
}

static int criu_session_close(struct inode *inode, struct file *file)
{
	struct criu_session *session = file->private_data;

	criu_end_all_holds(session);
	criu_objects_destroy(session);
	kfree(session);
	return 0;
}

static void criu_session_fdinfo(struct seq_file *m, struct file *file)
{
	struct criu_session *session = file->private_data;
	struct criu_hold *hold;
	u32 num_held = 0;

	spin_lock(&criu_hold_lock);
	list_for_each_entry(hold, &session->holds, of_session)
		num_held++;
	spin_unlock(&criu_hold_lock);
	mutex_lock(&session->lock);
	seq_printf(m, "criu-session-kind:\t%s\ncriu-session-objects:\t%u\n",
		   criu_session_kind(session) == CRIU_SESSION_RESTORE ? "restore" : "checkpoint",
		   session->num_objects);
	mutex_unlock(&session->lock);
	seq_printf(m, "criu-session-clients:\t%u\n", num_held);
}

static const struct file_operations criu_session_fops = {
	.owner = THIS_MODULE,
	.release = criu_session_close,
	.show_fdinfo = criu_session_fdinfo,
};

/*
 * A capability counts in the initial user namespace only: any user can create a namespace and has
 * all capabilities in it.
 */
bool criu_session_allowed(void)
{
	return checkpoint_restore_ns_capable(&init_user_ns);
}

/*
 * Creates a session. Capabilities are checked only here. A holder of a descriptor of the session
 * may use it, because the task that CRIU restores has no capability, or has one in its own user
 * namespace.
 */
struct file *criu_session_create(enum criu_session_kind kind)
{
	struct criu_session *session;
	struct file *file;
	int ret;

	if (!criu_session_allowed())
		return ERR_PTR(-EPERM);
	session = kzalloc_obj(*session, GFP_KERNEL_ACCOUNT);
	if (!session)
		return ERR_PTR(-ENOMEM);
	ret = criu_objects_init(session);
	if (ret) {
		kfree(session);
		return ERR_PTR(ret);
	}
	session->kind = kind;
	INIT_LIST_HEAD(&session->holds);
	file = anon_inode_getfile("[gpu-criu-session]", &criu_session_fops, session,
				  O_RDWR | O_CLOEXEC);
	if (IS_ERR(file)) {
		criu_objects_destroy(session);
		kfree(session);
		return file;
	}
	session->file = file;
	return file;
}

/* Returns the session of a descriptor, with a reference. */
struct criu_session *criu_session_get(int fd)
{
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op != &criu_session_fops) {
		fput(file);
		return ERR_PTR(-EBADF);
	}
	return file->private_data;
}

void criu_session_put(struct criu_session *session)
{
	fput(session->file);
}

/* Gets the kind of a session: a single one, see enum criu_session_kind. */
enum criu_session_kind criu_session_kind(const struct criu_session *session)
{
	return READ_ONCE(session->kind);
}

/* Makes a session live, for good. Fails with -EBADFD if it holds a client. */
int criu_session_set_live(struct criu_session *session)
{
	guard(spinlock)(&criu_hold_lock);
	if (!list_empty(&session->holds))
		return -EBADFD;
	WRITE_ONCE(session->kind, CRIU_SESSION_LIVE);
	return 0;
}
