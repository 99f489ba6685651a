// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CLOSE 2: each allocation of each constructor fails in turn, and the
 * constructor undoes its earlier steps.
 *
 * A call is repeated with its first, second, ... allocation failing, until it
 * has fewer. Only allocations of the calling task fail, and those that may wait
 * only with this setting:
 *
 *	echo N >/sys/kernel/debug/failslab/ignore-gfp-wait
 *
 * Leaks of memory and of device resources are found by checks after the test.
 * An object that stays open is found here, when the test closes its parent.
 */

#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "cntr.h"
#include "fault.h"

#ifdef CONFIG_FAULT_INJECTION
static void fail_nth(unsigned int n)
{
	WRITE_ONCE(current->fail_nth, n);
}

/* Returns true if the chosen allocation was reached, and disarms the injection. */
static bool has_failed(void)
{
	bool failed = !READ_ONCE(current->fail_nth);

	WRITE_ONCE(current->fail_nth, 0);
	return failed;
}
#else
static void fail_nth(unsigned int n) { }
static bool has_failed(void) { return false; }
#endif

int fault_init(struct kunit *test)
{
	void *memory;

	if (!IS_ENABLED(CONFIG_FAULT_INJECTION) || !IS_ENABLED(CONFIG_FAILSLAB))
		kunit_skip(test, "a kernel without CONFIG_FAILSLAB");

	fail_nth(1);
	memory = kmalloc(64, GFP_KERNEL);
	if (!has_failed() || memory) {
		kfree(memory);
		kunit_skip(test, "failslab/ignore-gfp-wait is not N");
	}
	return 0;
}

/* Upper bound of the allocations of a call. */
#define MOST	4000

void fault_fail_each(struct kunit *test, struct fault *fault,
		     const struct step *step)
{
	unsigned int n, errnos = 0;
	bool failed = true;

	for (n = 1; n < (step->most ?: MOST) && failed; n++) {
		int ret;

		if (step->prepare)
			step->prepare(test, fault);
		fault->made = NULL;
		fail_nth(n);
		ret = step->call(fault);
		failed = has_failed();

		KUNIT_EXPECT_TRUE_MSG(test, !ret || (failed && ret < 0 &&
						     ret > -FI_ERRNO_MAX &&
						     !step->never_fails),
				      "%s returns %d when allocation %u %s",
				      step->name, ret, n,
				      failed ? "fails" : "is not reached");
		errnos += ret < 0;
		if (!ret && fault->made)
			KUNIT_EXPECT_EQ(test, fi_close(fault->made), 0);
		if (step->clean)
			step->clean(fault);
	}
	KUNIT_EXPECT_LT_MSG(test, n, MOST, "%s has too many allocations", step->name);
	KUNIT_EXPECT_TRUE_MSG(test, errnos || step->never_fails,
			      "%s never reported a failure", step->name);
	kunit_info(test, "%s: %u allocations, %u of them answered\n",
		   step->name, n - 2, errnos);
}

struct fault *fault_new(struct kunit *test)
{
	struct fault *fault = kunit_kzalloc(test, sizeof(*fault), GFP_KERNEL);
	struct fi_info *hints = fx_hints(test);
	size_t len = sizeof(fault->name);

	KUNIT_ASSERT_NOT_NULL(test, fault);
	fault->buf = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fault->buf);
	fault->fx = fx_open(test);
	/* Endpoints with all capabilities have the most allocations. */
	hints->caps = 0;
	fault->fx->info = fx_info_for(test, hints, fx_addr, NULL, FI_SOURCE);
	fault->server = fx_eq(test, fault->fx->fabric);
	fault->cntr = cn_open(test, fault->fx->domain);
	fault->pep = fx_listen(test, fault->fx->fabric, fault->fx->info,
			       fault->server);
	KUNIT_ASSERT_EQ(test, fi_getname(&fault->pep->fid, &fault->name, &len),
			0);
	return fault;
}

static int call_getinfo(struct fault *fault)
{
	fault->info = NULL;
	return fi_getinfo(FI_VERSION(1, 17), fx_addr, "7471", FI_SOURCE,
			  fault->fx->info, &fault->info);
}

static int call_getinfo_of_peer(struct fault *fault)
{
	fault->info = NULL;
	return fi_getinfo(FI_VERSION(1, 17), fx_addr, "7471", 0, NULL,
			  &fault->info);
}

static int call_dupinfo(struct fault *fault)
{
	fault->info = fi_dupinfo(fault->fx->info);
	return fault->info ? 0 : -FI_ENOMEM;
}

static int call_allocinfo(struct fault *fault)
{
	fault->info = fi_allocinfo();
	return fault->info ? 0 : -FI_ENOMEM;
}

static void free_info(struct fault *fault)
{
	fi_freeinfo(fault->info);
}

static void close_02_infos(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_getinfo(FI_SOURCE)", NULL, call_getinfo, free_info },
		{ "fi_getinfo()", NULL, call_getinfo_of_peer, free_info },
		{ "fi_dupinfo()", NULL, call_dupinfo, free_info },
		{ "fi_allocinfo()", NULL, call_allocinfo, free_info },
	};
	struct fault *fault = fault_new(test);

	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static int call_fabric(struct fault *fault)
{
	struct fid_fabric *fabric;

	return FAULT_MADE(fault, fi_fabric(fault->fx->info->fabric_attr, &fabric,
				     NULL), fabric);
}

static int call_domain(struct fault *fault)
{
	struct fid_domain *domain;

	return FAULT_MADE(fault, fi_domain(fault->fx->fabric, fault->fx->info,
				     &domain, NULL), domain);
}

static void no_event(struct fid_eq *eq, void *context) { }

static int call_eq_open(struct fault *fault)
{
	struct fi_eq_attr attr = { .eq_event_handler = no_event };
	struct fid_eq *eq;

	return FAULT_MADE(fault, fi_eq_open(fault->fx->fabric, &attr, &eq, NULL), eq);
}

static int call_cq_open(struct fault *fault)
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cq *cq;

	return FAULT_MADE(fault, fi_cq_open(fault->fx->domain, &attr, &cq, NULL), cq);
}

static int call_cntr_open(struct fault *fault)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;

	return FAULT_MADE(fault, fi_cntr_open(fault->fx->domain, &attr, &cntr,
					      NULL), cntr);
}

static int call_passive_ep(struct fault *fault)
{
	struct fid_pep *pep;

	return FAULT_MADE(fault, fi_passive_ep(fault->fx->fabric, fault->fx->info,
					 &pep, NULL), pep);
}

static int call_endpoint(struct fault *fault)
{
	struct fid_ep *ep;

	return FAULT_MADE(fault, fi_endpoint(fault->fx->domain, fault->fx->info, &ep,
				       NULL), ep);
}

static int call_mr_reg(struct fault *fault)
{
	struct fid_mr *mr;

	return FAULT_MADE(fault, fi_mr_reg(fault->fx->domain, fault->buf, PAGE_SIZE,
				     FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL),
		    mr);
}

static void close_02_constructors(struct kunit *test)
{
	static const struct step steps[] = {
		{ "fi_fabric()", NULL, call_fabric },
		{ "fi_domain()", NULL, call_domain },
		{ "fi_eq_open()", NULL, call_eq_open },
		{ "fi_cq_open()", NULL, call_cq_open },
		{ "fi_cntr_open()", NULL, call_cntr_open },
		{ "fi_passive_ep()", NULL, call_passive_ep },
		{ "fi_endpoint()", NULL, call_endpoint },
		{ "fi_mr_reg()", NULL, call_mr_reg },
	};
	struct fault *fault = fault_new(test);

	for (int i = 0; i < ARRAY_SIZE(steps); i++)
		fault_fail_each(test, fault, &steps[i]);
}

static int call_mr_regv(struct fault *fault)
{
	struct kvec iov[2] = {
		{ fault->buf, PAGE_SIZE / 4 },
		{ fault->buf + PAGE_SIZE / 2, PAGE_SIZE / 4 },
	};
	struct fid_mr *mr;

	return FAULT_MADE(fault, fi_mr_regv(fault->fx->domain, iov, 2, 0, 0, 0, 0,
				      &mr, NULL), mr);
}

static void close_02_large_regions(struct kunit *test)
{
	static const struct step regv = { "fi_mr_regv()", NULL, call_mr_regv };
	static const struct step reg = { "fi_mr_reg(vmalloc)", NULL,
					 call_mr_reg };
	struct fault *fault = fault_new(test);

	fault_fail_each(test, fault, &regv);
	fault->buf = vmalloc(PAGE_SIZE);
	if (fault->buf)
		fault_fail_each(test, fault, &reg);
	vfree(fault->buf);
}

static struct kunit_case fault_cases[] = {
	KUNIT_CASE_SLOW(close_02_infos),
	KUNIT_CASE_SLOW(close_02_constructors),
	KUNIT_CASE_SLOW(close_02_large_regions),
	{}
};

static struct kunit_suite fault_suite = {
	.name = "kofi_fault",
	.init = fault_init,
	.test_cases = fault_cases,
};

kunit_test_suite(fault_suite);
