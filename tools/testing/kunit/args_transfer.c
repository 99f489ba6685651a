// SPDX-License-Identifier: GPL-2.0
/*
 * Bad arguments to the calls that post transfers. These run in any context and
 * do not check the class of their object.
 */

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "args.h"

static void args_messages(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_ep *ep = objs->pair->ep[0];
	u8 *buf = objs->buf;

	ANSWER(-FI_EINVAL, fi_send(ep, NULL, 1, NULL, 0, NULL));
	ANSWER(-FI_EINVAL, fi_recv(ep, NULL, 1, NULL, 0, NULL));
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++) {
		size_t len = args_lengths[i];

		REFUSE(fi_send(ep, buf, len, NULL, 0, NULL));
		REFUSE(fi_recv(ep, buf, len, NULL, 0, NULL));
		REFUSE(fi_send(ep, buf, len, fi_mr_desc(objs->mr), 0, NULL));
		REFUSE(fi_recv(ep, buf, len, fi_mr_desc(objs->mr), 0, NULL));
	}
	/* A byte before the region, and a byte after it. */
	REFUSE(fi_send(ep, buf - 1, 2, fi_mr_desc(objs->mr), 0, NULL));
	REFUSE(fi_send(ep, buf + 4095, 2, fi_mr_desc(objs->mr), 0, NULL));
	REFUSE(fi_recv(ep, buf - 1, 2, fi_mr_desc(objs->mr), 0, NULL));
	REFUSE(fi_recv(ep, buf + 4095, 2, fi_mr_desc(objs->mr), 0, NULL));
	/* Not kernel memory: an address of user space, the end of the address space. */
	REFUSE(fi_send(ep, (void *)PAGE_SIZE, 64, NULL, 0, NULL));
	REFUSE(fi_recv(ep, (void *)-64L, 128, NULL, 0, NULL));
	REFUSE(fi_sendto(ep, buf, 1, NULL, FI_ADDR_UNSPEC, NULL));
	REFUSE(fi_recvfrom(ep, buf, 1, NULL, FI_ADDR_UNSPEC, NULL));
}

static void args_iovecs(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	static const size_t counts[] = {
		1025, U32_MAX, SSIZE_MAX, (size_t)SSIZE_MAX + 1, SIZE_MAX,
	};
	struct fid_ep *ep = objs->pair->ep[0];
	size_t most = objs->pair->info->tx_attr->iov_limit;
	struct kvec *iov;
	void **desc;

	iov = kunit_kcalloc(test, most + 1, sizeof(*iov), GFP_KERNEL);
	desc = kunit_kcalloc(test, most + 1, sizeof(*desc), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, iov);
	KUNIT_ASSERT_NOT_NULL(test, desc);
	for (size_t i = 0; i <= most; i++) {
		iov[i].iov_base = objs->buf;
		iov[i].iov_len = 8;
	}
	ANSWER(-FI_EINVAL, fi_sendv(ep, NULL, NULL, 1, 0, NULL));
	ANSWER(-FI_EINVAL, fi_recvv(ep, NULL, NULL, 1, 0, NULL));
	ANSWER(-FI_EINVAL, fi_sendv(ep, iov, desc, most + 1, 0, NULL));
	ANSWER(-FI_EINVAL, fi_recvv(ep, iov, desc, most + 1, 0, NULL));
	for (int i = 0; i < ARRAY_SIZE(counts); i++) {
		ANSWER(-FI_EINVAL, fi_sendv(ep, iov, desc, counts[i], 0, NULL));
		ANSWER(-FI_EINVAL, fi_recvv(ep, iov, desc, counts[i], 0, NULL));
	}
	for (int i = 2; i < ARRAY_SIZE(args_lengths); i++) {
		iov[1].iov_len = args_lengths[i];
		REFUSE(fi_sendv(ep, iov, NULL, 2, 0, NULL));
		REFUSE(fi_recvv(ep, iov, NULL, 2, 0, NULL));
	}
	/* The sum of the lengths overflows. */
	iov[0].iov_len = SIZE_MAX / 2 + 1;
	iov[1].iov_len = SIZE_MAX / 2 + 1;
	REFUSE(fi_sendv(ep, iov, NULL, 2, 0, NULL));
	REFUSE(fi_recvv(ep, iov, NULL, 2, 0, NULL));
	iov[0].iov_len = 8;
	iov[1].iov_base = NULL;
	iov[1].iov_len = 8;
	ANSWER(-FI_EINVAL, fi_sendv(ep, iov, NULL, 2, 0, NULL));
	ANSWER(-FI_EINVAL, fi_recvv(ep, iov, NULL, 2, 0, NULL));
}

static void args_msg_structs_and_flags(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct kvec iov = { .iov_base = objs->buf, .iov_len = 8 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1 };
	struct fid_ep *ep = objs->pair->ep[0];
	const u64 known = FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_BVEC |
			  FI_SGL | FI_INJECT | FI_REMOTE_CQ_DATA | FI_FENCE |
			  FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
			  FI_DELIVERY_COMPLETE | FI_REMOTE_SIGNAL |
			  FI_DIRECTED_RECV | FI_REMOTE_INVALIDATE;

	ANSWER(-FI_EINVAL, fi_sendmsg(ep, NULL, 0));
	ANSWER(-FI_EINVAL, fi_recvmsg(ep, NULL, 0));
	ANSWER(-FI_EBADFLAGS, fi_sendmsg(ep, &msg, ~0ULL));
	ANSWER(-FI_EBADFLAGS, fi_recvmsg(ep, &msg, ~0ULL));
	for (int bit = 0; bit < 64; bit++) {
		if (known & BIT_ULL(bit))
			continue;
		ANSWER(-FI_EBADFLAGS, fi_sendmsg(ep, &msg, BIT_ULL(bit)));
		ANSWER(-FI_EBADFLAGS, fi_recvmsg(ep, &msg, BIT_ULL(bit)));
	}
	msg.msg_iov = NULL;
	ANSWER(-FI_EINVAL, fi_sendmsg(ep, &msg, 0));
	ANSWER(-FI_EINVAL, fi_recvmsg(ep, &msg, 0));
	msg.msg_iov = &iov;
	msg.iov_count = SIZE_MAX;
	ANSWER(-FI_EINVAL, fi_sendmsg(ep, &msg, 0));
	ANSWER(-FI_EINVAL, fi_recvmsg(ep, &msg, 0));
}

/* Calls that this endpoint was not opened for: any errno will do. */
static void args_injects_and_data(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_ep *ep = objs->pair->ep[0];

	REFUSE(fi_inject(ep, NULL, 1, 0));
	REFUSE(fi_inject(ep, objs->buf, SIZE_MAX, 0));
	REFUSE(fi_senddata(ep, NULL, 1, NULL, ~0ULL, 0, NULL));
	REFUSE(fi_senddata(ep, objs->buf, SIZE_MAX, NULL, 0, 0, NULL));
	REFUSE(fi_injectdata(ep, NULL, 1, 0, 0));
	REFUSE(fi_injectdata(ep, objs->buf, SIZE_MAX, 0, 0));
}

static void args_rma(struct kunit *test)
{
	struct fid_ep *ep = args_objects(test)->pair->ep[0];

	REFUSE(fi_read(ep, NULL, 8, NULL, 0, 0, 0, NULL));
	REFUSE(fi_readv(ep, NULL, NULL, SIZE_MAX, 0, 0, 0, NULL));
	REFUSE(fi_readmsg(ep, NULL, ~0ULL));
	REFUSE(fi_write(ep, NULL, 8, NULL, 0, 0, 0, NULL));
	REFUSE(fi_writev(ep, NULL, NULL, SIZE_MAX, 0, 0, 0, NULL));
	REFUSE(fi_writemsg(ep, NULL, ~0ULL));
	REFUSE(fi_inject_write(ep, NULL, SIZE_MAX, 0, 0, 0));
	REFUSE(fi_writedata(ep, NULL, 8, NULL, 0, 0, 0, 0, NULL));
	REFUSE(fi_inject_writedata(ep, NULL, SIZE_MAX, 0, 0, 0, 0));
}

static void args_tagged_messages(struct kunit *test)
{
	struct fid_ep *ep = args_objects(test)->pair->ep[0];

	REFUSE(fi_trecv(ep, NULL, 8, NULL, 0, 0, 0, NULL));
	REFUSE(fi_trecvv(ep, NULL, NULL, SIZE_MAX, 0, 0, 0, NULL));
	REFUSE(fi_trecvmsg(ep, NULL, ~0ULL));
	REFUSE(fi_tsend(ep, NULL, 8, NULL, 0, 0, NULL));
	REFUSE(fi_tsendv(ep, NULL, NULL, SIZE_MAX, 0, 0, NULL));
	REFUSE(fi_tsendmsg(ep, NULL, ~0ULL));
	REFUSE(fi_tinject(ep, NULL, SIZE_MAX, 0, 0));
	REFUSE(fi_tsenddata(ep, NULL, 8, NULL, 0, 0, 0, NULL));
	REFUSE(fi_tinjectdata(ep, NULL, SIZE_MAX, 0, 0, 0));
}

static void args_atomics(struct kunit *test)
{
	struct kofi_pair *pair = args_objects(test)->pair;
	const enum fi_datatype type = 999;
	const enum fi_op op = 999;
	struct fid_ep *ep = pair->ep[0];

	REFUSE(fi_atomic(ep, NULL, 1, NULL, 0, 0, 0, type, op, NULL));
	REFUSE(fi_atomicv(ep, NULL, NULL, SIZE_MAX, 0, 0, 0, type, op, NULL));
	REFUSE(fi_atomicmsg(ep, NULL, ~0ULL));
	REFUSE(fi_inject_atomic(ep, NULL, SIZE_MAX, 0, 0, 0, type, op));
	REFUSE(fi_fetch_atomic(ep, NULL, 1, NULL, NULL, NULL, 0, 0, 0, type, op,
			       NULL));
	REFUSE(fi_fetch_atomicv(ep, NULL, NULL, SIZE_MAX, NULL, NULL, SIZE_MAX,
				0, 0, 0, type, op, NULL));
	REFUSE(fi_fetch_atomicmsg(ep, NULL, NULL, NULL, SIZE_MAX, ~0ULL));
	REFUSE(fi_compare_atomic(ep, NULL, 1, NULL, NULL, NULL, NULL, NULL, 0,
				 0, 0, type, op, NULL));
	REFUSE(fi_compare_atomicv(ep, NULL, NULL, SIZE_MAX, NULL, NULL,
				  SIZE_MAX, NULL, NULL, SIZE_MAX, 0, 0, 0, type,
				  op, NULL));
	REFUSE(fi_compare_atomicmsg(ep, NULL, NULL, NULL, SIZE_MAX, NULL, NULL,
				    SIZE_MAX, ~0ULL));
	REFUSE(fi_atomicvalid(ep, type, op, NULL));
	REFUSE(fi_fetch_atomicvalid(ep, type, op, NULL));
	REFUSE(fi_compare_atomicvalid(ep, type, op, NULL));
	REFUSE(fi_atomic_valid(ep, type, op, SIZE_MAX));
	REFUSE(fi_fetch_atomic_valid(ep, type, op, SIZE_MAX));
	REFUSE(fi_compare_atomic_valid(ep, type, op, SIZE_MAX));
	REFUSE(fi_query_atomic(pair->domain, type, op, NULL, ~0ULL));
}

static void args_collectives(struct kunit *test)
{
	struct kofi_pair *pair = args_objects(test)->pair;
	const enum fi_datatype type = 999;
	const enum fi_op op = 999;
	struct fid_ep *ep = pair->ep[0];

	REFUSE(ep->collective->msg(ep, NULL, NULL, NULL, SIZE_MAX, ~0ULL));
	REFUSE(fi_barrier(ep, FI_ADDR_NOTAVAIL, NULL));
	REFUSE(fi_barrier2(ep, FI_ADDR_NOTAVAIL, ~0ULL, NULL));
	REFUSE(fi_broadcast(ep, NULL, 1, NULL, 0, 0, type, ~0ULL, NULL));
	REFUSE(fi_alltoall(ep, NULL, 1, NULL, NULL, NULL, 0, type, ~0ULL,
			   NULL));
	REFUSE(fi_allreduce(ep, NULL, 1, NULL, NULL, NULL, 0, type, op, ~0ULL,
			    NULL));
	REFUSE(fi_allgather(ep, NULL, 1, NULL, NULL, NULL, 0, type, ~0ULL,
			    NULL));
	REFUSE(fi_reduce_scatter(ep, NULL, 1, NULL, NULL, NULL, 0, type, op,
				 ~0ULL, NULL));
	REFUSE(fi_reduce(ep, NULL, 1, NULL, NULL, NULL, 0, 0, type, op, ~0ULL,
			 NULL));
	REFUSE(fi_scatter(ep, NULL, 1, NULL, NULL, NULL, 0, 0, type, ~0ULL,
			  NULL));
	REFUSE(fi_gather(ep, NULL, 1, NULL, NULL, NULL, 0, 0, type, ~0ULL,
			 NULL));
	REFUSE(fi_query_collective(pair->domain, 999, NULL, ~0ULL));
	REFUSE(fi_join_collective(ep, 0, NULL, ~0ULL, NULL, NULL));
}

/* Calls that open the objects which the calls above need. */
static void args_open_calls(struct kunit *test)
{
	struct kofi_pair *pair = args_objects(test)->pair;
	struct fid_wait *wait;
	struct fid_poll *poll;
	struct fid_stx *stx;
	struct fid_ep *ep;
	struct fid_av *av;

	REFUSE_OPEN(av, fi_av_open(pair->domain, NULL, &av, NULL));
	REFUSE(fi_av_open(pair->domain, NULL, NULL, NULL));
	REFUSE_OPEN(poll, fi_poll_open(pair->domain, NULL, &poll));
	REFUSE(fi_poll_open(pair->domain, NULL, NULL));
	REFUSE_OPEN(wait, fi_wait_open(pair->fabric, NULL, &wait));
	REFUSE(fi_wait_open(pair->fabric, NULL, NULL));
	REFUSE_OPEN(ep, fi_scalable_ep(pair->domain, NULL, &ep, NULL));
	REFUSE(fi_scalable_ep(pair->domain, NULL, NULL, NULL));
	REFUSE_OPEN(stx, fi_stx_context(pair->domain, NULL, &stx, NULL));
	REFUSE(fi_stx_context(pair->domain, NULL, NULL, NULL));
	REFUSE_OPEN(ep, fi_srx_context(pair->domain, NULL, &ep, NULL));
	REFUSE(fi_srx_context(pair->domain, NULL, NULL, NULL));
	REFUSE_OPEN(ep, fi_tx_context(pair->ep[0], -1, NULL, &ep, NULL));
	REFUSE_OPEN(ep, fi_rx_context(pair->ep[0], -1, NULL, &ep, NULL));
	REFUSE(fi_trywait(pair->fabric, NULL, INT_MAX));
	REFUSE(fi_trywait(pair->fabric, NULL, -1));
}

static void args_regions(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_domain *domain = objs->pair->domain;
	u64 key, base;
	size_t len = 0;

	KUNIT_EXPECT_EQ(test, fi_mr_key(objs->mr), FI_KEY_NOTAVAIL);
	REFUSE(fi_mr_enable(objs->mr));
	REFUSE(fi_mr_bind(objs->mr, NULL, ~0ULL));
	REFUSE(fi_mr_bind(objs->mr, &objs->unknown, 0));
	REFUSE(fi_mr_refresh(objs->mr, NULL, SIZE_MAX, ~0ULL));
	REFUSE(fi_mr_raw_attr(objs->mr, NULL, NULL, NULL, ~0ULL));
	REFUSE(fi_mr_raw_attr(objs->mr, &base, NULL, &len, 0));
	REFUSE(fi_mr_map_raw(domain, 0, NULL, SIZE_MAX, NULL, ~0ULL));
	REFUSE(fi_mr_map_raw(domain, 0, NULL, 0, &key, 0));
	REFUSE(fi_mr_unmap_key(domain, ~0ULL));
}

static struct kunit_case args_transfer_cases[] = {
	KUNIT_CASE(args_messages),
	KUNIT_CASE(args_iovecs),
	KUNIT_CASE(args_msg_structs_and_flags),
	KUNIT_CASE(args_injects_and_data),
	KUNIT_CASE(args_rma),
	KUNIT_CASE(args_tagged_messages),
	KUNIT_CASE(args_atomics),
	KUNIT_CASE(args_collectives),
	KUNIT_CASE(args_open_calls),
	KUNIT_CASE(args_regions),
	{}
};

static struct kunit_suite args_transfer_suite = {
	.name = "kofi_args_transfer",
	.test_cases = args_transfer_cases,
};

kunit_test_suite(args_transfer_suite);
