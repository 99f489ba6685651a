// SPDX-License-Identifier: GPL-2.0
/*
 * Messages, RMA and atomic operations over ib_verbs and rdma_cm, written as a
 * ULP without kOFI would: the baseline of `kofi compare`. This file has the
 * connections and listeners, raw_data.c the transfers.
 *
 * A connection has one queue pair, a completion queue for each direction, and
 * buffers that are mapped once. One thread uses it; it sleeps on raw_conn::wait.
 * The handlers of rdma_cm and of the completion queues wake it: the rdma_cm
 * handler writes raw_conn::state, and before that the error and the peer's data.
 *
 * The rdma_cm id is destroyed last: until then rdma_cm delays the removal of the
 * device.
 */

#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>

#include "raw_conn.h"

/* Time limits of address and route resolution, each. */
#define RAW_RESOLVE_MS		2000
/* Values that the endpoints of kOFI's verbs provider have, too. */
#define RAW_RETRIES		6
#define RAW_RNR_RETRIES		7
#define RAW_MIN_RNR_TIMER	12
/* Connection requests that may be pending. */
#define RAW_BACKLOG		16

struct raw_listener {
	struct rdma_cm_id	*id;
	wait_queue_head_t	wait;
	bool			removed;
	spinlock_t		lock;	/* guards pending and count */
	struct list_head	pending;
	unsigned int		count;
};

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
void raw_free(struct kref *ref)
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
