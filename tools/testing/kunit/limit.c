// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CQ 14 of CONTRACT with a completion queue that is full all the time:
 * eight endpoints post until each gets -FI_EAGAIN; each entry that the slow
 * reader takes then allows exactly one post.
 */

#include <linux/delay.h>
#include <linux/moduleparam.h>
#include <linux/random.h>

#include "rma.h"

#define PAIRS	4
#define ENDS	(2 * PAIRS)
#define DEPTH	64
#define SIZE	16	/* of the queue; kOFI may allow more entries */
#define LEN	64
#define MEAN_SLEEP_MS	50

static unsigned int limit_seconds = 1;
module_param(limit_seconds, uint, 0644);
MODULE_PARM_DESC(limit_seconds, "for how long a completion queue is kept full");

/* An endpoint and the counts of its writes. */
struct writer {
	struct fid_ep	*ep;
	u64		posted;
	u64		read;
};

struct limit_fx {
	struct rma_fx	*fx;
	u8		*near;
	struct writer	writers[ENDS];
};

/* Returns the context of the next write: it encodes the endpoint and the number of the write. */
static void *context_of(struct limit_fx *limit, unsigned int end)
{
	return (void *)(limit->writers[end].posted * ENDS + end);
}

/* Posts until all endpoints get -FI_EAGAIN; returns the number of writes posted. */
static unsigned int post_until_full(struct kunit *test, struct limit_fx *limit)
{
	unsigned int refused = 0, posted = 0, end = 0;

	while (refused < ENDS) {
		struct writer *writer = &limit->writers[end];
		ssize_t ret = fi_write(writer->ep, limit->near, LEN, NULL, 0,
				       limit->fx->addr + end * LEN,
				       limit->fx->key, context_of(limit, end));

		if (ret) {
			KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
			refused++;
		} else {
			writer->posted++;
			posted++;
			refused = 0;
		}
		end = (end + 1) % ENDS;
	}
	return posted;
}

/* Reads count entries; the entries of each endpoint have to arrive in order. */
static void read_entries(struct kunit *test, struct limit_fx *limit, unsigned int count)
{
	while (count--) {
		struct fi_cq_tagged_entry entry = {};
		struct writer *writer;
		u64 context;

		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test,
						      limit->fx->pair->cq[0],
						      &entry, 1));
		context = (u64)entry.op_context;
		writer = &limit->writers[context % ENDS];
		KUNIT_ASSERT_EQ(test, writer->read, context / ENDS);
		writer->read++;
	}
}

static void open_writers(struct kunit *test, struct limit_fx *limit)
{
	const struct fx_pair_opts opts = {
		.one_cq = true, .cq_size = SIZE, .tx_size = DEPTH, .rx_size = 1,
		.threading = FI_THREAD_SAFE,
	};
	u8 *far = tr_buffer(test, ENDS * LEN);
	struct kofi_pair *pair;

	limit->near = tr_buffer(test, LEN);
	limit->fx = rma_open(test, far, ENDS * LEN, RMA_BOTH, &opts);
	pair = limit->fx->pair;
	for (int i = 0; i < PAIRS; i++) {
		struct fid_ep *ep = pair->ep[0], *peer = pair->ep[1];

		if (i) {
			ep = fx_ep(test, pair->domain, pair->info);
			fx_bind(test, ep, pair->eq, pair->cq[0],
				FI_TRANSMIT | FI_RECV);
			peer = fx_connect(test, pair->domain, ep, pair->pep,
					  pair->eq, pair->cq[0]);
		}
		limit->writers[2 * i].ep = ep;
		limit->writers[2 * i + 1].ep = peer;
	}
}

static void cq_14_a_full_queue_accepts_a_post_per_entry_read(struct kunit *test)
{
	struct limit_fx *limit = (void *)tr_buffer(test, sizeof(*limit));
	u64 rounds = 0, entries = 0;
	unsigned int space;
	ktime_t end;

	open_writers(test, limit);
	space = post_until_full(test, limit);
	kunit_info(test, "space for %u\n", space);
	KUNIT_ASSERT_GE(test, space, SIZE);
	KUNIT_ASSERT_LT(test, space, ENDS * DEPTH);
	end = ktime_add_ms(ktime_get(), 1000ULL * limit_seconds);
	while (ktime_before(ktime_get(), end)) {
		unsigned int count = 1 + get_random_u32_below(space);

		/* The sleep is random: in some rounds all writes have completed before a read. */
		msleep(get_random_u32_below(2 * MEAN_SLEEP_MS));
		read_entries(test, limit, count);
		KUNIT_ASSERT_EQ(test, count, post_until_full(test, limit));
		entries += count;
		rounds++;
	}
	read_entries(test, limit, space);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_read(limit->fx->pair->cq[0], NULL, 0));
	for (int i = 0; i < ENDS; i++)
		KUNIT_EXPECT_EQ(test, limit->writers[i].posted,
				limit->writers[i].read);
	kunit_info(test, "%llu entries in %llu rounds, %u s\n", entries, rounds,
		   limit_seconds);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(cq_14_a_full_queue_accepts_a_post_per_entry_read),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_limit",
	.test_cases = cases,
};

kunit_test_suite(suite);
