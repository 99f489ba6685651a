/* SPDX-License-Identifier: GPL-2.0 */
/* Fixture of datagram endpoints with a shared receive context, and of senders to them. */

#ifndef KOFI_KUNIT_RDM_SRX_H
#define KOFI_KUNIT_RDM_SRX_H

#include <rdma/fi_ext.h>

#include "rdm.h"
#include "traffic.h"

#define RS_MAX	3

/* Options of a fixture; zeroes are the defaults. */
struct rs_opts {
	int	members;	/* endpoints with the shared context: 2 */
	int	senders;	/* 1 */
	size_t	size;		/* of the receive context: 16 */
	size_t	iov_limit;	/* of its receives */
	u64	caps;		/* of members, besides FI_MSG and FI_TAGGED */
	u64	rx_flags;	/* besides FI_RECV */
	size_t	cq_size;	/* of the members' receive queues */
	bool	count;		/* binds counters to the members' receives */
	struct fid_peer_srx *owner;	/* owner of the receives, if the context is a peer */
};

struct rs_world {
	struct rs_opts		opts;
	struct fi_info		*info;		/* FI_SHARED_CONTEXT */
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_ep		*srx;
	struct kofi_rdm		member[RS_MAX];	/* cq: of receives */
	struct fid_cq		*tx_cq[RS_MAX];
	struct fid_cntr		*cntr[RS_MAX];
	struct kofi_rdm		*sender[RS_MAX];
	fi_addr_t		to[RS_MAX][RS_MAX];	/* sender, member */
};

/* Returns hints for endpoints with a shared receive context; freed with the test. */
struct fi_info *rs_hints(struct kunit *test);
/* Opens the members and senders; closed with the test. opts may be NULL. */
struct rs_world *rs_open(struct kunit *test, const struct rs_opts *opts);
struct fid_ep *rs_srx(struct kunit *test, struct rs_world *world);
/* Opens an endpoint with everything bound but the receive context. */
struct fid_ep *rs_ep(struct kunit *test, struct rs_world *world, int i);
/* Opens and enables a member's endpoint, and inserts its address at the senders. */
void rs_open_ep(struct kunit *test, struct rs_world *world, int i);
/* Posts count receives of len bytes from buf on; each is its own context. */
void rs_post(struct kunit *test, struct rs_world *world, u8 *buf, size_t len, int count);
/* Sends from a sender to a member; buf is the context. */
void rs_send(struct kunit *test, struct rs_world *world, int from, int to, const void *buf,
	     size_t len);
/* Returns the number of receives that have no completion yet. */
size_t rs_depth(struct rs_world *world);

#endif /* KOFI_KUNIT_RDM_SRX_H */
