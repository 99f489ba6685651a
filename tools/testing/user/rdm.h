/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagram endpoint in user space, on the distribution's libfabric.
 */

#ifndef KOFI_TESTING_RDM_H
#define KOFI_TESTING_RDM_H

#include <netinet/in.h>
#include <sched.h>
#include <time.h>

#include "peer.h"

/* Time in ms for which an endpoint makes progress before it is closed. */
#define DRAIN_MS	100

/* Value of the argument own for two processes of one host: a provider that needs no address. */
#define WITHIN_HOST	"shm"

/* Opens an endpoint with a buffer of len bytes for sends, receives and remote access. */
static inline void open_rdm(struct peer *peer, struct fid_av **av, const char *own, uint64_t caps,
			    enum fi_cq_format format, size_t len)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = format, .size = 512 };
	uint64_t access = FI_SEND | FI_RECV;
	int within_host = !strcmp(own, WITHIN_HOST);
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		check(-FI_ENOMEM, "fi_allocinfo");
	hints->caps = caps;
	hints->mode = FI_CONTEXT;
	hints->addr_format = within_host ? FI_ADDR_STR : FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(within_host ? own : "verbs;ofi_rxm");
	if (within_host)
		check(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &peer->info),
		      "fi_getinfo");
	else
		check(fi_getinfo(FI_VERSION(1, 17), own, "0", FI_SOURCE, hints, &peer->info),
		      "fi_getinfo");
	fi_freeinfo(hints);
	check(fi_fabric(peer->info->fabric_attr, &peer->fabric, NULL), "fi_fabric");
	check(fi_domain(peer->fabric, peer->info, &peer->domain, NULL), "fi_domain");
	check(fi_cq_open(peer->domain, &cq_attr, &peer->cq, NULL), "fi_cq_open");
	check(fi_av_open(peer->domain, &av_attr, av, NULL), "fi_av_open");
	check(fi_endpoint(peer->domain, peer->info, &peer->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(peer->ep, &(*av)->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(peer->ep, &peer->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	check(fi_enable(peer->ep), "fi_enable");
	peer->buf = calloc(1, len);
	if (!peer->buf)
		check(-FI_ENOMEM, "calloc");
	if (caps & FI_RMA)
		access |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	check(fi_mr_reg(peer->domain, peer->buf, len, access, 0, 0, 0, &peer->mr, NULL),
	      "fi_mr_reg");
}

static inline uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000ULL + at.tv_nsec;
}

/*
 * Reads completions and handles packets such as credits before the endpoint is
 * closed: rxm_close_conn() of libfabric up to 2.6 frees a connection before it
 * handles its unread packets.
 */
static inline void drain(struct peer *peer)
{
	uint64_t until = now() + DRAIN_MS * 1000000ULL;
	struct fi_cq_tagged_entry done;
	ssize_t ret;

	do {
		ret = fi_cq_read(peer->cq, &done, 1);
		if (ret == -FI_EAGAIN)
			sched_yield();
	} while (now() < until && (ret > 0 || ret == -FI_EAGAIN));
}

static inline void close_rdm(struct peer *peer, struct fid_av *av)
{
	drain(peer);
	close_fid(&peer->ep->fid, "endpoint");
	close_fid(&peer->mr->fid, "region");
	close_fid(&peer->cq->fid, "completion queue");
	close_fid(&av->fid, "address vector");
	close_fid(&peer->domain->fid, "domain");
	close_fid(&peer->fabric->fid, "fabric");
	fi_freeinfo(peer->info);
	free(peer->buf);
}

#endif /* KOFI_TESTING_RDM_H */
