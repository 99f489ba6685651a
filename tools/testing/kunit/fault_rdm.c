// SPDX-License-Identifier: GPL-2.0
/* CLOSE 2 for what datagrams need: see fault.c. */

#include <kunit/test-bug.h>

#include "fault.h"
#include "rdm.h"

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

static void close_02_what_datagrams_need(struct kunit *test)
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
		fault_walk(test, fault, &steps[i]);
}

static void make(struct kunit *test, struct fault *fault)
{
	fault->ep = fx_ep(test, rdm->domain, rdm->info);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &rdm->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &rdm->cq->fid, FI_TRANSMIT | FI_RECV));
}

/* Again, if it has failed: it works, and begins where that has ended. */
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

static void close_02_enabling_datagrams(struct kunit *test)
{
	static const struct step enable = {
		"fi_enable(datagrams)", make, call_enable, enable_and_close,
		/* Then it is packets. */
		.most = 120,
	};

	rdm = rdm_open(test, NULL);
	fault_walk(test, fault_new(test), &enable);
	rdm_exchange(test, rdm, rdm_know(test, rdm, rdm), rdm);
}

static struct kunit_case fault_rdm_cases[] = {
	KUNIT_CASE(close_02_what_datagrams_need),
	KUNIT_CASE(close_02_enabling_datagrams),
	{}
};

static struct kunit_suite fault_rdm_suite = {
	.name = "kofi_fault_rdm",
	.init = fault_init,
	.test_cases = fault_rdm_cases,
};

kunit_test_suite(fault_rdm_suite);
