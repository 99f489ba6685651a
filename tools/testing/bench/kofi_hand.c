// SPDX-License-Identifier: GPL-2.0
/*
 * The least that the packets of datagrams cost: the baseline's ends, but each
 * message goes in a packet of its own, behind libfabric's header, and is copied
 * into it and out of it, and the peer is told of room for more.
 *
 * Nothing else of a datagram endpoint is here: one peer, which never goes away;
 * no tags, every message is for the oldest receive; one thread, and so no lock;
 * no queue but the device's.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"hand"
#define BENCH_PORT	7605

#include <linux/types.h>

#include "bench.h"

/* What stands before a message of one packet. What has no name is left alone. */
struct hand_header {
	u8	ctrl_version;
	u8	kind;
	u16	segment_len;
	u32	segment;
	u64	to;
	u64	id;
	u64	extra;
	u8	op_version;
	u8	context;
	u8	op;
	u8	unused;
	u32	flags;
	u64	len;
	u64	data;
	u64	tag;
};
static_assert(sizeof(struct hand_header) == 64);

#define HAND_CTRL_VERSION	4
#define HAND_OP_VERSION		2
#define HAND_MESSAGE		0
#define HAND_CREDIT		6
#define HAND_MOST		1024
/* So many receives are worth a word to the peer, which need not wait for it. */
#define HAND_WORTH		24
#define HAND_ROOM		(BENCH_RECV_DEPTH + HAND_WORTH)
/* Words come besides, and need none. */
#define HAND_RECEIVES		(HAND_ROOM + HAND_ROOM / HAND_WORTH + 1)

struct hand_packet {
	struct hand_header	header;
	u8			payload[HAND_MOST];
};

/* Packets are sent in turn: at most a window of them is under way. */
struct raw_more {
	struct hand_packet	*sends;
	struct hand_packet	*receives;
	u64			sends_dma;
	u64			receives_dma;
	unsigned int		sent;
	/* How many messages the peer has room for; receives that it was not told of */
	unsigned int		room;
	int			untold;
	/* Receives, the oldest first */
	void			*posted[BENCH_RECV_DEPTH];
	unsigned int		posts;
	unsigned int		met;
};

#include "raw.h"

static __always_inline struct hand_packet *hand_next(struct bench_end *end)
{
	return &end->more.sends[end->more.sent % BENCH_SEND_DEPTH];
}

/* Sends that packet, which has @len bytes behind its header. */
static __always_inline int hand_put(struct bench_end *end, void *context,
				    size_t len, int flags)
{
	struct raw_more *more = &end->more;
	unsigned int at = more->sent++ % BENCH_SEND_DEPTH;
	struct ib_sge sge = {
		.addr = more->sends_dma + at * sizeof(*more->sends),
		.length = sizeof(struct hand_header) + len,
		.lkey = end->lkey,
	};
	struct ib_send_wr wr = {
		.wr_id = (uintptr_t)context,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = flags,
	};

	return ib_post_send(end->qp, &wr, NULL);
}

static __always_inline int hand_send(struct bench_end *end, void *buf,
				     size_t len, int flags)
{
	struct hand_packet *packet = hand_next(end);

	/* The loops send no more than there are receives for. */
	if (unlikely(!end->more.room))
		return -ENOBUFS;
	end->more.room--;
	packet->header = (struct hand_header) {
		.ctrl_version = HAND_CTRL_VERSION,
		.kind = HAND_MESSAGE,
		.to = (uintptr_t)end->pair,
		.op_version = HAND_OP_VERSION,
		.len = len,
	};
	memcpy(packet->payload, buf, len);
	return hand_put(end, buf, len, flags);
}

/* Unsignalled: a message follows that is not. */
static int hand_tell(struct bench_end *end)
{
	hand_next(end)->header = (struct hand_header) {
		.ctrl_version = HAND_CTRL_VERSION,
		.kind = HAND_CREDIT,
		.to = (uintptr_t)end->pair,
		.op_version = HAND_OP_VERSION,
		.extra = end->more.untold,
	};
	end->more.untold = 0;
	return hand_put(end, NULL, 0, 0);
}

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
{
	return hand_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int end_send_silent(struct bench_end *end, void *buf,
					   size_t len)
{
	return hand_send(end, buf, len, 0);
}

static __always_inline int end_send_told(struct bench_end *end, void *buf,
					 size_t len)
{
	return hand_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int hand_post(struct bench_end *end, unsigned int at)
{
	struct raw_more *more = &end->more;
	struct ib_sge sge = {
		.addr = more->receives_dma + at * sizeof(struct hand_packet),
		.length = sizeof(struct hand_packet),
		.lkey = end->lkey,
	};
	struct ib_recv_wr wr = {
		.wr_id = at,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(end->qp, &wr, NULL);
}

static __always_inline int end_recv(struct bench_end *end, void *buf)
{
	struct raw_more *more = &end->more;

	more->posted[more->posts++ % BENCH_RECV_DEPTH] = buf;
	return ++more->untold < HAND_WORTH ? 0 : hand_tell(end);
}

/* Whether what arrived is what may arrive: a word, or a message that is all there. */
static __always_inline bool hand_is_sound(const struct bench_end *end,
					  const struct hand_header *header,
					  size_t len)
{
	if (len < sizeof(*header) ||
	    header->ctrl_version != HAND_CTRL_VERSION ||
	    header->to != (uintptr_t)end->pair ||
	    header->op_version != HAND_OP_VERSION)
		return false;
	if (header->kind == HAND_CREDIT)
		return header->extra <= BENCH_RECV_DEPTH;
	return header->kind == HAND_MESSAGE && !header->context &&
	       !header->op && !header->flags &&
	       header->len == len - sizeof(*header) &&
	       header->len <= end->side.test->size &&
	       end->more.met != end->more.posts;
}

/* Gives the oldest receive what the packet has for it; a word leaves no buffer. */
static __always_inline int hand_meet(struct bench_end *end, struct ib_wc *wc)
{
	struct raw_more *more = &end->more;
	unsigned int at = wc->wr_id;
	const struct hand_packet *packet = &more->receives[at];
	const struct hand_header *header = &packet->header;
	void *buf = NULL;

	if (unlikely(!hand_is_sound(end, header, wc->byte_len)))
		return -EBADMSG;
	if (header->kind == HAND_CREDIT) {
		more->room += header->extra;
	} else {
		buf = more->posted[more->met++ % BENCH_RECV_DEPTH];
		memcpy(buf, packet->payload, header->len);
		wc->byte_len = header->len;
	}
	wc->wr_id = (uintptr_t)buf;
	return hand_post(end, at);
}

/* The loops are not told of words. */
static __always_inline int end_poll(struct bench_end *end)
{
	int found, ret, i, kept = 0;

	found = ib_poll_cq(end->cq, BENCH_BATCH, end->done);
	for (i = 0; i < found; i++) {
		struct ib_wc *wc = &end->done[i];

		if (unlikely(wc->status != IB_WC_SUCCESS))
			return -EIO;
		if (wc->opcode & IB_WC_RECV) {
			ret = hand_meet(end, wc);
			if (ret)
				return ret;
			if (!wc->wr_id)
				continue;
		}
		if (unlikely(kept != i))
			end->done[kept] = *wc;
		kept++;
	}
	return kept;
}

static unsigned int raw_receives(const struct bench_test *test)
{
	return HAND_RECEIVES;
}

static int hand_map(struct ib_device *device, struct hand_packet **packets,
		    u64 *dma, unsigned int count)
{
	*packets = kzalloc_objs(**packets, count);
	if (!*packets)
		return -ENOMEM;
	*dma = ib_dma_map_single(device, *packets, count * sizeof(**packets),
				 DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(device, *dma)) {
		*dma = 0;
		return -ENOMEM;
	}
	return 0;
}

static void hand_unmap(struct ib_device *device, struct hand_packet *packets,
		       u64 dma, unsigned int count)
{
	if (dma)
		ib_dma_unmap_single(device, dma, count * sizeof(*packets),
				    DMA_BIDIRECTIONAL);
	kfree(packets);
}

static int raw_prepare_more(struct bench_pair *pair, struct bench_end *end)
{
	const struct bench_test *test = end->side.test;
	struct raw_more *more = &end->more;
	int ret;

	if (test->size > HAND_MOST)
		return -EMSGSIZE;
	if (test->links > 1)
		return -EOPNOTSUPP;
	/* Each knows of those that the other posts first, and of some for later ones. */
	more->room = test->slots + HAND_WORTH;
	more->untold = -(int)test->slots;
	ret = hand_map(pair->pd->device, &more->sends, &more->sends_dma,
		       BENCH_SEND_DEPTH);
	return ret ?: hand_map(pair->pd->device, &more->receives,
			       &more->receives_dma, HAND_RECEIVES);
}

static int raw_post_receives(struct bench_end *end)
{
	unsigned int at;
	int ret = 0;

	for (at = 0; !ret && at < HAND_RECEIVES; at++)
		ret = hand_post(end, at);
	return ret;
}

static void raw_dismantle_more(struct bench_pair *pair, struct bench_end *end)
{
	struct raw_more *more = &end->more;

	hand_unmap(pair->pd->device, more->sends, more->sends_dma,
		   BENCH_SEND_DEPTH);
	hand_unmap(pair->pd->device, more->receives, more->receives_dma,
		   HAND_RECEIVES);
}

#include "raw_pair.h"

MODULE_DESCRIPTION("Ping-pong and stream over packets by hand, the least that datagrams cost");
