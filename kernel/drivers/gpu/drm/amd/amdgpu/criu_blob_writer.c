// SPDX-License-Identifier: GPL-2.0 OR MIT
#include <linux/align.h>
#include <linux/crc32.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/string.h>

#include "criu_blob.h"

/* Reserves @size bytes and their padding. NULL: do not write (size pass, or no room). */
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

/* Returns the version to write; 0 if the target reads no version that this kernel can write. */
static __u16 criu_writer_choose(const struct criu_blob_writer *writer,
				const struct criu_record_desc *desc)
{
	const struct criu_record_target *target;
	__u16 version;

	if (!writer->targets)
		return desc->version_max;
	target = criu_target_find(writer->targets, writer->num_targets, desc->type);
	if (!target)
		return 0;
	version = min(desc->version_max, target->version_max);
	return version < desc->version_min || version < target->version_min ? 0 : version;
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
		if (size > older->size && !criu_all_zero(fixed + older->size, size - older->size))
			return 0;
		size = older->size;
	}
	return size;
}

static void criu_writer_put_record(struct criu_blob_writer *writer,
				   const struct criu_record_desc *desc, __u16 version,
				   const void *newest)
{
	struct criu_record_header header = {
		.type = desc->type,
		.version = version,
		.flags = desc->flags & CRIU_DESC_MAY_SKIP ? CRIU_RECORD_MAY_SKIP : 0,
	};
	const struct criu_record_target *target =
		criu_target_find(writer->targets, writer->num_targets, desc->type);
	__u64 fixed[CRIU_RECORD_FIXED_MAX / sizeof(__u64)];
	__u32 size;

	memcpy(fixed, newest, desc->size_now);
	size = criu_writer_lower(desc, version, (__u8 *)fixed);
	header.fixed_size = size;
	header.size = size;
	/* A field that the target does not support may not be set. */
	if (!size || (target && target->version_max == version && size > target->size &&
		      !criu_all_zero((__u8 *)fixed + target->size, size - target->size))) {
		criu_writer_refuse(writer, desc->type, version,
				   "the target kernel cannot represent it");
		return;
	}
	criu_writer_put(writer, &header, sizeof(header));
	criu_writer_put(writer, fixed, size);
}

static void criu_writer_emit(struct criu_blob_writer *writer, __u16 type, const void *fixed)
{
	const struct criu_record_desc *desc = criu_schema_find(writer->schema, type);
	__u16 version;
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
	version = criu_writer_choose(writer, desc);
	writer->record = writer->pos;
	writer->desc = desc;
	writer->left_out = !version && desc->flags & CRIU_DESC_MAY_SKIP;
	writer->counts[row]++;
	if (writer->left_out)
		return;
	if (!version) {
		criu_writer_refuse(writer, type, desc->version_max,
				   "the target reads no version of it");
		return;
	}
	writer->num_records++;
	criu_writer_put_record(writer, desc, version, fixed);
}

/*
 * Begins a blob for a reader that may be older. @writer: output. @targets: the types that the
 * reader supports, without duplicates; must outlive the writer. NULL: as this kernel. @buf:
 * destination, aligned to 8 bytes; NULL: only count. Records are written in the newest version
 * that both kernels support. A record that the reader does not support and may skip is omitted. If
 * the reader cannot represent a record, criu_writer_finish() fails with -EOPNOTSUPP, and
 * criu_blob_writer.fault contains the reason.
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
	writer->targets = targets;
	writer->num_targets = num_targets;
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

void criu_writer_record(struct criu_blob_writer *writer, __u16 type, const void *fixed)
{
	if (type < CRIU_RECORD_DRIVER || type == CRIU_RECORD_END)
		writer->error = writer->error ?: -EINVAL;
	else
		criu_writer_emit(writer, type, fixed);
}

/*
 * Adds a piece to the tail of the last record. Returns @size zero bytes, or NULL if there is
 * nothing to fill in (size pass, no room, @size is 0, the record is omitted, or an earlier error).
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
	if (writer->left_out)
		return NULL;
	piece = criu_writer_take(writer, size);
	if (!piece || !size)
		return NULL;
	memcpy(&header, writer->buf + writer->record, sizeof(header));
	header.size += writer->pos - before;
	memcpy(writer->buf + writer->record, &header, sizeof(header));
	return piece;
}

void criu_writer_tail_copy(struct criu_blob_writer *writer, const void *data, size_t size)
{
	void *to = criu_writer_tail(writer, size);

	if (to)
		memcpy(to, data, size);
}

/*
 * Ends a blob. @size: output, bytes of the blob; in case of -ENOSPC, bytes that it needs. Returns
 * 0; -ENOSPC if there is too little room; -EOPNOTSUPP if the blob exceeds a limit, or if the
 * target cannot represent it; -EINVAL for a record that does not match the schema.
 */
int criu_writer_finish(struct criu_blob_writer *writer, size_t *size)
{
	size_t total_at = offsetof(struct criu_blob_header, total_size);
	struct criu_record_end end = {};
	size_t crc_at;
	__u64 total;

	end.num_records = writer->num_records + 1;
	crc_at = writer->pos + sizeof(struct criu_record_header) +
		 offsetof(struct criu_record_end, crc);
	criu_writer_emit(writer, CRIU_RECORD_END, &end);
	if (writer->error)
		return writer->error;
	for (__u32 i = 0; i < writer->schema->num_records; i++)
		if (writer->counts[i] < writer->schema->records[i].count_min)
			return -EINVAL;
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
