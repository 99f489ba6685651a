// SPDX-License-Identifier: GPL-2.0
/* A network driver of HPE's kfabric: see kfi_lnd.h. */

#include <linux/delay.h>
#include <rdma/kfi/kfi_cxi_ext.h>

#include "kfi_lnd.h"

struct kfi_info *lnd_hints(void)
{
	struct kfi_info *hints = kfi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = KFI_MSG | KFI_RMA | KFI_SEND | KFI_RECV | KFI_READ | KFI_WRITE |
		      KFI_REMOTE_READ | KFI_REMOTE_WRITE | KFI_MULTI_RECV | KFI_REMOTE_COMM |
		      KFI_NAMED_RX_CTX | KFI_TAGGED | KFI_TAGGED_RMA | KFI_DIRECTED_RECV;
	hints->fabric_attr->prov_version = KFI_VERSION(1, 0);
	hints->domain_attr->mr_iov_limit = PAGES;
	hints->domain_attr->mr_key_size = sizeof(int);
	hints->domain_attr->resource_mgmt = KFI_RM_DISABLED;
	hints->domain_attr->tclass = KFI_TC_BEST_EFFORT;
	hints->ep_attr->max_msg_size = SZ_1M;
	hints->rx_attr->op_flags = KFI_COMPLETION | KFI_MULTI_RECV;
	hints->rx_attr->iov_limit = PAGES;
	hints->tx_attr->op_flags = KFI_COMPLETION;
	hints->tx_attr->iov_limit = PAGES;
	hints->tx_attr->rma_iov_limit = PAGES;
	hints->tx_attr->tclass = KFI_TC_BEST_EFFORT;
	return hints;
}

/* Calls kfi_getinfo() with the key in memory that kfi_freeinfo() must not free. */
int lnd_getinfo(struct kfi_info *hints, const char *service, struct kfi_info **info)
{
	u32 key = 255;
	int ret;

	hints->ep_attr->auth_key = (u8 *)&key;
	hints->ep_attr->auth_key_size = sizeof(key);
	ret = kfi_getinfo(0, fx_addr, service, KFI_SOURCE, hints, info);
	hints->ep_attr->auth_key = NULL;
	hints->ep_attr->auth_key_size = 0;
	return ret;
}

static void note(struct lnd *lnd, u64 flags)
{
	if (!lnd->strange)
		lnd->strange = flags ?: U64_MAX;
}

static int post_buffer(struct buffer *buffer)
{
	int ret;

	if (buffer->is_closing)
		return 0;
	atomic_inc(&buffer->posted);
	ret = kfi_recv(buffer->of->rx, buffer->start, BUFFER_BYTES, NULL, KFI_ADDR_UNSPEC, buffer);
	if (ret)
		atomic_dec(&buffer->posted);
	return ret;
}

static void put_buffer(struct buffer *buffer)
{
	struct lnd *lnd = buffer->of->lnd;
	int ret;

	if (atomic_dec_return(&buffer->posted))
		return;
	ret = post_buffer(buffer);
	if (ret && !lnd->repost)
		lnd->repost = ret;
}

static void receive(struct context *context, struct kfi_cq_data_entry *entry)
{
	struct buffer *buffer = entry->op_context;
	struct immediate *message = entry->buf;

	if (buffer->of != context || (u8 *)message < buffer->start ||
	    (u8 *)message + entry->len > buffer->start + BUFFER_BYTES ||
	    entry->len != sizeof(*message) || message->copy != ~message->number)
		atomic_inc(&context->wrong);
	atomic_inc(&context->received);
	if (entry->flags & KFI_MULTI_RECV)
		put_buffer(buffer);
}

static void finish(struct transaction *tn, int status, u64 flags, u64 data, size_t len)
{
	tn->status = status;
	tn->flags = flags;
	tn->data = data;
	tn->len = len;
	complete(&tn->done);
}

/* Takes the flags that the driver knows, and no others, as kfilnd does. */
static void complete_entry(struct context *context, struct kfi_cq_data_entry *entry)
{
	switch (entry->flags) {
	case KFI_MSG | KFI_RECV:
	case KFI_MSG | KFI_RECV | KFI_MULTI_RECV:
		receive(context, entry);
		break;
	case KFI_TAGGED | KFI_RECV:
	case KFI_TAGGED | KFI_RECV | KFI_REMOTE_CQ_DATA:
	case KFI_TAGGED | KFI_RMA | KFI_READ | KFI_RECV:
	case KFI_TAGGED | KFI_RMA | KFI_WRITE | KFI_RECV:
	case KFI_TAGGED | KFI_SEND:
	case KFI_TAGGED | KFI_RMA | KFI_READ | KFI_SEND:
	case KFI_TAGGED | KFI_RMA | KFI_WRITE | KFI_SEND:
	case KFI_MSG | KFI_SEND:
		finish(entry->op_context, 0, entry->flags, entry->data, entry->len);
		break;
	default:
		note(context->lnd, entry->flags);
	}
}

static void complete_error(struct context *context, struct kfi_cq_err_entry *entry)
{
	switch (entry->flags) {
	case KFI_MSG | KFI_RECV:
		if (entry->err != ECANCELED) {
			note(context->lnd, entry->flags);
			break;
		}
		fallthrough;
	case KFI_MSG | KFI_RECV | KFI_MULTI_RECV:
		put_buffer(entry->op_context);
		break;
	case KFI_TAGGED | KFI_RECV:
	case KFI_TAGGED | KFI_RECV | KFI_REMOTE_CQ_DATA:
	case KFI_TAGGED | KFI_RMA | KFI_READ | KFI_RECV:
	case KFI_TAGGED | KFI_RMA | KFI_WRITE | KFI_RECV:
	case KFI_TAGGED | KFI_SEND:
	case KFI_TAGGED | KFI_RMA | KFI_READ | KFI_SEND:
	case KFI_TAGGED | KFI_RMA | KFI_WRITE | KFI_SEND:
	case KFI_MSG | KFI_SEND:
		finish(entry->op_context, -entry->err, entry->flags, 0, 0);
		break;
	default:
		note(context->lnd, entry->flags);
	}
}

static void read_queue(struct work_struct *work)
{
	struct queue *queue = container_of(work, struct queue, work);
	struct kfi_cq_data_entry entry;
	struct kfi_cq_err_entry error;
	ssize_t ret;

	for (;;) {
		ret = kfi_cq_read(queue->cq, &entry, 1);
		if (ret == 1) {
			complete_entry(queue->of, &entry);
		} else if (ret == -KFI_EAVAIL) {
			while (kfi_cq_readerr(queue->cq, &error, 0) == 1)
				complete_error(queue->of, &error);
		} else {
			if (ret != -KFI_EAGAIN)
				note(queue->of->lnd, 0);
			break;
		}
	}
	wake_up_all(&queue->of->lnd->changed);
}

static void on_completion(struct kfid_cq *cq, void *context)
{
	struct queue *queue = context;

	queue_work(queue->of->lnd->wq, &queue->work);
}

static int open_queue(struct context *context, struct queue *queue, int cpu, size_t size)
{
	/* The number of a CPU, which may be more than the device has vectors. */
	struct kfi_cq_attr attr = {
		.flags = KFI_AFFINITY,
		.format = KFI_CQ_FORMAT_DATA,
		.wait_cond = KFI_CQ_COND_NONE,
		.wait_obj = KFI_WAIT_NONE,
		.signaling_vector = cpu,
		.size = size,
	};

	queue->of = context;
	INIT_WORK(&queue->work, read_queue);
	return kfi_cq_open(context->lnd->domain, &attr, &queue->cq, on_completion, queue);
}

static int open_context(struct lnd *lnd, int index)
{
	struct context *context = &lnd->contexts[index];
	struct kfi_rx_attr rx_attr = {
		.op_flags = KFI_COMPLETION | KFI_MULTI_RECV,
		.msg_order = KFI_ORDER_NONE,
		.comp_order = KFI_ORDER_NONE,
		.size = CREDITS + BUFFERS,
		.iov_limit = lnd->info->rx_attr->iov_limit,
	};
	struct kfi_tx_attr tx_attr = {
		.op_flags = KFI_COMPLETION | KFI_TRANSMIT_COMPLETE,
		.msg_order = KFI_ORDER_NONE,
		.comp_order = KFI_ORDER_NONE,
		.size = 2 * CREDITS,
		.iov_limit = lnd->info->tx_attr->iov_limit,
		.rma_iov_limit = lnd->info->tx_attr->rma_iov_limit,
		.tclass = KFI_TC_BEST_EFFORT,
	};
	size_t least = IMMEDIATE;
	int ret;

	context->lnd = lnd;
	ret = open_queue(context, &context->rx_cq, index, CREDITS * 10);
	if (ret)
		return ret;
	ret = open_queue(context, &context->tx_cq, num_possible_cpus() + 1000, CREDITS * 10);
	if (ret)
		return ret;
	ret = kfi_rx_context(lnd->sep, index, &rx_attr, &context->rx, context);
	if (ret)
		return ret;
	ret = kfi_setopt(&context->rx->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV, &least,
			 sizeof(least));
	if (ret)
		return ret;
	ret = kfi_tx_context(lnd->sep, index, &tx_attr, &context->tx, context);
	if (ret)
		return ret;
	ret = kfi_ep_bind(context->rx, &context->rx_cq.cq->fid, 0) ?:
	      kfi_ep_bind(context->tx, &context->tx_cq.cq->fid, 0) ?:
	      kfi_enable(context->rx) ?: kfi_enable(context->tx);
	if (ret)
		return ret;
	for (int i = 0; i < BUFFERS; i++) {
		struct buffer *buffer = &context->buffers[i];

		buffer->of = context;
		buffer->pages = alloc_pages(GFP_KERNEL | __GFP_NOWARN, get_order(BUFFER_BYTES));
		if (!buffer->pages)
			return -ENOMEM;
		buffer->start = page_address(buffer->pages);
		ret = post_buffer(buffer);
		if (ret)
			return ret;
	}
	return 0;
}

static bool is_idle(struct context *context)
{
	for (int i = 0; i < BUFFERS; i++)
		if (atomic_read(&context->buffers[i].posted))
			return false;
	return true;
}

#define EXPECT_CLOSED(lnds, object) do {				\
	if (object)							\
		KUNIT_EXPECT_EQ((lnds)->test, 0, kfi_close(&(object)->fid)); \
	(object) = NULL;						\
} while (0)

static void close_context(struct lnds *lnds, struct context *context)
{
	struct lnd *lnd = context->lnd;

	if (!lnd)
		return;
	for (int i = 0; i < BUFFERS && context->rx; i++) {
		struct buffer *buffer = &context->buffers[i];

		buffer->is_closing = true;
		while (buffer->pages &&
		       kfi_cancel(&context->rx->fid, buffer) == -KFI_EAGAIN)
			msleep(20);
	}
	KUNIT_EXPECT_NE(lnds->test, 0, wait_event_timeout(lnd->changed, is_idle(context),
							  msecs_to_jiffies(FX_WAIT_MS)));
	EXPECT_CLOSED(lnds, context->tx);
	EXPECT_CLOSED(lnds, context->rx);
	for (int i = 0; i < BUFFERS; i++)
		if (context->buffers[i].pages)
			__free_pages(context->buffers[i].pages, get_order(BUFFER_BYTES));
	flush_workqueue(lnd->wq);
	EXPECT_CLOSED(lnds, context->tx_cq.cq);
	flush_workqueue(lnd->wq);
	EXPECT_CLOSED(lnds, context->rx_cq.cq);
}

/* Closes in the order of kfilnd; each call has to succeed. */
static void close_lnd(struct lnds *lnds, struct lnd *lnd)
{
	for (int i = 0; i < CONTEXTS; i++)
		close_context(lnds, &lnd->contexts[i]);
	EXPECT_CLOSED(lnds, lnd->sep);
	EXPECT_CLOSED(lnds, lnd->av);
	if (lnd->wq)
		destroy_workqueue(lnd->wq);
	lnd->wq = NULL;
	kfi_freeinfo(lnd->info);
	lnd->info = NULL;
	KUNIT_EXPECT_EQ_MSG(lnds->test, 0, lnd->strange, "flags of an unknown completion");
	KUNIT_EXPECT_EQ(lnds->test, 0, lnd->repost);
}

static void close_lnds(void *data)
{
	struct lnds *lnds = data;

	close_lnd(lnds, &lnds->client);
	close_lnd(lnds, &lnds->server);
	EXPECT_CLOSED(lnds, lnds->server.domain);
	EXPECT_CLOSED(lnds, lnds->server.fabric);
}

static int open_lnd(struct lnd *lnd, struct lnd *shared, const char *service)
{
	struct kfi_av_attr attr = { .type = KFI_AV_UNSPEC, .rx_ctx_bits = RX_BITS };
	struct kfi_info *hints = lnd_hints();
	int ret;

	if (!hints)
		return -ENOMEM;
	lnd->service = service;
	init_waitqueue_head(&lnd->changed);
	if (shared) {
		hints->fabric_attr->fabric = shared->fabric;
		hints->domain_attr->domain = shared->domain;
	}
	ret = lnd_getinfo(hints, service, &lnd->info);
	kfi_freeinfo(hints);
	if (ret)
		return ret;
	lnd->wq = alloc_workqueue("kfi_lnd", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!lnd->wq)
		return -ENOMEM;
	if (shared) {
		lnd->domain = shared->domain;
	} else {
		struct kfi_cxi_fabric_ops *ops;

		ret = kfi_fabric(lnd->info->fabric_attr, &lnd->fabric, lnd);
		if (ret)
			return ret;
		if (!kfi_open_ops(&lnd->fabric->fid, KFI_CXI_FAB_OPS_1, 0, (void **)&ops, NULL))
			return -EEXIST;
		ret = kfi_domain(lnd->fabric, lnd->info, &lnd->domain, lnd);
		if (ret)
			return ret;
	}
	ret = kfi_av_open(lnd->domain, &attr, &lnd->av, lnd);
	if (ret)
		return ret;
	ret = kfi_scalable_ep(lnd->domain, lnd->info, &lnd->sep, lnd);
	if (ret)
		return ret;
	ret = kfi_scalable_ep_bind(lnd->sep, &lnd->av->fid, 0) ?: kfi_enable(lnd->sep);
	for (int i = 0; i < CONTEXTS && !ret; i++)
		ret = open_context(lnd, i);
	return ret;
}

struct lnds *lnd_open(struct kunit *test)
{
	struct lnds *lnds = kunit_kzalloc(test, sizeof(*lnds), GFP_KERNEL);

	if (fx_is_loop())
		kunit_skip(test, "the driver reaches other hosts");
	KUNIT_ASSERT_NOT_NULL(test, lnds);
	lnds->test = test;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, close_lnds, lnds));
	KUNIT_ASSERT_EQ(test, 0, open_lnd(&lnds->server, NULL, "17531"));
	KUNIT_ASSERT_EQ(test, 0, open_lnd(&lnds->client, &lnds->server, "17532"));
	KUNIT_ASSERT_EQ(test, 1, kfi_av_insertsvc(lnds->client.av, fx_addr, "17531",
						  &lnds->to_server, 0, NULL));
	KUNIT_ASSERT_EQ(test, 1, kfi_av_insertsvc(lnds->server.av, fx_addr, "17532",
						  &lnds->to_client, 0, NULL));
	return lnds;
}
