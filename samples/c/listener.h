/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The listening side of a server: a fabric, a passive endpoint, the event queue
 * that receives connection requests, and the loop that serves clients.
 */

#ifndef KOFI_SAMPLE_LISTENER_H
#define KOFI_SAMPLE_LISTENER_H

#include "connection.h"

struct listener {
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *pep;
};

static inline void close_listener(struct listener *listener)
{
	if (listener->pep)
		close_fid(&listener->pep->fid);
	if (listener->eq)
		close_fid(&listener->eq->fid);
	if (listener->fabric)
		close_fid(&listener->fabric->fid);
}

/*
 * Opens a passive endpoint, and listens on @addr and @port. The caller calls
 * close_listener() after an error, too.
 */
static inline int open_listener(struct listener *listener, const char *addr,
				const char *port, u64 caps)
{
	struct fi_info *info;
	int ret;

	memset(listener, 0, sizeof(*listener));
	/* FI_SOURCE: the address is local. */
	ret = find_info(addr, port, FI_SOURCE, caps, &info);
	if (ret)
		return ret;
	ret = fi_fabric(info->fabric_attr, &listener->fabric, NULL);
	if (ret)
		goto out;
	/* The next connection request stays in this queue while a client is served. */
	ret = open_eq(listener->fabric, &listener->eq);
	if (ret)
		goto out;
	ret = fi_passive_ep(listener->fabric, info, &listener->pep, NULL);
	if (ret)
		goto out;
	ret = fi_pep_bind(listener->pep, &listener->eq->fid, 0);
	if (ret)
		goto out;
	ret = fi_listen(listener->pep);
out:
	fi_freeinfo(info);
	return ret;
}

/* Serves one client after another, until the thread is stopped. */
static inline int serve_clients(struct listener *listener,
				int (*accept_one)(struct listener *listener),
				const char *port)
{
	int ret = 0;

	pr_info("ready port=%s\n", port);
	while (!ret)
		ret = accept_one(listener);
	return ret;
}

#endif /* KOFI_SAMPLE_LISTENER_H */
