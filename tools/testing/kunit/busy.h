/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Endpoints that do all they can at once: messages, writes, reads and atomics
 * of either kind, each with what its peer needs for it.
 */

#ifndef KOFI_KUNIT_BUSY_H
#define KOFI_KUNIT_BUSY_H

#include <linux/atomic.h>

#include "atomic.h"
#include "handler.h"

#define BUSY_SIDES	2
/* How long all of it may take to end: a slow kernel has much to flush. */
#define BUSY_WAIT_MS	(8 * FX_WAIT_MS)
/* Operations that an endpoint may have under way, each way. */
#define BUSY_DEPTH	16

/* As many as can be under way, both ways and with the atomics. */
#define BUSY_OPS	(4 * BUSY_DEPTH)

/* The context of an operation, which comes back once. */
struct busy_op {
	struct busy	*busy;
	bool		posted;
};

/* An endpoint, what is under way there, and what its peer may send to it. */
struct busy {
	struct fid_ep	*ep;
	u8		*near;
	u64		far;		/* of its peer */
	int		posted;
	int		told;
	int		strays;		/* told of without having been posted */
	struct busy_op	ops[BUSY_OPS];
	atomic_t	receives;
	struct busy	*peer;
	bool		gone;
};

/* All the endpoints of one side, which have one queue. */
struct busy_crowd {
	struct busy	*all;
	int		links;
	struct fid_cq	*cq;
	bool		is_read;	/* by a handler, not by who posts */
	u64		key;
	bool		has_atomics;
	bool		over;		/* nothing more is to be posted */
	unsigned int	pause_us;	/* between two rounds of posts */
};

struct busy_fx {
	struct kofi_fabric_fx	*fx;
	struct fid_pep		*pep;
	struct fid_mr		*mr;
	struct busy_crowd	side[BUSY_SIDES];
	struct hd_queue		*queue[BUSY_SIDES];
};

/* Who reads the queues: the posters, or handlers. */
enum busy_readers { BUSY_THREADS, BUSY_INTERRUPTS, BUSY_TASKS, BUSY_READERS };

/* So many pairs of endpoints, two queues, one region; none connected yet. */
struct busy_fx *busy_open(struct kunit *test, int links,
			  enum busy_readers readers);
/* Connects all; one round may follow another, once everything was closed. */
void busy_connect(struct kunit *test, struct busy_fx *fx);
/*
 * What a side's thread does, with its crowd: posts until each endpoint has gone,
 * or it is over, and reads until each operation has been told of.
 */
int busy_go(struct tr_thread *thread);
/* Which endpoint this is. */
struct busy *busy_of(struct busy_fx *fx, struct fid *fid);

#endif /* KOFI_KUNIT_BUSY_H */
