// SPDX-License-Identifier: GPL-2.0
/*
 * Tests MR of CONTRACT: messages that invalidate a key of their receiver
 * (FI_REMOTE_INVALIDATE).
 */

#include "mr_ep.h"

#define LEN	(2 * PAGE_SIZE)

static ssize_t send_invalidating(struct fid_ep *ep, const struct kvec *iov,
				 u64 key, u64 flags)
{
	const struct fi_msg msg = {
		.msg_iov = iov,
		.iov_count = iov ? 1 : 0,
		.context = (void *)iov,
		.data = key,
	};

	return fi_sendmsg(ep, &msg, FI_REMOTE_INVALIDATE | flags);
}

/* Sends a message with the key from the first endpoint, and checks the entries of both sides. */
static void invalidate(struct kunit *test, struct kofi_pair *pair, u64 key,
		       u8 *near, u8 *to, size_t len)
{
	const struct kvec iov = { near, len };
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], to, len));
	KUNIT_ASSERT_EQ(test, 0, send_invalidating(pair->ep[0], len ? &iov : NULL,
						   key, FI_COMPLETION));
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[0], &entry, 1));
	KUNIT_EXPECT_EQ(test, FI_SEND | FI_MSG, entry.flags);
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
	KUNIT_EXPECT_EQ(test, FI_RECV | FI_MSG | FI_REMOTE_INVALIDATE,
			entry.flags);
	KUNIT_EXPECT_EQ(test, key, entry.data);
	KUNIT_EXPECT_EQ(test, len, entry.len);
	KUNIT_EXPECT_PTR_EQ(test, (void *)to, entry.op_context);
}

/* The region of the key can be closed and registered again at once. */
static void mr_04_messages_invalidate_keys(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	u8 *to = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 1, 2);
	u64 addr = (uintptr_t)far;

	for (int i = 0; i < 600; i++) {
		/* Messages of no bytes, inline ones, and longer ones. */
		size_t len = i % 3 ? i % 3 * 16 : 0;
		struct fid_mr *mr = me_open(test, pair, far, LEN, RMA_BOTH,
					    FI_COMPLETION, far);
		u64 key = fi_mr_key(mr);

		me_send(test, pair);
		if (i % 64 == 0)
			KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_READ,
							   near, 64, addr,
							   key));
		len = i % 100 == 99 ? LEN : len;
		tr_fill(near, len, i);
		invalidate(test, pair, key, near, to, len);
		KUNIT_EXPECT_TRUE(test, tr_intact(to, len, i));
		/* No entry follows. */
		KUNIT_ASSERT_EQ(test, 0, fi_close(&mr->fid));
	}
	me_send(test, pair);
}

/* A message invalidates the region of its key among several, and no other. */
static void mr_04_messages_invalidate_one_region_of_several(struct kunit *test)
{
	static const u8 order[] = { 2, 0, 4, 1, 3 };
	u8 *far = tr_buffer(test, ARRAY_SIZE(order) * LEN);
	u8 *near = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, ARRAY_SIZE(order), 2);
	struct fid_mr *mr[ARRAY_SIZE(order)];

	for (int i = 0; i < ARRAY_SIZE(order); i++)
		mr[i] = me_open(test, pair, far + i * LEN, LEN, RMA_BOTH,
				FI_COMPLETION, far + i * LEN);
	me_send(test, pair);
	for (int i = 0; i < ARRAY_SIZE(order); i++) {
		int at = order[i];

		KUNIT_ASSERT_EQ(test, 0, me_access(test, pair, FI_READ, near, 64,
						   (uintptr_t)far + at * LEN,
						   fi_mr_key(mr[at])));
		invalidate(test, pair, fi_mr_key(mr[at]), near, NULL, 0);
		/* No entry follows: me_send() would read it. */
		KUNIT_ASSERT_EQ(test, 0, fi_close(&mr[at]->fid));
		me_send(test, pair);
	}
}

static void mr_04_invalidated_keys_give_no_access(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 1, 2);
	struct fid_mr *mr = me_open(test, pair, far, LEN, RMA_BOTH, 0, NULL);
	u64 key = fi_mr_key(mr);

	me_send(test, pair);
	invalidate(test, pair, key, near, NULL, 0);
	KUNIT_EXPECT_NE(test, 0, me_access(test, pair, FI_READ, near, 1,
					   (uintptr_t)far, key));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&mr->fid));
}

/* A message that names another variant of the key does not hide that the key is invalid. */
static void mr_04_a_second_message_hides_no_invalidation(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 1, 2);
	struct fi_cq_tagged_entry entry = {};
	struct fid_mr *mr;
	u64 key;

	if (!tr_is_iwarp(pair->info))
		kunit_skip(test, "the device compares whole keys");
	mr = me_open(test, pair, far, LEN, RMA_BOTH, FI_COMPLETION, far);
	key = fi_mr_key(mr);
	me_send(test, pair);
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[1], NULL, 0));
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, send_invalidating(pair->ep[0], NULL,
							   key ^ i,
							   FI_COMPLETION));
	for (int i = 0; i < 2; i++)
		tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
		KUNIT_EXPECT_EQ(test, key ^ i, entry.data);
	}
	/* No entry follows: me_send() would read it. */
	KUNIT_ASSERT_EQ(test, 0, fi_close(&mr->fid));
	me_send(test, pair);
}

/*
 * The key of a region that is closed after the connection has ended is valid for other connections
 * of the domain. Another fi_shutdown() ends that.
 */
static void mr_06_shutdown_ends_regions_that_were_closed_after_it(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN), *near = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 1, 2), *other;
	u64 addr = (uintptr_t)far, key;
	struct fid_mr *mr;

	other = (void *)tr_buffer(test, sizeof(*other));
	*other = *pair;
	other->ep[0] = fx_ep(test, pair->domain, pair->info);
	fx_bind(test, other->ep[0], pair->eq, pair->cq[0], FI_TRANSMIT | FI_RECV);
	other->ep[1] = fx_connect(test, pair->domain, other->ep[0], pair->pep, pair->eq,
				  pair->cq[1]);
	mr = me_open(test, pair, far, LEN, RMA_BOTH, 0, NULL);
	key = fi_mr_key(mr);
	me_send(test, pair);
	KUNIT_ASSERT_EQ(test, 0, me_access(test, other, FI_READ, near, 64, addr, key));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	me_close(test, mr);
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(pair->ep[1], 0));
	KUNIT_EXPECT_NE(test, 0, me_access(test, other, FI_READ, near, 64, addr, key));
}

/* A receive without FI_COMPLETION at a selective queue reports a message that invalidated a key. */
static void mr_04_silent_receives_report_invalidations(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair_with(test, (struct fx_pair_opts){
		.mr_pool = 1, .mr_pages = 2,
		.rx_flags = FI_SELECTIVE_COMPLETION });
	struct fid_mr *mr = me_open(test, pair, far, LEN, RMA_BOTH,
				    FI_COMPLETION, far);
	struct fi_cq_tagged_entry entry = {};
	const struct fi_msg msg = {};
	u64 key = fi_mr_key(mr);

	KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[0], &msg, FI_COMPLETION));
	KUNIT_ASSERT_EQ(test, 0, tr_send(pair->ep[1], NULL, 0));
	for (int side = 0; side < 2; side++)
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[side],
						      &entry, 1));
	KUNIT_ASSERT_EQ(test, 0, fi_recvmsg(pair->ep[1], &msg, 0));
	KUNIT_ASSERT_EQ(test, 0, send_invalidating(pair->ep[0], NULL, key, 0));
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[1], &entry, 1));
	KUNIT_EXPECT_EQ(test, key, entry.data);
	KUNIT_EXPECT_NE(test, 0, entry.flags & FI_REMOTE_INVALIDATE);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&mr->fid));
}

/* Each side invalidates regions of the other one. */
static void mr_04_both_sides_invalidate_keys(struct kunit *test)
{
	u8 *far = tr_buffer(test, LEN);
	struct kofi_pair *pair = me_pair(test, 2, 2);
	struct fi_cq_tagged_entry entry = {};
	struct fid_mr *mr[2];

	for (int side = 0; side < 2; side++) {
		KUNIT_ASSERT_EQ(test, 0, me_map(pair->domain, far, LEN,
						FI_REMOTE_READ, &mr[side],
						NULL));
		KUNIT_ASSERT_EQ(test, 0, fi_mr_bind(mr[side],
						    &pair->ep[side]->fid, 0));
		KUNIT_ASSERT_EQ(test, 0, fi_mr_enable(mr[side]));
		KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[side], NULL, 0));
	}
	me_send(test, pair);
	/* The receive of the first endpoint has been taken. */
	KUNIT_ASSERT_EQ(test, 0, tr_recv(pair->ep[0], NULL, 0));
	for (int side = 0; side < 2; side++) {
		struct fid_cq *cq = pair->cq[!side];
		u64 key = fi_mr_key(mr[!side]);

		KUNIT_ASSERT_EQ(test, 0, send_invalidating(pair->ep[side], NULL,
							   key, 0));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, pair->cq[side],
						      &entry, 1));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, cq, &entry, 1));
		KUNIT_EXPECT_EQ(test, key, entry.data);
		KUNIT_EXPECT_NE(test, 0, entry.flags & FI_REMOTE_INVALIDATE);
	}
	for (int side = 0; side < 2; side++)
		KUNIT_EXPECT_EQ(test, 0, fi_close(&mr[side]->fid));
}

static void mr_04_unsuitable_invalidations_are_refused(struct kunit *test)
{
	u8 *near = tr_buffer(test, 64);
	const struct kvec iov = { near, 64 };
	struct kofi_pair *pair = me_pair(test, 1, 1);
	const struct fi_rma_iov range = { .addr = 0, .len = 64, .key = 1 };
	const struct fi_msg_rma rma = {
		.msg_iov = &iov, .iov_count = 1,
		.rma_iov = &range, .rma_iov_count = 1,
	};
	struct fid_ep *ep = pair->ep[0];

	KUNIT_EXPECT_EQ(test, -FI_ENOKEY, send_invalidating(ep, &iov, U64_MAX,
							    0));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, send_invalidating(ep, &iov, 1,
							       FI_INJECT));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_writemsg(ep, &rma,
							 FI_REMOTE_INVALIDATE));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_readmsg(ep, &rma,
							FI_REMOTE_INVALIDATE));
	me_send(test, pair);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(mr_04_messages_invalidate_keys),
	KUNIT_CASE(mr_04_messages_invalidate_one_region_of_several),
	KUNIT_CASE(mr_04_invalidated_keys_give_no_access),
	KUNIT_CASE(mr_04_a_second_message_hides_no_invalidation),
	KUNIT_CASE(mr_06_shutdown_ends_regions_that_were_closed_after_it),
	KUNIT_CASE(mr_04_silent_receives_report_invalidations),
	KUNIT_CASE(mr_04_both_sides_invalidate_keys),
	KUNIT_CASE(mr_04_unsuitable_invalidations_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mr_ep_invalidate",
	.test_cases = cases,
};

kunit_test_suite(suite);
