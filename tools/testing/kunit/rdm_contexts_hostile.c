// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 8 of CONTRACT: peers that do not support receive contexts, and
 * peers that address missing ones. rust/prov/rxm/wire/cm_data.rs describes how a
 * peer announces its contexts.
 */

#include <linux/delay.h>

#include "rdm_raw.h"
#include "sep.h"

#define LEN	100

struct hostile {
	struct sep	*sep;
	struct raw	*raw;
	fi_addr_t	to_raw;
	u8		*in;
};

static struct hostile *hostile(struct kunit *test, u32 extensions)
{
	struct sep_opts opts = { .txs = 2, .rxs = 7 };
	struct hostile *h = kunit_kzalloc(test, sizeof(*h), GFP_KERNEL);
	struct sockaddr_storage name;

	KUNIT_ASSERT_NOT_NULL(test, h);
	h->in = tr_buffer(test, SZ_64K);
	h->sep = sep_open(test, &opts);
	name = raw_name(&h->sep->name, RAW_PORT);
	h->to_raw = sep_addr(test, h->sep, &name);
	h->raw = raw_open_connected(test, &h->sep->name, extensions);
	return h;
}

/* Sends an eager message to that receive context. */
static void send_eager(struct kunit *test, struct hostile *h, u8 index)
{
	u8 *packet = raw_await_free(test, h->raw);
	struct raw_header *header;

	header = raw_init_packet(h->raw, packet, RAW_PKT_EAGER);
	header->index = index;
	header->len = LEN;
	memset(header + 1, index + 1, LEN);
	KUNIT_ASSERT_EQ(test, 0, raw_send(h->raw, packet, sizeof(*header) + LEN));
}

static void receive(struct kunit *test, struct hostile *h, int rx, size_t len)
{
	KUNIT_ASSERT_EQ(test, 0, fi_recv(h->sep->rx[rx], h->in, len, NULL, FI_ADDR_UNSPEC, h->in));
}

/* Without announced contexts the index byte of the header is ignored. */
static void rdm_08_the_index_of_a_peer_without_contexts_is_ignored(struct kunit *test)
{
	struct hostile *h = hostile(test, 0);

	for (int index = 0; index < 256; index += 15) {
		receive(test, h, 0, LEN);
		send_eager(test, h, index);
		sep_expect(test, h->sep->rx_cq[0], h->in, NULL);
		KUNIT_EXPECT_EQ(test, (u8)(index + 1), h->in[LEN - 1]);
	}
}

static void rdm_08_an_index_out_of_range_ends_the_connection(struct kunit *test)
{
	struct hostile *h = hostile(test, RAW_CONTEXTS(1));
	static const u8 others[] = { 7, 8, 16, 128, 255 };

	for (int index = 0; index < 7; index++) {
		receive(test, h, index, LEN);
		send_eager(test, h, index);
		sep_expect(test, h->sep->rx_cq[index], h->in, NULL);
		KUNIT_EXPECT_EQ(test, index + 1, h->in[LEN - 1]);
	}
	for (int i = 0; i < ARRAY_SIZE(others); i++) {
		send_eager(test, h, others[i]);
		raw_await_closed(test, h->raw, "an invalid index");
		raw_reconnect_as(test, h->raw, &h->sep->name, RAW_PORT, RAW_CONTEXTS(16));
		receive(test, h, 3, LEN);
		send_eager(test, h, 3);
		sep_expect(test, h->sep->rx_cq[3], h->in, NULL);
	}
}

/* Sends the first or the second segment of a message of two. */
static void send_segment(struct kunit *test, struct hostile *h, int half, u8 index)
{
	u8 *packet = raw_await_free(test, h->raw);
	struct raw_header *header = raw_init_packet(h->raw, packet, RAW_PKT_SEG);

	header->index = index;
	header->id = 1;
	header->segment = half;
	header->extra = half ? RAW_SEG_LAST : RAW_SEG_FIRST;
	header->len = RAW_EAGER + LEN;
	header->segment_len = half ? LEN : RAW_EAGER;
	memset(header + 1, half + 1, header->segment_len);
	KUNIT_ASSERT_EQ(test, 0, raw_send(h->raw, packet,
					  sizeof(*header) + header->segment_len));
}

/* A segment with another context index than the first one ends the connection. */
static void rdm_08_segments_of_a_message_have_one_context(struct kunit *test)
{
	struct hostile *h = hostile(test, RAW_CONTEXTS(1));
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;

	receive(test, h, 5, SZ_32K);
	send_segment(test, h, 0, 5);
	send_segment(test, h, 1, 6);
	raw_await_closed(test, h->raw, "another context");
	raw_disconnect(test, h->raw);
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, h->sep->rx_cq[5], &error));
	KUNIT_EXPECT_EQ(test, FI_ECONNABORTED, error.err);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(h->sep->rx_cq[6], &entry, 1));
}

static bool has_first_segment(struct hostile *h)
{
	fi_cq_read(h->sep->rx_cq[5], NULL, 0);
	return READ_ONCE(h->in[RAW_EAGER - 1]);
}

/* The context closes between the two segments of a message: the second segment is dropped. */
static void close_01_a_context_with_a_partial_message(struct kunit *test)
{
	struct hostile *h = hostile(test, RAW_CONTEXTS(1));
	u8 *other_buf = h->in + SZ_32K;
	struct fi_cq_tagged_entry entry;

	for (int round = 0; round < 2; round++) {
		memset(h->in, 0, SZ_32K);
		/* The second round has no receive: the first segment is unexpected. */
		if (!round)
			receive(test, h, 5, SZ_32K);
		send_segment(test, h, 0, 5);
		raw_await(test, h->raw, round || has_first_segment(h), "the first segment");
		fx_close(test, &h->sep->rx[5]->fid);
		memset(h->in, 0xa5, SZ_32K);
		send_segment(test, h, 1, 5);
		KUNIT_ASSERT_EQ(test, 0, fi_recv(h->sep->rx[6], other_buf, LEN, NULL,
						 FI_ADDR_UNSPEC, other_buf));
		send_eager(test, h, 6);
		sep_expect(test, h->sep->rx_cq[6], other_buf, NULL);
		KUNIT_EXPECT_PTR_EQ(test, NULL, memchr_inv(h->in, 0xa5, SZ_32K));
		sep_open_rx(test, h->sep, 5, 0);
		KUNIT_EXPECT_EQ(test, 64, fi_rx_size_left(h->sep->rx[5]));
		receive(test, h, 5, SZ_32K);
		if (!round) {
			/* The message was dropped with its receive. */
			send_eager(test, h, 5);
			sep_expect(test, h->sep->rx_cq[5], h->in, &entry);
			KUNIT_EXPECT_EQ(test, LEN, entry.len);
		} else {
			sep_expect(test, h->sep->rx_cq[5], h->in, &entry);
			KUNIT_EXPECT_EQ(test, RAW_EAGER + LEN, entry.len);
			KUNIT_EXPECT_EQ(test, 1, h->in[RAW_EAGER - 1]);
			KUNIT_EXPECT_EQ(test, 2, h->in[RAW_EAGER]);
		}
	}
	KUNIT_EXPECT_FALSE(test, h->raw->is_closed);
}

/* Sends to a context of the raw peer; returns the received index, or a negative errno. */
static int send(struct kunit *test, struct hostile *h, int index)
{
	struct raw *raw = h->raw;
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	int received = raw->packets, ret;

	KUNIT_ASSERT_EQ(test, 0, fi_send(h->sep->tx[1], h->in, LEN, NULL,
					 fi_rx_addr(h->to_raw, index, SEP_BITS), h));
	raw_await(test, raw, (ret = fi_cq_read(h->sep->tx_cq[1], &entry, 1)) != -FI_EAGAIN,
		  "the completion of a message to context %d", index);
	if (ret == 1) {
		raw_await_received(test, raw, received + 1);
		KUNIT_EXPECT_EQ(test, received + 1, raw->packets);
		KUNIT_EXPECT_EQ(test, RAW_PKT_EAGER, raw->got.kind);
		return raw->got.index;
	}
	KUNIT_ASSERT_EQ(test, -FI_EAVAIL, ret);
	KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(h->sep->tx_cq[1], &error, 0));
	KUNIT_EXPECT_PTR_EQ(test, (void *)h, error.op_context);
	KUNIT_EXPECT_EQ(test, received, raw->packets);
	return -error.err;
}

static void rdm_08_sends_to_contexts_of_a_peer_without_them_fail(struct kunit *test)
{
	struct hostile *h = hostile(test, 0);

	for (int i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, 0, send(test, h, 0));
		KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, send(test, h, 1));
		KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, send(test, h, 15));
	}
	KUNIT_EXPECT_FALSE(test, h->raw->is_closed);
}

static void rdm_08_sends_to_announced_contexts(struct kunit *test)
{
	struct hostile *h = hostile(test, RAW_CONTEXTS(3));

	for (int i = 0; i < 3; i++) {
		for (int index = 0; index < 3; index++)
			KUNIT_EXPECT_EQ(test, index, send(test, h, index));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, send(test, h, 3));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, send(test, h, 15));
	}
	KUNIT_EXPECT_FALSE(test, h->raw->is_closed);
}

static struct kunit_case rdm_contexts_hostile_cases[] = {
	KUNIT_CASE(rdm_08_the_index_of_a_peer_without_contexts_is_ignored),
	KUNIT_CASE(rdm_08_an_index_out_of_range_ends_the_connection),
	KUNIT_CASE(rdm_08_segments_of_a_message_have_one_context),
	KUNIT_CASE(close_01_a_context_with_a_partial_message),
	KUNIT_CASE(rdm_08_sends_to_contexts_of_a_peer_without_them_fail),
	KUNIT_CASE(rdm_08_sends_to_announced_contexts),
	{}
};

static struct kunit_suite rdm_contexts_hostile_suite = {
	.name = "kofi_rdm_contexts_hostile",
	.test_cases = rdm_contexts_hostile_cases,
};

kunit_test_suite(rdm_contexts_hostile_suite);
