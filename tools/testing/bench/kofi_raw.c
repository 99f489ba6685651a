// SPDX-License-Identifier: GPL-2.0
/*
 * The baseline: the measured loops over ib_verbs.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"raw"
#define BENCH_PORT	7601

#include <linux/scatterlist.h>

#include "bench.h"

/* Regions of the connection's pool while they are registered, one for each message of the window */
struct raw_priv {
	struct raw_region {
		struct ib_mr		*mr;
		struct scatterlist	list[BENCH_REGION_PAGES];
		int			count;
	} regions[BENCH_REGIONS];
	bool	has_pool;
};

#include "raw.h"

#include <rdma/mr_pool.h>

static __always_inline int raw_send(struct bench_end *end, void *buf,
				    size_t len, int flags)
{
	struct ib_sge sge = {
		.addr = end->tx_dma + (buf - end->side.tx),
		.length = len,
		.lkey = end->lkey,
	};
	struct ib_send_wr wr = {
		.wr_id = (uintptr_t)buf,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = flags,
	};

	return ib_post_send(end->qp, &wr, NULL);
}

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
{
	return raw_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int end_send_unsignaled(struct bench_end *end, void *buf,
					       size_t len)
{
	return raw_send(end, buf, len, 0);
}

static __always_inline int end_send_signaled(struct bench_end *end, void *buf,
					     size_t len)
{
	return raw_send(end, buf, len, IB_SEND_SIGNALED);
}

static __always_inline int end_recv(struct bench_end *end, void *buf)
{
	struct ib_sge sge = {
		.addr = end->rx_dma + (buf - end->side.rx),
		.length = end->side.test->size,
		.lkey = end->lkey,
	};
	struct ib_recv_wr wr = {
		.wr_id = (uintptr_t)buf,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(end->qp, &wr, NULL);
}

static __always_inline int end_poll(struct bench_end *end)
{
	int found, i;

	found = ib_poll_cq(end->cq, BENCH_BATCH, end->done);
	for (i = 0; i < found; i++) {
		if (unlikely(end->done[i].status != IB_WC_SUCCESS))
			return -EIO;
	}
	return found;
}

/* Returns a region whose key has become invalid to the pool. */
static void raw_put_region(struct bench_end *end, struct raw_region *region)
{
	if (!region->mr)
		return;
	ib_dma_unmap_sg(end->qp->device, region->list, region->count,
			DMA_TO_DEVICE);
	ib_mr_pool_put(end->qp, &end->qp->rdma_mrs, region->mr);
	region->mr = NULL;
}

/* Takes a region from the pool, and gives it the pages of message @nth and another key. */
static int raw_map_region(struct bench_end *end, unsigned int nth)
{
	struct raw_region *region = &end->priv.regions[nth];
	size_t size = end->side.test->size;
	u8 *buf = end->side.tx + nth * size;
	int count = size / PAGE_SIZE, ret;

	/* The window says that the invalidation has completed. */
	raw_put_region(end, region);
	sg_init_table(region->list, count);
	for (int i = 0; i < count; i++)
		sg_set_page(&region->list[i], virt_to_page(buf + i * PAGE_SIZE),
			    PAGE_SIZE, 0);
	region->count = count;
	count = ib_dma_map_sg(end->qp->device, region->list, count,
			      DMA_TO_DEVICE);
	if (!count)
		return -ENOMEM;
	region->mr = ib_mr_pool_get(end->qp, &end->qp->rdma_mrs);
	if (!region->mr)
		return -EAGAIN;
	ret = ib_map_mr_sg(region->mr, region->list, count, NULL, SZ_4K);
	if (ret != count)
		return ret < 0 ? ret : -EINVAL;
	ib_update_fast_reg_key(region->mr, ib_inc_rkey(region->mr->rkey));
	return 0;
}

/*
 * Registers and invalidates message @nth. Both are posted alone, as a consumer does it: between them it
 * sends the key, and waits for the peer.
 */
static __always_inline int end_register(struct bench_end *end, unsigned int nth)
{
	struct ib_mr *mr;
	struct ib_send_wr invalidate = {
		.wr_id = (uintptr_t)end->side.tx + nth * end->side.test->size,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.access = IB_ACCESS_REMOTE_READ,
	};
	int ret = raw_map_region(end, nth);

	if (ret)
		return ret;
	mr = end->priv.regions[nth].mr;
	wr.mr = mr;
	wr.key = mr->rkey;
	invalidate.ex.invalidate_rkey = mr->rkey;
	return ib_post_send(end->qp, &wr.wr, NULL) ?:
	       ib_post_send(end->qp, &invalidate, NULL);
}

static unsigned int raw_recv_depth(const struct bench_test *test)
{
	return bench_recv_depth(test);
}

static int raw_open_priv(struct bench_pair *pair, struct bench_end *end)
{
	return 0;
}

/* Fills the pool of the queue pair, which has just been created. */
static int raw_post_receives(struct bench_end *end)
{
	int ret;

	if (!bench_registers(end->side.test))
		return 0;
	ret = ib_mr_pool_init(end->qp, &end->qp->rdma_mrs, BENCH_REGIONS,
			      IB_MR_TYPE_MEM_REG, BENCH_REGION_PAGES, 0);
	end->priv.has_pool = !ret;
	return ret;
}

/* Frees the pool, before the queue pair is destroyed. */
static void raw_empty_pool(struct bench_end *end)
{
	if (!end->priv.has_pool)
		return;
	for (int i = 0; i < BENCH_REGIONS; i++)
		raw_put_region(end, &end->priv.regions[i]);
	ib_mr_pool_destroy(end->qp, &end->qp->rdma_mrs);
}

static void raw_close_priv(struct bench_pair *pair, struct bench_end *end)
{
}

#include "raw_pair.h"

MODULE_DESCRIPTION("Ping-pong and stream over ib_verbs, the baseline of kofi_bench");
