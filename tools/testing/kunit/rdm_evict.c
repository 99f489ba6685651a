// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 11 of CONTRACT with an endpoint at its connection limit: nothing that a peer leaves
 * behind keeps its connection from being closed for another peer.
 */

#include <linux/delay.h>
#include <rdma/fi_ext.h>

#include "rdm.h"
#include "rdm_raw.h"
#include "traffic.h"

#define LEN	100
/* Longer than segmented messages: sent by rendezvous. */
#define LONG	SZ_256K
#define TAG	5
/* More requests than fit into a second, if one follows another after 20 ms. */
#define MANY	100

/* Opens an endpoint with one connection, which has no idle timeout. */
static struct kofi_rdm *open_hub(struct kunit *test)
{
	struct kofi_rdm *hub = rdm_open(test, NULL);
	size_t value = 1;

	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&hub->ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_CONNECTIONS,
					   &value, sizeof(value)));
	value = 0;
	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&hub->ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_IDLE_MS,
					   &value, sizeof(value)));
	return hub;
}

/* The hub sends to another peer, for which it has to close its only connection. */
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

/* Refuses each request to end the connection, if there is a packet for it. */
static void refuse(struct raw *raw, u32 *refused)
{
	u8 *packet = raw_get_packet(raw);

	if (!packet || *refused == raw->packets)
		return;
	raw_init_packet(raw, packet, RAW_PKT_DISCONNECT)->extra = RAW_DISC_REFUSE;
	if (!raw_send(raw, packet, RAW_HEADER))
		(*refused)++;
}

/* A peer that never agrees keeps its connection for a second, and is asked a few times. */
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

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_11_an_unmatched_rendezvous_is_evicted),
	KUNIT_CASE(rdm_11_an_unmatched_message_outlives_its_eviction),
	KUNIT_CASE(rdm_11_an_incomplete_message_is_evicted),
	KUNIT_CASE(rdm_11_a_peer_that_grants_no_credits_is_evicted),
	KUNIT_CASE(rdm_11_a_peer_that_refuses_is_evicted),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_evict",
	.test_cases = cases,
};

kunit_test_suite(suite);
