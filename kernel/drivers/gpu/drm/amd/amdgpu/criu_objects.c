// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/slab.h>

#include "criu_session_priv.h"

/*
 * One object of a session. Entries are found, and used, only under the session
 * lock; nobody keeps a pointer to one beyond it.
 */
struct criu_object {
	struct rhash_head by_id;
	struct rhash_head by_object;
	u64 id;
	/* NULL: claimed, being created by somebody. In by_object only when set. */
	void *object;
	const struct criu_object_ops *ops;
	struct dma_buf *dmabuf;
	/* Somebody else than its creator has it: its creator cannot undo it any more. */
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

	if (entry->dmabuf) {
		if (entry->object && entry->ops->unexport)
			entry->ops->unexport(entry->object, entry->dmabuf);
		dma_buf_put(entry->dmabuf);
	}
	if (entry->object)
		entry->ops->put(entry->object);
	kfree(entry);
}

/**
 * criu_objects_init() - set up the object tables of a new session
 * @session: the session
 *
 * Return: 0 or -ENOMEM.
 */
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

/**
 * criu_objects_destroy() - drop all objects of a session that nobody uses any more
 * @session: the session
 */
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

/* A new entry with an id and no object yet. */
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

/* Gives an entry its object, with a reference of its own. */
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

/**
 * criu_session_object_id() - id of an object in a checkpoint
 * @session: of kind CHECKPOINT
 * @object: the object; the session takes a reference when it is new to it
 * @ops: how to treat it; must outlive the session
 * @id: out
 *
 * Return: 0, -ENOMEM, or -EBADFD for a session of the other kind.
 */
int criu_session_object_id(struct criu_session *session, void *object,
			   const struct criu_object_ops *ops, u64 *id)
{
	struct criu_object *entry;
	int ret = 0;

	if (session->kind != CRIU_SESSION_CHECKPOINT)
		return -EBADFD;
	mutex_lock(&session->lock);
	entry = rhashtable_lookup_fast(&session->by_object, &object, criu_by_object);
	if (!entry) {
		entry = criu_object_add(session, session->last_id + 1, ops);
		if (IS_ERR(entry)) {
			mutex_unlock(&session->lock);
			return PTR_ERR(entry);
		}
		ret = criu_object_set(session, entry, object);
		if (ret) {
			criu_object_unlink(session, entry);
			mutex_unlock(&session->lock);
			criu_free_object(entry, NULL);
			return ret;
		}
		session->last_id++;
	}
	*id = entry->id;
	mutex_unlock(&session->lock);
	return 0;
}

/*
 * What is there under an id: 0 and the object with a reference; -ENOENT; -EAGAIN: wait
 * for its claim to end.
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

/* Calls @try until no claim of somebody else is in the way. */
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

/**
 * criu_session_claim() - look up an object of a restore, or take on to create it
 * @session: of kind RESTORE
 * @id: id in the blob, not 0
 * @ops: how to treat it; must outlive the session
 * @object: out: the object, with a reference for the caller; or NULL: the caller
 *	creates it and calls criu_session_bind(), or criu_session_forget()
 *
 * While one caller creates an object others that want it wait. So that they
 * cannot wait for each other, a caller has at most one claim open at a time.
 *
 * Return: 0; -EBADMSG if the id is of another kind of object, or 0; -EINTR if
 * killed while waiting; -ENOMEM; -EBADFD for a session of the other kind.
 */
int criu_session_claim(struct criu_session *session, u64 id,
		       const struct criu_object_ops *ops, void **object)
{
	return criu_wait_claims(session, id, ops, object, criu_try_claim);
}

/**
 * criu_session_find() - look up an object of a restore that others create
 * @session: of kind RESTORE
 * @id: id in the blob, not 0
 * @ops: how to treat it
 * @object: out: the object, with a reference for the caller
 *
 * Return: 0; -ENOENT if nobody has created it, or is about to; else as
 * criu_session_claim().
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

/**
 * criu_session_bind() - the object of a claim is created
 * @session: the session
 * @id: id that the caller has claimed
 * @object: the object; the session takes a reference
 *
 * Return: 0; -EBADMSG if the object has another id already; -ENOMEM. In case of
 * an error the claim is still open.
 */
int criu_session_bind(struct criu_session *session, u64 id, void *object)
{
	struct criu_object *entry;
	int ret;

	mutex_lock(&session->lock);
	entry = criu_object_by_id(session, id);
	if (WARN_ON_ONCE(!entry || entry->object)) {
		mutex_unlock(&session->lock);
		return -EINVAL;
	}
	ret = criu_object_set(session, entry, object);
	if (!ret)
		criu_claim_ended(session);
	mutex_unlock(&session->lock);
	return ret;
}

/**
 * criu_session_forget() - undo criu_session_claim(), and criu_session_bind() if
 * it was called
 * @session: the session
 * @id: id that the caller has claimed
 *
 * The next one who claims the id creates the object anew, unless somebody has found
 * it meanwhile: then all go on with what there is.
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

/* The object under an id with a reference, or its dma-buf with one if it was exported before. */
static int criu_object_take(struct criu_session *session, u64 id, void **object,
			    const struct criu_object_ops **ops, struct dma_buf **dmabuf)
{
	struct criu_object *entry;

	mutex_lock(&session->lock);
	entry = criu_object_by_id(session, id);
	if (!entry || !entry->object) {
		mutex_unlock(&session->lock);
		return -ENOENT;
	}
	*dmabuf = entry->dmabuf;
	*object = entry->object;
	*ops = entry->ops;
	if (*dmabuf)
		get_dma_buf(*dmabuf);
	else
		entry->ops->get(entry->object);
	mutex_unlock(&session->lock);
	return 0;
}

/* Keeps the dma-buf for the next call, if the object is still there. */
static void criu_object_keep(struct criu_session *session, u64 id, void *object,
			     struct dma_buf *dmabuf)
{
	struct criu_object *entry;

	mutex_lock(&session->lock);
	entry = criu_object_by_id(session, id);
	if (entry && entry->object == object) {
		get_dma_buf(dmabuf);
		entry->dmabuf = dmabuf;
	}
	mutex_unlock(&session->lock);
}

/**
 * criu_session_exported() - tell of a dma-buf that an object has already
 * @session: of either kind
 * @id: id of the object, or one that the caller has claimed
 * @dmabuf: its dma-buf; the session takes a reference
 *
 * What criu_session_dmabuf() gives from now on, unless it has given another before.
 */
void criu_session_exported(struct criu_session *session, u64 id, struct dma_buf *dmabuf)
{
	struct criu_object *entry;

	mutex_lock(&session->export_lock);
	mutex_lock(&session->lock);
	entry = criu_object_by_id(session, id);
	if (entry && !entry->dmabuf) {
		get_dma_buf(dmabuf);
		entry->dmabuf = dmabuf;
	}
	mutex_unlock(&session->lock);
	mutex_unlock(&session->export_lock);
}

/**
 * criu_session_dmabuf() - dma-buf of an object
 * @session: of either kind
 * @id: id of the object
 *
 * Return: the dma-buf with a reference for the caller; ERR_PTR(-ENOENT) if there
 * is no such object; what criu_object_ops.export returns.
 */
struct dma_buf *criu_session_dmabuf(struct criu_session *session, u64 id)
{
	const struct criu_object_ops *ops;
	struct dma_buf *dmabuf;
	void *object;
	int ret;

	mutex_lock(&session->export_lock);
	ret = criu_object_take(session, id, &object, &ops, &dmabuf);
	if (ret) {
		mutex_unlock(&session->export_lock);
		return ERR_PTR(ret);
	}
	if (!dmabuf) {
		dmabuf = ops->export(object);
		if (!IS_ERR(dmabuf))
			criu_object_keep(session, id, object, dmabuf);
		ops->put(object);
	}
	mutex_unlock(&session->export_lock);
	return dmabuf;
}
