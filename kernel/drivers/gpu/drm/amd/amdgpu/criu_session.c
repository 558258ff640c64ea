// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "criu_session_priv.h"

/**
 * struct criu_hold - a client held by a session
 * @by_client: in criu_holds
 * @of_session: in criu_session.holds
 * @session: who holds it
 * @client: a reference of ours
 * @ops: how to treat it
 */
struct criu_hold {
	struct hlist_node by_client;
	struct list_head of_session;
	struct criu_session *session;
	void *client;
	const struct criu_client_ops *ops;
};

/* All clients held by any session, so that no two sessions hold the same one. */
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

/**
 * criu_session_hold() - hold a client
 * @session: for whom
 * @client: the client; its own lock is held by the caller
 * @ops: how to treat it; must outlive the session
 *
 * The caller then does what being held means (evict the queues), and if it
 * cannot, takes it back by criu_session_release(). Under the client's lock a
 * client is held if and only if it is in that state.
 *
 * Return: 0; -EALREADY if this session holds it already; -EBUSY if another does;
 * -ENOMEM.
 */
int criu_session_hold(struct criu_session *session, void *client,
		      const struct criu_client_ops *ops)
{
	struct criu_hold *hold, *old;

	hold = kzalloc_obj(*hold, GFP_KERNEL_ACCOUNT);
	if (!hold)
		return -ENOMEM;
	hold->session = session;
	hold->client = client;
	hold->ops = ops;

	spin_lock(&criu_hold_lock);
	old = criu_find_hold(client);
	if (old) {
		int ret = old->session == session ? -EALREADY : -EBUSY;

		spin_unlock(&criu_hold_lock);
		kfree(hold);
		return ret;
	}
	ops->get(client);
	hash_add(criu_holds, &hold->by_client, (unsigned long)client);
	list_add_tail(&hold->of_session, &session->holds);
	spin_unlock(&criu_hold_lock);
	return 0;
}

/**
 * criu_session_release() - hold a client no more
 * @session: who holds it
 * @client: the client; its own lock is held by the caller, and a reference
 *
 * Return: 0, and the caller now lets the client go; -EBADFD if this session does
 * not hold it.
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

/**
 * criu_session_held() - does this session hold the client?
 * @session: the session
 * @client: the client; its own lock is held by the caller, and as long as it is,
 *	the answer stays true
 *
 * Return: 0 or -EBADFD.
 */
int criu_session_held(struct criu_session *session, void *client)
{
	struct criu_hold *hold;
	int ret;

	spin_lock(&criu_hold_lock);
	hold = criu_find_hold(client);
	ret = hold && hold->session == session ? 0 : -EBADFD;
	spin_unlock(&criu_hold_lock);
	return ret;
}

/* Those that there is room for; @num of them. All: the number of all. */
static u32 criu_list_clients(struct criu_session *session, const struct criu_client_ops *ops,
			     void **clients, u32 room, u32 *num)
{
	struct criu_hold *hold;
	u32 all = 0;

	*num = 0;
	spin_lock(&criu_hold_lock);
	list_for_each_entry(hold, &session->holds, of_session) {
		if (hold->ops != ops || all++ >= room)
			continue;
		ops->get(hold->client);
		clients[(*num)++] = hold->client;
	}
	spin_unlock(&criu_hold_lock);
	return all;
}

/**
 * criu_session_clients() - the clients of one kind that a session holds
 * @session: the session
 * @ops: the kind
 * @num: out, how many there are
 *
 * Return: the clients, with a reference to each, to be given to
 * criu_session_clients_put(); ERR_PTR(-ENOMEM).
 */
void **criu_session_clients(struct criu_session *session, const struct criu_client_ops *ops,
			    u32 *num)
{
	u32 room = criu_list_clients(session, ops, NULL, 0, num);
	void **clients;
	u32 all;

	for (;;) {
		clients = kvcalloc(room + 1, sizeof(*clients), GFP_KERNEL_ACCOUNT);
		if (!clients)
			return ERR_PTR(-ENOMEM);
		all = criu_list_clients(session, ops, clients, room, num);
		if (all <= room)
			return clients;
		/* More have come meanwhile. */
		criu_session_clients_put(ops, clients, *num);
		room = all;
	}
}

/**
 * criu_session_clients_put() - give back what criu_session_clients() gave
 * @ops: the kind
 * @clients: the clients
 * @num: how many
 */
void criu_session_clients_put(const struct criu_client_ops *ops, void **clients, u32 num)
{
	u32 i;

	for (i = 0; i < num; i++)
		ops->put(clients[i]);
	kvfree(clients);
}

static void criu_let_go_all(struct criu_session *session)
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

		ops->let_go(session, client);
		WARN_ON_ONCE(!criu_session_release(session, client));
		ops->put(client);
	}
}

static int criu_session_close(struct inode *inode, struct file *file)
{
	struct criu_session *session = file->private_data;

	criu_let_go_all(session);
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
		   session->kind == CRIU_SESSION_CHECKPOINT ? "checkpoint" : "restore",
		   session->num_objects);
	mutex_unlock(&session->lock);
	seq_printf(m, "criu-session-clients:\t%u\n", num_held);
}

static const struct file_operations criu_session_fops = {
	.owner = THIS_MODULE,
	.release = criu_session_close,
	.show_fdinfo = criu_session_fdinfo,
};

static struct criu_session *criu_session_alloc(enum criu_session_kind kind)
{
	struct criu_session *session;
	int ret;

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
	return session;
}

/**
 * criu_session_create() - make a session
 * @kind: %CRIU_SESSION_CHECKPOINT or %CRIU_SESSION_RESTORE
 *
 * Return: its file, or ERR_PTR().
 */
struct file *criu_session_create(enum criu_session_kind kind)
{
	struct criu_session *session = criu_session_alloc(kind);
	struct file *file;

	if (IS_ERR(session))
		return ERR_CAST(session);
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

/**
 * criu_session_get() - session behind a descriptor of the calling process
 * @fd: the descriptor
 * @kind: kind that it must be of, or %CRIU_SESSION_ANY
 *
 * Return: the session, with a reference to be dropped by criu_session_put();
 * ERR_PTR(-EBADF) if @fd is not a session, ERR_PTR(-EBADFD) if it is of the
 * other kind.
 */
struct criu_session *criu_session_get(int fd, enum criu_session_kind kind)
{
	struct criu_session *session;
	struct file *file = fget(fd);

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op != &criu_session_fops) {
		fput(file);
		return ERR_PTR(-EBADF);
	}
	session = file->private_data;
	if (kind != CRIU_SESSION_ANY && session->kind != kind) {
		fput(file);
		return ERR_PTR(-EBADFD);
	}
	return session;
}

/**
 * criu_session_put() - drop a reference of criu_session_get()
 * @session: the session
 */
void criu_session_put(struct criu_session *session)
{
	fput(session->file);
}

/**
 * criu_session_kind() - kind of a session
 * @session: the session
 *
 * Return: %CRIU_SESSION_CHECKPOINT or %CRIU_SESSION_RESTORE.
 */
enum criu_session_kind criu_session_kind(const struct criu_session *session)
{
	return session->kind;
}
