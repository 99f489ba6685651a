// SPDX-License-Identifier: GPL-2.0
/*
 * A provider that uses the peer API and closes nothing in its exit function:
 * leave_keep.ko uses the objects and closes them when it is unloaded later.
 *
 *	insmod leave_peer.ko addr=10.0.0.1
 *
 * The module owns a completion queue, a shared receive context and an address
 * set, and opens kOFI objects as their peers. It is also the peer of a shared
 * receive context of kOFI. One unexpected message waits at each of the two
 * receive contexts.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext.h>
#include "leave_keep.h"

#define ENTRIES	16
#define TICKS	500	/* of 20 ms, until the message has arrived */

static char *addr = "0.0.0.0";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "local address");

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_av_set *set, *peer_set;
static struct fid_cq *cq, *peer_cq;
static struct fid_ep *srx, *peer_srx, *sender, *receiver;
static struct fid *exported;
static u8 message[8];

/* Owner of a shared receive context without posted receives: each message is unexpected. */
static struct fi_peer_rx_entry entries[ENTRIES];
static unsigned long taken;
static atomic_t queued;

static int get_msg(struct fid_peer_srx *owner, fi_addr_t from, size_t size,
		   struct fi_peer_rx_entry **entry)
{
	for (int at = 0; at < ENTRIES; at++) {
		if (!test_and_set_bit(at, &taken)) {
			*entry = &entries[at];
			return -FI_ENOENT;
		}
	}
	return -FI_ENOMEM;
}

static int get_tag(struct fid_peer_srx *owner, fi_addr_t from, u64 tag,
		   struct fi_peer_rx_entry **entry)
{
	return get_msg(owner, from, 0, entry);
}

static int queue(struct fi_peer_rx_entry *entry)
{
	atomic_inc(&queued);
	return 0;
}

static void free_entry(struct fi_peer_rx_entry *entry)
{
	clear_bit(entry - entries, &taken);
}

static struct fi_ops_srx_owner srx_ops = {
	.size = sizeof(srx_ops),
	.get_msg = get_msg,
	.get_tag = get_tag,
	.queue_msg = queue,
	.queue_tag = queue,
	.free_entry = free_entry,
};

static struct fid_peer_srx own_srx = {
	.ep_fid.fid.fclass = FI_CLASS_PEER_SRX,
	.owner_ops = &srx_ops,
};

/* Owner of a completion queue that counts completions. */
static atomic_t completions;

static ssize_t write(struct fid_peer_cq *owner, void *context, u64 flags, size_t len, void *buf,
		     u64 data, u64 tag, fi_addr_t src)
{
	atomic_inc(&completions);
	return 0;
}

static ssize_t writeerr(struct fid_peer_cq *owner, const struct fi_cq_err_entry *entry)
{
	atomic_inc(&completions);
	return 0;
}

static struct fi_ops_cq_owner cq_ops = {
	.size = sizeof(cq_ops),
	.write = write,
	.writeerr = writeerr,
};

static struct fid_peer_cq own_cq = {
	.fid.fclass = FI_CLASS_PEER_CQ,
	.owner_ops = &cq_ops,
};

/* Owner of an address set without members. */
static int members(struct fid_peer_av_set *owner, fi_addr_t *addrs, size_t *count)
{
	*count = 0;
	return 0;
}

static struct fi_ops_av_set_owner set_ops = {
	.size = sizeof(set_ops),
	.members = members,
};

static struct fid_peer_av_set own_set = {
	.fid.fclass = FI_CLASS_PEER_AV_SET,
	.owner_ops = &set_ops,
};

/* Peer of the shared receive context that kOFI exports. */
static int start(struct fi_peer_rx_entry *entry)
{
	return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
	struct fid_peer_srx *owner = container_of(exported, struct fid_peer_srx, ep_fid.fid);

	owner->owner_ops->free_entry(entry);
	return 0;
}

/* Queues an unexpected message of this module at the exported receive context. */
static int wait_for_receive(void)
{
	struct fid_peer_srx *owner = container_of(exported, struct fid_peer_srx, ep_fid.fid);
	struct fi_peer_rx_entry *entry;
	int ret;

	*owner->peer_ops = (struct fi_ops_srx_peer){
		.size = sizeof(*owner->peer_ops),
		.start_msg = start,
		.start_tag = start,
		.discard_msg = discard,
		.discard_tag = discard,
	};
	ret = owner->owner_ops->get_msg(owner, FI_ADDR_UNSPEC, 1, &entry);
	return ret == -FI_ENOENT ? owner->owner_ops->queue_msg(entry) : -FI_EOTHER;
}

static int open_sets(void)
{
	struct fi_peer_av_set_context context = {
		.size = sizeof(context),
		.av_set = &own_set,
	};
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL,
		.end_addr = FI_ADDR_NOTAVAIL,
	};
	int ret;

	ret = fi_av_set(av, &attr, &set, NULL);
	if (ret)
		return ret;
	leave_keep(&set->fid);
	attr.flags = FI_PEER_AV;
	ret = fi_av_set(av, &attr, &peer_set, &context);
	if (!ret)
		leave_keep(&peer_set->fid);
	return ret;
}

static int open_queues(void)
{
	struct fi_peer_cq_context context = {
		.size = sizeof(context),
		.cq = &own_cq,
	};
	struct fi_cq_attr attr = {};
	int ret;

	ret = fi_cq_open(domain, &attr, &cq, NULL);
	if (ret)
		return ret;
	leave_keep(&cq->fid);
	attr.flags = FI_PEER;
	ret = fi_cq_open(domain, &attr, &peer_cq, &context);
	if (!ret)
		leave_keep(&peer_cq->fid);
	return ret;
}

static int open_receives(void)
{
	struct fi_peer_srx_context context = {
		.size = sizeof(context),
		.srx = &own_srx,
	};
	struct fi_rx_attr attr = {};
	int ret;

	ret = fi_srx_context(domain, &attr, &srx, NULL);
	if (ret)
		return ret;
	leave_keep(&srx->fid);
	ret = fi_export_fid(&srx->fid, 0, &exported, NULL);
	if (ret)
		return ret;
	leave_keep(exported);
	attr.op_flags = FI_PEER;
	ret = fi_srx_context(domain, &attr, &peer_srx, &context);
	if (!ret)
		leave_keep(&peer_srx->fid);
	return ret;
}

/*
 * Opens an endpoint. The sender reports completions to the queue of this
 * module; the receiver takes receives from the receive context of this module.
 */
static int open_endpoint(struct fi_info *info, bool shares, struct fid_ep **ep)
{
	int ret;

	ret = fi_endpoint(domain, info, ep, NULL);
	if (ret)
		return ret;
	leave_keep(&(*ep)->fid);
	ret = fi_ep_bind(*ep, &av->fid, 0);
	ret = ret ?: fi_ep_bind(*ep, &cq->fid, FI_RECV);
	ret = ret ?: fi_ep_bind(*ep, shares ? &cq->fid : &peer_cq->fid, FI_TRANSMIT);
	if (shares)
		ret = ret ?: fi_ep_bind(*ep, &peer_srx->fid, 0);
	return ret ?: fi_enable(*ep);
}

static int know(struct fid_ep *ep, fi_addr_t *to)
{
	u8 name[64];
	size_t len = sizeof(name);
	int ret = fi_getname(&ep->fid, name, &len);

	if (ret)
		return ret;
	ret = fi_av_insert(av, name, 1, to, 0, NULL);
	return ret == 1 ? 0 : -FI_EOTHER;
}

/* Sends a message, which stays unexpected at the owner of the receive context. */
static int send(fi_addr_t to)
{
	int ret = fi_send(sender, message, sizeof(message), NULL, to, message);

	for (int i = 0; i < TICKS && !ret; i++) {
		fi_cq_read(peer_cq, NULL, 0);
		fi_cq_read(cq, NULL, 0);
		if (atomic_read(&queued) && atomic_read(&completions))
			return 0;
		msleep(20);
	}
	return ret ?: -FI_ETIMEDOUT;
}

static int open_all(struct fi_info *info, struct fi_info *shared)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct leave_use use = {};
	int ret;

	ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret)
		return ret;
	leave_keep(&fabric->fid);
	ret = fi_domain(fabric, info, &domain, NULL);
	if (ret)
		return ret;
	leave_keep(&domain->fid);
	ret = fi_av_open(domain, &av_attr, &av, NULL);
	if (ret)
		return ret;
	leave_keep(&av->fid);
	ret = open_sets();
	ret = ret ?: open_queues();
	ret = ret ?: open_receives();
	ret = ret ?: open_endpoint(info, false, &sender);
	ret = ret ?: open_endpoint(shared, true, &receiver);
	ret = ret ?: know(receiver, &use.to);
	ret = ret ?: wait_for_receive();
	ret = ret ?: send(use.to);
	if (ret)
		return ret;
	use.ep = sender;
	use.cq[0] = peer_cq;
	use.cq[1] = cq;
	use.set = set;
	use.peer_set = peer_set;
	leave_keep_use(&use);
	return 0;
}

static int __init leave_peer_init(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL, *shared = NULL;
	int ret = -FI_ENOMEM;

	if (!hints)
		return -ENOMEM;
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_RDM;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, NULL, FI_SOURCE, hints, &info);
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	ret = ret ?: fi_getinfo(FI_VERSION(1, 17), addr, NULL, FI_SOURCE, hints, &shared);
	ret = ret ?: open_all(info, shared);
	fi_freeinfo(shared);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	if (ret)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	else
		pr_info("ready\n");
	/* leave_keep.ko closes the open objects. */
	return ret ? -EIO : 0;
}

static void __exit leave_peer_exit(void)
{
}

module_init(leave_peer_init);
module_exit(leave_peer_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI test: an owner and peer that leaves everything open");
MODULE_LICENSE("GPL");
