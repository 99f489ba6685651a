// SPDX-License-Identifier: GPL-2.0
/* Tests the receive buffers that connections of a datagram endpoint share. */

#include "attack.h"
#include "rdm.h"
#include "rdm_raw.h"

/* Number of connections whose receives are in the first queue of the endpoint. */
#define FIRST		16
/* Number of connections behind them, which share another queue. */
#define OTHERS		8
/* Number of atomic requests that a peer may send before the first response. */
#define REQUESTS	8

/* Number of receives that break, more than a queue has for some connections; and of messages after that. */
#define LOST		300
#define RECEIVES	40

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
	/* On iWARP a send is complete before the peer has received it. */
	raw_await(test, raws[FIRST], READ_ONCE(*word) == OTHERS * REQUESTS, "all requests");
}

/* Connects as a peer at RAW_PORT that uses credits, and ends in the middle of its first message. */
static void send_part(struct kunit *test, const struct sockaddr_storage *to, u32 instance)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct {
		u8 len;
		struct raw_connect_data data;
	} __packed request = {
		.len = sizeof(request.data),
		.data = {
			.version = 1, .endianness = 2, .ctrl_version = 4, .op_version = 3,
			.port = RAW_PORT, .flow = 1, .eager = RAW_EAGER,
			.receives = RAW_RECEIVES, .name = 7, .instance = instance,
		},
	};
	struct sockaddr_storage name = *to;
	struct attacker *at;

	/* The endpoint rejects requests while it has the previous connection. */
	while (!(at = at_connect_to(test, &name, &request, sizeof(request)))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for connection %u", instance);
		usleep_range(500, 1000);
	}
	KUNIT_EXPECT_GT(test, at_send_part(at), 0);
	at_destroy(test, at);
}

/*
 * rxe loses the shared receive that a queue pair has begun to fill when it breaks. An idle peer
 * could have taken it as well, so it is not found before that peer's next message.
 */
static void rdm_06_lost_receives_delay_no_other_peer(struct kunit *test)
{
	struct fi_info *info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	struct kofi_rdm *hub, *honest;
	fi_addr_t to_hub;

	tr_needs_device(test, info);
	if (tr_is_iwarp(info))
		kunit_skip(test, "connections on iWARP share no receives");
	hub = rdm_open(test, NULL);
	honest = rdm_open(test, NULL);
	to_hub = rdm_addr(test, honest, hub);
	rdm_exchange(test, honest, to_hub, hub);
	for (u32 i = 1; i <= LOST; i++)
		send_part(test, &hub->name, i);
	for (int i = 0; i < RECEIVES; i++)
		rdm_exchange(test, honest, to_hub, hub);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_06_lost_receives_delay_no_other_peer),
	KUNIT_CASE(rdm_06_held_receives_delay_no_other_peer),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_receives",
	.test_cases = cases,
};

kunit_test_suites(&suite);
