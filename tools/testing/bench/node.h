/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A datagram endpoint with its objects, for benchmarks that open many. Included once
 * by each module, after table.h.
 */

#ifndef KOFI_BENCH_NODE_H
#define KOFI_BENCH_NODE_H

#include <linux/socket.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext.h>

#define LEN		64

/* A datagram endpoint and its objects */
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

static int open_endpoint(struct node *node)
{
	/* The nodes have one IP address. */
	const size_t unlimited = 0;
	int ret;

	ret = fi_endpoint(node->domain, node->info, &node->ep, NULL);
	if (!ret)
		ret = fi_setopt(&node->ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_SOURCE_BYTES,
				&unlimited, sizeof(unlimited));
	if (!ret)
		ret = fi_ep_bind(node->ep, &node->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV);
	return ret ?: fi_enable(node->ep);
}

/*
 * Opens a node for receives up to @receives, or the default number, without an
 * endpoint. The caller calls close_node() after an error, too.
 */
static int open_objects(struct node *node, const char *service, u64 caps, size_t receives)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG };
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -ENOMEM;
	hints->caps = caps;
	hints->ep_attr->type = FI_EP_RDM;
	hints->rx_attr->size = receives;
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
	if (receives)
		cq_attr.size = 2 * receives;
	if (!ret)
		ret = fi_cq_open(node->domain, &cq_attr, &node->cq, NULL);
	return ret;
}

/* Inserts the address of the hub into the vectors of the spokes. */
static int insert_hub(struct node *hub, struct node *spokes, u32 count)
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

#endif /* KOFI_BENCH_NODE_H */
