// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CLOSE 2 of CONTRACT: connections whose rdma_cm event handlers get no
 * memory. rdma_cm calls the handlers from kworkers: the listener's for a
 * request, the caller's for each step of the connection. fault.c only fails
 * allocations of the test's own thread.
 *
 * The n-th allocation of each kworker fails, for n = 1, 2, ..., until no
 * kworker makes that many. scenarios/nomemory.sh restricts the failures to
 * allocations with a module on the stack, so that other work of the kworkers
 * does not fail.
 */

#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "fault.h"
#include "traffic.h"

static bool fail_workers;
module_param(fail_workers, bool, 0444);
MODULE_PARM_DESC(fail_workers, "failslab's stack filter is set: allocations of workers may fail");

#define MAX_WORKERS	128
#define MAX_ALLOCATIONS		200

/* The kworkers, whose fail_nth is set. */
struct workers {
	struct task_struct	*task[MAX_WORKERS];
	int			count;
};

#ifdef CONFIG_FAULT_INJECTION
static void set_nth(struct task_struct *task, unsigned int n)
{
	WRITE_ONCE(task->fail_nth, n);
}

static unsigned int nth(struct task_struct *task)
{
	return READ_ONCE(task->fail_nth);
}
#else
static void set_nth(struct task_struct *task, unsigned int n) { }
static unsigned int nth(struct task_struct *task) { return 0; }
#endif

static void fail_nth_allocation(struct workers *workers, unsigned int n)
{
	struct task_struct *task;

	workers->count = 0;
	rcu_read_lock();
	for_each_process(task) {
		if (!(task->flags & PF_WQ_WORKER))
			continue;
		if (workers->count == MAX_WORKERS)
			break;
		workers->task[workers->count++] = get_task_struct(task);
		set_nth(task, n);
	}
	rcu_read_unlock();
}

/* Resets fail_nth of all kworkers; returns true if an allocation has failed. */
static bool stop_failing(struct workers *workers)
{
	bool failed = false;

	for (int i = 0; i < workers->count; i++) {
		failed |= !nth(workers->task[i]);
		set_nth(workers->task[i], 0);
		put_task_struct(workers->task[i]);
	}
	return failed;
}

static void stop_failing_action(void *workers)
{
	stop_failing(workers);
}

/* Result of fi_connect(): a request at the listener, an error at the caller, or no event. */
enum connect_result { REQUESTED, REFUSED, NO_EVENT };

static enum connect_result connect_result(struct fault *fault)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_eq_err_entry error = {};
	struct fx_cm_event event;
	u32 number;

	do {
		if (fi_eq_sread(fault->server, &number, &event, sizeof(event),
				10, 0) > 0) {
			fi_reject(fault->pep, event.entry.info->handle, NULL, 0);
			fi_freeinfo(event.entry.info);
			return REQUESTED;
		}
		if (fi_eq_readerr(fault->fx->eq, &error, 0) > 0)
			return REFUSED;
	} while (time_before(jiffies, deadline));
	return NO_EVENT;
}

static void close_02_failed_allocations_in_cm_event_handlers(struct kunit *test)
{
	struct workers *workers = (void *)tr_buffer(test, sizeof(*workers));
	struct fault *fault = fault_new(test);
	unsigned int n, refused = 0;
	bool failed = true;

	KUNIT_ASSERT_EQ(test, 0, kunit_add_action(test, stop_failing_action, workers));
	for (n = 1; n < MAX_ALLOCATIONS && failed; n++) {
		struct fid_ep *ep = fx_bound_ep(test, fault->fx);
		enum connect_result result;

		fail_nth_allocation(workers, n);
		KUNIT_EXPECT_EQ(test, 0, fi_connect(ep, &fault->name, "hello",
						    5));
		result = connect_result(fault);
		failed = stop_failing(workers);
		workers->count = 0;
		KUNIT_EXPECT_NE_MSG(test, result, NO_EVENT,
				    "no event when allocation %u fails",
				    n);
		if (!failed)
			KUNIT_EXPECT_EQ(test, result, REQUESTED);
		refused += result == REFUSED;
		fx_close(test, &ep->fid);
	}
	KUNIT_EXPECT_LT(test, n, MAX_ALLOCATIONS);
	KUNIT_EXPECT_GT_MSG(test, refused, 0, "connection attempts that failed");
	kunit_info(test, "%u allocations, %u of them refused a call\n", n - 2,
		   refused);
}

static int nomemory_init(struct kunit *test)
{
	if (!fail_workers)
		kunit_skip(test, "see scenarios/nomemory.sh");
	return fault_init(test);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(close_02_failed_allocations_in_cm_event_handlers),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_nomemory",
	.init = nomemory_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
