// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EP 7, 9 and 13: selective completion, limits, operation flags,
 * aliases.
 */

#include "traffic.h"

#define LEN 64

static ssize_t sendmsg(struct fid_ep *ep, u64 flags, void *context)
{
	const struct fi_msg msg = { .context = context };

	return fi_sendmsg(ep, &msg, flags);
}

static ssize_t recvmsg(struct fid_ep *ep, u64 flags, void *context)
{
	const struct fi_msg msg = { .context = context };

	return fi_recvmsg(ep, &msg, flags);
}

static const struct fx_pair_opts selective = {
	.tx_flags = FI_SELECTIVE_COMPLETION,
	.rx_flags = FI_SELECTIVE_COMPLETION,
};

static void ep_07_selective_completion(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, &selective);
	char mark[4];

	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1],
						 i == 2 ? FI_COMPLETION : 0,
						 mark + i));
	for (int i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0],
						 i == 3 ? FI_COMPLETION : 0,
						 mark + i));
	tr_expect(test, pair->cq[0], mark + 3, FI_SEND, 0);
	tr_expect(test, pair->cq[1], mark + 2, FI_RECV, 0);
	for (int side = 0; side < 2; side++)
		KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
				fi_cq_read(pair->cq[side], NULL, 0));
}

static void ep_07_every_success_is_reported_by_default(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, NULL);
	char mark[2];

	KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], 0, mark + 1));
	KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], 0, mark));
	tr_expect(test, pair->cq[0], mark, FI_SEND, 0);
	tr_expect(test, pair->cq[1], mark + 1, FI_RECV, 0);
}

/* Calls without flags use the endpoint's operation flags, which lack FI_COMPLETION here. */
static void ep_07_calls_without_flags_are_selective_too(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, &selective);
	u64 flags = FI_TRANSMIT;
	char mark[3];

	KUNIT_ASSERT_EQ(test, 0,
			fi_control(&pair->ep[0]->fid, FI_GETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ_MSG(test, 0, flags & FI_COMPLETION,
			    "FI_COMPLETION is set without being asked for");
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], FI_COMPLETION,
						 NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], NULL, 0, NULL, 0, mark));
	KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], FI_COMPLETION, mark + 1));
	tr_expect(test, pair->cq[0], mark + 1, FI_SEND, 0);
}

struct depths {
	size_t tx;
	size_t cq;
	bool all;	/* a thousand, even on slow kernels */
};

/* Transmit queues much smaller and much larger than the completion queue, and the defaults. */
static const struct depths depths[] = {
	{ 1, 0 }, { 4, 0, true }, { 256, 0 }, { 0, 0, true }, { 2000, 1 },
	{ 0, 1 },
};

static void name_depths(const struct depths *depths, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "tx %zu cq %zu", depths->tx,
		 depths->cq);
}

KUNIT_ARRAY_PARAM(depths, depths, name_depths);

#define THOUSAND 1000
#define SHARE (75 * (int)tr_rounds)
#define AHEAD 32

static void ep_07_a_thousand_unsignalled_sends(struct kunit *test)
{
	const struct depths *depths = test->param_value;
	const struct fx_pair_opts opts = {
		.tx_size = depths->tx,
		.cq_size = depths->cq,
		.tx_flags = FI_SELECTIVE_COMPLETION,
	};
	unsigned long deadline = jiffies + msecs_to_jiffies(FX_WAIT_MS);
	struct kofi_pair *pair = fx_pair(test, &opts);
	struct fi_cq_tagged_entry entry;
	const int all = depths->all ? max(THOUSAND, SHARE) : SHARE;
	int sent = 0, received = 0;
	ssize_t ret;

	for (int i = 0; i < AHEAD; i++)
		KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], 0, NULL));
	while (received < all && time_before(jiffies, deadline)) {
		if (sent < all && sent < received + AHEAD) {
			ret = sendmsg(pair->ep[0], 0, NULL);
			sent += !ret;
			if (ret && ret != -FI_EAGAIN)
				KUNIT_FAIL_AND_ABORT(test, "send %d: %zd", sent,
						     ret);
		}
		/* This read returns no entry, but frees the space of completed sends. */
		ret = fi_cq_read(pair->cq[0], &entry, 1);
		KUNIT_ASSERT_EQ(test, -FI_EAGAIN, ret);
		ret = fi_cq_read(pair->cq[1], &entry, 1);
		if (ret == 1) {
			received++;
			KUNIT_ASSERT_EQ(test, 0,
					recvmsg(pair->ep[1], 0, NULL));
		}
		cond_resched();
	}
	KUNIT_EXPECT_EQ(test, all, sent);
	KUNIT_EXPECT_EQ(test, all, received);
}

static void ep_09_count_over_iov_limit_is_einval(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	size_t tx = pair->info->tx_attr->iov_limit;
	size_t rx = pair->info->rx_attr->iov_limit;
	size_t max = max(tx, rx) + 1;
	struct fi_msg msg = { .iov_count = tx + 1 };
	struct kvec *iov;

	KUNIT_ASSERT_GT(test, tx, 0);
	KUNIT_ASSERT_GT(test, rx, 0);
	iov = kunit_kcalloc(test, max, sizeof(*iov), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, iov);
	for (size_t i = 0; i < max; i++)
		iov[i] = (struct kvec){ buf, 1 };
	msg.msg_iov = iov;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_sendv(pair->ep[0], iov, NULL, tx + 1, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_sendmsg(pair->ep[0], &msg, 0));
	msg.iov_count = SIZE_MAX;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_sendmsg(pair->ep[0], &msg, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_recvv(pair->ep[1], iov, NULL, rx + 1, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0,
			fi_recvv(pair->ep[1], iov, NULL, rx, 0, NULL));
	KUNIT_EXPECT_EQ(test, 0,
			fi_sendv(pair->ep[0], iov, NULL, min(tx, rx), 0, NULL));
	tr_expect(test, pair->cq[1], NULL, FI_RECV, min(tx, rx));
}

static void ep_09_length_over_max_msg_size_is_emsgsize(struct kunit *test)
{
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);
	size_t max = pair->info->ep_attr->max_msg_size;
	/* A byte too many, and a sum that overflows. */
	const struct kvec sums[][2] = {
		{ { buf, max }, { buf, 1 } },
		{ { buf, SIZE_MAX }, { buf, 2 } },
	};

	KUNIT_ASSERT_GT(test, max, 0);
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
			fi_send(pair->ep[0], buf, max + 1, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE,
			fi_recv(pair->ep[1], buf, max + 1, NULL, 0, NULL));
	/* The maximum length itself is accepted: only the missing memory is an error. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_send(pair->ep[0], NULL, max, NULL, 0, NULL));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_recv(pair->ep[1], NULL, max, NULL, 0, NULL));
	for (int i = 0; i < ARRAY_SIZE(sums); i++) {
		const struct kvec *iov = sums[i];

		KUNIT_EXPECT_EQ_MSG(test, -FI_EMSGSIZE,
				    fi_sendv(pair->ep[0], iov, NULL, 2, 0, NULL),
				    "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, -FI_EMSGSIZE,
				    fi_recvv(pair->ep[1], iov, NULL, 2, 0, NULL),
				    "row %d", i);
	}
}

static void ep_13_size_left(struct kunit *test)
{
	const struct fx_pair_opts opts = { .tx_size = 4, .rx_size = 6 };
	struct kofi_pair *pair = fx_pair(test, &opts);

	tr_needs_device(test, pair->info);
	KUNIT_EXPECT_EQ(test, 4, fi_tx_size_left(pair->ep[0]));
	KUNIT_EXPECT_EQ(test, 6, fi_rx_size_left(pair->ep[1]));
	KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], FI_COMPLETION, NULL));
	KUNIT_EXPECT_EQ(test, 5, fi_rx_size_left(pair->ep[1]));
	KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], FI_COMPLETION, NULL));
	KUNIT_EXPECT_EQ(test, 3, fi_tx_size_left(pair->ep[0]));
	tr_expect(test, pair->cq[0], NULL, FI_SEND, 0);
	tr_expect(test, pair->cq[1], NULL, FI_RECV, 0);
	KUNIT_EXPECT_EQ(test, 4, fi_tx_size_left(pair->ep[0]));
	KUNIT_EXPECT_EQ(test, 6, fi_rx_size_left(pair->ep[1]));
}

static void ep_13_size_left_before_enabling(struct kunit *test)
{
	struct fid_ep *ep = fx_bound_ep(test, fx_open(test));

	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_tx_size_left(ep));
	KUNIT_EXPECT_EQ(test, -FI_EOPBADSTATE, fi_rx_size_left(ep));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
	KUNIT_EXPECT_GT(test, fi_tx_size_left(ep), 0);
	KUNIT_EXPECT_GT(test, fi_rx_size_left(ep), 0);
}

static void ep_13_operation_flags(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, &selective);
	struct fid *fid = &pair->ep[0]->fid;
	u64 flags = FI_TRANSMIT | FI_COMPLETION;
	char mark[2];

	KUNIT_EXPECT_EQ(test, 0, fi_control(fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	KUNIT_EXPECT_EQ(test, 0, fi_control(fid, FI_GETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, FI_COMPLETION, flags & FI_COMPLETION);
	KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], 0, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], NULL, 0, NULL, 0, mark));
	tr_expect(test, pair->cq[0], mark, FI_SEND, 0);

	flags = FI_RECV;
	KUNIT_EXPECT_EQ(test, 0, fi_control(fid, FI_GETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ_MSG(test, 0, flags & FI_COMPLETION,
			    "FI_COMPLETION in the flags of the other direction");
	flags = 0;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(fid, FI_GETOPSFLAG, &flags));
	flags = FI_TRANSMIT | FI_RECV;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT | 1ULL << 63;
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_control(fid, FI_SETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_control(fid, FI_SETOPSFLAG, NULL));
}

static void ep_13_an_alias_has_its_own_op_flags(struct kunit *test)
{
	struct kofi_pair *pair = fx_pair(test, &selective);
	struct fid_ep *alias = NULL, *bad = NULL;
	char mark[3];
	int ret;

	ret = fi_ep_alias(pair->ep[0], &alias, FI_TRANSMIT | FI_COMPLETION);
	KUNIT_ASSERT_EQ_MSG(test, 0, ret, "%s", fi_strerror(ret));
	fx_defer_close(test, &alias->fid);
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_ep_alias(pair->ep[0], &bad, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_ep_alias(pair->ep[0], &bad, FI_TRANSMIT | FI_RECV));
	KUNIT_EXPECT_NULL(test, bad);

	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], 0, NULL));
	KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], 0, mark));
	KUNIT_ASSERT_EQ(test, 0, fi_send(alias, NULL, 0, NULL, 0, mark + 1));
	tr_expect(test, pair->cq[0], mark + 1, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
	KUNIT_EXPECT_EQ_MSG(test, -FI_EBUSY, fi_close(&pair->ep[0]->fid),
			    "closing under an alias");
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_07_selective_completion),
	KUNIT_CASE(ep_07_every_success_is_reported_by_default),
	KUNIT_CASE(ep_07_calls_without_flags_are_selective_too),
	KUNIT_CASE_PARAM(ep_07_a_thousand_unsignalled_sends, depths_gen_params),
	KUNIT_CASE(ep_09_count_over_iov_limit_is_einval),
	KUNIT_CASE(ep_09_length_over_max_msg_size_is_emsgsize),
	KUNIT_CASE(ep_13_size_left),
	KUNIT_CASE(ep_13_size_left_before_enabling),
	KUNIT_CASE(ep_13_operation_flags),
	KUNIT_CASE(ep_13_an_alias_has_its_own_op_flags),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_ep_flow",
	.test_cases = cases,
};

kunit_test_suite(suite);
