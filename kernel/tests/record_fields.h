/* SPDX-License-Identifier: GPL-2.0 */
/* Names of the fields of the driver's records, for a host program. */
#ifndef RECORD_FIELDS_H_
#define RECORD_FIELDS_H_

#include <linux/types.h>

SHIM_C_BEGIN

struct record_field {
	const char *name;
	size_t offset;
	size_t size;
};

/* Returns the fields of a record type; the last has no name. NULL if the type has none. */
const struct record_field *record_fields(u16 type);

SHIM_C_END

#endif /* RECORD_FIELDS_H_ */
