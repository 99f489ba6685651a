// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, CLOSE 2: objects that providers share, whose allocations fail; see
 * fault.c.
 */

#include <kunit/test-bug.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>

#include "fault.h"
#include "rdm_srx.h"

static int open_queue(struct fault *fault)
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	return fi_cq_open(fault->fx->domain, &attr, &fault->cq, NULL);
}

static void reopen_queue(struct kunit *test, struct fault *fault)
{
	KUNIT_ASSERT_EQ(test, 0, open_queue(fault));
}

static void close_queue(struct fault *fault)
{
	fi_close(&fault->cq->fid);
}

static int export(struct fault *fault, struct fid *fid)
{
	struct fid *exported;
	int ret = fi_export_fid(fid, 0, &exported, NULL);

	if (!ret)
		fault->made = exported;
	return ret;
}

static int call_export(struct fault *fault)
{
	return export(fault, &fault->cq->fid);
}

static int call_open_peer(struct fault *fault)
{
	struct fi_peer_cq_context context = {
		.size = sizeof(context),
		.cq = container_of(fault->exported, struct fid_peer_cq, fid),
	};
	struct fi_cq_attr attr = { .flags = FI_PEER };
	struct fid_cq *cq;

	return FAULT_MADE(fault, fi_cq_open(fault->fx->domain, &attr, &cq, &context), cq);
}

static void close_02_peer_cqs(struct kunit *test)
{
	static const struct step exporting = {
		"fi_export_fid(cq)", reopen_queue, call_export, close_queue
	};
	static const struct step opening = { "fi_cq_open(FI_PEER)", NULL, call_open_peer };
	struct fault *fault = fault_new(test);

	fault_fail_each(test, fault, &exporting);
	if (fx_serial)
		return;
	reopen_queue(test, fault);
	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(&fault->cq->fid, 0, &fault->exported, NULL));
	fault_fail_each(test, fault, &opening);
	KUNIT_EXPECT_EQ(test, 0, fi_close(fault->exported));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&fault->cq->fid));
}

static struct fid_av_set *set;

static int call_export_av(struct fault *fault)
{
	return export(fault, &fault->av->fid);
}

static int call_open_peer_av(struct fault *fault)
{
	struct fi_peer_av_context context = {
		.size = sizeof(context),
		.av = container_of(fault->exported, struct fid_peer_av, fid),
	};
	struct fi_av_attr attr = { .flags = FI_PEER };
	struct fid_av *av;

	return FAULT_MADE(fault, fi_av_open(fault->fx->domain, &attr, &av, &context), av);
}

static int call_export_set(struct fault *fault)
{
	return export(fault, &set->fid);
}

static int call_open_peer_set(struct fault *fault)
{
	struct fi_peer_av_set_context context = {
		.size = sizeof(context),
		.av_set = container_of(fault->exported, struct fid_peer_av_set, fid),
	};
	struct fi_av_set_attr attr = {
		.start_addr = FI_ADDR_NOTAVAIL,
		.end_addr = FI_ADDR_NOTAVAIL,
		.flags = FI_PEER_AV,
	};
	struct fid_av_set *peer;

	return FAULT_MADE(fault, fi_av_set(fault->av, &attr, &peer, &context), peer);
}

static int call_open_peer_eq(struct fault *fault)
{
	struct fi_peer_eq_context context = { .size = sizeof(context), .eq = fault->fx->eq };
	struct fi_eq_attr attr = { .flags = FI_PEER };
	struct fid_eq *eq;

	return FAULT_MADE(fault, fi_eq_open(fault->fx->fabric, &attr, &eq, &context), eq);
}

static int call_open_peer_domain(struct fault *fault)
{
	struct fi_peer_domain_context context = {
		.size = sizeof(context),
		.domain = fault->fx->domain,
	};
	struct fid_domain *domain;

	return FAULT_MADE(fault, fi_domain2(fault->fx->fabric, fault->fx->info, &domain, FI_PEER,
					    &context), domain);
}

static void close_02_peer_avs_eqs_and_domains(struct kunit *test)
{
	static const struct step exporting_av = { "fi_export_fid(av)", NULL, call_export_av };
	static const struct step exporting_set = { "fi_export_fid(av_set)", NULL, call_export_set };
	static const struct step opening_av = { "fi_av_open(FI_PEER)", NULL, call_open_peer_av };
	static const struct step opening_set = { "fi_av_set(FI_PEER_AV)", NULL, call_open_peer_set };
	static const struct step others[] = {
		{ "fi_eq_open(FI_PEER)", NULL, call_open_peer_eq },
		{ "fi_domain2(FI_PEER)", NULL, call_open_peer_domain },
	};
	struct fault *fault = fault_new(test);
	struct fi_av_attr av_attr = {};
	struct fi_av_set_attr set_attr = { .flags = FI_UNIVERSE };

	set_attr.start_addr = FI_ADDR_NOTAVAIL;
	set_attr.end_addr = FI_ADDR_NOTAVAIL;
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(fault->fx->domain, &av_attr, &fault->av, NULL));
	fx_defer_close(test, &fault->av->fid);
	KUNIT_ASSERT_EQ(test, 4, fi_av_insertsym(fault->av, "10.0.0.1", 4, "1", 1, NULL, 0, NULL));
	KUNIT_ASSERT_EQ(test, 0, fi_av_set(fault->av, &set_attr, &set, NULL));
	fx_defer_close(test, &set->fid);
	fault_fail_each(test, fault, &exporting_av);
	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(&fault->av->fid, 0, &fault->exported, NULL));
	fault_fail_each(test, fault, &opening_av);
	KUNIT_EXPECT_EQ(test, 0, fi_close(fault->exported));
	fault_fail_each(test, fault, &exporting_set);
	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(&set->fid, 0, &fault->exported, NULL));
	fault_fail_each(test, fault, &opening_set);
	KUNIT_EXPECT_EQ(test, 0, fi_close(fault->exported));
	for (int i = 0; i < ARRAY_SIZE(others); i++)
		fault_fail_each(test, fault, &others[i]);
}

static struct rs_world *srx_fx;

static int call_export_srx(struct fault *fault)
{
	return export(fault, &srx_fx->srx->fid);
}

static int call_open_peer_srx(struct fault *fault)
{
	struct fid_ep *peer_ep = container_of(fault->exported, struct fid_ep, fid);
	struct fi_peer_srx_context context = {
		.size = sizeof(context),
		.srx = container_of(peer_ep, struct fid_peer_srx, ep_fid),
	};
	struct fi_rx_attr attr = { .op_flags = FI_PEER };
	struct fid_ep *srx;

	return FAULT_MADE(fault, fi_srx_context(srx_fx->domain, &attr, &srx, &context), srx);
}

/*
 * Opens a context over another provider's shared receives, which are not called
 * before a message arrives.
 */
static int call_open_peer_of_foreign_srx(struct fault *fault)
{
	struct fid_ep *peer_ep = container_of(fault->exported, struct fid_ep, fid);
	struct fid_peer_srx foreign = {
		.ep_fid.fid.fclass = FI_CLASS_PEER_SRX,
		.owner_ops = container_of(peer_ep, struct fid_peer_srx, ep_fid)->owner_ops,
	};
	struct fi_peer_srx_context context = { .size = sizeof(context), .srx = &foreign };
	struct fi_rx_attr attr = { .op_flags = FI_PEER };
	struct fid_ep *srx;
	int ret = fi_srx_context(srx_fx->domain, &attr, &srx, &context);

	/* Closed here, since the context is on this stack. */
	return ret ?: fi_close(&srx->fid);
}

static void close_02_peer_srxs(struct kunit *test)
{
	static const struct step exporting = { "fi_export_fid(srx)", NULL, call_export_srx };
	static const struct step opening[] = {
		{ "fi_srx_context(FI_PEER)", NULL, call_open_peer_srx },
		{ "fi_srx_context(FI_PEER) of others", NULL, call_open_peer_of_foreign_srx },
	};
	struct fault *fault = fault_new(test);

	srx_fx = rs_open(test, NULL);
	fault_fail_each(test, fault, &exporting);
	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(&srx_fx->srx->fid, 0, &fault->exported, NULL));
	for (int i = 0; i < ARRAY_SIZE(opening); i++)
		fault_fail_each(test, fault, &opening[i]);
	KUNIT_EXPECT_EQ(test, 0, fi_close(fault->exported));
}

static struct kunit_case cases[] = {
	KUNIT_CASE_SLOW(close_02_peer_cqs),
	KUNIT_CASE_SLOW(close_02_peer_avs_eqs_and_domains),
	KUNIT_CASE_SLOW(close_02_peer_srxs),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_fault_peer",
	.init = fault_init,
	.test_cases = cases,
};

kunit_test_suite(suite);
