// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RMA 1 and 3 of CONTRACT: every RMA call, with lengths and local memory
 * of every kind.
 */

#include <linux/sizes.h>

#include "rma.h"

#define GUARD	64
#define FAR	(SZ_1M + 2 * GUARD)

static const size_t lens[] = { 0, 1, 128, 4095, 4096, 4097, SZ_1M };

static bool is_injected(const struct rma_call *call)
{
	return call->injects;
}

/* Posts op, and checks the data on both sides and the bytes around the target. */
static void transfer(struct kunit *test, struct rma_fx *fx,
		     const struct rma_call *call, const struct rma_op *op)
{
	static u32 seed;
	u8 *far = fx->far + op->at, *to = far, *from = op->near;
	u32 this = ++seed;

	if (call->flag == FI_READ) {
		to = op->near;
		from = far;
	}
	memset(fx->far, 0x5a, fx->len);
	memset(op->near, 0xa5, op->len);
	tr_fill(from, op->len, this);
	KUNIT_ASSERT_EQ_MSG(test, 0, call->post(fx, op), "%s of %zu bytes",
			    call->name, op->len);
	if (is_injected(call))
		memset(op->near, 0xee, op->len);
	if (!call->silent)
		rma_expect(test, fx, op->context, call->flag);
	rma_settle(test, fx);
	KUNIT_EXPECT_TRUE_MSG(test, tr_intact(to, op->len, this),
			      "%s of %zu bytes", call->name, op->len);
	KUNIT_EXPECT_NULL(test, memchr_inv(fx->far, 0x5a, op->at));
	KUNIT_EXPECT_NULL(test, memchr_inv(far + op->len, 0x5a,
					   fx->len - op->at - op->len));
}

/* Expects one entry at the target if the call has CQ data, and none otherwise. */
static void expect_at_target(struct kunit *test, struct rma_fx *fx,
			     const struct rma_call *call, size_t len)
{
	struct fi_cq_tagged_entry entry = {};
	struct fx_cm_event event;
	u32 what;

	if (call->brings_data) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[1],
						      &entry, 1));
		KUNIT_EXPECT_EQ(test, FI_RMA | FI_REMOTE_WRITE |
				FI_REMOTE_CQ_DATA, entry.flags);
		KUNIT_EXPECT_EQ(test, RMA_DATA, entry.data);
		KUNIT_EXPECT_EQ(test, len, entry.len);
		KUNIT_EXPECT_PTR_EQ(test, (void *)fx, entry.op_context);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[1], &entry,
						     1));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_eq_read(fx->pair->eq, &what,
						     &event, sizeof(event), 0));
}

static void rma_03_every_call_and_size(struct kunit *test)
{
	const struct rma_call *call = test->param_value;
	u8 *far = tr_buffer(test, FAR), *near = tr_buffer(test, SZ_1M);
	struct rma_fx *fx = rma_open(test, far, FAR, RMA_BOTH, NULL);
	size_t inject = fx->pair->info->tx_attr->inject_size;

	for (int i = 0; i < ARRAY_SIZE(lens); i++) {
		struct rma_op op = {
			.near = near,
			.len = lens[i],
			.at = GUARD,
			.context = near + 1,
		};

		if (!rma_has(fx, call)) {
			KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
					call->post(fx, &op));
			continue;
		}
		if (is_injected(call) && lens[i] > inject) {
			KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
					call->post(fx, &op));
			continue;
		}
		if (call->brings_data)
			KUNIT_ASSERT_EQ(test, 0, fi_recv(fx->pair->ep[1], NULL,
							 0, NULL, 0, fx));
		transfer(test, fx, call, &op);
		expect_at_target(test, fx, call, lens[i]);
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

static const struct kind {
	const char *name;
	u8 *(*near)(struct kunit *test, size_t len);
	u8 *(*far)(struct kunit *test, size_t len);
	bool desc;
} kinds[] = {
	{ "linear", tr_buffer, tr_vbuffer, false },
	{ "linear, registered", tr_buffer, tr_vbuffer, true },
	{ "vmalloc", tr_vbuffer, tr_buffer, false },
	{ "vmalloc, registered", tr_vbuffer, tr_buffer, true },
};

KUNIT_ARRAY_PARAM_DESC(kinds, kinds, name);

/* A vmalloc buffer may have more runs than a work request has elements. */
static void rma_03_memory_of_any_kind(struct kunit *test)
{
	static const struct span {
		size_t at, len;
	} spans[] = {
		{ 0, 1 }, { 1, 4095 }, { 0, 4096 }, { 3, 4096 }, { 4095, 2 },
		{ 100, 4097 }, { 5, 3 * 4096 }, { 0, 16 * 4096 },
		{ 7, SZ_1M - 7 },
	};
	const struct kind *kind = test->param_value;
	u8 *far = kind->far(test, SZ_1M), *near = kind->near(test, SZ_1M);
	struct rma_fx *fx = rma_open(test, far, SZ_1M, RMA_BOTH, NULL);
	const struct rma_call *const calls[] = { &rma_calls[0], &rma_calls[3] };
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->pair->domain, near, SZ_1M,
					   FI_READ | FI_WRITE, 0, 0, 0, &mr,
					   NULL));
	fx_defer_close(test, &mr->fid);
	for (int i = 0; i < ARRAY_SIZE(spans); i++) {
		struct rma_op op = {
			.near = near + spans[i].at,
			.len = spans[i].len,
			.desc = kind->desc ? fi_mr_desc(mr) : NULL,
			.at = SZ_1M - spans[i].len,
			.context = near,
		};

		for (int k = 0; k < ARRAY_SIZE(calls); k++)
			transfer(test, fx, calls[k], &op);
	}
}

/* The pieces of a vector are contiguous at the target. */
static void rma_03_vectors(struct kunit *test)
{
	u8 *far = tr_buffer(test, 4096), *near = tr_buffer(test, 4096);
	struct rma_fx *fx = rma_open(test, far, 4096, RMA_BOTH, NULL);
	const size_t count = 40;
	struct fid_ep *ep = fx->pair->ep[0];
	struct kvec *iov;

	iov = kunit_kcalloc(test, count, sizeof(*iov), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, iov);
	/* The pieces are in reverse order, so that no two are adjacent. */
	for (size_t i = 0; i < count; i++) {
		iov[i] = (struct kvec) { near + (count - 1 - i) * 8, 8 };
		memset(iov[i].iov_base, i + 1, 8);
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_writev(ep, NULL, NULL, 1, 0,
						    fx->addr, fx->key, near));
	KUNIT_ASSERT_EQ(test, 0, fi_writev(ep, iov, NULL, count, 0, fx->addr,
					   fx->key, near));
	rma_expect(test, fx, near, FI_WRITE);
	memset(near, 0, 4096);
	KUNIT_ASSERT_EQ(test, 0, fi_readv(ep, iov, NULL, count, 0, fx->addr,
					  fx->key, near));
	rma_expect(test, fx, near, FI_READ);
	for (size_t i = 0; i < count; i++) {
		KUNIT_EXPECT_EQ(test, i + 1, far[i * 8]);
		KUNIT_EXPECT_EQ(test, i + 1, *(u8 *)iov[i].iov_base);
	}
}

/* The accepting side reads and writes the connecting side's memory. */
static void rma_03_from_the_accepting_side(struct kunit *test)
{
	u8 *far = tr_buffer(test, 4096), *near = tr_buffer(test, 4096);
	struct rma_fx *fx = rma_open(test, far, 4096, RMA_BOTH, NULL);

	swap(fx->pair->ep[0], fx->pair->ep[1]);
	swap(fx->pair->cq[0], fx->pair->cq[1]);
	for (int i = 0; i < RMA_CALLS; i++) {
		const struct rma_op op = { .near = near, .len = 100, .at = 5 };

		if (!rma_calls[i].brings_data)
			transfer(test, fx, &rma_calls[i], &op);
	}
}

static ssize_t post_rma_iov(struct rma_fx *fx, const struct fi_rma_iov *remote,
			    size_t count, bool is_read)
{
	const struct kvec iov = { fx->far, 16 };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = remote,
		.rma_iov_count = count,
	};

	return is_read ? fi_readmsg(fx->pair->ep[0], &msg, 0) :
			 fi_writemsg(fx->pair->ep[0], &msg, 0);
}

static void rma_03_ranges_of_another_length_are_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, 4096);
	struct rma_fx *fx = rma_open(test, far, 4096, RMA_BOTH, NULL);
	const struct fi_rma_iov parts[] = {
		{ fx->addr, 8, fx->key }, { fx->addr + 64, 7, fx->key },
	};
	const struct fi_rma_iov wrong_len[] = {
		{ fx->addr, 15, fx->key }, { fx->addr, 17, fx->key },
		{ fx->addr, 0, fx->key }, { fx->addr, SIZE_MAX, fx->key },
	};

	for (int is_read = 0; is_read < 2; is_read++) {
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				post_rma_iov(fx, parts, 2, is_read));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				post_rma_iov(fx, parts, 0, is_read));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				post_rma_iov(fx, NULL, 1, is_read));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				post_rma_iov(fx, parts, SIZE_MAX, is_read));
		for (int i = 0; i < ARRAY_SIZE(wrong_len); i++)
			KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
					    post_rma_iov(fx, &wrong_len[i], 1, is_read),
					    "remote range of %zu bytes, local memory of 16",
					    wrong_len[i].len);
	}
	rma_settle(test, fx);
}

static void rma_03_invalid_flags_are_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, 4096);
	struct rma_fx *fx = rma_open(test, far, 4096, RMA_BOTH, NULL);
	const struct fi_rma_iov remote = { fx->addr, 16, fx->key };
	const struct kvec iov = { far + 64, 16 };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &remote,
		.rma_iov_count = 1,
	};
	struct fid_ep *ep = fx->pair->ep[0];
	bool has = fx->pair->info->domain_attr->cq_data_size;

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_readmsg(ep, &msg, FI_INJECT));
	KUNIT_EXPECT_EQ(test, has ? -FI_EBADFLAGS : -FI_EOPNOTSUPP,
			fi_readmsg(ep, &msg, FI_REMOTE_CQ_DATA));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_readmsg(ep, &msg, FI_READ));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_writemsg(ep, &msg, FI_WRITE));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_writemsg(ep, &msg, ~0ULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_readmsg(ep, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_writemsg(ep, NULL, 0));
	rma_settle(test, fx);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(rma_03_every_call_and_size, rma_calls_gen_params),
	KUNIT_CASE_PARAM(rma_03_memory_of_any_kind, kinds_gen_params),
	KUNIT_CASE(rma_03_vectors),
	KUNIT_CASE(rma_03_from_the_accepting_side),
	KUNIT_CASE(rma_03_ranges_of_another_length_are_refused),
	KUNIT_CASE(rma_03_invalid_flags_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rma",
	.test_cases = cases,
};

kunit_test_suite(suite);
