// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EP 8: flags of calls that take a struct fi_msg, and the endpoint's
 * operation flags, which apply to other calls. Fences are in rma_order.c.
 */

#include <linux/delay.h>

#include <rdma/fi_ext.h>

#include "traffic.h"

#define LEN 64

/* Flags that each connected endpoint takes. */
#define SEND_FLAGS (FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT |	\
		    FI_INJECT_COMPLETE | FI_REMOTE_SIGNAL)
/* Flags that depend on the device. */
#define DEVICE_FLAGS (FI_REMOTE_CQ_DATA | FI_TRANSMIT_COMPLETE |	\
		      FI_DELIVERY_COMPLETE)
/* Flag that needs the key of a region, see mr_ep_invalidate.c. */
#define KEY_FLAGS FI_REMOTE_INVALIDATE
/* Types of vectors, which are no flags of the operation. */
#define VECTOR_FLAGS (FI_BVEC | FI_SGL)
#define RECV_FLAGS (FI_COMPLETION | FI_MORE | FI_MULTI_RECV)
/* Flags of receives that connected endpoints are not offered. */
#define OTHER_RECV_FLAGS FI_DIRECTED_RECV

static const struct fx_pair_opts selective = {
	.tx_flags = FI_SELECTIVE_COMPLETION,
	.rx_flags = FI_SELECTIVE_COMPLETION,
};

static ssize_t sendmsg(struct fid_ep *ep, void *buf, size_t len, u64 flags)
{
	const struct kvec iov = { buf, len };
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.context = buf,
	};

	return fi_sendmsg(ep, &msg, flags);
}

static ssize_t recvmsg(struct fid_ep *ep, void *buf, size_t len, u64 flags)
{
	const struct kvec iov = { buf, len };
	const struct fi_msg msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.context = buf,
	};

	return fi_recvmsg(ep, &msg, flags);
}

static bool is_offered(const struct fi_info *info, u64 flag)
{
	switch (flag) {
	case FI_REMOTE_CQ_DATA:
		return info->domain_attr->cq_data_size > 0;
	case FI_TRANSMIT_COMPLETE:
	case FI_DELIVERY_COMPLETE:
		return !tr_is_iwarp(info);
	default:
		return SEND_FLAGS & flag;
	}
}

/* Sends with each flag alone, and with all flags up to this one. */
static void ep_08_each_send_flag_works_or_is_eopnotsupp(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &selective);
	u64 all = 0;

	for (int bit = 0; bit < 64; bit++) {
		u64 flag = BIT_ULL(bit);

		if (!((SEND_FLAGS | DEVICE_FLAGS) & flag))
			continue;
		if (!is_offered(pair->info, flag)) {
			KUNIT_EXPECT_EQ_MSG(test, -FI_EOPNOTSUPP,
					    sendmsg(pair->ep[0], out, LEN,
						    flag),
					    "%s", fi_tostr(&flag,
							   FI_TYPE_OP_FLAGS));
			continue;
		}
		all |= flag;
		for (int i = 0; i < 2; i++) {
			u64 flags = i ? all : flag;

			tr_fill(out, LEN, bit);
			KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], in, LEN,
							 FI_COMPLETION));
			KUNIT_ASSERT_EQ_MSG(test, 0, sendmsg(pair->ep[0], out,
							     LEN, flags),
					    "flags %llx", flags);
			KUNIT_ASSERT_EQ(test, 1,
					fx_wait_comp(test, pair->cq[1],
						     &(struct fi_cq_tagged_entry){},
						     1));
			KUNIT_EXPECT_TRUE(test, tr_intact(in, LEN, bit));
			if (flags & FI_COMPLETION)
				tr_expect(test, pair->cq[0], out, FI_SEND, 0);
			KUNIT_EXPECT_EQ(test, -FI_EAGAIN,
					fi_cq_read(pair->cq[0], NULL, 0));
		}
	}
}

static void ep_08_unknown_flags_are_ebadflags(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int bit = 0; bit < 64; bit++) {
		u64 flag = BIT_ULL(bit);

		if (!((SEND_FLAGS | DEVICE_FLAGS | KEY_FLAGS | VECTOR_FLAGS) & flag))
			KUNIT_EXPECT_EQ_MSG(test, -FI_EBADFLAGS,
					    sendmsg(pair->ep[0], buf, LEN,
						    flag | FI_COMPLETION),
					    "bit %d of a send", bit);
		if (!((RECV_FLAGS | OTHER_RECV_FLAGS | VECTOR_FLAGS) & flag))
			KUNIT_EXPECT_EQ_MSG(test, -FI_EBADFLAGS,
					    recvmsg(pair->ep[1], buf, LEN,
						    flag | FI_COMPLETION),
					    "bit %d of a receive", bit);
	}
	/* The refused calls posted nothing. */
	tr_exchange(test, pair, 0, buf, buf + LEN, LEN);
}

/* A message with FI_MORE is sent even if no call, or a refused one, follows. */
static void ep_08_fi_more_is_sent_without_a_successor(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, NULL);

	for (int i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], in, LEN,
						 FI_MORE));
		tr_fill(out, LEN, i);
		KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], out, LEN,
						 FI_MORE | FI_COMPLETION));
		if (i)
			KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
					sendmsg(pair->ep[0], out, LEN, 1ULL));
		tr_expect(test, pair->cq[0], out, FI_SEND, 0);
		tr_expect(test, pair->cq[1], in, FI_RECV, LEN);
		KUNIT_EXPECT_TRUE(test, tr_intact(in, LEN, i));
	}
}

/* The endpoint's flags give a send an entry, the flags of fi_sendmsg() do not. */
static void ep_08_msg_flags_override_the_endpoints(struct kunit *test)
{
	u64 flags = FI_TRANSMIT | FI_COMPLETION;
	struct kofi_pair *pair = fx_pair(test, &selective);
	u8 *buf = tr_buffer(test, 3);

	KUNIT_ASSERT_EQ(test, 0, fi_control(&pair->ep[0]->fid, FI_SETOPSFLAG,
					    &flags));
	for (int i = 0; i < 3; i++)
		KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], NULL, 0, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_send(pair->ep[0], NULL, 0, NULL, 0, buf));
	KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], buf + 1, 0, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_sendv(pair->ep[0], NULL, NULL, 0, 0,
					  buf + 2));
	tr_expect(test, pair->cq[0], buf, FI_SEND, 0);
	tr_expect(test, pair->cq[0], buf + 2, FI_SEND, 0);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(pair->cq[0], NULL, 0));
}

/* Operation flags set by FI_SETOPSFLAG. */
static void ep_08_setopsflag_sets_the_flags_of_plain_calls(struct kunit *test)
{
	static const u64 levels[] = {
		0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
		FI_DELIVERY_COMPLETE,
	};
	u8 *buf = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &selective);

	for (int i = 0; i < ARRAY_SIZE(levels); i++) {
		u64 flags = FI_TRANSMIT | FI_COMPLETION | levels[i];
		bool has = !levels[i] || is_offered(pair->info, levels[i]);

		KUNIT_ASSERT_EQ(test, 0, fi_control(&pair->ep[0]->fid,
						    FI_SETOPSFLAG, &flags));
		KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], buf, LEN, 0));
		KUNIT_EXPECT_EQ(test, has ? 0 : -FI_EOPNOTSUPP,
				fi_send(pair->ep[0], buf, LEN, NULL, 0, buf));
		if (has)
			tr_expect(test, pair->cq[0], buf, FI_SEND, 0);
	}
}

static void ep_08_op_flags_of_the_info_are_the_endpoints(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	u64 flags = FI_TRANSMIT;
	struct fid_ep *ep;

	fx->info->tx_attr->op_flags = FI_COMPLETION | FI_INJECT_COMPLETE;
	fx->info->rx_attr->op_flags = FI_COMPLETION;
	ep = fx_ep(test, fx->domain, fx->info);
	KUNIT_ASSERT_EQ(test, 0, fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, FI_COMPLETION | FI_INJECT_COMPLETE, flags);
	flags = FI_RECV;
	KUNIT_ASSERT_EQ(test, 0, fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, FI_COMPLETION, flags);
}

static void info_14_completion_levels_are_offered_or_refused(struct kunit *test)
{
	static const u64 levels[] = {
		FI_COMPLETION, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
		FI_DELIVERY_COMPLETE,
	};
	struct fi_info *plain = fx_info(test, fx_addr, NULL, FI_SOURCE);

	for (int i = 0; i < ARRAY_SIZE(levels); i++) {
		struct fi_info *hints = fx_hints(test), *info = NULL;
		int ret;

		hints->tx_attr->op_flags = levels[i];
		ret = fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE,
				 hints, &info);
		KUNIT_EXPECT_EQ(test, is_offered(plain, levels[i]) ? 0 :
				-FI_ENODATA, ret);
		if (!ret) {
			fx_defer_free(test, info);
			KUNIT_EXPECT_EQ(test, levels[i],
					info->tx_attr->op_flags);
		}
	}
}

/* Time to wait for a completion that must not come. */
#define SILENCE_MS 50

/* With FI_DELIVERY_COMPLETE a send completes after the peer's receive. */
static void ep_08_delivery_complete_waits_for_the_receive(struct kunit *test)
{
	u8 *out = tr_buffer(test, LEN), *in = tr_buffer(test, LEN);
	struct kofi_pair *pair = fx_pair(test, &selective);
	struct fi_cq_tagged_entry entry;

	if (!is_offered(pair->info, FI_DELIVERY_COMPLETE))
		kunit_skip(test, "the device does not report deliveries");
	tr_fill(out, LEN, 5);
	KUNIT_ASSERT_EQ(test, 0, sendmsg(pair->ep[0], out, LEN, FI_COMPLETION |
					 FI_REMOTE_COMPLETE));
	msleep(SILENCE_MS);
	KUNIT_EXPECT_EQ_MSG(test, -FI_EAGAIN,
			    fi_cq_read(pair->cq[0], &entry, 1),
			    "delivered without a receive");
	KUNIT_ASSERT_EQ(test, 0, recvmsg(pair->ep[1], in, LEN, FI_COMPLETION));
	tr_expect(test, pair->cq[0], out, FI_SEND, 0);
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LEN, 5));
	KUNIT_EXPECT_EQ(test, 1, fi_cq_read(pair->cq[1], &entry, 1));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_08_each_send_flag_works_or_is_eopnotsupp),
	KUNIT_CASE(ep_08_unknown_flags_are_ebadflags),
	KUNIT_CASE(ep_08_fi_more_is_sent_without_a_successor),
	KUNIT_CASE(ep_08_msg_flags_override_the_endpoints),
	KUNIT_CASE(ep_08_setopsflag_sets_the_flags_of_plain_calls),
	KUNIT_CASE(ep_08_op_flags_of_the_info_are_the_endpoints),
	KUNIT_CASE(info_14_completion_levels_are_offered_or_refused),
	KUNIT_CASE(ep_08_delivery_complete_waits_for_the_receive),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_flags",
	.test_cases = cases,
};

kunit_test_suite(suite);
