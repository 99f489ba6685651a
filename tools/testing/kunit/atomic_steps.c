// SPDX-License-Identifier: GPL-2.0
/*
 * Atomic operations that take several requests of the device: many elements,
 * full queues, consumers that do not read, and connections that end in between.
 */

#include <linux/delay.h>

#include "atomic.h"
#include "handler.h"

#define LEN	4096
#define AT	64
#define MOST	64	/* bytes of one operation */
#define OUTSTANDING 8	/* operations of one endpoint */

/* An operation that no device has, so it takes several requests. */
static const struct at_op maximum = {
	.form = ATOM_FETCH, .op = FI_MAX, .type = FI_UINT64, .count = 1,
	.at = AT,
};

/* Does one operation on op->count elements and checks each, wherever they are in their words. */
static void operate(struct kunit *test, struct rma_fx *fx, struct at_op *op)
{
	size_t size = at_size(op->type), len = op->count * size;
	u8 old[MOST];

	memset(fx->far, 0x5a, fx->len);
	tr_fill(fx->far + op->at, len, op->at + op->op);
	tr_fill(op->buf, len, op->at + op->count);
	tr_fill(op->compare, len, op->at + op->type);
	memset(op->result, 0xa5, MOST);
	memcpy(old, fx->far + op->at, len);
	KUNIT_ASSERT_EQ(test, 0, at_post(fx, op));
	at_expect(test, fx, op);
	for (size_t i = 0; i < len; i += size) {
		u64 v[4] = {};

		memcpy(&v[0], old + i, size);
		memcpy(&v[1], op->buf + i, size);
		memcpy(&v[2], op->compare + i, size);
		memcpy(&v[3], fx->far + op->at + i, size);
		KUNIT_EXPECT_EQ_MSG(test, at_result(op->op, op->type, v[0],
						    v[1], v[2]), v[3],
				    "op %d, type %d, element %zu of %zu",
				    op->op, op->type, i / size, op->count);
	}
	if (op->form == ATOM_BASE)
		len = 0;
	KUNIT_EXPECT_MEMEQ(test, old, op->result, len);
	KUNIT_EXPECT_NULL(test, memchr_inv(op->result + len, 0xa5, MOST - len));
	len = op->count * size;
	KUNIT_EXPECT_NULL(test, memchr_inv(fx->far, 0x5a, op->at));
	KUNIT_EXPECT_NULL(test, memchr_inv(fx->far + op->at + len, 0x5a,
					   fx->len - op->at - len));
}

static void atom_03_counts_up_to_the_limit(struct kunit *test)
{
	static const struct at_op ops[] = {
		{ .form = ATOM_BASE, .op = FI_SUM },
		{ .form = ATOM_FETCH, .op = FI_PROD },
		{ .form = ATOM_FETCH, .op = FI_ATOMIC_READ },
		{ .form = ATOM_COMPARE, .op = FI_MSWAP },
		{ .form = ATOM_COMPARE, .op = FI_CSWAP_LE },
	};
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 4 * MOST);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	size_t most;

	for (int i = 0; i < ARRAY_SIZE(ops) * (FI_UINT64 + 1); i++) {
		struct at_op op = ops[i % ARRAY_SIZE(ops)];
		size_t size;

		op.type = i / ARRAY_SIZE(ops);
		op.buf = near;
		op.compare = near + MOST;
		op.result = near + 2 * MOST;
		op.context = near;
		size = at_size(op.type);
		KUNIT_ASSERT_EQ(test, 0, at_valid(fx->pair->ep[0], &op, &most));
		KUNIT_EXPECT_EQ(test, MOST / size, most);
		/* At each offset in a word, with the most elements and with fewer. */
		for (op.at = AT; op.at < AT + 8; op.at += size) {
			op.count = most;
			operate(test, fx, &op);
			op.count = 1 + op.at % most;
			operate(test, fx, &op);
		}
	}
}

static void atom_03_operands_in_several_iocs(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 4 * MOST);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	u16 *n = (u16 *)near, *target = (u16 *)(far + AT);
	const struct fi_ioc buf[] = { { &n[0], 3 }, { NULL, 0 }, { &n[4], 5 } };
	const struct fi_ioc compare[] = { { &n[16], 8 } };
	struct fi_ioc result[] = { { &n[32], 1 }, { &n[40], 7 } };
	struct at_op op = { .form = ATOM_COMPARE, .context = near };

	for (int i = 0; i < 8; i++) {
		target[i] = 100 + i;
		/* Every second compare operand equals the target. */
		n[16 + i] = i % 2 ? 100 + i : 0;
		n[i < 3 ? i : i + 1] = 200 + i;
	}
	KUNIT_ASSERT_EQ(test, 0,
			fi_compare_atomicv(fx->pair->ep[0], buf, NULL, 3,
					   compare, NULL, 1, result, NULL, 2, 0,
					   fx->addr + AT, fx->key, FI_UINT16,
					   FI_CSWAP, near));
	at_expect(test, fx, &op);
	for (int i = 0; i < 8; i++) {
		KUNIT_EXPECT_EQ(test, i % 2 ? 200 + i : 100 + i, target[i]);
		KUNIT_EXPECT_EQ(test, 100 + i, n[i ? 39 + i : 32]);
	}
	/* The counts of elements differ. */
	result[1].count = 6;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_compare_atomicv(fx->pair->ep[0], buf, NULL, 3,
					   compare, NULL, 1, result, NULL, 2, 0,
					   fx->addr + AT, fx->key, FI_UINT16,
					   FI_CSWAP, near));
}

/* Results that the kernel stores need memory that a device can write, as others do. */
static void atom_06_invalid_result_buffers_are_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	struct at_op op = maximum;
	u64 stack = 0;
	void *const wrong[] = { NULL, &stack, (void *)8, ERR_PTR(-EINVAL) };

	memset(near, 0xff, 8);
	op.buf = near;
	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		op.result = wrong[i];
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, at_post(fx, &op));
	}
	op.result = near + 8;
	op.buf = (void *)8;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, at_post(fx, &op));
	rma_settle(test, fx);
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

/* Posts until -FI_EAGAIN; reading a completion makes space again. */
static void ep_04_multi_request_atomics_are_limited(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	struct at_op op = maximum;
	unsigned int posted = 0, done = 0, refused = 0;

	while (done < 100 * OUTSTANDING) {
		u64 *slot = (u64 *)near + 2 * (posted % OUTSTANDING);
		struct fi_cq_tagged_entry entry;
		ssize_t ret = -FI_EAGAIN;

		/* Eight slots, each reused once its completion was read. */
		if (posted - done < OUTSTANDING) {
			slot[0] = posted + 1;
			op.buf = &slot[0];
			op.result = &slot[1];
			op.context = slot;
			ret = at_post(fx, &op);
		}
		if (!ret) {
			posted++;
			continue;
		}
		refused++;
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0],
						      &entry, 1));
		KUNIT_EXPECT_EQ(test, FI_ATOMIC | FI_READ, entry.flags);
		done++;
	}
	KUNIT_EXPECT_GT(test, refused, 0);
	while (done++ < posted) {
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0],
						      &entry, 1));
	}
	KUNIT_EXPECT_EQ(test, posted, *(u64 *)(far + AT));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

static bool becomes(u64 *word, u64 value)
{
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	while (READ_ONCE(*word) != value) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(500, 1000);
	}
	return true;
}

/* Injects that many FI_MAX operations, each with a larger operand than the last. */
static void inject(struct kunit *test, struct rma_fx *fx, unsigned int count)
{
	u64 *word = (u64 *)(fx->far + AT), value = READ_ONCE(*word);

	while (count--) {
		unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		ssize_t ret;

		value++;
		do {
			ret = fi_inject_atomic(fx->pair->ep[0], &value, 1, 0,
					       fx->addr + AT, fx->key,
					       FI_UINT64, FI_MAX);
			cond_resched();
		} while (ret == -FI_EAGAIN && time_before(jiffies, end));
		KUNIT_ASSERT_EQ(test, 0, ret);
	}
	KUNIT_EXPECT_TRUE(test, becomes(word, value));
}

/* Operations proceed though the consumer does not read the queue. */
static void atomic_multi_request_proceeds_without_a_reader(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	struct at_op op = maximum;

	inject(test, fx, 10 * tr_rounds);
	/* Posted behind an unread completion. */
	op.buf = near;
	op.result = near + 8;
	op.context = near;
	KUNIT_ASSERT_EQ(test, 0, retry_while_eagain(at_post(fx, &op)));
	inject(test, fx, tr_rounds);
	at_expect(test, fx, &op);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

/* Unread completions of other operations delay neither these operations nor a shutdown. */
static void atomic_multi_request_proceeds_beside_a_full_queue(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 4 };
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 128);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, &opts);
	struct fid_ep *ep = fx->pair->ep[0];
	u64 *slot = (u64 *)near;
	struct at_op op = maximum;
	int posted = 0, completed = 0;

	tr_needs_device(test, fx->pair->info);
	while (!fi_write(ep, near, 8, NULL, 0, fx->addr, fx->key, near))
		posted++;
	KUNIT_EXPECT_EQ(test, 4, posted);
	for (int i = 0; i < OUTSTANDING; i++) {
		slot[i] = i + 1;
		op.buf = &slot[i];
		op.result = near + 64;
		op.at = AT + 8 * i;
		op.context = near;
		KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
	}
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, at_post(fx, &op));
	for (int i = 0; i < OUTSTANDING; i++)
		KUNIT_EXPECT_TRUE(test, becomes((u64 *)(far + AT) + i, i + 1));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_write(ep, near, 8, NULL, 0,
						   fx->addr, fx->key, near));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(ep, FI_WRITE));
	for (struct fi_cq_tagged_entry entry;
	     fi_cq_read(fx->pair->cq[0], &entry, 1) == 1; completed++)
		KUNIT_EXPECT_PTR_EQ(test, (void *)near, entry.op_context);
	KUNIT_EXPECT_EQ(test, posted + OUTSTANDING, completed);
}

/* FI_FENCE delays the operation until those before it are complete. */
static void ep_08_fence_waits_for_multi_request_atomics(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
	const struct fi_rma_iov remote = { fx->addr + AT, 8, fx->key };
	const struct kvec iov = { near + 16, 8 };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &remote,
		.rma_iov_count = 1, .context = near + 16,
	};
	struct at_op op = maximum;

	op.buf = near;
	op.result = near + 8;
	op.context = near;
	for (unsigned int i = 1; i <= tr_rounds; i++) {
		unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);
		ssize_t ret;

		*(u64 *)near = i;
		*(u64 *)(near + 16) = 0;
		KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
		do {
			ret = fi_readmsg(fx->pair->ep[0], &msg,
					 FI_FENCE | FI_COMPLETION);
			if (ret == -FI_EAGAIN)
				fi_cq_read(fx->pair->cq[0], NULL, 0);
			cond_resched();
		} while (ret == -FI_EAGAIN && time_before(jiffies, end));
		KUNIT_ASSERT_EQ(test, 0, ret);
		at_expect(test, fx, &op);
		rma_expect(test, fx, near + 16, FI_READ);
		KUNIT_EXPECT_EQ(test, i, *(u64 *)(near + 16));
	}
}

/*
 * Each operation has one entry, a success or a flush, and a success means that
 * the target was changed.
 */
static void cm_05_shutdown_during_multi_request_atomics(struct kunit *test)
{
	for (unsigned int round = 0; round < tr_rounds; round++) {
		u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
		struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error;
		unsigned int completed = 0;
		struct at_op op = maximum;

		for (int i = 0; i < OUTSTANDING; i++) {
			u64 *slot = (u64 *)near + 2 * i;

			slot[0] = i + 1;
			op.at = AT + 8 * i;
			op.buf = &slot[0];
			op.result = &slot[1];
			op.context = slot;
			KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
		}
		KUNIT_ASSERT_EQ(test, 0, fi_shutdown(fx->pair->ep[0], 0));
		/* The entries can be read once fi_shutdown() returned. */
		for (;;) {
			ssize_t ret = fi_cq_read(fx->pair->cq[0], &entry, 1);

			if (ret == -FI_EAGAIN)
				break;
			if (ret == 1) {
				u64 *slot = entry.op_context;
				int i = ((u8 *)slot - near) / 16;

				KUNIT_EXPECT_EQ(test, i + 1,
						*(u64 *)(far + AT + 8 * i));
			} else {
				KUNIT_ASSERT_EQ(test, -FI_EAVAIL, ret);
				KUNIT_ASSERT_EQ(test, 1,
						fi_cq_readerr(fx->pair->cq[0],
							      &error, 0));
				KUNIT_EXPECT_EQ(test, FI_ECANCELED, error.err);
				KUNIT_EXPECT_EQ(test, FI_ATOMIC | FI_READ,
						error.flags);
			}
			completed++;
		}
		KUNIT_EXPECT_EQ(test, OUTSTANDING, completed);
	}
}

static void cm_07_close_during_multi_request_atomics(struct kunit *test)
{
	for (unsigned int round = 0; round < tr_rounds; round++) {
		u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
		struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, NULL);
		u64 value = 1;

		for (int i = 0; i < OUTSTANDING; i++)
			KUNIT_ASSERT_EQ(test, 0,
					fi_inject_atomic(fx->pair->ep[0], &value,
							 1, 0,
							 fx->addr + 8 * i,
							 fx->key, FI_UINT64,
							 FI_BOR));
		if (round % 2)
			usleep_range(10 * round, 20 * round);
		fx_close(test, &fx->pair->ep[round / 2 % 2]->fid);
		/* Closing freed the buffer: the device does not use it any more. */
		memset(near, 0, 64);
	}
}

/* An operation counts once, whatever number of requests it took. */
static void cntr_03_multi_request_atomics_count_once(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.count = true, .tx_flags = FI_SELECTIVE_COMPLETION,
	};
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
	struct rma_fx *fx = at_open(test, far, LEN, RMA_BOTH, &opts);
	struct at_op op = maximum;

	op.buf = near;
	op.result = near + 8;
	for (int i = 1; i <= 50; i++) {
		*(u64 *)near = i;
		op.form = i % 2 ? ATOM_BASE : ATOM_FETCH;
		KUNIT_ASSERT_EQ(test, 0, at_post(fx, &op));
		KUNIT_ASSERT_EQ(test, 0,
				fi_cntr_wait(fx->pair->cntr[0][i % 2 ? FX_WRITES :
							       FX_READS],
					     (i + 1) / 2, FX_WAIT_MS));
	}
	KUNIT_EXPECT_EQ(test, 25, fi_cntr_read(fx->pair->cntr[0][FX_WRITES]));
	KUNIT_EXPECT_EQ(test, 25, fi_cntr_read(fx->pair->cntr[0][FX_READS]));
	KUNIT_EXPECT_EQ(test, 0, fi_cntr_readerr(fx->pair->cntr[0][FX_READS]));
	/* No operation wrote an entry besides. */
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, 50, *(u64 *)(far + AT));
}

/* An initiator that runs in its handler: each completion posts the next operation. */
struct chain {
	struct rma_fx	fx;
	struct at_op	op;
	int		left;
	ssize_t		result;
	struct completion over;
};

static void post_next(struct hd_queue *queue)
{
	struct chain *chain = queue->data;
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(queue->cq, &entry, 1)) == 1) {
		if (!--chain->left) {
			complete(&chain->over);
			continue;
		}
		++*(u64 *)chain->op.buf;
		chain->result = at_post(&chain->fx, &chain->op);
		if (chain->result)
			complete(&chain->over);
	}
	if (ret != -FI_EAGAIN) {
		chain->result = ret;
		complete(&chain->over);
	}
}

/*
 * Waits for the end of a chain. Fails if no operation completes for FX_WAIT_MS: with many of them,
 * all together take longer where a handler is called once in each timer tick.
 */
static bool await_chain(struct chain *chain)
{
	int left;

	do {
		left = READ_ONCE(chain->left);
		if (wait_for_completion_timeout(&chain->over, msecs_to_jiffies(FX_WAIT_MS)))
			return true;
	} while (READ_ONCE(chain->left) < left);
	return false;
}

static void cq_17_multi_request_atomics_in_the_handler(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, 64);
	struct chain *chain = (void *)tr_buffer(test, sizeof(*chain));
	struct kofi_pair *pair = (void *)tr_buffer(test, sizeof(*pair));
	struct kofi_fabric_fx *fx = fx_open_for(test, FI_THREAD_SAFE);
	const int count = 20 * tr_rounds;
	struct fi_info *hints = fx_hints(test);
	struct hd_queue *queue;

	if (!at_offered(test))
		kunit_skip(test, "the device has none");
	hints->caps |= FI_RMA | FI_ATOMIC;
	hints->rx_attr->mode |= FI_RX_CQ_DATA;
	fx->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	chain->fx.pair = pair;
	chain->fx.addr = (uintptr_t)far;
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->domain, far, LEN, RMA_BOTH, 0,
					   0, 0, &chain->fx.mr, NULL));
	fx_defer_close(test, &chain->fx.mr->fid);
	chain->fx.key = fi_mr_key(chain->fx.mr);
	chain->op = maximum;
	chain->op.buf = near;
	chain->op.result = near + 8;
	chain->left = count;
	init_completion(&chain->over);
	queue = hd_open(test, fx, *(const bool *)test->param_value, post_next,
			chain);
	hd_connect(test, fx, queue, NULL, pair->ep);

	/* The first read finds nothing and arms the handler. */
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(queue->cq, NULL, 0));
	*(u64 *)near = 1;
	KUNIT_ASSERT_EQ(test, 0, at_post(&chain->fx, &chain->op));
	KUNIT_EXPECT_TRUE(test, await_chain(chain));
	KUNIT_EXPECT_EQ(test, 0, chain->result);
	KUNIT_EXPECT_EQ(test, 0, chain->left);
	KUNIT_EXPECT_EQ(test, count, *(u64 *)(far + AT));
	KUNIT_EXPECT_TRUE(test, hd_wait_idle(test, queue));
	hd_check(test, queue);
}

KUNIT_ARRAY_PARAM(places, hd_hard, hd_name_context);

static struct kunit_case cases[] = {
	KUNIT_CASE(atom_03_counts_up_to_the_limit),
	KUNIT_CASE(atom_03_operands_in_several_iocs),
	KUNIT_CASE(atom_06_invalid_result_buffers_are_refused),
	KUNIT_CASE(ep_04_multi_request_atomics_are_limited),
	KUNIT_CASE(ep_08_fence_waits_for_multi_request_atomics),
	KUNIT_CASE(atomic_multi_request_proceeds_without_a_reader),
	KUNIT_CASE(atomic_multi_request_proceeds_beside_a_full_queue),
	KUNIT_CASE(cm_05_shutdown_during_multi_request_atomics),
	KUNIT_CASE(cm_07_close_during_multi_request_atomics),
	KUNIT_CASE(cntr_03_multi_request_atomics_count_once),
	KUNIT_CASE_PARAM(cq_17_multi_request_atomics_in_the_handler, places_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_atomic_steps",
	.test_cases = cases,
};

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE(atom_03_operands_in_several_iocs),
	KUNIT_CASE(atom_06_invalid_result_buffers_are_refused),
	{}
};

static struct kunit_suite datagram_suite = {
	.name = "kofi_rdm_atomic_steps",
	.init = at_init_rdm,
	.test_cases = datagram_cases,
};

kunit_test_suites(&suite, &datagram_suite);
