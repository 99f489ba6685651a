// SPDX-License-Identifier: GPL-2.0
/*
 * Races of close, shutdown and connect at both ends of a connection, from two
 * CPUs.
 */

#include <linux/delay.h>

#include "race.h"

static int close_one(struct race *race, int side)
{
	return fi_close(&race->ep[side]->fid);
}

static int shutdown_one(struct race *race, int side)
{
	return fi_shutdown(race->ep[side], 0);
}

static void forget(struct kunit *test, struct race *race)
{
	for (int side = 0; side < 2; side++)
		fx_cancel_close(test, &race->ep[side]->fid);
}

static void race_both_ends_close(struct kunit *test)
{
	struct race *race = race_prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		race_connect(test, race);
		race_post(test, race);
		forget(test, race);
		race_run(test, race, close_one, close_one);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		KUNIT_EXPECT_EQ_MSG(test, 0, race_drain(race->fx->cq),
				    "entries of closed endpoints");
		tr_expect_silence(test, race->fx->eq);
	}
}

static void race_both_ends_shut_down(struct kunit *test)
{
	struct race *race = race_prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		int count = 0;

		race_connect(test, race);
		race_post(test, race);
		race_run(test, race, shutdown_one, shutdown_one);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		for (int i = 0; i < 1000 && count < 3 * RACE_POSTED; i++) {
			count += race_drain(race->fx->cq);
			usleep_range(100, 1000);
		}
		KUNIT_EXPECT_EQ_MSG(test, 3 * RACE_POSTED, count,
				    "completions of posted operations");
		for (int side = 0; side < 2; side++)
			fx_close(test, &race->ep[side]->fid);
		race_drain_events(test, race->fx->eq);
	}
}

static void race_one_end_shuts_down_while_the_other_closes(struct kunit *test)
{
	struct race *race = race_prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		race_connect(test, race);
		race_post(test, race);
		fx_cancel_close(test, &race->ep[1]->fid);
		race_run(test, race, shutdown_one, close_one);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		fx_close(test, &race->ep[0]->fid);
		race_drain_events(test, race->fx->eq);
		KUNIT_EXPECT_EQ(test, 0, race_drain(race->fx->cq));
	}
}

static int read_until_over(struct race *race, int side)
{
	while (!READ_ONCE(race->over)) {
		atomic_add(race_drain(race->fx->cq), &race->done);
		cond_resched();
	}
	return 0;
}

static int close_then_over(struct race *race, int side)
{
	int ret = fi_close(&race->ep[side]->fid);

	WRITE_ONCE(race->over, true);
	return ret;
}

static void race_polling_while_an_endpoint_closes(struct kunit *test)
{
	struct race *race = race_prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		WRITE_ONCE(race->over, false);
		race_connect(test, race);
		race_post(test, race);
		fx_cancel_close(test, &race->ep[1]->fid);
		race_run(test, race, read_until_over, close_then_over);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		fx_close(test, &race->ep[0]->fid);
		race_drain_events(test, race->fx->eq);
		KUNIT_EXPECT_EQ(test, 0, race_drain(race->fx->cq));
	}
}

static int wait_for_events(struct race *race, int side)
{
	struct fx_cm_event event;
	ssize_t ret = 0;
	u32 what;

	while (!READ_ONCE(race->over)) {
		ret = fi_eq_sread(race->fx->eq, &what, &event, sizeof(event), 10,
				  0);
		/* ep[1] stays open: only its FI_SHUTDOWN may arrive. */
		if (ret > 0 && (what != FI_SHUTDOWN ||
				event.entry.fid != &race->ep[1]->fid))
			return -FI_EOTHER;
	}
	return ret > 0 || ret == -FI_EAGAIN ? 0 : ret;
}

static int close_the_caller(struct race *race, int side)
{
	int ret = fi_close(&race->ep[0]->fid);

	msleep(20);
	WRITE_ONCE(race->over, true);
	return ret;
}

static void race_waiting_for_events_while_an_endpoint_closes(struct kunit *test)
{
	struct race *race = race_prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		WRITE_ONCE(race->over, false);
		race_connect(test, race);
		fx_cancel_close(test, &race->ep[0]->fid);
		race_run(test, race, wait_for_events, close_the_caller);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		fx_close(test, &race->ep[1]->fid);
		race_drain_events(test, race->fx->eq);
	}
}

static int close_the_listener(struct race *race, int side)
{
	usleep_range(50, 2000);
	return fi_close(&race->pep->fid);
}

static void race_connecting_while_both_ends_close(struct kunit *test)
{
	struct race *race = race_prepare(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct fid_pep *pep = fx_listen(test, race->fx->fabric,
						race->fx->info, race->fx->eq);

		race->pep = pep;
		race->ep[0] = fx_bound_ep(test, race->fx);
		fx_start_connect(test, race->ep[0], pep);
		fx_cancel_close(test, &pep->fid);
		fx_cancel_close(test, &race->ep[0]->fid);
		race_run(test, race, close_one, close_the_listener);
		KUNIT_EXPECT_EQ(test, 0, race->ret[0]);
		KUNIT_EXPECT_EQ(test, 0, race->ret[1]);
		tr_expect_silence(test, race->fx->eq);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(race_both_ends_close),
	KUNIT_CASE_SLOW(race_both_ends_shut_down),
	KUNIT_CASE_SLOW(race_one_end_shuts_down_while_the_other_closes),
	KUNIT_CASE_SLOW(race_polling_while_an_endpoint_closes),
	KUNIT_CASE_SLOW(race_waiting_for_events_while_an_endpoint_closes),
	KUNIT_CASE_SLOW(race_connecting_while_both_ends_close),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_race",
	.test_cases = cases,
};

kunit_test_suite(suite);
