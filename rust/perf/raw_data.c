// SPDX-License-Identifier: GPL-2.0
/*
 * Transfers over a connection of the raw-verbs transport: buffers, operations,
 * completions, and memory that the peer accesses.
 */

#include <linux/dma-mapping.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "raw_conn.h"

/* Called in any context, with locks of the driver held. */
static void raw_completion(struct ib_cq *cq, void *context)
{
	struct raw_queue *queue = context;

	WRITE_ONCE(queue->event, true);
	wake_up(&queue->conn->wait);
}

/* Creates the completion queue of a direction. */
int raw_create_cq(struct raw_conn *conn, struct raw_queue *queue, u32 depth)
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

/* Frees the buffers that the connection owns. */
void raw_drop_posted(struct raw_queue *queue)
{
	struct raw_buf *buf, *next;

	list_for_each_entry_safe(buf, next, &queue->posted, entry) {
		raw_buf_release(buf);
		kfree(buf);
	}
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
