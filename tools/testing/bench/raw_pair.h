/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting, handlers, connection setup and teardown of two ends over verbs.
 * Included once by each module, after raw.h and the module's own
 *
 *	unsigned int raw_recv_depth(const struct bench_test *test);
 *	int raw_open_priv(struct bench_pair *pair, struct bench_end *end);
 *	int raw_post_receives(struct bench_end *end);
 *	void raw_empty_pool(struct bench_end *end);
 *	void raw_close_priv(struct bench_pair *pair, struct bench_end *end);
 *
 * for the depth of a connection's receive queue, for the module's private part of
 * an end, and for the receives that are posted before those of the loops.
 */

#ifndef KOFI_BENCH_RAW_PAIR_H
#define KOFI_BENCH_RAW_PAIR_H

static int raw_arm_cq(struct bench_end *end)
{
	return ib_req_notify_cq(end->cq, IB_CQ_NEXT_COMP |
				IB_CQ_REPORT_MISSED_EVENTS);
}

static __always_inline int end_wait(struct bench_end *end)
{
	int found;

	while (!(found = end_poll(end))) {
		reinit_completion(&end->comp_event);
		if (raw_arm_cq(end) > 0)
			continue;
		found = end_poll(end);
		if (found)
			break;
		if (!wait_for_completion_timeout(&end->comp_event, BENCH_TIMEOUT))
			return -ETIMEDOUT;
	}
	return found;
}

/* Schedules the handler in a context in which no lock of the driver is held. */
static void raw_schedule_handler(struct bench_end *end)
{
	if (end->side.test->kind == BENCH_CALL_LATENCY)
		irq_work_queue(&end->handler_irq_work);
	else
		queue_work(system_highpri_wq, &end->handler_work);
}

static void end_arm(struct bench_end *end)
{
	if (raw_arm_cq(end) > 0)
		raw_schedule_handler(end);
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

/* Completion event. Locking: the driver may hold its lock, so this must not poll. */
static void raw_cq_event(struct ib_cq *cq, void *context)
{
	struct bench_end *end = context;

	if (bench_uses_callbacks(end->side.test))
		raw_schedule_handler(end);
	else
		complete(&end->comp_event);
}

static __always_inline void raw_run_handler(struct bench_end *end)
{
	const struct bench_pair *pair = end->pair;

	do {
		if (end == &pair->end[BENCH_CLIENT])
			bench_handler(end, true);
		else
			bench_handler(end, false);
	} while (raw_arm_cq(end) > 0);
}

static void raw_irq_work(struct irq_work *work)
{
	raw_run_handler(container_of(work, struct bench_end, handler_irq_work));
}

static void raw_work(struct work_struct *work)
{
	raw_run_handler(container_of(work, struct bench_end, handler_work));
}

static int raw_cm_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct bench_end *end = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		/* The context is the server's end, which accepts one request at a time. */
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
		/* Flushed completions report it. The id stays until the test ends. */
		return 0;
	default:
		end->status = event->status ?: -ECONNABORTED;
	}
	complete(&end->event);
	return 0;
}

static int raw_wait_event(struct bench_end *end)
{
	if (!wait_for_completion_timeout(&end->event, BENCH_CONNECT_TIMEOUT))
		return -ETIMEDOUT;
	return end->status;
}

static struct rdma_cm_id *raw_create_id(struct bench_end *end)
{
	return rdma_create_id(&init_net, raw_cm_handler, end, RDMA_PS_TCP,
			      IB_QPT_RC);
}

/* Opens the objects that all connections of an end share. */
static int raw_open_end(struct bench_pair *pair, struct bench_end *end)
{
	struct ib_device *device = pair->pd->device;
	struct bench_test *test = end->side.test;
	struct ib_cq_init_attr cq_attr = {
		.cqe = test->links * (bench_send_depth(test) + raw_recv_depth(test)),
	};
	struct ib_cq *cq;

	init_completion(&end->comp_event);
	end->pair = pair;
	init_irq_work(&end->handler_irq_work, raw_irq_work);
	INIT_WORK(&end->handler_work, raw_work);
	cq = ib_create_cq(device, raw_cq_event, NULL, end, &cq_attr);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	end->cq = cq;
	/* An iWARP device may not complete an unsignaled work request that fails. */
	end->signal_each = rdma_protocol_iwarp(device, 1) ? 1 : BENCH_SIGNAL_INTERVAL;
	end->lkey = pair->pd->local_dma_lkey;
	end->tx_dma = ib_dma_map_single(device, end->side.tx,
					bench_tx_bytes(test),
					DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(device, end->tx_dma)) {
		end->tx_dma = 0;
		return -ENOMEM;
	}
	end->rx_dma = ib_dma_map_single(device, end->side.rx,
					bench_rx_bytes(test),
					DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(device, end->rx_dma)) {
		end->rx_dma = 0;
		return -ENOMEM;
	}
	return raw_open_priv(pair, end);
}

/* Creates the queue pair of the connection that is being made, and posts its receives. */
static int raw_create_qp(struct bench_pair *pair, struct bench_end *end,
			 struct raw_link *link)
{
	struct bench_test *test = end->side.test;
	struct ib_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {
			.max_send_wr = bench_send_depth(test),
			.max_recv_wr = raw_recv_depth(test),
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = BENCH_INJECT_SIZE,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	int ret;

	if (end->id->device != pair->pd->device)
		return -EXDEV;
	ret = rdma_create_qp(end->id, pair->pd, &attr);
	if (ret)
		return ret;
	end->qp = end->id->qp;
	link->qp = end->qp;
	ret = rdma_set_min_rnr_timer(end->id, BENCH_MIN_RNR_TIMER);
	if (!ret)
		ret = raw_post_receives(end);
	return ret ?: bench_post_receives(end);
}

static int raw_accept(struct bench_end *end, struct rdma_conn_param *param)
{
	int ret;

	rdma_lock_handler(end->id);
	ret = rdma_accept(end->id, param);
	rdma_unlock_handler(end->id);
	return ret ?: raw_wait_event(end);
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

/* Creates an id, and resolves the address and the route, which selects the device. */
static int raw_resolve(struct bench_end *end, struct raw_link *link,
		       struct sockaddr *sa)
{
	struct rdma_cm_id *id;
	int ret;

	id = raw_create_id(end);
	if (IS_ERR(id))
		return PTR_ERR(id);
	end->id = id;
	link->id = id;
	ret = rdma_resolve_addr(id, NULL, sa, 2000);
	if (!ret)
		ret = raw_wait_event(end);
	if (!ret)
		ret = rdma_resolve_route(id, 2000);
	return ret ?: raw_wait_event(end);
}

/* Registers an end's receive buffer for remote access by its peer. Both are connected. */
static int raw_register_rx(struct bench_end *end, struct bench_end *peer)
{
	size_t len = bench_rx_bytes(end->side.test);
	struct ib_reg_wr wr = {
		.wr = {
			.opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED,
		},
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
			  IB_ACCESS_REMOTE_READ,
	};
	unsigned long deadline = jiffies + BENCH_CONNECT_TIMEOUT;
	struct scatterlist list;
	struct ib_mr *mr;
	int ret;

	if (end->qp->device->attrs.atomic_cap != IB_ATOMIC_NONE)
		wr.access |= IB_ACCESS_REMOTE_ATOMIC;
	mr = ib_alloc_mr(end->qp->pd, IB_MR_TYPE_MEM_REG,
			 DIV_ROUND_UP(len, PAGE_SIZE) + 1);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	end->rx_mr = mr;
	sg_init_one(&list, end->side.rx, len);
	sg_dma_address(&list) = end->rx_dma;
	sg_dma_len(&list) = len;
	ret = ib_map_mr_sg(mr, &list, 1, NULL, PAGE_SIZE);
	if (ret != 1)
		return ret < 0 ? ret : -EINVAL;
	wr.mr = mr;
	wr.key = mr->rkey;
	ret = ib_post_send(end->qp, &wr.wr, NULL);
	while (!ret && !(ret = end_poll(end))) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		fsleep(1000);
	}
	peer->remote_addr = mr->iova;
	peer->remote_key = mr->rkey;
	return ret < 0 ? ret : 0;
}

/* Opens both ends when the first id has a device. The first pair allocates the protection domain. */
static int raw_open_device(struct bench_pair *pair)
{
	struct ib_pd *pd = pair->first->pd;
	int ret;

	if (!pd)
		pd = ib_alloc_pd(pair->end[BENCH_CLIENT].id->device, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	pair->pd = pd;
	ret = raw_open_end(pair, &pair->end[BENCH_CLIENT]);
	return ret ?: raw_open_end(pair, &pair->end[BENCH_SERVER]);
}

static int raw_connect(struct bench_pair *pair, struct sockaddr *sa,
		       unsigned int nth)
{
	struct bench_end *client = &pair->end[BENCH_CLIENT];
	struct bench_end *server = &pair->end[BENCH_SERVER];
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = BENCH_RETRIES,
		.rnr_retry_count = BENCH_RETRIES,
	};
	int ret;

	server->id = NULL;
	ret = raw_resolve(client, &client->links[nth], sa);
	if (!ret && !pair->pd)
		ret = raw_open_device(pair);
	if (!ret)
		ret = raw_create_qp(pair, client, &client->links[nth]);
	if (!ret)
		ret = rdma_connect(client->id, &param);
	if (!ret)
		ret = raw_wait_event(server);
	server->links[nth].id = server->id;
	if (!ret)
		ret = raw_create_qp(pair, server, &server->links[nth]);
	if (!ret)
		ret = raw_accept(server, &param);
	return ret ?: raw_wait_event(client);
}

static int pair_open(struct bench_pair *pair, struct bench_test *test)
{
	struct sockaddr_storage sa;
	char service[6];
	int ret, i;

	for (i = 0; i < 2; i++) {
		init_completion(&pair->end[i].event);
		ret = bench_side_alloc(&pair->end[i].side, test);
		if (ret)
			return ret;
		pair->end[i].links = kzalloc_objs(*pair->end[i].links,
						  test->links);
		if (!pair->end[i].links)
			return -ENOMEM;
	}
	snprintf(service, sizeof(service), "%u", bench_port(pair));
	ret = inet_pton_with_scope(&init_net, AF_UNSPEC, addr, service, &sa);
	if (!ret)
		ret = raw_listen(pair, (struct sockaddr *)&sa);
	for (i = 0; !ret && i < test->links; i++)
		ret = raw_connect(pair, (struct sockaddr *)&sa, i);
	return ret ?: raw_register_rx(&pair->end[BENCH_SERVER],
				      &pair->end[BENCH_CLIENT]);
}

static void raw_disconnect(struct bench_end *end)
{
	unsigned int i;

	for (i = 0; end->links && i < end->side.test->links; i++) {
		if (end->links[i].qp)
			rdma_disconnect(end->links[i].id);
	}
}

static void raw_destroy_links(struct bench_end *end)
{
	unsigned int i;

	for (i = 0; end->links && i < end->side.test->links; i++) {
		if (end->links[i].qp)
			rdma_destroy_qp(end->links[i].id);
		if (end->links[i].id)
			rdma_destroy_id(end->links[i].id);
	}
	kfree(end->links);
}

/* Frees an end. Its queue pairs are destroyed, so the device does not access its memory. */
static void raw_close_end(struct bench_pair *pair, struct bench_end *end)
{
	raw_close_priv(pair, end);
	if (end->rx_mr)
		ib_dereg_mr(end->rx_mr);
	if (end->rx_dma)
		ib_dma_unmap_single(pair->pd->device, end->rx_dma,
				    bench_rx_bytes(end->side.test),
				    DMA_BIDIRECTIONAL);
	if (end->tx_dma)
		ib_dma_unmap_single(pair->pd->device, end->tx_dma,
				    bench_tx_bytes(end->side.test),
				    DMA_BIDIRECTIONAL);
	if (end->cq) {
		ib_destroy_cq(end->cq);
		irq_work_sync(&end->handler_irq_work);
		cancel_work_sync(&end->handler_work);
	}
	bench_side_free(&end->side);
}

static void pair_close(struct bench_pair *pair)
{
	int i;

	if (pair->listener)
		rdma_destroy_id(pair->listener);
	for (i = 0; i < 2; i++)
		raw_disconnect(&pair->end[i]);
	for (i = 0; i < 2; i++) {
		raw_empty_pool(&pair->end[i]);
		raw_destroy_links(&pair->end[i]);
	}
	for (i = 0; i < 2; i++)
		raw_close_end(pair, &pair->end[i]);
	if (pair->pd && pair == pair->first)
		ib_dealloc_pd(pair->pd);
}

#endif /* KOFI_BENCH_RAW_PAIR_H */
