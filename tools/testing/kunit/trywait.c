// SPDX-License-Identifier: GPL-2.0
/*
 * Tests POLL 7 and 9 of CONTRACT: fi_trywait(), and kernel threads that sleep
 * on the wait queue of a queue, a counter or a wait set.
 */

#include <linux/delay.h>
#include <linux/wait.h>

#include "cntr.h"
#include "sets.h"

#define MESSAGES	500

static int try(struct kofi_fabric_fx *fx, struct fid *one, struct fid *two)
{
	struct fid *fids[] = { one, two };

	return fi_trywait(fx->fabric, fids, two ? 2 : 1);
}

static void poll_07_bad_arguments(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_cq_attr none = { .wait_obj = FI_WAIT_NONE };
	struct fid *cq = &st_wait_cq(test, fx->domain, NULL)->fid;
	struct fid *unspec = &fx->cq->fid;
	struct fid *set = &st_wait_open(test, fx->fabric, FI_WAIT_QUEUE)->fid;
	struct fid *without_wait_obj = &fx_cq(test, fx->domain, &none)->fid;
	struct fid *wrong[] = {
		NULL, &fx->fabric->fid, &fx->domain->fid, without_wait_obj,
		&fx_ep(test, fx->domain, fx->info)->fid,
		&st_poll_open(test, fx->domain)->fid,
	};

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct fid *fids[] = { cq, wrong[i] };

		KUNIT_EXPECT_EQ_MSG(test, -FI_EINVAL,
				    fi_trywait(fx->fabric, fids, 2), "%d", i);
	}
	KUNIT_EXPECT_EQ(test, 0, try(fx, cq, NULL));
	KUNIT_EXPECT_EQ(test, 0, try(fx, unspec, NULL));
	KUNIT_EXPECT_EQ(test, 0, try(fx, cq, set));
	/* The objects have to have the same kind of wait object. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try(fx, cq, unspec));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, try(fx, unspec, set));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_trywait(fx->fabric, NULL, 1));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_trywait(fx->fabric, &cq, -1));
	KUNIT_EXPECT_EQ(test, 0, fi_trywait(fx->fabric, NULL, 0));
}

static void poll_07_queued_entries_are_reported(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_eq *eq = st_wait_eq(test, fx->fabric, NULL);
	struct fid_cntr *cntr = st_wait_cntr(test, fx->domain, NULL);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_QUEUE);
	struct fid_eq *member = st_wait_eq(test, fx->fabric, set);
	struct fid_cntr *counter = st_wait_cntr(test, fx->domain, set);
	u32 event;
	u8 byte;

	KUNIT_EXPECT_EQ(test, 0, try(fx, &eq->fid, &set->fid));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_write(eq, 1, "x", 1, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, try(fx, &eq->fid, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, try(fx, &set->fid, &eq->fid));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_read(eq, &event, &byte, 1, 0));
	KUNIT_EXPECT_EQ(test, 0, try(fx, &eq->fid, &cntr->fid));

	KUNIT_EXPECT_EQ(test, 1, fi_eq_write(member, 1, "x", 1, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, try(fx, &set->fid, NULL));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_read(member, &event, &byte, 1, 0));
	KUNIT_EXPECT_EQ(test, 0, try(fx, &set->fid, NULL));
	/* fi_trywait() reports a counter's change once, and leaves it for fi_waitfrom(). */
	for (int i = 0; i < 2; i++) {
		fi_cntr_add(counter, 1);
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, try(fx, &set->fid, NULL));
		KUNIT_EXPECT_EQ(test, 0, try(fx, &set->fid, NULL));
	}
	ST_EXPECT_FROM(test, set, &counter->fid);
	KUNIT_EXPECT_EQ(test, 0, try(fx, &set->fid, NULL));
	/* A change that fi_waitfrom() has reported is not reported by fi_trywait(). */
	fi_cntr_add(counter, 1);
	ST_EXPECT_FROM(test, set, &counter->fid);
	KUNIT_EXPECT_EQ(test, 0, try(fx, &set->fid, NULL));
}

static void add_one(struct fid_cntr *cntr)
{
	fi_cntr_add(cntr, 1);
}

static void add_one_error(struct fid_cntr *cntr)
{
	fi_cntr_adderr(cntr, 1);
}

static void set_seven(struct fid_cntr *cntr)
{
	fi_cntr_set(cntr, 7);
}

static void set_seven_errors(struct fid_cntr *cntr)
{
	fi_cntr_seterr(cntr, 7);
}

static void reset_and_count_again(struct fid_cntr *cntr)
{
	u64 before = fi_cntr_read(cntr);

	fi_cntr_set(cntr, 0);
	fi_cntr_add(cntr, before);
}

static void poll_07_each_change_of_a_counter_is_reported_once(struct kunit *test)
{
	static void (*const changes[])(struct fid_cntr *cntr) = {
		add_one, add_one_error, set_seven, set_seven_errors,
		reset_and_count_again,
	};
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_cntr *queue = st_wait_cntr(test, fx->domain, NULL);
	struct fid_cntr *unspec = cn_open(test, fx->domain);

	for (int i = 0; i < 2; i++) {
		struct fid_cntr *cntr = i ? unspec : queue;

		KUNIT_EXPECT_EQ(test, 0, try(fx, &cntr->fid, NULL));
		for (int j = 0; j < ARRAY_SIZE(changes); j++) {
			changes[j](cntr);
			/* Reading the values does not clear the change for fi_trywait(). */
			fi_cntr_read(cntr);
			KUNIT_EXPECT_EQ_MSG(test, -FI_EAGAIN,
					    try(fx, &cntr->fid, NULL),
					    "change %d", j);
			KUNIT_EXPECT_EQ_MSG(test, 0, try(fx, &cntr->fid, NULL),
					    "change %d, second call", j);
		}
	}
}

/* Calls fi_trywait() until it returns -FI_EAGAIN, or a timeout ends; returns the last result. */
static int until_eagain(struct kofi_fabric_fx *fx, struct fid *fid)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	int ret;

	while ((ret = try(fx, fid, NULL)) == 0 && time_before(jiffies, deadline))
		fsleep(1000);
	return ret;
}

/* Reading the completion queue, fi_cntr_wait() and fi_trywait() count an operation. */
static void poll_07_a_counted_operation_is_reported(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2);
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fid_cntr *cntr = st_wait_cntr(test, fx->domain, NULL);
	struct fid_cq *cq = fx_cq(test, fx->domain, &attr);
	struct fid_ep *ep = fx_ep(test, fx->domain, fx->info), *peer;

	fx_bind(test, ep, fx->eq, cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &cntr->fid, FI_SEND));
	peer = fx_connect(test, fx->domain, ep, pep, fx->eq, fx->cq);
	for (int i = 0; i < 3; i++) {
		/* fi_trywait() returns 0 again if nothing has been counted since. */
		for (int left = 100; left && try(fx, &cntr->fid, NULL); left--)
			cond_resched();
		KUNIT_ASSERT_EQ(test, 0, tr_recv(peer, buf, 1));
		KUNIT_ASSERT_EQ(test, 0, tr_send(ep, buf + 1, 1));
		tr_expect(test, fx->cq, buf, FI_RECV, 1);
		switch (i) {
		case 0:
			KUNIT_ASSERT_EQ(test, 0, tr_await(cq));
			KUNIT_EXPECT_EQ(test, -FI_EAGAIN, try(fx, &cntr->fid, NULL));
			break;
		case 1:
			KUNIT_ASSERT_EQ(test, 0, fi_cntr_wait(cntr, i + 1, FX_WAIT_MS));
			KUNIT_EXPECT_EQ(test, -FI_EAGAIN, try(fx, &cntr->fid, NULL));
			break;
		default:
			KUNIT_EXPECT_EQ(test, -FI_EAGAIN, until_eagain(fx, &cntr->fid));
		}
		KUNIT_EXPECT_EQ(test, i + 1, fi_cntr_read(cntr));
		tr_expect(test, cq, buf + 1, FI_SEND, 1);
	}
}

/* After fi_trywait() has reported a counter of a set, its next change wakes the set's queue. */
static void poll_09_every_change_wakes_the_queue(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_wait *set = st_wait_open(test, fx->fabric, FI_WAIT_QUEUE);
	struct fid_cntr *cntr = st_wait_cntr(test, fx->domain, set);
	wait_queue_head_t *queue = NULL;
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	KUNIT_ASSERT_EQ(test, 0, fi_control(&set->fid, FI_GETWAIT, &queue));
	add_wait_queue(queue, &wait);
	for (int i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, 0, try(fx, &set->fid, NULL));
		fi_cntr_add(cntr, 1);
		KUNIT_EXPECT_GT(test, wait_woken(&wait, TASK_IDLE,
						 msecs_to_jiffies(FX_WAIT_MS)),
				0);
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, try(fx, &set->fid, NULL));
	}
	remove_wait_queue(queue, &wait);
}

static void poll_07_completions_are_reported(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2);
	struct kofi_pair *pair = fx_pair(test, NULL);
	struct fid *cq[] = { &pair->cq[0]->fid, &pair->cq[1]->fid };

	KUNIT_EXPECT_EQ(test, 0, fi_trywait(pair->fabric, cq, 2));
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], buf, 1));
	KUNIT_EXPECT_EQ(test, 0, fi_trywait(pair->fabric, cq, 2));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], buf + 1, 1));
	KUNIT_ASSERT_EQ(test, 0, tr_await(pair->cq[0]));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_trywait(pair->fabric, cq, 1));
	tr_expect(test, pair->cq[0], buf, FI_RECV, 1);
	tr_expect(test, pair->cq[1], buf + 1, FI_SEND, 1);
	KUNIT_EXPECT_EQ(test, 0, fi_trywait(pair->fabric, cq, 2));
}

/* State of a thread that receives messages, and sleeps with wait_event(). */
struct receiver {
	struct kofi_fabric_fx	*fx;
	struct fid_cq		*cq;
	struct fid_wait		*set;
	struct fid_cntr		*cntr;
	wait_queue_head_t	*queue;
	atomic_t		received;
};

static wait_queue_head_t *queue_of(struct kunit *test, struct fid *fid)
{
	wait_queue_head_t *queue = NULL;

	KUNIT_ASSERT_EQ(test, 0, fi_control(fid, FI_GETWAIT, &queue));
	KUNIT_ASSERT_NOT_NULL(test, queue);
	return queue;
}

#define SLEEP(receiver, condition)					\
	wait_event_timeout(*(receiver)->queue, (condition),		\
			   msecs_to_jiffies(FX_WAIT_MS))

/* The wait condition reads the CQ: a read that finds nothing arms the wakeup. */
static int receive_with_read(struct tr_thread *thread)
{
	struct receiver *receiver = thread->arg;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	for (int i = 0; i < MESSAGES; i++) {
		SLEEP(receiver, (ret = fi_cq_read(receiver->cq, &entry, 1)) !=
			     -FI_EAGAIN);
		if (ret != 1)
			break;
		atomic_inc(&receiver->received);
	}
	thread->result = ret;
	return 0;
}

/* The wait condition is fi_trywait() on fid. */
static ssize_t receive_with_trywait(struct receiver *receiver, struct fid *fid)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = 1;

	for (int i = 0; i < MESSAGES && ret == 1; i += ret == 1) {
		while ((ret = fi_cq_read(receiver->cq, &entry, 1)) == -FI_EAGAIN) {
			if (!SLEEP(receiver, fi_trywait(receiver->fx->fabric, &fid, 1)))
				return -FI_ETIMEDOUT;
		}
		atomic_add(ret == 1, &receiver->received);
	}
	return ret;
}

static int receive_with_trywait_on_cq(struct tr_thread *thread)
{
	struct receiver *receiver = thread->arg;

	thread->result = receive_with_trywait(receiver, &receiver->cq->fid);
	return 0;
}

static int receive_with_trywait_on_set(struct tr_thread *thread)
{
	struct receiver *receiver = thread->arg;

	thread->result = receive_with_trywait(receiver, &receiver->set->fid);
	return 0;
}

static int receive_by_counter(struct tr_thread *thread)
{
	struct receiver *receiver = thread->arg;

	for (int i = 1; i <= MESSAGES; i++) {
		if (!SLEEP(receiver, fi_cntr_read(receiver->cntr) >= i)) {
			thread->result = -FI_ETIMEDOUT;
			return 0;
		}
		atomic_inc(&receiver->received);
	}
	thread->result = 1;
	return 0;
}

/* Sends empty messages at varying intervals, and expects that the thread receives each. */
static void send_messages(struct kunit *test, struct receiver *receiver, struct fid_ep *from,
			  struct fid_ep *to, struct fid_cq *done,
			  int (*receive_fn)(struct tr_thread *thread))
{
	struct tr_thread *thread = tr_start(test, num_online_cpus() - 1, receive_fn,
					    receiver);

	for (int i = 0; i < MESSAGES; i++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		KUNIT_ASSERT_EQ_MSG(test, 0, fi_recv(to, NULL, 0, NULL, 0, NULL),
				    "message %d, %d taken", i,
				    atomic_read(&receiver->received));
		KUNIT_ASSERT_EQ(test, 0, fi_send(from, NULL, 0, NULL, 0, from));
		tr_expect(test, done, from, FI_SEND, 0);
		/* The thread has fallen asleep by then or not. */
		udelay(i % 50);
		while (atomic_read(&receiver->received) < i - 8 &&
		       time_before(jiffies, deadline))
			fsleep(200);
	}
	KUNIT_ASSERT_TRUE(test, tr_join(test, thread));
	KUNIT_EXPECT_EQ(test, 1, thread->result);
	KUNIT_EXPECT_EQ(test, MESSAGES, atomic_read(&receiver->received));
}

/* Connects; the accepting endpoint completes in the receiver's queue. */
static struct fid_ep *connect(struct kunit *test, struct receiver *receiver,
			      struct fid_ep **peer)
{
	struct kofi_fabric_fx *fx = receiver->fx;
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = fx_bound_ep(test, fx);

	*peer = fx_connect(test, fx->domain, ep, pep, fx->eq, receiver->cq);
	return ep;
}

static struct receiver *new_receiver(struct kunit *test)
{
	struct receiver *receiver = (void *)tr_buffer(test, sizeof(*receiver));

	receiver->fx = fx_open_for(test, FI_THREAD_SAFE);
	return receiver;
}

static void test_with_cq(struct kunit *test, int (*receive_fn)(struct tr_thread *thread))
{
	struct receiver *receiver = new_receiver(test);
	struct fid_ep *ep, *peer;

	receiver->cq = st_wait_cq(test, receiver->fx->domain, NULL);
	receiver->queue = queue_of(test, &receiver->cq->fid);
	ep = connect(test, receiver, &peer);
	send_messages(test, receiver, ep, peer, receiver->fx->cq, receive_fn);
}

static void poll_09_no_wakeup_is_missed_with_read(struct kunit *test)
{
	test_with_cq(test, receive_with_read);
}

static void poll_09_no_wakeup_is_missed_with_trywait(struct kunit *test)
{
	test_with_cq(test, receive_with_trywait_on_cq);
}

static void poll_09_no_wakeup_is_missed_with_a_wait_set(struct kunit *test)
{
	struct receiver *receiver = new_receiver(test);
	struct fid_ep *ep, *peer;

	receiver->set = st_wait_open(test, receiver->fx->fabric, FI_WAIT_QUEUE);
	receiver->cq = st_wait_cq(test, receiver->fx->domain, receiver->set);
	receiver->queue = queue_of(test, &receiver->set->fid);
	ep = connect(test, receiver, &peer);
	send_messages(test, receiver, ep, peer, receiver->fx->cq, receive_with_trywait_on_set);
}

/* Operations are counted without entries and without reads of their completion queue. */
static void poll_09_no_wakeup_is_missed_with_a_counter(struct kunit *test)
{
	struct fi_cq_attr attr = {};
	struct receiver *receiver = new_receiver(test);
	struct kofi_fabric_fx *fx = receiver->fx;
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = fx_bound_ep(test, fx), *peer;
	struct fi_info *request;

	receiver->cq = fx_cq(test, fx->domain, &attr);
	receiver->cntr = st_wait_cntr(test, fx->domain, NULL);
	receiver->queue = queue_of(test, &receiver->cntr->fid);
	fx_start_connect(test, ep, pep);
	request = fx_wait_request(test, fx->eq);
	request->rx_attr->op_flags = 0;
	peer = fx_ep(test, fx->domain, request);
	fx_bind(test, peer, fx->eq, receiver->cq,
		FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(peer, &receiver->cntr->fid, FI_RECV));
	fx_finish_accept(test, peer, fx->eq);
	send_messages(test, receiver, ep, peer, fx->cq, receive_by_counter);
}

static void poll_09_events_wake_the_queue(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_eq *eq = st_wait_eq(test, fx->fabric, NULL);
	wait_queue_head_t *queue = queue_of(test, &eq->fid);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	u32 event;
	u8 byte;

	add_wait_queue(queue, &wait);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_eq_read(eq, &event, &byte, 1, 0));
	KUNIT_EXPECT_EQ(test, 1, fi_eq_write(eq, 7, "x", 1, 0));
	KUNIT_EXPECT_GT(test, wait_woken(&wait, TASK_IDLE,
					 msecs_to_jiffies(FX_WAIT_MS)), 0);
	remove_wait_queue(queue, &wait);
	KUNIT_EXPECT_EQ(test, 1, fi_eq_read(eq, &event, &byte, 1, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(poll_07_bad_arguments),
	KUNIT_CASE(poll_07_queued_entries_are_reported),
	KUNIT_CASE(poll_07_completions_are_reported),
	KUNIT_CASE(poll_07_each_change_of_a_counter_is_reported_once),
	KUNIT_CASE(poll_07_a_counted_operation_is_reported),
	KUNIT_CASE(poll_09_no_wakeup_is_missed_with_read),
	KUNIT_CASE(poll_09_no_wakeup_is_missed_with_trywait),
	KUNIT_CASE(poll_09_no_wakeup_is_missed_with_a_wait_set),
	KUNIT_CASE(poll_09_no_wakeup_is_missed_with_a_counter),
	KUNIT_CASE(poll_09_events_wake_the_queue),
	KUNIT_CASE(poll_09_every_change_wakes_the_queue),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_trywait",
	.test_cases = cases,
};

kunit_test_suite(suite);
