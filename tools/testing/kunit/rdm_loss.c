// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that messages, RMA and atomics of datagram endpoints stay intact while
 * scenarios/loss.sh drops, duplicates and reorders packets.
 */

#include <linux/moduleparam.h>
#include <net/net_namespace.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "netns.h"
#include "rdm.h"

static unsigned int rdm_loss_mib;
module_param(rdm_loss_mib, uint, 0644);
MODULE_PARM_DESC(rdm_loss_mib, "how much the loss suite of datagrams moves, in MiB");

static unsigned int rdm_loss_longest = 262144;
module_param(rdm_loss_longest, uint, 0644);
MODULE_PARM_DESC(rdm_loss_longest, "how many bytes it moves at once, at most");

/* Lengths of messages that take one device packet, one kOFI packet, several, or a rendezvous. */
static const size_t lens[] = { 0, 100, 1000, 16384, 16385, 40000, 131072, 131073, 262144 };

#define PENDING		ARRAY_SIZE(lens)
#define LONGEST		262144
#define ACCESS		16384
#define ELEMENTS	1000
#define SIDES		2
/* A sender repeats its message if it has not arrived after this time. */
#define RESEND_MS	2000
/* Operations that may fail in all because the device gives up a connection. */
#define MAX_FAILURES	100

struct op {
	bool	pending, failed;
};

/* A message with its send and its receive. */
struct msg {
	struct op	send, receive;
	u8		*out, *in;
	unsigned long	resend_at;
	bool		has_arrived;
};

struct loss_test {
	struct kunit	*test;
	struct kofi_rdm	*side[SIDES];
	fi_addr_t	other[SIDES];
	struct msg	msg[SIDES][PENDING];
	struct op	accesses[PENDING];
	u8		*far, *near;
	u64		*words, *ones, *old;
	struct fid_mr	*far_mr, *words_mr;
	/* Number of lens used; bytes and elements of each access. */
	int		kinds, access, elements;
	u64		moved;
	u32		failures, counted;
};

static void complete_op(struct loss_test *c, struct op *op, int err)
{
	struct kunit *test = c->test;

	KUNIT_ASSERT_NOT_NULL(test, op);
	KUNIT_ASSERT_TRUE(test, op->pending);
	op->pending = false;
	op->failed = err;
	c->failures += !!err;
	KUNIT_ASSERT_LT_MSG(test, c->failures, MAX_FAILURES, "%s", fi_strerror(err));
}

/* Reads the completions of both sides. */
static void read_cqs(struct loss_test *c)
{
	for (int s = 0; s < SIDES; s++) {
		struct fid_cq *cq = c->side[s]->cq;
		struct fi_cq_err_entry error = {};
		struct fi_cq_tagged_entry entry;
		ssize_t ret;

		while ((ret = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN) {
			if (ret == 1) {
				complete_op(c, entry.op_context, 0);
				continue;
			}
			KUNIT_ASSERT_EQ(c->test, -FI_EAVAIL, ret);
			KUNIT_ASSERT_EQ(c->test, 1, fi_cq_readerr(cq, &error, 0));
			complete_op(c, error.op_context, error.err);
		}
	}
}

/* Posts the receive and the send as needed; returns true once both are complete. */
static bool transfer(struct loss_test *c, int from, int nth, u64 tag)
{
	struct msg *msg = &c->msg[from][nth];
	size_t len = lens[nth];

	msg->has_arrived |= !msg->receive.pending && !msg->receive.failed;
	if (msg->has_arrived)
		return !msg->send.pending;
	/* The sender may be sending again already, or fail later. */
	if (!msg->receive.pending) {
		KUNIT_ASSERT_EQ(c->test, 0, fi_trecv(c->side[!from]->ep, msg->in, len, NULL,
						     FI_ADDR_UNSPEC, tag, 0, &msg->receive));
		msg->receive.pending = true;
		msg->receive.failed = false;
	}
	/* An earlier send may have matched a receive that failed. */
	if (msg->send.pending || (!msg->send.failed && time_before(jiffies, msg->resend_at)))
		return false;
	KUNIT_ASSERT_EQ(c->test, 0, fi_tsend(c->side[from]->ep, msg->out, len, NULL, c->other[from],
					     tag, &msg->send));
	msg->send.pending = true;
	msg->send.failed = false;
	msg->resend_at = jiffies + msecs_to_jiffies(RESEND_MS);
	return false;
}

/* Prints the messages that have not arrived, and fails the test. */
static void fail_incomplete(struct loss_test *c, u32 round)
{
	struct kunit *test = c->test;

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < c->kinds; i++) {
			struct msg *msg = &c->msg[s][i];

			if (!msg->has_arrived || msg->send.pending)
				kunit_err(test, "round %u: %zu bytes from %d:%s%s%s\n", round, lens[i], s,
					  msg->send.pending ? " sending" : "",
					  msg->receive.pending ? " receiving" : "",
					  msg->has_arrived ? " there" : "");
		}
	}
	KUNIT_FAIL_AND_ABORT(test, "a message has no end");
}

static void messages(struct loss_test *c, u32 round)
{
	unsigned long end = jiffies + msecs_to_jiffies(4 * FX_WAIT_MS);
	u32 seed = round * SIDES * PENDING;
	bool is_over;

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < c->kinds; i++) {
			struct msg *msg = &c->msg[s][i];

			tr_fill(msg->out, lens[i], seed + s * PENDING + i);
			memset(msg->in, 0, lens[i]);
			msg->has_arrived = false;
			/* Makes transfer() post both ends. */
			msg->receive.failed = true;
			msg->send.failed = true;
		}
	}
	do {
		is_over = true;
		for (int s = 0; s < SIDES; s++) {
			for (int i = 0; i < c->kinds; i++)
				is_over &= transfer(c, s, i, seed + i);
		}
		read_cqs(c);
		if (time_after(jiffies, end))
			fail_incomplete(c, round);
		usleep_range(20, 50);
	} while (!is_over);
	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < c->kinds; i++) {
			KUNIT_ASSERT_TRUE_MSG(c->test, tr_intact(c->msg[s][i].in, lens[i],
								 seed + s * PENDING + i),
					      "a message of %zu bytes is damaged", lens[i]);
			c->moved += lens[i];
		}
	}
}

enum access { WRITES, READS, ADDS };

static int post(struct loss_test *c, enum access what, int nth)
{
	size_t at = nth * ACCESS;
	struct fid_ep *ep = c->side[0]->ep;
	struct op *op = &c->accesses[nth];
	u64 addr = (uintptr_t)c->far + at, key = fi_mr_key(c->far_mr);

	switch (what) {
	case WRITES:
		return fi_write(ep, c->near + at, c->access, NULL, c->other[0], addr, key, op);
	case READS:
		return fi_read(ep, c->near + at, c->access, NULL, c->other[0], addr, key, op);
	default:
		return fi_fetch_atomic(ep, c->ones, c->elements, NULL, c->old + nth * ELEMENTS, NULL,
				       c->other[0], (uintptr_t)c->words, fi_mr_key(c->words_mr),
				       FI_UINT64, FI_SUM, op);
	}
}

/* Posts PENDING accesses of a kind, each until it succeeds. */
static void accesses(struct loss_test *c, enum access what)
{
	unsigned long end = jiffies + msecs_to_jiffies(4 * FX_WAIT_MS);
	bool is_over;

	for (int i = 0; i < PENDING; i++)
		c->accesses[i].failed = true;
	do {
		is_over = true;
		for (int i = 0; i < PENDING; i++) {
			struct op *op = &c->accesses[i];

			is_over &= !op->pending && !op->failed;
			if (op->pending || !op->failed)
				continue;
			KUNIT_ASSERT_EQ(c->test, 0, post(c, what, i));
			op->pending = true;
			op->failed = false;
		}
		read_cqs(c);
		KUNIT_ASSERT_TRUE_MSG(c->test, time_before(jiffies, end),
				      "waited for the completion of an access");
		usleep_range(20, 50);
	} while (!is_over);
	c->moved += PENDING * (what == ADDS ? 2 * c->elements * sizeof(u64) : c->access);
}

static void memory(struct loss_test *c, u32 round)
{
	struct kunit *test = c->test;

	for (int i = 0; i < PENDING; i++)
		tr_fill(c->near + i * ACCESS, c->access, ~round + i);
	accesses(c, WRITES);
	memset(c->near, 0, PENDING * ACCESS);
	/* On iWARP a write is placed once a read behind it has completed. */
	accesses(c, READS);
	for (int i = 0; i < PENDING; i++) {
		KUNIT_ASSERT_TRUE(test, tr_intact(c->far + i * ACCESS, c->access, ~round + i));
		KUNIT_ASSERT_TRUE(test, tr_intact(c->near + i * ACCESS, c->access, ~round + i));
	}
	accesses(c, ADDS);
	c->counted += PENDING;
	for (int i = 0; i < c->elements; i++) {
		/* A failed atomic may have been executed. */
		KUNIT_ASSERT_GE(test, c->words[i], c->counted);
		KUNIT_ASSERT_LE(test, c->words[i], c->counted + c->failures);
		for (int n = 0; n < PENDING && !c->failures; n++)
			KUNIT_ASSERT_EQ(test, c->counted - PENDING + n, c->old[n * ELEMENTS + i]);
	}
}

static void set_up(struct loss_test *c)
{
	struct rdm_opts opts = { .caps = FI_RMA | FI_ATOMIC };
	struct kunit *test = c->test;

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < PENDING; i++) {
			c->msg[s][i].out = tr_vbuffer(test, LONGEST);
			c->msg[s][i].in = tr_vbuffer(test, LONGEST);
		}
	}
	c->far = tr_vbuffer(test, PENDING * ACCESS);
	c->near = tr_vbuffer(test, PENDING * ACCESS);
	c->words = (u64 *)tr_vbuffer(test, ELEMENTS * sizeof(u64));
	c->ones = (u64 *)tr_vbuffer(test, ELEMENTS * sizeof(u64));
	c->old = (u64 *)tr_vbuffer(test, PENDING * ELEMENTS * sizeof(u64));
	for (int i = 0; i < ELEMENTS; i++)
		c->ones[i] = 1;
	for (int s = 0; s < SIDES; s++) {
		if (ns_given()) {
			opts.net = ns_get(test, s);
			opts.node = net_addr;
			opts.is_far = !s;
		}
		c->side[s] = rdm_open(test, &opts);
		if (opts.net)
			put_net(opts.net);
	}
	for (int s = 0; s < SIDES; s++)
		c->other[s] = rdm_addr(test, c->side[s], c->side[!s]);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(c->side[1]->domain, c->far, PENDING * ACCESS,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &c->far_mr,
					   NULL));
	fx_defer_close(test, &c->far_mr->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(c->side[1]->domain, c->words, ELEMENTS * sizeof(u64),
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &c->words_mr,
					   NULL));
	fx_defer_close(test, &c->words_mr->fid);
}

static void loss_datagrams_are_intact(struct kunit *test)
{
	struct loss_test *c;
	u32 round = 0;

	if (!rdm_loss_mib)
		kunit_skip(test, "see scenarios/loss.sh");
	c = (void *)tr_vbuffer(test, sizeof(*c));
	c->test = test;
	while (c->kinds < PENDING && lens[c->kinds] <= rdm_loss_longest)
		c->kinds++;
	c->access = min_t(int, rdm_loss_longest, ACCESS);
	c->elements = min_t(int, c->access / sizeof(u64), ELEMENTS);
	set_up(c);
	while (c->moved >> 20 < rdm_loss_mib) {
		messages(c, round);
		memory(c, round);
		round++;
	}
	kunit_info(test, "%llu MiB, %u operations failed and were done again\n", c->moved >> 20,
		   c->failures);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(loss_datagrams_are_intact),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_loss_rdm",
	.test_cases = cases,
};

kunit_test_suite(suite);
