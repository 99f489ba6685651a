// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 11 of CONTRACT with peers to which no operation completes: they leave a share of the
 * transmit entries to every other peer, and what is queued to them can be released.
 */

#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/mm.h>

#include "rdm.h"
#include "rdm_raw.h"
#include "sep.h"

#define LEN		100
/* Length of a message that only the later of two tries sends. */
#define LATER_LEN	77
#define SEGMENTS	50000
#define LONGEST		SZ_256K
#define HEALTHY		6
#define SILENT		4
#define UNREACHABLE	8
#define STUCK		(SILENT + UNREACHABLE)
/* Time in which it is found out that operations to a peer do not complete, and more. */
#define STUCK_MS	500
#define QUEUED		8
/* Largest tx_attr->size. */
#define MAX_TX		1024
#define ROUNDS		50

static const struct rdm_opts opts = { .cq_size = 4096 };

/* Inserts an address at which no host answers. */
static fi_addr_t unreachable_addr(struct kunit *test, struct kofi_rdm *rdm, u8 host)
{
	struct kofi_rdm peer = *rdm;
	struct sockaddr_in *name = (void *)&peer.name;

	/* Each address of the loopback network belongs to this host. */
	if (fx_is_loop())
		name->sin_addr.s_addr = htonl(0xc0000200);
	((u8 *)&name->sin_addr)[3] = host;
	return rdm_addr(test, rdm, &peer);
}

/* Sends without a context until a post is refused; returns the number of messages. */
static int send_until_refused(struct kofi_rdm *rdm, fi_addr_t to, u8 *out)
{
	int count = 0;

	while (!fi_send(rdm->ep, out, LEN, NULL, to, NULL))
		count++;
	return count;
}

/* Sends to stuck peers as much as they take, for STUCK_MS; returns the number of messages. */
static int fill(struct kofi_rdm *rdm, const fi_addr_t *to, int peers, u8 *out)
{
	unsigned long end = jiffies + msecs_to_jiffies(STUCK_MS);
	int count = 0;

	do {
		for (int i = 0; i < peers; i++)
			count += send_until_refused(rdm, to[i], out);
		msleep(20);
	} while (time_before(jiffies, end));
	return count;
}

/* Reads completions until count messages with a context have been sent; others may fail. */
static void await_sent(struct kunit *test, struct fid_cq *cq, int count)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fi_cq_tagged_entry entry;

	while (count) {
		struct fi_cq_err_entry error = {};
		ssize_t ret = fi_cq_sread(cq, &entry, 1, NULL, 10);

		if (ret == 1)
			count -= !!entry.op_context;
		else if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
			KUNIT_ASSERT_NULL(test, error.op_context);
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "%d sends are pending",
				      count);
	}
}

/* Reads the failures of count operations with contexts from base on, each once. */
static void expect_cancelled(struct kunit *test, struct fid_cq *cq, u8 *base, int count)
{
	unsigned long *seen = bitmap_zalloc(count, GFP_KERNEL);
	struct fi_cq_err_entry error;
	bool as_expected = seen;

	for (int i = 0; as_expected && i < count; i++) {
		as_expected = !fx_wait_comp_error(test, cq, &error) && error.err == FI_ECANCELED &&
			      (u8 *)error.op_context >= base &&
			      (u8 *)error.op_context < base + count &&
			      !test_and_set_bit((u8 *)error.op_context - base, seen);
		if (!as_expected)
			kunit_err(test, "failure %d: %s\n", i, fi_strerror(error.err));
	}
	bitmap_free(seen);
	KUNIT_ASSERT_TRUE(test, as_expected);
}

static void rdm_11_stuck_peers_block_no_other(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, HEALTHY * LEN);
	struct kofi_rdm *rdm = rdm_open(test, &opts), *healthy[HEALTHY];
	fi_addr_t to[HEALTHY], stuck[STUCK];

	for (int i = 0; i < HEALTHY; i++) {
		healthy[i] = rdm_open(test, NULL);
		to[i] = rdm_addr(test, rdm, healthy[i]);
		rdm_exchange(test, rdm, to[i], healthy[i]);
	}
	for (int i = 0; i < SILENT; i++) {
		raw_open_silent(test, &rdm->name, 1 + i);
		stuck[i] = raw_addr(test, rdm, 1 + i);
	}
	for (int i = SILENT; i < STUCK; i++)
		stuck[i] = unreachable_addr(test, rdm, 100 + i);
	KUNIT_EXPECT_GE(test, fill(rdm, stuck, STUCK, out), rdm->info->tx_attr->size);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < HEALTHY; i++)
			KUNIT_ASSERT_EQ(test, 0, rdm_recv(healthy[i], FI_ADDR_UNSPEC, in + i * LEN,
							  LEN, in));
		/* Each peer takes a message at once, while those of the others are pending. */
		for (int i = 0; i < HEALTHY; i++)
			KUNIT_ASSERT_EQ(test, 0, fi_send(rdm->ep, out, LEN, NULL, to[i], out));
		for (int i = 0; i < HEALTHY; i++)
			rdm_expect(test, healthy[i], in, NULL);
		await_sent(test, rdm->cq, HEALTHY);
		send_until_refused(rdm, stuck[round % STUCK], out);
	}
}

/* Two stuck peers leave space for a peer that has no connection. */
static void rdm_11_a_new_peer_beside_two_stuck_ones(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_rdm *rdm = rdm_open(test, &opts), *other;
	fi_addr_t stuck[2], to;

	for (int i = 0; i < ARRAY_SIZE(stuck); i++) {
		raw_open_silent(test, &rdm->name, 1 + i);
		stuck[i] = raw_addr(test, rdm, 1 + i);
	}
	fill(rdm, stuck, ARRAY_SIZE(stuck), out);
	other = rdm_open(test, NULL);
	to = rdm_addr(test, rdm, other);
	KUNIT_ASSERT_EQ(test, 0, rdm_recv(other, FI_ADDR_UNSPEC, in, LEN, in));
	KUNIT_ASSERT_EQ(test, 0, fi_send(rdm->ep, out, LEN, NULL, to, out));
	rdm_expect(test, other, in, NULL);
	await_sent(test, rdm->cq, 1);
}

/* Every peer takes as many operations as fi_tx_size_left() says, also a peer without a connection. */
static void ep_13_tx_size_left_is_a_lower_bound(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN);
	struct kofi_rdm *rdm = rdm_open(test, &opts);
	size_t size = rdm->info->tx_attr->size;
	fi_addr_t to[3];
	ssize_t left;

	for (int i = 0; i < ARRAY_SIZE(to); i++) {
		raw_open_silent(test, &rdm->name, 1 + i);
		to[i] = raw_addr(test, rdm, 1 + i);
	}
	KUNIT_EXPECT_EQ(test, size, fi_tx_size_left(rdm->ep));
	for (int n = 0; n < size / 4; n++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(rdm->ep, out, LEN, NULL, to[n % 2], NULL));
	left = fi_tx_size_left(rdm->ep);
	KUNIT_EXPECT_GT(test, left, 0);
	for (int n = 0; n < left; n++)
		KUNIT_ASSERT_EQ_MSG(test, 0, fi_send(rdm->ep, out, LEN, NULL, to[0], NULL),
				    "send %d of %zd", n, left);
	/* The peer that has the most takes all that is left. */
	for (int i = 0; i < ARRAY_SIZE(to); i++) {
		left = fi_tx_size_left(rdm->ep);
		for (int n = 0; n < left; n++)
			KUNIT_ASSERT_EQ(test, 0, fi_send(rdm->ep, out, LEN, NULL, to[0], NULL));
		send_until_refused(rdm, to[i], out);
	}
	KUNIT_EXPECT_EQ(test, 0, fi_tx_size_left(rdm->ep));
}

static void ep_13_tx_size_is_as_requested(struct kunit *test)
{
	static const struct {
		size_t asked, left;
	} rows[] = { { 0, 64 }, { 1, 1 }, { 63, 63 }, { 65, 65 }, { MAX_TX, MAX_TX } };
	u8 *out = tr_buffer(test, LEN);
	struct fi_info *hints = rdm_hints(test), *info;

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rdm_opts with_size = { .cq_size = 4096, .tx_size = rows[i].asked };
		struct kofi_rdm *rdm = rdm_open(test, &with_size);
		fi_addr_t to = unreachable_addr(test, rdm, 100);

		KUNIT_EXPECT_EQ(test, rows[i].left, rdm->info->tx_attr->size);
		KUNIT_EXPECT_EQ(test, rows[i].left, fi_tx_size_left(rdm->ep));
		KUNIT_EXPECT_EQ(test, rows[i].left, send_until_refused(rdm, to, out));
		KUNIT_EXPECT_EQ(test, 0, fi_tx_size_left(rdm->ep));
	}
	hints->tx_attr->size = MAX_TX + 1;
	KUNIT_EXPECT_EQ(test, -FI_ENODATA,
			fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints, &info));
}

/* Operations beyond what a connection has in flight are deferred, and go on in order. */
static void ep_13_all_transmits_go_to_one_peer(struct kunit *test)
{
	static const struct rdm_opts deep = {
		.cq_size = 4096, .tx_size = MAX_TX, .rx_size = MAX_TX,
	};
	struct kofi_rdm *rdm = rdm_open(test, &deep), *peer = rdm_open(test, &deep);
	fi_addr_t to = rdm_addr(test, rdm, peer);
	u32 *out = (void *)tr_vbuffer(test, MAX_TX * sizeof(*out));
	u32 *in = (void *)tr_vbuffer(test, MAX_TX * sizeof(*in));

	for (int i = 0; i < MAX_TX; i++) {
		out[i] = i;
		KUNIT_ASSERT_EQ(test, 0, fi_recv(peer->ep, &in[i], sizeof(*in), NULL,
						 FI_ADDR_UNSPEC, &in[i]));
	}
	for (int i = 0; i < MAX_TX; i++)
		KUNIT_ASSERT_EQ_MSG(test, 0, fi_send(rdm->ep, &out[i], sizeof(*out), NULL, to,
						     &out[i]), "send %d", i);
	for (int i = 0; i < MAX_TX; i++) {
		rdm_expect(test, peer, &in[i], NULL);
		KUNIT_ASSERT_EQ(test, i, in[i]);
	}
	await_sent(test, rdm->cq, MAX_TX);
	KUNIT_EXPECT_EQ(test, MAX_TX, fi_tx_size_left(rdm->ep));
}

static void on_packet(struct raw *raw, const struct raw_header *header)
{
	int *counts = raw->context;

	counts[header->kind == RAW_PKT_EAGER && header->len == LATER_LEN]++;
}

static void rdm_11_queued_sends_are_cancelled(struct kunit *test)
{
	static const size_t lens[] = { LEN, SEGMENTS, LONGEST };
	u8 *out = tr_vbuffer(test, LONGEST);
	struct kofi_rdm *rdm = rdm_open(test, &opts);
	struct raw *raw = raw_open_silent(test, &rdm->name, 1);
	fi_addr_t to = raw_addr(test, rdm, 1);
	struct fid *ep = &rdm->ep->fid;
	int count = 0, counts[2] = {};

	while (!fi_send(rdm->ep, out, lens[count % 3], NULL, to, out + count))
		count++;
	KUNIT_ASSERT_GE(test, count, 2 * ARRAY_SIZE(lens));
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(ep, out + count));
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(ep, NULL));
	/* From the middle on in both directions; a message whose memory is being registered is busy. */
	for (int i = 0; i < count; i++) {
		u8 *context = out + (count / 2 + (i % 2 ? i / 2 + 1 : -(i / 2)) + count) % count;

		KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_cancel(ep, context)));
		KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(ep, context));
	}
	expect_cancelled(test, rdm->cq, out, count);
	/* The entries are free, and only later messages reach the peer. */
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(rdm->ep, out, LATER_LEN, NULL, to, out));
	raw->on_packet = on_packet;
	raw->context = counts;
	raw_grant(test, raw);
	raw_await(test, raw, counts[1] >= 3, "3 messages, received %d", counts[1]);
	await_sent(test, rdm->cq, 3);
	KUNIT_EXPECT_EQ(test, 0, counts[0]);
	/* A message that was sent cannot be cancelled. */
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(ep, out));
}

/* The contexts of a scalable endpoint cancel their own operations. */
static void rdm_11_queued_sends_of_a_context_are_cancelled(struct kunit *test)
{
	struct sep *sep = sep_open(test, &(struct sep_opts){ .txs = 2, .rxs = 1 });
	struct sockaddr_storage name = raw_name(&sep->name, 1);
	u8 *out = tr_buffer(test, LEN);
	fi_addr_t to;

	raw_open_silent(test, &sep->name, 1);
	to = sep_addr(test, sep, &name);
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(sep->tx[i], out, LEN, NULL, to, out));
	KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&sep->rx[0]->fid, out));
	for (int i = 1; i >= 0; i--) {
		KUNIT_EXPECT_EQ(test, 0, fi_cancel(&sep->tx[i]->fid, out));
		expect_cancelled(test, sep->tx_cq[i], out, 1);
		KUNIT_EXPECT_EQ(test, -FI_ENOENT, fi_cancel(&sep->tx[i]->fid, out));
	}
}

/* Operations that wait for a connection fail once the address is removed, and no others do. */
static void rdm_11_queued_sends_fail_after_av_remove(struct kunit *test)
{
	u8 *out = tr_buffer(test, 2 * QUEUED);
	struct kofi_rdm *rdm = rdm_open(test, &opts);
	struct fi_cq_tagged_entry entry;
	fi_addr_t to[2];

	for (int i = 0; i < ARRAY_SIZE(to); i++) {
		raw_open_silent(test, &rdm->name, 1 + i);
		to[i] = raw_addr(test, rdm, 1 + i);
		for (int n = i * QUEUED; n < (i + 1) * QUEUED; n++)
			KUNIT_ASSERT_EQ(test, 0, fi_send(rdm->ep, out, QUEUED, NULL, to[i],
							 out + n));
	}
	KUNIT_ASSERT_EQ(test, 0, fi_av_remove(rdm->av, &to[0], 1, 0));
	expect_cancelled(test, rdm->cq, out, QUEUED);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(rdm->cq, &entry, 1));
	KUNIT_ASSERT_EQ(test, 0, fi_av_remove(rdm->av, &to[1], 1, 0));
	expect_cancelled(test, rdm->cq, out + QUEUED, QUEUED);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(rdm_11_stuck_peers_block_no_other),
	KUNIT_CASE(rdm_11_a_new_peer_beside_two_stuck_ones),
	KUNIT_CASE(ep_13_tx_size_left_is_a_lower_bound),
	KUNIT_CASE(ep_13_tx_size_is_as_requested),
	KUNIT_CASE(ep_13_all_transmits_go_to_one_peer),
	KUNIT_CASE(rdm_11_queued_sends_are_cancelled),
	KUNIT_CASE(rdm_11_queued_sends_of_a_context_are_cancelled),
	KUNIT_CASE_SLOW(rdm_11_queued_sends_fail_after_av_remove),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_stuck",
	.test_cases = cases,
};

kunit_test_suite(suite);
