// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RMA 3, EP 7 and EP 8 of CONTRACT: ordering of RMA and messages, the
 * number of pending operations, and unsignalled operations.
 */

#include <linux/sizes.h>

#include "rma.h"

#define CHUNK	4096
#define QUEUE_SIZE	64	/* more reads than any device processes at a time */

static void post(struct kunit *test, struct rma_fx *fx, u64 flag, u64 flags,
		 u8 *near, size_t len, u64 at)
{
	const struct kvec iov = { near, len };
	const struct fi_rma_iov remote = { fx->addr + at, len, fx->key };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = near,
	};
	struct fid_ep *ep = fx->pair->ep[0];

	KUNIT_ASSERT_EQ(test, 0, flag == FI_READ ?
			fi_readmsg(ep, &msg, flags) :
			fi_writemsg(ep, &msg, flags));
}

/* The fenced write sends the data of the read before it; the test does not wait in between. */
static void ep_08_a_fence_waits_for_reads(struct kunit *test)
{
	const size_t half = SZ_64K;
	u8 *far = tr_buffer(test, 2 * half), *near = tr_buffer(test, half);
	struct rma_fx *fx = rma_open(test, far, 2 * half, RMA_BOTH, NULL);

	for (int i = 0; i < 8; i++) {
		tr_fill(far, half, i);
		post(test, fx, FI_READ, 0, near, half, 0);
		post(test, fx, FI_WRITE, FI_FENCE, near, half, half);
		rma_expect(test, fx, near, FI_READ);
		rma_expect(test, fx, near, FI_WRITE);
		rma_settle(test, fx);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(far + half, half, i),
				      "round %d", i);
	}
}

static void ep_08_a_fenced_message_waits_for_reads(struct kunit *test)
{
	const size_t len = SZ_64K;
	u8 *far = tr_buffer(test, len), *near = tr_buffer(test, len);
	u8 *in = tr_buffer(test, len);
	struct rma_fx *fx = rma_open(test, far, len, RMA_BOTH, NULL);
	const struct kvec iov = { near, len };
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.context = near,
	};

	KUNIT_ASSERT_EQ(test, 0, fi_recv(fx->pair->ep[1], in, len, NULL, 0,
					 in));
	tr_fill(far, len, 1);
	post(test, fx, FI_READ, 0, near, len, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_sendmsg(fx->pair->ep[0], &msg, FI_FENCE));
	tr_expect(test, fx->pair->cq[1], in, FI_RECV, len);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, len, 1));
}

/* A read returns the data of the write before it, with a fence and without. */
static void ep_08_a_read_returns_the_write_before_it(struct kunit *test)
{
	u8 *far = tr_buffer(test, CHUNK), *out = tr_buffer(test, CHUNK);
	u8 *in = tr_buffer(test, CHUNK);
	struct rma_fx *fx = rma_open(test, far, CHUNK, RMA_BOTH, NULL);

	for (int i = 0; i < 16; i++) {
		tr_fill(out, CHUNK, i);
		post(test, fx, FI_WRITE, 0, out, CHUNK, 0);
		post(test, fx, FI_READ, i % 2 ? FI_FENCE : 0, in, CHUNK, 0);
		rma_expect(test, fx, out, FI_WRITE);
		rma_expect(test, fx, in, FI_READ);
		KUNIT_EXPECT_TRUE_MSG(test, tr_intact(in, CHUNK, i),
				      "round %d", i);
	}
}

/* Completions of messages, reads and writes have the order of their posts. */
static void rma_03_completions_keep_their_order(struct kunit *test)
{
	u8 *far = tr_buffer(test, CHUNK), *near = tr_buffer(test, CHUNK);
	struct rma_fx *fx = rma_open(test, far, CHUNK, RMA_BOTH, NULL);
	static const u64 kinds[] = { FI_READ, FI_WRITE, FI_SEND, FI_READ,
				     FI_SEND, FI_WRITE };

	for (int i = 0; i < 10; i++) {
		for (int k = 0; k < ARRAY_SIZE(kinds); k++) {
			void *context = near + k;

			if (kinds[k] != FI_SEND) {
				post(test, fx, kinds[k], 0, context, CHUNK / 2,
				     0);
				continue;
			}
			KUNIT_ASSERT_EQ(test, 0, fi_recv(fx->pair->ep[1], NULL,
							 0, NULL, 0, NULL));
			KUNIT_ASSERT_EQ(test, 0, fi_send(fx->pair->ep[0], NULL,
							 0, NULL, 0, context));
		}
		for (int k = 0; k < ARRAY_SIZE(kinds); k++) {
			struct fi_cq_tagged_entry entry = {};

			KUNIT_ASSERT_EQ(test, 1,
					fx_wait_comp(test, fx->pair->cq[0],
						     &entry, 1));
			KUNIT_EXPECT_PTR_EQ(test, (void *)(near + k),
					    entry.op_context);
			KUNIT_EXPECT_EQ(test, kinds[k], entry.flags &
					(FI_READ | FI_WRITE | FI_SEND));
		}
	}
}

/* Each side posts as many reads as its queue holds. */
static void rma_03_more_reads_than_the_device_processes(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = QUEUE_SIZE };
	u8 *far = tr_buffer(test, QUEUE_SIZE * CHUNK);
	u8 *near = tr_buffer(test, 2 * QUEUE_SIZE * CHUNK);
	struct rma_fx *fx = rma_open(test, far, QUEUE_SIZE * CHUNK, RMA_BOTH, &opts);

	tr_fill(far, QUEUE_SIZE * CHUNK, 3);
	for (int i = 0; i < 2 * QUEUE_SIZE; i++)
		KUNIT_ASSERT_EQ(test, 0,
				fi_read(fx->pair->ep[i % 2], near + i * CHUNK,
					CHUNK, NULL, 0, fx->addr + i / 2 * CHUNK,
					fx->key, near + i * CHUNK));
	for (int i = 0; i < 2 * QUEUE_SIZE; i++) {
		struct fi_cq_tagged_entry entry = {};

		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test,
						      fx->pair->cq[i % 2],
						      &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, (void *)(near + i * CHUNK),
				    entry.op_context);
		KUNIT_EXPECT_MEMEQ(test, near + i * CHUNK,
				   far + i / 2 * CHUNK, CHUNK);
	}
}

static void rma_03_a_full_queue(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 4 };
	u8 *far = tr_buffer(test, CHUNK), *near = tr_buffer(test, CHUNK);
	struct rma_fx *fx = rma_open(test, far, CHUNK, RMA_BOTH, &opts);
	struct fid_ep *ep = fx->pair->ep[0];

	tr_needs_device(test, fx->pair->info);
	for (int i = 0; i < 4; i++)
		post(test, fx, i % 2 ? FI_READ : FI_WRITE, 0, near, 8, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_read(ep, near, 8, NULL, 0,
						  fx->addr, fx->key, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_write(ep, near, 8, NULL, 0,
						   fx->addr, fx->key, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_inject_write(ep, near, 8, 0,
							  fx->addr, fx->key));
	rma_expect(test, fx, near, FI_WRITE);
	post(test, fx, FI_READ, 0, near, 8, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_inject_write(ep, near, 8, 0,
							  fx->addr, fx->key));
	for (int i = 1; i < 5; i++)
		rma_expect(test, fx, near, i % 2 || i == 4 ? FI_READ : FI_WRITE);
}

static const struct rma_call *const unsignalled[] = {
	&rma_calls[0], &rma_calls[3], &rma_calls[7],
};

static void name_unsignalled(const struct rma_call *const *call, char *name)
{
	strscpy(name, (*call)->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(unsignalled, unsignalled, name_unsignalled);

#define MANY (150 * (int)tr_rounds)

/* The writes ask for no entries, and the queue is not read before the end. */
static void ep_07_thousands_of_unsignalled_operations(struct kunit *test)
{
	const struct rma_call *call =
		*(const struct rma_call *const *)test->param_value;
	const struct fx_pair_opts opts = {
		.tx_size = 16,
		.tx_flags = FI_SELECTIVE_COMPLETION,
	};
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u8 *far = tr_buffer(test, 64), *near = tr_buffer(test, 64);
	struct rma_fx *fx = rma_open(test, far, 64, RMA_BOTH, &opts);

	/* The last operation is a read with an entry. */
	for (int i = 0; i <= MANY; i++) {
		const struct rma_op op = {
			.near = near + i % 8 * 8,
			.len = 8,
			.context = near,
		};
		ssize_t ret;

		do {
			ret = (i < MANY ? call : &rma_calls[2])->post(fx,
								      &op);
			cond_resched();
		} while (ret == -FI_EAGAIN && time_before(jiffies, end));
		KUNIT_ASSERT_EQ_MSG(test, 0, ret, "post %d", i);
	}
	rma_expect(test, fx, near, FI_READ);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

/* The numbers arrive in order: a write is never overtaken by a later one. */
static void rma_03_injected_writes_keep_their_order(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 8 };
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	u64 *far = (u64 *)tr_buffer(test, 64), number;
	struct rma_fx *fx = rma_open(test, (u8 *)far, 64, RMA_BOTH, &opts);
	const struct rma_op op = { .near = (u8 *)&number, .len = 8 };
	u64 seen = 0, last = 0;

	for (number = 1; number <= 1000; number++) {
		ssize_t ret;

		do {
			ret = rma_calls[7].post(fx, &op);
			seen = READ_ONCE(*far);
			KUNIT_ASSERT_LE(test, last, seen);
			KUNIT_ASSERT_LE(test, seen, number);
			last = seen;
			cond_resched();
		} while (ret == -FI_EAGAIN && time_before(jiffies, end));
		KUNIT_ASSERT_EQ(test, 0, ret);
	}
	rma_settle(test, fx);
	KUNIT_EXPECT_EQ(test, 1000, *far);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_08_a_fence_waits_for_reads),
	KUNIT_CASE(ep_08_a_fenced_message_waits_for_reads),
	KUNIT_CASE(ep_08_a_read_returns_the_write_before_it),
	KUNIT_CASE(rma_03_completions_keep_their_order),
	KUNIT_CASE(rma_03_more_reads_than_the_device_processes),
	KUNIT_CASE(rma_03_a_full_queue),
	KUNIT_CASE_PARAM(ep_07_thousands_of_unsignalled_operations,
			 unsignalled_gen_params),
	KUNIT_CASE(rma_03_injected_writes_keep_their_order),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rma_order",
	.test_cases = cases,
};

kunit_test_suite(suite);
