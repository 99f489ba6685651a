// SPDX-License-Identifier: GPL-2.0
/*
 * The same as kofi_bench.c over datagram endpoints: neither side connects, each
 * finds the other in its address vector.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"rdm"
#define BENCH_PORT	7603

#include <linux/in.h>

/* The other side, wherever it is in the vector. */
#define BENCH_TO(end)	((end)->to)

/*
 * A burst that the peer has room for; and as whoever reads moves what has come,
 * nobody is to come and do it before.
 */
#define BENCH_BURST	8
#define BENCH_PAUSE_MS	0

#include "end.h"

static bool local;
module_param(local, bool, 0444);
MODULE_PARM_DESC(local, "what stays on this machine goes without the device");

/* Addresses that nobody answers at, and nothing is sent to. */
static int rdm_insert_others(struct fid_av *av, unsigned int from, unsigned int to)
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

static int rdm_open_vector(struct bench_pair *pair, struct bench_end *end)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };

	return fi_av_open(pair->domain, &attr, &end->av, NULL);
}

static int rdm_open_endpoint(struct bench_pair *pair, struct bench_end *end)
{
	struct fi_info *info = fi_dupinfo(pair->offer);
	int ret;

	if (!info)
		return -ENOMEM;
	if (!local)
		info->caps &= ~FI_LOCAL_COMM;
	/* The same device; the client has a port of its own. */
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

/* In the midst of the others. */
static int rdm_introduce(struct bench_end *end, struct bench_end *peer)
{
	unsigned int others = end->side.test->peers - 1;
	struct sockaddr_storage name;
	size_t len = sizeof(name);
	int ret;

	ret = fi_getname(&peer->ep->fid, &name, &len);
	if (!ret)
		ret = rdm_insert_others(end->av, 0, others / 2);
	if (!ret && fi_av_insert(end->av, &name, 1, &end->to, 0, NULL) != 1)
		ret = -EIO;
	return ret ?: rdm_insert_others(end->av, others / 2, others);
}

static int pair_open(struct bench_pair *pair, struct bench_test *test)
{
	int ret, i;

	if (test->links > 1)
		return -EOPNOTSUPP;
	ret = kofi_open_ends(pair, test, FI_EP_RDM);
	for (i = 0; !ret && i < 2; i++)
		ret = rdm_open_vector(pair, &pair->end[i]);
	for (i = 0; !ret && i < 2; i++)
		ret = rdm_open_endpoint(pair, &pair->end[i]);
	for (i = 0; !ret && i < 2; i++)
		ret = rdm_introduce(&pair->end[i], &pair->end[!i]);
	return ret;
}

MODULE_DESCRIPTION("Ping-pong and stream over kOFI's datagrams, to be compared with kofi_bench");
