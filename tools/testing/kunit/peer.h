/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What suites of objects that providers share have in common.
 */

#ifndef KOFI_KUNIT_PEER_H
#define KOFI_KUNIT_PEER_H

#include <rdma/fi_ext.h>

#include "rdm.h"
#include "traffic.h"

/* Room for each message, and for how many each side has some */
#define PEER_LEN	64
#define PEER_MANY	40

/* Two connected endpoints, of which the first sends. */
struct peer_ends {
	struct fid_ep	*ep[2];
	u8		*out, *in;
};

/* A domain that is safe from any thread, as those of peers are. */
struct kofi_fabric_fx *peer_fabric(struct kunit *test);

/* A queue whose completions go to owner; that of peer_of() is closed with the test. */
int peer_open(struct fid_domain *domain, struct fid_peer_cq *owner, struct fid_cq **cq);
struct fid_cq *peer_of(struct kunit *test, struct fid_domain *domain, struct fid_peer_cq *owner);

/* fi_export_fid(), which gives an fid of that class; closed with the test. */
struct fid *peer_export_fid(struct kunit *test, struct fid *fid, size_t fclass);
/* What others put completions into cq with; closed with the test. */
struct fid_peer_cq *peer_export(struct kunit *test, struct fid_cq *cq);

/* Endpoints whose operations complete in cq. */
struct peer_ends *peer_connect(struct kunit *test, struct kofi_fabric_fx *fx, struct fid_cq *cq);

/* Receives into the nth place, which is the context; sends nth + 1 bytes from there. */
void peer_receive(struct kunit *test, struct peer_ends *ends, int nth);
void peer_send(struct kunit *test, struct peer_ends *ends, int nth);

#endif /* KOFI_KUNIT_PEER_H */
