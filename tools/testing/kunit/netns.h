/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pairs of endpoints whose ends are on devices of their own, each in a network
 * namespace of its own, with a link between them.
 */

#ifndef KOFI_KUNIT_NETNS_H
#define KOFI_KUNIT_NETNS_H

#include "traffic.h"

/* Module parameter: address of the listening end's device. */
extern char *net_addr;

/* Returns true if the module's parameters name the namespaces. */
bool ns_given(void);

/* Returns the namespace of side 0, which connects, or 1, which listens; the caller puts it. */
struct net *ns_get(struct kunit *test, int side);

struct ns_side {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;
	struct fid_cq		*cq;
};

/*
 * Connects the namespaces of the module's parameters; side 0 connects. The pair
 * has only its endpoints and queues. Skips the test without them.
 */
struct kofi_pair *ns_pair(struct kunit *test, const char *node,
			  struct ns_side sides[2]);

#endif /* KOFI_KUNIT_NETNS_H */
