// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RDM 10 of CONTRACT with a peer that sends packets of every kind, valid
 * and invalid. An invalid packet may at most end the connection that it came
 * on. Meanwhile the endpoint exchanges messages with this peer and with an
 * honest one.
 */

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>

#include <rdma/fi_rma.h>

#include "rdm.h"
#include "rdm_raw.h"

static unsigned int hostile_packets;
module_param(hostile_packets, uint, 0644);
MODULE_PARM_DESC(hostile_packets, "packets of the hostile peer; 0: 200 for each round");

static unsigned int hostile_seed = 1;
module_param(hostile_seed, uint, 0644);
MODULE_PARM_DESC(hostile_seed, "which packets they are");

/* The raw peer uses one of two ports: its address is below the endpoint's, or above it. */
static const u16 ports[] = { 1, 65535 };

#define PORTS		ARRAY_SIZE(ports)
/* Guard bytes on both sides of a receive buffer, which must not be written. */
#define GUARD		64
#define GUARDED		0xa5
/* Fill pattern of a receive buffer that is not posted. */
#define UNPOSTED		0x5a
/* Time that the raw peer waits for a packet; it may have used up the credits itself. */
#define STALL_MS	200
/* Average number of packets per mutated one. */
#define MUTATE_ONE_IN		24
/* The test ends after KINDS kinds of fatal mutations, or MAX_TIMES the packets. */
#define KINDS		6
#define MAX_TIMES	20
/* Packets of the raw peer per message of the honest one. */
#define HONEST		32
/* Tags that the raw peer does not use. */
#define HONEST_TAG	BIT_ULL(40)
#define REGISTERED		SZ_256K
#define MAX_RNDV		8
#define LONGEST		200000
#define EXTRA		64
#define PARTIALS	3

static const size_t sizes[] = { 0, 1, 100, RAW_EAGER, 20000, 20000, 140000 };
static const size_t lens[] = { 10, RAW_EAGER, 50000, LONGEST };
static const size_t honest_lens[] = {
	0, 1, 100, RAW_EAGER, RAW_EAGER + 1, 40000, 8 * RAW_EAGER, 8 * RAW_EAGER + 1, LONGEST,
};

/* Ways to mutate a packet. */
enum mutation {
	VALID, VERSION, KIND, OP, LENGTH, SEGMENT, SEG_POS, MSG_ID, BITS, SHORT, LONG, COUNT,
	RANGE, KEY, CREDITS, DISCONNECT, TWICE, UNSOLICITED, ATOMIC, ATOMIC_RESP, MANY, WRITES,
	CLOSES, ACCESS, MUTATIONS,
};

static const char *const names[] = {
	"valid", "version", "kind", "op", "length", "segment", "seg_pos", "msg_id", "bits", "short",
	"long", "count", "range", "key", "credits", "disconnect", "twice", "unsolicited", "atomic",
	"atomic_resp", "many", "writes", "closes", "access",
};
static_assert(ARRAY_SIZE(names) == MUTATIONS);

/* An operation of the endpoint, which completes exactly once. */
struct op {
	bool		pending;
	bool		is_send, is_tagged;
	u8		*buf;
	size_t		len;
	fi_addr_t	addr;
	u64		tag, ignore;
};

/* A segmented message of which the raw peer has sent some segments. */
struct partial {
	u64	id, len, tag;
	u32	next;
	bool	is_tagged;
};

struct hostile_test {
	struct kunit		*test;
	struct rnd_state	random;
	struct kofi_rdm		*rdm, *honest;
	fi_addr_t		from_honest, to_rdm;
	struct op		receives[PORTS * 2 * ARRAY_SIZE(sizes)];
	struct op		sends[PORTS * ARRAY_SIZE(lens)];
	u8			*out, *copy;	/* data to send, and a copy for comparison */
	/* The message from or to the honest peer: its receive and its send. */
	struct op		honest_ops[2];
	u8			*honest_out;
	u32			honest_count;
	/* State of the raw peer. */
	struct raw		*raw;
	u64			rndv_ids[MAX_RNDV];
	u32			rndv_count;
	struct partial		partials[PARTIALS];
	enum mutation		last;
	u32			closed, refused, stalled, left;
	u32			closed_by[MUTATIONS];
};

static u32 below(struct hostile_test *c, u32 bound)
{
	return prandom_u32_state(&c->random) % bound;
}

static u64 random_u64(struct hostile_test *c)
{
	return (u64)prandom_u32_state(&c->random) << 32 | prandom_u32_state(&c->random);
}

/* Returns a value that is likely to be a boundary. */
static u64 boundary(struct hostile_test *c)
{
	static const u64 edges[] = {
		0, 1, 2, 3, 4, 5, 63, 64, RAW_EAGER - 1, RAW_EAGER, RAW_EAGER + 1, U16_MAX,
		8 * RAW_EAGER, S32_MAX, BIT_ULL(31), U32_MAX, BIT_ULL(32), S64_MAX, BIT_ULL(63),
		U64_MAX - 1, U64_MAX,
	};

	switch (below(c, 4)) {
	case 0:
		return random_u64(c);
	case 1:
		return below(c, 300);
	default:
		return edges[below(c, ARRAY_SIZE(edges))];
	}
}

static u8 *alloc_guarded(struct kunit *test, size_t len)
{
	u8 *buf = tr_vbuffer(test, GUARD + len + GUARD);

	memset(buf, GUARDED, GUARD + len + GUARD);
	memset(buf + GUARD, UNPOSTED, len);
	return buf + GUARD;
}

static void expect_guarded(struct kunit *test, const struct op *op)
{
	KUNIT_ASSERT_NULL(test, memchr_inv(op->buf - GUARD, GUARDED, GUARD));
	KUNIT_ASSERT_NULL(test, memchr_inv(op->buf + op->len, GUARDED, GUARD));
}

static bool is_honest(struct hostile_test *c, struct op *op)
{
	return op == &c->honest_ops[0] || op == &c->honest_ops[1];
}

static void complete_op(struct hostile_test *c, struct op *op, size_t len, int err)
{
	struct kunit *test = c->test;

	KUNIT_ASSERT_NOT_NULL(test, op);
	KUNIT_ASSERT_TRUE_MSG(test, op->pending,
			      "a completion of an operation that is not pending");
	op->pending = false;
	if (is_honest(c, op))
		KUNIT_ASSERT_EQ(test, 0, err);
	if (op->is_send)
		return;
	expect_guarded(test, op);
	if (is_honest(c, op)) {
		KUNIT_ASSERT_EQ(test, op->len, len);
		return;
	}
	KUNIT_ASSERT_LE(test, len, op->len);
	memset(op->buf, UNPOSTED, op->len);
}

/* Reads all completions. */
static void read_cq(struct hostile_test *c, struct kofi_rdm *rdm)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	do {
		struct fi_cq_err_entry error = {};

		ret = fi_cq_read(rdm->cq, &entry, 1);
		if (ret == 1)
			complete_op(c, entry.op_context, entry.len, 0);
		else if (ret == -FI_EAVAIL && fi_cq_readerr(rdm->cq, &error, 0) == 1)
			complete_op(c, error.op_context, error.len, error.err);
		else
			KUNIT_ASSERT_EQ(c->test, -FI_EAGAIN, ret);
	} while (ret != -FI_EAGAIN);
}

static void read_cqs(struct hostile_test *c)
{
	read_cq(c, c->rdm);
	read_cq(c, c->honest);
}

static int post(struct kofi_rdm *rdm, struct op *op)
{
	struct fid_ep *ep = rdm->ep;
	ssize_t ret;

	if (op->is_send && op->is_tagged)
		ret = fi_tsend(ep, op->buf, op->len, NULL, op->addr, op->tag, op);
	else if (op->is_send)
		ret = fi_send(ep, op->buf, op->len, NULL, op->addr, op);
	else if (op->is_tagged)
		ret = fi_trecv(ep, op->buf, op->len, NULL, op->addr, op->tag, op->ignore, op);
	else
		ret = fi_recv(ep, op->buf, op->len, NULL, op->addr, op);
	op->pending = !ret;
	return ret;
}

/* Posts the endpoint's receives from the raw peer and sends to it: all, or some at random. */
static void post_ops(struct hostile_test *c, bool all)
{
	for (int i = 0; i < ARRAY_SIZE(c->receives); i++) {
		struct op *op = &c->receives[i];

		if (op->pending || (!all && below(c, 2)))
			continue;
		KUNIT_ASSERT_NULL_MSG(c->test, memchr_inv(op->buf, UNPOSTED, op->len),
				      "the buffer was written after its completion");
		KUNIT_ASSERT_EQ(c->test, 0, post(c->rdm, op));
	}
	for (int i = 0; i < ARRAY_SIZE(c->sends); i++) {
		if (!c->sends[i].pending && !below(c, 4))
			KUNIT_ASSERT_EQ(c->test, 0, post(c->rdm, &c->sends[i]));
	}
}

/* Starts a message from or to the honest peer. */
static void begin_honest(struct hostile_test *c)
{
	u32 nth = c->honest_count++;
	size_t len = honest_lens[nth / 2 % ARRAY_SIZE(honest_lens)];
	struct kofi_rdm *to = nth % 2 ? c->honest : c->rdm;
	struct kofi_rdm *from = nth % 2 ? c->rdm : c->honest;
	struct op *in = &c->honest_ops[0], *out = &c->honest_ops[1];

	in->len = len;
	out->len = len;
	in->tag = HONEST_TAG + nth;
	out->tag = HONEST_TAG + nth;
	in->addr = nth % 2 ? c->to_rdm : c->from_honest;
	out->addr = nth % 2 ? c->from_honest : c->to_rdm;
	/* The offset varies the content: the buffer is longer than any message. */
	out->buf = c->honest_out + nth % EXTRA;
	memset(in->buf, GUARDED, LONGEST + GUARD);
	KUNIT_ASSERT_EQ(c->test, 0, post(to, in));
	KUNIT_ASSERT_EQ(c->test, 0, post(from, out));
}

/* Waits until it has arrived. */
static void end_honest(struct hostile_test *c)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct op *in = &c->honest_ops[0], *out = &c->honest_ops[1];

	for (read_cqs(c); in->pending || out->pending; read_cqs(c)) {
		KUNIT_ASSERT_TRUE_MSG(c->test, time_before(jiffies, end),
				      "an honest message of %zu bytes does not arrive", in->len);
		usleep_range(20, 50);
	}
	KUNIT_ASSERT_EQ_MSG(c->test, 0, memcmp(in->buf, out->buf, in->len),
			    "an honest message of %zu bytes is damaged", in->len);
}

/* Records the rendezvous requests of the endpoint, which the raw peer may answer. */
static void on_packet(struct raw *raw, const struct raw_header *header)
{
	struct hostile_test *c = raw->context;

	if (header->kind == RAW_PKT_RNDV_REQ && c->rndv_count < MAX_RNDV)
		c->rndv_ids[c->rndv_count++] = header->id;
}

static void set_message(struct hostile_test *c, struct raw_header *header, u64 len)
{
	header->op = below(c, 2);
	header->tag = below(c, 8);
	header->len = len;
	header->data = random_u64(c);
	header->flags = below(c, 4) ? 0 : BIT(17);
}

/* Sets ranges of the raw peer's registered memory, of len bytes or more in all. */
static void set_ranges(struct hostile_test *c, struct raw_ranges *ranges, u64 len)
{
	struct raw *raw = c->raw;
	u64 at = 0, rest;

	ranges->count = 1 + below(c, ARRAY_SIZE(ranges->range));
	for (int i = 0; i < ARRAY_SIZE(ranges->range); i++) {
		rest = len - min(at, len);
		ranges->range[i].addr = (uintptr_t)raw->memory + at;
		ranges->range[i].key = raw->key;
		ranges->range[i].len = i + 1 < ranges->count ? below(c, rest + 1) : rest;
		at += ranges->range[i].len;
	}
}

static size_t make_segment(struct hostile_test *c, struct raw_header *header)
{
	u32 which = below(c, PARTIALS);
	struct partial *p = &c->partials[which];
	u64 at = (u64)p->next * RAW_EAGER, left;

	if (!p->len) {
		/* The id may be that of an earlier message, which is complete. */
		*p = (struct partial){
			.id = which | (below(c, 2) ? random_u64(c) << 8 : 0),
			.len = RAW_EAGER + 1 + below(c, 3 * RAW_EAGER),
			.tag = below(c, 8), .is_tagged = below(c, 2),
		};
		at = 0;
	}
	left = min(p->len - at, RAW_EAGER);
	header->op = p->is_tagged;
	header->tag = p->tag;
	header->len = p->len;
	header->id = p->id;
	header->segment = p->next;
	header->segment_len = left;
	header->extra = random_u64(c) << 2 | RAW_SEG_MIDDLE;
	if (!p->next)
		header->extra = RAW_SEG_FIRST;
	p->next++;
	if (at + left == p->len) {
		header->extra = RAW_SEG_LAST;
		p->len = 0;
	}
	return RAW_HEADER + left;
}

/* Builds a valid packet, of that kind if possible now; returns its length. */
static size_t make_packet(struct hostile_test *c, u8 *packet, enum raw_kind kind)
{
	bool answers = kind == RAW_PKT_RNDV_READ_DONE || kind == RAW_PKT_RNDV_WR_DATA;
	struct raw_ranges *ranges = (void *)(packet + RAW_HEADER);
	struct raw_header *header;
	u64 len;

	if (answers && !c->rndv_count)
		kind = RAW_PKT_EAGER;
	header = raw_init_packet(c->raw, packet, kind);
	switch (kind) {
	case RAW_PKT_SEG:
		return make_segment(c, header);
	case RAW_PKT_RNDV_REQ:
		len = below(c, 2) ? below(c, 1000) : below(c, REGISTERED);
		set_message(c, header, len);
		header->id = random_u64(c);
		set_ranges(c, ranges, len);
		return RAW_HEADER + sizeof(*ranges);
	case RAW_PKT_RNDV_READ_DONE:
		header->id = c->rndv_ids[--c->rndv_count];
		return RAW_HEADER;
	case RAW_PKT_RNDV_WR_DATA:
		header->id = c->rndv_ids[--c->rndv_count];
		set_ranges(c, ranges, below(c, REGISTERED));
		return RAW_HEADER + sizeof(*ranges);
	case RAW_PKT_CREDIT:
		header->extra = c->raw->needs_recv ? 0 : below(c, 3);
		return RAW_HEADER;
	case RAW_PKT_ATOMIC_REQ:
		header->op = RAW_BASE + below(c, 3);
		header->id = random_u64(c);
		len = sizeof(*ranges) - 8 + 8 * (1 + below(c, 8));
		header->datatype = below(c, 20);
		header->atomic_op = below(c, 20);
		header->targets = 1;
		header->len = len;
		set_ranges(c, ranges, 8);
		return RAW_HEADER + len;
	case RAW_PKT_ATOMIC_RESP:
		header->op = RAW_BASE + below(c, 3);
		len = 8 + 8 * below(c, 3);
		header->len = len;
		packet[RAW_HEADER + 7] = len - 8;
		return RAW_HEADER + len;
	default:
		len = below(c, 16) ? below(c, 2000) : RAW_EAGER - below(c, 2);
		set_message(c, header, len);
		return RAW_HEADER + len;
	}
}

/* Sets the fields that this kind does not use to random values. */
static void fill_unused_fields(struct hostile_test *c, struct raw_header *header)
{
	header->index = random_u64(c);
	header->op_data = random_u64(c);
	if (header->kind != RAW_PKT_SEG) {
		header->segment_len = random_u64(c);
		header->segment = random_u64(c);
	}
	if (header->kind == RAW_PKT_EAGER) {
		header->id = random_u64(c);
		header->extra = random_u64(c);
	}
	if (!below(c, 8))
		header->to = boundary(c);
}

/* Returns a packet kind that this mutation applies to. */
static enum raw_kind kind_for(struct hostile_test *c, enum mutation mutation)
{
	static const enum raw_kind usual[] = {
		RAW_PKT_EAGER, RAW_PKT_EAGER, RAW_PKT_EAGER, RAW_PKT_SEG, RAW_PKT_SEG,
		RAW_PKT_RNDV_REQ, RAW_PKT_RNDV_READ_DONE, RAW_PKT_RNDV_WR_DATA, RAW_PKT_CREDIT,
	};

	switch (mutation) {
	case SEGMENT:
	case SEG_POS:
		return RAW_PKT_SEG;
	case ACCESS:
		return RAW_PKT_RNDV_REQ;
	case COUNT:
	case RANGE:
	case KEY:
		return below(c, 2) ? RAW_PKT_RNDV_REQ : RAW_PKT_RNDV_WR_DATA;
	case CREDITS:
	case DISCONNECT:
		return RAW_PKT_CREDIT;
	case UNSOLICITED:
		return RAW_PKT_RNDV_READ_DONE;
	case ATOMIC:
		return RAW_PKT_ATOMIC_REQ;
	case ATOMIC_RESP:
		return RAW_PKT_ATOMIC_RESP;
	default:
		return usual[below(c, ARRAY_SIZE(usual))];
	}
}

/* Applies the mutation; returns the packet's new length. */
static size_t mutate(struct hostile_test *c, u8 *packet, size_t len, enum mutation mutation)
{
	struct raw_header *header = (void *)packet;
	struct raw_ranges *ranges = (void *)(packet + RAW_HEADER);
	u32 range = below(c, ARRAY_SIZE(ranges->range));
	static const u8 answers[] = {
		RAW_PKT_RNDV_READ_DONE, RAW_PKT_RNDV_WR_DATA, RAW_PKT_RNDV_WRITE_DONE,
	};

	switch (mutation) {
	case VERSION:
		header->version = boundary(c);
		break;
	case KIND:
		header->kind = boundary(c);
		break;
	case OP:
		header->op = boundary(c);
		break;
	case LENGTH:
		header->len = boundary(c);
		break;
	case SEGMENT:
		if (below(c, 2))
			header->segment = boundary(c);
		else
			header->segment_len = boundary(c);
		break;
	case SEG_POS:
		header->extra = boundary(c);
		break;
	case MSG_ID:
		header->id = boundary(c);
		break;
	case BITS:
		for (int left = 1 + below(c, 8); left--;) {
			u32 bit = below(c, 8 * min(len, RAW_HEADER + sizeof(*ranges)));

			packet[bit / 8] ^= BIT(bit % 8);
		}
		break;
	case SHORT:
		return below(c, len);
	case LONG:
		return len + 1 + below(c, 300);
	case COUNT:
		ranges->count = boundary(c);
		break;
	case RANGE:
		if (below(c, 2))
			ranges->range[range].addr = boundary(c);
		else
			ranges->range[range].len = boundary(c);
		break;
	case KEY:
		ranges->range[range].key = boundary(c);
		break;
	case CREDITS:
		header->extra = boundary(c);
		break;
	case DISCONNECT:
		header->kind = RAW_PKT_DISCONNECT;
		header->extra = below(c, 4) ? below(c, 5) : boundary(c);
		break;
	case ACCESS:
		header->kind = below(c, 4) ? RAW_PKT_TAGGED_ACCESS : RAW_PKT_ACCESS_REFUSED;
		header->extra = below(c, 4) ? below(c, 4) : boundary(c);
		if (below(c, 2))
			header->op = RAW_TAGGED;
		break;
	case UNSOLICITED:
		header->kind = answers[below(c, ARRAY_SIZE(answers))];
		header->id = (u64)below(c, 20) << 32 | below(c, 140);
		set_ranges(c, ranges, 1000);
		return RAW_HEADER + sizeof(*ranges);
	case ATOMIC:
		if (below(c, 2))
			header->targets = boundary(c);
		if (below(c, 2))
			header->datatype = boundary(c);
		if (below(c, 2))
			header->atomic_op = boundary(c);
		if (below(c, 2))
			ranges->range[range].len = boundary(c);
		break;
	default:
		break;
	}
	return len;
}

/* Accesses the endpoint's memory, of which nothing is registered for the peer. */
static void access_memory(struct hostile_test *c)
{
	struct raw *raw = c->raw;
	u64 addr = below(c, 2) ? boundary(c) : (uintptr_t)c->out, key = boundary(c);

	/* The result is not checked. */
	switch (below(c, 3)) {
	case 0:
		fi_write(raw->ep, raw->memory, 8, NULL, 0, addr, key, NULL);
		break;
	case 1:
		fi_read(raw->ep, raw->memory, 8, NULL, 0, addr, key, NULL);
		break;
	default:
		/* An empty write with CQ data needs no valid key. */
		fi_writedata(raw->ep, raw->memory, 0, NULL, below(c, 100), 0, addr, key, NULL);
		break;
	}
}

static void reconnect(struct hostile_test *c)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct raw_connect_data data;
	int err;

	memset(c->partials, 0, sizeof(c->partials));
	c->rndv_count = 0;
	c->last = VALID;
	for (;;) {
		data = raw_connect_data(c->raw, ports[below(c, PORTS)]);
		if (below(c, 2))
			data.receives |= RAW_SUPPORTS_DISC;
		err = raw_connect(c->test, c->raw, &c->rdm->name, &data, sizeof(data));
		if (!err)
			return;
		c->refused++;
		KUNIT_ASSERT_TRUE_MSG(c->test, time_before(jiffies, end), "no connection: %s",
				      fi_strerror(err));
		read_cqs(c);
		usleep_range(1000, 2000);
	}
}

/* Returns a free packet, or NULL if the connection has ended. */
static u8 *await_packet(struct hostile_test *c)
{
	unsigned long end = jiffies + msecs_to_jiffies(STALL_MS);
	struct raw *raw = c->raw;
	u8 *packet;

	if (!raw->ep)
		reconnect(c);
	for (;;) {
		read_cqs(c);
		packet = raw_get_packet(raw);
		if (packet)
			return packet;
		if (raw->is_closed || time_after(jiffies, end))
			break;
		post_ops(c, true);
		usleep_range(20, 50);
	}
	if (raw->is_closed) {
		c->closed++;
		c->closed_by[c->last]++;
	} else {
		c->stalled++;
	}
	raw_disconnect(c->test, raw);
	return NULL;
}

/* Starts more segmented messages than the endpoint reassembles at a time. */
static void begin_many_segmented(struct hostile_test *c)
{
	for (u64 id = 1000; id < 1140; id++) {
		u8 *packet = await_packet(c);
		struct raw_header *header;

		if (!packet)
			return;
		header = raw_init_packet(c->raw, packet, RAW_PKT_SEG);
		set_message(c, header, 2 * RAW_EAGER);
		header->id = id;
		header->extra = RAW_SEG_FIRST;
		header->segment_len = RAW_EAGER;
		raw_send(c->raw, packet, RAW_PKT_MAX);
	}
}

static void step(struct hostile_test *c)
{
	enum mutation mutation = below(c, MUTATE_ONE_IN) ? VALID : below(c, MUTATIONS);
	u8 *packet = await_packet(c), *again;
	size_t len;

	if (!packet)
		return;
	len = make_packet(c, packet, kind_for(c, mutation));
	fill_unused_fields(c, (void *)packet);
	len = mutate(c, packet, len, mutation);
	if (mutation != VALID)
		c->last = mutation;
	raw_send(c->raw, packet, len);
	switch (mutation) {
	case TWICE:
		again = await_packet(c);
		if (again) {
			memcpy(again, packet, len);
			raw_send(c->raw, again, len);
		}
		break;
	case MANY:
		if (!below(c, 8))
			begin_many_segmented(c);
		break;
	case WRITES:
		access_memory(c);
		break;
	case CLOSES:
		c->left++;
		raw_disconnect(c->test, c->raw);
		break;
	default:
		break;
	}
}

/* Ends all pending operations: unmatched receives are cancelled. */
static void finish(struct hostile_test *c)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	bool is_over;

	raw_disconnect(c->test, c->raw);
	do {
		is_over = true;
		read_cqs(c);
		for (int i = 0; i < ARRAY_SIZE(c->sends); i++)
			is_over &= !c->sends[i].pending;
		for (int i = 0; i < ARRAY_SIZE(c->receives); i++) {
			struct op *op = &c->receives[i];

			if (!op->pending)
				continue;
			is_over = false;
			fi_cancel(&c->rdm->ep->fid, op);
		}
		KUNIT_ASSERT_TRUE_MSG(c->test, time_before(jiffies, end),
				      "waited for pending operations");
		usleep_range(100, 200);
	} while (!is_over);
}

/* Returns true if the endpoint has an address of the raw peer. */
static bool is_hostile(const struct kofi_rdm *rdm)
{
	__be16 port = ((const struct sockaddr_in *)&rdm->name)->sin_port;

	for (int who = 0; who < PORTS; who++) {
		if (port == htons(ports[who]))
			return true;
	}
	return false;
}

static struct kofi_rdm *open_other(struct kunit *test, const struct rdm_opts *opts)
{
	struct kofi_rdm *rdm;

	do {
		rdm = rdm_open(test, opts);
	} while (is_hostile(rdm));
	return rdm;
}

static void set_up(struct hostile_test *c)
{
	static const struct rdm_opts opts = { .caps = FI_DIRECTED_RECV | FI_SOURCE, .rx_size = 256 };
	struct kunit *test = c->test;
	struct op *receive = c->receives, *send = c->sends;

	c->out = tr_vbuffer(test, LONGEST);
	c->copy = tr_vbuffer(test, LONGEST);
	tr_fill(c->out, LONGEST, 1);
	memcpy(c->copy, c->out, LONGEST);
	c->honest_out = tr_vbuffer(test, LONGEST + EXTRA);
	tr_fill(c->honest_out, LONGEST + EXTRA, 2);
	c->honest_ops[0] = (struct op){ .is_tagged = true, .buf = alloc_guarded(test, LONGEST) };
	c->honest_ops[1] = (struct op){ .is_tagged = true, .is_send = true };
	for (int i = 0; i < ARRAY_SIZE(c->receives); i++) {
		u32 nth = i / PORTS;

		receive[i].len = sizes[nth % ARRAY_SIZE(sizes)];
		receive[i].buf = alloc_guarded(test, receive[i].len);
		/* Some receives match all tags, some every second one. */
		receive[i].is_tagged = nth & 1;
		receive[i].tag = nth & 2;
		receive[i].ignore = nth & 4 ? ~0ull : ~2ull & (BIT_ULL(32) - 1);
	}
	for (int i = 0; i < ARRAY_SIZE(c->sends); i++) {
		send[i].is_send = true;
		send[i].is_tagged = i / PORTS & 1;
		send[i].buf = c->out;
		send[i].len = lens[i / PORTS];
	}
	c->raw = raw_open(test, REGISTERED);
	c->raw->on_packet = on_packet;
	c->raw->context = c;
	for (int i = 0; i < RAW_SLOTS; i++)
		tr_fill(c->raw->out + i * RAW_PKT_MAX, RAW_PKT_MAX, i);
	c->honest = open_other(test, &opts);
	c->rdm = open_other(test, &opts);
	c->from_honest = rdm_addr(test, c->rdm, c->honest);
	c->to_rdm = rdm_addr(test, c->honest, c->rdm);
	for (int who = 0; who < PORTS; who++) {
		fi_addr_t addr = raw_addr(test, c->rdm, ports[who]);

		for (int i = who; i < ARRAY_SIZE(c->receives); i += PORTS)
			receive[i].addr = addr;
		for (int i = who; i < ARRAY_SIZE(c->sends); i += PORTS)
			send[i].addr = addr;
	}
}

/* Returns the number of mutations that have ended a connection. */
static u32 kinds_of(const struct hostile_test *c)
{
	u32 kinds = 0;

	for (int i = 0; i < MUTATIONS; i++)
		kinds += c->closed_by[i] > 0;
	return kinds;
}

/* Returns true after enough packets and mutations. */
static bool is_enough(const struct hostile_test *c, u32 count)
{
	u32 done = c->raw->sent;

	return done >= count && (kinds_of(c) >= KINDS || done / MAX_TIMES >= count);
}

static void rdm_invalid_packets_end_only_their_own_connection(struct kunit *test)
{
	struct hostile_test *c = (void *)tr_vbuffer(test, sizeof(*c));
	u32 count = hostile_packets ?: 200 * tr_rounds;

	c->test = test;
	prandom_seed_state(&c->random, hostile_seed);
	set_up(c);
	while (!is_enough(c, count)) {
		if (!c->honest_ops[0].pending && !c->honest_ops[1].pending)
			begin_honest(c);
		for (int i = 0; i < HONEST; i++)
			step(c);
		end_honest(c);
		post_ops(c, false);
	}
	finish(c);
	KUNIT_EXPECT_EQ(test, 0, memcmp(c->out, c->copy, LONGEST));
	for (int i = 0; i < 2 * ARRAY_SIZE(honest_lens); i++) {
		begin_honest(c);
		end_honest(c);
	}
	kunit_info(test, "%u packets; %u connections closed, of %u kinds; %u left, %u stalled, %u refused\n",
		   c->raw->sent, c->closed, kinds_of(c), c->left, c->stalled, c->refused);
	for (int i = 0; i < MUTATIONS; i++) {
		if (c->closed_by[i])
			kunit_info(test, "%s: %u\n", names[i], c->closed_by[i]);
	}
	KUNIT_EXPECT_EQ_MSG(test, 0, c->closed_by[VALID],
			    "connections that ended after a valid packet");
	KUNIT_EXPECT_GE(test, kinds_of(c), KINDS);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(rdm_invalid_packets_end_only_their_own_connection),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rdm_hostile",
	.test_cases = cases,
};

kunit_test_suite(suite);
