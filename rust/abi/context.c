// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel offers as macros only: the state of the running context,
 * and threads.
 */
#include <linux/kthread.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/workqueue.h>

bool kofi_may_sleep(void);
bool kofi_should_stop(void);
void kofi_warn_atomic(void);
void kofi_flush_handlers(void);
struct task_struct *kofi_thread_run(int (*run)(void *), void *body,
				    const char *name);
void kofi_thread_stop(struct task_struct *task);

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

/* The reference lets the thread be stopped even when it has ended by itself. */
struct task_struct *kofi_thread_run(int (*run)(void *), void *body,
				    const char *name)
{
	struct task_struct *task = kthread_create(run, body, "%s", name);

	if (!IS_ERR(task)) {
		get_task_struct(task);
		wake_up_process(task);
	}
	return task;
}

void kofi_thread_stop(struct task_struct *task)
{
	kthread_stop_put(task);
}

/*
 * Handlers run on the system's queue for long work. The module's text may not
 * go before they have left it, and Rust has no way yet to wait for that.
 */
void kofi_flush_handlers(void)
{
	__flush_workqueue(system_long_wq);
}
