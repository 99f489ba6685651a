// SPDX-License-Identifier: GPL-2.0
/*
 * Lower limit for the cost of datagrams: the ends of kofi_raw.c, but each message is
 * copied into and out of a packet with libfabric's ofi_rxm header, and the receiver
 * grants credits to the sender.
 *
 * The module has nothing else of a datagram endpoint: it has one peer, which never
 * disconnects; no tags, so that a message matches the oldest receive; one thread
 * for each end, and so no locks; no queue besides the device's.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"hand"
#define BENCH_PORT	7605
#define BENCH_NO_REGISTER

#include <linux/types.h>

#include "bench.h"

/* Header of a packet: ctrl_hdr and hdr of libfabric's struct rxm_pkt. Unused fields are 0. */
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
#define HAND_MAX_LEN		1024
/* Credits are granted for this many receives at once; the peer has as many spare ones. */
#define HAND_GRANT_THRESHOLD	24
#define HAND_MSG_RECEIVES	(BENCH_RECV_DEPTH + HAND_GRANT_THRESHOLD)
/* Receives for messages, and for credit packets, which consume no credit */
#define HAND_RECEIVES		(HAND_MSG_RECEIVES + HAND_MSG_RECEIVES / HAND_GRANT_THRESHOLD + 1)

struct hand_packet {
	struct hand_header	header;
	u8			payload[HAND_MAX_LEN];
};

/* Private part of an end; its send packets are used in turn, at most a window of them at a time */
struct raw_priv {
	struct hand_packet	*sends;
	struct hand_packet	*receives;
	u64			sends_dma;
	u64			receives_dma;
	unsigned int		sent;
	/* Credits for sends; receives that the peer has no credits for yet */
	unsigned int		tx_credits;
	int			pending_grant;
	/* Posted receives, the oldest first; number of receives posted and matched */
	void			*posted[BENCH_RECV_DEPTH];
	unsigned int		posts;
	unsigned int		matches;
};

#include "raw.h"

static __always_inline struct hand_packet *hand_next(struct bench_end *end)
{
	return &end->priv.sends[end->priv.sent % BENCH_SEND_DEPTH];
}

/* Posts the next packet, which has @len bytes of payload. */
static __always_inline int hand_post_send(struct bench_end *end, void *context,
					  size_t len, int flags)
{
	struct raw_priv *priv = &end->priv;
	unsigned int at = priv->sent++ % BENCH_SEND_DEPTH;
	struct ib_sge sge = {
		.addr = priv->sends_dma + at * sizeof(*priv->sends),
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

	/* The loops never send more messages than the peer has receives. */
	if (unlikely(!end->priv.tx_credits))
		return -ENOBUFS;
	end->priv.tx_credits--;
	packet->header = (struct hand_header) {
		.ctrl_version = HAND_CTRL_VERSION,
		.kind = HAND_MESSAGE,
		.to = (uintptr_t)end->pair,
		.op_version = HAND_OP_VERSION,
		.len = len,
	};
	memcpy(packet->payload, buf, len);
	return hand_post_send(end, buf, len, flags);
}

/* Sends the pending credits. The packet is unsignaled, because a signaled message follows. */
static int hand_send_credits(struct bench_end *end)
{
	hand_next(end)->header = (struct hand_header) {
		.ctrl_version = HAND_CTRL_VERSION,
		.kind = HAND_CREDIT,
		.to = (uintptr_t)end->pair,
		.op_version = HAND_OP_VERSION,
		.extra = end->priv.pending_grant,
	};
	end->priv.pending_grant = 0;
	return hand_post_send(end, NULL, 0, 0);
}

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
{
	return hand_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int end_send_unsignaled(struct bench_end *end, void *buf,
					       size_t len)
{
	return hand_send(end, buf, len, 0);
}

static __always_inline int end_send_signaled(struct bench_end *end, void *buf,
					     size_t len)
{
	return hand_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int hand_post_recv(struct bench_end *end, unsigned int at)
{
	struct raw_priv *priv = &end->priv;
	struct ib_sge sge = {
		.addr = priv->receives_dma + at * sizeof(struct hand_packet),
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
	struct raw_priv *priv = &end->priv;

	priv->posted[priv->posts++ % BENCH_RECV_DEPTH] = buf;
	return ++priv->pending_grant < HAND_GRANT_THRESHOLD ? 0 : hand_send_credits(end);
}

/* Returns whether a packet is a valid grant of credits, or a complete message. */
static __always_inline bool hand_is_valid(const struct bench_end *end,
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
	       end->priv.matches != end->priv.posts;
}

/* Copies a message to the oldest receive, or adds credits. Sets @wc->wr_id to the buffer, or 0. */
static __always_inline int hand_handle_recv(struct bench_end *end, struct ib_wc *wc)
{
	struct raw_priv *priv = &end->priv;
	unsigned int at = wc->wr_id;
	const struct hand_packet *packet = &priv->receives[at];
	const struct hand_header *header = &packet->header;
	void *buf = NULL;

	if (unlikely(!hand_is_valid(end, header, wc->byte_len)))
		return -EBADMSG;
	if (header->kind == HAND_CREDIT) {
		priv->tx_credits += header->extra;
	} else {
		buf = priv->posted[priv->matches++ % BENCH_RECV_DEPTH];
		memcpy(buf, packet->payload, header->len);
		wc->byte_len = header->len;
	}
	wc->wr_id = (uintptr_t)buf;
	return hand_post_recv(end, at);
}

/* Polls completions, and skips those of credit packets. */
static __always_inline int end_poll(struct bench_end *end)
{
	int found, ret, i, kept = 0;

	found = ib_poll_cq(end->cq, BENCH_BATCH, end->done);
	for (i = 0; i < found; i++) {
		struct ib_wc *wc = &end->done[i];

		if (unlikely(wc->status != IB_WC_SUCCESS))
			return -EIO;
		if (wc->opcode & IB_WC_RECV) {
			ret = hand_handle_recv(end, wc);
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

static unsigned int raw_recv_depth(const struct bench_test *test)
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

static int raw_open_priv(struct bench_pair *pair, struct bench_end *end)
{
	const struct bench_test *test = end->side.test;
	struct raw_priv *priv = &end->priv;
	int ret;

	if (test->size > HAND_MAX_LEN)
		return -EMSGSIZE;
	if (test->links > 1)
		return -EOPNOTSUPP;
	/* Each end begins with credits for the peer's first receives, and some spare ones. */
	priv->tx_credits = test->slots + HAND_GRANT_THRESHOLD;
	priv->pending_grant = -(int)test->slots;
	ret = hand_map(pair->pd->device, &priv->sends, &priv->sends_dma,
		       BENCH_SEND_DEPTH);
	return ret ?: hand_map(pair->pd->device, &priv->receives,
			       &priv->receives_dma, HAND_RECEIVES);
}

static int raw_post_receives(struct bench_end *end)
{
	unsigned int at;
	int ret = 0;

	for (at = 0; !ret && at < HAND_RECEIVES; at++)
		ret = hand_post_recv(end, at);
	return ret;
}

static void raw_empty_pool(struct bench_end *end)
{
}

static void raw_close_priv(struct bench_pair *pair, struct bench_end *end)
{
	struct raw_priv *priv = &end->priv;

	hand_unmap(pair->pd->device, priv->sends, priv->sends_dma,
		   BENCH_SEND_DEPTH);
	hand_unmap(pair->pd->device, priv->receives, priv->receives_dma,
		   HAND_RECEIVES);
}

#include "raw_pair.h"

MODULE_DESCRIPTION("Ping-pong and stream over packets by hand, the least that datagrams cost");
