// SPDX-License-Identifier: GPL-2.0
/* CONTRACT, CLOSE 2: importing an offload domain, and joining a group; see fault.c. */

#include <kunit/test-bug.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>

#include "fault.h"
#include "rdm.h"

static struct kofi_rdm *rdm;
static struct fid_domain *offload;
static struct fid_av_set *set;

static void make(struct kunit *test, struct fault *fault)
{
	fault->ep = fx_ep(test, rdm->domain, rdm->info);
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &rdm->av->fid, 0));
	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(fault->ep, &rdm->cq->fid, FI_TRANSMIT | FI_RECV));
	KUNIT_ASSERT_EQ(test, 0, fi_enable(fault->ep));
}

static int call_import(struct fault *fault)
{
	return fi_import_fid(&fault->ep->fid, &offload->fid, 0);
}

static void close_ep(struct fault *fault)
{
	fx_close(kunit_get_current_test(), &fault->ep->fid);
}

static int call_join(struct fault *fault)
{
	struct fid_mc *mc;

	return FAULT_MADE(fault, fi_join_collective(rdm->ep, FI_ADDR_NOTAVAIL, set, 0, &mc, NULL), mc);
}

static void close_02_import_and_join(struct kunit *test)
{
	static const struct rdm_opts opts = { .caps = FI_COLLECTIVE };
	static const struct step import = { "fi_import_fid(domain)", make, call_import, close_ep };
	static const struct step join = { "fi_join_collective()", NULL, call_join };
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL,
	};
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, hints);
	hints->mode = FI_PEER_TRANSFER;
	hints->fabric_attr->prov_name = kstrdup("collective", GFP_KERNEL);
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (ret)
		kunit_skip(test, "see scenarios/collective.sh");
	fx_defer_free(test, info);
	offload = fx_domain(test, fx_fabric(test, info), info);
	rdm = rdm_open(test, &opts);
	KUNIT_ASSERT_EQ(test, 0, fi_av_set(rdm->av, &attr, &set, NULL));
	fx_defer_close(test, &set->fid);
	KUNIT_ASSERT_EQ(test, 0, fi_av_set_insert(set, rdm_addr(test, rdm, rdm)));
	fault_fail_each(test, fault_new(test), &import);
	KUNIT_ASSERT_EQ(test, 0, fi_import_fid(&rdm->ep->fid, &offload->fid, 0));
	fault_fail_each(test, fault_new(test), &join);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(close_02_import_and_join),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_fault_collective",
	.init = fault_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
