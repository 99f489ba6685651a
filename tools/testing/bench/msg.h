/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two connected endpoints over kOFI. Included once by each module, after it has
 * defined BENCH_NAME and BENCH_PORT.
 */

#ifndef KOFI_BENCH_MSG_H
#define KOFI_BENCH_MSG_H

#include "bench.h"

/* A connected endpoint takes no destination address. */
#define BENCH_DEST(end)	((void)(end), FI_ADDR_UNSPEC)

#include "kofi_end.h"

/* Waits for the event @wanted. Returns the error if the event queue reports one. */
static int kofi_wait_event(struct bench_end *end, u32 wanted,
			   struct fi_eq_cm_entry *entry)
{
	struct fi_eq_err_entry error = {};
	ssize_t ret;
	u32 event;

	ret = fi_eq_sread(end->eq, &event, entry, sizeof(*entry),
			  jiffies_to_msecs(BENCH_CONNECT_TIMEOUT), 0);
	if (ret == -FI_EAVAIL) {
		ret = fi_eq_readerr(end->eq, &error, 0);
		return ret < 0 ? ret : -error.err;
	}
	if (ret < 0)
		return ret == -FI_EAGAIN ? -ETIMEDOUT : ret;
	return event == wanted ? 0 : -FI_EOTHER;
}

/* Opens an endpoint, and posts its receives. */
static int kofi_open_ep(struct bench_pair *pair, struct bench_end *end,
			struct fi_info *info, unsigned int link)
{
	struct fid_ep **ep = &end->links[link];
	int ret;

	ret = fi_endpoint(pair->domain, info, ep, NULL);
	if (!ret)
		ret = fi_ep_bind(*ep, &end->eq->fid, 0);
	return ret ?: kofi_enable(pair, end, *ep);
}

static int kofi_listen(struct bench_pair *pair)
{
	int ret;

	ret = fi_passive_ep(pair->fabric, pair->info, &pair->pep, NULL);
	if (!ret)
		ret = fi_pep_bind(pair->pep, &pair->end[BENCH_SERVER].eq->fid,
				  0);
	return ret ?: fi_listen(pair->pep);
}

static int kofi_connect_client(struct bench_pair *pair, unsigned int link)
{
	struct bench_end *client = &pair->end[BENCH_CLIENT];
	struct fi_info *active;
	int ret;

	/* Use the same device with a free port. */
	active = fi_dupinfo(pair->info);
	if (!active)
		return -ENOMEM;
	kfree(active->src_addr);
	active->src_addr = NULL;
	active->src_addrlen = 0;
	ret = kofi_open_ep(pair, client, active, link);
	fi_freeinfo(active);
	return ret ?: fi_connect(client->ep, pair->info->src_addr, NULL, 0);
}

static int kofi_accept(struct bench_pair *pair, struct fi_info *request,
		       unsigned int link)
{
	struct bench_end *server = &pair->end[BENCH_SERVER];
	int ret;

	request->tx_attr->size = bench_send_depth(server->side.test);
	request->rx_attr->size = bench_recv_depth(server->side.test);
	request->tx_attr->iov_limit = 1;
	request->rx_attr->iov_limit = 1;
	ret = kofi_open_ep(pair, server, request, link);
	fi_freeinfo(request);
	return ret ?: fi_accept(server->ep, NULL, 0);
}

static int kofi_connect(struct bench_pair *pair, unsigned int link)
{
	struct bench_end *client = &pair->end[BENCH_CLIENT];
	struct bench_end *server = &pair->end[BENCH_SERVER];
	struct fi_eq_cm_entry entry;
	int ret;

	ret = kofi_connect_client(pair, link);
	if (!ret)
		ret = kofi_wait_event(server, FI_CONNREQ, &entry);
	if (!ret)
		ret = kofi_accept(pair, entry.info, link);
	if (!ret)
		ret = kofi_wait_event(server, FI_CONNECTED, &entry);
	return ret ?: kofi_wait_event(client, FI_CONNECTED, &entry);
}

static int pair_open(struct bench_pair *pair, struct bench_test *test)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	int ret, i;

	ret = kofi_open_ends(pair, test, FI_EP_MSG);
	for (i = 0; !ret && i < 2; i++)
		ret = fi_eq_open(pair->fabric, &attr, &pair->end[i].eq, NULL);
	if (!ret)
		ret = kofi_listen(pair);
	for (i = 0; !ret && i < test->links; i++)
		ret = kofi_connect(pair, i);
	return ret;
}

#endif /* KOFI_BENCH_MSG_H */
