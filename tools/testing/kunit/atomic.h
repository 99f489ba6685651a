/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the suites of atomic operations: a pair of endpoints with
 * FI_ATOMIC, and one call for every form of operation.
 */

#ifndef KOFI_KUNIT_ATOMIC_H
#define KOFI_KUNIT_ATOMIC_H

#include "rma.h"

#include "atomic_model.h"

/* Loop bounds that exceed the last operation and type, so that unsupported ones are tested too. */
#define ATOM_OPS		(FI_ATOMIC_OP_LAST + 2)
#define ATOM_TYPES	(FI_DATATYPE_LAST + 3)

struct at_op {
	enum at_form		form;
	enum fi_op		op;
	enum fi_datatype	type;
	void			*buf;
	void			*compare;
	void			*result;
	size_t			count;
	u64			at;
	void			*context;
};

/* Returns true if fi_getinfo() offers FI_ATOMIC on the device under test. */
bool at_offered(struct kunit *test);
/* Suite init function: the tests run over RDM endpoints, for which at_open() ignores opts. */
int at_init_rdm(struct kunit *test);
bool at_is_rdm(struct kunit *test);
/*
 * Opens a pair with FI_ATOMIC and registers far as the second endpoint's
 * memory; opts may be NULL.
 */
struct rma_fx *at_open(struct kunit *test, u8 *far, size_t len, u64 access,
		       const struct fx_pair_opts *opts);

ssize_t at_post(struct rma_fx *fx, const struct at_op *op);
/* Calls fi_atomicvalid(), fi_fetch_atomicvalid() or fi_compare_atomicvalid(), as op->form says. */
int at_valid(struct fid_ep *ep, const struct at_op *op, size_t *count);

/* Reads one completion and checks its context and its flags against op. */
void at_expect(struct kunit *test, struct rma_fx *fx, const struct at_op *op);
/* Reads one error entry, checks it in the same way, and returns its errno. */
int at_expect_error(struct kunit *test, struct rma_fx *fx,
		    const struct at_op *op);

#endif /* KOFI_KUNIT_ATOMIC_H */
