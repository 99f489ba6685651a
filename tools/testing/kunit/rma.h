/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What suites of remote memory access share: two connected endpoints, of which
 * the first reaches memory of the second, and every call that does.
 */

#ifndef KOFI_KUNIT_RMA_H
#define KOFI_KUNIT_RMA_H

#include "traffic.h"

#include <rdma/fi_rma.h>

#define RMA_BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)

struct rma_fx {
	struct kofi_pair	*pair;
	struct fid_mr		*mr;
	u8			*far;	/* what the key opens */
	size_t			len;
	u64			addr;
	u64			key;
};

/* Registers far with access on a pair that can do all of it; opts may be NULL. */
struct rma_fx *rma_open(struct kunit *test, u8 *far, size_t len, u64 access,
			const struct fx_pair_opts *opts);

/* A transfer between local memory and what lies at an offset of the far one. */
struct rma_op {
	u8	*near;
	size_t	len;
	void	*desc;
	u64	at;
	void	*context;
};

/* The calls: each in the one way in which it is used most. */
struct rma_call {
	const char	*name;
	ssize_t		(*post)(struct rma_fx *fx, const struct rma_op *op);
	u64		flag;		/* FI_READ or FI_WRITE */
	bool		injects;	/* the buffer may be reused when the call returns */
	bool		silent;		/* its success has no entry */
	bool		brings_data;	/* RMA_DATA */
};

#define RMA_DATA 0x0badf00dU
#define RMA_CALLS 12

extern const struct rma_call rma_calls[RMA_CALLS];
const void *rma_calls_gen_params(struct kunit *test, const void *prev,
				 char *desc);

/* Whether the device can do it at all. */
bool rma_has(const struct rma_fx *fx, const struct rma_call *call);
/* How many pieces of memory it may have. */
size_t rma_pieces(const struct rma_fx *fx, const struct rma_call *call);

/* One entry of cq[0]: this context, FI_READ or FI_WRITE. */
void rma_expect(struct kunit *test, struct rma_fx *fx, void *context, u64 flag);
/*
 * When this returns, what was written before is there: an iWARP device says
 * that a write is done when it is on its way.
 */
void rma_settle(struct kunit *test, struct rma_fx *fx);

#endif /* KOFI_KUNIT_RMA_H */
