/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ends over ib_verbs and rdma_cm, as an optimized ULP uses them. Memory is mapped
 * once and accessed with the local_dma_lkey; completions are polled in batches into
 * an array of the end; no message allocates memory.
 *
 * Before it includes this header, a module defines struct raw_priv, its private
 * part of an end. After that it defines how it sends, receives and polls, and
 * includes raw_pair.h.
 */

#ifndef KOFI_BENCH_RAW_H
#define KOFI_BENCH_RAW_H

#include <linux/inet.h>
#include <linux/irq_work.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "bench.h"

/* A connection of an end */
struct raw_link {
	struct rdma_cm_id	*id;
	struct ib_qp		*qp;
};

struct bench_end {
	struct bench_side	side;
	struct ib_qp		*qp;	/* queue pair of the selected one of links */
	struct ib_cq		*cq;
	u64			tx_dma;
	u64			rx_dma;
	u32			lkey;
	u64			remote_addr;
	u32			remote_key;
	struct ib_wc		done[BENCH_BATCH];

	struct bench_pair	*pair;
	struct raw_link		*links;
	struct rdma_cm_id	*id;	/* of the connection that is being made */
	struct ib_mr		*rx_mr;
	struct completion	event;
	int			status;
	/* Wakeup, hardirq and process context for completions, if the end does not poll */
	struct completion	comp_event;
	struct irq_work		handler_irq_work;
	struct work_struct	handler_work;
	/* Every signal_each-th inline send is signaled; unsignaled counts those since the last */
	unsigned int		signal_each;
	unsigned int		unsignaled;
	/* Private part of the module that includes this header */
	struct raw_priv		priv;
};

struct bench_pair {
	struct bench_end	end[2];
	struct bench_pair	*first;	/* pair that owns pd */
	struct rdma_cm_id	*listener;
	struct ib_pd		*pd;
};

static __always_inline int end_inject(struct bench_end *end, void *buf,
				      size_t len)
{
	struct ib_sge sge = { .addr = (uintptr_t)buf, .length = len };
	struct ib_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_INLINE,
	};

	if (++end->unsignaled >= end->signal_each) {
		wr.send_flags |= IB_SEND_SIGNALED;
		end->unsignaled = 0;
	}
	return ib_post_send(end->qp, &wr, NULL);
}

static __always_inline int raw_rdma(struct bench_end *end, void *buf,
				    size_t len, enum ib_wr_opcode opcode)
{
	struct ib_sge sge = {
		.addr = end->tx_dma + (buf - end->side.tx),
		.length = len,
		.lkey = end->lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_id = (uintptr_t)buf,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = end->remote_addr,
		.rkey = end->remote_key,
	};

	return ib_post_send(end->qp, &wr.wr, NULL);
}

static __always_inline int end_write(struct bench_end *end, void *buf,
				     size_t len)
{
	return raw_rdma(end, buf, len, IB_WR_RDMA_WRITE);
}

static __always_inline int end_read(struct bench_end *end, void *buf,
				    size_t len)
{
	return raw_rdma(end, buf, len, IB_WR_RDMA_READ);
}

static __always_inline int end_fetch_add(struct bench_end *end, void *buf)
{
	struct ib_sge sge = {
		.addr = end->tx_dma + (buf - end->side.tx),
		.length = sizeof(u64),
		.lkey = end->lkey,
	};
	struct ib_atomic_wr wr = {
		.wr = {
			.wr_id = (uintptr_t)buf,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = end->remote_addr,
		.compare_add = 1,
		.rkey = end->remote_key,
	};

	return ib_post_send(end->qp, &wr.wr, NULL);
}

static __always_inline void end_select(struct bench_end *end, unsigned int link)
{
	end->qp = end->links[link].qp;
}

#endif /* KOFI_BENCH_RAW_H */
