// SPDX-License-Identifier: GPL-2.0
/*
 * The server of msg_server.c again, but no thread moves a message: everything
 * between two connections is done in the callback of a completion queue, in a
 * hard interrupt.
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
MODULE_PARM_DESC(size, "bytes of the longest message");

static ushort window = 16;
module_param(window, ushort, 0444);
MODULE_PARM_DESC(window, "messages that a client may have under way");

static bool interrupt = true;
module_param(interrupt, bool, 0444);
MODULE_PARM_DESC(interrupt, "echo in a hard interrupt (default), or where it may sleep");

static struct task_struct *thread;

struct client {
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_mr *mr;
	struct fid_ep *ep;
	/* The callback's view of it: NULL before it can send, and before it is closed. */
	struct fid_ep __rcu *live;
	char *buf;
};

/*
 * A slot of the buffer receives a message, is sent back, and receives again.
 * What a slot does next is decided by what it has done; it is the context of
 * both operations.
 */
static void next_step(struct client *client, struct fid_ep *ep,
		      struct fi_cq_msg_entry *done)
{
	void *desc = fi_mr_desc(client->mr);
	void *slot = done->op_context;

	/* A refused post means that the connection has ended: so does the slot. */
	if (done->flags & FI_SEND)
		fi_recv(ep, slot, size, desc, FI_ADDR_UNSPEC, slot);
	else
		fi_send(ep, slot, done->len, desc, FI_ADDR_UNSPEC, slot);
}

/*
 * Called when the queue has something to read, and not again before a read has
 * found it empty: so read until that happens. Reading and posting are the same
 * here as anywhere else, but nothing may sleep. Calls do not overlap.
 */
static void ready(struct fid_cq *cq, void *context)
{
	struct fi_cq_err_entry err = {};
	struct client *client = context;
	struct fi_cq_msg_entry done[8];
	struct fid_ep *ep;
	ssize_t n;

	rcu_read_lock();
	ep = rcu_dereference(client->live);
	n = ep ? 0 : -FI_EAGAIN;
	while (n >= 0) {
		n = fi_cq_read(cq, done, ARRAY_SIZE(done));
		for (ssize_t i = 0; i < n; i++)
			next_step(client, ep, &done[i]);
		/* Never post again what has failed: the connection has ended. */
		if (n == -FI_EAVAIL)
			n = fi_cq_readerr(cq, &err, 0);
	}
	rcu_read_unlock();
}

/* After an error, too, close_client() cleans up. */
static int open_client(struct client *client, struct fid_fabric *fabric,
		       struct fi_info *info)
{
	size_t slots = 2 * window;
	struct fi_cq_attr cq_attr = {
		.size = slots,
		.format = FI_CQ_FORMAT_MSG,
		.flags = interrupt ? FI_CB_CTX_INTR : 0,
		.cq_event_handler = ready,
	};
	int ret;

	client->buf = kvcalloc(slots, size, GFP_KERNEL);
	if (!client->buf)
		return -FI_ENOMEM;
	ret = fi_domain(fabric, info, &client->domain, NULL);
	ret = ret ?: fi_mr_reg(client->domain, client->buf, slots * size, 0, 0,
			       0, 0, &client->mr, NULL);
	ret = ret ?: open_eq(fabric, &client->eq);
	/* The context is what the callback is given. */
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
	/* No call is left that posts on the endpoint, and none will. */
	RCU_INIT_POINTER(client->live, NULL);
	synchronize_rcu();
	if (client->ep)
		close_fid(&client->ep->fid);
	/* Then the callback is not running, and will not run. */
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

/* Sets the client off, and has nothing to do until it leaves. */
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
	/* The first message may have been faster than FI_CONNECTED, and still be unread. */
	rcu_assign_pointer(client->live, client->ep);
	ready(client->cq, client);
	return wait_event_of(client->eq, FI_SHUTDOWN, NULL);
}

/* Serves the next client, whose failures are no reason to stop listening. */
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
