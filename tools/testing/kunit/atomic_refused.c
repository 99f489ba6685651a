// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, ATOM 6: operations that fail and change nothing.
 */

#include "atomic.h"

#define LEN	4096
#define OFF	1024	/* offset of the region in its memory */
#define REGION	2044	/* its last 4 bytes are half a word */

static const struct attempt {
	const char	*name;
	u64		access;
	s64		at;
	u64		key_xor;
	bool		closed;
} attempts[] = {
	{ "a word across the end of the region", RMA_BOTH, 2040 },
	{ "a word after the end", RMA_BOTH, 2048 },
	{ "a word before the beginning", RMA_BOTH, -8 },
	{ "another key", RMA_BOTH, 0, 0x100 },
	{ "no right to read", FI_REMOTE_WRITE, 0 },
	{ "no right to write", FI_REMOTE_READ, 0 },
	{ "a closed region", RMA_BOTH, 0, .closed = true },
};

KUNIT_ARRAY_PARAM_DESC(attempts, attempts, name);

static const struct at_op forms[] = {
	{ .form = ATOM_BASE, .op = FI_SUM },
	{ .form = ATOM_FETCH, .op = FI_SUM },
	{ .form = ATOM_COMPARE, .op = FI_CSWAP },
	/* Operations that take more than one request. */
	{ .form = ATOM_BASE, .op = FI_ATOMIC_WRITE },
	{ .form = ATOM_FETCH, .op = FI_BXOR },
	{ .form = ATOM_COMPARE, .op = FI_CSWAP_NE },
};

/* A refused operation breaks the connection, so each one has its own. */
static void atom_06_bad_range_key_or_right_changes_nothing(struct kunit *test)
{
	const struct attempt *attempt = test->param_value;

	for (int i = 0; i < ARRAY_SIZE(forms); i++) {
		u8 *memory = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
		struct rma_fx *fx = at_open(test, memory + OFF, REGION,
					    attempt->access, NULL);
		struct at_op op = forms[i];

		/*
		 * An RDM target does the operation itself, and without a result
		 * it returns nothing that it reads: no right to read is needed.
		 */
		if (at_is_rdm(test) && op.form == ATOM_BASE &&
		    attempt->access == FI_REMOTE_WRITE)
			continue;
		op.type = FI_UINT64;
		op.buf = near;
		op.compare = memory;
		op.result = near + 32;
		op.count = 1;
		op.at = attempt->at;
		op.context = near;
		memset(memory, 0x5a, LEN);
		memset(near, 0xa5, 64);
		fx->key ^= attempt->key_xor;
		if (attempt->closed)
			fx_close(test, &fx->mr->fid);
		KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
		KUNIT_EXPECT_EQ(test, FI_EACCES, at_expect_error(test, fx,
								 &op));
		KUNIT_EXPECT_NULL(test, memchr_inv(memory, 0x5a, LEN));
		KUNIT_EXPECT_NULL(test, memchr_inv(near, 0xa5, 64));
	}
}

/* An injected operation writes no success entry, but an error entry. */
static void atom_06_failed_inject_writes_an_error_entry(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct rma_fx *fx = at_open(test, far, LEN, FI_REMOTE_READ, NULL);
	const struct at_op op = { .form = ATOM_BASE };
	u64 one = 1;

	KUNIT_ASSERT_EQ(test, 0, fi_inject_atomic(fx->pair->ep[0], &one, 1, 0,
						  fx->addr, fx->key, FI_UINT64,
						  FI_SUM));
	KUNIT_EXPECT_EQ(test, FI_EACCES, at_expect_error(test, fx, &op));
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

static void atom_06_misaligned_target_is_einval(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	struct at_op op = {
		.buf = near, .compare = near + 16, .result = near + 32,
		.count = 1, .context = near,
	};
	unsigned int done = 0;
	size_t count;

	memset(near, 1, 64);
	for (op.form = 0; op.form < ATOM_FORMS; op.form++)
		for (op.op = 0; op.op < ATOM_OPS; op.op++)
			for (op.type = 0; op.type <= FI_UINT64; op.type++) {
				if (at_valid(fx->pair->ep[0], &op, &count))
					continue;
				for (op.at = 8; op.at < 16; op.at++) {
					if (!(op.at % at_size(op.type)))
						continue;
					KUNIT_EXPECT_EQ(test, -FI_EINVAL,
							at_post(fx, &op));
					done++;
				}
			}
	KUNIT_EXPECT_GE(test, done, 8 * 7);
	rma_settle(test, fx);
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

static void atomic_bad_counts_are_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	struct at_op op = {
		.buf = near, .compare = near, .result = near, .context = near,
	};
	unsigned int done = 0;
	size_t most;

	for (op.form = 0; op.form < ATOM_FORMS; op.form++)
		for (op.op = 0; op.op < ATOM_OPS; op.op++)
			for (op.type = 0; op.type <= FI_UINT64; op.type++) {
				if (at_valid(fx->pair->ep[0], &op, &most))
					continue;
				op.count = most + 1;
				KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
						at_post(fx, &op));
				op.count = SIZE_MAX;
				KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
						at_post(fx, &op));
				op.count = 0;
				KUNIT_EXPECT_EQ(test, -FI_EINVAL,
						at_post(fx, &op));
				done++;
			}
	KUNIT_EXPECT_GE(test, done, 8);
	rma_settle(test, fx);
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

static void atomic_vectors_and_messages(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	struct fid_ep *ep = fx->pair->ep[0];
	u64 *n = (u64 *)near, *target = (u64 *)far;
	struct fi_ioc buf[] = { { NULL, 0 }, { &n[0], 1 } };
	struct fi_ioc compare[] = { { &n[1], 1 }, { NULL, 0 } };
	struct fi_ioc result[] = { { NULL, 0 }, { &n[2], 1 } };
	struct fi_rma_ioc remote[] = { { fx->addr, 1, fx->key },
				       { fx->addr + 8, 1, fx->key } };
	struct fi_msg_atomic msg = {
		.msg_iov = buf, .iov_count = 2, .rma_iov = remote,
		.rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM,
		.context = near,
	};
	struct at_op op = { .context = near };

	*target = 10;
	n[0] = 5;
	KUNIT_ASSERT_EQ(test, 0, fi_atomicv(ep, buf, NULL, 2, 0, fx->addr,
					    fx->key, FI_UINT64, FI_SUM, near));
	at_expect(test, fx, &op);
	KUNIT_ASSERT_EQ(test, 0, fi_atomicmsg(ep, &msg, FI_COMPLETION));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 20, *target);
	op.form = ATOM_FETCH;
	KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomicv(ep, buf, NULL, 2, result,
						  NULL, 2, 0, fx->addr, fx->key,
						  FI_UINT64, FI_SUM, near));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 20, n[2]);
	KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomicmsg(ep, &msg, result, NULL, 2,
						    FI_COMPLETION | FI_FENCE));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 25, n[2]);
	op.form = ATOM_COMPARE;
	n[1] = 30;
	KUNIT_ASSERT_EQ(test, 0, fi_compare_atomicv(ep, buf, NULL, 2, compare,
						    NULL, 2, result, NULL, 2, 0,
						    fx->addr, fx->key,
						    FI_UINT64, FI_CSWAP, near));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 30, n[2]);
	KUNIT_EXPECT_EQ(test, 5, *target);
	msg.op = FI_CSWAP;
	KUNIT_ASSERT_EQ(test, 0, fi_compare_atomicmsg(ep, &msg, compare, NULL,
						      2, result, NULL, 2,
						      FI_COMPLETION));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 5, n[2]);
	KUNIT_EXPECT_EQ(test, 5, *target);

	/* Different counts, addresses out of range, bad flags and missing structs. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_compare_atomicmsg(ep, &msg, compare, NULL, 2, result,
					     NULL, 1, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_compare_atomicmsg(ep, &msg, compare + 1, NULL, 1,
					     result, NULL, 2, 0));
	result[1].count = 2;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_compare_atomicmsg(ep, &msg, compare, NULL, 2, result,
					     NULL, 2, 0));
	result[1].count = 1;
	msg.op = FI_SUM;
	msg.iov_count = 1;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(ep, &msg, 0));
	msg.iov_count = SIZE_MAX;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(ep, &msg, 0));
	msg.iov_count = 2;
	msg.rma_iov_count = 2;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(ep, &msg, 0));
	msg.rma_iov_count = SIZE_MAX;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(ep, &msg, 0));
	msg.rma_iov_count = 1;
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_atomicmsg(ep, &msg, ~0ULL));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_atomicmsg(ep, &msg, FI_REMOTE_CQ_DATA));
	buf[1].addr = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_atomicmsg(ep, &msg, 0));
	buf[1].addr = &n[0];
	remote[0].key = 1ULL << 32;
	KUNIT_EXPECT_EQ(test, -FI_ENOKEY, fi_atomicmsg(ep, &msg, 0));
	rma_settle(test, fx);
	KUNIT_EXPECT_EQ(test, 5, *target);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(atomic_bad_counts_are_refused),
	KUNIT_CASE(atomic_vectors_and_messages),
	KUNIT_CASE_PARAM(atom_06_bad_range_key_or_right_changes_nothing, attempts_gen_params),
	KUNIT_CASE(atom_06_failed_inject_writes_an_error_entry),
	KUNIT_CASE(atom_06_misaligned_target_is_einval),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_atomic_refused",
	.test_cases = cases,
};

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE(atomic_bad_counts_are_refused),
	KUNIT_CASE_PARAM(atom_06_bad_range_key_or_right_changes_nothing, attempts_gen_params),
	KUNIT_CASE(atom_06_failed_inject_writes_an_error_entry),
	KUNIT_CASE(atom_06_misaligned_target_is_einval),
	{}
};

static struct kunit_suite datagram_suite = {
	.name = "kofi_rdm_atomic_refused",
	.init = at_init_rdm,
	.test_cases = datagram_cases,
};

kunit_test_suites(&suite, &datagram_suite);
