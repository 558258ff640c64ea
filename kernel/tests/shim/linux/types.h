/* SPDX-License-Identifier: GPL-2.0 */
/* Kernel headers that the codec includes, for a host program: this one and its neighbours. */
#ifndef SHIM_LINUX_TYPES_H_
#define SHIM_LINUX_TYPES_H_

#include_next <linux/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#ifdef __cplusplus
#define SHIM_C_BEGIN extern "C" {
#define SHIM_C_END }
#else
#define SHIM_C_BEGIN
#define SHIM_C_END
#endif

#endif /* SHIM_LINUX_TYPES_H_ */
