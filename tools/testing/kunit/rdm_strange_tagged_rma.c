// SPDX-License-Identifier: GPL-2.0
/* Tests FI_TAGGED_RMA with peers that send arbitrary packets. */

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

#define TAG		0x123456789abcdef0
#define LEN		1000
#define BOTH_WAYS	(FI_RMA | FI_TAGGED_RMA)
/* Port of the raw peer, at which no endpoint listens. */
#define PORT		1
#define RAW_TAGGED_RMA	0x6b6f0408

struct peers {
	struct kofi_rdm		*rdm;
	fi_addr_t		to_raw;
	struct raw		*raw;
	struct raw_header	got;
	struct raw_ranges	ranges;
	int			packets;
	u8			*memory;
};

static void on_packet(struct raw *raw, const struct raw_header *header)
{
	struct peers *p = raw->context;

	p->got = *header;
	if (header->kind == RAW_PKT_TAGGED_ACCESS)
		memcpy(&p->ranges, header + 1, sizeof(p->ranges));
	p->packets++;
}

static void connect_raw(struct kunit *test, struct peers *p)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct raw_connect_data data = raw_connect_data(p->raw, PORT, 1);

	raw_disconnect(test, p->raw);
	data.receives = RAW_TAGGED_RMA;
	/* The endpoint may still have the previous connection. */
	while (raw_connect(test, p->raw, &p->rdm->name, &data, sizeof(data))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end),
				      "waited for the connection request to be accepted");
		usleep_range(1000, 2000);
	}
	p->packets = 0;
}

static struct peers *open_peers(struct kunit *test, u64 caps)
{
	struct peers *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	struct sockaddr_storage name;

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->memory = tr_buffer(test, LEN);
	p->raw = raw_open(test, SZ_4K);
	p->raw->on_packet = on_packet;
	p->raw->context = p;
	p->rdm = rdm_open(test, &(struct rdm_opts) { .caps = caps });
	name = p->rdm->name;
	/* The port of both families is at the same place. */
	((struct sockaddr_in *)&name)->sin_port = cpu_to_be16(PORT);
	KUNIT_ASSERT_EQ(test, 1, rdm_insert(p->rdm, &name, &p->to_raw, 0));
	connect_raw(test, p);
	return p;
}

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

/*
 * Sends an access to len bytes at the raw peer's memory; the direction way is 1 for a read and 2
 * for a write.
 */
static void send_access(struct kunit *test, struct peers *p, u64 way, u8 op, u64 len, u64 range_len)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct raw_header *header;
	struct raw_ranges *ranges;
	u8 *packet;

	while (!(packet = raw_get_packet(p->raw))) {
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, end), "waited for a free packet");
		usleep_range(50, 100);
	}
	header = raw_init_packet(p->raw, packet, RAW_PKT_TAGGED_ACCESS);
	header->op = op;
	header->id = 9;
	header->extra = way;
	header->len = len;
	header->tag = TAG;
	ranges = (void *)(header + 1);
	memset(ranges, 0, sizeof(*ranges));
	ranges->range[0].addr = (uintptr_t)p->raw->memory;
	ranges->range[0].len = range_len;
	ranges->range[0].key = p->raw->key;
	ranges->count = 1;
	KUNIT_ASSERT_EQ(test, 0, raw_send(p->raw, packet, sizeof(*header) + sizeof(*ranges)));
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
	struct fi_cq_tagged_entry entry;
	int packets;

	for (u64 way = 1; way <= 2; way++) {
		packets = p->packets;
		send_access(test, p, way, RAW_TAGGED, 64, 64);
		await_packets(test, p, packets + 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_ACCESS_REFUSED, p->got.kind);
		KUNIT_EXPECT_EQ(test, 9, p->got.id);
		KUNIT_EXPECT_EQ(test, -FI_ENOMSG, (s64)p->got.extra);
	}
	tr_fill(p->memory, 64, 3);
	for (u64 way = 1; way <= 2; way++) {
		packets = p->packets;
		KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->rdm->ep, p->memory, 64, NULL, FI_ADDR_UNSPEC,
						  TAG, 0, p));
		send_access(test, p, way, RAW_TAGGED, 64, 64);
		await_packets(test, p, packets + 1);
		KUNIT_EXPECT_EQ(test, RAW_PKT_RNDV_READ_DONE, p->got.kind);
		KUNIT_EXPECT_EQ(test, 9, p->got.id);
		rdm_expect(test, p->rdm, p, &entry);
		KUNIT_EXPECT_EQ(test, 64, entry.len);
		KUNIT_EXPECT_TRUE(test, tr_intact(p->raw->memory, 64, 3));
		KUNIT_EXPECT_TRUE(test, tr_intact(p->memory, 64, 3));
	}
	for (int i = 0; i < ARRAY_SIZE(invalid); i++) {
		send_access(test, p, invalid[i].way, invalid[i].op, invalid[i].len,
			    invalid[i].range_len);
		await_closed(test, p, invalid[i].name);
		connect_raw(test, p);
	}
	/* Memory with a wrong key fails the receive and ends the connection. */
	KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->rdm->ep, p->memory, 64, NULL, FI_ADDR_UNSPEC, TAG, 0,
					  p));
	p->raw->key ^= 0x100;
	send_access(test, p, 2, RAW_TAGGED, 64, 64);
	p->raw->key ^= 0x100;
	await_closed(test, p, "a wrong key");
	KUNIT_EXPECT_NE(test, 0, tr_read_error(test, p->rdm->cq, p));
	KUNIT_EXPECT_TRUE(test, tr_intact(p->memory, 64, 3));
}

static void tagged_rma_without_the_capability_is_a_violation(struct kunit *test)
{
	struct peers *p = open_peers(test, FI_RMA);

	KUNIT_ASSERT_EQ(test, 0, fi_trecv(p->rdm->ep, p->memory, 64, NULL, FI_ADDR_UNSPEC, TAG, 0,
					  p));
	send_access(test, p, 1, RAW_TAGGED, 64, 64);
	await_closed(test, p, "an access");
	KUNIT_EXPECT_EQ(test, 0, fi_cancel(&p->rdm->ep->fid, p));
	tr_expect_error(test, p->rdm->cq, p, FI_ECANCELED);
}

static void send_reply(struct kunit *test, struct peers *p, enum raw_kind kind, u64 extra)
{
	struct raw_header *header;
	u8 *packet = raw_get_packet(p->raw);

	KUNIT_ASSERT_NOT_NULL(test, packet);
	header = raw_init_packet(p->raw, packet, kind);
	header->id = p->got.id;
	header->extra = extra;
	memcpy(header + 1, &p->ranges, sizeof(p->ranges));
	KUNIT_ASSERT_EQ(test, 0, raw_send(p->raw, packet, sizeof(*header) + sizeof(p->ranges)));
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
	const struct kvec iov = { p->memory, LEN };
	const struct fi_rma_iov remote = { .len = LEN, .key = TAG };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = p->to_raw, .rma_iov = &remote,
		.rma_iov_count = 1, .context = p,
	};
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < 2 * ARRAY_SIZE(replies); i++) {
		int packets = p->packets, k = i / 2, err;

		KUNIT_ASSERT_EQ(test, 0, i % 2 ? fi_readmsg(p->rdm->ep, &msg, FI_TAGGED) :
						 fi_writemsg(p->rdm->ep, &msg, FI_TAGGED));
		await_packets(test, p, packets + 1);
		KUNIT_ASSERT_EQ(test, RAW_PKT_TAGGED_ACCESS, p->got.kind);
		KUNIT_EXPECT_EQ(test, i % 2 ? 1 : 2, p->got.extra);
		KUNIT_EXPECT_EQ(test, TAG, p->got.tag);
		KUNIT_EXPECT_EQ(test, LEN, p->got.len);
		KUNIT_EXPECT_EQ(test, LEN, p->ranges.range[0].len);
		send_reply(test, p, replies[k].kind, replies[k].extra);
		err = tr_read_error(test, p->rdm->cq, p);
		if (replies[k].err) {
			KUNIT_EXPECT_EQ_MSG(test, replies[k].err, err, "%s", replies[k].name);
			continue;
		}
		await_closed(test, p, replies[k].name);
		connect_raw(test, p);
	}
	/* A message is not refused, and a refusal without an access is a violation. */
	KUNIT_ASSERT_EQ(test, 0, rdm_send(p->rdm, p->to_raw, p->memory, 64, p));
	await_packets(test, p, 1);
	rdm_expect(test, p->rdm, p, &entry);
	send_reply(test, p, RAW_PKT_ACCESS_REFUSED, -FI_EIO);
	await_closed(test, p, "a refusal without an access");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(tagged_rma_of_a_hostile_initiator),
	KUNIT_CASE(tagged_rma_without_the_capability_is_a_violation),
	KUNIT_CASE(tagged_rma_to_a_hostile_target),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_strange_tagged_rma",
	.test_cases = cases,
};

kunit_test_suite(suite);
