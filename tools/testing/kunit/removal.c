// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the removal of a device while many endpoints transfer messages, RMA and
 * atomics. See outage.c and scenarios/devdel.sh.
 */

#include <linux/moduleparam.h>

#include "busy.h"

static int removal_links = 32;
module_param(removal_links, int, 0444);
MODULE_PARM_DESC(removal_links, "busy connections whose device goes away");

static void removal_of_the_device_of_many_busy_endpoints(struct kunit *test)
{
	struct tr_thread *threads[BUSY_SIDES];
	struct busy_fx *fx;

	if (!tr_outage)
		kunit_skip(test, "see scenarios/devdel.sh");
	fx = busy_open(test, removal_links, BUSY_THREADS);
	busy_connect(test, fx);
	for (int side = 0; side < BUSY_SIDES; side++) {
		/* The pause leaves CPU time for the process that removes the device. */
		fx->side[side].pause_us = 100000 / removal_links;
		threads[side] = tr_start(test, -1, busy_post_and_read, &fx->side[side]);
	}
	pr_info("kofi_kunit: traffic flows\n");
	for (int side = 0; side < BUSY_SIDES; side++) {
		KUNIT_ASSERT_TRUE(test, tr_join_within(test, threads[side],
						       BUSY_WAIT_MS + FX_WAIT_MS));
		KUNIT_EXPECT_EQ(test, 0, threads[side]->result);
	}
	/* Each endpoint has one FI_SHUTDOWN event, and one completion for each operation. */
	for (int i = 0; i < BUSY_SIDES * removal_links; i++) {
		struct fx_cm_event event = {};
		struct busy *busy;

		KUNIT_ASSERT_GT(test, fx_wait_event(test, fx->fx->eq,
						    FI_SHUTDOWN, &event,
						    sizeof(event)), 0);
		busy = busy_find(fx, event.entry.fid);
		KUNIT_ASSERT_NOT_NULL(test, busy);
		KUNIT_EXPECT_TRUE(test, busy->disconnected);
		KUNIT_EXPECT_GT(test, busy->posted, 0);
		KUNIT_EXPECT_EQ(test, busy->posted, busy->completed);
		busy->disconnected = false;
	}
	fx_close(test, &fx->mr->fid);
	for (int side = 0; side < BUSY_SIDES; side++) {
		for (int link = 0; link < removal_links; link++)
			fx_close(test, &fx->side[side].all[link].ep->fid);
		fx_close(test, &fx->side[side].cq->fid);
	}
	/* The removal completes once these are closed. */
	fx_close(test, &fx->fx->cq->fid);
	fx_close(test, &fx->fx->domain->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(removal_of_the_device_of_many_busy_endpoints),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_removal_many",
	.test_cases = cases,
};

kunit_test_suite(suite);
