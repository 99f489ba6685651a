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
#define LITTLE	16

struct plain {
	struct rma_fx		*fx;
	struct kofi_pair	*pair;
	u8			*near;
	void			*desc;
	void			*far_desc;
};

static struct plain *open_plain(struct kunit *test,
				const struct fx_pair_opts *opts)
{
	struct fx_pair_opts serial = opts ? *opts : (struct fx_pair_opts){};
	struct plain *plain = (void *)tr_buffer(test, sizeof(*plain));
	struct fid_mr *mr;

	serial.threading = FI_THREAD_COMPLETION;
	plain->near = tr_buffer(test, LEN);
	plain->fx = rma_open(test, tr_buffer(test, LEN), LEN, RMA_BOTH,
			     &serial);
	plain->pair = plain->fx->pair;
	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(plain->pair->domain, plain->near,
					   LEN, 0, 0, 0, 0, &mr, NULL));
	fx_defer_close(test, &mr->fid);
	plain->desc = fi_mr_desc(mr);
	plain->far_desc = fi_mr_desc(plain->fx->mr);
	return plain;
}

static ssize_t send(struct plain *plain, size_t len)
{
	return fi_send(plain->pair->ep[0], plain->near, len, plain->desc, 0,
		       plain->near);
}

static ssize_t recv(struct plain *plain, size_t len)
{
	u8 *far = plain->fx->far;

	return fi_recv(plain->pair->ep[1], far, len, plain->far_desc, 0, far);
}

static ssize_t write(struct plain *plain, size_t len)
{
	return fi_write(plain->pair->ep[0], plain->near, len, plain->desc, 0,
			plain->fx->addr, plain->fx->key, plain->near);
}

static ssize_t read(struct plain *plain, size_t len)
{
	return fi_read(plain->pair->ep[0], plain->near, len, plain->desc, 0,
		       plain->fx->addr, plain->fx->key, plain->near);
}

static void set_flags(struct kunit *test, struct fid_ep *ep, u64 flags)
{
	KUNIT_ASSERT_EQ(test, 0, fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
}

static void ep_03_data_comes_through(struct kunit *test)
{
	struct plain *plain = open_plain(test, NULL);
	u8 *near = plain->near, *far = plain->fx->far;

	for (size_t len = 1; len <= LEN; len *= 2) {
		tr_fill(near, len, len);
		KUNIT_ASSERT_EQ(test, 0, recv(plain, LEN));
		KUNIT_ASSERT_EQ(test, 0, send(plain, len));
		tr_expect(test, plain->pair->cq[0], near, FI_SEND, 0);
		tr_expect(test, plain->pair->cq[1], far, FI_RECV, len);
		KUNIT_EXPECT_TRUE(test, tr_intact(far, len, len));

		tr_fill(near, len, ~len);
		KUNIT_ASSERT_EQ(test, 0, write(plain, len));
		rma_expect(test, plain->fx, near, FI_WRITE);
		rma_settle(test, plain->fx);
		KUNIT_EXPECT_TRUE(test, tr_intact(far, len, ~len));

		memset(near, 0, len);
		KUNIT_ASSERT_EQ(test, 0, read(plain, len));
		rma_expect(test, plain->fx, near, FI_READ);
		KUNIT_EXPECT_TRUE(test, tr_intact(near, len, ~len));
	}
}

/* Completions keep the posting order, also when a later operation is faster. */
static void cq_03_completions_are_in_order(struct kunit *test)
{
	struct plain *plain = open_plain(test, NULL);

	for (int i = 0; i < tr_rounds; i++) {
		KUNIT_ASSERT_EQ(test, 0, recv(plain, LEN));
		KUNIT_ASSERT_EQ(test, 0, read(plain, LEN));
		KUNIT_ASSERT_EQ(test, 0, write(plain, LITTLE));
		KUNIT_ASSERT_EQ(test, 0, send(plain, LITTLE));
		rma_expect(test, plain->fx, plain->near, FI_READ);
		rma_expect(test, plain->fx, plain->near, FI_WRITE);
		tr_expect(test, plain->pair->cq[0], plain->near, FI_SEND, 0);
		tr_expect(test, plain->pair->cq[1], plain->fx->far, FI_RECV,
			  LITTLE);
	}
}

static void ep_04_full_queues(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 4, .rx_size = 4 };
	struct plain *plain = open_plain(test, &opts);

	tr_needs_device(test, plain->pair->info);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, 0, recv(plain, LEN));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, recv(plain, LEN));
		for (int i = 0; i < 4; i++)
			KUNIT_ASSERT_EQ(test, 0, send(plain, LITTLE));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, send(plain, LITTLE));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, write(plain, LITTLE));
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN, read(plain, LITTLE));
		for (int i = 0; i < 4; i++) {
			tr_expect(test, plain->pair->cq[0], plain->near,
				  FI_SEND, 0);
			tr_expect(test, plain->pair->cq[1], plain->fx->far,
				  FI_RECV, LITTLE);
		}
	}
}

#define MANY 1000

/* Without reads the completion queue limits the posts, before the endpoint's queue does. */
static void cq_10_room_is_counted(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.cq_size = 8,
		.tx_size = MANY,
		.rx_size = MANY,
	};
	struct plain *plain = open_plain(test, &opts);
	int posted = 0;

	while (posted < MANY && !write(plain, LITTLE))
		posted++;
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, write(plain, LITTLE));
	KUNIT_EXPECT_GE(test, posted, 8);
	KUNIT_EXPECT_LT(test, posted, MANY);
	while (posted--)
		rma_expect(test, plain->fx, plain->near, FI_WRITE);
	KUNIT_EXPECT_EQ(test, 0, write(plain, LITTLE));
	rma_expect(test, plain->fx, plain->near, FI_WRITE);
}

static void cq_08_only_what_is_asked_for(struct kunit *test)
{
	const struct fx_pair_opts opts = {
		.tx_flags = FI_SELECTIVE_COMPLETION,
		.rx_flags = FI_SELECTIVE_COMPLETION,
		.no_wait = true,
	};
	struct plain *plain = open_plain(test, &opts);
	struct kofi_pair *pair = plain->pair;
	u8 *near = plain->near;

	set_flags(test, pair->ep[0], FI_TRANSMIT);
	set_flags(test, pair->ep[1], FI_RECV);
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, recv(plain, LEN));
	set_flags(test, pair->ep[1], FI_RECV | FI_COMPLETION);
	KUNIT_ASSERT_EQ(test, 0, recv(plain, LEN));
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, send(plain, LITTLE));
	KUNIT_ASSERT_EQ(test, 0, write(plain, LITTLE));
	set_flags(test, pair->ep[0], FI_TRANSMIT | FI_COMPLETION);
	KUNIT_ASSERT_EQ(test, 0, send(plain, LITTLE + 1));
	tr_expect(test, pair->cq[0], near, FI_SEND, 0);
	tr_expect(test, pair->cq[1], plain->fx->far, FI_RECV, LITTLE + 1);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[1], NULL, 0));
}

/* An endpoint's default flags ask for a completion level that the device does not have. */
static void ep_08_a_level_that_is_not_there(struct kunit *test)
{
	struct plain *plain = open_plain(test, NULL);

	if (!tr_is_iwarp(plain->pair->info))
		kunit_skip(test, "the device has all of them");
	set_flags(test, plain->pair->ep[0], FI_TRANSMIT | FI_COMPLETION |
		  FI_TRANSMIT_COMPLETE);
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, send(plain, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPNOTSUPP, write(plain, LEN));
	set_flags(test, plain->pair->ep[0], FI_TRANSMIT | FI_INJECT_COMPLETE);
	KUNIT_EXPECT_EQ(test, 0, write(plain, LEN));
	rma_expect(test, plain->fx, plain->near, FI_WRITE);
}

static void ep_11_many_by_default(struct kunit *test)
{
	struct plain *plain = open_plain(test, NULL);
	struct fi_cq_tagged_entry entry;
	size_t least = LEN / 2;

	KUNIT_ASSERT_EQ(test, 0, fi_setopt(&plain->pair->ep[1]->fid,
					   FI_OPT_ENDPOINT,
					   FI_OPT_MIN_MULTI_RECV, &least,
					   sizeof(least)));
	set_flags(test, plain->pair->ep[1], FI_RECV | FI_MULTI_RECV);
	KUNIT_ASSERT_EQ(test, 0, recv(plain, LEN));
	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, send(plain, LITTLE));
		tr_expect(test, plain->pair->cq[0], plain->near, FI_SEND, 0);
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, plain->pair->cq[1],
						      &entry, 1));
		KUNIT_EXPECT_PTR_EQ(test, plain->fx->far + i * least,
				    (u8 *)entry.buf);
		KUNIT_EXPECT_EQ(test, i, !!(entry.flags & FI_MULTI_RECV));
	}
}

static void cm_06_halves_that_are_closed(struct kunit *test)
{
	struct plain *plain = open_plain(test, NULL);
	struct fid_ep **ep = plain->pair->ep;

	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep[0], FI_WRITE));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, send(plain, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, write(plain, LEN));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE,
			fi_inject(ep[0], plain->near, LITTLE, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep[1], FI_READ));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, recv(plain, LEN));
}

static void cm_05_nothing_after_the_end(struct kunit *test)
{
	struct plain *plain = open_plain(test, NULL);
	struct fid_ep **ep = plain->pair->ep;

	KUNIT_ASSERT_EQ(test, 0, fi_shutdown(ep[1], 0));
	tr_expect_shutdowns(test, plain->pair->eq, ep[0], ep[1]);
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, send(plain, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN, write(plain, LEN));
	KUNIT_EXPECT_EQ(test, -FI_ENOTCONN,
			fi_inject(ep[0], plain->near, LITTLE, 0));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, recv(plain, LEN));
}

static ssize_t add(struct plain *plain, void *result, u64 at)
{
	static const u64 one = 1;

	return fi_fetch_atomic(plain->pair->ep[0], &one, 1, NULL, result,
			       plain->desc, 0, plain->fx->addr + at,
			       plain->fx->key, FI_UINT64, FI_SUM, result);
}

static ssize_t compare_swap(struct plain *plain, u64 expected, u64 wanted)
{
	return fi_compare_atomic(plain->pair->ep[0], &wanted, 1, NULL,
				 &expected, NULL, plain->near, plain->desc, 0,
				 plain->fx->addr, plain->fx->key, FI_UINT64,
				 FI_CSWAP, plain->near);
}

static void expect_word(struct kunit *test, struct plain *plain, u64 old,
			u64 now)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, plain->pair->cq[0], &entry,
					      1));
	KUNIT_EXPECT_PTR_EQ(test, plain->near, (u8 *)entry.op_context);
	KUNIT_EXPECT_EQ(test, FI_READ | FI_ATOMIC, entry.flags);
	KUNIT_EXPECT_EQ(test, old, *(u64 *)plain->near);
	KUNIT_EXPECT_EQ(test, now, READ_ONCE(*(u64 *)plain->fx->far));
}

static void atom_02_a_word(struct kunit *test)
{
	const struct fx_pair_opts opts = { .caps = FI_ATOMIC };
	struct plain *plain;

	if (tr_is_iwarp(fx_info(test, fx_addr, NULL, FI_SOURCE)))
		kunit_skip(test, "the device has none");
	plain = open_plain(test, &opts);
	for (u64 i = 0; i < tr_rounds; i++) {
		KUNIT_ASSERT_EQ(test, 0, add(plain, plain->near, 0));
		expect_word(test, plain, 2 * i, 2 * i + 1);
		KUNIT_ASSERT_EQ(test, 0, compare_swap(plain, 2 * i, 0));
		expect_word(test, plain, 2 * i + 1, 2 * i + 1);
		KUNIT_ASSERT_EQ(test, 0, compare_swap(plain, 2 * i + 1, 2 * i + 2));
		expect_word(test, plain, 2 * i + 1, 2 * i + 2);
	}
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, add(plain, plain->near, 4));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, add(plain, plain->near + LEN - 7, 0));
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_read(plain->pair->cq[0], NULL, 0));
}

/* Ranges that start before the region, end after it, or wrap. */
static void mr_05_nothing_beside_the_region(struct kunit *test)
{
	struct plain *plain = open_plain(test, NULL);
	struct fid_ep *ep = plain->pair->ep[0];
	u8 *near = plain->near;

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(ep, near - 1, LITTLE,
						  plain->desc, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(ep, near + 1, LEN,
						  plain->desc, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_send(ep, near + LEN, 1,
						  plain->desc, 0, NULL));
	KUNIT_EXPECT_LT(test, fi_send(ep, near + 1, SIZE_MAX, plain->desc, 0,
				      NULL), 0);
	KUNIT_EXPECT_LT(test, fi_send(ep, near - 8, SIZE_MAX, plain->desc, 0,
				      NULL), 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
			fi_cq_read(plain->pair->cq[0], NULL, 0));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_03_data_comes_through),
	KUNIT_CASE(cq_03_completions_are_in_order),
	KUNIT_CASE(ep_04_full_queues),
	KUNIT_CASE(cq_10_room_is_counted),
	KUNIT_CASE(cq_08_only_what_is_asked_for),
	KUNIT_CASE(ep_08_a_level_that_is_not_there),
	KUNIT_CASE(ep_11_many_by_default),
	KUNIT_CASE(cm_06_halves_that_are_closed),
	KUNIT_CASE(cm_05_nothing_after_the_end),
	KUNIT_CASE(atom_02_a_word),
	KUNIT_CASE(mr_05_nothing_beside_the_region),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_plain",
	.test_cases = cases,
};

kunit_test_suite(suite);
