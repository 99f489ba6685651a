// SPDX-License-Identifier: GPL-2.0
/*
 * A client of msg_server: sends one message at a time, and verifies its echo.
 *
 *	insmod msg_client.ko addr=10.0.0.1 port=7471 size=64 count=1000
 *
 * The client's thread logs the results when it ends. The module can be unloaded
 * at any time.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ktime.h>
#include <linux/module.h>
#include "connection.h"

static char *addr;
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of the server, IPv4 or IPv6");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the server");

static uint size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "length of a message in bytes");

static uint count = 1000;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "messages to send");

static struct task_struct *thread;

struct result {
	uint echoed;
	uint errors;
	s64 usec;
};

/* Returns byte i of message number seq; consecutive messages differ. */
static u8 pattern(uint seq, uint i)
{
	return seq * 7 + i;
}

static void fill(u8 *message, uint seq)
{
	uint i;

	for (i = 0; i < size; i++)
		message[i] = pattern(seq, i);
}

static bool is_intact(const u8 *message, uint seq)
{
	uint i;

	for (i = 0; i < size; i++)
		if (message[i] != pattern(seq, i))
			return false;
	return true;
}

/* Sends message number seq and waits for its echo. */
static int round_trip(struct connection *conn, uint seq, bool *intact)
{
	void *desc = fi_mr_desc(conn->mr);
	u8 *out = conn->buf, *in = conn->buf + size;
	struct fi_cq_msg_entry sent, received;
	int ret;

	fill(out, seq);
	/* Post the receive first: the echo may arrive before fi_send() returns. */
	ret = fi_recv(conn->ep, in, size, desc, FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ret;
	ret = fi_send(conn->ep, out, size, desc, FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ret;
	ret = wait_completion_of(conn->rx_cq, &received);
	if (ret)
		return ret;
	ret = wait_completion_of(conn->tx_cq, &sent);
	if (ret)
		return ret;
	*intact = received.len == size && is_intact(in, seq);
	return 0;
}

static int transfer(struct connection *conn, struct result *result)
{
	ktime_t start;
	int ret;

	ret = fi_connect(conn->ep, NULL, NULL, 0);
	if (ret)
		return ret;
	ret = wait_event_of(conn->eq, FI_CONNECTED, NULL);
	if (ret)
		return ret;

	start = ktime_get();
	while (result->echoed < count) {
		bool intact;

		ret = round_trip(conn, result->echoed, &intact);
		if (ret)
			return ret;
		result->echoed++;
		if (!intact)
			result->errors++;
	}
	result->usec = ktime_us_delta(ktime_get(), start);
	return fi_shutdown(conn->ep, 0);
}

static int run(struct result *result)
{
	struct connection conn;
	struct fid_fabric *fabric;
	struct fi_info *info;
	int ret;

	/* The info names the device that has a route to the server. */
	ret = find_info(addr, port, 0, FI_MSG, &info);
	if (ret)
		return ret;
	ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret)
		goto free_info;
	ret = open_connection(&conn, fabric, info, 2, size);
	if (!ret)
		ret = transfer(&conn, result);
	close_connection(&conn);
	close_fid(&fabric->fid);
free_info:
	fi_freeinfo(info);
	return ret;
}

static int msg_client(void *unused)
{
	struct result result = {};
	int ret;

	ret = run(&result);
	if (ret) {
		pr_err("%s: %s\n", addr, fi_strerror(ret));
		result.errors++;
	}
	pr_info("done count=%u size=%u usec=%lld errors=%u\n",
		result.echoed, size, result.usec, result.errors);
	return ret;
}

static int __init msg_client_init(void)
{
	if (!addr || !size)
		return -EINVAL;

	thread = run_thread(msg_client);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit msg_client_exit(void)
{
	kthread_stop_put(thread);
}

module_init(msg_client_init);
module_exit(msg_client_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: message client");
MODULE_LICENSE("GPL");
