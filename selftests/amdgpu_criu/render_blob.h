/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Edits records of a render node's blob. Written from the description of the format, as
 * blob_edit.h.
 */
#ifndef AMDGPU_CRIU_TEST_RENDER_BLOB_H
#define AMDGPU_CRIU_TEST_RENDER_BLOB_H

#include "blob_edit.h"
#include "render.h"

#define BLOB_RENDER_FILE 0x200
#define BLOB_RENDER_OBJECT 0x201
#define BLOB_RENDER_HANDLE 0x202
#define BLOB_RENDER_MAPPING 0x203
#define BLOB_RENDER_CTX 0x204
#define BLOB_RENDER_BO_LIST 0x205
#define BLOB_RENDER_SYNCOBJ 0x206
#define BLOB_RENDER_CLIENT_NAME 0x207
#define BLOB_RENDER_USERQ 0x208

#define BLOB_CTX_PSTATE 1

struct blob_object {
	__u64 object_id;
	__u64 size;
	__u64 device;
	__u64 create_flags;
	__u64 user_addr;
	__u64 tiling_flags;
	__u64 metadata_flags;
	__u64 mmap_offset;
	__u32 flags;
	__u32 alignment;
	__u32 preferred_domains;
	__u32 allowed_domains;
	__u32 placement;
	__u32 user_flags;
	__u32 kfd_flags;
	__u32 gpu_id;
	__u32 handle;
	__u32 domain;
	__u32 table_flags;
	__u32 metadata_size;
};

struct blob_ctx {
	__u32 id;
	__u32 flags;
	__s32 init_priority;
	__s32 override_priority;
	__u32 stable_pstate;
	__u32 num_entities;
};

struct blob_entity {
	__u32 hw_ip;
	__u32 ring;
	__u64 sequence;
	__s32 error;
	__u32 pad;
};

struct blob_list {
	__u32 id;
	__u32 num_entries;
};

struct blob_item {
	__u64 object_id;
	__u32 priority;
	__u32 pad;
};

#define BLOB_SYNCOBJ_SIGNALED 1
#define BLOB_SYNCOBJ_TIMELINE 2

struct blob_syncobj {
	__u32 handle;
	__u32 flags;
	__u64 object_id;
	__u64 point;
	__s32 error;
	__u32 pad;
};

struct blob_client_name {
	__u8 name[64];
};

struct blob_userq {
	__u32 id;
	__u32 flags;
	__u32 ip_type;
	__u32 priority;
	__u32 doorbell_handle;
	__u32 doorbell_offset;
	__u64 queue_va;
	__u64 queue_size;
	__u64 rptr_va;
	__u64 wptr_va;
	__u64 area_va;
	__u64 fence_value;
	__u32 num_words;
	__u32 pad;
};

/* The table that CHECKPOINT returned with the blob can be derived from it. Returns its length. */
static inline __u32 blob_render_table(struct blob *blob, struct amdgpu_criu_bo *bos)
{
	__u32 num;
	size_t at;

	for (num = 0; (at = blob_find(blob, BLOB_RENDER_OBJECT, num)); num++) {
		const struct blob_object *object = blob_payload(blob, at);

		bos[num] = (struct amdgpu_criu_bo) {
			.object_id = object->object_id, .size = object->size,
			.mmap_offset = object->mmap_offset, .gpu_id = object->gpu_id,
			.handle = object->handle, .domain = object->domain,
			.flags = object->table_flags,
		};
	}
	return num;
}

/* A field of a record or of an entry of its tail, and an invalid value. */
struct blob_fault {
	const char *what;
	size_t offset;
	size_t size;
	__u64 value;
	int error;
	const char *reason; /* a part of it, so no other check may refuse the record */
};

#define BLOB_FAULT_FOR(_reason, _what, _type, _field, _value, _error) { \
	.what = _what, .offset = offsetof(struct _type, _field), \
	.size = sizeof(((struct _type *)0)->_field), .value = (__u64)(_value), .error = _error, \
	.reason = _reason }
#define BLOB_FAULT(_what, _type, _field, _value, _error) \
	BLOB_FAULT_FOR(NULL, _what, _type, _field, _value, _error)

static inline int blob_restore(const struct criu_node *node, int session,
			       const struct criu_image *image, struct blob *blob)
{
	struct criu_image spoiled = *image;

	blob_repair(blob);
	spoiled.blob = blob->data;
	spoiled.blob_size = blob->size;
	return criu_restore(node, session, &spoiled);
}

/* RESTORE of a copy of the image with a field set, @at bytes after the payload's begin. */
static inline int blob_restore_fault(const struct criu_node *node, int session,
				     const struct criu_image *image, __u16 type,
				     unsigned int index, size_t at, const struct blob_fault *fault)
{
	struct blob blob;
	size_t record;
	int ret;

	if (!blob_copy(&blob, image->blob, image->blob_size))
		return -ENOMEM;
	record = blob_find(&blob, type, index);
	if (!record)
		return -ENOENT;
	memcpy((char *)blob_payload(&blob, record) + at + fault->offset, &fault->value,
	       fault->size);
	ret = blob_restore(node, session, image, &blob);
	blob_free(&blob);
	return ret;
}

/* blob_restore_fault() is refused as expected. */
#define EXPECT_FAULT(_node, _session, _image, _type, _index, _at, _fault) \
	do { \
		const struct blob_fault *_expected = (_fault); \
		\
		EXPECT_EQ(_expected->error, blob_restore_fault((_node), (_session), (_image), \
							       (_type), (_index), (_at), \
							       _expected)) { \
			TH_LOG("%s", _expected->what); \
		} \
		EXPECT_NE(NULL, strstr(criu_reason, _expected->reason)) { \
			TH_LOG("%s: %s", _expected->what, criu_reason); \
		} \
	} while (0)

/* True if record @index of a type is the same in both. Both must have it. */
static inline bool blob_same(const struct criu_image *a, const struct criu_image *b, __u16 type,
			     unsigned int index)
{
	struct blob x = { .data = a->blob, .size = a->blob_size };
	struct blob y = { .data = b->blob, .size = b->blob_size };
	size_t at = blob_find(&x, type, index), to = blob_find(&y, type, index);

	return at && to && blob_record(&x, at)->size == blob_record(&y, to)->size &&
	       !memcmp(blob_payload(&x, at), blob_payload(&y, to), blob_record(&x, at)->size);
}

static inline unsigned int blob_count(const struct criu_image *image, __u16 type)
{
	struct blob blob = { .data = image->blob, .size = image->blob_size };
	unsigned int num = 0;

	while (blob_find(&blob, type, num))
		num++;
	return num;
}

#endif /* AMDGPU_CRIU_TEST_RENDER_BLOB_H */
