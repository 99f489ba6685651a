// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of alloc_pages_exact(), which is a macro for the sake of memory
 * allocation profiling, of free_pages_exact(), page_address() and totalram_pages().
 */
#include <linux/gfp.h>
#include <linux/mm.h>

void *kofi_alloc_pages(size_t len);
void kofi_free_pages(void *start, size_t len);
void *kofi_address_of_page(const void *page);
size_t kofi_total_ram(void);

void *kofi_alloc_pages(size_t len)
{
	return alloc_pages_exact(len, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
}

void kofi_free_pages(void *start, size_t len)
{
	free_pages_exact(start, len);
}

void *kofi_address_of_page(const void *page)
{
	return page_address(page);
}

/* Returns the memory of the machine in bytes. */
size_t kofi_total_ram(void)
{
	return totalram_pages() << PAGE_SHIFT;
}
