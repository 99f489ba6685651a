// SPDX-License-Identifier: GPL-2.0
/* Tests FI_DELIVERY_COMPLETE of datagrams: a send completes when the message is in its receive. */

#include <linux/delay.h>

#include "rdm_srx.h"

#define LEN		100
#define LONGEST		SZ_256K
/* Time to wait for a completion that must not come */
#define SILENCE_MS	20
/* Number of messages to one peer that may await an acknowledgement */
#define MANY		64

/* Messages of one packet, of segments, and of a rendezvous. */
static const size_t lens[] = { 0, 1, LEN, SZ_16K, SZ_16K + 1, SZ_128K, SZ_128K + 1, LONGEST };

struct pair {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b;
	u8		*out, *in;
};

static struct pair *open_pair(struct kunit *test, const struct rdm_opts *opts)
{
	struct pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = tr_vbuffer(test, LONGEST);
	p->in = tr_vbuffer(test, LONGEST);
	p->a = rdm_open(test, opts);
	p->b = rdm_open(test, opts);
	p->to_b = rdm_addr(test, p->a, p->b);
	return p;
}

static ssize_t send_flags(struct kofi_rdm *rdm, fi_addr_t to, void *buf, size_t len, u64 tag,
			  u64 flags)
{
	const struct kvec iov = { buf, len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = to, .tag = tag, .context = buf,
	};

	return retry_while_eagain(fi_tsendmsg(rdm->ep, &msg, flags));
}

static void send_delivered(struct kunit *test, struct pair *p, size_t len, u64 tag)
{
	KUNIT_ASSERT_EQ(test, 0, send_flags(p->a, p->to_b, p->out, len, tag, FI_DELIVERY_COMPLETE));
}

static ssize_t trecv(struct kofi_rdm *rdm, void *buf, size_t len, u64 tag)
{
	return retry_while_eagain(fi_trecv(rdm->ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, buf));
}

static void expect_silence(struct kunit *test, struct kofi_rdm *rdm)
{
	struct fi_cq_tagged_entry entry;

	msleep(SILENCE_MS);
	KUNIT_ASSERT_EQ_MSG(test, -FI_EAGAIN, fi_cq_read(rdm->cq, &entry, 1),
			    "completed without a receive");
}

/* Messages that arrive before their receive, and after it. */
static void ep_08_a_delivered_datagram_is_in_its_receive(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		size_t len = lens[i / 2];
		bool is_early = i % 2;

		tr_fill(p->out, len, i);
		memset(p->in, 0, LONGEST);
		if (!is_early)
			KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in, len, 7));
		send_delivered(test, p, len, 7);
		if (is_early) {
			rdm_await_unexpected(test, p->b, 7);
			expect_silence(test, p->a);
			KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in, len, 7));
		}
		rdm_expect(test, p->a, p->out, &entry);
		KUNIT_EXPECT_EQ(test, FI_SEND | FI_TAGGED, entry.flags);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(p->in, len, i), "%zu bytes", len);
		rdm_expect(test, p->b, p->in, &entry);
		KUNIT_EXPECT_EQ(test, len, entry.len);
	}
}

/* Posts a message by each call that has the endpoint's default flags. */
static ssize_t send_as(struct pair *p, int form)
{
	const struct kvec iov = { p->out, LEN };

	switch (form) {
	case 0:
		return fi_send(p->a->ep, p->out, LEN, NULL, p->to_b, p->out);
	case 1:
		return fi_sendv(p->a->ep, &iov, NULL, 1, p->to_b, p->out);
	case 2:
		return fi_senddata(p->a->ep, p->out, LEN, NULL, 1, p->to_b, p->out);
	case 3:
		return fi_tsend(p->a->ep, p->out, LEN, NULL, p->to_b, 7, p->out);
	case 4:
		return fi_tsendv(p->a->ep, &iov, NULL, 1, p->to_b, 7, p->out);
	default:
		return fi_tsenddata(p->a->ep, p->out, LEN, NULL, 1, p->to_b, 7, p->out);
	}
}

static void ep_08_delivery_is_a_default_flag_of_datagrams(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	u64 flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE | FI_COMPLETION;
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_control(&p->a->ep->fid, FI_SETOPSFLAG, &flags));
	for (int form = 0; form < 6; form++) {
		KUNIT_ASSERT_EQ(test, 0, send_as(p, form));
		expect_silence(test, p->a);
		if (form < 3)
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->b, FI_ADDR_UNSPEC, p->in, LEN, p->in));
		else
			KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in, LEN, 7));
		rdm_expect(test, p->a, p->out, NULL);
		rdm_expect(test, p->b, p->in, &entry);
		KUNIT_EXPECT_EQ(test, form % 3 == 2, entry.data);
	}
	/* An inject writes no entry, whatever the default flags are. */
	KUNIT_ASSERT_EQ(test, 0, fi_tinject(p->a->ep, p->out, LEN, p->to_b, 7));
	KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in, LEN, 7));
	rdm_expect(test, p->b, p->in, NULL);
	expect_silence(test, p->a);
}

static void info_14_delivery_of_datagrams_is_offered(struct kunit *test)
{
	static const u64 caps[] = { FI_MSG, FI_TAGGED, FI_MSG | FI_RMA };
	bool is_iwarp = tr_is_iwarp(fx_info(test, fx_addr, NULL, FI_SOURCE));

	for (int i = 0; i < ARRAY_SIZE(caps); i++) {
		struct fi_info *hints = rdm_hints(test), *info = NULL;
		/* An iWARP device does not report the delivery of a write. */
		bool is_offered = !is_iwarp || !(caps[i] & FI_RMA);
		int ret;

		hints->caps = caps[i];
		hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
		ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints, &info);
		KUNIT_EXPECT_EQ(test, is_offered ? 0 : -FI_ENODATA, ret);
		if (ret)
			continue;
		KUNIT_EXPECT_EQ(test, FI_DELIVERY_COMPLETE, info->tx_attr->op_flags);
		fi_freeinfo(info);
	}
}

/* The buffer belongs to the caller at once, the completion follows the receive. */
static void ep_12_an_injected_datagram_is_delivered(struct kunit *test)
{
	static const struct rdm_opts opts = { .inject_size = SZ_16K };
	struct pair *p = open_pair(test, &opts);

	for (int i = 0; lens[i] <= SZ_16K; i++) {
		tr_fill(p->out, lens[i], i);
		KUNIT_ASSERT_EQ(test, 0, send_flags(p->a, p->to_b, p->out, lens[i], 7,
						    FI_DELIVERY_COMPLETE | FI_INJECT));
		memset(p->out, 0, lens[i]);
		rdm_await_unexpected(test, p->b, 7);
		expect_silence(test, p->a);
		KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in, lens[i], 7));
		rdm_expect(test, p->a, p->out, NULL);
		rdm_expect(test, p->b, p->in, NULL);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(p->in, lens[i], i), "%zu bytes", lens[i]);
	}
}

/* Truncation fails the receive only: the part that fits is delivered. */
static void cq_08_a_truncated_datagram_is_delivered(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct fi_cq_err_entry error;

	for (int i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		size_t len = lens[i / 2], fits = i % 2 ? len / 2 : 0;

		if (!len)
			continue;
		tr_fill(p->out, len, i);
		KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in, fits, 7));
		send_delivered(test, p, len, 7);
		rdm_expect(test, p->a, p->out, NULL);
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->b->cq, &error));
		KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
		KUNIT_EXPECT_EQ(test, len - fits, error.olen);
		KUNIT_EXPECT_TRUE(test, tr_intact(p->in, fits, i));
	}
}

static void peek(struct kunit *test, struct pair *p, u64 flags)
{
	struct fi_msg_tagged msg = {
		.addr = FI_ADDR_UNSPEC, .tag = 7, .context = p->in,
	};
	struct kvec iov = { p->in, LONGEST };

	if (flags == FI_CLAIM) {
		msg.msg_iov = &iov;
		msg.iov_count = 1;
	}
	KUNIT_ASSERT_EQ(test, 0, fi_trecvmsg(p->b->ep, &msg, flags));
	rdm_expect(test, p->b, p->in, NULL);
}

/* A message that is peeked at or claimed is not delivered before it is received or dropped. */
static void rdm_05_a_claimed_or_discarded_datagram_is_delivered(struct kunit *test)
{
	static const u64 ends[][2] = {
		{ FI_PEEK, FI_PEEK | FI_DISCARD },
		{ FI_PEEK | FI_CLAIM, FI_CLAIM },
		{ FI_PEEK | FI_CLAIM, FI_CLAIM | FI_DISCARD },
	};
	struct pair *p = open_pair(test, NULL);

	for (int i = 0; i < ARRAY_SIZE(lens) * ARRAY_SIZE(ends); i++) {
		size_t len = lens[i / ARRAY_SIZE(ends)];
		const u64 *end = ends[i % ARRAY_SIZE(ends)];

		send_delivered(test, p, len, 7);
		rdm_await_unexpected(test, p->b, 7);
		peek(test, p, end[0]);
		expect_silence(test, p->a);
		peek(test, p, end[1]);
		rdm_expect(test, p->a, p->out, NULL);
	}
}

/* As many messages as one peer may hold, received in reverse order. */
static void rdm_06_many_datagrams_await_their_receives(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 4 * MANY };
	struct pair *p = open_pair(test, &opts);

	for (int round = 0; round < 3; round++) {
		struct fi_cq_tagged_entry entry;
		u64 done = 0;

		for (int i = 0; i < MANY; i++) {
			tr_fill(p->out + i * LEN, LEN, i);
			KUNIT_ASSERT_EQ(test, 0, send_flags(p->a, p->to_b, p->out + i * LEN, LEN, i,
							    FI_DELIVERY_COMPLETE));
		}
		rdm_await_unexpected(test, p->b, MANY - 1);
		expect_silence(test, p->a);
		for (int i = MANY - 1; i >= 0; i--)
			KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in + i * LEN, LEN, i));
		for (int i = 0; i < MANY; i++) {
			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->a->cq, &entry, 1));
			done |= BIT_ULL(((u8 *)entry.op_context - p->out) / LEN);
			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->b->cq, &entry, 1));
		}
		KUNIT_EXPECT_EQ(test, ~0ull, done);
		for (int i = 0; i < MANY; i++)
			KUNIT_EXPECT_TRUE(test, tr_intact(p->in + i * LEN, LEN, i));
	}
}

/* Messages in both directions at once, which use up the packets of both ends. */
static void rdm_06_datagrams_are_delivered_in_both_directions(struct kunit *test)
{
	static const struct rdm_opts opts = { .cq_size = 4 * MANY };
	struct pair *p = open_pair(test, &opts);
	struct kofi_rdm *rdm[] = { p->a, p->b };
	fi_addr_t to[] = { p->to_b, rdm_addr(test, p->b, p->a) };
	int received[2] = {}, sent[2] = {};
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < MANY; i++)
		for (int n = 0; n < 2; n++)
			KUNIT_ASSERT_EQ(test, 0, send_flags(rdm[n], to[n], p->out, SZ_1K, i,
							    FI_DELIVERY_COMPLETE));
	for (int i = 0; i < MANY; i++)
		for (int n = 0; n < 2; n++)
			KUNIT_ASSERT_EQ(test, 0, trecv(rdm[n], p->in + (2 * i + n) * SZ_1K, SZ_1K,
						       i));
	while (received[0] + received[1] + sent[0] + sent[1] < 4 * MANY) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "received %d and %d of %d, sent %d and %d",
				      received[0], received[1], MANY, sent[0], sent[1]);
		for (int n = 0; n < 2; n++) {
			if (fi_cq_read(rdm[n]->cq, &entry, 1) != 1)
				continue;
			if (entry.flags & FI_SEND)
				sent[n]++;
			else
				received[n]++;
		}
		cond_resched();
	}
}

static void rdm_04_a_datagram_to_itself_is_delivered(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	fi_addr_t self = rdm_addr(test, rdm, rdm);
	u8 *out = tr_vbuffer(test, LONGEST), *in = tr_vbuffer(test, LONGEST);
	struct fi_cq_tagged_entry entries[2];

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		tr_fill(out, lens[i], i);
		KUNIT_ASSERT_EQ(test, 0, send_flags(rdm, self, out, lens[i], 7,
						    FI_DELIVERY_COMPLETE));
		rdm_await_unexpected(test, rdm, 7);
		expect_silence(test, rdm);
		KUNIT_ASSERT_EQ(test, 0, trecv(rdm, in, lens[i], 7));
		KUNIT_ASSERT_EQ(test, 2, fx_wait_comp(test, rdm->cq, entries, 2));
		KUNIT_EXPECT_TRUE(test, tr_intact(in, lens[i], i));
	}
}

/* A cancelled receive takes nothing, and a peer that ends fails what it has not received. */
static void rdm_05_a_datagram_without_a_receive_is_not_delivered(struct kunit *test)
{
	struct pair *p = open_pair(test, NULL);
	struct fi_cq_err_entry error;

	KUNIT_ASSERT_EQ(test, 0, trecv(p->b, p->in, LEN, 7));
	KUNIT_ASSERT_EQ(test, 0, fi_cancel(&p->b->ep->fid, p->in));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->b->cq, &error));
	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		KUNIT_ASSERT_EQ(test, 0, send_flags(p->a, p->to_b, p->out + i, lens[i] / 2, i,
						    FI_DELIVERY_COMPLETE));
	rdm_await_unexpected(test, p->b, ARRAY_SIZE(lens) - 1);
	expect_silence(test, p->a);
	fx_close(test, &p->b->ep->fid);
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->a->cq, &error));
		if (error.err != FI_ECONNABORTED)
			KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
	}
}

static void ep_11_a_datagram_in_a_multi_receive_buffer_is_delivered(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_MULTI_RECV };
	struct pair *p = open_pair(test, &opts);
	const struct kvec out = { p->out, LEN }, in = { p->in, LONGEST };
	const struct fi_msg send = {
		.msg_iov = &out, .iov_count = 1, .addr = p->to_b, .context = p->out,
	};
	const struct fi_msg receive = {
		.msg_iov = &in, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = p->in,
	};

	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(p->a->ep, &send, FI_DELIVERY_COMPLETE));
		if (!i) {
			expect_silence(test, p->a);
			KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(p->b->ep, &receive, FI_MULTI_RECV));
		}
		rdm_expect(test, p->a, p->out, NULL);
		rdm_expect(test, p->b, p->in, NULL);
	}
}

static void post_shared(struct kunit *test, struct rs_world *world, void *buf, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(world->srx, buf, len, NULL, FI_ADDR_UNSPEC, 7, 0, buf));
}

static void ep_08_a_datagram_in_a_shared_receive_is_delivered(struct kunit *test)
{
	u8 *in = tr_vbuffer(test, LONGEST), *out = tr_vbuffer(test, LONGEST);
	struct rs_world *world = rs_open(test, NULL);
	struct kofi_rdm *sender = world->sender[0];

	for (int i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		size_t len = lens[i / 2];
		bool is_early = i % 2;

		tr_fill(out, len, i);
		if (!is_early)
			post_shared(test, world, in, len);
		KUNIT_ASSERT_EQ(test, 0, send_flags(sender, world->to[0][i % 2], out, len, 7,
						    FI_DELIVERY_COMPLETE));
		if (is_early) {
			expect_silence(test, sender);
			post_shared(test, world, in, len);
		}
		rdm_expect(test, sender, out, NULL);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, len, i));
		rdm_expect(test, &world->member[i % 2], in, NULL);
	}
}

static struct kunit_case rdm_delivery_cases[] = {
	KUNIT_CASE(ep_08_a_delivered_datagram_is_in_its_receive),
	KUNIT_CASE(ep_08_delivery_is_a_default_flag_of_datagrams),
	KUNIT_CASE(info_14_delivery_of_datagrams_is_offered),
	KUNIT_CASE(ep_12_an_injected_datagram_is_delivered),
	KUNIT_CASE(cq_08_a_truncated_datagram_is_delivered),
	KUNIT_CASE(rdm_05_a_claimed_or_discarded_datagram_is_delivered),
	KUNIT_CASE(rdm_06_many_datagrams_await_their_receives),
	KUNIT_CASE(rdm_06_datagrams_are_delivered_in_both_directions),
	KUNIT_CASE(rdm_04_a_datagram_to_itself_is_delivered),
	KUNIT_CASE(rdm_05_a_datagram_without_a_receive_is_not_delivered),
	KUNIT_CASE(ep_11_a_datagram_in_a_multi_receive_buffer_is_delivered),
	KUNIT_CASE(ep_08_a_datagram_in_a_shared_receive_is_delivered),
	{}
};

static struct kunit_suite rdm_delivery_suite = {
	.name = "kofi_rdm_delivery",
	.test_cases = rdm_delivery_cases,
};

kunit_test_suite(rdm_delivery_suite);
