/* SPDX-License-Identifier: GPL-2.0 */
/* Scalable endpoints of this machine, with queues for each of their contexts. */

#ifndef KOFI_KUNIT_SEP_H
#define KOFI_KUNIT_SEP_H

#include "rdm.h"

#define SEP_MOST	16

/* Whose messages have a context, each context is a receiver; zeroes are the defaults. */
struct sep_opts {
	size_t	txs, rxs;	/* SEP_MOST each */
	u64	caps;		/* besides FI_MSG, FI_TAGGED and FI_NAMED_RX_CTX */
	size_t	rx_size;	/* 64 */
	size_t	cq_size;
	u64	cq_flags;	/* FI_SELECTIVE_COMPLETION */
	bool	one_cq;		/* all contexts have one queue */
};

struct sep {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;		/* with as many bits as receive contexts need */
	struct fid_ep		*ep;
	size_t			txs, rxs;
	struct fid_ep		*tx[SEP_MOST], *rx[SEP_MOST];
	struct fid_cq		*tx_cq[SEP_MOST], *rx_cq[SEP_MOST];
	struct sockaddr_storage	name;
	size_t			name_len;
};

/* Bits of an address for receive contexts. */
#define SEP_BITS	4

/* What fi_getinfo() says of so many; freed with the test. */
struct fi_info *sep_info(struct kunit *test, const struct sep_opts *opts);
/* An endpoint with an address vector, not bound to it; closed with the test. opts may be NULL. */
struct sep *sep_make(struct kunit *test, const struct sep_opts *opts);
/* The same, enabled, with all contexts. */
struct sep *sep_open(struct kunit *test, const struct sep_opts *opts);
/* Opens one of its contexts, with a queue of its own unless there is one, and enables it. */
void sep_open_tx(struct kunit *test, struct sep *sep, int index, u64 cq_flags);
void sep_open_rx(struct kunit *test, struct sep *sep, int index, u64 cq_flags);
/* What it calls another at that address. */
fi_addr_t sep_know(struct kunit *test, struct sep *sep, const void *name);
/* The next completion of a queue, which has to be of the context. */
void sep_expect(struct kunit *test, struct fid_cq *cq, void *context,
		struct fi_cq_tagged_entry *entry);
/* One message from a context to one of another's, with content. */
void sep_exchange(struct kunit *test, struct sep *from, int tx, fi_addr_t addr, struct sep *to,
		  int rx);

#endif /* KOFI_KUNIT_SEP_H */
