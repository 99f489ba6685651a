/* SPDX-License-Identifier: GPL-2.0 */
/* Datagram endpoints of this machine, and messages between them. */

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

/* Zeroes are the defaults. */
struct rdm_opts {
	u64	caps;		/* FI_MSG and FI_TAGGED, beside what is added here */
	u64	cq_flags;	/* FI_SELECTIVE_COMPLETION */
	size_t	cq_size;
	size_t	rx_size;
	size_t	inject_size;
	u16	port;
	u32	addr_format;
	u32	av_type;	/* FI_AV_TABLE */
	/* Where there are two namespaces: which, and an address; is_far: of the other one. */
	struct net	*net;
	const char	*node;
	bool		is_far;
};

/* Whether all reach each other without a device. */
bool rdm_are_near(void);
/* Hints for datagrams, which may go by the device alone: see the module's parameter. Freed with the test. */
struct fi_info *rdm_hints(struct kunit *test);
/* An endpoint that can be reached; closed with the test. opts may be NULL. */
struct kofi_rdm *rdm_open(struct kunit *test, const struct rdm_opts *opts);
/* The same, not enabled, and bound to nothing. */
struct kofi_rdm *rdm_make(struct kunit *test, const struct rdm_opts *opts);
/* Binds and enables it. */
void rdm_start(struct kunit *test, struct kofi_rdm *rdm, u64 cq_flags);
/* fi_av_insert() of one address as its endpoints tell it. */
int rdm_insert(struct kofi_rdm *rdm, const void *name, fi_addr_t *addr, u64 flags);
/* What it calls the other. */
fi_addr_t rdm_know(struct kunit *test, struct kofi_rdm *rdm,
		   struct kofi_rdm *other);
/* Posts once there is room; what comes of it otherwise. */
int rdm_send(struct kofi_rdm *rdm, fi_addr_t to, const void *buf, size_t len,
	     void *context);
int rdm_recv(struct kofi_rdm *rdm, fi_addr_t from, void *buf, size_t len,
	     void *context);
/* The next completion, which has to be of the context. */
void rdm_expect(struct kunit *test, struct kofi_rdm *rdm, void *context,
		struct fi_cq_tagged_entry *entry);

/* Until a message with that tag is there that nobody has received. */
void rdm_await(struct kunit *test, struct kofi_rdm *rdm, u64 tag);

/* How many connections it has, and until it has so many. */
size_t rdm_connected(struct kofi_rdm *rdm);
void rdm_await_connected(struct kunit *test, struct kofi_rdm *rdm, size_t count);

/* One message from one to the other, which may be itself. */
void rdm_exchange(struct kunit *test, struct kofi_rdm *from, fi_addr_t addr,
		  struct kofi_rdm *to);

#endif /* KOFI_KUNIT_RDM_H */
