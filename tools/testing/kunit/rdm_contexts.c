// SPDX-License-Identifier: GPL-2.0
/* Tests RDM 8 of CONTRACT: messages between the contexts of scalable endpoints. */

#include <linux/delay.h>

#include "sep.h"
#include "traffic.h"

#define LONGEST	SZ_256K

/* Lengths of eager, segmented and rendezvous messages. */
static const size_t lens[] = { 0, 100, 16384, 50000, LONGEST };

struct pair {
	struct sep	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;
};

static struct pair *pair(struct kunit *test, const struct sep_opts *opts)
{
	struct pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = tr_buffer(test, LONGEST);
	p->in = tr_buffer(test, LONGEST);
	get_random_bytes(p->out, LONGEST);
	p->a = sep_open(test, opts);
	p->b = sep_open(test, opts);
	p->to_b = sep_addr(test, p->a, &p->b->name);
	return p;
}

static fi_addr_t to(struct pair *p, int rx)
{
	return fi_rx_addr(p->to_b, rx, SEP_BITS);
}

static void rdm_08_every_context_reaches_every_context(struct kunit *test)
{
	struct pair *p = pair(test, NULL);

	for (int tx = 0; tx < p->a->txs; tx++)
		for (int rx = 0; rx < p->b->rxs; rx++)
			sep_exchange(test, p->a, tx, p->to_b, p->b, rx);
	KUNIT_EXPECT_EQ(test, p->to_b, to(p, 0));
}

static void rdm_08_messages_to_itself(struct kunit *test)
{
	struct sep_opts opts = { .txs = 3, .rxs = 3 };
	struct sep *sep = sep_open(test, &opts);
	fi_addr_t self = sep_addr(test, sep, &sep->name);

	for (int tx = 0; tx < 3; tx++)
		for (int rx = 0; rx < 3; rx++)
			sep_exchange(test, sep, tx, self, sep, rx);
}

static void receive(struct kunit *test, struct pair *p, int rx, size_t len, bool is_tagged)
{
	memset(p->in, 0, len);
	if (is_tagged)
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->b->rx[rx], p->in, len, NULL, FI_ADDR_UNSPEC,
						  7, 0, p->in));
	else
		KUNIT_ASSERT_EQ(test, 0, fi_recv(p->b->rx[rx], p->in, len, NULL, FI_ADDR_UNSPEC,
						 p->in));
}

static void send(struct kunit *test, struct pair *p, int tx, int rx, size_t len, bool is_tagged)
{
	struct fid_ep *ep = p->a->tx[tx];

	if (is_tagged)
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_tsend(ep, p->out, len, NULL,
								     to(p, rx), 7, p->out)));
	else
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_send(ep, p->out, len, NULL,
								    to(p, rx), p->out)));
}

static void expect_received(struct kunit *test, struct pair *p, int rx, size_t len)
{
	struct fi_cq_tagged_entry entry;

	sep_expect(test, p->b->rx_cq[rx], p->in, &entry);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_MEMEQ(test, p->out, p->in, len);
}

static void rdm_08_messages_of_every_length_and_kind(struct kunit *test)
{
	struct sep_opts opts = { .txs = 3, .rxs = 5 };
	struct pair *p = pair(test, &opts);

	for (int i = 0; i < ARRAY_SIZE(lens) * 4; i++) {
		size_t len = lens[i / 4];
		int tx = i % 3, rx = i % 5;
		bool is_tagged = i & 1, is_expected = i & 2;

		if (is_expected)
			receive(test, p, rx, len, is_tagged);
		send(test, p, tx, rx, len, is_tagged);
		if (!is_expected) {
			msleep(20);
			receive(test, p, rx, len, is_tagged);
		}
		expect_received(test, p, rx, len);
		sep_expect(test, p->a->tx_cq[tx], p->out, NULL);
	}
}

#define MANY	200

struct numbered {
	u32	tx, number;
	u8	fill[8000];
};

/* Messages between a pair of contexts keep their order, whatever the other contexts do. */
static void rdm_08_order_is_kept_per_pair_of_contexts(struct kunit *test)
{
	struct sep_opts opts = { .txs = 4, .rxs = 4, .rx_size = MANY, .one_cq = true };
	struct numbered *out = (void *)tr_vbuffer(test, 4 * sizeof(*out));
	struct numbered *in = (void *)tr_vbuffer(test, 4 * MANY * sizeof(*in));
	struct pair *p = pair(test, &opts);
	int left = 4 * MANY, sent = 4 * MANY;
	u32 next[4][4] = {};
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 4 * MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(p->b->rx[i % 4], &in[i], sizeof(*in), NULL,
						 FI_ADDR_UNSPEC, &in[i]));
	for (int i = 0; i < 4 * MANY; i++) {
		int rx = i % 4, tx = i / 4 % 4;

		/* Some take one packet, some two; each transmit context has one buffer. */
		out[tx].tx = tx;
		out[tx].number = i;
		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_send(p->a->tx[tx], &out[tx],
				i % 3 ? 8 : sizeof(*out), NULL, to(p, rx), &out[tx])));
		sep_expect(test, p->a->tx_cq[tx], &out[tx], NULL);
		sent--;
	}
	for (; left; left--) {
		struct numbered *message;
		int rx;

		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->b->rx_cq[0], &entry, 1));
		message = entry.op_context;
		rx = (message - in) % 4;
		KUNIT_ASSERT_LT(test, message->tx, 4);
		KUNIT_EXPECT_EQ(test, rx, message->number % 4);
		KUNIT_EXPECT_GE(test, message->number, next[rx][message->tx]);
		next[rx][message->tx] = message->number + 1;
	}
	KUNIT_EXPECT_EQ(test, 0, sent);
}

/* Unexpected messages of one context are not received by others, and do not delay them. */
static void rdm_08_unexpected_messages_are_per_context(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 3 };
	struct pair *p = pair(test, &opts);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		send(test, p, 0, 2, lens[i], i & 1);
	/* The rendezvous message completes when it is received. */
	for (int i = 1; i < ARRAY_SIZE(lens); i++)
		sep_expect(test, p->a->tx_cq[0], p->out, NULL);
	for (int rx = 0; rx < 2; rx++) {
		receive(test, p, rx, 100, false);
		msleep(20);
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(p->b->rx_cq[rx], &entry, 1));
		send(test, p, 0, rx, 100, false);
		expect_received(test, p, rx, 100);
		sep_expect(test, p->a->tx_cq[0], p->out, NULL);
	}
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		receive(test, p, 2, lens[i], i & 1);
		expect_received(test, p, 2, lens[i]);
	}
	sep_expect(test, p->a->tx_cq[0], p->out, NULL);
}

static void rdm_08_messages_arrive_before_their_context_is_open(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 1 };
	struct pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = tr_buffer(test, LONGEST);
	p->in = tr_buffer(test, LONGEST);
	get_random_bytes(p->out, LONGEST);
	p->a = sep_open(test, &opts);
	p->b = sep_open_unbound(test, NULL);
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(p->b->ep, &p->b->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(p->b->ep));
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&p->b->ep->fid, &p->b->name, &p->b->name_len));
	p->to_b = sep_addr(test, p->a, &p->b->name);
	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		send(test, p, 0, 9, lens[i], i & 1);
	msleep(20);
	sep_open_rx(test, p->b, 8, 0);
	sep_open_rx(test, p->b, 9, 0);
	/* The first message is untagged. */
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		receive(test, p, 9, lens[i], i & 1);
		expect_received(test, p, 9, lens[i]);
	}
	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		sep_expect(test, p->a->tx_cq[0], p->out, NULL);
}

/* Opens an ordinary endpoint whose AV has rx_ctx_bits. */
static struct kofi_rdm *open_ordinary(struct kunit *test, int bits)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .rx_ctx_bits = bits };
	struct kofi_rdm *rdm = rdm_make(test, NULL);

	/* The endpoint is closed before its vector. */
	fx_close(test, &rdm->ep->fid);
	fx_close(test, &rdm->av->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(rdm->domain, &attr, &rdm->av, NULL));
	fx_defer_close(test, &rdm->av->fid);
	rdm->ep = fx_ep(test, rdm->domain, rdm->info);
	rdm_start(test, rdm, 0);
	return rdm;
}

static void rdm_08_an_ordinary_endpoint_reaches_contexts(struct kunit *test)
{
	u8 *buf = kunit_kzalloc(test, 64, GFP_KERNEL);
	struct kofi_rdm *rdm = open_ordinary(test, SEP_BITS);
	struct sep_opts opts = { .rxs = SEP_MAX };
	struct sep *sep = sep_open(test, &opts);
	fi_addr_t to_sep, from_sep;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, 1, rdm_insert(rdm, &sep->name, &to_sep, 0));
	from_sep = sep_addr(test, sep, &rdm->name);
	for (int rx = 0; rx < SEP_MAX; rx++) {
		memset(buf, 0, 64);
		buf[0] = rx + 1;
		KUNIT_ASSERT_EQ(test, 0, fi_recv(sep->rx[rx], buf + 32, 8, NULL, FI_ADDR_UNSPEC,
						 buf + 32));
		KUNIT_ASSERT_EQ(test, 0, rdm_send(rdm, fi_rx_addr(to_sep, rx, SEP_BITS), buf, 8,
						  buf));
		rdm_expect(test, rdm, buf, NULL);
		sep_expect(test, sep->rx_cq[rx], buf + 32, NULL);
		KUNIT_EXPECT_EQ(test, rx + 1, buf[32]);
	}
	/* Each transmit context reaches the ordinary endpoint, which has context 0 only. */
	for (int tx = 0; tx < SEP_DEFAULT; tx++) {
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(rdm, FI_ADDR_UNSPEC, buf, 8, buf));
		KUNIT_ASSERT_EQ(test, 0, fi_send(sep->tx[tx], buf + 32, 8, NULL, from_sep, buf));
		rdm_expect(test, rdm, buf, NULL);
		sep_expect(test, sep->tx_cq[tx], buf, NULL);
	}
}

static void rdm_08_sends_to_missing_contexts_fail(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 3 };
	struct pair *p = pair(test, &opts);
	struct fi_cq_err_entry error;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		memset(&error, 0, sizeof(error));
		KUNIT_ASSERT_EQ(test, 0, fi_send(p->a->tx[0], p->out, lens[i], NULL, to(p, 3 + i),
						 p->out));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->a->tx_cq[0], &error));
		KUNIT_EXPECT_EQ(test, FI_EINVAL, error.err);
		KUNIT_EXPECT_PTR_EQ(test, (void *)p->out, error.op_context);
		/* The error concerns only that message. */
		sep_exchange(test, p->a, 1, p->to_b, p->b, 2);
	}
}

static void ep_11_multi_recv_of_a_receive_context(struct kunit *test)
{
	struct sep_opts opts = { .txs = 2, .rxs = 3, .caps = FI_MULTI_RECV };
	struct pair *p = pair(test, &opts);
	struct fi_cq_tagged_entry entry;
	u8 *next = p->in;
	size_t least = 64;
	struct kvec iov = { p->in, 3 * 20000 };
	struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = p->in,
	};

	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&p->b->rx[2]->fid, FI_OPT_ENDPOINT,
					   FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	/* The first message arrives before the buffer; messages for context 1 do not use it. */
	send(test, p, 0, 2, 20000, false);
	send(test, p, 0, 1, 20000, false);
	msleep(20);
	KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(p->b->rx[2], &msg, FI_MULTI_RECV));
	send(test, p, 1, 1, 20000, false);
	for (int i = 0; i < 3; i++) {
		if (i)
			send(test, p, i % 2, 2, 20000, false);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->b->rx_cq[2], &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, next, entry.buf);
		KUNIT_EXPECT_EQ(test, 20000, entry.len);
		KUNIT_EXPECT_EQ(test, i == 2 ? FI_MULTI_RECV : 0, entry.flags & FI_MULTI_RECV);
		KUNIT_EXPECT_MEMEQ(test, p->out, next, 20000);
		next += 20000;
	}
	for (int i = 0; i < 2; i++) {
		receive(test, p, 1, 20000, false);
		expect_received(test, p, 1, 20000);
	}
}

/* Peeks at, claims or receives a tagged message; returns its length or a negative errno. */
static int trecvmsg(struct kunit *test, struct pair *p, int rx, u64 flags, void *context)
{
	struct kvec iov = { p->in, LONGEST };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 7,
		.context = context,
	};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {};
	int ret;

	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(p->b->rx[rx], &msg, flags));
	ret = fi_cq_sread(p->b->rx_cq[rx], &entry, 1, NULL, FX_WAIT_MS);
	if (ret == 1)
		return entry.len;
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL, ret);
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(p->b->rx_cq[rx], &error, 0));
	return -error.err;
}

/* Peeks until there is a message. */
static int await_unexpected(struct kunit *test, struct pair *p, int rx, u64 flags, void *context)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	int ret;

	while ((ret = trecvmsg(test, p, rx, FI_PEEK | flags, context)) == -FI_ENOMSG &&
	       time_before(jiffies, end))
		usleep_range(50, 100);
	return ret;
}

static void rdm_05_a_context_peeks_at_its_own_messages(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 2 };
	struct pair *p = pair(test, &opts);
	int one, other;

	for (int i = 1; i < ARRAY_SIZE(lens); i++) {
		size_t len = lens[i];

		for (int k = 0; k < 3; k++)
			send(test, p, 0, 1, len - k, true);
		KUNIT_ASSERT_EQ(test, len, await_unexpected(test, p, 1, 0, &one));
		KUNIT_EXPECT_EQ(test, -FI_ENOMSG, trecvmsg(test, p, 0, FI_PEEK, &one));
		KUNIT_EXPECT_EQ(test, len, trecvmsg(test, p, 1, FI_PEEK | FI_CLAIM, &one));
		KUNIT_EXPECT_EQ(test, len - 1, await_unexpected(test, p, 1, FI_DISCARD, &other));
		KUNIT_EXPECT_EQ(test, len, trecvmsg(test, p, 1, FI_CLAIM, &one));
		KUNIT_EXPECT_MEMEQ(test, p->out, p->in, len);
		receive(test, p, 1, len - 2, true);
		expect_received(test, p, 1, len - 2);
		for (int k = 0; k < 3; k++)
			sep_expect(test, p->a->tx_cq[0], p->out, NULL);
	}
}

static void rdm_05_a_context_cancels_its_own_receives(struct kunit *test)
{
	struct sep_opts opts = { .txs = 1, .rxs = 2 };
	struct pair *p = pair(test, &opts);
	struct fi_cq_err_entry error = {};

	receive(test, p, 1, 100, false);
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&p->b->rx[0]->fid, p->in));
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&p->b->rx[1]->fid, p->in));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->b->rx_cq[1], &error));
	KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	KUNIT_EXPECT_PTR_EQ(test, (void *)p->in, error.op_context);
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&p->b->rx[1]->fid, p->in));
	sep_exchange(test, p->a, 0, p->to_b, p->b, 1);
}

static void cq_12_the_source_is_the_same_for_all_transmit_contexts(struct kunit *test)
{
	struct sep_opts opts = { .txs = 3, .rxs = 2, .caps = FI_SOURCE | FI_DIRECTED_RECV };
	struct pair *p = pair(test, &opts);
	struct sep *other = sep_open(test, &opts);
	fi_addr_t from_a = sep_addr(test, p->b, &p->a->name);
	fi_addr_t from_other = sep_addr(test, p->b, &other->name);
	fi_addr_t other_to_b = sep_addr(test, other, &p->b->name);
	struct fi_cq_tagged_entry entry;
	struct fid_cq *cq = p->b->rx_cq[1];
	fi_addr_t source;

	for (int tx = 0; tx < 3; tx++) {
		/* Directed receives ignore the receive context bits of a source address. */
		KUNIT_ASSERT_EQ(test, 0, fi_recv(p->b->rx[1], p->in, 8, NULL,
						 fi_rx_addr(from_a, tx, SEP_BITS), p->in));
		KUNIT_ASSERT_EQ(test, 0, fi_recv(p->b->rx[1], p->in + 8, 8, NULL, from_other,
						 p->in + 8));
		KUNIT_ASSERT_EQ(test, 0, fi_send(other->tx[tx], p->out, 8, NULL,
						 fi_rx_addr(other_to_b, 1, SEP_BITS), NULL));
		sep_expect(test, other->tx_cq[tx], NULL, NULL);
		KUNIT_ASSERT_EQ(test, 1, fi_cq_sreadfrom(cq, &entry, 1, &source, NULL,
							 FX_WAIT_MS));
		KUNIT_EXPECT_PTR_EQ(test, (void *)(p->in + 8), entry.op_context);
		KUNIT_EXPECT_EQ(test, from_other, source);
		send(test, p, tx, 1, 8, false);
		sep_expect(test, p->a->tx_cq[tx], p->out, NULL);
		KUNIT_ASSERT_EQ(test, 1, fi_cq_sreadfrom(cq, &entry, 1, &source, NULL,
							 FX_WAIT_MS));
		KUNIT_EXPECT_PTR_EQ(test, (void *)p->in, entry.op_context);
		KUNIT_EXPECT_EQ(test, from_a, source);
	}
}

static void cntr_03_each_context_has_counters_of_its_own(struct kunit *test)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct sep_opts opts = { .txs = 2, .rxs = 2, .cq_flags = FI_SELECTIVE_COMPLETION };
	u8 *buf = tr_buffer(test, 64);
	struct sep *sep = sep_open_unbound(test, &opts);
	struct fid_cntr *sent[2], *received[2];
	fi_addr_t self;

	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
	for (int i = 0; i < 2; i++) {
		struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };

		KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(sep->domain, &attr, &sent[i], NULL));
		fx_defer_close(test, &sent[i]->fid);
		KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(sep->domain, &attr, &received[i], NULL));
		fx_defer_close(test, &received[i]->fid);
		sep->tx_cq[i] = fx_cq(test, sep->domain, &cq_attr);
		KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, i, NULL, &sep->tx[i], NULL));
		fx_defer_close(test, &sep->tx[i]->fid);
		KUNIT_ASSERT_EQ(test, 0, fi_rx_context(sep->ep, i, NULL, &sep->rx[i], NULL));
		fx_defer_close(test, &sep->rx[i]->fid);
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(sep->tx[i], &sent[i]->fid, FI_SEND));
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(sep->rx[i], &received[i]->fid, FI_RECV));
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(sep->tx[i], &sep->tx_cq[i]->fid,
						    FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
		KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(sep->rx[i], &sep->tx_cq[i]->fid,
						    FI_RECV | FI_SELECTIVE_COMPLETION));
		KUNIT_ASSERT_EQ(test, 0, fi_enable(sep->tx[i]));
		KUNIT_ASSERT_EQ(test, 0, fi_enable(sep->rx[i]));
	}
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&sep->ep->fid, &sep->name, &sep->name_len));
	self = sep_addr(test, sep, &sep->name);
	for (int i = 0; i < 6; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(sep->rx[i % 2], buf, 8, NULL, FI_ADDR_UNSPEC, buf));
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(sep->tx[1], buf + 32, 8, NULL,
						 fi_rx_addr(self, 1, SEP_BITS), NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_send(sep->tx[0], buf + 32, 8, NULL, self, NULL));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(received[1], 3, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(sent[1], 3, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(received[0], 1, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(sent[0], 1, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 3, fi_cntr_read(received[1]));
	/* A counter can be closed once its context is closed. */
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&sent[1]->fid));
	fx_close(test, &sep->tx[1]->fid);
	fx_close(test, &sent[1]->fid);
	fx_close(test, &sep->rx[1]->fid);
	fx_close(test, &received[1]->fid);
	KUNIT_EXPECT_EQ(test, 1, fi_cntr_read(received[0]));
}

static struct kunit_case rdm_contexts_cases[] = {
	KUNIT_CASE(rdm_08_every_context_reaches_every_context),
	KUNIT_CASE(rdm_08_messages_to_itself),
	KUNIT_CASE(rdm_08_messages_of_every_length_and_kind),
	KUNIT_CASE(rdm_08_order_is_kept_per_pair_of_contexts),
	KUNIT_CASE(rdm_08_unexpected_messages_are_per_context),
	KUNIT_CASE(rdm_08_messages_arrive_before_their_context_is_open),
	KUNIT_CASE(rdm_08_an_ordinary_endpoint_reaches_contexts),
	KUNIT_CASE(rdm_08_sends_to_missing_contexts_fail),
	KUNIT_CASE(ep_11_multi_recv_of_a_receive_context),
	KUNIT_CASE(rdm_05_a_context_peeks_at_its_own_messages),
	KUNIT_CASE(rdm_05_a_context_cancels_its_own_receives),
	KUNIT_CASE(cq_12_the_source_is_the_same_for_all_transmit_contexts),
	KUNIT_CASE(cntr_03_each_context_has_counters_of_its_own),
	{}
};

static struct kunit_suite rdm_contexts_suite = {
	.name = "kofi_rdm_contexts",
	.test_cases = rdm_contexts_cases,
};

kunit_test_suite(rdm_contexts_suite);
