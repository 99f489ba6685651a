/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connected endpoint and its resources, for clients and servers: a domain
 * (the device), an event queue for the connection, a completion queue for each
 * direction, and one registered buffer that is divided into slots.
 */

#ifndef KOFI_SAMPLE_CONNECTION_H
#define KOFI_SAMPLE_CONNECTION_H

#include <linux/kthread.h>
#include <linux/overflow.h>
#include <linux/printk.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/* Timeout of one wait in milliseconds; between waits a loop checks kthread_should_stop(). */
#define WAIT_MS		1000

/* Maximum length of the peer's private data: FI_OPT_CM_DATA_SIZE */
#define MAX_CM_DATA	64

struct connection {
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *tx_cq;
	struct fid_cq *rx_cq;
	struct fid_mr *mr;
	struct fid_ep *ep;
	char *buf;
};

/*
 * Starts the thread of a sample. The reference keeps the task_struct valid for
 * kthread_stop_put() after the thread has exited.
 */
static inline struct task_struct *run_thread(int (*run)(void *))
{
	struct task_struct *thread;

	thread = kthread_create(run, NULL, KBUILD_MODNAME);
	if (!IS_ERR(thread)) {
		get_task_struct(thread);
		wake_up_process(thread);
	}
	return thread;
}

/* Finds connected endpoints with the capabilities @caps. */
static inline int find_info(const char *addr, const char *port, u64 flags,
			    u64 caps, struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = caps;
	hints->ep_attr->type = FI_EP_MSG;
	/* The provider selects keys, and RMA addresses are virtual addresses. */
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	/* Remote CQ data consumes a posted receive. */
	hints->mode = FI_RX_CQ_DATA;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, port, flags, hints, info);
	fi_freeinfo(hints);
	return ret;
}

static inline int open_eq(struct fid_fabric *fabric, struct fid_eq **eq)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	return fi_eq_open(fabric, &attr, eq, NULL);
}

/*
 * Waits for the event @want. Returns the length of its entry, of which at most
 * @len bytes are written to @entry, or an error.
 */
static inline ssize_t wait_cm_entry(struct fid_eq *eq, u32 want,
				    struct fi_eq_cm_entry *entry, size_t len)
{
	struct fi_eq_err_entry err = {};
	ssize_t ret;
	u32 event;

	do {
		if (kthread_should_stop())
			return -FI_EINTR;
		ret = fi_eq_sread(eq, &event, entry, len, WAIT_MS, 0);
	} while (ret == -FI_EAGAIN);

	if (ret == -FI_EAVAIL && fi_eq_readerr(eq, &err, 0) > 0)
		return -err.err;
	if (ret >= 0 && event != want)
		return -FI_ENOTCONN;
	return ret;
}

/*
 * Waits for the event @want. The caller frees the info of FI_CONNREQ; @info is
 * NULL for events that have none.
 */
static inline int wait_event_of(struct fid_eq *eq, u32 want,
				struct fi_info **info)
{
	DEFINE_RAW_FLEX(struct fi_eq_cm_entry, entry, data, MAX_CM_DATA);
	ssize_t ret = wait_cm_entry(eq, want, entry, __struct_size(entry));

	if (ret < 0)
		return ret;
	if (info)
		*info = entry->info;
	return 0;
}

/* Waits for FI_CONNECTED, and copies @len bytes of the peer's private data to @data. */
static inline int wait_connected(struct fid_eq *eq, void *data, size_t len)
{
	DEFINE_RAW_FLEX(struct fi_eq_cm_entry, entry, data, MAX_CM_DATA);
	ssize_t ret = wait_cm_entry(eq, FI_CONNECTED, entry,
				    __struct_size(entry));

	if (ret < 0)
		return ret;
	if (ret < sizeof(*entry) + len)
		return -FI_ETOOSMALL;
	memcpy(data, entry->data, len);
	return 0;
}

/*
 * Waits for a completion. Returns the error of a failed operation: -FI_ECANCELED
 * for a receive that was still posted when the connection ended.
 */
static inline int wait_completion_of(struct fid_cq *cq,
				     struct fi_cq_msg_entry *comp)
{
	struct fi_cq_err_entry err = {};
	ssize_t ret;

	do {
		if (kthread_should_stop())
			return -FI_EINTR;
		ret = fi_cq_sread(cq, comp, 1, NULL, WAIT_MS);
	} while (ret == -FI_EAGAIN);

	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &err, 0) == 1)
		return -err.err;
	return ret < 0 ? ret : 0;
}

static inline void close_fid(struct fid *fid)
{
	int ret = fi_close(fid);

	if (ret)
		pr_err("fi_close: %s\n", fi_strerror(ret));
}

/*
 * Closes all objects that are open, children before their parents. After the
 * endpoint is closed, the device does not access the buffer.
 */
static inline void close_connection(struct connection *conn)
{
	if (conn->ep)
		close_fid(&conn->ep->fid);
	if (conn->mr)
		close_fid(&conn->mr->fid);
	if (conn->rx_cq)
		close_fid(&conn->rx_cq->fid);
	if (conn->tx_cq)
		close_fid(&conn->tx_cq->fid);
	if (conn->eq)
		close_fid(&conn->eq->fid);
	if (conn->domain)
		close_fid(&conn->domain->fid);
	kvfree(conn->buf);
}

/*
 * Opens an endpoint with a buffer of @slots slots of @size bytes, one slot for
 * each posted operation. The caller calls close_connection() after an error, too.
 */
static inline int open_connection(struct connection *conn,
				  struct fid_fabric *fabric,
				  struct fi_info *info, size_t slots,
				  size_t size)
{
	struct fi_cq_attr cq_attr = {
		.size = slots,
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_UNSPEC,
	};
	int ret;

	*conn = (struct connection){};
	conn->buf = kvcalloc(slots, size, GFP_KERNEL);
	if (!conn->buf)
		return -FI_ENOMEM;

	ret = fi_domain(fabric, info, &conn->domain, NULL);
	if (ret)
		return ret;
	/* No remote access: the peer only sends messages. */
	ret = fi_mr_reg(conn->domain, conn->buf, slots * size, 0, 0, 0, 0,
			&conn->mr, NULL);
	if (ret)
		return ret;
	ret = open_eq(fabric, &conn->eq);
	if (ret)
		return ret;
	ret = fi_cq_open(conn->domain, &cq_attr, &conn->tx_cq, NULL);
	if (ret)
		return ret;
	ret = fi_cq_open(conn->domain, &cq_attr, &conn->rx_cq, NULL);
	if (ret)
		return ret;

	/* Each work queue has an entry for every slot. */
	info->tx_attr->size = slots;
	info->rx_attr->size = slots;
	ret = fi_endpoint(conn->domain, info, &conn->ep, NULL);
	if (ret)
		return ret;
	ret = fi_ep_bind(conn->ep, &conn->eq->fid, 0);
	if (ret)
		return ret;
	ret = fi_ep_bind(conn->ep, &conn->tx_cq->fid, FI_TRANSMIT);
	if (ret)
		return ret;
	ret = fi_ep_bind(conn->ep, &conn->rx_cq->fid, FI_RECV);
	if (ret)
		return ret;
	return fi_enable(conn->ep);
}

#endif /* KOFI_SAMPLE_CONNECTION_H */
