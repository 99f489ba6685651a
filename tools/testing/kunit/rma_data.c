// SPDX-License-Identifier: GPL-2.0
/*
 * Tests RMA 1 of CONTRACT: writes with remote CQ data, each of which uses a
 * receive of the target.
 */

#include "rma.h"

#define LEN 256

static void skip_without_data(struct kunit *test, const struct rma_fx *fx)
{
	if (!fx->pair->info->domain_attr->cq_data_size)
		kunit_skip(test, "the device has no data");
}

static void expect_data(struct kunit *test, struct rma_fx *fx, void *context,
			size_t len, u64 data)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[1], &entry,
					      1));
	KUNIT_EXPECT_PTR_EQ(test, context, entry.op_context);
	KUNIT_EXPECT_EQ(test, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
			entry.flags);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_EQ(test, data, entry.data);
}

/* The receive's buffer is unchanged, and the written data is there at the completion. */
static void rma_01_remote_cq_data_consumes_a_receive(struct kunit *test)
{
	static const u32 data[] = { 0, 1, 0x01020304, 0x80000000, 0xffffffff };
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	u8 *in = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, NULL);

	skip_without_data(test, fx);
	for (int i = 0; i < ARRAY_SIZE(data); i++) {
		tr_fill(near, LEN, i);
		KUNIT_ASSERT_EQ(test, 0, fi_recv(fx->pair->ep[1], in, LEN, NULL,
						 0, in + i));
		KUNIT_ASSERT_EQ(test, 0, fi_writedata(fx->pair->ep[0], near,
						      LEN, NULL, data[i], 0,
						      fx->addr, fx->key, near));
		expect_data(test, fx, in + i, LEN, data[i]);
		KUNIT_EXPECT_TRUE(test, tr_intact(far, LEN, i));
		KUNIT_EXPECT_NULL(test, memchr_inv(in, 0, LEN));
		rma_expect(test, fx, near, FI_WRITE);
	}
}

/* The completion flags distinguish writes with data, messages, and messages with data. */
static void rma_01_remote_cq_data_among_messages(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	u8 *in = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, NULL);
	struct fi_cq_tagged_entry entry[4] = {};
	struct fid_ep *ep = fx->pair->ep[0];
	static const u64 flags[4] = {
		FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
		FI_RECV | FI_MSG,
		FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA,
		FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
	};

	skip_without_data(test, fx);
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recv(fx->pair->ep[1], in, LEN, NULL,
						 0, in + i));
	KUNIT_ASSERT_EQ(test, 0, fi_writedata(ep, near, 8, NULL, 1, 0, fx->addr,
					      fx->key, near));
	KUNIT_ASSERT_EQ(test, 0, fi_write(ep, near, 8, NULL, 0, fx->addr,
					  fx->key, near));
	KUNIT_ASSERT_EQ(test, 0, fi_send(ep, near, 9, NULL, 0, near));
	KUNIT_ASSERT_EQ(test, 0, fi_senddata(ep, near, 10, NULL, 3, 0, near));
	KUNIT_ASSERT_EQ(test, 0, fi_inject_writedata(ep, near, 11, 4, 0,
						     fx->addr, fx->key));
	KUNIT_ASSERT_EQ(test, 4, fx_wait_comp(test, fx->pair->cq[1], entry, 4));
	for (int i = 0; i < 4; i++) {
		KUNIT_EXPECT_PTR_EQ(test, (void *)(in + i),
				    entry[i].op_context);
		KUNIT_EXPECT_EQ(test, flags[i], entry[i].flags);
		KUNIT_EXPECT_EQ(test, 8 + i, entry[i].len);
		KUNIT_EXPECT_EQ(test, i == 1 ? 0 : i + 1, entry[i].data);
	}
}

/* With selective completion the target still gets entries of CQ data, and none of messages. */
static void rma_01_remote_cq_data_is_always_reported(struct kunit *test)
{
	const struct fx_pair_opts opts = { .rx_flags = FI_SELECTIVE_COMPLETION };
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, &opts);
	struct fid_ep *ep = fx->pair->ep[0];
	const struct fi_msg receive = { .context = near };

	skip_without_data(test, fx);
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(fx->pair->ep[1], &receive,
						    0));
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, fi_send(ep, NULL, 0, NULL, 0, near));
		KUNIT_ASSERT_EQ(test, 0, fi_inject_writedata(ep, near, 8, i, 0,
							     fx->addr,
							     fx->key));
		tr_expect(test, fx->pair->cq[0], near, FI_SEND, 0);
		rma_settle(test, fx);
		/* In the second round a shutdown drains the queue before the entry is read. */
		if (i)
			KUNIT_ASSERT_EQ(test, 0, fi_shutdown(fx->pair->ep[1],
							     0));
		expect_data(test, fx, near, 8, i);
	}
}

static void rma_01_data_beyond_32_bits_is_refused(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct rma_fx *fx = rma_open(test, far, LEN, RMA_BOTH, NULL);
	struct fid_ep *ep = fx->pair->ep[0];
	int want = fx->pair->info->domain_attr->cq_data_size ? -FI_EINVAL :
							       -FI_EOPNOTSUPP;

	KUNIT_EXPECT_EQ(test, want, fi_writedata(ep, near, 8, NULL, 1ULL << 32,
						 0, fx->addr, fx->key, near));
	KUNIT_EXPECT_EQ(test, want, fi_inject_writedata(ep, near, 8, ~0ULL, 0,
							fx->addr, fx->key));
	rma_settle(test, fx);
	KUNIT_EXPECT_NULL(test, memchr_inv(far, 0, LEN));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(rma_01_remote_cq_data_consumes_a_receive),
	KUNIT_CASE(rma_01_remote_cq_data_among_messages),
	KUNIT_CASE(rma_01_remote_cq_data_is_always_reported),
	KUNIT_CASE(rma_01_data_beyond_32_bits_is_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_rma_data",
	.test_cases = cases,
};

kunit_test_suite(suite);
