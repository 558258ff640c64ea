// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/cleanup.h>
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>

#include "criu_session.h"

/*
 * One object of a session. Entries are looked up and used only under the session lock. A
 * pointer to an entry may be invalid after unlock.
 */
struct criu_object {
	struct rhash_head by_id;
	u64 id;
	void *object; /* NULL: claimed, and being created by a caller */
	const struct criu_object_ops *ops;
	/* The object's own dma-buf, and one for copying its contents. */
	struct dma_buf *dmabuf;
	struct dma_buf *copy;
	/* Task whose RESTORE creates the object; only compared */
	const struct task_struct *creator;
	/* A caller other than its creator uses it, so its creator can no longer undo it. */
	bool found;
	struct criu_object *next; /* among those that criu_objects_drop() frees */
};

static const struct rhashtable_params criu_by_id = {
	.head_offset = offsetof(struct criu_object, by_id),
	.key_offset = offsetof(struct criu_object, id),
	.key_len = sizeof(u64),
	.automatic_shrinking = true,
};

static void criu_free_object(void *ptr, void *unused)
{
	struct criu_object *entry = ptr;

	if (entry->copy) {
		entry->ops->end_copy(entry->copy);
		dma_buf_put(entry->copy);
	}
	if (entry->dmabuf)
		dma_buf_put(entry->dmabuf);
	if (entry->object)
		entry->ops->put(entry->object);
	kfree(entry);
}

int criu_objects_init(struct criu_session *session)
{
	int ret = rhashtable_init(&session->by_id, &criu_by_id);

	if (ret)
		return ret;
	xa_init_flags(&session->by_object, XA_FLAGS_ACCOUNT);
	mutex_init(&session->lock);
	mutex_init(&session->export_lock);
	init_waitqueue_head(&session->claim_wait);
	return 0;
}

void criu_objects_destroy(struct criu_session *session)
{
	xa_destroy(&session->by_object);
	rhashtable_free_and_destroy(&session->by_id, criu_free_object, NULL);
	mutex_destroy(&session->export_lock);
	mutex_destroy(&session->lock);
}

static struct criu_object *criu_object_by_id(struct criu_session *session, u64 id)
{
	lockdep_assert_held(&session->lock);
	return rhashtable_lookup_fast(&session->by_id, &id, criu_by_id);
}

/* Adds an entry with an id and no object. */
static struct criu_object *criu_object_add(struct criu_session *session, u64 id,
					   const struct criu_object_ops *ops)
{
	struct criu_object *entry;
	int ret;

	lockdep_assert_held(&session->lock);
	if (session->num_objects >= CRIU_SESSION_OBJECTS_MAX)
		return ERR_PTR(-ENOMEM);
	entry = kzalloc_obj(*entry, GFP_KERNEL_ACCOUNT);
	if (!entry)
		return ERR_PTR(-ENOMEM);
	entry->id = id;
	entry->ops = ops;
	entry->creator = current;
	ret = rhashtable_insert_fast(&session->by_id, &entry->by_id, criu_by_id);
	if (ret) {
		kfree(entry);
		return ERR_PTR(ret);
	}
	session->num_objects++;
	return entry;
}

/* Unlinks an entry; the caller frees it by criu_free_object() without the lock. */
static void criu_object_unlink(struct criu_session *session, struct criu_object *entry)
{
	lockdep_assert_held(&session->lock);
	xa_erase(&session->by_object, (unsigned long)entry->object);
	rhashtable_remove_fast(&session->by_id, &entry->by_id, criu_by_id);
	session->num_objects--;
}

/* Empties the session, except for claims that are open. The caller has no lock of a client. */
void criu_objects_drop(struct criu_session *session)
{
	struct criu_object *entry, *dropped = NULL;
	struct rhashtable_iter iter;

	mutex_lock(&session->lock);
	rhashtable_walk_enter(&session->by_id, &iter);
	rhashtable_walk_start(&iter);
	while ((entry = rhashtable_walk_next(&iter))) {
		/* The table is resized: the walk begins again. */
		if (IS_ERR(entry) || !entry->object)
			continue;
		criu_object_unlink(session, entry);
		entry->next = dropped;
		dropped = entry;
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);
	mutex_unlock(&session->lock);
	while (dropped) {
		entry = dropped;
		dropped = entry->next;
		criu_free_object(entry, NULL);
	}
}

/* Gets the id of an object in a checkpoint. The session takes a reference to a new one. */
int criu_session_object_id(struct criu_session *session, void *object,
			   const struct criu_object_ops *ops, u64 *id)
{
	struct criu_object *entry;
	int ret;

	if (!(READ_ONCE(session->kind) & CRIU_SESSION_DUMP))
		return -EBADFD;
	guard(mutex)(&session->lock);
	entry = xa_load(&session->by_object, (unsigned long)object);
	if (!entry) {
		entry = criu_object_add(session, session->last_id + 1, ops);
		if (IS_ERR(entry))
			return PTR_ERR(entry);
		ret = xa_err(xa_store(&session->by_object, (unsigned long)object, entry,
				      GFP_KERNEL_ACCOUNT));
		if (ret) {
			criu_object_unlink(session, entry);
			/* The entry has no object and no dma-buf. */
			kfree(entry);
			return ret;
		}
		ops->get(object);
		entry->object = object;
		session->last_id++;
	}
	*id = entry->id;
	return 0;
}

/* Looks up an id. Fails with -ENOENT; -EAGAIN if the caller must wait for a claim to end. */
static int criu_try_find(struct criu_session *session, u64 id,
			 const struct criu_object_ops *ops, void **object)
{
	struct criu_object *entry = criu_object_by_id(session, id);

	if (!entry)
		return -ENOENT;
	if (entry->ops != ops)
		return -EBADMSG;
	if (!entry->object)
		return -EAGAIN;
	ops->get(entry->object);
	entry->found |= entry->creator != current;
	*object = entry->object;
	return 0;
}

/*
 * Looks up an object of a restore, with a reference. If nobody has created it: -ENOENT, or with
 * @create, claims its creation: @object is NULL, and the caller creates it and calls
 * criu_session_bind(). Other callers wait meanwhile. To avoid deadlocks, a caller has at most one
 * open claim at a time. Fails with -EBADMSG if the id refers to another kind of object, or is 0;
 * -EINTR if killed while waiting.
 */
int criu_session_claim(struct criu_session *session, u64 id, const struct criu_object_ops *ops,
		       bool create, void **object)
{
	unsigned long seen;
	int ret;

	if (session->kind != CRIU_SESSION_RESTORE)
		return -EBADFD;
	if (!id)
		return -EBADMSG;
	for (;;) {
		mutex_lock(&session->lock);
		ret = criu_try_find(session, id, ops, object);
		if (ret == -ENOENT && create) {
			*object = NULL;
			ret = PTR_ERR_OR_ZERO(criu_object_add(session, id, ops));
		}
		seen = session->claims_ended;
		mutex_unlock(&session->lock);
		if (ret != -EAGAIN)
			return ret;
		if (wait_event_killable(session->claim_wait,
					READ_ONCE(session->claims_ended) != seen))
			return -EINTR;
	}
}

static void criu_claim_ended(struct criu_session *session)
{
	lockdep_assert_held(&session->lock);
	WRITE_ONCE(session->claims_ended, session->claims_ended + 1);
	wake_up_all(&session->claim_wait);
}

/* Ends a claim: sets its new object. NULL: its creation has failed. */
void criu_session_bind(struct criu_session *session, u64 id, void *object)
{
	struct criu_object *entry;

	if (!object)
		return criu_session_forget(session, id);
	guard(mutex)(&session->lock);
	entry = criu_object_by_id(session, id);
	if (WARN_ON_ONCE(!entry || entry->object))
		return;
	entry->ops->get(object);
	entry->object = object;
	criu_claim_ended(session);
}

/*
 * Undoes criu_session_claim() and criu_session_bind(). The next caller that claims the id creates
 * the object again. If another caller has found the object, it stays in the session.
 */
void criu_session_forget(struct criu_session *session, u64 id)
{
	struct criu_object *entry;

	mutex_lock(&session->lock);
	entry = criu_object_by_id(session, id);
	if (entry && entry->found)
		entry = NULL;
	if (entry) {
		criu_object_unlink(session, entry);
		criu_claim_ended(session);
	}
	mutex_unlock(&session->lock);
	if (entry)
		criu_free_object(entry, NULL);
}

/* Copies an entry, with a reference to its dma-buf, or else to the object. */
static int criu_object_take(struct criu_session *session, u64 id, bool copy,
			    struct criu_object *taken)
{
	struct criu_object *entry;

	guard(mutex)(&session->lock);
	entry = criu_object_by_id(session, id);
	if (!entry || !entry->object)
		return -ENOENT;
	*taken = *entry;
	if (!taken->dmabuf && copy)
		taken->dmabuf = entry->copy;
	if (taken->dmabuf)
		get_dma_buf(taken->dmabuf);
	else
		entry->ops->get(entry->object);
	return 0;
}

/*
 * Sets the dma-buf that criu_session_dmabuf() returns, unless it has returned another one. @id: of
 * an object, or claimed by the caller.
 */
void criu_session_exported(struct criu_session *session, u64 id, struct dma_buf *dmabuf)
{
	struct criu_object *entry;

	guard(mutex)(&session->export_lock);
	guard(mutex)(&session->lock);
	entry = criu_object_by_id(session, id);
	if (entry && !entry->dmabuf) {
		get_dma_buf(dmabuf);
		entry->dmabuf = dmabuf;
	}
}

/*
 * Returns the dma-buf of an object with a reference, and exports it if there is none. @copy: one
 * for copying the contents, if the object has none of its own. -ENOENT: its kind has no dma-bufs.
 */
struct dma_buf *criu_session_dmabuf(struct criu_session *session, u64 id, bool copy)
{
	struct dma_buf *dmabuf, *(*export)(void *object);
	struct criu_object taken, *entry;
	int ret;

	guard(mutex)(&session->export_lock);
	ret = criu_object_take(session, id, copy, &taken);
	if (ret)
		return ERR_PTR(ret);
	if (taken.dmabuf)
		return taken.dmabuf;
	export = copy ? taken.ops->copy : taken.ops->export;
	dmabuf = export ? export(taken.object) : ERR_PTR(-ENOENT);
	/* Keep the dma-buf for the next call if the object still exists. */
	mutex_lock(&session->lock);
	entry = criu_object_by_id(session, id);
	if (!IS_ERR(dmabuf) && entry && entry->object == taken.object) {
		get_dma_buf(dmabuf);
		*(copy ? &entry->copy : &entry->dmabuf) = dmabuf;
	}
	mutex_unlock(&session->lock);
	taken.ops->put(taken.object);
	return dmabuf;
}
