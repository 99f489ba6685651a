// SPDX-License-Identifier: GPL-2.0
/* Tests connections of datagram endpoints: idle timeout, connection limit, disconnect handshake. */

#include <linux/delay.h>
#include <rdma/fi_ext.h>

#include "rdm.h"
#include "rdm_raw.h"
#include "traffic.h"

#define LEN	100
/* Longer than segmented messages: sent by rendezvous. */
#define LONG	SZ_256K
#define CROWD	6

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
	};

	KUNIT_EXPECT_EQ(test, 128, option(rdm, FI_OPT_KOFI_CONNECTIONS));
	KUNIT_EXPECT_EQ(test, 60000, option(rdm, FI_OPT_KOFI_IDLE_MS));
	KUNIT_EXPECT_EQ(test, 0, rdm_connected(rdm));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(rdm->ep, FI_OPT_KOFI_CONNECTIONS, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(rdm->ep, FI_OPT_KOFI_CONNECTIONS, 129));
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

static void rdm_04_idle_connections_end_and_come_again(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 50), *b = open_with(test, 0, 0);
	fi_addr_t to_b = rdm_know(test, a, b), to_a = rdm_know(test, b, a);

	for (int i = 0; i < 3; i++) {
		rdm_exchange(test, a, to_b, b);
		rdm_exchange(test, b, to_a, a);
		rdm_await_connected(test, a, 0);
		rdm_await_connected(test, b, 0);
	}
	/* A connection to itself ends as well. */
	to_a = rdm_know(test, a, a);
	rdm_exchange(test, a, to_a, a);
	rdm_await_connected(test, a, 0);
	rdm_exchange(test, a, to_a, a);
}

static void rdm_04_what_is_used_or_never_idle_stays(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 0), *b = open_with(test, 0, 0);
	struct kofi_rdm *c = open_with(test, 0, 200);
	fi_addr_t to_b = rdm_know(test, a, b), to_c = rdm_know(test, a, c);

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
static void rdm_04_what_is_under_way_keeps_its_connection(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 200), *b = open_with(test, 0, 200);
	fi_addr_t to_b = rdm_know(test, a, b);
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
static void rdm_06_what_waits_outlives_its_connection(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 20), *b = open_with(test, 0, 20);
	fi_addr_t to_b = rdm_know(test, a, b);
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);

	tr_fill(out, LEN, 1);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(a, to_b, out, LEN, out));
	rdm_expect(test, a, out, NULL);
	rdm_await_connected(test, b, 0);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(b, FI_ADDR_UNSPEC, in, LEN, in));
	rdm_expect(test, b, in, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LEN, 1));
}

static void rdm_04_the_least_recently_used_makes_room(struct kunit *test)
{
	struct kofi_rdm *hub = open_with(test, 2, 0), *peers[3];
	fi_addr_t to[3];

	for (int i = 0; i < ARRAY_SIZE(peers); i++) {
		peers[i] = open_with(test, 0, 0);
		to[i] = rdm_know(test, hub, peers[i]);
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
	rdm_exchange(test, peers[1], rdm_know(test, peers[1], hub), hub);
	rdm_await_connected(test, peers[0], 0);
	KUNIT_EXPECT_EQ(test, 2, rdm_connected(hub));
}

/* A send waits for a connection while no other connection can be closed. */
static void rdm_04_who_waits_for_room_gets_it(struct kunit *test)
{
	struct kofi_rdm *hub = open_with(test, 1, 0);
	struct kofi_rdm *one = open_with(test, 0, 0), *other = open_with(test, 0, 0);
	fi_addr_t to_hub = rdm_know(test, one, hub), to_other = rdm_know(test, hub, other);
	u8 *out = tr_buffer(test, LONG), *in = tr_buffer(test, LONG), *word = tr_buffer(test, LEN);
	struct fi_cq_tagged_entry entry;

	tr_fill(out, LONG, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_tsend(one->ep, out, LONG, NULL, to_hub, 1, out));
	rdm_await(test, hub, 1);
	KUNIT_ASSERT_EQ(test, 0, rdm_send(hub, to_other, word, LEN, word));
	msleep(100);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(hub->cq, &entry, 1));
	KUNIT_EXPECT_EQ(test, 0, rdm_connected(other));
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(hub->ep, in, LONG, NULL, FI_ADDR_UNSPEC, 1, 0, in));
	rdm_expect(test, hub, in, NULL);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LONG, 1));
	rdm_expect(test, one, out, NULL);
	rdm_expect(test, hub, word, NULL);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(hub));
}

struct crowd {
	struct kofi_rdm	*who[CROWD];
	fi_addr_t	to[CROWD][CROWD];
	u8		*out, *in;	/* LEN bytes for each message */
};

/* Sends from each endpoint to each other one: all messages arrive. */
static void all_to_all(struct kunit *test, struct crowd *crowd, size_t most)
{
	int left[CROWD];

	for (int i = 0; i < CROWD; i++) {
		left[i] = 2 * (CROWD - 1);
		for (int j = 0; j < CROWD - 1; j++) {
			u8 *in = crowd->in + (i * CROWD + j) * LEN;

			KUNIT_ASSERT_EQ(test, 0, rdm_recv(crowd->who[i], FI_ADDR_UNSPEC, in, LEN, in));
		}
	}
	for (int step = 1; step < CROWD; step++) {
		for (int i = 0; i < CROWD; i++) {
			int j = (i + step) % CROWD;
			u8 *out = crowd->out + (i * CROWD + j) * LEN;

			memset(out, i * CROWD + j, LEN);
			KUNIT_ASSERT_EQ(test, 0, rdm_send(crowd->who[i], crowd->to[i][j], out, LEN, out));
		}
	}
	for (int i = 0; i < CROWD; i++) {
		while (left[i]--) {
			struct fi_cq_tagged_entry entry;
			u8 *buf;

			KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, crowd->who[i]->cq, &entry, 1));
			buf = entry.op_context;
			if (!(entry.flags & FI_RECV))
				continue;
			KUNIT_EXPECT_EQ(test, i, buf[0] % CROWD);
			KUNIT_EXPECT_TRUE(test, !memchr_inv(buf, buf[0], LEN));
		}
		KUNIT_EXPECT_LE(test, rdm_connected(crowd->who[i]), most);
	}
}

static void rdm_04_everybody_has_less_room_than_peers(struct kunit *test)
{
	struct crowd *crowd = (void *)tr_buffer(test, sizeof(*crowd));

	crowd->out = tr_buffer(test, CROWD * CROWD * LEN);
	crowd->in = tr_buffer(test, CROWD * CROWD * LEN);
	for (int i = 0; i < CROWD; i++)
		crowd->who[i] = open_with(test, 2, 0);
	for (int i = 0; i < CROWD; i++)
		for (int j = 0; j < CROWD; j++)
			crowd->to[i][j] = rdm_know(test, crowd->who[i], crowd->who[j]);
	for (int i = 0; i < tr_rounds; i += 5)
		all_to_all(test, crowd, 2);
	/* With a higher limit there are more connections. */
	for (int i = 0; i < CROWD; i++)
		KUNIT_ASSERT_EQ(test, 0, set(crowd->who[i]->ep, FI_OPT_KOFI_CONNECTIONS, CROWD));
	all_to_all(test, crowd, CROWD);
}

#define SENDERS	4
#define WINDOW	16

struct note {
	u32	from, number;
};

/* More senders than the hub can have connections: they evict each other; messages stay ordered. */
static void rdm_03_order_is_kept_while_connections_are_evicted(struct kunit *test)
{
	struct note *in = (void *)tr_buffer(test, WINDOW * sizeof(*in));
	u32 sent[SENDERS] = {}, come[SENDERS] = {}, left = SENDERS * 20 * tr_rounds;
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct kofi_rdm *hub = open_with(test, 2, 0), *from[SENDERS];
	struct fi_cq_tagged_entry entry;
	fi_addr_t to_hub[SENDERS];

	for (int i = 0; i < SENDERS; i++) {
		from[i] = open_with(test, 0, 1);
		to_hub[i] = rdm_know(test, from[i], hub);
	}
	for (int i = 0; i < WINDOW; i++)
		KUNIT_ASSERT_EQ(test, 0, rdm_recv(hub, FI_ADDR_UNSPEC, &in[i], sizeof(*in), &in[i]));
	while (left) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "%u are missing", left);
		for (u32 i = 0; i < SENDERS; i++) {
			struct note note = { i, sent[i] };

			if (sent[i] < 20 * tr_rounds && sent[i] < come[i] + WINDOW &&
			    !fi_inject(from[i]->ep, &note, sizeof(note), to_hub[i]))
				sent[i]++;
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN, fi_cq_read(from[i]->cq, &entry, 1));
		}
		while (fi_cq_read(hub->cq, &entry, 1) == 1) {
			struct note *note = entry.op_context;

			KUNIT_ASSERT_LT(test, note->from, SENDERS);
			KUNIT_ASSERT_EQ_MSG(test, come[note->from], note->number, "from %u", note->from);
			come[note->from]++;
			left--;
			end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(hub, FI_ADDR_UNSPEC, note, sizeof(*note), note));
		}
		cond_resched();
	}
}

/* Both endpoints reach the idle timeout again and again between messages. */
static void rdm_04_nothing_is_lost_when_idle_connections_end(struct kunit *test)
{
	struct kofi_rdm *a = open_with(test, 0, 1), *b = open_with(test, 0, 1);
	fi_addr_t to_b = rdm_know(test, a, b), to_a = rdm_know(test, b, a);

	for (int i = 0; i < 2 * tr_rounds; i++) {
		rdm_exchange(test, a, to_b, b);
		usleep_range(1000, 1000 + 200 * i);
		rdm_exchange(test, b, to_a, a);
		usleep_range(1000, 1000 + 100 * i);
	}
}

/* Connects once and disconnects; returns the endpoint's id of the connection. */
static u32 come_and_go(struct kunit *test, struct raw *raw, struct kofi_rdm *rdm, u16 port)
{
	struct raw_connect_data data = raw_connect_data(raw, port, port);

	KUNIT_ASSERT_EQ(test, 0, raw_connect(test, raw, &rdm->name, &data, sizeof(data)));
	raw_disconnect(test, raw);
	rdm_await_connected(test, rdm, 0);
	return raw->to;
}

/* Connection ids are reused once a peer has disconnected. */
static void rdm_04_who_has_left_is_forgotten(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 0);
	struct raw *raw = raw_open(test, PAGE_SIZE);

	for (int i = 0; i < 20; i++)
		KUNIT_EXPECT_LT(test, come_and_go(test, raw, rdm, 2000 + i), 4);
}

static u64 farewells;

static void hear(struct raw *raw, const struct raw_header *header)
{
	if (header->kind == RAW_PKT_DISCONNECT)
		farewells |= BIT_ULL(header->extra);
}

static void await_end(struct kunit *test, struct raw *raw, bool is_end, u64 words)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (!(is_end ? raw->is_closed : (farewells & words) == words)) {
		raw_progress(raw);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "waited for %s, heard %llx",
				      is_end ? "the end" : "words", farewells);
		usleep_range(500, 1000);
	}
	KUNIT_EXPECT_EQ(test, words, farewells);
}

static struct raw *polite(struct kunit *test, struct kofi_rdm *rdm, u32 extensions)
{
	struct raw *raw = raw_open(test, PAGE_SIZE);
	struct raw_connect_data data = raw_connect_data(raw, 2000, 1);

	farewells = 0;
	raw->on_packet = hear;
	data.receives |= extensions;
	KUNIT_ASSERT_EQ(test, 0, raw_connect(test, raw, &rdm->name, &data, sizeof(data)));
	return raw;
}

static void say(struct kunit *test, struct raw *raw, u64 word)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u8 *packet;

	while (!(packet = raw_get_packet(raw))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "waited for a packet");
		usleep_range(500, 1000);
	}
	raw_init_packet(raw, packet, RAW_PKT_DISCONNECT)->extra = word;
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, RAW_HEADER));
}

static void rdm_04_who_is_asked_agrees(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 0);
	struct raw *raw = polite(test, rdm, RAW_SUPPORTS_DISC);

	say(test, raw, RAW_DISC_REQUEST);
	await_end(test, raw, false, BIT(RAW_DISC_ACCEPT));
	/* The endpoint closes the connection if the peer does not. */
	await_end(test, raw, true, BIT(RAW_DISC_ACCEPT));
	raw_disconnect(test, raw);
}

static void rdm_04_who_does_not_answer_is_left(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 100);
	struct raw *raw = polite(test, rdm, RAW_SUPPORTS_DISC);

	await_end(test, raw, true, BIT(RAW_DISC_REQUEST));
	raw_disconnect(test, raw);
}

static void rdm_04_who_has_to_stay_is_asked_again(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 100);
	struct raw *raw = polite(test, rdm, RAW_SUPPORTS_DISC);

	for (int i = 0; i < 3; i++) {
		await_end(test, raw, false, BIT(RAW_DISC_REQUEST));
		farewells = 0;
		say(test, raw, RAW_DISC_REFUSE);
	}
	await_end(test, raw, false, BIT(RAW_DISC_REQUEST));
	say(test, raw, RAW_DISC_ACCEPT);
	await_end(test, raw, true, BIT(RAW_DISC_REQUEST));
	raw_disconnect(test, raw);
}

/* Unexpected disconnect messages, and those of peers without support, end the connection. */
static void rdm_04_strange_farewells_end_it(struct kunit *test)
{
	static const struct {
		u32 extensions;
		u64 word;
	} strange[] = {
		{ 0, RAW_DISC_REQUEST }, { 0, RAW_DISC_ACCEPT }, { 0x6b6f0000, RAW_DISC_REQUEST },
		{ RAW_SUPPORTS_DISC, RAW_DISC_ACCEPT }, { RAW_SUPPORTS_DISC, RAW_DISC_REFUSE },
		{ RAW_SUPPORTS_DISC, 0 }, { RAW_SUPPORTS_DISC, 4 }, { RAW_SUPPORTS_DISC, ~0ULL },
	};
	struct kofi_rdm *rdm = open_with(test, 0, 0);

	for (int i = 0; i < ARRAY_SIZE(strange); i++) {
		struct raw *raw = polite(test, rdm, strange[i].extensions);

		say(test, raw, strange[i].word);
		await_end(test, raw, true, 0);
		raw_disconnect(test, raw);
		rdm_await_connected(test, rdm, 0);
	}
}

static void rdm_04_who_asks_has_nothing_more_to_say(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 0, 0);
	struct raw *raw = polite(test, rdm, RAW_SUPPORTS_DISC);
	u8 *packet;

	say(test, raw, RAW_DISC_REQUEST);
	await_end(test, raw, false, BIT(RAW_DISC_ACCEPT));
	packet = raw_get_packet(raw);
	KUNIT_ASSERT_NOT_NULL(test, packet);
	raw_init_packet(raw, packet, RAW_PKT_EAGER);
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, RAW_HEADER));
	await_end(test, raw, true, BIT(RAW_DISC_ACCEPT));
	raw_disconnect(test, raw);
}

/* A user-space peer does not support the handshake: its idle connection stays. */
static void rdm_04_who_cannot_be_asked_stays(struct kunit *test)
{
	struct kofi_rdm *rdm = open_with(test, 1, 20), *other = open_with(test, 0, 0);
	struct raw *raw = polite(test, rdm, 0);

	msleep(200);
	raw_progress(raw);
	KUNIT_EXPECT_FALSE(test, raw->is_closed);
	KUNIT_EXPECT_EQ(test, 1, rdm_connected(rdm));
	/* If the connection limit is reached, the connection ends after a while. */
	rdm_exchange(test, rdm, rdm_know(test, rdm, other), other);
	await_end(test, raw, true, 0);
	raw_disconnect(test, raw);
}

static void close_02_with_some_who_wait_for_room(struct kunit *test)
{
	struct kofi_rdm *hub = open_with(test, 1, 0), *peers[3];
	u8 *out = tr_buffer(test, LONG);

	for (int i = 0; i < ARRAY_SIZE(peers); i++) {
		peers[i] = open_with(test, 0, 1);
		KUNIT_ASSERT_EQ(test, 0, rdm_send(hub, rdm_know(test, hub, peers[i]), out, LONG, out));
	}
	rdm_await_connected(test, hub, 1);
	fx_close(test, &hub->ep->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_11_connections_are_bounded_and_idle_by_option),
	KUNIT_CASE(rdm_04_idle_connections_end_and_come_again),
	KUNIT_CASE(rdm_04_what_is_used_or_never_idle_stays),
	KUNIT_CASE(rdm_04_what_is_under_way_keeps_its_connection),
	KUNIT_CASE(rdm_06_what_waits_outlives_its_connection),
	KUNIT_CASE(rdm_04_the_least_recently_used_makes_room),
	KUNIT_CASE(rdm_04_who_waits_for_room_gets_it),
	KUNIT_CASE_SLOW(rdm_04_everybody_has_less_room_than_peers),
	KUNIT_CASE_SLOW(rdm_03_order_is_kept_while_connections_are_evicted),
	KUNIT_CASE_SLOW(rdm_04_nothing_is_lost_when_idle_connections_end),
	KUNIT_CASE(rdm_04_who_has_left_is_forgotten),
	KUNIT_CASE(rdm_04_who_is_asked_agrees),
	KUNIT_CASE(rdm_04_who_asks_has_nothing_more_to_say),
	KUNIT_CASE(rdm_04_who_does_not_answer_is_left),
	KUNIT_CASE(rdm_04_who_has_to_stay_is_asked_again),
	KUNIT_CASE(rdm_04_strange_farewells_end_it),
	KUNIT_CASE(rdm_04_who_cannot_be_asked_stays),
	KUNIT_CASE(close_02_with_some_who_wait_for_room),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_links",
	.test_cases = cases,
};

kunit_test_suite(suite);
