// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/cleanup.h>
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/slab.h>

#include "criu_session.h"

/* An object of a session. An entry is used only under the session lock. */
struct criu_object {
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
};

static void criu_free_object(struct criu_object *entry)
{
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

/* Ends a session that nobody uses. */
void criu_objects_destroy(struct criu_session *session)
{
	struct criu_object *entry;
	unsigned long id;

	xa_for_each(&session->by_id, id, entry)
		criu_free_object(entry);
	xa_destroy(&session->by_id);
	xa_destroy(&session->by_object);
	mutex_destroy(&session->export_lock);
	mutex_destroy(&session->lock);
}

static struct criu_object *criu_object_by_id(struct criu_session *session, u64 id)
{
	lockdep_assert_held(&session->lock);
	return id == (unsigned long)id ? xa_load(&session->by_id, id) : NULL;
}

/* Adds an entry, and takes a reference to its object. @object: NULL for a claim. */
static int criu_object_add(struct criu_session *session, u64 id, const struct criu_object_ops *ops,
			   void *object)
{
	struct criu_object *entry;
	int ret;

	lockdep_assert_held(&session->lock);
	if (session->num_objects >= CRIU_SESSION_OBJECTS_MAX)
		return -ENOMEM;
	entry = kzalloc_obj(*entry, GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	entry->id = id;
	entry->object = object;
	entry->ops = ops;
	entry->creator = current;
	ret = xa_insert(&session->by_id, id, entry, GFP_KERNEL_ACCOUNT);
	if (!ret && object)
		ret = xa_insert(&session->by_object, (unsigned long)object, entry,
				GFP_KERNEL_ACCOUNT);
	if (ret) {
		xa_erase(&session->by_id, id);
		kfree(entry);
		return ret;
	}
	if (object)
		ops->get(object);
	WRITE_ONCE(session->num_objects, session->num_objects + 1);
	return 0;
}

static void criu_claim_ended(struct criu_session *session)
{
	lockdep_assert_held(&session->lock);
	WRITE_ONCE(session->claims_ended, session->claims_ended + 1);
	wake_up_all(&session->claim_wait);
}

/* Removes an object, if @all, or else one or a claim of the caller, of which no other knows. */
static void criu_object_remove(struct criu_session *session, u64 id, bool all)
{
	struct criu_object *entry;

	scoped_guard(mutex, &session->lock) {
		entry = criu_object_by_id(session, id);
		if (!entry || (all ? !entry->object : entry->found || entry->creator != current))
			return;
		xa_erase(&session->by_object, (unsigned long)entry->object);
		xa_erase(&session->by_id, id);
		WRITE_ONCE(session->num_objects, session->num_objects - 1);
		criu_claim_ended(session);
	}
	criu_free_object(entry);
}

/* Empties the session, except for claims that are open. The caller has no lock of a client. */
void criu_objects_drop(struct criu_session *session)
{
	struct criu_object *entry;
	unsigned long id;

	xa_for_each(&session->by_id, id, entry)
		criu_object_remove(session, id, true);
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
		ret = criu_object_add(session, session->last_id + 1, ops, object);
		if (ret)
			return ret;
		session->last_id++;
	}
	*id = entry ? entry->id : session->last_id;
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
 * criu_session_bind(). Other callers wait meanwhile, so a caller has at most one open claim at a
 * time. Fails with -EBADMSG if the id refers to another kind of object, or is none; -EINTR if
 * killed.
 */
int criu_session_claim(struct criu_session *session, u64 id, const struct criu_object_ops *ops,
		       bool create, void **object)
{
	unsigned long seen;
	int ret;

	if (session->kind != CRIU_SESSION_RESTORE)
		return -EBADFD;
	if (!id || id != (unsigned long)id)
		return -EBADMSG;
	for (;;) {
		mutex_lock(&session->lock);
		ret = criu_try_find(session, id, ops, object);
		if (ret == -ENOENT && create) {
			*object = NULL;
			ret = criu_object_add(session, id, ops, NULL);
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

/* Undoes a claim or criu_session_bind(), unless another caller has found the object. */
void criu_session_forget(struct criu_session *session, u64 id)
{
	criu_object_remove(session, id, false);
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

/* Sets the dma-buf of an object or a claim, unless criu_session_dmabuf() has returned another. */
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

/* Exports an object that has no dma-buf. @copy: for its contents. -ENOENT: it cannot have one. */
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
