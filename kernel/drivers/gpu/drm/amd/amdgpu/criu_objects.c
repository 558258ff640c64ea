// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/cleanup.h>
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/slab.h>

#include "criu_session_priv.h"

/*
 * One object of a session. Entries are looked up and used only under the session lock. A
 * pointer to an entry may be invalid after unlock.
 */
struct criu_object {
	struct rhash_head by_id;
	struct rhash_head by_object;
	u64 id;
	/* NULL: claimed, and being created by a caller. In by_object only if set. */
	void *object;
	const struct criu_object_ops *ops;
	/* The object's own dma-buf, and one for copying its contents. */
	struct dma_buf *dmabuf;
	struct dma_buf *copy;
	/* A caller other than its creator has it, so its creator can no longer undo it. */
	bool found;
};

static const struct rhashtable_params criu_by_id = {
	.head_offset = offsetof(struct criu_object, by_id),
	.key_offset = offsetof(struct criu_object, id),
	.key_len = sizeof(u64),
	.automatic_shrinking = true,
};

static const struct rhashtable_params criu_by_object = {
	.head_offset = offsetof(struct criu_object, by_object),
	.key_offset = offsetof(struct criu_object, object),
	.key_len = sizeof(void *),
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

/* Sets up the object tables of a new session. Returns 0 or -ENOMEM. */
int criu_objects_init(struct criu_session *session)
{
	int ret = rhashtable_init(&session->by_id, &criu_by_id);

	if (ret)
		return ret;
	ret = rhashtable_init(&session->by_object, &criu_by_object);
	if (ret) {
		rhashtable_destroy(&session->by_id);
		return ret;
	}
	mutex_init(&session->lock);
	mutex_init(&session->export_lock);
	init_waitqueue_head(&session->claim_wait);
	return 0;
}

/* Drops all objects of a session that is no longer in use */
void criu_objects_destroy(struct criu_session *session)
{
	rhashtable_destroy(&session->by_object);
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
	if (entry->object)
		rhashtable_remove_fast(&session->by_object, &entry->by_object, criu_by_object);
	rhashtable_remove_fast(&session->by_id, &entry->by_id, criu_by_id);
	session->num_objects--;
}

/* Sets the object of an entry, and takes a reference. */
static int criu_object_set(struct criu_session *session, struct criu_object *entry, void *object)
{
	int ret;

	lockdep_assert_held(&session->lock);
	entry->object = object;
	ret = rhashtable_lookup_insert_fast(&session->by_object, &entry->by_object,
					    criu_by_object);
	if (ret) {
		entry->object = NULL;
		return ret == -EEXIST ? -EBADMSG : ret;
	}
	entry->ops->get(object);
	return 0;
}

/*
 * Gets the id of an object in a checkpoint. @object: the object; the session takes a reference to
 * a new object. @ops: operations of the object; must outlive the session. @id: output. Returns 0,
 * -ENOMEM, or -EBADFD for a session of the other kind.
 */
int criu_session_object_id(struct criu_session *session, void *object,
			   const struct criu_object_ops *ops, u64 *id)
{
	struct criu_object *entry;
	int ret;

	if (!(criu_session_kind(session) & CRIU_SESSION_DUMP))
		return -EBADFD;
	guard(mutex)(&session->lock);
	entry = rhashtable_lookup_fast(&session->by_object, &object, criu_by_object);
	if (!entry) {
		entry = criu_object_add(session, session->last_id + 1, ops);
		if (IS_ERR(entry))
			return PTR_ERR(entry);
		ret = criu_object_set(session, entry, object);
		if (ret) {
			criu_object_unlink(session, entry);
			/* The entry has no object and no dma-buf. */
			kfree(entry);
			return ret;
		}
		session->last_id++;
	}
	*id = entry->id;
	return 0;
}

/*
 * Looks up an id. Returns 0 and the object with a reference; -ENOENT; -EAGAIN if the
 * caller must wait for a claim to end.
 */
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
	entry->found = true;
	*object = entry->object;
	return 0;
}

static int criu_try_claim(struct criu_session *session, u64 id,
			  const struct criu_object_ops *ops, void **object)
{
	int ret = criu_try_find(session, id, ops, object);

	if (ret != -ENOENT)
		return ret;
	*object = NULL;
	return PTR_ERR_OR_ZERO(criu_object_add(session, id, ops));
}

/* Repeats @try while another caller's claim blocks it. */
static int criu_wait_claims(struct criu_session *session, u64 id,
			    const struct criu_object_ops *ops, void **object,
			    int (*try)(struct criu_session *session, u64 id,
				       const struct criu_object_ops *ops, void **object))
{
	unsigned long seen;
	int ret;

	if (session->kind != CRIU_SESSION_RESTORE)
		return -EBADFD;
	if (!id)
		return -EBADMSG;
	for (;;) {
		mutex_lock(&session->lock);
		ret = try(session, id, ops, object);
		seen = session->claims_ended;
		mutex_unlock(&session->lock);
		if (ret != -EAGAIN)
			return ret;
		if (wait_event_killable(session->claim_wait,
					READ_ONCE(session->claims_ended) != seen))
			return -EINTR;
	}
}

/*
 * Looks up an object of a restore, or claims its creation. @id: id in the blob, not 0. @ops:
 * operations of the object; must outlive the session. @object: output: the object, with a
 * reference for the caller; or NULL, and the caller must create it and call criu_session_bind(),
 * or criu_session_forget(). While one caller creates an object, other callers that claim it wait.
 * To avoid deadlocks, a caller has at most one open claim at a time. Returns 0; -EBADMSG if the id
 * refers to another kind of object, or is 0; -EINTR if killed while waiting; -ENOMEM; -EBADFD for
 * a session of the other kind.
 */
int criu_session_claim(struct criu_session *session, u64 id,
		       const struct criu_object_ops *ops, void **object)
{
	return criu_wait_claims(session, id, ops, object, criu_try_claim);
}

/*
 * Looks up an object of a restore that another caller creates. @id: id in the blob, not 0.
 * @object: output: the object, with a reference for the caller. Returns 0; -ENOENT if no caller
 * has created or claimed it; otherwise as criu_session_claim().
 */
int criu_session_find(struct criu_session *session, u64 id,
		      const struct criu_object_ops *ops, void **object)
{
	return criu_wait_claims(session, id, ops, object, criu_try_find);
}

static void criu_claim_ended(struct criu_session *session)
{
	lockdep_assert_held(&session->lock);
	WRITE_ONCE(session->claims_ended, session->claims_ended + 1);
	wake_up_all(&session->claim_wait);
}

/*
 * Sets the object of a claim. @object: the object; the session takes a reference. Returns 0;
 * -EBADMSG if the object has another id already; -ENOMEM. In case of an error the claim is still
 * open.
 */
int criu_session_bind(struct criu_session *session, u64 id, void *object)
{
	struct criu_object *entry;
	int ret;

	guard(mutex)(&session->lock);
	entry = criu_object_by_id(session, id);
	if (WARN_ON_ONCE(!entry || entry->object))
		return -EINVAL;
	ret = criu_object_set(session, entry, object);
	if (!ret)
		criu_claim_ended(session);
	return ret;
}

/*
 * Undoes criu_session_claim() and, if called, criu_session_bind(). The next caller that claims the
 * id creates the object again. If another caller has already found the object, it stays in the
 * session.
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

/* Gets the existing dma-buf of an object, or else the object, with a reference. */
static int criu_object_take(struct criu_session *session, u64 id, bool copy, void **object,
			    const struct criu_object_ops **ops, struct dma_buf **dmabuf)
{
	struct criu_object *entry;

	guard(mutex)(&session->lock);
	entry = criu_object_by_id(session, id);
	if (!entry || !entry->object)
		return -ENOENT;
	*dmabuf = entry->dmabuf;
	if (!*dmabuf && copy)
		*dmabuf = entry->copy;
	*object = entry->object;
	*ops = entry->ops;
	if (*dmabuf)
		get_dma_buf(*dmabuf);
	else
		entry->ops->get(entry->object);
	return 0;
}

/* Keeps the dma-buf for the next call if the object still exists. */
static void criu_object_keep(struct criu_session *session, u64 id, bool copy, void *object,
			     struct dma_buf *dmabuf)
{
	struct criu_object *entry;

	guard(mutex)(&session->lock);
	entry = criu_object_by_id(session, id);
	if (entry && entry->object == object) {
		get_dma_buf(dmabuf);
		*(copy ? &entry->copy : &entry->dmabuf) = dmabuf;
	}
}

/*
 * Sets the existing dma-buf of an object. @id: id of the object, or one that the caller has
 * claimed. @dmabuf: its dma-buf; the session takes a reference. criu_session_dmabuf() returns this
 * dma-buf afterwards, unless it has already returned another one.
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

static struct dma_buf *criu_object_dmabuf(struct criu_session *session, u64 id, bool copy)
{
	const struct criu_object_ops *ops;
	struct dma_buf *dmabuf;
	void *object;
	int ret;

	guard(mutex)(&session->export_lock);
	ret = criu_object_take(session, id, copy, &object, &ops, &dmabuf);
	if (ret)
		return ERR_PTR(ret);
	if (dmabuf)
		return dmabuf;
	dmabuf = copy ? ops->copy(object) : ops->export(object);
	if (!IS_ERR(dmabuf))
		criu_object_keep(session, id, copy, object, dmabuf);
	ops->put(object);
	return dmabuf;
}

/*
 * Gets the dma-buf of an object, and exports it if there is none. Returns the dma-buf with a
 * reference for the caller; ERR_PTR(-ENOENT) if there is no such object; an error of
 * criu_object_ops.export.
 */
struct dma_buf *criu_session_dmabuf(struct criu_session *session, u64 id)
{
	return criu_object_dmabuf(session, id, false);
}

/*
 * Gets a dma-buf for copying the contents of an object. Returns the object's dma-buf if it has
 * one, otherwise one of the session, with a reference for the caller; ERR_PTR(-ENOENT) if there is
 * no such object; an error of criu_object_ops.copy.
 */
struct dma_buf *criu_session_copy(struct criu_session *session, u64 id)
{
	return criu_object_dmabuf(session, id, true);
}
