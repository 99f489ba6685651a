/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connected endpoint in user space, on the distribution's libfabric. A failed
 * call prints a message and ends the program.
 */

#ifndef KOFI_TESTING_PEER_H
#define KOFI_TESTING_PEER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

/* Longest wait for an event or a completion, in ms. */
#define TIMEOUT_MS	20000
/* Time in ms between two checks whether the kernel has disconnected, or listens. */
#define POLL_MS		100
/* Posted receives: as many as the largest window of the kernel's clients. */
#define WINDOW		16
/* Maximum bytes of the kernel's private data. */
#define PEER_DATA	64

/* Objects of the endpoint. buf has WINDOW receive slots and one send slot. */
struct peer {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_mr *mr;
	struct fid_ep *ep;
	struct fid_pep *pep;
	size_t size;
	char *buf;
};

static inline void check(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "fi_peer: %s: %s\n", what, fi_strerror(-ret));
	exit(1);
}

static inline char *slot(struct peer *peer, unsigned long n)
{
	return peer->buf + n % (WINDOW + 1) * peer->size;
}

static inline void find(struct peer *peer, const char *addr, const char *port,
			uint64_t flags, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		check(-FI_ENOMEM, "fi_allocinfo");
	hints->caps = caps;
	hints->mode = FI_RX_CQ_DATA;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("verbs");
	ret = fi_getinfo(FI_VERSION(1, 17), addr, port, flags, hints,
			 &peer->info);
	/* Devices may lack atomics. */
	if (ret == -FI_ENODATA && caps & FI_ATOMIC) {
		hints->caps &= ~FI_ATOMIC;
		ret = fi_getinfo(FI_VERSION(1, 17), addr, port, flags, hints,
				 &peer->info);
	}
	check(ret, "fi_getinfo");
	fi_freeinfo(hints);
}

static inline void open_fabric(struct peer *peer)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	check(fi_fabric(peer->info->fabric_attr, &peer->fabric, NULL),
	      "fi_fabric");
	check(fi_eq_open(peer->fabric, &attr, &peer->eq, NULL), "fi_eq_open");
}

static inline void post_receive(struct peer *peer, unsigned long n)
{
	check(fi_recv(peer->ep, slot(peer, n), peer->size,
		      fi_mr_desc(peer->mr), 0, slot(peer, n)), "fi_recv");
}

/* Opens the endpoint with receives posted, as the kernel may send at once. */
static inline void open_endpoint(struct peer *peer, struct fi_info *info)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_UNSPEC,
		.size = 4 * WINDOW,
	};
	size_t len = (WINDOW + 1) * peer->size;

	check(fi_domain(peer->fabric, info, &peer->domain, NULL), "fi_domain");
	check(fi_cq_open(peer->domain, &attr, &peer->cq, NULL), "fi_cq_open");
	peer->buf = calloc(1, len);
	if (!peer->buf)
		check(-FI_ENOMEM, "calloc");
	check(fi_mr_reg(peer->domain, peer->buf, len, FI_SEND | FI_RECV, 0, 0,
			0, &peer->mr, NULL), "fi_mr_reg");
	check(fi_endpoint(peer->domain, info, &peer->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(peer->ep, &peer->eq->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(peer->ep, &peer->cq->fid, FI_TRANSMIT | FI_RECV),
	      "fi_ep_bind");
	check(fi_enable(peer->ep), "fi_enable");
	for (int n = 0; n < WINDOW; n++)
		post_receive(peer, n);
}

/*
 * Waits for the expected event and returns its info. Copies len bytes of the
 * kernel's private data to data.
 */
static inline struct fi_info *await_event(struct peer *peer, uint32_t expected,
					  void *data, size_t len)
{
	char buf[sizeof(struct fi_eq_cm_entry) + PEER_DATA];
	struct fi_eq_cm_entry *entry = (void *)buf;
	struct fi_eq_err_entry error = { 0 };
	uint32_t event;
	ssize_t ret;

	ret = fi_eq_sread(peer->eq, &event, entry, sizeof(buf), TIMEOUT_MS, 0);
	if (ret == -FI_EAVAIL) {
		fi_eq_readerr(peer->eq, &error, 0);
		check(-error.err, "connection");
	}
	check(ret == -FI_EAGAIN ? -FI_ETIMEDOUT : ret, "fi_eq_sread");
	check(event == expected ? 0 : -FI_EOTHER, "event");
	check((size_t)ret < sizeof(*entry) + len ? -FI_ETOOSMALL : 0,
	      "private data");
	if (len)
		memcpy(data, entry->data, len);
	return entry->info;
}

/* Returns whether the kernel disconnects within timeout ms. */
static inline int is_disconnected(struct peer *peer, int timeout)
{
	struct fi_eq_cm_entry entry;
	uint32_t event;
	ssize_t ret;

	ret = fi_eq_sread(peer->eq, &event, &entry, sizeof(entry), timeout,
			  FI_PEEK);
	return ret > 0 && event == FI_SHUTDOWN;
}

/*
 * Waits for one completion. Returns 0 if the connection has ended: the kernel
 * may disconnect as soon as it has all messages, which flushes outstanding
 * operations with various errors, before the event arrives.
 */
static inline int await_completion(struct peer *peer, struct fi_cq_msg_entry *done)
{
	struct fi_cq_err_entry error = { 0 };
	ssize_t ret = -FI_EAGAIN;

	for (int left = TIMEOUT_MS; ret == -FI_EAGAIN && left > 0; left -= POLL_MS) {
		ret = fi_cq_sread(peer->cq, done, 1, NULL, POLL_MS);
		if (ret == -FI_EAGAIN && is_disconnected(peer, 0))
			return 0;
	}
	if (ret == -FI_EAVAIL) {
		fi_cq_readerr(peer->cq, &error, 0);
		if (error.err == FI_ECANCELED || is_disconnected(peer, TIMEOUT_MS))
			return 0;
		check(-error.err, "completion");
	}
	check(ret == -FI_EAGAIN ? -FI_ETIMEDOUT : ret, "fi_cq_sread");
	return 1;
}

static inline void close_fid(struct fid *fid, const char *what)
{
	check(fi_close(fid), what);
}

static inline void close_peer(struct peer *peer)
{
	close_fid(&peer->ep->fid, "endpoint");
	close_fid(&peer->mr->fid, "region");
	close_fid(&peer->cq->fid, "completion queue");
	if (peer->pep)
		close_fid(&peer->pep->fid, "passive endpoint");
	close_fid(&peer->eq->fid, "event queue");
	close_fid(&peer->domain->fid, "domain");
	close_fid(&peer->fabric->fid, "fabric");
	fi_freeinfo(peer->info);
	free(peer->buf);
}

static inline void fill(char *at, size_t len, unsigned long seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (char)((seed + 1) * 31 + i * 7);
}

static inline void connect_to(struct peer *peer, void *data, size_t len)
{
	open_fabric(peer);
	open_endpoint(peer, peer->info);
	check(fi_connect(peer->ep, peer->info->dest_addr, NULL, 0),
	      "fi_connect");
	await_event(peer, FI_CONNECTED, data, len);
}

/* Listens, and prints a line when ready. Returns the info of the first connection request. */
static inline struct fi_info *await_request(struct peer *peer)
{
	open_fabric(peer);
	check(fi_passive_ep(peer->fabric, peer->info, &peer->pep, NULL),
	      "fi_passive_ep");
	check(fi_pep_bind(peer->pep, &peer->eq->fid, 0), "fi_pep_bind");
	check(fi_listen(peer->pep), "fi_listen");
	printf("fi_peer: ready\n");
	fflush(stdout);
	return await_event(peer, FI_CONNREQ, NULL, 0);
}

#endif /* KOFI_TESTING_PEER_H */
