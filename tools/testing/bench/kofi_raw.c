// SPDX-License-Identifier: GPL-2.0
/*
 * The baseline: ib_verbs and rdma_cm as a careful ULP uses them.
 *
 * Memory is mapped once and named by the local_dma_lkey; completions are
 * polled in batches into an array of ours; nothing is allocated per message.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"raw"
#define BENCH_PORT	7601

#include <linux/inet.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "bench.h"

struct bench_end {
	struct bench_side	side;
	struct ib_qp		*qp;
	struct ib_cq		*cq;
	u64			tx_dma;
	u64			rx_dma;
	u32			lkey;
	struct ib_wc		done[BENCH_BATCH];

	struct rdma_cm_id	*id;
	struct completion	event;
	int			status;
};

struct bench_pair {
	struct bench_end	end[2];
	struct rdma_cm_id	*listener;
	struct ib_pd		*pd;
};

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
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
		.send_flags = IB_SEND_SIGNALED,
	};

	return ib_post_send(end->qp, &wr, NULL);
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

static __always_inline bool end_is_recv(struct bench_end *end, int at)
{
	return end->done[at].opcode & IB_WC_RECV;
}

static __always_inline size_t end_len(struct bench_end *end, int at)
{
	return end->done[at].byte_len;
}

static __always_inline void *end_buffer(struct bench_end *end, int at)
{
	return (void *)(uintptr_t)end->done[at].wr_id;
}

#include "loops.h"
#include "calls.h"
#include "control.h"

static int raw_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct bench_end *end = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		/* The listener's context; another one than ours is refused. */
		if (end->id)
			return -ECONNREFUSED;
		end->id = id;
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		/* Completions tell of it; the ids live as long as the test. */
		return 0;
	default:
		end->status = event->status ?: -ECONNABORTED;
	}
	complete(&end->event);
	return 0;
}

static int raw_await(struct bench_end *end)
{
	if (!wait_for_completion_timeout(&end->event, BENCH_CONNECT_TIMEOUT))
		return -ETIMEDOUT;
	return end->status;
}

static struct rdma_cm_id *raw_create_id(struct bench_end *end)
{
	return rdma_create_id(&init_net, raw_event, end, RDMA_PS_TCP,
			      IB_QPT_RC);
}

/* Queues, memory and posted receives of an end that has its id. */
static int raw_prepare(struct bench_pair *pair, struct bench_end *end)
{
	struct ib_device *device = end->id->device;
	struct bench_test *test = end->side.test;
	struct ib_cq_init_attr cq_attr = { .cqe = BENCH_CQ_SIZE };
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = BENCH_SEND_DEPTH,
			.max_recv_wr = BENCH_RECV_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_cq *cq;
	int ret;

	if (device != pair->pd->device)
		return -EXDEV;
	cq = ib_create_cq(device, NULL, NULL, NULL, &cq_attr);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	end->cq = cq;
	attr.send_cq = cq;
	attr.recv_cq = cq;
	ret = rdma_create_qp(end->id, pair->pd, &attr);
	if (ret)
		return ret;
	end->qp = end->id->qp;
	ret = rdma_set_min_rnr_timer(end->id, BENCH_MIN_RNR_TIMER);
	if (ret)
		return ret;

	end->lkey = pair->pd->local_dma_lkey;
	end->tx_dma = ib_dma_map_single(device, end->side.tx,
					bench_tx_bytes(test), DMA_TO_DEVICE);
	if (ib_dma_mapping_error(device, end->tx_dma)) {
		end->tx_dma = 0;
		return -ENOMEM;
	}
	end->rx_dma = ib_dma_map_single(device, end->side.rx,
					bench_rx_bytes(test), DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(device, end->rx_dma)) {
		end->rx_dma = 0;
		return -ENOMEM;
	}
	return bench_post_receives(end);
}

static int raw_accept(struct bench_end *end, struct rdma_conn_param *param)
{
	int ret;

	rdma_lock_handler(end->id);
	ret = rdma_accept(end->id, param);
	rdma_unlock_handler(end->id);
	return ret ?: raw_await(end);
}

static int raw_listen(struct bench_pair *pair, struct sockaddr *sa)
{
	struct rdma_cm_id *id;
	int ret;

	id = raw_create_id(&pair->end[BENCH_SERVER]);
	if (IS_ERR(id))
		return PTR_ERR(id);
	pair->listener = id;
	ret = rdma_bind_addr(id, sa);
	return ret ?: rdma_listen(id, 1);
}

/* From nothing to an id that knows its device and its path. */
static int raw_resolve(struct bench_end *end, struct sockaddr *sa)
{
	struct rdma_cm_id *id;
	int ret;

	id = raw_create_id(end);
	if (IS_ERR(id))
		return PTR_ERR(id);
	end->id = id;
	ret = rdma_resolve_addr(id, NULL, sa, 2000);
	if (!ret)
		ret = raw_await(end);
	if (!ret)
		ret = rdma_resolve_route(id, 2000);
	return ret ?: raw_await(end);
}

static int pair_open(struct bench_pair *pair, struct bench_test *test)
{
	struct bench_end *client = &pair->end[BENCH_CLIENT];
	struct bench_end *server = &pair->end[BENCH_SERVER];
	struct rdma_conn_param param = {
		.retry_count = BENCH_RETRIES,
		.rnr_retry_count = BENCH_RETRIES,
	};
	struct sockaddr_storage sa;
	char service[6];
	int ret, i;

	for (i = 0; i < 2; i++) {
		init_completion(&pair->end[i].event);
		ret = bench_side_alloc(&pair->end[i].side, test);
		if (ret)
			return ret;
	}
	snprintf(service, sizeof(service), "%u", port);
	ret = inet_pton_with_scope(&init_net, AF_UNSPEC, addr, service, &sa);
	if (!ret)
		ret = raw_listen(pair, (struct sockaddr *)&sa);
	if (!ret)
		ret = raw_resolve(client, (struct sockaddr *)&sa);
	if (ret)
		return ret;

	pair->pd = ib_alloc_pd(client->id->device, 0);
	if (IS_ERR(pair->pd)) {
		ret = PTR_ERR(pair->pd);
		pair->pd = NULL;
		return ret;
	}
	ret = raw_prepare(pair, client);
	if (!ret)
		ret = rdma_connect(client->id, &param);
	if (!ret)
		ret = raw_await(server);
	if (!ret)
		ret = raw_prepare(pair, server);
	if (!ret)
		ret = raw_accept(server, &param);
	return ret ?: raw_await(client);
}

/* Once its queue pair is gone, nothing touches an end's memory. */
static void raw_dismantle(struct bench_pair *pair, struct bench_end *end)
{
	if (end->qp)
		rdma_destroy_qp(end->id);
	if (end->rx_dma)
		ib_dma_unmap_single(pair->pd->device, end->rx_dma,
				    bench_rx_bytes(end->side.test),
				    DMA_FROM_DEVICE);
	if (end->tx_dma)
		ib_dma_unmap_single(pair->pd->device, end->tx_dma,
				    bench_tx_bytes(end->side.test),
				    DMA_TO_DEVICE);
	if (end->cq)
		ib_destroy_cq(end->cq);
	bench_side_free(&end->side);
}

static void pair_close(struct bench_pair *pair)
{
	int i;

	if (pair->listener)
		rdma_destroy_id(pair->listener);
	for (i = 0; i < 2; i++) {
		if (pair->end[i].qp)
			rdma_disconnect(pair->end[i].id);
	}
	for (i = 0; i < 2; i++)
		raw_dismantle(pair, &pair->end[i]);
	if (pair->pd)
		ib_dealloc_pd(pair->pd);
	for (i = 0; i < 2; i++) {
		if (pair->end[i].id)
			rdma_destroy_id(pair->end[i].id);
	}
}

MODULE_DESCRIPTION("Ping-pong and stream over ib_verbs, the baseline of kofi_bench");
