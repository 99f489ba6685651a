// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, ATOM 1, 2 and 4: which operations exist, and that each changes its
 * target as the model says and no other memory.
 */

#include "atomic.h"

#define FAR	4096
#define AT	64	/* offset of the target in its region */

/* Number of combinations of form, operation and type, including those that do not exist. */
#define MOST_OPS	(ATOM_FORMS * ATOM_OPS * ATOM_TYPES)

static void select_combination(struct at_op *op, unsigned int nth)
{
	op->type = nth % ATOM_TYPES;
	op->op = nth / ATOM_TYPES % ATOM_OPS;
	op->form = nth / ATOM_TYPES / ATOM_OPS;
}

static const u64 query_flags[ATOM_FORMS] = {
	0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC,
};

static void atom_01_calls_and_queries_agree(struct kunit *test)
{
	u8 *far = tr_buffer(test, FAR), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, FAR, RMA_BOTH, NULL);
	struct fid_ep *ep = fx->pair->ep[0];
	struct at_op op = {
		.buf = near, .compare = near + 16, .result = near + 32,
		.count = 1, .at = AT, .context = near,
	};

	for (int nth = 0; nth < MOST_OPS; nth++) {
		struct fi_atomic_attr attr = { 77, 77 };
		size_t count = 77;
		int ret;

		select_combination(&op, nth);
		ret = at_valid(ep, &op, &count);
		KUNIT_EXPECT_EQ(test, ret, fi_query_atomic(fx->pair->domain,
							   op.type, op.op,
							   &attr,
							   query_flags[op.form]));
		KUNIT_EXPECT_EQ_MSG(test,
				    at_exists(op.form, op.op, op.type) ?
				    0 : -FI_EOPNOTSUPP, ret,
				    "form %d, op %d, type %d", op.form, op.op,
				    op.type);
		KUNIT_ASSERT_EQ_MSG(test, ret, at_post(fx, &op),
				    "form %d, op %d, type %d", op.form, op.op,
				    op.type);
		if (ret) {
			KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, ret);
			KUNIT_EXPECT_EQ(test, 77, count);
			continue;
		}
		KUNIT_EXPECT_GE(test, count, 1);
		KUNIT_EXPECT_EQ(test, count, attr.count);
		KUNIT_EXPECT_EQ(test, at_size(op.type), attr.size);
		at_expect(test, fx, &op);
	}
}

/* Calls the kfabric call that checks a number of elements. */
static int count_valid(struct fid_ep *ep, const struct at_op *op, size_t count)
{
	switch (op->form) {
	case ATOM_BASE:
		return fi_atomic_valid(ep, op->type, op->op, count);
	case ATOM_FETCH:
		return fi_fetch_atomic_valid(ep, op->type, op->op, count);
	default:
		return fi_compare_atomic_valid(ep, op->type, op->op, count);
	}
}

/*
 * fi_atomic_valid(), fi_fetch_atomic_valid() and fi_compare_atomic_valid() check
 * a number of elements.
 */
static void atom_01_valid_calls_check_the_count(struct kunit *test)
{
	u8 *far = tr_buffer(test, FAR);
	struct rma_fx *fx = at_open(test, far, FAR, RMA_BOTH, NULL);
	struct fid_ep *ep = fx->pair->ep[0];
	struct at_op op = {};

	for (int nth = 0; nth < MOST_OPS; nth++) {
		size_t most = 0;
		int ret;

		select_combination(&op, nth);
		ret = at_valid(ep, &op, &most);
		KUNIT_EXPECT_EQ(test, ret, count_valid(ep, &op, 0));
		KUNIT_EXPECT_EQ(test, ret, count_valid(ep, &op, most));
		KUNIT_EXPECT_EQ(test, ret ?: -FI_EMSGSIZE, count_valid(ep, &op, most + 1));
		KUNIT_EXPECT_EQ(test, ret ?: -FI_EMSGSIZE, count_valid(ep, &op, SIZE_MAX));
	}
}

static void atom_01_atomics_are_unsupported_without_fi_atomic(struct kunit *test)
{
	u8 *near = tr_buffer(test, 64);
	struct rma_fx fx = { .pair = fx_pair(test, NULL) };
	bool iwarp = tr_is_iwarp(fx.pair->info);
	int none = iwarp ? -FI_EOPNOTSUPP : -FI_ENOSYS;
	struct at_op op = {
		.buf = near, .compare = near + 16, .result = near + 32,
		.count = 1,
	};
	size_t count;

	KUNIT_EXPECT_EQ(test, !iwarp, at_offered(test));
	/* On other devices, an endpoint that was not opened with FI_ATOMIC has no atomics. */
	for (int nth = 0; nth < MOST_OPS; nth++) {
		struct fi_atomic_attr attr;

		select_combination(&op, nth);
		if (!at_exists(op.form, op.op, op.type))
			continue;
		KUNIT_EXPECT_EQ(test, none, at_valid(fx.pair->ep[0], &op,
						     &count));
		KUNIT_EXPECT_EQ(test, none, count_valid(fx.pair->ep[0], &op, 1));
		KUNIT_EXPECT_EQ(test, none, at_post(&fx, &op));
		if (iwarp)
			KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
					fi_query_atomic(fx.pair->domain,
							op.type, op.op, &attr,
							query_flags[op.form]));
	}
}

static void atom_01_query_flags_are_checked(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	const u64 known = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED;
	struct fi_atomic_attr attr;

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_query_atomic(fx->domain, FI_UINT64, FI_SUM, &attr,
					FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC));
	for (int bit = 0; bit < 64; bit++)
		if (!(known & BIT_ULL(bit)))
			KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
					fi_query_atomic(fx->domain, FI_UINT64,
							FI_SUM, &attr,
							BIT_ULL(bit)));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP,
			fi_query_atomic(fx->domain, FI_UINT64, FI_SUM, &attr,
					FI_TAGGED));
	KUNIT_EXPECT_LT(test, fi_query_atomic(fx->domain, FI_UINT64, FI_SUM,
					      NULL, 0), 0);
}

static u64 load(const void *from, enum fi_datatype type)
{
	u64 value = 0;

	memcpy(&value, from, at_size(type));
	return value;
}

static void store(void *to, enum fi_datatype type, u64 value)
{
	memcpy(to, &value, at_size(type));
}

static const u64 values[] = {
	0, 1, 2, 0x7f, 0x80, 0xff, 0x8000, 0xffff0001, 0x80000000,
	0x8000000000000000, 0x123456789abcdef0, 0xffffffffffffffff,
};

/*
 * Does one operation on one element, and checks the target, the result and the
 * memory around both.
 */
static void operate(struct kunit *test, struct rma_fx *fx, struct at_op *op,
		    const u64 v[3])
{
	size_t size = at_size(op->type);
	u8 *target = fx->far + op->at;
	u64 old, operand, compare;

	memset(fx->far, 0x5a, fx->len);
	store(target, op->type, v[0]);
	store(op->buf, op->type, v[1]);
	store(op->compare, op->type, v[2]);
	memset(op->result, 0xa5, 8);
	old = load(target, op->type);
	operand = load(op->buf, op->type);
	compare = load(op->compare, op->type);
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, op));
	at_expect(test, fx, op);
	KUNIT_EXPECT_EQ_MSG(test, at_result(op->op, op->type, old, operand,
					    compare),
			    load(target, op->type),
			    "op %d, type %d: %llx, %llx, %llx", op->op,
			    op->type, old, operand, compare);
	if (op->form != ATOM_BASE)
		KUNIT_EXPECT_EQ(test, old, load(op->result, op->type));
	KUNIT_EXPECT_NULL(test, memchr_inv(op->result +
					   (op->form == ATOM_BASE ? 0 : size),
					   0xa5,
					   op->form == ATOM_BASE ? 8 : 8 - size));
	KUNIT_EXPECT_NULL(test, memchr_inv(fx->far, 0x5a, op->at));
	KUNIT_EXPECT_NULL(test, memchr_inv(target + size, 0x5a,
					   fx->len - op->at - size));
}

static void atom_02_each_operation_matches_the_model(struct kunit *test)
{
	u8 *far = tr_buffer(test, FAR), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, FAR, RMA_BOTH, NULL);
	struct at_op op = {
		.buf = near, .compare = near + 16, .result = near + 32,
		.count = 1, .context = near + 1,
	};
	unsigned int round = 0, done = 0;

	for (int nth = 0; nth < MOST_OPS; nth++) {
		select_combination(&op, nth);
		if (!at_exists(op.form, op.op, op.type))
			continue;
		/* A triple with target and compare equal, and two triples that vary. */
		for (int i = 0; i < 3; i++, round++) {
			const u64 v[] = {
				values[round % ARRAY_SIZE(values)],
				values[round * 5 % ARRAY_SIZE(values)],
				i ? values[round * 7 % ARRAY_SIZE(values)] :
				    values[round % ARRAY_SIZE(values)],
			};

			op.at = AT + round % 16 * at_size(op.type);
			operate(test, fx, &op, v);
		}
		done++;
	}
	/* 11 operations without and 12 with a result, and 7 with a compare operand. */
	KUNIT_EXPECT_EQ(test, 30 * 8, done);
}

/* The result is in memory before its completion, in linear and in vmalloc memory. */
static void atom_04_result_is_in_any_memory_before_its_completion(struct kunit *test)
{
	u8 *far = tr_buffer(test, FAR), *near = tr_buffer(test, 64);
	u8 *vnear = tr_vbuffer(test, 64);
	struct rma_fx *fx = at_open(test, far, FAR, RMA_BOTH, NULL);
	struct fid_ep *ep = fx->pair->ep[0];
	u64 *target = (u64 *)(far + AT), old = 100, stack = 5;
	struct at_op op = { .form = ATOM_FETCH, .context = near };
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->pair->domain, near, 64,
					   FI_READ | FI_WRITE, 0, 0, 0, &mr,
					   NULL));
	fx_defer_close(test, &mr->fid);
	*target = old;
	for (int i = 0; i < 4; i++) {
		u8 *to = i & 1 ? vnear + 8 : near + 8;
		void *desc = i == 2 ? fi_mr_desc(mr) : NULL;

		/* Operands are read before the call returns, and may be on the stack. */
		KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomic(ep, &stack, 1, NULL,
							 to, desc, 0,
							 fx->addr + AT, fx->key,
							 FI_UINT64, FI_SUM,
							 near));
		stack++;
		at_expect(test, fx, &op);
		KUNIT_EXPECT_EQ(test, old, *(u64 *)to);
		old += stack - 1;
		KUNIT_EXPECT_EQ(test, old, *target);
	}
	/* FI_ATOMIC_READ has no operands. */
	KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomic(ep, NULL, 1, NULL, near + 16,
						 NULL, 0, fx->addr + AT,
						 fx->key, FI_UINT64,
						 FI_ATOMIC_READ, near));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, old, *(u64 *)(near + 16));
}

static void atom_04_atomic_read_ignores_its_operands(struct kunit *test)
{
	u8 *far = tr_buffer(test, FAR), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, FAR, RMA_BOTH, NULL);
	struct fid_ep *ep = fx->pair->ep[0];
	u64 *target = (u64 *)(far + AT), *got = (u64 *)near;
	struct fi_ioc three = { near + 32, 3 }, result = { got, 2 };
	struct fi_rma_ioc remote = { fx->addr + AT, 2, fx->key };
	const struct {
		const struct fi_ioc *iov;
		size_t count;
	} operands[] = { { NULL, 0 }, { NULL, 1 }, { NULL, SIZE_MAX }, { &three, 1 } };
	struct at_op op = { .form = ATOM_FETCH, .context = near };

	for (int i = 0; i < ARRAY_SIZE(operands); i++) {
		struct fi_msg_atomic msg = {
			.msg_iov = operands[i].iov, .iov_count = operands[i].count,
			.rma_iov = &remote, .rma_iov_count = 1,
			.datatype = FI_UINT64, .op = FI_ATOMIC_READ, .context = near,
		};

		for (int call = 0; call < 2; call++) {
			target[0] = 10 * i + call;
			target[1] = ~target[0];
			KUNIT_ASSERT_EQ_MSG(test, 0, call ?
					    fi_fetch_atomicmsg(ep, &msg, &result, NULL, 1,
							       FI_COMPLETION) :
					    fi_fetch_atomicv(ep, msg.msg_iov, NULL,
							     msg.iov_count, &result, NULL,
							     1, 0, remote.addr, remote.key,
							     FI_UINT64, FI_ATOMIC_READ,
							     near),
					    "operands %d, call %d", i, call);
			at_expect(test, fx, &op);
			KUNIT_EXPECT_EQ(test, target[0], got[0]);
			KUNIT_EXPECT_EQ(test, target[1], got[1]);
		}
	}
	/* The result vector determines the number of elements. */
	result.count = 3;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_fetch_atomicmsg(ep, &(struct fi_msg_atomic){
				.rma_iov = &remote, .rma_iov_count = 1,
				.datatype = FI_UINT64, .op = FI_ATOMIC_READ,
			}, &result, NULL, 1, 0));
	/* Other operations need operands. */
	result.count = 2;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_fetch_atomicv(ep, NULL, NULL, 1, &result, NULL, 1, 0,
					 remote.addr, remote.key, FI_UINT64, FI_SUM,
					 near));
	for (int elements = 1; elements <= 2; elements++) {
		KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomic(ep, NULL, elements, NULL, got,
							 NULL, 0, remote.addr,
							 remote.key, FI_UINT64,
							 FI_ATOMIC_READ, near));
		at_expect(test, fx, &op);
		KUNIT_EXPECT_EQ(test, target[0], got[0]);
	}
}

/* fi_inject_atomic() writes no success entry; the fetch after it writes one. */
static void atomic_injects_write_no_success_entry(struct kunit *test)
{
	u8 *far = tr_buffer(test, FAR), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, FAR, RMA_BOTH, NULL);
	struct at_op op = {
		.form = ATOM_FETCH, .op = FI_SUM, .type = FI_UINT64, .buf = near,
		.result = near + 8, .count = 1, .at = AT, .context = near,
	};
	u64 one = 1;

	for (int i = 0; i < 1000; i++)
		KUNIT_ASSERT_EQ(test, 0,
				retry_while_eagain(fi_inject_atomic(fx->pair->ep[0], &one, 1, 0,
								    fx->addr + AT, fx->key,
								    FI_UINT64, FI_SUM)));
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(at_post(fx, &op)));
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, 1000, *(u64 *)op.result);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(atom_01_calls_and_queries_agree),
	KUNIT_CASE(atom_01_valid_calls_check_the_count),
	KUNIT_CASE(atom_01_atomics_are_unsupported_without_fi_atomic),
	KUNIT_CASE(atom_01_query_flags_are_checked),
	KUNIT_CASE(atom_02_each_operation_matches_the_model),
	KUNIT_CASE(atomic_injects_write_no_success_entry),
	KUNIT_CASE(atom_04_result_is_in_any_memory_before_its_completion),
	KUNIT_CASE(atom_04_atomic_read_ignores_its_operands),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_atomic",
	.test_cases = cases,
};

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE(atom_01_calls_and_queries_agree),
	KUNIT_CASE(atom_02_each_operation_matches_the_model),
	KUNIT_CASE(atomic_injects_write_no_success_entry),
	KUNIT_CASE(atom_04_result_is_in_any_memory_before_its_completion),
	KUNIT_CASE(atom_04_atomic_read_ignores_its_operands),
	{}
};

static struct kunit_suite datagram_suite = {
	.name = "kofi_rdm_atomic",
	.init = at_init_rdm,
	.test_cases = datagram_cases,
};

kunit_test_suites(&suite, &datagram_suite);
