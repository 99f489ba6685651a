/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two ends that are really apart: each on a device of its own, in a network
 * namespace of its own, with a cable between them.
 */

#ifndef KOFI_KUNIT_NETNS_H
#define KOFI_KUNIT_NETNS_H

#include "traffic.h"

/* Module parameter: where the listening end's device is. */
extern char *net_addr;

/* Whether the module's parameters name the namespaces. */
bool ns_given(void);

/* The namespace of the caller's side, 0, or the listening one, 1; the caller puts it. */
struct net *ns_get(struct kunit *test, int side);

struct ns_side {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;
	struct fid_cq		*cq;
};

/*
 * Connects the namespaces of the module's parameters: 0 is the caller's side.
 * The pair has only its endpoints and queues. Skips the test without them.
 */
struct kofi_pair *ns_pair(struct kunit *test, const char *node,
			  struct ns_side sides[2]);

#endif /* KOFI_KUNIT_NETNS_H */
