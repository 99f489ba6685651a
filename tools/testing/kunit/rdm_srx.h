/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram endpoints that share their receives, and others that send to them: see rdm_srx.c. */

#ifndef KOFI_KUNIT_RDM_SRX_H
#define KOFI_KUNIT_RDM_SRX_H

#include <rdma/fi_ext.h>

#include "rdm.h"
#include "traffic.h"

#define RS_MOST	3

/* Zeroes are the defaults. */
struct rs_opts {
	int	members;	/* those who share: 2 */
	int	senders;	/* 1 */
	size_t	size;		/* of the receive context: 16 */
	u64	caps;		/* of members, besides FI_MSG and FI_TAGGED */
	u64	rx_flags;	/* besides FI_RECV */
	size_t	cq_size;	/* of members, for what they receive */
	bool	count;		/* what members receive */
	struct fid_peer_srx *owner;	/* whose receives they are, if they are a peer's */
};

struct rs_world {
	struct rs_opts		opts;
	struct fi_info		*info;		/* FI_SHARED_CONTEXT */
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_ep		*srx;
	struct kofi_rdm		member[RS_MOST];	/* cq: for what they receive */
	struct fid_cq		*tx_cq[RS_MOST];
	struct fid_cntr		*cntr[RS_MOST];
	struct kofi_rdm		*sender[RS_MOST];
	fi_addr_t		to[RS_MOST][RS_MOST];	/* sender, member */
};

/* Hints for endpoints that share their receives; freed with the test. */
struct fi_info *rs_hints(struct kunit *test);
/* opts may be NULL; what it opens is closed with the test. */
struct rs_world *rs_open(struct kunit *test, const struct rs_opts *opts);
struct fid_ep *rs_srx(struct kunit *test, struct rs_world *world);
/* An endpoint with everything bound but receives. */
struct fid_ep *rs_ep(struct kunit *test, struct rs_world *world, int i);
/* Opens a member again that was closed; senders know it. */
void rs_join(struct kunit *test, struct rs_world *world, int i);
/* Posts receives, one behind the other in memory; each is its own context. */
void rs_post(struct kunit *test, struct rs_world *world, u8 *buf, size_t len, int count);
/* A sender sends to a member; its context is the memory. */
void rs_send(struct kunit *test, struct rs_world *world, int from, int to, const void *buf,
	     size_t len);
/* How many receives are posted, or have been taken and not been told of. */
size_t rs_depth(struct rs_world *world);

#endif /* KOFI_KUNIT_RDM_SRX_H */
