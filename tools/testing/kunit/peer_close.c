// SPDX-License-Identifier: GPL-2.0
/*
 * Tests CLOSE 3 of CONTRACT: peer objects are closed in random order. An object
 * is busy exactly while another one depends on it; an exported object may be
 * closed once it has been imported.
 */

#include <linux/prandom.h>
#include <rdma/fi_collective.h>

#include "peer.h"

#define SEED	7471

enum {
	DOMAIN, CQ, AV, SET, EQ, SRX,
	CQ_FORM, AV_FORM, SET_FORM, SRX_FORM,
	PEER_DOMAIN, PEER_CQ, PEER_AV, PEER_SET, PEER_EQ, PEER_SRX,
	OBJECTS,
};

/* The objects that each one depends on. */
static const u32 parents[OBJECTS] = {
	[CQ] = BIT(DOMAIN),
	[AV] = BIT(DOMAIN),
	[SET] = BIT(AV),
	[SRX] = BIT(DOMAIN),
	[CQ_FORM] = BIT(CQ),
	[AV_FORM] = BIT(AV),
	[SET_FORM] = BIT(SET),
	[SRX_FORM] = BIT(SRX),
	[PEER_DOMAIN] = BIT(DOMAIN),
	[PEER_CQ] = BIT(PEER_DOMAIN) | BIT(CQ),
	[PEER_AV] = BIT(PEER_DOMAIN) | BIT(AV),
	[PEER_SET] = BIT(PEER_AV) | BIT(SET),
	[PEER_EQ] = BIT(EQ),
	[PEER_SRX] = BIT(PEER_DOMAIN) | BIT(SRX),
};

static struct fid *export(struct kunit *test, struct fid *fid)
{
	struct fid *exported;

	KUNIT_ASSERT_EQ(test, 0, fi_export_fid(fid, 0, &exported, NULL));
	return exported;
}

/* Opens all objects. */
static void open_all(struct kunit *test, struct kofi_rdm *rdm, struct fid *fids[OBJECTS])
{
	struct fi_cq_attr cq_attr = {}, peer_cq_attr = { .flags = FI_PEER };
	struct fi_av_attr av_attr = {}, peer_av_attr = { .flags = FI_PEER };
	struct fi_eq_attr eq_attr = {}, peer_eq_attr = { .flags = FI_PEER };
	struct fi_av_set_attr set_attr = {
		.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL,
	};
	struct fi_peer_domain_context domain_context = { .size = sizeof(domain_context) };
	struct fi_peer_cq_context cq_context = { .size = sizeof(cq_context) };
	struct fi_peer_av_context av_context = { .size = sizeof(av_context) };
	struct fi_peer_av_set_context set_context = { .size = sizeof(set_context) };
	struct fi_peer_eq_context eq_context = { .size = sizeof(eq_context) };
	struct fi_peer_srx_context srx_context = { .size = sizeof(srx_context) };
	struct fi_rx_attr srx_attr = {}, peer_srx_attr = { .op_flags = FI_PEER };
	struct fid_domain *domain, *peer_domain;
	struct fid_cq *cq, *peer_cq;
	struct fid_av *av, *peer_av;
	struct fid_av_set *set, *peer_set;
	struct fid_eq *eq, *peer_eq;
	struct fid_ep *srx, *peer_srx, *exported_srx;

	KUNIT_ASSERT_EQ(test, 0, fi_domain(rdm->fabric, rdm->info, &domain, NULL));
	domain_context.domain = domain;
	KUNIT_ASSERT_EQ(test, 0, fi_domain2(rdm->fabric, rdm->info, &peer_domain, FI_PEER,
					    &domain_context));
	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(domain, &cq_attr, &cq, NULL));
	fids[CQ_FORM] = export(test, &cq->fid);
	cq_context.cq = container_of(fids[CQ_FORM], struct fid_peer_cq, fid);
	KUNIT_ASSERT_EQ(test, 0, fi_cq_open(peer_domain, &peer_cq_attr, &peer_cq, &cq_context));
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(domain, &av_attr, &av, NULL));
	fids[AV_FORM] = export(test, &av->fid);
	av_context.av = container_of(fids[AV_FORM], struct fid_peer_av, fid);
	KUNIT_ASSERT_EQ(test, 0, fi_av_open(peer_domain, &peer_av_attr, &peer_av, &av_context));
	KUNIT_ASSERT_EQ(test, 0, fi_av_set(av, &set_attr, &set, NULL));
	fids[SET_FORM] = export(test, &set->fid);
	set_context.av_set = container_of(fids[SET_FORM], struct fid_peer_av_set, fid);
	set_attr.flags = FI_PEER_AV;
	KUNIT_ASSERT_EQ(test, 0, fi_av_set(peer_av, &set_attr, &peer_set, &set_context));
	KUNIT_ASSERT_EQ(test, 0, fi_eq_open(rdm->fabric, &eq_attr, &eq, NULL));
	eq_context.eq = eq;
	KUNIT_ASSERT_EQ(test, 0, fi_eq_open(rdm->fabric, &peer_eq_attr, &peer_eq, &eq_context));
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(domain, &srx_attr, &srx, NULL));
	fids[SRX_FORM] = export(test, &srx->fid);
	exported_srx = container_of(fids[SRX_FORM], struct fid_ep, fid);
	srx_context.srx = container_of(exported_srx, struct fid_peer_srx, ep_fid);
	KUNIT_ASSERT_EQ(test, 0, fi_srx_context(peer_domain, &peer_srx_attr, &peer_srx,
						&srx_context));
	fids[DOMAIN] = &domain->fid;
	fids[CQ] = &cq->fid;
	fids[AV] = &av->fid;
	fids[SET] = &set->fid;
	fids[EQ] = &eq->fid;
	fids[SRX] = &srx->fid;
	fids[PEER_DOMAIN] = &peer_domain->fid;
	fids[PEER_CQ] = &peer_cq->fid;
	fids[PEER_AV] = &peer_av->fid;
	fids[PEER_SET] = &peer_set->fid;
	fids[PEER_EQ] = &peer_eq->fid;
	fids[PEER_SRX] = &peer_srx->fid;
}

static bool is_busy(u32 open, int which)
{
	for (int i = 0; i < OBJECTS; i++)
		if (open & BIT(i) && parents[i] & BIT(which))
			return true;
	return false;
}

static void close_03_peer_objects_close_in_any_order(struct kunit *test)
{
	struct kofi_rdm *rdm = rdm_make(test, NULL);
	struct rnd_state random;

	prandom_seed_state(&random, SEED);
	for (unsigned int round = 0; round < 40 * tr_rounds; round++) {
		struct fid *fids[OBJECTS];
		u32 open = BIT(OBJECTS) - 1;

		open_all(test, rdm, fids);
		/* An object that is busy is closed again later. */
		while (open) {
			int which = prandom_u32_state(&random) % OBJECTS;
			int ret;

			if (!(open & BIT(which)))
				continue;
			ret = is_busy(open, which) ? -FI_EBUSY : 0;
			KUNIT_ASSERT_EQ_MSG(test, ret, fi_close(fids[which]),
					    "closing object %d, open objects %x", which, open);
			if (!ret)
				open &= ~BIT(which);
		}
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(close_03_peer_objects_close_in_any_order),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_peer_close",
	.test_cases = cases,
};

kunit_test_suite(suite);
