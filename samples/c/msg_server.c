// SPDX-License-Identifier: GPL-2.0
/*
 * A server that echoes every message: the smallest complete kOFI service.
 *
 *	insmod msg_server.ko addr=10.0.0.1 port=7471 size=4096 window=16
 *
 * The server accepts one client after another until the module is unloaded. A
 * message has at most size bytes. A client may have window messages outstanding,
 * because each message consumes a receive that was posted before it arrives.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
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

static struct task_struct *thread;

/*
 * Returns the slot that message number n is received in and echoed from. Slots
 * are used in turn: half of them are posted as receives, the other half as sends.
 */
static void *slot(struct connection *conn, u64 n)
{
	return conn->buf + n % (2 * window) * size;
}

static int post_receive(struct connection *conn, u64 n)
{
	return fi_recv(conn->ep, slot(conn, n), size, fi_mr_desc(conn->mr),
		       FI_ADDR_UNSPEC, NULL);
}

static int post_echo(struct connection *conn, u64 n, size_t len)
{
	return fi_send(conn->ep, slot(conn, n), len, fi_mr_desc(conn->mr),
		       FI_ADDR_UNSPEC, NULL);
}

/* Echoes message number n. */
static int echo(struct connection *conn, u64 n)
{
	struct fi_cq_msg_entry received, sent;
	int ret;

	ret = wait_completion_of(conn->rx_cq, &received);
	if (ret)
		return ret;
	/* The next receive reuses the slot of the oldest echo, so wait for that echo. */
	if (n >= window) {
		ret = wait_completion_of(conn->tx_cq, &sent);
		if (ret)
			return ret;
	}
	/* Post the receive first: the client may send again when it has the echo. */
	ret = post_receive(conn, n + window);
	if (ret)
		return ret;
	return post_echo(conn, n, received.len);
}

/* Accepts the client of this connection, and serves it until it disconnects. */
static int serve(struct connection *conn)
{
	u64 n;
	int ret;

	/* Post receives before the accept: a connected client may send at once. */
	for (n = 0; n < window; n++) {
		ret = post_receive(conn, n);
		if (ret)
			return ret;
	}
	ret = fi_accept(conn->ep, NULL, 0);
	if (ret)
		return ret;
	ret = wait_event_of(conn->eq, FI_CONNECTED, NULL);
	if (ret)
		return ret;

	n = 0;
	do {
		ret = echo(conn, n++);
	} while (!ret);
	/* Receives that are still posted when the connection ends are cancelled, ... */
	if (ret != -FI_ECANCELED && ret != -FI_ENOTCONN)
		return ret;
	/* ... and the event queue then reports the disconnect. */
	return wait_event_of(conn->eq, FI_SHUTDOWN, NULL);
}

/* Serves the next client. Errors of a client do not stop the listener. */
static int accept_one(struct listener *listener)
{
	struct connection conn;
	struct fi_info *info;
	int ret;

	ret = wait_event_of(listener->eq, FI_CONNREQ, &info);
	if (ret)
		return ret;
	ret = open_connection(&conn, listener->fabric, info, 2 * window, size);
	if (!ret)
		ret = serve(&conn);
	else	/* A request that no endpoint was opened for has to be rejected. */
		fi_reject(listener->pep, info->handle, NULL, 0);
	if (ret && ret != -FI_EINTR)
		pr_err("client: %s\n", fi_strerror(ret));
	close_connection(&conn);
	fi_freeinfo(info);
	return 0;
}

static int msg_server(void *unused)
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

static int __init msg_server_init(void)
{
	if (!size || !window)
		return -EINVAL;

	thread = run_thread(msg_server);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit msg_server_exit(void)
{
	kthread_stop_put(thread);
}

module_init(msg_server_init);
module_exit(msg_server_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: message echo server");
MODULE_LICENSE("GPL");
