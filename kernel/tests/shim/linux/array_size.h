/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_ARRAY_SIZE_H_
#define SHIM_LINUX_ARRAY_SIZE_H_

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif /* SHIM_LINUX_ARRAY_SIZE_H_ */
