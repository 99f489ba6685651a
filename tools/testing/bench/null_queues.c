// SPDX-License-Identifier: GPL-2.0
/* Queue pairs and completion queues */

#include <linux/slab.h>

#include "null.h"

static bool null_is_full(const struct null_cq *cq)
{
	return cq->head - cq->tail == NULL_ENTRIES;
}

/* Adds a completion, and calls the handler of an armed queue. An overrun is an error of the ULP. */
static void null_complete(struct ib_cq *base, const struct ib_wc *wc)
{
	struct null_cq *cq = to(cq, base);
	unsigned long flags;
	bool notify;

	spin_lock_irqsave(&cq->lock, flags);
	if (!WARN_ON_ONCE(null_is_full(cq)))
		cq->done[cq->head++ % NULL_ENTRIES] = *wc;
	notify = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify && base->comp_handler)
		base->comp_handler(base, base->cq_context);
}

/* Copies the header of a message. DMA addresses are virtual: the device has no DMA parent. */
static void null_copy(const struct null_recv *recv, const struct ib_sge *from)
{
	if (from->length >= NULL_HEADER && recv->len >= NULL_HEADER)
		memcpy((void *)(uintptr_t)recv->addr,
		       (void *)(uintptr_t)from->addr, NULL_HEADER);
}

/* Completes the oldest receive, with a message or flushed. */
static void null_receive(struct null_qp *qp, enum ib_wc_status status,
			 const struct ib_sge *from)
{
	const struct null_recv *recv =
		&qp->receives[qp->tail++ % NULL_DEPTH];
	struct ib_wc wc = {
		.status = status,
		.opcode = IB_WC_RECV,
		.wr_id = recv->wr_id,
		.byte_len = from ? from->length : 0,
		.qp = &qp->base,
	};

	if (from)
		null_copy(recv, from);
	null_complete(qp->base.recv_cq, &wc);
}

static enum ib_wc_opcode null_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_RDMA_WRITE:
		return IB_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	default:
		return IB_WC_SEND;
	}
}

static void null_send(struct null_qp *qp, const struct ib_send_wr *wr)
{
	struct ib_wc wc = {
		.wr_id = wr->wr_id,
		.status = qp->failed ? IB_WC_WR_FLUSH_ERR : IB_WC_SUCCESS,
		.opcode = null_opcode(wr->opcode),
		.qp = &qp->base,
	};
	const struct ib_sge *from = wr->num_sge ? wr->sg_list : NULL;
	struct null_qp *peer = qp->peer;

	if (wr->opcode == IB_WR_SEND && peer && peer->head != peer->tail)
		null_receive(peer, IB_WC_SUCCESS, from);
	if (qp->failed || qp->signal_all || wr->send_flags & IB_SEND_SIGNALED)
		null_complete(qp->base.send_cq, &wc);
}

int null_post_send(struct ib_qp *base, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad)
{
	struct null_device *device = to(device, base->device);
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	for (; wr; wr = wr->next)
		null_send(to(qp, base), wr);
	spin_unlock_irqrestore(&device->lock, flags);
	return 0;
}

int null_post_recv(struct ib_qp *base, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad)
{
	struct null_device *device = to(device, base->device);
	struct null_qp *qp = to(qp, base);
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&device->lock, flags);
	for (; wr; wr = wr->next) {
		if (qp->head - qp->tail == NULL_DEPTH) {
			*bad = wr;
			ret = -ENOMEM;
			break;
		}
		qp->receives[qp->head++ % NULL_DEPTH] = (struct null_recv){
			.wr_id = wr->wr_id,
			.addr = wr->num_sge ? wr->sg_list[0].addr : 0,
			.len = wr->num_sge ? wr->sg_list[0].length : 0,
		};
		if (qp->failed)
			null_receive(qp, IB_WC_WR_FLUSH_ERR, NULL);
	}
	spin_unlock_irqrestore(&device->lock, flags);
	return ret;
}

int null_poll_cq(struct ib_cq *base, int count, struct ib_wc *wc)
{
	struct null_cq *cq = to(cq, base);
	unsigned long flags;
	int found = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (found < count && cq->tail != cq->head)
		wc[found++] = cq->done[cq->tail++ % NULL_ENTRIES];
	spin_unlock_irqrestore(&cq->lock, flags);
	return found;
}

int null_req_notify_cq(struct ib_cq *base, enum ib_cq_notify_flags how)
{
	struct null_cq *cq = to(cq, base);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = how & IB_CQ_REPORT_MISSED_EVENTS && cq->head != cq->tail;
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

int null_create_cq(struct ib_cq *base,
		   const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs)
{
	struct null_cq *cq = to(cq, base);

	if (attr->flags || attr->cqe > NULL_ENTRIES)
		return -EINVAL;
	cq->done = kvmalloc_array(NULL_ENTRIES, sizeof(*cq->done), GFP_KERNEL);
	if (!cq->done)
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	base->cqe = NULL_ENTRIES;
	return 0;
}

int null_destroy_cq(struct ib_cq *base, struct ib_udata *udata)
{
	kvfree(to(cq, base)->done);
	return 0;
}

int null_create_qp(struct ib_qp *base, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata)
{
	struct null_device *device = to(device, base->device);
	struct null_qp *qp = to(qp, base);
	int ret;

	if (attr->qp_type != IB_QPT_RC || attr->srq)
		return -EOPNOTSUPP;
	qp->receives = kvmalloc_array(NULL_DEPTH, sizeof(*qp->receives),
				      GFP_KERNEL);
	if (!qp->receives)
		return -ENOMEM;
	qp->signal_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	refcount_set(&qp->users, 1);
	init_completion(&qp->released);
	ret = xa_alloc_cyclic(&device->qps, &base->qp_num, qp,
			      XA_LIMIT(1, S32_MAX), &device->last_qp,
			      GFP_KERNEL);
	if (ret < 0) {
		kvfree(qp->receives);
		return ret;
	}
	return 0;
}

/* Flushes the posted receives, and marks the queue pair so that later work requests are flushed. */
static void null_flush(struct null_qp *qp)
{
	qp->failed = true;
	qp->peer = NULL;
	while (qp->head != qp->tail)
		null_receive(qp, IB_WC_WR_FLUSH_ERR, NULL);
}

static void null_close(struct iw_cm_id *id)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_CLOSE };

	if (!id)
		return;
	id->event_handler(id, &event);
	id->rem_ref(id);
}

/* Disconnects the queue pair, if it is connected, and flushes both ends. */
static void null_disconnect(struct null_qp *qp)
{
	struct null_device *device = to(device, qp->base.device);
	struct iw_cm_id *ids[2] = {};
	struct null_qp *peer;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	peer = qp->peer;
	swap(ids[0], qp->id);
	if (peer) {
		swap(ids[1], peer->id);
		null_flush(peer);
	}
	null_flush(qp);
	spin_unlock_irqrestore(&device->lock, flags);
	null_close(ids[1]);
	null_close(ids[0]);
}

int null_modify_qp(struct ib_qp *base, struct ib_qp_attr *attr,
		   int mask, struct ib_udata *udata)
{
	if (mask & IB_QP_STATE &&
	    (attr->qp_state == IB_QPS_ERR || attr->qp_state == IB_QPS_SQD))
		null_disconnect(to(qp, base));
	return 0;
}

void null_add_ref(struct ib_qp *base)
{
	refcount_inc(&to(qp, base)->users);
}

void null_rem_ref(struct ib_qp *base)
{
	struct null_qp *qp = to(qp, base);

	if (refcount_dec_and_test(&qp->users))
		complete(&qp->released);
}

int null_destroy_qp(struct ib_qp *base, struct ib_udata *udata)
{
	struct null_device *device = to(device, base->device);
	struct null_qp *qp = to(qp, base);

	xa_erase(&device->qps, base->qp_num);
	null_disconnect(qp);
	null_rem_ref(base);
	wait_for_completion(&qp->released);
	kvfree(qp->receives);
	return 0;
}

struct ib_qp *null_get_qp(struct ib_device *base, int number)
{
	struct null_qp *qp = xa_load(&to(device, base)->qps, number);

	return qp ? &qp->base : NULL;
}
