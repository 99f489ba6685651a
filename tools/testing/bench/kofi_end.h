/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ends over kOFI, connected or datagram: all except for how the peer is found.
 * Included once by each module, after it has defined BENCH_DEST(), the destination
 * address of an end.
 */

#ifndef KOFI_BENCH_KOFI_END_H
#define KOFI_BENCH_KOFI_END_H

#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#include "bench.h"

static bool safe;
module_param(safe, bool, 0444);
MODULE_PARM_DESC(safe, "open domains with FI_THREAD_SAFE, so that calls take locks");

struct bench_end {
	struct bench_side	side;
	struct fid_ep		*ep;	/* the selected one of links */
	struct fid_cq		*cq;
	void			*tx_desc;
	void			*rx_desc;
	u64			remote_addr;
	u64			remote_key;
	fi_addr_t		dest;	/* address of the peer of a datagram endpoint */
	struct fi_cq_msg_entry	done[BENCH_BATCH];

	struct fid_mr		*tx_mr;
	struct fid_mr		*rx_mr;
	struct fid_domain	*domain;
	struct fid_eq		*eq;	/* of connected endpoints */
	struct fid_av		*av;	/* of datagram endpoints */
	struct fid_ep		**links;
};

struct bench_pair {
	struct bench_end	end[2];
	struct bench_pair	*first;	/* pair that owns fabric and domain */
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_pep		*pep;
};

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
{
	return fi_send(end->ep, buf, len, end->tx_desc,
		       BENCH_DEST(end), buf);
}

static __always_inline int end_send_unsignaled(struct bench_end *end, void *buf,
					       size_t len)
{
	return end_send(end, buf, len);
}

static __always_inline int end_send_signaled(struct bench_end *end, void *buf,
					     size_t len)
{
	struct kvec vec = { .iov_base = buf, .iov_len = len };
	struct fi_msg msg = {
		.msg_iov = &vec,
		.desc = &end->tx_desc,
		.iov_count = 1,
		.addr = BENCH_DEST(end),
		.context = buf,
	};

	return fi_sendmsg(end->ep, &msg, FI_COMPLETION);
}

static __always_inline int end_recv(struct bench_end *end, void *buf)
{
	return fi_recv(end->ep, buf, end->side.test->size, end->rx_desc,
		       FI_ADDR_UNSPEC, buf);
}

static __always_inline int end_inject(struct bench_end *end, void *buf,
				      size_t len)
{
	return fi_inject(end->ep, buf, len, BENCH_DEST(end));
}

static __always_inline int end_write(struct bench_end *end, void *buf,
				     size_t len)
{
	return fi_write(end->ep, buf, len, end->tx_desc, BENCH_DEST(end),
			end->remote_addr, end->remote_key, buf);
}

static __always_inline int end_read(struct bench_end *end, void *buf,
				    size_t len)
{
	return fi_read(end->ep, buf, len, end->tx_desc, BENCH_DEST(end),
		       end->remote_addr, end->remote_key, buf);
}

static __always_inline int end_fetch_add(struct bench_end *end, void *buf)
{
	static const u64 one = 1;

	return fi_fetch_atomic(end->ep, &one, 1, NULL, buf, end->tx_desc,
			       BENCH_DEST(end), end->remote_addr,
			       end->remote_key, FI_UINT64, FI_SUM, buf);
}

#ifndef BENCH_NO_REGISTER
static __always_inline int end_register(struct bench_end *end, unsigned int nth)
{
	size_t size = end->side.test->size;
	u8 *buf = end->side.tx + nth * size;
	struct bio_vec pages[BENCH_REGION_PAGES];
	struct fi_mr_attr attr = {
		.mr_iov = fi_iov_bvec(pages),
		.iov_count = size / PAGE_SIZE,
		.access = FI_REMOTE_READ,
		.context = buf,
	};
	struct fid_mr *mr;
	int ret;

	for (int i = 0; i < attr.iov_count; i++)
		bvec_set_page(&pages[i], virt_to_page(buf + i * PAGE_SIZE),
			      PAGE_SIZE, 0);
	ret = fi_mr_regattr(end->domain, &attr, FI_BVEC, &mr);
	if (ret)
		return ret;
	ret = fi_mr_bind(mr, &end->ep->fid, FI_COMPLETION);
	if (!ret)
		ret = fi_mr_enable(mr);
	return fi_close(&mr->fid) ?: ret;
}
#endif

static __always_inline void end_select(struct bench_end *end, unsigned int link)
{
	end->ep = end->links[link];
}

static __always_inline int end_poll(struct bench_end *end)
{
	ssize_t found = fi_cq_read(end->cq, end->done, BENCH_BATCH);

	return found == -FI_EAGAIN ? 0 : found;
}

static __always_inline int end_wait(struct bench_end *end)
{
	ssize_t found = fi_cq_sread(end->cq, end->done, BENCH_BATCH, NULL,
				    jiffies_to_msecs(BENCH_TIMEOUT));

	return found == -FI_EAGAIN ? 0 : found;
}

/* The handler of the queue is installed when the queue is opened. */
static void end_arm(struct bench_end *end)
{
}

static __always_inline bool end_is_recv(struct bench_end *end, int at)
{
	return end->done[at].flags & FI_RECV;
}

static __always_inline size_t end_len(struct bench_end *end, int at)
{
	return end->done[at].len;
}

static __always_inline void *end_buffer(struct bench_end *end, int at)
{
	return end->done[at].op_context;
}

#include "loops.h"
#include "calls.h"
#include "control.h"

static void kofi_client_handler(struct fid_cq *cq, void *end)
{
	bench_handler(end, true);
}

static void kofi_server_handler(struct fid_cq *cq, void *end)
{
	bench_handler(end, false);
}

/*
 * Finds the device of the local address, and opens the objects that both ends share.
 * All pairs share those of the first.
 */
static int kofi_open_domain(struct bench_pair *pair,
			    const struct bench_test *test,
			    enum fi_ep_type type, const char *service)
{
	struct fi_info *hints;
	int ret;

	hints = fi_allocinfo();
	if (!hints)
		return -ENOMEM;
	hints->caps = FI_MSG | FI_RMA;
	if (test->kind == BENCH_FETCH_LATENCY)
		hints->caps |= FI_ATOMIC;
	hints->ep_attr->type = type;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	if (bench_registers(test))
		hints->domain_attr->mr_mode |= FI_MR_ENDPOINT;
	/* The datagram provider sets the depth of its own work queues. */
	if (type == FI_EP_MSG)
		hints->tx_attr->size = bench_send_depth(test);
	hints->rx_attr->size = bench_recv_depth(test);
	hints->tx_attr->iov_limit = 1;
	hints->rx_attr->iov_limit = 1;
	/* Each work queue entry of the device has this much inline data. */
	hints->tx_attr->inject_size = BENCH_INJECT_SIZE;
	/* Raw verbs leave it to the caller, too, to serialize calls. */
	hints->domain_attr->threading = safe ? FI_THREAD_SAFE :
					       FI_THREAD_COMPLETION;
	ret = fi_getinfo(FI_VERSION(1, 17), addr, service, FI_SOURCE, hints,
			 &pair->info);
	fi_freeinfo(hints);
	if (!ret && pair != pair->first) {
		pair->fabric = pair->first->fabric;
		pair->domain = pair->first->domain;
		return 0;
	}
	if (!ret)
		ret = fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL);
	if (!ret)
		ret = fi_domain(pair->fabric, pair->info, &pair->domain, NULL);
	return ret;
}

static int kofi_open_cq(struct bench_pair *pair, struct bench_end *end)
{
	struct fi_cq_attr cq_attr = {
		.size = bench_cq_size(end->side.test),
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_NONE,
	};

	if (end->side.test->kind == BENCH_SLEEP_LATENCY)
		cq_attr.wait_obj = FI_WAIT_UNSPEC;
	if (end->side.test->kind == BENCH_CALL_LATENCY)
		cq_attr.flags = FI_CB_CTX_INTR;
	if (bench_uses_callbacks(end->side.test)) {
		cq_attr.cq_event_handler = end == &pair->end[BENCH_CLIENT] ?
			kofi_client_handler : kofi_server_handler;
	}
	return fi_cq_open(pair->domain, &cq_attr, &end->cq, end);
}

static int kofi_register(struct bench_pair *pair, struct bench_end *end)
{
	struct bench_test *test = end->side.test;
	u64 remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
	int ret;

	end->domain = pair->domain;
	/* Regions for peers are those of the endpoint. */
	if (bench_registers(test))
		remote = 0;

	ret = fi_mr_reg(pair->domain, end->side.tx, bench_tx_bytes(test),
			FI_SEND | FI_WRITE | FI_READ, 0, 0, 0, &end->tx_mr, NULL);
	if (!ret)
		ret = fi_mr_reg(pair->domain, end->side.rx,
				bench_rx_bytes(test),
				FI_RECV | remote, 0, 0, 0, &end->rx_mr, NULL);
	if (ret)
		return ret;
	end->tx_desc = fi_mr_desc(end->tx_mr);
	end->rx_desc = fi_mr_desc(end->rx_mr);
	return 0;
}

/* Sets the remote address and key of an end to those of its peer's receive buffer. */
static void kofi_set_remote(struct bench_end *end, struct bench_end *peer)
{
	end->remote_addr = (uintptr_t)peer->side.rx;
	end->remote_key = fi_mr_key(peer->rx_mr);
}

/* Binds an endpoint to its end's completion queue, enables it, and posts its receives. */
static int kofi_enable(struct bench_pair *pair, struct bench_end *end,
		       struct fid_ep *ep)
{
	bool selects = end->side.test->kind == BENCH_SELECTIVE &&
		       end == &pair->end[BENCH_CLIENT];
	const size_t regions = BENCH_REGIONS;
	int ret = 0;

	end->ep = ep;
	if (bench_registers(end->side.test))
		ret = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_KOFI_MR_POOL,
				&regions, sizeof(regions));
	if (!ret)
		ret = fi_ep_bind(ep, &end->cq->fid, FI_TRANSMIT |
				 (selects ? FI_SELECTIVE_COMPLETION : 0));
	if (!ret)
		ret = fi_ep_bind(ep, &end->cq->fid, FI_RECV);
	if (!ret)
		ret = fi_enable(ep);
	return ret ?: bench_post_receives(end);
}

/* Opens the shared objects, and each end's buffers, memory regions and completion queue. */
static int kofi_open_ends(struct bench_pair *pair, struct bench_test *test,
			  enum fi_ep_type type)
{
	char service[6];
	int ret, i;

	for (i = 0; i < 2; i++) {
		ret = bench_side_alloc(&pair->end[i].side, test);
		if (ret)
			return ret;
		pair->end[i].links = kzalloc_objs(*pair->end[i].links,
						  test->links);
		if (!pair->end[i].links)
			return -ENOMEM;
	}
	snprintf(service, sizeof(service), "%u", bench_port(pair));
	ret = kofi_open_domain(pair, test, type, service);
	for (i = 0; !ret && i < 2; i++)
		ret = kofi_open_cq(pair, &pair->end[i]);
	for (i = 0; !ret && i < 2; i++)
		ret = kofi_register(pair, &pair->end[i]);
	for (i = 0; !ret && i < 2; i++)
		kofi_set_remote(&pair->end[i], &pair->end[!i]);
	return ret;
}

static void kofi_close(struct fid *fid)
{
	WARN_ON(fi_close(fid));
}

static void kofi_close_end(struct bench_end *end)
{
	unsigned int i;

	for (i = 0; end->links && i < end->side.test->links; i++) {
		if (end->links[i])
			kofi_close(&end->links[i]->fid);
	}
	kfree(end->links);
	if (end->tx_mr)
		kofi_close(&end->tx_mr->fid);
	if (end->rx_mr)
		kofi_close(&end->rx_mr->fid);
	if (end->av)
		kofi_close(&end->av->fid);
	if (end->cq)
		kofi_close(&end->cq->fid);
	if (end->eq)
		kofi_close(&end->eq->fid);
}

static void pair_close(struct bench_pair *pair)
{
	int i;

	if (pair->pep)
		kofi_close(&pair->pep->fid);
	for (i = 0; i < 2; i++)
		kofi_close_end(&pair->end[i]);
	if (pair->domain && pair == pair->first)
		kofi_close(&pair->domain->fid);
	if (pair->fabric && pair == pair->first)
		kofi_close(&pair->fabric->fid);
	fi_freeinfo(pair->info);
	for (i = 0; i < 2; i++)
		bench_side_free(&pair->end[i].side);
}

#endif /* KOFI_BENCH_KOFI_END_H */
