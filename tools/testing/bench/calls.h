/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cost of single calls: bursts of one kind of call. Included once by each module,
 * after loops.h.
 *
 * The device's workers run between the bursts, while this thread sleeps, and not
 * during a burst. On a machine whose clock counts instructions, results are
 * instructions.
 */

#ifndef KOFI_BENCH_CALLS_H
#define KOFI_BENCH_CALLS_H

#include <linux/delay.h>
#include <linux/minmax.h>

enum bench_call {
	BENCH_SEND,
	BENCH_RECV,
	BENCH_INJECT,
	BENCH_WRITE,
	BENCH_READ,	/* reading a receive's entry; a read takes a batch of entries */
	BENCH_DONE,	/* reading a send's entry */
	BENCH_EMPTY,	/* reading an empty queue */
	BENCH_CALLS,
};

/* A module may define its own values. */
#ifndef BENCH_BURST
#define BENCH_BURST	64
/* Long enough for a burst to complete, most of the time */
#define BENCH_PAUSE_MS	20
#endif

static inline void bench_pause(void)
{
	if (BENCH_PAUSE_MS)
		msleep(BENCH_PAUSE_MS);
}

/* Returns the element of @test->ns for the burst of a lap. */
static u64 *bench_lap(struct bench_test *test, enum bench_call call,
		      unsigned int lap)
{
	return test->ns + call * test->laps + lap;
}

/* Reads the completions of a burst. Sets @ns to the time of reading BENCH_BURST entries. */
static int bench_read_burst(struct bench_end *end, u64 *ns)
{
	unsigned int left = BENCH_BURST;
	u64 spent = 0;

	while (left) {
		int found;

		if (time_after(jiffies, end->side.test->deadline))
			return -ETIMEDOUT;
		bench_pause();
		do {
			u64 start = ktime_get_ns();

			found = end_poll(end);
			if (found < 0)
				return found;
			spent += found ? ktime_get_ns() - start : 0;
			left -= min_t(unsigned int, left, found);
		} while (left && found);
	}
	*ns = spent;
	return 0;
}

/* Reads all available completions, which may be fewer than were posted. */
static int bench_drain(struct bench_end *end)
{
	int found;

	bench_pause();
	do {
		found = end_poll(end);
	} while (found > 0);
	return found;
}

/* Makes call number @nth of a burst. */
static __always_inline int bench_post(struct bench_end *end,
				      enum bench_call call, unsigned int nth)
{
	size_t size = end->side.test->size;
	void *tx = end->side.tx + nth * size;

	switch (call) {
	case BENCH_SEND:
		return end_send(end, tx, size);
	case BENCH_RECV:
		return end_recv(end, end->side.rx + nth * size);
	case BENCH_INJECT:
		return end_inject(end, tx, BENCH_INJECT_SIZE);
	case BENCH_WRITE:
		return end_write(end, tx, size);
	case BENCH_EMPTY:
		/* A late completion may be found. */
		return min(end_poll(end), 0);
	default:
		return -EINVAL;
	}
}

static __always_inline int bench_burst(struct bench_end *end,
				       enum bench_call call, unsigned int lap)
{
	u64 start = ktime_get_ns();
	int ret = 0;

	for (int i = 0; i < BENCH_BURST && !ret; i++)
		ret = bench_post(end, call, i);
	*bench_lap(end->side.test, call, lap) = ktime_get_ns() - start;
	return ret;
}

static int bench_lap_of_calls(struct bench_pair *pair, struct bench_test *test,
			      unsigned int lap)
{
	struct bench_end *from = &pair->end[BENCH_CLIENT];
	struct bench_end *to = &pair->end[BENCH_SERVER];
	int ret;

	ret = bench_burst(from, BENCH_SEND, lap);
	ret = ret ?: bench_read_burst(from, bench_lap(test, BENCH_DONE, lap));
	ret = ret ?: bench_read_burst(to, bench_lap(test, BENCH_READ, lap));
	ret = ret ?: bench_burst(to, BENCH_EMPTY, lap);
	ret = ret ?: bench_burst(to, BENCH_RECV, lap);
	ret = ret ?: bench_burst(from, BENCH_INJECT, lap);
	ret = ret ?: bench_drain(from);
	ret = ret ?: bench_drain(to);
	ret = ret ?: bench_burst(to, BENCH_RECV, lap);
	ret = ret ?: bench_burst(from, BENCH_WRITE, lap);
	return ret ?: bench_drain(from);
}

static int bench_calls(struct bench_pair *pair, struct bench_test *test)
{
	int ret = 0;

	test->deadline = jiffies + BENCH_TIMEOUT;
	for (unsigned int lap = 0; lap < test->laps && !ret; lap++)
		ret = bench_lap_of_calls(pair, test, lap);
	return ret;
}

#endif /* KOFI_BENCH_CALLS_H */
