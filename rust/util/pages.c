// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of alloc_pages_exact(), which is a macro for the sake of memory
 * allocation profiling, and of free_pages_exact().
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
