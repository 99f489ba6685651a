/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the suites of peer objects.
 */

#ifndef KOFI_KUNIT_PEER_H
#define KOFI_KUNIT_PEER_H

#include <rdma/fi_ext.h>

#include "rdm.h"
#include "traffic.h"

/* Bytes of each message, and number of messages with a buffer on each side. */
#define PEER_LEN	64
#define PEER_MANY	40

/* Two connected endpoints, of which the first sends. */
struct peer_ends {
	struct fid_ep	*ep[2];
	u8		*out, *in;
};

/* Opens a domain with FI_THREAD_SAFE, which peers require. */
struct kofi_fabric_fx *peer_fabric(struct kunit *test);

/* Opens a peer CQ of owner; that of peer_of() is closed with the test. */
int peer_open(struct fid_domain *domain, struct fid_peer_cq *owner, struct fid_cq **cq);
struct fid_cq *peer_of(struct kunit *test, struct fid_domain *domain, struct fid_peer_cq *owner);

/* Calls fi_export_fid(), which has to return an fid of that class; closed with the test. */
struct fid *peer_export_fid(struct kunit *test, struct fid *fid, size_t fclass);
/* Exports cq as an owner for peers; closed with the test. */
struct fid_peer_cq *peer_export(struct kunit *test, struct fid_cq *cq);

/* Connects two endpoints whose operations complete in cq. */
struct peer_ends *peer_connect(struct kunit *test, struct kofi_fabric_fx *fx, struct fid_cq *cq);

/* Posts a receive into buffer nth, which is the context; sends nth + 1 bytes from there. */
void peer_receive(struct kunit *test, struct peer_ends *ends, int nth);
void peer_send(struct kunit *test, struct peer_ends *ends, int nth);

#endif /* KOFI_KUNIT_PEER_H */
