// SPDX-License-Identifier: GPL-2.0
#include <linux/crc32.h>

/* Castagnoli polynomial, bits reversed. */
#define POLYNOMIAL 0x82f63b78u

static uint32_t table[256];

static void __attribute__((constructor)) fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[i] = crc;
	}
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *byte = data;

	for (; size; byte++, size--)
		crc = crc >> 8 ^ table[(crc ^ *byte) & 0xff];
	return crc;
}
