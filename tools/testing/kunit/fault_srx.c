// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CLOSE 2: shared receive contexts and the endpoints bound to them,
 * whose allocations fail in turn.
 */

#include "fault.h"
#include "srx.h"

static int open_srx(struct fault *fault, struct fid_ep **srx)
{
	struct fi_rx_attr attr = { .size = 8 };

	return fi_srx_context(fault->fx->domain, &attr, srx, NULL);
}

static int call_srx_context(struct fault *fault)
{
	struct fid_ep *srx;

	return FAULT_MADE(fault, open_srx(fault, &srx), srx);
}

static void open_ep(struct kunit *test, struct fault *fault)
{
	struct kofi_fabric_fx *fx = fault->fx;

	KUNIT_ASSERT_EQ(test, fi_endpoint(fx->domain, fx->info, &fault->ep,
					  NULL), 0);
	KUNIT_EXPECT_EQ(test, fi_ep_bind(fault->ep, &fx->eq->fid, 0), 0);
	KUNIT_EXPECT_EQ(test, fi_ep_bind(fault->ep, &fx->cq->fid,
					 FI_TRANSMIT | FI_RECV), 0);
	KUNIT_EXPECT_EQ(test, fi_ep_bind(fault->ep, &fault->cntr->fid,
					 FI_SEND | FI_RECV), 0);
}

static void open_and_bind(struct kunit *test, struct fault *fault)
{
	open_ep(test, fault);
	KUNIT_EXPECT_EQ(test, fi_ep_bind(fault->ep, &fault->srx->fid, 0), 0);
}

static void close_ep(struct fault *fault)
{
	fi_close(&fault->ep->fid);
}

static int call_bind(struct fault *fault)
{
	return fi_ep_bind(fault->ep, &fault->srx->fid, 0);
}

static int call_enable(struct fault *fault)
{
	return fi_enable(fault->ep);
}

static int call_recv(struct fault *fault)
{
	return fi_recv(fault->srx, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL);
}

static void reopen_srx(struct kunit *test, struct fault *fault)
{
	KUNIT_ASSERT_EQ(test, open_srx(fault, &fault->srx), 0);
}

static void close_srx(struct fault *fault)
{
	fi_close(&fault->srx->fid);
}

static int call_close(struct fault *fault)
{
	int ret = call_recv(fault) ?: fi_close(&fault->srx->fid);

	fault->srx = NULL;
	return ret;
}

static void close_02_shared_receive_contexts(struct kunit *test)
{
	static const struct step alone[] = {
		{ "fi_srx_context()", NULL, call_srx_context },
		{ "fi_recv(srx)", reopen_srx, call_recv, close_srx, true },
		{ "fi_close(srx)", reopen_srx, call_close, NULL, true },
	};
	static const struct step bound[] = {
		{ "fi_ep_bind(srx)", open_ep, call_bind, close_ep, true },
		{ "fi_enable(srx)", open_and_bind, call_enable, close_ep },
	};
	struct fault *fault = fault_new(test);

	fault->fx->info = sx_info(test, NULL);
	for (int i = 0; i < ARRAY_SIZE(alone); i++)
		fault_fail_each(test, fault, &alone[i]);
	reopen_srx(test, fault);
	for (int i = 0; i < ARRAY_SIZE(bound); i++)
		fault_fail_each(test, fault, &bound[i]);
	KUNIT_EXPECT_EQ(test, fi_close(&fault->srx->fid), 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(close_02_shared_receive_contexts),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_fault_srx",
	.init = fault_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
