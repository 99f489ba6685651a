/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps objects whose module is unloaded before they are closed. */

#ifndef KOFI_TEST_LEAVE_KEEP_H
#define KOFI_TEST_LEAVE_KEEP_H

#include <rdma/fi_domain.h>

struct fid_av_set;

/* Registers an object. leave_keep.ko closes all of them in reverse order when it is unloaded. */
void leave_keep(struct fid *fid);

/*
 * Registers objects of leave_peer.ko, which are used when leave_keep.ko is
 * unloaded, before the objects are closed: a message is sent, the queues of both
 * ends make progress, and the members of a peer's set are added to another.
 */
struct leave_use {
	struct fid_ep *ep;
	fi_addr_t to;
	struct fid_cq *cq[2];
	struct fid_av_set *set, *peer_set;
};

void leave_keep_use(const struct leave_use *use);

#endif /* KOFI_TEST_LEAVE_KEEP_H */
