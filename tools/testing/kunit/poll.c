// SPDX-License-Identifier: GPL-2.0
/*
 * Tests POLL 1 to 5 of CONTRACT: poll sets of completion queues and counters.
 */

#include <linux/delay.h>

#include "handler.h"
#include "sets.h"

#define MANY	70
#define ROUNDS	50

static void poll_01_flags_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_poll *set = st_poll_open(test, fx->domain), *other = NULL;
	struct fi_poll_attr attr = { .flags = 1 };

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_poll_open(fx->domain, &attr, &other));
	attr.flags = ~0ULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_poll_open(fx->domain, &attr, &other));
	KUNIT_EXPECT_NULL(test, other);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_poll_add(set, &fx->cq->fid, 1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_poll_del(set, &fx->cq->fid, 1));
	/* The refused call did not add the queue. */
	fx_close(test, &fx->cq->fid);
}

static void poll_01_only_queues_and_counters(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_poll *set = st_poll_open(test, fx->domain);
	struct fid *others[] = {
		&fx->fabric->fid, &fx->domain->fid, &fx->eq->fid, &set->fid,
		&fx_ep(test, fx->domain, fx->info)->fid,
		&st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC)->fid,
	};

	for (int i = 0; i < ARRAY_SIZE(others); i++) {
		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_poll_add(set, others[i], 0), "%d", i);
		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_poll_del(set, others[i], 0), "%d", i);
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_poll_add(set, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_poll_del(set, NULL, 0));
}

static void poll_02_empty_sets_and_invalid_counts(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_poll *set = st_poll_open(test, fx->domain);
	struct fid_cntr *cntr = st_cntr(test, fx->domain);
	void *found = fx;

	KUNIT_EXPECT_EQ(test, 0, fi_poll(set, &found, 1));
	st_add(test, set, &cntr->fid);
	fi_cntr_add(cntr, 1);
	KUNIT_EXPECT_EQ(test, 0, fi_poll(set, NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_poll(set, NULL, 1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_poll(set, &found, -1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_poll(set, &found, INT_MIN));
	KUNIT_EXPECT_PTR_EQ(test, found, (void *)fx);
	/* The refused calls above did not report the change. */
	ST_EXPECT_READY(test, set, &cntr->fid);
}

/* Opens a poll set with the first queues of a connection; each context is the queue's address. */
static struct fid_poll *poll_some(struct kunit *test, struct kofi_pair *pair,
				  int count)
{
	struct fid_poll *set = st_poll_open(test, pair->domain);

	for (int i = 0; i < count; i++) {
		pair->cq[i]->fid.context = pair->cq[i];
		st_add(test, set, &pair->cq[i]->fid);
	}
	return set;
}

static struct fid_poll *poll_one(struct kunit *test, struct kofi_pair *pair)
{
	return poll_some(test, pair, 1);
}

static struct fid_poll *poll_pair(struct kunit *test, struct kofi_pair *pair)
{
	return poll_some(test, pair, 2);
}

static void poll_02_a_queue_is_listed_until_it_is_empty(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_poll *set = poll_one(test, pair);

	ST_EXPECT_READY(test, set, NULL);
	ST_EXPECT_READY(test, set, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], buf, 1));
		ST_EXPECT_READY(test, set, NULL);
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], buf + 1, 1));
		KUNIT_ASSERT_TRUE(test, st_await(test, set));
		ST_EXPECT_READY(test, set, &pair->cq[0]->fid);
		ST_EXPECT_READY(test, set, &pair->cq[0]->fid);
		tr_expect(test, pair->cq[0], buf, FI_RECV, 1);
		ST_EXPECT_READY(test, set, NULL);
		tr_expect(test, pair->cq[1], buf + 1, FI_SEND, 1);
	}
}

static void poll_02_ready_queues_are_listed_in_turn(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_poll *set = poll_pair(test, pair);
	void *found[3];

	ST_EXPECT_READY(test, set, NULL);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], buf, 1));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], buf + 1, 1));
	KUNIT_ASSERT_EQ(test, 0, tr_await(pair->cq[0]));
	KUNIT_ASSERT_EQ(test, 0, tr_await(pair->cq[1]));

	ST_EXPECT_READY(test, set, &pair->cq[0]->fid, &pair->cq[1]->fid);
	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 1, fi_poll(set, &found[i], 1));
	KUNIT_EXPECT_PTR_NE(test, found[0], found[1]);
	KUNIT_EXPECT_PTR_EQ(test, found[0], found[2]);
	tr_expect(test, pair->cq[0], buf, FI_RECV, 1);
	tr_expect(test, pair->cq[1], buf + 1, FI_SEND, 1);
	ST_EXPECT_READY(test, set, NULL);
}

static void poll_02_entries_from_before_the_add_are_listed(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_poll *set;

	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], buf, 1));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], buf + 1, 1));
	KUNIT_ASSERT_EQ(test, 0, tr_await(pair->cq[0]));
	KUNIT_ASSERT_EQ(test, 0, tr_await(pair->cq[1]));
	set = poll_pair(test, pair);
	ST_EXPECT_READY(test, set, &pair->cq[0]->fid, &pair->cq[1]->fid);
	tr_expect(test, pair->cq[0], buf, FI_RECV, 1);
	ST_EXPECT_READY(test, set, &pair->cq[1]->fid);
	tr_expect(test, pair->cq[1], buf + 1, FI_SEND, 1);
	ST_EXPECT_READY(test, set, NULL);
}

static void poll_02_errors_are_listed(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 1);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_poll *set = poll_one(test, pair);

	ST_EXPECT_READY(test, set, NULL);
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], buf, 1));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[0], 0));
	KUNIT_ASSERT_TRUE(test, st_await(test, set));
	ST_EXPECT_READY(test, set, &pair->cq[0]->fid);
	tr_expect_error(test, pair->cq[0], buf, FI_ECANCELED);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	ST_EXPECT_READY(test, set, NULL);
}

/* In a set of many counters each one is found alone, and all are found together. */
static void poll_02_each_of_many_counters_is_listed(struct kunit *test)
{
	struct fid_cntr **cntr = (void *)tr_buffer(test, MANY * sizeof(*cntr));
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_poll *set = st_poll_open(test, fx->domain);
	void **found = (void *)tr_buffer(test, 2 * MANY * sizeof(*found));

	for (int i = 0; i < MANY; i++) {
		cntr[i] = st_cntr(test, fx->domain);
		st_add(test, set, &cntr[i]->fid);
	}
	ST_EXPECT_READY(test, set, NULL);
	for (int i = MANY; i-- > 0; ) {
		fi_cntr_add(cntr[i], 1);
		ST_EXPECT_READY(test, set, &cntr[i]->fid);
		ST_EXPECT_READY(test, set, NULL);
	}
	for (int i = 0; i < MANY; i++)
		fi_cntr_add(cntr[i], 1);
	/* Several calls list each counter once, in the order of their changes. */
	KUNIT_EXPECT_EQ(test, 3, fi_poll(set, found, 3));
	KUNIT_EXPECT_EQ(test, MANY - 3, fi_poll(set, found + 3, MANY));
	for (int i = 0; i < MANY; i++)
		KUNIT_EXPECT_PTR_EQ(test, found[i], (void *)cntr[i]);
	ST_EXPECT_READY(test, set, NULL);
}

static void poll_in_handler(struct hd_queue *queue)
{
	struct fi_cq_tagged_entry entry;
	void *found[2] = {};
	int *listed = queue->data, ret = fi_poll((void *)queue->ep, found, 2);

	/* The read arms the queue for the next call. */
	if (ret == 1 && found[0] == queue->cq)
		++*listed;
	while (fi_cq_read(queue->cq, &entry, 1) == 1)
		;
}

/* A member's handler is still called, and may poll the set. */
static void poll_in_a_handler(struct kunit *test, bool hard)
{
	int *listed = (void *)tr_buffer(test, sizeof(*listed));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	/* The handler may run until the queue is closed, so the set is closed after it. */
	struct fid_poll *set = st_poll_open(test, fx->domain);
	struct hd_queue *queue = hd_open(test, fx, hard, poll_in_handler, listed);
	struct fid_ep *ep[2];

	queue->cq->fid.context = queue->cq;
	/* The handler's fi_poll() argument. */
	queue->ep = (void *)set;
	st_add(test, set, &queue->cq->fid);
	ST_EXPECT_READY(test, set, NULL);
	hd_connect(test, fx, queue, NULL, ep);
	queue->ep = (void *)set;
	hd_post_receives(test, ep[0], 2);
	for (int turn = 1; turn <= 2; turn++) {
		hd_post_sends(test, ep[1], 1);
		KUNIT_ASSERT_TRUE(test, hd_wait_calls(test, queue, turn));
		KUNIT_ASSERT_TRUE(test, hd_wait_idle(test, queue));
		KUNIT_EXPECT_GE(test, READ_ONCE(*listed), turn);
		ST_EXPECT_READY(test, set, NULL);
	}
	hd_check(test, queue);
	/* A member of a set cannot be closed. */
	st_del(test, set, &queue->cq->fid);
}

static void poll_02_fi_poll_in_a_hardirq_handler(struct kunit *test)
{
	poll_in_a_handler(test, true);
}

static void poll_02_fi_poll_in_a_process_context_handler(struct kunit *test)
{
	poll_in_a_handler(test, false);
}

static void poll_03_a_counter_is_listed_once_after_each_change(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_poll *set = st_poll_open(test, fx->domain);
	struct fid_poll *second = st_poll_open(test, fx->domain);
	struct fid_cntr *cntr = st_cntr(test, fx->domain);
	struct fid_cntr *used = st_cntr(test, fx->domain);

	fi_cntr_add(used, 5);
	st_add(test, set, &cntr->fid);
	st_add(test, set, &used->fid);
	st_add(test, second, &cntr->fid);
	/* A counter that changed before it was added is listed. */
	ST_EXPECT_READY(test, set, &used->fid);
	ST_EXPECT_READY(test, set, NULL);

	fi_cntr_add(cntr, 1);
	fi_cntr_add(cntr, 1);
	ST_EXPECT_READY(test, set, &cntr->fid);
	ST_EXPECT_READY(test, set, NULL);
	/* Each set lists the change for itself. */
	ST_EXPECT_READY(test, second, &cntr->fid);
	ST_EXPECT_READY(test, second, NULL);
	fi_cntr_adderr(cntr, 1);
	ST_EXPECT_READY(test, set, &cntr->fid);
	fi_cntr_seterr(cntr, 0);
	ST_EXPECT_READY(test, set, &cntr->fid);
	/* A change back to the old value counts as a change. */
	fi_cntr_set(cntr, 7);
	fi_cntr_set(cntr, 2);
	ST_EXPECT_READY(test, set, &cntr->fid);
	ST_EXPECT_READY(test, set, NULL);
	KUNIT_EXPECT_EQ(test, 2, fi_cntr_read(cntr));
	ST_EXPECT_READY(test, set, NULL);
}

/* fi_poll() alone makes progress: the test never reads the completion queue. */
static void poll_03_operations_are_counted_by_polling(struct kunit *test)
{
	static const int counts[2] = { FX_RECVS, FX_SENDS };
	struct fx_pair_opts opts = { .count = true };
	u8 *buf = tr_buffer(test, 2);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fid_poll *set = st_poll_open(test, pair->domain);

	for (int i = 0; i < 2; i++) {
		struct fid_cntr *cntr = pair->cntr[i][counts[i]];

		cntr->fid.context = cntr;
		st_add(test, set, &cntr->fid);
	}
	ST_EXPECT_READY(test, set, NULL);
	for (int round = 1; round <= ROUNDS / 5; round++) {
		bool seen[2] = {};
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], buf, 1));
		KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], buf + 1, 1));
		while (!(seen[0] && seen[1]) &&
		       time_before(jiffies, deadline)) {
			void *found[2];
			int count = fi_poll(set, found, 2);

			for (int at = 0; at < count; at++)
				seen[found[at] == pair->cntr[1][FX_SENDS]] = true;
			if (!count)
				fsleep(500);
		}
		KUNIT_ASSERT_TRUE_MSG(test, seen[0] && seen[1],
				      "waited for both counters, round %d: %d %d",
				      round, seen[0], seen[1]);
		ST_EXPECT_READY(test, set, NULL);
		KUNIT_EXPECT_EQ(test, round,
				fi_cntr_read(pair->cntr[0][FX_RECVS]));
		KUNIT_EXPECT_EQ(test, round,
				fi_cntr_read(pair->cntr[1][FX_SENDS]));
	}
}

static void poll_04_adding_twice_and_deleting_absent_members(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_poll *set = st_poll_open(test, fx->domain);
	struct fid_cntr *cntr[3];

	for (int i = 0; i < 3; i++)
		cntr[i] = st_cntr(test, fx->domain);
	KUNIT_EXPECT_EQ(test, 0, fi_poll_del(set, &cntr[0]->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_poll_del(set, &fx->cq->fid, 0));
	for (int i = 0; i < 3; i++)
		st_add(test, set, &cntr[i]->fid);
	st_add(test, set, &fx->cq->fid);
	st_add(test, set, &fx->cq->fid);
	st_add(test, set, &cntr[1]->fid);
	fi_cntr_add(cntr[1], 1);
	ST_EXPECT_READY(test, set, &cntr[1]->fid);
	ST_EXPECT_READY(test, set, NULL);

	/* A member that was added twice is removed by one delete. */
	fi_cntr_add(cntr[0], 1);
	fi_cntr_add(cntr[1], 1);
	fi_cntr_add(cntr[2], 1);
	st_del(test, set, &cntr[1]->fid);
	ST_EXPECT_READY(test, set, &cntr[0]->fid, &cntr[2]->fid);
	fi_cntr_add(cntr[1], 1);
	ST_EXPECT_READY(test, set, NULL);
	/* A member that is added again does not list changes from before. */
	st_del(test, set, &cntr[0]->fid);
	fi_cntr_set(cntr[1], 0);
	st_add(test, set, &cntr[1]->fid);
	ST_EXPECT_READY(test, set, NULL);
	fi_cntr_add(cntr[1], 1);
	ST_EXPECT_READY(test, set, &cntr[1]->fid);
	KUNIT_EXPECT_EQ(test, 0, fi_poll_del(set, &cntr[0]->fid, 0));
}

static void poll_05_a_set_and_its_members_are_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_poll *set = st_poll_open(test, fx->domain);
	struct fid_cntr *cntr = st_cntr(test, fx->domain);

	KUNIT_ASSERT_EQ(test, 0, fi_poll_add(set, &cntr->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_poll_add(set, &fx->cq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&set->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&cntr->fid));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->cq->fid));
	/* The refused calls changed nothing. */
	fi_cntr_add(cntr, 1);
	cntr->fid.context = cntr;
	ST_EXPECT_READY(test, set, &cntr->fid);

	KUNIT_EXPECT_EQ(test, 0, fi_poll_del(set, &cntr->fid, 0));
	fx_close(test, &cntr->fid);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&set->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_poll_del(set, &fx->cq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->domain->fid));
	fx_close(test, &set->fid);
	fx_close(test, &fx->cq->fid);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(poll_01_flags_are_refused),
	KUNIT_CASE(poll_01_only_queues_and_counters),
	KUNIT_CASE(poll_02_empty_sets_and_invalid_counts),
	KUNIT_CASE(poll_02_a_queue_is_listed_until_it_is_empty),
	KUNIT_CASE(poll_02_ready_queues_are_listed_in_turn),
	KUNIT_CASE(poll_02_entries_from_before_the_add_are_listed),
	KUNIT_CASE(poll_02_errors_are_listed),
	KUNIT_CASE(poll_02_each_of_many_counters_is_listed),
	KUNIT_CASE(poll_02_fi_poll_in_a_hardirq_handler),
	KUNIT_CASE(poll_02_fi_poll_in_a_process_context_handler),
	KUNIT_CASE(poll_03_a_counter_is_listed_once_after_each_change),
	KUNIT_CASE(poll_03_operations_are_counted_by_polling),
	KUNIT_CASE(poll_04_adding_twice_and_deleting_absent_members),
	KUNIT_CASE(poll_05_a_set_and_its_members_are_busy),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_poll",
	.test_cases = cases,
};

kunit_test_suite(suite);
