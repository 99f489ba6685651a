// SPDX-License-Identifier: GPL-2.0
/*
 * Endpoints that register memory, and accesses of their peers: see mr_ep.h.
 */

#include "mr_ep.h"

struct kofi_pair *me_pair_with(struct kunit *test, struct fx_pair_opts opts)
{
	struct kofi_pair *pair;

	if (fx_is_loop())
		kunit_skip(test, "not without a device");
	opts.caps = FI_RMA;
	opts.mr_mode = opts.mr_mode ?: ME_MODE;
	pair = fx_pair(test, &opts);
	KUNIT_ASSERT_NE(test, 0, pair->info->domain_attr->mr_mode &
				 FI_MR_ENDPOINT);
	return pair;
}

struct kofi_pair *me_pair(struct kunit *test, size_t pool, size_t pages)
{
	return me_pair_with(test, (struct fx_pair_opts){
		.mr_pool = pool, .mr_pages = pages });
}

int me_map(struct fid_domain *domain, void *buf, size_t len, u64 access,
	   struct fid_mr **mr, void *context)
{
	return fi_mr_reg(domain, buf, len, access, 0, 0, 0, mr, context);
}

struct fid_mr *me_open(struct kunit *test, struct kofi_pair *pair, void *buf,
		       size_t len, u64 access, u64 bind_flags, void *context)
{
	struct fid *ep = &pair->ep[1]->fid;
	struct fid_mr *mr;
	int ret;

	ret = retry_while_eagain(me_map(pair->domain, buf, len, access, &mr,
					context));
	KUNIT_ASSERT_EQ(test, 0, ret);
	ret = retry_while_eagain(fi_mr_bind(mr, ep, bind_flags));
	KUNIT_ASSERT_EQ(test, 0, ret);
	ret = retry_while_eagain(fi_mr_enable(mr));
	KUNIT_ASSERT_EQ(test, 0, ret);
	return mr;
}

void me_close(struct kunit *test, struct fid_mr *mr)
{
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(fi_close(&mr->fid)));
}

void me_expect_end(struct kunit *test, struct kofi_pair *pair, void *context)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
	KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
	KUNIT_EXPECT_EQ(test, FI_REGION, entry.flags);
}

int me_access(struct kunit *test, struct kofi_pair *pair, u64 flag, void *near,
	      size_t len, u64 addr, u64 key)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	ret = flag == FI_READ ?
	      fi_read(pair->ep[0], near, len, NULL, 0, addr, key, near) :
	      fi_write(pair->ep[0], near, len, NULL, 0, addr, key, near);
	KUNIT_ASSERT_EQ(test, 0, ret);
	ret = tr_await(pair->cq[0]);
	if (ret == -FI_EAVAIL) {
		KUNIT_ASSERT_EQ(test, 1, fi_cq_readerr(pair->cq[0], &error, 0));
		return error.err;
	}
	KUNIT_ASSERT_EQ(test, 1, fi_cq_read(pair->cq[0], &entry, 1));
	KUNIT_EXPECT_PTR_EQ(test, near, entry.op_context);
	return 0;
}

void me_send(struct kunit *test, struct kofi_pair *pair)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], NULL, 0));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], NULL, 0));
	for (int side = 0; side < 2; side++) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[side],
						      &entry, 1));
		KUNIT_EXPECT_EQ(test, FI_MSG | (side ? FI_SEND : FI_RECV),
				entry.flags);
	}
}
