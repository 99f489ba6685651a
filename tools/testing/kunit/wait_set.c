// SPDX-License-Identifier: GPL-2.0
/*
 * Tests POLL 1, 5, 6, 8 and 10 of CONTRACT: wait sets, and fi_control() of wait
 * objects. trywait.c tests native waits.
 */

#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "sets.h"

#define SHORT_MS	200
#define MANY		64
#define EVENTS		200

static void poll_01_wait_sets_take_no_flags(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_UNSPEC, .flags = 1 };
	struct fid_wait *set = NULL;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_wait_open(fx->fabric, &attr, &set));
	KUNIT_EXPECT_NULL(test, set);
}

static void poll_10_wait_objects_of_user_space_are_enosys(struct kunit *test)
{
	static const struct {
		enum fi_wait_obj obj;
		int answer;
	} answers[] = {
		{ FI_WAIT_UNSPEC, 0 }, { FI_WAIT_YIELD, 0 },
		{ FI_WAIT_QUEUE, 0 },
		{ FI_WAIT_NONE, -FI_EINVAL }, { FI_WAIT_SET, -FI_EINVAL },
		{ FI_WAIT_FD, -FI_ENOSYS }, { FI_WAIT_POLLFD, -FI_ENOSYS },
		{ FI_WAIT_MUTEX_COND, -FI_ENOSYS },
		{ FI_WAIT_QUEUE + 1, -FI_EINVAL }, { -1, -FI_EINVAL },
	};
	struct kofi_fabric_fx *fx = fx_open(test);

	for (int i = 0; i < ARRAY_SIZE(answers); i++) {
		struct fi_wait_attr attr = { .wait_obj = answers[i].obj };
		struct fid_wait *set = NULL;

		KUNIT_EXPECT_EQ_MSG(test, answers[i].answer,
				    fi_wait_open(fx->fabric, &attr, &set),
				    "wait object %d", (int)answers[i].obj);
		if (set)
			KUNIT_EXPECT_EQ(test, 0, fi_close(&set->fid));
	}
}

static void poll_10_fi_wait_set_without_a_set_is_einval(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *wrong[] = { NULL, (void *)fx->cq };

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct fi_cq_attr cq_attr = { .wait_obj = FI_WAIT_SET,
					      .wait_set = wrong[i] };
		struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_SET,
					      .wait_set = wrong[i] };
		struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_SET,
						  .wait_set = wrong[i] };
		struct fid_cntr *cntr = NULL;
		struct fid_cq *cq = NULL;
		struct fid_eq *eq = NULL;

		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_cq_open(fx->domain, &cq_attr, &cq, NULL));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_eq_open(fx->fabric, &eq_attr, &eq, NULL));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_cntr_open(fx->domain, &cntr_attr, &cntr,
					     NULL));
	}
}

/* Checks the wait object that fi_control() reports. */
static void expect_object(struct kunit *test, struct fid *fid,
			  enum fi_wait_obj want)
{
	enum fi_wait_obj obj = ~0;
	wait_queue_head_t *queue = NULL;

	KUNIT_EXPECT_EQ(test, 0, fi_control(fid, FI_GETWAITOBJ, &obj));
	KUNIT_EXPECT_EQ(test, want, obj);
	KUNIT_EXPECT_EQ(test, want == FI_WAIT_QUEUE ? 0 : -FI_ENODATA,
			fi_control(fid, FI_GETWAIT, &queue));
	KUNIT_EXPECT_EQ(test, want == FI_WAIT_QUEUE, !!queue);
	/* The pointer is to a wait queue, on which no thread sleeps. */
	if (queue)
		KUNIT_EXPECT_FALSE(test, wq_has_sleeper(queue));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(fid, FI_GETWAITOBJ, NULL));
	if (want == FI_WAIT_QUEUE)
		KUNIT_EXPECT_EQ(test, -FI_EINVAL,
				fi_control(fid, FI_GETWAIT, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_control(fid, FI_ENABLE, NULL));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_control(fid, INT_MAX, &obj));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_control(fid, -1, &obj));
}

static void poll_08_every_class_reports_its_wait_object(struct kunit *test)
{
	static const enum fi_wait_obj objs[] = {
		FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD, FI_WAIT_QUEUE,
		FI_WAIT_SET,
	};
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_QUEUE);

	expect_object(test, &set->fid, FI_WAIT_QUEUE);
	expect_object(test, &st_wait_open(test, fx->fabric, FI_WAIT_YIELD)->fid,
		      FI_WAIT_YIELD);
	for (int i = 0; i < ARRAY_SIZE(objs); i++) {
		struct fi_cq_attr cq_attr = { .wait_obj = objs[i],
					      .wait_set = set };
		struct fi_eq_attr eq_attr = { .wait_obj = objs[i],
					      .wait_set = set };
		struct fi_cntr_attr cntr_attr = { .wait_obj = objs[i],
						  .wait_set = set };
		struct fid_cntr *cntr;
		struct fid_cq *cq;
		struct fid_eq *eq;

		KUNIT_ASSERT_EQ(test, 0, fi_cq_open(fx->domain, &cq_attr, &cq,
						    NULL));
		expect_object(test, &cq->fid, objs[i]);
		KUNIT_EXPECT_EQ(test, 0, fi_close(&cq->fid));
		KUNIT_ASSERT_EQ(test, 0, fi_eq_open(fx->fabric, &eq_attr, &eq,
						    NULL));
		expect_object(test, &eq->fid, objs[i]);
		KUNIT_EXPECT_EQ(test, 0, fi_close(&eq->fid));
		KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(fx->domain, &cntr_attr,
						      &cntr, NULL));
		expect_object(test, &cntr->fid, objs[i]);
		KUNIT_EXPECT_EQ(test, 0, fi_close(&cntr->fid));
	}
}

static void poll_05_a_set_with_members_is_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct fid *members[] = {
		&st_wait_cq(test, fx->domain, set)->fid,
		&st_wait_eq(test, fx->fabric, set)->fid,
		&st_wait_cntr(test, fx->domain, set)->fid,
	};

	for (int i = 0; i < ARRAY_SIZE(members); i++) {
		KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&set->fid));
		/* A member of a wait set can be closed. */
		fx_close(test, members[i]);
	}
	fx_close(test, &set->fid);
}

struct waiter {
	struct fid_wait		*set;
	struct fid		*from;
	struct tr_thread	*thread;
};

static int wait_without_timeout(struct tr_thread *thread)
{
	struct waiter *waiter = thread->arg;

	allow_signal(SIGUSR1);
	thread->result = fi_waitfrom(waiter->set, &waiter->from, 1, -1);
	return 0;
}

/* Starts a thread that waits on the set without a timeout; returns once it sleeps. */
static struct waiter *start_waiter(struct kunit *test, struct fid_wait *set)
{
	struct waiter *waiter = (void *)tr_buffer(test, sizeof(*waiter));

	waiter->set = set;
	waiter->thread = tr_start(test, num_online_cpus() - 1, wait_without_timeout,
				  waiter);
	tr_until_asleep(test, waiter->thread);
	KUNIT_ASSERT_FALSE_MSG(test, completion_done(&waiter->thread->done),
			       "did not wait: %zd", waiter->thread->result);
	return waiter;
}

static void expect_end(struct kunit *test, struct waiter *waiter, int result,
		       struct fid *from)
{
	KUNIT_ASSERT_TRUE(test, tr_join(test, waiter->thread));
	KUNIT_EXPECT_EQ(test, result, waiter->thread->result);
	KUNIT_EXPECT_PTR_EQ(test, from, waiter->from);
}

static void poll_05_a_set_with_a_waiter_is_busy(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct waiter *waiter = start_waiter(test, set);

	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&set->fid));
	tr_stop(test, waiter->thread);
	KUNIT_EXPECT_EQ(test, -FI_EINTR, waiter->thread->result);
	fx_close(test, &set->fid);
}

static void poll_06_every_member_wakes_the_waiter(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid_wait *set = st_wait_open(test, pair->fabric, FI_WAIT_UNSPEC);
	struct fid_cq *cq = st_wait_cq(test, pair->domain, set);
	struct fid_eq *eq = st_wait_eq(test, pair->fabric, set);
	struct fid_cntr *cntr = st_wait_cntr(test, pair->domain, set);
	struct fid_ep *ep = fx_ep(test, pair->domain, pair->info), *peer;
	struct waiter *waiter;
	u32 event = 0;

	fx_bind(test, ep, pair->eq, cq, FI_TRANSMIT | FI_RECV);
	peer = fx_connect(test, pair->domain, ep, pair->pep, pair->eq,
			  pair->cq[0]);

	waiter = start_waiter(test, set);
	KUNIT_EXPECT_EQ(test, 1, fi_eq_write(eq, 7, "x", 1, 0));
	expect_end(test, waiter, 1, &eq->fid);
	/* The member stays ready until it is read. */
	ST_EXPECT_FROM(test, set, &eq->fid);
	KUNIT_EXPECT_EQ(test, 0, fi_wait(set, 0));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_read(eq, &event, buf, 1, 0));

	waiter = start_waiter(test, set);
	fi_cntr_add(cntr, 1);
	expect_end(test, waiter, 1, &cntr->fid);
	waiter = start_waiter(test, set);
	fi_cntr_adderr(cntr, 1);
	expect_end(test, waiter, 1, &cntr->fid);

	KUNIT_ASSERT_EQ(test, 0, tr_recv(ep, buf, 1));
	waiter = start_waiter(test, set);
	KUNIT_ASSERT_EQ(test, 0, tr_send(peer, buf + 1, 1));
	expect_end(test, waiter, 1, &cq->fid);
	ST_EXPECT_FROM(test, set, &cq->fid);
	tr_expect(test, cq, buf, FI_RECV, 1);

	waiter = start_waiter(test, set);
	KUNIT_EXPECT_EQ(test, 0, fi_cq_signal(cq));
	expect_end(test, waiter, 1, &cq->fid);
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_wait(set, 0));
	tr_expect(test, pair->cq[0], buf + 1, FI_SEND, 1);
}

static void poll_06_events_from_before_the_wait_are_reported(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct fid_cq *cq = st_wait_cq(test, fx->domain, set);
	struct fid_eq *eq = st_wait_eq(test, fx->fabric, set);
	struct fid_cntr *cntr = st_wait_cntr(test, fx->domain, set);
	struct fid *from[4] = {};
	u32 event;
	u8 byte;

	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_wait(set, 0));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_write(eq, 7, "x", 1, 0));
	fi_cntr_set(cntr, 5);
	fi_cq_signal(cq);
	/* The oldest event's member is first; one that stays ready moves to the end. */
	KUNIT_EXPECT_EQ(test, 1, fi_waitfrom(set, from, 1, -1));
	KUNIT_EXPECT_PTR_EQ(test, &eq->fid, from[0]);
	KUNIT_EXPECT_EQ(test, 3, fi_waitfrom(set, from, 4, -1));
	KUNIT_EXPECT_PTR_EQ(test, &cntr->fid, from[0]);
	KUNIT_EXPECT_PTR_EQ(test, &cq->fid, from[1]);
	KUNIT_EXPECT_PTR_EQ(test, &eq->fid, from[2]);
	KUNIT_EXPECT_EQ(test, 1, fi_eq_read(eq, &event, &byte, 1, 0));
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_wait(set, 0));
	/* fi_cq_sread() still returns for the signal that the set has reported. */
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_sread(cq, &byte, 0, NULL, -1));
}

static void poll_06_bad_arguments_are_einval(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct fid_cntr *cntr = st_wait_cntr(test, fx->domain, set);
	struct fid *from = NULL;

	fi_cntr_add(cntr, 1);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_waitfrom(set, NULL, 1, -1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_waitfrom(set, &from, 0, -1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_waitfrom(set, &from, -1, -1));
	KUNIT_EXPECT_NULL(test, from);
	ST_EXPECT_FROM(test, set, &cntr->fid);
}

static void poll_06_the_wait_times_out(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	unsigned long start = jiffies;

	st_wait_cq(test, fx->domain, set);
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_wait(set, SHORT_MS));
	FX_EXPECT_PASSED(test, start, SHORT_MS);
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_wait(set, 0));
	KUNIT_EXPECT_LT_MSG(test, jiffies_to_msecs(jiffies - start), FX_WAIT_MS,
			    "a wait with a timeout of 0 slept");
}

static void poll_06_signals_and_stopping_end_the_wait(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct waiter *waiter;

	st_wait_eq(test, fx->fabric, set);
	waiter = start_waiter(test, set);
	send_sig(SIGUSR1, waiter->thread->task, 1);
	expect_end(test, waiter, -FI_EINTR, NULL);
	waiter = start_waiter(test, set);
	tr_stop(test, waiter->thread);
	expect_end(test, waiter, -FI_EINTR, NULL);
}

/* Arguments and results of count_wakes(). */
struct counting {
	struct fid_wait	*set;
	struct fid	*want[MANY];
	atomic_t	count;
	atomic_t	wrong;
};

/* Waits for EVENTS events, one at a time, and checks which member each wait reports. */
static int count_wakes(struct tr_thread *thread)
{
	struct counting *counting = thread->arg;

	for (int i = 0; i < EVENTS; i++) {
		struct fid *from = NULL;

		thread->result = fi_waitfrom(counting->set, &from, 1,
					     FX_WAIT_MS);
		if (thread->result != 1)
			break;
		if (from != counting->want[i * 7 % MANY])
			atomic_inc(&counting->wrong);
		atomic_inc(&counting->count);
	}
	return 0;
}

/* Each event of one of many members wakes the waiting thread once. */
static void poll_06_each_event_wakes_the_waiter_once(struct kunit *test)
{
	struct counting *counting = (void *)tr_buffer(test, sizeof(*counting));
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct fid_cntr *cntr[MANY];
	struct tr_thread *thread;
	unsigned long before;

	for (int i = 0; i < MANY; i++) {
		cntr[i] = st_wait_cntr(test, fx->domain, set);
		counting->want[i] = &cntr[i]->fid;
	}
	counting->set = set;
	thread = tr_start(test, num_online_cpus() - 1, count_wakes, counting);
	tr_until_asleep(test, thread);
	before = thread->task->nvcsw;
	for (int i = 0; i < EVENTS; i++) {
		fi_cntr_add(cntr[i * 7 % MANY], 1);
		while (atomic_read(&counting->count) <= i &&
		       time_before(jiffies, deadline))
			fsleep(200);
		tr_until_asleep(test, thread);
	}
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 1, thread->result);
	KUNIT_EXPECT_EQ(test, EVENTS, atomic_read(&counting->count));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&counting->wrong));
	/* The thread sleeps once for each event, and once more as it ends. */
	KUNIT_EXPECT_LE(test, thread->task->nvcsw - before, EVENTS + 2);
}

static void poll_06_an_event_wakes_all_waiters(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct fid_eq *eq = st_wait_eq(test, fx->fabric, set);
	struct waiter *waiter[2];
	u32 event;
	u8 byte;

	for (int i = 0; i < 2; i++)
		waiter[i] = start_waiter(test, set);
	KUNIT_EXPECT_EQ(test, 1, fi_eq_write(eq, 7, "x", 1, 0));
	for (int i = 0; i < 2; i++)
		expect_end(test, waiter[i], 1, &eq->fid);
	KUNIT_EXPECT_EQ(test, 1, fi_eq_read(eq, &event, &byte, 1, 0));
}

static void poll_06_a_closed_member_wakes_no_waiter(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct fid_cntr *first = st_wait_cntr(test, fx->domain, set);
	struct fid_cntr *second = st_wait_cntr(test, fx->domain, set);
	struct waiter *waiter;

	fi_cntr_add(first, 1);
	fx_close(test, &first->fid);
	waiter = start_waiter(test, set);
	fi_cntr_add(second, 1);
	expect_end(test, waiter, 1, &second->fid);
}

static void poll_06_members_can_be_waited_for_separately(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_UNSPEC);
	struct fid_eq *eq = st_wait_eq(test, fx->fabric, set);
	struct fid_cntr *cntr = st_wait_cntr(test, fx->domain, set);
	u32 event;
	u8 byte;

	fi_cntr_add(cntr, 3);
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_wait(cntr, 3, FX_WAIT_MS));
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_cntr_wait(cntr, 4, 0));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_write(eq, 7, "x", 1, 0));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_sread(eq, &event, &byte, 1, FX_WAIT_MS, 0));
	ST_EXPECT_FROM(test, set, &cntr->fid);
	KUNIT_EXPECT_EQ(test, -FI_ETIMEDOUT, fi_wait(set, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(poll_01_wait_sets_take_no_flags),
	KUNIT_CASE(poll_05_a_set_with_members_is_busy),
	KUNIT_CASE(poll_05_a_set_with_a_waiter_is_busy),
	KUNIT_CASE(poll_06_every_member_wakes_the_waiter),
	KUNIT_CASE(poll_06_events_from_before_the_wait_are_reported),
	KUNIT_CASE(poll_06_bad_arguments_are_einval),
	KUNIT_CASE(poll_06_the_wait_times_out),
	KUNIT_CASE(poll_06_signals_and_stopping_end_the_wait),
	KUNIT_CASE(poll_06_each_event_wakes_the_waiter_once),
	KUNIT_CASE(poll_06_an_event_wakes_all_waiters),
	KUNIT_CASE(poll_06_a_closed_member_wakes_no_waiter),
	KUNIT_CASE(poll_06_members_can_be_waited_for_separately),
	KUNIT_CASE(poll_08_every_class_reports_its_wait_object),
	KUNIT_CASE(poll_10_wait_objects_of_user_space_are_enosys),
	KUNIT_CASE(poll_10_fi_wait_set_without_a_set_is_einval),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_wait_set",
	.test_cases = cases,
};

kunit_test_suite(suite);
