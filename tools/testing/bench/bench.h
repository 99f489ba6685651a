/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all modules agree on: depths, and the description of a test.
 *
 * A module defines struct bench_end (one side of a connection, beginning with
 * a struct bench_side) and struct bench_pair (both sides, .end[BENCH_CLIENT]
 * and .end[BENCH_SERVER]), then static inlines
 *
 *	int end_send(struct bench_end *end, void *buf, size_t len);
 *	int end_send_silent(struct bench_end *end, void *buf, size_t len);
 *	int end_send_told(struct bench_end *end, void *buf, size_t len);
 *	int end_recv(struct bench_end *end, void *buf);
 *	int end_inject(struct bench_end *end, void *buf, size_t len);
 *	int end_write(struct bench_end *end, void *buf, size_t len);
 *	int end_read(struct bench_end *end, void *buf, size_t len);
 *	int end_fetch_add(struct bench_end *end, void *buf);
 *	void end_pick(struct bench_end *end, unsigned int link);
 *	int end_poll(struct bench_end *end);
 *	int end_sleep(struct bench_end *end);
 *	void end_call(struct bench_end *end);
 *	bool end_is_recv(struct bench_end *end, int at);
 *	size_t end_len(struct bench_end *end, int at);
 *	void *end_buffer(struct bench_end *end, int at);
 *
 * to post, to choose the connection that is posted to, to poll (at counts what
 * the last poll found), to sleep until a poll finds something, and to have
 * bench_called() called where a completion is told of, from now on. Writes, reads and atomics are for the beginning of the
 * peer's receives; the second and the third are for an end that asks for each of
 * its completions. Nobody is told of what is silent or injected, or has %NULL for
 * its buffer. It includes loops.h, calls.h and control.h, and defines pair_open()
 * and pair_close(). The loops are compiled into each module, so that neither pays
 * for a call the other lacks.
 */

#ifndef KOFI_BENCH_H
#define KOFI_BENCH_H

#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/slab.h>

/* The same for both, on each side of the connection if that is the only one */
#define BENCH_SEND_DEPTH	128
#define BENCH_RECV_DEPTH	256
#define BENCH_BATCH		16
#define BENCH_MIN_RNR_TIMER	12
#define BENCH_RETRIES		7
/* Little enough for entries as small as those of raw verbs */
#define BENCH_INJECT_SIZE	16

#define BENCH_MIN_SIZE		8
#define BENCH_MAX_SIZE		SZ_1M
/* Of one side's messages: the shortest queue has room for four of the longest. */
#define BENCH_MAX_BYTES		(4 * BENCH_MAX_SIZE)
#define BENCH_MAX_LINKS		512
#define BENCH_MAX_PEERS		65536
#define BENCH_LINKS_SIZE	64
/* Whichever of them lags behind has room for all that is under way. */
#define BENCH_LINKS_WINDOW	16
/* Of the sends that ask for their completions, one in so many does */
#define BENCH_EACH		32
#define BENCH_MAX_LAPS		1000000
#define BENCH_TIMEOUT		(60 * HZ)
#define BENCH_CONNECT_TIMEOUT	(5 * HZ)

enum bench_kind {
	BENCH_LATENCY,		/* of a message, one way */
	BENCH_PEERS,		/* the same, to one of many whose addresses are known */
	BENCH_INJECT_LATENCY,	/* the same, injected */
	BENCH_SLEEP_LATENCY,	/* the same, with both sides asleep meanwhile */
	BENCH_TASK_LATENCY,	/* the same, answered in a callback that may sleep */
	BENCH_CALL_LATENCY,	/* the same, in an interrupt */
	BENCH_WRITE_LATENCY,	/* until it completes */
	BENCH_READ_LATENCY,
	BENCH_FETCH_LATENCY,	/* of an addition that brings the old value */
	BENCH_RATE,
	BENCH_SELECTIVE,	/* the same, with one completion for many */
	BENCH_BANDWIDTH,
	BENCH_LINKS,		/* of a write, among many connections */
	BENCH_COST,		/* of single calls */
};

enum {
	BENCH_CLIENT,
	BENCH_SERVER,
};

/**
 * struct bench_test - one measurement
 * @kind: what is measured
 * @size: bytes in a message
 * @lap: messages, or round trips, that are timed together
 * @laps: how many laps the measured pass has
 * @window: sends that may be under way
 * @slots: receives that are posted on each side
 * @links: connections, whose completions come to one queue on each side
 * @peers: addresses that each side knows, where it has a vector of them
 * @deadline: when to give up, in jiffies
 * @failed: one side has failed, so that the other need not wait
 * @ns: duration of each lap, of which the fastest is one in which nothing else
 *	had the CPU; where calls are measured, of each kind of call
 */
struct bench_test {
	enum bench_kind		kind;
	unsigned int		size;
	unsigned int		lap;
	unsigned int		laps;
	unsigned int		window;
	unsigned int		slots;
	unsigned int		links;
	unsigned int		peers;
	unsigned long		deadline;
	bool			failed;
	u64			*ns;
};

/* Whether both sides live in callbacks. */
static inline bool bench_calls_back(const struct bench_test *test)
{
	return test->kind == BENCH_TASK_LATENCY ||
	       test->kind == BENCH_CALL_LATENCY;
}

/**
 * struct bench_side - what the loops know of one side of a connection
 * @test: the measurement
 * @tx: @test->window messages to send
 * @rx: room for @test->slots messages
 * @sending: sends under way
 * @told: how many of them a completion stands for
 * @received: receives completed in this pass
 * @clock: where the durations of this pass go, or %NULL
 * @lap_start: when the lap began
 * @lap_end: first message, or round trip, after it
 * @expected: bytes that each must bring, 0 for any
 * @goal: receives of a pass in callbacks
 * @error: what went wrong there
 * @over: it has ended
 */
struct bench_side {
	struct bench_test	*test;
	void			*tx;
	void			*rx;
	unsigned int		sending;
	unsigned int		told;
	unsigned int		received;
	u64			*clock;
	u64			lap_start;
	unsigned int		lap_end;
	size_t			expected;
	unsigned int		goal;
	int			error;
	struct completion	over;
};

/* How deep the queues of each connection are: much the same in all. */
static inline unsigned int bench_send_depth(const struct bench_test *test)
{
	return test->links > 1 ? BENCH_LINKS_WINDOW : BENCH_SEND_DEPTH;
}

static inline unsigned int bench_recv_depth(const struct bench_test *test)
{
	return test->links > 1 ? 1 : BENCH_RECV_DEPTH;
}

static inline unsigned int bench_cq_size(const struct bench_test *test)
{
	return test->links *
	       (bench_send_depth(test) + bench_recv_depth(test));
}

static inline size_t bench_tx_bytes(const struct bench_test *test)
{
	return array_size(test->window, test->size);
}

static inline size_t bench_rx_bytes(const struct bench_test *test)
{
	return array_size(test->slots, test->size);
}

static inline int bench_side_alloc(struct bench_side *side,
				   struct bench_test *test)
{
	side->test = test;
	/* Of a server: its callback may have it all before its thread begins. */
	side->goal = test->lap * (1 + test->laps);
	init_completion(&side->over);
	side->tx = kzalloc(bench_tx_bytes(test), GFP_KERNEL);
	side->rx = kzalloc(bench_rx_bytes(test), GFP_KERNEL);
	return side->tx && side->rx ? 0 : -ENOMEM;
}

static inline void bench_side_free(struct bench_side *side)
{
	kfree(side->tx);
	kfree(side->rx);
}

#endif /* KOFI_BENCH_H */
