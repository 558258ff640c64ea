/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_ASM_PAGE_H_
#define SHIM_ASM_PAGE_H_

/* The page size of the machines that made the golden blobs. */
#define PAGE_SIZE 4096

#endif /* SHIM_ASM_PAGE_H_ */
