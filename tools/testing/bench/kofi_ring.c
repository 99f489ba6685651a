// SPDX-License-Identifier: GPL-2.0
/*
 * Lower limit for a message between two threads: one copy into a receive buffer that
 * the receiver has posted in a lock-free ring, and one entry in a ring of completions.
 * Each ring has one writer and one reader, and no lock unless "locks" is set.
 */

#define pr_fmt(fmt) "bench: " fmt

#define BENCH_NAME	"ring"
#define BENCH_PORT	0
#define BENCH_NO_REGISTER

#include <asm/barrier.h>
#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>

#include "bench.h"

static bool locks;
module_param(locks, bool, 0644);
MODULE_PARM_DESC(locks,
		 "take the locks of the ends in each call, as calls from any context have to");

/* Maximum number of outstanding operations of each kind; a power of two */
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
	/* Posted receives, which the peer consumes, and messages that the peer has copied */
	struct ring		posted;
	struct ring		arrived;
	/* Completions of the end's own operations, which complete in the call */
	struct ring		sent;
	struct ring_done	done[BENCH_BATCH];
	/* Protects the rings if "locks" is set */
	spinlock_t		lock ____cacheline_aligned;
};

struct bench_pair {
	struct bench_end	end[2];
	struct bench_pair	*first;
};

static __always_inline bool ring_put(struct ring *ring, void *buf, size_t len)
{
	unsigned int at = ring->written;

	/* Pairs with the release of the reader, which has copied the entry. */
	if (at - smp_load_acquire(&ring->read) == RING_SIZE)
		return false;
	ring->entries[at % RING_SIZE] = (struct ring_entry){ buf, len };
	/* Publishes the entry and the contents of its buffer. */
	smp_store_release(&ring->written, at + 1);
	return true;
}

static __always_inline bool ring_get(struct ring *ring,
				     struct ring_entry *entry)
{
	unsigned int at = ring->read;

	/* Pairs with the release of the writer. */
	if (at == smp_load_acquire(&ring->written))
		return false;
	*entry = ring->entries[at % RING_SIZE];
	/* The writer may reuse the entry. */
	smp_store_release(&ring->read, at + 1);
	return true;
}

static __always_inline unsigned long ring_lock(struct bench_end *end)
{
	unsigned long irqs = 0;

	if (locks)
		spin_lock_irqsave(&end->lock, irqs);
	return irqs;
}

static __always_inline void ring_unlock(struct bench_end *end,
					unsigned long irqs)
{
	if (locks)
		spin_unlock_irqrestore(&end->lock, irqs);
}

static __always_inline int end_send_unsignaled(struct bench_end *end, void *buf,
					       size_t len)
{
	struct bench_end *peer = end->peer;
	unsigned long irqs = ring_lock(peer);
	struct ring_entry entry;
	/* The loops never send more messages than the peer has receives. */
	bool is_sent = ring_get(&peer->posted, &entry);

	if (is_sent) {
		memcpy(entry.buf, buf, len);
		is_sent = ring_put(&peer->arrived, entry.buf, len);
	}
	ring_unlock(peer, irqs);
	return is_sent ? 0 : -ENOBUFS;
}

/* Completes an operation. */
static __always_inline int ring_complete(struct bench_end *end, void *buf,
					 size_t len)
{
	unsigned long irqs = ring_lock(end);
	bool is_put = ring_put(&end->sent, buf, len);

	ring_unlock(end, irqs);
	return is_put ? 0 : -ENOBUFS;
}

static __always_inline int end_send(struct bench_end *end, void *buf,
				    size_t len)
{
	return end_send_unsignaled(end, buf, len) ?: ring_complete(end, buf, len);
}

static __always_inline int end_send_signaled(struct bench_end *end, void *buf,
					     size_t len)
{
	return end_send(end, buf, len);
}

static __always_inline int end_recv(struct bench_end *end, void *buf)
{
	unsigned long irqs = ring_lock(end);
	bool is_posted = ring_put(&end->posted, buf, 0);

	ring_unlock(end, irqs);
	return is_posted ? 0 : -ENOBUFS;
}

static __always_inline int end_inject(struct bench_end *end, void *buf,
				      size_t len)
{
	return end_send_unsignaled(end, buf, len);
}

static __always_inline int end_write(struct bench_end *end, void *buf,
				     size_t len)
{
	memcpy(end->peer->side.rx, buf, len);
	return ring_complete(end, buf, len);
}

static __always_inline int end_read(struct bench_end *end, void *buf,
				    size_t len)
{
	memcpy(buf, end->peer->side.rx, len);
	return ring_complete(end, buf, len);
}

static __always_inline int end_fetch_add(struct bench_end *end, void *buf)
{
	atomic64_t *there = end->peer->side.rx;

	*(u64 *)buf = atomic64_fetch_add(1, there);
	return ring_complete(end, buf, sizeof(u64));
}

static __always_inline void end_select(struct bench_end *end, unsigned int link)
{
}

static __always_inline int ring_poll(struct bench_end *end, struct ring *ring,
				     bool is_recv, int found)
{
	struct ring_entry entry;

	while (found < BENCH_BATCH && ring_get(ring, &entry))
		end->done[found++] = (struct ring_done){
			.buf = entry.buf,
			.len = entry.len,
			.is_recv = is_recv,
		};
	return found;
}

static __always_inline int end_poll(struct bench_end *end)
{
	unsigned long irqs = ring_lock(end);
	int found = ring_poll(end, &end->sent, false, 0);

	found = ring_poll(end, &end->arrived, true, found);
	ring_unlock(end, irqs);
	return found;
}

/* Not used: pair_open() refuses tests that wait. */
static __always_inline int end_wait(struct bench_end *end)
{
	return end_poll(end);
}

static void end_arm(struct bench_end *end)
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

	if (test->kind == BENCH_SLEEP_LATENCY || bench_uses_callbacks(test) ||
	    test->links > 1 || test->pairs > 1)
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
