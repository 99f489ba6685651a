// SPDX-License-Identifier: GPL-2.0
/*
 * The baseline: the measured loops over ib_verbs.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"raw"
#define BENCH_PORT	7601

struct raw_priv {};

#include "raw.h"

static __always_inline int raw_send(struct bench_end *end, void *buf,
				    size_t len, int flags)
{
	struct ib_sge sge = {
		.addr = end->tx_dma + (buf - end->side.tx),
		.length = len,
		.lkey = end->lkey,
	};
	struct ib_send_wr wr = {
		.wr_id = (uintptr_t)buf,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = flags,
	};

	return ib_post_send(end->qp, &wr, NULL);
}

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
{
	return raw_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int end_send_unsignaled(struct bench_end *end, void *buf,
					       size_t len)
{
	return raw_send(end, buf, len, 0);
}

static __always_inline int end_send_signaled(struct bench_end *end, void *buf,
					     size_t len)
{
	return raw_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int end_recv(struct bench_end *end, void *buf)
{
	struct ib_sge sge = {
		.addr = end->rx_dma + (buf - end->side.rx),
		.length = end->side.test->size,
		.lkey = end->lkey,
	};
	struct ib_recv_wr wr = {
		.wr_id = (uintptr_t)buf,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(end->qp, &wr, NULL);
}

static __always_inline int end_poll(struct bench_end *end)
{
	int found, i;

	found = ib_poll_cq(end->cq, BENCH_BATCH, end->done);
	for (i = 0; i < found; i++) {
		if (unlikely(end->done[i].status != IB_WC_SUCCESS))
			return -EIO;
	}
	return found;
}

static unsigned int raw_recv_depth(const struct bench_test *test)
{
	return bench_recv_depth(test);
}

static int raw_open_priv(struct bench_pair *pair, struct bench_end *end)
{
	return 0;
}

static int raw_post_receives(struct bench_end *end)
{
	return 0;
}

static void raw_close_priv(struct bench_pair *pair, struct bench_end *end)
{
}

#include "raw_pair.h"

MODULE_DESCRIPTION("Ping-pong and stream over ib_verbs, the baseline of kofi_bench");
