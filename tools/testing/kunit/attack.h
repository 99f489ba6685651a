/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hostile peer: a queue pair of ib_verbs that asks for arbitrary remote
 * memory.
 *
 * A refused request breaks the connection, so each attempt makes a new one.
 */

#ifndef KOFI_KUNIT_ATTACK_H
#define KOFI_KUNIT_ATTACK_H

#include "traffic.h"

#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

/* The most bytes of one read or write. */
#define AT_MAX	(4 * PAGE_SIZE)

struct attacker {
	u8			*buf;		/* AT_MAX bytes */
	struct fid_ep		*victim;	/* the peer endpoint, of fx->domain */

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

/* Connects to pep and accepts the request with a new endpoint, the victim. */
struct attacker *at_connect(struct kunit *test, struct kofi_fabric_fx *fx,
			    struct fid_pep *pep);
/*
 * Connects to an address with that private data. Returns NULL if the request is rejected.
 * at_destroy() ends the connection.
 */
struct attacker *at_connect_to(struct kunit *test, void *to, const void *data, u8 len);
void at_destroy(struct kunit *test, struct attacker *at);
/* Destroys the attacker, reads the victim's FI_SHUTDOWN from fx->eq, and closes the victim. */
void at_close(struct kunit *test, struct attacker *at);

/* Transfers len bytes from or to buf. Returns the ib_wc_status, or a negative errno. */
int at_read(struct attacker *at, u64 addr, u32 key, u32 len);
int at_write(struct attacker *at, u64 addr, u32 key, u32 len);
/*
 * Sends the first packets of a message, the rest of which the device cannot read. Returns the
 * ib_wc_status, which is an error, or a negative errno.
 */
int at_send_part(struct attacker *at);
/*
 * Waits until the connection ends, as it does where a driver answers a bad
 * request with a disconnect. Returns false on a timeout.
 */
bool at_wait_disconnected(struct attacker *at);

#endif /* KOFI_KUNIT_ATTACK_H */
