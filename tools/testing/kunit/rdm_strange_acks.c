// SPDX-License-Identifier: GPL-2.0
/* Tests the acknowledgements of delivered datagrams with peers that send arbitrary packets. */

#include <linux/delay.h>
#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

/* Port of the raw peer, at which no endpoint listens. */
#define PORT		1
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
	struct raw_header	got;		/* the last packet received */
	struct raw_ranges	ranges;		/* of the last rendezvous request */
	int			packets, acks;	/* numbers of received ones */
};

static void on_packet(struct raw *raw, const struct raw_header *header)
{
	struct peers *p = raw->context;

	p->got = *header;
	if (header->kind == RAW_PKT_RNDV_REQ)
		memcpy(&p->ranges, header + 1, sizeof(p->ranges));
	p->packets++;
	p->acks += header->kind == RAW_PKT_ACK;
}

static void connect_raw(struct kunit *test, struct peers *p, u32 extensions)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct raw_connect_data data = raw_connect_data(p->raw, PORT, 1);

	raw_disconnect(test, p->raw);
	data.receives = extensions ?: data.receives;
	/* The endpoint may still have the previous connection. */
	while (raw_connect(test, p->raw, &p->rdm->name, &data, sizeof(data))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the connection request to be accepted");
		usleep_range(1000, 2000);
	}
	p->packets = p->acks = 0;
}

static struct peers *open_peers(struct kunit *test, u32 extensions)
{
	static const struct rdm_opts opts = { .inject_size = RAW_EAGER };
	struct peers *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	struct sockaddr_storage name;

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->out = tr_vbuffer(test, 2 * RAW_EAGER);
	p->in = tr_vbuffer(test, 2 * RAW_EAGER);
	p->read = tr_buffer(test, 2 * RAW_EAGER);
	p->raw = raw_open(test, SZ_4K);
	p->raw->on_packet = on_packet;
	p->raw->context = p;
	p->rdm = rdm_open(test, &opts);
	name = p->rdm->name;
	/* The port of both families is at the same place. */
	((struct sockaddr_in *)&name)->sin_port = cpu_to_be16(PORT);
	KUNIT_ASSERT_EQ(test, 1, rdm_insert(p->rdm, &name, &p->to_raw, 0));
	connect_raw(test, p, extensions);
	return p;
}

/* Waits until the raw peer has received that many packets. */
static void await_packets(struct kunit *test, struct peers *p, int count)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	for (raw_progress(p->raw); p->packets < count; raw_progress(p->raw)) {
		KUNIT_ASSERT_FALSE_MSG(test, p->raw->is_closed, "the connection has ended");
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "%d packets, not %d",
				      p->packets, count);
		usleep_range(50, 100);
	}
}

static void await_closed(struct kunit *test, struct peers *p, const char *why)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	for (raw_progress(p->raw); !p->raw->is_closed; raw_progress(p->raw)) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "%s: waited for the end of the connection", why);
		usleep_range(50, 100);
	}
}

static u8 *get_packet(struct kunit *test, struct peers *p)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u8 *packet;

	while (!(packet = raw_get_packet(p->raw))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "waited for a free packet");
		usleep_range(50, 100);
	}
	return packet;
}

static void send_ctrl(struct kunit *test, struct peers *p, int kind, u64 id, u64 extra)
{
	u8 *packet = get_packet(test, p);
	struct raw_header *header = raw_init_packet(p->raw, packet, kind);

	header->id = id;
	header->extra = extra;
	KUNIT_ASSERT_EQ(test, 0, raw_send(p->raw, packet, RAW_HEADER));
}

/* Sends a message of LEN bytes that asks for an acknowledgement of the slot. */
static void send_slot(struct kunit *test, struct peers *p, u8 slot)
{
	u8 *packet = get_packet(test, p);
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

		p->packets = 0;
		send_delivered(test, p, lens[i], 0);
		await_packets(test, p, is_long ? 2 : 1);
		KUNIT_EXPECT_EQ(test, is_long ? RAW_PKT_SEG : RAW_PKT_EAGER, p->got.kind);
		KUNIT_EXPECT_EQ(test, RAW_WANTS_ACK, p->got.flags);
		KUNIT_ASSERT_LT(test, p->got.op_data, SLOTS);
		expect_silence(test, p);
		send_ctrl(test, p, RAW_PKT_ACK, 0, BIT_ULL(p->got.op_data));
		rdm_expect(test, p->rdm, p->out, NULL);
	}
}

/* A packet acknowledges several messages. */
static void rdm_07_an_acknowledgement_names_several_messages(struct kunit *test)
{
	struct peers *p = open_peers(test, RAW_SUPPORTS_ACKS);

	for (int round = 0; round < 3; round++) {
		p->packets = 0;
		for (int i = 0; i < 3; i++)
			send_delivered(test, p, LEN, 0);
		await_packets(test, p, 3);
		send_ctrl(test, p, RAW_PKT_ACK, 0, 2);
		rdm_expect(test, p->rdm, p->out, NULL);
		expect_silence(test, p);
		send_ctrl(test, p, RAW_PKT_ACK, 0, 5);
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

		connect_raw(test, p, extensions[i / 2 % 2]);
		tr_fill(p->out, len, i);
		memset(p->read, ~p->out[0], len);
		send_delivered(test, p, len, inject ? FI_INJECT : 0);
		if (inject)
			memset(p->out, 0, len);
		await_packets(test, p, 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_RNDV_REQ, p->got.kind);
		KUNIT_EXPECT_EQ(test, len, p->got.len);
		KUNIT_EXPECT_EQ(test, 0, p->got.flags);
		KUNIT_EXPECT_EQ(test, 1, p->ranges.count & 0xff);
		KUNIT_EXPECT_EQ(test, len, p->ranges.range[0].len);
		KUNIT_ASSERT_EQ(test, 0, fi_read(raw->ep, p->read, len, NULL, 0,
						 p->ranges.range[0].addr, p->ranges.range[0].key,
						 NULL));
		/* Other completions are handled until the read has filled the memory. */
		for (int ms = 0; ms < FX_WAIT_MS && !tr_intact(p->read, len, i); ms++) {
			raw_progress(raw);
			usleep_range(1000, 2000);
		}
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(p->read, len, i),
				      "%zu bytes, inject %d", len, inject);
		expect_silence(test, p);
		send_ctrl(test, p, RAW_PKT_RNDV_READ_DONE, p->got.id, 0);
		rdm_expect(test, p->rdm, p->out, NULL);
	}
	/* A message of no bytes cannot be read, and completes as libfabric's own. */
	p->packets = 0;
	send_delivered(test, p, 0, 0);
	rdm_expect(test, p->rdm, p->out, NULL);
	await_packets(test, p, 1);
	KUNIT_EXPECT_EQ(test, RAW_PKT_EAGER, p->got.kind);
	KUNIT_EXPECT_EQ(test, 0, p->got.flags);
}

/* A peer gets one acknowledgement, when its message is in a receive. */
static void rdm_07_a_delivered_message_is_acknowledged(struct kunit *test)
{
	struct peers *p = open_peers(test, RAW_SUPPORTS_ACKS);

	for (int i = 0; i < 4; i++) {
		u8 slot = i % 2 ? 5 : SLOTS - 1;

		p->packets = 0;
		if (i < 2)
			post_receive(test, p);
		send_slot(test, p, slot);
		if (i >= 2) {
			expect_silence(test, p);
			KUNIT_EXPECT_EQ(test, 0, p->packets);
			post_receive(test, p);
		}
		rdm_expect(test, p->rdm, p->in, NULL);
		await_packets(test, p, 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_ACK, p->got.kind);
		KUNIT_EXPECT_EQ(test, BIT_ULL(slot), p->got.extra);
	}
	/* A message that was received after its connection has ended is not acknowledged. */
	send_slot(test, p, 0);
	expect_silence(test, p);
	connect_raw(test, p, RAW_SUPPORTS_ACKS);
	send_slot(test, p, 0);
	for (int i = 0; i < 2; i++) {
		post_receive(test, p);
		rdm_expect(test, p->rdm, p->in, NULL);
	}
	await_packets(test, p, 1);
	expect_silence(test, p);
	KUNIT_EXPECT_EQ(test, 1, p->acks);
}

/* Peers without the extension need not initialise the flag. */
static void rdm_07_a_peer_without_the_extension_gets_no_acknowledgement(struct kunit *test)
{
	static const u32 extensions[] = { 0, RAW_SUPPORTS_DISC };
	struct peers *p = open_peers(test, 0);

	for (int i = 0; i < ARRAY_SIZE(extensions); i++) {
		connect_raw(test, p, extensions[i]);
		for (int n = 0; n < 2; n++) {
			post_receive(test, p);
			send_slot(test, p, n ? 7 : 0xff);
			rdm_expect(test, p->rdm, p->in, NULL);
		}
		expect_silence(test, p);
		KUNIT_EXPECT_EQ(test, 0, p->acks);
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

		connect_raw(test, p, what == WITHOUT || what == AFTER_READ ? 0 : RAW_SUPPORTS_ACKS);
		if (what == FOREIGN || what == TWICE || what == AFTER_READ) {
			send_delivered(test, p, LEN, 0);
			await_packets(test, p, 1);
			is_pending = what != TWICE;
		}
		switch (what) {
		case UNASKED:
		case WITHOUT:
			send_ctrl(test, p, RAW_PKT_ACK, 0, 1);
			break;
		case EMPTY:
			send_ctrl(test, p, RAW_PKT_ACK, 0, 0);
			break;
		case FOREIGN:
			send_ctrl(test, p, RAW_PKT_ACK, 0, ~0ull);
			break;
		case TWICE:
			send_ctrl(test, p, RAW_PKT_ACK, 0, BIT_ULL(p->got.op_data));
			rdm_expect(test, p->rdm, p->out, NULL);
			send_ctrl(test, p, RAW_PKT_ACK, 0, BIT_ULL(p->got.op_data));
			break;
		case AFTER_READ:
			send_ctrl(test, p, RAW_PKT_ACK, p->got.id, 1);
			break;
		case SAME_SLOT:
			send_slot(test, p, 3);
			send_slot(test, p, 3);
			break;
		default:
			send_slot(test, p, SLOTS);
		}
		await_closed(test, p, names[what]);
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
	.name = "kofi_rdm_strange_acks",
	.test_cases = cases,
};

kunit_test_suite(suite);
