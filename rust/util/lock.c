// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of spin_lock_irqsave() and its variants, which are macros that store
 * the previous interrupt state in a variable of the caller.
 */
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

unsigned long kofi_lock(spinlock_t *lock);
bool kofi_try_lock(spinlock_t *lock, unsigned long *flags);
void kofi_unlock(spinlock_t *lock, unsigned long flags);
void kofi_pin_cpu(void);
void kofi_unpin_cpu(void);

unsigned long kofi_lock(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

bool kofi_try_lock(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void kofi_unlock(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

/*
 * Keeps the running thread on its CPU: without preemption, except on PREEMPT_RT,
 * where it may take spinlocks, which sleep there.
 */
void kofi_pin_cpu(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		migrate_disable();
	else
		preempt_disable();
}

void kofi_unpin_cpu(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		migrate_enable();
	else
		preempt_enable();
}
