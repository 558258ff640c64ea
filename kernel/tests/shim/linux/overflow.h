/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_OVERFLOW_H_
#define SHIM_LINUX_OVERFLOW_H_

#define check_add_overflow(a, b, result) __builtin_add_overflow(a, b, result)

#endif /* SHIM_LINUX_OVERFLOW_H_ */
