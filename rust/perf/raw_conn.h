/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types that the two files of the raw-verbs transport share: raw_verbs.c has the
 * connections, raw_data.c the transfers over one.
 */

#ifndef KOFI_PERF_RAW_CONN_H
#define KOFI_PERF_RAW_CONN_H

#include <linux/kref.h>
#include <linux/scatterlist.h>
#include <linux/wait.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "raw_verbs.h"

/* Completions of one poll. */
#define RAW_BATCH		8
/* Writes without data that one end posts at most: see raw_kick(). */
#define RAW_KICKS		6

enum raw_state {
	RAW_NEW,
	RAW_RESOLVED,
	RAW_CONNECTED,
	RAW_CLOSED,
};

/* Completion queue and posted buffers of one direction of a connection. */
struct raw_queue {
	struct raw_conn		*conn;
	struct ib_cq		*cq;
	struct list_head	posted;
	bool			event;	/* set by the completion handler */
	int			found;	/* valid entries of wc */
	int			next;	/* the first of them that is not consumed */
	struct ib_wc		wc[RAW_BATCH];
};

struct raw_conn {
	struct kref		ref;
	struct rdma_cm_id	*id;
	struct ib_pd		*pd;
	wait_queue_head_t	wait;
	enum raw_state		state;
	int			error;	/* errno of the state RAW_CLOSED */
	u8			data[RAW_PRIVATE_DATA];
	/* limits of a peer that has sent a connection request */
	u8			responder_resources;
	u8			initiator_depth;
	unsigned int		kicks;	/* that are left */
	struct raw_queue	tx;
	struct raw_queue	rx;
	/* memory that the peer accesses */
	void			*mem;
	struct sg_table		sgt;
	int			mapped;	/* entries of sgt */
	struct ib_mr		*mr;
	/* in raw_listener::pending */
	struct list_head	entry;
};

static inline bool raw_is_siw(const struct raw_conn *conn)
{
	return conn->id->device->ops.driver_id == RDMA_DRIVER_SIW;
}

static inline enum raw_state raw_state_of(struct raw_conn *conn)
{
	/* Pairs with raw_advance(): the error and the data are visible, too. */
	return smp_load_acquire(&conn->state);
}

/* In raw_verbs.c. */
void raw_free(struct kref *ref);

/* In raw_data.c. */
int raw_create_cq(struct raw_conn *conn, struct raw_queue *queue, u32 depth);
void raw_drop_posted(struct raw_queue *queue);

#endif /* KOFI_PERF_RAW_CONN_H */
