/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before arch/um/kernel/stacktrace.c in the test kernel. User-mode Linux takes every word of a stack for a
 * possible return address, and looks it up among the modules under rcu_read_lock(). KASAN and kmemleak save a stack
 * for each allocation, which took four fifths of a run. Here the range of an address decides. Saved stacks follow the
 * frame pointers and stay the same; a printed one may have a few more lines with a question mark.
 */
#include <linux/kernel.h>
#include <linux/pgtable.h>
#include <asm/sections.h>

#define __kernel_text_address(addr)						\
	(((addr) >= (unsigned long)_stext && (addr) < (unsigned long)_etext) ||	\
	 ((addr) >= MODULES_VADDR && (addr) < MODULES_END))
