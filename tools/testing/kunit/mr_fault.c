// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CLOSE 2 of CONTRACT for remote regions: each allocation of a
 * registration fails in turn. A domain's first remote registration also creates
 * its fast-registration queue pair.
 */

#include "fault.h"
#include "traffic.h"

static int open_domain(struct fault *fault, struct fid_domain **domain)
{
	return fi_domain(fault->fx->fabric, fault->fx->info, domain, NULL);
}

static int reg(struct fault *fault, struct fid_domain *domain,
	       struct fid_mr **mr)
{
	return fi_mr_reg(domain, fault->buf, PAGE_SIZE,
			 FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, mr, NULL);
}

static int call_first_registration(struct fault *fault)
{
	struct fid_domain *domain;
	struct fid_mr *mr;
	int ret;

	ret = open_domain(fault, &domain);
	if (ret)
		return ret;
	ret = reg(fault, domain, &mr);
	if (!ret)
		ret = fi_close(&mr->fid);
	return fi_close(&domain->fid) ?: ret;
}

static int call_further_registration(struct fault *fault)
{
	struct fid_mr *mr;

	return FAULT_MADE(fault, reg(fault, fault->fx->domain, &mr), mr);
}

/* Registers a region in a domain that reports registrations to an event queue. */
static int call_reported_registration(struct fault *fault)
{
	struct fid_domain *domain;
	struct fid_mr *mr;
	int ret;

	ret = open_domain(fault, &domain);
	if (ret)
		return ret;
	ret = fi_domain_bind(domain, &fault->fx->eq->fid, FI_REG_MR) ?:
	      fi_mr_reg(domain, fault->buf, PAGE_SIZE, FI_SEND, 0, 0, 0, &mr,
			NULL);
	if (!ret)
		ret = fi_close(&mr->fid);
	return fi_close(&domain->fid) ?: ret;
}

static void close_02_failed_allocations_of_remote_registrations(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_mr_reg(first remote)", NULL, call_first_registration },
		{ "fi_mr_reg(remote)", NULL, call_further_registration },
		{ "fi_mr_reg(reported)", NULL, call_reported_registration },
	};
	struct fault *fault = fault_new(test);
	struct fid_mr *mr;

	/* siw itself leaks on a failure: pages of regions, and connections not accepted. */
	if (tr_is_iwarp(fault->fx->info))
		kunit_skip(test, "siw leaks what it has no memory for");
	KUNIT_ASSERT_EQ(test, 0, reg(fault, fault->fx->domain, &mr));
	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
	KUNIT_EXPECT_EQ(test, 0, fi_close(&mr->fid));
}

static struct fid_mr *open_region;

static void open_a_region(struct kunit *test, struct fault *fault)
{
	KUNIT_ASSERT_EQ(test, 0, reg(fault, fault->fx->domain, &open_region));
}

static int call_close(struct fault *fault)
{
	return fi_close(&open_region->fid);
}

/* Closing a remote region allocates nothing. */
static void close_02_closing_a_remote_region_allocates_nothing(struct kunit *test)
{
	static const struct step close = {
		"fi_close(remote)", open_a_region, call_close, NULL, true
	};

	fault_fail_each(test, fault_new(test), &close);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(close_02_failed_allocations_of_remote_registrations),
	KUNIT_CASE_SLOW(close_02_closing_a_remote_region_allocates_nothing),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_mr_fault",
	.init = fault_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
