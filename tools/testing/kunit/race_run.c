// SPDX-License-Identifier: GPL-2.0
/*
 * Fixture of the race suites: runs two functions on two CPUs at the same time.
 * See race.h.
 */

#include <linux/delay.h>
#include <linux/random.h>

#include "race.h"

struct race *race_prepare(struct kunit *test)
{
	return race_prepare_for(test, FI_THREAD_SAFE);
}

struct race *race_prepare_for(struct kunit *test, enum fi_threading threading)
{
	struct race *race = (void *)tr_buffer(test, sizeof(*race));

	race->buf = tr_buffer(test, RACE_LEN);
	race->fx = fx_open_for(test, threading);
	race->pep = fx_listen(test, race->fx->fabric, race->fx->info,
			      race->fx->eq);
	return race;
}

void race_connect(struct kunit *test, struct race *race)
{
	/* On a busy machine, siw can take the first data of a connection for a part of its reply. */
	int tries = tr_is_iwarp(race->fx->info) ? 5 : 1;

	while (!fx_try_connect(test, race->fx, race->pep, race->ep)) {
		KUNIT_ASSERT_GT_MSG(test, --tries, 0, "the connection was not established");
		fx_close(test, &race->ep[1]->fid);
		fx_close(test, &race->ep[0]->fid);
	}
}

void race_post(struct kunit *test, struct race *race)
{
	for (int i = 0; i < 2 * RACE_POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(race->ep[i & 1], race->buf,
						 RACE_LEN, NULL, 0, NULL));
	for (int i = 0; i < RACE_POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_send(race->ep[i & 1], race->buf,
						 RACE_LEN, NULL, 0, NULL));
}

/* Waits for the other half; then a random delay varies the overlap. */
static void wait_for_other_half(struct race *race)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	atomic_inc(&race->here);
	while (atomic_read(&race->here) < 2 && time_before(jiffies, deadline))
		cond_resched();
	udelay(get_random_u32_below(100));
}

static int run_half(struct tr_thread *thread, int side)
{
	struct race *race = thread->arg;

	wait_for_other_half(race);
	race->ret[side] = race->half[side](race, side);
	return 0;
}

static int run_one(struct tr_thread *thread)
{
	return run_half(thread, 0);
}

static int run_other(struct tr_thread *thread)
{
	return run_half(thread, 1);
}

void race_run(struct kunit *test, struct race *race,
	      int (*one)(struct race *race, int side),
	      int (*other)(struct race *race, int side))
{
	struct tr_thread *threads[2];

	race->half[0] = one;
	race->half[1] = other;
	atomic_set(&race->here, 0);
	threads[0] = tr_start(test, 0, run_one, race);
	threads[1] = tr_start(test, num_online_cpus() - 1, run_other, race);
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_TRUE_MSG(test, tr_join(test, threads[i]),
				      "waited for thread %d", i);
	for (int i = 0; i < 2; i++)
		tr_stop(test, threads[i]);
}

int race_drain(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error = {};
	int count = 0;
	ssize_t ret;

	for (;;) {
		ret = fi_cq_read(cq, entries, ARRAY_SIZE(entries));
		if (ret == -FI_EAVAIL) {
			error.err_data_size = 0;
			ret = fi_cq_readerr(cq, &error, 0);
		}
		if (ret <= 0)
			return count;
		count += ret;
	}
}

void race_drain_events(struct kunit *test, struct fid_eq *eq)
{
	struct fi_eq_err_entry error = {};
	struct fx_cm_event event;
	ssize_t ret;
	u32 what;

	do {
		ret = fi_eq_read(eq, &what, &event, sizeof(event), 0);
		if (ret == -FI_EAVAIL)
			ret = fi_eq_readerr(eq, &error, 0);
		else if (ret > 0 && what == FI_CONNREQ)
			fi_freeinfo(event.entry.info);
	} while (ret > 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, ret);
}
