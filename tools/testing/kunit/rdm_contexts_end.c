// SPDX-License-Identifier: GPL-2.0
/* Tests RDM 8 and CLOSE of CONTRACT: contexts that close while they or others have traffic. */

#include <linux/delay.h>

#include <rdma/fi_rma.h>

#include "rdm_raw.h"
#include "sep.h"
#include "traffic.h"

#define LONGEST	SZ_256K
#define PATTERN	0xa5

static const size_t lens[] = { 0, 100, 16384, 50000, LONGEST };

struct ends {
	struct sep	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;
};

static struct ends *ends(struct kunit *test, const struct sep_opts *opts)
{
	struct ends *e = kunit_kzalloc(test, sizeof(*e), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, e);
	e->out = tr_buffer(test, LONGEST);
	e->in = tr_buffer(test, LONGEST);
	get_random_bytes(e->out, LONGEST);
	e->a = sep_open(test, opts);
	e->b = sep_open(test, opts);
	e->to_b = sep_addr(test, e->a, &e->b->name);
	return e;
}

static fi_addr_t to(struct ends *e, int rx)
{
	return fi_rx_addr(e->to_b, rx, SEP_BITS);
}

static void send(struct kunit *test, struct ends *e, int tx, int rx, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_send(e->a->tx[tx], e->out, len, NULL,
							    to(e, rx), e->out)));
}

static void receive(struct kunit *test, struct ends *e, int rx, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, fi_recv(e->b->rx[rx], e->in, len, NULL, FI_ADDR_UNSPEC, e->in));
}

static void close_01_contexts_close_in_any_order(struct kunit *test)
{
	static const int orders[][4] = {
		{ 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 2, 0, 3, 1 }, { 1, 3, 0, 2 }, { 0, 2, 1, 3 },
	};
	struct sep_opts opts = { .txs = 2, .rxs = 2 };

	for (int i = 0; i < ARRAY_SIZE(orders); i++) {
		struct ends *e = ends(test, &opts);
		struct sep *both[] = { e->a, e->b };

		for (int tx = 0; tx < 2; tx++)
			for (int rx = 0; rx < 2; rx++)
				sep_exchange(test, e->a, tx, e->to_b, e->b, rx);
		/* Transfers are pending when the contexts close. */
		receive(test, e, 0, 100);
		send(test, e, 1, 1, LONGEST);
		send(test, e, 0, 1, 50000);
		for (int k = 0; k < 4; k++) {
			int which = orders[i][k];

			for (int s = 0; s < 2; s++) {
				struct sep *sep = both[(s + i) % 2];
				struct fid_ep *ep = which < 2 ? sep->tx[which] :
						    sep->rx[which - 2];

				KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&sep->ep->fid));
				KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&sep->av->fid));
				fx_close(test, &ep->fid);
			}
		}
		for (int s = 0; s < 2; s++) {
			struct sep *sep = both[s];

			for (int k = 0; k < 2; k++) {
				fx_close(test, &sep->tx_cq[k]->fid);
				fx_close(test, &sep->rx_cq[k]->fid);
			}
			fx_close(test, &sep->ep->fid);
			fx_close(test, &sep->av->fid);
			fx_close(test, &sep->domain->fid);
			fx_close(test, &sep->fabric->fid);
		}
	}
}

static void close_01_a_context_that_was_never_enabled(struct kunit *test)
{
	struct sep *sep = sep_open_unbound(test, NULL);
	struct fid_ep *tx, *rx;

	KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, 3, NULL, &tx, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_rx_context(sep->ep, 3, NULL, &rx, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&tx->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&rx->fid));
	fx_close(test, &sep->ep->fid);
}

/* Closing a receive context releases its buffers; later messages wait until it is open again. */
static void close_01_a_closed_receive_context_releases_its_buffers(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 3, .caps = FI_MULTI_RECV };
	struct ends *e = ends(test, &opts);
	struct kvec iov = { e->in, LONGEST };
	struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = e->in,
	};

	for (int i = 0; i < ARRAY_SIZE(lens) * 2; i++) {
		size_t len = lens[i / 2];
		struct fi_cq_tagged_entry entry;

		if (i & 1)
			KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(e->b->rx[1], &msg, FI_MULTI_RECV));
		else
			receive(test, e, 1, LONGEST);
		KUNIT_EXPECT_EQ(test, 63, fi_rx_size_left(e->b->rx[1]));
		fx_close(test, &e->b->rx[1]->fid);
		memset(e->in, PATTERN, LONGEST);
		send(test, e, 0, 1, len);
		msleep(20);
		sep_exchange(test, e->a, 1, e->to_b, e->b, 2);
		KUNIT_EXPECT_PTR_EQ(test, NULL, memchr_inv(e->in, PATTERN, LONGEST));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(e->b->rx_cq[1], &entry, 1));
		sep_open_rx(test, e->b, 1, 0);
		KUNIT_EXPECT_EQ(test, 64, fi_rx_size_left(e->b->rx[1]));
		receive(test, e, 1, LONGEST);
		sep_expect(test, e->b->rx_cq[1], e->in, &entry);
		KUNIT_EXPECT_EQ(test, len, entry.len);
		KUNIT_EXPECT_MEMEQ(test, e->out, e->in, len);
		sep_expect(test, e->a->tx_cq[0], e->out, NULL);
	}
}

/* Messages of any length arrive during the close: no buffer is written after it. */
static void close_01_no_buffer_is_written_after_the_close(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 3 };
	struct ends *e = ends(test, &opts);

	for (int i = 0; i < 4 * ARRAY_SIZE(lens); i++) {
		size_t len = lens[i / 4];
		struct fi_cq_tagged_entry entry;

		receive(test, e, 1, LONGEST);
		send(test, e, 0, 1, len);
		if (i & 2)
			usleep_range(10, 500);
		fx_close(test, &e->b->rx[1]->fid);
		memset(e->in, PATTERN, LONGEST);
		sep_exchange(test, e->a, 1, e->to_b, e->b, 2);
		msleep(20);
		KUNIT_EXPECT_PTR_EQ(test, NULL, memchr_inv(e->in, PATTERN, LONGEST));
		/* The message is delivered or dropped once its transmit context is closed. */
		fx_close(test, &e->a->tx[0]->fid);
		while (fi_cq_read(e->a->tx_cq[0], &entry, 1) == 1)
			;
		while (fi_cq_read(e->b->rx_cq[1], &entry, 1) == 1)
			;
		sep_open_tx(test, e->a, 0, 0);
		sep_open_rx(test, e->b, 1, 0);
	}
}

static void close_01_a_transmit_context_with_queued_sends(struct kunit *test)
{
	struct sockaddr_storage closed_port;
	struct sep_opts opts = { .txs = 2, .rxs = 2 };
	struct ends *e = ends(test, &opts);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	size_t size = e->a->info->tx_attr->size;
	struct fi_cq_tagged_entry entry;
	fi_addr_t to_closed_port;

	closed_port = raw_name(&e->b->name, RAW_PORT);
	to_closed_port = sep_addr(test, e->a, &closed_port);
	for (int round = 0; round < 3; round++) {
		/* In the first round the connection is not established yet. */
		send(test, e, 0, 0, 50000);
		for (int i = 0; !fi_send(e->a->tx[0], e->out, i & 2 ? LONGEST : 100, NULL,
					 i & 1 ? to_closed_port : to(e, 0), e->out); i++)
			;
		fx_close(test, &e->a->tx[0]->fid);
		/* Messages sent before the close may have arrived, and would be received first. */
		fx_close(test, &e->b->rx[0]->fid);
		while (fi_tx_size_left(e->a->tx[1]) < size && time_before(jiffies, end))
			usleep_range(50, 100);
		KUNIT_EXPECT_EQ(test, size, fi_tx_size_left(e->a->tx[1]));
		sep_exchange(test, e->a, 1, e->to_b, e->b, 1);
		/* Completions from before the close can be read; no more arrive. */
		while (fi_cq_read(e->a->tx_cq[0], &entry, 1) == 1)
			KUNIT_EXPECT_PTR_EQ(test, (void *)e->out, entry.op_context);
		fi_cq_readerr(e->a->tx_cq[0], &(struct fi_cq_err_entry) {}, 0);
		sep_open_tx(test, e->a, 0, 0);
		sep_open_rx(test, e->b, 0, 0);
	}
}

/* A rendezvous message without a matching receive. */
static void close_01_a_transmit_context_with_a_rendezvous_send(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 2 };
	struct ends *e = ends(test, &opts);
	u8 *buf = kmalloc(LONGEST, GFP_KERNEL);
	struct fi_cq_err_entry error = {};

	KUNIT_ASSERT_NOT_NULL(test, buf);
	sep_exchange(test, e->a, 1, e->to_b, e->b, 1);
	KUNIT_EXPECT_EQ(test, 0, fi_send(e->a->tx[0], buf, LONGEST, NULL, e->to_b, buf));
	msleep(20);
	fx_close(test, &e->a->tx[0]->fid);
	kfree(buf);
	sep_exchange(test, e->a, 1, e->to_b, e->b, 1);
	/* The close has dropped the rendezvous message, with its connection. */
	receive(test, e, 0, LONGEST);
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&e->b->rx[0]->fid, e->in));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, e->b->rx_cq[0], &error));
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
}

static void close_01_a_claimed_message_is_unexpected_again(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 2 };
	struct ends *e = ends(test, &opts);
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .ignore = ~0ULL, .context = e };
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	int ret;

	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_tsend(e->a->tx[0], e->out, 100, NULL, to(e, 1), i, NULL));
	do {
		usleep_range(50, 100);
		KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(e->b->rx[1], &msg, FI_PEEK | FI_CLAIM));
		ret = fi_cq_sread(e->b->rx_cq[1], &entry, 1, NULL, FX_WAIT_MS);
	} while (ret == -FI_EAVAIL && fi_cq_readerr(e->b->rx_cq[1], &error, 0) == 1 &&
		 error.err == FI_ENOMSG && time_before(jiffies, end));
	KUNIT_ASSERT_EQ(test, 1, ret);
	KUNIT_EXPECT_EQ(test, 0, entry.tag);
	fx_close(test, &e->b->rx[1]->fid);
	sep_open_rx(test, e->b, 1, 0);
	for (int i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(e->b->rx[1], e->in, 100, NULL, FI_ADDR_UNSPEC,
						  0, ~0ULL, e->in));
		sep_expect(test, e->b->rx_cq[1], e->in, &entry);
		KUNIT_EXPECT_EQ(test, i, entry.tag);
	}
}

/* Waits until there is an entry, without reading it. */
static void await(struct kunit *test, struct sep *sep, struct fid_cq *cq)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fid *fids[] = { &cq->fid };

	while (fi_trywait(sep->fabric, fids, 1) != -FI_EAGAIN && time_before(jiffies, end)) {
		fi_cq_read(cq, NULL, 0);
		usleep_range(50, 100);
	}
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, end));
}

static void close_01_completions_stay_readable(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 1 };
	struct ends *e = ends(test, &opts);

	receive(test, e, 0, 100);
	send(test, e, 0, 0, 100);
	await(test, e->a, e->a->tx_cq[0]);
	await(test, e->b, e->b->rx_cq[0]);
	fx_close(test, &e->b->rx[0]->fid);
	fx_close(test, &e->a->tx[0]->fid);
	sep_expect(test, e->b->rx_cq[0], e->in, NULL);
	sep_expect(test, e->a->tx_cq[0], e->out, NULL);
}

/* RMA operations are pending at the close. */
static void close_01_a_transmit_context_with_pending_rma(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 1, .caps = FI_RMA };
	struct ends *e = ends(test, &opts);
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(e->b->domain, e->in, LONGEST, FI_REMOTE_READ, 0, 0, 0,
					   &mr, NULL));
	fx_defer_close(test, &mr->fid);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 8; i++)
			KUNIT_ASSERT_EQ(test, 0, fi_read(e->a->tx[0], e->out, LONGEST, NULL,
							 e->to_b, (uintptr_t)e->in, fi_mr_key(mr),
							 NULL));
		if (round & 1)
			usleep_range(50, 500);
		fx_close(test, &e->a->tx[0]->fid);
		memset(e->out, PATTERN, LONGEST);
		sep_exchange(test, e->a, 1, e->to_b, e->b, 0);
		KUNIT_EXPECT_PTR_EQ(test, NULL, memchr_inv(e->out, PATTERN, LONGEST));
		sep_open_tx(test, e->a, 0, 0);
	}
}

struct busy {
	struct ends	*e;
	u8		*buf;
	int		rounds;
};

/* Sends messages from transmit context 2 to receive context 2 until it has to stop. */
static int keep_busy(struct tr_thread *thread)
{
	struct busy *busy = thread->arg;
	struct sep *a = busy->e->a, *b = busy->e->b;
	struct fi_cq_tagged_entry entry;
	int ret = 0;

	while (!ret && !kthread_should_stop()) {
		ret = fi_recv(b->rx[2], busy->buf, 64, NULL, FI_ADDR_UNSPEC, NULL);
		while (!ret && !kthread_should_stop()) {
			ret = fi_send(a->tx[2], busy->buf + 64, 64, NULL, to(busy->e, 2), NULL);
			if (ret != -FI_EAGAIN)
				break;
			ret = 0;
			cond_resched();
		}
		for (int i = 0; !ret && i < 2; i++)
			if (fi_cq_sread(i ? b->rx_cq[2] : a->tx_cq[2], &entry, 1, NULL,
					FX_WAIT_MS) != 1)
				ret = kthread_should_stop() ? 0 : -FI_EIO;
		busy->rounds++;
		/* The calls above may all have returned without sleeping. */
		cond_resched();
	}
	thread->result = ret;
	return 0;
}

static void close_01_contexts_close_beside_traffic_of_others(struct kunit *test)
{
	struct sep_opts opts = { .txs = 3, .rxs = 3 };
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct busy busy = {};
	struct ends *e;
	struct tr_thread *thread;

	busy.buf = tr_buffer(test, 128);
	e = ends(test, &opts);
	busy.e = e;
	sep_exchange(test, e->a, 2, e->to_b, e->b, 2);
	thread = tr_start(test, -1, keep_busy, &busy);
	for (int round = 0; round < 20; round++) {
		int which = round % 2;

		receive(test, e, which, LONGEST);
		/* Longer messages might have to wait for the peer. */
		send(test, e, which, which, lens[round % 3]);
		send(test, e, 1 - which, which, lens[round % 4]);
		fx_close(test, &e->b->rx[which]->fid);
		fx_close(test, &e->a->tx[which]->fid);
		sep_open_rx(test, e->b, which, 0);
		sep_open_tx(test, e->a, which, 0);
	}
	while (READ_ONCE(busy.rounds) < 20 && time_before(jiffies, end))
		usleep_range(50, 100);
	tr_stop(test, thread);
	KUNIT_EXPECT_EQ(test, 0, thread->result);
	KUNIT_EXPECT_GE(test, busy.rounds, 20);
}

static struct kunit_case rdm_contexts_end_cases[] = {
	KUNIT_CASE_SLOW(close_01_contexts_close_in_any_order),
	KUNIT_CASE(close_01_a_context_that_was_never_enabled),
	KUNIT_CASE(close_01_a_closed_receive_context_releases_its_buffers),
	KUNIT_CASE_SLOW(close_01_no_buffer_is_written_after_the_close),
	KUNIT_CASE_SLOW(close_01_a_transmit_context_with_queued_sends),
	KUNIT_CASE(close_01_a_transmit_context_with_a_rendezvous_send),
	KUNIT_CASE(close_01_a_claimed_message_is_unexpected_again),
	KUNIT_CASE(close_01_completions_stay_readable),
	KUNIT_CASE_SLOW(close_01_a_transmit_context_with_pending_rma),
	KUNIT_CASE_SLOW(close_01_contexts_close_beside_traffic_of_others),
	{}
};

static struct kunit_suite rdm_contexts_end_suite = {
	.name = "kofi_rdm_contexts_end",
	.test_cases = rdm_contexts_end_cases,
};

kunit_test_suite(rdm_contexts_end_suite);
