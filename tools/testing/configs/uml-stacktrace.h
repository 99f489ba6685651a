/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before arch/um/kernel/stacktrace.c in the test kernel. User-mode Linux takes every word of a stack for a
 * possible return address, and looks it up among the modules under rcu_read_lock(). KASAN and kmemleak save a stack
 * for each allocation, which took four fifths of a run. Here the range of an address decides, and a stack that is saved
 * is not searched: only the return addresses of frames are saved, and the frame pointers lead to them. Saved stacks
 * stay the same; a printed one may have a few more lines with a question mark.
 */
#include <linux/kernel.h>
#include <linux/pgtable.h>
#include <linux/sched.h>
#include <asm/sections.h>

/* Defined in stacktrace.c: saves an address if it is the return address of a frame. */
static void save_addr(void *data, unsigned long address, int reliable);

static inline bool is_text(unsigned long addr)
{
	return (addr >= (unsigned long)_stext && addr < (unsigned long)_etext) ||
		(addr >= MODULES_VADDR && addr < MODULES_END);
}

/*
 * Returns where the return address of a frame is, or the last word of the stack if there is no frame between the
 * stack pointer and the end of the stack.
 */
static inline unsigned long *return_slot(unsigned long *sp, unsigned long frame)
{
	unsigned long end = (unsigned long)sp | (THREAD_SIZE - sizeof(long));
	unsigned long slot = frame + sizeof(long);

	if (slot < (unsigned long)sp || slot > end || slot % sizeof(long))
		slot = end;
	return (unsigned long *)slot;
}

/*
 * Stands in the loop of dump_trace() over the words of a stack, whose variables it changes: where a stack is saved, the
 * loop goes on at the return address of the frame bp.
 */
#define __kernel_text_address(addr) ({				\
	if (ops->address == save_addr) {			\
		sp = return_slot(sp, bp);			\
		addr = READ_ONCE_NOCHECK(*sp);			\
	}							\
	is_text(addr);						\
})
