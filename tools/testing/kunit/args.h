/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables of calls with bad arguments: each call must fail without harm to the
 * kernel. A row is REFUSE(call) where any errno will do, ANSWER(want, call)
 * where the contract names the result, and SURVIVE(call) where the result does
 * not matter.
 */

#ifndef KOFI_KUNIT_ARGS_H
#define KOFI_KUNIT_ARGS_H

#include <rdma/fi_collective.h>

#include "fixture.h"

#define REFUSE(call) do {						\
	long _ret = (call);						\
									\
	KUNIT_EXPECT_TRUE_MSG(test, args_is_errno(_ret),		\
			      "%s answers %ld", #call, _ret);		\
} while (0)

#define ANSWER(want, call) do {						\
	long _ret = (call);						\
									\
	KUNIT_EXPECT_EQ_MSG(test, _ret, (long)(want), "%s", #call);	\
} while (0)

/* REFUSE() for a call that opens obj; closes an object that was opened nevertheless. */
#define REFUSE_OPEN(obj, call) do {					\
	(obj) = NULL;							\
	REFUSE(call);							\
	if (obj)							\
		fi_close(&(obj)->fid);					\
} while (0)

#define ANSWER_OPEN(want, obj, call) do {				\
	(obj) = NULL;							\
	ANSWER(want, call);						\
	if (obj)							\
		fi_close(&(obj)->fid);					\
} while (0)

#define SURVIVE(call)	((void)(call))

/* Errnos below FI_ERRNO_MAX are those that a caller can know; the kernel's private ones are not. */
static inline bool args_is_errno(long ret)
{
	return ret < 0 && ret > -FI_ERRNO_MAX;
}

/* Lengths at the limits of their type, except 0. No object of these tests has such a length. */
static const size_t args_lengths[] = {
	1, 3, U32_MAX, (size_t)1 << 40, SSIZE_MAX, (size_t)SSIZE_MAX + 1,
	SIZE_MAX - PAGE_SIZE, SIZE_MAX,
};

/* One object of each class, to be passed where an object of another class belongs. */
#define ARGS_CLASSES	11

struct args_objects {
	struct kofi_pair	*pair;
	struct fid_mr		*mr;
	struct fid_cntr		*cntr;
	struct fid_av		*av;
	struct fid_av_set	*set;
	u8			*buf;
	struct fid		*fid[ARGS_CLASSES];
	struct fid		unknown;	/* no class, no ops */
};

struct args_objects *args_objects(struct kunit *test);

#endif /* KOFI_KUNIT_ARGS_H */
