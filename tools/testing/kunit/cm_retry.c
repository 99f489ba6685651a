// SPDX-License-Identifier: GPL-2.0
/*
 * Retries, timeouts and traffic class of a connection.
 */

#include <rdma/fi_ext.h>

#include "traffic.h"

static const struct {
	int	option;
	size_t	initial, most;
} options[] = {
	{ FI_OPT_KOFI_RETRY_COUNT, 6, 7 },
	{ FI_OPT_KOFI_RNR_RETRY_COUNT, 7, 7 },
	{ FI_OPT_KOFI_ACK_TIMEOUT, SIZE_MAX, 31 },
};

static int set(struct fid_ep *ep, int option, size_t value)
{
	return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &value, sizeof(value));
}

static int get(struct fid_ep *ep, int option, size_t *value)
{
	size_t len = sizeof(*value);

	return fi_getopt(&ep->fid, FI_OPT_ENDPOINT, option, value, &len);
}

/* Returns true if the transport retries by these options. */
static bool has_retries(const struct fi_info *info)
{
	return !tr_is_iwarp(info) && !tr_is_loop(info);
}

static void retries_are_read_back_and_bounded(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fid_ep *ep = fx_bound_ep(test, fx);
	size_t value;

	for (int i = 0; i < ARRAY_SIZE(options); i++) {
		int option = options[i].option;

		if (!has_retries(fx->info)) {
			KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT, set(ep, option, 1));
			KUNIT_EXPECT_EQ(test, -FI_ENOPROTOOPT, get(ep, option, &value));
			continue;
		}
		KUNIT_EXPECT_EQ(test, 0, get(ep, option, &value));
		KUNIT_EXPECT_EQ(test, options[i].initial, value);
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(ep, option, options[i].most + 1));
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, set(ep, option, 256));
		KUNIT_EXPECT_EQ(test, 0, set(ep, option, 0));
		KUNIT_EXPECT_EQ(test, 0, set(ep, option, options[i].most));
		KUNIT_EXPECT_EQ(test, 0, get(ep, option, &value));
		KUNIT_EXPECT_EQ(test, options[i].most, value);
	}
	KUNIT_EXPECT_EQ(test, has_retries(fx->info) ? 0 : -FI_ENOPROTOOPT,
			set(ep, FI_OPT_KOFI_ACK_TIMEOUT, SIZE_MAX));
}

/*
 * Connects two endpoints, of which one retries no message that found no receive, lets this
 * one send without a receive, and expects the failure, which never comes with the default.
 */
static void expect_enorx(struct kunit *test, bool from_accepting)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	u8 *data = tr_buffer(test, 64);
	struct fid_ep *ep = fx_bound_ep(test, fx), *peer, *sender;
	struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
	struct fi_cq_err_entry error = {};
	struct fi_info *info;

	if (!has_retries(fx->info))
		kunit_skip(test, "the transport has no such retries");
	if (!from_accepting)
		KUNIT_ASSERT_EQ(test, 0, set(ep, FI_OPT_KOFI_RNR_RETRY_COUNT, 0));
	fx_start_connect(test, ep, pep);
	info = fx_wait_request(test, fx->eq);
	peer = fx_ep(test, fx->domain, info);
	fx_bind(test, peer, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
	if (from_accepting)
		KUNIT_ASSERT_EQ(test, 0, set(peer, FI_OPT_KOFI_RNR_RETRY_COUNT, 0));
	fx_finish_accept(test, peer, fx->eq);
	sender = from_accepting ? peer : ep;
	KUNIT_EXPECT_EQ_MSG(test, -FI_EOPBADSTATE, set(sender, FI_OPT_KOFI_RETRY_COUNT, 1),
			    "connected");
	KUNIT_ASSERT_EQ(test, 0, tr_send(sender, data, 64));
	KUNIT_ASSERT_EQ(test, 0, fx_wait_comp_error(test, fx->cq, &error));
	KUNIT_EXPECT_EQ(test, FI_ENORX, error.err);
	KUNIT_EXPECT_PTR_EQ(test, (void *)data, error.op_context);
}

static void connecting_endpoint_stops_retrying(struct kunit *test)
{
	expect_enorx(test, false);
}

static void accepting_endpoint_stops_retrying(struct kunit *test)
{
	expect_enorx(test, true);
}

static void connection_works_with_every_extreme(struct kunit *test)
{
	static const size_t values[][3] = { { 0, 0, 8 }, { 7, 7, 31 }, { 1, 1, 0 } };

	for (int i = 0; i < ARRAY_SIZE(values); i++) {
		struct kofi_fabric_fx *fx = fx_open(test);
		u8 *data = tr_buffer(test, 64), *got = tr_buffer(test, 64);
		struct fid_ep *ep = fx_bound_ep(test, fx), *peer;
		struct fid_pep *pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
		struct fi_cq_tagged_entry entries[2];

		for (int j = 0; j < ARRAY_SIZE(options) && has_retries(fx->info); j++)
			KUNIT_EXPECT_EQ(test, 0, set(ep, options[j].option, values[i][j]));
		KUNIT_ASSERT_EQ(test, 0, fi_enable(ep));
		KUNIT_ASSERT_EQ(test, 0, tr_recv(ep, got, 64));
		peer = fx_connect(test, fx->domain, ep, pep, fx->eq, fx->cq);
		tr_fill(data, 64, i);
		KUNIT_ASSERT_EQ(test, 0, tr_send(peer, data, 64));
		KUNIT_EXPECT_EQ(test, 2, (int)fx_wait_comp(test, fx->cq, entries, 2));
		KUNIT_EXPECT_TRUE(test, tr_intact(got, 64, i));
	}
}

static const u32 good_classes[] = {
	FI_TC_UNSPEC, FI_TC_DSCP, FI_TC_DSCP | 63, FI_TC_BEST_EFFORT, FI_TC_LOW_LATENCY,
	FI_TC_DEDICATED_ACCESS, FI_TC_BULK_DATA, FI_TC_SCAVENGER, FI_TC_NETWORK_CTRL,
};

static const u32 bad_classes[] = {
	1, 255, FI_TC_DSCP | 64, FI_TC_DSCP | 255, FI_TC_NETWORK_CTRL + 1, U32_MAX,
};

static int getinfo(struct kunit *test, enum fi_ep_type type, u32 tx, u32 domain,
		   struct fi_info **info)
{
	struct fi_info *hints = fx_hints(test);

	hints->ep_attr->type = type;
	hints->tx_attr->tclass = tx;
	hints->domain_attr->tclass = domain;
	*info = NULL;
	return fi_getinfo(FI_VERSION(1, 17), fx_addr, NULL, FI_SOURCE, hints, info);
}

static void traffic_class_is_offered_as_asked(struct kunit *test)
{
	static const enum fi_ep_type types[] = { FI_EP_MSG, FI_EP_RDM };
	struct fi_info *info;

	fx_info(test, fx_addr, NULL, FI_SOURCE);
	for (int i = 0; i < 2 * ARRAY_SIZE(good_classes); i++) {
		u32 class = good_classes[i / 2];

		KUNIT_ASSERT_EQ(test, 0, getinfo(test, types[i % 2], class, class, &info));
		for (struct fi_info *it = info; it; it = it->next) {
			KUNIT_EXPECT_EQ(test, class, it->tx_attr->tclass);
			KUNIT_EXPECT_EQ(test, class, it->domain_attr->tclass);
		}
		fi_freeinfo(info);
	}
	for (int i = 0; i < 2 * ARRAY_SIZE(bad_classes); i++) {
		u32 class = bad_classes[i / 2];

		KUNIT_EXPECT_EQ(test, -FI_ENODATA, getinfo(test, types[i % 2], class, 0, &info));
		KUNIT_EXPECT_EQ(test, -FI_ENODATA, getinfo(test, types[i % 2], 0, class, &info));
	}
}

static void endpoint_refuses_a_class_that_does_not_exist(struct kunit *test)
{
	struct kofi_fabric_fx *fx = fx_open(test);
	struct fi_info *info = fi_dupinfo(fx->info);
	struct fid_ep *ep = NULL;

	KUNIT_ASSERT_NOT_NULL(test, info);
	fx_defer_free(test, info);
	for (int i = 0; i < ARRAY_SIZE(bad_classes); i++) {
		info->tx_attr->tclass = bad_classes[i];
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(fx->domain, info, &ep, NULL));
		info->tx_attr->tclass = 0;
		info->domain_attr->tclass = bad_classes[i];
		KUNIT_EXPECT_EQ(test, -FI_EINVAL, fi_endpoint(fx->domain, info, &ep, NULL));
		info->domain_attr->tclass = 0;
	}
}

static void connection_works_in_every_class(struct kunit *test)
{
	for (int i = 0; i < ARRAY_SIZE(good_classes); i++) {
		struct kofi_fabric_fx *fx = fx_open(test);
		struct fi_info *info;
		struct fid_pep *pep;
		struct fid_ep *ep;

		fx->info->tx_attr->tclass = good_classes[i];
		pep = fx_listen(test, fx->fabric, fx->info, fx->eq);
		ep = fx_bound_ep(test, fx);
		fx_start_connect(test, ep, pep);
		info = fx_wait_request(test, fx->eq);
		KUNIT_EXPECT_EQ(test, good_classes[i], info->tx_attr->tclass);
		ep = fx_ep(test, fx->domain, info);
		fx_bind(test, ep, fx->eq, fx->cq, FI_TRANSMIT | FI_RECV);
		fx_finish_accept(test, ep, fx->eq);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(retries_are_read_back_and_bounded),
	KUNIT_CASE(connecting_endpoint_stops_retrying),
	KUNIT_CASE(accepting_endpoint_stops_retrying),
	KUNIT_CASE(connection_works_with_every_extreme),
	KUNIT_CASE(traffic_class_is_offered_as_asked),
	KUNIT_CASE(endpoint_refuses_a_class_that_does_not_exist),
	KUNIT_CASE(connection_works_in_every_class),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_cm_retry",
	.test_cases = cases,
};

kunit_test_suite(suite);
