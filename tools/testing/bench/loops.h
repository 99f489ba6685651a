/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The measured loops. Included once by each module, after its end_*() inlines.
 *
 * Every send is signalled and every receive is posted again at once. The
 * stream's server returns credits, as a ULP does, so that no message ever
 * meets an empty receive queue. They are what a stream is timed by: datagrams
 * are taken, and complete, faster than they are sent.
 */

#ifndef KOFI_BENCH_LOOPS_H
#define KOFI_BENCH_LOOPS_H

#include <linux/jiffies.h>
#include <linux/sched.h>

static int bench_post_receives(struct bench_end *end)
{
	struct bench_side *side = &end->side;
	unsigned int i;
	int ret;

	for (i = 0; i < side->test->slots; i++) {
		ret = end_recv(end, side->rx + i * side->test->size);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * An empty poll: the soft devices' workers need the CPU that we spin on, and on
 * one CPU so does the other side. schedule() alone would keep us running until
 * our slice is used up: 10 ms on UML.
 */
static int bench_idle(struct bench_test *test)
{
	yield();
	if (READ_ONCE(test->failed))
		return -ECANCELED;
	return time_after(jiffies, test->deadline) ? -ETIMEDOUT : 0;
}

/* Polls once and counts what came. */
static __always_inline int bench_advance(struct bench_end *end)
{
	struct bench_side *side = &end->side;
	int found, ret, i;

	if (side->test->kind == BENCH_SLEEP_LATENCY)
		found = end_sleep(end);
	else
		found = end_poll(end);
	if (!found)
		return bench_idle(side->test);
	for (i = 0; i < found; i++) {
		if (!end_is_recv(end, i)) {
			if (end_buffer(end, i))
				side->sending -= side->told;
			continue;
		}
		if (side->expected && end_len(end, i) != side->expected)
			return -EIO;
		side->received++;
		ret = end_recv(end, end_buffer(end, i));
		if (ret)
			return ret;
	}
	return found < 0 ? found : 0;
}

static __always_inline int bench_send(struct bench_end *end,
				      unsigned int nth, size_t len)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;
	int ret;

	/* The window is a power of two. */
	ret = end_send(end, side->tx + (nth & (test->window - 1)) * test->size,
		       len);
	if (!ret)
		side->sending++;
	return ret;
}

/* The same, where only some ask for their completion. */
static __always_inline int bench_send_selectively(struct bench_end *end,
						  unsigned int nth)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;
	void *buf = side->tx + (nth & (test->window - 1)) * test->size;
	int ret;

	if (nth % BENCH_EACH != BENCH_EACH - 1)
		return end_send_silent(end, buf, test->size);
	ret = end_send_told(end, buf, test->size);
	if (!ret)
		side->sending += BENCH_EACH;
	return ret;
}

static int bench_await(struct bench_end *end, unsigned int count)
{
	int ret = 0;

	while (!ret && end->side.received < count)
		ret = bench_advance(end);
	return ret;
}

/* Room for one more send: an answer may overtake the completion of its call. */
static int bench_make_room(struct bench_end *end)
{
	int ret = 0;

	while (!ret && end->side.sending >= end->side.test->window)
		ret = bench_advance(end);
	return ret;
}

/* Called by the client before its nth message, and once more at the end. */
static __always_inline void bench_tick(struct bench_side *side,
				       unsigned int nth)
{
	u64 now;

	if (likely(nth != side->lap_end))
		return;
	now = ktime_get_ns();
	if (side->clock && nth)
		*side->clock++ = now - side->lap_start;
	side->lap_start = now;
	side->lap_end += side->test->lap;
}

/* One message of a ping-pong. */
static __always_inline int bench_hit(struct bench_end *end, unsigned int nth,
				     bool injects)
{
	struct bench_side *side = &end->side;
	int ret = bench_make_room(end);

	if (ret)
		return ret;
	return injects ? end_inject(end, side->tx, side->test->size) :
			 bench_send(end, nth, side->test->size);
}

static __always_inline int bench_ping(struct bench_end *end,
				      unsigned int iters, bool injects)
{
	unsigned int i;
	int ret;

	for (i = 0; i < iters; i++) {
		bench_tick(&end->side, i);
		ret = bench_hit(end, i, injects);
		if (!ret)
			ret = bench_await(end, i + 1);
		if (ret)
			return ret;
	}
	bench_tick(&end->side, i);
	return 0;
}

static __always_inline int bench_pong(struct bench_end *end,
				      unsigned int iters, bool injects)
{
	unsigned int i;
	int ret;

	for (i = 0; i < iters; i++) {
		ret = bench_await(end, i + 1);
		if (!ret)
			ret = bench_hit(end, i, injects);
		if (ret)
			return ret;
	}
	return 0;
}

/* What the peer takes no part in: one after the other. */
static __always_inline int bench_reach(struct bench_end *end,
				       unsigned int iters,
				       enum bench_kind kind)
{
	struct bench_side *side = &end->side;
	size_t size = side->test->size;
	unsigned int i;
	int ret;

	for (i = 0; i < iters; i++) {
		bench_tick(side, i);
		if (kind == BENCH_WRITE_LATENCY)
			ret = end_write(end, side->tx, size);
		else if (kind == BENCH_READ_LATENCY)
			ret = end_read(end, side->tx, size);
		else
			ret = end_fetch_add(end, side->tx);
		if (!ret)
			side->sending++;
		while (!ret && side->sending)
			ret = bench_advance(end);
		if (ret)
			return ret;
	}
	bench_tick(side, i);
	return 0;
}

/* Writes to many peers, in turn. */
static int bench_go_round(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < iters && !ret; i++) {
		bench_tick(side, i);
		ret = bench_make_room(end);
		if (ret)
			break;
		end_pick(end, i & (test->links - 1));
		ret = end_write(end, side->tx + (i & (test->window - 1)) *
				test->size, test->size);
		if (!ret)
			side->sending++;
	}
	while (!ret && side->sending)
		ret = bench_advance(end);
	bench_tick(side, i);
	return ret;
}

/* One side of a ping-pong, in a callback: takes what there is, and answers. */
static __always_inline int bench_answer(struct bench_end *end, bool client)
{
	struct bench_side *side = &end->side;
	int found, ret, i;

	while ((found = end_poll(end)) > 0) {
		for (i = 0; i < found; i++) {
			bool last;

			if (!end_is_recv(end, i))
				continue;
			last = ++side->received == side->goal;
			ret = end_recv(end, end_buffer(end, i));
			if (client)
				bench_tick(side, side->received);
			/* The client has the last word, and says nothing. */
			if (!ret && !(client && last))
				ret = end_send(end, side->tx, side->test->size);
			if (ret)
				return ret;
			if (last)
				complete(&side->over);
		}
	}
	return found;
}

/* What the callback of an end does. */
static __always_inline void bench_called(struct bench_end *end, bool client)
{
	struct bench_side *side = &end->side;

	side->error = bench_answer(end, client);
	if (side->error)
		complete(&side->over);
}

/* Waits for the end of a pass in callbacks. */
static int bench_called_enough(struct bench_end *end)
{
	struct bench_side *side = &end->side;

	if (!wait_for_completion_timeout(&side->over, BENCH_TIMEOUT))
		return -ETIMEDOUT;
	return side->error;
}

static int bench_ring(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	int ret;

	side->goal = iters;
	bench_tick(side, 0);
	ret = end_send(end, side->tx, side->test->size);
	return ret ?: bench_called_enough(end);
}

/* Messages that one credit of the server stands for */
static inline unsigned int bench_credit(const struct bench_test *test)
{
	return test->slots / 4;
}

/* One lap of a stream: it is over when the server has received all of it. */
static int bench_send_lap(struct bench_end *end, unsigned int sent,
			  unsigned int until)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;
	unsigned int credit = bench_credit(test);
	int ret = 0;

	while (!ret && sent < until) {
		if (side->sending < test->window &&
		    sent - side->received * credit < test->slots) {
			if (test->kind == BENCH_SELECTIVE)
				ret = bench_send_selectively(end, sent++);
			else
				ret = bench_send(end, sent++, test->size);
		} else {
			ret = bench_advance(end);
		}
	}
	return ret ?: bench_await(end, until / credit);
}

static int bench_source(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	unsigned int lap = side->test->lap;
	unsigned int sent;
	int ret = 0;

	for (sent = 0; !ret && sent < iters; sent += lap) {
		bench_tick(side, sent);
		ret = bench_send_lap(end, sent, sent + lap);
	}
	bench_tick(side, sent);
	return ret;
}

static int bench_sink(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	unsigned int credit = bench_credit(side->test);
	unsigned int returned = 0;
	int ret;

	while (returned < iters) {
		ret = bench_await(end, min(returned + credit, iters));
		if (!ret)
			ret = bench_make_room(end);
		if (!ret)
			ret = bench_send(end, returned / credit, BENCH_MIN_SIZE);
		if (ret)
			return ret;
		returned += credit;
	}
	return 0;
}

/* One pass of one side: the last message of a pass goes to the client. */
static int bench_pass(struct bench_end *end, bool client, unsigned int iters)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;

	side->received = 0;
	side->lap_end = 0;
	side->told = 1;
	side->expected = test->size;
	switch (test->kind) {
	case BENCH_LATENCY:
	case BENCH_PEERS:
	case BENCH_SLEEP_LATENCY:
		return client ? bench_ping(end, iters, false) :
				bench_pong(end, iters, false);
	case BENCH_INJECT_LATENCY:
		return client ? bench_ping(end, iters, true) :
				bench_pong(end, iters, true);
	case BENCH_TASK_LATENCY:
	case BENCH_CALL_LATENCY:
		return bench_ring(end, iters);
	case BENCH_WRITE_LATENCY:
		return client ? bench_reach(end, iters, BENCH_WRITE_LATENCY) : 0;
	case BENCH_READ_LATENCY:
		return client ? bench_reach(end, iters, BENCH_READ_LATENCY) : 0;
	case BENCH_FETCH_LATENCY:
		return client ? bench_reach(end, iters, BENCH_FETCH_LATENCY) : 0;
	case BENCH_LINKS:
		return client ? bench_go_round(end, iters) : 0;
	default:
		break;
	}
	if (client) {
		side->expected = BENCH_MIN_SIZE;
		if (test->kind == BENCH_SELECTIVE)
			side->told = BENCH_EACH;
		return bench_source(end, iters);
	}
	return bench_sink(end, iters);
}

/* What a side's thread does: a warm-up, then the measured pass. */
static int bench_passes(struct bench_end *end, bool client)
{
	struct bench_test *test = end->side.test;
	int ret;

	if (bench_calls_back(test)) {
		end_call(end);
		if (!client)
			return bench_called_enough(end);
	}
	ret = bench_pass(end, client, test->lap);
	if (ret)
		return ret;
	if (client)
		end->side.clock = test->ns;
	return bench_pass(end, client, test->lap * test->laps);
}

#endif /* KOFI_BENCH_LOOPS_H */
