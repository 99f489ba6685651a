// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CLOSE 1 and 3: objects that keep others open, and closing in any
 * order.
 */

#include <linux/delay.h>
#include <linux/prandom.h>
#include <linux/vmalloc.h>

#include "traffic.h"

static void close_01_posted_buffers_are_unused_after_close(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	u8 *buf = kunit_kzalloc(test, 2 * PAGE_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	for (int i = 0; i < 16; i++)
		KUNIT_ASSERT_EQ(test, fi_recv(pair->ep[1], buf + 128 * i, 128,
					      NULL, 0, NULL), 0);
	fx_close(test, &pair->ep[1]->fid);
	memset(buf, 0xee, PAGE_SIZE);
	memset(buf + PAGE_SIZE, 0x11, PAGE_SIZE);

	/* The peer may be disconnected already, and then refuses to send. */
	for (int i = 0; i < 16; i++)
		fi_send(pair->ep[0], buf + PAGE_SIZE, 128, NULL, 0, NULL);
	msleep(50);
	KUNIT_EXPECT_NULL_MSG(test, memchr_inv(buf, 0xee, PAGE_SIZE),
			      "a closed endpoint received");
}

static void close_01_buffers_can_be_unmapped_at_once(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	void *buf[2];

	/* A device that still used the buffers would fault, or be reported by KASAN. */
	for (int i = 0; i < 2; i++) {
		buf[i] = vmalloc(8 * PAGE_SIZE);
		KUNIT_EXPECT_NOT_NULL(test, buf[i]);
		if (!buf[i])
			continue;
		for (int page = 0; page < 8; page++)
			KUNIT_EXPECT_EQ(test, fi_recv(pair->ep[i],
					buf[i] + page * PAGE_SIZE, PAGE_SIZE,
					NULL, 0, NULL), 0);
	}
	for (int i = 0; i < 8; i++)
		fi_send(pair->ep[0], buf[0], PAGE_SIZE, NULL, 0, NULL);
	for (int i = 0; i < 2; i++)
		fx_close(test, &pair->ep[i]->fid);
	for (int i = 0; i < 2; i++)
		vfree(buf[i]);
}

static void close_03_busy_while_in_use(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid *const used[] = {
		&pair->fabric->fid, &pair->domain->fid, &pair->eq->fid,
		&pair->cq[0]->fid, &pair->cq[1]->fid,
	};

	/* Tried twice: a refused close must not have undone anything. */
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < ARRAY_SIZE(used); i++)
			KUNIT_EXPECT_EQ_MSG(test, fi_close(used[i]), -FI_EBUSY,
					    "class %zu", used[i]->fclass);
}

static void close_03_a_refused_close_changes_nothing(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	u8 *buf = kunit_kzalloc(test, 128, GFP_KERNEL);
	struct fi_cq_tagged_entry done;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_EXPECT_EQ(test, fi_close(&pair->cq[0]->fid), -FI_EBUSY);
	KUNIT_EXPECT_EQ(test, fi_close(&pair->cq[1]->fid), -FI_EBUSY);
	KUNIT_EXPECT_EQ(test, fi_close(&pair->eq->fid), -FI_EBUSY);
	KUNIT_EXPECT_EQ(test, fi_close(&pair->domain->fid), -FI_EBUSY);
	KUNIT_EXPECT_EQ(test, fi_close(&pair->fabric->fid), -FI_EBUSY);

	memset(buf, 0x5a, 64);
	KUNIT_ASSERT_EQ(test, fi_recv(pair->ep[1], buf + 64, 64, NULL, 0,
				      NULL), 0);
	KUNIT_ASSERT_EQ(test, fi_send(pair->ep[0], buf, 64, NULL, 0, NULL), 0);
	KUNIT_EXPECT_EQ(test, fx_wait_comp(test, pair->cq[0], &done, 1), 1);
	KUNIT_EXPECT_EQ(test, fx_wait_comp(test, pair->cq[1], &done, 1), 1);
	KUNIT_EXPECT_MEMEQ(test, buf, buf + 64, 64);
}

/* A shuffled list of fids, reproducible by its seed. */
struct order {
	struct fid	*fid[16];
	int		count;
};

static void add(struct order *order, struct fid *fid)
{
	order->fid[order->count++] = fid;
}

static void shuffle(struct order *order, struct rnd_state *random)
{
	for (int i = order->count - 1; i > 0; i--) {
		int other = prandom_u32_state(random) % (i + 1);

		swap(order->fid[i], order->fid[other]);
	}
}

/*
 * Closes the objects in this order, and repeats for those that returned
 * -FI_EBUSY. Children close in the first pass, their parents in a later one,
 * the fabric last.
 */
static void close_in_order(struct kunit *test, struct order *order)
{
	for (int pass = 0; order->count && pass < 5; pass++) {
		int left = 0;

		for (int i = 0; i < order->count; i++) {
			struct fid *fid = order->fid[i];
			size_t class = fid->fclass;
			int ret = fi_close(fid);

			KUNIT_EXPECT_TRUE_MSG(test, !ret || ret == -FI_EBUSY,
					      "class %zu: %s", class,
					      fi_strerror(ret));
			if (ret)
				order->fid[left++] = fid;
		}
		order->count = left;
	}
	for (int i = 0; i < order->count; i++)
		KUNIT_FAIL(test, "class %zu never closed",
			   order->fid[i]->fclass);
}

/* Opens objects of each class, starts traffic, and closes the objects in random order. */
static void close_once(struct kunit *test, struct rnd_state *random)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	u8 *buf = kunit_kzalloc(test, 8192, GFP_KERNEL);
	struct order order = {};
	struct fid_ep *idle;
	struct fid_mr *mr;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, fi_mr_reg(pair->domain, buf, 8192,
					FI_SEND | FI_RECV, 0, 0, 0, &mr,
					NULL), 0);
	KUNIT_ASSERT_EQ(test, fi_endpoint(pair->domain, pair->info, &idle,
					  NULL), 0);
	for (int i = 0; i < 8; i++) {
		int side = i % 2;

		KUNIT_EXPECT_EQ(test, fi_recv(pair->ep[side], buf + 512 * i,
					      512, fi_mr_desc(mr), 0, NULL), 0);
		KUNIT_EXPECT_EQ(test, fi_send(pair->ep[!side],
					      buf + 4096 + 512 * i, 512,
					      fi_mr_desc(mr), 0, NULL), 0);
	}

	add(&order, &mr->fid);
	add(&order, &idle->fid);
	for (int i = 0; i < 2; i++) {
		add(&order, &pair->ep[i]->fid);
		add(&order, &pair->cq[i]->fid);
	}
	add(&order, &pair->pep->fid);
	add(&order, &pair->eq->fid);
	add(&order, &pair->domain->fid);
	add(&order, &pair->fabric->fid);
	for (int i = 0; i < order.count; i++)
		if (order.fid[i] != &mr->fid && order.fid[i] != &idle->fid)
			fx_cancel_close(test, order.fid[i]);

	shuffle(&order, random);
	close_in_order(test, &order);
}

static bool is_iwarp(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);

	return info->ep_attr->protocol == FI_PROTO_IWARP;
}

/* Ends the loop at the first failure, so that the log ends with the order that failed. */
static bool is_failed(struct kunit *test)
{
	return READ_ONCE(test->status) == KUNIT_FAILURE;
}

static void close_03_close_connected_in_any_order(struct kunit *test)
{
	struct rnd_state random;

	prandom_seed_state(&random, 20161);
	for (int round = 0; round < 3 * tr_rounds && !is_failed(test); round++)
		close_once(test, &random);
}

/* Closes during connection setup: the request unread, read, opened, or accepted. */
static void close_03_close_connecting_in_any_order(struct kunit *test)
{
	struct rnd_state random;
	int rounds = 3 * tr_rounds;

	/*
	 * On iWARP, closing the connecting endpoint waits for the peer's
	 * answer, ten seconds at most.
	 */
	if (is_iwarp(test))
		rounds = 8;
	prandom_seed_state(&random, 20162);
	for (int round = 0; round < rounds && !is_failed(test); round++) {
		struct kofi_fabric_fx *fx = fx_open(test);
		struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info,
						fx->eq);
		struct fid_ep *ep[2] = { fx_bound_ep(test, fx) };
		struct order order = {};

		add(&order, &ep[0]->fid);
		add(&order, &pep->fid);
		fx_start_connect(test, ep[0], pep);
		if (round % 4) {
			struct fi_info *request = fx_wait_request(test, fx->eq);

			if (round % 4 > 1) {
				ep[1] = fx_ep(test, fx->domain, request);
				fx_bind(test, ep[1], fx->eq, fx->cq,
					FI_TRANSMIT | FI_RECV);
				add(&order, &ep[1]->fid);
			}
			if (round % 4 > 2)
				KUNIT_EXPECT_EQ(test, fi_accept(ep[1], NULL, 0),
						0);
		}
		add(&order, &fx->eq->fid);
		add(&order, &fx->cq->fid);
		add(&order, &fx->domain->fid);
		add(&order, &fx->fabric->fid);
		for (int i = 0; i < order.count; i++)
			fx_cancel_close(test, order.fid[i]);
		shuffle(&order, &random);
		close_in_order(test, &order);
	}
}

static struct kunit_case close_cases[] = {
	KUNIT_CASE(close_01_posted_buffers_are_unused_after_close),
	KUNIT_CASE(close_01_buffers_can_be_unmapped_at_once),
	KUNIT_CASE(close_03_busy_while_in_use),
	KUNIT_CASE(close_03_a_refused_close_changes_nothing),
	KUNIT_CASE_SLOW(close_03_close_connected_in_any_order),
	KUNIT_CASE_SLOW(close_03_close_connecting_in_any_order),
	{}
};

static struct kunit_suite close_suite = {
	.name = "kofi_close",
	.test_cases = close_cases,
};

kunit_test_suite(close_suite);
