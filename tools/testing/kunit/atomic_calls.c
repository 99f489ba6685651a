// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the suites of atomic operations: see atomic.h.
 */

#include "atomic.h"
#include "rdm.h"

bool at_offered(struct kunit *test)
{
	struct fi_info *hints = fx_hints(test), *info = NULL;
	int ret;

	hints->caps |= FI_ATOMIC;
	ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints,
			 &info);
	if (ret) {
		KUNIT_EXPECT_EQ(test, -FI_ENODATA, ret);
		return false;
	}
	KUNIT_EXPECT_TRUE(test, info->caps & FI_ATOMIC);
	fi_freeinfo(info);
	return true;
}

/* The private pointer of tests that run over RDM endpoints points here. */
static int rdm_tag;

int at_init_rdm(struct kunit *test)
{
	test->priv = &rdm_tag;
	return 0;
}

bool at_is_rdm(struct kunit *test)
{
	return test->priv == &rdm_tag;
}

/* Opens two RDM endpoints; the second is the first address in the first one's vector. */
static struct rma_fx *open_rdm_pair(struct kunit *test, u8 *far, size_t len, u64 access)
{
	const struct rdm_opts opts = { .caps = FI_RMA | FI_ATOMIC };
	struct rma_fx *fx = kunit_kzalloc(test, sizeof(*fx), GFP_KERNEL);
	struct kofi_rdm *near, *peer;

	KUNIT_ASSERT_NOT_NULL(test, fx);
	fx->pair = kunit_kzalloc(test, sizeof(*fx->pair), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fx->pair);
	near = rdm_open(test, &opts);
	peer = rdm_open(test, &opts);
	KUNIT_ASSERT_EQ(test, 0, rdm_addr(test, near, peer));
	fx->pair->info = near->info;
	fx->pair->domain = near->domain;
	fx->pair->ep[0] = near->ep;
	fx->pair->cq[0] = near->cq;
	fx->pair->ep[1] = peer->ep;
	fx->pair->cq[1] = peer->cq;
	fx->far = far;
	fx->len = len;
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(peer->domain, far, len, access, 0, 0, 0, &fx->mr,
					   NULL));
	fx_defer_close(test, &fx->mr->fid);
	fx->key = fi_mr_key(fx->mr);
	fx->addr = (uintptr_t)far;
	return fx;
}

struct rma_fx *at_open(struct kunit *test, u8 *far, size_t len, u64 access,
		       const struct fx_pair_opts *opts)
{
	struct fx_pair_opts all = opts ? *opts : (struct fx_pair_opts){};

	if (at_is_rdm(test))
		return open_rdm_pair(test, far, len, access);
	if (!at_offered(test))
		kunit_skip(test, "the device has none");
	all.caps |= FI_ATOMIC;
	return rma_open(test, far, len, access, &all);
}

ssize_t at_post(struct rma_fx *fx, const struct at_op *op)
{
	struct fid_ep *ep = fx->pair->ep[0];
	u64 addr = fx->addr + op->at;

	switch (op->form) {
	case ATOM_BASE:
		return fi_atomic(ep, op->buf, op->count, NULL, 0,
				 addr, fx->key, op->type, op->op, op->context);
	case ATOM_FETCH:
		return fi_fetch_atomic(ep, op->buf, op->count, NULL, op->result,
				       NULL, 0, addr, fx->key,
				       op->type, op->op, op->context);
	default:
		return fi_compare_atomic(ep, op->buf, op->count, NULL,
					 op->compare, NULL, op->result, NULL,
					 0, addr, fx->key,
					 op->type, op->op, op->context);
	}
}

int at_valid(struct fid_ep *ep, const struct at_op *op, size_t *count)
{
	switch (op->form) {
	case ATOM_BASE:
		return fi_atomicvalid(ep, op->type, op->op, count);
	case ATOM_FETCH:
		return fi_fetch_atomicvalid(ep, op->type, op->op, count);
	default:
		return fi_compare_atomicvalid(ep, op->type, op->op, count);
	}
}

static u64 flags(const struct at_op *op)
{
	return FI_ATOMIC | (op->form == ATOM_BASE ? FI_WRITE : FI_READ);
}

void at_expect(struct kunit *test, struct rma_fx *fx, const struct at_op *op)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0], &entry,
					      1));
	KUNIT_EXPECT_PTR_EQ(test, op->context, entry.op_context);
	KUNIT_EXPECT_EQ(test, flags(op), entry.flags);
}

int at_expect_error(struct kunit *test, struct rma_fx *fx,
		    const struct at_op *op)
{
	struct fi_cq_err_entry error = {};

	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, fx->pair->cq[0],
						    &error));
	KUNIT_EXPECT_PTR_EQ(test, op->context, error.op_context);
	KUNIT_EXPECT_EQ(test, flags(op), error.flags);
	return error.err;
}
