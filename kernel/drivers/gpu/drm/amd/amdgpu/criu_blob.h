/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Codec of the state blob that checkpoint returns to user space and restore reads. It uses
 * no driver type, allocates no memory, and reads no global state: the same file is
 * compiled into the module, into host tests and into a fuzzer.
 *
 *   header | IDENTITY | record | record | ... | END
 *
 * The offset and the size of every part are multiples of 8 bytes. A record consists of its
 * header, a fixed structure, and an optional tail of pieces (MQD bytes, attribute arrays).
 * The fixed structure contains the lengths of the pieces. Each piece is padded with zeros
 * to a multiple of 8 bytes.
 *
 * Growth: a fixed structure gets new fields at its end only, and zero in them means "as
 * before". A reader sets fields that an older writer did not have to zero, and refuses
 * nonzero fields of a newer writer that it does not support. A change that an older reader
 * must not ignore, and that a new field cannot represent, needs a new version. The row of
 * a type has a table of earlier versions: a reader raises a record to the newest version,
 * and a writer lowers it to the version that its target reads.
 *
 * Numbers are in the byte order of the CPU, which is little-endian on all systems that
 * this driver supports. A reader detects a blob in the other byte order by its magic.
 *
 * The checksum detects damage only. Anyone who writes a blob can also write a valid
 * checksum, so a reader checks all contents of a blob like any other user input.
 */
#ifndef _CRIU_BLOB_H_
#define _CRIU_BLOB_H_

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/sizes.h>
#include <linux/stddef.h>
#include <linux/types.h>

/* The bytes in memory are "CRIUBLOB". */
#define CRIU_BLOB_MAGIC 0x424f4c4255495243ULL
#define CRIU_BLOB_FORMAT 1
#define CRIU_BLOB_ALIGN 8

/* Limits against malicious writers, far above the needs of a real process. */
#define CRIU_BLOB_SIZE_MAX SZ_256M
#define CRIU_BLOB_RECORDS_MAX SZ_4M
#define CRIU_BLOB_TYPES_MAX 64

/* Maximum bytes of a fixed structure, which is lowered on the stack. */
#define CRIU_RECORD_FIXED_MAX 512

/**
 * struct criu_blob_header - first bytes of a blob
 * @magic: %CRIU_BLOB_MAGIC
 * @format: %CRIU_BLOB_FORMAT; changes only if old readers cannot walk the records
 * @header_size: bytes of this structure in the writer's kernel
 * @total_size: bytes of the whole blob
 * @flags: 0; a reader refuses unknown flags
 * @pad: 0
 */
struct criu_blob_header {
	__u64 magic;
	__u32 format;
	__u32 header_size;
	__u64 total_size;
	__u32 flags;
	__u32 pad;
};

/* A reader that does not support the type may skip the record. */
#define CRIU_RECORD_MAY_SKIP BIT(0)

/**
 * struct criu_record_header - first bytes of a record
 * @type: CRIU_RECORD_* or a type of the driver
 * @version: version of the type that the writer used
 * @flags: %CRIU_RECORD_MAY_SKIP
 * @fixed_size: bytes of the fixed structure in the writer's kernel
 * @size: bytes of the payload: fixed structure and tail
 */
struct criu_record_header {
	__u16 type;
	__u16 version;
	__u32 flags;
	__u32 fixed_size;
	__u32 size;
};

/*
 * Record types of the codec. Types of drivers begin at CRIU_RECORD_DRIVER. Each kind of
 * node has its own types, so that the type alone identifies a record.
 */
#define CRIU_RECORD_IDENTITY 1
#define CRIU_RECORD_DRIVER 0x10
#define CRIU_RECORD_END 0xffff

/* Bytes of a driver's name in a blob, zero-padded. */
#define CRIU_DRIVER_NAME_SIZE 8

/**
 * struct criu_record_identity - source of the state; always the first record
 * @driver: name of the driver, zero-padded, not terminated if it fills the field
 * @node: kind of device node, a number that the driver defines
 * @page_size: the writer's page size; sizes and offsets are multiples of it
 */
struct criu_record_identity {
	__u8 driver[CRIU_DRIVER_NAME_SIZE];
	__u32 node;
	__u32 page_size;
};

/**
 * struct criu_record_end - always the last record
 * @num_records: records in the blob, this one included
 * @pad: 0
 * @crc: CRC-32C (seed ~0, not inverted at the end) of all bytes before this field
 */
struct criu_record_end {
	__u64 num_records;
	__u32 pad;
	__u32 crc;
};

/* criu_record_desc.flags: records of this type may have a tail. */
#define CRIU_DESC_TAIL BIT(0)
/* criu_record_desc.flags: the writer marks records of this type %CRIU_RECORD_MAY_SKIP. */
#define CRIU_DESC_MAY_SKIP BIT(1)

/**
 * struct criu_record_older - an earlier version of a record type
 * @size_min: bytes of the fixed structure when the version was released
 * @size: bytes of its fixed structure in this kernel
 * @raise: converts this version to the next one. The bytes from @size to
 *	criu_record_desc.size_now are zero. NULL: the next version only has more fields
 * @lower: converts the next version to this one; false if this version cannot represent
 *	the next one. NULL: this version only has fewer fields, and the bytes beyond
 *	@size must be zero
 */
struct criu_record_older {
	__u32 size_min;
	__u32 size;
	void (*raise)(void *fixed);
	bool (*lower)(void *fixed);
};

/**
 * struct criu_record_desc - description of a record type in this kernel
 * @type: type number
 * @version_min: oldest version that is read, or written if the target requires it
 * @version_max: newest version that is read, and the default for writing
 * @flags: CRIU_DESC_*
 * @size_min: bytes of the fixed structure when @version_max was released; a smaller one
 *	is damaged
 * @size_now: bytes of the fixed structure of @version_max in this kernel
 * @count_min: a blob with fewer records of the type is damaged
 * @count_max: a blob with more is damaged; 0: no limit except the limits of the blob
 * @older: versions from @version_min up to, but not including, @version_max
 * @name: for logs
 */
struct criu_record_desc {
	__u16 type;
	__u16 version_min;
	__u16 version_max;
	__u16 flags;
	__u32 size_min;
	__u32 size_now;
	__u32 count_min;
	__u32 count_max;
	const struct criu_record_older *older;
	const char *name;
};

#define CRIU_RECORD_FIXED_FIELDS(_struct, _last) \
	.size_min = (offsetofend(_struct, _last) + 7) / 8 * 8, \
	.size_now = sizeof(_struct) + BUILD_BUG_ON_ZERO(sizeof(_struct) % 8) + \
		    BUILD_BUG_ON_ZERO(sizeof(_struct) > CRIU_RECORD_FIXED_MAX)

/**
 * CRIU_RECORD() - initializer of a &struct criu_record_desc with one version
 * @_type: type number
 * @_name: for logs
 * @_struct: the fixed structure
 * @_last_v1: last field of its first released version
 * @_version: 1
 * @_min: least number of such records
 * @_max: greatest number, or 0
 * @_flags: CRIU_DESC_*
 */
#define CRIU_RECORD(_type, _name, _struct, _last_v1, _version, _min, _max, _flags) \
	{ \
		.type = (_type), .version_min = 1, \
		.version_max = 1 + BUILD_BUG_ON_ZERO((_version) != 1), .flags = (_flags), \
		CRIU_RECORD_FIXED_FIELDS(_struct, _last_v1), \
		.count_min = (_min), .count_max = (_max), .older = NULL, .name = (_name), \
	}

/**
 * CRIU_RECORD_VERSIONS() - initializer of a &struct criu_record_desc with several versions
 * @_type: type number
 * @_name: for logs
 * @_struct: the fixed structure of the newest version
 * @_last: last field when that version was released
 * @_older: array of &struct criu_record_older, from version 1 on
 * @_min: least number of such records
 * @_max: greatest number, or 0
 * @_flags: CRIU_DESC_*
 */
#define CRIU_RECORD_VERSIONS(_type, _name, _struct, _last, _older, _min, _max, _flags) \
	{ \
		.type = (_type), .version_min = 1, \
		.version_max = 1 + sizeof(_older) / sizeof((_older)[0]), .flags = (_flags), \
		CRIU_RECORD_FIXED_FIELDS(_struct, _last), \
		.count_min = (_min), .count_max = (_max), .older = (_older), .name = (_name), \
	}

/* The first two rows of every table. */
#define CRIU_RECORD_IDENTITY_ROW \
	CRIU_RECORD(CRIU_RECORD_IDENTITY, "identity", struct criu_record_identity, page_size, \
		    1, 1, 1, 0)
#define CRIU_RECORD_END_ROW \
	CRIU_RECORD(CRIU_RECORD_END, "end", struct criu_record_end, crc, 1, 1, 1, 0)

/**
 * struct criu_blob_schema - the record types of one kind of node
 * @driver: name of the driver, at most %CRIU_DRIVER_NAME_SIZE characters
 * @node: kind of device node
 * @page_size: page size of this kernel
 * @num_records: rows of @records, at most %CRIU_BLOB_TYPES_MAX
 * @records: the table, which begins with %CRIU_RECORD_IDENTITY_ROW and
 *	%CRIU_RECORD_END_ROW
 */
struct criu_blob_schema {
	const char *driver;
	__u32 node;
	__u32 page_size;
	__u32 num_records;
	const struct criu_record_desc *records;
};

const struct criu_record_desc *criu_schema_find(const struct criu_blob_schema *schema,
						__u16 type);
const struct criu_record_target *criu_target_find(const struct criu_record_target *targets,
						  __u32 num, __u16 type);

/**
 * struct criu_record_target - a record type that the target kernel supports
 * @type: type number
 * @version_min: oldest version that the target reads
 * @version_max: newest version that the target reads
 * @size: bytes of the fixed structure of @version_max in the target
 */
struct criu_record_target {
	__u16 type;
	__u16 version_min;
	__u16 version_max;
	__u16 size;
};

/**
 * struct criu_blob_fault - why a blob was refused, for the log
 * @offset: position in the blob
 * @type: type of the record at @offset, 0 if there is none
 * @version: version of the record
 * @reason: the reason, a string constant
 */
struct criu_blob_fault {
	size_t offset;
	__u16 type;
	__u16 version;
	const char *reason;
};

/**
 * struct criu_blob_writer - writes a blob, or only counts its size
 * @schema: record types
 * @targets: record types that the reader supports; NULL: as this kernel
 * @num_targets: entries at @targets
 * @buf: destination; NULL: only count
 * @room: bytes available at @buf
 * @pos: bytes written, including those that exceed @room
 * @record: offset of the header of the last record, to which tail pieces are added
 * @desc: row of the last record
 * @left_out: the last record is omitted, because the target does not support it and may
 *	skip it
 * @num_records: records so far
 * @error: first error; sticky, returned by criu_writer_finish()
 * @fault: the record that the target cannot read, if any, and the reason
 * @counts: records of each row of the schema's table
 *
 * The size pass and the write pass make the same calls. Errors are sticky, so a caller
 * checks only the result of criu_writer_finish().
 */
struct criu_blob_writer {
	const struct criu_blob_schema *schema;
	const struct criu_record_target *targets;
	__u32 num_targets;
	__u8 *buf;
	size_t room;
	size_t pos;
	size_t record;
	const struct criu_record_desc *desc;
	bool left_out;
	__u64 num_records;
	int error;
	struct criu_blob_fault fault;
	__u32 counts[CRIU_BLOB_TYPES_MAX];
};

void criu_writer_init(struct criu_blob_writer *writer, const struct criu_blob_schema *schema,
		      void *buf, size_t room);
void criu_writer_init_for(struct criu_blob_writer *writer, const struct criu_blob_schema *schema,
			  const struct criu_record_target *targets, __u32 num_targets,
			  void *buf, size_t room);
__u16 criu_writer_version(const struct criu_blob_writer *writer, __u16 type);
void criu_writer_record(struct criu_blob_writer *writer, __u16 type, const void *fixed);
void *criu_writer_tail(struct criu_blob_writer *writer, size_t size);
void criu_writer_tail_copy(struct criu_blob_writer *writer, const void *data, size_t size);
int criu_writer_finish(struct criu_blob_writer *writer, size_t *size);

/**
 * struct criu_blob - a blob that passed criu_blob_open()
 * @schema: record types
 * @buf: the blob, owned by the caller; it must not change while in use
 * @size: bytes at @buf
 * @begin: offset of the first record
 * @counts: records of each row of the schema's table
 */
struct criu_blob {
	const struct criu_blob_schema *schema;
	const __u8 *buf;
	size_t size;
	size_t begin;
	__u32 counts[CRIU_BLOB_TYPES_MAX];
};

/**
 * struct criu_record - a record of an open blob
 * @desc: its row in the table; NULL before the first criu_blob_next()
 * @version: version, between the bounds of the row
 * @fixed: fixed structure as the writer wrote it; use criu_record_get() to read it
 * @fixed_size: bytes at @fixed
 * @tail: pieces that criu_record_tail() has not yet returned
 * @tail_size: bytes at @tail
 * @offset: offset of its header in the blob, for logs
 * @next: offset of the next record
 */
struct criu_record {
	const struct criu_record_desc *desc;
	__u16 version;
	const __u8 *fixed;
	__u32 fixed_size;
	const __u8 *tail;
	__u32 tail_size;
	size_t offset;
	size_t next;
};

int criu_blob_open(struct criu_blob *blob, const struct criu_blob_schema *schema,
		   const void *buf, size_t size, struct criu_blob_fault *fault);
__u32 criu_blob_count(const struct criu_blob *blob, __u16 type);
bool criu_blob_next(const struct criu_blob *blob, struct criu_record *record);
bool criu_blob_next_of(const struct criu_blob *blob, __u16 type, struct criu_record *record);
void criu_record_get(const struct criu_record *record, void *fixed, size_t size);
void criu_blob_get_all(const struct criu_blob *blob, __u16 type, void *entries, size_t stride,
		       size_t size);
const void *criu_record_tail(struct criu_record *record, __u64 size);
int criu_record_tail_end(const struct criu_record *record);

bool criu_all_zero(const void *data, size_t size);

#endif /* _CRIU_BLOB_H_ */
