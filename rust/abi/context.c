// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel offers as macros only: the state of the running context.
 */
#include <linux/kthread.h>
#include <linux/preempt.h>
#include <linux/sched.h>

bool kofi_may_sleep(void);
bool kofi_should_stop(void);
void kofi_warn_atomic(void);

bool kofi_may_sleep(void)
{
	return !in_atomic() && !irqs_disabled();
}

bool kofi_should_stop(void)
{
	return (current->flags & PF_KTHREAD) && kthread_should_stop();
}

void kofi_warn_atomic(void)
{
	WARN_ONCE(1, "kofi: a blocking call in atomic context\n");
}
