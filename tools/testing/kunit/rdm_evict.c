// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 11 of CONTRACT with an endpoint at its connection limit, and with a host at its memory
 * limit: incomplete or unmatched messages of a peer, missing credits and refusals do not keep its
 * connection from being closed for another peer.
 */

#include <linux/delay.h>
#include <rdma/fi_ext.h>

#include "rdm.h"
#include "rdm_raw.h"
#include "traffic.h"

#define LEN	100
/* Length of a message that is too long for segments, so it is sent by rendezvous. */
#define LONG	SZ_256K
#define TAG	5
/* More disconnect requests than fit into a second at intervals of 20 ms; also a number of rounds */
#define MANY	100

static void set_option(struct kunit *test, struct kofi_rdm *rdm, int name, size_t value)
{
	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&rdm->ep->fid, FI_OPT_ENDPOINT, name, &value,
					   sizeof(value)));
}

/* Opens an endpoint with a limit of one connection and without an idle timeout. */
static struct kofi_rdm *open_hub(struct kunit *test)
{
	struct kofi_rdm *hub = rdm_open(test, NULL);

	set_option(test, hub, FI_OPT_KOFI_CONNECTIONS, 1);
	set_option(test, hub, FI_OPT_KOFI_IDLE_MS, 0);
	return hub;
}

/* Sends from the hub to another peer, for which the hub has to close its only connection. */
static void exchange_with_another(struct kunit *test, struct kofi_rdm *hub)
{
	struct kofi_rdm *other = rdm_open(test, NULL);

	rdm_exchange(test, hub, rdm_addr(test, hub, other), other);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(hub));
}

static void expect_aborted(struct kunit *test, struct kofi_rdm *rdm, void *context)
{
	struct fi_cq_err_entry error;

	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, rdm->cq, &error));
	KUNIT_EXPECT_PTR_EQ(test, context, error.op_context);
	KUNIT_EXPECT_TRUE_MSG(test, error.err == FI_ECANCELED || error.err == FI_ECONNABORTED,
			      "failed with %d", error.err);
}

static void rdm_11_an_unmatched_rendezvous_is_evicted(struct kunit *test)
{
	struct kofi_rdm *hub = open_hub(test), *one = rdm_open(test, NULL);
	fi_addr_t to_hub = rdm_addr(test, one, hub);
	u8 *out = tr_buffer(test, LONG);

	KUNIT_ASSERT_EQ(test, 0, fi_tsend(one->ep, out, LONG, NULL, to_hub, TAG, out));
	rdm_await_unexpected(test, hub, TAG);
	exchange_with_another(test, hub);
	expect_aborted(test, one, out);
}

static void rdm_11_an_unmatched_message_outlives_its_eviction(struct kunit *test)
{
	struct kofi_rdm *hub = open_hub(test);
	struct raw *raw = raw_open_connected(test, &hub->name, 0);
	u8 *in = tr_buffer(test, LEN), *packet = raw_await_free(test, raw);
	struct raw_header *header = raw_init_packet(raw, packet, RAW_PKT_EAGER);

	header->op = RAW_TAGGED;
	header->tag = TAG;
	header->len = LEN;
	memset(packet + RAW_HEADER, TAG, LEN);
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, RAW_HEADER + LEN));
	rdm_await_unexpected(test, hub, TAG);
	raw_progress(raw);
	exchange_with_another(test, hub);
	raw_await_closed(test, raw, "eviction");
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(hub->ep, in, LEN, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
	rdm_expect(test, hub, in, NULL);
	KUNIT_EXPECT_TRUE(test, !memchr_inv(in, TAG, LEN));
	raw_disconnect(test, raw);
}

static void rdm_11_an_incomplete_message_is_evicted(struct kunit *test)
{
	struct kofi_rdm *hub = open_hub(test);
	struct raw *raw = raw_open_connected(test, &hub->name, 0);
	u8 *in = tr_buffer(test, 2 * RAW_EAGER), *packet = raw_await_free(test, raw);
	struct raw_header *header = raw_init_packet(raw, packet, RAW_PKT_SEG);

	KUNIT_ASSERT_EQ(test, 0, fi_trecv(hub->ep, in, 2 * RAW_EAGER, NULL, FI_ADDR_UNSPEC, TAG, 0,
					  in));
	header->op = RAW_TAGGED;
	header->tag = TAG;
	header->len = 2 * RAW_EAGER;
	header->segment_len = RAW_EAGER;
	header->extra = RAW_SEG_FIRST;
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, RAW_PKT_MAX));
	raw_progress(raw);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(hub, rdm_addr(test, hub, rdm_open(test, NULL)), in, 0,
					  NULL));
	/* The receive fails with the connection; the message to the other peer completes later. */
	expect_aborted(test, hub, in);
	rdm_expect(test, hub, NULL, NULL);
	raw_disconnect(test, raw);
}

static void rdm_11_a_peer_that_grants_no_credits_is_evicted(struct kunit *test)
{
	struct kofi_rdm *hub = open_hub(test);
	struct raw *raw = raw_open_silent(test, &hub->name, 2000);

	rdm_await_connected(test, hub, 1);
	exchange_with_another(test, hub);
	raw_disconnect(test, raw);
}

/* Refuses the latest disconnect request, if there is a free packet for the refusal. */
static void refuse(struct raw *raw, u32 *refused)
{
	u8 *packet = raw_get_packet(raw);

	if (!packet || *refused == raw->packets)
		return;
	raw_init_packet(raw, packet, RAW_PKT_DISCONNECT)->extra = RAW_DISC_REFUSE;
	if (!raw_send(raw, packet, RAW_HEADER))
		(*refused)++;
}

/* A peer that refuses each disconnect request gets a few of them, and is closed after a second. */
static void rdm_11_a_peer_that_refuses_is_evicted(struct kunit *test)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct kofi_rdm *hub = open_hub(test), *other = rdm_open(test, NULL);
	struct raw *raw = raw_open_connected(test, &hub->name, RAW_SUPPORTS_DISC);
	u8 *out = tr_buffer(test, LEN);
	struct fi_cq_tagged_entry entry;
	u32 refused = 0;

	KUNIT_ASSERT_EQ(test, 0, rdm_send(hub, rdm_addr(test, hub, other), out, LEN, out));
	while (fi_cq_read(hub->cq, &entry, 1) != 1) {
		refuse(raw, &refused);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "asked %u times, to no end",
				      raw->packets);
		usleep_range(500, 1000);
	}
	KUNIT_EXPECT_PTR_EQ(test, out, entry.op_context);
	KUNIT_EXPECT_EQ(test, RAW_PKT_DISCONNECT, raw->got.kind);
	KUNIT_EXPECT_EQ(test, RAW_DISC_REQUEST, raw->got.extra);
	KUNIT_EXPECT_GE(test, raw->packets, 2);
	KUNIT_EXPECT_LE(test, raw->packets, MANY);
	raw_await_closed(test, raw, "eviction");
	raw_disconnect(test, raw);
}

/* First port of the peers of one host, and number of connections that its memory limit permits */
#define HOST_PORT	3000
#define HOST_CONNS	3
/* More than the memory of a connection without flow control, and less than 1.5 times as much */
#define HOST_CONN_BYTES	(SZ_1M + SZ_128K)

/* Requests a connection of a peer without flow control. Returns the error. */
static int request_as(struct kunit *test, struct raw *raw, struct kofi_rdm *hub, u16 port)
{
	struct raw_connect_data data = raw_connect_data(raw, port);

	data.flow = 2;
	return raw_connect(test, raw, &hub->name, &data, sizeof(data));
}

/* Peers at different ports of a host share its memory limit. The hub can still connect to it. */
static void rdm_11_a_host_gets_no_more_connections_than_its_memory(struct kunit *test)
{
	struct kofi_rdm *hub = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	fi_addr_t to_other = rdm_addr(test, hub, other);
	struct raw *raws[HOST_CONNS], *next = raw_open(test, SZ_4K);
	int err;

	set_option(test, hub, FI_OPT_KOFI_SOURCE_BYTES, HOST_CONNS * HOST_CONN_BYTES);
	for (int i = 0; i < HOST_CONNS; i++) {
		raws[i] = raw_open(test, SZ_4K);
		KUNIT_ASSERT_EQ(test, 0, request_as(test, raws[i], hub, HOST_PORT + i));
	}
	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED,
				request_as(test, next, hub, HOST_PORT + HOST_CONNS + i));
	KUNIT_EXPECT_EQ(test, HOST_CONNS, rdm_connected(hub));

	/* The end of a connection frees its memory for the next one. */
	raw_disconnect(test, raws[0]);
	while ((err = request_as(test, next, hub, HOST_PORT + HOST_CONNS))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for a connection: %s", fi_strerror(err));
		usleep_range(1000, 2000);
	}
	rdm_exchange(test, hub, to_other, other);
	KUNIT_EXPECT_EQ(test, HOST_CONNS + 1, rdm_connected(hub));
	raw_disconnect(test, next);
	set_option(test, hub, FI_OPT_KOFI_SOURCE_BYTES, 1);
	KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, request_as(test, next, hub, HOST_PORT));
	set_option(test, hub, FI_OPT_KOFI_SOURCE_BYTES, 0);
	raw_reconnect_as(test, next, &hub->name, HOST_PORT, 0);
	raw_disconnect(test, next);
	for (int i = 1; i < HOST_CONNS; i++)
		raw_disconnect(test, raws[i]);
}

/* An endpoint connects to a host up to twice the limit. */
static void rdm_11_sends_fail_beyond_twice_the_memory_of_a_host(struct kunit *test)
{
	struct kofi_rdm *hub = rdm_open(test, NULL), *other = rdm_open(test, NULL);
	fi_addr_t to_other = rdm_addr(test, hub, other);
	u8 *out = tr_buffer(test, LEN);
	struct fi_cq_err_entry error;

	tr_needs_device(test, hub->info);
	if (hub->info->caps & FI_LOCAL_COMM)
		kunit_skip(test, "connections within the host are not limited");
	set_option(test, hub, FI_OPT_KOFI_SOURCE_BYTES, SZ_64K);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(hub, to_other, out, LEN, out));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, hub->cq, &error));
	KUNIT_EXPECT_EQ(test, FI_ENOSPC, error.err);
	KUNIT_EXPECT_PTR_EQ(test, out, error.op_context);
	/* A connection takes more than the limit, and less than twice as much. */
	set_option(test, hub, FI_OPT_KOFI_SOURCE_BYTES, SZ_256K);
	rdm_exchange(test, hub, to_other, other);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(hub));
}

/* More than the memory of a new connection, and less than that of one with twice its receives. */
#define NEW_CONN_BYTES	(SZ_256K + SZ_64K)

/* A peer that uses its credits quickly gets no receives beyond the limit, but can still send. */
static void rdm_11_a_host_without_memory_for_receives_is_received_from(struct kunit *test)
{
	struct kofi_rdm *hub = rdm_open(test, NULL), *peer = rdm_open(test, NULL);
	fi_addr_t to_hub = rdm_addr(test, peer, hub);

	set_option(test, hub, FI_OPT_KOFI_SOURCE_BYTES, NEW_CONN_BYTES);
	for (int round = 0; round < MANY; round++)
		rdm_exchange(test, peer, to_hub, hub);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(hub));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_11_an_unmatched_rendezvous_is_evicted),
	KUNIT_CASE(rdm_11_an_unmatched_message_outlives_its_eviction),
	KUNIT_CASE(rdm_11_an_incomplete_message_is_evicted),
	KUNIT_CASE(rdm_11_a_peer_that_grants_no_credits_is_evicted),
	KUNIT_CASE(rdm_11_a_peer_that_refuses_is_evicted),
	KUNIT_CASE(rdm_11_a_host_gets_no_more_connections_than_its_memory),
	KUNIT_CASE(rdm_11_sends_fail_beyond_twice_the_memory_of_a_host),
	KUNIT_CASE(rdm_11_a_host_without_memory_for_receives_is_received_from),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_evict",
	.test_cases = cases,
};

kunit_test_suite(suite);
