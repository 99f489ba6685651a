// SPDX-License-Identifier: GPL-2.0
/*
 * The echo server of msg_server.c without a thread for data transfers: messages
 * are received and sent in the callback of a completion queue, by default in
 * hardirq context.
 *
 *	insmod echo_handler.ko addr=10.0.0.1 port=7471 size=4096 window=16
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/rcupdate.h>
#include "listener.h"

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "local address, IPv4 or IPv6 (default: any IPv4)");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static uint size = 4096;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "maximum length of a message in bytes");

static ushort window = 16;
module_param(window, ushort, 0444);
MODULE_PARM_DESC(window, "messages that a client may have outstanding");

static bool interrupt = true;
module_param(interrupt, bool, 0444);
MODULE_PARM_DESC(interrupt, "echo in hardirq context (default), or in process context");

static struct task_struct *thread;

struct client {
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_mr *mr;
	struct fid_ep *ep;
	/* The endpoint for the callback: NULL before it is connected and when it is being closed */
	struct fid_ep __rcu *live_ep;
	char *buf;
};

/*
 * Posts the next operation of a slot: a send after a completed receive, and a
 * receive after a completed send. The slot is the context of both operations.
 */
static void repost_slot(struct client *client, struct fid_ep *ep,
			struct fi_cq_msg_entry *done)
{
	void *desc = fi_mr_desc(client->mr);
	void *slot = done->op_context;

	/* Posting fails only if the connection has ended; the slot is not used any more then. */
	if (done->flags & FI_SEND)
		fi_recv(ep, slot, size, desc, FI_ADDR_UNSPEC, slot);
	else
		fi_send(ep, slot, done->len, desc, FI_ADDR_UNSPEC, slot);
}

/*
 * Handler of the completion queue. kOFI calls it when the queue becomes readable,
 * and not again until a read has returned -FI_EAGAIN, so read until then.
 *
 * Context: hardirq if the parameter "interrupt" is set; reading and posting do
 * not sleep. Calls do not overlap.
 */
static void on_readable(struct fid_cq *cq, void *context)
{
	struct fi_cq_err_entry err = {};
	struct client *client = context;
	struct fi_cq_msg_entry done[8];
	struct fid_ep *ep;
	ssize_t n;

	rcu_read_lock();
	ep = rcu_dereference(client->live_ep);
	n = ep ? 0 : -FI_EAGAIN;
	while (n >= 0) {
		n = fi_cq_read(cq, done, ARRAY_SIZE(done));
		for (ssize_t i = 0; i < n; i++)
			repost_slot(client, ep, &done[i]);
		/* Do not repost a failed operation: the connection has ended. */
		if (n == -FI_EAVAIL)
			n = fi_cq_readerr(cq, &err, 0);
	}
	rcu_read_unlock();
}

/* Opens the objects of a client. The caller calls close_client() after an error, too. */
static int open_client(struct client *client, struct fid_fabric *fabric,
		       struct fi_info *info)
{
	size_t slots = 2 * window;
	struct fi_cq_attr cq_attr = {
		.size = slots,
		.format = FI_CQ_FORMAT_MSG,
		.flags = interrupt ? FI_CB_CTX_INTR : 0,
		.cq_event_handler = on_readable,
	};
	int ret;

	client->buf = kvcalloc(slots, size, GFP_KERNEL);
	if (!client->buf)
		return -FI_ENOMEM;
	ret = fi_domain(fabric, info, &client->domain, NULL);
	ret = ret ?: fi_mr_reg(client->domain, client->buf, slots * size, 0, 0,
			       0, 0, &client->mr, NULL);
	ret = ret ?: open_eq(fabric, &client->eq);
	/* The context of the queue is the argument of its handler. */
	ret = ret ?: fi_cq_open(client->domain, &cq_attr, &client->cq, client);
	if (ret)
		return ret;

	info->tx_attr->size = slots;
	info->rx_attr->size = slots;
	ret = fi_endpoint(client->domain, info, &client->ep, NULL);
	ret = ret ?: fi_ep_bind(client->ep, &client->eq->fid, 0);
	ret = ret ?: fi_ep_bind(client->ep, &client->cq->fid,
				FI_TRANSMIT | FI_RECV);
	return ret ?: fi_enable(client->ep);
}

static void close_client(struct client *client)
{
	/* After the grace period no handler posts on the endpoint. */
	RCU_INIT_POINTER(client->live_ep, NULL);
	synchronize_rcu();
	if (client->ep)
		close_fid(&client->ep->fid);
	/* fi_close() waits until the handler has returned; it is not called again. */
	if (client->cq)
		close_fid(&client->cq->fid);
	if (client->mr)
		close_fid(&client->mr->fid);
	if (client->eq)
		close_fid(&client->eq->fid);
	if (client->domain)
		close_fid(&client->domain->fid);
	kvfree(client->buf);
}

/* Accepts the client, and waits until it disconnects. */
static int serve(struct client *client)
{
	void *desc = fi_mr_desc(client->mr);
	int ret;

	for (int i = 0; i < 2 * window; i++) {
		void *slot = client->buf + i * size;

		ret = fi_recv(client->ep, slot, size, desc, FI_ADDR_UNSPEC,
			      slot);
		if (ret)
			return ret;
	}
	ret = fi_accept(client->ep, NULL, 0);
	ret = ret ?: wait_event_of(client->eq, FI_CONNECTED, NULL);
	if (ret)
		return ret;
	/*
	 * A message may have arrived before FI_CONNECTED; the handler did not read
	 * it, and is not called again for it.
	 */
	rcu_assign_pointer(client->live_ep, client->ep);
	on_readable(client->cq, client);
	return wait_event_of(client->eq, FI_SHUTDOWN, NULL);
}

/* Serves the next client. Errors of a client do not stop the listener. */
static int accept_one(struct listener *listener)
{
	struct client client = {};
	struct fi_info *info;
	int ret;

	ret = wait_event_of(listener->eq, FI_CONNREQ, &info);
	if (ret)
		return ret;
	ret = open_client(&client, listener->fabric, info);
	if (!ret)
		ret = serve(&client);
	else
		fi_reject(listener->pep, info->handle, NULL, 0);
	if (ret && ret != -FI_EINTR)
		pr_err("client: %s\n", fi_strerror(ret));
	close_client(&client);
	fi_freeinfo(info);
	return 0;
}

static int echo_handler(void *unused)
{
	struct listener listener;
	int ret;

	ret = open_listener(&listener, addr, port, FI_MSG);
	if (!ret)
		ret = serve_clients(&listener, accept_one, port);
	if (ret != -FI_EINTR)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	close_listener(&listener);
	return ret;
}

static int __init echo_handler_init(void)
{
	if (!size || !window)
		return -EINVAL;

	thread = run_thread(echo_handler);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit echo_handler_exit(void)
{
	kthread_stop_put(thread);
}

module_init(echo_handler_init);
module_exit(echo_handler_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: echo server in a completion callback");
MODULE_LICENSE("GPL");
