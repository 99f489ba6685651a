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

#define AT_ONCE		ARRAY_SIZE(lens)
#define LONGEST		262144
#define ACCESS		16384
#define ELEMENTS	1000
#define SIDES		2
/* A sender repeats its message if it has not arrived after this time. */
#define AGAIN_MS	2000
/* Operations that may fail in all because the device gives up a connection. */
#define MOST_FAILURES	100

struct op {
	bool	under_way, failed;
};

/* A message with its send and its receive. */
struct mail {
	struct op	send, receive;
	u8		*out, *in;
	unsigned long	again;
	bool		is_there;
};

struct course {
	struct kunit	*test;
	struct kofi_rdm	*side[SIDES];
	fi_addr_t	other[SIDES];
	struct mail	mail[SIDES][AT_ONCE];
	struct op	accesses[AT_ONCE];
	u8		*far, *near;
	u64		*words, *ones, *old;
	struct fid_mr	*far_mr, *words_mr;
	/* Number of lens used; bytes and elements of each access. */
	int		kinds, access, elements;
	u64		moved;
	u32		failures, counted;
};

static void settle(struct course *c, struct op *op, int err)
{
	struct kunit *test = c->test;

	KUNIT_ASSERT_NOT_NULL(test, op);
	KUNIT_ASSERT_TRUE(test, op->under_way);
	op->under_way = false;
	op->failed = err;
	c->failures += !!err;
	KUNIT_ASSERT_LT_MSG(test, c->failures, MOST_FAILURES, "%s", fi_strerror(err));
}

/* Reads the completions of both sides. */
static void look(struct course *c)
{
	for (int s = 0; s < SIDES; s++) {
		struct fid_cq *cq = c->side[s]->cq;
		struct fi_cq_err_entry error = {};
		struct fi_cq_tagged_entry entry;
		ssize_t ret;

		while ((ret = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN) {
			if (ret == 1) {
				settle(c, entry.op_context, 0);
				continue;
			}
			KUNIT_ASSERT_EQ(c->test, -FI_EAVAIL, ret);
			KUNIT_ASSERT_EQ(c->test, 1, fi_cq_readerr(cq, &error, 0));
			settle(c, error.op_context, error.err);
		}
	}
}

/* Posts the receive and the send as needed; returns true once both are complete. */
static bool carry(struct course *c, int from, int nth, u64 tag)
{
	struct mail *mail = &c->mail[from][nth];
	size_t len = lens[nth];

	mail->is_there |= !mail->receive.under_way && !mail->receive.failed;
	if (mail->is_there)
		return !mail->send.under_way;
	/* The sender may be sending again already, or fail later. */
	if (!mail->receive.under_way) {
		KUNIT_ASSERT_EQ(c->test, 0, fi_trecv(c->side[!from]->ep, mail->in, len, NULL,
						     FI_ADDR_UNSPEC, tag, 0, &mail->receive));
		mail->receive.under_way = true;
		mail->receive.failed = false;
	}
	/* An earlier send may have matched a receive that failed. */
	if (mail->send.under_way || (!mail->send.failed && time_before(jiffies, mail->again)))
		return false;
	KUNIT_ASSERT_EQ(c->test, 0, fi_tsend(c->side[from]->ep, mail->out, len, NULL, c->other[from],
					     tag, &mail->send));
	mail->send.under_way = true;
	mail->send.failed = false;
	mail->again = jiffies + msecs_to_jiffies(AGAIN_MS);
	return false;
}

/* Prints the messages that have not arrived, and fails the test. */
static void give_up(struct course *c, u32 round)
{
	struct kunit *test = c->test;

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < c->kinds; i++) {
			struct mail *mail = &c->mail[s][i];

			if (!mail->is_there || mail->send.under_way)
				kunit_err(test, "round %u: %zu bytes from %d:%s%s%s\n", round, lens[i], s,
					  mail->send.under_way ? " sending" : "",
					  mail->receive.under_way ? " receiving" : "",
					  mail->is_there ? " there" : "");
		}
	}
	KUNIT_FAIL_AND_ABORT(test, "a message has no end");
}

static void messages(struct course *c, u32 round)
{
	unsigned long end = jiffies + msecs_to_jiffies(4 * FX_WAIT_MS);
	u32 seed = round * SIDES * AT_ONCE;
	bool is_over;

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < c->kinds; i++) {
			struct mail *mail = &c->mail[s][i];

			tr_fill(mail->out, lens[i], seed + s * AT_ONCE + i);
			memset(mail->in, 0, lens[i]);
			mail->is_there = false;
			/* Makes transfer() post both ends. */
			mail->receive.failed = true;
			mail->send.failed = true;
		}
	}
	do {
		is_over = true;
		for (int s = 0; s < SIDES; s++) {
			for (int i = 0; i < c->kinds; i++)
				is_over &= carry(c, s, i, seed + i);
		}
		look(c);
		if (time_after(jiffies, end))
			give_up(c, round);
		usleep_range(20, 50);
	} while (!is_over);
	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < c->kinds; i++) {
			KUNIT_ASSERT_TRUE_MSG(c->test, tr_intact(c->mail[s][i].in, lens[i],
								 seed + s * AT_ONCE + i),
					      "a message of %zu bytes is damaged", lens[i]);
			c->moved += lens[i];
		}
	}
}

enum access { WRITES, READS, ADDS };

static int post(struct course *c, enum access what, int nth)
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

/* Posts AT_ONCE accesses of a kind, each until it succeeds. */
static void accesses(struct course *c, enum access what)
{
	unsigned long end = jiffies + msecs_to_jiffies(4 * FX_WAIT_MS);
	bool is_over;

	for (int i = 0; i < AT_ONCE; i++)
		c->accesses[i].failed = true;
	do {
		is_over = true;
		for (int i = 0; i < AT_ONCE; i++) {
			struct op *op = &c->accesses[i];

			is_over &= !op->under_way && !op->failed;
			if (op->under_way || !op->failed)
				continue;
			KUNIT_ASSERT_EQ(c->test, 0, post(c, what, i));
			op->under_way = true;
			op->failed = false;
		}
		look(c);
		KUNIT_ASSERT_TRUE_MSG(c->test, time_before(jiffies, end), "an access has no end");
		usleep_range(20, 50);
	} while (!is_over);
	c->moved += AT_ONCE * (what == ADDS ? 2 * c->elements * sizeof(u64) : c->access);
}

static void memory(struct course *c, u32 round)
{
	struct kunit *test = c->test;

	for (int i = 0; i < AT_ONCE; i++)
		tr_fill(c->near + i * ACCESS, c->access, ~round + i);
	accesses(c, WRITES);
	memset(c->near, 0, AT_ONCE * ACCESS);
	/* On iWARP a write is placed once a read behind it has completed. */
	accesses(c, READS);
	for (int i = 0; i < AT_ONCE; i++) {
		KUNIT_ASSERT_TRUE(test, tr_intact(c->far + i * ACCESS, c->access, ~round + i));
		KUNIT_ASSERT_TRUE(test, tr_intact(c->near + i * ACCESS, c->access, ~round + i));
	}
	accesses(c, ADDS);
	c->counted += AT_ONCE;
	for (int i = 0; i < c->elements; i++) {
		/* A failed atomic may have been executed. */
		KUNIT_ASSERT_GE(test, c->words[i], c->counted);
		KUNIT_ASSERT_LE(test, c->words[i], c->counted + c->failures);
		for (int n = 0; n < AT_ONCE && !c->failures; n++)
			KUNIT_ASSERT_EQ(test, c->counted - AT_ONCE + n, c->old[n * ELEMENTS + i]);
	}
}

static void set_up(struct course *c)
{
	struct rdm_opts opts = { .caps = FI_RMA | FI_ATOMIC };
	struct kunit *test = c->test;

	for (int s = 0; s < SIDES; s++) {
		for (int i = 0; i < AT_ONCE; i++) {
			c->mail[s][i].out = tr_vbuffer(test, LONGEST);
			c->mail[s][i].in = tr_vbuffer(test, LONGEST);
		}
	}
	c->far = tr_vbuffer(test, AT_ONCE * ACCESS);
	c->near = tr_vbuffer(test, AT_ONCE * ACCESS);
	c->words = (u64 *)tr_vbuffer(test, ELEMENTS * sizeof(u64));
	c->ones = (u64 *)tr_vbuffer(test, ELEMENTS * sizeof(u64));
	c->old = (u64 *)tr_vbuffer(test, AT_ONCE * ELEMENTS * sizeof(u64));
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
		c->other[s] = rdm_know(test, c->side[s], c->side[!s]);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(c->side[1]->domain, c->far, AT_ONCE * ACCESS,
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &c->far_mr,
					   NULL));
	fx_defer_close(test, &c->far_mr->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(c->side[1]->domain, c->words, ELEMENTS * sizeof(u64),
					   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &c->words_mr,
					   NULL));
	fx_defer_close(test, &c->words_mr->fid);
}

static void loss_of_datagrams(struct kunit *test)
{
	struct course *c;
	u32 round = 0;

	if (!rdm_loss_mib)
		kunit_skip(test, "see scenarios/loss.sh");
	c = (void *)tr_vbuffer(test, sizeof(*c));
	c->test = test;
	while (c->kinds < AT_ONCE && lens[c->kinds] <= rdm_loss_longest)
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
	KUNIT_CASE_SLOW(loss_of_datagrams),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_loss_rdm",
	.test_cases = cases,
};

kunit_test_suite(suite);
