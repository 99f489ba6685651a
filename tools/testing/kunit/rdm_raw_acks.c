// SPDX-License-Identifier: GPL-2.0
/* Tests the acknowledgements of delivered datagrams with raw peers. */

#include <linux/delay.h>
#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

#define LEN		100
/* Time to wait for a completion that must not come. */
#define SILENCE_MS	20
#define SLOTS		64

struct peers {
	struct kofi_rdm		*rdm;
	fi_addr_t		to_raw;
	struct raw		*raw;
	u8			*out, *in;
	u8			*read;		/* contiguous, for reads on iWARP */
};

static void reconnect(struct kunit *test, struct peers *p, u32 extensions)
{
	raw_reconnect_as(test, p->raw, &p->rdm->name, RAW_PORT, extensions);
}

static struct peers *open_peers(struct kunit *test, u32 extensions)
{
	static const struct rdm_opts opts = { .inject_size = RAW_EAGER };
	struct peers *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = tr_vbuffer(test, 2 * RAW_EAGER);
	p->in = tr_vbuffer(test, 2 * RAW_EAGER);
	p->read = tr_buffer(test, 2 * RAW_EAGER);
	p->raw = raw_open(test, SZ_4K);
	p->rdm = rdm_open(test, &opts);
	p->to_raw = raw_addr(test, p->rdm, RAW_PORT);
	reconnect(test, p, extensions);
	return p;
}

/* Acknowledges the messages of these slots. */
static void send_ack(struct kunit *test, struct peers *p, u64 slots)
{
	raw_send_ctrl(test, p->raw, RAW_PKT_ACK, 0, slots);
}

/* Sends a message of LEN bytes that asks for an acknowledgement of the slot. */
static void send_slot(struct kunit *test, struct peers *p, u8 slot)
{
	u8 *packet = raw_await_free(test, p->raw);
	struct raw_header *header = raw_init_packet(p->raw, packet, RAW_PKT_EAGER);

	header->len = LEN;
	header->flags = RAW_WANTS_ACK;
	header->op_data = slot;
	KUNIT_ASSERT_EQ(test, 0, raw_send(p->raw, packet, RAW_HEADER + LEN));
}

static void send_delivered(struct kunit *test, struct peers *p, size_t len, u64 flags)
{
	const struct kvec iov = { p->out, len };
	const struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = p->to_raw, .context = p->out,
	};

	KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(p->rdm->ep, &msg, FI_DELIVERY_COMPLETE | flags));
}

static void expect_silence(struct kunit *test, struct peers *p)
{
	struct fi_cq_tagged_entry entry;

	msleep(SILENCE_MS);
	raw_progress(p->raw);
	KUNIT_ASSERT_EQ_MSG(test, -FI_EAGAIN, fi_cq_read(p->rdm->cq, &entry, 1),
			    "completed without an acknowledgement");
}

static void post_receive(struct kunit *test, struct peers *p)
{
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(p->rdm, FI_ADDR_UNSPEC, p->in, LEN, p->in));
}

/* A message to a peer with the extension names a slot, and completes with its acknowledgement. */
static void rdm_07_an_acknowledgement_completes_the_send(struct kunit *test)
{
	static const size_t lens[] = { 0, LEN, RAW_EAGER, 2 * RAW_EAGER };
	struct peers *p = open_peers(test, RAW_SUPPORTS_ACKS);

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		bool is_long = lens[i] > RAW_EAGER;

		p->raw->packets = 0;
		send_delivered(test, p, lens[i], 0);
		raw_await_received(test, p->raw, is_long ? 2 : 1);
		KUNIT_EXPECT_EQ(test, is_long ? RAW_PKT_SEG : RAW_PKT_EAGER, p->raw->got.kind);
		KUNIT_EXPECT_EQ(test, RAW_WANTS_ACK, p->raw->got.flags);
		KUNIT_ASSERT_LT(test, p->raw->got.op_data, SLOTS);
		expect_silence(test, p);
		send_ack(test, p, BIT_ULL(p->raw->got.op_data));
		rdm_expect(test, p->rdm, p->out, NULL);
	}
}

/* A packet acknowledges several messages. */
static void rdm_07_an_acknowledgement_names_several_messages(struct kunit *test)
{
	struct peers *p = open_peers(test, RAW_SUPPORTS_ACKS);

	for (int round = 0; round < 3; round++) {
		p->raw->packets = 0;
		for (int i = 0; i < 3; i++)
			send_delivered(test, p, LEN, 0);
		raw_await_received(test, p->raw, 3);
		send_ack(test, p, 2);
		rdm_expect(test, p->rdm, p->out, NULL);
		expect_silence(test, p);
		send_ack(test, p, 5);
		rdm_expect(test, p->rdm, p->out, NULL);
		rdm_expect(test, p->rdm, p->out, NULL);
	}
}

/* Without the extension, as to libfabric, every message goes by rendezvous. */
static void rdm_07_delivery_to_libfabric_is_a_rendezvous(struct kunit *test)
{
	static const size_t lens[] = { 1, LEN, RAW_EAGER, 2 * RAW_EAGER };
	static const u32 extensions[] = { 0, RAW_SUPPORTS_DISC };
	struct peers *p = open_peers(test, 0);
	struct raw *raw = p->raw;

	for (int i = 0; i < 4 * ARRAY_SIZE(lens); i++) {
		size_t len = lens[i / 4];
		bool inject = i % 2 && len <= RAW_EAGER;

		reconnect(test, p, extensions[i / 2 % 2]);
		tr_fill(p->out, len, i);
		memset(p->read, ~p->out[0], len);
		send_delivered(test, p, len, inject ? FI_INJECT : 0);
		if (inject)
			memset(p->out, 0, len);
		raw_await_received(test, raw, 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_RNDV_REQ, raw->got.kind);
		KUNIT_EXPECT_EQ(test, len, raw->got.len);
		KUNIT_EXPECT_EQ(test, 0, raw->got.flags);
		KUNIT_EXPECT_EQ(test, 1, raw->ranges.count & 0xff);
		KUNIT_EXPECT_EQ(test, len, raw->ranges.range[0].len);
		KUNIT_ASSERT_EQ(test, 0, fi_read(raw->ep, p->read, len, NULL, 0,
						 raw->ranges.range[0].addr, raw->ranges.range[0].key,
						 NULL));
		raw_await(test, raw, tr_intact(p->read, len, i), "a read of %zu bytes, inject %d",
			  len, inject);
		expect_silence(test, p);
		raw_send_ctrl(test, raw, RAW_PKT_RNDV_READ_DONE, raw->got.id, 0);
		rdm_expect(test, p->rdm, p->out, NULL);
	}
	/* A message of no bytes cannot be read, and completes as libfabric's own. */
	raw->packets = 0;
	send_delivered(test, p, 0, 0);
	rdm_expect(test, p->rdm, p->out, NULL);
	raw_await_received(test, raw, 1);
	KUNIT_EXPECT_EQ(test, RAW_PKT_EAGER, raw->got.kind);
	KUNIT_EXPECT_EQ(test, 0, raw->got.flags);
}

/* A peer gets one acknowledgement, when its message is in a receive. */
static void rdm_07_a_delivered_message_is_acknowledged(struct kunit *test)
{
	struct peers *p = open_peers(test, RAW_SUPPORTS_ACKS);

	for (int i = 0; i < 4; i++) {
		u8 slot = i % 2 ? 5 : SLOTS - 1;

		p->raw->packets = 0;
		if (i < 2)
			post_receive(test, p);
		send_slot(test, p, slot);
		if (i >= 2) {
			expect_silence(test, p);
			KUNIT_EXPECT_EQ(test, 0, p->raw->packets);
			post_receive(test, p);
		}
		rdm_expect(test, p->rdm, p->in, NULL);
		raw_await_received(test, p->raw, 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_ACK, p->raw->got.kind);
		KUNIT_EXPECT_EQ(test, BIT_ULL(slot), p->raw->got.extra);
	}
	/* A message that was received after its connection has ended is not acknowledged. */
	send_slot(test, p, 0);
	expect_silence(test, p);
	reconnect(test, p, RAW_SUPPORTS_ACKS);
	send_slot(test, p, 0);
	for (int i = 0; i < 2; i++) {
		post_receive(test, p);
		rdm_expect(test, p->rdm, p->in, NULL);
	}
	raw_await_received(test, p->raw, 1);
	expect_silence(test, p);
	KUNIT_EXPECT_EQ(test, 1, p->raw->packets);
}

/* Peers without the extension need not initialise the flag. */
static void rdm_07_a_peer_without_the_extension_gets_no_acknowledgement(struct kunit *test)
{
	static const u32 extensions[] = { 0, RAW_SUPPORTS_DISC };
	struct peers *p = open_peers(test, 0);

	for (int i = 0; i < ARRAY_SIZE(extensions); i++) {
		reconnect(test, p, extensions[i]);
		for (int n = 0; n < 2; n++) {
			post_receive(test, p);
			send_slot(test, p, n ? 7 : 0xff);
			rdm_expect(test, p->rdm, p->in, NULL);
		}
		expect_silence(test, p);
		KUNIT_EXPECT_EQ(test, 0, p->raw->packets);
	}
}

enum violation {
	UNASKED, EMPTY, FOREIGN, TWICE, AFTER_READ, SAME_SLOT, NO_SLOT, WITHOUT, VIOLATIONS,
};

static const char *const names[] = {
	"an acknowledgement without a message", "an acknowledgement of no message",
	"an acknowledgement of another message", "a second acknowledgement",
	"an acknowledgement of a rendezvous", "two messages in one slot",
	"a slot that there is not", "an acknowledgement without the extension",
};
static_assert(ARRAY_SIZE(names) == VIOLATIONS);

static void rdm_10_acknowledgements_out_of_turn_end_the_connection(struct kunit *test)
{
	struct peers *p = open_peers(test, 0);

	for (int what = 0; what < VIOLATIONS; what++) {
		struct fi_cq_err_entry error;
		bool is_pending = false;

		reconnect(test, p, what == WITHOUT || what == AFTER_READ ? 0 : RAW_SUPPORTS_ACKS);
		if (what == FOREIGN || what == TWICE || what == AFTER_READ) {
			send_delivered(test, p, LEN, 0);
			raw_await_received(test, p->raw, 1);
			is_pending = what != TWICE;
		}
		switch (what) {
		case UNASKED:
		case WITHOUT:
			send_ack(test, p, 1);
			break;
		case EMPTY:
			send_ack(test, p, 0);
			break;
		case FOREIGN:
			send_ack(test, p, ~0ull);
			break;
		case TWICE:
			send_ack(test, p, BIT_ULL(p->raw->got.op_data));
			rdm_expect(test, p->rdm, p->out, NULL);
			send_ack(test, p, BIT_ULL(p->raw->got.op_data));
			break;
		case AFTER_READ:
			raw_send_ctrl(test, p->raw, RAW_PKT_ACK, p->raw->got.id, 1);
			break;
		case SAME_SLOT:
			send_slot(test, p, 3);
			send_slot(test, p, 3);
			break;
		default:
			send_slot(test, p, SLOTS);
		}
		raw_await_closed(test, p->raw, names[what]);
		if (is_pending) {
			KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, p->rdm->cq, &error));
			KUNIT_EXPECT_PTR_EQ(test, p->out, error.op_context);
		}
	}
	/* The message in the first use of a slot is delivered. */
	post_receive(test, p);
	rdm_expect(test, p->rdm, p->in, NULL);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rdm_07_an_acknowledgement_completes_the_send),
	KUNIT_CASE(rdm_07_an_acknowledgement_names_several_messages),
	KUNIT_CASE(rdm_07_delivery_to_libfabric_is_a_rendezvous),
	KUNIT_CASE(rdm_07_a_delivered_message_is_acknowledged),
	KUNIT_CASE(rdm_07_a_peer_without_the_extension_gets_no_acknowledgement),
	KUNIT_CASE(rdm_10_acknowledgements_out_of_turn_end_the_connection),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_raw_acks",
	.test_cases = cases,
};

kunit_test_suite(suite);
