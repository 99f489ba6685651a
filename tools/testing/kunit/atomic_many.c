// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, ATOM 5: four initiators change one word by operations that are one
 * request of the device, by operations that take several, and by both.
 */

#include <linux/bitmap.h>
#include <linux/sched.h>

#include "atomic.h"

#define MANY	4
#define ROUNDS	(10 * (int)tr_rounds)

/* Words of the target in the first test, ... */
enum { SUM, LOCK, WORDS };
/* ... and in the second, where HALVES and BYTES have several elements. */
enum { BOTH, PAIR, HALVES, BYTES, TOKEN, MIXED };

struct initiator {
	struct kunit	*test;
	struct rma_fx	*fx;
	int		number;
	u64		*near;		/* operand, compare, result */
	u64		*seen;		/* old value that each sum returned */
	u64		*guarded;	/* changed with LOCK held */
};

/*
 * Does op and waits for its completion; returns 0 or a negative errno. The wait
 * sleeps: four readers that spin would take the CPU from a software device.
 */
static ssize_t operate(struct initiator *me, const struct at_op *op)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret = at_post(me->fx, op);

	if (ret)
		return ret;
	ret = fi_cq_sread(me->fx->pair->cq[0], &entry, 1, NULL, FX_WAIT_MS);
	if (ret == -FI_EAGAIN)
		return -FI_ETIMEDOUT;
	return ret == 1 ? 0 : ret;
}

static int run_sums_and_lock(struct tr_thread *thread)
{
	struct initiator *me = thread->arg;
	const struct at_op add = {
		.form = ATOM_FETCH, .op = FI_SUM, .type = FI_UINT64,
		.buf = &me->near[0], .result = &me->near[2], .count = 1,
		.at = SUM * 8, .context = me,
	};
	const struct at_op swap = {
		.form = ATOM_COMPARE, .op = FI_CSWAP, .type = FI_UINT64,
		.buf = &me->near[0], .compare = &me->near[1],
		.result = &me->near[2], .count = 1, .at = LOCK * 8,
		.context = me,
	};

	for (int i = 0; i < ROUNDS && !thread->result; i++) {
		me->near[0] = 1;
		thread->result = operate(me, &add);
		me->seen[i] = me->near[2];
	}
	for (int i = 0; i < ROUNDS / 10 && !thread->result; i++) {
		unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

		/* Takes the lock in the target, ... */
		do {
			me->near[0] = 1;
			me->near[1] = 0;
			thread->result = operate(me, &swap);
			if (time_after(jiffies, end))
				thread->result = -FI_ETIMEDOUT;
		} while (!thread->result && me->near[2]);
		if (thread->result)
			break;
		/* ... changes the guarded word, not atomically, ... */
		u64 value = READ_ONCE(*me->guarded);

		schedule();
		WRITE_ONCE(*me->guarded, value + 1);
		/* ... and releases the lock. */
		me->near[0] = 0;
		me->near[1] = 1;
		thread->result = operate(me, &swap);
		if (!thread->result && me->near[2] != 1)
			thread->result = -FI_EIO;
	}
	return 0;
}

static void atom_05_concurrent_sums_and_a_lock_are_exact(struct kunit *test)
{
	u64 *far = (u64 *)tr_buffer(test, WORDS * sizeof(u64));
	struct tr_thread *threads[MANY];
	struct initiator *all;
	unsigned long *seen;
	u64 *guarded;

	all = (void *)tr_vbuffer(test, MANY * sizeof(*all));
	seen = (void *)tr_buffer(test, BITS_TO_LONGS(MANY * ROUNDS) *
				 sizeof(long));
	guarded = (void *)tr_buffer(test, sizeof(*guarded));
	for (int i = 0; i < MANY; i++) {
		all[i].near = (u64 *)tr_buffer(test, 3 * sizeof(u64));
		all[i].seen = (u64 *)tr_buffer(test, ROUNDS * sizeof(u64));
		all[i].guarded = guarded;
		all[i].fx = at_open(test, (u8 *)far, WORDS * sizeof(u64),
				    RMA_BOTH, NULL);
	}
	for (int i = 0; i < MANY; i++)
		threads[i] = tr_start(test, -1, run_sums_and_lock, &all[i]);
	for (int i = 0; i < MANY; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, threads[i]));
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	KUNIT_EXPECT_EQ(test, MANY * ROUNDS, far[SUM]);
	KUNIT_EXPECT_EQ(test, 0, far[LOCK]);
	KUNIT_EXPECT_EQ(test, MANY * (ROUNDS / 10), *guarded);
	/* Each intermediate sum was returned to one initiator. */
	for (int i = 0; i < MANY; i++)
		for (int k = 0; k < ROUNDS; k++)
			if (all[i].seen[k] < MANY * ROUNDS)
				__set_bit(all[i].seen[k], seen);
	KUNIT_EXPECT_TRUE(test, bitmap_full(seen, MANY * ROUNDS));
}

/* Does op with value as its operand; returns 0 or a negative errno. */
static ssize_t change(struct initiator *me, struct at_op op, u64 at, u64 value)
{
	/* Sets both elements, if op has two. */
	me->near[0] = value;
	me->near[1] = value;
	op.buf = me->near;
	op.result = &me->near[2];
	op.at = at;
	op.context = me;
	return operate(me, &op);
}

static int run_mixed_operations(struct tr_thread *thread)
{
	struct initiator *me = thread->arg;
	struct at_op sum = { .form = ATOM_FETCH, .op = FI_SUM };
	struct at_op count = { .form = ATOM_BASE, .op = FI_SUM, .count = 1 };
	const struct at_op max = {
		.form = ATOM_BASE, .op = FI_MAX, .type = FI_UINT32, .count = 1,
	};
	const struct at_op swap = {
		.form = ATOM_FETCH, .op = FI_ATOMIC_WRITE, .type = FI_UINT64,
		.count = 1,
	};

	for (int i = 0; i < ROUNDS && !thread->result; i++) {
		ssize_t ret;

		/* A single word, by the device, or two words, by several requests. */
		sum.type = FI_UINT64;
		sum.count = 1 + (i + me->number) % 2;
		ret = change(me, sum, BOTH * 8, 1);
		/* Halves and bytes of one word; the rest of the word must not change. */
		if (!ret)
			ret = change(me, max, HALVES * 8, i * MANY + me->number);
		count.type = FI_INT32;
		if (!ret)
			ret = change(me, count, HALVES * 8 + 4, 1);
		count.type = FI_UINT8;
		if (!ret)
			ret = change(me, count, BYTES * 8 + me->number, 1);
		if (!ret)
			ret = change(me, swap, TOKEN * 8,
				     1 + i * MANY + me->number);
		me->seen[i] = me->near[2];
		thread->result = ret;
	}
	return 0;
}

static void atom_05_concurrent_mixed_operations_are_exact(struct kunit *test)
{
	u64 *far = (u64 *)tr_buffer(test, MIXED * sizeof(u64));
	struct tr_thread *threads[MANY];
	struct initiator *all;
	unsigned long *seen;

	all = (void *)tr_vbuffer(test, MANY * sizeof(*all));
	seen = (void *)tr_buffer(test, BITS_TO_LONGS(MANY * ROUNDS + 1) *
				 sizeof(long));
	for (int i = 0; i < MANY; i++) {
		all[i].number = i;
		all[i].near = (u64 *)tr_buffer(test, 4 * sizeof(u64));
		all[i].seen = (u64 *)tr_buffer(test, ROUNDS * sizeof(u64));
		all[i].fx = at_open(test, (u8 *)far, MIXED * sizeof(u64),
				    RMA_BOTH, NULL);
	}
	for (int i = 0; i < MANY; i++)
		threads[i] = tr_start(test, -1, run_mixed_operations, &all[i]);
	for (int i = 0; i < MANY; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, threads[i]));
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	KUNIT_EXPECT_EQ(test, MANY * ROUNDS, far[BOTH]);
	KUNIT_EXPECT_EQ(test, MANY * ROUNDS / 2, far[PAIR]);
	KUNIT_EXPECT_EQ(test, MANY * ROUNDS - 1, ((u32 *)&far[HALVES])[0]);
	KUNIT_EXPECT_EQ(test, MANY * ROUNDS, ((u32 *)&far[HALVES])[1]);
	for (int i = 0; i < MANY; i++)
		KUNIT_EXPECT_EQ(test, ROUNDS % 256, ((u8 *)&far[BYTES])[i]);
	KUNIT_EXPECT_NULL(test, memchr_inv((u8 *)&far[BYTES] + MANY, 0,
					   8 - MANY));
	/* Each token was returned to one initiator, or is still in the target. */
	KUNIT_ASSERT_LE(test, far[TOKEN], MANY * ROUNDS);
	__set_bit(far[TOKEN], seen);
	for (int i = 0; i < MANY; i++)
		for (int k = 0; k < ROUNDS; k++)
			if (all[i].seen[k] <= MANY * ROUNDS)
				__set_bit(all[i].seen[k], seen);
	KUNIT_EXPECT_TRUE(test, bitmap_full(seen, MANY * ROUNDS + 1));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(atom_05_concurrent_sums_and_a_lock_are_exact),
	KUNIT_CASE(atom_05_concurrent_mixed_operations_are_exact),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_atomic_many",
	.test_cases = cases,
};

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE(atom_05_concurrent_sums_and_a_lock_are_exact),
	KUNIT_CASE(atom_05_concurrent_mixed_operations_are_exact),
	{}
};

static struct kunit_suite datagram_suite = {
	.name = "kofi_rdm_atomic_many",
	.init = at_init_rdm,
	.test_cases = datagram_cases,
};

kunit_test_suites(&suite, &datagram_suite);
