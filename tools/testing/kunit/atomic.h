/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What suites of atomic operations share: a pair that can do them, and every
 * form of them as one call.
 */

#ifndef KOFI_KUNIT_ATOMIC_H
#define KOFI_KUNIT_ATOMIC_H

#include "rma.h"

#include "atomic_model.h"

/* Beyond the last of each, so that what does not exist is asked for too. */
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

/* Whether fi_getinfo() offers them on the device under test. */
bool at_offered(struct kunit *test);
/* As the init of a suite: its pairs are datagram endpoints, which take no opts. */
int at_over_datagrams(struct kunit *test);
bool at_is_datagram(struct kunit *test);
/* A pair that was opened for them, and far registered; opts may be NULL. */
struct rma_fx *at_open(struct kunit *test, u8 *far, size_t len, u64 access,
		       const struct fx_pair_opts *opts);

ssize_t at_post(struct rma_fx *fx, const struct at_op *op);
/* What fi_atomicvalid() and its relatives say. */
int at_valid(struct fid_ep *ep, const struct at_op *op, size_t *count);

/* The entry of a completion: this context, and the flags of the form. */
void at_expect(struct kunit *test, struct rma_fx *fx, const struct at_op *op);
/* The same for a failure; its errno. */
int at_expect_error(struct kunit *test, struct rma_fx *fx,
		    const struct at_op *op);

#endif /* KOFI_KUNIT_ATOMIC_H */
