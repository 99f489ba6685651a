// SPDX-License-Identifier: GPL-2.0
/*
 * A memory server: it lends a region to one client after another, who reads
 * and writes there without any help of this CPU.
 *
 *	insmod mem_server.ko addr=10.0.0.1 port=7471 size=65536
 *
 * Where the region is, and the key to it, goes with the accept. Whatever then
 * arrives, a message or the data of a write, asks for the sum of the region:
 * the answer is its CRC-32. A key ends with its connection: the next client is
 * given another one.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/crc32.h>
#include <linux/module.h>
#include "grant.h"
#include "listener.h"

#define CAPS	(FI_MSG | FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE)
/* Questions that a client may have under way. */
#define WINDOW	4

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "local address, IPv4 or IPv6 (default: any IPv4)");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static uint size = 65536;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "bytes of the region");

static struct task_struct *thread;
static u8 *region;

static void *slot(struct connection *conn, unsigned int n)
{
	return conn->buf + n * WORD;
}

static int post_receive(struct connection *conn, void *at)
{
	return fi_recv(conn->ep, at, WORD, fi_mr_desc(conn->mr),
		       FI_ADDR_UNSPEC, at);
}

/* Answers one question, in the place where it came. */
static int answer(struct connection *conn)
{
	struct fi_cq_msg_entry asked, sent;
	__be32 *sum;
	int ret;

	ret = wait_completion_of(conn->rx_cq, &asked);
	if (ret)
		return ret;
	sum = asked.op_context;
	*sum = cpu_to_be32(~crc32_le(~0, region, size));
	ret = fi_send(conn->ep, sum, sizeof(*sum), fi_mr_desc(conn->mr),
		      FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ret;
	ret = wait_completion_of(conn->tx_cq, &sent);
	return ret ?: post_receive(conn, sum);
}

/* Accepts the client that the endpoint was made for, until it leaves. */
static int serve(struct connection *conn, struct fid_mr *lent, u64 caps)
{
	const struct grant grant = {
		.addr = cpu_to_be64((uintptr_t)region),
		.key = cpu_to_be64(fi_mr_key(lent)),
		.len = cpu_to_be64(size),
		.caps = cpu_to_be64(caps & FI_ATOMIC),
	};
	int ret;

	for (unsigned int n = 0; n < WINDOW; n++) {
		ret = post_receive(conn, slot(conn, n));
		if (ret)
			return ret;
	}
	ret = fi_accept(conn->ep, &grant, sizeof(grant));
	if (ret)
		return ret;
	ret = wait_event_of(conn->eq, FI_CONNECTED, NULL);
	while (!ret)
		ret = answer(conn);
	/* What is posted when a connection ends comes back as cancelled. */
	if (ret != -FI_ECANCELED && ret != -FI_ENOTCONN)
		return ret;
	return wait_event_of(conn->eq, FI_SHUTDOWN, NULL);
}

/* Serves the next client, whose failures are no reason to stop listening. */
static int accept_one(struct listener *listener)
{
	struct fid_mr *lent = NULL;
	struct connection conn;
	struct fi_info *info;
	int ret;

	ret = wait_event_of(listener->eq, FI_CONNREQ, &info);
	if (ret)
		return ret;
	ret = open_connection(&conn, listener->fabric, info, WINDOW, WORD);
	/* No client sees what another one has left. */
	for (size_t i = 0; i < size; i++)
		region[i] = first_byte(i);
	/* Each client has a key of its own, to all of the region and no more. */
	if (!ret)
		ret = fi_mr_reg(conn.domain, region, size,
				FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
				&lent, NULL);
	if (!ret)
		ret = serve(&conn, lent, info->caps);
	else	/* A request that no endpoint has taken is still to be answered. */
		fi_reject(listener->pep, info->handle, NULL, 0);
	if (ret && ret != -FI_EINTR)
		pr_err("client: %s\n", fi_strerror(ret));
	/* When this returns, nobody reaches the region by that key any more. */
	if (lent)
		close_fid(&lent->fid);
	close_connection(&conn);
	fi_freeinfo(info);
	return 0;
}

static int mem_server(void *unused)
{
	struct listener listener;
	int ret;

	/* Clients may add and swap, too, where the device can. */
	ret = open_listener(&listener, addr, port, CAPS | FI_ATOMIC);
	if (ret == -FI_ENODATA) {
		close_listener(&listener);
		ret = open_listener(&listener, addr, port, CAPS);
	}
	if (!ret)
		ret = serve_clients(&listener, accept_one, port);
	if (ret != -FI_EINTR)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	close_listener(&listener);
	return ret;
}

static int __init mem_server_init(void)
{
	if (!size)
		return -EINVAL;
	region = kvmalloc(size, GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	thread = run_thread(mem_server);
	if (IS_ERR(thread))
		kvfree(region);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit mem_server_exit(void)
{
	kthread_stop_put(thread);
	kvfree(region);
}

module_init(mem_server_init);
module_exit(mem_server_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: memory server");
MODULE_LICENSE("GPL");
