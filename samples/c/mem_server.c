// SPDX-License-Identifier: GPL-2.0
/*
 * A memory server: exposes a memory region to one client after another. A client
 * accesses the region by RMA, and by atomic operations if the device has them,
 * without involving the server's thread.
 *
 *	insmod mem_server.ko addr=10.0.0.1 port=7471 size=65536
 *
 * The private data of the accept is a struct region_info, with the region's
 * address, length and remote key. Each message that then arrives, and each write
 * with remote CQ data, requests the CRC-32 of the region. A key is valid for one
 * connection: each client gets its own.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/crc32.h>
#include <linux/module.h>
#include "listener.h"
#include "region_info.h"

#define CAPS	(FI_MSG | FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE)
/* CRC requests that a client may have outstanding */
#define WINDOW	4

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "local address, IPv4 or IPv6 (default: any IPv4)");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static uint size = 65536;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "length of the region in bytes");

static struct task_struct *thread;
static u8 *region;

static void *slot(struct connection *conn, unsigned int n)
{
	return conn->buf + n * WORD;
}

static int post_receive(struct connection *conn, void *buf)
{
	return fi_recv(conn->ep, buf, WORD, fi_mr_desc(conn->mr),
		       FI_ADDR_UNSPEC, buf);
}

/* Replies to one CRC request, in the buffer that received the request. */
static int answer_request(struct connection *conn)
{
	struct fi_cq_msg_entry request, reply;
	__be32 *crc;
	int ret;

	ret = wait_completion_of(conn->rx_cq, &request);
	if (ret)
		return ret;
	crc = request.op_context;
	*crc = cpu_to_be32(~crc32_le(~0, region, size));
	ret = fi_send(conn->ep, crc, sizeof(*crc), fi_mr_desc(conn->mr),
		      FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ret;
	ret = wait_completion_of(conn->tx_cq, &reply);
	return ret ?: post_receive(conn, crc);
}

/* Accepts the client of this connection, and serves it until it disconnects. */
static int serve(struct connection *conn, struct fid_mr *mr, u64 caps)
{
	const struct region_info region_info = {
		.addr = cpu_to_be64((uintptr_t)region),
		.key = cpu_to_be64(fi_mr_key(mr)),
		.len = cpu_to_be64(size),
		.caps = cpu_to_be64(caps & FI_ATOMIC),
	};
	int ret;

	for (unsigned int n = 0; n < WINDOW; n++) {
		ret = post_receive(conn, slot(conn, n));
		if (ret)
			return ret;
	}
	ret = fi_accept(conn->ep, &region_info, sizeof(region_info));
	if (ret)
		return ret;
	ret = wait_event_of(conn->eq, FI_CONNECTED, NULL);
	while (!ret)
		ret = answer_request(conn);
	/* Receives that are still posted when the connection ends are cancelled. */
	if (ret != -FI_ECANCELED && ret != -FI_ENOTCONN)
		return ret;
	return wait_event_of(conn->eq, FI_SHUTDOWN, NULL);
}

/* Serves the next client. Errors of a client do not stop the listener. */
static int accept_one(struct listener *listener)
{
	struct fid_mr *mr = NULL;
	struct connection conn;
	struct fi_info *info;
	int ret;

	ret = wait_event_of(listener->eq, FI_CONNREQ, &info);
	if (ret)
		return ret;
	ret = open_connection(&conn, listener->fabric, info, WINDOW, WORD);
	/* Reset the region, so that no client reads the data of an earlier one. */
	for (size_t i = 0; i < size; i++)
		region[i] = initial_byte(i);
	/* Each client gets its own key, which covers exactly the region. */
	if (!ret)
		ret = fi_mr_reg(conn.domain, region, size,
				FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
				&mr, NULL);
	if (!ret)
		ret = serve(&conn, mr, info->caps);
	else	/* A request that no endpoint was opened for has to be rejected. */
		fi_reject(listener->pep, info->handle, NULL, 0);
	if (ret && ret != -FI_EINTR)
		pr_err("client: %s\n", fi_strerror(ret));
	/* After this returns, the key gives no access to the region. */
	if (mr)
		close_fid(&mr->fid);
	close_connection(&conn);
	fi_freeinfo(info);
	return 0;
}

static int mem_server(void *unused)
{
	struct listener listener;
	int ret;

	/* Offer atomic operations if the device has them. */
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
