/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Edits the frame of a blob. Written from the description of the format, not from the kernel's
 * header, so that a change of the format fails the tests.
 */
#ifndef AMDGPU_CRIU_TEST_BLOB_EDIT_H
#define AMDGPU_CRIU_TEST_BLOB_EDIT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"

#define BLOB_IDENTITY 1
#define BLOB_END 0xffff
#define BLOB_KFD_PROCESS 0x100
#define BLOB_KFD_DEVICE 0x101
#define BLOB_KFD_BO 0x102
#define BLOB_KFD_EVENT_PAGE 0x103
#define BLOB_KFD_EVENT 0x104
#define BLOB_KFD_QUEUE 0x105
#define BLOB_KFD_SVM_RANGE 0x106
#define BLOB_KFD_OPTIONS 0x107
#define BLOB_MAY_SKIP 1

/* The reason for which RESTORE refuses a record whose fields give its tail another length. */
#define TAIL_FAULT "the tail is not as long as the record says"

struct blob_head {
	__u64 magic;
	__u32 format;
	__u32 header_size;
	__u64 total_size;
	__u32 flags;
	__u32 pad;
};

struct blob_record {
	__u16 type;
	__u16 version;
	__u32 flags;
	__u32 fixed_size;
	__u32 size;
};

struct blob_identity {
	__u8 driver[8];
	__u32 node;
	__u32 page_size;
};

struct blob_end {
	__u64 num_records;
	__u32 pad;
	__u32 crc;
};

/* With space for records that the tests insert. */
#define BLOB_SPARE 65536

struct blob {
	unsigned char *data;
	size_t size;
};

static inline bool blob_copy(struct blob *blob, const void *data, size_t size)
{
	blob->data = malloc(size + BLOB_SPARE);
	blob->size = size;
	if (blob->data)
		memcpy(blob->data, data, size);
	return blob->data;
}

static inline void blob_free(struct blob *blob)
{
	free(blob->data);
	blob->data = NULL;
}

static inline struct blob_head *blob_header(struct blob *blob)
{
	return (struct blob_head *)blob->data;
}

static inline struct blob_record *blob_record(struct blob *blob, size_t at)
{
	return (struct blob_record *)(blob->data + at);
}

static inline void *blob_payload(struct blob *blob, size_t at)
{
	return blob->data + at + sizeof(struct blob_record);
}

/* Offset of record @index of a type, 0 if there is none. */
static inline size_t blob_find(struct blob *blob, __u16 type, unsigned int index)
{
	size_t at;

	for (at = sizeof(struct blob_head); at < blob->size;
	     at += sizeof(struct blob_record) + blob_record(blob, at)->size)
		if (blob_record(blob, at)->type == type && !index--)
			return at;
	return 0;
}

static inline void blob_insert(struct blob *blob, size_t at, const void *data, size_t size)
{
	memmove(blob->data + at + size, blob->data + at, blob->size - at);
	memcpy(blob->data + at, data, size);
	blob->size += size;
}

static inline void blob_erase(struct blob *blob, size_t at, size_t size)
{
	memmove(blob->data + at, blob->data + at + size, blob->size - at - size);
	blob->size -= size;
}

/* A second record after the first. */
static inline void blob_double(struct blob *blob, size_t at)
{
	size_t size = sizeof(struct blob_record) + blob_record(blob, at)->size;
	unsigned char *copy = malloc(size);

	if (!copy)
		abort();
	memcpy(copy, blob->data + at, size);
	blob_insert(blob, at + size, copy, size);
	free(copy);
}

/* Sets a word of the payload of a record other than END, both chosen by a number. */
static inline void blob_set_word(struct blob *blob, unsigned int choice, __u32 word)
{
	unsigned int records = 0, index;
	size_t at, words;

	for (at = sizeof(struct blob_head); blob_record(blob, at)->type != BLOB_END;
	     at += sizeof(struct blob_record) + blob_record(blob, at)->size)
		records++;
	index = choice % records;
	for (at = sizeof(struct blob_head); index; index--)
		at += sizeof(struct blob_record) + blob_record(blob, at)->size;
	words = blob_record(blob, at)->size / sizeof(word);
	if (words)
		memcpy((char *)blob_payload(blob, at) + choice / records % words * sizeof(word),
		       &word, sizeof(word));
}

/* Updates total size, number of records and checksum. */
static inline void blob_repair(struct blob *blob)
{
	struct blob_end *end;
	size_t at;

	blob_header(blob)->total_size = blob->size;
	at = blob->size - sizeof(struct blob_record) - sizeof(*end);
	end = blob_payload(blob, at);
	end->num_records = 0;
	for (at = sizeof(struct blob_head); at < blob->size;
	     at += sizeof(struct blob_record) + blob_record(blob, at)->size)
		end->num_records++;
	end->crc = crc32c(blob->data, (unsigned char *)&end->crc - blob->data);
}

/* Clears ids of the session and offsets of the node, which are not state of a process. */
static inline void blob_blank(struct blob_record *record)
{
	__u64 *payload = (__u64 *)(record + 1);

	if (record->type == BLOB_KFD_BO) {
		payload[0] = 0;
		payload[4] = 0;
	}
	if (record->type == BLOB_END)
		memset(payload, 0, record->size);
}

#endif /* AMDGPU_CRIU_TEST_BLOB_EDIT_H */
