// SPDX-License-Identifier: GPL-2.0
/*
 * FI_CB_CTX_SOFTIRQ: handlers of completion queues in soft interrupt context.
 */

#include <linux/preempt.h>

#include "traffic.h"

#define ROUNDS	64

/* A queue with a handler that reads everything, and what the handler has seen. */
struct soft {
	struct fid_cq	*cq;
	struct fid_ep	*ep;
	u8		*data;		/* posted again for each message, if set */
	atomic_t	calls, inside, received, sent, failed;
	bool		wrong, closed, late;
};

static bool is_in_softirq(void)
{
	/* PREEMPT_RT runs soft interrupts in threads. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return !in_hardirq();
	return in_serving_softirq() && !in_hardirq() && !irqs_disabled();
}

static void ready(struct fid_cq *cq, void *context)
{
	struct soft *soft = context;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	if (atomic_inc_return(&soft->inside) > 1 || !is_in_softirq() || cq != soft->cq)
		soft->wrong = true;
	if (READ_ONCE(soft->closed))
		soft->late = true;
	atomic_inc(&soft->calls);
	while ((ret = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN) {
		struct fi_cq_err_entry error = {};

		if (ret == 1) {
			bool received = entry.flags & FI_RECV;

			if (received && soft->data && tr_recv(soft->ep, soft->data, 64))
				atomic_inc(&soft->failed);
			/* Counted last: a test that waits for the count closes the endpoint. */
			atomic_inc(received ? &soft->received : &soft->sent);
			continue;
		}
		fi_cq_readerr(cq, &error, 0);
		if (error.err != FI_ECANCELED)
			atomic_inc(&soft->failed);
	}
	atomic_dec(&soft->inside);
}

static struct soft *open_soft(struct kunit *test, struct kofi_fabric_fx *fx)
{
	struct soft *soft = (void *)tr_buffer(test, sizeof(*soft));
	struct fi_cq_attr attr = {
		.flags = FI_CB_CTX_SOFTIRQ,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
		.cq_event_handler = ready,
	};

	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(fx->domain, &attr, &soft->cq, soft));
	fx_defer_close(test, &soft->cq->fid);
	return soft;
}

static void expect_count(struct kunit *test, atomic_t *count, int want)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (atomic_read(count) < want && time_before(jiffies, end))
		usleep_range(100, 200);
	KUNIT_EXPECT_EQ_MSG(test, want, atomic_read(count), "after %d ms at most", FX_WAIT_MS);
}

static void expect_right(struct kunit *test, struct soft *soft)
{
	KUNIT_EXPECT_FALSE(test, soft->wrong);
	KUNIT_EXPECT_FALSE(test, soft->late);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&soft->failed));
}

static void handler_runs_in_softirq_and_posts(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	u8 *data = tr_buffer(test, 64), *got = tr_buffer(test, 64);
	struct soft *soft = open_soft(test, fx);
	struct fi_cq_tagged_entry entry;
	struct fid_pep *pep;
	struct fid_ep *peer;

	pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	soft->ep = fx_ep(test, fx->domain, fx->info);
	fx_bind(test, soft->ep, fx->eq, soft->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(soft->ep));
	soft->data = got;
	KUNIT_ASSERT_EQ(test, 0, tr_recv(soft->ep, got, 64));
	peer = fx_connect(test, fx->domain, soft->ep, pep, fx->eq, fx->cq);
	for (int i = 0; i < ROUNDS; i++) {
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(tr_send(peer, data, 64)));
		KUNIT_ASSERT_EQ(test, 1, (int)fx_wait_comp(test, fx->cq, &entry, 1));
		/* The handler posts the next receive, so they are sent one by one. */
		expect_count(test, &soft->received, i + 1);
	}
	expect_right(test, soft);
	fx_close(test, &peer->fid);
	fx_close(test, &soft->ep->fid);
	fx_close(test, &soft->cq->fid);
	WRITE_ONCE(soft->closed, true);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&soft->inside));
	usleep_range(1000, 2000);
	expect_right(test, soft);
}

/* The queue is closed while completions arrive: close waits for the handler. */
static void close_waits_for_the_softirq_handler(struct kunit *test)
{
	for (int i = 0; i < 8; i++) {
		struct kofi_fabric_fx *fx = fx_open(test);
		u8 *data = tr_buffer(test, 64), *got = tr_buffer(test, 64 * ROUNDS);
		struct soft *soft = open_soft(test, fx);
		struct fid_pep *pep;
		struct fid_ep *peer;

		pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
		soft->ep = fx_ep(test, fx->domain, fx->info);
		fx_bind(test, soft->ep, fx->eq, soft->cq, FI_TRANSMIT | FI_RECV);
		KUNIT_ASSERT_EQ(test, 0, fi_enable(soft->ep));
		for (int j = 0; j < ROUNDS; j++)
			KUNIT_ASSERT_EQ(test, 0, tr_recv(soft->ep, got + 64 * j, 64));
		peer = fx_connect(test, fx->domain, soft->ep, pep, fx->eq, fx->cq);
		for (int j = 0; j < ROUNDS; j++)
			KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(tr_send(peer, data, 64)));
		fx_close(test, &soft->ep->fid);
		fx_close(test, &soft->cq->fid);
		WRITE_ONCE(soft->closed, true);
		KUNIT_EXPECT_EQ(test, 0, atomic_read(&soft->inside));
		usleep_range(1000, 2000);
		expect_right(test, soft);
		fx_close(test, &peer->fid);
	}
}

static void softirq_context_is_one_of_a_handler(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_attr attr = { .flags = FI_CB_CTX_SOFTIRQ };
	struct fid_cq *cq = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_cq_open(fx->domain, &attr, &cq, NULL));
	attr.cq_event_handler = ready;
	attr.flags |= FI_CB_CTX_INTR;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_cq_open(fx->domain, &attr, &cq, NULL));
	KUNIT_EXPECT_NULL(test, cq);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(handler_runs_in_softirq_and_posts),
	KUNIT_CASE(close_waits_for_the_softirq_handler),
	KUNIT_CASE(softirq_context_is_one_of_a_handler),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq_softirq",
	.test_cases = cases,
};

kunit_test_suite(suite);
