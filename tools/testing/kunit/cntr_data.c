// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CNTR 3: the operations that endpoints count, with and without a
 * reader of their completion queues.
 */

#include "cntr.h"
#include "rma.h"

#define LEN	64
#define DEPTH	16
/* Many more operations than a queue holds. */
#define MANY	(50 * (int)tr_rounds)

static const struct fx_pair_opts counted = { .count = true };
/* No success writes an entry, so the queues need no reader. */
static const struct fx_pair_opts silent = {
	.count = true,
	.tx_flags = FI_SELECTIVE_COMPLETION,
	.rx_flags = FI_SELECTIVE_COMPLETION,
	.tx_size = DEPTH,
	.rx_size = DEPTH,
};

/* Posts one message from ep[0] to ep[1]; its entries stay unread. */
static void post_message(struct kunit *test, struct kofi_pair *pair, u8 *buf)
{
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf + LEN, LEN));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf, LEN));
}

static void expect_nothing_else(struct kunit *test, struct kofi_pair *pair,
				int side, u64 kinds)
{
	for (int kind = 0; kind < FX_COUNTERS; kind++)
		if (!(kinds & BIT(kind)))
			CN_EXPECT(test, pair->cntr[side][kind], 0, 0);
}

static void cntr_03_messages_count_without_a_cq_reader(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &counted);

	for (int i = 1; i <= 5; i++) {
		tr_fill(buf, LEN, i);
		post_message(test, pair, buf);
		CN_ASSERT_REACHED(test, pair->cntr[1][FX_RECVS], i);
		KUNIT_EXPECT_TRUE(test, tr_intact(buf + LEN, LEN, i));
		CN_ASSERT_REACHED(test, pair->cntr[0][FX_SENDS], i);
	}
	CN_EXPECT(test, pair->cntr[0][FX_SENDS], 5, 0);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], 5, 0);
	expect_nothing_else(test, pair, 0, BIT(FX_SENDS));
	expect_nothing_else(test, pair, 1, BIT(FX_RECVS));
	/* Counting has not consumed the entries. */
	for (int i = 0; i < 5; i++) {
		tr_expect(test, pair->cq[0], buf, FI_SEND, 0);
		tr_expect(test, pair->cq[1], buf + LEN, FI_RECV, LEN);
	}
	CN_EXPECT(test, pair->cntr[0][FX_SENDS], 5, 0);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], 5, 0);
}

/* Operations are counted when their entries are read, without a call on the counter. */
static void cntr_03_reading_entries_counts_them(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &counted);

	for (int i = 0; i < 3; i++)
		tr_exchange(test, pair, 0, buf, buf + LEN, LEN);
	CN_EXPECT(test, pair->cntr[0][FX_SENDS], 3, 0);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], 3, 0);
	expect_nothing_else(test, pair, 0, BIT(FX_SENDS));
	expect_nothing_else(test, pair, 1, BIT(FX_RECVS));
}

static ssize_t post_silently(struct kofi_pair *pair, u8 *buf, int nr)
{
	struct kvec iov = { buf, LEN };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1 };

	switch (nr % 3) {
	case 0:
		return fi_sendmsg(pair->ep[0], &msg, 0);
	case 1:
		return fi_inject(pair->ep[0], buf, LEN, FI_ADDR_UNSPEC);
	default:
		return fi_sendmsg(pair->ep[0], &msg, FI_INJECT);
	}
}

/* The queue is never full: the counter's value limits the posts. */
static void cntr_03_operations_without_entries_count(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &silent);
	struct kvec iov = { buf + LEN, LEN };
	const struct fi_msg recv = { .msg_iov = &iov, .iov_count = 1 };

	for (int i = 0; i < MANY; i++) {
		if (i >= DEPTH) {
			CN_ASSERT_REACHED(test, pair->cntr[1][FX_RECVS],
					  i - DEPTH + 1);
			CN_ASSERT_REACHED(test, pair->cntr[0][FX_SENDS],
					  i - DEPTH + 1);
		}
		KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[1], &recv, 0));
		KUNIT_ASSERT_EQ(test, 0, post_silently(pair, buf, i));
	}
	CN_ASSERT_REACHED(test, pair->cntr[0][FX_SENDS], MANY);
	CN_ASSERT_REACHED(test, pair->cntr[1][FX_RECVS], MANY);
	CN_EXPECT(test, pair->cntr[0][FX_SENDS], MANY, 0);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], MANY, 0);
	for (int side = 0; side < 2; side++)
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				fi_cq_read(pair->cq[side], NULL, 0));
}

/* A single send, which is fewer than kOFI leaves unsignalled in a row. */
static void cntr_03_a_single_unsignalled_send_counts(struct kunit *test)
{
	struct fx_pair_opts opts = silent;
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair;

	opts.tx_size = 256;
	pair = fx_pair(test, &opts);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf + LEN, LEN));
	KUNIT_ASSERT_EQ(test, 0, post_silently(pair, buf, 0));
	CN_ASSERT_REACHED(test, pair->cntr[0][FX_SENDS], 1);
}

static void cntr_03_writes_and_reads_count_apart(struct kunit *test)
{
	u8 *near = tr_buffer(test, LEN), *far = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, &silent);
	const struct rma_op op = { .near = near, .len = LEN };
	u64 writes = 0, reads = 0;

	for (int i = 0; i < RMA_CALLS; i++) {
		const struct rma_call *call = &rma_calls[i];
		bool writing = call->flag == FI_WRITE;
		u64 *count = writing ? &writes : &reads;
		struct fid_cntr *cntr;

		if (!rma_has(fx, call) || call->brings_data)
			continue;
		cntr = fx->pair->cntr[0][writing ? FX_WRITES : FX_READS];
		KUNIT_ASSERT_EQ_MSG(test, 0, call->post(fx, &op), "%s",
				    call->name);
		CN_ASSERT_REACHED(test, cntr, ++*count);
	}
	KUNIT_EXPECT_GT(test, writes, 2);
	KUNIT_EXPECT_GT(test, reads, 1);
	CN_EXPECT(test, fx->pair->cntr[0][FX_WRITES], writes, 0);
	CN_EXPECT(test, fx->pair->cntr[0][FX_READS], reads, 0);
	expect_nothing_else(test, fx->pair, 0, BIT(FX_WRITES) | BIT(FX_READS));
	expect_nothing_else(test, fx->pair, 1, 0);
}

/* A write with CQ data consumes a receive of the target, but is not a message. */
static void cntr_03_a_write_with_cq_data_is_no_receive(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 3 * LEN), *far = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, &counted);
	struct kofi_pair *pair = fx->pair;

	if (!pair->info->domain_attr->cq_data_size)
		kunit_skip(test, "the device has no CQ data with writes");
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf, LEN));
	KUNIT_ASSERT_EQ(test, 0, fi_writedata(pair->ep[0], buf + LEN, LEN, NULL,
					      RMA_DATA, FI_ADDR_UNSPEC,
					      fx->addr, fx->key, NULL));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf + 2 * LEN, LEN));
	CN_ASSERT_REACHED(test, pair->cntr[1][FX_RECVS], 1);
	CN_ASSERT_REACHED(test, pair->cntr[0][FX_SENDS], 1);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], 1, 0);
	CN_EXPECT(test, pair->cntr[0][FX_WRITES], 1, 0);
}

static void cntr_03_flushed_operations_count_as_errors(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &counted);
	struct fid_cntr *recvs = pair->cntr[1][FX_RECVS];

	post_message(test, pair, buf);
	CN_ASSERT_REACHED(test, recvs, 1);
	/* The message arrived, but its acknowledgement may not have yet. */
	CN_ASSERT_REACHED(test, pair->cntr[0][FX_SENDS], 1);
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf, LEN));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	CN_EXPECT(test, recvs, 1, 4);
	/* Each operation still has its entry, and is not counted again. */
	tr_expect(test, pair->cq[1], buf + LEN, FI_RECV, LEN);
	KUNIT_EXPECT_EQ(test, 4, tr_read_flushed(test, pair->cq[1]));
	CN_EXPECT(test, recvs, 1, 4);
	CN_EXPECT(test, pair->cntr[0][FX_SENDS], 1, 0);
}

/* The peer closes, and only the waiter polls the queue. */
static void cntr_03_a_flush_ends_the_wait(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &silent);
	struct cn_waiter *waiter;

	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf, LEN));
	waiter = cn_start_waiter(test, pair->cntr[1][FX_RECVS], 1);
	fx_close(test, &pair->ep[0]->fid);
	KUNIT_ASSERT_TRUE(test, tr_join(test, waiter->thread));
	KUNIT_EXPECT_EQ(test, -FI_EAVAIL, waiter->thread->result);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], 0, 1);
}

/* The waiter sleeps, and no other thread polls the queues. */
static void cntr_03_a_received_message_wakes_the_waiter(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &silent);

	for (int i = 1; i <= 3; i++) {
		struct cn_waiter *waiter;

		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf + LEN, LEN));
		waiter = cn_start_waiter(test, pair->cntr[1][FX_RECVS], i);
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[0], buf, LEN));
		KUNIT_ASSERT_TRUE(test, tr_join(test, waiter->thread));
		KUNIT_EXPECT_EQ(test, 0, waiter->thread->result);
	}
}

/* Closing is silent: flushed operations are no errors, and earlier counts stay. */
static void cntr_03_closing_counts_no_errors(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &counted);

	post_message(test, pair, buf);
	CN_ASSERT_REACHED(test, pair->cntr[1][FX_RECVS], 1);
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], buf, LEN));
	fx_close(test, &pair->ep[1]->fid);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], 1, 0);
	fx_close(test, &pair->cntr[1][FX_RECVS]->fid);
}

/* Operations that completed before the close are counted, though no call polled the queue. */
static void cntr_03_close_counts_completed_operations(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, &counted);

	if (tr_is_iwarp(pair->info))
		kunit_skip(test, "on iWARP a send completes before the message has arrived");
	post_message(test, pair, buf);
	tr_expect(test, pair->cq[0], buf, FI_SEND, 0);
	fx_close(test, &pair->ep[1]->fid);
	CN_EXPECT(test, pair->cntr[1][FX_RECVS], 1, 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(cntr_03_messages_count_without_a_cq_reader),
	KUNIT_CASE(cntr_03_reading_entries_counts_them),
	KUNIT_CASE(cntr_03_operations_without_entries_count),
	KUNIT_CASE(cntr_03_a_single_unsignalled_send_counts),
	KUNIT_CASE(cntr_03_writes_and_reads_count_apart),
	KUNIT_CASE(cntr_03_a_write_with_cq_data_is_no_receive),
	KUNIT_CASE(cntr_03_flushed_operations_count_as_errors),
	KUNIT_CASE(cntr_03_a_flush_ends_the_wait),
	KUNIT_CASE(cntr_03_a_received_message_wakes_the_waiter),
	KUNIT_CASE(cntr_03_closing_counts_no_errors),
	KUNIT_CASE(cntr_03_close_counts_completed_operations),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cntr_data",
	.test_cases = cases,
};

kunit_test_suite(suite);
