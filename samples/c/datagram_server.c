// SPDX-License-Identifier: GPL-2.0
/*
 * A datagram server: one endpoint, and any number of clients, none of whom it
 * has a connection with that it knows of. Clients may be in the kernel, or
 * programs on user space's libfabric ("verbs;ofi_rxm").
 *
 *	insmod datagram_server.ko addr=10.0.0.1 port=7471
 *
 * A client says hello first: where it is, and what memory it lends. It is told
 * its number, and what memory the server lends. What it then sends with a tag
 * of its number and DATAGRAM_ECHO comes back; of DATAGRAM_FLIP, the server
 * reads the client's memory, and writes it back with each bit the other way; of
 * DATAGRAM_COUNT, it counts the first word of the client's memory up, and the
 * first word of its own, which clients may count up as well.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/in.h>
#include <linux/module.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include "connection.h"
#include "datagram.h"

#define CAPS	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
/* Messages that are received at a time. */
#define WINDOW	4
#define CLIENTS	64

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "local address, IPv4");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static uint size = SZ_2M;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "longest message, and bytes that are lent");

struct server {
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;		/* reports the removal of the device */
	struct fid_av		*av;
	struct fid_cq		*tx_cq, *rx_cq;
	struct fid_mr		*lent;
	struct fid_ep		*ep;
	u8			*buf;		/* the lent region, and WINDOW messages */
	struct datagram_hello	*hello;
	struct datagram_hello	clients[CLIENTS];
	fi_addr_t		self;
	u64			*found;		/* by what counts */
};

static struct task_struct *thread;

/* It is a peer of its own: what all count up is counted in one way. */
static int know_oneself(struct server *server)
{
	struct sockaddr_in name;
	size_t len = sizeof(name);
	int ret;

	ret = fi_getname(&server->ep->fid, &name, &len);
	if (!ret)
		ret = fi_av_insert(server->av, &name, 1, &server->self, 0, NULL);
	return ret < 0 ? ret : 0;
}

static int open_server(struct server *server)
{
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int ret;

	server->buf = kvzalloc((WINDOW + 1) * (size_t)size, GFP_KERNEL);
	server->hello = kzalloc_obj(*server->hello);
	server->found = kzalloc_obj(*server->found);
	if (!hints || !server->buf || !server->hello || !server->found) {
		ret = -FI_ENOMEM;
		goto out;
	}
	hints->caps = CAPS;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	/* FI_SOURCE: the address is ours, not that of a peer. */
	ret = fi_getinfo(FI_VERSION(1, 17), addr, port, FI_SOURCE, hints, &info);
	if (!ret)
		ret = fi_fabric(info->fabric_attr, &server->fabric, NULL);
	if (!ret)
		ret = fi_domain(server->fabric, info, &server->domain, NULL);
	if (!ret)
		ret = open_eq(server->fabric, &server->eq);
	if (!ret)
		ret = fi_domain_bind(server->domain, &server->eq->fid, 0);
	if (!ret)
		ret = fi_av_open(server->domain, &av_attr, &server->av, NULL);
	if (!ret)
		ret = fi_cq_open(server->domain, &cq_attr, &server->tx_cq, NULL);
	if (!ret)
		ret = fi_cq_open(server->domain, &cq_attr, &server->rx_cq, NULL);
	if (!ret)
		ret = fi_mr_reg(server->domain, server->buf, size,
				FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
				&server->lent, NULL);
	if (!ret)
		ret = fi_endpoint(server->domain, info, &server->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(server->ep, &server->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(server->ep, &server->tx_cq->fid, FI_TRANSMIT);
	if (!ret)
		ret = fi_ep_bind(server->ep, &server->rx_cq->fid, FI_RECV);
	if (!ret)
		ret = fi_enable(server->ep);
	if (!ret)
		ret = know_oneself(server);
out:
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return ret;
}

static void close_server(struct server *server)
{
	if (server->ep)
		close_fid(&server->ep->fid);
	if (server->lent)
		close_fid(&server->lent->fid);
	if (server->rx_cq)
		close_fid(&server->rx_cq->fid);
	if (server->tx_cq)
		close_fid(&server->tx_cq->fid);
	if (server->av)
		close_fid(&server->av->fid);
	if (server->domain)
		close_fid(&server->domain->fid);
	if (server->eq)
		close_fid(&server->eq->fid);
	if (server->fabric)
		close_fid(&server->fabric->fid);
	kfree(server->found);
	kfree(server->hello);
	kvfree(server->buf);
}

/*
 * Returns whether the server has to stop: the module is being unloaded, or the device
 * is being removed, which waits until everything up to the domain has been closed.
 */
static int check_end(struct server *server)
{
	struct fi_eq_err_entry err = {};

	if (kthread_should_stop())
		return -FI_EINTR;
	if (fi_eq_readerr(server->eq, &err, 0) > 0 && err.err == FI_ENODEV)
		return -FI_ENODEV;
	return 0;
}

static int wait_for(struct server *server, struct fid_cq *cq,
		    struct fi_cq_tagged_entry *done)
{
	struct fi_cq_err_entry err = {};
	ssize_t ret;

	do {
		ret = check_end(server);
		if (ret)
			return ret;
		ret = fi_cq_sread(cq, done, 1, NULL, TICK);
	} while (ret == -FI_EAGAIN);

	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &err, 0) == 1) {
		done->op_context = err.op_context;
		return -err.err;
	}
	return ret < 0 ? ret : 0;
}

/* Waits for what has just been started, if it has been. */
static int settle(struct server *server, int ret)
{
	struct fi_cq_tagged_entry done;

	return ret ?: wait_for(server, server->tx_cq, &done);
}

static int await_hello(struct server *server)
{
	return fi_recv(server->ep, server->hello, sizeof(*server->hello), NULL,
		       FI_ADDR_UNSPEC, server->hello);
}

static int await_message(struct server *server, void *at)
{
	return fi_trecv(server->ep, at, size, NULL, FI_ADDR_UNSPEC, 0, ~0ull, at);
}

/* A client that comes again is another one. */
static int welcome(struct server *server)
{
	struct datagram_hello *hello = server->hello;
	struct datagram_welcome answer;
	fi_addr_t number;
	int ret;

	ret = fi_av_insert(server->av, &hello->name, 1, &number, 0, NULL);
	if (ret != 1)
		return ret < 0 ? ret : -FI_EINVAL;
	if (number >= CLIENTS)
		return -FI_ENOSPC;
	server->clients[number] = *hello;
	answer = (struct datagram_welcome){
		.number = cpu_to_be64(number),
		.base = cpu_to_be64((uintptr_t)server->buf),
		.key = cpu_to_be64(fi_mr_key(server->lent)),
		.len = cpu_to_be64(size),
	};
	return fi_inject(server->ep, &answer, sizeof(answer), number);
}

static int flip(struct server *server, fi_addr_t number, u8 *at, u64 tag)
{
	const struct datagram_hello *client = &server->clients[number];
	u64 base = be64_to_cpu(client->base), key = be64_to_cpu(client->key);
	size_t len = min_t(u64, be64_to_cpu(client->len), size);
	int ret;

	ret = settle(server, fi_read(server->ep, at, len, NULL, number, base,
				     key, NULL));
	if (ret)
		return ret;
	for (size_t i = 0; i < len; i++)
		at[i] = ~at[i];
	ret = settle(server, fi_write(server->ep, at, len, NULL, number, base,
				      key, NULL));
	return ret ?: fi_tinject(server->ep, NULL, 0, number, tag);
}

static int count(struct server *server, fi_addr_t number, u64 tag)
{
	const struct datagram_hello *client = &server->clients[number];
	u64 base = be64_to_cpu(client->base), key = be64_to_cpu(client->key);
	struct fid_ep *ep = server->ep;
	u64 one = 1, last = 0;
	int ret = 0;

	for (int i = 0; !ret && i < DATAGRAM_COUNTS; i++) {
		ret = settle(server, fi_fetch_atomic(ep, &one, 1, NULL, server->found, NULL,
						     number, base, key, FI_UINT64, FI_SUM, NULL));
		/* Nobody else does. */
		if (!ret && i && *server->found != last + 1)
			ret = -FI_EIO;
		last = *server->found;
		if (!ret)
			ret = settle(server, fi_atomic(ep, &one, 1, NULL, server->self,
						       (uintptr_t)server->buf,
						       fi_mr_key(server->lent), FI_UINT64, FI_SUM,
						       NULL));
	}
	return ret ?: fi_tinject(ep, NULL, 0, number, tag);
}

/* Any other error concerns one client only. */
static bool is_end(int ret)
{
	return ret == -FI_EINTR || ret == -FI_ENODEV;
}

static int serve(struct server *server)
{
	struct fi_cq_tagged_entry done;
	fi_addr_t number;
	void *at;
	int ret;

	ret = wait_for(server, server->rx_cq, &done);
	if (is_end(ret))
		return ret;
	at = done.op_context;
	if (at == server->hello) {
		if (!ret)
			ret = welcome(server);
		if (is_end(ret))
			return ret;
		if (ret)
			pr_err("hello: %s\n", fi_strerror(ret));
		return await_hello(server);
	}
	number = done.tag / DATAGRAM_TAGS;
	if (!ret && number < CLIENTS) {
		if (done.tag % DATAGRAM_TAGS == DATAGRAM_ECHO)
			ret = settle(server, fi_tsend(server->ep, at, done.len,
						      NULL, number, done.tag,
						      NULL));
		else if (done.tag % DATAGRAM_TAGS == DATAGRAM_FLIP)
			ret = flip(server, number, at, done.tag);
		else if (done.tag % DATAGRAM_TAGS == DATAGRAM_COUNT)
			ret = count(server, number, done.tag);
	}
	if (is_end(ret))
		return ret;
	if (ret)
		pr_err("client %llu: %s\n", number, fi_strerror(ret));
	return await_message(server, at);
}

static int datagram_server(void *unused)
{
	struct server *server = kzalloc_obj(*server);
	int ret = -FI_ENOMEM;

	if (!server)
		goto out;
	ret = open_server(server);
	if (!ret)
		ret = await_hello(server);
	for (int i = 1; !ret && i <= WINDOW; i++)
		ret = await_message(server, server->buf + i * (size_t)size);
	if (!ret)
		pr_info("ready\n");
	while (!ret)
		ret = serve(server);
	if (ret != -FI_EINTR)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	close_server(server);
	kfree(server);
out:
	return ret;
}

static int __init datagram_server_init(void)
{
	thread = run_thread(datagram_server);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit datagram_server_exit(void)
{
	kthread_stop_put(thread);
}

module_init(datagram_server_init);
module_exit(datagram_server_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: datagram server");
MODULE_LICENSE("GPL");
