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

KUNIT_ARRAY_PARAM(contexts, hd_hard, hd_name_context);

#define IS_HARD(test) (*(const bool *)(test)->param_value)

/* Messages that two handlers send back and forth until they were called often enough. */
struct pingpong {
	struct hd_queue *side[2];
	u8 *buf;
	int wanted_calls;
	int error;
	atomic_t messages;
	bool over;
	struct completion done;
};

static int calls_of(struct pingpong *pingpong)
{
	return atomic_read(&pingpong->side[0]->calls) +
	       atomic_read(&pingpong->side[1]->calls);
}

static void end_run(struct pingpong *pingpong, int error)
{
	if (error)
		WRITE_ONCE(pingpong->error, error);
	WRITE_ONCE(pingpong->over, true);
	complete_all(&pingpong->done);
}

static int send_message(struct pingpong *pingpong, struct fid_ep *ep)
{
	return fi_send(ep, pingpong->buf, LEN, NULL, FI_ADDR_UNSPEC, NULL);
}

static int post_receive(struct pingpong *pingpong, struct fid_ep *ep)
{
	return fi_recv(ep, pingpong->buf + LEN, LEN, NULL, FI_ADDR_UNSPEC, NULL);
}

/* The receive is posted first: the reply may arrive before the send returned. */
static int reply(struct pingpong *pingpong, struct fid_ep *ep)
{
	int ret = post_receive(pingpong, ep);

	atomic_inc(&pingpong->messages);
	return ret ?: send_message(pingpong, ep);
}

static void handle(struct hd_queue *queue)
{
	struct pingpong *pingpong = queue->data;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(queue->cq, &entry, 1)) >= 0) {
		if (READ_ONCE(pingpong->over) || !ret)
			continue;
		if (entry.flags & FI_RECV)
			ret = reply(pingpong, queue->ep);
		if (ret < 0)
			break;
	}
	if (ret != -FI_EAGAIN && !READ_ONCE(pingpong->over))
		end_run(pingpong, ret);
	/* After the end, the other queue may be closed and freed. */
	if (!READ_ONCE(pingpong->over) && calls_of(pingpong) >= pingpong->wanted_calls)
		end_run(pingpong, 0);
}

/* Waits for the end of the run; false if no handler was called for FX_WAIT_MS. */
static bool wait_for_end(struct kunit *test, struct pingpong *pingpong)
{
	int before;

	do {
		before = calls_of(pingpong);
		if (wait_for_completion_timeout(&pingpong->done,
						msecs_to_jiffies(FX_WAIT_MS)))
			return true;
	} while (calls_of(pingpong) != before);
	kunit_err(test, "no call after %d calls", before);
	return false;
}

static struct pingpong *open_pingpong(struct kunit *test, struct kofi_fabric_fx *fx,
				      bool hard, int wanted_calls)
{
	struct pingpong *pingpong = (void *)tr_buffer(test, sizeof(*pingpong));

	pingpong->buf = tr_buffer(test, 2 * LEN);
	pingpong->wanted_calls = wanted_calls;
	init_completion(&pingpong->done);
	for (int i = 0; i < 2; i++)
		pingpong->side[i] = hd_open(test, fx, hard, handle, pingpong);
	return pingpong;
}

/*
 * Returns the number of calls to wait for: few where irq_work has no interrupt
 * and waits for the timer.
 */
static int calls_to_wait_for(bool hard)
{
	return tr_rounds * (hard && !arch_irq_work_has_interrupt() ? 5 : 100);
}

static void run(struct kunit *test, int messages, int wanted_calls)
{
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	struct pingpong *pingpong = open_pingpong(test, fx, IS_HARD(test), wanted_calls);
	struct fid_ep *ep[2];
	bool over;

	hd_connect(test, fx, pingpong->side[0], pingpong->side[1], ep);
	for (int i = 0; i < 2 * POSTED; i++)
		KUNIT_ASSERT_EQ(test, 0, post_receive(pingpong, ep[i % 2]));
	for (int i = 0; i < messages; i++)
		KUNIT_ASSERT_EQ(test, 0, send_message(pingpong, ep[i % 2]));
	over = wait_for_end(test, pingpong);
	end_run(pingpong, 0);
	/* A handler that read the flag before it was set is still inside, and may post. */
	smp_mb();
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_TRUE(test, hd_wait_idle(test, pingpong->side[i]));
		hd_check(test, pingpong->side[i]);
	}
	KUNIT_EXPECT_TRUE(test, over);
	KUNIT_EXPECT_EQ_MSG(test, 0, pingpong->error, "%s",
			    fi_strerror(pingpong->error));
	kunit_info(test, "%d calls, %d messages", calls_of(pingpong),
		   atomic_read(&pingpong->messages));
}

static void cq_17_a_handler_reads_and_posts(struct kunit *test)
{
	run(test, 1, 20);
}

static void cq_16_no_edge_is_lost_with_one_message(struct kunit *test)
{
	run(test, 1, calls_to_wait_for(IS_HARD(test)));
}

static void cq_16_no_edge_is_lost_with_many_messages(struct kunit *test)
{
	run(test, POSTED, calls_to_wait_for(IS_HARD(test)));
}

/* A queue that a handler reads, and a thread beside it. */
struct shared {
	struct hd_queue *queue;
	atomic_t entries;
	int wanted;
};

static void read_entries(struct shared *shared)
{
	struct fi_cq_tagged_entry entry;

	while (fi_cq_read(shared->queue->cq, &entry, 1) == 1)
		atomic_inc(&shared->entries);
}

static void read_in_handler(struct hd_queue *queue)
{
	read_entries(queue->data);
}

static int read_in_thread(struct tr_thread *thread)
{
	struct shared *shared = thread->arg;

	while (!kthread_should_stop() &&
	       atomic_read(&shared->entries) < shared->wanted) {
		read_entries(shared);
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

	shared->queue = hd_open(test, fx, IS_HARD(test), read_in_handler, shared);
	shared->wanted = POSTED * tr_rounds;
	hd_connect(test, fx, shared->queue, NULL, ep);
	reader = tr_start(test, num_online_cpus() - 1, read_in_thread, shared);
	for (int round = 1; round <= tr_rounds; round++) {
		unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		/* The thread stops after half the rounds; then only the handler reads. */
		if (round == tr_rounds / 2)
			tr_stop(test, reader);
		hd_post_receives(test, ep[0], POSTED);
		hd_post_sends(test, ep[1], POSTED);
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
	KUNIT_CASE_PARAM(cq_17_a_handler_reads_and_posts, contexts_gen_params),
	KUNIT_CASE_PARAM_ATTR(cq_16_no_edge_is_lost_with_one_message,
			      contexts_gen_params, { .speed = KUNIT_SPEED_VERY_SLOW }),
	KUNIT_CASE_PARAM_ATTR(cq_16_no_edge_is_lost_with_many_messages,
			      contexts_gen_params, { .speed = KUNIT_SPEED_VERY_SLOW }),
	KUNIT_CASE_PARAM_ATTR(cq_16_no_edge_is_lost_beside_a_reader,
			      contexts_gen_params, { .speed = KUNIT_SPEED_VERY_SLOW }),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cq_handler_run",
	.test_cases = cases,
};

kunit_test_suite(suite);
