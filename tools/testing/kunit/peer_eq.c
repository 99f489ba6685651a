// SPDX-License-Identifier: GPL-2.0
/* Tests PEER 4 of CONTRACT: peer event queues and peer domains. */

#include "peer.h"

static int open_peer(struct fid_fabric *fabric, struct fid_eq *owner, struct fid_eq **eq)
{
	struct fi_peer_eq_context context = { .size = sizeof(context), .eq = owner };
	struct fi_eq_attr attr = { .flags = FI_PEER };

	return fi_eq_open(fabric, &attr, eq, &context);
}

/* Opens a peer event queue in another fabric; closed with the test. */
static struct fid_eq *peer_of_eq(struct kunit *test, struct fid_fabric *fabric, struct fid_eq *owner)
{
	struct fid_eq *eq;

	KUNIT_ASSERT_EQ(test, 0, open_peer(fabric, owner, &eq));
	fx_defer_close(test, &eq->fid);
	return eq;
}

static void peer_04_events_are_written_to_the_owner(struct kunit *test)
{
	struct kofi_fabric_fx *owner = fx_open(test), *fx = fx_open(test);
	struct fid_eq *eq = peer_of_eq(test, fx->fabric, owner->eq);
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, eq);
	struct fid_ep *ep[2] = { fx_ep(test, fx->domain, fx->info) };

	fx_bind(test, ep[0], eq, fx->cq, FI_TRANSMIT | FI_RECV);
	KUNIT_ASSERT_EQ(test, 0, fi_enable(ep[0]));
	/* The owner's queue gets the request and both FI_CONNECTED events. */
	fx_start_connect(test, ep[0], pep);
	ep[1] = fx_ep(test, fx->domain, fx_wait_request(test, owner->eq));
	fx_bind(test, ep[1], eq, fx->cq, FI_TRANSMIT | FI_RECV);
	fx_finish_accept(test, ep[1], owner->eq);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&eq->fid));
	KUNIT_EXPECT_EQ(test, 0, fi_shutdown(ep[1], 0));
	tr_expect_shutdowns(test, owner->eq, ep[0], ep[1]);
	fx_close(test, &ep[0]->fid);
	fx_close(test, &ep[1]->fid);
	tr_expect_silence(test, owner->eq);
}

static void peer_04_errors_and_the_events_of_closed_endpoints(struct kunit *test)
{
	struct kofi_fabric_fx *owner = fx_open(test), *fx = fx_open(test);
	struct fid_eq *eq = peer_of_eq(test, fx->fabric, owner->eq);
	struct fi_eq_err_entry error = {};
	struct sockaddr_storage silent;
	size_t len = sizeof(silent);
	struct fid_pep *pep = fx_pep(test, fx->fabric, fx->info);
	unsigned long end = jiffies + msecs_to_jiffies(FX_WAIT_MS);

	KUNIT_ASSERT_EQ(test, 0, fi_getname(&pep->fid, &silent, &len));
	fx_close(test, &pep->fid);
	for (int round = 0; round < 2; round++) {
		struct fid_ep *ep = fx_ep(test, fx->domain, fx->info);

		fx_bind(test, ep, eq, fx->cq, FI_TRANSMIT | FI_RECV);
		KUNIT_ASSERT_EQ(test, 0, fi_connect(ep, &silent, NULL, 0));
		while (fi_eq_readerr(owner->eq, &error, FI_PEEK) == -FI_EAGAIN &&
		       time_before(jiffies, end))
			usleep_range(100, 500);
		if (!round) {
			KUNIT_ASSERT_EQ(test, 0, fx_wait_error(test, owner->eq, &error));
			KUNIT_EXPECT_PTR_EQ(test, &ep->fid, error.fid);
			KUNIT_EXPECT_EQ(test, FI_ECONNREFUSED, error.err);
			KUNIT_EXPECT_NOT_NULL(test, fi_eq_strerror(eq, error.prov_errno, NULL, NULL, 0));
		}
		/* Closing the endpoint drops its unread events. */
		fx_close(test, &ep->fid);
	}
	tr_expect_silence(test, owner->eq);
}

static void peer_04_reading_the_peer_eq_is_refused(struct kunit *test)
{
	struct kofi_fabric_fx *owner = fx_open(test), *fx = fx_open(test);
	struct fid_eq *eq = peer_of_eq(test, fx->fabric, owner->eq);
	/* A peer queue may be the owner of another one. */
	struct fid_eq *last = peer_of_eq(test, fx->fabric, eq);
	struct fi_eq_err_entry error = {};
	struct fx_cm_event event;
	struct fid *fids[] = { &eq->fid };
	u32 number, what = 7;

	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_eq_read(eq, &number, &event, sizeof(event), 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_eq_readerr(eq, &error, 0));
	KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_eq_sread(eq, &number, &event, sizeof(event), 0, 0));
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_trywait(fx->fabric, fids, 1));
	/* An event that is written to a peer queue is read from the owner's. */
	KUNIT_EXPECT_EQ(test, sizeof(what), fi_eq_write(eq, 1234, &what, sizeof(what), 0));
	what = 8;
	KUNIT_EXPECT_EQ(test, sizeof(what), fi_eq_write(last, 1235, &what, sizeof(what), 0));
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, sizeof(what), fi_eq_read(owner->eq, &number, &what,
							       sizeof(what), 0));
		KUNIT_EXPECT_EQ(test, 1234 + i, number);
		KUNIT_EXPECT_EQ(test, 7 + i, what);
	}
	tr_expect_silence(test, owner->eq);
}

static void never_called(struct fid_eq *eq, void *context)
{
	pr_err("kofi: the handler of a peer queue was called\n");
}

/* Opened as in fi_peer(3): with the attributes of the owner's queue and FI_PEER. */
static void peer_04_attributes_of_the_owners_event_queue_are_taken(struct kunit *test)
{
	struct kofi_fabric_fx *owner = fx_open(test), *fx = fx_open(test);
	struct fi_peer_eq_context context = { .size = sizeof(context), .eq = owner->eq };
	static const struct fi_eq_attr attrs[] = {
		{ .wait_obj = FI_WAIT_QUEUE, .flags = FI_WRITE },
		{ .wait_obj = FI_WAIT_UNSPEC, .flags = FI_AFFINITY },
		{ .eq_event_handler = never_called },
	};

	for (int i = 0; i < ARRAY_SIZE(attrs); i++) {
		struct fi_eq_attr attr = attrs[i];
		wait_queue_head_t *head = NULL;
		struct fx_cm_event event;
		struct fid_eq *eq;
		u32 number;

		attr.flags |= FI_PEER;
		KUNIT_ASSERT_EQ_MSG(test, 0, fi_eq_open(fx->fabric, &attr, &eq, &context), "%d", i);
		KUNIT_EXPECT_EQ(test, -FI_ENOSYS, fi_eq_sread(eq, &number, &event, sizeof(event), 0, 0));
		KUNIT_EXPECT_NE(test, 0, fi_control(&eq->fid, FI_GETWAIT, &head));
		KUNIT_EXPECT_EQ(test, sizeof(number), fi_eq_write(eq, 1234, &number, sizeof(number), 0));
		KUNIT_EXPECT_EQ(test, sizeof(number), fi_eq_read(owner->eq, &number, &event,
								 sizeof(event), 0));
		KUNIT_EXPECT_EQ(test, 1234, number);
		KUNIT_EXPECT_EQ(test, 0, fi_close(&eq->fid));
	}
}

static void peer_05_event_queues_without_a_kofi_owner_are_refused(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_peer_eq_context good = { .size = sizeof(good), .eq = fx->eq };
	struct fid_eq another = { .fid.fclass = FI_CLASS_EQ, .ops = fx->eq->ops };
	struct fi_peer_eq_context context;
	struct fi_eq_attr attr = { .flags = FI_PEER };
	struct fid_eq *eq = NULL;

#define REFUSED() do {								\
	KUNIT_EXPECT_EQ(test, -FI_EINVAL,					\
			fi_eq_open(fx->fabric, &attr, &eq, &context));		\
	KUNIT_EXPECT_NULL(test, eq);						\
} while (0)

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_eq_open(fx->fabric, &attr, &eq, NULL));
	for (size_t size = 0; size < sizeof(context); size++) {
		context = good;
		context.size = size;
		REFUSED();
	}
	context = good;
	context.eq = NULL;
	REFUSED();
	/* A queue of another provider is refused: fi_eq_write() cannot pass on errors. */
	context.eq = &another;
	REFUSED();
	context = good;
	context.size = sizeof(context) + 64;
	KUNIT_ASSERT_EQ(test, 0, fi_eq_open(fx->fabric, &attr, &eq, &context));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&eq->fid));
#undef REFUSED
}

static void peer_04_peer_domains(struct kunit *test)
{
	struct kofi_fabric_fx *owner = fx_open(test), *fx = fx_open(test);
	struct fi_peer_domain_context good = { .size = sizeof(good), .domain = owner->domain };
	struct fid_domain another = { .fid.fclass = FI_CLASS_DOMAIN };
	struct fi_peer_domain_context context;
	struct fid_domain *domain = NULL;

#define OPEN(context) fi_domain2(fx->fabric, fx->info, &domain, FI_PEER, context)

	KUNIT_EXPECT_EQ(test, -FI_EINVAL, OPEN(NULL));
	for (size_t size = 0; size < sizeof(context); size++) {
		context = good;
		context.size = size;
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, OPEN(&context));
	}
	context = good;
	context.domain = NULL;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, OPEN(&context));
	context.domain = (struct fid_domain *)fx->fabric;
	KUNIT_EXPECT_EQ(test, -FI_EINVAL, OPEN(&context));
	KUNIT_EXPECT_NULL(test, domain);
	/* The owner domain may be any provider's: kOFI calls nothing of it. */
	context.domain = &another;
	KUNIT_ASSERT_EQ(test, 0, OPEN(&context));
	KUNIT_EXPECT_EQ(test, 0, fi_close(&domain->fid));
	KUNIT_ASSERT_EQ(test, 0, OPEN(&good));
	fx_defer_close(test, &domain->fid);
	fx_close(test, &owner->cq->fid);
	KUNIT_EXPECT_EQ(test, -FI_EBUSY, fi_close(&owner->domain->fid));
	fx_close(test, &domain->fid);
	fx_close(test, &owner->domain->fid);
#undef OPEN
}

static struct kunit_case cases[] = {
	KUNIT_CASE(peer_04_events_are_written_to_the_owner),
	KUNIT_CASE(peer_04_errors_and_the_events_of_closed_endpoints),
	KUNIT_CASE(peer_04_reading_the_peer_eq_is_refused),
	KUNIT_CASE(peer_04_attributes_of_the_owners_event_queue_are_taken),
	KUNIT_CASE(peer_05_event_queues_without_a_kofi_owner_are_refused),
	KUNIT_CASE(peer_04_peer_domains),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_peer_eq",
	.test_cases = cases,
};

kunit_test_suite(suite);
