/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_CRC32_H_
#define SHIM_LINUX_CRC32_H_

#include <linux/types.h>

SHIM_C_BEGIN

/* CRC-32C as in lib/crc: the caller passes the seed, and nothing is inverted. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

SHIM_C_END

#endif /* SHIM_LINUX_CRC32_H_ */
