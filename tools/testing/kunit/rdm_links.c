// SPDX-License-Identifier: GPL-2.0
/* Tests connections of datagram endpoints: idle timeout, connection limit, disconnect handshake. */

#include <linux/delay.h>
#include <linux/mm.h>
#include <rdma/fi_ext.h>

#include "rdm.h"
#include "rdm_raw.h"
#include "traffic.h"

#define LEN	100
/* Longer than segmented messages: sent by rendezvous. */
#define LONG	SZ_256K
#define ENDPOINTS	6

static size_t option(struct kofi_rdm *rdm, int name)
{
	size_t value = 0, len = sizeof(value);

	return fi_getopt(&rdm->ep->fid, FI_OPT_ENDPOINT, name, &value, &len) ? SIZE_MAX : value;
}

static int set(struct fid_ep *ep, int name, size_t value)
{
	return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, name, &value, sizeof(value));
}

static struct kofi_rdm *open_with(struct kunit *test, size_t most, size_t idle_ms)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);

	if (most)
		KUNIT_ASSERT_EQ(test, 0, set(rdm->ep, FI_OPT_KOFI_CONNECTIONS, most));
	KUNIT_ASSERT_EQ(test, 0, set(rdm->ep, FI_OPT_KOFI_IDLE_MS, idle_ms));
	return rdm;
}

static void ep_11_connections_are_bounded_and_idle_by_option(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_open(test, NULL);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_ep *ep = fx_bound_ep(test, fx);
	size_t value = 1, len = sizeof(value);
	static const int names[] = {
		FI_OPT_KOFI_CONNECTIONS, FI_OPT_KOFI_IDLE_MS, FI_OPT_KOFI_CONNECTED,
		FI_OPT_KOFI_SOURCE_BYTES,
	};

	KUNIT_EXPECT_EQ(test, 0, option(rdm, FI_OPT_KOFI_CONNECTIONS));
	KUNIT_EXPECT_EQ(test, 60000, option(rdm, FI_OPT_KOFI_IDLE_MS));
	KUNIT_EXPECT_EQ(test, max(totalram_pages() * PAGE_SIZE / 16, SZ_64M),
			option(rdm, FI_OPT_KOFI_SOURCE_BYTES));
	KUNIT_EXPECT_EQ(test, 0, set(rdm->ep, FI_OPT_KOFI_SOURCE_BYTES, SZ_1M));
	KUNIT_EXPECT_EQ(test, SZ_1M, option(rdm, FI_OPT_KOFI_SOURCE_BYTES));
	KUNIT_EXPECT_EQ(test, 0, rdm_connected(rdm));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(rdm->ep, FI_OPT_KOFI_CONNECTIONS, BIT(31)));
	KUNIT_EXPECT_EQ(test, 0, set(rdm->ep, FI_OPT_KOFI_CONNECTIONS, BIT(31) - 1));
	KUNIT_EXPECT_EQ(test, 0, set(rdm->ep, FI_OPT_KOFI_CONNECTIONS, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(rdm->ep, FI_OPT_KOFI_IDLE_MS, SIZE_MAX));
	KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT, set(rdm->ep, FI_OPT_KOFI_CONNECTED, 1));
	KUNIT_EXPECT_EQ(test, 0, set(rdm->ep, FI_OPT_KOFI_CONNECTIONS, 1));
	KUNIT_EXPECT_EQ(test, 0, set(rdm->ep, FI_OPT_KOFI_IDLE_MS, 0));
	KUNIT_EXPECT_EQ(test, 1, option(rdm, FI_OPT_KOFI_CONNECTIONS));
	KUNIT_EXPECT_EQ(test, 0, option(rdm, FI_OPT_KOFI_IDLE_MS));
	for (int i = 0; i < ARRAY_SIZE(names); i++) {
		KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT, set(ep, names[i], 1));
		KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT,
				fi_getopt(&ep->fid, FI_OPT_ENDPOINT, names[i], &value, &len));
	}
}

static void rdm_04_idle_connections_end_and_are_reestablished(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 50), *b = open_with(test, 0, 0);
	fi_addr_t to_b = rdm_addr(test, a, b), to_a = rdm_addr(test, b, a);

	for (int i = 0; i < 3; i++) {
		rdm_exchange(test, a, to_b, b);
		rdm_exchange(test, b, to_a, a);
		rdm_await_connected(test, a, 0);
		rdm_await_connected(test, b, 0);
	}
	/* A connection to itself ends as well. */
	to_a = rdm_addr(test, a, a);
	rdm_exchange(test, a, to_a, a);
	rdm_await_connected(test, a, 0);
	rdm_exchange(test, a, to_a, a);
}

static void rdm_04_used_connections_and_those_without_timeout_stay(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 0), *b = open_with(test, 0, 0);
	struct kofi_rdm *c = open_with(test, 0, 200);
	fi_addr_t to_b = rdm_addr(test, a, b), to_c = rdm_addr(test, a, c);

	rdm_exchange(test, a, to_b, b);
	for (int i = 0; i < 40; i++) {
		rdm_exchange(test, a, to_c, c);
		usleep_range(10000, 12000);
	}
	KUNIT_EXPECT_EQ(test, 2, rdm_connected(a));
	rdm_await_connected(test, c, 0);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(b));
}

/* A rendezvous message without a receive keeps its connection from being idle. */
static void rdm_04_a_pending_rendezvous_keeps_its_connection(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 200), *b = open_with(test, 0, 200);
	fi_addr_t to_b = rdm_addr(test, a, b);
	u8 *out = tr_buffer(test, LONG), *in = tr_buffer(test, LONG);

	tr_fill(out, LONG, 1);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, out, LONG, out));
	rdm_await_connected(test, a, 1);
	msleep(1000);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(a));
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, in, LONG, in));
	rdm_expect(test, b, in, NULL);
	rdm_expect(test, a, out, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LONG, 1));
	rdm_await_connected(test, a, 0);
	rdm_await_connected(test, b, 0);
}

/* Unexpected messages outlive their connection. */
static void rdm_06_unexpected_messages_outlive_their_connection(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 20), *b = open_with(test, 0, 20);
	fi_addr_t to_b = rdm_addr(test, a, b);
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);

	tr_fill(out, LEN, 1);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, out, LEN, out));
	rdm_expect(test, a, out, NULL);
	rdm_await_connected(test, b, 0);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, in, LEN, in));
	rdm_expect(test, b, in, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LEN, 1));
}

static void rdm_04_the_least_recently_used_connection_is_evicted(struct kunit *test)
{
	struct kofi_rdm *hub = open_with(test, 2, 0), *peers[3];
	fi_addr_t to[3];

	for (int i = 0; i < ARRAY_SIZE(peers); i++) {
		peers[i] = open_with(test, 0, 0);
		to[i] = rdm_addr(test, hub, peers[i]);
	}
	rdm_exchange(test, hub, to[0], peers[0]);
	rdm_exchange(test, hub, to[1], peers[1]);
	rdm_exchange(test, hub, to[0], peers[0]);
	rdm_exchange(test, hub, to[2], peers[2]);
	rdm_await_connected(test, peers[1], 0);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(peers[0]));
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(peers[2]));
	KUNIT_EXPECT_EQ(test, 2, rdm_connected(hub));
	/* Incoming connections evict as well. */
	rdm_exchange(test, peers[1], rdm_addr(test, peers[1], hub), hub);
	rdm_await_connected(test, peers[0], 0);
	KUNIT_EXPECT_EQ(test, 2, rdm_connected(hub));
}

/* A send waits for a connection while no other connection can be closed. */
static void rdm_04_a_send_waits_for_the_connection_limit(struct kunit *test)
{
	struct kofi_rdm *hub = open_with(test, 1, 0);
	struct kofi_rdm *one = open_with(test, 0, 0), *other = open_with(test, 0, 0);
	fi_addr_t to_hub = rdm_addr(test, one, hub), to_other = rdm_addr(test, hub, other);
	u8 *out = tr_buffer(test, LONG), *in = tr_buffer(test, LONG);
	u8 *message = tr_buffer(test, LEN);
	struct fi_cq_tagged_entry entry;

	tr_fill(out, LONG, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(one->ep, out, LONG, NULL, to_hub, 1, out));
	rdm_await_unexpected(test, hub, 1);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(hub, to_other, message, LEN, message));
	msleep(100);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(hub->cq, &entry, 1));
	KUNIT_EXPECT_EQ(test, 0, rdm_connected(other));
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(hub->ep, in, LONG, NULL, FI_ADDR_UNSPEC, 1, 0, in));
	rdm_expect(test, hub, in, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LONG, 1));
	rdm_expect(test, one, out, NULL);
	rdm_expect(test, hub, message, NULL);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(hub));
}

struct eps {
	struct kofi_rdm	*rdm[ENDPOINTS];
	fi_addr_t	to[ENDPOINTS][ENDPOINTS];
	u8		*out, *in;	/* LEN bytes for each message */
};

/* Sends from each endpoint to each other one: all messages arrive. */
static void all_to_all(struct kunit *test, struct eps *eps, size_t most)
{
	int left[ENDPOINTS];

	for (int i = 0; i < ENDPOINTS; i++) {
		left[i] = 2 * (ENDPOINTS - 1);
		for (int j = 0; j < ENDPOINTS - 1; j++) {
			u8 *in = eps->in + (i * ENDPOINTS + j) * LEN;

			KUNIT_ASSERT_EQ(test, 0, rdm_recv(eps->rdm[i], FI_ADDR_UNSPEC, in, LEN, in));
		}
	}
	for (int step = 1; step < ENDPOINTS; step++) {
		for (int i = 0; i < ENDPOINTS; i++) {
			int j = (i + step) % ENDPOINTS;
			u8 *out = eps->out + (i * ENDPOINTS + j) * LEN;

			memset(out, i * ENDPOINTS + j, LEN);
			KUNIT_ASSERT_EQ(test, 0, rdm_send(eps->rdm[i], eps->to[i][j], out, LEN, out));
		}
	}
	for (int i = 0; i < ENDPOINTS; i++) {
		while (left[i]--) {
			struct fi_cq_tagged_entry entry;
			u8 *buf;

			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, eps->rdm[i]->cq, &entry, 1));
			buf = entry.op_context;
			if (!(entry.flags & FI_RECV))
				continue;
			KUNIT_EXPECT_EQ(test, i, buf[0] % ENDPOINTS);
			KUNIT_EXPECT_TRUE(test, !memchr_inv(buf, buf[0], LEN));
		}
		KUNIT_EXPECT_LE(test, rdm_connected(eps->rdm[i]), most);
	}
}

static void rdm_04_all_to_all_with_fewer_connections_than_peers(struct kunit *test)
{
	struct eps *eps = (void *)tr_buffer(test, sizeof(*eps));

	eps->out = tr_buffer(test, ENDPOINTS * ENDPOINTS * LEN);
	eps->in = tr_buffer(test, ENDPOINTS * ENDPOINTS * LEN);
	for (int i = 0; i < ENDPOINTS; i++)
		eps->rdm[i] = open_with(test, 2, 0);
	for (int i = 0; i < ENDPOINTS; i++)
		for (int j = 0; j < ENDPOINTS; j++)
			eps->to[i][j] = rdm_addr(test, eps->rdm[i], eps->rdm[j]);
	for (int i = 0; i < tr_rounds; i += 5)
		all_to_all(test, eps, 2);
	/* With a higher limit there are more connections. */
	for (int i = 0; i < ENDPOINTS; i++)
		KUNIT_ASSERT_EQ(test, 0, set(eps->rdm[i]->ep, FI_OPT_KOFI_CONNECTIONS, ENDPOINTS));
	all_to_all(test, eps, ENDPOINTS);
}

#define SENDERS	4
#define WINDOW	16

struct msg {
	u32	from, number;
};

/* More senders than the hub can have connections: they evict each other; messages stay ordered. */
static void rdm_03_order_is_kept_while_connections_are_evicted(struct kunit *test)
{
	struct msg *in = (void *)tr_buffer(test, WINDOW * sizeof(*in));
	u32 sent[SENDERS] = {}, received[SENDERS] = {}, left = SENDERS * 20 * tr_rounds;
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct kofi_rdm *hub = open_with(test, 2, 0), *from[SENDERS];
	struct fi_cq_tagged_entry entry;
	fi_addr_t to_hub[SENDERS];

	for (int i = 0; i < SENDERS; i++) {
		from[i] = open_with(test, 0, 1);
		to_hub[i] = rdm_addr(test, from[i], hub);
	}
	for (int i = 0; i < WINDOW; i++)
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(hub, FI_ADDR_UNSPEC, &in[i], sizeof(*in), &in[i]));
	while (left) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for %u more messages", left);
		for (u32 i = 0; i < SENDERS; i++) {
			struct msg msg = { i, sent[i] };

			if (sent[i] < 20 * tr_rounds && sent[i] < received[i] + WINDOW &&
			    !fi_inject(from[i]->ep, &msg, sizeof(msg), to_hub[i]))
				sent[i]++;
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_cq_read(from[i]->cq, &entry, 1));
		}
		while (fi_cq_read(hub->cq, &entry, 1) == 1) {
			struct msg *msg = entry.op_context;

			KUNIT_ASSERT_LT(test, msg->from, SENDERS);
			KUNIT_ASSERT_EQ_MSG(test, received[msg->from], msg->number, "from %u",
					    msg->from);
			received[msg->from]++;
			left--;
			end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(hub, FI_ADDR_UNSPEC, msg, sizeof(*msg),
							  msg));
		}
		cond_resched();
	}
}

/* Two endpoints reach the idle timeout again and again between messages. */
static void rdm_04_nothing_is_lost_when_idle_connections_end(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 1), *b = open_with(test, 0, 1);
	fi_addr_t to_b = rdm_addr(test, a, b), to_a = rdm_addr(test, b, a);

	for (int i = 0; i < 2 * tr_rounds; i++) {
		rdm_exchange(test, a, to_b, b);
		usleep_range(1000, 1000 + 200 * i);
		rdm_exchange(test, b, to_a, a);
		usleep_range(1000, 1000 + 100 * i);
	}
}

/* Connects once and disconnects; returns the endpoint's id of the connection. */
static u32 connect_once(struct kunit *test, struct raw *raw, struct kofi_rdm *rdm, u16 port)
{
	raw_reconnect_as(test, raw, &rdm->name, port, 0);
	raw_disconnect(test, raw);
	rdm_await_connected(test, rdm, 0);
	return raw->to;
}

/* Connection ids are reused once a peer has disconnected. */
static void rdm_04_connection_ids_are_reused(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 0);
	struct raw *raw = raw_open(test, SZ_4K);

	for (int i = 0; i < 20; i++)
		KUNIT_EXPECT_LT(test, connect_once(test, raw, rdm, 2000 + i), 4);
}

static u64 received_msgs;

static void on_packet(struct raw *raw, const struct raw_header *header)
{
	if (header->kind == RAW_PKT_DISCONNECT)
		received_msgs |= BIT_ULL(header->extra);
}

static void await_end(struct kunit *test, struct raw *raw, bool is_end, u64 messages)
{
	raw_await(test, raw, is_end ? raw->is_closed : (received_msgs & messages) == messages,
		  "%s, received disconnect messages %llx",
		  is_end ? "the end of the connection" : "disconnect messages", received_msgs);
	KUNIT_EXPECT_EQ(test, messages, received_msgs);
}

static struct raw *connect_raw(struct kunit *test, struct kofi_rdm *rdm, u32 extensions)
{
	struct raw *raw = raw_open_connected(test, &rdm->name, extensions);

	received_msgs = 0;
	raw->on_packet = on_packet;
	return raw;
}

static void rdm_04_a_disconnect_request_is_accepted(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 0);
	struct raw *raw = connect_raw(test, rdm, RAW_SUPPORTS_DISC);

	raw_send_ctrl(test, raw, RAW_PKT_DISCONNECT, 0, RAW_DISC_REQUEST);
	await_end(test, raw, false, BIT(RAW_DISC_ACCEPT));
	/* The endpoint closes the connection if the peer does not. */
	await_end(test, raw, true, BIT(RAW_DISC_ACCEPT));
	raw_disconnect(test, raw);
}

static void rdm_04_an_unanswered_disconnect_request_times_out(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 100);
	struct raw *raw = connect_raw(test, rdm, RAW_SUPPORTS_DISC);

	await_end(test, raw, true, BIT(RAW_DISC_REQUEST));
	raw_disconnect(test, raw);
}

static void rdm_04_a_refused_disconnect_is_requested_again(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 100);
	struct raw *raw = connect_raw(test, rdm, RAW_SUPPORTS_DISC);

	for (int i = 0; i < 3; i++) {
		await_end(test, raw, false, BIT(RAW_DISC_REQUEST));
		received_msgs = 0;
		raw_send_ctrl(test, raw, RAW_PKT_DISCONNECT, 0, RAW_DISC_REFUSE);
	}
	await_end(test, raw, false, BIT(RAW_DISC_REQUEST));
	raw_send_ctrl(test, raw, RAW_PKT_DISCONNECT, 0, RAW_DISC_ACCEPT);
	await_end(test, raw, true, BIT(RAW_DISC_REQUEST));
	raw_disconnect(test, raw);
}

/* Unexpected disconnect messages, and those of peers without support, end the connection. */
static void rdm_04_unexpected_disconnect_messages_end_the_connection(struct kunit *test)
{
	static const struct {
		u32 extensions;
		u64 message;
	} unexpected_msgs[] = {
		{ 0, RAW_DISC_REQUEST }, { 0, RAW_DISC_ACCEPT }, { 0x6b6f0000, RAW_DISC_REQUEST },
		{ RAW_SUPPORTS_DISC, RAW_DISC_ACCEPT }, { RAW_SUPPORTS_DISC, RAW_DISC_REFUSE },
		{ RAW_SUPPORTS_DISC, 0 }, { RAW_SUPPORTS_DISC, 4 }, { RAW_SUPPORTS_DISC, ~0ULL },
	};
	struct kofi_rdm *rdm = open_with(test, 0, 0);

	for (int i = 0; i < ARRAY_SIZE(unexpected_msgs); i++) {
		struct raw *raw = connect_raw(test, rdm, unexpected_msgs[i].extensions);

		raw_send_ctrl(test, raw, RAW_PKT_DISCONNECT, 0, unexpected_msgs[i].message);
		await_end(test, raw, true, 0);
		raw_disconnect(test, raw);
		rdm_await_connected(test, rdm, 0);
	}
}

static void rdm_04_a_message_after_a_disconnect_request_ends_it(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 0);
	struct raw *raw = connect_raw(test, rdm, RAW_SUPPORTS_DISC);

	raw_send_ctrl(test, raw, RAW_PKT_DISCONNECT, 0, RAW_DISC_REQUEST);
	await_end(test, raw, false, BIT(RAW_DISC_ACCEPT));
	raw_send_ctrl(test, raw, RAW_PKT_EAGER, 0, 0);
	await_end(test, raw, true, BIT(RAW_DISC_ACCEPT));
	raw_disconnect(test, raw);
}

/* A user-space peer does not support the handshake: its idle connection stays. */
static void rdm_04_a_peer_without_disconnect_support_stays(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 1, 20), *other = open_with(test, 0, 0);
	struct raw *raw = connect_raw(test, rdm, 0);

	msleep(200);
	raw_progress(raw);
	KUNIT_EXPECT_FALSE(test, raw->is_closed);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(rdm));
	/* If the connection limit is reached, the connection ends after a while. */
	rdm_exchange(test, rdm, rdm_addr(test, rdm, other), other);
	await_end(test, raw, true, 0);
	raw_disconnect(test, raw);
}

static void close_02_close_with_sends_that_wait_for_a_connection(struct kunit *test)
{
	struct kofi_rdm *hub = open_with(test, 1, 0), *peers[3];
	u8 *out = tr_buffer(test, LONG);

	for (int i = 0; i < ARRAY_SIZE(peers); i++) {
		peers[i] = open_with(test, 0, 1);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(hub, rdm_addr(test, hub, peers[i]), out, LONG, out));
	}
	rdm_await_connected(test, hub, 1);
	fx_close(test, &hub->ep->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_11_connections_are_bounded_and_idle_by_option),
	KUNIT_CASE(rdm_04_idle_connections_end_and_are_reestablished),
	KUNIT_CASE(rdm_04_used_connections_and_those_without_timeout_stay),
	KUNIT_CASE(rdm_04_a_pending_rendezvous_keeps_its_connection),
	KUNIT_CASE(rdm_06_unexpected_messages_outlive_their_connection),
	KUNIT_CASE(rdm_04_the_least_recently_used_connection_is_evicted),
	KUNIT_CASE(rdm_04_a_send_waits_for_the_connection_limit),
	KUNIT_CASE_SLOW(rdm_04_all_to_all_with_fewer_connections_than_peers),
	KUNIT_CASE_SLOW(rdm_03_order_is_kept_while_connections_are_evicted),
	KUNIT_CASE_SLOW(rdm_04_nothing_is_lost_when_idle_connections_end),
	KUNIT_CASE(rdm_04_connection_ids_are_reused),
	KUNIT_CASE(rdm_04_a_disconnect_request_is_accepted),
	KUNIT_CASE(rdm_04_a_message_after_a_disconnect_request_ends_it),
	KUNIT_CASE(rdm_04_an_unanswered_disconnect_request_times_out),
	KUNIT_CASE(rdm_04_a_refused_disconnect_is_requested_again),
	KUNIT_CASE(rdm_04_unexpected_disconnect_messages_end_the_connection),
	KUNIT_CASE(rdm_04_a_peer_without_disconnect_support_stays),
	KUNIT_CASE(close_02_close_with_sends_that_wait_for_a_connection),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_links",
	.test_cases = cases,
};

kunit_test_suite(suite);
