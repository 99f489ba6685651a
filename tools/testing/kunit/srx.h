/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of connected endpoints with a shared receive context, and a peer of
 * each.
 */

#ifndef KOFI_KUNIT_SRX_H
#define KOFI_KUNIT_SRX_H

#include "traffic.h"

#define SX_PEERS 3
/* Bytes of a receive, and of nearly all messages. */
#define SX_LEN 64

/* Options of a fixture; zeroes are the defaults. */
struct sx_opts {
	size_t		size;		/* of the receive context: 16 */
	size_t		segments;	/* of each receive: 1 */
	size_t		cq_size;	/* of each completion queue: kOFI's own default */
	u64		caps;		/* besides FI_MSG */
	u64		mode;
	u64		rx_flags;	/* besides FI_RECV */
	unsigned int	peers;		/* connected by sx_open() */
	bool		count;		/* binds a counter to the receives */
	enum fi_threading threading;	/* FI_THREAD_SAFE, unless fx_serial */
};

/* ep[i] and peer[i] are connected, once sx_connect() has been called for i. */
struct sx_world {
	struct sx_opts		opts;
	struct fi_info		*info;		/* FI_SHARED_CONTEXT */
	struct fi_info		*plain;		/* of the peers */
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;
	struct fid_pep		*pep;
	struct fid_ep		*srx;
	struct fid_cntr		*cntr;
	struct fid_ep		*ep[SX_PEERS];
	struct fid_ep		*peer[SX_PEERS];
	struct fid_cq		*cq[SX_PEERS];	/* of ep[i] */
	struct fid_cq		*peer_cq[SX_PEERS];
};

/* Returns an info with a shared receive context; freed with the test. opts may be NULL. */
struct fi_info *sx_info(struct kunit *test, const struct sx_opts *opts);
/* Opens the fixture; opts may be NULL, for no peers. */
struct sx_world *sx_open(struct kunit *test, const struct sx_opts *opts);
struct fid_ep *sx_srx(struct kunit *test, struct sx_world *world);
/* Opens an endpoint of the info with everything bound but the receive context. */
struct fid_ep *sx_ep(struct kunit *test, struct sx_world *world,
		     struct fi_info *info, struct fid_cq *cq);
void sx_connect(struct kunit *test, struct sx_world *world, unsigned int i);
/* Posts count receives of SX_LEN bytes from buf on. */
void sx_post(struct kunit *test, struct sx_world *world, u8 *buf, int count);
/* Posts a receive without memory. */
ssize_t sx_recvmsg(struct fid_ep *srx, u64 flags, void *context);
/*
 * Reads the completions that the closed ep[i] has left, at most space contexts;
 * returns their number. Receives whose completions were dropped are posted
 * again.
 */
int sx_read_rest(struct kunit *test, struct sx_world *world, unsigned int i,
		 void **contexts, int space);
/* Sends that many bytes from peer i, and reads the send completion. */
void sx_send(struct kunit *test, struct sx_world *world, unsigned int i,
	     void *buf, size_t len);

#endif /* KOFI_KUNIT_SRX_H */
