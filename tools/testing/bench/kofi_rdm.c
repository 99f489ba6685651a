// SPDX-License-Identifier: GPL-2.0
/*
 * The measured loops over datagram endpoints: neither side connects, and each has
 * the other's address in its address vector.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"rdm"
#define BENCH_PORT	7603
#define BENCH_NO_REGISTER

#include <linux/in.h>

/* Address of the other side in the address vector */
#define BENCH_DEST(end)	((end)->dest)

/*
 * A burst for which the peer has posted receives. Without a pause, because a read
 * drives progress, and no worker is to do that before the measured read.
 */
#define BENCH_BURST	8
#define BENCH_PAUSE_MS	0

#include "kofi_end.h"

static bool local;
module_param(local, bool, 0444);
MODULE_PARM_DESC(local, "transfer messages within this machine without the device");

/* Inserts addresses that have no endpoint and are never sent to. */
static int rdm_insert_unused(struct fid_av *av, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		struct sockaddr_in other = {
			.sin_family = AF_INET,
			.sin_port = htons(BENCH_PORT),
			.sin_addr.s_addr = htonl(0x0b000000 + i),
		};

		if (fi_av_insert(av, &other, 1, NULL, 0, NULL) != 1)
			return -EIO;
	}
	return 0;
}

static int rdm_open_av(struct bench_pair *pair, struct bench_end *end)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };

	return fi_av_open(pair->domain, &attr, &end->av, NULL);
}

static int rdm_open_ep(struct bench_pair *pair, struct bench_end *end)
{
	struct fi_info *info = fi_dupinfo(pair->info);
	int ret;

	if (!info)
		return -ENOMEM;
	if (!local)
		info->caps &= ~FI_LOCAL_COMM;
	/* Use one device for both ends, and a free port for the client. */
	if (end == &pair->end[BENCH_CLIENT]) {
		struct sockaddr *own = info->src_addr;

		if (own->sa_family == AF_INET)
			((struct sockaddr_in *)own)->sin_port = 0;
	}
	ret = fi_endpoint(pair->domain, info, end->links, NULL);
	fi_freeinfo(info);
	if (!ret)
		ret = fi_ep_bind(*end->links, &end->av->fid, 0);
	return ret ?: kofi_enable(pair, end, *end->links);
}

/* Inserts the peer's address in the middle of the unused ones. */
static int rdm_insert_peer(struct bench_end *end, struct bench_end *peer)
{
	unsigned int others = end->side.test->peers - 1;
	struct sockaddr_storage name;
	size_t len = sizeof(name);
	int ret;

	ret = fi_getname(&peer->ep->fid, &name, &len);
	if (!ret)
		ret = rdm_insert_unused(end->av, 0, others / 2);
	if (!ret && fi_av_insert(end->av, &name, 1, &end->dest, 0, NULL) != 1)
		ret = -EIO;
	return ret ?: rdm_insert_unused(end->av, others / 2, others);
}

static int pair_open(struct bench_pair *pair, struct bench_test *test)
{
	int ret, i;

	if (test->links > 1)
		return -EOPNOTSUPP;
	ret = kofi_open_ends(pair, test, FI_EP_RDM);
	for (i = 0; !ret && i < 2; i++)
		ret = rdm_open_av(pair, &pair->end[i]);
	for (i = 0; !ret && i < 2; i++)
		ret = rdm_open_ep(pair, &pair->end[i]);
	for (i = 0; !ret && i < 2; i++)
		ret = rdm_insert_peer(&pair->end[i], &pair->end[!i]);
	return ret;
}

MODULE_DESCRIPTION("Ping-pong and stream over kOFI's datagrams, to be compared with kofi_bench");
