// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest client: sends one message to msg_server, and verifies its echo.
 * hello_verbs.c is the same program on the RDMA core; Documentation/verbs.rst
 * compares the two.
 *
 *	insmod hello_fabric.ko addr=10.0.0.1 port=7471
 *
 * The module does all of this while it is loaded. Loading fails if that fails.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/fi_cm.h>

static char *addr = "127.0.0.1";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of the server, IPv4 or IPv6");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the server");

#define SIZE		64
#define TIMEOUT_MS	10000

struct hello {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	char *out, *in;
};

static int open_hello(struct hello *h)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = {
		.size = 2,
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fi_info *hints = fi_allocinfo();
	int ret;

	h->out = kzalloc(SIZE, GFP_KERNEL);
	h->in = kzalloc(SIZE, GFP_KERNEL);
	if (!h->out || !h->in || !hints) {
		fi_freeinfo(hints);
		return -FI_ENOMEM;
	}
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, port, 0, hints, &h->info);
	fi_freeinfo(hints);
	if (ret)
		return ret;
	ret = fi_fabric(h->info->fabric_attr, &h->fabric, NULL);
	if (ret)
		return ret;
	ret = fi_domain(h->fabric, h->info, &h->domain, NULL);
	if (ret)
		return ret;
	ret = fi_eq_open(h->fabric, &eq_attr, &h->eq, NULL);
	if (ret)
		return ret;
	ret = fi_cq_open(h->domain, &cq_attr, &h->cq, NULL);
	if (ret)
		return ret;
	ret = fi_endpoint(h->domain, h->info, &h->ep, NULL);
	if (ret)
		return ret;
	ret = fi_ep_bind(h->ep, &h->eq->fid, 0);
	if (ret)
		return ret;
	return fi_ep_bind(h->ep, &h->cq->fid, FI_TRANSMIT | FI_RECV);
}

static int connect_hello(struct hello *h)
{
	struct fi_eq_cm_entry entry;
	ssize_t ret;
	u32 event;

	ret = fi_enable(h->ep);
	if (ret)
		return ret;
	/* Post the receive before the peer can send. */
	ret = fi_recv(h->ep, h->in, SIZE, NULL, FI_ADDR_UNSPEC, h->in);
	if (ret)
		return ret;
	ret = fi_connect(h->ep, NULL, NULL, 0);
	if (ret)
		return ret;
	ret = fi_eq_sread(h->eq, &event, &entry, sizeof(entry), TIMEOUT_MS, 0);
	if (ret < 0)
		return ret;
	return event == FI_CONNECTED ? 0 : -FI_ENOTCONN;
}

static int exchange(struct hello *h)
{
	struct fi_cq_msg_entry entry;
	struct fi_cq_err_entry err = {};
	int left = 2;
	ssize_t ret;

	strscpy(h->out, "hello", SIZE);
	ret = fi_send(h->ep, h->out, SIZE, NULL, FI_ADDR_UNSPEC, h->out);
	if (ret)
		return ret;
	while (left--) {
		ret = fi_cq_sread(h->cq, &entry, 1, NULL, TIMEOUT_MS);
		if (ret == -FI_EAVAIL && fi_cq_readerr(h->cq, &err, 0) == 1)
			return -err.err;
		if (ret < 0)
			return ret;
	}
	return memcmp(h->in, h->out, SIZE) ? -EBADMSG : 0;
}

static void close_hello(struct hello *h)
{
	if (h->ep)
		fi_close(&h->ep->fid);
	if (h->cq)
		fi_close(&h->cq->fid);
	if (h->eq)
		fi_close(&h->eq->fid);
	if (h->domain)
		fi_close(&h->domain->fid);
	if (h->fabric)
		fi_close(&h->fabric->fid);
	fi_freeinfo(h->info);
	kfree(h->out);
	kfree(h->in);
}

static int __init hello_init(void)
{
	struct hello h = {};
	int ret;

	ret = open_hello(&h);
	if (!ret)
		ret = connect_hello(&h);
	if (!ret)
		ret = exchange(&h);
	close_hello(&h);
	if (ret)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	else
		pr_info("%s: echo received\n", addr);
	/* insmod does not know the fabric errnos. */
	return ret ? -EIO : 0;
}

static void __exit hello_exit(void)
{
}

module_init(hello_init);
module_exit(hello_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: hello, over kOFI");
MODULE_LICENSE("GPL");
