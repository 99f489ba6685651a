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

struct thread_state {
	struct kofi_fabric_fx	*fx;
	struct fid_cntr		**common;	/* changed by both */
	struct fid_poll		*mine;		/* has them all */
	struct fid_poll		*shared;	/* of both threads */
	struct fid_wait		*set;		/* of both threads */
	u64			seen[COMMON];	/* value when it was listed last */
};

/* Polls, and records the values of the listed counters; returns true if wanted is listed. */
static bool note_listed(struct thread_state *thread_state, struct fid_cntr *wanted)
{
	bool is_listed = false;
	void *found[COMMON];
	int count = fi_poll(thread_state->mine, found, COMMON);

	for (int i = 0; i < count; i++) {
		is_listed |= found[i] == wanted;
		for (int at = 0; at < COMMON; at++)
			if (found[i] == thread_state->common[at])
				thread_state->seen[at] = fi_cntr_read(found[i]);
	}
	return is_listed;
}

/* A changed counter is listed, whatever the other thread does. */
static int find_changed(struct thread_state *thread_state, u32 seed)
{
	struct fid_cntr *cntr = thread_state->common[seed % COMMON];

	fi_cntr_add(cntr, 1);
	return note_listed(thread_state, cntr) ? 0 : -EBADF;
}

/* Adds members to the shared sets and removes them; the other thread may see them meanwhile. */
static int add_and_remove(struct thread_state *thread_state, u32 seed)
{
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_cq_attr cq_attr = { .wait_obj = FI_WAIT_SET,
				      .wait_set = thread_state->set, .size = 1 };
	struct fid_cntr *cntr, *other = thread_state->common[seed % COMMON];
	void *found[4];
	struct fid_cq *cq;
	int ret;

	ret = fi_cntr_open(thread_state->fx->domain, &cntr_attr, &cntr, NULL);
	if (ret)
		return ret;
	ret = fi_cq_open(thread_state->fx->domain, &cq_attr, &cq, NULL);
	if (ret)
		goto close_cntr;
	ret = fi_poll_add(thread_state->shared, &cntr->fid, 0) ?:
	      fi_poll_add(thread_state->shared, &cq->fid, 0) ?:
	      fi_poll_add(thread_state->shared, &other->fid, 0);
	fi_cntr_add(cntr, 1);
	fi_cq_signal(cq);
	if (!ret && fi_poll(thread_state->shared, found, ARRAY_SIZE(found)) < 0)
		ret = -EBADE;
	ret = ret ?: fi_poll_del(thread_state->shared, &cntr->fid, 0) ?:
	      fi_poll_del(thread_state->shared, &cq->fid, 0) ?:
	      fi_poll_del(thread_state->shared, &other->fid, 0);
	ret = fi_close(&cq->fid) ?: ret;
close_cntr:
	return fi_close(&cntr->fid) ?: ret;
}

/* Waits until the thread's own event queue is listed, possibly among the other thread's. */
static int wait_for_own(struct thread_state *thread_state)
{
	struct fi_eq_attr attr = { .flags = FI_WRITE, .wait_obj = FI_WAIT_SET,
				   .wait_set = thread_state->set };
	int ret, tries = 1000;
	struct fid *from[8];
	struct fid_eq *eq;
	bool listed = false;

	ret = fi_eq_open(thread_state->fx->fabric, &attr, &eq, NULL);
	if (ret)
		return ret;
	if (fi_eq_write(eq, 1, "x", 1, 0) != 1)
		ret = -EBADE;
	while (!listed && !ret && tries--) {
		int count = fi_waitfrom(thread_state->set, from, ARRAY_SIZE(from),
					FX_WAIT_MS);

		if (count <= 0)
			ret = count ?: -EBADE;
		for (int i = 0; i < count; i++)
			listed |= from[i] == &eq->fid;
	}
	return fi_close(&eq->fid) ?: ret ?: listed ? 0 : -EBADSLT;
}

static int run_race(struct tr_thread *thread)
{
	struct thread_state *thread_state = thread->arg;
	unsigned long end = jiffies + secs_to_jiffies(sets_seconds);
	u32 n;

	for (n = 0; !thread->result; n++) {
		if (sets_seconds ? time_after(jiffies, end) :
				   n == RACES)
			break;
		thread->result = find_changed(thread_state, n) ?:
				 add_and_remove(thread_state, n * 7) ?:
				 wait_for_own(thread_state);
		cond_resched();
	}
	pr_info("kofi_kunit: %u rounds at two sets\n", n);
	return 0;
}

static void poll_06_two_cpus_use_the_same_sets(struct kunit *test)
{
	struct fid_cntr **common = (void *)tr_buffer(test, COMMON *
						     sizeof(*common));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct fid_poll *shared = st_poll_open(test, fx->domain);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct tr_thread *thread[2];
	struct thread_state *thread_state[2];

	for (int i = 0; i < COMMON; i++)
		common[i] = st_cntr(test, fx->domain);
	for (int i = 0; i < 2; i++) {
		thread_state[i] = (void *)tr_buffer(test, sizeof(**thread_state));
		*thread_state[i] = (struct thread_state){ fx, common,
					    st_poll_open(test, fx->domain),
					    shared, set };
		for (int at = 0; at < COMMON; at++)
			st_add(test, thread_state[i]->mine, &common[at]->fid);
	}
	for (int i = 0; i < 2; i++)
		thread[i] = tr_start(test, i % num_online_cpus(), run_race,
				     thread_state[i]);
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join_within(test, thread[i],
						       FX_WAIT_MS +
						       1000 * sets_seconds +
						       100 * RACES));
		KUNIT_EXPECT_EQ(test, 0, thread[i]->result);
	}
	/* The last change of each counter is listed too, whichever thread made it. */
	for (int i = 0; i < 2; i++) {
		note_listed(thread_state[i], NULL);
		for (int at = 0; at < COMMON; at++)
			KUNIT_EXPECT_EQ(test, fi_cntr_read(common[at]),
					thread_state[i]->seen[at]);
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
struct poll_race {
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

static int change_and_poll(struct tr_thread *thread)
{
	struct poll_race *poll_race = thread->arg;
	void *found;

	for (u64 round = 1; round <= poll_race->rounds; round++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		fi_cntr_add(poll_race->cntr, 1);
		while (poll_race->seen < 2 * round) {
			if (fi_poll(poll_race->set, &found, 1))
				/* Pairs with the acquire in change(). */
				smp_store_release(&poll_race->seen,
						  fi_cntr_read(poll_race->cntr));
			else if (is_late(deadline))
				return thread->result = -ETIMEDOUT;
		}
	}
	return 0;
}

static int change(struct tr_thread *thread)
{
	struct poll_race *poll_race = thread->arg;

	for (u64 round = 1; round <= poll_race->rounds; round++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		/* The delay varies, to hit every distance from the other thread's change. */
		for (u64 at = 0; at < round % 1024; at++)
			barrier();
		fi_cntr_add(poll_race->cntr, 1);
		/* Pairs with the release in change_and_poll(). */
		while (smp_load_acquire(&poll_race->seen) < 2 * round)
			if (is_late(deadline))
				return thread->result = -ETIMEDOUT;
	}
	return 0;
}

static void poll_02_a_change_during_a_poll_is_listed(struct kunit *test)
{
	int (*half[2])(struct tr_thread *thread) = { change_and_poll, change };
	struct poll_race *poll_race = (void *)tr_buffer(test, sizeof(*poll_race));
	struct fid_domain *domain = fx_open_for(test, FI_THREAD_SAFE)->domain;
	struct tr_thread *thread[2];

	/* With one CPU there is no concurrent change, and each round takes a scheduler tick. */
	poll_race->rounds = num_online_cpus() > 1 ? 500 * tr_rounds : 10;
	poll_race->cntr = st_cntr(test, domain);
	poll_race->set = st_poll_open(test, domain);
	st_add(test, poll_race->set, &poll_race->cntr->fid);
	for (int i = 0; i < 2; i++)
		thread[i] = tr_start(test, i % num_online_cpus(), half[i],
				     poll_race);
	/* A thread that waits in vain for the other one ends by its deadline. */
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join_within(test, thread[i],
						       FX_WAIT_MS +
						       100 * poll_race->rounds));
		KUNIT_EXPECT_EQ(test, 0, thread[i]->result);
	}
	KUNIT_EXPECT_EQ(test, 2 * poll_race->rounds, fi_cntr_read(poll_race->cntr));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(poll_02_a_change_during_a_poll_is_listed),
	KUNIT_CASE_SLOW(poll_06_two_cpus_use_the_same_sets),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_race_sets",
	.test_cases = cases,
};

kunit_test_suite(suite);
