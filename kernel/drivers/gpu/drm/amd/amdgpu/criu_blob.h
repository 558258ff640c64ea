/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Codec of the state blob that checkpoint hands to user space and restore takes
 * back. Knows no driver type, allocates nothing, and reads no global state: the
 * same file is compiled into the module, into host tests and into a fuzzer.
 *
 *   header | IDENTITY | record | record | ... | END
 *
 * Every part begins at a multiple of 8 bytes and has a multiple of 8 bytes. A
 * record is its header, then a fixed structure, then an optional tail of pieces
 * (MQD bytes, attribute arrays) whose lengths the fixed structure tells; each
 * piece is padded with zeros to a multiple of 8.
 *
 * Growth: a fixed structure gets fields at its end only, and zero in them means
 * "as before". A reader fills what an older writer did not know with zeros, and
 * refuses what a newer writer set beyond its own knowledge. What an older reader
 * must not ignore, and yet cannot be told by a field, gets a new version. A type's
 * row has a table of the versions before: a reader raises a record to the newest
 * one, and a writer lowers it to the one that its target reads.
 *
 * Numbers are in the byte order of the CPU, which is little-endian wherever this
 * driver runs; a blob of the other order is recognised by its magic.
 *
 * The checksum finds damage, not malice: whoever writes a blob can write a right
 * checksum too, so everything in a blob is checked as any other user input is.
 */
#ifndef _CRIU_BLOB_H_
#define _CRIU_BLOB_H_

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/sizes.h>
#include <linux/stddef.h>
#include <linux/types.h>

/* "CRIUBLOB" as the bytes stand in memory. */
#define CRIU_BLOB_MAGIC 0x424f4c4255495243ULL
#define CRIU_BLOB_FORMAT 1
#define CRIU_BLOB_ALIGN 8

/* Limits against a hostile writer, far above what a real process needs. */
#define CRIU_BLOB_SIZE_MAX SZ_256M
#define CRIU_BLOB_RECORDS_MAX SZ_4M
#define CRIU_BLOB_TYPES_MAX 64

/* Bytes that a fixed structure may have; it is lowered on the stack. */
#define CRIU_RECORD_FIXED_MAX 512

/**
 * struct criu_blob_header - first bytes of a blob
 * @magic: %CRIU_BLOB_MAGIC
 * @format: %CRIU_BLOB_FORMAT; changes only when old readers cannot even walk it
 * @header_size: bytes of this structure as the writer knew it
 * @total_size: bytes of the whole blob
 * @flags: 0; a reader refuses what it does not know
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

/* A reader that does not know the type may pass over the record. */
#define CRIU_RECORD_MAY_SKIP BIT(0)

/**
 * struct criu_record_header - first bytes of a record
 * @type: CRIU_RECORD_* or a type of the driver
 * @version: version of the type that the writer used
 * @flags: %CRIU_RECORD_MAY_SKIP
 * @fixed_size: bytes of the fixed structure as the writer knew it
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
 * Types of the codec itself. Drivers take theirs from CRIU_RECORD_DRIVER on, each
 * kind of node its own, so that a record tells by itself what it is.
 */
#define CRIU_RECORD_IDENTITY 1
#define CRIU_RECORD_DRIVER 0x10
#define CRIU_RECORD_END 0xffff

/* Bytes of a driver's name in a blob, zero-padded. */
#define CRIU_DRIVER_NAME_SIZE 8

/**
 * struct criu_record_identity - whose state this is; always the first record
 * @driver: name of the driver, zero-padded, not terminated if it fills the field
 * @node: kind of device node, a number of the driver's
 * @page_size: the writer's page size: sizes and offsets are multiples of it
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
 * @crc: CRC-32C (seed ~0, not inverted at the end) of every byte before this field
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
 * struct criu_record_older - a version of a record type that has a successor
 * @size_min: bytes of the fixed structure when the version was released
 * @size: bytes that this kernel knows of it
 * @raise: makes the next version of it. Beyond @size there are zeros, up to
 *	criu_record_desc.size_now. NULL: the next one only has more fields
 * @lower: makes this version of the next one; false if this one cannot tell what
 *	the next one says. NULL: this one only has fewer fields. What is then beyond
 *	@size must be zero, or it could not be told either
 */
struct criu_record_older {
	__u32 size_min;
	__u32 size;
	void (*raise)(void *fixed);
	bool (*lower)(void *fixed);
};

/**
 * struct criu_record_desc - what this kernel knows of one record type
 * @type: type number
 * @version_min: oldest version read, and written for a target that wants it
 * @version_max: newest version read, and the one written
 * @flags: CRIU_DESC_*
 * @size_min: bytes of the fixed structure when @version_max was released: less is
 *	damage
 * @size_now: bytes of the fixed structure of @version_max in this kernel
 * @count_min: a blob with fewer records of the type is damaged
 * @count_max: a blob with more is damaged; 0: no limit but the blob's own
 * @older: versions from @version_min on, without @version_max
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
 * @_last_v1: last field that its first released version had
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
 * CRIU_RECORD_VERSIONS() - initializer of a &struct criu_record_desc with several
 * @_type: type number
 * @_name: for logs
 * @_struct: the fixed structure of the newest version
 * @_last: last field that it had when that version was released
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
 * @page_size: of this kernel
 * @num_records: rows of @records, at most %CRIU_BLOB_TYPES_MAX
 * @records: the table; begins with %CRIU_RECORD_IDENTITY_ROW and
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
 * struct criu_record_target - what the kernel that will read a blob knows of one type
 * @type: type number
 * @version_min: oldest version that it reads
 * @version_max: newest version that it reads
 * @size: bytes of the fixed structure of @version_max that it knows
 */
struct criu_record_target {
	__u16 type;
	__u16 version_min;
	__u16 version_max;
	__u16 size;
};

/**
 * struct criu_blob_fault - why a blob was refused, for the log
 * @offset: where in the blob
 * @type: type of the record there, 0 if in none
 * @version: its version
 * @reason: what is wrong, a string constant
 */
struct criu_blob_fault {
	size_t offset;
	__u16 type;
	__u16 version;
	const char *reason;
};

/**
 * struct criu_blob_writer - writes a blob, or only adds up its size
 * @schema: record types
 * @targets: what the reader knows; NULL: as much as this kernel
 * @num_targets: entries at @targets
 * @buf: where to write; NULL: only count
 * @room: bytes at @buf
 * @pos: bytes written, or that would have been if there were room
 * @record: offset of the header of the last record: tail pieces belong to it
 * @desc: row of the last record
 * @left_out: the last record is one that the target does not know and need not
 * @num_records: records so far
 * @error: first error; sticky, told by criu_writer_finish()
 * @fault: in case of a record that the target cannot read: which, and why
 * @counts: records of each row of the schema's table
 *
 * The size pass and the write pass are the same calls. Errors are sticky, so a
 * caller checks once, at criu_writer_finish().
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
 * @buf: the blob; owned by the caller, must not change while in use
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
 * @version: between the row's bounds
 * @fixed: fixed structure as the writer knew it: read it by criu_record_get()
 * @fixed_size: bytes at @fixed
 * @tail: pieces not yet taken by criu_record_tail()
 * @tail_size: bytes at @tail
 * @offset: of its header in the blob, for logs
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
