/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the suites of regions that an endpoint registers: two connected
 * endpoints, of which the second registers memory that the first accesses.
 */

#ifndef KOFI_KUNIT_MR_EP_H
#define KOFI_KUNIT_MR_EP_H

#include <rdma/fi_ext.h>

#include "rma.h"

#define ME_MODE	(FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

/* Connects two endpoints with FI_RMA and pools of regions; skips the test without a device. */
struct kofi_pair *me_pair(struct kunit *test, size_t pool, size_t pages);
struct kofi_pair *me_pair_with(struct kunit *test, struct fx_pair_opts opts);

/* Maps memory for a region. */
int me_map(struct fid_domain *domain, void *buf, size_t len, u64 access,
	   struct fid_mr **mr, void *context);
/* Maps memory, and binds and enables the region; ends the test if that fails. */
struct fid_mr *me_open(struct kunit *test, struct kofi_pair *pair, void *buf,
		       size_t len, u64 access, u64 bind_flags, void *context);
/* Closes a region; retries for at most FX_WAIT_MS while the queue of its endpoint is full. */
void me_close(struct kunit *test, struct fid_mr *mr);
/* Expects the entry of the second endpoint that the access to the region of context has ended. */
void me_expect_end(struct kunit *test, struct kofi_pair *pair, void *context);

/* Sends a message from the second endpoint: regions that were enabled before are valid when it arrives. */
void me_send(struct kunit *test, struct kofi_pair *pair);

/* Accesses a region from the first endpoint, and returns 0 or the errno of the entry. */
int me_access(struct kunit *test, struct kofi_pair *pair, u64 flag, void *near,
	      size_t len, u64 addr, u64 key);

#endif /* KOFI_KUNIT_MR_EP_H */
