// SPDX-License-Identifier: GPL-2.0
/*
 * Messages, RMA and atomic operations over ib_verbs and rdma_cm, written as a
 * ULP without kOFI would: the baseline of `kofi compare`.
 *
 * A connection has one queue pair, a completion queue for each direction, and
 * buffers that are mapped once. One thread uses it; it sleeps on raw_conn::wait.
 * The handlers of rdma_cm and of the completion queues wake it: the rdma_cm
 * handler writes raw_conn::state, and before that the error and the peer's data.
 *
 * The rdma_cm id is destroyed last: until then rdma_cm delays the removal of the
 * device.
 */

#include <linux/dma-mapping.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "raw_verbs.h"

/* Time limits of address and route resolution, each. */
#define RAW_RESOLVE_MS		2000
/* Values that the endpoints of kOFI's verbs provider have, too. */
#define RAW_RETRIES		6
#define RAW_RNR_RETRIES		7
#define RAW_MIN_RNR_TIMER	12
/* Connection requests that may be pending. */
#define RAW_BACKLOG		16
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

struct raw_listener {
	struct rdma_cm_id	*id;
	wait_queue_head_t	wait;
	bool			removed;
	spinlock_t		lock;	/* guards pending and count */
	struct list_head	pending;
	unsigned int		count;
};

static bool raw_is_siw(const struct raw_conn *conn)
{
	return conn->id->device->ops.driver_id == RDMA_DRIVER_SIW;
}

/* Called by the rdma_cm handler, whose calls for one id do not overlap. */
static void raw_advance(struct raw_conn *conn, enum raw_state state, int error,
			const struct rdma_conn_param *param)
{
	if (conn->state >= state)
		return;
	if (param && param->private_data)
		memcpy(conn->data, param->private_data,
		       min_t(size_t, param->private_data_len, sizeof(conn->data)));
	conn->error = error;
	/* Pairs with raw_state_of(). */
	smp_store_release(&conn->state, state);
	wake_up(&conn->wait);
}

static enum raw_state raw_state_of(struct raw_conn *conn)
{
	/* Pairs with raw_advance(): the error and the data are visible, too. */
	return smp_load_acquire(&conn->state);
}

/* Returns the errno of an event that ends the attempt to connect. */
static int raw_error(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_REJECTED ||
	    event->status == -ECONNREFUSED)
		return -ECONNREFUSED;
	if (event->event == RDMA_CM_EVENT_CONNECT_ERROR)
		return event->status == -ETIMEDOUT ? -ETIMEDOUT : -ECONNABORTED;
	return -EHOSTUNREACH;
}

static int raw_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct raw_conn *conn = id->context;
	int err;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = rdma_resolve_route(id, RAW_RESOLVE_MS);
		if (err)
			raw_advance(conn, RAW_CLOSED, err, NULL);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		raw_advance(conn, RAW_RESOLVED, 0, NULL);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		raw_advance(conn, RAW_CONNECTED, 0, &event->param.conn);
		break;
	case RDMA_CM_EVENT_REJECTED:
		raw_advance(conn, RAW_CLOSED, raw_error(event),
			    &event->param.conn);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		raw_advance(conn, RAW_CLOSED, raw_error(event), NULL);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		raw_advance(conn, RAW_CLOSED, -ENOTCONN, NULL);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		raw_advance(conn, RAW_CLOSED, -ENODEV, NULL);
		break;
	default:
		break;
	}
	return 0;
}

/* Waits for a state; returns -EINTR if the thread should stop, or the error of the close. */
static int raw_wait_state(struct raw_conn *conn, enum raw_state state)
{
	enum raw_state now;

	wait_event_idle(conn->wait, raw_state_of(conn) >= state ||
			kthread_should_stop());
	now = raw_state_of(conn);
	if (now == RAW_CLOSED && state != RAW_CLOSED)
		return conn->error;
	return now >= state ? 0 : -EINTR;
}

static struct raw_conn *raw_alloc(void)
{
	struct raw_conn *conn = kzalloc_obj(*conn);

	if (!conn)
		return NULL;
	kref_init(&conn->ref);
	init_waitqueue_head(&conn->wait);
	INIT_LIST_HEAD(&conn->tx.posted);
	INIT_LIST_HEAD(&conn->rx.posted);
	conn->responder_resources = U8_MAX;
	conn->initiator_depth = U8_MAX;
	return conn;
}

/* Frees the objects that buffers need, after the last reference is dropped. */
static void raw_free(struct kref *ref)
{
	struct raw_conn *conn = container_of(ref, struct raw_conn, ref);

	if (conn->mr)
		ib_dereg_mr(conn->mr);
	if (conn->mapped)
		ib_dma_unmap_sg(conn->pd->device, conn->sgt.sgl,
				conn->sgt.orig_nents, DMA_BIDIRECTIONAL);
	sg_free_table(&conn->sgt);
	kvfree(conn->mem);
	if (conn->tx.cq)
		ib_destroy_cq(conn->tx.cq);
	if (conn->rx.cq)
		ib_destroy_cq(conn->rx.cq);
	if (conn->pd)
		ib_dealloc_pd(conn->pd);
	if (conn->id)
		rdma_destroy_id(conn->id);
	kfree(conn);
}

static void raw_drop_posted(struct raw_queue *queue)
{
	struct raw_buf *buf, *next;

	list_for_each_entry_safe(buf, next, &queue->posted, entry) {
		raw_buf_release(buf);
		kfree(buf);
	}
}

/*
 * A queue pair of rxe may be destroyed while a packet handler still wakes its
 * task (rxe_resp_queue_pkt(), rxe_comp_queue_pkt()): a queue pair in RESET takes
 * no packets, and the grace period waits for the handlers. The second RESET
 * drops packets that were queued during the first.
 */
static void raw_reset(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	ib_modify_qp(qp, &attr, IB_QP_STATE);
	synchronize_rcu();
	ib_modify_qp(qp, &attr, IB_QP_STATE);
}

/* Ends the connection, or rejects a request, and drops the owner's reference. */
void raw_close(struct raw_conn *conn)
{
	struct rdma_cm_id *id = conn->id;

	if (id && id->qp) {
		rdma_disconnect(id);
		if (id->device->ops.driver_id == RDMA_DRIVER_RXE)
			raw_reset(id->qp);
		rdma_destroy_qp(id);
	}
	raw_drop_posted(&conn->tx);
	raw_drop_posted(&conn->rx);
	kref_put(&conn->ref, raw_free);
}

/* Called in any context, with locks of the driver held. */
static void raw_completion(struct ib_cq *cq, void *context)
{
	struct raw_queue *queue = context;

	WRITE_ONCE(queue->event, true);
	wake_up(&queue->conn->wait);
}

static int raw_create_cq(struct raw_conn *conn, struct raw_queue *queue, u32 depth)
{
	struct ib_cq_init_attr attr = { .cqe = depth };
	struct ib_cq *cq;

	queue->conn = conn;
	cq = ib_create_cq(conn->id->device, raw_completion, NULL, queue, &attr);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	queue->cq = cq;
	return 0;
}

/* Creates the queue pair of a connection whose device is known. */
int raw_open(struct raw_conn *conn, u32 depth)
{
	/* The additional request registers memory. */
	u32 tx_depth = depth + 1 + (raw_is_siw(conn) ? RAW_KICKS : 0);
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = tx_depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_pd *pd;
	int err;

	pd = ib_alloc_pd(conn->id->device, 0);
	if (IS_ERR(pd))
		return PTR_ERR(pd);
	conn->pd = pd;
	err = raw_create_cq(conn, &conn->tx, tx_depth);
	if (!err)
		err = raw_create_cq(conn, &conn->rx, depth);
	if (err)
		return err;
	attr.send_cq = conn->tx.cq;
	attr.recv_cq = conn->rx.cq;
	err = rdma_create_qp(conn->id, pd, &attr);
	return err ?: rdma_set_min_rnr_timer(conn->id, RAW_MIN_RNR_TIMER);
}

static int raw_resolve_on(struct raw_conn *conn, bool iwarp,
			  struct sockaddr_storage *src,
			  const struct sockaddr_storage *dst)
{
	int err;

	/* rxe and siw may have the same address: the node type tells them apart. */
	err = rdma_restrict_node_type(conn->id, iwarp ? RDMA_NODE_RNIC :
				      RDMA_NODE_IB_CA);
	if (!err)
		err = rdma_resolve_addr(conn->id, src->ss_family ?
					(struct sockaddr *)src : NULL,
					(struct sockaddr *)dst, RAW_RESOLVE_MS);
	return err ?: raw_wait_state(conn, RAW_RESOLVED);
}

static int raw_copy_addr(struct sockaddr_storage *to, const void *addr, size_t len)
{
	memset(to, 0, sizeof(*to));
	if (len > sizeof(*to))
		return -EINVAL;
	memcpy(to, addr, len);
	return 0;
}

/*
 * Creates an end for a peer, on a device with iWARP or without, on which depth
 * operations can be posted in each direction. The source address may have no
 * bytes.
 */
struct raw_conn *raw_resolve(struct net *net, bool iwarp,
			     const void *src, size_t src_len,
			     const void *dst, size_t dst_len, u32 depth)
{
	struct sockaddr_storage from, to;
	struct rdma_cm_id *id;
	struct raw_conn *conn;
	int err;

	if (raw_copy_addr(&from, src, src_len) || raw_copy_addr(&to, dst, dst_len))
		return ERR_PTR(-EINVAL);
	conn = raw_alloc();
	if (!conn)
		return ERR_PTR(-ENOMEM);
	id = rdma_create_id(net, raw_event, conn, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id)) {
		raw_close(conn);
		return ERR_CAST(id);
	}
	conn->id = id;
	err = raw_resolve_on(conn, iwarp, &from, &to);
	if (!err)
		err = raw_open(conn, depth);
	if (err) {
		raw_close(conn);
		return ERR_PTR(err);
	}
	return conn;
}

static struct rdma_conn_param raw_param(const struct raw_conn *conn,
					const void *data, u8 len)
{
	const struct ib_device_attr *attrs = &conn->id->device->attrs;

	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = len,
		.responder_resources = min_t(u32, conn->responder_resources,
					     attrs->max_qp_rd_atom),
		.initiator_depth = min_t(u32, conn->initiator_depth,
					 attrs->max_qp_init_rd_atom),
		.flow_control = 1,
		.retry_count = RAW_RETRIES,
		.rnr_retry_count = RAW_RNR_RETRIES,
	};
}

/* Connects to the peer. This end has to send the first message. */
int raw_connect(struct raw_conn *conn, const void *data, u8 len)
{
	struct rdma_conn_param param = raw_param(conn, data, len);
	int err;

	err = rdma_connect(conn->id, &param);
	if (!err)
		err = raw_wait_state(conn, RAW_CONNECTED);
	if (!err && raw_is_siw(conn))
		conn->kicks = RAW_KICKS;
	return err;
}

/* Accepts the peer's request. The peer has to send the first message. */
int raw_accept(struct raw_conn *conn)
{
	struct rdma_conn_param param = raw_param(conn, NULL, 0);
	int err;

	rdma_lock_handler(conn->id);
	err = rdma_accept(conn->id, &param);
	rdma_unlock_handler(conn->id);
	return err ?: raw_wait_state(conn, RAW_CONNECTED);
}

/* Returns the private data of a request or a rejection; zeroes follow it. */
const u8 *raw_private_data(const struct raw_conn *conn)
{
	return conn->data;
}

/* Waits until the connection has ended. */
int raw_wait_closed(struct raw_conn *conn)
{
	return raw_wait_state(conn, RAW_CLOSED);
}

/* Returns a zeroed buffer. */
struct raw_buf *raw_buf_alloc(struct raw_conn *conn, u32 len)
{
	struct ib_device *device = conn->pd->device;
	/* A buffer without bytes cannot be mapped. */
	size_t size = max(len, 1U);
	struct raw_buf *buf;
	u64 dma;

	buf = kzalloc_obj(*buf);
	if (!buf)
		return ERR_PTR(-ENOMEM);
	buf->data = kzalloc(size, GFP_KERNEL);
	if (!buf->data)
		goto no_data;
	dma = ib_dma_map_single(device, buf->data, size, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(device, dma))
		goto no_mapping;
	buf->dma = dma;
	buf->len = len;
	kref_get(&conn->ref);
	buf->conn = conn;
	/* The buffer stays mapped: its memory has to be coherent. */
	if (!ib_uses_virt_dma(device) && dma_need_sync(device->dma_device, dma)) {
		raw_buf_release(buf);
		kfree(buf);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return buf;

no_mapping:
	kfree(buf->data);
no_data:
	kfree(buf);
	return ERR_PTR(-ENOMEM);
}

/* Unmaps and frees the memory of a buffer that is not posted, but not the struct. */
void raw_buf_release(struct raw_buf *buf)
{
	struct raw_conn *conn = buf->conn;

	ib_dma_unmap_single(conn->pd->device, buf->dma, max(buf->len, 1U),
			    DMA_BIDIRECTIONAL);
	kfree(buf->data);
	kref_put(&conn->ref, raw_free);
}

/* Posts a buffer, which the connection owns if that succeeds. */
int raw_post_recv(struct raw_conn *conn, struct raw_buf *buf)
{
	struct ib_sge sge = {
		.addr = buf->dma,
		.length = buf->len,
		.lkey = conn->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_id = (uintptr_t)buf,
		.sg_list = &sge,
		/* Some devices take a length of 0 for 2 GiB. */
		.num_sge = !!buf->len,
	};
	int err;

	err = ib_post_recv(conn->id->qp, &wr, NULL);
	if (!err)
		list_add_tail(&buf->entry, &conn->rx.posted);
	return err;
}

/*
 * Posts an operation on the first bytes of a buffer, which the connection owns
 * if that succeeds. Atomic operations take 8 bytes.
 */
int raw_post(struct raw_conn *conn, struct raw_buf *buf, u32 len,
	     enum raw_op op, const struct raw_remote *remote)
{
	static const enum ib_wr_opcode opcodes[] = {
		[RAW_SEND] = IB_WR_SEND,
		[RAW_WRITE] = IB_WR_RDMA_WRITE,
		[RAW_READ] = IB_WR_RDMA_READ,
		[RAW_FETCH_ADD] = IB_WR_ATOMIC_FETCH_AND_ADD,
		[RAW_CMP_SWAP] = IB_WR_ATOMIC_CMP_AND_SWP,
	};
	struct ib_sge sge = {
		.addr = buf->dma,
		.length = len,
		.lkey = conn->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_id = (uintptr_t)buf,
		.sg_list = &sge,
		.num_sge = !!len,
		.opcode = opcodes[op],
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_atomic_wr atomic;
	struct ib_rdma_wr rdma;
	struct ib_send_wr *post = &wr;
	int err;

	if (len > buf->len)
		return -EINVAL;
	if (op >= RAW_FETCH_ADD) {
		atomic = (struct ib_atomic_wr){
			.wr = wr,
			.remote_addr = remote->addr,
			.rkey = remote->rkey,
			.compare_add = remote->compare_add,
			.swap = remote->swap,
		};
		post = &atomic.wr;
	} else if (op >= RAW_WRITE) {
		rdma = (struct ib_rdma_wr){
			.wr = wr,
			.remote_addr = remote->addr,
			.rkey = remote->rkey,
		};
		post = &rdma.wr;
	}
	err = ib_post_send(conn->id->qp, post, NULL);
	if (!err)
		list_add_tail(&buf->entry, &conn->tx.posted);
	return err;
}

/*
 * Posts a write without data, because a peer on siw may leave the first messages of
 * a connection unread until more arrives. The write has no completion unless it is
 * flushed; that completion has a wr_id of 0.
 */
static void raw_kick(struct raw_conn *conn)
{
	struct ib_rdma_wr wr = { .wr.opcode = IB_WR_RDMA_WRITE };

	conn->kicks--;
	ib_post_send(conn->id->qp, &wr.wr, NULL);
}

/* Sleeps until there may be completions. */
static void raw_sleep(struct raw_conn *conn, struct raw_queue *queue)
{
	long timeout = MAX_SCHEDULE_TIMEOUT;

	/* The time to the next write quadruples: more than a second for all. */
	if (conn->kicks)
		timeout = msecs_to_jiffies(1 << (2 * (RAW_KICKS - conn->kicks)));
	if (!wait_event_idle_timeout(conn->wait, READ_ONCE(queue->event) ||
				     raw_state_of(conn) == RAW_CLOSED ||
				     kthread_should_stop(), timeout))
		raw_kick(conn);
}

/* Waits for a completion of a direction; -ECANCELED when the connection is closed. */
static struct ib_wc *raw_next(struct raw_conn *conn, struct raw_queue *queue)
{
	struct ib_wc *wc;

	/* Stops the thread even if every poll finds a completion. */
	while (!kthread_should_stop()) {
		while (queue->next < queue->found) {
			wc = &queue->wc[queue->next++];
			if (wc->wr_id)
				return wc;
		}
		cond_resched();
		queue->next = 0;
		queue->found = ib_poll_cq(queue->cq, RAW_BATCH, queue->wc);
		if (queue->found < 0)
			return ERR_PTR(queue->found);
		if (queue->found)
			continue;
		WRITE_ONCE(queue->event, false);
		if (ib_req_notify_cq(queue->cq, IB_CQ_NEXT_COMP |
				     IB_CQ_REPORT_MISSED_EVENTS) > 0)
			continue;
		if (raw_state_of(conn) == RAW_CLOSED)
			return ERR_PTR(-ECANCELED);
		raw_sleep(conn, queue);
	}
	return ERR_PTR(-EINTR);
}

static struct raw_buf *raw_wait(struct raw_conn *conn, struct raw_queue *queue,
				u32 *len)
{
	struct ib_wc *wc = raw_next(conn, queue);
	struct raw_buf *buf;

	if (IS_ERR(wc))
		return ERR_CAST(wc);
	buf = (struct raw_buf *)(uintptr_t)wc->wr_id;
	list_del(&buf->entry);
	if (wc->status == IB_WC_SUCCESS) {
		*len = wc->byte_len;
		return buf;
	}
	raw_buf_release(buf);
	kfree(buf);
	return ERR_PTR(wc->status == IB_WC_WR_FLUSH_ERR ? -ECANCELED : -EIO);
}

/*
 * Waits until an operation of raw_post() is complete and returns its buffer,
 * which the caller owns. Operations complete in their order.
 */
struct raw_buf *raw_wait_tx(struct raw_conn *conn)
{
	u32 len;

	return raw_wait(conn, &conn->tx, &len);
}

/* Waits for a message, and returns its buffer, which the caller owns. */
struct raw_buf *raw_wait_rx(struct raw_conn *conn, u32 *len)
{
	return raw_wait(conn, &conn->rx, len);
}

static int raw_map_memory(struct raw_conn *conn, unsigned int pages)
{
	struct ib_device *device = conn->pd->device;
	struct scatterlist *sg;
	struct ib_mr *mr;
	unsigned int i;
	int err;

	err = sg_alloc_table(&conn->sgt, pages, GFP_KERNEL);
	if (err)
		return err;
	for_each_sgtable_sg(&conn->sgt, sg, i) {
		void *at = conn->mem + i * PAGE_SIZE;

		sg_set_page(sg, is_vmalloc_addr(at) ? vmalloc_to_page(at) :
			    virt_to_page(at), PAGE_SIZE, 0);
	}
	conn->mapped = ib_dma_map_sg(device, conn->sgt.sgl, conn->sgt.orig_nents,
				     DMA_BIDIRECTIONAL);
	if (!conn->mapped)
		return -ENOMEM;
	mr = ib_alloc_mr(conn->pd, IB_MR_TYPE_MEM_REG, pages);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	conn->mr = mr;
	err = ib_map_mr_sg(mr, conn->sgt.sgl, conn->mapped, NULL, PAGE_SIZE);
	if (err != conn->mapped)
		return err < 0 ? err : -EINVAL;
	return 0;
}

/*
 * Allocates zeroed memory that the peer may access until raw_close(), once per
 * connection, and no operation may be outstanding.
 */
int raw_expose(struct raw_conn *conn, size_t len, struct raw_remote *remote)
{
	struct ib_reg_wr wr = {
		.wr = {
			.wr_id = (uintptr_t)conn,
			.opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED,
		},
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
			  IB_ACCESS_REMOTE_READ,
	};
	unsigned int pages = DIV_ROUND_UP(len, PAGE_SIZE);
	struct ib_wc *wc;
	int err;

	if (conn->mem)
		return -EBUSY;
	conn->mem = kvzalloc(pages * PAGE_SIZE, GFP_KERNEL);
	if (!conn->mem)
		return -ENOMEM;
	err = raw_map_memory(conn, pages);
	if (err)
		return err;
	if (conn->pd->device->attrs.atomic_cap != IB_ATOMIC_NONE)
		wr.access |= IB_ACCESS_REMOTE_ATOMIC;
	wr.mr = conn->mr;
	wr.key = conn->mr->rkey;
	err = ib_post_send(conn->id->qp, &wr.wr, NULL);
	if (err)
		return err;
	wc = raw_next(conn, &conn->tx);
	if (IS_ERR(wc))
		return PTR_ERR(wc);
	if (wc->status != IB_WC_SUCCESS)
		return -EIO;
	remote->addr = conn->mr->iova;
	remote->rkey = conn->mr->rkey;
	return 0;
}

/* Keeps a request for raw_next_request(); an error makes rdma_cm reject it. */
static int raw_add_request(struct raw_listener *listener, struct rdma_cm_id *id,
			   const struct rdma_conn_param *param)
{
	struct raw_conn *conn = raw_alloc();

	if (!conn)
		return -ENOMEM;
	memcpy(conn->data, param->private_data,
	       min_t(size_t, param->private_data_len, sizeof(conn->data)));
	conn->responder_resources = param->responder_resources;
	conn->initiator_depth = param->initiator_depth;
	spin_lock(&listener->lock);
	if (listener->count >= RAW_BACKLOG) {
		spin_unlock(&listener->lock);
		kfree(conn);
		return -ENOSPC;
	}
	conn->id = id;
	id->context = conn;
	id->event_handler = raw_event;
	list_add_tail(&conn->entry, &listener->pending);
	listener->count++;
	spin_unlock(&listener->lock);
	wake_up(&listener->wait);
	return 0;
}

static int raw_listener_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct raw_listener *listener = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return raw_add_request(listener, id, &event->param.conn);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		WRITE_ONCE(listener->removed, true);
		wake_up(&listener->wait);
		return 0;
	default:
		return 0;
	}
}

/* Listens at an address, on every device that has it. */
struct raw_listener *raw_listen(struct net *net, const void *addr, size_t len)
{
	struct raw_listener *listener;
	struct sockaddr_storage local;
	struct rdma_cm_id *id;
	int err;

	if (raw_copy_addr(&local, addr, len))
		return ERR_PTR(-EINVAL);
	listener = kzalloc_obj(*listener);
	if (!listener)
		return ERR_PTR(-ENOMEM);
	init_waitqueue_head(&listener->wait);
	spin_lock_init(&listener->lock);
	INIT_LIST_HEAD(&listener->pending);
	id = rdma_create_id(net, raw_listener_event, listener, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id)) {
		kfree(listener);
		return ERR_CAST(id);
	}
	listener->id = id;
	err = rdma_bind_addr(id, (struct sockaddr *)&local);
	if (!err)
		err = rdma_listen(id, RAW_BACKLOG);
	if (err) {
		raw_listener_close(listener);
		return ERR_PTR(err);
	}
	return listener;
}

static struct raw_conn *raw_take_request(struct raw_listener *listener)
{
	struct raw_conn *conn;

	spin_lock(&listener->lock);
	conn = list_first_entry_or_null(&listener->pending, struct raw_conn, entry);
	if (conn) {
		list_del(&conn->entry);
		listener->count--;
	}
	spin_unlock(&listener->lock);
	return conn;
}

/*
 * Waits for a connection request and returns it, for raw_open() or raw_reject();
 * raw_close() rejects it, too.
 */
struct raw_conn *raw_next_request(struct raw_listener *listener)
{
	struct raw_conn *conn = NULL;

	wait_event_idle(listener->wait, (conn = raw_take_request(listener)) ||
			READ_ONCE(listener->removed) || kthread_should_stop());
	if (conn)
		return conn;
	return ERR_PTR(kthread_should_stop() ? -EINTR : -ENODEV);
}

/* Rejects a request, with data for the peer, and frees it. */
void raw_reject(struct raw_conn *conn, const void *data, u8 len)
{
	rdma_reject(conn->id, data, len, IB_CM_REJ_CONSUMER_DEFINED);
	raw_close(conn);
}

/* Ends the listener, and rejects the pending requests. */
void raw_listener_close(struct raw_listener *listener)
{
	struct raw_conn *conn;

	/* No handler runs afterwards. */
	rdma_destroy_id(listener->id);
	while ((conn = raw_take_request(listener)))
		raw_close(conn);
	kfree(listener);
}
