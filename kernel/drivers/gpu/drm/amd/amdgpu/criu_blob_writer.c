// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/align.h>
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/overflow.h>
#include <linux/string.h>

#include "criu_blob.h"

/* Takes room for @size bytes and their padding. NULL: do not write, in size pass or too small. */
static void *criu_writer_take(struct criu_blob_writer *writer, size_t size)
{
	size_t at = writer->pos;
	size_t padded, end;

	if (size > CRIU_BLOB_SIZE_MAX) {
		writer->error = -EOPNOTSUPP;
		return NULL;
	}
	padded = ALIGN(size, CRIU_BLOB_ALIGN);
	if (check_add_overflow(at, padded, &end) || end > CRIU_BLOB_SIZE_MAX) {
		writer->error = -EOPNOTSUPP;
		return NULL;
	}
	writer->pos = end;
	if (!writer->buf || end > writer->room)
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

static void criu_writer_emit(struct criu_blob_writer *writer, __u16 type, const void *fixed)
{
	const struct criu_record_desc *desc = criu_schema_find(writer->schema, type);
	struct criu_record_header header = {};
	__u32 row;

	if (writer->error)
		return;
	if (!desc) {
		writer->error = -EINVAL;
		return;
	}
	row = desc - writer->schema->records;
	if ((desc->count_max && writer->counts[row] == desc->count_max) ||
	    writer->num_records == CRIU_BLOB_RECORDS_MAX) {
		writer->error = -EOPNOTSUPP;
		return;
	}
	header.type = type;
	header.version = desc->version_max;
	header.flags = desc->flags & CRIU_DESC_MAY_SKIP ? CRIU_RECORD_MAY_SKIP : 0;
	header.fixed_size = desc->size_now;
	header.size = desc->size_now;
	writer->record = writer->pos;
	writer->desc = desc;
	criu_writer_put(writer, &header, sizeof(header));
	criu_writer_put(writer, fixed, desc->size_now);
	writer->counts[row]++;
	writer->num_records++;
}

/**
 * criu_writer_init() - begin a blob
 * @writer: to be filled
 * @schema: record types
 * @buf: where to write, aligned to 8 bytes; NULL: only count
 * @room: bytes at @buf
 */
void criu_writer_init(struct criu_blob_writer *writer, const struct criu_blob_schema *schema,
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
	    strlen(schema->driver) > sizeof(identity.driver))
		writer->error = -EINVAL;
	else
		memcpy(identity.driver, schema->driver, strlen(schema->driver));
	criu_writer_put(writer, &header, sizeof(header));
	criu_writer_emit(writer, CRIU_RECORD_IDENTITY, &identity);
}

/**
 * criu_writer_record() - write a record
 * @writer: of the blob
 * @type: a type of the driver
 * @fixed: its structure, criu_record_desc.size_now bytes, pads zero
 */
void criu_writer_record(struct criu_blob_writer *writer, __u16 type, const void *fixed)
{
	if (type < CRIU_RECORD_DRIVER || type == CRIU_RECORD_END)
		writer->error = writer->error ?: -EINVAL;
	else
		criu_writer_emit(writer, type, fixed);
}

/**
 * criu_writer_tail() - add a piece to the tail of the last record
 * @writer: of the blob
 * @size: bytes
 *
 * Return: where the caller fills in @size bytes, now zero; NULL if nothing is to
 * be filled in (size pass, no room, @size 0, or an error before).
 */
void *criu_writer_tail(struct criu_blob_writer *writer, size_t size)
{
	struct criu_record_header header;
	size_t before = writer->pos;
	void *piece;

	if (writer->error)
		return NULL;
	if (!writer->desc || !(writer->desc->flags & CRIU_DESC_TAIL)) {
		writer->error = -EINVAL;
		return NULL;
	}
	piece = criu_writer_take(writer, size);
	if (!piece || !size)
		return NULL;
	memcpy(&header, writer->buf + writer->record, sizeof(header));
	header.size += writer->pos - before;
	memcpy(writer->buf + writer->record, &header, sizeof(header));
	return piece;
}

/**
 * criu_writer_tail_copy() - add a piece that is at hand
 * @writer: of the blob
 * @data: the piece
 * @size: bytes at @data
 */
void criu_writer_tail_copy(struct criu_blob_writer *writer, const void *data, size_t size)
{
	void *to = criu_writer_tail(writer, size);

	if (to)
		memcpy(to, data, size);
}

static int criu_writer_check_counts(const struct criu_blob_writer *writer)
{
	__u32 i;

	for (i = 0; i < writer->schema->num_records; i++)
		if (writer->counts[i] < writer->schema->records[i].count_min)
			return -EINVAL;
	return 0;
}

/**
 * criu_writer_finish() - end a blob
 * @writer: of the blob
 * @size: out, bytes of the blob; in case of -ENOSPC, bytes that it needs
 *
 * Return: 0; -ENOSPC if there was too little room; -EOPNOTSUPP if the blob is
 * beyond a limit; -EINVAL for a record that does not fit the schema.
 */
int criu_writer_finish(struct criu_blob_writer *writer, size_t *size)
{
	size_t total_at = offsetof(struct criu_blob_header, total_size);
	struct criu_record_end end = {};
	size_t crc_at;
	__u64 total;
	int ret;

	end.num_records = writer->num_records + 1;
	crc_at = writer->pos + sizeof(struct criu_record_header) +
		 offsetof(struct criu_record_end, crc);
	criu_writer_emit(writer, CRIU_RECORD_END, &end);
	ret = writer->error ?: criu_writer_check_counts(writer);
	if (ret)
		return ret;
	*size = writer->pos;
	if (!writer->buf)
		return 0;
	if (writer->pos > writer->room)
		return -ENOSPC;
	total = writer->pos;
	memcpy(writer->buf + total_at, &total, sizeof(total));
	end.crc = crc32c(~0U, writer->buf, crc_at);
	memcpy(writer->buf + crc_at, &end.crc, sizeof(end.crc));
	return 0;
}
