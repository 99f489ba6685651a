// SPDX-License-Identifier: GPL-2.0
/*
 * Uses an address vector in four phases: open, check of the attributes by the
 * provider, insertion, and transfers. The ranks of a parallel program are datagram
 * endpoints on this machine; rank 0 is the master. All ranks share one named address
 * vector: the master inserts the addresses, and the other ranks open it read-only.
 * Ranks address each other by fi_addr_t only.
 *
 *	insmod av_ranks.ko addr=10.0.0.1 ranks=3
 *
 * The thread logs the results. The ranks stay open until the module is unloaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include "connection.h"

static char *addr;
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, IPv4 or IPv6");

static uint ranks = 3;
module_param(ranks, uint, 0444);
MODULE_PARM_DESC(ranks, "number of ranks besides the master");

/* Maximum length of a rank's address: a struct sockaddr_in6 */
#define ADDR_LEN	28

static struct task_struct *thread;

/* A rank, which stands for a process: its own handle of the vector, and its endpoint */
struct rank {
	struct fid_av		*av;
	struct fid_cq		*cq;
	struct fid_ep		*ep;
	u64			*in, *out;	/* receive and send buffer */
	fi_addr_t		from;		/* sender of the last message */
	uint			sent, received;
};

struct world {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct rank		*rank;		/* rank[0] is the master */
	fi_addr_t		*fi_addrs;	/* of ranks 1, 2, ..., then the master */
};

/*
 * Phases 1 and 2: the master opens the vector with the expected number of
 * addresses. Attributes beyond the domain's limits fail here, not at the first
 * insertion.
 */
static int open_master_av(struct world *world)
{
	struct fi_av_attr bad[] = {
		{ .type = FI_AV_TABLE, .rx_ctx_bits = 99 },
		{ .type = FI_AV_TABLE, .count = SIZE_MAX },
		{ .type = FI_AV_TABLE, .ep_per_node = SIZE_MAX },
	};
	struct fi_av_attr attr = {
		.type = FI_AV_TABLE,
		.count = ranks + 1,
		.ep_per_node = ranks + 1,
		.name = "av_ranks",
	};
	int ret;

	for (int i = 0; i < ARRAY_SIZE(bad); i++) {
		ret = fi_av_open(world->domain, &bad[i], &world->rank[0].av, NULL);
		pr_info("phase 2: %d receive context bits, %zu addresses, %zu endpoints a node: %s\n",
			bad[i].rx_ctx_bits, bad[i].count, bad[i].ep_per_node,
			fi_strerror(ret));
		if (!ret)
			return -FI_EOTHER;
	}
	return fi_av_open(world->domain, &attr, &world->rank[0].av, NULL);
}

/* Opens the vector read-only, unless the rank is the master, and an endpoint on a free port. */
static int open_rank(struct world *world, struct rank *rank)
{
	struct fi_av_attr av_attr = { .name = "av_ranks", .flags = FI_READ };
	struct fi_cq_attr cq_attr = {
		.size = 8,
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	int ret = 0;

	rank->in = kzalloc_obj(*rank->in);
	rank->out = kzalloc_obj(*rank->out);
	if (!rank->in || !rank->out)
		return -FI_ENOMEM;
	if (!rank->av)
		ret = fi_av_open(world->domain, &av_attr, &rank->av, NULL);
	if (!ret)
		ret = fi_cq_open(world->domain, &cq_attr, &rank->cq, NULL);
	if (!ret)
		ret = fi_endpoint(world->domain, world->info, &rank->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(rank->ep, &rank->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(rank->ep, &rank->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_enable(rank->ep);
	return ret;
}

static void close_rank(struct rank *rank)
{
	if (rank->ep)
		close_fid(&rank->ep->fid);
	if (rank->cq)
		close_fid(&rank->cq->fid);
	if (rank->av)
		close_fid(&rank->av->fid);
	kfree(rank->out);
	kfree(rank->in);
}

/*
 * Phase 3: the master collects the addresses of all ranks, and inserts them. The
 * ranks of this sample are in one module; a program on several machines exchanges
 * addresses out of band. The master's own address is the last, so that rank 1 has
 * index 0.
 */
static int insert_addresses(struct world *world)
{
	size_t len = ADDR_LEN;
	int ret = 0;
	u8 *addrs;

	addrs = kcalloc(ranks + 1, ADDR_LEN, GFP_KERNEL);
	if (!addrs)
		return -FI_ENOMEM;
	for (uint i = 0; i <= ranks && !ret; i++) {
		/* Addresses of one family have the same length. */
		ret = fi_getname(&world->rank[(i + 1) % (ranks + 1)].ep->fid,
				 addrs + i * len, &len);
	}
	if (ret)
		goto out;
	ret = fi_av_insert(world->rank[0].av, addrs, ranks + 1, world->fi_addrs, 0,
			   NULL);
	if (ret != ranks + 1) {
		ret = ret < 0 ? ret : -FI_EADDRNOTAVAIL;
		goto out;
	}
	for (uint i = 0; i <= ranks; i++) {
		char text[64];
		size_t text_len = sizeof(text);

		fi_av_straddr(world->rank[0].av, addrs + i * len, text, &text_len);
		pr_info("phase 3: rank %u is %llu, %s\n", (i + 1) % (ranks + 1),
			world->fi_addrs[i], text);
	}
	ret = 0;
out:
	kfree(addrs);
	return ret;
}

static int post_recv(struct rank *rank)
{
	return fi_recv(rank->ep, rank->in, sizeof(*rank->in), NULL, FI_ADDR_UNSPEC,
		       rank->in);
}

static int post_send(struct rank *rank, fi_addr_t to, u64 word)
{
	*rank->out = word;
	return fi_send(rank->ep, rank->out, sizeof(*rank->out), NULL, to, rank->out);
}

/* Waits until the rank has sent @sent and received @received messages in total. */
static int wait_until(struct rank *rank, uint sent, uint received)
{
	while (rank->sent < sent || rank->received < received) {
		struct fi_cq_err_entry err = {};
		struct fi_cq_msg_entry comp;
		fi_addr_t from;
		ssize_t ret;

		if (kthread_should_stop())
			return -FI_EINTR;
		ret = fi_cq_sreadfrom(rank->cq, &comp, 1, &from, NULL, WAIT_MS);
		if (ret == -FI_EAGAIN)
			continue;
		if (ret == -FI_EAVAIL && fi_cq_readerr(rank->cq, &err, 0) == 1)
			return -err.err;
		if (ret < 0)
			return ret;
		if (comp.op_context == rank->out) {
			rank->sent++;
		} else {
			rank->received++;
			rank->from = from;
		}
	}
	return 0;
}

/*
 * Phase 4: the master sends a word to a rank, which inverts its bits and returns
 * it to the source address of the message.
 */
static int exchange(struct world *world, uint number)
{
	struct rank *master = &world->rank[0], *rank = &world->rank[number];
	fi_addr_t to = world->fi_addrs[number - 1];
	u64 word = 0x6b4f4649ULL << 32 | number;
	int ret;

	ret = post_recv(master) ?: post_recv(rank) ?: post_send(master, to, word);
	if (!ret)
		ret = wait_until(rank, 0, 1);
	if (!ret && (*rank->in != word || rank->from != world->fi_addrs[ranks]))
		ret = -FI_EIO;
	if (!ret)
		ret = post_send(rank, rank->from, ~*rank->in);
	if (!ret)
		ret = wait_until(rank, 1, 1);
	if (!ret)
		ret = wait_until(master, number, number);
	if (!ret && (*master->in != ~word || master->from != to))
		ret = -FI_EIO;
	if (!ret)
		pr_info("phase 4: rank %u has answered %llx\n", number, *master->in);
	return ret;
}

static int find_info_rdm(struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = FI_MSG | FI_SOURCE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->av_type = FI_AV_TABLE;
	/* FI_SOURCE: the address is local. Without a port each rank gets a free one. */
	ret = fi_getinfo(FI_VERSION(1, 17), addr, NULL, FI_SOURCE, hints, info);
	fi_freeinfo(hints);
	return ret;
}

static int run_phases(struct world *world)
{
	int ret;

	world->rank = kcalloc(ranks + 1, sizeof(*world->rank), GFP_KERNEL);
	world->fi_addrs = kcalloc(ranks + 1, sizeof(*world->fi_addrs), GFP_KERNEL);
	if (!world->rank || !world->fi_addrs)
		return -FI_ENOMEM;
	ret = find_info_rdm(&world->info);
	if (!ret)
		ret = fi_fabric(world->info->fabric_attr, &world->fabric, NULL);
	if (!ret)
		ret = fi_domain(world->fabric, world->info, &world->domain, NULL);
	if (!ret)
		ret = open_master_av(world);
	for (uint i = 0; i <= ranks && !ret; i++)
		ret = open_rank(world, &world->rank[i]);
	if (!ret)
		ret = insert_addresses(world);
	for (uint i = 1; i <= ranks && !ret; i++)
		ret = exchange(world, i);
	return ret;
}

/* Keeps the ranks open until the module is unloaded, then removes their addresses. */
static void wait_unload(struct world *world)
{
	int ret;

	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ);
	/* The fi_addr_t of a rank is not valid after this. */
	ret = fi_av_remove(world->rank[0].av, world->fi_addrs, ranks + 1, 0);
	if (ret)
		pr_err("fi_av_remove: %s\n", fi_strerror(ret));
}

static int av_ranks(void *unused)
{
	struct world world = {};
	int ret = run_phases(&world);

	if (ret)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	pr_info("done ranks=%u errors=%d\n", ranks, !!ret);
	if (!ret)
		wait_unload(&world);
	for (uint i = 0; world.rank && i <= ranks; i++)
		close_rank(&world.rank[i]);
	if (world.domain)
		close_fid(&world.domain->fid);
	if (world.fabric)
		close_fid(&world.fabric->fid);
	fi_freeinfo(world.info);
	kfree(world.fi_addrs);
	kfree(world.rank);
	return ret;
}

static int __init av_ranks_init(void)
{
	if (!addr || !ranks || ranks >= U16_MAX)
		return -EINVAL;

	thread = run_thread(av_ranks);
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit av_ranks_exit(void)
{
	kthread_stop_put(thread);
}

module_init(av_ranks_init);
module_exit(av_ranks_exit);
MODULE_AUTHOR("kOFI contributors");
MODULE_DESCRIPTION("kOFI sample: the four phases of an address vector");
MODULE_LICENSE("GPL");
