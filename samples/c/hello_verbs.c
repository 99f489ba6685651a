// SPDX-License-Identifier: GPL-2.0
/*
 * Sends one message to msg_server and verifies its echo, as hello_fabric.c does,
 * but with ib_verbs and rdma_cm.
 *
 *	insmod hello_verbs.ko addr=10.0.0.1 port=7471
 *
 * The module does this in its init function. If it fails, so does loading.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

static char *addr = "127.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of the server, IPv4 or IPv6");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the server");

#define SIZE		64
#define TIMEOUT_MS	10000

struct hello {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	bool has_qp, is_connected;
	/* The last rdma_cm event: the expected one, or an error */
	struct completion cm_done;
	enum rdma_cm_event_type event;
	int status;
	/* Completions of the receive and of the send */
	struct completion received, sent;
	struct ib_cqe recv_cqe, send_cqe;
	int failed;
	char *out, *in;
	u64 out_dma, in_dma;
};

static int cm_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct hello *h = id->context;

	h->event = event->event;
	h->status = event->status;
	complete(&h->cm_done);
	return 0;
}

static int wait_cm_event(struct hello *h, enum rdma_cm_event_type event)
{
	if (!wait_for_completion_timeout(&h->cm_done, msecs_to_jiffies(TIMEOUT_MS)))
		return -ETIMEDOUT;
	if (h->event != event)
		return h->status < 0 ? h->status : -ECONNREFUSED;
	return 0;
}

static void recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct hello *h = container_of(wc->wr_cqe, struct hello, recv_cqe);

	if (wc->status != IB_WC_SUCCESS)
		h->failed = -EIO;
	complete(&h->received);
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct hello *h = container_of(wc->wr_cqe, struct hello, send_cqe);

	if (wc->status != IB_WC_SUCCESS)
		h->failed = -EIO;
	complete(&h->sent);
}

static int map_buffers(struct hello *h)
{
	struct ib_device *device = h->id->device;

	h->out = kzalloc(SIZE, GFP_KERNEL);
	h->in = kzalloc(SIZE, GFP_KERNEL);
	if (!h->out || !h->in)
		return -ENOMEM;
	h->out_dma = ib_dma_map_single(device, h->out, SIZE, DMA_TO_DEVICE);
	if (ib_dma_mapping_error(device, h->out_dma)) {
		h->out_dma = 0;
		return -ENOMEM;
	}
	h->in_dma = ib_dma_map_single(device, h->in, SIZE, DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(device, h->in_dma)) {
		h->in_dma = 0;
		return -ENOMEM;
	}
	return 0;
}

static int open_hello(struct hello *h)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = {
			/* ib_drain_qp() needs one more entry in each queue. */
			.max_send_wr = 2,
			.max_recv_wr = 2,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct sockaddr_storage to;
	int ret;

	init_completion(&h->cm_done);
	init_completion(&h->received);
	init_completion(&h->sent);
	h->recv_cqe.done = recv_done;
	h->send_cqe.done = send_done;

	ret = inet_pton_with_scope(&init_net, AF_UNSPEC, addr, port, &to);
	if (ret)
		return ret;
	h->id = rdma_create_id(&init_net, cm_handler, h, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(h->id)) {
		ret = PTR_ERR(h->id);
		h->id = NULL;
		return ret;
	}
	ret = rdma_resolve_addr(h->id, NULL, (struct sockaddr *)&to, TIMEOUT_MS);
	if (ret)
		return ret;
	ret = wait_cm_event(h, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (ret)
		return ret;
	ret = rdma_resolve_route(h->id, TIMEOUT_MS);
	if (ret)
		return ret;
	ret = wait_cm_event(h, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (ret)
		return ret;

	/* rdma_cm selects the device when it resolves the address. */
	h->pd = ib_alloc_pd(h->id->device, 0);
	if (IS_ERR(h->pd)) {
		ret = PTR_ERR(h->pd);
		h->pd = NULL;
		return ret;
	}
	h->cq = ib_alloc_cq_any(h->id->device, h, 4, IB_POLL_WORKQUEUE);
	if (IS_ERR(h->cq)) {
		ret = PTR_ERR(h->cq);
		h->cq = NULL;
		return ret;
	}
	attr.send_cq = h->cq;
	attr.recv_cq = h->cq;
	ret = rdma_create_qp(h->id, h->pd, &attr);
	if (ret)
		return ret;
	h->has_qp = true;
	return map_buffers(h);
}

static int connect_hello(struct hello *h)
{
	struct ib_sge sge = {
		.addr = h->in_dma,
		.length = SIZE,
		.lkey = h->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &h->recv_cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct rdma_conn_param param = {
		.retry_count = 6,
		.rnr_retry_count = 7,
	};
	int ret;

	/* Post the receive before the connection exists: then the peer can send. */
	ret = ib_post_recv(h->id->qp, &wr, NULL);
	if (ret)
		return ret;
	ret = rdma_connect(h->id, &param);
	if (ret)
		return ret;
	ret = wait_cm_event(h, RDMA_CM_EVENT_ESTABLISHED);
	h->is_connected = !ret;
	return ret;
}

static int exchange(struct hello *h)
{
	struct ib_sge sge = {
		.addr = h->out_dma,
		.length = SIZE,
		.lkey = h->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &h->send_cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	unsigned long timeout = msecs_to_jiffies(TIMEOUT_MS);
	int ret;

	ib_dma_sync_single_for_cpu(h->id->device, h->out_dma, SIZE,
				   DMA_TO_DEVICE);
	strscpy(h->out, "hello", SIZE);
	ib_dma_sync_single_for_device(h->id->device, h->out_dma, SIZE,
				      DMA_TO_DEVICE);
	ret = ib_post_send(h->id->qp, &wr, NULL);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&h->sent, timeout) ||
	    !wait_for_completion_timeout(&h->received, timeout))
		return -ETIMEDOUT;
	if (h->failed)
		return h->failed;
	ib_dma_sync_single_for_cpu(h->id->device, h->in_dma, SIZE,
				   DMA_FROM_DEVICE);
	return memcmp(h->in, h->out, SIZE) ? -EBADMSG : 0;
}

static void close_hello(struct hello *h)
{
	/* Disconnect and drain first, so that no completion arrives after the memory is freed. */
	if (h->is_connected)
		rdma_disconnect(h->id);
	if (h->has_qp) {
		ib_drain_qp(h->id->qp);
		rdma_destroy_qp(h->id);
	}
	if (h->out_dma)
		ib_dma_unmap_single(h->id->device, h->out_dma, SIZE,
				    DMA_TO_DEVICE);
	if (h->in_dma)
		ib_dma_unmap_single(h->id->device, h->in_dma, SIZE,
				    DMA_FROM_DEVICE);
	if (h->cq)
		ib_free_cq(h->cq);
	if (h->pd)
		ib_dealloc_pd(h->pd);
	if (h->id)
		rdma_destroy_id(h->id);
	kfree(h->out);
	kfree(h->in);
}

static int __init hello_init(void)
{
	struct hello *h;
	int ret;

	h = kzalloc_obj(*h);
	if (!h)
		return -ENOMEM;
	ret = open_hello(h);
	if (!ret)
		ret = connect_hello(h);
	if (!ret)
		ret = exchange(h);
	close_hello(h);
	kfree(h);
	if (ret)
		pr_err("%s: %pe\n", addr, ERR_PTR(ret));
	else
		pr_info("%s: echo received\n", addr);
	return ret;
}

static void __exit hello_exit(void)
{
}

module_init(hello_init);
module_exit(hello_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: hello, over ib_verbs");
MODULE_LICENSE("GPL");
