/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHIM_LINUX_SORT_H_
#define SHIM_LINUX_SORT_H_

#include <stdlib.h>

typedef void (*swap_func_t)(void *a, void *b, int size);

/* The kernel's accepts a null array of no entries, qsort() formally does not. */
static inline void sort_nonatomic(void *base, size_t num, size_t size,
				  int (*cmp)(const void *, const void *), swap_func_t swap)
{
	(void)swap;
	if (num > 1)
		qsort(base, num, size, cmp);
}

#endif /* SHIM_LINUX_SORT_H_ */
