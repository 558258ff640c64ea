/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_STDDEF_H_
#define SHIM_LINUX_STDDEF_H_

#include_next <linux/stddef.h>

#include <stddef.h>

#define offsetofend(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

#endif /* SHIM_LINUX_STDDEF_H_ */
