// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CQ 9 to 11: blocking reads, and the causes of their return.
 */

#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "traffic.h"

#define LEN 64
/* Timeout of a read that should time out, and the delay allowed to a busy machine. */
#define SHORT_MS 200
#define SLACK_MS 5000

static void cq_09_sread_times_out(struct kunit *test)
{
	struct fi_cq_tagged_entry entry;
	struct kofi_fabric_fx *fx = fx_open(test);
	unsigned long start = jiffies;

	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_sread(fx->cq, &entry, 1, NULL, SHORT_MS));
	FX_EXPECT_PASSED(test, start, SHORT_MS);
	KUNIT_EXPECT_LE(test, jiffies - start,
			msecs_to_jiffies(SHORT_MS + SLACK_MS));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_sread(fx->cq, &entry, 1, NULL, 0));
}

#define BUDGET_MS 1000
#define WAKES 1000

/*
 * Thread that sends without completions: the reader gets no entry, but in a
 * queue this short each send is signalled, and wakes the reader.
 */
static int send_without_completions(struct tr_thread *thread)
{
	struct kofi_pair *pair = thread->arg;
	const struct fi_msg msg = {};

	while (thread->result < WAKES && !kthread_should_stop()) {
		ssize_t ret = fi_sendmsg(pair->ep[0], &msg, 0);

		if (ret && ret != -FI_EAGAIN) {
			WRITE_ONCE(thread->result, ret);
			break;
		}
		if (!ret)
			WRITE_ONCE(thread->result, thread->result + 1);
		msleep(BUDGET_MS / 100);
	}
	return 0;
}

/* Options for a reader that waits while other threads post. */
static const struct fx_pair_opts safe = { .threading = FI_THREAD_SAFE };

/* The sender thread runs ten times as long as the timeout, unless stopped. */
static void cq_09_the_timeout_is_one_budget(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_size = 4,
		.rx_size = WAKES,
		.tx_flags = FI_SELECTIVE_COMPLETION,
		.threading = FI_THREAD_SAFE,
	};
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entry;
	struct tr_thread *sender;
	ssize_t sent;

	for (int i = 0; i < WAKES; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], NULL, 0, NULL,
						 FI_ADDR_UNSPEC, NULL));
	sender = tr_start(test, -1, send_without_completions, pair);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_sread(pair->cq[0], &entry, 1,
						      NULL, BUDGET_MS));
	sent = READ_ONCE(sender->result);
	tr_stop(test, sender);
	KUNIT_EXPECT_GT_MSG(test, sent, 2 * (ssize_t)opts.tx_size,
			    "the reader woke and freed entries for more sends");
	KUNIT_EXPECT_LT_MSG(test, sent, WAKES,
			    "a wakeup restarted the timeout");
}

static void cq_09_sread_of_a_queued_entry_returns_at_once(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	/* The peer's entry shows that this one is queued too, or about to be. */
	tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, 1, fi_cq_sread(pair->cq[1], &entry, 1, NULL,
					     FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_sread(pair->cq[1], &entry, 1, NULL, 0));
}

/*
 * Thread that sends to itself and reads; over the loop provider each read finds
 * its entry at once.
 */
static int sread_ready_entries(struct tr_thread *thread)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct kofi_pair *pair = thread->arg;
	struct fi_cq_tagged_entry entry;

	while (!thread->result && !kthread_should_stop()) {
		ssize_t ret = fi_recv(pair->ep[1], NULL, 0, NULL,
				      FI_ADDR_UNSPEC, NULL);

		if (!ret)
			ret = fi_send(pair->ep[0], NULL, 0, NULL,
				      FI_ADDR_UNSPEC, NULL);
		for (int i = 0; i < 2 && (!ret || ret == 1); i++)
			ret = fi_cq_sread(pair->cq[i], &entry, 1, NULL,
					  FX_WAIT_MS);
		if (ret != 1 && !kthread_should_stop())
			thread->result = ret;
		else if (time_after(jiffies, end))
			thread->result = -FI_ETIMEDOUT;
	}
	return 0;
}

/* Without preemption other tasks run only if fi_cq_sread() reschedules. */
static void cq_09_sread_lets_other_tasks_run(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct tr_thread *reader;

	reader = tr_start(test, raw_smp_processor_id(), sread_ready_entries,
			  pair);
	msleep(SHORT_MS);
	tr_stop(test, reader);
	KUNIT_EXPECT_EQ(test, 0, reader->result);
}

static int sread_for_ever(struct tr_thread *thread)
{
	struct fi_cq_tagged_entry entry;

	allow_signal(SIGUSR1);
	thread->result = fi_cq_sread(thread->arg, &entry, 1, NULL, -1);
	return 0;
}

/* Starts a reader without a timeout, and returns when it waits. */
static struct tr_thread *start_reader(struct kunit *test, struct fid_cq *cq)
{
	struct tr_thread *reader = tr_start(test, -1, sread_for_ever, cq);

	msleep(SHORT_MS);
	KUNIT_ASSERT_FALSE_MSG(test, completion_done(&reader->done),
			       "fi_cq_sread() returned without an entry: %zd", reader->result);
	return reader;
}

static void cq_09_a_negative_timeout_waits_for_ever(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &safe);
	struct tr_thread *reader = start_reader(test, pair->cq[1]);

	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], buf + LEN, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_ASSERT_TRUE(test, tr_join(test, reader));
	KUNIT_EXPECT_EQ(test, 1, reader->result);
}

static void cq_09_an_error_wakes_sread(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &safe);
	struct tr_thread *reader = start_reader(test, pair->cq[1]);

	KUNIT_ASSERT_EQ(test, 0, fi_recv(pair->ep[1], buf, LEN, NULL,
					 FI_ADDR_UNSPEC, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	KUNIT_ASSERT_TRUE(test, tr_join(test, reader));
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, reader->result);
}

static void cq_09_a_process_signal_ends_the_wait(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct tr_thread *reader = start_reader(test, fx->cq);

	send_sig(SIGUSR1, reader->task, 1);
	KUNIT_ASSERT_TRUE(test, tr_join(test, reader));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, reader->result);
}

static void cq_09_stopping_the_kthread_ends_the_wait(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct tr_thread *reader = start_reader(test, fx->cq);

	tr_stop(test, reader);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, reader->result);
}

static void cq_10_sread_without_a_wait_object(struct kunit *test)
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_cq *cq = fx_cq(test, fx_open(test)->domain, &attr);
	struct fi_cq_entry entry;
	fi_addr_t from;

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_cq_sread(cq, &entry, 1, NULL, SHORT_MS));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS,
			fi_cq_sreadfrom(cq, &entry, 1, &from, NULL, SHORT_MS));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_cq_signal(cq));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(cq, &entry, 1));
}

static void cq_11_signal_wakes_sread(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct tr_thread *reader = start_reader(test, fx->cq);

	KUNIT_EXPECT_EQ(test, 0, fi_cq_signal(fx->cq));
	KUNIT_ASSERT_TRUE(test, tr_join(test, reader));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, reader->result);
}

static void cq_11_an_earlier_signal_counts_once(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_tagged_entry entry;
	unsigned long start = jiffies;

	KUNIT_EXPECT_EQ(test, 0, fi_cq_signal(fx->cq));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_sread(fx->cq, &entry, 1, NULL, FX_WAIT_MS));
	KUNIT_EXPECT_LE(test, jiffies - start, msecs_to_jiffies(SLACK_MS));

	start = jiffies;
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_sread(fx->cq, &entry, 1, NULL, SHORT_MS));
	FX_EXPECT_PASSED(test, start, SHORT_MS);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cq_09_sread_times_out),
	KUNIT_CASE(cq_09_the_timeout_is_one_budget),
	KUNIT_CASE(cq_09_sread_of_a_queued_entry_returns_at_once),
	KUNIT_CASE(cq_09_sread_lets_other_tasks_run),
	KUNIT_CASE(cq_09_a_negative_timeout_waits_for_ever),
	KUNIT_CASE(cq_09_an_error_wakes_sread),
	KUNIT_CASE(cq_09_a_process_signal_ends_the_wait),
	KUNIT_CASE(cq_09_stopping_the_kthread_ends_the_wait),
	KUNIT_CASE(cq_10_sread_without_a_wait_object),
	KUNIT_CASE(cq_11_signal_wakes_sread),
	KUNIT_CASE(cq_11_an_earlier_signal_counts_once),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq_wait",
	.test_cases = cases,
};

kunit_test_suite(suite);
