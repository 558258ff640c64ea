/* SPDX-License-Identifier: GPL-2.0 */
/* CRC-32C as the blob has it: seed ~0, not inverted. */
#ifndef AMDGPU_CRIU_TEST_CRC32C_H
#define AMDGPU_CRIU_TEST_CRC32C_H

#include <linux/types.h>
#include <stddef.h>

static inline __u32 crc32c(const void *data, size_t size)
{
	const unsigned char *byte = data;
	__u32 crc = ~0u;

	for (; size; size--) {
		crc ^= *byte++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

#endif /* AMDGPU_CRIU_TEST_CRC32C_H */
