/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A network driver of HPE's kfabric as Lustre's kfilnd is one: a scalable endpoint
 * with a pair of contexts for each group of CPUs, multi-receive buffers, handlers
 * that queue work, and its order of closing.
 */

#ifndef KOFI_KUNIT_KFI_LND_H
#define KOFI_KUNIT_KFI_LND_H

#include <linux/completion.h>
#include <linux/workqueue.h>
#include <rdma/kfi/kfabric.h>
#include <rdma/kfi/kfi_tagged.h>

#include "traffic.h"

#define CONTEXTS	2
#define BUFFERS		2
#define BUFFER_BYTES	SZ_2M
#define IMMEDIATE	SZ_4K
#define PAGES		256
#define RX_BITS		8
#define CREDITS		32
#define KEY_BITS	16

/* A multi-receive buffer, posted again when it is released. */
struct buffer {
	struct context	*of;
	struct page	*pages;
	u8		*start;
	bool		is_closing;
	atomic_t	posted;
};

/* A queue whose completions a work item reads. */
struct queue {
	struct context		*of;
	struct kfid_cq		*cq;
	struct work_struct	work;
};

/* A receive context and a transmit context. */
struct context {
	struct lnd	*lnd;
	struct queue	rx_cq, tx_cq;
	struct kfid_ep	*rx, *tx;
	struct buffer	buffers[BUFFERS];
	/* Messages received, and those whose place or content was wrong. */
	atomic_t	received, wrong;
};

/* A driver on one address. */
struct lnd {
	const char		*service;
	struct kfi_info		*info;
	struct kfid_fabric	*fabric;
	struct kfid_domain	*domain;
	struct kfid_av		*av;
	struct kfid_ep		*sep;
	struct context		contexts[CONTEXTS];
	struct workqueue_struct	*wq;
	/* Flags of a completion that the driver does not know, and a failed repost. */
	u64			strange;
	int			repost;
	wait_queue_head_t	changed;
};

/* An operation whose context this is. */
struct transaction {
	struct completion	done;
	int			status;
	u64			flags, data;
	size_t			len;
};

struct lnds {
	struct kunit	*test;
	/* server opens a fabric and a domain, client uses them. */
	struct lnd	server, client;
	/* The client's address of the server, and the server's of the client. */
	kfi_addr_t	to_server, to_client;
};

/* An immediate message. */
struct immediate {
	u64	number, copy;
	u8	fill[IMMEDIATE - 2 * sizeof(u64)];
};

/* Returns the driver's hints, without a key; the caller frees them. */
struct kfi_info *lnd_hints(void);
/* Calls kfi_getinfo() with the hints and the driver's key. */
int lnd_getinfo(struct kfi_info *hints, const char *service, struct kfi_info **info);
/* Opens two drivers that know each other's addresses; closed with the test. */
struct lnds *lnd_open(struct kunit *test);

#endif /* KOFI_KUNIT_KFI_LND_H */
