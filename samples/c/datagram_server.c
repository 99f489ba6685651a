// SPDX-License-Identifier: GPL-2.0
/*
 * A datagram server: serves up to MAX_CLIENTS clients on one endpoint. kOFI
 * connects and disconnects peers by itself. Clients are in the kernel, or are
 * programs in user space on libfabric's "verbs;ofi_rxm" provider.
 *
 *	insmod datagram_server.ko addr=10.0.0.1 port=7471
 *
 * A client first sends a struct datagram_hello with its address and the memory
 * region that it exposes. The server replies with the client's number and the
 * region that the server exposes. The tag of each later message selects a request:
 *
 *	DATAGRAM_ECHO	return the message
 *	DATAGRAM_FLIP	read the client's region, and write it back inverted
 *	DATAGRAM_COUNT	increment the first word of the client's region, and the
 *			first word of the server's region, several times each
 *
 * Clients may increment the first word of the server's region at the same time.
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
/* Number of posted receives for tagged messages */
#define WINDOW	4
#define MAX_CLIENTS	64

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "local address, IPv4");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static uint size = SZ_2M;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "maximum length of a message, and length of the exposed region, in bytes");

static bool delivered;
module_param(delivered, bool, 0444);
MODULE_PARM_DESC(delivered, "replies complete when their clients have received them");

struct server {
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;		/* reports the removal of the device */
	struct fid_av		*av;
	struct fid_cq		*tx_cq, *rx_cq;
	struct fid_mr		*mr;
	struct fid_ep		*ep;
	u8			*buf;		/* the exposed region, then WINDOW messages */
	struct datagram_hello	*hello;
	struct datagram_hello	clients[MAX_CLIENTS];
	fi_addr_t		self;		/* the server's own address */
	u64			*fetched;	/* result of fi_fetch_atomic() */
};

static struct task_struct *thread;

/*
 * Inserts the server's own address. The server increments its word by the same
 * atomic operations as its clients, because the CPU's are not atomic with those.
 */
static int insert_self(struct server *server)
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
	server->fetched = kzalloc_obj(*server->fetched);
	if (!hints || !server->buf || !server->hello || !server->fetched) {
		ret = -FI_ENOMEM;
		goto out;
	}
	hints->caps = CAPS;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	/* FI_SOURCE: the address is local. */
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
				&server->mr, NULL);
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
		ret = insert_self(server);
out:
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return ret;
}

static void close_server(struct server *server)
{
	if (server->ep)
		close_fid(&server->ep->fid);
	if (server->mr)
		close_fid(&server->mr->fid);
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
	kfree(server->fetched);
	kfree(server->hello);
	kvfree(server->buf);
}

/*
 * Returns an error if the server has to stop: -FI_EINTR if the module is being
 * unloaded, -FI_ENODEV if the device is being removed. The removal waits until
 * the domain and all its objects are closed.
 */
static int check_stop(struct server *server)
{
	struct fi_eq_err_entry err = {};

	if (kthread_should_stop())
		return -FI_EINTR;
	if (fi_eq_readerr(server->eq, &err, 0) > 0 && err.err == FI_ENODEV)
		return -FI_ENODEV;
	return 0;
}

static int wait_cq(struct server *server, struct fid_cq *cq,
		   struct fi_cq_tagged_entry *done)
{
	struct fi_cq_err_entry err = {};
	ssize_t ret;

	do {
		ret = check_stop(server);
		if (ret)
			return ret;
		ret = fi_cq_sread(cq, done, 1, NULL, WAIT_MS);
	} while (ret == -FI_EAGAIN);

	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &err, 0) == 1) {
		done->op_context = err.op_context;
		return -err.err;
	}
	return ret < 0 ? ret : 0;
}

/* Waits for the completion of a transmit operation, unless posting it failed with @ret. */
static int wait_tx(struct server *server, int ret)
{
	struct fi_cq_tagged_entry done;

	return ret ?: wait_cq(server, server->tx_cq, &done);
}

static int post_hello_recv(struct server *server)
{
	return fi_recv(server->ep, server->hello, sizeof(*server->hello), NULL,
		       FI_ADDR_UNSPEC, server->hello);
}

static int post_msg_recv(struct server *server, void *at)
{
	return fi_trecv(server->ep, at, size, NULL, FI_ADDR_UNSPEC, 0, ~0ull, at);
}

/* Adds a client, and replies with its number. An address that was added before keeps its number. */
static int add_client(struct server *server)
{
	struct datagram_hello *hello = server->hello;
	struct datagram_welcome answer;
	fi_addr_t number;
	int ret;

	ret = fi_av_insert(server->av, &hello->name, 1, &number, 0, NULL);
	if (ret != 1)
		return ret < 0 ? ret : -FI_EINVAL;
	if (number >= MAX_CLIENTS)
		return -FI_ENOSPC;
	server->clients[number] = *hello;
	answer = (struct datagram_welcome){
		.number = cpu_to_be64(number),
		.base = cpu_to_be64((uintptr_t)server->buf),
		.key = cpu_to_be64(fi_mr_key(server->mr)),
		.len = cpu_to_be64(size),
	};
	return fi_inject(server->ep, &answer, sizeof(answer), number);
}

/* Sends a message back to its client. */
static int echo(struct server *server, fi_addr_t number, void *at, size_t len, u64 tag)
{
	const struct kvec iov = { .iov_base = at, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = number, .tag = tag,
	};

	return wait_tx(server, fi_tsendmsg(server->ep, &msg, delivered ? FI_DELIVERY_COMPLETE : 0));
}

static int flip(struct server *server, fi_addr_t number, u8 *at, u64 tag)
{
	const struct datagram_hello *client = &server->clients[number];
	u64 base = be64_to_cpu(client->base), key = be64_to_cpu(client->key);
	size_t len = min_t(u64, be64_to_cpu(client->len), size);
	int ret;

	ret = wait_tx(server, fi_read(server->ep, at, len, NULL, number, base,
				      key, NULL));
	if (ret)
		return ret;
	for (size_t i = 0; i < len; i++)
		at[i] = ~at[i];
	ret = wait_tx(server, fi_write(server->ep, at, len, NULL, number, base,
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
		ret = wait_tx(server, fi_fetch_atomic(ep, &one, 1, NULL, server->fetched, NULL,
						      number, base, key, FI_UINT64, FI_SUM, NULL));
		/* No other peer changes the client's word. */
		if (!ret && i && *server->fetched != last + 1)
			ret = -FI_EIO;
		last = *server->fetched;
		if (!ret)
			ret = wait_tx(server, fi_atomic(ep, &one, 1, NULL, server->self,
							(uintptr_t)server->buf,
							fi_mr_key(server->mr), FI_UINT64, FI_SUM,
							NULL));
	}
	return ret ?: fi_tinject(ep, NULL, 0, number, tag);
}

/* Returns whether the server has to stop. Any other error concerns one client only. */
static bool is_fatal(int ret)
{
	return ret == -FI_EINTR || ret == -FI_ENODEV;
}

static int serve(struct server *server)
{
	struct fi_cq_tagged_entry done;
	fi_addr_t number;
	void *at;
	int ret;

	ret = wait_cq(server, server->rx_cq, &done);
	if (is_fatal(ret))
		return ret;
	at = done.op_context;
	if (at == server->hello) {
		if (!ret)
			ret = add_client(server);
		if (is_fatal(ret))
			return ret;
		if (ret)
			pr_err("hello: %s\n", fi_strerror(ret));
		return post_hello_recv(server);
	}
	number = done.tag / DATAGRAM_TAGS;
	if (!ret && number < MAX_CLIENTS) {
		if (done.tag % DATAGRAM_TAGS == DATAGRAM_ECHO)
			ret = echo(server, number, at, done.len, done.tag);
		else if (done.tag % DATAGRAM_TAGS == DATAGRAM_FLIP)
			ret = flip(server, number, at, done.tag);
		else if (done.tag % DATAGRAM_TAGS == DATAGRAM_COUNT)
			ret = count(server, number, done.tag);
	}
	if (is_fatal(ret))
		return ret;
	if (ret)
		pr_err("client %llu: %s\n", number, fi_strerror(ret));
	return post_msg_recv(server, at);
}

static int datagram_server(void *unused)
{
	struct server *server = kzalloc_obj(*server);
	int ret = -FI_ENOMEM;

	if (!server)
		goto out;
	ret = open_server(server);
	if (!ret)
		ret = post_hello_recv(server);
	for (int i = 1; !ret && i <= WINDOW; i++)
		ret = post_msg_recv(server, server->buf + i * (size_t)size);
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
