// SPDX-License-Identifier: GPL-2.0
/*
 * A thread that waits in a loop for something that is ready has to let others
 * run: on a kernel without preemption they would not run otherwise. cq_wait.c
 * tests completion queues.
 */

#include "cntr.h"
#include "sets.h"

#define SHORT_MS	20

/* An object that is ready, and the wait call for it, which returns 0. */
struct wait_target {
	void	*object;
	ssize_t	(*wait)(void *object);
};

static ssize_t wait_for_counter(void *cntr)
{
	return fi_cntr_wait(cntr, 0, FX_WAIT_MS);
}

static ssize_t wait_for_event(void *eq)
{
	u32 event;
	u8 byte;

	return fi_eq_sread(eq, &event, &byte, 1, FX_WAIT_MS, FI_PEEK) - 1;
}

static ssize_t wait_for_member(void *set)
{
	return fi_wait(set, FX_WAIT_MS);
}

static int wait_on(struct tr_thread *thread)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct wait_target *wait_target = thread->arg;

	while (!thread->result && !kthread_should_stop()) {
		ssize_t ret = wait_target->wait(wait_target->object);

		if (ret && !kthread_should_stop())
			thread->result = ret;
		else if (time_after(jiffies, end))
			thread->result = -FI_ETIMEDOUT;
	}
	return 0;
}

static void expect_other_tasks_to_run(struct kunit *test, void *object,
				      ssize_t (*wait)(void *object))
{
	struct wait_target *wait_target = (void *)tr_buffer(test, sizeof(*wait_target));
	struct tr_thread *waiter;

	*wait_target = (struct wait_target){ .object = object, .wait = wait };
	waiter = tr_start(test, raw_smp_processor_id(), wait_on, wait_target);
	msleep(SHORT_MS);
	tr_stop(test, waiter);
	KUNIT_EXPECT_EQ(test, 0, waiter->result);
}

static void cntr_02_wait_lets_other_tasks_run(struct kunit *test)
{
	expect_other_tasks_to_run(test, cn_open(test, fx_open(test)->domain), wait_for_counter);
}

static void eq_04_sread_lets_other_tasks_run(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);

	KUNIT_ASSERT_EQ(test, 1, fi_eq_write(fx->eq, 7, "x", 1, 0));
	expect_other_tasks_to_run(test, fx->eq, wait_for_event);
}

static void poll_06_wait_lets_other_tasks_run(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct fid_eq *eq = st_wait_eq(test, fx->fabric, set);

	KUNIT_ASSERT_EQ(test, 1, fi_eq_write(eq, 7, "x", 1, 0));
	expect_other_tasks_to_run(test, set, wait_for_member);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cntr_02_wait_lets_other_tasks_run),
	KUNIT_CASE(eq_04_sread_lets_other_tasks_run),
	KUNIT_CASE(poll_06_wait_lets_other_tasks_run),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_waiters",
	.test_cases = cases,
};

kunit_test_suite(suite);
