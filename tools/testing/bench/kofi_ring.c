// SPDX-License-Identifier: GPL-2.0
/*
 * The limit for what one thread sends to another: nothing but the copy, into
 * the buffer that the receiver has in a ring without locks, and a word in
 * another one that it is there. Each ring has one writer and one reader, and no
 * lock unless "locks" says so.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"ring"
#define BENCH_PORT	0

#include <asm/barrier.h>
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>

#include "bench.h"

static bool locks;
module_param(locks, bool, 0644);
MODULE_PARM_DESC(locks,
		 "Have each call take the locks of the ends, as in any context it has to");

/* As many as may be under way, of any kind; a power of two. */
#define RING_SIZE	512

struct ring_entry {
	void		*buf;
	size_t		len;
};

struct ring {
	struct ring_entry	entries[RING_SIZE];
	unsigned int		written ____cacheline_aligned;
	unsigned int		read ____cacheline_aligned;
};

struct ring_done {
	void		*buf;
	size_t		len;
	bool		is_recv;
};

struct bench_end {
	struct bench_side	side;
	struct bench_end	*peer;
	/* Receives that are posted, for the peer to take, and what it has copied */
	struct ring		posted;
	struct ring		arrived;
	/* Its own sends, which are over when they are called */
	struct ring		sent;
	struct ring_done	done[BENCH_BATCH];
	/* Taken for each use of the rings, if any is */
	spinlock_t		lock ____cacheline_aligned;
};

struct bench_pair {
	struct bench_end	end[2];
};

static __always_inline bool ring_put(struct ring *ring, void *buf, size_t len)
{
	unsigned int at = ring->written;

	/* Whoever has read it is done with it. */
	if (at - smp_load_acquire(&ring->read) == RING_SIZE)
		return false;
	ring->entries[at % RING_SIZE] = (struct ring_entry){ buf, len };
	/* With what is in the buffer. */
	smp_store_release(&ring->written, at + 1);
	return true;
}

static __always_inline bool ring_take(struct ring *ring,
				      struct ring_entry *entry)
{
	unsigned int at = ring->read;

	/* Pairs with the release of whoever has written it. */
	if (at == smp_load_acquire(&ring->written))
		return false;
	*entry = ring->entries[at % RING_SIZE];
	/* It is not looked at any more. */
	smp_store_release(&ring->read, at + 1);
	return true;
}

static __always_inline unsigned long ring_enter(struct bench_end *end)
{
	unsigned long irqs = 0;

	if (locks)
		spin_lock_irqsave(&end->lock, irqs);
	return irqs;
}

static __always_inline void ring_leave(struct bench_end *end,
				       unsigned long irqs)
{
	if (locks)
		spin_unlock_irqrestore(&end->lock, irqs);
}

static __always_inline int end_send_silent(struct bench_end *end, void *buf,
					   size_t len)
{
	struct bench_end *peer = end->peer;
	unsigned long irqs = ring_enter(peer);
	struct ring_entry entry;
	/* The loops send no more than there are receives for. */
	bool is_sent = ring_take(&peer->posted, &entry);

	if (is_sent) {
		memcpy(entry.buf, buf, len);
		is_sent = ring_put(&peer->arrived, entry.buf, len);
	}
	ring_leave(peer, irqs);
	return is_sent ? 0 : -ENOBUFS;
}

/* An operation is over. */
static __always_inline int ring_over(struct bench_end *end, void *buf,
				     size_t len)
{
	unsigned long irqs = ring_enter(end);
	bool is_told = ring_put(&end->sent, buf, len);

	ring_leave(end, irqs);
	return is_told ? 0 : -ENOBUFS;
}

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
{
	return end_send_silent(end, buf, len) ?: ring_over(end, buf, len);
}

static __always_inline int end_send_told(struct bench_end *end, void *buf,
					 size_t len)
{
	return end_send(end, buf, len);
}

static __always_inline int end_recv(struct bench_end *end, void *buf)
{
	unsigned long irqs = ring_enter(end);
	bool is_posted = ring_put(&end->posted, buf, 0);

	ring_leave(end, irqs);
	return is_posted ? 0 : -ENOBUFS;
}

static __always_inline int end_inject(struct bench_end *end, void *buf,
				      size_t len)
{
	return end_send_silent(end, buf, len);
}

static __always_inline int end_write(struct bench_end *end, void *buf,
				     size_t len)
{
	memcpy(end->peer->side.rx, buf, len);
	return ring_over(end, buf, len);
}

static __always_inline int end_read(struct bench_end *end, void *buf,
				    size_t len)
{
	memcpy(buf, end->peer->side.rx, len);
	return ring_over(end, buf, len);
}

static __always_inline int end_fetch_add(struct bench_end *end, void *buf)
{
	atomic64_t *there = end->peer->side.rx;

	*(u64 *)buf = atomic64_fetch_add(1, there);
	return ring_over(end, buf, sizeof(u64));
}

static __always_inline void end_pick(struct bench_end *end, unsigned int link)
{
}

static __always_inline int ring_drain(struct bench_end *end, struct ring *ring,
				      bool is_recv, int found)
{
	struct ring_entry entry;

	while (found < BENCH_BATCH && ring_take(ring, &entry))
		end->done[found++] = (struct ring_done){
			.buf = entry.buf,
			.len = entry.len,
			.is_recv = is_recv,
		};
	return found;
}

static __always_inline int end_poll(struct bench_end *end)
{
	unsigned long irqs = ring_enter(end);
	int found = ring_drain(end, &end->sent, false, 0);

	found = ring_drain(end, &end->arrived, true, found);
	ring_leave(end, irqs);
	return found;
}

/* Nobody is woken: pair_open() has refused it. */
static __always_inline int end_sleep(struct bench_end *end)
{
	return end_poll(end);
}

static void end_call(struct bench_end *end)
{
}

static __always_inline bool end_is_recv(struct bench_end *end, int at)
{
	return end->done[at].is_recv;
}

static __always_inline size_t end_len(struct bench_end *end, int at)
{
	return end->done[at].len;
}

static __always_inline void *end_buffer(struct bench_end *end, int at)
{
	return end->done[at].buf;
}

#include "loops.h"
#include "calls.h"
#include "control.h"

static int pair_open(struct bench_pair *pair, struct bench_test *test)
{
	int ret = 0, i;

	if (test->kind == BENCH_SLEEP_LATENCY || bench_calls_back(test) ||
	    test->links > 1)
		return -EOPNOTSUPP;
	for (i = 0; !ret && i < 2; i++) {
		pair->end[i].peer = &pair->end[!i];
		spin_lock_init(&pair->end[i].lock);
		ret = bench_side_alloc(&pair->end[i].side, test);
	}
	for (i = 0; !ret && i < 2; i++)
		ret = bench_post_receives(&pair->end[i]);
	return ret;
}

static void pair_close(struct bench_pair *pair)
{
	for (int i = 0; i < 2; i++)
		bench_side_free(&pair->end[i].side);
}

MODULE_DESCRIPTION("Ping-pong and stream through rings in memory, the limit for kofi_loop");
