// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the fast path of data transfers: registered memory, and a consumer that
 * serializes its data calls (FI_THREAD_COMPLETION). Operations that the fast
 * path does not handle have to take the slow path. Most other suites use
 * unregistered memory.
 */

#include <rdma/fi_atomic.h>

#include "rma.h"

#define LEN	1024	/* more than inject_size */
#define SHORT_LEN	16

struct fast {
	struct rma_fx		*fx;
	struct kofi_pair	*pair;
	u8			*near;
	void			*desc;
	void			*far_desc;
};

static struct fast *open_fast(struct kunit *test,
			      const struct fx_pair_opts *opts)
{
	struct fx_pair_opts serial = opts ? *opts : (struct fx_pair_opts){};
	struct fast *fast = (void *)tr_buffer(test, sizeof(*fast));
	struct fid_mr *mr;

	serial.threading = FI_THREAD_COMPLETION;
	fast->near = tr_buffer(test, LEN);
	fast->fx = rma_open(test, tr_buffer(test, LEN), LEN, RMA_BOTH,
			    &serial);
	fast->pair = fast->fx->pair;
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fast->pair->domain, fast->near,
					   LEN, 0, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	fast->desc = fi_mr_desc(mr);
	fast->far_desc = fi_mr_desc(fast->fx->mr);
	return fast;
}

static ssize_t send(struct fast *fast, size_t len)
{
	return fi_send(fast->pair->ep[0], fast->near, len, fast->desc, 0,
		       fast->near);
}

static ssize_t recv(struct fast *fast, size_t len)
{
	u8 *far = fast->fx->far;

	return fi_recv(fast->pair->ep[1], far, len, fast->far_desc, 0, far);
}

static ssize_t write(struct fast *fast, size_t len)
{
	return fi_write(fast->pair->ep[0], fast->near, len, fast->desc, 0,
			fast->fx->addr, fast->fx->key, fast->near);
}

static ssize_t read(struct fast *fast, size_t len)
{
	return fi_read(fast->pair->ep[0], fast->near, len, fast->desc, 0,
		       fast->fx->addr, fast->fx->key, fast->near);
}

static void set_flags(struct kunit *test, struct fid_ep *ep, u64 flags)
{
	KUNIT_ASSERT_EQ(test, 0, fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
}

static void ep_03_data_is_intact_on_the_fast_path(struct kunit *test)
{
	struct fast *fast = open_fast(test, NULL);
	u8 *near = fast->near, *far = fast->fx->far;

	for (size_t len = 1; len <= LEN; len *= 2) {
		tr_fill(near, len, len);
		KUNIT_ASSERT_EQ(test, 0, recv(fast, LEN));
		KUNIT_ASSERT_EQ(test, 0, send(fast, len));
		tr_expect(test, fast->pair->cq[0], near, FI_SEND, 0);
		tr_expect(test, fast->pair->cq[1], far, FI_RECV, len);
		KUNIT_EXPECT_TRUE(test, tr_intact(far, len, len));

		tr_fill(near, len, ~len);
		KUNIT_ASSERT_EQ(test, 0, write(fast, len));
		rma_expect(test, fast->fx, near, FI_WRITE);
		rma_settle(test, fast->fx);
		KUNIT_EXPECT_TRUE(test, tr_intact(far, len, ~len));

		memset(near, 0, len);
		KUNIT_ASSERT_EQ(test, 0, read(fast, len));
		rma_expect(test, fast->fx, near, FI_READ);
		KUNIT_EXPECT_TRUE(test, tr_intact(near, len, ~len));
	}
}

/* Completions keep the posting order, also when a later operation is faster. */
static void cq_03_completions_are_in_order(struct kunit *test)
{
	struct fast *fast = open_fast(test, NULL);

	for (int i = 0; i < tr_rounds; i++) {
		KUNIT_ASSERT_EQ(test, 0, recv(fast, LEN));
		KUNIT_ASSERT_EQ(test, 0, read(fast, LEN));
		KUNIT_ASSERT_EQ(test, 0, write(fast, SHORT_LEN));
		KUNIT_ASSERT_EQ(test, 0, send(fast, SHORT_LEN));
		rma_expect(test, fast->fx, fast->near, FI_READ);
		rma_expect(test, fast->fx, fast->near, FI_WRITE);
		tr_expect(test, fast->pair->cq[0], fast->near, FI_SEND, 0);
		tr_expect(test, fast->pair->cq[1], fast->fx->far, FI_RECV,
			  SHORT_LEN);
	}
}

static void ep_04_full_queues(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 4, .rx_size = 4 };
	struct fast *fast = open_fast(test, &opts);

	tr_needs_device(test, fast->pair->info);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, 0, recv(fast, LEN));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, recv(fast, LEN));
		for (int i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, 0, send(fast, SHORT_LEN));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, send(fast, SHORT_LEN));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, write(fast, SHORT_LEN));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, read(fast, SHORT_LEN));
		for (int i = 0; i < 4; i++) {
			tr_expect(test, fast->pair->cq[0], fast->near,
				  FI_SEND, 0);
			tr_expect(test, fast->pair->cq[1], fast->fx->far,
				  FI_RECV, SHORT_LEN);
		}
	}
}

#define MANY 1000

/* Without reads the completion queue limits the posts, before the endpoint's queue does. */
static void cq_10_posts_are_limited_by_the_cq_size(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.cq_size = 8,
		.tx_size = MANY,
		.rx_size = MANY,
	};
	struct fast *fast = open_fast(test, &opts);
	int posted = 0;

	while (posted < MANY && !write(fast, SHORT_LEN))
		posted++;
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, write(fast, SHORT_LEN));
	KUNIT_EXPECT_GE(test, posted, 8);
	KUNIT_EXPECT_LT(test, posted, MANY);
	while (posted--)
		rma_expect(test, fast->fx, fast->near, FI_WRITE);
	KUNIT_EXPECT_EQ(test, 0, write(fast, SHORT_LEN));
	rma_expect(test, fast->fx, fast->near, FI_WRITE);
}

static void cq_08_selective_completion_on_the_fast_path(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_flags = FI_SELECTIVE_COMPLETION,
		.rx_flags = FI_SELECTIVE_COMPLETION,
		.no_wait = true,
	};
	struct fast *fast = open_fast(test, &opts);
	struct kofi_pair *pair = fast->pair;
	u8 *near = fast->near;

	set_flags(test, pair->ep[0], FI_TRANSMIT);
	set_flags(test, pair->ep[1], FI_RECV);
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, recv(fast, LEN));
	set_flags(test, pair->ep[1], FI_RECV | FI_COMPLETION);
	KUNIT_ASSERT_EQ(test, 0, recv(fast, LEN));
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, send(fast, SHORT_LEN));
	KUNIT_ASSERT_EQ(test, 0, write(fast, SHORT_LEN));
	set_flags(test, pair->ep[0], FI_TRANSMIT | FI_COMPLETION);
	KUNIT_ASSERT_EQ(test, 0, send(fast, SHORT_LEN + 1));
	tr_expect(test, pair->cq[0], near, FI_SEND, 0);
	tr_expect(test, pair->cq[1], fast->fx->far, FI_RECV, SHORT_LEN + 1);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[1], NULL, 0));
}

/* An endpoint's default flags ask for a completion level that the device does not have. */
static void ep_08_missing_completion_levels_are_refused(struct kunit *test)
{
	struct fast *fast = open_fast(test, NULL);

	if (!tr_is_iwarp(fast->pair->info))
		kunit_skip(test, "the device has all of them");
	set_flags(test, fast->pair->ep[0], FI_TRANSMIT | FI_COMPLETION |
		  FI_TRANSMIT_COMPLETE);
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, send(fast, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, write(fast, LEN));
	set_flags(test, fast->pair->ep[0], FI_TRANSMIT | FI_INJECT_COMPLETE);
	KUNIT_EXPECT_EQ(test, 0, write(fast, LEN));
	rma_expect(test, fast->fx, fast->near, FI_WRITE);
}

static void ep_11_multi_recv_as_a_default_flag(struct kunit *test)
{
	struct fast *fast = open_fast(test, NULL);
	struct fi_cq_tagged_entry entry;
	size_t least = LEN / 2;

	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&fast->pair->ep[1]->fid,
					   FI_OPT_ENDPOINT,
					   FI_OPT_MIN_MULTI_RECV, &least,
					   sizeof(least)));
	set_flags(test, fast->pair->ep[1], FI_RECV | FI_MULTI_RECV);
	KUNIT_ASSERT_EQ(test, 0, recv(fast, LEN));
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, send(fast, SHORT_LEN));
		tr_expect(test, fast->pair->cq[0], fast->near, FI_SEND, 0);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fast->pair->cq[1],
						      &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, fast->fx->far + i * least,
				    (u8 *)entry.buf);
		KUNIT_EXPECT_EQ(test, i, !!(entry.flags & FI_MULTI_RECV));
	}
}

static void cm_06_posts_to_a_closed_half_are_refused(struct kunit *test)
{
	struct fast *fast = open_fast(test, NULL);
	struct fid_ep **ep = fast->pair->ep;

	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep[0], FI_WRITE));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, send(fast, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, write(fast, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE,
			fi_inject(ep[0], fast->near, SHORT_LEN, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep[1], FI_READ));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, recv(fast, LEN));
}

static void cm_05_posts_after_shutdown_are_refused(struct kunit *test)
{
	struct fast *fast = open_fast(test, NULL);
	struct fid_ep **ep = fast->pair->ep;

	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep[1], 0));
	tr_expect_shutdowns(test, fast->pair->eq, ep[0], ep[1]);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, send(fast, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, write(fast, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN,
			fi_inject(ep[0], fast->near, SHORT_LEN, 0));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, recv(fast, LEN));
}

static ssize_t add(struct fast *fast, void *result, u64 at)
{
	static const u64 one = 1;

	return fi_fetch_atomic(fast->pair->ep[0], &one, 1, NULL, result,
			       fast->desc, 0, fast->fx->addr + at,
			       fast->fx->key, FI_UINT64, FI_SUM, result);
}

static ssize_t compare_swap(struct fast *fast, u64 expected, u64 wanted)
{
	return fi_compare_atomic(fast->pair->ep[0], &wanted, 1, NULL,
				 &expected, NULL, fast->near, fast->desc, 0,
				 fast->fx->addr, fast->fx->key, FI_UINT64,
				 FI_CSWAP, fast->near);
}

static void expect_word(struct kunit *test, struct fast *fast, u64 old,
			u64 now)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fast->pair->cq[0], &entry,
					      1));
	KUNIT_EXPECT_PTR_EQ(test, fast->near, (u8 *)entry.op_context);
	KUNIT_EXPECT_EQ(test, FI_READ | FI_ATOMIC, entry.flags);
	KUNIT_EXPECT_EQ(test, old, *(u64 *)fast->near);
	KUNIT_EXPECT_EQ(test, now, READ_ONCE(*(u64 *)fast->fx->far));
}

static void atom_02_fetch_add_and_cswap_of_a_word(struct kunit *test)
{
	const struct fx_pair_opts opts = { .caps = FI_ATOMIC };
	struct fast *fast;

	if (tr_is_iwarp(fx_info(test, fx_addr, NULL, FI_SOURCE)))
		kunit_skip(test, "the device has none");
	fast = open_fast(test, &opts);
	for (u64 i = 0; i < tr_rounds; i++) {
		KUNIT_ASSERT_EQ(test, 0, add(fast, fast->near, 0));
		expect_word(test, fast, 2 * i, 2 * i + 1);
		KUNIT_ASSERT_EQ(test, 0, compare_swap(fast, 2 * i, 0));
		expect_word(test, fast, 2 * i + 1, 2 * i + 1);
		KUNIT_ASSERT_EQ(test, 0, compare_swap(fast, 2 * i + 1, 2 * i + 2));
		expect_word(test, fast, 2 * i + 1, 2 * i + 2);
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, add(fast, fast->near, 4));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, add(fast, fast->near + LEN - 7, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_read(fast->pair->cq[0], NULL, 0));
}

/* Ranges that start before the region, end after it, or wrap. */
static void mr_05_ranges_outside_of_the_region_are_refused(struct kunit *test)
{
	struct fast *fast = open_fast(test, NULL);
	struct fid_ep *ep = fast->pair->ep[0];
	u8 *near = fast->near;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(ep, near - 1, SHORT_LEN,
						  fast->desc, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(ep, near + 1, LEN,
						  fast->desc, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(ep, near + LEN, 1,
						  fast->desc, 0, NULL));
	KUNIT_EXPECT_LT(test, fi_send(ep, near + 1, SIZE_MAX, fast->desc, 0,
				      NULL), 0);
	KUNIT_EXPECT_LT(test, fi_send(ep, near - 8, SIZE_MAX, fast->desc, 0,
				      NULL), 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_read(fast->pair->cq[0], NULL, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_03_data_is_intact_on_the_fast_path),
	KUNIT_CASE(cq_03_completions_are_in_order),
	KUNIT_CASE(ep_04_full_queues),
	KUNIT_CASE(cq_10_posts_are_limited_by_the_cq_size),
	KUNIT_CASE(cq_08_selective_completion_on_the_fast_path),
	KUNIT_CASE(ep_08_missing_completion_levels_are_refused),
	KUNIT_CASE(ep_11_multi_recv_as_a_default_flag),
	KUNIT_CASE(cm_06_posts_to_a_closed_half_are_refused),
	KUNIT_CASE(cm_05_posts_after_shutdown_are_refused),
	KUNIT_CASE(atom_02_fetch_add_and_cswap_of_a_word),
	KUNIT_CASE(mr_05_ranges_outside_of_the_region_are_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_plain",
	.test_cases = cases,
};

kunit_test_suite(suite);
