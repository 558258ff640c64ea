/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Codec of the state blob that checkpoint returns to user space and restore reads. It uses no
 * driver type, allocates no memory, and reads no global state: the same file is compiled into the
 * module, into host tests and into a fuzzer.
 *
 * header | IDENTITY | record | record | ... | END
 *
 * The offset and the size of every part are multiples of 8 bytes. A record consists of its header,
 * a fixed structure, and an optional tail of pieces (MQD bytes, attribute arrays). The fixed
 * structure contains the lengths of the pieces. Each piece is padded with zeros to a multiple of 8
 * bytes. Numbers are in the byte order of the CPU, little-endian for this driver.
 *
 * Growth: see "How the interface may grow" in criu.rst. The row of a type has a table of earlier
 * versions: a reader raises a record to the newest version, and a writer lowers it to the version
 * that its target reads.
 *
 * The checksum detects damage only. Anyone who writes a blob can also write a valid checksum, so a
 * reader checks all contents of a blob like any other user input.
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

#define CRIU_RECORD_FIXED_MAX 512 /* bytes of a fixed structure, lowered on the stack */

/* First bytes of a blob */
struct criu_blob_header {
	__u64 magic; /* CRIU_BLOB_MAGIC */
	__u32 format; /* CRIU_BLOB_FORMAT; changes only if old readers cannot walk the records */
	__u32 header_size; /* bytes of this structure in the writer's kernel */
	__u64 total_size; /* bytes of the whole blob */
	__u32 flags; /* 0; a reader refuses unknown flags */
	__u32 pad;
};

/* A reader that does not support the type may skip the record. */
#define CRIU_RECORD_MAY_SKIP BIT(0)

/* First bytes of a record */
struct criu_record_header {
	__u16 type; /* CRIU_RECORD_* or a type of the driver */
	__u16 version; /* version of the type that the writer used */
	__u32 flags; /* CRIU_RECORD_MAY_SKIP */
	__u32 fixed_size; /* bytes of the fixed structure in the writer's kernel */
	__u32 size; /* bytes of the payload: fixed structure and tail */
};

/* Record types of the codec. Those of a driver differ between its kinds of node. */
#define CRIU_RECORD_IDENTITY 1
#define CRIU_RECORD_DRIVER 0x10
#define CRIU_RECORD_END 0xffff

#define CRIU_DRIVER_NAME_SIZE 8

/* Source of the state; always the first record */
struct criu_record_identity {
	__u8 driver[CRIU_DRIVER_NAME_SIZE]; /* zero-padded, not terminated if it is full */
	__u32 node; /* kind of device node, a number that the driver defines */
	__u32 page_size; /* the writer's page size; sizes and offsets are multiples of it */
};

/* Always the last record */
struct criu_record_end {
	__u64 num_records; /* records in the blob, this one included */
	__u32 pad;
	__u32 crc; /* CRC-32C (seed ~0, not inverted at the end) of all bytes before this field */
};

/* criu_record_desc.flags */
#define CRIU_DESC_TAIL BIT(0) /* records of this type may have a tail */
#define CRIU_DESC_MAY_SKIP BIT(1) /* the writer marks them %CRIU_RECORD_MAY_SKIP */

/* An earlier version of a record type */
struct criu_record_older {
	__u32 size_min; /* bytes of the fixed structure when the version was released */
	__u32 size; /* bytes of its fixed structure in this kernel */
	/* Converts to the next version. Bytes beyond size are 0. NULL: it only has more fields */
	void (*raise)(void *fixed);
	/* Converts the next version to this one, if it can. NULL: bytes beyond size must be zero */
	bool (*lower)(void *fixed);
};

/* Description of a record type in this kernel */
struct criu_record_desc {
	__u16 type;
	__u16 version_min; /* oldest version that is read, or written if the target requires it */
	__u16 version_max; /* newest version that is read, and the default for writing */
	__u16 flags;
	__u32 size_min; /* bytes of the fixed structure when version_max was released */
	__u32 size_now; /* bytes of the fixed structure of version_max in this kernel */
	__u32 count_min; /* a blob with fewer records of the type is damaged */
	__u32 count_max; /* a blob with more is damaged; 0: only the limits of the blob */
	/* Versions from version_min up to, but not including, version_max */
	const struct criu_record_older *older;
	const char *name;
};

#define CRIU_RECORD_ROW(_type, _name, _struct, _last, _version, _older, _min, _max, _flags) \
	{ \
		.type = (_type), .version_min = 1, .version_max = (_version), .flags = (_flags), \
		.size_min = (offsetofend(_struct, _last) + 7) / 8 * 8, \
		.size_now = sizeof(_struct) + BUILD_BUG_ON_ZERO(sizeof(_struct) % 8) + \
			    BUILD_BUG_ON_ZERO(sizeof(_struct) > CRIU_RECORD_FIXED_MAX), \
		.count_min = (_min), .count_max = (_max), .older = (_older), .name = (_name), \
	}

/* @_last_v1: last field of the first release. @_min, @_max: number of records. 0: no limit. */
#define CRIU_RECORD(_type, _name, _struct, _last_v1, _min, _max, _flags) \
	CRIU_RECORD_ROW(_type, _name, _struct, _last_v1, 1, NULL, _min, _max, _flags)

/* The same with several versions. @_older: array of &struct criu_record_older, from 1 on. */
#define CRIU_RECORD_VERSIONS(_type, _name, _struct, _last, _older, _min, _max, _flags) \
	CRIU_RECORD_ROW(_type, _name, _struct, _last, \
			1 + sizeof(_older) / sizeof((_older)[0]), _older, _min, _max, _flags)

/* The first two rows of every table. */
#define CRIU_RECORD_IDENTITY_ROW \
	CRIU_RECORD(CRIU_RECORD_IDENTITY, "identity", struct criu_record_identity, page_size, \
		    1, 1, 0)
#define CRIU_RECORD_END_ROW \
	CRIU_RECORD(CRIU_RECORD_END, "end", struct criu_record_end, crc, 1, 1, 0)

struct criu_blob_schema {
	const char *driver; /* name of the driver, at most CRIU_DRIVER_NAME_SIZE characters */
	__u32 node; /* kind of device node */
	__u32 page_size; /* page size of this kernel */
	__u32 num_records; /* rows of records, at most CRIU_BLOB_TYPES_MAX */
	const struct criu_record_desc *records; /* begins with the rows of IDENTITY and END */
};

#define CRIU_BLOB_SCHEMA(_driver, _node, _records) \
	{ \
		.driver = (_driver), .node = (_node), .page_size = PAGE_SIZE, \
		.num_records = sizeof(_records) / sizeof((_records)[0]), .records = (_records), \
	}

const struct criu_record_desc *criu_schema_find(const struct criu_blob_schema *schema, __u16 type);

/* A record type that the target kernel supports */
struct criu_record_target {
	__u16 type;
	__u16 version_min; /* oldest version that the target reads */
	__u16 version_max; /* newest version that the target reads */
	__u16 size; /* bytes of the fixed structure of version_max in the target */
};

/* Why a blob was refused, for the log */
struct criu_blob_fault {
	size_t offset; /* position in the blob */
	__u16 type; /* type of the record at offset, 0 if there is none */
	__u16 version; /* version of the record */
	const char *reason; /* the reason, a string constant */
};

/* Writes a blob, or only counts its size. criu_writer_finish() returns the first error. */
struct criu_blob_writer {
	const struct criu_blob_schema *schema; /* record types */
	__u8 *buf; /* destination; NULL: only count */
	size_t room; /* bytes available at buf */
	size_t pos; /* bytes written, including those that exceed room */
	size_t record; /* offset of the header of the last record, to which tail pieces are added */
	const struct criu_record_desc *desc; /* row of the last record */
	__u64 num_records;
	int error; /* first error; sticky, returned by criu_writer_finish() */
	struct criu_blob_fault fault; /* the record that the target cannot read, if any */
	struct criu_writer_row { /* of each row of the schema's table */
		__u16 version; /* that is written; 0: the target reads none, and may skip them */
		__u16 size; /* bytes of the fixed structure that the target supports */
		__u32 count; /* records so far */
	} rows[CRIU_BLOB_TYPES_MAX];
};

void criu_writer_init(struct criu_blob_writer *writer, const struct criu_blob_schema *schema,
		      const struct criu_record_target *targets, __u32 num_targets,
		      void *buf, size_t room);
void criu_writer_record(struct criu_blob_writer *writer, __u16 type, const void *fixed);
void *criu_writer_tail(struct criu_blob_writer *writer, size_t size);
void criu_writer_tail_copy(struct criu_blob_writer *writer, const void *data, size_t size);
int criu_writer_finish(struct criu_blob_writer *writer, size_t *size);

/* A blob that passed criu_blob_open() */
struct criu_blob {
	const struct criu_blob_schema *schema; /* record types */
	const __u8 *buf; /* the blob, owned by the caller; it must not change while in use */
	size_t size;
	size_t begin; /* offset of the first record */
	__u32 counts[CRIU_BLOB_TYPES_MAX]; /* records of each row of the schema's table */
};

struct criu_record {
	const struct criu_record_desc *desc; /* its row in the table; NULL at the beginning */
	__u16 version; /* version, between the bounds of the row */
	const __u8 *fixed; /* as the writer wrote it; use criu_record_get() to read it */
	__u32 fixed_size;
	const __u8 *tail; /* pieces that criu_record_tail() has not yet returned */
	__u32 tail_size; /* bytes of them */
	size_t offset; /* offset of its header in the blob, for logs */
	size_t next; /* offset of the next record */
};

int criu_blob_open(struct criu_blob *blob, const struct criu_blob_schema *schema,
		   const void *buf, size_t size, struct criu_blob_fault *fault);
__u32 criu_blob_count(const struct criu_blob *blob, __u16 type);
bool criu_blob_next(const struct criu_blob *blob, struct criu_record *record);
bool criu_blob_next_of(const struct criu_blob *blob, __u16 type, struct criu_record *record);
void criu_record_get(const struct criu_record *record, void *fixed, size_t size);
const void *criu_record_tail(struct criu_record *record, __u64 size);

/* Part of an address space; or an id, whose size is 1 */
struct criu_range {
	__u64 start; /* first byte */
	__u64 size; /* bytes, not 0 */
	__u32 index; /* index of the caller */
};

int criu_ranges_check(struct criu_range *ranges, __u32 num, const struct criu_range **culprit);
const struct criu_range *criu_ranges_find(const struct criu_range *ranges, __u32 num, __u64 start,
					  __u64 size);

#endif /* _CRIU_BLOB_H_ */
