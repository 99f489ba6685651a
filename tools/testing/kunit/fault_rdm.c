// SPDX-License-Identifier: GPL-2.0
/* CONTRACT, CLOSE 2: objects of RDM and scalable endpoints; see fault.c. */

#include <kunit/test-bug.h>

#include "fault.h"
#include "rdm_srx.h"
#include "sep.h"

static struct kofi_rdm *rdm;

static int call_fabric(struct fault *fault)
{
	struct fid_fabric *fabric;

	return FAULT_MADE(fault, fi_fabric(rdm->info->fabric_attr, &fabric, NULL),
			  fabric);
}

static int call_domain(struct fault *fault)
{
	struct fid_domain *domain;

	return FAULT_MADE(fault, fi_domain(rdm->fabric, rdm->info, &domain, NULL),
			  domain);
}

static int call_endpoint(struct fault *fault)
{
	struct fid_ep *ep;

	return FAULT_MADE(fault, fi_endpoint(rdm->domain, rdm->info, &ep, NULL),
			  ep);
}

static int call_cq(struct fault *fault)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fid_cq *cq;

	return FAULT_MADE(fault, fi_cq_open(rdm->domain, &attr, &cq, NULL), cq);
}

static void close_02_rdm_objects(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_fabric(datagrams)", NULL, call_fabric },
		{ "fi_domain(datagrams)", NULL, call_domain },
		{ "fi_cq_open(datagrams)", NULL, call_cq },
		{ "fi_endpoint(datagrams)", NULL, call_endpoint },
	};
	struct fault *fault = fault_new(test);
	struct rdm_opts opts = { .rx_size = 16 };

	rdm = rdm_make(test, &opts);
	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static void open_ep(struct kunit *test, struct fault *fault)
{
	fault->ep = fx_ep(test, rdm->domain, rdm->info);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &rdm->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &rdm->cq->fid, FI_TRANSMIT | FI_RECV));
}

/* Enables the endpoint, which succeeds after a failed attempt too, and closes it. */
static void enable_and_close(struct fault *fault)
{
	struct kunit *test = kunit_get_current_test();
	size_t len = sizeof(fault->name);

	KUNIT_EXPECT_EQ(test, 0, fi_enable(fault->ep));
	KUNIT_EXPECT_EQ(test, 0, fi_getname(&fault->ep->fid, &fault->name, &len));
	fx_close(test, &fault->ep->fid);
}

static int call_enable(struct fault *fault)
{
	return fi_enable(fault->ep);
}

static void close_02_enable_rdm(struct kunit *test)
{
	static const struct step enable = {
		"fi_enable(datagrams)", open_ep, call_enable, enable_and_close,
		/* Later allocations are those of packets. */
		.most = 120,
	};

	rdm = rdm_open(test, NULL);
	fault_fail_each(test, fault_new(test), &enable);
	rdm_exchange(test, rdm, rdm_addr(test, rdm, rdm), rdm);
}

static struct sep *sep;

static int call_scalable(struct fault *fault)
{
	struct fid_ep *ep;

	return FAULT_MADE(fault, fi_scalable_ep(sep->domain, sep->info, &ep, NULL), ep);
}

static int call_tx_context(struct fault *fault)
{
	struct fid_ep *ep;

	return FAULT_MADE(fault, fi_tx_context(sep->ep, 1, NULL, &ep, NULL), ep);
}

static int call_rx_context(struct fault *fault)
{
	struct fi_rx_attr attr = {};
	struct fid_ep *ep;

	return FAULT_MADE(fault, fi_rx_context(sep->ep, 1, &attr, &ep, NULL), ep);
}

static void close_02_scalable_endpoints_and_contexts(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_scalable_ep()", NULL, call_scalable },
		{ "fi_tx_context()", NULL, call_tx_context },
		{ "fi_rx_context()", NULL, call_rx_context },
	};
	struct sep_opts opts = { .txs = 2, .rxs = 2, .rx_size = 16, .caps = FI_MULTI_RECV };
	struct fault *fault = fault_new(test);

	sep = sep_open_unbound(test, &opts);
	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static void open_tx(struct kunit *test, struct fault *fault)
{
	KUNIT_ASSERT_EQ(test, 0, fi_tx_context(sep->ep, 1, NULL, &fault->ep, NULL));
	fx_defer_close(test, &fault->ep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &sep->tx_cq[0]->fid, FI_TRANSMIT));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &fault->cntr->fid, FI_SEND));
}

static void open_rx(struct kunit *test, struct fault *fault)
{
	KUNIT_ASSERT_EQ(test, 0, fi_rx_context(sep->ep, 1, NULL, &fault->ep, NULL));
	fx_defer_close(test, &fault->ep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &sep->rx_cq[0]->fid, FI_RECV));
}

/* Enables the context, which succeeds after a failed attempt too, uses it and closes it. */
static void use_and_close(struct fault *fault)
{
	struct kunit *test = kunit_get_current_test();

	KUNIT_EXPECT_EQ(test, 0, fi_enable(fault->ep));
	sep_exchange(test, sep, 0, fault->addr, sep, 0);
	fx_close(test, &fault->ep->fid);
}

static int call_close(struct fault *fault)
{
	struct kunit *test = kunit_get_current_test();

	fx_close(test, &fault->ep->fid);
	return 0;
}

static void open_and_enable_rx(struct kunit *test, struct fault *fault)
{
	open_rx(test, fault);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(fault->ep));
	KUNIT_ASSERT_EQ(test, 0, fi_recv(fault->ep, fault, 1, NULL, FI_ADDR_UNSPEC, NULL));
}

static void close_02_enable_contexts(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_enable(transmit context)", open_tx, call_enable, use_and_close },
		{ "fi_enable(receive context)", open_rx, call_enable, use_and_close },
		{ "fi_close(receive context)", open_and_enable_rx, call_close, NULL,
		  .never_fails = true },
	};
	struct sep_opts opts = { .txs = 2, .rxs = 2, .rx_size = 16 };
	struct fi_cntr_attr attr = {};
	struct fault *fault = fault_new(test);

	sep = sep_open_unbound(test, &opts);
	KUNIT_ASSERT_EQ(test, 0, fi_cntr_open(sep->domain, &attr, &fault->cntr, NULL));
	fx_defer_close(test, &fault->cntr->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(sep->ep, &sep->av->fid, 0));
	sep_open_tx(test, sep, 0, 0);
	sep_open_rx(test, sep, 0, 0);
	KUNIT_ASSERT_EQ(test, 0, fi_getname(&sep->ep->fid, &sep->name, &sep->name_len));
	fault->addr = sep_addr(test, sep, &sep->name);
	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static int call_enable_scalable(struct fault *fault)
{
	return fi_enable(fault->ep);
}

static void open_scalable(struct kunit *test, struct fault *fault)
{
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep(sep->domain, sep->info, &fault->ep, NULL));
	fx_defer_close(test, &fault->ep->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_scalable_ep_bind(fault->ep, &sep->av->fid, 0));
}

static void close_02_enable_scalable_endpoints(struct kunit *test)
{
	static const struct step enable = {
		"fi_enable(scalable)", open_scalable, call_enable_scalable, enable_and_close,
		/* Later allocations are those of packets. */
		.most = 120,
	};
	struct sep_opts opts = { .txs = 2, .rxs = 2, .rx_size = 16 };

	sep = sep_open_unbound(test, &opts);
	fault_fail_each(test, fault_new(test), &enable);
}

static struct rs_world *srx_fx;

static int call_srx(struct fault *fault)
{
	struct fi_rx_attr attr = { .size = 8 };
	struct fid_ep *srx;

	return FAULT_MADE(fault, fi_srx_context(srx_fx->domain, &attr, &srx, NULL), srx);
}

static int call_stx(struct fault *fault)
{
	struct fi_tx_attr attr = { .size = 4 };
	struct fid_stx *stx;

	return FAULT_MADE(fault, fi_stx_context(srx_fx->domain, &attr, &stx, NULL), stx);
}

static int call_recv(struct fault *fault)
{
	return fi_recv(srx_fx->srx, fault, 1, NULL, FI_ADDR_UNSPEC, NULL);
}

static void reopen_srx(struct kunit *test, struct fault *fault)
{
	srx_fx->srx = rs_srx(test, srx_fx);
}

static void reopen_and_post(struct kunit *test, struct fault *fault)
{
	reopen_srx(test, fault);
	KUNIT_ASSERT_EQ(test, 0, call_recv(fault));
}

static void close_srx(struct fault *fault)
{
	fx_close(kunit_get_current_test(), &srx_fx->srx->fid);
}

static int call_close_srx(struct fault *fault)
{
	close_srx(fault);
	return 0;
}

static void open_member(struct kunit *test, struct fault *fault)
{
	fault->ep = rs_ep(test, srx_fx, 0);
}

static int call_bind(struct fault *fault)
{
	return fi_ep_bind(fault->ep, &srx_fx->srx->fid, 0);
}

static void close_member(struct fault *fault)
{
	fx_close(kunit_get_current_test(), &fault->ep->fid);
}

static void open_and_bind_member(struct kunit *test, struct fault *fault)
{
	open_member(test, fault);
	KUNIT_ASSERT_EQ(test, 0, call_bind(fault));
}

static void open_and_enable_member(struct kunit *test, struct fault *fault)
{
	open_and_bind_member(test, fault);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(fault->ep));
}

static int call_close_member(struct fault *fault)
{
	close_member(fault);
	return 0;
}

static void close_02_rdm_with_shared_contexts(struct kunit *test)
{
	static const struct step alone[] = {
		{ "fi_srx_context(datagrams)", NULL, call_srx },
		{ "fi_stx_context(datagrams)", NULL, call_stx },
		{ "fi_recv(datagrams' srx)", reopen_srx, call_recv, close_srx, true },
		{ "fi_close(datagrams' srx)", reopen_and_post, call_close_srx, NULL, true },
	};
	static const struct step bound[] = {
		{ "fi_ep_bind(datagrams' srx)", open_member, call_bind, close_member, true },
		{ "fi_enable(datagrams that share)", open_and_bind_member, call_enable,
		  enable_and_close,
		  /* Later allocations are those of packets. */
		  .most = 120 },
		{ "fi_close(datagrams that share)", open_and_enable_member, call_close_member,
		  NULL, true },
	};
	struct fault *fault = fault_new(test);
	struct rs_opts opts = {};

	srx_fx = rs_open(test, &opts);
	for (int i = 0; i < 2; i++)
		fx_close(test, &srx_fx->member[i].ep->fid);
	fx_close(test, &srx_fx->srx->fid);
	for (int i = 0; i < ARRAY_SIZE(alone); i++)
		fault_fail_each(test, fault, &alone[i]);
	reopen_srx(test, fault);
	for (int i = 0; i < ARRAY_SIZE(bound); i++)
		fault_fail_each(test, fault, &bound[i]);
	/* The shared context has no reference of a closed endpoint left. */
	fx_close(test, &srx_fx->srx->fid);
}

static struct kunit_case fault_rdm_cases[] = {
	KUNIT_CASE(close_02_rdm_objects),
	KUNIT_CASE(close_02_enable_rdm),
	KUNIT_CASE(close_02_scalable_endpoints_and_contexts),
	KUNIT_CASE(close_02_enable_contexts),
	KUNIT_CASE(close_02_enable_scalable_endpoints),
	KUNIT_CASE(close_02_rdm_with_shared_contexts),
	{}
};

static struct kunit_suite fault_rdm_suite = {
	.name = "kofi_fault_rdm",
	.init = fault_init,
	.test_cases = fault_rdm_cases,
};

kunit_test_suite(fault_rdm_suite);
