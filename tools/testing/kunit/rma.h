/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the RMA suites: two connected endpoints, of which the first
 * accesses memory of the second, and every RMA call.
 */

#ifndef KOFI_KUNIT_RMA_H
#define KOFI_KUNIT_RMA_H

#include "traffic.h"

#include <rdma/fi_rma.h>

#define RMA_BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)

struct rma_fx {
	struct kofi_pair	*pair;
	struct fid_mr		*mr;
	u8			*far;	/* the registered memory */
	size_t			len;
	u64			addr;
	u64			key;
};

/* Registers far with access on a pair with all RMA capabilities; opts may be NULL. */
struct rma_fx *rma_open(struct kunit *test, u8 *far, size_t len, u64 access,
			const struct fx_pair_opts *opts);

/* A transfer between local memory and an offset of the registered one. */
struct rma_op {
	u8	*near;
	size_t	len;
	void	*desc;
	u64	at;
	void	*context;
};

/* An RMA call, with the most common arguments. */
struct rma_call {
	const char	*name;
	ssize_t		(*post)(struct rma_fx *fx, const struct rma_op *op);
	u64		flag;		/* FI_READ or FI_WRITE */
	bool		injects;	/* the buffer may be reused when the call returns */
	bool		silent;		/* without an entry on success */
	bool		brings_data;	/* has RMA_DATA as remote CQ data */
};

#define RMA_DATA 0x0badf00dU
#define RMA_CALLS 12

extern const struct rma_call rma_calls[RMA_CALLS];
const void *rma_calls_gen_params(struct kunit *test, const void *prev,
				 char *desc);

/* Returns true if the device supports the call. */
bool rma_has(const struct rma_fx *fx, const struct rma_call *call);

/* Reads an entry of cq[0] with this context, and FI_READ or FI_WRITE. */
void rma_expect(struct kunit *test, struct rma_fx *fx, void *context, u64 flag);
/* Returns once earlier writes are placed: an iWARP device completes a write when it is sent. */
void rma_settle(struct kunit *test, struct rma_fx *fx);

#endif /* KOFI_KUNIT_RMA_H */
