// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that follow each other: the kernel has macros for that where it counts
 * who allocates what.
 */
#include <linux/gfp.h>

void *kofi_alloc_pages(size_t len);
void kofi_free_pages(void *start, size_t len);

void *kofi_alloc_pages(size_t len)
{
	return alloc_pages_exact(len, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
}

void kofi_free_pages(void *start, size_t len)
{
	free_pages_exact(start, len);
}
