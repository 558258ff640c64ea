/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_ALIGN_H_
#define SHIM_LINUX_ALIGN_H_

#define ALIGN(value, to) (((value) + ((__typeof__(value))(to) - 1)) & ~((__typeof__(value))(to) - 1))

#endif /* SHIM_LINUX_ALIGN_H_ */
