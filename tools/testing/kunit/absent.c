// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that the headers declare and no provider supports: each returns
 * -FI_ENOSYS and opens nothing. Documentation/libfabric.rst has the same list;
 * a static check compares it with the calls here.
 */

#include <rdma/fi_atomic.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_tagged.h>

#include "args.h"

#define ABSENT(call)	ANSWER(-FI_ENOSYS, call)
/* ABSENT() for a call that would open obj. */
#define ABSENT_OPEN(obj, call) do {					\
	(obj) = ERR_PTR(-EBADF);					\
	ABSENT(call);							\
	KUNIT_EXPECT_PTR_EQ_MSG(test, ERR_PTR(-EBADF), (void *)(obj),	\
				"%s", #call);				\
} while (0)

static void absent_tagged_messages(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_ep *ep = objs->pair->ep[0];
	struct kvec iov = { .iov_base = objs->buf, .iov_len = 8 };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
	};
	void *buf = objs->buf;

	ABSENT(fi_trecv(ep, buf, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	ABSENT(fi_trecvv(ep, &iov, NULL, 1, FI_ADDR_UNSPEC, 1, 0, NULL));
	ABSENT(fi_trecvmsg(ep, &msg, 0));
	ABSENT(fi_trecvmsg(ep, &msg, FI_PEEK));
	ABSENT(fi_tsend(ep, buf, 8, NULL, FI_ADDR_UNSPEC, 1, NULL));
	ABSENT(fi_tsendv(ep, &iov, NULL, 1, FI_ADDR_UNSPEC, 1, NULL));
	ABSENT(fi_tsendmsg(ep, &msg, 0));
	ABSENT(fi_tinject(ep, buf, 8, FI_ADDR_UNSPEC, 1));
	ABSENT(fi_tsenddata(ep, buf, 8, NULL, 1, FI_ADDR_UNSPEC, 1, NULL));
	ABSENT(fi_tinjectdata(ep, buf, 8, 1, FI_ADDR_UNSPEC, 1));
}

static void absent_collectives(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_ep *ep = objs->pair->ep[0];
	struct fi_collective_attr attr = { .datatype = FI_UINT64 };
	fi_addr_t addr = FI_ADDR_NOTAVAIL;
	void *in = objs->buf, *out = objs->buf + 64;
	struct fid_mc *mc;

	ABSENT(fi_query_collective(objs->pair->domain, FI_BARRIER, &attr, 0));
	ABSENT(fi_av_set_addr(objs->set, &addr));
	ABSENT_OPEN(mc, fi_join(ep, &addr, FI_SEND | FI_RECV, &mc, NULL));
	ABSENT_OPEN(mc, fi_join_collective(ep, addr, objs->set, 0, &mc, NULL));
	ABSENT(fi_barrier(ep, addr, NULL));
	ABSENT(fi_barrier2(ep, addr, FI_COMPLETION, NULL));
	ABSENT(fi_broadcast(ep, in, 1, NULL, addr, addr, FI_UINT64, 0, NULL));
	ABSENT(fi_alltoall(ep, in, 1, NULL, out, NULL, addr, FI_UINT64, 0, NULL));
	ABSENT(fi_allreduce(ep, in, 1, NULL, out, NULL, addr, FI_UINT64, FI_SUM,
			    0, NULL));
	ABSENT(fi_allgather(ep, in, 1, NULL, out, NULL, addr, FI_UINT64, 0,
			    NULL));
	ABSENT(fi_reduce_scatter(ep, in, 1, NULL, out, NULL, addr, FI_UINT64,
				 FI_SUM, 0, NULL));
	ABSENT(fi_reduce(ep, in, 1, NULL, out, NULL, addr, addr, FI_UINT64,
			 FI_SUM, 0, NULL));
	ABSENT(fi_scatter(ep, in, 1, NULL, out, NULL, addr, addr, FI_UINT64, 0,
			  NULL));
	ABSENT(fi_gather(ep, in, 1, NULL, out, NULL, addr, addr, FI_UINT64, 0,
			 NULL));
}

static void absent_mr_keys_and_bindings(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	struct fid_mr *mr = objs->mr;
	struct kvec iov = { .iov_base = objs->buf, .iov_len = 8 };
	u8 raw[16] = {};
	size_t size = sizeof(raw);
	u64 base, key;

	ABSENT(fi_mr_raw_attr(mr, &base, raw, &size, 0));
	ABSENT(fi_mr_map_raw(objs->pair->domain, 0, raw, size, &key, 0));
	ABSENT(fi_mr_unmap_key(objs->pair->domain, 1));
	ABSENT(fi_mr_bind(mr, &objs->cntr->fid, FI_REMOTE_WRITE));
	ABSENT(fi_mr_refresh(mr, &iov, 1, 0));
	ABSENT(fi_mr_enable(mr));
}

/* Tries objects of every class. */
static void absent_values_and_ops(struct kunit *test)
{
	struct args_objects *objs = args_objects(test);
	size_t value = 0;
	struct fid *exported;
	void *ops;

	for (int i = 0; i < ARGS_CLASSES; i++) {
		struct fid *fid = objs->fid[i];

		if (fid == &objs->unknown)
			continue;
		ABSENT(fi_get_val(fid, 0, &value));
		ABSENT(fi_set_val(fid, 0, &value));
		ABSENT_OPEN(ops, fi_open_ops(fid, "verbs", 0, &ops, NULL));
		ABSENT(fi_set_ops(fid, "verbs", 0, &value, NULL));
		/* Exporting these classes is fi_peer(3), which is supported. */
		switch (fid->fclass) {
		case FI_CLASS_CQ:
		case FI_CLASS_AV:
		case FI_CLASS_AV_SET:
			break;
		default:
			ANSWER(-FI_ENOSYS, fi_export_fid(fid, 0, &exported, NULL));
		}
	}
	/* A memory region accepts no binding. */
	ABSENT(fi_import_fid(&objs->mr->fid, &objs->pair->eq->fid, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(absent_tagged_messages),
	KUNIT_CASE(absent_collectives),
	KUNIT_CASE(absent_mr_keys_and_bindings),
	KUNIT_CASE(absent_values_and_ops),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_absent",
	.test_cases = cases,
};

kunit_test_suite(suite);
