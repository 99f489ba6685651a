// SPDX-License-Identifier: GPL-2.0
/*
 * Cost of idle peers of datagram endpoints: memory of a peer in the address vector
 * and of a connected peer, and the latency of a message that needs a connection
 * first. A test runs when its name is written to the debugfs file, and logs its
 * results.
 *
 *	echo known 100000 >/sys/kernel/debug/kofi_peers/run
 */

#define pr_fmt(fmt) "bench: " fmt

#include <linux/delay.h>
#include <linux/in.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include "table.h"
#include "node.h"

#define MAX_KNOWN	1000000
#define MAX_SPOKES	1024
#define TIMEOUT		(30 * HZ)

static char *port = "7604";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the endpoint that all others send to");

/* Opens a node, with an endpoint if @starts. The caller calls close_node() after an error, too. */
static int open_node(struct node *node, const char *service, bool starts)
{
	/* Transfer by the device, as between machines. */
	int ret = open_objects(node, service, FI_MSG | FI_REMOTE_COMM, 0);

	return ret || !starts ? ret : open_endpoint(node);
}

/* Measures the memory of an address in a vector, as the decrease of free memory. */
static int measure_known(const char *impl, bool starts, struct sockaddr_in *peers,
			 u32 count)
{
	struct node node = {};
	int ret, inserted;
	u64 before;

	ret = open_node(&node, NULL, starts);
	if (!ret) {
		before = free_bytes();
		inserted = fi_av_insert(node.av, peers, count, NULL, 0, NULL);
		print_result(impl, "rdm_known", count,
			     div_u64(before - free_bytes(), count), "B");
		ret = inserted == count ? 0 : -EIO;
	}
	close_node(&node);
	return ret;
}

static int bench_known(u32 count)
{
	struct sockaddr_in *peers;
	int ret;

	if (!count || count > MAX_KNOWN)
		return -EINVAL;
	peers = vmalloc_array(count, sizeof(*peers));
	if (!peers)
		return -ENOMEM;
	for (u32 i = 0; i < count; i++)
		peers[i] = (struct sockaddr_in){
			.sin_family = AF_INET,
			.sin_port = htons(7471),
			.sin_addr.s_addr = htonl(0x0a000001 + i),
		};
	ret = measure_known("kofi", false, peers, count) ?:
	      measure_known("rdm", true, peers, count);
	vfree(peers);
	return ret;
}

/* Waits for a completion. Returns the error of a failed operation. */
static int wait_completion(struct node *node)
{
	unsigned long deadline = jiffies + TIMEOUT;
	struct fi_cq_err_entry error = {};
	struct fi_cq_msg_entry done;
	ssize_t ret;

	while ((ret = fi_cq_read(node->cq, &done, 1)) == -FI_EAGAIN) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		usleep_range(20, 50);
	}
	if (ret == -FI_EAVAIL)
		return fi_cq_readerr(node->cq, &error, 0) == 1 ? -error.err : -EIO;
	return ret == 1 ? 0 : ret;
}

/* Sends one message from each spoke to the hub, and returns the average time in @each. */
static int send_from_each(struct node *hub, struct node *spokes, u32 count, u64 *each)
{
	u64 start = ktime_get_ns();
	int ret = 0;

	for (u32 i = 0; !ret && i < count; i++) {
		struct node *spoke = &spokes[i];

		ret = fi_recv(hub->ep, hub->buf, LEN, NULL, FI_ADDR_UNSPEC, NULL);
		if (!ret)
			ret = fi_send(spoke->ep, spoke->buf, LEN, NULL,
				      spoke->hub, NULL);
		if (!ret)
			ret = wait_completion(hub);
		if (!ret)
			ret = wait_completion(spoke);
	}
	*each = div_u64(ktime_get_ns() - start, count);
	return ret;
}

/* Closes the hub's endpoint, and opens it again with the same address. */
static int restart(struct node *hub)
{
	close(&hub->ep->fid);
	hub->ep = NULL;
	return open_endpoint(hub);
}

/* Connects the spokes in pairs, and measures the memory of an end of these connections. */
static int connect_pairs(struct node *spokes, u32 count, u64 *each)
{
	u64 before = free_bytes(), ns;
	int ret = 0;

	for (u32 i = 0; !ret && i + 1 < count; i += 2)
		ret = insert_hub(&spokes[i + 1], &spokes[i], 1) ?:
		      send_from_each(&spokes[i + 1], &spokes[i], 1, &ns);
	*each = div_u64(before - free_bytes(), count);
	return ret;
}

static int bench_connected(struct node *hub, struct node *spokes, u32 count)
{
	u64 before, first, ns;
	int ret;

	ret = connect_pairs(spokes, count, &first) ?: insert_hub(hub, spokes, count);
	before = free_bytes();
	ret = ret ?: send_from_each(hub, spokes, count, &ns);
	if (ret)
		return ret;
	/*
	 * The first connections of an endpoint have more memory than others, and the spokes have
	 * no others. Of a connection to the hub, all but the spoke's end is the hub's.
	 */
	print_result("rdm", "rdm_first_met", count, first, "B");
	print_result("rdm", "rdm_met", count, div_u64(before - free_bytes(), count) - first, "B");
	print_result("rdm", "rdm_first", count, ns, "ns");
	ret = send_from_each(hub, spokes, count, &ns);
	if (ret)
		return ret;
	print_result("rdm", "rdm_next", count, ns, "ns");
	ret = restart(hub) ?: send_from_each(hub, spokes, count, &ns);
	if (!ret)
		print_result("rdm", "rdm_back", count, ns, "ns");
	return ret;
}

static int bench_connections(u32 count)
{
	struct node *nodes;
	int ret;

	if (!count || count % 2 || count > MAX_SPOKES)
		return -EINVAL;
	nodes = kvcalloc(1 + count, sizeof(*nodes), GFP_KERNEL);
	if (!nodes)
		return -ENOMEM;
	ret = open_node(nodes, port, true);
	for (u32 i = 1; !ret && i <= count; i++)
		ret = open_node(&nodes[i], NULL, true);
	ret = ret ?: bench_connected(nodes, nodes + 1, count);
	for (u32 i = 0; i <= count; i++)
		close_node(&nodes[i]);
	kvfree(nodes);
	return ret;
}

static const struct bench benches[] = {
	{ "known", bench_known },		/* number of addresses */
	{ "connections", bench_connections },	/* even number of endpoints that connect */
	{}
};

static int __init peers_init(void)
{
	bench_add_file(benches);
	return 0;
}
module_init(peers_init);

static void __exit peers_exit(void)
{
	bench_remove_file();
}
module_exit(peers_exit);

MODULE_DESCRIPTION("Cost of peers of kOFI's datagram endpoints");
MODULE_LICENSE("GPL");
