// SPDX-License-Identifier: GPL-2.0
/*
 * Measures a datagram endpoint, the hub, to which many endpoints, the spokes, send by turns, and
 * the latency of another peer, the honest one, while messages of the spokes match no receive.
 */

#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/sort.h>
#include <rdma/fi_tagged.h>

#include "table.h"
#include "node.h"

#define MAX_SPOKES	4096
#define PORT		"7473"
#define TIMEOUT		(60 * HZ)
/* Largest number of messages in flight, from all spokes together */
#define WINDOW		64
/* Messages of a measurement, and messages of each spoke before it, which open the connections */
#define MESSAGES	(16 * MAX_SPOKES)
#define WARM_UP		2
/* Spokes that share a transmit context */
#define SHARERS		64
/* Round trips of the honest peer */
#define ROUND_TRIPS	20000
#define CAPS		(FI_MSG | FI_TAGGED | FI_REMOTE_COMM)

struct fleet {
	struct node	hub, honest;
	struct node	home;	/* objects that the spokes share */
	struct fid_ep	**ep;
	struct fid_stx	**stx;
	u32		count;
};

static void close_fleet(struct fleet *fleet)
{
	if (!fleet)
		return;
	for (u32 i = 0; fleet->ep && i < fleet->count; i++)
		if (fleet->ep[i])
			close(&fleet->ep[i]->fid);
	for (u32 i = 0; fleet->stx && i <= fleet->count / SHARERS; i++)
		if (fleet->stx[i])
			close(&fleet->stx[i]->fid);
	kvfree(fleet->ep);
	kvfree(fleet->stx);
	close_node(&fleet->home);
	close_node(&fleet->honest);
	close_node(&fleet->hub);
	kfree(fleet);
}

/* Replaces a node's info by one for endpoints with 16 receives and a shared transmit context. */
static int share_transmits(struct node *node)
{
	struct fi_info *hints = node->info;
	int ret;

	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->rx_attr->size = 16;
	node->info = NULL;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, NULL, FI_SOURCE, hints, &node->info);
	fi_freeinfo(hints);
	return ret;
}

static int open_spoke(struct fleet *fleet, u32 i)
{
	struct node *home = &fleet->home;
	struct fid_stx **stx = &fleet->stx[i / SHARERS];
	struct fi_tx_attr attr = {};
	int ret = 0;

	if (!*stx)
		ret = fi_stx_context(home->domain, &attr, stx, NULL);
	if (!ret)
		ret = fi_endpoint(home->domain, home->info, &fleet->ep[i], NULL);
	if (!ret)
		ret = fi_ep_bind(fleet->ep[i], &home->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(fleet->ep[i], &home->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(fleet->ep[i], &(*stx)->fid, 0);
	return ret ?: fi_enable(fleet->ep[i]);
}

/* Opens the hub and the spokes. close_fleet() closes them, also after an error. */
static int open_fleet(u32 count, struct fleet **out)
{
	struct fleet *fleet;
	int ret;

	/* Not on the stack: nodes contain buffers that the device accesses. */
	fleet = kzalloc_obj(*fleet);
	*out = fleet;
	if (!fleet)
		return -ENOMEM;
	fleet->count = count;
	fleet->ep = kvcalloc(count + 1, sizeof(*fleet->ep), GFP_KERNEL);
	fleet->stx = kvcalloc(count / SHARERS + 1, sizeof(*fleet->stx), GFP_KERNEL);
	if (!fleet->ep || !fleet->stx)
		return -ENOMEM;
	ret = open_objects(&fleet->hub, PORT, CAPS, MAX_SPOKES) ?:
	      open_endpoint(&fleet->hub) ?:
	      open_objects(&fleet->home, NULL, CAPS, MAX_SPOKES) ?:
	      share_transmits(&fleet->home);
	for (u32 i = 0; !ret && i < count; i++)
		ret = open_spoke(fleet, i);
	return ret ?: insert_hub(&fleet->hub, &fleet->home, 1);
}

/* Reads up to 16 entries of a completion queue. Returns their number, or a negative errno. */
static int read_entries(struct fid_cq *cq)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_msg_entry done[16];
	ssize_t ret = fi_cq_read(cq, done, ARRAY_SIZE(done));

	if (ret == -FI_EAGAIN)
		return 0;
	if (ret == -FI_EAVAIL)
		return fi_cq_readerr(cq, &error, 0) == 1 ? -error.err : -EIO;
	return ret;
}

/* Posts messages to the hub, by one spoke after the other, and a receive for each, up to @end. */
static int post_messages(struct fleet *fleet, u64 *posted, u64 end)
{
	struct node *hub = &fleet->hub, *home = &fleet->home;
	int ret = 0;

	for (; !ret && *posted < end; (*posted)++) {
		struct fid_ep *ep = fleet->ep[*posted % fleet->count];

		ret = fi_inject(ep, home->buf, LEN, home->hub);
		if (ret == -FI_EAGAIN)
			return 0;
		ret = ret ?: fi_recv(hub->ep, hub->buf, LEN, NULL, FI_ADDR_UNSPEC, NULL);
	}
	return ret;
}

/*
 * Sends @messages to the hub, by one spoke after the other, with at most WINDOW in flight. Only the
 * hub is polled: a read of the spokes' queue would poll each spoke.
 */
static int send_by_turns(struct fleet *fleet, u64 messages)
{
	unsigned long deadline = jiffies + TIMEOUT;
	u64 posted = 0, received = 0;
	int ret;

	while (received < messages) {
		ret = post_messages(fleet, &posted, min(messages, received + WINDOW)) ?:
		      read_entries(fleet->hub.cq);
		if (ret < 0)
			return ret;
		received += ret;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		cond_resched();
	}
	return 0;
}

static int measure_active(struct fleet *fleet)
{
	u64 before = free_bytes(), start;
	int ret;

	ret = send_by_turns(fleet, WARM_UP * fleet->count);
	if (ret)
		return ret;
	print_result("rdm", "rdm_active_met", fleet->count,
		     div_u64(before - free_bytes(), 2 * fleet->count), "B");
	start = ktime_get_ns();
	ret = send_by_turns(fleet, MESSAGES);
	if (!ret)
		print_result("rdm", "rdm_active", fleet->count,
			     div_u64(ktime_get_ns() - start, MESSAGES), "ns");
	return ret;
}

static int bench_active(u32 count)
{
	struct fleet *fleet;
	int ret;

	if (!count || count > MAX_SPOKES)
		return -EINVAL;
	ret = open_fleet(count, &fleet) ?: measure_active(fleet);
	close_fleet(fleet);
	return ret;
}

static int wait_entry(struct node *node)
{
	unsigned long deadline = jiffies + TIMEOUT;
	int ret;

	while (!(ret = read_entries(node->cq))) {
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		cond_resched();
	}
	return ret < 0 ? ret : 0;
}

/* Posts messages that match no receive, until no spoke could post one for half a second. */
static int fill_hub(struct fleet *fleet)
{
	unsigned long last = jiffies, deadline = jiffies + TIMEOUT;
	int ret;

	while (time_before(jiffies, last + HZ / 2)) {
		for (u32 i = 0; i < fleet->count; i++) {
			ret = fi_inject(fleet->ep[i], fleet->home.buf, LEN, fleet->home.hub);
			if (!ret)
				last = jiffies;
			else if (ret != -FI_EAGAIN)
				return ret;
		}
		ret = read_entries(fleet->hub.cq);
		if (ret)
			return ret < 0 ? ret : -EIO;
		if (time_after(jiffies, deadline))
			return -ETIMEDOUT;
		cond_resched();
	}
	return 0;
}

/* Sends a tagged message from node @from to @node, and waits for both completions. */
static int send_tagged(struct node *from, fi_addr_t to, struct node *node)
{
	return fi_trecv(node->ep, node->buf, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, NULL) ?:
	       fi_tsend(from->ep, from->buf, LEN, NULL, to, 1, NULL) ?:
	       wait_entry(node) ?: wait_entry(from);
}

static int compare_ns(const void *a, const void *b)
{
	const u64 *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

/* Makes a round trip between the honest peer and the hub. */
static int exchange(struct fleet *fleet)
{
	struct node *hub = &fleet->hub, *honest = &fleet->honest;

	return send_tagged(honest, honest->hub, hub) ?: send_tagged(hub, hub->hub, honest);
}

/* Measures the honest peer's round trips. A spoke tries to post a message before each of them. */
static int measure_honest(struct fleet *fleet, u64 *ns)
{
	int ret;

	for (u32 i = 0; i < ROUND_TRIPS; i++) {
		u64 start;

		if (fleet->count) {
			ret = fi_inject(fleet->ep[i % fleet->count], fleet->home.buf, LEN,
					fleet->home.hub);
			if (ret && ret != -FI_EAGAIN)
				return ret;
		}
		start = ktime_get_ns();
		ret = exchange(fleet);
		if (ret)
			return ret;
		ns[i] = ktime_get_ns() - start;
	}
	sort(ns, ROUND_TRIPS, sizeof(*ns), compare_ns, NULL);
	print_result("rdm", "rdm_median", fleet->count, ns[ROUND_TRIPS / 2], "ns");
	print_result("rdm", "rdm_p99", fleet->count, ns[ROUND_TRIPS / 100 * 99], "ns");
	return 0;
}

static int bench_hostile(u32 count)
{
	struct fleet *fleet = NULL;
	u64 *ns;
	int ret;

	if (count > MAX_SPOKES)
		return -EINVAL;
	ns = kvcalloc(ROUND_TRIPS, sizeof(*ns), GFP_KERNEL);
	if (!ns)
		return -ENOMEM;
	ret = open_fleet(count, &fleet);
	if (!ret)
		ret = open_objects(&fleet->honest, NULL, CAPS, 64) ?:
		      open_endpoint(&fleet->honest) ?:
		      insert_hub(&fleet->hub, &fleet->honest, 1) ?:
		      insert_hub(&fleet->honest, &fleet->hub, 1) ?:
		      exchange(fleet) ?: fill_hub(fleet) ?: measure_honest(fleet, ns);
	close_fleet(fleet);
	kvfree(ns);
	return ret;
}

static const struct bench benches[] = {
	{ "active", bench_active },	/* number of spokes that send by turns */
	{ "hostile", bench_hostile },	/* number of spokes whose messages are not received */
	{}
};

static int __init active_init(void)
{
	bench_add_file(benches);
	return 0;
}
module_init(active_init);

static void __exit active_exit(void)
{
	bench_remove_file();
}
module_exit(active_exit);

MODULE_DESCRIPTION("Cost of many active peers of a kOFI datagram endpoint");
MODULE_LICENSE("GPL");
