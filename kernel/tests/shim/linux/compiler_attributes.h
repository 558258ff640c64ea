/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_COMPILER_ATTRIBUTES_H_
#define SHIM_LINUX_COMPILER_ATTRIBUTES_H_

#define __printf(format, arguments) __attribute__((__format__(printf, format, arguments)))

#endif /* SHIM_LINUX_COMPILER_ATTRIBUTES_H_ */
