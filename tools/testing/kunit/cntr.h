/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers of the suites of counters: opening a counter, and checking both of
 * its values.
 */

#ifndef KOFI_KUNIT_CNTR_H
#define KOFI_KUNIT_CNTR_H

#include "traffic.h"

/* Opens a counter with a wait object; closed with the test. */
struct fid_cntr *cn_open(struct kunit *test, struct fid_domain *domain);

/* Expects these values of the counter and of its error counter. */
#define CN_EXPECT(test, cntr, value, errors) do {			\
	KUNIT_EXPECT_EQ(test, (u64)(value), fi_cntr_read(cntr));	\
	KUNIT_EXPECT_EQ(test, (u64)(errors), fi_cntr_readerr(cntr));	\
} while (0)

/* Ends the test unless the counter reaches the value within FX_WAIT_MS. */
#define CN_ASSERT_REACHED(test, cntr, value)				\
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_wait(cntr, value, FX_WAIT_MS))

/* Waits until the error counter reaches errors; false on a timeout. */
bool cn_wait_errors(struct kunit *test, struct fid_cntr *cntr, u64 errors);

/* A thread that waits for a threshold without a timeout, and the result of its wait. */
struct cn_waiter {
	struct fid_cntr		*cntr;
	u64			threshold;
	struct tr_thread	*thread;
};

/* Starts a waiter and returns when it sleeps. */
struct cn_waiter *cn_start_waiter(struct kunit *test, struct fid_cntr *cntr,
				  u64 threshold);

#endif /* KOFI_KUNIT_CNTR_H */
