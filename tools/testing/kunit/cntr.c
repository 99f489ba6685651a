// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CNTR 1, 2 and 4: counters without operations. Counting operations
 * is tested in cntr_data.c.
 */

#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "cntr.h"

/* Timeout of a wait that should time out, and the delay allowed to a busy machine. */
#define SHORT_MS 200
#define SLACK_MS 5000

struct fid_cntr *cn_open(struct kunit *test, struct fid_domain *domain)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;
	int ret = fi_cntr_open(domain, &attr, &cntr, NULL);

	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "fi_cntr_open: %s", fi_strerror(ret));
	fx_defer_close(test, &cntr->fid);
	return cntr;
}

bool cn_wait_errors(struct kunit *test, struct fid_cntr *cntr, u64 errors)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (fi_cntr_readerr(cntr) < errors) {
		if (time_after(jiffies, deadline)) {
			kunit_err(test, "%llu errors of %llu",
				  fi_cntr_readerr(cntr), errors);
			return false;
		}
		fsleep(1000);
	}
	return true;
}

static int wait_for_ever(struct tr_thread *thread)
{
	struct cn_waiter *waiter = thread->arg;

	allow_signal(SIGUSR1);
	thread->result = fi_cntr_wait(waiter->cntr, waiter->threshold, -1);
	return 0;
}

struct cn_waiter *cn_start_waiter(struct kunit *test, struct fid_cntr *cntr,
				  u64 threshold)
{
	struct cn_waiter *waiter = (void *)tr_buffer(test, sizeof(*waiter));

	waiter->cntr = cntr;
	waiter->threshold = threshold;
	waiter->thread = tr_start(test, num_online_cpus() - 1, wait_for_ever,
				  waiter);
	tr_until_asleep(test, waiter->thread);
	KUNIT_ASSERT_FALSE_MSG(test, completion_done(&waiter->thread->done),
			       "did not wait: %zd", waiter->thread->result);
	return waiter;
}

static void expect_woken(struct kunit *test, struct cn_waiter *waiter,
			 ssize_t result)
{
	KUNIT_ASSERT_TRUE(test, tr_join(test, waiter->thread));
	KUNIT_EXPECT_EQ(test, result, waiter->thread->result);
}

static void cntr_01_value_and_errors_are_independent(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);

	CN_EXPECT(test, cntr, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_add(cntr, 5));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_adderr(cntr, 2));
	CN_EXPECT(test, cntr, 5, 2);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_set(cntr, 1ULL << 40));
	CN_EXPECT(test, cntr, 1ULL << 40, 2);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_seterr(cntr, U64_MAX));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_add(cntr, 1));
	CN_EXPECT(test, cntr, (1ULL << 40) + 1, U64_MAX);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_adderr(cntr, 1));
	CN_EXPECT(test, cntr, (1ULL << 40) + 1, 0);
}

static void cntr_01_the_wait_object_is_reported(struct kunit *test)
{
	struct fi_cntr_attr none = { .wait_obj = FI_WAIT_NONE };
	struct fid_domain *domain = fx_open(test)->domain;
	struct fid_cntr *cntr = cn_open(test, domain);
	enum fi_wait_obj wait = FI_WAIT_FD;

	KUNIT_EXPECT_EQ(test, 0, fi_control(&cntr->fid, FI_GETWAITOBJ, &wait));
	KUNIT_EXPECT_EQ(test, FI_WAIT_UNSPEC, wait);
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(domain, &none, &cntr, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_control(&cntr->fid, FI_GETWAITOBJ, &wait));
	KUNIT_EXPECT_EQ(test, FI_WAIT_NONE, wait);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&cntr->fid));
}

static void cntr_02_a_reached_threshold_returns_at_once(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);

	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(cntr, 0, 0));
	fi_cntr_add(cntr, 7);
	fi_cntr_adderr(cntr, 1);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(cntr, 6, -1));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(cntr, 7, 0));
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_cntr_wait(cntr, 8, 0));
}

/* An error before the wait does not end it. */
static void cntr_02_the_wait_times_out(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);
	unsigned long start;

	fi_cntr_adderr(cntr, 3);
	start = jiffies;
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_cntr_wait(cntr, 1, SHORT_MS));
	FX_EXPECT_PASSED(test, start, SHORT_MS);
	KUNIT_EXPECT_LE(test, jiffies - start,
			msecs_to_jiffies(SHORT_MS + SLACK_MS));
	CN_EXPECT(test, cntr, 0, 3);
}

static void cntr_02_wait_without_a_wait_object_is_enosys(struct kunit *test)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_cntr *cntr;

	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(fx_open(test)->domain, &attr,
					      &cntr, NULL));
	fx_defer_close(test, &cntr->fid);
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cntr_wait(cntr, 0, 0));
	fi_cntr_add(cntr, 1);
	CN_EXPECT(test, cntr, 1, 0);
}

static void cntr_02_each_waiter_wakes_at_its_threshold(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);
	struct cn_waiter *late = cn_start_waiter(test, cntr, 200);
	struct cn_waiter *soon = cn_start_waiter(test, cntr, 100);

	fi_cntr_add(cntr, 99);
	KUNIT_EXPECT_FALSE(test, completion_done(&soon->thread->done));
	fi_cntr_add(cntr, 1);
	expect_woken(test, soon, 0);
	KUNIT_EXPECT_FALSE(test, completion_done(&late->thread->done));
	fi_cntr_set(cntr, 5000);
	expect_woken(test, late, 0);
}

static void cntr_02_an_error_ends_every_wait(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);
	struct cn_waiter *waiters[2];

	fi_cntr_adderr(cntr, 1);
	for (int by_set = 0; by_set < 2; by_set++) {
		waiters[0] = cn_start_waiter(test, cntr, 10);
		waiters[1] = cn_start_waiter(test, cntr, U64_MAX);
		if (by_set)
			fi_cntr_seterr(cntr, 0);
		else
			fi_cntr_adderr(cntr, 1);
		for (int i = 0; i < 2; i++)
			expect_woken(test, waiters[i], -FI_EAVAIL);
	}
}

static void cntr_02_a_process_signal_ends_the_wait(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);
	struct cn_waiter *waiter = cn_start_waiter(test, cntr, 1);

	send_sig(SIGUSR1, waiter->thread->task, 1);
	expect_woken(test, waiter, -FI_EINTR);
}

static void cntr_02_stopping_the_kthread_ends_the_wait(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);
	struct cn_waiter *waiter = cn_start_waiter(test, cntr, 1);

	tr_stop(test, waiter->thread);
	KUNIT_EXPECT_EQ(test, -FI_EINTR, waiter->thread->result);
}

#define ADDS 20000

static int add_ones(struct tr_thread *thread)
{
	for (int i = 0; i < ADDS; i++)
		fi_cntr_add(thread->arg, 1);
	return 0;
}

/* Waits for each seventh threshold, while another CPU counts past it. */
static int wait_at_thresholds(struct tr_thread *thread)
{
	for (u64 at = 1; at <= 2 * ADDS && !thread->result; at += 7)
		thread->result = fi_cntr_wait(thread->arg, at, FX_WAIT_MS);
	return 0;
}

static void cntr_02_no_threshold_is_missed_on_two_cpus(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);
	struct tr_thread *waiter = tr_start(test, num_online_cpus() - 1,
					    wait_at_thresholds, cntr);
	struct tr_thread *adders[2];

	for (int i = 0; i < 2; i++)
		adders[i] = tr_start(test, i ? num_online_cpus() - 1 : 0,
				     add_ones, cntr);
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_TRUE(test, tr_join(test, adders[i]));
	KUNIT_ASSERT_TRUE(test, tr_join(test, waiter));
	KUNIT_EXPECT_EQ(test, 0, waiter->result);
	CN_EXPECT(test, cntr, 2 * ADDS, 0);
}

static void cntr_04_busy_while_bound(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_cntr *cntr = cn_open(test, fx->domain);
	struct fid_ep *ep = fx_bound_ep(test, fx);

	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &cntr->fid, FI_SEND | FI_RECV));
	for (int enabled = 0; enabled < 2; enabled++) {
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&cntr->fid));
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->domain->fid));
		fi_cntr_add(cntr, 1);
		KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	}
	CN_EXPECT(test, cntr, 2, 0);
	fx_close(test, &ep->fid);
	CN_EXPECT(test, cntr, 2, 0);
	fx_close(test, &cntr->fid);
}

static void cntr_04_busy_while_a_thread_waits(struct kunit *test)
{
	struct fid_cntr *cntr = cn_open(test, fx_open(test)->domain);
	struct cn_waiter *waiter = cn_start_waiter(test, cntr, 1);

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&cntr->fid));
	KUNIT_EXPECT_FALSE(test, completion_done(&waiter->thread->done));
	fi_cntr_add(cntr, 1);
	expect_woken(test, waiter, 0);
	fx_close(test, &cntr->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cntr_01_value_and_errors_are_independent),
	KUNIT_CASE(cntr_01_the_wait_object_is_reported),
	KUNIT_CASE(cntr_02_a_reached_threshold_returns_at_once),
	KUNIT_CASE(cntr_02_the_wait_times_out),
	KUNIT_CASE(cntr_02_wait_without_a_wait_object_is_enosys),
	KUNIT_CASE(cntr_02_each_waiter_wakes_at_its_threshold),
	KUNIT_CASE(cntr_02_an_error_ends_every_wait),
	KUNIT_CASE(cntr_02_a_process_signal_ends_the_wait),
	KUNIT_CASE(cntr_02_stopping_the_kthread_ends_the_wait),
	KUNIT_CASE(cntr_02_no_threshold_is_missed_on_two_cpus),
	KUNIT_CASE(cntr_04_busy_while_bound),
	KUNIT_CASE(cntr_04_busy_while_a_thread_waits),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cntr",
	.test_cases = cases,
};

kunit_test_suite(suite);
