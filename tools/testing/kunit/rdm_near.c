// SPDX-License-Identifier: GPL-2.0
/* Tests local delivery of datagrams: the sender copies the message to the posted receive. */

#include <linux/prandom.h>

#include "rdm.h"
#include "traffic.h"

#define PACKET		16384
#define LONGEST		(8 * PACKET)
#define TRIES		20

struct pair {
	struct kofi_rdm	*rdm[2];
	fi_addr_t	to[2];		/* the other one's address */
	u8		*out, *in;	/* LONGEST bytes each */
};

static struct pair *pair(struct kunit *test)
{
	struct pair *p = (void *)tr_buffer(test, sizeof(*p));

	p->out = tr_vbuffer(test, LONGEST);
	p->in = tr_vbuffer(test, LONGEST);
	for (int n = 0; n < 2; n++)
		p->rdm[n] = rdm_open(test, NULL);
	for (int n = 0; n < 2; n++)
		p->to[n] = rdm_addr(test, p->rdm[n], p->rdm[!n]);
	rdm_exchange(test, p->rdm[0], p->to[0], p->rdm[1]);
	rdm_exchange(test, p->rdm[1], p->to[1], p->rdm[0]);
	return p;
}

/* In most tries nothing else makes progress before the check: the sender has copied the message. */
static void rdm_03_local_delivery_before_the_send_returns(struct kunit *test)
{
	static const size_t lens[] = { 1, 1000, PACKET, PACKET + 1, LONGEST };
	struct pair *p;

	if (!rdm_all_local())
		kunit_skip(test, "they reach each other by the device");
	p = pair(test);
	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		int delivered = 0;

		for (int n = 0; n < TRIES; n++) {
			size_t len = lens[i];

			tr_fill(p->out, len, n + 1);
			memset(p->in, 0, len);
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->rdm[1], FI_ADDR_UNSPEC, p->in, len, p->in));
			KUNIT_ASSERT_EQ(test, 0, rdm_send(p->rdm[0], p->to[0], p->out, len, p->out));
			delivered += tr_intact(p->in, len, n + 1);
			rdm_expect(test, p->rdm[0], p->out, NULL);
			rdm_expect(test, p->rdm[1], p->in, NULL);
			KUNIT_EXPECT_TRUE(test, tr_intact(p->in, len, n + 1));
		}
		KUNIT_EXPECT_GT_MSG(test, delivered, TRIES / 2,
				    "messages of %zu bytes that arrived before the next poll", lens[i]);
	}
}

#define MANY	400
#define AHEAD	16
#define BUF_SIZE	(LONGEST + PACKET)

/* Messages of random lengths take different ways, and may be expected or unexpected. */
static void rdm_03_messages_of_random_lengths_keep_their_order(struct kunit *test)
{
	static const size_t max_len[] = { 100, PACKET, LONGEST, BUF_SIZE };
	/* Allocated first: freed after the endpoints close, also when the test fails. */
	u8 *out = tr_vbuffer(test, AHEAD * BUF_SIZE), *in = tr_vbuffer(test, AHEAD * BUF_SIZE);
	struct pair *p = pair(test);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	bool is_sent[AHEAD] = {}, is_posted[AHEAD] = {};
	int sent = 0, posted = 0, done = 0;
	struct fi_cq_tagged_entry entry;
	size_t lens[AHEAD] = {};
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 1);
	while (done < MANY) {
		u32 random_bits = prandom_u32_state(&rnd);
		u8 *from = out + sent % AHEAD * BUF_SIZE, *to = in + posted % AHEAD * BUF_SIZE;
		size_t *len = &lens[sent % AHEAD];

		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "received %d of %d messages", done, MANY);
		if (random_bits % 2 && sent < MANY && sent < done + AHEAD &&
		    !is_sent[sent % AHEAD]) {
			*len = 4 + random_bits / 8 % (max_len[random_bits / 2 % 4] - 3);
			tr_fill(from, *len, sent);
			if (!fi_send(p->rdm[0]->ep, from, *len, NULL, p->to[0], from))
				is_sent[sent++ % AHEAD] = true;
		} else if (posted < MANY && posted < done + AHEAD) {
			if (!fi_recv(p->rdm[1]->ep, to, BUF_SIZE, NULL, FI_ADDR_UNSPEC, to))
				is_posted[posted++ % AHEAD] = true;
		}
		while (fi_cq_read(p->rdm[0]->cq, &entry, 1) == 1)
			is_sent[((u8 *)entry.op_context - out) / BUF_SIZE] = false;
		cond_resched();
		/* Reads only now and then, so that some messages are unexpected. */
		if (random_bits >> 24 & 7)
			continue;
		/* Rendezvous messages may complete later than those behind them. */
		while (fi_cq_read(p->rdm[1]->cq, &entry, 1) == 1) {
			int which = ((u8 *)entry.op_context - in) / BUF_SIZE;
			int number = done + (which - done % AHEAD + AHEAD) % AHEAD;

			KUNIT_ASSERT_TRUE(test, is_posted[which]);
			KUNIT_ASSERT_EQ(test, lens[which], entry.len);
			KUNIT_ASSERT_TRUE_MSG(test, tr_intact(entry.op_context, entry.len, number),
					      "the receive of message %d has other data", number);
			is_posted[which] = false;
			end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
			while (done < posted && !is_posted[done % AHEAD])
				done++;
		}
	}
}

#define ROUNDS	500

struct side {
	struct pair	*p;
	int		n;
	u8		*out, *in;	/* PACKET bytes each */
};

/* Sends to the other side and receives from it; neither side waits for the other. */
static int send_and_receive(struct tr_thread *thread)
{
	struct side *side = thread->arg;
	struct kofi_rdm *rdm = side->p->rdm[side->n];
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < ROUNDS && !kthread_should_stop(); i++) {
		size_t len = i % 8 ? 100 + i : PACKET;
		int ret;

		tr_fill(side->out, len, i);
		ret = rdm_recv(rdm, FI_ADDR_UNSPEC, side->in, PACKET, NULL) ?:
		      rdm_send(rdm, side->p->to[side->n], side->out, len, NULL);
		if (ret)
			return thread->result = ret;
		for (int left = 2; left--;)
			if (fi_cq_sread(rdm->cq, &entry, 1, NULL, FX_WAIT_MS) != 1)
				return thread->result = -FI_ETIMEDOUT;
		if (!tr_intact(side->in, len, i))
			return thread->result = -FI_EIO;
	}
	return 0;
}

static void rdm_05_local_messages_in_both_directions(struct kunit *test)
{
	struct pair *p = pair(test);
	struct side *sides = (void *)tr_buffer(test, 2 * sizeof(*sides));
	struct tr_thread *threads[2];

	for (int n = 0; n < 2; n++) {
		sides[n] = (struct side){
			.p = p, .n = n, .out = p->out + n * PACKET, .in = p->in + n * PACKET,
		};
		threads[n] = tr_start(test, n % num_online_cpus(), send_and_receive, &sides[n]);
	}
	for (int n = 0; n < 2; n++) {
		KUNIT_ASSERT_TRUE_MSG(test, tr_join(test, threads[n]), "side %d has no end", n);
		KUNIT_EXPECT_EQ(test, 0, threads[n]->result);
	}
}

/* Sends until a send fails because the peer has closed, or until the thread is stopped. */
static int send_until_error(struct tr_thread *thread)
{
	struct side *side = thread->arg;
	struct kofi_rdm *rdm = side->p->rdm[0];
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	ssize_t ret;

	for (int i = 0; !kthread_should_stop(); i++) {
		ret = fi_send(rdm->ep, side->out, i % 2 ? PACKET : 100, NULL, side->p->to[0], NULL);
		if (ret && ret != -FI_EAGAIN)
			return thread->result = ret;
		do {
			ret = fi_cq_read(rdm->cq, &entry, 1);
		} while (ret == 1);
		error = (struct fi_cq_err_entry){};
		if (ret == -FI_EAVAIL && fi_cq_readerr(rdm->cq, &error, 0) == 1)
			return 0;
		cond_resched();
	}
	return thread->result = -FI_ETIMEDOUT;
}

static void close_01_the_receiver_closes_during_local_delivery(struct kunit *test)
{
	for (int round = 0; round < 10; round++) {
		struct pair *p = pair(test);
		struct side *side = (void *)tr_buffer(test, sizeof(*side));
		struct fi_cq_tagged_entry entry;
		struct tr_thread *thread;

		*side = (struct side){ .p = p, .out = p->out };
		for (int i = 0; i < 50; i++)
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->rdm[1], FI_ADDR_UNSPEC, p->in, PACKET, NULL));
		thread = tr_start(test, round % num_online_cpus(), send_until_error, side);
		for (int i = 0; i < 1 + 5 * round; i++)
			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, p->rdm[1]->cq, &entry, 1));
		fx_close(test, &p->rdm[1]->ep->fid);
		/* The buffer must not be written after the close. */
		memset(p->in, 0x5a, PACKET);
		KUNIT_ASSERT_TRUE_MSG(test, tr_join(test, thread), "waited for the sender's error");
		KUNIT_EXPECT_EQ(test, 0, thread->result);
		KUNIT_EXPECT_PTR_EQ(test, NULL, memchr_inv(p->in, 0x5a, PACKET));
		fx_close(test, &p->rdm[0]->ep->fid);
	}
}

static struct kunit_case rdm_near_cases[] = {
	KUNIT_CASE(rdm_03_local_delivery_before_the_send_returns),
	KUNIT_CASE_SLOW(rdm_03_messages_of_random_lengths_keep_their_order),
	KUNIT_CASE(rdm_05_local_messages_in_both_directions),
	KUNIT_CASE_SLOW(close_01_the_receiver_closes_during_local_delivery),
	{}
};

static struct kunit_suite rdm_near_suite = {
	.name = "kofi_rdm_near",
	.test_cases = rdm_near_cases,
};

kunit_test_suite(rdm_near_suite);
