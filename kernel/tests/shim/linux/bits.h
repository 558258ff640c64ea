/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_BITS_H_
#define SHIM_LINUX_BITS_H_

#define BIT(bit) (1UL << (bit))
#define BIT_ULL(bit) (1ULL << (bit))
#define GENMASK_ULL(high, low) (~0ULL >> (63 - (high)) & ~0ULL << (low))
#define BITS_PER_TYPE(type) (sizeof(type) * 8)

#endif /* SHIM_LINUX_BITS_H_ */
