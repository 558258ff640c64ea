// SPDX-License-Identifier: GPL-2.0
/*
 * XXH3 for one instruction set, in functions of the name XXH3_NAME and XXH3_NAME_short. Compiled once
 * for each of them; checksum.cc chooses.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#define JOIN(a, b) a##b
#define NAME(name, suffix) JOIN(name, suffix)

void XXH3_NAME(const void *bytes, size_t size, unsigned char sum[16]);
void XXH3_NAME(const void *bytes, size_t size, unsigned char sum[16])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
	XXH_memcpy(sum, canonical.digest, sizeof(canonical.digest));
}

uint64_t NAME(XXH3_NAME, _short)(const void *bytes, size_t size);
uint64_t NAME(XXH3_NAME, _short)(const void *bytes, size_t size)
{
	return XXH3_64bits(bytes, size);
}
