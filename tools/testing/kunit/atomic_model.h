/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Model of the atomic operations, for the tests in the kernel and in user
 * space.
 */

#ifndef KOFI_ATOMIC_MODEL_H
#define KOFI_ATOMIC_MODEL_H

#include <linux/types.h>
#include <rdma/fi_atomic.h>

/* Forms of an atomic call: without a result, with a result, with a compare operand. */
enum at_form { ATOM_BASE, ATOM_FETCH, ATOM_COMPARE, ATOM_FORMS };

/* Returns true if the operation exists for this integer type in this form. */
static inline bool at_exists(enum at_form form, enum fi_op op, enum fi_datatype type)
{
	if (type > FI_UINT64 || op > FI_MSWAP)
		return false;
	if (form == ATOM_COMPARE)
		return op >= FI_CSWAP;
	return op < FI_ATOMIC_READ || op == FI_ATOMIC_WRITE ||
	       (op == FI_ATOMIC_READ && form == ATOM_FETCH);
}

/* Returns the size of an element in bytes. */
static inline size_t at_size(enum fi_datatype type)
{
	return 1 << type / 2;
}

/* Returns the mask of an element's bits. */
static inline __u64 at_mask(enum fi_datatype type)
{
	return ~0ull >> (64 - 8 * at_size(type));
}

/* Compares a with b as numbers of the type: below 0, 0, or above. */
static inline int at_order(enum fi_datatype type, __u64 a, __u64 b)
{
	int shift = 64 - 8 * at_size(type);

	if (a == b)
		return 0;
	/* FI_INT8 and the other signed types have even numbers. */
	if (type % 2)
		return a < b ? -1 : 1;
	return (__s64)(a << shift) < (__s64)(b << shift) ? -1 : 1;
}

/* Returns the new value of a target that holds old, truncated to the width of type. */
static inline __u64 at_result(enum fi_op op, enum fi_datatype type, __u64 old,
			      __u64 operand, __u64 compare)
{
	int to_operand = at_order(type, old, operand);
	int to_old = at_order(type, compare, old);
	__u64 new = old;

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
	return new & at_mask(type);
}

#endif /* KOFI_ATOMIC_MODEL_H */
