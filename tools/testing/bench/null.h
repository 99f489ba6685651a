/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RDMA device for benchmarks that does almost nothing: a posted send work request
 * completes at once, and only the first NULL_HEADER bytes of a message are copied, where
 * a protocol above the device may have its header. So the cost of a call on the device is
 * that of the layers above it.
 *
 * Its queue pairs connect with each other through iw_cm, which needs no packets. An
 * IB_WR_SEND consumes the oldest receive of the peer; without one, the message is lost.
 * Other send work requests complete without any effect.
 */

#ifndef KOFI_TESTING_NULL_H
#define KOFI_TESTING_NULL_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#define NULL_DEPTH	1024	/* work requests of a send or receive queue */
#define NULL_ENTRIES	16384	/* entries of a completion queue */
#define NULL_HEADER	64	/* bytes copied of a message */

struct null_device {
	struct ib_device	base;
	/*
	 * Protects the listeners, the connections and the posted receives. Lock
	 * order: before the locks of completion queues.
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

struct null_recv {
	u64			wr_id;
	u64			addr;
	u32			len;
};

struct null_qp {
	struct ib_qp		base;
	struct null_recv	*receives;
	u32			head;
	u32			tail;
	bool			signal_all;
	bool			failed;
	struct null_qp		*peer;
	struct iw_cm_id		*id;
	refcount_t		users;
	struct completion	released;
};

#define to(type, object)	container_of(object, struct null_##type, base)

/* null_queues.c */
int null_create_cq(struct ib_cq *base,
		   const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int null_destroy_cq(struct ib_cq *base, struct ib_udata *udata);
int null_poll_cq(struct ib_cq *base, int count, struct ib_wc *wc);
int null_req_notify_cq(struct ib_cq *base, enum ib_cq_notify_flags how);
int null_create_qp(struct ib_qp *base, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata);
int null_destroy_qp(struct ib_qp *base, struct ib_udata *udata);
int null_modify_qp(struct ib_qp *base, struct ib_qp_attr *attr,
		   int mask, struct ib_udata *udata);
int null_post_send(struct ib_qp *base, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad);
int null_post_recv(struct ib_qp *base, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad);
void null_add_ref(struct ib_qp *base);
void null_rem_ref(struct ib_qp *base);
struct ib_qp *null_get_qp(struct ib_device *base, int number);

/* null_cm.c */
int null_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int null_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int null_reject(struct iw_cm_id *id, const void *data, u8 len);
int null_create_listen(struct iw_cm_id *id, int backlog);
int null_destroy_listen(struct iw_cm_id *id);

#endif
