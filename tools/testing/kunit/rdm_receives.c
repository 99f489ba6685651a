// SPDX-License-Identifier: GPL-2.0
/* Tests the receive buffers that connections of a datagram endpoint share. */

#include "rdm.h"
#include "rdm_raw.h"

/* Number of connections whose receives are in the first queue of the endpoint. */
#define FIRST		16
/* Number of connections behind them, which share another queue. */
#define OTHERS		8
/* Number of atomic requests that a peer may send before the first response. */
#define REQUESTS	8

/*
 * The buffer of an atomic request takes its response, which a peer without credits delays for
 * ever. Such peers delay no other peer that shares their receive queue.
 */
static void rdm_06_held_receives_delay_no_other_peer(struct kunit *test)
{
	struct kofi_rdm *hub = rdm_open(test, &(struct rdm_opts){ .caps = FI_RMA | FI_ATOMIC });
	struct kofi_rdm *honest = rdm_open(test, NULL);
	fi_addr_t to_hub = rdm_addr(test, honest, hub);
	u64 *word = (u64 *)tr_buffer(test, sizeof(*word));
	struct raw *raws[FIRST + OTHERS];
	struct fid_mr *mr;

	*word = 0;
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(hub->domain, word, sizeof(*word),
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	for (int i = 0; i < ARRAY_SIZE(raws); i++)
		raws[i] = raw_open_silent(test, &hub->name, i + 1);
	for (int i = FIRST; i < ARRAY_SIZE(raws); i++)
		raw_await(test, raws[i], raws[i]->credits > REQUESTS, "the credits of peer %d", i);
	for (int i = 0; i < OTHERS * REQUESTS; i++) {
		struct raw *raw = raws[FIRST + i % OTHERS];
		u8 *packet = raw_await_free(test, raw);
		size_t len = raw_init_atomic(raw, packet, (uintptr_t)word, fi_mr_key(mr), i);

		KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, len));
	}
	for (int i = FIRST; i < ARRAY_SIZE(raws); i++)
		raw_await_sent(test, raws[i]);
	rdm_exchange(test, honest, to_hub, hub);
	KUNIT_EXPECT_EQ(test, OTHERS * REQUESTS, READ_ONCE(*word));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_06_held_receives_delay_no_other_peer),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_receives",
	.test_cases = cases,
};

kunit_test_suites(&suite);
