/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_SIZES_H_
#define SHIM_LINUX_SIZES_H_

#define SZ_4M 0x00400000
#define SZ_256M 0x10000000

#endif /* SHIM_LINUX_SIZES_H_ */
