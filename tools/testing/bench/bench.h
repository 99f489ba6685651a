/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions of all benchmark modules: queue depths, and the description of a test.
 *
 * A module defines struct bench_end (one side of a connection, beginning with
 * a struct bench_side) and struct bench_pair (both sides, .end[BENCH_CLIENT]
 * and .end[BENCH_SERVER]), then static inlines
 *
 *	int end_send(struct bench_end *end, void *buf, size_t len);
 *	int end_send_unsignaled(struct bench_end *end, void *buf, size_t len);
 *	int end_send_signaled(struct bench_end *end, void *buf, size_t len);
 *	int end_recv(struct bench_end *end, void *buf);
 *	int end_inject(struct bench_end *end, void *buf, size_t len);
 *	int end_write(struct bench_end *end, void *buf, size_t len);
 *	int end_read(struct bench_end *end, void *buf, size_t len);
 *	int end_fetch_add(struct bench_end *end, void *buf);
 *	int end_register(struct bench_end *end, unsigned int nth);
 *	void end_select(struct bench_end *end, unsigned int link);
 *	int end_poll(struct bench_end *end);
 *	int end_wait(struct bench_end *end);
 *	void end_arm(struct bench_end *end);
 *	bool end_is_recv(struct bench_end *end, int at);
 *	size_t end_len(struct bench_end *end, int at);
 *	void *end_buffer(struct bench_end *end, int at);
 *
 * to post, to select the connection that is posted to, to poll, to wait until a
 * poll finds completions, to have bench_handler() called for completions from now
 * on, and to read completion number at of the last poll. Writes, reads and atomics
 * access the beginning of the peer's receive buffer; reads and atomics need an end
 * that signals every operation. end_register() registers message number nth of the
 * send buffer for the peer, and invalidates its key, which has a completion. A
 * module that defines BENCH_NO_REGISTER has no such function. The loops do not count completions of injected and
 * unsignaled sends, nor those with a %NULL buffer.
 *
 * The module then includes loops.h, calls.h and control.h, and defines pair_open()
 * and pair_close(). The loops are compiled into each module, so that each makes only
 * the calls that it needs.
 */

#ifndef KOFI_BENCH_H
#define KOFI_BENCH_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/slab.h>

/* Queue depths and attributes of each endpoint when a test has one connection */
#define BENCH_SEND_DEPTH	128
#define BENCH_RECV_DEPTH	256
#define BENCH_BATCH		16
#define BENCH_MIN_RNR_TIMER	12
#define BENCH_RETRIES		7
/* Fits into the work queue entries of raw verbs */
#define BENCH_INJECT_SIZE	16

#define BENCH_MIN_SIZE		8
#define BENCH_MAX_SIZE		SZ_1M
/* Limit of a side's buffer: four messages of the maximum length */
#define BENCH_MAX_BYTES		(4 * BENCH_MAX_SIZE)
#define BENCH_MAX_LINKS		512
#define BENCH_MAX_PEERS		65536
#define BENCH_MAX_PAIRS		16
#define BENCH_LINKS_SIZE	64
/* Sends outstanding on all connections together, and send queue depth of each connection */
#define BENCH_LINKS_WINDOW	16
/* Regions that are registered at a time, of at most so many pages */
#define BENCH_REGIONS		32
#define BENCH_REGION_PAGES	32
/* With selective completions, one of this many sends is signaled */
#define BENCH_SIGNAL_INTERVAL	32
#define BENCH_MAX_LAPS		1000000
#define BENCH_TIMEOUT		(60 * HZ)
#define BENCH_CONNECT_TIMEOUT	(5 * HZ)

enum bench_kind {
	BENCH_LATENCY,		/* of a message, one way */
	BENCH_PEERS,		/* latency to one of many peers in the address vector */
	BENCH_INJECT_LATENCY,	/* latency of an injected message */
	BENCH_SLEEP_LATENCY,	/* latency with both sides sleeping until a completion */
	BENCH_TASK_LATENCY,	/* latency with replies from a handler in process context */
	BENCH_CALL_LATENCY,	/* latency with replies from a handler in hardirq context */
	BENCH_WRITE_LATENCY,	/* from post to completion */
	BENCH_READ_LATENCY,
	BENCH_FETCH_LATENCY,	/* of a fetching addition */
	BENCH_RATE,
	BENCH_SELECTIVE,	/* rate with selective completions */
	BENCH_BANDWIDTH,
	BENCH_LINKS,		/* writes on many connections in turn */
	BENCH_REGISTER,		/* registrations and invalidations of regions */
	BENCH_REGISTER_PAIRS,	/* the same on several pairs of ends, each with its thread */
	BENCH_COST,		/* of single calls */
};

enum {
	BENCH_CLIENT,
	BENCH_SERVER,
};

/**
 * struct bench_test - one measurement
 * @kind: what is measured
 * @size: length of a message in bytes
 * @lap: messages, or round trips, that are timed together
 * @laps: number of laps in the measured pass
 * @window: maximum number of outstanding sends
 * @slots: number of receives that are posted on each side
 * @links: number of connections, which share one completion queue on each side
 * @peers: number of addresses in each side's address vector, if it has one
 * @pairs: number of pairs of ends that run at the same time, in one domain
 * @deadline: timeout of the test, in jiffies
 * @failed: one side has failed, and the other stops waiting
 * @ready: number of clients that have ended their warm-up, with several pairs
 * @ns: duration of each lap; the fastest is one that nothing preempted. For a test
 *	of calls, the durations of each kind of call. Not used with several pairs
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
	unsigned int		pairs;
	unsigned long		deadline;
	bool			failed;
	atomic_t		ready;
	u64			*ns;
};

/* Returns whether both sides run in handlers of their completion queues. */
static inline bool bench_uses_callbacks(const struct bench_test *test)
{
	return test->kind == BENCH_TASK_LATENCY ||
	       test->kind == BENCH_CALL_LATENCY;
}

/* Returns whether the client registers regions. */
static inline bool bench_registers(const struct bench_test *test)
{
	return test->kind == BENCH_REGISTER ||
	       test->kind == BENCH_REGISTER_PAIRS;
}

/**
 * struct bench_side - state of the loops for one side of a connection
 * @test: the measurement
 * @tx: send buffer of @test->window messages
 * @rx: receive buffer of @test->slots messages
 * @sending: outstanding sends
 * @sends_per_comp: number of sends that one completion stands for
 * @received: receives completed in this pass
 * @clock: next duration to be written, or %NULL in the warm-up
 * @lap_start: start time of the lap
 * @start: start time of the measured pass
 * @end: its end time
 * @lap_end: number of the first message, or round trip, after the lap
 * @expected: length that each received message must have, 0 for any
 * @goal: number of receives of a pass in handlers
 * @error: error of a handler
 * @finished: the pass in handlers has ended
 */
struct bench_side {
	struct bench_test	*test;
	void			*tx;
	void			*rx;
	unsigned int		sending;
	unsigned int		sends_per_comp;
	unsigned int		received;
	u64			*clock;
	u64			lap_start;
	u64			start;
	u64			end;
	unsigned int		lap_end;
	size_t			expected;
	unsigned int		goal;
	int			error;
	struct completion	finished;
};

/* Returns the send queue depth of each connection. */
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
	/* Set the server's goal here: its handler may run before its thread. */
	side->goal = test->lap * (1 + test->laps);
	init_completion(&side->finished);
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
