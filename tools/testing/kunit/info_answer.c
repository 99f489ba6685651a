// SPDX-License-Identifier: GPL-2.0
/*
 * CONTRACT, INFO 7 and 8: what an info says of what was asked for, as programs
 * that are written for libfabric check it.
 */

#include "fixture.h"

static struct fi_info *answers(struct kunit *test, u32 version,
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

/* Progress is automatic, which serves who asks for less: the answer is what was asked for. */
static void info_07_progress_is_what_was_asked_for(struct kunit *test)
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
		info = answers(test, FI_VERSION(1, 17), hints);
		KUNIT_ASSERT_NOT_NULL(test, info);
		for (; info; info = info->next) {
			KUNIT_EXPECT_EQ(test, asked[i] ?: FI_PROGRESS_AUTO,
					info->domain_attr->control_progress);
			KUNIT_EXPECT_EQ(test, asked[i] ?: FI_PROGRESS_AUTO,
					info->domain_attr->data_progress);
		}
	}
}

static void info_07_the_version_is_the_one_that_was_asked_for(struct kunit *test)
{
	static const u32 asked[] = {
		FI_VERSION(1, 0), FI_VERSION(1, 9), FI_VERSION(1, 17),
	};

	for (int i = 0; i < 2 * ARRAY_SIZE(asked); i++) {
		struct fi_info *hints = fx_hints(test);
		struct fi_info *info;

		hints->ep_attr->type = FI_EP_UNSPEC;
		info = answers(test, asked[i / 2], i % 2 ? hints : NULL);
		KUNIT_ASSERT_NOT_NULL(test, info);
		for (; info; info = info->next)
			KUNIT_EXPECT_EQ(test, asked[i / 2],
					info->fabric_attr->api_version);
	}
}

static struct kunit_case cases[] = {
	KUNIT_CASE(info_07_progress_is_what_was_asked_for),
	KUNIT_CASE(info_07_the_version_is_the_one_that_was_asked_for),
	{}
};

static struct kunit_suite suite = {
	.name = "kofi_info_answer",
	.test_cases = cases,
};

kunit_test_suite(suite);
