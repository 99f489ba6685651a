// SPDX-License-Identifier: GPL-2.0
/*
 * Event queues bound to domains: for endpoints without a queue of their own,
 * and for registrations. Events of a device removal are in outage.c.
 */

#include "traffic.h"

#define LEN	256

/* Opens a domain after its event queue, so that the domain is closed first. */
static struct kofi_fabric_fx *open_fx(struct kunit *test)
{
	struct kofi_fabric_fx *fx = (void *)tr_buffer(test, sizeof(*fx));
	struct fi_cq_attr attr = {};

	fx->info = fx_info(test, fx_addr, NULL, FI_SOURCE);
	fx->fabric = fx_fabric(test, fx->info);
	fx->eq = fx_eq(test, fx->fabric);
	fx->domain = fx_domain(test, fx->fabric, fx->info);
	fx->cq = fx_cq(test, fx->domain, &attr);
	return fx;
}

/* Registers a region with this context. */
static struct fid_mr *reg(struct kunit *test, struct kofi_fabric_fx *fx,
			  u64 access, void *context)
{
	struct fid_mr *mr;

	KUNIT_ASSERT_EQ(test, 0, fi_mr_reg(fx->domain, tr_buffer(test, LEN), LEN,
					   access, 0, 0, 0, &mr, context));
	fx_defer_close(test, &mr->fid);
	return mr;
}

static void expect_complete(struct kunit *test, struct fid_eq *eq,
			    struct fid_mr *mr, void *context)
{
	struct fi_eq_entry entry = { .data = 1 };

	KUNIT_ASSERT_EQ(test, sizeof(entry),
			fx_wait_event(test, eq, FI_MR_COMPLETE, &entry,
				      sizeof(entry)));
	KUNIT_EXPECT_PTR_EQ(test, &mr->fid, entry.fid);
	KUNIT_EXPECT_PTR_EQ(test, context, entry.context);
	KUNIT_EXPECT_EQ(test, 0, entry.data);
}

static void mr_01_registrations_are_reported(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	struct fid_mr *mr[2], *refused;
	int context[2];

	mr[0] = reg(test, fx, FI_SEND, &context[0]);
	tr_expect_silence(test, fx->eq);
	KUNIT_ASSERT_EQ(test, 0, fi_domain_bind(fx->domain, &fx->eq->fid,
						FI_REG_MR));
	/* Earlier registrations were reported by their call. */
	tr_expect_silence(test, fx->eq);
	mr[0] = reg(test, fx, FI_SEND, &context[0]);
	mr[1] = reg(test, fx, FI_REMOTE_READ, &context[1]);
	for (int i = 0; i < 2; i++)
		expect_complete(test, fx->eq, mr[i], &context[i]);
	/* A refused registration is reported by its call only. */
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_mr_reg(fx->domain, mr, 0, FI_SEND, 0, 0, 0, &refused,
				  NULL));
	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_mr_reg(fx->domain, mr, 1, FI_SEND, 0, 0, ~0ULL,
				  &refused, NULL));
	tr_expect_silence(test, fx->eq);
}

static void mr_01_close_discards_the_regions_event(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	struct fid_mr *mr[3];

	KUNIT_ASSERT_EQ(test, 0, fi_domain_bind(fx->domain, &fx->eq->fid,
						FI_REG_MR));
	for (int i = 0; i < ARRAY_SIZE(mr); i++)
		mr[i] = reg(test, fx, FI_SEND, &mr[i]);
	fx_close(test, &mr[1]->fid);
	expect_complete(test, fx->eq, mr[0], &mr[0]);
	expect_complete(test, fx->eq, mr[2], &mr[2]);
	tr_expect_silence(test, fx->eq);
}

static void eq_05_busy_while_bound_to_a_domain(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test), *other = open_fx(test);
	struct fid_eq *second = fx_eq(test, fx->fabric);

	KUNIT_EXPECT_EQ(test, -FI_EBADFLAGS,
			fi_domain_bind(fx->domain, &fx->eq->fid, FI_WRITE));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_domain_bind(fx->domain, &other->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_domain_bind(fx->domain, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&fx->eq->fid));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,
			fi_domain_bind(fx->domain, &second->fid, 0));
	/* The refused bindings hold no reference. */
	fx_close(test, &second->fid);
	fx_close(test, &other->eq->fid);
	fx_close(test, &fx->cq->fid);
	fx_close(test, &fx->domain->fid);
	fx_close(test, &fx->eq->fid);
}

/* Opens an endpoint that is bound to no event queue. */
static struct fid_ep *ep_without_eq(struct kunit *test, struct kofi_fabric_fx *fx,
				    struct fi_info *info)
{
	struct fid_ep *ep = fx_ep(test, fx->domain, info);

	KUNIT_ASSERT_EQ(test, 0, fi_ep_bind(ep, &fx->cq->fid,
					    FI_TRANSMIT | FI_RECV));
	return ep;
}

static void ep_02_the_domains_eq_serves_endpoints_without_one(struct kunit *test)
{
	struct kofi_fabric_fx *fx = open_fx(test);
	struct fid_eq *own = fx_eq(test, fx->fabric);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fid_ep *ep = ep_without_eq(test, fx, fx->info), *accepted;
	struct fx_cm_event event;

	KUNIT_EXPECT_EQ(test, -FI_ENOEQ, fi_enable(ep));
	KUNIT_ASSERT_EQ(test, 0, fi_domain_bind(fx->domain, &fx->eq->fid, 0));
	KUNIT_EXPECT_EQ(test, 0, fi_enable(ep));
	fx_start_connect(test, ep, pep);
	accepted = fx_ep(test, fx->domain, fx_wait_request(test, fx->eq));
	fx_bind(test, accepted, own, fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_accept(accepted, NULL, 0));

	/* The events of each endpoint go to its own queue. */
	KUNIT_ASSERT_GT(test, fx_wait_event(test, own, FI_CONNECTED, &event,
					    sizeof(event)), 0);
	KUNIT_EXPECT_PTR_EQ(test, &accepted->fid, event.entry.fid);
	KUNIT_ASSERT_GT(test, fx_wait_event(test, fx->eq, FI_CONNECTED, &event,
					    sizeof(event)), 0);
	KUNIT_EXPECT_PTR_EQ(test, &ep->fid, event.entry.fid);
	fx_close(test, &accepted->fid);
	KUNIT_ASSERT_GT(test, fx_wait_event(test, fx->eq, FI_SHUTDOWN, &event,
					    sizeof(event)), 0);
	KUNIT_EXPECT_PTR_EQ(test, &ep->fid, event.entry.fid);
	tr_expect_silence(test, own);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(mr_01_registrations_are_reported),
	KUNIT_CASE(mr_01_close_discards_the_regions_event),
	KUNIT_CASE(eq_05_busy_while_bound_to_a_domain),
	KUNIT_CASE_SLOW(ep_02_the_domains_eq_serves_endpoints_without_one),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_domain",
	.test_cases = cases,
};

kunit_test_suite(suite);
