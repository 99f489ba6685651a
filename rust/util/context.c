// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of macros and inline functions of the kernel: the execution context,
 * threads, wait queues, and the workqueues of handlers.
 */
#include <linux/atomic.h>
#include <linux/capability.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/nsproxy.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>

bool kofi_may_sleep(void);
bool kofi_has_interrupts(void);
bool kofi_should_stop(void);
bool kofi_may_administer(void);
bool kofi_get_module(struct module *module);
struct module *kofi_get_this_module(void);
void kofi_put_module(struct module *module);
bool kofi_is_within(const struct module *module, unsigned long address);
const char *kofi_name_of_module(struct module *module);
/* Defined in callback.rs. */
void kofi_module_going(struct module *module);
struct net *kofi_current_net(void);
void kofi_get_net(struct net *net);
pid_t kofi_current_task(char *name, size_t len);
void kofi_put_net(struct net *net);
void kofi_warn_atomic(void);
long kofi_sleep(struct wait_queue_head *queue, const s64 *count, s64 seen,
		long timeout);
void kofi_wake(struct wait_queue_head *queue);
extern struct workqueue_struct *kofi_cq_wq;
int kofi_handlers_start(void);
void kofi_handlers_end(void);
extern struct workqueue_struct *kofi_close_wq;
void kofi_defer_module_unload(void);
unsigned int kofi_noio_save(void);
void kofi_noio_restore(unsigned int flags);
struct task_struct *kofi_thread_run(int (*run)(void *), void *body,
				    const char *name);
void kofi_thread_stop(struct task_struct *task);

bool kofi_may_sleep(void)
{
	return !in_atomic() && !irqs_disabled() && !rcu_preempt_depth();
}

bool kofi_has_interrupts(void)
{
	return !irqs_disabled();
}

bool kofi_should_stop(void)
{
	return (current->flags & PF_KTHREAD) && kthread_should_stop();
}

bool kofi_may_administer(void)
{
	return capable(CAP_NET_ADMIN);
}

bool kofi_get_module(struct module *module)
{
	return try_module_get(module);
}

struct module *kofi_get_this_module(void)
{
	__module_get(THIS_MODULE);
	return THIS_MODULE;
}

void kofi_put_module(struct module *module)
{
	module_put(module);
}

bool kofi_is_within(const struct module *module, unsigned long address)
{
	return within_module(address, module);
}

const char *kofi_name_of_module(struct module *module)
{
	return module_name(module);
}

/* Takes a reference on the network namespace of the current task, which is in a system call. */
struct net *kofi_current_net(void)
{
	return get_net(current->nsproxy->net_ns);
}

void kofi_get_net(struct net *net)
{
	get_net(net);
}

/* Copies the name of the running task, padded with zeroes, and returns its process ID. */
pid_t kofi_current_task(char *name, size_t len)
{
	strscpy_pad(name, current->comm, len);
	return task_tgid_nr(current);
}

void kofi_put_net(struct net *net)
{
	put_net(net);
}

unsigned int kofi_noio_save(void)
{
	return memalloc_noio_save();
}

void kofi_noio_restore(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

void kofi_warn_atomic(void)
{
	WARN_ONCE(1, "kofi: a blocking call in atomic context\n");
}

static bool kofi_wait_is_over(const s64 *count, s64 seen)
{
	/* Acquire: accesses made before the count changed are visible. */
	return smp_load_acquire(count) != seen || kofi_should_stop();
}

/*
 * Sleeps until the count differs from seen, or the kthread should stop;
 * returns as wait_event_interruptible_timeout(), 0 after the timeout.
 */
long kofi_sleep(struct wait_queue_head *queue, const s64 *count, s64 seen,
		long timeout)
{
	might_sleep();
	/* The caller has just read the count: it is read again in the queue only. */
	return __wait_event_interruptible_timeout(
		*queue, kofi_wait_is_over(count, seen), timeout);
}

void kofi_wake(struct wait_queue_head *queue)
{
	/* The caller has changed the count, with a full barrier after it. */
	if (waitqueue_active(queue))
		wake_up_all(queue);
}

/* Starts a thread. The caller gets a reference, with which it can stop a thread that has ended by itself. */
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
 * Workqueue for handlers of completion queues that may sleep. It has a rescuer
 * (WQ_MEM_RECLAIM), as reclaim can depend on a handler that completes a disk write.
 */
struct workqueue_struct *kofi_cq_wq;

/*
 * Workqueue for objects that were dropped in atomic context. Without a rescuer:
 * their close waits for workqueues of the RDMA core that have none either.
 */
struct workqueue_struct *kofi_close_wq;

/* Number of calls of kofi_defer_module_unload(). */
static atomic_t kofi_deferred_ends;
/* Number of these calls when kofi_await_deferred_ends() last flushed the workqueues. */
static int kofi_awaited_ends;
static DEFINE_MUTEX(kofi_await_lock);

/*
 * Makes the unloading of a module flush the workqueues. Called after a work item that
 * ends calls into a consumer has been queued, or from within the last of these calls.
 */
void kofi_defer_module_unload(void)
{
	atomic_inc(&kofi_deferred_ends);
}

/*
 * Waits for the running calls of handlers that have dropped their own handle, and for
 * work items that end the calls of a handle that was dropped in atomic context. Repeats
 * this while such a call has dropped the handle of another handler.
 */
static void kofi_await_deferred_ends(void)
{
	int seen;

	mutex_lock(&kofi_await_lock);
	__flush_workqueue(kofi_close_wq);
	while ((seen = atomic_read(&kofi_deferred_ends)) != kofi_awaited_ends) {
		kofi_awaited_ends = seen;
		__flush_workqueue(kofi_close_wq);
		__flush_workqueue(kofi_cq_wq);
		__flush_workqueue(system_long_wq);
	}
	mutex_unlock(&kofi_await_lock);
}

/*
 * Ends all calls into a module whose exit function has returned and whose memory
 * is freed next: when this returns, no code of the module is running here.
 */
static int kofi_module_changes(struct notifier_block *self, unsigned long state,
			       void *module)
{
	if (state != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	kofi_await_deferred_ends();
	kofi_module_going(module);
	kofi_await_deferred_ends();
	return NOTIFY_DONE;
}

static struct notifier_block kofi_modules = {
	.notifier_call = kofi_module_changes,
};

int kofi_handlers_start(void)
{
	int err = -ENOMEM;

	kofi_cq_wq = alloc_workqueue("kofi-cq", WQ_HIGHPRI | WQ_MEM_RECLAIM |
				     WQ_PERCPU, 0);
	if (!kofi_cq_wq)
		return err;
	kofi_close_wq = alloc_workqueue("kofi-close", WQ_UNBOUND, 0);
	if (!kofi_close_wq)
		goto no_close;
	err = register_module_notifier(&kofi_modules);
	if (err)
		goto no_modules;
	return 0;

no_modules:
	destroy_workqueue(kofi_close_wq);
no_close:
	destroy_workqueue(kofi_cq_wq);
	return err;
}

/*
 * Destroys the workqueues. Other work of the module, for example handlers of
 * event queues, runs on system_long_wq: it must end before the module's text is
 * freed, and Rust cannot flush that queue yet.
 */
void kofi_handlers_end(void)
{
	unregister_module_notifier(&kofi_modules);
	destroy_workqueue(kofi_close_wq);
	destroy_workqueue(kofi_cq_wq);
	__flush_workqueue(system_long_wq);
}
