// SPDX-License-Identifier: GPL-2.0
/* Tests messages between datagram endpoints that do not fit into one packet. */

#include <linux/delay.h>
#include <linux/prandom.h>
#include <linux/vmalloc.h>

#include "rdm.h"

#define PACKET		16384
#define SEGMENTS	(8 * PACKET)
#define LONGEST		(SZ_1M + 7)

/* Lengths of eager, segmented and rendezvous messages. */
static const size_t lens[] = {
	PACKET - 1, PACKET, PACKET + 1, 3 * PACKET, SEGMENTS - 1, SEGMENTS, SEGMENTS + 1, SZ_512K,
	LONGEST,
};

struct pair {
	struct kofi_rdm	*a, *b;
	fi_addr_t	to_b, to_a;
	u8		*out, *in;
};

KUNIT_DEFINE_ACTION_WRAPPER(free_memory, kvfree, const void *);

static u8 *memory(struct kunit *test, size_t len, bool paged)
{
	u8 *buf = paged ? vzalloc(len) : kvzalloc(len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_memory, buf));
	return buf;
}

static struct pair *pair(struct kunit *test, bool paged)
{
	struct pair *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = memory(test, LONGEST, paged);
	p->in = memory(test, LONGEST, paged);
	get_random_bytes(p->out, LONGEST);
	p->a = rdm_open(test, NULL);
	p->b = rdm_open(test, NULL);
	p->to_b = rdm_addr(test, p->a, p->b);
	p->to_a = rdm_addr(test, p->b, p->a);
	return p;
}

/* Reads both completions of a message from out to in. */
static void expect(struct kunit *test, struct pair *p, size_t len)
{
	struct fi_cq_tagged_entry entry;

	rdm_expect(test, p->b, p->in, &entry);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG, entry.flags);
	rdm_expect(test, p->a, p->out, &entry);
	KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, entry.flags);
	KUNIT_EXPECT_EQ(test, 0, memcmp(p->out, p->in, len));
}

static void exchange(struct kunit *test, struct pair *p, size_t len)
{
	memset(p->in, 0, len);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->b, FI_ADDR_UNSPEC, p->in, len, p->in));
	KUNIT_ASSERT_EQ(test, 0, rdm_send(p->a, p->to_b, p->out, len, p->out));
	expect(test, p, len);
}

static void rdm_03_messages_of_all_lengths(struct kunit *test)
{
	struct pair *p = pair(test, false);

	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		exchange(test, p, lens[i]);
}

static void rdm_03_messages_of_all_lengths_in_pages(struct kunit *test)
{
	struct pair *p = pair(test, true);

	for (int i = 0; i < ARRAY_SIZE(lens); i++)
		exchange(test, p, lens[i]);
}

static void rdm_06_long_unexpected_messages(struct kunit *test)
{
	struct pair *p = pair(test, false);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		memset(p->in, 0, lens[i]);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(p->a, p->to_b, p->out, lens[i], p->out));
		/* The message may have arrived by then, or not. */
		usleep_range(1000, 2000);
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_cq_read(p->b->cq, &entry, 1));
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->b, FI_ADDR_UNSPEC, p->in, lens[i], p->in));
		expect(test, p, lens[i]);
	}
}

static void rdm_03_long_messages_in_several_parts(struct kunit *test)
{
	struct pair *p = pair(test, false);
	size_t size = LONGEST / 4;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		size_t len = lens[i], first = len / 5;
		struct kvec from[] = {
			{ p->out, first }, { p->out + first, 0 }, { p->out + first, len - first },
		};
		struct kvec to[] = {
			{ p->in, len / 3 }, { p->in + len / 3, 1 },
			{ p->in + len / 3 + 1, len - len / 3 - 1 },
		};

		KUNIT_ASSERT_LE(test, first, size);
		memset(p->in, 0, len);
		KUNIT_ASSERT_EQ(test, 0, fi_recvv(p->b->ep, to, NULL, 3, FI_ADDR_UNSPEC, p->in));
		KUNIT_ASSERT_EQ(test, 0, fi_sendv(p->a->ep, from, NULL, 3, p->to_b, p->out));
		expect(test, p, len);
	}
}

static void cq_08_long_messages_are_truncated(struct kunit *test)
{
	static const size_t sizes[] = { 0, 1, PACKET, PACKET + 1, 2 * PACKET - 1 };
	struct pair *p = pair(test, false);
	struct fi_cq_err_entry error;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		for (int n = 0; n < ARRAY_SIZE(sizes); n++) {
			size_t space = sizes[n];

			if (space >= lens[i])
				continue;
			memset(p->in, 0, 3 * PACKET);
			KUNIT_ASSERT_EQ(test, 0,
					rdm_recv(p->b, FI_ADDR_UNSPEC, p->in, space, p->in));
			KUNIT_ASSERT_EQ(test, 0, rdm_send(p->a, p->to_b, p->out, lens[i], p->out));
			KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->b->cq, &error));
			KUNIT_EXPECT_PTR_EQ(test, (void *)p->in, error.op_context);
			KUNIT_EXPECT_EQ(test, FI_ETRUNC, error.err);
			KUNIT_EXPECT_EQ(test, space, error.len);
			KUNIT_EXPECT_EQ(test, lens[i] - space, error.olen);
			KUNIT_EXPECT_EQ(test, 0, memcmp(p->out, p->in, space));
			KUNIT_EXPECT_EQ(test, 0, p->in[space]);
			/* The truncation does not affect the sender. */
			rdm_expect(test, p->a, p->out, NULL);
		}
	}
	exchange(test, p, LONGEST);
}

#define MANY	24

/* Messages of all lengths, from both sides at once, received in any order. */
static void rdm_05_many_long_messages_at_once(struct kunit *test)
{
	struct pair *p = pair(test, false);
	struct kofi_rdm *side[] = { p->a, p->b };
	fi_addr_t to[] = { p->to_b, p->to_a };
	u8 *in = memory(test, 2 * MANY * SZ_256K, false);
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < MANY; i++) {
		for (int s = 0; s < 2; s++) {
			size_t len = 1 + get_random_u32_below(SZ_256K);

			KUNIT_ASSERT_EQ(test, 0, fi_tsend(side[s]->ep, p->out, len, NULL, to[s], i, NULL));
		}
	}
	for (int i = 0; i < MANY; i++) {
		/* A permutation of the tags. */
		int tag = (5 * i + 3) % MANY;

		for (int s = 0; s < 2; s++) {
			u8 *dst = in + (s * MANY + tag) * SZ_256K;

			KUNIT_ASSERT_EQ(test, 0, fi_trecv(side[s]->ep, dst, SZ_256K, NULL, FI_ADDR_UNSPEC, tag, 0,
							  dst));
		}
	}
	for (int s = 0; s < 2; s++) {
		for (int left = 2 * MANY; left--;) {
			u8 *dst;

			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, side[s]->cq, &entry, 1));
			if (entry.flags & FI_SEND)
				continue;
			dst = entry.op_context;
			KUNIT_EXPECT_PTR_EQ(test, (void *)(in + (s * MANY + entry.tag) * SZ_256K),
					    (void *)dst);
			KUNIT_EXPECT_EQ(test, 0, memcmp(p->out, dst, entry.len));
		}
	}
}

/*
 * Two endpoints have rendezvous messages to read and messages to send. Neither
 * may wait at its device for something that the other one has to do.
 */
static void rdm_05_rendezvous_in_both_directions(struct kunit *test)
{
	struct pair *p = pair(test, false);
	struct kofi_rdm *side[] = { p->a, p->b };
	fi_addr_t to[] = { p->to_b, p->to_a };
	u8 *in = memory(test, 2 * MANY * SZ_256K, false);
	struct fi_cq_tagged_entry entry;

	rdm_exchange(test, p->a, p->to_b, p->b);
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < MANY; i++) {
			for (int s = 0; s < 2; s++) {
				u8 *dst = in + (s * MANY + i) * SZ_256K;

				KUNIT_ASSERT_EQ(test, 0, fi_trecv(side[s]->ep, dst, SZ_256K, NULL,
								  FI_ADDR_UNSPEC, i, 0, dst));
			}
		}
		for (int i = 0; i < MANY; i++) {
			/* A mix of rendezvous and segmented messages. */
			size_t len = i % 4 == 3 ? PACKET : i % 2 ? SZ_64K : SZ_256K;

			for (int s = 0; s < 2; s++) {
				KUNIT_ASSERT_EQ(test, 0, fi_tsend(side[s]->ep, p->out + i, len, NULL, to[s],
								  i, NULL));
			}
		}
		for (int s = 0; s < 2; s++) {
			for (int left = 2 * MANY; left--;) {
				KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, side[s]->cq, &entry, 1));
				if (entry.flags & FI_RECV)
					KUNIT_EXPECT_EQ(test, 0, memcmp(p->out + entry.tag,
									entry.op_context, entry.len));
			}
		}
	}
}

/* Unexpected messages beyond the memory limit wait at their sender, which is slowed. */
static void rdm_06_long_unexpected_messages_are_bounded(struct kunit *test)
{
	struct pair *p = pair(test, false);
	const int count = 4 * SZ_1M / SZ_64K;
	struct fi_cq_tagged_entry entry;
	int sent = 0, done = 0;

	for (int got = 0; got < count;) {
		while (sent < count && !fi_tsend(p->a->ep, p->out + sent, SZ_64K, NULL, p->to_b, sent, NULL))
			sent++;
		while (fi_cq_read(p->a->cq, &entry, 1) == 1)
			done++;
		if (sent < count && sent == done)
			continue;
		/* The message may not have arrived yet. */
		memset(p->in, 0, SZ_64K);
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->b->ep, p->in, SZ_64K, NULL, p->to_a, 0, ~0ull, p->in));
		rdm_expect(test, p->b, p->in, &entry);
		KUNIT_ASSERT_EQ(test, got, entry.tag);
		KUNIT_ASSERT_EQ(test, 0, memcmp(p->out + got, p->in, SZ_64K));
		got++;
	}
	for (; done < count; done++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->a->cq, &entry, 1));
}

/* A rendezvous send fails when its peer closes, before any of it was received. */
static void rdm_04_the_receiver_closes_during_a_message(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		struct pair *p = pair(test, false);
		struct fi_cq_err_entry error;

		rdm_exchange(test, p->a, p->to_b, p->b);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(p->a, p->to_b, p->out, lens[i], p->out));
		if (lens[i] <= SEGMENTS) {
			/* Eager and segmented messages were copied, and complete. */
			rdm_expect(test, p->a, p->out, NULL);
			fx_close(test, &p->b->ep->fid);
		} else {
			usleep_range(1000, 2000);
			fx_close(test, &p->b->ep->fid);
			KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->a->cq, &error));
			KUNIT_EXPECT_PTR_EQ(test, (void *)p->out, error.op_context);
			KUNIT_EXPECT_NE(test, 0, error.err);
		}
		fx_close(test, &p->a->ep->fid);
	}
}

/* If the sender closes, its message is received completely or not at all. */
static void rdm_04_the_sender_closes_during_a_message(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		struct pair *p = pair(test, false);
		struct fi_cq_err_entry error;
		struct fi_cq_tagged_entry entry;
		int got;

		rdm_exchange(test, p->a, p->to_b, p->b);
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->b, FI_ADDR_UNSPEC, p->in, LONGEST, p->in));
		KUNIT_ASSERT_EQ(test, 0, rdm_send(p->a, p->to_b, p->out, lens[i], p->out));
		udelay(i * 50);
		fx_close(test, &p->a->ep->fid);
		/* If no part of the message arrived, the receive stays posted. */
		got = fi_cq_sread(p->b->cq, &entry, 1, NULL, 200);
		if (got == -FI_EAVAIL) {
			KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->b->cq, &error));
			KUNIT_EXPECT_PTR_EQ(test, (void *)p->in, error.op_context);
		} else if (got == 1) {
			KUNIT_EXPECT_EQ(test, lens[i], entry.len);
			KUNIT_EXPECT_EQ(test, 0, memcmp(p->out, p->in, lens[i]));
		} else {
			KUNIT_EXPECT_EQ(test, -FI_EAGAIN, got);
		}
		fx_close(test, &p->b->ep->fid);
	}
}

static void close_01_close_during_long_messages(struct kunit *test)
{
	for (int i = 0; i < 6; i++) {
		struct pair *p = pair(test, false);

		for (int n = 0; n < MANY; n++) {
			size_t len = lens[n % ARRAY_SIZE(lens)];

			KUNIT_ASSERT_EQ(test, 0, rdm_send(p->a, p->to_b, p->out, len, NULL));
			KUNIT_ASSERT_EQ(test, 0, rdm_send(p->b, p->to_a, p->out, len, NULL));
			if (n % 2) {
				KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->a, FI_ADDR_UNSPEC, p->in, len, NULL));
				KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->b, FI_ADDR_UNSPEC, p->in, len, NULL));
			}
		}
		udelay(i * 100);
		fx_close(test, &(i % 2 ? p->a : p->b)->ep->fid);
		fx_close(test, &(i % 2 ? p->b : p->a)->ep->fid);
		fx_close(test, &p->a->cq->fid);
		fx_close(test, &p->a->av->fid);
		fx_close(test, &p->a->domain->fid);
	}
}

static struct kunit_case rdm_long_cases[] = {
	KUNIT_CASE(rdm_03_messages_of_all_lengths),
	KUNIT_CASE(rdm_03_messages_of_all_lengths_in_pages),
	KUNIT_CASE(rdm_06_long_unexpected_messages),
	KUNIT_CASE(rdm_03_long_messages_in_several_parts),
	KUNIT_CASE(cq_08_long_messages_are_truncated),
	KUNIT_CASE(rdm_05_many_long_messages_at_once),
	KUNIT_CASE(rdm_05_rendezvous_in_both_directions),
	KUNIT_CASE(rdm_06_long_unexpected_messages_are_bounded),
	KUNIT_CASE(rdm_04_the_receiver_closes_during_a_message),
	KUNIT_CASE(rdm_04_the_sender_closes_during_a_message),
	KUNIT_CASE(close_01_close_during_long_messages),
	{}
};

static struct kunit_suite rdm_long_suite = {
	.name = "kofi_rdm_long",
	.test_cases = rdm_long_cases,
};

kunit_test_suite(rdm_long_suite);
