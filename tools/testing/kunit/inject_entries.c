// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, EP 7 and 12: entries of successful injected operations, over
 * connected endpoints, which ignore the peer address, and over RDM endpoints,
 * where the peer is address 0.
 */

#include <rdma/fi_tagged.h>

#include "atomic.h"
#include "cntr.h"
#include "rdm.h"

#define LEN	32
#define TAG	7

enum {
	INJECT, SENDMSG, TINJECT, TSENDMSG, INJECT_WRITE, WRITEMSG, INJECT_ATOMIC, ATOMICMSG,
	FETCH_ATOMICMSG, CALLS
};

static const struct {
	const char	*name;
	u64		flags;		/* of the completion entry; 0: no entry */
} calls[CALLS] = {
	[INJECT]		= { "fi_inject" },
	[SENDMSG]		= { "fi_sendmsg", FI_SEND | FI_MSG },
	[TINJECT]		= { "fi_tinject" },
	[TSENDMSG]		= { "fi_tsendmsg", FI_SEND | FI_TAGGED },
	[INJECT_WRITE]		= { "fi_inject_write" },
	[WRITEMSG]		= { "fi_writemsg", FI_WRITE | FI_RMA },
	[INJECT_ATOMIC]		= { "fi_inject_atomic" },
	[ATOMICMSG]		= { "fi_atomicmsg", FI_WRITE | FI_ATOMIC },
	[FETCH_ATOMICMSG]	= { "fi_fetch_atomicmsg", FI_READ | FI_ATOMIC },
};

static bool has(const struct rma_fx *fx, int call)
{
	u64 caps = fx->pair->info->caps;

	if (call >= INJECT_ATOMIC)
		return caps & FI_ATOMIC;
	if (call >= INJECT_WRITE)
		return caps & FI_RMA;
	return call < TINJECT || caps & FI_TAGGED;
}

/* Posts an operation with these flags, if supported; buf is also its context and result buffer. */
static ssize_t post(struct rma_fx *fx, int call, u8 *buf, u64 flags)
{
	struct kvec iov = { buf, LEN };
	struct fi_ioc ioc = { buf, 1 }, result = { buf + LEN, 1 };
	struct fi_rma_iov far = { fx->addr, LEN, fx->key };
	struct fi_rma_ioc target = { fx->addr, 1, fx->key };
	const struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .context = buf };
	const struct fi_msg_tagged tagged = {
		.msg_iov = &iov, .iov_count = 1, .context = buf, .tag = TAG,
	};
	const struct fi_msg_rma rma = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &far, .rma_iov_count = 1,
		.context = buf,
	};
	const struct fi_msg_atomic atomic = {
		.msg_iov = &ioc, .iov_count = 1, .rma_iov = &target, .rma_iov_count = 1,
		.datatype = FI_UINT64, .op = FI_SUM, .context = buf,
	};
	struct fid_ep *ep = fx->pair->ep[0], *peer = fx->pair->ep[1];
	ssize_t ret = 0;

	if (call == INJECT || call == SENDMSG)
		ret = fi_recv(peer, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL);
	if (call == TINJECT || call == TSENDMSG)
		ret = fi_trecv(peer, NULL, 0, NULL, FI_ADDR_UNSPEC, TAG, 0, NULL);
	if (ret)
		return ret;
	/* Empty messages, so that receives need no memory. */
	iov.iov_len = call <= TSENDMSG ? 0 : LEN;
	switch (call) {
	case INJECT:
		return fi_inject(ep, buf, 0, 0);
	case SENDMSG:
		return fi_sendmsg(ep, &msg, flags);
	case TINJECT:
		return fi_tinject(ep, buf, 0, 0, TAG);
	case TSENDMSG:
		return fi_tsendmsg(ep, &tagged, flags);
	case INJECT_WRITE:
		return fi_inject_write(ep, buf, LEN, 0, fx->addr, fx->key);
	case WRITEMSG:
		return fi_writemsg(ep, &rma, flags);
	case INJECT_ATOMIC:
		return fi_inject_atomic(ep, buf, 1, 0, fx->addr, fx->key, FI_UINT64, FI_SUM);
	case ATOMICMSG:
		return fi_atomicmsg(ep, &atomic, flags);
	default:
		return fi_fetch_atomicmsg(ep, &atomic, &result, NULL, 1, flags);
	}
}

static struct rma_fx *open(struct kunit *test, const struct fx_pair_opts *opts)
{
	u8 *far = tr_buffer(test, LEN);

	if (at_is_rdm(test) || at_offered(test))
		return at_open(test, far, LEN, RMA_BOTH, opts);
	return rma_open(test, far, LEN, RMA_BOTH, opts);
}

/* Reads the entry of a new operation; older operations must have none left. */
static void expect_no_more(struct kunit *test, struct rma_fx *fx, u8 *buf)
{
	struct kvec iov = { buf, LEN };
	struct fi_rma_iov far = { fx->addr, LEN, fx->key };
	const struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &far, .rma_iov_count = 1,
		.context = fx,
	};
	struct fi_cq_tagged_entry entry;

	KUNIT_ASSERT_EQ(test, 0, fi_readmsg(fx->pair->ep[0], &msg, FI_COMPLETION));
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0], &entry, 1));
	KUNIT_EXPECT_PTR_EQ_MSG(test, fx, entry.op_context, "an entry of flags %llx", entry.flags);
	KUNIT_EXPECT_EQ(test, -FI_EAGAIN, fi_cq_read(fx->pair->cq[0], NULL, 0));
}

static void expect_entry(struct kunit *test, struct rma_fx *fx, int call, u8 *buf)
{
	struct fi_cq_tagged_entry entry = {};

	KUNIT_ASSERT_EQ_MSG(test, 1, fx_wait_comp(test, fx->pair->cq[0], &entry, 1), "%s",
			    calls[call].name);
	KUNIT_EXPECT_PTR_EQ(test, (void *)buf, entry.op_context);
	KUNIT_EXPECT_EQ_MSG(test, calls[call].flags, entry.flags, "%s", calls[call].name);
}

static void ep_12_only_inject_calls_write_no_entry(struct kunit *test)
{
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct rma_fx *fx = open(test, NULL);

	for (int call = 0; call < CALLS; call++) {
		if (!has(fx, call))
			continue;
		KUNIT_ASSERT_EQ_MSG(test, 0, post(fx, call, buf, FI_INJECT), "%s",
				    calls[call].name);
		if (calls[call].flags)
			expect_entry(test, fx, call, buf);
		expect_no_more(test, fx, buf);
	}
}

static void ep_07_injected_messages_write_an_entry_when_asked(struct kunit *test)
{
	const struct fx_pair_opts selective = { .tx_flags = FI_SELECTIVE_COMPLETION };
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct rma_fx *fx = open(test, &selective);

	for (int call = 0; call < CALLS; call++) {
		if (!has(fx, call))
			continue;
		KUNIT_ASSERT_EQ(test, 0, post(fx, call, buf, FI_INJECT));
		expect_no_more(test, fx, buf);
		if (!calls[call].flags)
			continue;
		KUNIT_ASSERT_EQ(test, 0, post(fx, call, buf, FI_INJECT | FI_COMPLETION));
		expect_entry(test, fx, call, buf);
		expect_no_more(test, fx, buf);
	}
}

static void cntr_03_injected_operations_count_once(struct kunit *test)
{
	const struct fx_pair_opts opts = { .count = true };
	u8 *buf = tr_buffer(test, 2 * LEN);
	struct rma_fx *fx = open(test, &opts);
	u64 sends = 0, writes = 0, reads = 0;

	for (int call = 0; call < CALLS; call++) {
		if (!has(fx, call))
			continue;
		KUNIT_ASSERT_EQ(test, 0, post(fx, call, buf, FI_INJECT));
		sends += call <= TSENDMSG;
		writes += call > TSENDMSG && call < FETCH_ATOMICMSG;
		reads += call == FETCH_ATOMICMSG;
		CN_ASSERT_REACHED(test, fx->pair->cntr[0][FX_SENDS], sends);
		CN_ASSERT_REACHED(test, fx->pair->cntr[0][FX_WRITES], writes);
		CN_ASSERT_REACHED(test, fx->pair->cntr[0][FX_READS], reads);
	}
	CN_EXPECT(test, fx->pair->cntr[0][FX_SENDS], sends, 0);
	CN_EXPECT(test, fx->pair->cntr[0][FX_WRITES], writes, 0);
	CN_EXPECT(test, fx->pair->cntr[0][FX_READS], reads, 0);
}

/* Sets FI_INJECT in the endpoint's op_flags. */
static void inject_by_default(struct kunit *test, struct fid_ep *ep)
{
	u64 flags = FI_TRANSMIT | FI_INJECT;

	KUNIT_ASSERT_EQ(test, 0, fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	KUNIT_ASSERT_EQ(test, 0, fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	KUNIT_EXPECT_EQ(test, FI_INJECT, flags);
	flags = FI_RECV | FI_INJECT;
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS, fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
}

static void ep_12_fi_inject_in_op_flags_copies_the_buffer(struct kunit *test)
{
	u8 *buf = tr_buffer(test, SZ_64K), *in = tr_buffer(test, LEN);
	struct rma_fx *fx = open(test, NULL);
	struct fid_ep *ep = fx->pair->ep[0];
	size_t most = fx->pair->info->tx_attr->inject_size;
	struct fi_cq_tagged_entry entry;
	u64 one = 1;

	inject_by_default(test, ep);
	/* fi_send() copies the buffer, and still writes an entry. */
	KUNIT_ASSERT_EQ(test, 0, tr_recv(fx->pair->ep[1], in, LEN));
	tr_fill(buf, LEN, 1);
	KUNIT_ASSERT_EQ(test, 0, fi_send(ep, buf, LEN, NULL, 0, buf));
	memset(buf, 0, LEN);
	expect_entry(test, fx, SENDMSG, buf);
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[1], &entry, 1));
	KUNIT_EXPECT_TRUE(test, tr_intact(in, LEN, 1));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_send(ep, buf, most + 1, NULL, 0, buf));
	KUNIT_EXPECT_EQ(test, -FI_EMSGSIZE, fi_write(ep, buf, most + 1, NULL, 0, fx->addr, fx->key,
						     buf));
	KUNIT_ASSERT_EQ(test, 0, fi_write(ep, buf, LEN, NULL, 0, fx->addr, fx->key, buf));
	expect_entry(test, fx, WRITEMSG, buf);
	/* A read sends no data. */
	KUNIT_ASSERT_EQ(test, 0, fi_read(ep, buf, LEN, NULL, 0, fx->addr, fx->key, buf));
	KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0], &entry, 1));
	KUNIT_EXPECT_EQ(test, FI_READ | FI_RMA, entry.flags);
	if (has(fx, FETCH_ATOMICMSG)) {
		KUNIT_ASSERT_EQ(test, 0, fi_fetch_atomic(ep, &one, 1, NULL, buf, NULL, 0, fx->addr,
							 fx->key, FI_UINT64, FI_SUM, buf));
		expect_entry(test, fx, FETCH_ATOMICMSG, buf);
	}
	/* Flags of a call replace op_flags; fi_inject() still writes no entry. */
	KUNIT_ASSERT_EQ(test, 0, fi_recv(fx->pair->ep[1], NULL, 0, NULL, FI_ADDR_UNSPEC, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_inject(ep, NULL, 0, 0));
	expect_no_more(test, fx, buf);
}

static void info_07_fi_inject_in_op_flags_is_offered(struct kunit *test)
{
	struct fi_info *hints = at_is_rdm(test) ? rdm_hints(test) : fx_hints(test);
	struct fi_info *info;

	hints->tx_attr->op_flags = FI_INJECT;
	info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	for (; info; info = info->next)
		KUNIT_EXPECT_EQ(test, FI_INJECT, info->tx_attr->op_flags);
}

/* A read can be posted with every flag that op_flags may have. */
static void ep_08_transmit_op_flags_do_not_affect_reads(struct kunit *test)
{
	static const u64 own[] = {
		FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
	};
	u8 *buf = tr_buffer(test, LEN);
	struct rma_fx *fx = open(test, NULL);
	struct fid_ep *ep = fx->pair->ep[0];

	for (int i = 0; i < ARRAY_SIZE(own); i++) {
		u64 flags = FI_TRANSMIT | own[i];
		struct kvec iov = { buf, LEN };
		struct fi_cq_tagged_entry entry;

		KUNIT_ASSERT_EQ(test, 0, fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
		KUNIT_ASSERT_EQ(test, 0, fi_read(ep, buf, LEN, NULL, 0, fx->addr, fx->key, buf));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0], &entry, 1));
		KUNIT_ASSERT_EQ(test, 0, fi_readv(ep, &iov, NULL, 1, 0, fx->addr, fx->key, buf));
		KUNIT_ASSERT_EQ(test, 1, fx_wait_comp(test, fx->pair->cq[0], &entry, 1));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(ep_12_only_inject_calls_write_no_entry),
	KUNIT_CASE(ep_07_injected_messages_write_an_entry_when_asked),
	KUNIT_CASE(cntr_03_injected_operations_count_once),
	KUNIT_CASE(ep_12_fi_inject_in_op_flags_copies_the_buffer),
	KUNIT_CASE(info_07_fi_inject_in_op_flags_is_offered),
	KUNIT_CASE(ep_08_transmit_op_flags_do_not_affect_reads),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_inject_entries",
	.test_cases = cases,
};

static struct kunit_case datagram_cases[] = {
	KUNIT_CASE(ep_12_only_inject_calls_write_no_entry),
	KUNIT_CASE(ep_12_fi_inject_in_op_flags_copies_the_buffer),
	KUNIT_CASE(info_07_fi_inject_in_op_flags_is_offered),
	KUNIT_CASE(ep_08_transmit_op_flags_do_not_affect_reads),
	{}
};

static struct kunit_suite datagram_suite = {
	.name = "kofi_rdm_inject_entries",
	.init = at_init_rdm,
	.test_cases = datagram_cases,
};

kunit_test_suites(&suite, &datagram_suite);
