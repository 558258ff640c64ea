/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_BUILD_BUG_H_
#define SHIM_LINUX_BUILD_BUG_H_

/* 0, or an array of negative size. */
#define BUILD_BUG_ON_ZERO(condition) (sizeof(char[1 - 2 * !!(condition)]) - 1)

#endif /* SHIM_LINUX_BUILD_BUG_H_ */
