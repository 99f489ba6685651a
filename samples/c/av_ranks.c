// SPDX-License-Identifier: GPL-2.0
/*
 * The life of an address vector in its four phases, with peers of this machine:
 * each rank listens on a port of its own, as a process of a parallel program
 * does, and the master reaches all of them by their fi_addr_t.
 *
 *	insmod av_ranks.ko addr=10.0.0.1 ranks=3
 *
 * Its thread ends with a line of results.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include "listener.h"

static char *addr;
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "address of this machine, IPv4 or IPv6");

static uint ranks = 3;
module_param(ranks, uint, 0444);
MODULE_PARM_DESC(ranks, "how many peers there are");

/* The longest address that a rank can have: a struct sockaddr_in6. */
#define ADDR_LEN	28

static struct task_struct *thread;

struct world {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct listener		*rank;
	fi_addr_t		*peer;
};

/*
 * Phase 1 and 2: the vector is opened, with what is known of its use. What the
 * domain cannot do is refused here, and not when it is used.
 */
static int open_vector(struct world *world)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .rx_ctx_bits = 99 };
	int ret;

	ret = fi_av_open(world->domain, &attr, &world->av, NULL);
	pr_info("phase 2: %d receive context bits: %s\n", attr.rx_ctx_bits,
		fi_strerror(ret));
	if (!ret)
		return -FI_EOTHER;
	attr.rx_ctx_bits = 0;
	attr.count = ranks;
	return fi_av_open(world->domain, &attr, &world->av, NULL);
}

/*
 * Phase 3: the master collects what each rank says of itself, and inserts it.
 * Here that is a call; between machines it takes a channel of another kind.
 */
static int populate(struct world *world)
{
	size_t len = ADDR_LEN;
	u8 *addrs;
	int ret = 0;

	addrs = kcalloc(ranks, ADDR_LEN, GFP_KERNEL);
	if (!addrs)
		return -FI_ENOMEM;
	for (uint i = 0; i < ranks && !ret; i++) {
		/* One behind the other: they are all as long. */
		ret = fi_getname(&world->rank[i].pep->fid, addrs + i * len,
				 &len);
	}
	if (ret)
		goto out;
	ret = fi_av_insert(world->av, addrs, ranks, world->peer, 0, NULL);
	if (ret != ranks) {
		ret = ret < 0 ? ret : -FI_EADDRNOTAVAIL;
		goto out;
	}
	for (uint i = 0; i < ranks; i++) {
		char text[64];
		size_t room = sizeof(text);

		fi_av_straddr(world->av, addrs + i * len, text, &room);
		pr_info("phase 3: rank %u is %llu, %s\n", i + 1,
			world->peer[i], text);
	}
	ret = 0;
out:
	kfree(addrs);
	return ret;
}

/* The rank takes the connection that is on its way, and a message. */
static int take(struct listener *rank, struct connection *far,
		struct connection *near)
{
	struct fi_info *request;
	int ret;

	ret = wait_event_of(rank->eq, FI_CONNREQ, &request);
	if (ret)
		return ret;
	ret = open_connection(far, rank->fabric, request, 1, sizeof(fi_addr_t));
	fi_freeinfo(request);
	if (ret)
		return ret;
	ret = fi_recv(far->ep, far->buf, sizeof(fi_addr_t), fi_mr_desc(far->mr),
		      FI_ADDR_UNSPEC, NULL);
	if (ret)
		return ret;
	ret = fi_accept(far->ep, NULL, 0);
	if (ret)
		return ret;
	ret = wait_event_of(near->eq, FI_CONNECTED, NULL);
	if (ret)
		return ret;
	return wait_event_of(far->eq, FI_CONNECTED, NULL);
}

/* Phase 4: whoever has the fi_addr_t reaches the peer. */
static int greet(struct world *world, uint i)
{
	struct connection near = {}, far = {};
	struct fi_cq_msg_entry comp;
	size_t len = ADDR_LEN;
	u8 peer[ADDR_LEN];
	int ret;

	ret = fi_av_lookup(world->av, world->peer[i], peer, &len);
	if (ret)
		return ret;
	ret = open_connection(&near, world->fabric, world->info, 1,
			      sizeof(fi_addr_t));
	if (!ret)
		ret = fi_connect(near.ep, peer, NULL, 0);
	if (!ret)
		ret = take(&world->rank[i], &far, &near);
	if (!ret) {
		memcpy(near.buf, &world->peer[i], sizeof(fi_addr_t));
		ret = fi_send(near.ep, near.buf, sizeof(fi_addr_t),
			      fi_mr_desc(near.mr), FI_ADDR_UNSPEC, NULL);
	}
	if (!ret)
		ret = wait_completion_of(far.rx_cq, &comp);
	if (!ret && memcmp(far.buf, &world->peer[i], sizeof(fi_addr_t)))
		ret = -FI_EIO;
	if (!ret)
		pr_info("phase 4: rank %u has been greeted\n", i + 1);
	close_connection(&near);
	close_connection(&far);
	return ret;
}

static int live(struct world *world)
{
	int ret;

	world->rank = kcalloc(ranks, sizeof(*world->rank), GFP_KERNEL);
	world->peer = kcalloc(ranks, sizeof(*world->peer), GFP_KERNEL);
	if (!world->rank || !world->peer)
		return -FI_ENOMEM;
	ret = find_info(addr, NULL, FI_SOURCE, FI_MSG, &world->info);
	if (ret)
		return ret;
	ret = fi_fabric(world->info->fabric_attr, &world->fabric, NULL);
	if (ret)
		return ret;
	ret = fi_domain(world->fabric, world->info, &world->domain, NULL);
	if (ret)
		return ret;
	ret = open_vector(world);
	if (ret)
		return ret;
	/* No port: each rank gets one that is free. */
	for (uint i = 0; i < ranks; i++) {
		ret = open_listener(&world->rank[i], addr, NULL, FI_MSG);
		if (ret)
			return ret;
	}
	ret = populate(world);
	for (uint i = 0; i < ranks && !ret; i++)
		ret = greet(world, i);
	if (ret)
		return ret;
	/* A rank that leaves takes its fi_addr_t along. */
	return fi_av_remove(world->av, world->peer, ranks, 0);
}

static int av_ranks(void *unused)
{
	struct world world = {};
	int ret = live(&world);

	if (ret)
		pr_err("%s: %s\n", addr, fi_strerror(ret));
	for (uint i = 0; world.rank && i < ranks; i++)
		close_listener(&world.rank[i]);
	if (world.av)
		close_fid(&world.av->fid);
	if (world.domain)
		close_fid(&world.domain->fid);
	if (world.fabric)
		close_fid(&world.fabric->fid);
	fi_freeinfo(world.info);
	kfree(world.peer);
	kfree(world.rank);
	pr_info("done ranks=%u errors=%d\n", ranks, !!ret);
	return ret;
}

static int __init av_ranks_init(void)
{
	if (!addr || !ranks)
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
