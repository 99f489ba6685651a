// SPDX-License-Identifier: GPL-2.0
/*
 * Connections that end under full load: messages, writes, reads, atomics, and
 * handlers that read their completions.
 */

#include <linux/delay.h>

#include "busy.h"

static const enum busy_readers readers[] = {
	BUSY_THREADS, BUSY_INTERRUPTS, BUSY_TASKS,
};

static void name_readers(const enum busy_readers *readers, char *name)
{
	static const char * const names[BUSY_READERS] = {
		"threads", "interrupts", "tasks",
	};

	strscpy(name, names[*readers], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(readers, readers, name_readers);

static struct busy_fx *open_one(struct kunit *test)
{
	return busy_open(test, 1, *(const enum busy_readers *)test->param_value);
}

/* Connects one pair and starts the poster thread of each side. */
static void connect_and_start(struct kunit *test, struct busy_fx *fx,
			      struct busy *busy[BUSY_SIDES],
			      struct tr_thread *threads[BUSY_SIDES])
{
	busy_connect(test, fx);
	for (int side = 0; side < BUSY_SIDES; side++) {
		busy[side] = &fx->side[side].all[0];
		threads[side] = tr_start(test, -1, busy_post_and_read, &fx->side[side]);
	}
	usleep_range(200, 2000);
}

static void join(struct kunit *test, struct tr_thread *thread)
{
	KUNIT_ASSERT_TRUE(test, tr_join_within(test, thread,
					       BUSY_WAIT_MS + FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, 0, thread->result);
}

/*
 * Waits until each operation has its one completion; a handler may read the
 * last ones a little later.
 */
static void expect_all_completed(struct kunit *test, struct busy *busy)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	int completed;

	while ((completed = READ_ONCE(busy->completed)) < busy->posted &&
	       time_before(jiffies, end))
		usleep_range(100, 1000);
	KUNIT_EXPECT_EQ(test, busy->posted, completed);
	KUNIT_EXPECT_EQ(test, 0, busy->strays);
}

static void check_handlers(struct kunit *test, struct busy_fx *fx)
{
	for (int side = 0; side < BUSY_SIDES; side++) {
		if (!fx->queue[side])
			continue;
		KUNIT_EXPECT_TRUE(test, hd_wait_idle(test, fx->queue[side]));
		hd_check(test, fx->queue[side]);
	}
}

static void cm_05_shutdown_under_load(struct kunit *test)
{
	struct busy_fx *fx = open_one(test);
	int posted = 0;

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct tr_thread *threads[BUSY_SIDES];
		int ends = round % BUSY_SIDES;
		struct busy *busy[BUSY_SIDES];

		connect_and_start(test, fx, busy, threads);
		KUNIT_EXPECT_EQ(test, 0, fi_shutdown(busy[ends]->ep, 0));
		for (int side = 0; side < BUSY_SIDES; side++)
			join(test, threads[side]);
		for (int side = 0; side < BUSY_SIDES; side++)
			expect_all_completed(test, busy[side]);
		tr_expect_shutdowns(test, fx->fx->eq, busy[0]->ep, busy[1]->ep);
		for (int side = 0; side < BUSY_SIDES; side++)
			fx_close(test, &busy[side]->ep->fid);
		posted += busy[0]->posted + busy[1]->posted;
	}
	/* In some rounds the shutdown precedes the first operation. */
	KUNIT_EXPECT_GT(test, posted, tr_rounds);
	check_handlers(test, fx);
}

/* Closes one endpoint with operations outstanding; the other gets FI_SHUTDOWN. */
static void cm_06_close_under_load(struct kunit *test)
{
	struct busy_fx *fx = open_one(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct tr_thread *threads[BUSY_SIDES];
		int closing = round % BUSY_SIDES;
		struct busy *busy[BUSY_SIDES];

		connect_and_start(test, fx, busy, threads);
		/* The closing side has stopped posting. */
		WRITE_ONCE(fx->side[closing].over, true);
		join(test, threads[closing]);
		fx_close(test, &busy[closing]->ep->fid);
		join(test, threads[!closing]);
		expect_all_completed(test, busy[!closing]);
		tr_expect_shutdown(test, fx->fx->eq, busy[!closing]->ep);
		fx_close(test, &busy[!closing]->ep->fid);
	}
	check_handlers(test, fx);
}

static int close_thread(struct tr_thread *thread)
{
	struct busy *busy = thread->arg;

	thread->result = fi_close(&busy->ep->fid);
	return 0;
}

/* Closes both endpoints at once on two CPUs, while handlers still read. */
static void close_01_both_ends_close_at_once_under_load(struct kunit *test)
{
	struct busy_fx *fx = open_one(test);

	for (unsigned int round = 0; round < tr_rounds; round++) {
		struct tr_thread *threads[BUSY_SIDES];
		struct busy *busy[BUSY_SIDES];

		connect_and_start(test, fx, busy, threads);
		for (int side = 0; side < BUSY_SIDES; side++)
			WRITE_ONCE(fx->side[side].over, true);
		for (int side = 0; side < BUSY_SIDES; side++)
			join(test, threads[side]);
		for (int side = 0; side < BUSY_SIDES; side++) {
			fx_cancel_close(test, &busy[side]->ep->fid);
			threads[side] = tr_start(test, side % num_online_cpus(),
						 close_thread, busy[side]);
		}
		for (int side = 0; side < BUSY_SIDES; side++)
			join(test, threads[side]);
		/* The endpoint that closed last may have an FI_SHUTDOWN. */
		while (fi_eq_read(fx->fx->eq, &(u32){}, &(struct fx_cm_event){},
				  sizeof(struct fx_cm_event), 0) > 0)
			;
	}
	check_handlers(test, fx);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(cm_05_shutdown_under_load, readers_gen_params),
	KUNIT_CASE_PARAM(cm_06_close_under_load, readers_gen_params),
	KUNIT_CASE_PARAM(close_01_both_ends_close_at_once_under_load, readers_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_busy",
	.test_cases = cases,
};

kunit_test_suite(suite);
