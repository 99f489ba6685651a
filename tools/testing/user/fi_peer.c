// SPDX-License-Identifier: GPL-2.0
/*
 * A peer in user space, on libfabric as the distribution has it: it sends
 * messages to the kernel's sample servers and checks what comes back, or sends
 * back what the kernel's sample clients send.
 *
 *	fi_peer client ADDRESS PORT COUNT SIZE
 *	fi_peer server ADDRESS PORT COUNT SIZE
 */

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

/* No wait is longer than this, in milliseconds. */
#define PATIENCE	20000
/* How long one lasts before its loop looks around. */
#define TICK		100
/* Receives that are posted: what the kernel's clients may have under way. */
#define WINDOW		16

/* One slot more, to send from. */
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

static void check(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "fi_peer: %s: %s\n", what, fi_strerror(-ret));
	exit(1);
}

static char *slot(struct peer *peer, unsigned long n)
{
	return peer->buf + n % (WINDOW + 1) * peer->size;
}

static void find(struct peer *peer, const char *addr, const char *port,
		 uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		check(-FI_ENOMEM, "fi_allocinfo");
	hints->caps = FI_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("verbs");
	check(fi_getinfo(FI_VERSION(1, 17), addr, port, flags, hints,
			 &peer->info), "fi_getinfo");
	fi_freeinfo(hints);
}

static void open_fabric(struct peer *peer)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	check(fi_fabric(peer->info->fabric_attr, &peer->fabric, NULL),
	      "fi_fabric");
	check(fi_eq_open(peer->fabric, &attr, &peer->eq, NULL), "fi_eq_open");
}

static void post_receive(struct peer *peer, unsigned long n)
{
	check(fi_recv(peer->ep, slot(peer, n), peer->size,
		      fi_mr_desc(peer->mr), 0, slot(peer, n)), "fi_recv");
}

/* The endpoint, with receives posted: the kernel may send at once. */
static void open_endpoint(struct peer *peer, struct fi_info *info)
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

/* Waits for an event, and gives its info away. */
static struct fi_info *await_event(struct peer *peer, uint32_t wanted)
{
	struct fi_eq_err_entry error = { 0 };
	struct fi_eq_cm_entry entry;
	uint32_t event;
	ssize_t ret;

	ret = fi_eq_sread(peer->eq, &event, &entry, sizeof(entry), PATIENCE, 0);
	if (ret == -FI_EAVAIL) {
		fi_eq_readerr(peer->eq, &error, 0);
		check(-error.err, "connection");
	}
	check(ret == -FI_EAGAIN ? -FI_ETIMEDOUT : ret, "fi_eq_sread");
	check(event == wanted ? 0 : -FI_EOTHER, "event");
	return entry.info;
}

/* Whether the kernel has left: the completions that are there come first. */
static int has_left(struct peer *peer)
{
	struct fi_eq_cm_entry entry;
	uint32_t event;
	ssize_t ret;

	ret = fi_eq_read(peer->eq, &event, &entry, sizeof(entry), FI_PEEK);
	return ret > 0 && event == FI_SHUTDOWN;
}

/* Waits for one completion; 0 when the connection has ended. */
static int await_completion(struct peer *peer, struct fi_cq_msg_entry *done)
{
	struct fi_cq_err_entry error = { 0 };
	ssize_t ret = -FI_EAGAIN;

	for (int left = PATIENCE; ret == -FI_EAGAIN && left > 0; left -= TICK) {
		ret = fi_cq_sread(peer->cq, done, 1, NULL, TICK);
		if (ret == -FI_EAGAIN && has_left(peer))
			return 0;
	}
	if (ret == -FI_EAVAIL) {
		fi_cq_readerr(peer->cq, &error, 0);
		if (error.err == FI_ECANCELED)
			return 0;
		check(-error.err, "completion");
	}
	check(ret == -FI_EAGAIN ? -FI_ETIMEDOUT : ret, "fi_cq_sread");
	return 1;
}

static void close_fid(struct fid *fid, const char *what)
{
	check(fi_close(fid), what);
}

static void close_peer(struct peer *peer)
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

static void fill(char *at, size_t len, unsigned long seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (char)((seed + 1) * 31 + i * 7);
}

/* Sends count messages, one at a time, and insists on each coming back. */
static unsigned long ask(struct peer *peer, unsigned long count)
{
	char *mine = slot(peer, WINDOW), *other = malloc(peer->size);
	struct fi_cq_msg_entry done;
	unsigned long errors = 0;

	if (!other)
		check(-FI_ENOMEM, "malloc");
	for (unsigned long n = 0; n < count; n++) {
		int sent = 0, received = 0;

		fill(mine, peer->size, n);
		memcpy(other, mine, peer->size);
		check(fi_send(peer->ep, mine, peer->size, fi_mr_desc(peer->mr),
			      0, NULL), "fi_send");
		while (!sent || !received) {
			if (!await_completion(peer, &done))
				check(-FI_ENOTCONN, "the server has left");
			if (done.flags & FI_SEND) {
				sent = 1;
				continue;
			}
			received = 1;
			errors += done.len != peer->size ||
				  memcmp(done.op_context, other, peer->size);
			check(fi_recv(peer->ep, done.op_context, peer->size,
				      fi_mr_desc(peer->mr), 0,
				      done.op_context), "fi_recv");
		}
	}
	free(other);
	return errors;
}

/* Sends every message back until the client leaves; how many there were. */
static unsigned long answer(struct peer *peer)
{
	struct fi_cq_msg_entry done;
	unsigned long count = 0;

	while (await_completion(peer, &done)) {
		void *at = done.op_context;

		/* A buffer is sent back, and then receives again. */
		if (done.flags & FI_SEND) {
			check(fi_recv(peer->ep, at, peer->size,
				      fi_mr_desc(peer->mr), 0, at), "fi_recv");
			continue;
		}
		count++;
		check(fi_send(peer->ep, at, done.len, fi_mr_desc(peer->mr), 0,
			      at), "fi_send");
	}
	return count;
}

static unsigned long be_client(struct peer *peer, const char *addr,
			       const char *port, unsigned long count)
{
	unsigned long errors;

	find(peer, addr, port, 0);
	open_fabric(peer);
	open_endpoint(peer, peer->info);
	check(fi_connect(peer->ep, peer->info->dest_addr, NULL, 0),
	      "fi_connect");
	await_event(peer, FI_CONNECTED);
	errors = ask(peer, count);
	check(fi_shutdown(peer->ep, 0), "fi_shutdown");
	return errors;
}

static unsigned long be_server(struct peer *peer, const char *addr,
			       const char *port, unsigned long count)
{
	struct fi_info *request;

	find(peer, addr, port, FI_SOURCE);
	open_fabric(peer);
	check(fi_passive_ep(peer->fabric, peer->info, &peer->pep, NULL),
	      "fi_passive_ep");
	check(fi_pep_bind(peer->pep, &peer->eq->fid, 0), "fi_pep_bind");
	check(fi_listen(peer->pep), "fi_listen");
	printf("fi_peer: ready\n");
	fflush(stdout);
	request = await_event(peer, FI_CONNREQ);
	open_endpoint(peer, request);
	check(fi_accept(peer->ep, NULL, 0), "fi_accept");
	fi_freeinfo(request);
	await_event(peer, FI_CONNECTED);
	return answer(peer) == count ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct peer peer = { 0 };
	unsigned long count, errors;

	if (argc != 6) {
		fprintf(stderr, "usage: fi_peer client|server ADDRESS PORT COUNT SIZE\n");
		return 2;
	}
	count = strtoul(argv[4], NULL, 10);
	peer.size = strtoul(argv[5], NULL, 10);
	if (strcmp(argv[1], "server"))
		errors = be_client(&peer, argv[2], argv[3], count);
	else
		errors = be_server(&peer, argv[2], argv[3], count);
	close_peer(&peer);
	printf("fi_peer: done count=%lu size=%zu errors=%lu\n", count,
	       peer.size, errors);
	return errors ? 1 : 0;
}
