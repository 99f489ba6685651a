// SPDX-License-Identifier: GPL-2.0
/*
 * A device that does nothing: what is posted is over at once, and no byte moves.
 * What a call costs beyond it is its caller's.
 *
 * Its queue pairs connect with each other through iw_cm, which needs no packets.
 * A send takes the oldest receive of the peer; everything else is over by itself.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#define NULL_PORT	1
#define NULL_DEPTH	1024	/* of each queue */
#define NULL_SGES	6
#define NULL_INLINE	256
#define NULL_PAGES	256	/* in a region */
#define NULL_READS	16	/* under way */
#define NULL_MANY	4096	/* of each kind of object */

static char *netdev = "";
module_param(netdev, charp, 0444);
MODULE_PARM_DESC(netdev, "network interface whose addresses it has");

struct null_device {
	struct ib_device	base;
	/*
	 * Who listens, who is connected with whom, and what is posted; before
	 * those of the completion queues.
	 */
	spinlock_t		lock;
	struct list_head	listeners;
	struct xarray		qps;
	u32			last_qp;
	atomic_t		last_key;
};

struct null_cq {
	struct ib_cq		base;
	spinlock_t		lock;
	struct ib_wc		*done;
	u32			head;
	u32			tail;
	bool			armed;
};

struct null_qp {
	struct ib_qp		base;
	u64			*receives;
	u32			head;
	u32			tail;
	bool			signal_all;
	bool			failed;
	struct null_qp		*peer;
	struct iw_cm_id		*id;
	refcount_t		users;
	struct completion	unused;
};

struct null_pd {
	struct ib_pd		base;
};

struct null_listener {
	struct list_head	entry;
	struct iw_cm_id		*id;
};

/* A connection request until its answer */
struct null_call {
	struct iw_cm_id		*id;
	struct null_qp		*qp;
};

#define to(type, object)	container_of(object, struct null_##type, base)

static bool null_is_full(const struct null_cq *cq)
{
	return cq->head - cq->tail == NULL_DEPTH;
}

/* One more completion; more than fit are an error of who made the queue. */
static void null_complete(struct ib_cq *base, const struct ib_wc *wc)
{
	struct null_cq *cq = to(cq, base);
	unsigned long flags;
	bool tell;

	spin_lock_irqsave(&cq->lock, flags);
	if (!WARN_ON_ONCE(null_is_full(cq)))
		cq->done[cq->head++ % NULL_DEPTH] = *wc;
	tell = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (tell && base->comp_handler)
		base->comp_handler(base, base->cq_context);
}

/* A receive is over. */
static void null_receive(struct null_qp *qp, enum ib_wc_status status, u32 len)
{
	struct ib_wc wc = {
		.status = status,
		.opcode = IB_WC_RECV,
		.byte_len = len,
		.qp = &qp->base,
	};

	wc.wr_id = qp->receives[qp->tail++ % NULL_DEPTH];
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
	u32 len = wr->num_sge ? wr->sg_list[0].length : 0;
	struct null_qp *peer = qp->peer;

	if (wr->opcode == IB_WR_SEND && peer && peer->head != peer->tail)
		null_receive(peer, IB_WC_SUCCESS, len);
	if (qp->failed || qp->signal_all || wr->send_flags & IB_SEND_SIGNALED)
		null_complete(qp->base.send_cq, &wc);
}

static int null_post_send(struct ib_qp *base, const struct ib_send_wr *wr,
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

static int null_post_recv(struct ib_qp *base, const struct ib_recv_wr *wr,
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
		qp->receives[qp->head++ % NULL_DEPTH] = wr->wr_id;
		if (qp->failed)
			null_receive(qp, IB_WC_WR_FLUSH_ERR, 0);
	}
	spin_unlock_irqrestore(&device->lock, flags);
	return ret;
}

static int null_poll_cq(struct ib_cq *base, int count, struct ib_wc *wc)
{
	struct null_cq *cq = to(cq, base);
	unsigned long flags;
	int found = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (found < count && cq->tail != cq->head)
		wc[found++] = cq->done[cq->tail++ % NULL_DEPTH];
	spin_unlock_irqrestore(&cq->lock, flags);
	return found;
}

static int null_req_notify_cq(struct ib_cq *base, enum ib_cq_notify_flags how)
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

static int null_create_cq(struct ib_cq *base,
			  const struct ib_cq_init_attr *attr,
			  struct uverbs_attr_bundle *attrs)
{
	struct null_cq *cq = to(cq, base);

	if (attr->flags || attr->cqe > NULL_DEPTH)
		return -EINVAL;
	cq->done = kvmalloc_array(NULL_DEPTH, sizeof(*cq->done), GFP_KERNEL);
	if (!cq->done)
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	base->cqe = NULL_DEPTH;
	return 0;
}

static int null_destroy_cq(struct ib_cq *base, struct ib_udata *udata)
{
	kvfree(to(cq, base)->done);
	return 0;
}

static int null_create_qp(struct ib_qp *base, struct ib_qp_init_attr *attr,
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
	init_completion(&qp->unused);
	ret = xa_alloc_cyclic(&device->qps, &base->qp_num, qp,
			      XA_LIMIT(1, S32_MAX), &device->last_qp,
			      GFP_KERNEL);
	if (ret < 0) {
		kvfree(qp->receives);
		return ret;
	}
	return 0;
}

/* Flushes, now and whatever comes later. */
static void null_fail(struct null_qp *qp)
{
	qp->failed = true;
	qp->peer = NULL;
	while (qp->head != qp->tail)
		null_receive(qp, IB_WC_WR_FLUSH_ERR, 0);
}

static void null_close(struct iw_cm_id *id)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_CLOSE };

	if (!id)
		return;
	id->event_handler(id, &event);
	id->rem_ref(id);
}

/* Ends the connection, if there is one. */
static void null_hang_up(struct null_qp *qp)
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
		null_fail(peer);
	}
	null_fail(qp);
	spin_unlock_irqrestore(&device->lock, flags);
	null_close(ids[1]);
	null_close(ids[0]);
}

static int null_modify_qp(struct ib_qp *base, struct ib_qp_attr *attr,
			  int mask, struct ib_udata *udata)
{
	if (mask & IB_QP_STATE &&
	    (attr->qp_state == IB_QPS_ERR || attr->qp_state == IB_QPS_SQD))
		null_hang_up(to(qp, base));
	return 0;
}

static void null_add_ref(struct ib_qp *base)
{
	refcount_inc(&to(qp, base)->users);
}

static void null_rem_ref(struct ib_qp *base)
{
	struct null_qp *qp = to(qp, base);

	if (refcount_dec_and_test(&qp->users))
		complete(&qp->unused);
}

static int null_destroy_qp(struct ib_qp *base, struct ib_udata *udata)
{
	struct null_device *device = to(device, base->device);
	struct null_qp *qp = to(qp, base);

	xa_erase(&device->qps, base->qp_num);
	null_hang_up(qp);
	null_rem_ref(base);
	wait_for_completion(&qp->unused);
	kvfree(qp->receives);
	return 0;
}

static struct ib_qp *null_get_qp(struct ib_device *base, int number)
{
	struct null_qp *qp = xa_load(&to(device, base)->qps, number);

	return qp ? &qp->base : NULL;
}

static u16 null_port_of(const struct sockaddr_storage *addr)
{
	/* IPv6 has it in the same place. */
	return ((const struct sockaddr_in *)addr)->sin_port;
}

static int null_create_listen(struct iw_cm_id *id, int backlog)
{
	struct null_device *device = to(device, id->device);
	struct null_listener *new, *old;
	unsigned long flags;
	int ret = 0;

	new = kzalloc_obj(*new);
	if (!new)
		return -ENOMEM;
	new->id = id;
	spin_lock_irqsave(&device->lock, flags);
	list_for_each_entry(old, &device->listeners, entry) {
		if (null_port_of(&old->id->local_addr) ==
		    null_port_of(&id->local_addr))
			ret = -EADDRINUSE;
	}
	if (!ret) {
		id->add_ref(id);
		id->provider_data = new;
		list_add(&new->entry, &device->listeners);
	}
	spin_unlock_irqrestore(&device->lock, flags);
	if (ret)
		kfree(new);
	return ret;
}

static int null_destroy_listen(struct iw_cm_id *id)
{
	struct null_device *device = to(device, id->device);
	struct null_listener *listener = id->provider_data;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	list_del(&listener->entry);
	spin_unlock_irqrestore(&device->lock, flags);
	kfree(listener);
	id->rem_ref(id);
	return 0;
}

/* The listener at an address, held. */
static struct iw_cm_id *null_find(struct null_device *device,
				  const struct sockaddr_storage *addr)
{
	struct null_listener *listener;
	struct iw_cm_id *found = NULL;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	list_for_each_entry(listener, &device->listeners, entry) {
		if (null_port_of(&listener->id->local_addr) ==
		    null_port_of(addr))
			found = listener->id;
	}
	if (found)
		found->add_ref(found);
	spin_unlock_irqrestore(&device->lock, flags);
	return found;
}

static int null_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct null_device *device = to(device, id->device);
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.local_addr = id->remote_addr,
		.remote_addr = id->local_addr,
		.private_data = (void *)param->private_data,
		.private_data_len = param->private_data_len,
		.ird = param->ird,
		.ord = param->ord,
	};
	struct iw_cm_id *listener;
	struct null_call *call;
	int ret;

	call = kzalloc_obj(*call);
	if (!call)
		return -ENOMEM;
	listener = null_find(device, &id->remote_addr);
	if (!listener) {
		kfree(call);
		return -ECONNREFUSED;
	}
	call->id = id;
	call->qp = xa_load(&device->qps, param->qpn);
	event.provider_data = call;
	id->add_ref(id);
	null_add_ref(&call->qp->base);
	ret = listener->event_handler(listener, &event);
	listener->rem_ref(listener);
	if (ret) {
		null_rem_ref(&call->qp->base);
		id->rem_ref(id);
		kfree(call);
	}
	return ret;
}

/* The answer to a request, whose id has been held for it. */
static void null_answer(struct null_call *call, int status,
			const void *data, u8 len,
			const struct iw_cm_conn_param *param)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REPLY,
		.status = status,
		.local_addr = call->id->local_addr,
		.remote_addr = call->id->remote_addr,
		.private_data = (void *)data,
		.private_data_len = len,
		.ird = param ? param->ord : 0,
		.ord = param ? param->ird : 0,
	};

	call->id->event_handler(call->id, &event);
	if (status)
		call->id->rem_ref(call->id);
	null_rem_ref(&call->qp->base);
	kfree(call);
}

static int null_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct null_device *device = to(device, id->device);
	struct null_qp *qp = xa_load(&device->qps, param->qpn);
	struct null_call *call = id->provider_data;
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_ESTABLISHED,
		.local_addr = id->local_addr,
		.remote_addr = id->remote_addr,
		.ird = param->ird,
		.ord = param->ord,
	};
	unsigned long flags;

	id->add_ref(id);
	spin_lock_irqsave(&device->lock, flags);
	qp->peer = call->qp;
	qp->id = id;
	call->qp->peer = qp;
	call->qp->id = call->id;
	spin_unlock_irqrestore(&device->lock, flags);
	id->event_handler(id, &event);
	null_answer(call, 0, param->private_data, param->private_data_len,
		    param);
	return 0;
}

static int null_reject(struct iw_cm_id *id, const void *data, u8 len)
{
	null_answer(id->provider_data, -ECONNREFUSED, data, len, NULL);
	return 0;
}

static struct ib_mr *null_get_mr(struct ib_pd *pd, u32 key)
{
	struct ib_mr *mr;

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->lkey = key;
	mr->rkey = key;
	return mr;
}

static struct ib_mr *null_get_dma_mr(struct ib_pd *pd, int access)
{
	return null_get_mr(pd, 0);
}

static struct ib_mr *null_alloc_mr(struct ib_pd *pd, enum ib_mr_type type,
				   u32 pages)
{
	struct null_device *device = to(device, pd->device);

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	/* The lowest byte is the consumer's. */
	return null_get_mr(pd, atomic_inc_return(&device->last_key) << 8);
}

static struct ib_mr *null_reg_user_mr(struct ib_pd *pd, u64 start, u64 len,
				      u64 addr, int access,
				      struct ib_dmah *dmah,
				      struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int null_set_page(struct ib_mr *mr, u64 addr)
{
	return 0;
}

static int null_map_mr_sg(struct ib_mr *mr, struct scatterlist *list,
			  int count, unsigned int *offset)
{
	return ib_sg_to_pages(mr, list, count, offset, null_set_page);
}

static int null_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	kfree(mr);
	return 0;
}

static int null_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int null_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int null_query_device(struct ib_device *base,
			     struct ib_device_attr *attr,
			     struct ib_udata *udata)
{
	*attr = (struct ib_device_attr){
		.device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS,
		.max_mr_size = U64_MAX,
		.page_size_cap = PAGE_SIZE,
		.max_qp = NULL_MANY,
		.max_qp_wr = NULL_DEPTH,
		.max_send_sge = NULL_SGES,
		.max_recv_sge = NULL_SGES,
		.max_sge_rd = 1,
		.max_cq = NULL_MANY,
		.max_cqe = NULL_DEPTH,
		.max_mr = NULL_MANY,
		.max_pd = NULL_MANY,
		.max_qp_rd_atom = NULL_READS,
		.max_qp_init_rd_atom = NULL_READS,
		.max_res_rd_atom = NULL_MANY,
		.max_fast_reg_page_list_len = NULL_PAGES,
	};
	return 0;
}

static int null_query_port(struct ib_device *base, u32 port,
			   struct ib_port_attr *attr)
{
	*attr = (struct ib_port_attr){
		.state = IB_PORT_ACTIVE,
		.phys_state = IB_PORT_PHYS_STATE_LINK_UP,
		.max_mtu = IB_MTU_4096,
		.active_mtu = IB_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = U32_MAX,
		.active_width = IB_WIDTH_1X,
		.active_speed = IB_SPEED_SDR,
		.port_cap_flags = IB_PORT_CM_SUP,
	};
	return 0;
}

static int null_get_port_immutable(struct ib_device *base, u32 port,
				   struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	return 0;
}

static int null_query_gid(struct ib_device *base, u32 port, int index,
			  union ib_gid *gid)
{
	struct net_device *ndev = ib_device_get_netdev(base, NULL_PORT);

	memset(gid, 0, sizeof(*gid));
	if (!ndev)
		return -ENODEV;
	/* It is by this that rdma_cm finds the device of an address. */
	memcpy(gid->raw, ndev->dev_addr, ETH_ALEN);
	dev_put(ndev);
	return 0;
}

static const struct ib_device_ops null_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.alloc_mr = null_alloc_mr,
	.alloc_pd = null_alloc_pd,
	.create_cq = null_create_cq,
	.create_qp = null_create_qp,
	.dealloc_pd = null_dealloc_pd,
	.dereg_mr = null_dereg_mr,
	.destroy_cq = null_destroy_cq,
	.destroy_qp = null_destroy_qp,
	.get_dma_mr = null_get_dma_mr,
	.get_port_immutable = null_get_port_immutable,
	.iw_accept = null_accept,
	.iw_add_ref = null_add_ref,
	.iw_connect = null_connect,
	.iw_create_listen = null_create_listen,
	.iw_destroy_listen = null_destroy_listen,
	.iw_get_qp = null_get_qp,
	.iw_reject = null_reject,
	.iw_rem_ref = null_rem_ref,
	.map_mr_sg = null_map_mr_sg,
	.modify_qp = null_modify_qp,
	.poll_cq = null_poll_cq,
	.post_recv = null_post_recv,
	.post_send = null_post_send,
	.query_device = null_query_device,
	.query_gid = null_query_gid,
	.query_port = null_query_port,
	.reg_user_mr = null_reg_user_mr,
	.req_notify_cq = null_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, null_cq, base),
	INIT_RDMA_OBJ_SIZE(ib_pd, null_pd, base),
	INIT_RDMA_OBJ_SIZE(ib_qp, null_qp, base),
};

static struct null_device *null_device;

static int null_register(struct null_device *device, struct net_device *ndev)
{
	struct ib_device *base = &device->base;
	int ret;

	spin_lock_init(&device->lock);
	INIT_LIST_HEAD(&device->listeners);
	xa_init_flags(&device->qps, XA_FLAGS_ALLOC1);
	addrconf_addr_eui48((u8 *)&base->node_guid, ndev->dev_addr);
	base->node_type = RDMA_NODE_RNIC;
	base->phys_port_cnt = 1;
	base->num_comp_vectors = 1;
	strscpy(base->iw_ifname, ndev->name, sizeof(base->iw_ifname));
	base->iw_driver_flags = IW_F_NO_PORT_MAP;
	ib_set_device_ops(base, &null_ops);
	ret = ib_device_set_netdev(base, ndev, NULL_PORT);
	return ret ?: ib_register_device(base, "null%d", NULL);
}

static int __init null_init(void)
{
	struct net_device *ndev;
	int ret = -ENOMEM;

	ndev = dev_get_by_name(&init_net, netdev);
	if (!ndev)
		return -ENODEV;
	null_device = ib_alloc_device(null_device, base);
	if (null_device)
		ret = null_register(null_device, ndev);
	dev_put(ndev);
	if (ret && null_device)
		ib_dealloc_device(&null_device->base);
	return ret;
}
module_init(null_init);

static void __exit null_exit(void)
{
	ib_unregister_device(&null_device->base);
	xa_destroy(&null_device->qps);
	ib_dealloc_device(&null_device->base);
}
module_exit(null_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A device whose posts and polls do nothing, to count what calls cost beyond it");
