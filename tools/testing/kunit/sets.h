/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixture of the suites of poll sets and wait sets: opens sets and their
 * members, which are closed with the test.
 */

#ifndef KOFI_KUNIT_SETS_H
#define KOFI_KUNIT_SETS_H

#include "traffic.h"

struct fid_poll *st_poll_open(struct kunit *test, struct fid_domain *domain);
/* Adds a member, which is removed with the test at the latest. */
void st_add(struct kunit *test, struct fid_poll *set, struct fid *fid);
void st_del(struct kunit *test, struct fid_poll *set, struct fid *fid);

/* Opens a counter without a wait object. */
struct fid_cntr *st_cntr(struct kunit *test, struct fid_domain *domain);

/* Expects that the next fi_poll() lists exactly these; NULL for none. */
#define ST_EXPECT_READY(test, set, ...) do {				\
	struct fid *_want[] = { __VA_ARGS__ };				\
									\
	KUNIT_EXPECT_TRUE(test, st_lists(test, set, _want,		\
					 _want[0] ? ARRAY_SIZE(_want) : 0)); \
} while (0)
bool st_lists(struct kunit *test, struct fid_poll *set, struct fid **want,
	      int count);
/* Polls until a member is listed; returns false on a timeout. */
bool st_await(struct kunit *test, struct fid_poll *set);

struct fid_wait *st_wait_open(struct kunit *test, struct fid_fabric *fabric,
			      enum fi_wait_obj wait_obj);
/* Opens members of a wait set, or with NULL objects that have a wait queue. */
struct fid_cq *st_wait_cq(struct kunit *test, struct fid_domain *domain,
			  struct fid_wait *set);
struct fid_eq *st_wait_eq(struct kunit *test, struct fid_fabric *fabric,
			  struct fid_wait *set);
struct fid_cntr *st_wait_cntr(struct kunit *test, struct fid_domain *domain,
			      struct fid_wait *set);

/* Expects that the next fi_waitfrom() reports this member alone. */
#define ST_EXPECT_FROM(test, set, member)				\
	KUNIT_EXPECT_PTR_EQ(test, (member), st_from(test, set))
struct fid *st_from(struct kunit *test, struct fid_wait *set);

#endif /* KOFI_KUNIT_SETS_H */
