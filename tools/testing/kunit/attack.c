// SPDX-License-Identifier: GPL-2.0
/*
 * A hostile peer that uses ib_verbs and rdma_cm without kOFI: see attack.h.
 */

#include <linux/delay.h>

#include "attack.h"

static int on_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct attacker *at = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		complete_all(&at->gone);
		return 0;
	default:
		at->status = event->status ?: -ECONNABORTED;
	}
	complete(&at->event);
	return 0;
}

static int wait_for_event(struct attacker *at)
{
	if (!wait_for_completion_timeout(&at->event,
					 msecs_to_jiffies(FX_WAIT_MS)))
		return -ETIMEDOUT;
	return at->status;
}

static void destroy_attacker(void *arg)
{
	struct attacker *at = arg;

	if (at->connected)
		rdma_disconnect(at->id);
	if (at->id && at->id->qp)
		rdma_destroy_qp(at->id);
	if (at->cq)
		ib_destroy_cq(at->cq);
	if (at->dma)
		ib_dma_unmap_single(at->pd->device, at->dma, AT_MAX,
				    DMA_BIDIRECTIONAL);
	if (at->pd)
		ib_dealloc_pd(at->pd);
	if (at->id)
		rdma_destroy_id(at->id);
}

static int resolve(struct attacker *at, struct sockaddr *to)
{
	struct rdma_cm_id *id;
	int ret;

	id = rdma_create_id(&init_net, on_event, at, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	at->id = id;
	ret = rdma_resolve_addr(id, NULL, to, 2000) ?: wait_for_event(at);
	if (!ret)
		ret = rdma_resolve_route(id, 2000) ?: wait_for_event(at);
	return ret;
}

static int create_qp(struct attacker *at)
{
	struct ib_device *device = at->id->device;
	struct ib_cq_init_attr cq_attr = { .cqe = 16 };
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 8,
			.max_recv_wr = 1,
			.max_send_sge = 2,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_pd *pd;
	struct ib_cq *cq;

	pd = ib_alloc_pd(device, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	at->pd = pd;
	cq = ib_create_cq(device, NULL, NULL, NULL, &cq_attr);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	at->cq = cq;
	at->dma = ib_dma_map_single(device, at->buf, AT_MAX, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(device, at->dma)) {
		at->dma = 0;
		return -ENOMEM;
	}
	attr.send_cq = cq;
	attr.recv_cq = cq;
	return rdma_create_qp(at->id, pd, &attr);
}

/* Allocates an attacker that is destroyed with the test. */
static struct attacker *alloc_attacker(struct kunit *test)
{
	struct attacker *at = kunit_kzalloc(test, sizeof(*at), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, at);
	at->buf = tr_buffer(test, AT_MAX);
	init_completion(&at->event);
	init_completion(&at->gone);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, destroy_attacker,
							   at));
	return at;
}

/* Requests a connection to the address with that private data. */
static void request_connection(struct kunit *test, struct attacker *at, void *to,
			       const void *data, u8 len)
{
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = len,
		.responder_resources = 4,
		.initiator_depth = 4,
		.retry_count = 6,
	};

	KUNIT_ASSERT_EQ(test, 0, resolve(at, to));
	KUNIT_ASSERT_EQ(test, 0, create_qp(at));
	KUNIT_ASSERT_EQ(test, 0, rdma_connect(at->id, &param));
}

struct attacker *at_connect_to(struct kunit *test, void *to, const void *data, u8 len)
{
	struct attacker *at = alloc_attacker(test);

	request_connection(test, at, to, data, len);
	at->connected = !wait_for_event(at);
	if (at->connected)
		return at;
	kunit_release_action(test, destroy_attacker, at);
	return NULL;
}

void at_destroy(struct kunit *test, struct attacker *at)
{
	kunit_release_action(test, destroy_attacker, at);
}

struct attacker *at_connect(struct kunit *test, struct kofi_fabric_fx *fx,
			    struct fid_pep *pep)
{
	struct sockaddr_in6 to;
	size_t len = sizeof(to);
	struct fx_cm_event event;
	struct fi_info *request;
	struct attacker *at;

	tr_needs_device(test, fx->info);
	at = alloc_attacker(test);
	at->fx = fx;
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &to, &len));
	request_connection(test, at, &to, NULL, 0);

	request = fx_wait_request(test, fx->eq);
	/* The victim grants RMA: its queue pair permits remote reads and writes. */
	request->caps |= FI_RMA;
	at->victim = fx_ep(test, fx->domain, request);
	fx_bind(test, at->victim, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(at->victim, NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, wait_for_event(at));
	at->connected = true;
	KUNIT_ASSERT_GT(test, fx_wait_event(test, fx->eq, FI_CONNECTED, &event,
					    sizeof(event)), 0);
	return at;
}

void at_close(struct kunit *test, struct attacker *at)
{
	struct fid_ep *victim = at->victim;
	struct fid_eq *eq = at->fx->eq;

	at_destroy(test, at);
	tr_expect_shutdown(test, eq, victim);
	fx_close(test, &victim->fid);
}

/* Posts a request, and waits for its completion. Returns the ib_wc_status, or a negative errno. */
static int post(struct attacker *at, const struct ib_send_wr *wr)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct ib_wc wc;
	int ret;

	ret = ib_post_send(at->id->qp, wr, NULL);
	if (ret)
		return ret;
	while (!ib_poll_cq(at->cq, 1, &wc)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(50, 200);
	}
	return wc.status;
}

static int do_rdma(struct attacker *at, enum ib_wr_opcode opcode, u64 addr,
		   u32 key, u32 len)
{
	struct ib_sge sge = {
		.addr = at->dma,
		.length = len,
		.lkey = at->pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = addr,
		.rkey = key,
	};

	if (len > AT_MAX)
		return -EMSGSIZE;
	return post(at, &wr.wr);
}

int at_read(struct attacker *at, u64 addr, u32 key, u32 len)
{
	return do_rdma(at, IB_WR_RDMA_READ, addr, key, len);
}

int at_write(struct attacker *at, u64 addr, u32 key, u32 len)
{
	return do_rdma(at, IB_WR_RDMA_WRITE, addr, key, len);
}

int at_send_part(struct attacker *at)
{
	u32 key = at->pd->local_dma_lkey;
	struct ib_sge sge[] = {
		{ .addr = at->dma, .length = 2 * PAGE_SIZE, .lkey = key },
		/* The device finds no memory with this key when it comes to these bytes. */
		{ .addr = at->dma, .length = PAGE_SIZE, .lkey = ~key },
	};
	struct ib_send_wr wr = {
		.sg_list = sge,
		.num_sge = ARRAY_SIZE(sge),
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	return post(at, &wr);
}

bool at_wait_disconnected(struct attacker *at)
{
	return wait_for_completion_timeout(&at->gone,
					   msecs_to_jiffies(FX_WAIT_MS));
}
