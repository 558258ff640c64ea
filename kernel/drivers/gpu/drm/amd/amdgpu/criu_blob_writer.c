// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/align.h>
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "criu_blob.h"

/* Reserves @size bytes and their padding. NULL: do not write (size pass, or no room). */
static void *criu_writer_take(struct criu_blob_writer *writer, size_t size)
{
	const size_t at = writer->pos, padded = ALIGN(size, CRIU_BLOB_ALIGN);

	/* The position never exceeds the limit. ALIGN() may wrap around. */
	if (size > CRIU_BLOB_SIZE_MAX || padded > CRIU_BLOB_SIZE_MAX - at) {
		writer->error = -EOPNOTSUPP;
		return NULL;
	}
	writer->pos += padded;
	if (!writer->buf || writer->pos > writer->room)
		return NULL;
	memset(writer->buf + at, 0, padded);
	return writer->buf + at;
}

static void criu_writer_put(struct criu_blob_writer *writer, const void *data, size_t size)
{
	void *to = criu_writer_take(writer, size);

	if (to)
		memcpy(to, data, size);
}

/* Selects the version in which records of a type are written for the target. */
static void criu_writer_select(struct criu_blob_writer *writer,
			       const struct criu_record_target *target)
{
	const struct criu_record_desc *desc = criu_schema_find(writer->schema, target->type);
	__u16 version = desc ? min(desc->version_max, target->version_max) : 0;
	struct criu_writer_row *row;

	if (!desc || version < desc->version_min || version < target->version_min)
		return;
	row = &writer->rows[desc - writer->schema->records];
	row->version = version;
	if (version == target->version_max)
		row->size = target->size;
}

static void criu_writer_refuse(struct criu_blob_writer *writer, __u16 type, __u16 version,
			       const char *reason)
{
	writer->error = -EOPNOTSUPP;
	writer->fault = (struct criu_blob_fault) {
		.offset = writer->pos, .type = type, .version = version, .reason = reason,
	};
}

/* Converts the newest version to @version. Returns its bytes; 0 if it cannot represent all. */
static __u32 criu_writer_lower(const struct criu_record_desc *desc, __u16 version, __u8 *fixed)
{
	__u32 size = desc->size_now;
	__u16 now;

	for (now = desc->version_max; now > version; now--) {
		const struct criu_record_older *older =
			&desc->older[now - 1 - desc->version_min];

		if (older->lower && !older->lower(fixed))
			return 0;
		if (size > older->size && memchr_inv(fixed + older->size, 0, size - older->size))
			return 0;
		size = older->size;
	}
	return size;
}

static void criu_writer_put_record(struct criu_blob_writer *writer,
				   const struct criu_record_desc *desc,
				   const struct criu_writer_row *row, const void *newest)
{
	struct criu_record_header header = {
		.type = desc->type,
		.version = row->version,
		.flags = desc->flags & CRIU_DESC_MAY_SKIP ? CRIU_RECORD_MAY_SKIP : 0,
	};
	__u64 words[CRIU_RECORD_FIXED_MAX / sizeof(__u64)];
	__u8 *fixed = (__u8 *)words;

	memcpy(fixed, newest, desc->size_now);
	header.fixed_size = criu_writer_lower(desc, row->version, fixed);
	header.size = header.fixed_size;
	/* A field that the target does not support may not be set. */
	if (!header.size || (header.size > row->size &&
			     memchr_inv(fixed + row->size, 0, header.size - row->size))) {
		criu_writer_refuse(writer, desc->type, row->version,
				   "the target kernel cannot represent it");
		return;
	}
	criu_writer_put(writer, &header, sizeof(header));
	criu_writer_put(writer, fixed, header.size);
}

static void criu_writer_emit(struct criu_blob_writer *writer, __u16 type, const void *fixed)
{
	const struct criu_record_desc *desc = criu_schema_find(writer->schema, type);
	struct criu_writer_row *row;

	if (writer->error)
		return;
	if (!desc) {
		writer->error = -EINVAL;
		return;
	}
	row = &writer->rows[desc - writer->schema->records];
	if ((desc->count_max && row->count == desc->count_max) ||
	    writer->num_records == CRIU_BLOB_RECORDS_MAX) {
		writer->error = -EOPNOTSUPP;
		return;
	}
	row->count++;
	writer->record = writer->pos;
	writer->desc = desc;
	if (!row->version && desc->flags & CRIU_DESC_MAY_SKIP)
		return;
	if (!row->version) {
		criu_writer_refuse(writer, type, desc->version_max,
				   "the target reads no version of it");
		return;
	}
	writer->num_records++;
	criu_writer_put_record(writer, desc, row, fixed);
}

/*
 * Begins a blob for a reader that may be older. @targets: the types that it supports, without
 * duplicates; NULL: as this kernel. @buf: aligned to 8 bytes; NULL: only count. Records are written
 * in the newest version that both kernels support. One that the reader does not support and may
 * skip is omitted. If the reader cannot represent a record, criu_writer_finish() fails with
 * -EOPNOTSUPP, and criu_blob_writer.fault contains the reason.
 */
void criu_writer_init(struct criu_blob_writer *writer, const struct criu_blob_schema *schema,
		      const struct criu_record_target *targets, __u32 num_targets,
		      void *buf, size_t room)
{
	struct criu_blob_header header = {
		.magic = CRIU_BLOB_MAGIC,
		.format = CRIU_BLOB_FORMAT,
		.header_size = sizeof(header),
	};
	struct criu_record_identity identity = {
		.node = schema->node,
		.page_size = schema->page_size,
	};

	memset(writer, 0, sizeof(*writer));
	writer->schema = schema;
	writer->buf = buf;
	writer->room = room;
	if (schema->num_records > CRIU_BLOB_TYPES_MAX ||
	    strlen(schema->driver) > sizeof(identity.driver)) {
		writer->error = -EINVAL;
		return;
	}
	memcpy(identity.driver, schema->driver, strlen(schema->driver));
	for (__u32 i = 0; i < schema->num_records; i++) {
		writer->rows[i].version = targets ? 0 : schema->records[i].version_max;
		writer->rows[i].size = CRIU_RECORD_FIXED_MAX;
	}
	for (__u32 i = 0; targets && i < num_targets; i++)
		criu_writer_select(writer, &targets[i]);
	criu_writer_put(writer, &header, sizeof(header));
	criu_writer_emit(writer, CRIU_RECORD_IDENTITY, &identity);
}

void criu_writer_record(struct criu_blob_writer *writer, __u16 type, const void *fixed)
{
	if (type < CRIU_RECORD_DRIVER || type == CRIU_RECORD_END)
		writer->error = writer->error ?: -EINVAL;
	else
		criu_writer_emit(writer, type, fixed);
}

/* Adds zeros to the tail of the last record. Returns NULL if there is nothing to fill in. */
void *criu_writer_tail(struct criu_blob_writer *writer, size_t size)
{
	struct criu_record_header *header;
	size_t before = writer->pos;
	void *piece;

	if (writer->error)
		return NULL;
	if (!writer->desc || !(writer->desc->flags & CRIU_DESC_TAIL)) {
		writer->error = -EINVAL;
		return NULL;
	}
	if (!writer->rows[writer->desc - writer->schema->records].version)
		return NULL;
	piece = criu_writer_take(writer, size);
	if (!piece || !size)
		return NULL;
	header = (void *)(writer->buf + writer->record);
	header->size += writer->pos - before;
	return piece;
}

void criu_writer_tail_copy(struct criu_blob_writer *writer, const void *data, size_t size)
{
	void *to = criu_writer_tail(writer, size);

	if (to)
		memcpy(to, data, size);
}

/*
 * Ends a blob. @size: bytes that it has or needs. Returns 0; -ENOSPC if there is too little room;
 * -EOPNOTSUPP if it exceeds a limit, or if the target cannot represent it; -EINVAL for a record
 * that does not match the schema.
 */
int criu_writer_finish(struct criu_blob_writer *writer, size_t *size)
{
	const size_t crc_at = writer->pos + sizeof(struct criu_record_header) +
			      offsetof(struct criu_record_end, crc);
	struct criu_record_end end = { .num_records = writer->num_records + 1 };

	criu_writer_emit(writer, CRIU_RECORD_END, &end);
	if (writer->error)
		return writer->error;
	for (__u32 i = 0; i < writer->schema->num_records; i++)
		if (writer->rows[i].count < writer->schema->records[i].count_min)
			return -EINVAL;
	*size = writer->pos;
	if (!writer->buf)
		return 0;
	if (writer->pos > writer->room)
		return -ENOSPC;
	((struct criu_blob_header *)writer->buf)->total_size = writer->pos;
	end.crc = crc32c(~0U, writer->buf, crc_at);
	memcpy(writer->buf + crc_at, &end.crc, sizeof(end.crc));
	return 0;
}
