/* SPDX-License-Identifier: GPL-2.0 */
/* Fixture of datagram endpoints on this machine, and of messages between them. */

#ifndef KOFI_KUNIT_RDM_H
#define KOFI_KUNIT_RDM_H

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/socket.h>
#include <rdma/fi_tagged.h>

#include "fixture.h"

/* An endpoint with a domain, an address vector and a queue of its own. */
struct kofi_rdm {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct fid_cq		*cq;
	struct fid_ep		*ep;
	struct sockaddr_storage	name;
	size_t			name_len;
};

/* Options of an endpoint; zeroes are the defaults. */
struct rdm_opts {
	u64	caps;		/* in addition to FI_MSG and FI_TAGGED */
	u64	cq_flags;	/* FI_SELECTIVE_COMPLETION */
	size_t	cq_size;
	size_t	tx_size;
	size_t	rx_size;
	size_t	inject_size;
	size_t	iov_limit;	/* of both directions */
	size_t	rma_iov_limit;
	u16	port;
	u32	addr_format;
	u32	av_type;	/* FI_AV_TABLE */
	/* With two namespaces: the endpoint's, and an address; is_far: of the other one. */
	struct net	*net;
	const char	*node;
	bool		is_far;
};

/* Returns true if all endpoints use local delivery among each other. */
bool rdm_all_local(void);
/* Returns hints for datagrams; parameter local may exclude local delivery. Freed with the test. */
struct fi_info *rdm_hints(struct kunit *test);
/* Opens an enabled endpoint; closed with the test. opts may be NULL. */
struct kofi_rdm *rdm_open(struct kunit *test, const struct rdm_opts *opts);
/* Opens an endpoint that is neither bound nor enabled. */
struct kofi_rdm *rdm_make(struct kunit *test, const struct rdm_opts *opts);
/* Binds and enables it. */
void rdm_start(struct kunit *test, struct kofi_rdm *rdm, u64 cq_flags);
/* Inserts an address in the endpoint's format; returns what fi_av_insert() does. */
int rdm_insert(struct kofi_rdm *rdm, const void *name, fi_addr_t *addr, u64 flags);
/* Inserts the other endpoint's address; returns its fi_addr_t. */
fi_addr_t rdm_addr(struct kunit *test, struct kofi_rdm *rdm,
		   struct kofi_rdm *other);
/* Retry while the queue is full; return 0 or a negative errno. */
int rdm_send(struct kofi_rdm *rdm, fi_addr_t to, const void *buf, size_t len,
	     void *context);
int rdm_recv(struct kofi_rdm *rdm, fi_addr_t from, void *buf, size_t len,
	     void *context);
/* Reads the next completion, which has to be of the context. */
void rdm_expect(struct kunit *test, struct kofi_rdm *rdm, void *context,
		struct fi_cq_tagged_entry *entry);

/* Waits until there is an unexpected message with that tag. */
void rdm_await_unexpected(struct kunit *test, struct kofi_rdm *rdm, u64 tag);

/* Returns the number of connections; waits until there are that many. */
size_t rdm_connected(struct kofi_rdm *rdm);
void rdm_await_connected(struct kunit *test, struct kofi_rdm *rdm, size_t count);

/* Sends one message and receives it; both endpoints may be the same. */
void rdm_exchange(struct kunit *test, struct kofi_rdm *from, fi_addr_t addr,
		  struct kofi_rdm *to);

#endif /* KOFI_KUNIT_RDM_H */
