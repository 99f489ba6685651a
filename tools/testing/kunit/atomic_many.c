// SPDX-License-Identifier: GPL-2.0
/*
 * Four initiators on one word, by what the device does with one request.
 */

#include <linux/bitmap.h>
#include <linux/sched.h>

#include "atomic.h"

#define MANY	4
#define ROUNDS	(10 * (int)tr_rounds)

/* Two words of the target. */
enum { SUM, LOCK, WORDS };

struct initiator {
	struct kunit	*test;
	struct rma_fx	*fx;
	u64		*near;		/* operand, compare, result */
	u64		*seen;		/* what each sum found */
	u64		*guarded;	/* changed with LOCK held */
};

/*
 * Does op and waits for it: 0, or what went wrong. Asleep: four readers that
 * spin leave little of a CPU to a device that is made of software.
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

static int run(struct tr_thread *thread)
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

		/* Takes the lock, ... */
		do {
			me->near[0] = 1;
			me->near[1] = 0;
			thread->result = operate(me, &swap);
			if (time_after(jiffies, end))
				thread->result = -FI_ETIMEDOUT;
		} while (!thread->result && me->near[2]);
		if (thread->result)
			break;
		/* ... changes what nobody else may now, slowly, ... */
		u64 value = READ_ONCE(*me->guarded);

		schedule();
		WRITE_ONCE(*me->guarded, value + 1);
		/* ... and gives it back. */
		me->near[0] = 0;
		me->near[1] = 1;
		thread->result = operate(me, &swap);
		if (!thread->result && me->near[2] != 1)
			thread->result = -FI_EIO;
	}
	return 0;
}

static void atomic_four_initiators(struct kunit *test)
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
		threads[i] = tr_start(test, -1, run, &all[i]);
	for (int i = 0; i < MANY; i++) {
		KUNIT_ASSERT_TRUE(test, tr_join(test, threads[i]));
		KUNIT_EXPECT_EQ(test, 0, threads[i]->result);
	}
	KUNIT_EXPECT_EQ(test, MANY * ROUNDS, far[SUM]);
	KUNIT_EXPECT_EQ(test, 0, far[LOCK]);
	KUNIT_EXPECT_EQ(test, MANY * (ROUNDS / 10), *guarded);
	/* Each sum that there was has been found by one of them. */
	for (int i = 0; i < MANY; i++)
		for (int k = 0; k < ROUNDS; k++)
			if (all[i].seen[k] < MANY * ROUNDS)
				__set_bit(all[i].seen[k], seen);
	KUNIT_EXPECT_TRUE(test, bitmap_full(seen, MANY * ROUNDS));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(atomic_four_initiators),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_atomic_many",
	.test_cases = cases,
};

kunit_test_suite(suite);
