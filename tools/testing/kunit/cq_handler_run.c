// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CQ 16 and 17: two queues that only their handlers read, so that one
 * missed call stops the run for ever.
 */

#include <linux/delay.h>
#include <linux/irq_work.h>

#include "handler.h"

#define LEN 64
#define POSTED 8

KUNIT_ARRAY_PARAM(places, hd_hard, hd_name_place);

#define PLACE(test) (*(const bool *)(test)->param_value)

/* Messages that two handlers send back and forth until they were called often enough. */
struct match {
	struct hd_queue *player[2];
	u8 *buf;
	int goal;
	int error;
	atomic_t balls;
	bool over;
	struct completion done;
};

static int calls_of(struct match *match)
{
	return atomic_read(&match->player[0]->calls) +
	       atomic_read(&match->player[1]->calls);
}

static void end(struct match *match, int error)
{
	if (error)
		WRITE_ONCE(match->error, error);
	WRITE_ONCE(match->over, true);
	complete_all(&match->done);
}

static int serve(struct match *match, struct fid_ep *ep)
{
	return fi_send(ep, match->buf, LEN, NULL, FI_ADDR_UNSPEC, NULL);
}

static int await_ball(struct match *match, struct fid_ep *ep)
{
	return fi_recv(ep, match->buf + LEN, LEN, NULL, FI_ADDR_UNSPEC, NULL);
}

/* The receive is posted first: the reply may arrive before the send returned. */
static int play_back(struct match *match, struct fid_ep *ep)
{
	int ret = await_ball(match, ep);

	atomic_inc(&match->balls);
	return ret ?: serve(match, ep);
}

static void play(struct hd_queue *queue)
{
	struct match *match = queue->data;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(queue->cq, &entry, 1)) >= 0) {
		if (READ_ONCE(match->over) || !ret)
			continue;
		if (entry.flags & FI_RECV)
			ret = play_back(match, queue->ep);
		if (ret < 0)
			break;
	}
	if (ret != -FI_EAGAIN && !READ_ONCE(match->over))
		end(match, ret);
	if (calls_of(match) >= match->goal)
		end(match, 0);
}

/* Waits for the end of the run; false if no handler was called for FX_WAIT_MS. */
static bool is_over(struct kunit *test, struct match *match)
{
	int before;

	do {
		before = calls_of(match);
		if (wait_for_completion_timeout(&match->done,
						msecs_to_jiffies(FX_WAIT_MS)))
			return true;
	} while (calls_of(match) != before);
	kunit_err(test, "stands still after %d calls", before);
	return false;
}

static struct match *match_of(struct kunit *test, struct kofi_fabric_fx *fx,
			      bool hard, int goal)
{
	struct match *match = (void *)tr_buffer(test, sizeof(*match));

	match->buf = tr_buffer(test, 2 * LEN);
	match->goal = goal;
	init_completion(&match->done);
	for (int i = 0; i < 2; i++)
		match->player[i] = hd_open(test, fx, hard, play, match);
	return match;
}

/*
 * Returns the number of calls to wait for: few where irq_work has no interrupt
 * and waits for the timer.
 */
static int goal_of(bool hard)
{
	return tr_rounds * (hard && !arch_irq_work_has_interrupt() ? 5 : 100);
}

static void run(struct kunit *test, int balls, int goal)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct match *match = match_of(test, fx, PLACE(test), goal);
	struct fid_ep *ep[2];
	bool over;

	hd_connect(test, fx, match->player[0], match->player[1], ep);
	for (int i = 0; i < 2 * POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, await_ball(match, ep[i % 2]));
	for (int i = 0; i < balls; i++)
		KUNIT_ASSERT_EQ(test, 0, serve(match, ep[i % 2]));
	over = is_over(test, match);
	end(match, 0);
	/* A handler that read the flag before it was set is still inside, and may post. */
	smp_mb();
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_TRUE(test, hd_quiet(test, match->player[i]));
		hd_check(test, match->player[i]);
	}
	KUNIT_EXPECT_TRUE(test, over);
	KUNIT_EXPECT_EQ_MSG(test, 0, match->error, "%s",
			    fi_strerror(match->error));
	kunit_info(test, "%d calls, %d messages", calls_of(match),
		   atomic_read(&match->balls));
}

static void cq_17_a_handler_reads_and_posts(struct kunit *test)
{
	run(test, 1, 20);
}

static void cq_16_no_edge_is_lost_with_one_message_under_way(struct kunit *test)
{
	run(test, 1, goal_of(PLACE(test)));
}

static void cq_16_no_edge_is_lost_with_many_under_way(struct kunit *test)
{
	run(test, POSTED, goal_of(PLACE(test)));
}

/* A queue that a handler reads, and a thread beside it. */
struct shared {
	struct hd_queue *queue;
	atomic_t entries;
	int wanted;
};

static void take_what_is_there(struct shared *shared)
{
	struct fi_cq_tagged_entry entry;

	while (fi_cq_read(shared->queue->cq, &entry, 1) == 1)
		atomic_inc(&shared->entries);
}

static void share(struct hd_queue *queue)
{
	take_what_is_there(queue->data);
}

static int poll_beside(struct tr_thread *thread)
{
	struct shared *shared = thread->arg;

	while (!kthread_should_stop() &&
	       atomic_read(&shared->entries) < shared->wanted) {
		take_what_is_there(shared);
		usleep_range(10, 50);
	}
	return 0;
}

static void cq_16_no_edge_is_lost_beside_a_reader(struct kunit *test)
{
	struct shared *shared = (void *)tr_buffer(test, sizeof(*shared));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct tr_thread *reader;
	struct fid_ep *ep[2];

	shared->queue = hd_open(test, fx, PLACE(test), share, shared);
	shared->wanted = POSTED * tr_rounds;
	hd_connect(test, fx, shared->queue, NULL, ep);
	reader = tr_start(test, num_online_cpus() - 1, poll_beside, shared);
	for (int round = 1; round <= tr_rounds; round++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		/* The thread stops after half the rounds; then only the handler reads. */
		if (round == tr_rounds / 2)
			tr_stop(test, reader);
		hd_receives(test, ep[0], POSTED);
		hd_sends(test, ep[1], POSTED);
		while (atomic_read(&shared->entries) < round * POSTED &&
		       time_before(jiffies, deadline))
			usleep_range(10, 50);
		KUNIT_ASSERT_EQ(test, round * POSTED,
				atomic_read(&shared->entries));
		for (int sent = 0; sent < POSTED; sent++)
			tr_expect(test, fx->cq, NULL, FI_SEND, 0);
	}
	hd_check(test, shared->queue);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(cq_17_a_handler_reads_and_posts, places_gen_params),
	KUNIT_CASE_PARAM_ATTR(cq_16_no_edge_is_lost_with_one_message_under_way,
			      places_gen_params, { .speed = KUNIT_SPEED_VERY_SLOW }),
	KUNIT_CASE_PARAM_ATTR(cq_16_no_edge_is_lost_with_many_under_way,
			      places_gen_params, { .speed = KUNIT_SPEED_VERY_SLOW }),
	KUNIT_CASE_PARAM_ATTR(cq_16_no_edge_is_lost_beside_a_reader,
			      places_gen_params, { .speed = KUNIT_SPEED_VERY_SLOW }),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq_handler_run",
	.test_cases = cases,
};

kunit_test_suite(suite);
