// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CQ 16 to 19: calls of a queue's handler, their context, the calls
 * that a handler may make, and the close. Long runs are in cq_handler_run.c.
 */

#include <linux/delay.h>

#include "handler.h"

#define SHORT_MS 100
#define MANY 8

KUNIT_ARRAY_PARAM(contexts, hd_hard, hd_name_context);

#define IS_HARD(test) (*(const bool *)(test)->param_value)

/* Reads until the queue is empty; returns the number of entries and errors. */
static int read_until_empty(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error = {};
	int count = 0;
	ssize_t ret;

	do {
		ret = fi_cq_read(cq, entries, ARRAY_SIZE(entries));
		if (ret == -FI_EAVAIL) {
			error.err_data_size = 0;
			ret = fi_cq_readerr(cq, &error, 0);
		}
		count += max(ret, 0);
	} while (ret >= 0);
	return count;
}

static void cq_01_interrupt_context_needs_a_handler(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct fi_cq_attr attr = { .flags = FI_CB_CTX_INTR };
	struct fid_cq *cq = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_cq_open(fx->domain, &attr, &cq, NULL));
	KUNIT_EXPECT_NULL(test, cq);
}

/*
 * A handler that reads nothing is not called again until another reader found
 * the queue empty. Each read that does arms the handler for one call.
 */
static void cq_16_called_once_until_the_queue_is_read_empty(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *queue = hd_open(test, fx, IS_HARD(test), NULL, NULL);
	int count = 0, armed = 1, calls = 0;
	struct fi_cq_tagged_entry entry;
	struct fid_ep *ep[2];
	ssize_t ret;

	hd_connect(test, fx, queue, NULL, ep);
	hd_post_receives(test, ep[0], 2 * MANY);
	KUNIT_EXPECT_EQ_MSG(test, 0, atomic_read(&queue->calls),
			    "handler calls before the first message");

	for (int turn = 1; turn <= 2; turn++) {
		hd_post_sends(test, ep[1], MANY);
		KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, calls + 1));
		do {
			usleep_range(10000, 12000);
			KUNIT_EXPECT_LE(test, atomic_read(&queue->calls),
					armed);
			ret = fi_cq_read(queue->cq, &entry, 1);
			count += ret == 1;
			armed += ret == -FI_EAGAIN;
		} while (ret == 1 || (ret == -FI_EAGAIN && count < turn * MANY));
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		KUNIT_ASSERT_EQ(test, turn * MANY, count);
		calls = atomic_read(&queue->calls);
	}
	msleep(SHORT_MS);
	KUNIT_EXPECT_LE(test, atomic_read(&queue->calls), armed);
	hd_check(test, queue);
}

/* fi_cq_sread() on an empty queue arms the handler as fi_cq_read() does. */
static void cq_16_sread_arms_the_handler_too(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *queue = hd_open(test, fx, IS_HARD(test), NULL, NULL);
	struct fi_cq_tagged_entry entry;
	struct fid_ep *ep[2];

	hd_connect(test, fx, queue, NULL, ep);
	hd_post_receives(test, ep[0], 2);
	for (int turn = 1; turn <= 2; turn++) {
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				fi_cq_sread(queue->cq, &entry, 1, NULL, 0));
		hd_post_sends(test, ep[1], 1);
		KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, turn));
		KUNIT_EXPECT_EQ(test, 1, fi_cq_sread(queue->cq, &entry, 1, NULL,
						     FX_WAIT_MS));
	}
	hd_check(test, queue);
}

static void cq_16_signal_does_not_call_the_handler(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *queue = hd_open(test, fx, IS_HARD(test), NULL, NULL);

	KUNIT_EXPECT_EQ(test, 0, fi_cq_signal(queue->cq));
	msleep(SHORT_MS);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&queue->calls));
}

struct errors {
	atomic_t cancelled, others;
	struct fi_cq_err_entry last;
};

static void count_errors(struct hd_queue *queue)
{
	struct errors *errors = queue->data;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(queue->cq, &entry, 1)) != -FI_EAGAIN) {
		if (ret != -FI_EAVAIL) {
			atomic_inc(&errors->others);
			return;
		}
		errors->last.err_data_size = 0;
		if (fi_cq_readerr(queue->cq, &errors->last, 0) == 1 &&
		    errors->last.err == FI_ECANCELED)
			atomic_inc(&errors->cancelled);
		else
			atomic_inc(&errors->others);
	}
}

static void cq_17_errors_are_read_in_the_handler(struct kunit *test)
{
	struct errors *errors = (void *)tr_buffer(test, sizeof(*errors));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *queue = hd_open(test, fx, IS_HARD(test), count_errors,
					 errors);
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fid_ep *ep[2];

	hd_connect(test, fx, queue, NULL, ep);
	hd_post_receives(test, ep[0], MANY);
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep[0], 0));
	while (atomic_read(&errors->cancelled) < MANY &&
	       time_before(jiffies, deadline))
		usleep_range(100, 200);
	KUNIT_EXPECT_EQ(test, MANY, atomic_read(&errors->cancelled));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&errors->others));
	hd_check(test, queue);
}

struct refused {
	struct kofi_fabric_fx *fx;
	ssize_t ret[5];
};

/* Makes calls that may sleep, each of which must be refused, in the first call of the handler. */
static void make_blocking_calls(struct hd_queue *queue)
{
	struct refused *refused = queue->data;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_attr attr = {};
	struct fid_cq *cq;

	/* The endpoint is closed before the queue. */
	if (atomic_read(&queue->calls) > 1)
		return;
	refused->ret[0] = fi_cq_sread(queue->cq, &entry, 1, NULL, -1);
	refused->ret[1] = fi_close(&queue->cq->fid);
	refused->ret[2] = fi_close(&queue->ep->fid);
	refused->ret[3] = fi_shutdown(queue->ep, 0);
	refused->ret[4] = fi_cq_open(refused->fx->domain, &attr, &cq, NULL);
}

/* kOFI logs one warning for all tests of cq_18, which the lab allows. */
static void cq_18_blocking_calls_in_a_hardirq_handler(struct kunit *test)
{
	struct refused *refused = (void *)tr_buffer(test, sizeof(*refused));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *queue = hd_open(test, fx, true, make_blocking_calls, refused);
	struct fid_ep *ep[2];

	refused->fx = fx;
	hd_connect(test, fx, queue, NULL, ep);
	hd_post_receives(test, ep[0], 1);
	hd_post_sends(test, ep[1], 1);
	KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, 1));
	KUNIT_ASSERT_TRUE(test, hd_wait_idle(test, queue));
	for (int i = 0; i < ARRAY_SIZE(refused->ret); i++)
		KUNIT_EXPECT_EQ_MSG(test, -FI_EOPBADSTATE, refused->ret[i],
				    "call %d", i);
	KUNIT_EXPECT_EQ(test, 1, read_until_empty(queue->cq));
	hd_check(test, queue);
}

static void drain(struct hd_queue *queue)
{
	read_until_empty(queue->cq);
}

static void cq_19_close_during_handler_calls(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct hd_queue *queue = hd_open(test, fx, IS_HARD(test), drain,
						 NULL);
		struct fid_ep *ep[2];

		hd_connect(test, fx, queue, NULL, ep);
		hd_post_receives(test, ep[0], MANY);
		hd_post_sends(test, ep[1], MANY);
		if (round % 2)
			KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, 1));
		fx_close(test, &ep[0]->fid);
		hd_close(test, queue);
		fx_close(test, &ep[1]->fid);
		usleep_range(1000, 2000);
		hd_check(test, queue);
		read_until_empty(fx->cq);
	}
}

/* Delays the handler until a close has begun. */
static void delay_handler(struct hd_queue *queue)
{
	if (queue->hard)
		mdelay(20);
	else
		msleep(SHORT_MS);
}

static void cq_19_close_waits_for_the_handler(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *queue = hd_open(test, fx, IS_HARD(test), delay_handler, NULL);
	struct fid_ep *ep[2];

	hd_connect(test, fx, queue, NULL, ep);
	hd_post_receives(test, ep[0], 1);
	hd_post_sends(test, ep[1], 1);
	KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, 1));
	fx_close(test, &ep[0]->fid);
	hd_close(test, queue);
	msleep(SHORT_MS);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&queue->calls));
	hd_check(test, queue);
}

static void close_own_queue(struct hd_queue *queue)
{
	WRITE_ONCE(*(int *)queue->data, fi_close(&queue->cq->fid));
}

static void cq_19_a_handler_cannot_close_its_queue(struct kunit *test)
{
	int *ret = (void *)tr_buffer(test, sizeof(*ret));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *queue = hd_open(test, fx, false, close_own_queue, ret);
	struct fid_ep *ep[2];

	hd_connect(test, fx, queue, NULL, ep);
	hd_post_receives(test, ep[0], 2);
	hd_post_sends(test, ep[1], 1);
	KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, 1));
	fx_close(test, &ep[0]->fid);
	KUNIT_ASSERT_TRUE(test, hd_wait_idle(test, queue));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, READ_ONCE(*ret));
	hd_close(test, queue);
	hd_check(test, queue);
}

/* Closes the endpoint and the queue of another handler, in the first call of this one. */
static void close_other_queue(struct hd_queue *queue)
{
	struct hd_queue *other = queue->data;
	int ret;

	if (atomic_read(&queue->calls) > 1)
		return;
	ret = fi_close(&other->ep->fid) ?: fi_close(&other->cq->fid);
	WRITE_ONCE(other->closed, true);
	queue->data = ERR_PTR(ret);
}

static void cq_19_a_handler_closes_another_endpoint_and_queue(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct hd_queue *other = hd_open(test, fx, IS_HARD(test), delay_handler, NULL);
	struct hd_queue *queue = hd_open(test, fx, false, close_other_queue,
					 other);
	struct fid_ep *to_other[2], *ep[2];

	hd_connect(test, fx, other, NULL, to_other);
	hd_connect(test, fx, queue, NULL, ep);
	hd_post_receives(test, to_other[0], 1);
	hd_post_receives(test, ep[0], 1);
	hd_post_sends(test, to_other[1], 1);
	KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, other, 1));
	fx_cancel_close(test, &to_other[0]->fid);
	fx_cancel_close(test, &other->cq->fid);
	hd_post_sends(test, ep[1], 1);
	KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, 1));
	KUNIT_ASSERT_TRUE(test, hd_wait_idle(test, queue));
	KUNIT_EXPECT_EQ(test, 0, PTR_ERR_OR_ZERO(queue->data));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&other->inside));
	hd_check(test, queue);
	hd_check(test, other);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cq_01_interrupt_context_needs_a_handler),
	KUNIT_CASE_PARAM(cq_16_called_once_until_the_queue_is_read_empty,
			 contexts_gen_params),
	KUNIT_CASE_PARAM(cq_16_sread_arms_the_handler_too,
			 contexts_gen_params),
	KUNIT_CASE_PARAM(cq_16_signal_does_not_call_the_handler,
			 contexts_gen_params),
	KUNIT_CASE_PARAM(cq_17_errors_are_read_in_the_handler, contexts_gen_params),
	KUNIT_CASE(cq_18_blocking_calls_in_a_hardirq_handler),
	KUNIT_CASE_PARAM_ATTR(cq_19_close_during_handler_calls, contexts_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM(cq_19_close_waits_for_the_handler, contexts_gen_params),
	KUNIT_CASE(cq_19_a_handler_cannot_close_its_queue),
	KUNIT_CASE_PARAM(cq_19_a_handler_closes_another_endpoint_and_queue,
			 contexts_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq_handler",
	.test_cases = cases,
};

kunit_test_suite(suite);
