/* SPDX-License-Identifier: GPL-2.0 */
/* CRC-32C as in the blob: seed ~0, not inverted. */
#ifndef AMDGPU_CRIU_TEST_CRC32C_H
#define AMDGPU_CRIU_TEST_CRC32C_H

#include <linux/types.h>
#include <stddef.h>

/* Eight bytes a step: tests compute the checksums of some 100,000 blobs. */
static inline const __u32 (*crc32c_tables(void))[256]
{
	static __u32 tables[8][256];

	if (tables[0][1])
		return (const __u32 (*)[256])tables;
	for (int i = 255; i >= 0; i--) {
		__u32 crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
		tables[0][i] = crc;
	}
	for (int i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xff];
	return (const __u32 (*)[256])tables;
}

static inline __u32 crc32c(const void *data, size_t size)
{
	const __u32 (*tables)[256] = crc32c_tables();
	const unsigned char *byte = data;
	__u32 crc = ~0u;

	for (; size >= 8; size -= 8, byte += 8) {
		__u32 low = (byte[0] | byte[1] << 8 | byte[2] << 16 | (__u32)byte[3] << 24) ^ crc;

		crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^
		      tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^ tables[3][byte[4]] ^
		      tables[2][byte[5]] ^ tables[1][byte[6]] ^ tables[0][byte[7]];
	}
	for (; size; size--)
		crc = crc >> 8 ^ tables[0][(crc ^ *byte++) & 0xff];
	return crc;
}

#endif /* AMDGPU_CRIU_TEST_CRC32C_H */
