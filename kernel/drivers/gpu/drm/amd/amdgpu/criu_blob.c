// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/align.h>
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/swab.h>

#include "criu_blob.h"

const struct criu_record_desc *criu_schema_find(const struct criu_blob_schema *schema, __u16 type)
{
	for (__u32 i = 0; i < schema->num_records; i++)
		if (schema->records[i].type == type)
			return &schema->records[i];
	return NULL;
}

/* Sizes and the checksum are checked first, so -EOPNOTSUPP means an undamaged blob. */
static int criu_fault(struct criu_blob_fault *fault, int error, const char *reason)
{
	fault->reason = reason;
	return error;
}

static int criu_check_header(const struct criu_blob *blob, struct criu_blob_header *header,
			     struct criu_blob_fault *fault)
{
	if (blob->size < sizeof(*header) || blob->size > CRIU_BLOB_SIZE_MAX)
		return criu_fault(fault, -EBADMSG, "size of blob out of bounds");
	memcpy(header, blob->buf, sizeof(*header));
	if (header->magic == swab64(CRIU_BLOB_MAGIC))
		return criu_fault(fault, -EOPNOTSUPP, "other byte order");
	if (header->magic != CRIU_BLOB_MAGIC)
		return criu_fault(fault, -EBADMSG, "bad magic");
	if (header->format > CRIU_BLOB_FORMAT)
		return criu_fault(fault, -EOPNOTSUPP, "newer format");
	if (!header->format)
		return criu_fault(fault, -EBADMSG, "bad format");
	if (header->total_size != blob->size || blob->size % CRIU_BLOB_ALIGN)
		return criu_fault(fault, -EBADMSG, "not the size in the header");
	if (header->header_size < sizeof(*header) || header->header_size > blob->size ||
	    header->header_size % CRIU_BLOB_ALIGN)
		return criu_fault(fault, -EBADMSG, "bad size of header");
	return 0;
}

/* Reads the header of the record at @at, which a fault is in from now on. */
static int criu_record_at(const struct criu_blob *blob, size_t at,
			  struct criu_record_header *header, struct criu_blob_fault *fault)
{
	const size_t left = blob->size - at;

	*fault = (struct criu_blob_fault) { .offset = at };
	if (!left)
		return criu_fault(fault, -EBADMSG, "no end record");
	if (left < sizeof(*header))
		return criu_fault(fault, -EBADMSG, "cut off in the header of a record");
	memcpy(header, blob->buf + at, sizeof(*header));
	fault->type = header->type;
	fault->version = header->version;
	if (header->size > left - sizeof(*header))
		return criu_fault(fault, -EBADMSG, "cut off in a record");
	if (header->fixed_size > header->size || header->size % CRIU_BLOB_ALIGN ||
	    header->fixed_size % CRIU_BLOB_ALIGN)
		return criu_fault(fault, -EBADMSG, "bad size of record");
	return 0;
}

/* First walk: checks sizes only, finds END, and checks END against the rest of the blob. */
static int criu_check_frame(const struct criu_blob *blob, struct criu_blob_fault *fault)
{
	size_t crc_at = sizeof(struct criu_record_header) + offsetof(struct criu_record_end, crc);
	struct criu_record_header header = {};
	size_t begin, at = blob->begin;
	struct criu_record_end end;
	__u64 num = 0;
	int ret;

	do {
		begin = at;
		ret = criu_record_at(blob, at, &header, fault);
		if (ret)
			return ret;
		if (!num && header.type != CRIU_RECORD_IDENTITY)
			return criu_fault(fault, -EBADMSG, "identity is not the first record");
		if (++num > CRIU_BLOB_RECORDS_MAX)
			return criu_fault(fault, -EBADMSG, "too many records");
		at += sizeof(header) + header.size;
	} while (header.type != CRIU_RECORD_END);
	if (at != blob->size)
		return criu_fault(fault, -EBADMSG, "bytes after the end record");
	if (header.fixed_size < sizeof(end))
		return criu_fault(fault, -EBADMSG, "record too short");
	memcpy(&end, blob->buf + begin + sizeof(header), sizeof(end));
	if (end.crc != crc32c(~0U, blob->buf, begin + crc_at))
		return criu_fault(fault, -EBADMSG, "wrong checksum");
	if (end.num_records != num || end.pad)
		return criu_fault(fault, -EBADMSG, "wrong number of records");
	return 0;
}

/* Finds a version between the row's bounds; NULL for the newest, which the row itself describes. */
static const struct criu_record_older *criu_older(const struct criu_record_desc *desc,
						  __u16 version)
{
	return version < desc->version_max ? &desc->older[version - desc->version_min] : NULL;
}

/* Returns NULL if the record can be read, otherwise the reason why not. */
static const char *criu_record_unreadable(const struct criu_record_desc *desc,
					  const struct criu_record_header *header,
					  const __u8 *fixed)
{
	__u32 known;

	if (!desc)
		return "unknown type of record";
	if (header->version < desc->version_min)
		return "version of record no longer known";
	if (header->version > desc->version_max)
		return "newer version of record";
	known = criu_older(desc, header->version) ? criu_older(desc, header->version)->size :
						    desc->size_now;
	if (header->fixed_size > known && memchr_inv(fixed + known, 0, header->fixed_size - known))
		return "record has a field that is not known";
	return NULL;
}

static int criu_check_record(struct criu_blob *blob, size_t at,
			     const struct criu_record_header *header, struct criu_blob_fault *fault)
{
	const struct criu_record_desc *desc = criu_schema_find(blob->schema, header->type);
	const __u8 *fixed = blob->buf + at + sizeof(*header);
	bool codec = header->type < CRIU_RECORD_DRIVER || header->type == CRIU_RECORD_END;
	const struct criu_record_older *older;
	const char *reason;
	__u32 *count;

	if (!header->version)
		return criu_fault(fault, -EBADMSG, "version 0");
	if (header->flags & ~CRIU_RECORD_MAY_SKIP)
		return criu_fault(fault, -EOPNOTSUPP, "unknown flag of record");
	if (codec && header->flags)
		return criu_fault(fault, -EBADMSG, "must not be skipped");
	reason = criu_record_unreadable(desc, header, fixed);
	if (reason && header->flags & CRIU_RECORD_MAY_SKIP)
		return 0;
	if (reason)
		return criu_fault(fault, -EOPNOTSUPP, reason);
	older = criu_older(desc, header->version);
	if (header->fixed_size < (older ? older->size_min : desc->size_min))
		return criu_fault(fault, -EBADMSG, "record too short");
	if (header->size > header->fixed_size && !(desc->flags & CRIU_DESC_TAIL))
		return criu_fault(fault, -EBADMSG, "record has a tail");
	count = &blob->counts[desc - blob->schema->records];
	if (desc->count_max && *count == desc->count_max)
		return criu_fault(fault, -EBADMSG, "too many of the type");
	(*count)++;
	return 0;
}

static int criu_check_counts(const struct criu_blob *blob, struct criu_blob_fault *fault)
{
	for (__u32 i = 0; i < blob->schema->num_records; i++) {
		const struct criu_record_desc *desc = &blob->schema->records[i];

		if (blob->counts[i] >= desc->count_min)
			continue;
		*fault = (struct criu_blob_fault) { .offset = blob->size, .type = desc->type };
		return criu_fault(fault, -EBADMSG, "too few of the type");
	}
	return 0;
}

static int criu_check_identity(const struct criu_blob *blob, struct criu_blob_fault *fault)
{
	const struct criu_blob_schema *schema = blob->schema;
	struct criu_record record = {};
	struct criu_record_identity identity, mine = {};

	criu_blob_next(blob, &record);
	criu_record_get(&record, &identity, sizeof(identity));
	memcpy(mine.driver, schema->driver, min(strlen(schema->driver), sizeof(mine.driver)));
	*fault = (struct criu_blob_fault) {
		.offset = record.offset, .type = CRIU_RECORD_IDENTITY,
	};
	if (memcmp(identity.driver, mine.driver, sizeof(mine.driver)))
		return criu_fault(fault, -EOPNOTSUPP, "of another driver");
	if (identity.node != schema->node)
		return criu_fault(fault, -EOPNOTSUPP, "of another kind of node");
	if (identity.page_size != schema->page_size)
		return criu_fault(fault, -EOPNOTSUPP, "of another page size");
	fault->type = 0;
	return 0;
}

/*
 * Checks a blob from user space. @buf: aligned to 8 bytes; the caller keeps ownership. @fault:
 * position and reason of an error. After success, every record that criu_blob_next() returns has a
 * supported type and version, is complete, and is within the limits of its row. The caller must
 * check the fields. Returns 0; -EBADMSG for a damaged blob; -EOPNOTSUPP for an undamaged one that
 * this kernel cannot read.
 */
int criu_blob_open(struct criu_blob *blob, const struct criu_blob_schema *schema,
		   const void *buf, size_t size, struct criu_blob_fault *fault)
{
	struct criu_record_header record = {};
	struct criu_blob_header header;
	size_t at;
	int ret;

	memset(blob, 0, sizeof(*blob));
	memset(fault, 0, sizeof(*fault));
	blob->schema = schema;
	blob->buf = buf;
	blob->size = size;
	ret = criu_check_header(blob, &header, fault);
	if (ret)
		return ret;
	blob->begin = header.header_size;
	ret = criu_check_frame(blob, fault);
	if (ret)
		return ret;
	*fault = (struct criu_blob_fault) {};
	if (header.flags || header.pad ||
	    memchr_inv(blob->buf + sizeof(header), 0, header.header_size - sizeof(header)))
		return criu_fault(fault, -EOPNOTSUPP, "unknown flag or field in the header");

	for (at = blob->begin; !ret && at < size; at += sizeof(record) + record.size)
		ret = criu_record_at(blob, at, &record, fault) ?:
		      criu_check_record(blob, at, &record, fault);
	return ret ?: criu_check_counts(blob, fault) ?: criu_check_identity(blob, fault);
}

__u32 criu_blob_count(const struct criu_blob *blob, __u16 type)
{
	const struct criu_record_desc *desc = criu_schema_find(blob->schema, type);

	return desc ? blob->counts[desc - blob->schema->records] : 0;
}

/* Goes to the next record that this kernel can read; to the first if @record is all zero. */
bool criu_blob_next(const struct criu_blob *blob, struct criu_record *record)
{
	struct criu_record_header header;
	const __u8 *fixed;
	size_t at;

	for (at = record->next ?: blob->begin; at < blob->size;
	     at += sizeof(header) + header.size) {
		memcpy(&header, blob->buf + at, sizeof(header));
		fixed = blob->buf + at + sizeof(header);
		record->desc = criu_schema_find(blob->schema, header.type);
		if (criu_record_unreadable(record->desc, &header, fixed))
			continue;
		record->version = header.version;
		record->fixed = fixed;
		record->fixed_size = header.fixed_size;
		record->tail = fixed + header.fixed_size;
		record->tail_size = header.size - header.fixed_size;
		record->offset = at;
		record->next = at + sizeof(header) + header.size;
		return true;
	}
	return false;
}

bool criu_blob_next_of(const struct criu_blob *blob, __u16 type, struct criu_record *record)
{
	while (criu_blob_next(blob, record))
		if (record->desc->type == type)
			return true;
	return false;
}

/* Reads the fixed structure in the newest version. Fields that the writer did not have are zero. */
void criu_record_get(const struct criu_record *record, void *fixed, size_t size)
{
	const struct criu_record_older *older = criu_older(record->desc, record->version);
	size_t known = min_t(size_t, older ? older->size : size, record->fixed_size);
	__u16 version = record->version;

	memcpy(fixed, record->fixed, known);
	memset(fixed + known, 0, size - known);
	for (; older; older = criu_older(record->desc, ++version))
		if (older->raise)
			older->raise(fixed);
}

/* @size is not trusted. Returns NULL if the tail is shorter, or its padding is not zero. */
const void *criu_record_tail(struct criu_record *record, __u64 size)
{
	const __u8 *piece = record->tail;
	__u32 padded;

	if (size > record->tail_size)
		return NULL;
	/* The result cannot exceed tail_size, which is a multiple of the alignment. */
	padded = ALIGN(size, CRIU_BLOB_ALIGN);
	if (memchr_inv(piece + size, 0, padded - size))
		return NULL;
	record->tail += padded;
	record->tail_size -= padded;
	return piece;
}
