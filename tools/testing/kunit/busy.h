/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Endpoints under full load: messages, RMA writes and reads, and atomics, in
 * both directions at once, with the receives and the registered memory that the
 * peer needs.
 */

#ifndef KOFI_KUNIT_BUSY_H
#define KOFI_KUNIT_BUSY_H

#include <linux/atomic.h>

#include "atomic.h"
#include "handler.h"

#define BUSY_SIDES	2
/* Time limit of a run: a slow kernel has many operations to flush. */
#define BUSY_WAIT_MS	(8 * FX_WAIT_MS)
/* Operations that an endpoint may have outstanding, in each direction. */
#define BUSY_DEPTH	16

/* Upper bound of an endpoint's outstanding operations: both directions and the atomics. */
#define BUSY_OPS	(4 * BUSY_DEPTH)

/* Context of an operation; its completion is read exactly once. */
struct busy_op {
	struct busy	*busy;
	bool		posted;
};

/* An endpoint, its outstanding operations, and the receives posted for its peer's messages. */
struct busy {
	struct fid_ep	*ep;
	u8		*near;
	u64		far;		/* address of the peer's memory */
	int		posted;
	int		completed;
	int		strays;		/* completions of operations that were not posted */
	struct busy_op	ops[BUSY_OPS];
	atomic_t	receives;
	struct busy	*peer;
	bool		disconnected;
};

/* The endpoints of one side, which share a completion queue. */
struct busy_group {
	struct busy	*all;
	int		links;
	struct fid_cq	*cq;
	bool		is_read;	/* by a handler, not by the poster thread */
	u64		key;
	bool		has_atomics;
	bool		over;		/* the poster thread stops */
	unsigned int	pause_us;	/* between two rounds of posts */
};

struct busy_fx {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct fid_mr		*mr;
	struct busy_group	side[BUSY_SIDES];
	struct hd_queue		*queue[BUSY_SIDES];
};

/*
 * Readers of the completion queues: the poster threads, handlers in hardirq
 * context, or handlers in process context.
 */
enum busy_readers { BUSY_THREADS, BUSY_INTERRUPTS, BUSY_TASKS, BUSY_READERS };

/*
 * Opens the resources of that many pairs: two completion queues and one memory
 * region. Endpoints are opened by busy_connect().
 */
struct busy_fx *busy_open(struct kunit *test, int links,
			  enum busy_readers readers);
/*
 * Opens and connects all pairs; may be called again once all endpoints of the
 * last round are closed.
 */
void busy_connect(struct kunit *test, struct busy_fx *fx);
/*
 * Thread function of a side, with its busy_group as the argument: posts until
 * each endpoint is disconnected, and then waits until each operation has its
 * completion. Returns early if group->over is set.
 */
int busy_post_and_read(struct tr_thread *thread);
/* Returns the endpoint that fid belongs to, or NULL. */
struct busy *busy_find(struct busy_fx *fx, struct fid *fid);

#endif /* KOFI_KUNIT_BUSY_H */
