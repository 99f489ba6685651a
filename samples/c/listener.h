/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a server needs until a client comes: a fabric, a passive endpoint that
 * listens, the event queue where the requests arrive, and the loop around all.
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

/* After an error, too, close_listener() cleans up. */
static inline int open_listener(struct listener *listener, const char *addr,
				const char *port, u64 caps)
{
	struct fi_info *info;
	int ret;

	memset(listener, 0, sizeof(*listener));
	/* FI_SOURCE: the address is ours, not that of a peer. */
	ret = find_info(addr, port, FI_SOURCE, caps, &info);
	if (ret)
		return ret;
	ret = fi_fabric(info->fabric_attr, &listener->fabric, NULL);
	if (ret)
		goto out;
	/* A queue of its own: the next client waits there for its turn. */
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

/* Has one client after another served, until the thread is stopped. */
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
