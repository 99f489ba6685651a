// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that all data arrives intact while scenarios/loss.sh drops, duplicates
 * and reorders packets.
 */

#include <linux/moduleparam.h>
#include <linux/sizes.h>

#include <rdma/fi_rma.h>

#include "netns.h"

#define WINDOW	16
/* Timeout of a read of one side's queue, after which the other side's queue is read. */
#define TICK_MS	5

static unsigned int loss_mib;
module_param(loss_mib, uint, 0644);
MODULE_PARM_DESC(loss_mib, "how much each test of the loss suite moves, in MiB");

/*
 * Message size. A connection fails when one message has been retransmitted as
 * often as the retry count allows: the higher the packet loss, the fewer
 * packets a message may have.
 */
static unsigned int loss_chunk = SZ_4K;
module_param(loss_chunk, uint, 0644);
MODULE_PARM_DESC(loss_chunk, "bytes of each message of the loss suite");

struct lossy {
	struct kofi_pair	*pair;
	struct fid_domain	*domain[2];
	u8			*from;	/* WINDOW chunks each */
	u8			*to;
	u32			len;	/* of a chunk */
	u32			chunks;
};

/* Opens a pair between the network namespaces if there are any, else on the own device. */
static struct lossy *open_lossy(struct kunit *test)
{
	/* siw may fail a connection whose reply is lost: see Documentation/security.rst. */
	const struct fx_pair_opts opts = { .caps = FI_RMA, .tries = 10 };
	struct lossy *lossy = (void *)tr_buffer(test, sizeof(*lossy));
	struct ns_side sides[2] = {};

	if (!loss_mib)
		kunit_skip(test, "see scenarios/loss.sh");
	lossy->len = loss_chunk;
	lossy->from = tr_vbuffer(test, WINDOW * lossy->len);
	lossy->to = tr_vbuffer(test, WINDOW * lossy->len);
	lossy->chunks = round_up(loss_mib * (SZ_1M / lossy->len), WINDOW);
	if (ns_given()) {
		lossy->pair = ns_pair(test, net_addr, sides);
		lossy->domain[0] = sides[0].domain;
		lossy->domain[1] = sides[1].domain;
	} else {
		lossy->pair = fx_pair(test, &opts);
		lossy->domain[0] = lossy->pair->domain;
		lossy->domain[1] = lossy->pair->domain;
	}
	return lossy;
}

static u8 *chunk_of(struct lossy *lossy, u8 *chunks, u32 nth)
{
	return chunks + nth % WINDOW * lossy->len;
}

static void post_receive(struct kunit *test, struct lossy *lossy, u32 nth)
{
	u8 *buf = chunk_of(lossy, lossy->to, nth);

	KUNIT_ASSERT_EQ(test, 0, tr_recv(lossy->pair->ep[1], buf, lossy->len));
}

static void post_send(struct kunit *test, struct lossy *lossy, u32 nth)
{
	u8 *buf = chunk_of(lossy, lossy->from, nth);

	tr_fill(buf, lossy->len, nth);
	KUNIT_ASSERT_EQ(test, 0, tr_send(lossy->pair->ep[0], buf, lossy->len));
}

/* Reads one completion of that side; false if none arrives within TICK_MS. */
static bool read_one(struct kunit *test, struct lossy *lossy, int side)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = fi_cq_sread(lossy->pair->cq[side], &entry, 1, NULL,
				  TICK_MS);

	if (ret != -FI_EAGAIN)
		KUNIT_ASSERT_EQ_MSG(test, 1, ret, "side %d: %s", side,
				    fi_strerror(ret));
	return ret == 1;
}

static void loss_messages_arrive_intact(struct kunit *test)
{
	struct lossy *lossy = open_lossy(test);
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u32 posted = 0, sent = 0, received = 0;

	for (u32 nth = 0; nth < WINDOW; nth++)
		post_receive(test, lossy, nth);
	while (received < lossy->chunks || sent < lossy->chunks) {
		/* A receive is posted before its message is sent: iWARP requires it. */
		while (posted < lossy->chunks &&
		       posted < min(sent, received) + WINDOW)
			post_send(test, lossy, posted++);
		if (received < lossy->chunks && read_one(test, lossy, 1)) {
			u8 *buf = chunk_of(lossy, lossy->to, received);

			KUNIT_ASSERT_TRUE_MSG(test, tr_intact(buf, lossy->len,
							      received),
					      "message %u", received);
			post_receive(test, lossy, received++);
			deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		}
		if (sent < lossy->chunks && read_one(test, lossy, 0))
			sent++;
		KUNIT_ASSERT_TRUE_MSG(test, time_before(jiffies, deadline),
				      "waited for message %u", received);
	}
}

/* Reads the completions of WINDOW accesses. */
static void await_window(struct kunit *test, struct lossy *lossy, u64 flag)
{
	struct fi_cq_tagged_entry entry[WINDOW];

	KUNIT_ASSERT_EQ(test, WINDOW,
			fx_wait_comp(test, lossy->pair->cq[0], entry, WINDOW));
	for (int i = 0; i < WINDOW; i++)
		KUNIT_ASSERT_EQ(test, flag | FI_RMA, entry[i].flags);
}

/* Data that fi_write() wrote is read back with fi_read(), and compared on both sides. */
static void loss_writes_and_reads_are_intact(struct kunit *test)
{
	struct lossy *lossy = open_lossy(test);
	struct fid_ep *ep = lossy->pair->ep[0];
	size_t len = lossy->len;
	u8 *far = tr_vbuffer(test, WINDOW * len);
	struct fid_mr *mr;
	u64 addr, key;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(lossy->domain[1], far, WINDOW * len,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
					   0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	key = fi_mr_key(mr);
	for (u32 nth = 0; nth < lossy->chunks; nth += WINDOW) {
		for (u32 i = nth; i < nth + WINDOW; i++) {
			u8 *buf = chunk_of(lossy, lossy->from, i);

			tr_fill(buf, len, ~i);
			addr = (uintptr_t)chunk_of(lossy, far, i);
			KUNIT_ASSERT_EQ(test, 0, fi_write(ep, buf, len, NULL, 0,
							  addr, key, buf));
		}
		await_window(test, lossy, FI_WRITE);
		for (u32 i = nth; i < nth + WINDOW; i++) {
			u8 *buf = chunk_of(lossy, lossy->to, i);

			addr = (uintptr_t)chunk_of(lossy, far, i);
			KUNIT_ASSERT_EQ(test, 0, fi_read(ep, buf, len, NULL, 0,
							 addr, key, buf));
		}
		await_window(test, lossy, FI_READ);
		for (u32 i = nth; i < nth + WINDOW; i++) {
			u8 *there = chunk_of(lossy, far, i);
			u8 *here = chunk_of(lossy, lossy->to, i);

			KUNIT_ASSERT_TRUE_MSG(test, tr_intact(there, len, ~i),
					      "write %u", i);
			KUNIT_ASSERT_TRUE_MSG(test, tr_intact(here, len, ~i),
					      "read %u", i);
		}
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(loss_messages_arrive_intact),
	KUNIT_CASE_SLOW(loss_writes_and_reads_are_intact),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_loss",
	.test_cases = cases,
};

kunit_test_suite(suite);
