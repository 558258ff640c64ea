/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_BITS_H_
#define SHIM_LINUX_BITS_H_

#define BIT(bit) (1UL << (bit))

#endif /* SHIM_LINUX_BITS_H_ */
