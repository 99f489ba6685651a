/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What suites of counters share: opening them, and reading both values.
 */

#ifndef KOFI_KUNIT_CNTR_H
#define KOFI_KUNIT_CNTR_H

#include "traffic.h"

/* Opens a counter that can be waited for; closed with the test. */
struct fid_cntr *cn_open(struct kunit *test, struct fid_domain *domain);

/* What it has counted. */
#define CN_EXPECT(test, cntr, value, errors) do {			\
	KUNIT_EXPECT_EQ(test, (u64)(value), fi_cntr_read(cntr));	\
	KUNIT_EXPECT_EQ(test, (u64)(errors), fi_cntr_readerr(cntr));	\
} while (0)

/* It gets there, in time. */
#define CN_ASSERT_REACHED(test, cntr, value)				\
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_wait(cntr, value, FX_WAIT_MS))

/* Waits until so many errors are counted; false where they are not. */
bool cn_failed(struct kunit *test, struct fid_cntr *cntr, u64 errors);

/* A thread that waits for a threshold without a timeout, and what it got. */
struct cn_waiter {
	struct fid_cntr		*cntr;
	u64			threshold;
	struct tr_thread	*thread;
};

/* Returns when it has been seen to sleep. */
struct cn_waiter *cn_wait(struct kunit *test, struct fid_cntr *cntr,
			  u64 threshold);

#endif /* KOFI_KUNIT_CNTR_H */
