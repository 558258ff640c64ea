/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_SWAB_H_
#define SHIM_LINUX_SWAB_H_

#define swab64(value) __builtin_bswap64(value)

#endif /* SHIM_LINUX_SWAB_H_ */
