// SPDX-License-Identifier: GPL-2.0
/*
 * Tests POLL 2 and 6 of CONTRACT: two CPUs add and remove members of poll sets
 * and wait sets, while both poll the sets and change the members.
 */

#include <linux/moduleparam.h>

#include "sets.h"

static unsigned int sets_seconds;
module_param(sets_seconds, uint, 0644);
MODULE_PARM_DESC(sets_seconds, "how long the race at poll and wait sets goes on, if not for some rounds");

#define COMMON	12
#define RACES	(100 * tr_rounds)

struct racer {
	struct kofi_fabric_fx	*fx;
	struct fid_cntr		**common;	/* changed by both */
	struct fid_poll		*mine;		/* has them all */
	struct fid_poll		*shared;	/* of both threads */
	struct fid_wait		*set;		/* of both threads */
	u64			seen[COMMON];	/* value when it was listed last */
};

/* Polls, and records the values of the listed counters; returns true if wanted is listed. */
static bool note_listed(struct racer *racer, struct fid_cntr *wanted)
{
	bool is_listed = false;
	void *found[COMMON];
	int count = fi_poll(racer->mine, found, COMMON);

	for (int i = 0; i < count; i++) {
		is_listed |= found[i] == wanted;
		for (int at = 0; at < COMMON; at++)
			if (found[i] == racer->common[at])
				racer->seen[at] = fi_cntr_read(found[i]);
	}
	return is_listed;
}

/* A changed counter is listed, whatever the other thread does. */
static int find_changed(struct racer *racer, u32 seed)
{
	struct fid_cntr *cntr = racer->common[seed % COMMON];

	fi_cntr_add(cntr, 1);
	return note_listed(racer, cntr) ? 0 : -EBADF;
}

/* Adds members to the shared sets and removes them; the other thread may see them meanwhile. */
static int come_and_go(struct racer *racer, u32 seed)
{
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_cq_attr cq_attr = { .wait_obj = FI_WAIT_SET,
				      .wait_set = racer->set, .size = 1 };
	struct fid_cntr *cntr, *other = racer->common[seed % COMMON];
	void *found[4];
	struct fid_cq *cq;
	int ret;

	ret = fi_cntr_open(racer->fx->domain, &cntr_attr, &cntr, NULL);
	if (ret)
		return ret;
	ret = fi_cq_open(racer->fx->domain, &cq_attr, &cq, NULL);
	if (ret)
		goto close_cntr;
	ret = fi_poll_add(racer->shared, &cntr->fid, 0) ?:
	      fi_poll_add(racer->shared, &cq->fid, 0) ?:
	      fi_poll_add(racer->shared, &other->fid, 0);
	fi_cntr_add(cntr, 1);
	fi_cq_signal(cq);
	if (!ret && fi_poll(racer->shared, found, ARRAY_SIZE(found)) < 0)
		ret = -EBADE;
	ret = ret ?: fi_poll_del(racer->shared, &cntr->fid, 0) ?:
	      fi_poll_del(racer->shared, &cq->fid, 0) ?:
	      fi_poll_del(racer->shared, &other->fid, 0);
	ret = fi_close(&cq->fid) ?: ret;
close_cntr:
	return fi_close(&cntr->fid) ?: ret;
}

/* Waits until the thread's own event queue is listed, possibly among the other thread's. */
static int wait_for_own(struct racer *racer)
{
	struct fi_eq_attr attr = { .flags = FI_WRITE, .wait_obj = FI_WAIT_SET,
				   .wait_set = racer->set };
	int ret, tries = 1000;
	struct fid *from[8];
	struct fid_eq *eq;
	bool told = false;

	ret = fi_eq_open(racer->fx->fabric, &attr, &eq, NULL);
	if (ret)
		return ret;
	if (fi_eq_write(eq, 1, "x", 1, 0) != 1)
		ret = -EBADE;
	while (!told && !ret && tries--) {
		int count = fi_waitfrom(racer->set, from, ARRAY_SIZE(from),
					FX_WAIT_MS);

		if (count <= 0)
			ret = count ?: -EBADE;
		for (int i = 0; i < count; i++)
			told |= from[i] == &eq->fid;
	}
	return fi_close(&eq->fid) ?: ret ?: told ? 0 : -EBADSLT;
}

static int run_race(struct tr_thread *thread)
{
	struct racer *racer = thread->arg;
	unsigned long end = jiffies + secs_to_jiffies(sets_seconds);
	u32 n;

	for (n = 0; !thread->result; n++) {
		if (sets_seconds ? time_after(jiffies, end) :
				   n == RACES)
			break;
		thread->result = find_changed(racer, n) ?:
				 come_and_go(racer, n * 7) ?:
				 wait_for_own(racer);
		cond_resched();
	}
	pr_info("kofi_kunit: %u rounds at two sets\n", n);
	return 0;
}

static void poll_06_two_cpus_at_the_same_sets(struct kunit *test)
{
	struct fid_cntr **common = (void *)tr_buffer(test, COMMON *
						     sizeof(*common));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct fid_poll *shared = st_poll_open(test, fx->domain);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct tr_thread *thread[2];
	struct racer *racer[2];

	for (int i = 0; i < COMMON; i++)
		common[i] = st_cntr(test, fx->domain);
	for (int i = 0; i < 2; i++) {
		racer[i] = (void *)tr_buffer(test, sizeof(**racer));
		*racer[i] = (struct racer){ fx, common,
					    st_poll_open(test, fx->domain),
					    shared, set };
		for (int at = 0; at < COMMON; at++)
			st_add(test, racer[i]->mine, &common[at]->fid);
	}
	for (int i = 0; i < 2; i++)
		thread[i] = tr_start(test, i % num_online_cpus(), run_race,
				     racer[i]);
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join_within(test, thread[i],
						       FX_WAIT_MS +
						       1000 * sets_seconds +
						       100 * RACES));
		KUNIT_EXPECT_EQ(test, 0, thread[i]->result);
	}
	/* The last change of each counter is listed too, whichever thread made it. */
	for (int i = 0; i < 2; i++) {
		note_listed(racer[i], NULL);
		for (int at = 0; at < COMMON; at++)
			KUNIT_EXPECT_EQ(test, fi_cntr_read(common[at]),
					racer[i]->seen[at]);
	}
	/* A thread may have added a common counter after the other one removed it. */
	for (int i = 0; i < COMMON; i++)
		st_del(test, shared, &common[i]->fid);
	fx_close(test, &shared->fid);
	fx_close(test, &set->fid);
}

/*
 * Two threads change a counter at about the same time, and one of them polls
 * it: a change during the poll must not get lost.
 */
struct meeting {
	struct fid_cntr	*cntr;
	struct fid_poll	*set;
	u64		rounds;
	u64		seen;	/* value when it was listed last */
};

static bool is_late(unsigned long deadline)
{
	cond_resched();
	return time_after(jiffies, deadline);
}

static int change_and_look(struct tr_thread *thread)
{
	struct meeting *meeting = thread->arg;
	void *found;

	for (u64 round = 1; round <= meeting->rounds; round++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		fi_cntr_add(meeting->cntr, 1);
		while (meeting->seen < 2 * round) {
			if (fi_poll(meeting->set, &found, 1))
				/* Pairs with the acquire in change(). */
				smp_store_release(&meeting->seen,
						  fi_cntr_read(meeting->cntr));
			else if (is_late(deadline))
				return thread->result = -ETIMEDOUT;
		}
	}
	return 0;
}

static int change(struct tr_thread *thread)
{
	struct meeting *meeting = thread->arg;

	for (u64 round = 1; round <= meeting->rounds; round++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		/* The delay varies, to hit every distance from the other thread's change. */
		for (u64 at = 0; at < round % 1024; at++)
			barrier();
		fi_cntr_add(meeting->cntr, 1);
		/* Pairs with the release in change_and_look(). */
		while (smp_load_acquire(&meeting->seen) < 2 * round)
			if (is_late(deadline))
				return thread->result = -ETIMEDOUT;
	}
	return 0;
}

static void poll_02_what_comes_during_a_look(struct kunit *test)
{
	int (*half[2])(struct tr_thread *thread) = { change_and_look, change };
	struct meeting *meeting = (void *)tr_buffer(test, sizeof(*meeting));
	struct fid_domain *domain = fx_open_for(test, FI_THREAD_SAFE)->domain;
	struct tr_thread *thread[2];

	/* With one CPU there is no concurrent change, and each round takes a scheduler tick. */
	meeting->rounds = num_online_cpus() > 1 ? 500 * tr_rounds : 10;
	meeting->cntr = st_cntr(test, domain);
	meeting->set = st_poll_open(test, domain);
	st_add(test, meeting->set, &meeting->cntr->fid);
	for (int i = 0; i < 2; i++)
		thread[i] = tr_start(test, i % num_online_cpus(), half[i],
				     meeting);
	/* A thread that waits in vain for the other one ends by its deadline. */
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join_within(test, thread[i],
						       FX_WAIT_MS +
						       100 * meeting->rounds));
		KUNIT_EXPECT_EQ(test, 0, thread[i]->result);
	}
	KUNIT_EXPECT_EQ(test, 2 * meeting->rounds, fi_cntr_read(meeting->cntr));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(poll_02_what_comes_during_a_look),
	KUNIT_CASE_SLOW(poll_06_two_cpus_at_the_same_sets),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_race_sets",
	.test_cases = cases,
};

kunit_test_suite(suite);
