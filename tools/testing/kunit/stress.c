// SPDX-License-Identifier: GPL-2.0
/*
 * Opens and closes connections again and again; nothing may be left behind.
 */

#include <linux/moduleparam.h>

#include "traffic.h"

unsigned int tr_rounds = 20;
module_param_named(rounds, tr_rounds, uint, 0644);
MODULE_PARM_DESC(rounds, "how often the tests repeat what may go wrong one time in many");

#define LEN 4096
#define POSTED 4

static void close_pair(struct kunit *test, struct kofi_pair *pair, int first)
{
	if (pair->ep[first])
		fx_close(test, &pair->ep[first]->fid);
	if (pair->ep[!first])
		fx_close(test, &pair->ep[!first]->fid);
	fx_close(test, &pair->pep->fid);
	fx_close(test, &pair->cq[1]->fid);
	fx_close(test, &pair->cq[0]->fid);
	fx_close(test, &pair->eq->fid);
	fx_close(test, &pair->domain->fid);
	fx_close(test, &pair->fabric->fid);
}

static void stress_connect_transfer_close(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct kofi_pair *pair = fx_pair(test, NULL);

		for (int side = 0; side < 2; side++)
			tr_exchange(test, pair, side, buf, buf + LEN,
				    1 + round % LEN);
		if (round & 2)
			fi_shutdown(pair->ep[round & 1], 0);
		close_pair(test, pair, round & 1);
	}
}

/* Closes with pending operations. */
static void stress_close_under_load(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct kofi_pair *pair = fx_pair(test, NULL);

		for (int i = 0; i < 2 * POSTED; i++)
			KUNIT_ASSERT_EQ(test, 0,
					fi_recv(pair->ep[i & 1], buf, LEN, NULL,
						0, NULL));
		for (int i = 0; i < 2 * POSTED; i++)
			KUNIT_ASSERT_EQ(test, 0,
					fi_send(pair->ep[i & 1], buf + LEN, LEN,
						NULL, 0, NULL));
		close_pair(test, pair, round & 1);
	}
}

/* Connections are opened one after another with the same domain and queues. */
static void stress_reconnect_on_the_same_objects(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct fid_ep *ep = fx_bound_ep(test, fx), *peer;

		peer = fx_connect(test, fx->domain, ep, pep, fx->eq, fx->cq);
		KUNIT_ASSERT_EQ(test, 0, fi_recv(peer, buf, LEN, NULL, 0, buf));
		KUNIT_ASSERT_EQ(test, 0, fi_send(ep, buf + LEN, LEN, NULL, 0,
						 buf));
		for (int i = 0; i < 2; i++) {
			struct fi_cq_tagged_entry entry;

			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->cq,
							      &entry, 1));
		}
		fx_close(test, &ep->fid);
		tr_expect_shutdown(test, fx->eq, peer);
		fx_close(test, &peer->fid);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->cq, NULL, 0));
}

static void stress_repeated_rejects(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct fid_ep *ep = fx_bound_ep(test, fx);
		struct fi_eq_err_entry error;
		struct fi_info *info;

		fx_start_connect(test, ep, pep);
		info = fx_wait_request(test, fx->eq);
		KUNIT_ASSERT_EQ(test, 0, fi_reject(pep, info->handle, NULL, 0));
		KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, fx->eq, &error));
		KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
		fx_close(test, &ep->fid);
	}
}

#define MANY 16

static void stress_many_connections_at_once(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep[MANY][2];

	for (int i = 0; i < MANY; i++) {
		ep[i][0] = fx_bound_ep(test, fx);
		ep[i][1] = fx_connect(test, fx->domain, ep[i][0], pep, fx->eq,
				      fx->cq);
	}
	for (int i = 0; i < MANY; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_recv(ep[i][1], buf, LEN, NULL, 0,
						 ep[i]));
		KUNIT_ASSERT_EQ(test, 0, fi_send(ep[i][0], buf + LEN, LEN, NULL,
						 0, ep[i]));
	}
	for (int i = 0; i < 2 * MANY; i++) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ(test, 1,
				fx_wait_comp(test, fx->cq, &entry, 1));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(stress_connect_transfer_close),
	KUNIT_CASE_SLOW(stress_close_under_load),
	KUNIT_CASE_SLOW(stress_reconnect_on_the_same_objects),
	KUNIT_CASE_SLOW(stress_repeated_rejects),
	KUNIT_CASE_SLOW(stress_many_connections_at_once),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_stress",
	.test_cases = cases,
};

kunit_test_suite(suite);
