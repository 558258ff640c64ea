/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_STRING_H_
#define SHIM_LINUX_STRING_H_

#include <string.h>

/* First byte that is not @value; NULL if there is none. */
static inline const void *memchr_inv(const void *data, int value, size_t size)
{
	const unsigned char *byte = (const unsigned char *)data;

	for (; size; byte++, size--)
		if (*byte != (unsigned char)value)
			return byte;
	return NULL;
}

#endif /* SHIM_LINUX_STRING_H_ */
