// SPDX-License-Identifier: GPL-2.0
/*
 * Tests EP 4, CQ 14 and CM 7 of CONTRACT: messages without a shared receive or
 * a CQ slot wait.
 */

#include "srx.h"

#define LEN SX_LEN

/* Opens endpoints with a shared receive context; skips iWARP, where messages cannot wait. */
static struct sx_world *open_with_waiting(struct kunit *test, size_t size)
{
	struct sx_world *world = sx_open(test, &(struct sx_opts) {
		.size = size,
		.peers = SX_PEERS,
	});

	if (tr_is_iwarp(world->info))
		kunit_skip(test, "on iWARP a message without a receive ends the connection");
	return world;
}

/* Each new receive takes a waiting message; the messages of a peer keep their order. */
static void ep_04_messages_wait_for_shared_receives(struct kunit *test)
{
	enum { EACH = 5 };
	struct sx_world *world = open_with_waiting(test, 16);
	u8 *buf = tr_buffer(test, LEN), *sent = tr_buffer(test, SX_PEERS * EACH * LEN);
	int next[SX_PEERS] = {};

	for (int i = 0; i < EACH * SX_PEERS; i++) {
		tr_fill(sent + i * LEN, LEN, i);
		KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[i % SX_PEERS],
						 sent + i * LEN, LEN));
	}
	for (int i = 0; i < EACH * SX_PEERS; i++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		struct fi_cq_tagged_entry entry;
		int peer = 0;

		KUNIT_ASSERT_EQ(test, 0, tr_recv(world->srx, buf, LEN));
		while (fi_cq_read(world->cq[peer], &entry, 1) != 1) {
			KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, deadline),
					      "waited for message %d", i);
			peer = (peer + 1) % SX_PEERS;
			cond_resched();
		}
		KUNIT_EXPECT_PTR_EQ(test, (void *)buf, entry.op_context);
		KUNIT_EXPECT_TRUE(test, tr_intact(buf, LEN,
						  SX_PEERS * next[peer] + peer));
		next[peer]++;
	}
	for (int peer = 0; peer < SX_PEERS; peer++)
		KUNIT_EXPECT_EQ(test, EACH, next[peer]);
	KUNIT_EXPECT_EQ(test, 16, fi_rx_size_left(world->srx));
}

/* A closed endpoint or peer leaves the receives to the others. */
static void cm_07_a_closed_endpoint_with_waiting_messages(struct kunit *test)
{
	struct sx_world *world = open_with_waiting(test, 2);
	u8 *buf = tr_buffer(test, LEN), *sent = tr_buffer(test, SX_PEERS * LEN);

	for (int i = 0; i < SX_PEERS; i++) {
		tr_fill(sent + i * LEN, LEN, i);
		KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[i], sent + i * LEN,
						 LEN));
	}
	fx_close(test, &world->ep[0]->fid);
	fx_close(test, &world->peer[1]->fid);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(world->srx, buf, LEN));
	tr_expect(test, world->cq[2], buf, FI_RECV, LEN);
	KUNIT_EXPECT_TRUE(test, tr_intact(buf, LEN, 2));
	KUNIT_EXPECT_EQ(test, 2, fi_rx_size_left(world->srx));
}

/* A long message takes a receive posted in atomic context, and its endpoint closes at once. */
static void cm_07_closing_while_a_shared_receive_is_filled(struct kunit *test)
{
	enum { LONG = SZ_128K };
	struct sx_world *world = open_with_waiting(test, 2);
	u8 *buf = tr_vbuffer(test, LONG), *sent = tr_vbuffer(test, LONG);

	if (!tr_is_loop(world->info))
		kunit_skip(test, "rxe posts such a receive again only after others have completed");
	for (int round = 0; round < tr_rounds; round++) {
		unsigned long irqs;
		void *rest;
		ssize_t ret;

		sx_connect(test, world, 1);
		KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[1], sent, LONG));
		local_irq_save(irqs);
		ret = tr_recv(world->srx, buf, LONG);
		local_irq_restore(irqs);
		KUNIT_ASSERT_EQ(test, 0, ret);
		fx_close(test, round & 1 ? &world->ep[1]->fid :
					  &world->peer[1]->fid);
		fx_close(test, round & 1 ? &world->peer[1]->fid :
					  &world->ep[1]->fid);
		if (!sx_read_rest(test, world, 1, &rest, 1)) {
			sx_send(test, world, 0, sent, LEN);
			tr_expect(test, world->cq[0], buf, FI_RECV, LEN);
		}
		KUNIT_EXPECT_EQ(test, 2, fi_rx_size_left(world->srx));
	}
}

/* Without reads the CQ fills up; the other messages are received as it is read. */
static void cq_14_messages_wait_for_cq_slots(struct kunit *test)
{
	enum { MANY = 200 };
	struct sx_world *world = sx_open(test, &(struct sx_opts) {
		.size = MANY,
		.cq_size = 8,
		.peers = tr_is_loop(sx_info(test, NULL)) ? 2 : 0,
	});

	if (!tr_is_loop(world->info))
		kunit_skip(test, "a device queue reserves slots for all receives");
	for (int i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(world->srx, 0, NULL));
	for (int i = 0; i < MANY; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_send(world->peer[0], NULL, 0));
	/* Messages without a slot keep no receive: another endpoint's queue has slots. */
	KUNIT_EXPECT_GT(test, fi_rx_size_left(world->srx), 8);
	KUNIT_EXPECT_LT(test, fi_rx_size_left(world->srx), MANY / 2);
	sx_send(test, world, 1, NULL, 0);
	tr_expect(test, world->cq[1], NULL, FI_RECV, 0);
	KUNIT_ASSERT_EQ(test, 0, sx_recvmsg(world->srx, 0, NULL));
	/* The reads block if there is no entry yet. */
	for (int i = 0; i < MANY; i++) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ(test, 1, fi_cq_sread(world->cq[0], &entry, 1,
						     NULL, FX_WAIT_MS));
		KUNIT_EXPECT_TRUE(test, entry.flags & FI_RECV);
	}
	KUNIT_EXPECT_EQ(test, MANY, fi_rx_size_left(world->srx));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_04_messages_wait_for_shared_receives),
	KUNIT_CASE(cm_07_a_closed_endpoint_with_waiting_messages),
	KUNIT_CASE(cm_07_closing_while_a_shared_receive_is_filled),
	KUNIT_CASE(cq_14_messages_wait_for_cq_slots),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_srx_wait",
	.test_cases = cases,
};

kunit_test_suite(suite);
