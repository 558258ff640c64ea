/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Interfaces of later kernels that checkpoint and restore uses, in terms of those of
 * this one. The Makefile includes this ahead of each of its files, so that they are
 * the same on every kernel.
 */
#ifndef _CRIU_COMPAT_H_
#define _CRIU_COMPAT_H_

#include <linux/crc32.h>

#define crc32c(_crc, _data, _size) __crc32c_le(_crc, (const u8 *)(_data), _size)

#endif /* _CRIU_COMPAT_H_ */
