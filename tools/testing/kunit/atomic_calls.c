// SPDX-License-Identifier: GPL-2.0
/*
 * What suites of atomic operations share: see atomic.h.
 */

#include "atomic.h"

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

struct rma_fx *at_open(struct kunit *test, u8 *far, size_t len, u64 access,
		       const struct fx_pair_opts *opts)
{
	struct fx_pair_opts all = opts ? *opts : (struct fx_pair_opts){};

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
		return fi_atomic(ep, op->buf, op->count, NULL, FI_ADDR_UNSPEC,
				 addr, fx->key, op->type, op->op, op->context);
	case ATOM_FETCH:
		return fi_fetch_atomic(ep, op->buf, op->count, NULL, op->result,
				       NULL, FI_ADDR_UNSPEC, addr, fx->key,
				       op->type, op->op, op->context);
	default:
		return fi_compare_atomic(ep, op->buf, op->count, NULL,
					 op->compare, NULL, op->result, NULL,
					 FI_ADDR_UNSPEC, addr, fx->key,
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

bool at_exists(enum at_form form, enum fi_op op, enum fi_datatype type)
{
	if (type > FI_UINT64 || op >= FI_ATOMIC_OP_LAST)
		return false;
	if (form == ATOM_COMPARE)
		return op >= FI_CSWAP;
	return op < FI_ATOMIC_READ || op == FI_ATOMIC_WRITE ||
	       (op == FI_ATOMIC_READ && form == ATOM_FETCH);
}

size_t at_size(enum fi_datatype type)
{
	return 1 << type / 2;
}

static u64 mask(enum fi_datatype type)
{
	return U64_MAX >> (64 - 8 * at_size(type));
}

/* As numbers, a against b: below 0, 0, or above. */
static int order(enum fi_datatype type, u64 a, u64 b)
{
	int shift = 64 - 8 * at_size(type);

	if (a == b)
		return 0;
	/* Signed types have the even numbers. */
	if (type % 2)
		return a < b ? -1 : 1;
	return (s64)(a << shift) < (s64)(b << shift) ? -1 : 1;
}

u64 at_result(enum fi_op op, enum fi_datatype type, u64 old, u64 operand,
	      u64 compare)
{
	int to_operand = order(type, old, operand);
	int to_old = order(type, compare, old);
	u64 new = old;

	switch (op) {
	case FI_MIN:
		new = to_operand > 0 ? operand : old;
		break;
	case FI_MAX:
		new = to_operand < 0 ? operand : old;
		break;
	case FI_SUM:
		new = old + operand;
		break;
	case FI_PROD:
		new = old * operand;
		break;
	case FI_LOR:
		new = old || operand;
		break;
	case FI_LAND:
		new = old && operand;
		break;
	case FI_LXOR:
		new = !old != !operand;
		break;
	case FI_BOR:
		new = old | operand;
		break;
	case FI_BAND:
		new = old & operand;
		break;
	case FI_BXOR:
		new = old ^ operand;
		break;
	case FI_ATOMIC_WRITE:
		new = operand;
		break;
	case FI_CSWAP:
		new = to_old ? old : operand;
		break;
	case FI_CSWAP_NE:
		new = to_old ? operand : old;
		break;
	case FI_CSWAP_LE:
		new = to_old <= 0 ? operand : old;
		break;
	case FI_CSWAP_LT:
		new = to_old < 0 ? operand : old;
		break;
	case FI_CSWAP_GE:
		new = to_old >= 0 ? operand : old;
		break;
	case FI_CSWAP_GT:
		new = to_old > 0 ? operand : old;
		break;
	case FI_MSWAP:
		new = (operand & compare) | (old & ~compare);
		break;
	default:
		break;
	}
	return new & mask(type);
}
