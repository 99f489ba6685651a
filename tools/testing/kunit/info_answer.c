// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, INFO 7 and 8: the attributes of an info in relation to the hints, as
 * programs written for libfabric check them.
 */

#include "fixture.h"

/* The capabilities that fi_endpoint(3) of libfabric 1.17 lists for each direction. */
#define TX_CAPS	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | \
		 FI_SEND | FI_HMEM | FI_TRIGGER | FI_FENCE | FI_MULTICAST |	\
		 FI_RMA_PMEM | FI_NAMED_RX_CTX | FI_COLLECTIVE)
#define RX_CAPS	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_REMOTE_READ |	\
		 FI_REMOTE_WRITE | FI_RECV | FI_HMEM | FI_TRIGGER |		\
		 FI_RMA_PMEM | FI_DIRECTED_RECV | FI_VARIABLE_MSG |		\
		 FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT | FI_SOURCE_ERR |	\
		 FI_COLLECTIVE)

static const u64 primary[] = {
	FI_MSG, FI_RMA, FI_TAGGED, FI_ATOMIC, FI_NAMED_RX_CTX,
	FI_DIRECTED_RECV, FI_COLLECTIVE,
};

static struct fi_info *get_infos(struct kunit *test, u32 version,
				 const struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int ret = fi_getinfo(version, fx_addr, NULL, FI_SOURCE, hints, &info);

	if (ret == -FI_ENODATA)
		return NULL;
	KUNIT_ASSERT_EQ(test, 0, ret);
	fx_defer_free(test, info);
	return info;
}

/* Every combination of primary capabilities, for every endpoint type. */
static void info_08_each_direction_has_its_own_capabilities(struct kunit *test)
{
	unsigned int seen = 0;

	for (int set = 0; set < 1 << ARRAY_SIZE(primary); set++) {
		struct fi_info *hints = fx_hints(test);

		hints->ep_attr->type = FI_EP_UNSPEC;
		hints->mode = ~0ULL;
		hints->caps = 0;
		for (int i = 0; i < ARRAY_SIZE(primary); i++)
			hints->caps |= set & BIT(i) ? primary[i] : 0;
		for (struct fi_info *info = get_infos(test, FI_VERSION(1, 17), hints);
		     info; info = info->next) {
			u64 tx = info->tx_attr->caps, rx = info->rx_attr->caps;

			KUNIT_EXPECT_EQ(test, 0, tx & ~(TX_CAPS & info->caps));
			KUNIT_EXPECT_EQ(test, 0, rx & ~(RX_CAPS & info->caps));
			KUNIT_EXPECT_EQ(test, hints->caps,
					info->caps & hints->caps);
			KUNIT_EXPECT_EQ(test, 0, hints->caps & ~(tx | rx));
			seen++;
		}
	}
	KUNIT_EXPECT_GT(test, seen, 0);
}

/* A scope that was not requested is not granted, to the domain either. */
static void info_08_domain_has_the_capabilities_of_the_info(struct kunit *test)
{
	static const u64 scopes[] = { 0, FI_LOCAL_COMM, FI_REMOTE_COMM };

	for (int i = 0; i < ARRAY_SIZE(scopes); i++) {
		struct fi_info *hints = fx_hints(test);

		hints->ep_attr->type = FI_EP_UNSPEC;
		hints->caps = FI_MSG | scopes[i];
		for (struct fi_info *info = get_infos(test, FI_VERSION(1, 17), hints);
		     info; info = info->next) {
			KUNIT_EXPECT_EQ(test, 0, info->domain_attr->caps & ~info->caps);
			KUNIT_EXPECT_EQ(test, FI_PEER, info->domain_attr->caps & FI_PEER);
		}
	}
}

/* Returns true if an info, passed as hints, yields the same info. */
static bool yields_itself(struct kunit *test, const struct fi_info *hints)
{
	struct fi_info *info = NULL, *at;
	bool found = false;

	if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info))
		return false;
	for (at = info; at && !found; at = at->next)
		found = !strcmp(at->fabric_attr->prov_name,
				hints->fabric_attr->prov_name) &&
			!strcmp(at->domain_attr->name,
				hints->domain_attr->name) &&
			at->caps == hints->caps &&
			!memcmp(at->tx_attr, hints->tx_attr,
				sizeof(*at->tx_attr)) &&
			!memcmp(at->rx_attr, hints->rx_attr,
				sizeof(*at->rx_attr)) &&
			!memcmp(at->ep_attr, hints->ep_attr,
				sizeof(*at->ep_attr)) &&
			at->domain_attr->mr_mode == hints->domain_attr->mr_mode &&
			at->domain_attr->cq_data_size ==
				hints->domain_attr->cq_data_size;
	fi_freeinfo(info);
	return found;
}

/* Programs pass an info of fi_getinfo() as hints, to get another one of its kind. */
static void info_07_an_info_as_hints_yields_itself(struct kunit *test)
{
	static const u64 caps[] = {
		0, FI_MSG, FI_MSG | FI_RMA, FI_MSG | FI_RMA | FI_ATOMIC,
		FI_TAGGED, FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE,
		FI_MSG | FI_SEND, FI_RMA | FI_WRITE | FI_REMOTE_WRITE,
	};

	for (int i = 0; i < 2 * ARRAY_SIZE(caps); i++) {
		struct fi_info *hints = fx_hints(test);

		hints->ep_attr->type = FI_EP_UNSPEC;
		hints->caps = caps[i / 2];
		hints->mode = i % 2 ? FI_RX_CQ_DATA : 0;
		for (struct fi_info *info = get_infos(test, FI_VERSION(1, 17), hints);
		     info; info = info->next)
			KUNIT_EXPECT_TRUE_MSG(test, yields_itself(test, info),
					      "%s, caps %llx, mode %llx",
					      info->fabric_attr->prov_name,
					      hints->caps, hints->mode);
	}
}

/* Progress is automatic, which includes manual progress: the info has the requested one. */
static void info_07_progress_is_as_hinted(struct kunit *test)
{
	static const enum fi_progress asked[] = {
		FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL,
	};

	for (int i = 0; i < ARRAY_SIZE(asked); i++) {
		struct fi_info *hints = fx_hints(test);
		struct fi_info *info;

		hints->ep_attr->type = FI_EP_UNSPEC;
		hints->domain_attr->control_progress = asked[i];
		hints->domain_attr->data_progress = asked[i];
		info = get_infos(test, FI_VERSION(1, 17), hints);
		KUNIT_ASSERT_NOT_NULL(test, info);
		for (; info; info = info->next) {
			KUNIT_EXPECT_EQ(test, asked[i] ?: FI_PROGRESS_AUTO,
					info->domain_attr->control_progress);
			KUNIT_EXPECT_EQ(test, asked[i] ?: FI_PROGRESS_AUTO,
					info->domain_attr->data_progress);
		}
	}
}

static void info_07_api_version_is_the_callers(struct kunit *test)
{
	static const u32 asked[] = {
		FI_VERSION(1, 0), FI_VERSION(1, 9), FI_VERSION(1, 17),
	};

	for (int i = 0; i < 2 * ARRAY_SIZE(asked); i++) {
		struct fi_info *hints = fx_hints(test);
		struct fi_info *info;

		hints->ep_attr->type = FI_EP_UNSPEC;
		info = get_infos(test, asked[i / 2], i % 2 ? hints : NULL);
		KUNIT_ASSERT_NOT_NULL(test, info);
		for (; info; info = info->next)
			KUNIT_EXPECT_EQ(test, asked[i / 2],
					info->fabric_attr->api_version);
	}
}

/* RDM endpoints: a write carries as much CQ data as the connection's, a message 64 bits. */
static void info_14_cq_data_size_fits_each_operation_offered(struct kunit *test)
{
	static const struct {
		u64	caps;
		size_t	most;
	} asked[] = {
		{ FI_MSG, 8 }, { FI_MSG | FI_TAGGED, 8 }, { FI_MSG | FI_RMA, 4 },
		{ FI_TAGGED | FI_RMA | FI_WRITE, 4 }, { 0, 4 }, { FI_SEND, 4 },
	};

	for (int i = 0; i < ARRAY_SIZE(asked); i++) {
		struct fi_info *hints = fx_hints(test);
		struct fi_info *info;
		bool is_iwarp;
		size_t want;

		hints->ep_attr->type = FI_EP_RDM;
		hints->caps = asked[i].caps;
		info = get_infos(test, FI_VERSION(1, 17), hints);
		KUNIT_ASSERT_NOT_NULL(test, info);
		is_iwarp = !strcmp(info->fabric_attr->name, "iWARP");
		want = is_iwarp && asked[i].most == 4 ? 0 : asked[i].most;
		KUNIT_EXPECT_EQ(test, want, info->domain_attr->cq_data_size);
		hints->domain_attr->cq_data_size = want;
		KUNIT_EXPECT_NOT_NULL(test, get_infos(test, FI_VERSION(1, 17),
						      hints));
		hints->domain_attr->cq_data_size = want + 1;
		KUNIT_EXPECT_NULL(test, get_infos(test, FI_VERSION(1, 17), hints));
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(info_07_an_info_as_hints_yields_itself),
	KUNIT_CASE(info_07_progress_is_as_hinted),
	KUNIT_CASE(info_07_api_version_is_the_callers),
	KUNIT_CASE(info_08_each_direction_has_its_own_capabilities),
	KUNIT_CASE(info_08_domain_has_the_capabilities_of_the_info),
	KUNIT_CASE(info_14_cq_data_size_fits_each_operation_offered),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_info_answer",
	.test_cases = cases,
};

kunit_test_suite(suite);
