// SPDX-License-Identifier: GPL-2.0
/*
 * What the peers of datagram endpoints cost that little is sent to: memory of
 * one that is known, and of one with a connection, and how long a message takes
 * that needs a connection first. Each test runs when the module is told to, and
 * says its result.
 *
 *	echo known 100000 >/sys/kernel/debug/kofi_peers/run
 */

#define pr_fmt(fmt) "bench: " fmt

#include <linux/delay.h>
#include <linux/in.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "table.h"

#define MOST_KNOWN	1000000
#define MOST_SPOKES	64
#define PATIENCE	(30 * HZ)
#define LEN		64

static char *port = "7604";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port of the endpoint that all others send to");

/* An endpoint, and what it needs. */
struct node {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct fid_cq		*cq;
	struct fid_ep		*ep;
	fi_addr_t		hub;
	u8			buf[LEN];
};

static void close(struct fid *fid)
{
	WARN_ON(fi_close(fid));
}

static void close_node(struct node *node)
{
	if (node->ep)
		close(&node->ep->fid);
	if (node->cq)
		close(&node->cq->fid);
	if (node->av)
		close(&node->av->fid);
	if (node->domain)
		close(&node->domain->fid);
	if (node->fabric)
		close(&node->fabric->fid);
	fi_freeinfo(node->info);
	memset(node, 0, sizeof(*node));
}

static int start(struct node *node)
{
	int ret;

	ret = fi_endpoint(node->domain, node->info, &node->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(node->ep, &node->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV);
	return ret ?: fi_enable(node->ep);
}

/* What it has opened when it fails is closed as the rest is. */
static int open_node(struct node *node, const char *service, bool starts)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG };
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -ENOMEM;
	/* By the device, as to another machine. */
	hints->caps = FI_MSG | FI_REMOTE_COMM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->addr_format = FI_SOCKADDR_IN;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, service, FI_SOURCE, hints,
			 &node->info);
	fi_freeinfo(hints);
	if (!ret)
		ret = fi_fabric(node->info->fabric_attr, &node->fabric, NULL);
	if (!ret)
		ret = fi_domain(node->fabric, node->info, &node->domain, NULL);
	if (!ret)
		ret = fi_av_open(node->domain, &av_attr, &node->av, NULL);
	if (!ret)
		ret = fi_cq_open(node->domain, &cq_attr, &node->cq, NULL);
	return ret || !starts ? ret : start(node);
}

/* What an address takes in the vector, in the bytes that the machine has less. */
static int weigh_known(const char *impl, bool starts, struct sockaddr_in *peers,
		       u32 count)
{
	struct node node = {};
	int ret, inserted;
	u64 before;

	ret = open_node(&node, NULL, starts);
	if (!ret) {
		before = free_bytes();
		inserted = fi_av_insert(node.av, peers, count, NULL, 0, NULL);
		say(impl, "rdm_known", count,
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

	if (!count || count > MOST_KNOWN)
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
	ret = weigh_known("kofi", false, peers, count) ?:
	      weigh_known("rdm", true, peers, count);
	vfree(peers);
	return ret;
}

/* Waits for a completion of one of both, and that it is no error. */
static int await(struct node *node)
{
	unsigned long deadline = jiffies + PATIENCE;
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

/* One message from each to the one in the middle: how long each takes. */
static int greet(struct node *hub, struct node *spokes, u32 count, u64 *each)
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
			ret = await(hub);
		if (!ret)
			ret = await(spoke);
	}
	*each = div_u64(ktime_get_ns() - start, count);
	return ret;
}

static int introduce(struct node *hub, struct node *spokes, u32 count)
{
	struct sockaddr_storage name;
	size_t len = sizeof(name);
	int ret;

	ret = fi_getname(&hub->ep->fid, &name, &len);
	for (u32 i = 0; !ret && i < count; i++)
		if (fi_av_insert(spokes[i].av, &name, 1, &spokes[i].hub, 0, NULL) != 1)
			ret = -EIO;
	return ret;
}

/* The one in the middle goes, and comes again at its address. */
static int restart(struct node *hub)
{
	close(&hub->ep->fid);
	hub->ep = NULL;
	return start(hub);
}

static int bench_met(struct node *hub, struct node *spokes, u32 count)
{
	u64 before, ns;
	int ret;

	ret = introduce(hub, spokes, count);
	before = free_bytes();
	ret = ret ?: greet(hub, spokes, count, &ns);
	if (ret)
		return ret;
	/* Both of its ends are here. */
	say("rdm", "rdm_met", count, div_u64(before - free_bytes(), 2 * count), "B");
	say("rdm", "rdm_first", count, ns, "ns");
	ret = greet(hub, spokes, count, &ns);
	if (ret)
		return ret;
	say("rdm", "rdm_next", count, ns, "ns");
	ret = restart(hub) ?: greet(hub, spokes, count, &ns);
	if (!ret)
		say("rdm", "rdm_back", count, ns, "ns");
	return ret;
}

static int bench_connections(u32 count)
{
	struct node *nodes;
	int ret;

	if (!count || count > MOST_SPOKES)
		return -EINVAL;
	nodes = kvcalloc(1 + count, sizeof(*nodes), GFP_KERNEL);
	if (!nodes)
		return -ENOMEM;
	ret = open_node(nodes, port, true);
	for (u32 i = 1; !ret && i <= count; i++)
		ret = open_node(&nodes[i], NULL, true);
	ret = ret ?: bench_met(nodes, nodes + 1, count);
	for (u32 i = 0; i <= count; i++)
		close_node(&nodes[i]);
	kvfree(nodes);
	return ret;
}

static const struct bench benches[] = {
	{ "known", bench_known },		/* addresses */
	{ "connections", bench_connections },	/* endpoints that make one */
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

MODULE_DESCRIPTION("What peers of kOFI's datagram endpoints cost");
MODULE_LICENSE("GPL");
