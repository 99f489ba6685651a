/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A peer that is not kOFI: a queue pair of ib_verbs that asks for whatever
 * memory it likes.
 *
 * A refusal costs it its connection, so it is made anew for each attempt.
 */

#ifndef KOFI_KUNIT_ATTACK_H
#define KOFI_KUNIT_ATTACK_H

#include "traffic.h"

#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

/* The most that is read or written at once. */
#define AT_MAX	(4 * PAGE_SIZE)

struct attacker {
	u8			*buf;		/* AT_MAX bytes */
	struct fid_ep		*victim;	/* the other end, of fx->domain */

	struct kofi_fabric_fx	*fx;
	struct rdma_cm_id	*id;
	struct ib_pd		*pd;
	struct ib_cq		*cq;
	u64			dma;
	struct completion	event;
	struct completion	gone;
	int			status;
	bool			connected;
};

/* Connected to an endpoint that pep's request was accepted with. */
struct attacker *at_connect(struct kunit *test, struct kofi_fabric_fx *fx,
			    struct fid_pep *pep);
/* Both ends go, and the end of the connection is read from fx->eq. */
void at_leave(struct kunit *test, struct attacker *at);

/* The ib_wc_status of len bytes to or from buf, or a negative errno. */
int at_read(struct attacker *at, u64 addr, u32 key, u32 len);
int at_write(struct attacker *at, u64 addr, u32 key, u32 len);
/* Whether the connection ends, which some drivers answer an attack with. */
bool at_is_thrown_out(struct attacker *at);

#endif /* KOFI_KUNIT_ATTACK_H */
