/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The measured loops. Included once by each module, after its end_*() inlines.
 *
 * Every send is signaled unless a test says otherwise, and every completed receive
 * is posted again at once. The server of a stream returns credits, as a ULP does, so
 * that a message always finds a posted receive. A lap of a stream ends with the
 * server's credit, because a datagram may complete before it is sent.
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
 * Yields the CPU after an empty poll to the soft devices' workers and to the other
 * side. schedule() would keep this thread running until its time slice ends: 10 ms
 * on UML. Returns an error if the test has failed or timed out.
 */
static int bench_yield(struct bench_test *test)
{
	yield();
	if (READ_ONCE(test->failed))
		return -ECANCELED;
	return time_after(jiffies, test->deadline) ? -ETIMEDOUT : 0;
}

/* Polls once, counts the completions, and posts completed receives again. */
static __always_inline int bench_progress(struct bench_end *end)
{
	struct bench_side *side = &end->side;
	int found, ret, i;

	if (side->test->kind == BENCH_SLEEP_LATENCY)
		found = end_wait(end);
	else
		found = end_poll(end);
	if (!found)
		return bench_yield(side->test);
	for (i = 0; i < found; i++) {
		if (!end_is_recv(end, i)) {
			if (end_buffer(end, i))
				side->sending -= side->sends_per_comp;
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

/* Sends a message; only one of BENCH_SIGNAL_INTERVAL sends is signaled. */
static __always_inline int bench_send_selectively(struct bench_end *end,
						  unsigned int nth)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;
	void *buf = side->tx + (nth & (test->window - 1)) * test->size;
	int ret;

	if (nth % BENCH_SIGNAL_INTERVAL != BENCH_SIGNAL_INTERVAL - 1)
		return end_send_unsignaled(end, buf, test->size);
	ret = end_send_signaled(end, buf, test->size);
	if (!ret)
		side->sending += BENCH_SIGNAL_INTERVAL;
	return ret;
}

static int bench_wait_received(struct bench_end *end, unsigned int count)
{
	int ret = 0;

	while (!ret && end->side.received < count)
		ret = bench_progress(end);
	return ret;
}

/* Waits until the window has space: a reply may complete before the send that it replies to. */
static int bench_wait_window(struct bench_end *end)
{
	int ret = 0;

	while (!ret && end->side.sending >= end->side.test->window)
		ret = bench_progress(end);
	return ret;
}

/* Ends a lap if message @nth begins the next. Called before each message and after the last. */
static __always_inline void bench_mark_lap(struct bench_side *side,
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

/* Sends one message of a ping-pong. */
static __always_inline int bench_send_ping(struct bench_end *end, unsigned int nth,
					   bool injects)
{
	struct bench_side *side = &end->side;
	int ret = bench_wait_window(end);

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
		bench_mark_lap(&end->side, i);
		ret = bench_send_ping(end, i, injects);
		if (!ret)
			ret = bench_wait_received(end, i + 1);
		if (ret)
			return ret;
	}
	bench_mark_lap(&end->side, i);
	return 0;
}

static __always_inline int bench_pong(struct bench_end *end,
				      unsigned int iters, bool injects)
{
	unsigned int i;
	int ret;

	for (i = 0; i < iters; i++) {
		ret = bench_wait_received(end, i + 1);
		if (!ret)
			ret = bench_send_ping(end, i, injects);
		if (ret)
			return ret;
	}
	return 0;
}

/* Runs one-sided operations, one at a time. */
static __always_inline int bench_one_sided(struct bench_end *end,
					   unsigned int iters,
					   enum bench_kind kind)
{
	struct bench_side *side = &end->side;
	size_t size = side->test->size;
	unsigned int i;
	int ret;

	for (i = 0; i < iters; i++) {
		bench_mark_lap(side, i);
		if (kind == BENCH_WRITE_LATENCY)
			ret = end_write(end, side->tx, size);
		else if (kind == BENCH_READ_LATENCY)
			ret = end_read(end, side->tx, size);
		else
			ret = end_fetch_add(end, side->tx);
		if (!ret)
			side->sending++;
		while (!ret && side->sending)
			ret = bench_progress(end);
		if (ret)
			return ret;
	}
	bench_mark_lap(side, i);
	return 0;
}

#ifdef BENCH_NO_REGISTER
static inline int end_register(struct bench_end *end, unsigned int nth)
{
	return -EOPNOTSUPP;
}
#endif

/* Registers and invalidates regions of the window's messages in turn. */
static int bench_register(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < iters && !ret; i++) {
		bench_mark_lap(side, i);
		ret = bench_wait_window(end);
		if (!ret)
			ret = end_register(end, i & (side->test->window - 1));
		if (!ret)
			side->sending++;
	}
	while (!ret && side->sending)
		ret = bench_progress(end);
	bench_mark_lap(side, i);
	return ret;
}

/* Writes on many connections in turn. */
static int bench_round_robin(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < iters && !ret; i++) {
		bench_mark_lap(side, i);
		ret = bench_wait_window(end);
		if (ret)
			break;
		end_select(end, i & (test->links - 1));
		ret = end_write(end, side->tx + (i & (test->window - 1)) *
				test->size, test->size);
		if (!ret)
			side->sending++;
	}
	while (!ret && side->sending)
		ret = bench_progress(end);
	bench_mark_lap(side, i);
	return ret;
}

/* Handles all available completions of a ping-pong in a handler, and sends the replies. */
static __always_inline int bench_reply(struct bench_end *end, bool client)
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
				bench_mark_lap(side, side->received);
			/* The client does not reply to the last message. */
			if (!ret && !(client && last))
				ret = end_send(end, side->tx, side->test->size);
			if (ret)
				return ret;
			if (last)
				complete(&side->finished);
		}
	}
	return found;
}

/* Handler of an end's completions */
static __always_inline void bench_handler(struct bench_end *end, bool client)
{
	struct bench_side *side = &end->side;

	side->error = bench_reply(end, client);
	if (side->error)
		complete(&side->finished);
}

/* Waits for the end of a pass in handlers. */
static int bench_wait_callbacks(struct bench_end *end)
{
	struct bench_side *side = &end->side;

	if (!wait_for_completion_timeout(&side->finished, BENCH_TIMEOUT))
		return -ETIMEDOUT;
	return side->error;
}

static int bench_start_callbacks(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	int ret;

	side->goal = iters;
	bench_mark_lap(side, 0);
	ret = end_send(end, side->tx, side->test->size);
	return ret ?: bench_wait_callbacks(end);
}

/* Returns the number of messages that one credit of the server stands for. */
static inline unsigned int bench_credit(const struct bench_test *test)
{
	return test->slots / 4;
}

/* Sends one lap of a stream, and waits until the server has received all of it. */
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
			ret = bench_progress(end);
		}
	}
	return ret ?: bench_wait_received(end, until / credit);
}

static int bench_send_stream(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	unsigned int lap = side->test->lap;
	unsigned int sent;
	int ret = 0;

	for (sent = 0; !ret && sent < iters; sent += lap) {
		bench_mark_lap(side, sent);
		ret = bench_send_lap(end, sent, sent + lap);
	}
	bench_mark_lap(side, sent);
	return ret;
}

static int bench_recv_stream(struct bench_end *end, unsigned int iters)
{
	struct bench_side *side = &end->side;
	unsigned int credit = bench_credit(side->test);
	unsigned int returned = 0;
	int ret;

	while (returned < iters) {
		ret = bench_wait_received(end, min(returned + credit, iters));
		if (!ret)
			ret = bench_wait_window(end);
		if (!ret)
			ret = bench_send(end, returned / credit, BENCH_MIN_SIZE);
		if (ret)
			return ret;
		returned += credit;
	}
	return 0;
}

/* Runs one pass of one side. The client receives the last message of a pass. */
static int bench_pass(struct bench_end *end, bool client, unsigned int iters)
{
	struct bench_side *side = &end->side;
	struct bench_test *test = side->test;

	side->received = 0;
	side->lap_end = 0;
	side->sends_per_comp = 1;
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
		return bench_start_callbacks(end, iters);
	case BENCH_WRITE_LATENCY:
		return client ? bench_one_sided(end, iters, BENCH_WRITE_LATENCY) : 0;
	case BENCH_READ_LATENCY:
		return client ? bench_one_sided(end, iters, BENCH_READ_LATENCY) : 0;
	case BENCH_FETCH_LATENCY:
		return client ? bench_one_sided(end, iters, BENCH_FETCH_LATENCY) : 0;
	case BENCH_LINKS:
		return client ? bench_round_robin(end, iters) : 0;
	case BENCH_REGISTER:
	case BENCH_REGISTER_PAIRS:
		return client ? bench_register(end, iters) : 0;
	default:
		break;
	}
	if (client) {
		side->expected = BENCH_MIN_SIZE;
		if (test->kind == BENCH_SELECTIVE)
			side->sends_per_comp = BENCH_SIGNAL_INTERVAL;
		return bench_send_stream(end, iters);
	}
	return bench_recv_stream(end, iters);
}

/* Waits until the clients of all pairs have ended their warm-up. */
static int bench_meet(struct bench_test *test)
{
	int ret = 0;

	atomic_inc(&test->ready);
	while (!ret && atomic_read(&test->ready) < test->pairs)
		ret = bench_yield(test);
	return ret;
}

/* Runs the passes of a side: a warm-up, then the measured pass. */
static int bench_passes(struct bench_end *end, bool client)
{
	struct bench_test *test = end->side.test;
	int ret;

	if (bench_uses_callbacks(test)) {
		end_arm(end);
		if (!client)
			return bench_wait_callbacks(end);
	}
	ret = bench_pass(end, client, test->lap);
	if (ret)
		return ret;
	if (client && test->kind == BENCH_REGISTER_PAIRS)
		ret = bench_meet(test);
	else if (client)
		end->side.clock = test->ns;
	if (ret)
		return ret;
	end->side.start = ktime_get_ns();
	ret = bench_pass(end, client, test->lap * test->laps);
	end->side.end = ktime_get_ns();
	return ret;
}

#endif /* KOFI_BENCH_LOOPS_H */
