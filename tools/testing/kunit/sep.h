/* SPDX-License-Identifier: GPL-2.0 */
/* Fixture of scalable endpoints on this machine, with a queue for each of their contexts. */

#ifndef KOFI_KUNIT_SEP_H
#define KOFI_KUNIT_SEP_H

#include "rdm.h"

/* Largest number of contexts of a kind, and the default of the tests. */
#define SEP_MAX		64
#define SEP_DEFAULT	16

/* Options of a scalable endpoint; zeroes are the defaults. */
struct sep_opts {
	size_t	txs, rxs;	/* SEP_DEFAULT each */
	u64	caps;		/* besides FI_MSG, FI_TAGGED and FI_NAMED_RX_CTX */
	size_t	rx_size;	/* 64 */
	size_t	iov_limit;	/* of both directions */
	size_t	cq_size;
	u64	cq_flags;	/* FI_SELECTIVE_COMPLETION */
	bool	one_cq;		/* all contexts have one queue */
};

struct sep {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;		/* rx_ctx_bits: SEP_BITS */
	struct fid_ep		*ep;
	size_t			txs, rxs;
	struct fid_ep		*tx[SEP_MAX], *rx[SEP_MAX];
	struct fid_cq		*tx_cq[SEP_MAX], *rx_cq[SEP_MAX];
	struct sockaddr_storage	name;
	size_t			name_len;
};

/* rx_ctx_bits of the address vectors. */
#define SEP_BITS	6

/* Returns an info with these context counts; freed with the test. */
struct fi_info *sep_info(struct kunit *test, const struct sep_opts *opts);
/* Opens an endpoint with an AV that is not bound to it; closed with the test. opts may be NULL. */
struct sep *sep_open_unbound(struct kunit *test, const struct sep_opts *opts);
/* Opens an enabled endpoint with all contexts. */
struct sep *sep_open(struct kunit *test, const struct sep_opts *opts);
/* Opens and enables a context, with a queue of its own unless there is one. */
void sep_open_tx(struct kunit *test, struct sep *sep, int index, u64 cq_flags);
void sep_open_rx(struct kunit *test, struct sep *sep, int index, u64 cq_flags);
/* Closes a receive context, and opens it without some of the endpoint's capabilities. */
void sep_reopen_rx(struct kunit *test, struct sep *sep, int index, u64 missing_caps);
/* Inserts an address; returns its fi_addr_t. */
fi_addr_t sep_addr(struct kunit *test, struct sep *sep, const void *name);
/* Reads the next completion of a queue, which has to be of the context. */
void sep_expect(struct kunit *test, struct fid_cq *cq, void *context,
		struct fi_cq_tagged_entry *entry);
/* Sends a message from a context to one of another's, and checks its data. */
void sep_exchange(struct kunit *test, struct sep *from, int tx, fi_addr_t addr, struct sep *to,
		  int rx);

#endif /* KOFI_KUNIT_SEP_H */
