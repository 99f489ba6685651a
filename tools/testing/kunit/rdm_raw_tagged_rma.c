// SPDX-License-Identifier: GPL-2.0
/* Tests FI_TAGGED_RMA with raw peers. */

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

#define TAG		0x123456789abcdef0
#define LEN		1000
#define BOTH_WAYS	(FI_RMA | FI_TAGGED_RMA)

struct peers {
	struct kofi_rdm		*rdm;
	fi_addr_t		to_raw;
	struct raw		*raw;
	u8			*memory;
};

static void reconnect(struct kunit *test, struct peers *p)
{
	raw_reconnect_as(test, p->raw, &p->rdm->name, RAW_PORT, RAW_SUPPORTS_TAGGED_RMA);
}

static struct peers *open_peers(struct kunit *test, u64 caps)
{
	struct peers *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->memory = tr_buffer(test, LEN);
	p->raw = raw_open(test, SZ_4K);
	p->rdm = rdm_open(test, &(struct rdm_opts) { .caps = caps });
	p->to_raw = raw_addr(test, p->rdm, RAW_PORT);
	reconnect(test, p);
	return p;
}

/*
 * Sends an access to len bytes at the raw peer's memory; the direction way is 1 for a read and 2
 * for a write.
 */
static void send_access(struct kunit *test, struct peers *p, u64 way, u8 op, u64 len, u64 range_len)
{
	struct raw *raw = p->raw;
	u8 *packet = raw_await_free(test, raw);
	struct raw_header *header = raw_init_packet(raw, packet, RAW_PKT_TAGGED_ACCESS);
	struct raw_ranges *ranges = (void *)(header + 1);

	header->op = op;
	header->id = 9;
	header->extra = way;
	header->len = len;
	header->tag = TAG;
	memset(ranges, 0, sizeof(*ranges));
	ranges->range[0].addr = (uintptr_t)raw->memory;
	ranges->range[0].len = range_len;
	ranges->range[0].key = raw->key;
	ranges->count = 1;
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, sizeof(*header) + sizeof(*ranges)));
}

/* Valid accesses are done or refused, and others end the connection. */
static void tagged_rma_of_a_hostile_initiator(struct kunit *test)
{
	static const struct {
		const char	*name;
		u64		way, len, range_len;
		u8		op;
	} invalid[] = {
		{ "no direction", 0, 64, 64, RAW_TAGGED },
		{ "direction 3", 3, 64, 64, RAW_TAGGED },
		{ "no tag", 2, 64, 64, RAW_MSG },
		{ "an atomic operation", 2, 64, 64, RAW_FETCH },
		{ "less memory", 2, 64, 63, RAW_TAGGED },
		{ "more memory", 1, 64, 65, RAW_TAGGED },
		{ "memory that wraps", 1, U64_MAX, U64_MAX, RAW_TAGGED },
	};
	struct peers *p = open_peers(test, BOTH_WAYS);
	struct raw *raw = p->raw;
	struct fi_cq_tagged_entry entry;

	for (u64 way = 1; way <= 2; way++) {
		raw->packets = 0;
		send_access(test, p, way, RAW_TAGGED, 64, 64);
		raw_await_received(test, raw, 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_ACCESS_REFUSED, raw->got.kind);
		KUNIT_EXPECT_EQ(test, 9, raw->got.id);
		KUNIT_EXPECT_EQ(test, -FI_ENOMSG, (s64)raw->got.extra);
	}
	tr_fill(p->memory, 64, 3);
	for (u64 way = 1; way <= 2; way++) {
		raw->packets = 0;
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->rdm->ep, p->memory, 64, NULL, FI_ADDR_UNSPEC,
						  TAG, 0, p));
		send_access(test, p, way, RAW_TAGGED, 64, 64);
		raw_await_received(test, raw, 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_RNDV_READ_DONE, raw->got.kind);
		KUNIT_EXPECT_EQ(test, 9, raw->got.id);
		rdm_expect(test, p->rdm, p, &entry);
		KUNIT_EXPECT_EQ(test, 64, entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(raw->memory, 64, 3));
		KUNIT_EXPECT_TRUE(test, tr_intact(p->memory, 64, 3));
	}
	for (int i = 0; i < ARRAY_SIZE(invalid); i++) {
		send_access(test, p, invalid[i].way, invalid[i].op, invalid[i].len,
			    invalid[i].range_len);
		raw_await_closed(test, raw, invalid[i].name);
		reconnect(test, p);
	}
	/* Memory with a wrong key fails the receive and ends the connection. */
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->rdm->ep, p->memory, 64, NULL, FI_ADDR_UNSPEC, TAG, 0,
					  p));
	raw->key ^= 0x100;
	send_access(test, p, 2, RAW_TAGGED, 64, 64);
	raw->key ^= 0x100;
	raw_await_closed(test, raw, "a wrong key");
	KUNIT_EXPECT_NE(test, 0, tr_read_error(test, p->rdm->cq, p));
	KUNIT_EXPECT_TRUE(test, tr_intact(p->memory, 64, 3));
}

static void tagged_rma_without_the_capability_is_a_violation(struct kunit *test)
{
	struct peers *p = open_peers(test, FI_RMA);

	KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->rdm->ep, p->memory, 64, NULL, FI_ADDR_UNSPEC, TAG, 0,
					  p));
	send_access(test, p, 1, RAW_TAGGED, 64, 64);
	raw_await_closed(test, p->raw, "an access");
	KUNIT_EXPECT_EQ(test, 0, fi_cancel(&p->rdm->ep->fid, p));
	tr_expect_error(test, p->rdm->cq, p, FI_ECANCELED);
}

static void send_reply(struct kunit *test, struct peers *p, enum raw_kind kind, u64 extra)
{
	struct raw *raw = p->raw;
	u8 *packet = raw_await_free(test, raw);
	struct raw_header *header = raw_init_packet(raw, packet, kind);

	header->id = raw->got.id;
	header->extra = extra;
	memcpy(header + 1, &raw->ranges, sizeof(raw->ranges));
	KUNIT_ASSERT_EQ(test, 0, raw_send(raw, packet, sizeof(*header) + sizeof(raw->ranges)));
}

/* Replies of a hostile target: the operation ends with them, or with the connection. */
static void tagged_rma_to_a_hostile_target(struct kunit *test)
{
	static const struct {
		const char	*name;
		enum raw_kind	kind;
		s64		extra;
		int		err;	/* 0: a violation */
	} replies[] = {
		{ "no message", RAW_PKT_ACCESS_REFUSED, -FI_ENOMSG, FI_ENOMSG },
		{ "another error", RAW_PKT_ACCESS_REFUSED, -FI_EIO, FI_EIO },
		{ "no error", RAW_PKT_ACCESS_REFUSED, 0 },
		{ "a positive error", RAW_PKT_ACCESS_REFUSED, 5 },
		{ "an error that is too small", RAW_PKT_ACCESS_REFUSED, S64_MIN },
		{ "the request to write", RAW_PKT_RNDV_WR_DATA, 0 },
		{ "an atomic response", RAW_PKT_ATOMIC_RESP, 0 },
	};
	struct peers *p = open_peers(test, BOTH_WAYS);
	struct raw *raw = p->raw;
	const struct kvec iov = { p->memory, LEN };
	const struct fi_rma_iov remote = { .len = LEN, .key = TAG };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = p->to_raw, .rma_iov = &remote,
		.rma_iov_count = 1, .context = p,
	};
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 2 * ARRAY_SIZE(replies); i++) {
		int k = i / 2, err;

		raw->packets = 0;
		KUNIT_ASSERT_EQ(test, 0, i % 2 ? fi_readmsg(p->rdm->ep, &msg, FI_TAGGED) :
						 fi_writemsg(p->rdm->ep, &msg, FI_TAGGED));
		raw_await_received(test, raw, 1);
		KUNIT_ASSERT_EQ(test, RAW_PKT_TAGGED_ACCESS, raw->got.kind);
		KUNIT_EXPECT_EQ(test, i % 2 ? 1 : 2, raw->got.extra);
		KUNIT_EXPECT_EQ(test, TAG, raw->got.tag);
		KUNIT_EXPECT_EQ(test, LEN, raw->got.len);
		KUNIT_EXPECT_EQ(test, LEN, raw->ranges.range[0].len);
		send_reply(test, p, replies[k].kind, replies[k].extra);
		err = tr_read_error(test, p->rdm->cq, p);
		if (replies[k].err) {
			KUNIT_EXPECT_EQ_MSG(test, replies[k].err, err, "%s", replies[k].name);
			continue;
		}
		raw_await_closed(test, raw, replies[k].name);
		reconnect(test, p);
	}
	/* A message is not refused, and a refusal without an access is a violation. */
	KUNIT_ASSERT_EQ(test, 0, rdm_send(p->rdm, p->to_raw, p->memory, 64, p));
	raw_await_received(test, raw, 1);
	rdm_expect(test, p->rdm, p, &entry);
	send_reply(test, p, RAW_PKT_ACCESS_REFUSED, -FI_EIO);
	raw_await_closed(test, raw, "a refusal without an access");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(tagged_rma_of_a_hostile_initiator),
	KUNIT_CASE(tagged_rma_without_the_capability_is_a_violation),
	KUNIT_CASE(tagged_rma_to_a_hostile_target),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_raw_tagged_rma",
	.test_cases = cases,
};

kunit_test_suite(suite);
